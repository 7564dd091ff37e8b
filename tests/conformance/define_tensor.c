/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions of the CUDA kernels on tensor cores: matrices of small whole numbers, whose
 * products are exact in any order, and the places of tensor memory that tcgen05.ld and
 * tcgen05.st name (PTX ISA 9.7.16.2.3).
 */
#include <math.h>
#include <string.h>

#include "conformance/define.h"
#include "conformance/define_formats.h"

#define OUT(v) out[(v) * n + i]

static int nibble(uint64_t word, unsigned j) {
  return (int)(word >> 4 * j & 15) - 8;
}

/* ---- mma.sync: two steps of K, 16 x 8 ------------------------------------------------- */

/* k elements of 32 bytes; thread t holds half a row of A (operands 0, 2) and a quarter of
 * one of B (1, 3); D register j of lane t is row t/4 + 8*(j/2), column 2*(t%4) + j%2. */
static void mma(const uint64_t *in, uint64_t n, uint64_t *out, unsigned k, bool whole) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t first = i / 32 * 32, t = i % 32;
    int start[4] = {(int)t, -(int)t, 2 * (int)t, 7};
    for (unsigned j = 0; j < 4; j++) {
      uint64_t row = t / 4 + 8 * (uint64_t)(j / 2), column = 2 * (t % 4) + j % 2;
      int sum = start[j];
      for (unsigned s = 0; s < 2; s++)
        for (unsigned x = 0; x < k; x++)
          sum += nibble(in[2 * s * n + first + 2 * row + x / (k / 2)], x % (k / 2)) *
                 nibble(in[(2 * s + 1) * n + first + 4 * column + x / (k / 4)], x % (k / 4));
      OUT(j) = whole ? (uint32_t)sum : bits_of_float((float)sum);
    }
  }
}
static void mma16(const uint64_t *in, uint64_t n, uint64_t *out) {
  mma(in, n, out, 16, false);
}
static void mma32(const uint64_t *in, uint64_t n, uint64_t *out) {
  mma(in, n, out, 32, false);
}
static void mma_s8(const uint64_t *in, uint64_t n, uint64_t *out) {
  mma(in, n, out, 32, true);
}

/* ---- wgmma: 64 x 32 x 128 bytes --------------------------------------------------------- */

static void wgmma(const uint64_t *in, uint64_t n, uint64_t *out, unsigned k, int divide) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t first = i / 128 * 128, t = i % 128;
    for (unsigned j = 0; j < 16; j++) {
      uint64_t row = t / 32 * 16 + t % 32 / 4 + 8 * (uint64_t)(j / 2 % 2),
               column = j / 4 * 8 + 2 * (t % 4) + j % 2;
      int sum = 0;
      for (unsigned x = 0; x < k; x++) {
        unsigned a = x % (k / 2), b = x % (k / 4);
        sum += nibble(in[a / 16 * n + first + 2 * row + x / (k / 2)], a % 16) / divide *
               (nibble(in[(4 + b / 16) * n + first + 4 * column + x / (k / 4)], b % 16) / divide);
      }
      OUT(j) = bits_of_float((float)sum);
    }
  }
}
static void wgmma_f16(const uint64_t *in, uint64_t n, uint64_t *out) {
  wgmma(in, n, out, 64, 1);
}
static void wgmma_fp8(const uint64_t *in, uint64_t n, uint64_t *out) {
  wgmma(in, n, out, 128, 2);
}

/* ---- tcgen05.mma: 128 x 32, a row of A a thread ------------------------------------------ */

static int scale_exponent(uint64_t row, unsigned step) {
  return (int)((row + step) % 4) - 1; /* byte 126 + ..., less 127 */
}

