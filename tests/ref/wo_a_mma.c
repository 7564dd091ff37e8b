/* SPDX-License-Identifier: Apache-2.0
 *
 * The projection by the published model of the tensor core.  Per instruction (32
 * products of e4m3 codes under two ue8m0 scales, plus an f32 c):
 *
 *   product   significand sa*sb, exponent ea+eb plus the scales' exponents, not
 *             renormalized; a subnormal keeps the format's least exponent, a product
 *             with a zero factor has none
 *   sum       every term truncated toward zero to 25 fraction bits below the largest
 *             exponent (c's included, a zero c as -133), then added exactly
 *   result    truncated toward zero to f32; NaN is 0x7FFFFFFF
 *
 * Both rules of zeros are what an H200's tensor cores answer (tests/conformance, the
 * question zero_product and the wgmma tiles); Blackwell's are taken to do the same.
 *
 * One instruction is written out in ref_mma_mxf8_k32.  The bulk takes a faster way to
 * the same bits: products are multiples of 2^-18 below 2^18, so a sum of 32 is exact in
 * double, and unless some product loses bits to truncation (seen from the exponents)
 * that sum is the aligned sum.
 */
#include "ref/formats.h"
#include "ref/wo_a_ref.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  FRACTION_BITS = 25,
  ZERO_FACTOR_EXPONENT = -5000, /* never the largest, whatever the other factor */
  ZERO_C_EXPONENT = -133,
  PRODUCT_FRACTION = 6, /* 3 + 3 fraction bits of two e4m3 significands */
  VALUE_UNIT = 9,       /* every e4m3 value is a multiple of 2^-9 */
  LANES = 16            /* weight rows worked on together */
};

/* ---- one term, one sum ------------------------------------------------------ */

struct e4m3_parts {
  int significand; /* with sign, in units of 2^-3 */
  int exponent;
};

static struct e4m3_parts e4m3_parts(uint8_t code) {
  int exponent = code >> 3 & 15, significand = code & 7;
  if (exponent != 0)
    significand += 8;
  else
    exponent = 1; /* subnormals share the least normal exponent */
  struct e4m3_parts p = {code & 0x80 ? -significand : significand, exponent - 7};
  if (significand == 0)
    p.exponent = ZERO_FACTOR_EXPONENT;
  return p;
}

static bool is_e4m3_nan(uint8_t code) {
  return (code & 0x7f) == REF_E4M3_NAN;
}

struct f32_parts {
  int64_t significand; /* with sign, in units of 2^-23 */
  int exponent;        /* as it counts for the alignment */
};

static struct f32_parts f32_parts(uint32_t bits) {
  int exponent = bits >> 23 & 255;
  int64_t significand = bits & 0x7fffff;
  if (exponent != 0)
    significand += 0x800000;
  else
    exponent = 1;
  struct f32_parts p = {bits >> 31 ? -significand : significand, exponent - 127};
  if (significand == 0)
    p.exponent = ZERO_C_EXPONENT;
  return p;
}

/* v * 2^shift toward zero. */
static int64_t scaled(int64_t v, int shift) {
  if (v == 0 || shift <= -63)
    return 0;
  int64_t magnitude = v < 0 ? -v : v;
  magnitude = shift < 0 ? magnitude >> -shift : magnitude << shift;
  return v < 0 ? -magnitude : magnitude;
}

/* The f32 nearest to sum * 2^(exponent - 25) toward zero. */
static uint32_t f32_toward_zero(int64_t sum, int exponent) {
  if (sum == 0)
    return 0;
  uint64_t magnitude = (uint64_t)(sum < 0 ? -sum : sum);
  int top = 63 - __builtin_clzll(magnitude);
  int unit = exponent - FRACTION_BITS, e = top + unit;
  if (e > 127)
    return (sum < 0 ? 0x80000000u : 0) | 0x7f800000u;
  if (e < -126)
    e = -126;
  magnitude = (uint64_t)scaled((int64_t)magnitude, unit - (e - 23));
  if (magnitude == 0)
    return 0;
  uint32_t bits = (uint32_t)magnitude;
  if (bits >= 0x800000)
    bits = bits - 0x800000 + ((uint32_t)(e + 127) << 23);
  return (sum < 0 ? 0x80000000u : 0) | bits;
}

static bool is_f32_special(uint32_t bits) {
  return (bits & 0x7f800000) == 0x7f800000;
}
static uint32_t special_sum(uint32_t c) {
  return c & 0x7fffff ? REF_F32_NAN : c;
}

