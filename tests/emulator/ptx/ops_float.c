/* SPDX-License-Identifier: Apache-2.0
 *
 * Single and double precision: add, subtract, multiply, fma, divide, square root,
 * minimum, maximum.  Rounding to nearest is the C library's arithmetic; the directed
 * modes set the host's rounding mode around volatile operations, which the compiler may
 * not move.  f32 NaN results are 0x7FFFFFFF, f64 results carry a NaN operand,
 * quietened: the second, else the third, else the first; of a division the first (an H200
 * answers so: tests/conformance).  mul and add are never contracted: each has its own executor.
 */
#include <fenv.h>
#include <math.h>

#include "fp.h"
#include "ops.h"

enum op { OP_add, OP_sub, OP_mul, OP_fma, OP_div, OP_sqrt };

static int host_round(enum fp_round r) {
  switch (r) {
  case ROUND_rz:
    return FE_TOWARDZERO;
  case ROUND_rm:
    return FE_DOWNWARD;
  case ROUND_rp:
    return FE_UPWARD;
  default:
    return FE_TONEAREST;
  }
}

/* ---- f32 ------------------------------------------------------------------------- */

static inline float compute32(enum op op, float a, float b, float c) {
  switch (op) {
  case OP_add:
    return a + b;
  case OP_sub:
    return a - b;
  case OP_mul:
    return a * b;
  case OP_fma:
    return fmaf(a, b, c);
  case OP_div:
    return a / b;
  default:
    return sqrtf(a);
  }
}

static inline uint32_t finish32(uint32_t r, bool ftz, bool sat) {
  if (is_nan32(r))
    r = NAN_F32;
  if (ftz)
    r = ftz32(r);
  return sat ? sat32f(r) : r;
}

/* .ftz looks at the result before it is rounded: one that rounding alone lifts to the
 * least normal number becomes zero too.  Only such a result is +-2^-126, and only
 * products and quotients come close to it from below: asked with operands in double. */
static uint32_t flush_below(enum op op, uint32_t r, float a, float b, float c) {
  if ((r & 0x7fffffff) != 0x00800000 || op == OP_add || op == OP_sub)
    return r;
  double least = 0x1p-126, x = (double)a, y = (double)b, z = (double)c;
  double exact = op == OP_mul   ? x * y
                 : op == OP_fma ? fp_odd_add(x * y, z)
                 : op == OP_div ? x / y
                                : sqrt(x);
  return fabs(exact) < least ? r & 0x80000000 : r;
}

static inline uint32_t apply32(enum op op, uint64_t a, uint64_t b, uint64_t c, bool ftz, bool sat) {
  if (ftz) {
    a = ftz32((uint32_t)a);
    b = ftz32((uint32_t)b);
    c = ftz32((uint32_t)c);
  }
  uint32_t r = bits_of(compute32(op, f32_of(a), f32_of(b), f32_of(c)));
  if (ftz)
    r = flush_below(op, r, f32_of(a), f32_of(b), f32_of(c));
  return finish32(r, ftz, sat);
}

/* The same under the host's present rounding mode. */
static uint32_t apply32_dir(enum op op, uint64_t a, uint64_t b, uint64_t c, bool ftz, bool sat) {
  if (ftz) {
    a = ftz32((uint32_t)a);
    b = ftz32((uint32_t)b);
    c = ftz32((uint32_t)c);
  }
  volatile float va = f32_of(a), vb = f32_of(b), vc = f32_of(c);
  volatile float r = compute32(op, va, vb, vc);
  return finish32(ftz ? flush_below(op, bits_of(r), va, vb, vc) : bits_of(r), ftz, sat);
}

struct rounding {
  enum fp_round round;
  bool ftz, sat;
};

static struct rounding rounding_of(const struct insn *I) {
  struct rounding r = {ROUND_rn, false, false};
  for (int i = 0; i < INSN_MODS; i++) {
    enum mod m = (enum mod)I->mod[i];
    if (m == MOD_ftz)
      r.ftz = true;
    else if (m == MOD_sat)
      r.sat = true;
    else if (m == MOD_rz || m == MOD_rm || m == MOD_rp)
      r.round = fp_round_of(m);
  }
  return r;
}