static void tcgen05(const uint64_t *in, uint64_t n, uint64_t *out, unsigned k, bool scaled) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t first = i / 128 * 128, t = i % 128;
    for (unsigned column = 0; column < 32; column++) {
      double sum = 0;
      for (unsigned x = 0; x < k; x++) {
        unsigned b = x % (k / 4), step = x / (k / 4);
        int product = nibble(in[x / 16 * n + i], x % 16) *
                      nibble(in[(8 + b / 16) * n + first + 4 * column + x / (k / 4)], b % 16);
        sum += scaled
                   ? ldexp(product, scale_exponent(t, step) + scale_exponent(1000 + column, step))
                   : product;
      }
      OUT(column) = bits_of_float((float)sum);
    }
  }
}
static void tcgen05_2(const uint64_t *in, uint64_t n, uint64_t *out) {
  tcgen05(in, n, out, 64, false);
}
static void tcgen05_4(const uint64_t *in, uint64_t n, uint64_t *out) {
  tcgen05(in, n, out, 32, false);
}
static void tcgen05_1(const uint64_t *in, uint64_t n, uint64_t *out) {
  tcgen05(in, n, out, 128, false);
}
static void tcgen05_scaled(const uint64_t *in, uint64_t n, uint64_t *out) {
  tcgen05(in, n, out, 128, true);
}

/* ---- tcgen05.ld, tcgen05.st ------------------------------------------------------------- */

/* What each bit of the thread's number (0..4) and of the register's (0..3) adds to the lane
 * and to the column. */
struct shape {
  uint8_t lane[9], column[9];
};
static const struct shape shapes[5] = {
    {{1, 2, 4, 8, 16, 0, 0, 0, 0}, {0, 0, 0, 0, 0, 1, 2, 4, 8}}, /* 32x32b */
    {{8, 0, 1, 2, 4, 0, 0, 0, 0}, {0, 1, 0, 0, 0, 2, 4, 8, 16}}, /* 16x64b */
    {{0, 0, 1, 2, 4, 8, 0, 0, 0}, {1, 2, 0, 0, 0, 0, 4, 8, 16}}, /* 16x128b */
    {{0, 0, 1, 2, 4, 0, 8, 0, 0}, {2, 4, 0, 0, 0, 1, 0, 8, 16}}, /* 16x256b */
    {{1, 2, 4, 8, 0, 0, 0, 0, 0}, {0, 0, 0, 0, 24, 1, 2, 4, 8}}, /* 16x32bx2, split 24 */
};

static void place(unsigned shape, unsigned split, unsigned t, unsigned j, unsigned *lane,
                  unsigned *column) {
  unsigned bits = t % 32 | j << 5;
  *lane = *column = 0;
  for (unsigned b = 0; b < 9; b++)
    if (bits >> b & 1) {
      *lane += shapes[shape].lane[b];
      *column += shape == 4 && b == 4 ? split : shapes[shape].column[b];
    }
  *lane += t / 32 * 32;
}

static void tmem_shapes(const uint64_t *in, uint64_t n, uint64_t *out) {
  static uint64_t memory[128][32];
  unsigned lane, column;
  (void)in;
  for (unsigned s = 0; s < 5; s++) {
    memset(memory, 0, sizeof memory);
    for (unsigned t = 0; t < 128; t++)
      for (unsigned j = 0; j < 16; j++) {
        place(s, 24, t, j, &lane, &column);
        out[(16 * s + j) * n + t] = lane << 16 | column;
        place(s, 16, t, j, &lane, &column);
        memory[lane][column] = 0x10000 + t * 16 + j;
      }
    for (unsigned t = 0; t < 128; t++)
      for (unsigned j = 0; j < 32; j++)
        out[(80 + 32 * s + j) * n + t] = memory[t][j];
  }
}

const struct definition definitions_tensor[] = {
    {"mma_f16", mma16},
    {"mma_bf16", mma16},
    {"mma_fp8", mma32},
    {"mma_int8", mma_s8},
    {"wgmma_f16", wgmma_f16},
    {"wgmma_fp8", wgmma_fp8},
    {"tcgen05_f16", tcgen05_2},
    {"tcgen05_bf16", tcgen05_2},
    {"tcgen05_tf32", tcgen05_4},
    {"tcgen05_f8f6f4", tcgen05_1},
    {"tcgen05_mxf8f6f4", tcgen05_scaled},
    {"tcgen05_ld", tmem_shapes},
    {NULL, NULL},
};
