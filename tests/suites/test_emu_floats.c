/* SPDX-License-Identifier: Apache-2.0
 *
 * What float arithmetic and conversions between integers and floats compute, one warp at a
 * time, against definitions written here: nothing is shared with the emulator's.
 */
#include <math.h>
#include <stdio.h>

#include "emu_numbers.h"
#include "emu_warp.h"
#include "harness/random.h"
#include "harness/suite.h"

/* ---- float arithmetic ----------------------------------------------------- */

/* A double that a f32 operation with inputs of near exponents has exactly, rounded. */
static float rounded(double v, char mode) {
  float f = (float)v;
  if ((double)f == v)
    return f;
  bool toward_zero = mode == 'z', up = mode == 'p';
  if (toward_zero)
    up = v < 0;
  if (up && (double)f < v)
    return nextafterf(f, INFINITY);
  if (!up && (double)f > v)
    return nextafterf(f, -INFINITY);
  return f;
}

START_TEST(directed_rounding) {
  state = bwt_run_seed();
  struct tiny *t = tiny_new(
      "sm_100f",
      ".reg .f32 a, b, c, az, am, ap, mz, mm, mp, fz, an; .reg .b64 x, y, s;"
      "add.rz.f32 az, a, b; add.rm.f32 am, a, b; add.rp.f32 ap, a, b; add.f32 an, a, b;"
      "mul.rz.f32 mz, a, b; mul.rm.f32 mm, a, b; mul.rp.f32 mp, a, b; fma.rz.f32 fz, a, b, c;"
      "mov.b64 x, {a, b}; mov.b64 y, {b, c}; add.rm.f32x2 s, x, y;");
  for (int round = 0; round < 2000; round++) {
    for (int l = 0; l < 32; l++) {
      R("a") = f2u(ldexpf((float)(int32_t)rnd(), -31 + (int)(rnd() % 8))) & 0xffffffff;
      R("b") = f2u(ldexpf((float)(int32_t)rnd(), -31 + (int)(rnd() % 8)));
      R("c") = f2u(ldexpf((float)(int32_t)rnd() / 65536, -16));
      R("c") &= 0xffffff00; /* few enough bits that a*b + c fits a double in most cases */
    }
    tiny_run(t, ~0u);
    for (int l = 0; l < 32; l++) {
      const double a = (double)u2f((uint32_t)R("a")), b = (double)u2f((uint32_t)R("b")),
                   c = (double)u2f((uint32_t)R("c"));
      BWT_SAME(R("az"), f2u(rounded(a + b, 'z')));
      BWT_SAME(R("am"), f2u(rounded(a + b, 'm')));
      BWT_SAME(R("ap"), f2u(rounded(a + b, 'p')));
      BWT_SAME(R("mz"), f2u(rounded(a * b, 'z')));
      BWT_SAME(R("mm"), f2u(rounded(a * b, 'm')));
      BWT_SAME(R("mp"), f2u(rounded(a * b, 'p')));
      BWT_SAME(R("an"), f2u((float)(a + b)));
      BWT_SAME(R("s") & 0xffffffff, f2u(rounded(a + b, 'm')));
      BWT_SAME(R("s") >> 32, f2u(rounded(b + c, 'm')));
      const long double exact = (long double)(a * b) + (long double)c;
      if ((long double)(double)exact == exact)
        BWT_SAME(R("fz"), f2u(rounded((double)exact, 'z')));
    }
  }
  tiny_free(t);
}
END_TEST

