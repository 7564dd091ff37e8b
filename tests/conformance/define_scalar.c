/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions of scalar forms that only sm_100 has, and of atomics that ptxas gets wrong.
 * Sums and products are exact in double, or rounded there to odd, before the one rounding.
 */
#include <math.h>

#include "conformance/define.h"
#include "conformance/define_formats.h"

#define OUT(v) out[(v) * n + i]
#define IN(a)  in[(a) * n + i]

static const char modes[4] = {'n', 'z', 'm', 'p'};
#define NAN32 0x7fffffffu

/* a + b in double, rounded to odd, so that rounding it again is one rounding. */
static double odd_sum(double a, double b) {
  double s = a + b;
  if (!isfinite(s) || s == 0)
    return s;
  double t = s - a, error = (a - (s - t)) + (b - t);
  uint64_t bits = bits_of_double(s);
  if (error == 0 || bits & 1)
    return s;
  return double_of((error > 0) == (s > 0) ? bits + 1 : bits - 1);
}

/* An exact zero of two addends: +0, but -0 when rounding down, or of two -0. */
static double sum_of(double a, double b, char mode) {
  double s = odd_sum(a, b);
  if (s == 0 && !(signbit(a) && signbit(b)))
    s = mode == 'm' && !(a == 0 && b == 0 && !signbit(a) && !signbit(b)) ? -0.0 : 0.0;
  return s;
}

static uint32_t to_f32(double v, char mode) {
  return isnan(v) ? NAN32 : format_round(&format_f32, v, mode);
}

static uint32_t saturated(uint32_t f32) {
  float v = float_of(f32);
  return isnan(v) || signbit(v) ? 0 : v > 1 ? 0x3f800000 : f32;
}

static double flushed(double v) {
  return fabs(v) < 0x1p-126 ? copysign(0, v) : v;
}

/* ---- f32 with a narrow operand ------------------------------------------------------ */

/* The order of the kernel's results: rounding (absent first, where it may be), .sat. */
static void mixed(const uint64_t *in, uint64_t n, uint64_t *out, const struct number_format *f,
                  char op) {
  unsigned first = op == 'f' ? 0 : 1;
  for (uint64_t i = 0; i < n; i++)
    for (unsigned r = 0; r < 4 + first; r++) {
      char mode = r < first ? 'n' : modes[r - first];
      double a = format_value(f, (uint32_t)IN(0)), s;
      if (op == 'f')
        s = sum_of(a * format_value(f, (uint32_t)IN(1)), (double)float_of(IN(2)), mode);
      else
        s = sum_of(a, op == '-' ? -(double)float_of(IN(1)) : (double)float_of(IN(1)), mode);
      OUT(2 * r) = to_f32(s, mode);
      OUT(2 * r + 1) = saturated(to_f32(s, mode));
    }
}
#define MIXED(name, f, op)                                                                         \
  static void name(const uint64_t *in, uint64_t n, uint64_t *out) {                                \
    mixed(in, n, out, &(f), op);                                                                   \
  }
MIXED(add_f16, format_f16, '+')
MIXED(sub_f16, format_f16, '-')
MIXED(fma_f16, format_f16, 'f')
MIXED(add_bf16, format_bf16, '+')
MIXED(sub_bf16, format_bf16, '-')
MIXED(fma_bf16, format_bf16, 'f')

/* ---- two f32 ------------------------------------------------------------------------ */

static uint32_t one_of_two(char op, double a, double b, double c, char mode, bool ftz) {
  if (ftz) {
    a = flushed(a);
    b = flushed(b);
    c = flushed(c);
  }
  double s = op == '+'   ? sum_of(a, b, mode)
             : op == '-' ? sum_of(a, -b, mode)
             : op == '*' ? a * b
                         : sum_of(a * b, c, mode);
  if (ftz) /* the result before it is rounded */
    s = flushed(s);
  return to_f32(s, mode);
}

static void pair(const uint64_t *in, uint64_t n, uint64_t *out, char op) {
  unsigned first = op == 'f' ? 0 : 1;
  for (uint64_t i = 0; i < n; i++)
    for (unsigned r = 0; r < 4 + first; r++)
      for (unsigned ftz = 0; ftz < 2; ftz++) {
        uint64_t word = 0;
        for (unsigned half = 0; half < 64; half += 32)
          word |= (uint64_t)one_of_two(op, (double)float_of(IN(0) >> half),
                                       (double)float_of(IN(1) >> half),
                                       op == 'f' ? (double)float_of(IN(2) >> half) : 0,
                                       r < first ? 'n' : modes[r - first], ftz)
                  << half;
        OUT(2 * r + ftz) = word;
      }
}
#define PAIR(name, op)                                                                             \
  static void name(const uint64_t *in, uint64_t n, uint64_t *out) {                                \
    pair(in, n, out, op);                                                                          \
  }
