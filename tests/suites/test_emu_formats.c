/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions to and from small float formats, exhaustively where that is possible, against
 * definitions written here: nothing is shared with the emulator's conversions.
 */
#include <math.h>
#include <stdio.h>

#include "emu_numbers.h"
#include "emu_warp.h"
#include "harness/random.h"
#include "harness/suite.h"

/* ---- small formats, exhaustively ------------------------------------------------------------ */

/* Magnitudes of a small format in code order, from its definition. */
struct small {
  const char *name;
  int codes; /* finite magnitudes: 0 .. codes-1 */
  int ebits, mbits;
  uint32_t nan;
};
static double small_value(const struct small *s, int code) {
  const int bias = (1 << (s->ebits - 1)) - 1, e = code >> s->mbits,
            m = code & ((1 << s->mbits) - 1);
  return e ? ldexp(1.0 + ldexp(m, -s->mbits), e - bias) : ldexp(m, 1 - bias - s->mbits);
}
/* The nearest code, the even one of two equally near; what is too large is the largest. */
static uint32_t small_nearest(const struct small *s, double v) {
  if (isnan(v))
    return s->nan;
  const uint32_t sign = signbit(v) ? 1u << (s->ebits + s->mbits) : 0;
  int best = 0;
  for (int c = 1; c < s->codes; c++) {
    double d = fabs(fabs(v) - small_value(s, c)), b = fabs(fabs(v) - small_value(s, best));
    if (d < b || (d == b && !(c & 1)))
      best = c;
  }
  if (isinf(v))
    best = s->codes - 1;
  return sign | (uint32_t)best;
}

static const struct small smalls[] = {{"e4m3x2", 0x7f, 4, 3, 0x7f}, {"e5m2x2", 0x7c, 5, 2, 0x7f}};

START_TEST(small_floats_from_f16) {
  const struct small *s = &smalls[_i];
  char body[256];
  snprintf(body, sizeof body,
           ".reg .b32 a, w; .reg .b16 d, r; cvt.rn.satfinite.%s.f16x2 d, a; "
           "cvt.rn.satfinite.relu.%s.f16x2 r, a;"
           "cvt.rn.f16x2.%s w, d;",
           s->name, s->name, s->name);
  struct tiny *t = tiny_new("sm_90a", body);
  uint64_t *a = tiny_reg(t, "a"), *d = tiny_reg(t, "d"), *r = tiny_reg(t, "r"),
           *w = tiny_reg(t, "w");
  for (uint32_t h = 0; h < 0x10000; h += 32) {
    for (uint32_t l = 0; l < 32; l++)
      a[l] = (h + l) << 16 | ((h + l) ^ 0x8421);
    tiny_run(t, ~0u);
    for (uint32_t l = 0; l < 32; l++) {
      const double upper = f16_value(h + l), lower = f16_value((h + l) ^ 0x8421);
      const uint32_t want = small_nearest(s, upper) << 8 | small_nearest(s, lower);
      BWT_REQUIRE(d[l] == want, "%s of %04x, %04x is %04llx, not %04x", s->name, h + l,
                  (h + l) ^ 0x8421, (unsigned long long)d[l], want);
      const uint32_t relu = small_nearest(s, upper < 0 ? 0 : fabs(upper)) << 8 |
                            small_nearest(s, lower < 0 ? 0 : fabs(lower));
      BWT_SAME(r[l], relu);
      for (int k = 0; k < 2; k++) { /* back to f16: exact */
        const uint32_t code = want >> (8 * k) & 255, half = (uint32_t)(w[l] >> (16 * k)) & 0xffff;
        if ((code & 127) == s->nan)
          BWT_SAME(half, 0x7fff);
        else
          BWT_REQUIRE(f16_value(half) == (code >> 7 ? -1 : 1) * small_value(s, (int)(code & 127)) &&
                          half >> 15 == code >> 7,
                      "%s %02x is f16 %04x", s->name, code, half);
      }
    }
  }
  tiny_free(t);
}
END_TEST

/* Values around every boundary of e4m3, in f32: one ulp to each side of the midpoints. */
START_TEST(e4m3_from_f32) {
  const struct small *s = &smalls[0];
  struct tiny *t =
      tiny_new("sm_90a", ".reg .f32 a, b; .reg .b16 d; cvt.rn.satfinite.e4m3x2.f32 d, a, b;");
  uint64_t *a = tiny_reg(t, "a"), *b = tiny_reg(t, "b"), *d = tiny_reg(t, "d");
  static const float extra[] = {448, 449, 463.9f, 464, 464.1f, 480, 1e30f, INFINITY, NAN, 0};
  for (int c = 0; c + 1 < s->codes; c++) {
    const float mid = (float)((small_value(s, c) + small_value(s, c + 1)) / 2);
    for (int l = 0; l < 32; l++) {
      float v = l < 10 ? extra[l] : u2f(f2u(mid) + (uint32_t)(l - 21));
      a[l] = f2u(v);
      b[l] = f2u(-v);
    }
    tiny_run(t, ~0u);
    for (int l = 0; l < 32; l++)
      BWT_SAME(d[l], small_nearest(s, (double)u2f((uint32_t)a[l])) << 8 |
                         small_nearest(s, (double)u2f((uint32_t)b[l])));
  }
  tiny_free(t);
}
END_TEST