/* f16 fma over exact integers: everything is a multiple of 2^-48. */
static uint32_t f16_from_units(wide v, bool zero_negative) {
  const bool neg = v < 0 || (v == 0 && zero_negative);
  unsigned __int128 m = (unsigned __int128)(v < 0 ? -v : v);
  int shift = 24; /* subnormals: units of 2^-24 */
  while (m >> shift >= 2048)
    shift++;
  uint64_t q = (uint64_t)(m >> shift);
  unsigned __int128 rest = m & (((unsigned __int128)1 << shift) - 1),
                    half = (unsigned __int128)1 << (shift - 1);
  q += rest > half || (rest == half && (q & 1));
  /* q * 2^(shift-48): code = q in the first binade, then 1024 a binade */
  uint64_t code = (uint64_t)(shift - 24) * 1024 + q;
  if (code > 0x7c00)
    code = 0x7c00;
  return (uint32_t)code | (neg ? 0x8000u : 0);
}
static wide f16_units(uint32_t h) { /* of 2^-24 */
  const int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
  wide v = e ? (wide)(1024 + m) << (e - 1) : m;
  return h >> 15 ? -v : v;
}

START_TEST(half_arithmetic) {
  state = bwt_run_seed();
  struct tiny *t =
      tiny_new("sm_90a", ".reg .b16 a, b, c, s, m, f; .reg .b32 p, q, r;"
                         "add.f16 s, a, b; mul.rn.f16 m, a, b; fma.rn.f16 f, a, b, c;"
                         "mov.b32 p, {a, c}; mov.b32 q, {b, a}; add.rn.f16x2 r, p, q;");
  for (int round = 0; round < 20000; round++) {
    for (int l = 0; l < 32; l++) {
      do
        R("a") = rnd() & 0xffff;
      while ((R("a") & 0x7c00) == 0x7c00);
      do
        R("b") = rnd() & 0xffff;
      while ((R("b") & 0x7c00) == 0x7c00);
      do
        R("c") = rnd() & 0xffff;
      while ((R("c") & 0x7c00) == 0x7c00);
    }
    tiny_run(t, ~0u);
    for (int l = 0; l < 32; l++) {
      const uint32_t a = (uint32_t)R("a"), b = (uint32_t)R("b"), c = (uint32_t)R("c");
      const wide x = f16_units(a), y = f16_units(b), z = f16_units(c);
      const bool sign = (a ^ b) >> 15;
      BWT_SAME(R("s"), f16_from_units((x + y) * ((wide)1 << 24), a >> 15 && b >> 15));
      BWT_SAME(R("m"), f16_from_units(x * y, sign));
      BWT_SAME(R("f"), f16_from_units(x * y + z * ((wide)1 << 24), sign && c >> 15 && x * y == 0));
      BWT_SAME(R("r") & 0xffff, R("s"));
      BWT_SAME(R("r") >> 16, f16_from_units((z + x) * ((wide)1 << 24), c >> 15 && a >> 15));
    }
  }
  tiny_free(t);
}
END_TEST

