// SPDX-License-Identifier: Apache-2.0
// TMA loads into three stages, full and empty barriers, one warp that loads and all that use.
//@ family cuda
//@ inputs u32 u32 u32 u32
//@ launch 1 256 1 0
//@ results 2
//@ definition
//@ tensor at=in type=2 rank=2 dims=512,4 strides=2048 box=64,4
#include "common.cuh"
#include <cuda.h>

CONFORMANCE conformance(const word *in, word *out, word *, const __grid_constant__ CUtensorMap map) {
  constexpr int stages = 3, chunks = 9; // the last is past the end: zeros
  __shared__ alignas(128) uint32_t stage[stages][256];
  __shared__ uint64_t full[stages], empty[stages];
  Io io(in, out);
  uint32_t t = threadIdx.x;
  if (t == 0) {
    for (int s = 0; s < stages; s++) {
      mbar_init(&full[s], 1);
      mbar_init(&empty[s], 256);
    }
    fence_init();
  }
  __syncthreads();
  uint32_t r = 0, last = 7;
  for (int c = 0; c < chunks; c++) {
    int s = c % stages, round = c / stages;
    if (t == 0) {
      mbar_wait(&empty[s], (round & 1) ^ 1);
      mbar_expect(&full[s], sizeof stage[s]);
      tma_load_2d(stage[s], &map, c * 64, 0, &full[s]);
    }
    mbar_wait(&full[s], round & 1);
    r = r * 31 + stage[s][t];
    last = stage[s][255 - t];
    mbar_arrive(&empty[s]);
  }
  io.put(r);
  io.put(last);
}
