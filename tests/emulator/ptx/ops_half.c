/* SPDX-License-Identifier: Apache-2.0
 *
 * Half precision and bfloat16, single and packed in pairs.  Every operation is done in
 * double precision, exactly or rounded to odd, and rounded once to the type.
 */
#include <math.h>

#include "fp.h"
#include "ops.h"

struct half_op {
  const struct fp_format *format;
  unsigned parts; /* 1, or 2 for .f16x2 and .bf16x2 */
  bool ftz, sat, relu, nan, abs, xorsign, max;
};

static struct half_op half_of(const struct insn *I) {
  const enum mod t = (enum mod)I->type[0];
  struct half_op h = {.format = t == MOD_bf16 || t == MOD_bf16x2 ? &FP_bf16 : &FP_f16,
                      .parts = mod_bits(t) / 16,
                      .max = I->form->pattern[1] == 'a'};
  for (int i = 0; i < INSN_MODS; i++) {
    const enum mod m = (enum mod)I->mod[i];
    h.ftz |= m == MOD_ftz;
    h.sat |= m == MOD_sat;
    h.relu |= m == MOD_relu;
    h.nan |= m == MOD_NaN;
    h.abs |= m == MOD_abs;
    h.xorsign |= m == MOD_xorsign;
  }
  return h;
}

static uint32_t flush(uint32_t b, const struct fp_format *f) {
  return b >> f->mantissa & ((1u << f->exponent) - 1) ? b : b & 0x8000;
}

static double input(uint64_t b, const struct half_op *h) {
  uint32_t v = (uint32_t)b & 0xffff;
  return fp_decode(h->ftz ? flush(v, h->format) : v, h->format);
}

static uint64_t output(double r, const struct half_op *h) {
  /* .ftz looks at the result before it is rounded. */
  if (h->ftz && fabs(r) < ldexp(1, 2 - (1 << (h->format->exponent - 1))))
    r = copysign(0, r);
  if (h->sat)
    r = isnan(r) || !(r > 0) ? 0 : r > 1 ? 1 : r;
  if (h->relu && !isnan(r) && !(r > 0))
    r = 0;
  uint32_t b = fp_encode(r, h->format, ROUND_rn);
  return h->ftz ? flush(b, h->format) : b;
}

static void half_done(struct warp *w, const struct insn *I, uint32_t lanes) {
  if (undef_on(w))
    spread_parts(w, I, lanes, 16);
}

/* a, b, c are the parts as doubles; E gives the value to round. */
#define HALF(name, sources, E)                                                                     \
  static enum step name(struct warp *w, const struct insn *I, uint32_t lanes) {                    \
    const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[sources > 1 ? 2 : 1]),     \
                     cc = col_of(w, &I->opd[sources > 2 ? 3 : 1]);                                 \
    uint64_t *d = reg_of(w, I->opd[0].reg);                                                        \
    const struct half_op h = half_of(I);                                                           \
    EACH_LANE(                                                                                     \
        l, lanes, uint64_t out = 0; for (unsigned at = 0; at < 16 * h.parts; at += 16) {           \
          const double a = input(AT(ca, l) >> at, &h), b = input(AT(cb, l) >> at, &h),             \
                       c = input(AT(cc, l) >> at, &h);                                             \
          (void)a, (void)b, (void)c;                                                               \
          out |= output(E, &h) << at;                                                              \
        } d[l] = out;);                                                                            \
    half_done(w, I, lanes);                                                                        \
    return STEP_next;                                                                              \
  }
/* Sums of bf16 may need more than 53 bits: rounded to odd. */
HALF(half_add, 2, fp_odd_add(a, b))
HALF(half_sub, 2, fp_odd_add(a, -b))
HALF(half_mul, 2, a *b)
HALF(half_fma, 3, fp_odd_add(a *b, c))
HALF(half_ex2, 1, exp2(a))
HALF(half_tanh, 1, tanh(a))

/* ---- on bits ----------------------------------------------------------------------- */

static bool is_nan(uint32_t b, const struct fp_format *f) {
  return (b & 0x7fff) > ((1u << f->exponent) - 1) << f->mantissa;
}

static uint32_t half_pick(uint32_t a, uint32_t b, const struct half_op *h) {
  if (is_nan(a, h->format) || is_nan(b, h->format)) {
    if (h->nan || (is_nan(a, h->format) && is_nan(b, h->format)))
      return 0x7fff;
    return is_nan(a, h->format) ? b : a;
  }
  /* sign and magnitude to an order in which -0 is just below +0 */
  int x = a & 0x8000 ? -(int)(a & 0x7fff) - 1 : (int)a,
      y = b & 0x8000 ? -(int)(b & 0x7fff) - 1 : (int)b;
  return (x < y) == h->max ? b : a;
}