START_TEST(float_special_values) {
  static const uint32_t v[] = {0,          0x80000000, 1,          0x80000001, 0x007fffff,
                               0x3f800000, 0xbf800000, 0x7f7fffff, 0x7f800000, 0xff800000,
                               0x7fc00000, 0xffc12345, 0x7f800001};
  const int n = (int)(sizeof v / sizeof *v);
  struct tiny *t =
      tiny_new("sm_100f",
               ".reg .f32 a, b, s, z, sat, mn, mx, mxn, m3, xs, ng; .reg .pred lt, ltu, nan, p, q;"
               "add.f32 s, a, b; add.ftz.f32 z, a, b; mul.sat.f32 sat, a, b; min.f32 mn, a, b; "
               "max.f32 mx, a, b;"
               "max.NaN.f32 mxn, a, b; max.abs.f32 m3, a, b, a; min.xorsign.abs.f32 xs, a, b; "
               "neg.ftz.f32 ng, a;"
               "setp.lt.f32 lt, a, b; setp.ltu.f32 ltu, a, b; setp.nan.f32 nan, a, b; "
               "setp.eq.or.f32 p|q, a, b, lt;");
  for (int i = 0; i < n; i++) {
    for (int l = 0; l < 32; l++) {
      R("a") = v[i];
      R("b") = v[l % n];
    }
    tiny_run(t, ~0u);
    for (int l = 0; l < n; l++) {
      const uint32_t ua = v[i], ub = v[l];
      const float a = u2f(ua), b = u2f(ub);
      const bool na = isnan(a), nb = isnan(b);
#define CANON(x) (isnan(x) ? 0x7fffffffu : f2u(x))
      BWT_SAME(R("s"), CANON(a + b));
      const float fa = fpclassify(a) == FP_SUBNORMAL ? copysignf(0, a) : a,
                  fb = fpclassify(b) == FP_SUBNORMAL ? copysignf(0, b) : b;
      BWT_SAME(R("z"), CANON(fa + fb));
      const float product = a * b;
      BWT_SAME(R("sat"), f2u(isnan(product) || product <= 0 ? 0 : product > 1 ? 1 : product));
      uint32_t mn, mx;
      if (na || nb)
        mn = mx = na && nb ? 0x7fffffffu : na ? ub : ua;
      else if (a == 0 && b == 0) {
        mn = ua | ub;
        mx = ua & ub;
      } else {
        mn = a < b ? ua : ub;
        mx = a < b ? ub : ua;
      }
      BWT_SAME(R("mn"), mn);
      BWT_SAME(R("mx"), mx);
      BWT_SAME(R("mxn"), na || nb ? 0x7fffffffu : mx);
      const uint32_t aa = ua & 0x7fffffff, ab = ub & 0x7fffffff;
      BWT_SAME(R("m3"), na && nb ? 0x7fffffffu : na ? ab : nb ? aa : aa > ab ? aa : ab);
      if (!na || !nb)
        BWT_SAME(R("xs"), (na ? ab : nb ? aa : aa < ab ? aa : ab) | ((ua ^ ub) & 0x80000000));
      BWT_SAME(R("ng"), na ? 0x7fffffffu : f2u(fa) ^ 0x80000000);
      BWT_SAME(R("lt"), a < b);
      BWT_SAME(R("ltu"), !(a >= b));
      BWT_SAME(R("nan"), na || nb);
      BWT_SAME(R("p"), a == b || a < b);
      BWT_SAME(R("q"), !(a == b) || a < b);
    }
  }
  tiny_free(t);
}
END_TEST

/* fma.rn.f32.bf16 and its kin: operands widened exactly, one rounding. */
START_TEST(mixed_precision) {
  state = bwt_run_seed();
  struct tiny *t = tiny_new("sm_100f", ".reg .b16 a, b; .reg .f32 c, f, g, s, d;"
                                       "fma.rn.f32.bf16 f, a, b, c; fma.rn.f32.f16 g, a, b, c;"
                                       "add.rn.f32.bf16 s, a, c; sub.rn.f32.f16 d, a, c;");
  for (int round = 0; round < 3000; round++) {
    for (int l = 0; l < 32; l++) {
      R("a") = rnd() & 0xffff;
      R("b") = rnd() & 0xffff;
      R("c") = rnd() & 1 ? (uint32_t)rnd() : f2u((float)ldexp(1.5, (int)(rnd() % 40) - 20));
    }
    tiny_run(t, ~0u);
    for (int l = 0; l < 32; l++) {
      const float a = u2f((uint32_t)R("a") << 16), b = u2f((uint32_t)R("b") << 16),
                  c = u2f((uint32_t)R("c"));
      const float ha = (float)f16_value((uint32_t)R("a")), hb = (float)f16_value((uint32_t)R("b"));
      BWT_SAME(R("f"), CANON(fmaf(a, b, c)));
      BWT_SAME(R("g"), CANON(fmaf(ha, hb, c)));
      BWT_SAME(R("s"), CANON(a + c));
      BWT_SAME(R("d"), CANON(ha - c));
    }
  }
  tiny_free(t);
}
END_TEST

