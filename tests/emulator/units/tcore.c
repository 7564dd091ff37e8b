/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor-core arithmetic; the model is described in tcore.h.
 *
 * Speed.  Aligning and cutting a term is a multiplication by a power of two and a
 * conversion to integer that truncates: both exact here, since a product of significands
 * has at most 22 bits.  The inner loops run over a block of columns of constant length so
 * that compilers turn them into vector code without variable shifts.
 */
#include "tcore.h"

#include <math.h>
#include <pthread.h>
#include <string.h>

/* An operand element that is zero: its exponent must never be the largest. */
#define ZERO_EXP (-2000)
/* What a C of zero counts as when the largest exponent is looked for: below that of any f32, and a
 * floor to it.  An H200's answers fit -134 to -132; -126 and no floor at all do not. */
#define C_ZERO_EXP (-133)
/* Below this power of two every term is cut to nothing; keeps the float scale normal. */
#define FLOOR_EXP (-100)

struct format {
  unsigned bytes, ebits, mbits;
  int bias;
  bool ieee;    /* top exponent is infinity and NaN */
  bool top_nan; /* e4m3: only all ones is NaN */
};
static const struct format formats[TC_types] = {
    [TC_e4m3] = {1, 4, 3, 7, false, true},   [TC_e5m2] = {1, 5, 2, 15, true, false},
    [TC_e2m3] = {1, 2, 3, 1, false, false},  [TC_e3m2] = {1, 3, 2, 3, false, false},
    [TC_e2m1] = {1, 2, 1, 1, false, false},  [TC_f16] = {2, 5, 10, 15, true, false},
    [TC_bf16] = {2, 8, 7, 127, true, false}, [TC_tf32] = {4, 8, 10, 127, true, false},
};

enum kind { KIND_finite, KIND_inf, KIND_nan };
struct element {
  float sig; /* signed whole number: significand times 2^mbits */
  int16_t exp;
  uint8_t kind;
};

unsigned tc_bytes(enum tc_type t) {
  return formats[t].bytes;
}

int16_t tc_ue8m0(uint8_t byte) {
  return byte == 0xff ? TC_SCALE_NAN : (int16_t)(byte - 127);
}

static struct element decode(enum tc_type t, uint32_t raw) {
  const struct format *f = &formats[t];
  if (t == TC_tf32)
    raw >>= 13; /* the hardware drops the low bits */
  uint32_t man = raw & ((1u << f->mbits) - 1);
  uint32_t exp = (raw >> f->mbits) & ((1u << f->ebits) - 1);
  bool neg = (raw >> (f->mbits + f->ebits)) & 1;
  uint32_t top = (1u << f->ebits) - 1;
  struct element e = {0, ZERO_EXP, KIND_finite};
  if (f->ieee && exp == top) {
    e.kind = man ? KIND_nan : KIND_inf;
    e.sig = neg ? -1.0f : 1.0f;
    e.exp = 0;
    return e;
  }
  if (f->top_nan && exp == top && man == (1u << f->mbits) - 1) {
    e.kind = KIND_nan;
    e.sig = 1.0f;
    e.exp = 0;
    return e;
  }
  if (exp == 0 && man == 0)
    return e;
  uint32_t sig = exp ? man | 1u << f->mbits : man;
  e.exp = (int16_t)((exp ? (int)exp : 1) - f->bias);
  e.sig = neg ? -(float)sig : (float)sig;
  return e;
}

/* The 8-bit types go through tables, filled once. */
static struct element table8[TC_e2m1 + 1][256];
static pthread_once_t table8_once = PTHREAD_ONCE_INIT;

static void fill_table8(void) {
  for (int t = TC_e4m3; t <= TC_e2m1; t++) {
    unsigned bits = 1 + formats[t].ebits + formats[t].mbits;
    for (unsigned code = 0; code < 256; code++)
      table8[t][code] = decode((enum tc_type)t, code & ((1u << bits) - 1));
  }
}

static struct element element_at(enum tc_type t, const uint8_t *bytes, unsigned i) {
  switch (formats[t].bytes) {
  case 1:
    return table8[t][bytes[i]];
  case 2:
    return decode(t, (uint32_t)bytes[2 * i] | (uint32_t)bytes[2 * i + 1] << 8);
  default: {
    uint32_t raw;
    memcpy(&raw, bytes + 4 * (size_t)i, 4);
    return decode(t, raw);
  }
  }
}