uint32_t ref_mma_mxf8_k32(const uint8_t a[32], const uint8_t b[32], uint8_t sa, uint8_t sb,
                          uint32_t c) {
  if (sa == REF_UE8M0_NAN || sb == REF_UE8M0_NAN)
    return REF_F32_NAN;
  for (int k = 0; k < 32; k++)
    if (is_e4m3_nan(a[k]) || is_e4m3_nan(b[k]))
      return REF_F32_NAN;
  if (is_f32_special(c))
    return special_sum(c);

  int scale = sa - 127 + sb - 127;
  struct f32_parts pc = f32_parts(c);
  int largest = pc.exponent;
  for (int k = 0; k < 32; k++) {
    int e = e4m3_parts(a[k]).exponent + e4m3_parts(b[k]).exponent + scale;
    if (e > largest)
      largest = e;
  }
  int64_t sum = scaled(pc.significand, pc.exponent - 23 - (largest - FRACTION_BITS));
  for (int k = 0; k < 32; k++) {
    struct e4m3_parts pa = e4m3_parts(a[k]), pb = e4m3_parts(b[k]);
    int e = pa.exponent + pb.exponent + scale;
    sum += scaled((int64_t)pa.significand * pb.significand,
                  e - PRODUCT_FRACTION - (largest - FRACTION_BITS));
  }
  return f32_toward_zero(sum, largest);
}

/* ---- the bulk: 16 rows of weights against one row of x ---------------------- */

/* What a code is to the fast sum. */
struct operand {
  double value;     /* in units of 2^-9; NaN stays NaN */
  int16_t largest;  /* exponent, as it counts for the alignment */
  int16_t smallest; /* exponent, as it counts for losing bits: a zero has none to lose */
};

struct operand_table {
  struct operand of[256];
};

static void fill_operands(struct operand_table *table) {
  for (unsigned code = 0; code < 256; code++) {
    struct e4m3_parts p = e4m3_parts((uint8_t)code);
    table->of[code].value = ldexp(ref_e4m3_value((uint8_t)code), VALUE_UNIT);
    table->of[code].largest = (int16_t)p.exponent;
    table->of[code].smallest = (int16_t)(p.significand == 0 ? 1000 : p.exponent);
  }
}

/* Of one head: LANES weight rows, k outermost. */
struct weight_panel {
  double value[REF_WO_A_HEAD][LANES];
  int16_t largest[REF_WO_A_HEAD][LANES], smallest[REF_WO_A_HEAD][LANES];
  uint8_t code[LANES][REF_WO_A_HEAD];
  uint8_t scale[REF_WO_A_BLOCKS][LANES];
};

/* Of one head: a row of x. */
struct x_row {
  double value[REF_WO_A_HEAD];
  int16_t largest[REF_WO_A_HEAD], smallest[REF_WO_A_HEAD];
};

struct block_sum {
  double dot[LANES];
  int16_t largest[LANES], smallest[LANES];
};

static void load_panel(const struct ref_wo_a *c, const struct operand_table *table, uint32_t n,
                       uint32_t head, struct weight_panel *w) {
  size_t k_size = (size_t)c->heads * REF_WO_A_HEAD;
  for (uint32_t lane = 0; lane < LANES; lane++) {
    const uint8_t *row = c->weight + (n + lane) * k_size + (size_t)head * REF_WO_A_HEAD;
    memcpy(w->code[lane], row, REF_WO_A_HEAD);
    for (uint32_t k = 0; k < REF_WO_A_HEAD; k++) {
      const struct operand *o = &table->of[row[k]];
      w->value[k][lane] = o->value;
      w->largest[k][lane] = o->largest;
      w->smallest[k][lane] = o->smallest;
    }
    for (uint32_t b = 0; b < REF_WO_A_BLOCKS; b++)
      w->scale[b][lane] = ref_wo_a_weight_scale(c, n + lane, head * REF_WO_A_BLOCKS + b);
  }
}

static void load_x_row(const struct operand_table *table, const uint8_t *codes, struct x_row *x) {
  for (uint32_t k = 0; k < REF_WO_A_HEAD; k++) {
    const struct operand *o = &table->of[codes[k]];
    x->value[k] = o->value;
    x->largest[k] = o->largest;
    x->smallest[k] = o->smallest;
  }
}

static void sum_block(const struct x_row *x, const struct weight_panel *w, uint32_t first,
                      struct block_sum *s) {
  double dot[LANES] = {0};
  int16_t largest[LANES], smallest[LANES];
  for (int lane = 0; lane < LANES; lane++) {
    largest[lane] = INT16_MIN;
    smallest[lane] = 2000;
  }
  for (uint32_t k = first; k < first + REF_WO_A_BLOCK; k++) {
    double v = x->value[k];
    int16_t hi = x->largest[k], lo = x->smallest[k];
    for (int lane = 0; lane < LANES; lane++)
      dot[lane] += v * w->value[k][lane];
    for (int lane = 0; lane < LANES; lane++) {
      int16_t e = (int16_t)(hi + w->largest[k][lane]);
      largest[lane] = e > largest[lane] ? e : largest[lane];
    }
    for (int lane = 0; lane < LANES; lane++) {
      int16_t e = (int16_t)(lo + w->smallest[k][lane]);
      smallest[lane] = e < smallest[lane] ? e : smallest[lane];
    }
  }
  memcpy(s->dot, dot, sizeof dot);
  memcpy(s->largest, largest, sizeof largest);
  memcpy(s->smallest, smallest, sizeof smallest);
}