/* ---- conversions of integers and floats ------------------------------------------------------ */

START_TEST(float_and_integer_conversions) {
  state = bwt_run_seed();
  struct tiny *t = tiny_new("sm_90a", ".reg .b64 x; .reg .f64 d; .reg .b32 w, s8, sat; .reg .f32 "
                                      "f, fz, back; .reg .b64 l, u; .reg .b32 i, r;"
                                      ".reg .b16 h;"
                                      "cvt.rn.f32.s64 f, x; cvt.rz.f32.u64 fz, x; cvt.rzi.s64.f64 "
                                      "l, d; cvt.rmi.u64.f64 u, d; cvt.rni.s32.f64 i, d;"
                                      "cvt.s32.s8 s8, w; cvt.sat.u8.s32 sat, w; cvt.rpi.s32.f32 r, "
                                      "f; cvt.rn.f32.f64 back, d; cvt.rn.f16.f64 h, d;");
  for (int round = 0; round < 3000; round++) {
    for (int l = 0; l < 32; l++) {
      R("x") = operand();
      R("w") = (uint32_t)operand();
      R("d") = rnd() % 4 ? d2u(ldexp((double)(int64_t)rnd(), -(int)(rnd() % 80))) : operand();
    }
    tiny_run(t, ~0u);
    for (int l = 0; l < 32; l++) {
      const double d = u2d(R("d"));
      BWT_SAME(R("f"), f2u((float)(int64_t)R("x")));
      const float near = (float)R("x"); /* toward zero: not above */
      const float down = (long double)near > (long double)R("x") ? nextafterf(near, 0) : near;
      BWT_SAME(R("fz"), f2u(down));
      const long double tr = truncl((long double)d), fl = floorl((long double)d),
                        rn = rintl((long double)d);
      /* NaN as an H200 converts it */
      BWT_SAME(R("l"), isnan(d)        ? 1ull << 63
                       : tr >= 0x1p63L ? (uint64_t)INT64_MAX
                       : tr < -0x1p63L ? (uint64_t)INT64_MIN
                                       : (uint64_t)(int64_t)tr);
      BWT_SAME(R("u"), isnan(d)        ? 1ull << 63
                       : fl <= 0       ? 0
                       : fl >= 0x1p64L ? UINT64_MAX
                                       : (uint64_t)fl);
      BWT_SAME(R("i"), isnan(d)        ? 0x80000000u
                       : rn >= 0x1p31L ? (uint32_t)INT32_MAX
                       : rn < -0x1p31L ? (uint32_t)INT32_MIN
                                       : (uint32_t)(int32_t)rn);
      BWT_SAME(R("s8"), (uint32_t)(int32_t)(int8_t)R("w"));
      const int32_t w = (int32_t)R("w");
      BWT_SAME(R("sat"), (uint32_t)(w < 0 ? 0 : w > 255 ? 255 : w));
      BWT_SAME(R("back"), isnan(d) ? (R("d") >> 63 << 31 | 0x7fc00000 | (R("d") >> 29 & 0x7fffff))
                                   : f2u((float)d));
      if (!isnan(d) && fabs(d) < 65519 && fabs(d) >= 0x1p-24) { /* within half an ulp */
        const double h = f16_value((uint32_t)R("h")), ulp = fmax(0x1p-24, ldexp(1, ilogb(d) - 10));
        BWT_REQUIRE(fabs(h - d) <= ulp / 2, "f16 of %a is %a", d, h);
      }
    }
  }
  tiny_free(t);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("floats", directed_rounding, 20),
      BWT_TEST("floats", half_arithmetic, 60),
      BWT_TEST("floats", float_special_values, 20),
      BWT_TEST("floats", mixed_precision, 20),
      BWT_TEST("conversions", float_and_integer_conversions, 20),
  };
  return bwt_suite_main("emu_floats", tests, BWT_COUNT(tests));
}