/* NaN and infinity travel as float specials in sig; only the slow path looks at them. */
static float special_sig(struct element e) {
  if (e.kind == KIND_nan)
    return NAN;
  return e.kind == KIND_inf ? e.sig * INFINITY : e.sig;
}

void tc_begin_a(struct tc_a *a, enum tc_type type, unsigned k) {
  pthread_once(&table8_once, fill_table8);
  a->type = type;
  a->k = k;
  memset(a->undef, 0, sizeof a->undef);
}

void tc_begin_b(struct tc_b *b, enum tc_type type, unsigned k, unsigned n) {
  pthread_once(&table8_once, fill_table8);
  b->type = type;
  b->k = k;
  b->n = n;
  memset(b->undef, 0, sizeof b->undef);
  memset(b->special, 0, sizeof b->special);
  unsigned last = (n - 1) / TC_BLOCK; /* its unused columns must hold numbers */
  memset(b->sig[last], 0, sizeof b->sig[last]);
  memset(b->exp[last], 0, sizeof b->exp[last]);
}

void tc_set_a(struct tc_a *a, unsigned row, const uint8_t *bytes, bool negate) {
  a->special[row] = false;
  for (unsigned k = 0; k < a->k; k++) {
    struct element e = element_at(a->type, bytes, k);
    float sig = special_sig(e);
    a->sig[row][k] = negate ? -sig : sig;
    a->exp[row][k] = e.exp;
    a->special[row] |= e.kind != KIND_finite;
  }
  for (unsigned k = a->k; k % 8; k++) { /* the sum takes terms by eight */
    a->sig[row][k] = 0;
    a->exp[row][k] = ZERO_EXP;
  }
}

void tc_set_b(struct tc_b *b, unsigned column, const uint8_t *bytes, bool negate) {
  unsigned block = column / TC_BLOCK, lane = column % TC_BLOCK;
  b->special[column] = false;
  for (unsigned k = 0; k < b->k; k++) {
    struct element e = element_at(b->type, bytes, k);
    float sig = special_sig(e);
    b->sig[block][k][lane] = negate ? -sig : sig;
    b->exp[block][k][lane] = e.exp;
    b->special[column] |= e.kind != KIND_finite;
  }
  for (unsigned k = b->k; k % 8; k++) {
    b->sig[block][k][lane] = 0;
    b->exp[block][k][lane] = ZERO_EXP;
  }
}

/* ---- C and D ------------------------------------------------------------------- */

struct addend {
  int64_t sig; /* signed, 23 fraction bits */
  int exp;
  uint8_t kind;
  bool neg;
};

static struct addend decode_c(uint32_t word, const struct tc_spec *s) {
  struct addend c = {0, C_ZERO_EXP, KIND_finite, false};
  unsigned mbits = s->f16 ? 10 : 23, top = s->f16 ? 31 : 255;
  int bias = s->f16 ? 15 : 127;
  if (s->f16)
    word &= 0xffff;
  uint32_t man = word & ((1u << mbits) - 1), exp = (word >> mbits) & top;
  c.neg = (word >> (s->f16 ? 15 : 31)) & 1;
  if (exp == top) {
    c.kind = man ? KIND_nan : KIND_inf;
    return c;
  }
  if (exp == 0 && man == 0)
    return c;
  int64_t sig = (int64_t)(exp ? man | 1u << mbits : man) << (23 - mbits);
  c.sig = c.neg ? -sig : sig;
  c.exp = (exp ? (int)exp : 1) - bias - (int)s->shrink_c;
  return c;
}

static int64_t cut(int64_t value, int shift) { /* value * 2^-shift, toward zero */
  if (shift <= 0)
    return value * ((int64_t)1 << -shift);
  if (shift > 62)
    return 0;
  return value < 0 ? -(-value >> shift) : value >> shift;
}

static int top_bit(uint64_t v) {
  return 63 - __builtin_clzll(v);
}

/* sum * 2^unit to f32 with `mantissa` bits, cut toward zero. */
static uint32_t encode_f32(int64_t sum, int unit, unsigned mantissa) {
  if (sum == 0)
    return 0;
  uint32_t sign = sum < 0 ? 0x80000000u : 0;
  uint64_t mag = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
  int exp = unit + top_bit(mag);
  if (exp > 127)
    return sign | 0x7f800000u;
  int lsb = (exp < -126 ? -126 : exp) - (int)mantissa; /* weight of the last kept bit */
  int down = lsb - unit;
  uint64_t kept = down > 63 ? 0 : down > 0 ? mag >> down << down : mag;
  if (kept == 0)
    return 0;
  /* kept * 2^unit is now exact in f32 */
  int low = (exp < -126 ? -149 : exp - 23) - unit;
  uint32_t sig = (uint32_t)(low >= 0 ? kept >> low : kept << -low);
  if (exp < -126)
    return sign | sig;
  return sign | (uint32_t)(exp + 127) << 23 | (sig & 0x7fffff);
}