PAIR(add_x2, '+')
PAIR(sub_x2, '-')
PAIR(mul_x2, '*')
PAIR(fma_x2, 'f')

/* ---- minimum and maximum of f32 -------------------------------------------------------- */

static uint32_t choose(uint32_t a, uint32_t b, bool max, bool nan) {
  float x = float_of(a), y = float_of(b);
  if (isnan(x) || isnan(y))
    return nan || (isnan(x) && isnan(y)) ? NAN32 : isnan(x) ? b : a;
  if (x == y) /* -0 is less than +0 */
    return max == (signbit(x) != 0) ? b : a;
  return (x < y) == max ? b : a;
}

static uint32_t prepared(uint32_t v, bool ftz, bool abs) {
  if (ftz && !(v & 0x7f800000))
    v &= 0x80000000;
  return abs ? v & 0x7fffffff : v;
}

static void three(const uint64_t *in, uint64_t n, uint64_t *out, bool max) {
  for (uint64_t i = 0; i < n; i++)
    for (unsigned v = 0; v < 8; v++) { /* .ftz, .NaN, .abs, the last one fastest */
      uint32_t a[3];
      for (int k = 0; k < 3; k++)
        a[k] = prepared((uint32_t)IN((unsigned)k), v & 4, v & 1);
      OUT(v) = choose(choose(a[0], a[1], max, v & 2), a[2], max, v & 2);
    }
}
static void min3(const uint64_t *in, uint64_t n, uint64_t *out) {
  three(in, n, out, false);
}
static void max3(const uint64_t *in, uint64_t n, uint64_t *out) {
  three(in, n, out, true);
}

/* Of a warp; NaNs are skipped unless .NaN. */
static void redux(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++)
    for (unsigned v = 0; v < 8; v++) { /* .min or .max, .abs, .NaN */
      uint32_t r = NAN32;
      bool nan = false;
      for (uint64_t j = i / 32 * 32; j < i / 32 * 32 + 32; j++) {
        uint32_t x = prepared((uint32_t)in[j], false, v & 2);
        nan |= isnan(float_of(x)) != 0;
        r = choose(r, x, v & 4, false);
      }
      OUT(v) = nan && v & 1 ? NAN32 : r;
    }
}

/* ---- conversions ----------------------------------------------------------------------- */

static void tf32(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++)
    for (unsigned v = 0; v < 4; v++) { /* .rn or .rz, .relu */
      double x = (double)float_of(IN(0));
      if (v & 1 && !isnan(x) && !(x > 0))
        x = 0;
      uint32_t code = format_round(&format_tf32, x, v & 2 ? 'z' : 'n');
      if ((code & 0x3ffff) == 0x3fc00) /* .satfinite */
        code--;
      OUT(v) = (uint64_t)code << 13;
    }
}

static uint32_t small_code(const struct number_format *f, double x, bool relu) {
  if (relu && !isnan(x) && !(x > 0))
    x = 0;
  if (isnan(x) && !f->nan) /* no NaN: the largest number, positive */
    return (1u << (f->ebits + f->mbits)) - 1;
  return format_round(f, x, 'n');
}

static void narrow(const uint64_t *in, uint64_t n, uint64_t *out, const struct number_format *f,
                   unsigned shift) {
  for (uint64_t i = 0; i < n; i++)
    for (unsigned v = 0; v < 2; v++)
      OUT(v) = (uint64_t)small_code(f, (double)float_of(IN(0)), v) << shift |
               small_code(f, (double)float_of(IN(1)), v);
}

static void widen(const uint64_t *in, uint64_t n, uint64_t *out, const struct number_format *f,
                  unsigned shift) {
  for (uint64_t i = 0; i < n; i++)
    for (unsigned v = 0; v < 2; v++) {
      uint64_t word = 0;
      for (unsigned half = 0; half < 2; half++) {
        uint32_t code = (uint32_t)(IN(0) >> half * shift) & ((2u << (f->ebits + f->mbits)) - 1);
        double x = format_value(f, code);
        if (v && !(x > 0))
          x = 0;
        word |= (uint64_t)format_round(&format_f16, x, 'n') << 16 * half;
      }
      OUT(v) = word;
    }
}
#define SMALL(name, f, shift)                                                                      \
  static void narrow_##name(const uint64_t *in, uint64_t n, uint64_t *out) {                       \
    narrow(in, n, out, &(f), shift);                                                               \
  }                                                                                                \
  static void widen_##name(const uint64_t *in, uint64_t n, uint64_t *out) {                        \
    widen(in, n, out, &(f), shift);                                                                \
  }
SMALL(e2m3, format_e2m3, 8)
SMALL(e3m2, format_e3m2, 8)
SMALL(e2m1, format_e2m1, 4)