static inline __attribute__((always_inline)) enum step exec32(struct warp *w, const struct insn *I,
                                                              uint32_t lanes, enum op op) {
  static const uint64_t zero;
  struct col none = {&zero, 0};
  const struct col ca = col_of(w, &I->opd[1]), cb = op == OP_sqrt ? none : col_of(w, &I->opd[2]),
                   cc = op == OP_fma ? col_of(w, &I->opd[3]) : none;
  uint64_t *d = reg_of(w, I->opd[0].reg);
  const struct rounding r = rounding_of(I);
  if (r.round != ROUND_rn) {
    fesetround(host_round(r.round));
    EACH_LANE(l, lanes, d[l] = apply32_dir(op, AT(ca, l), AT(cb, l), AT(cc, l), r.ftz, r.sat););
    fesetround(FE_TONEAREST);
  } else if (r.ftz || r.sat) {
    EACH_LANE(l, lanes, d[l] = apply32(op, AT(ca, l), AT(cb, l), AT(cc, l), r.ftz, r.sat););
  } else {
    EACH_LANE(l, lanes, d[l] = apply32(op, AT(ca, l), AT(cb, l), AT(cc, l), false, false););
  }
  done_any(w, I, lanes);
  return STEP_next;
}

/* Two f32 in 64 bits. */
static inline __attribute__((always_inline)) enum step
exec32x2(struct warp *w, const struct insn *I, uint32_t lanes, enum op op) {
  const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[2]),
                   cc = col_of(w, &I->opd[op == OP_fma ? 3 : 2]);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  const struct rounding r = rounding_of(I);
  if (r.round != ROUND_rn)
    fesetround(host_round(r.round));
  EACH_LANE(l, lanes, const uint64_t a = AT(ca, l), b = AT(cb, l), c = AT(cc, l);
            d[l] = apply32_dir(op, a, b, c, r.ftz, false) |
                   (uint64_t)apply32_dir(op, a >> 32, b >> 32, c >> 32, r.ftz, false) << 32;);
  if (r.round != ROUND_rn)
    fesetround(FE_TONEAREST);
  if (undef_on(w))
    spread_parts(w, I, lanes, 32);
  return STEP_next;
}

/* fma.f32.bf16 d, a, b, c: a and b are widened exactly, one rounding. */
static enum step mixed(struct warp *w, const struct insn *I, uint32_t lanes, enum op op) {
  const struct fp_format *f = I->type[1] == MOD_bf16 ? &FP_bf16 : &FP_f16;
  const struct opd *o = I->opd;
  const struct rounding r = rounding_of(I);
  fesetround(host_round(r.round));
  EACH_LANE(
      l, lanes, uint64_t a = bits_of((float)fp_decode((uint32_t)opd_get(w, &o[1], l), f));
      uint64_t b = opd_get(w, &o[2], l), c = 0; if (op == OP_fma) {
        b = bits_of((float)fp_decode((uint32_t)b, f));
        c = opd_get(w, &o[3], l);
      } reg_of(w, o[0].reg)[l] = apply32_dir(op, a, b, c, false, r.sat););
  fesetround(FE_TONEAREST);
  done_any(w, I, lanes);
  return STEP_next;
}

/* ---- f64 -------------------------------------------------------------------------- */

static inline double compute64(enum op op, double a, double b, double c) {
  switch (op) {
  case OP_add:
    return a + b;
  case OP_sub:
    return a - b;
  case OP_mul:
    return a * b;
  case OP_fma:
    return fma(a, b, c);
  case OP_div:
    return a / b;
  default:
    return sqrt(a);
  }
}

static uint64_t apply64(enum op op, uint64_t a, uint64_t b, uint64_t c) {
  volatile double va = f64_of(a), vb = f64_of(b), vc = f64_of(c);
  volatile double r = compute64(op, va, vb, vc);
  if (!isnan(r))
    return bits_of64(r);
  const uint64_t quiet = 1ull << 51;
  if (op == OP_div && isnan(va))
    return a | quiet;
  if (op != OP_sqrt && isnan(vb))
    return b | quiet;
  if (op == OP_fma && isnan(vc))
    return c | quiet;
  if (isnan(va))
    return a | quiet;
  return 0xfff8000000000000ull;
}

static inline enum step exec64(struct warp *w, const struct insn *I, uint32_t lanes, enum op op) {
  const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[op == OP_sqrt ? 1 : 2]),
                   cc = col_of(w, &I->opd[op == OP_fma ? 3 : 1]);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  const struct rounding r = rounding_of(I);
  if (r.round != ROUND_rn)
    fesetround(host_round(r.round));
  EACH_LANE(l, lanes, d[l] = apply64(op, AT(ca, l), AT(cb, l), AT(cc, l)););
  if (r.round != ROUND_rn)
    fesetround(FE_TONEAREST);
  done_any(w, I, lanes);
  return STEP_next;
}