/* sum * 2^unit to f16, to nearest even. */
static uint32_t encode_f16(int64_t sum, int unit) {
  if (sum == 0)
    return 0;
  uint32_t sign = sum < 0 ? 0x8000u : 0;
  uint64_t mag = sum < 0 ? (uint64_t)-sum : (uint64_t)sum;
  int exp = unit + top_bit(mag);
  if (exp > 15)
    return sign | 0x7c00u;
  int lsb = (exp < -14 ? -14 : exp) - 10, down = lsb - unit;
  uint64_t sig;
  if (down <= 0) {
    sig = mag << -down;
  } else if (down > 62) {
    sig = 0;
  } else {
    uint64_t rest = mag & (((uint64_t)1 << down) - 1), half = (uint64_t)1 << (down - 1);
    sig = mag >> down;
    sig += rest > half || (rest == half && (sig & 1));
  }
  if (sig == 0)
    return 0; /* rounded away: no sign stays */
  /* A carry moves into the exponent field by itself; 0x7c00 is infinity. */
  uint32_t bits =
      exp < -14 ? (uint32_t)sig : (uint32_t)((uint64_t)(exp + 15) << 10) + ((uint32_t)sig - 1024u);
  return sign | bits;
}

/* ---- the sum -------------------------------------------------------------------- */

/* NaN and infinity, one element.  true: *d is the answer. */
static bool special(const struct tc_a *a, unsigned row, const struct tc_b *b, unsigned column,
                    const struct tc_spec *s, struct addend c, bool scale_nan, uint32_t *d) {
  bool pos = c.kind == KIND_inf && !c.neg, neg = c.kind == KIND_inf && c.neg;
  bool nan = scale_nan || c.kind == KIND_nan;
  if (a->special[row] || b->special[column]) {
    for (unsigned k = 0; k < a->k && !nan; k++) {
      float p = a->sig[row][k] * b->sig[column / TC_BLOCK][k][column % TC_BLOCK];
      nan |= isnan(p) != 0;
      pos |= isinf(p) && p > 0;
      neg |= isinf(p) && p < 0;
    }
  }
  if (nan || (pos && neg))
    *d = s->f16 ? 0x7fffu : 0x7fffffffu;
  else if (pos || neg)
    *d = (s->f16 ? 0x7c00u : 0x7f800000u) | (neg ? (s->f16 ? 0x8000u : 0x80000000u) : 0);
  else
    return false;
  return true;
}

static void largest(const int16_t *restrict ea, const int16_t (*restrict eb)[TC_BLOCK],
                    unsigned k_count, int16_t *restrict top) {
  for (unsigned n = 0; n < TC_BLOCK; n++)
    top[n] = 2 * ZERO_EXP;
  for (unsigned k = 0; k < k_count; k++) {
    int16_t e = ea[k];
    for (unsigned n = 0; n < TC_BLOCK; n++) {
      int16_t sum = (int16_t)(e + eb[k][n]);
      top[n] = sum > top[n] ? sum : top[n];
    }
  }
}

/* base[n]: what added to a product's exponent gives the power of two that turns its
 * whole-number significand into units of the last kept bit. */
static void sum_terms(const float *restrict sa, const int16_t *restrict ea,
                      const float (*restrict sb)[TC_BLOCK], const int16_t (*restrict eb)[TC_BLOCK],
                      unsigned k_count, const int16_t *restrict base, int64_t *restrict sum) {
  for (unsigned n = 0; n < TC_BLOCK; n++)
    sum[n] = 0;
  for (unsigned k0 = 0; k0 < k_count; k0 += 8) { /* 8 terms below 2^27 fit in 32 bits */
    int32_t part[TC_BLOCK] = {0};
    for (unsigned k = k0; k < k0 + 8; k++) {
      float a = sa[k];
      int16_t e = ea[k];
      uint32_t power[TC_BLOCK];
      float scale[TC_BLOCK];
      for (unsigned n = 0; n < TC_BLOCK; n++) {
        int16_t x = (int16_t)(base[n] + e + eb[k][n]);
        x = x > FLOOR_EXP ? x : FLOOR_EXP;
        power[n] = (uint32_t)(x + 127) << 23;
      }
      memcpy(scale, power, sizeof scale);
      for (unsigned n = 0; n < TC_BLOCK; n++)
        part[n] += (int32_t)(a * sb[k][n] * scale[n]);
    }
    for (unsigned n = 0; n < TC_BLOCK; n++)
      sum[n] += part[n];
  }
}

