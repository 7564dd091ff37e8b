/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor-core arithmetic: what one matrix instruction computes for each element of D.
 *
 * The model (MMA-Sim, arXiv 2511.10909, reported bit-exact on H100 and B200): the K
 * products and C are one sum.  Each product keeps the exact significand sA*sB and the
 * exponent eA+eB plus the two scale exponents, not renormalised; all terms are aligned
 * to the largest exponent, each is cut toward zero to F fraction bits, and the cut terms
 * are added exactly.  The sum is cut toward zero to the result's mantissa, or rounded to
 * nearest even when the result is f16.  NaN and infinity are decided before any of this.
 *
 * Pure functions; no engine state.
 */
#ifndef EMU_UNITS_TCORE_H
#define EMU_UNITS_TCORE_H

#include <stdbool.h>
#include <stdint.h>

enum tc_type { TC_e4m3, TC_e5m2, TC_e2m3, TC_e3m2, TC_e2m1, TC_f16, TC_bf16, TC_tf32, TC_types };

/* Bytes an element takes in a row of raw operands: 1, 2 or 4 (sub-byte types are
 * unpacked to one byte before). */
unsigned tc_bytes(enum tc_type t);

#define TC_MAX_M 128
#define TC_MAX_N 256
#define TC_MAX_K 32
#define TC_BLOCK 16 /* columns computed together */

/* A scale exponent that stands for NaN. */
#define TC_SCALE_NAN INT16_MAX

/* Operand A decoded: significands as small whole numbers, times 2^(exp - fraction). */
struct tc_a {
  enum tc_type type;
  unsigned k;
  float sig[TC_MAX_M][TC_MAX_K];
  int16_t exp[TC_MAX_M][TC_MAX_K];
  bool special[TC_MAX_M]; /* the row holds a NaN or an infinity */
  bool undef[TC_MAX_M];   /* the row holds an undefined bit; set by the caller */
};

/* Operand B decoded, in blocks of columns, column index fastest. */
struct tc_b {
  enum tc_type type;
  unsigned k, n;
  float sig[TC_MAX_N / TC_BLOCK][TC_MAX_K][TC_BLOCK];
  int16_t exp[TC_MAX_N / TC_BLOCK][TC_MAX_K][TC_BLOCK];
  bool special[TC_MAX_N];
  bool undef[TC_MAX_N];
};

/* Set type and k (and n) first, then every row and column.  bytes: k raw elements. */
void tc_set_a(struct tc_a *a, unsigned row, const uint8_t *bytes, bool negate);
void tc_set_b(struct tc_b *b, unsigned column, const uint8_t *bytes, bool negate);
void tc_begin_a(struct tc_a *a, enum tc_type type, unsigned k);
void tc_begin_b(struct tc_b *b, enum tc_type type, unsigned k, unsigned n);

struct tc_spec {
  unsigned fraction; /* F */
  unsigned mantissa; /* of an f32 result: 23 or 13 */
  bool f16;          /* C and D are f16, in the low half of each word */
  unsigned shrink_c; /* C is taken times 2^-shrink_c (scale-input-d) */
};

/* Row `row` of D = A*B + C.
 * c: n words, or NULL for C = 0; d: n words; may be the same array as c.
 * c_undef: undefined bits of c or NULL; d_undef: written when not NULL.
 * scale_a: exponent of the row's scale; scale_b: of each column, NULL when unscaled. */
void tc_row(const struct tc_a *a, unsigned row, const struct tc_b *b, const struct tc_spec *s,
            const uint32_t *c, const uint32_t *c_undef, uint32_t *d, uint32_t *d_undef,
            int16_t scale_a, const int16_t *scale_b);

/* Exponent of a ue8m0 scale byte, TC_SCALE_NAN for 0xff. */
int16_t tc_ue8m0(uint8_t byte);

#endif