#define EXEC(name, f, op)                                                                          \
  static enum step name(struct warp *w, const struct insn *I, uint32_t lanes) {                    \
    return f(w, I, lanes, op);                                                                     \
  }
EXEC(add_f32, exec32, OP_add)
EXEC(sub_f32, exec32, OP_sub)
EXEC(mul_f32, exec32, OP_mul)
EXEC(fma_f32, exec32, OP_fma)
EXEC(div_f32, exec32, OP_div)
EXEC(sqrt_f32, exec32, OP_sqrt)
EXEC(add_f32x2, exec32x2, OP_add)
EXEC(sub_f32x2, exec32x2, OP_sub)
EXEC(mul_f32x2, exec32x2, OP_mul)
EXEC(fma_f32x2, exec32x2, OP_fma)
EXEC(add_mixed, mixed, OP_add)
EXEC(fma_mixed, mixed, OP_fma)
EXEC(add_f64, exec64, OP_add)
EXEC(sub_f64, exec64, OP_sub)
EXEC(mul_f64, exec64, OP_mul)
EXEC(fma_f64, exec64, OP_fma)
EXEC(div_f64, exec64, OP_div)
EXEC(sqrt_f64, exec64, OP_sqrt)

/* sub.f32.bf16: a - c with a narrow. */
static enum step sub_mixed(struct warp *w, const struct insn *I, uint32_t lanes) {
  return mixed(w, I, lanes, OP_sub);
}

/* By a divisor of 2^126 and more the result is zero, unless the dividend is infinite. */
static enum step div_approx(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[2]);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  const bool ftz = I->mod[0] == MOD_ftz;
  EACH_LANE(l, lanes, const uint32_t a = (uint32_t)AT(ca, l), b = (uint32_t)AT(cb, l);
            const uint32_t size = b & 0x7fffffff;
            if (size > 0x7e800000 && size < 0x7f800000 && !is_nan32(a)) d[l] =
                (a & 0x7fffffff) == 0x7f800000 ? NAN_F32 : (a ^ b) & 0x80000000;
            else d[l] = apply32(OP_div, a, b, 0, ftz, false););
  done_any(w, I, lanes);
  return STEP_next;
}

/* rcp is 1 / a. */
static enum step rcp_f32(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct col ca = col_of(w, &I->opd[1]);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  const struct rounding r = rounding_of(I);
  fesetround(host_round(r.round));
  EACH_LANE(l, lanes, d[l] = apply32_dir(OP_div, 0x3f800000, AT(ca, l), 0, r.ftz, false););
  fesetround(FE_TONEAREST);
  done_any(w, I, lanes);
  return STEP_next;
}
static enum step rcp_f64(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct col ca = col_of(w, &I->opd[1]);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  fesetround(host_round(rounding_of(I).round));
  EACH_LANE(l, lanes, d[l] = apply64(OP_div, 0x3ff0000000000000ull, AT(ca, l), 0););
  fesetround(FE_TONEAREST);
  done_any(w, I, lanes);
  return STEP_next;
}

/* ---- minimum and maximum ------------------------------------------------------------ */

struct minmax {
  bool max, ftz, nan, abs, xorsign;
};

static struct minmax minmax_of(const struct insn *I) {
  struct minmax m = {.max = I->form->pattern[1] == 'a'};
  for (int i = 0; i < INSN_MODS; i++) {
    m.ftz |= I->mod[i] == MOD_ftz;
    m.nan |= I->mod[i] == MOD_NaN;
    m.abs |= I->mod[i] == MOD_abs;
    m.xorsign |= I->mod[i] == MOD_xorsign;
  }
  return m;
}

/* +0 is above -0: compare as sign-and-magnitude integers. */
static inline uint32_t pick32(uint32_t a, uint32_t b, struct minmax m) {
  if (is_nan32(a) || is_nan32(b)) {
    if (m.nan || (is_nan32(a) && is_nan32(b)))
      return NAN_F32;
    return is_nan32(a) ? b : a;
  }
  int32_t x = (int32_t)(a >> 31 ? 0x80000000u - a : a),
          y = (int32_t)(b >> 31 ? 0x80000000u - b : b);
  bool less = x < y || (x == y && a >> 31 > b >> 31);
  return less == m.max ? b : a;
}