/* The four- and six-bit formats have neither infinity nor NaN: NaN becomes the largest. */
static const struct small tinies[] = {
    {"e2m1x2", 8, 2, 1, 7}, {"e2m3x2", 32, 2, 3, 31}, {"e3m2x2", 32, 3, 2, 31}};

START_TEST(tiny_floats) {
  const struct small *s = &tinies[_i];
  const int bits = 1 + s->ebits + s->mbits, part = bits == 4 ? 4 : 8;
  char body[256];
  snprintf(body, sizeof body,
           ".reg .f32 a, b; .reg .b%d d; .reg .b32 w; cvt.rn.satfinite.%s.f32 d, a, b; "
           "cvt.rn.f16x2.%s w, d;",
           2 * part, s->name, s->name);
  struct tiny *t = tiny_new("sm_100f", body);
  uint64_t *a = tiny_reg(t, "a"), *b = tiny_reg(t, "b"), *d = tiny_reg(t, "d");
  for (int h = 0; h < 0x10000; h += 32) {
    for (int l = 0; l < 32; l++) {
      a[l] = f2u((float)f16_value((uint32_t)(h + l)));
      b[l] = f2u((float)f16_value((uint32_t)(h + l) ^ 0x8421));
    }
    tiny_run(t, ~0u);
    for (int l = 0; l < 32; l++) {
      const uint32_t high = small_nearest(s, (double)u2f((uint32_t)a[l])),
                     low = small_nearest(s, (double)u2f((uint32_t)b[l]));
      BWT_SAME(d[l], high << part | low);
      const double back = f16_value((uint32_t)R("w") & 0xffff);
      const uint32_t code = low & ((1u << (bits - 1)) - 1);
      BWT_REQUIRE(fabs(back) == small_value(s, (int)code) &&
                      signbit(back) == (int)(low >> (bits - 1)),
                  "%s %02x is %a", s->name, low, back);
    }
  }
  tiny_free(t);
}
END_TEST

/* tf32 keeps 10 mantissa bits: the low 13 rounded away. */
START_TEST(tf32_from_f32) {
  state = bwt_run_seed();
  struct tiny *t = tiny_new(
      "sm_100f", ".reg .f32 a; .reg .b32 n, z, w, s; cvt.rna.tf32.f32 n, a; cvt.rz.tf32.f32 z, a;"
                 "cvt.rn.tf32.f32 w, a; cvt.rna.satfinite.tf32.f32 s, a;");
  for (int round = 0; round < 5000; round++) {
    for (int l = 0; l < 32; l++)
      R("a") = (uint32_t)rnd() & (rnd() & 1 ? ~0u : ~0xfffu); /* ties among them */
    tiny_run(t, ~0u);
    for (int l = 0; l < 32; l++) {
      const uint32_t a = (uint32_t)R("a");
      if (isnan(u2f(a)))
        continue;
      const uint32_t away = isinf(u2f(a)) ? a : (a + 0x1000) & ~0x1fffu,
                     even = isinf(u2f(a)) ? a : (a + 0xfff + (a >> 13 & 1)) & ~0x1fffu;
      BWT_SAME(R("n"), away);
      BWT_SAME(R("z"), a & ~0x1fffu);
      BWT_SAME(R("w"), even);
      BWT_SAME(R("s"), (away & 0x7fffffff) == 0x7f800000 ? away - 0x2000 : away);
    }
  }
  tiny_free(t);
}
END_TEST

/* 2^n at or above (rp), at or below (rz) the magnitude, n in -127..127. */
static uint32_t ue8m0_by_search(float x, bool up, bool satfinite) {
  double v = fabs((double)x);
  if (isnan(v))
    return 255;
  if (isinf(v))
    return satfinite ? 254 : 255;
  for (int n = -127; n <= 127; n++) {
    if (up && ldexp(1, n) >= v)
      return (uint32_t)(n + 127);
    if (!up && v < ldexp(1, n + 1))
      return (uint32_t)(n + 127);
  }
  return up && !satfinite ? 255 : 254;
}