/* 2^(code - 127): the next power of two up (.rp), or down (.rz). */
static uint32_t ue8m0(double x, bool up, bool satfinite) {
  if (isnan(x))
    return 0xff;
  double m = fabs(x);
  if (isinf(m))
    return satfinite ? 0xfe : 0xff;
  int code = 0;
  while (code < 255 && ldexp(1, code - 127) < m)
    code++;
  if (!up && code > 0 && ldexp(1, code - 127) > m)
    code--;
  return satfinite && code > 0xfe ? 0xfe : (uint32_t)code;
}

static void scale_f32(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++)
    for (unsigned v = 0; v < 4; v++)
      OUT(v) = ue8m0((double)float_of(IN(0)), v & 2, v & 1) << 8 |
               ue8m0((double)float_of(IN(1)), v & 2, v & 1);
}
static void scale_bf16(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++)
    for (unsigned v = 0; v < 4; v++)
      OUT(v) = ue8m0(format_value(&format_bf16, (uint32_t)IN(0) >> 16), v & 2, v & 1) << 8 |
               ue8m0(format_value(&format_bf16, (uint32_t)IN(0) & 0xffff), v & 2, v & 1);
}
static void scale_to_bf16(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t word = 0;
    for (unsigned half = 0; half < 2; half++) {
      unsigned code = (unsigned)(IN(0) >> 8 * half) & 255;
      word |= (uint64_t)(code == 255 ? 0x7fff
                                     : format_round(&format_bf16, ldexp(1, (int)code - 127), 'n'))
              << 16 * half;
    }
    OUT(0) = word;
  }
}

/* ---- memory ------------------------------------------------------------------------------ */

#define WIDE_RESULTS 40 /* of ld.st.256 */

static void wide_access(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++)
    for (unsigned v = 0; v < WIDE_RESULTS; v++) /* every access moves the same words */
      OUT(v) = (IN(3) ^ IN(2) << 1) + IN(1) * 5 + IN(0) * 7;
}

static void zeros(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++)
    OUT(0) = i >= 3 && i < 67 ? 0 : IN(0);
}

static void true6(const uint64_t *in, uint64_t n, uint64_t *out) {
  (void)in;
  for (uint64_t i = 0; i < 6 * n; i++)
    out[i] = 1;
}

/* atom, red .add.noftz of packed pairs: the old value, the new one, the new one. */
static void packed_add(const uint64_t *in, uint64_t n, uint64_t *out,
                       const struct number_format *f) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t sum = 0;
    for (unsigned half = 0; half < 32; half += 16) {
      double a = format_value(f, (uint32_t)(IN(0) >> half) & 0xffff),
             b = format_value(f, (uint32_t)(IN(1) >> half) & 0xffff);
      sum |= (uint64_t)format_round(f, sum_of(a, b, 'n'), 'n') << half;
    }
    OUT(0) = IN(0);
    OUT(1) = OUT(2) = sum;
  }
}
static void packed_f16(const uint64_t *in, uint64_t n, uint64_t *out) {
  packed_add(in, n, out, &format_f16);
}
static void packed_bf16(const uint64_t *in, uint64_t n, uint64_t *out) {
  packed_add(in, n, out, &format_bf16);
}

const struct definition definitions_scalar[] = {
    {"add.f32.f16", add_f16},
    {"sub.f32.f16", sub_f16},
    {"fma.f32.f16", fma_f16},
    {"add.f32.bf16", add_bf16},
    {"sub.f32.bf16", sub_bf16},
    {"fma.f32.bf16", fma_bf16},
    {"add.f32x2", add_x2},
    {"sub.f32x2", sub_x2},
    {"mul.f32x2", mul_x2},
    {"fma.f32x2", fma_x2},
    {"min3.f32", min3},
    {"max3.f32", max3},
    {"redux.sync.f32", redux},
    {"cvt.tf32.satfinite", tf32},
    {"cvt.e2m3x2.f32", narrow_e2m3},
    {"cvt.e3m2x2.f32", narrow_e3m2},
    {"cvt.e2m1x2.f32", narrow_e2m1},
    {"cvt.f16x2.e2m3x2", widen_e2m3},
    {"cvt.f16x2.e3m2x2", widen_e3m2},
    {"cvt.f16x2.e2m1x2", widen_e2m1},
    {"cvt.ue8m0x2.f32", scale_f32},
    {"cvt.ue8m0x2.bf16x2", scale_bf16},
    {"cvt.bf16x2.ue8m0x2", scale_to_bf16},
    {"ld.st.256", wide_access},
    {"st.bulk", zeros},
    {"st.async.global", true6},
    {"atom.shared.f16x2", packed_f16},
    {"atom.shared_cta.f16x2", packed_f16},
    {"atom.shared_cluster.f16x2", packed_f16},
    {"atom.shared.bf16x2", packed_bf16},
    {"atom.shared_cta.bf16x2", packed_bf16},
    {"atom.shared_cluster.bf16x2", packed_bf16},
    {NULL, NULL},
};