static inline uint32_t minmax32(uint32_t a, uint32_t b, struct minmax m) {
  const uint32_t sign = (a ^ b) & 0x80000000;
  if (m.ftz) {
    a = ftz32(a);
    b = ftz32(b);
  }
  if (m.abs) {
    a &= 0x7fffffff;
    b &= 0x7fffffff;
  }
  uint32_t r = pick32(a, b, m);
  return m.xorsign && !is_nan32(r) ? (r & 0x7fffffff) | sign : r;
}

static enum step minmax_f32(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[2]),
                   cc = col_of(w, &I->opd[I->nopd - 1]);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  const struct minmax m = minmax_of(I);
  const bool three = I->nopd == 4;
  EACH_LANE(l, lanes, uint32_t r = minmax32((uint32_t)AT(ca, l), (uint32_t)AT(cb, l), m);
            d[l] = three ? minmax32(r, (uint32_t)AT(cc, l), m) : r;);
  done_any(w, I, lanes);
  return STEP_next;
}

static uint64_t pick64(uint64_t a, uint64_t b, bool max) {
  double x = f64_of(a), y = f64_of(b);
  if (isnan(x) || isnan(y))
    return isnan(x) ? isnan(y) ? b | 1ull << 51 : b : a;
  bool less = x < y || (x == y && a >> 63 > b >> 63);
  return less == max ? b : a;
}
EXEC2(min_f64, uint64_t, uint64_t, done_any, pick64(a, b, false))
EXEC2(max_f64, uint64_t, uint64_t, done_any, pick64(a, b, true))

/* ---- sign bits and classes ------------------------------------------------------------- */

/* Slot 0 .ftz. */
EXEC1(neg_f32, uint32_t, uint32_t, done_any,
      is_nan32(a) ? NAN_F32 : (I->mod[0] == MOD_ftz ? ftz32(a) : a) ^ 0x80000000)
EXEC1(abs_f32, uint32_t, uint32_t, done_any,
      is_nan32(a) ? NAN_F32 : (I->mod[0] == MOD_ftz ? ftz32(a) : a) & 0x7fffffff)
/* A NaN keeps its sign. */
EXEC1(neg_f64, uint64_t, uint64_t, done_any, isnan(f64_of(a)) ? a | 1ull << 51 : a ^ 1ull << 63)
EXEC1(abs_f64, uint64_t, uint64_t, done_any, isnan(f64_of(a)) ? a | 1ull << 51 : a & ~(1ull << 63))
EXEC2(copysign_f32, uint32_t, uint32_t, done_any, (a & 0x80000000) | (b & 0x7fffffff))
EXEC2(copysign_f64, uint64_t, uint64_t, done_any, (a & 1ull << 63) | (b & ~(1ull << 63)))

static bool test_class(enum mod m, int class) {
  switch (m) {
  case MOD_finite:
    return class != FP_NAN && class != FP_INFINITE;
  case MOD_infinite:
    return class == FP_INFINITE;
  case MOD_number:
    return class != FP_NAN;
  case MOD_notanumber:
    return class == FP_NAN;
  case MOD_normal: /* zero is normal to testp */
    return class == FP_NORMAL || class == FP_ZERO;
  default:
    return class == FP_SUBNORMAL;
  }
}
EXEC1(testp_f32, uint64_t, uint32_t, done_any,
      test_class((enum mod)I->mod[0], fpclassify(f32_of(a))))
EXEC1(testp_f64, uint64_t, uint64_t, done_any,
      test_class((enum mod)I->mod[0], fpclassify(f64_of(a))))

/* ---- table ------------------------------------------------------------------------------- */

#define D         "definition"
#define ROUND     "{.rn|.rz|.rm|.rp}"
#define ROUND_OPT "[.rn|.rz|.rm|.rp]"
#define TEST      "{.finite|.infinite|.number|.notanumber|.normal|.subnormal}"

