// SPDX-License-Identifier: Apache-2.0
// Shuffles: a butterfly sum, a prefix sum, a broadcast, 64-bit and double values, redux.
//@ family cuda
//@ inputs u32
//@ launch 2 256 1 0
//@ results 7
//@ definition
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  uint32_t a = uint32_t(io.get(0)), lane = threadIdx.x % 32;
  uint32_t sum = a;
  for (int d = 16; d > 0; d /= 2)
    sum += __shfl_xor_sync(~0u, sum, d);
  io.put(sum);
  uint32_t scan = a;
  for (int d = 1; d < 32; d *= 2) {
    uint32_t left = __shfl_up_sync(~0u, scan, d);
    if (lane >= d)
      scan += left;
  }
  io.put(scan);
  io.put(__shfl_sync(~0u, a, (lane * 7 + 3) % 32));
  io.put(__shfl_down_sync(~0u, a, 3, 8));
  io.put(__shfl_sync(~0u, word(a) << 32 | lane, 9));
  io.put(__shfl_xor_sync(~0u, double(int(a)), 5));
  io.put(__reduce_max_sync(~0u, int(a)));
}
