// SPDX-License-Identifier: Apache-2.0
// Tensor store and tensor reduction of a tile that hangs over the tensor's edge.
//@ family cuda
//@ inputs u32 u32
//@ launch 1 256 1 0
//@ zero
//@ definition
//@ results 4
//@ tensor at=scratch type=2 rank=2 dims=40,20 strides=256 box=16,16
#include "common.cuh"
#include <cuda.h>

CONFORMANCE conformance(const word *in, word *out, word *scratch,
                        const __grid_constant__ CUtensorMap map) {
  __shared__ alignas(128) uint32_t tile[256], more[256];
  Io io(in, out);
  uint32_t t = threadIdx.x;
  tile[t] = uint32_t(io.get(0));
  more[t] = uint32_t(io.get(1));
  fence_async();
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.async.bulk.tensor.2d.global.shared::cta.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(&map),
                 "r"(32), "r"(10), "r"(shared_address(tile))
                 : "memory");
    bulk_commit();
    bulk_wait<0>();
    asm volatile("cp.reduce.async.bulk.tensor.2d.global.shared::cta.add.tile.bulk_group [%0, {%1, %2}], [%3];" ::"l"(
                     &map),
                 "r"(28), "r"(8), "r"(shared_address(more))
                 : "memory");
    bulk_commit();
    bulk_wait<0>();
    asm volatile("fence.proxy.async.global;" ::: "memory");
  }
  __syncthreads();
  // 20 rows of 64 words (the last 24 are padding), five words a thread.
  volatile uint32_t *p = (volatile uint32_t *)scratch;
  for (int j = 0; j < 4; j++)
    io.put(p[t + 256 * j] ^ (t + j < 256 ? p[1024 + t] : 0));
}
