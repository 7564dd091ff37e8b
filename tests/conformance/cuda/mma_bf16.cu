// SPDX-License-Identifier: Apache-2.0
// mma.sync on bf16, its operands by ldmatrix: two tiles of K onto one accumulator.
//@ family cuda
//@ inputs b64 b64 b64 b64
//@ launch 8 32 1 0
//@ results 4
//@ definition
#include "matrices.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  __shared__ alignas(16) uint16_t a[2][16][32 / sizeof(uint16_t)], b[2][8][32 / sizeof(uint16_t)];
  Io io(in, out);
  constexpr int k = 32 / sizeof(uint16_t);
  int t = threadIdx.x;
  for (int s = 0; s < 2; s++) {
    for (int j = 0; j < k / 2; j++)
      a[s][t / 2][t % 2 * (k / 2) + j] = bf16_of(nibble(io.get(2 * s), j));
    for (int j = 0; j < k / 4; j++)
      b[s][t / 4][t % 4 * (k / 4) + j] = bf16_of(nibble(io.get(2 * s + 1), j));
  }
  __syncwarp();
  float d[4] = {float(t), float(-t), float(2 * t), float(7)};
  for (int s = 0; s < 2; s++) {
    Fragments f;
    f.load((const uint8_t *)a[s], (const uint8_t *)b[s]);
    asm volatile("mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
                 "{%0, %1, %2, %3};"
                 : "+f"(d[0]), "+f"(d[1]), "+f"(d[2]), "+f"(d[3])
                 : "r"(f.a[0]), "r"(f.a[1]), "r"(f.a[2]), "r"(f.a[3]), "r"(f.b[0]), "r"(f.b[1]));
  }
  for (int j = 0; j < 4; j++)
    io.put(d[j]);
}