START_TEST(ue8m0_from_f32) {
  struct tiny *t =
      tiny_new("sm_100f", ".reg .f32 a, b; .reg .b16 u, us, z, zs, p; .reg .b32 w;"
                          "cvt.rp.ue8m0x2.f32 u, a, b; cvt.rp.satfinite.ue8m0x2.f32 us, a, b;"
                          "cvt.rz.ue8m0x2.f32 z, a, b; cvt.rz.satfinite.ue8m0x2.f32 zs, a, b;"
                          "cvt.rn.bf16x2.ue8m0x2 w, u; cvt.rp.ue8m0x2.bf16x2 p, w;");
  uint64_t *a = tiny_reg(t, "a"), *b = tiny_reg(t, "b");
  for (uint32_t e = 0; e < 256; e++) {
    static const uint32_t m[16] = {0,        1,        2,        0x3fffff, 0x400000, 0x400001,
                                   0x7fffff, 0x7ffffe, 0x200000, 0x123456, 0x600000, 0x000100,
                                   0x1fffff, 0x555555, 0x2aaaaa, 0x700000};
    for (uint32_t l = 0; l < 32; l++) {
      a[l] = e << 23 | m[l & 15] | (l & 16) << 27;
      b[l] = e << 23 | m[(l + 5) & 15];
    }
    tiny_run(t, ~0u);
    for (int l = 0; l < 32; l++) {
      const float x = u2f((uint32_t)a[l]), y = u2f((uint32_t)b[l]);
      BWT_SAME(R("u"), ue8m0_by_search(x, true, false) << 8 | ue8m0_by_search(y, true, false));
      BWT_SAME(R("us"), ue8m0_by_search(x, true, true) << 8 | ue8m0_by_search(y, true, true));
      BWT_SAME(R("z"), ue8m0_by_search(x, false, false) << 8 | ue8m0_by_search(y, false, false));
      BWT_SAME(R("zs"), ue8m0_by_search(x, false, true) << 8 | ue8m0_by_search(y, false, true));
      BWT_SAME(R("p"), R("u")); /* a power of two survives the way through bf16 */
      const uint32_t low = (uint32_t)R("u") & 255;
      if (low != 255)
        BWT_REQUIRE((double)u2f((uint32_t)R("w") << 16) == ldexp(1, (int)low - 127), "ue8m0 %02x",
                    low);
    }
  }
  tiny_free(t);
}
END_TEST

/* bf16 by the integer way: add half an ulp, less one unless the result is odd. */
static uint32_t bf16_nearest(uint32_t x) {
  if ((x & 0x7fffffff) > 0x7f800000)
    return 0x7fff;
  return (x + 0x7fff + (x >> 16 & 1)) >> 16;
}

START_TEST(bf16_from_f32) {
  state = bwt_run_seed();
  struct tiny *t = tiny_new(
      "sm_90a",
      ".reg .f32 a, b, c; .reg .b16 n, z; .reg .b32 p, ps; cvt.rn.bf16.f32 n, a;"
      "cvt.rz.bf16.f32 z, a; cvt.rn.bf16x2.f32 p, a, b; cvt.rn.satfinite.bf16x2.f32 ps, a, b;"
      "cvt.f32.bf16 c, n;");
  uint64_t *a = tiny_reg(t, "a"), *b = tiny_reg(t, "b");
  for (uint32_t h = 0; h < 0x10000; h++) {
    static const uint32_t low[] = {0, 1, 0x7fff, 0x8000, 0x8001, 0xffff, 0x4000, 0xc000};
    for (uint32_t l = 0; l < 32; l++) {
      a[l] = h << 16 | (l < 8 ? low[l] : (uint32_t)rnd() & 0xffff);
      b[l] = (uint32_t)rnd();
    }
    tiny_run(t, ~0u);
    for (int l = 0; l < 32; l++) {
      const uint32_t x = (uint32_t)a[l], y = (uint32_t)b[l], want = bf16_nearest(x),
                     wb = bf16_nearest(y);
      BWT_SAME(R("n"), want);
      BWT_SAME(R("z"), (x & 0x7fffffff) > 0x7f800000 ? 0x7fff : x >> 16);
      BWT_SAME(R("p"), want << 16 | wb);
      BWT_SAME(R("ps") >> 16, (want & 0x7fff) == 0x7f80 ? want - 1 : want);
      if (!isnan(u2f(x)))
        BWT_SAME(R("c"), want << 16);
    }
  }
  tiny_free(t);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("formats", small_floats_from_f16, 0, (int)BWT_COUNT(smalls), 60),
      BWT_LOOP("formats", tiny_floats, 0, (int)BWT_COUNT(tinies), 60),
      BWT_TEST("formats", e4m3_from_f32, 20),
      BWT_TEST("formats", tf32_from_f32, 20),
      BWT_TEST("formats", ue8m0_from_f32, 20),
      BWT_TEST("formats", bf16_from_f32, 60),
  };
  return bwt_suite_main("emu_formats", tests, BWT_COUNT(tests));
}
