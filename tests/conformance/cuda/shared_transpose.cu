// SPDX-License-Identifier: Apache-2.0
// Static and dynamic shared arrays: a transposed tile with padding, then its row sums.
//@ family cuda
//@ inputs u32
//@ launch 4 256 1 4608
//@ results 3
//@ definition
#include "common.cuh"

extern __shared__ uint32_t dynamic[];

CONFORMANCE conformance(const word *in, word *out, word *) {
  __shared__ uint32_t tile[16][17];
  Io io(in, out);
  int x = threadIdx.x % 16, y = threadIdx.x / 16;
  uint32_t a = uint32_t(io.get(0));
  tile[y][x] = a;
  dynamic[threadIdx.x * 4 + (threadIdx.x & 1)] = a * 3;
  __syncthreads();
  io.put(tile[x][y]);
  uint32_t sum = 0;
  for (int j = 0; j < 16; j++)
    sum += tile[y][j] * (j + 1);
  io.put(sum);
  uint32_t other = threadIdx.x ^ 77;
  io.put(dynamic[other * 4 + (other & 1)]);
}
