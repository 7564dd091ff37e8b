// SPDX-License-Identifier: Apache-2.0
// Atomics of block, device and system scope in shared and global memory; a loop of
// compare-and-swap; a histogram.  Results that no order of the threads changes.
//@ family cuda
//@ inputs u32
//@ launch 2 256 1 0
//@ zero
//@ results 9
//@ definition
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *scratch) {
  __shared__ unsigned bins[16], low, high;
  __shared__ unsigned long long wide;
  __shared__ float real;
  Io io(in, out);
  uint32_t a = uint32_t(io.get(0)), t = threadIdx.x;
  if (t < 16)
    bins[t] = 0;
  if (t == 0) {
    low = ~0u;
    high = 0;
    wide = 0;
    real = 0;
  }
  __syncthreads();
  atomicAdd(&bins[a & 15], 1u);
  atomicMin_block(&low, a);
  atomicMax_system(&high, a);
  atomicAdd(&wide, (unsigned long long)a << 16);
  atomicAdd(&real, float(a & 255));
  unsigned *mine = (unsigned *)scratch + 1024 * blockIdx.x;
  atomicXor_block(&mine[0], a);
  atomicAnd(&mine[1], a);
  atomicAdd_system((int *)&mine[2], int(a & 1023) - 500);
  unsigned old = 0, seen;
  do { // a maximum by compare-and-swap
    seen = old;
    old = atomicCAS(&mine[3], seen, seen > a ? seen : a);
  } while (old != seen);
  __syncthreads();
  io.put(bins[t & 15]);
  io.put(low);
  io.put(high);
  io.put(wide);
  io.put(real);
  for (int j = 0; j < 4; j++)
    io.put(((volatile unsigned *)mine)[j]);
}
