// SPDX-License-Identifier: Apache-2.0
// stmatrix and ldmatrix, transposed and not: an 8 x 8 matrix there and back.
//@ family cuda
//@ inputs u32 u32
//@ launch 4 32 1 0
//@ definition
//@ results 4
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  __shared__ alignas(16) uint16_t m[16][8];
  Io io(in, out);
  uint32_t a = uint32_t(io.get(0)), b = uint32_t(io.get(1)), t = threadIdx.x;
  uint32_t row = shared_address(m[t % 16]);
  asm volatile("stmatrix.sync.aligned.m8n8.x2.shared.b16 [%0], {%1, %2};" ::"r"(row), "r"(a), "r"(b)
               : "memory");
  __syncwarp();
  io.put(m[t / 2][t % 2] | uint32_t(m[t / 2][7 - t % 2]) << 16);
  uint32_t c, d;
  asm volatile("ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16 {%0, %1}, [%2];"
               : "=r"(c), "=r"(d)
               : "r"(row)
               : "memory");
  io.put(c);
  io.put(d);
  __syncwarp();
  asm volatile("stmatrix.sync.aligned.m8n8.x1.trans.shared.b16 [%0], {%1};" ::"r"(row), "r"(a) : "memory");
  __syncwarp();
  io.put(*(uint32_t *)&m[t / 4][t % 4 * 2]);
}
