// SPDX-License-Identifier: Apache-2.0
// Pointers that may point to shared, local, global or constant memory, chosen at run time.
//@ family cuda
//@ inputs u32 small
//@ launch 2 128 1 0
//@ definition
//@ results 4
#include "common.cuh"

__constant__ uint32_t table[8] = {3, 1, 4, 1, 5, 9, 2, 6};
__device__ uint32_t cells[4] = {100, 200, 300, 400};

static __device__ __noinline__ uint32_t sum(const uint32_t *p, int n) {
  uint32_t s = 0;
  for (int j = 0; j < n; j++)
    s = s * 31 + p[j];
  return s;
}

CONFORMANCE conformance(const word *in, word *out, word *) {
  __shared__ uint32_t shared[128];
  Io io(in, out);
  uint32_t a = uint32_t(io.get(0)), k = uint32_t(io.get(1)) & 3;
  uint32_t mine[4] = {a, a ^ 1, a + 2, a * 3};
  shared[threadIdx.x] = a;
  __syncthreads();
  const uint32_t *p = k == 0 ? shared + (threadIdx.x & ~3) : k == 1 ? mine : k == 2 ? cells : table;
  io.put(sum(p, 4));
  io.put(uint32_t(__isShared(p)) | __isLocal(p) << 1 | __isGlobal(p) << 2 | __isConstant(p) << 3);
  __syncthreads(); // neighbours have read
  uint32_t *q = k & 1 ? mine : shared + threadIdx.x;
  *q += 5;
  io.put(mine[0]);
  io.put(*(uint32_t *)__cvta_shared_to_generic(__cvta_generic_to_shared(&shared[threadIdx.x])));
}