/* One instruction's result for one lane, if the exact sum decides it. */
static bool fast_sum(const struct block_sum *s, int lane, uint8_t sa, uint8_t sb, uint32_t c,
                     uint32_t *result) {
  if (isnan(s->dot[lane]) || sa == REF_UE8M0_NAN || sb == REF_UE8M0_NAN) {
    *result = REF_F32_NAN;
    return true;
  }
  if (is_f32_special(c)) {
    *result = special_sum(c);
    return true;
  }
  struct f32_parts pc = f32_parts(c);
  int scale = sa - 127 + sb - 127, largest = s->largest[lane] + scale;
  if (pc.exponent > largest)
    largest = pc.exponent;
  int unit = largest - FRACTION_BITS;
  if (s->smallest[lane] + scale - PRODUCT_FRACTION < unit)
    return false;
  int64_t sum = scaled((int64_t)s->dot[lane], scale - 2 * VALUE_UNIT - unit);
  sum += scaled(pc.significand, pc.exponent - 23 - unit);
  *result = f32_toward_zero(sum, largest);
  return true;
}

/* Adds one head's partial sums of LANES rows to the running f32 sums of step 4. */
static void add_head(const struct x_row *x, const uint8_t *codes, const uint8_t *x_scales,
                     const struct weight_panel *w, float *sums) {
  uint32_t partial[LANES] = {0};
  for (uint32_t b = 0; b < REF_WO_A_BLOCKS; b++) {
    struct block_sum s;
    uint32_t first = b * REF_WO_A_BLOCK;
    sum_block(x, w, first, &s);
    for (int lane = 0; lane < LANES; lane++)
      if (!fast_sum(&s, lane, x_scales[b], w->scale[b][lane], partial[lane], &partial[lane]))
        partial[lane] = ref_mma_mxf8_k32(codes + first, w->code[lane] + first, x_scales[b],
                                         w->scale[b][lane], partial[lane]);
  }
  for (int lane = 0; lane < LANES; lane++)
    sums[lane] += ref_f32_from_bits(partial[lane]);
}

struct quantized_x {
  uint8_t *codes, *scales;
};

static bool quantize_x(const struct ref_wo_a *c, struct quantized_x *q) {
  size_t heads = (size_t)c->tokens * c->groups * c->heads;
  q->codes = malloc(heads * REF_WO_A_HEAD);
  q->scales = malloc(heads * REF_WO_A_BLOCKS);
  if (q->codes == NULL || q->scales == NULL) {
    free(q->codes);
    free(q->scales);
    return false;
  }
  ref_wo_a_quantize(c, q->codes, q->scales);
  return true;
}

static void free_x(struct quantized_x *q) {
  free(q->codes);
  free(q->scales);
}

bool ref_wo_a_model_y(const struct ref_wo_a *c, uint16_t *y) {
  size_t outputs = (size_t)c->groups * c->rank;
  struct quantized_x q;
  struct weight_panel *w = malloc(sizeof *w);
  struct x_row *rows = malloc(c->tokens * sizeof *rows);
  float *sums = malloc(c->tokens * outputs * sizeof *sums);
  bool ok = w != NULL && rows != NULL && sums != NULL && quantize_x(c, &q);
  if (!ok)
    goto done;

  struct operand_table table;
  fill_operands(&table);
  for (size_t i = 0; i < c->tokens * outputs; i++)
    sums[i] = 0;
  for (uint32_t g = 0; g < c->groups; g++) {
    for (uint32_t h = 0; h < c->heads; h++) {
      for (uint32_t t = 0; t < c->tokens; t++) {
        size_t head = ((size_t)t * c->groups + g) * c->heads + h;
        load_x_row(&table, q.codes + head * REF_WO_A_HEAD, &rows[t]);
      }
      for (uint32_t n = g * c->rank; n < (g + 1) * c->rank; n += LANES) {
        load_panel(c, &table, n, h, w);
        for (uint32_t t = 0; t < c->tokens; t++) {
          size_t head = ((size_t)t * c->groups + g) * c->heads + h;
          add_head(&rows[t], q.codes + head * REF_WO_A_HEAD, q.scales + head * REF_WO_A_BLOCKS, w,
                   sums + t * outputs + n);
        }
      }
    }
  }
  for (size_t i = 0; i < c->tokens * outputs; i++)
    y[i] = ref_bf16_from_f32(sums[i]);
  free_x(&q);
done:
  free(sums);
  free(rows);
  free(w);
  return ok;
}

bool ref_wo_a_model(const struct ref_wo_a *c, uint8_t *q, uint8_t *qs) {
  if (c->tokens == 0)
    return true;
  uint16_t *y = malloc(ref_wo_a_q_size(c) * sizeof *y);
  bool ok = y != NULL && ref_wo_a_model_y(c, y);
  if (ok)
    ref_wo_a_quantize_y(c, y, q, qs);
  free(y);
  return ok;
}