const struct form forms_float[] = {
    {"add" ROUND_OPT "[.ftz][.sat].f32", "wT rT rT", add_f32, 0, D, 0},
    {"sub" ROUND_OPT "[.ftz][.sat].f32", "wT rT rT", sub_f32, 0, D, 0},
    {"mul" ROUND_OPT "[.ftz][.sat].f32", "wT rT rT", mul_f32, 0, D, 0},
    {"fma" ROUND "[.ftz][.sat].f32", "wT rT rT rT", fma_f32, 0, D, 0},
    {"mad" ROUND "[.ftz][.sat].f32", "wT rT rT rT", fma_f32, 0, D, 0},
    {"add" ROUND_OPT ".f64", "wT rT rT", add_f64, 0, D, 0},
    {"sub" ROUND_OPT ".f64", "wT rT rT", sub_f64, 0, D, 0},
    {"mul" ROUND_OPT ".f64", "wT rT rT", mul_f64, 0, D, 0},
    {"fma" ROUND ".f64", "wT rT rT rT", fma_f64, 0, D, 0},
    {"mad" ROUND ".f64", "wT rT rT rT", fma_f64, 0, D, 0},
    {"add" ROUND_OPT "[.ftz].f32x2", "wT rT rT", add_f32x2, FORM_sm100, D, 0},
    {"sub" ROUND_OPT "[.ftz].f32x2", "wT rT rT", sub_f32x2, FORM_sm100, D, 0},
    {"mul" ROUND_OPT "[.ftz].f32x2", "wT rT rT", mul_f32x2, FORM_sm100, D, 0},
    {"fma" ROUND "[.ftz].f32x2", "wT rT rT rT", fma_f32x2, FORM_sm100, D, 0},
    {"add" ROUND_OPT "[.sat].f32{.f16|.bf16}", "wT1 rT2 rT1", add_mixed, FORM_sm100, D, 0},
    {"sub" ROUND_OPT "[.sat].f32{.f16|.bf16}", "wT1 rT2 rT1", sub_mixed, FORM_sm100, D, 0},
    {"fma" ROUND "[.sat].f32{.f16|.bf16}", "wT1 rT2 rT2 rT1", fma_mixed, FORM_sm100, D, 0},
    {"div" ROUND "[.ftz].f32", "wT rT rT", div_f32, 0, D, 0},
    {"div.approx[.ftz].f32", "wT rT rT", div_approx, 0, "definition, accurately rounded", 0},
    {"div.full[.ftz].f32", "wT rT rT", div_f32, 0, "definition, accurately rounded", 0},
    {"div" ROUND ".f64", "wT rT rT", div_f64, 0, D, 0},
    {"rcp" ROUND "[.ftz].f32", "wT rT", rcp_f32, 0, D, 0},
    {"rcp.approx[.ftz].f32", "wT rT", rcp_f32, 0, "definition, accurately rounded", 0},
    {"rcp" ROUND ".f64", "wT rT", rcp_f64, 0, D, 0},
    {"sqrt" ROUND "[.ftz].f32", "wT rT", sqrt_f32, 0, D, 0},
    {"sqrt.approx[.ftz].f32", "wT rT", sqrt_f32, 0, "definition, accurately rounded", 0},
    {"sqrt" ROUND ".f64", "wT rT", sqrt_f64, 0, D, 0},
    {"min[.ftz][.NaN].f32", "wT rT rT", minmax_f32, 0, D, 0},
    {"max[.ftz][.NaN].f32", "wT rT rT", minmax_f32, 0, D, 0},
    {"min[.ftz][.NaN]{.xorsign}{.abs}.f32", "wT rT rT", minmax_f32, 0, D, 0},
    {"max[.ftz][.NaN]{.xorsign}{.abs}.f32", "wT rT rT", minmax_f32, 0, D, 0},
    {"min[.ftz][.NaN][.abs].f32", "wT rT rT rT", minmax_f32, FORM_sm100, D, 0},
    {"max[.ftz][.NaN][.abs].f32", "wT rT rT rT", minmax_f32, FORM_sm100, D, 0},
    {"min.f64", "wT rT rT", min_f64, 0, D, 0},
    {"max.f64", "wT rT rT", max_f64, 0, D, 0},
    {"neg[.ftz].f32", "wT rT", neg_f32, 0, D, 0},
    {"neg.f64", "wT rT", neg_f64, 0, D, 0},
    {"abs[.ftz].f32", "wT rT", abs_f32, 0, D, 0},
    {"abs.f64", "wT rT", abs_f64, 0, D, 0},
    {"copysign.f32", "wT rT rT", copysign_f32, 0, D, 0},
    {"copysign.f64", "wT rT rT", copysign_f64, 0, D, 0},
    {"testp" TEST ".f32", "wp rT", testp_f32, 0, D, 0},
    {"testp" TEST ".f64", "wp rT", testp_f64, 0, D, 0},
    {0},
};