static uint32_t half_minmax(uint64_t a64, uint64_t b64, const struct half_op *h) {
  uint32_t a = (uint32_t)a64 & 0xffff, b = (uint32_t)b64 & 0xffff;
  const uint32_t sign = (a ^ b) & 0x8000;
  if (h->ftz) {
    a = flush(a, h->format);
    b = flush(b, h->format);
  }
  if (h->abs) {
    a &= 0x7fff;
    b &= 0x7fff;
  }
  uint32_t r = half_pick(a, b, h);
  return h->xorsign && !is_nan(r, h->format) ? (r & 0x7fff) | sign : r;
}

#define BITS(name, E)                                                                              \
  static enum step name(struct warp *w, const struct insn *I, uint32_t lanes) {                    \
    const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[I->nopd - 1]);             \
    uint64_t *d = reg_of(w, I->opd[0].reg);                                                        \
    const struct half_op h = half_of(I);                                                           \
    EACH_LANE(                                                                                     \
        l, lanes, uint64_t out = 0; for (unsigned at = 0; at < 16 * h.parts; at += 16) {           \
          const uint64_t a = AT(ca, l) >> at & 0xffff, b = AT(cb, l) >> at & 0xffff;               \
          (void)b;                                                                                 \
          out |= (uint64_t)(E) << at;                                                              \
        } d[l] = out;);                                                                            \
    half_done(w, I, lanes);                                                                        \
    return STEP_next;                                                                              \
  }
BITS(half_min_max, half_minmax(a, b, &h))
BITS(half_neg, is_nan((uint32_t)a, h.format)
                   ? 0x7fffu
                   : (h.ftz ? flush((uint32_t)a, h.format) : (uint32_t)a) ^ 0x8000u)
BITS(half_abs, is_nan((uint32_t)a, h.format)
                   ? 0x7fffu
                   : (h.ftz ? flush((uint32_t)a, h.format) : (uint32_t)a) & 0x7fffu)

#define D    "definition"
#define A    "definition, accurately rounded"
#define F16  "{.f16|.f16x2}"
#define BF16 "{.bf16|.bf16x2}"

const struct form forms_half[] = {
    {"add[.rn][.ftz][.sat]" F16, "wT rT rT", half_add, 0, D, 0},
    {"sub[.rn][.ftz][.sat]" F16, "wT rT rT", half_sub, 0, D, 0},
    {"mul[.rn][.ftz][.sat]" F16, "wT rT rT", half_mul, 0, D, 0},
    {"fma.rn[.ftz][.sat|.relu]" F16, "wT rT rT rT", half_fma, 0, D, 0},
    {"add[.rn]" BF16, "wT rT rT", half_add, 0, D, 0},
    {"sub[.rn]" BF16, "wT rT rT", half_sub, 0, D, 0},
    {"mul[.rn]" BF16, "wT rT rT", half_mul, 0, D, 0},
    {"fma.rn[.relu]" BF16, "wT rT rT rT", half_fma, 0, D, 0},
    {"min[.ftz][.NaN]" F16, "wT rT rT", half_min_max, 0, D, 0},
    {"max[.ftz][.NaN]" F16, "wT rT rT", half_min_max, 0, D, 0},
    {"min[.ftz][.NaN]{.xorsign}{.abs}" F16, "wT rT rT", half_min_max, 0, D, 0},
    {"max[.ftz][.NaN]{.xorsign}{.abs}" F16, "wT rT rT", half_min_max, 0, D, 0},
    {"min[.NaN]" BF16, "wT rT rT", half_min_max, 0, D, 0},
    {"max[.NaN]" BF16, "wT rT rT", half_min_max, 0, D, 0},
    {"min[.NaN]{.xorsign}{.abs}" BF16, "wT rT rT", half_min_max, 0, D, 0},
    {"max[.NaN]{.xorsign}{.abs}" BF16, "wT rT rT", half_min_max, 0, D, 0},
    {"neg[.ftz]" F16, "wT rT", half_neg, 0, D, 0},
    {"neg" BF16, "wT rT", half_neg, 0, D, 0},
    {"abs[.ftz]" F16, "wT rT", half_abs, 0, D, 0},
    {"abs" BF16, "wT rT", half_abs, 0, D, 0},
    {"ex2.approx" F16, "wT rT", half_ex2, 0, A, 0},
    {"ex2.approx{.ftz}" BF16, "wT rT", half_ex2, 0, A, 0},
    {"tanh.approx{.f16|.f16x2|.bf16|.bf16x2}", "wT rT", half_tanh, 0, A, 0},
    {0},
};
