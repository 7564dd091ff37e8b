/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions in C of the CUDA C++ kernels that move and share: votes, groups of threads,
 * barriers, copies, matrices, pointers of any state space.
 */
#include "conformance/define.h"
#include "conformance/define_formats.h"

#define OUT(v) out[(v) * n + i]
#define IN(a)  in[(a) * n + i]

/* The lanes of i's warp, of those in `mask`, whose operand has a bit of `bits`. */
static uint32_t ballot(const uint64_t *in, uint64_t i, uint32_t mask, uint64_t bits) {
  uint32_t lanes = 0;
  for (uint64_t j = 0; j < 32; j++)
    lanes |= (uint32_t)((in[i / 32 * 32 + j] & bits) != 0) << j;
  return lanes & mask;
}

static void votes(const uint64_t *in, uint64_t n, uint64_t *out) {
  const uint32_t thirds = 0x49249249;
  for (uint64_t i = 0; i < n; i++) {
    uint32_t a = (uint32_t)IN(0), lane = (uint32_t)(i % 32), match = 0;
    bool any = false;
    for (uint64_t j = 0; j < 32; j++) {
      any |= (uint32_t)in[i - lane + j] == 0x8000;
      match |= (uint32_t)((in[i - lane + j] & 3) == (a & 3)) << j;
    }
    OUT(0) = ballot(in, i, ~0u, 1);
    OUT(1) = any ? 1 : 2;
    OUT(2) = match;
    OUT(3) = (uint32_t)(~0u + 1); /* all lanes, and the predicate is true */
    OUT(4) = lane % 3 == 0 ? ballot(in, i, thirds, 2)
                           : (uint32_t)__builtin_popcount(ballot(in, i, ~thirds, 4));
    OUT(5) = (uint32_t)__builtin_popcount(ballot(in, i, (1u << lane) - 1, 1));
    OUT(6) = a ? (uint32_t)(__builtin_ctz(a) + 1 + 64 * __builtin_clz(a)) : 64 * 32;
  }
}

static void cooperative(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t first = i / 8 * 8, t = i % 256;
    uint32_t sum = 0, odd = 0, same = ballot(in, i, ~0u, 1);
    for (uint64_t j = 0; j < 8; j++) {
      sum += (uint32_t)in[first + j];
      odd |= (uint32_t)(in[first + j] & 1) << j;
    }
    uint32_t rank = (uint32_t)__builtin_popcount(same & ((1u << i % 32) - 1));
    OUT(0) = sum;
    OUT(1) = (uint32_t)in[first + 3] ^ (uint32_t)(t / 8);
    OUT(2) = odd;
    OUT(3) = IN(0) & 1 ? (uint32_t)__builtin_popcount(same) * 100 + rank : 0;
    OUT(4) = t + 256;
  }
}

static void barriers(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t first = i / 128 * 128, t = i % 128, sum = 0;
    uint32_t count = 0, most = 0;
    for (uint64_t j = 0; j < 128; j++) {
      uint32_t a = (uint32_t)in[first + j];
      count += a & 15;
      most = a > most ? a : most;
      sum += a;
    }
    OUT(0) = (uint32_t)in[first + (t ^ 64)];
    OUT(1) = count;
    OUT(2) = most;
    OUT(3) = in[first + (t ^ 1)];
    OUT(4) = sum;
  }
}

/* Words 0 to 127 of a stage are whole copies; of the others, thread j / 2 had zeros put in the
 * place of the last 0, 4 or 8 of its 16 bytes. */
static void cp_async(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t s = 0; s < 2; s++) {
      const uint64_t *from = in + s * n + i / 128 * 128;
      uint64_t t = i % 128, word = from[t], zeros = (128 + t) / 2 % 3 * 4;
      if (t % 2 == 1 && zeros)
        word = zeros == 8 ? 0 : (uint32_t)word;
      OUT(2 * s) = from[t ^ 3];
      OUT(2 * s + 1) = word;
    }
}

static void generic_pointers(const uint64_t *in, uint64_t n, uint64_t *out) {
  static const uint32_t table[4] = {3, 1, 4, 1}, cells[4] = {100, 200, 300, 400};
  for (uint64_t i = 0; i < n; i++) {
    uint32_t a = (uint32_t)IN(0), k = (uint32_t)IN(1) & 3, sum = 0;
    for (uint32_t j = 0; j < 4; j++) {
      const uint32_t mine[4] = {a, a ^ 1, a + 2, a * 3};
      const uint32_t of[4] = {(uint32_t)in[(i & ~3ull) + j], mine[j], cells[j], table[j]};
      sum = sum * 31 + of[k];
    }
    OUT(0) = sum;
    OUT(1) = 1u << k;
    OUT(2) = k & 1 ? a + 5 : a;
    OUT(3) = k & 1 ? a : a + 5;
  }
}

/* Rows of 64 words, of which 40 are the tensor's; a store and a reduction of 16 x 16. */
static void tma_store(const uint64_t *in, uint64_t n, uint64_t *out) {
  enum { COLUMNS = 40, ROWS = 20, PITCH = 64, BOX = 16 };
  uint32_t p[ROWS * PITCH] = {0};
  for (unsigned y = 0; y < BOX; y++)
    for (unsigned x = 0; x < BOX; x++)
      if (32 + x < COLUMNS && 10 + y < ROWS)
        p[(10 + y) * PITCH + 32 + x] = (uint32_t)in[y * BOX + x];
  for (unsigned y = 0; y < BOX; y++)
    for (unsigned x = 0; x < BOX; x++)
      if (28 + x < COLUMNS && 8 + y < ROWS)
        p[(8 + y) * PITCH + 28 + x] += (uint32_t)in[n + y * BOX + x];
  for (uint64_t i = 0; i < n; i++)
    for (uint64_t j = 0; j < 4; j++)
      OUT(j) = p[i + 256 * j] ^ (i + j < 256 ? p[1024 + i] : 0);
}

static void matrix_moves(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t first = 0; first < n; first += 32) {
    uint16_t m[16][8];
    for (unsigned t = 0; t < 32; t++)
      for (unsigned half = 0; half < 2; half++) {
        m[t / 4][t % 4 * 2 + half] = (uint16_t)(in[first + t] >> 16 * half);
        m[8 + t / 4][t % 4 * 2 + half] = (uint16_t)(in[n + first + t] >> 16 * half);
      }
    for (unsigned t = 0; t < 32; t++) {
      uint64_t i = first + t;
      unsigned row = t % 4 * 2, column = t / 4;
      OUT(0) = m[t / 2][t % 2] | (uint32_t)m[t / 2][7 - t % 2] << 16;
      OUT(1) = m[row][column] | (uint32_t)m[row + 1][column] << 16;
      OUT(2) = m[8 + row][column] | (uint32_t)m[8 + row + 1][column] << 16;
    }
    for (unsigned t = 0; t < 32; t++) /* the first operand once more, transposed */
      for (unsigned half = 0; half < 2; half++)
        m[t % 4 * 2 + half][t / 4] = (uint16_t)(in[first + t] >> 16 * half);
    for (unsigned t = 0; t < 32; t++)
      out[3 * n + first + t] = m[t / 4][t % 4 * 2] | (uint32_t)m[t / 4][t % 4 * 2 + 1] << 16;
  }
}

const struct definition definitions_cuda_moves[] = {
    {"votes", votes},
    {"cooperative", cooperative},
    {"barriers", barriers},
    {"cp_async", cp_async},
    {"generic_pointers", generic_pointers},
    {"tma_store", tma_store},
    {"matrix_moves", matrix_moves},
    {NULL, NULL},
};