static void block(const struct tc_a *a, unsigned row, const struct tc_b *b, unsigned n0,
                  const struct tc_spec *s, const uint32_t *c, uint32_t *d, int16_t scale_a,
                  const int16_t *scale_b) {
  unsigned count = b->n - n0 < TC_BLOCK ? b->n - n0 : TC_BLOCK, bi = n0 / TC_BLOCK;
  int fraction = (int)s->fraction;
  int frac_ab = (int)(formats[a->type].mbits + formats[b->type].mbits);
  int16_t top[TC_BLOCK], base[TC_BLOCK] = {0};
  int unit[TC_BLOCK] = {0};
  struct addend addend[TC_BLOCK];
  uint32_t answer[TC_BLOCK];
  bool answered[TC_BLOCK], any_special = a->special[row];

  for (unsigned n = 0; n < count; n++)
    any_special |= b->special[n0 + n];
  largest(a->exp[row], b->exp[bi], a->k, top);
  for (unsigned n = 0; n < count; n++) {
    int16_t sb = scale_b ? scale_b[n] : 0;
    bool scale_nan = scale_a == TC_SCALE_NAN || sb == TC_SCALE_NAN;
    addend[n] = decode_c(c ? c[n] : 0, s);
    answered[n] = (any_special || scale_nan || addend[n].kind != KIND_finite) &&
                  special(a, row, b, n0 + n, s, addend[n], scale_nan, &answer[n]);
    int scale = scale_nan ? 0 : scale_a + sb;
    int high = top[n] + scale > addend[n].exp ? top[n] + scale : addend[n].exp;
    if (top[n] < ZERO_EXP / 2)
      high = addend[n].exp; /* no product differs from zero */
    unit[n] = high - fraction;
    base[n] = (int16_t)(fraction - frac_ab - (high - scale));
  }
  if (any_special) { /* the vector loop must not see NaN: such columns one by one */
    for (unsigned n = 0; n < count; n++) {
      int64_t sum = 0;
      for (unsigned k = 0; k < a->k && !answered[n]; k++) {
        int x = base[n] + a->exp[row][k] + b->exp[bi][k][n];
        sum += (int64_t)ldexp((double)a->sig[row][k] * (double)b->sig[bi][k][n],
                              x > FLOOR_EXP ? x : FLOOR_EXP);
      }
      if (!answered[n]) {
        sum += cut(addend[n].sig, 23 - fraction + (unit[n] + fraction - addend[n].exp));
        answer[n] = s->f16 ? encode_f16(sum, unit[n]) : encode_f32(sum, unit[n], s->mantissa);
      }
      d[n] = answer[n];
    }
    return;
  }
  int64_t sums[TC_BLOCK];
  sum_terms(a->sig[row], a->exp[row], b->sig[bi], b->exp[bi], a->k, base, sums);
  for (unsigned n = 0; n < count; n++) {
    int64_t sum =
        sums[n] + cut(addend[n].sig, 23 - fraction + (unit[n] + fraction - addend[n].exp));
    d[n] = answered[n] ? answer[n]
           : s->f16    ? encode_f16(sum, unit[n])
                       : encode_f32(sum, unit[n], s->mantissa);
  }
}

void tc_row(const struct tc_a *a, unsigned row, const struct tc_b *b, const struct tc_spec *s,
            const uint32_t *c, const uint32_t *c_undef, uint32_t *d, uint32_t *d_undef,
            int16_t scale_a, const int16_t *scale_b) {
  if (d_undef) { /* before c may be overwritten through d_undef == c_undef */
    uint32_t width = s->f16 ? 0xffffu : 0xffffffffu;
    for (unsigned n = 0; n < b->n; n++) {
      bool bad = a->undef[row] || b->undef[n] || (c && c_undef && (c_undef[n] & width));
      d_undef[n] = bad ? 0xffffffffu : 0;
    }
  }
  for (unsigned n0 = 0; n0 < b->n; n0 += TC_BLOCK)
    block(a, row, b, n0, s, c ? c + n0 : NULL, d + n0, scale_a, scale_b ? scale_b + n0 : NULL);
}
