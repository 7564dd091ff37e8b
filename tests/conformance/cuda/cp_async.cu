// SPDX-License-Identifier: Apache-2.0
// cp.async through the pipeline primitives: two stages, 16 bytes a thread.
//@ family cuda
//@ inputs b64 b64
//@ launch 2 128 1 0
//@ definition
//@ results 4
#include "common.cuh"
#include <cuda_pipeline_primitives.h>

CONFORMANCE conformance(const word *in, word *out, word *) {
  __shared__ alignas(16) word stage[2][256];
  Io io(in, out);
  uint32_t t = threadIdx.x, first = blockIdx.x * blockDim.x;
  // Operand 0 of two neighbours is 16 bytes: half of the threads copy an operand's row.
  auto fetch = [&](int s) {
    if (t < 64)
      __pipeline_memcpy_async(&stage[s][2 * t], &in[s * io.n + first + 2 * t], 16);
    else
      __pipeline_memcpy_async(&stage[s][2 * t], &in[s * io.n + first + 2 * (t - 64)], 16, t % 3 * 4);
    __pipeline_commit();
  };
  fetch(0);
  fetch(1);
  for (int s = 0; s < 2; s++) {
    if (s == 0)
      __pipeline_wait_prior(1);
    else
      __pipeline_wait_prior(0);
    __syncthreads();
    io.put(stage[s][t ^ 3]);
    io.put(stage[s][128 + t]);
  }
}
