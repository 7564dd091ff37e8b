/* SPDX-License-Identifier: Apache-2.0
 *
 * What scalar and warp instructions compute, one warp at a time, against definitions
 * written here: nothing is shared with the emulator's tables and conversions.
 */
#include <fenv.h>
#include <math.h>
#include <stdio.h>

#include "emu_warp.h"
#include "harness/random.h"
#include "harness/suite.h"

static uint64_t state;
static uint64_t rnd(void) { /* splitmix64 */
  uint64_t z = state += 0x9e3779b97f4a7c15ull;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9ull;
  z = (z ^ z >> 27) * 0x94d049bb133111ebull;
  return z ^ z >> 31;
}
static uint32_t f2u(float f) {
  uint32_t u;
  memcpy(&u, &f, 4);
  return u;
}
static float u2f(uint32_t u) {
  float f;
  memcpy(&f, &u, 4);
  return f;
}
static double u2d(uint64_t u) {
  double d;
  memcpy(&d, &u, 8);
  return d;
}
static uint64_t d2u(double d) {
  uint64_t u;
  memcpy(&u, &d, 8);
  return u;
}

/* Corner values first, then random ones; narrower types take the low bits. */
static uint64_t operand(void) {
  static const uint64_t corner[] = {0,
                                    1,
                                    2,
                                    3,
                                    31,
                                    32,
                                    33,
                                    63,
                                    64,
                                    127,
                                    128,
                                    255,
                                    256,
                                    0x7fff,
                                    0x8000,
                                    0xffff,
                                    0x10000,
                                    0x7fffffff,
                                    0x80000000,
                                    0xffffffff,
                                    0x100000000,
                                    0x7fffffffffffffff,
                                    0x8000000000000000,
                                    ~0ull,
                                    ~1ull};
  uint64_t r = rnd();
  return r % 3 ? rnd() >> (rnd() % 64) : corner[r / 3 % (sizeof corner / sizeof *corner)];
}

/* ---- integers --------------------------------------------------------------------- */

typedef __int128 wide;

static int64_t sx(uint64_t v, int bits) {
  return (int64_t)(v << (64 - bits)) >> (64 - bits);
}
static uint64_t lowbits(wide v, int bits) {
  return bits == 64 ? (uint64_t)v : (uint64_t)v & ((1ull << bits) - 1);
}
/* A value of a type as a mathematical integer. */
static wide number(uint64_t v, int bits, bool sign) {
  return sign ? (wide)sx(v, bits) : (wide)lowbits((wide)v, bits);
}

enum arith {
  ADD,
  SUB,
  MUL_LO,
  MUL_HI,
  MAD_LO,
  MAD_HI,
  DIV,
  REM,
  MIN,
  MAX,
  SAD,
  ABS,
  NEG,
  ADD_SAT,
  SUB_SAT,
  MUL_WIDE,
  MAD_WIDE
};
static const struct {
  const char *op;
  enum arith what;
  int sources;
  bool sign_only;
} ariths[] = {{"add", ADD, 2, 0},       {"sub", SUB, 2, 0},           {"mul.lo", MUL_LO, 2, 0},
              {"mul.hi", MUL_HI, 2, 0}, {"mad.lo", MAD_LO, 3, 0},     {"mad.hi", MAD_HI, 3, 0},
              {"div", DIV, 2, 0},       {"rem", REM, 2, 0},           {"min", MIN, 2, 0},
              {"max", MAX, 2, 0},       {"sad", SAD, 3, 0},           {"abs", ABS, 1, 1},
              {"neg", NEG, 1, 1},       {"mul.wide", MUL_WIDE, 2, 0}, {"mad.wide", MAD_WIDE, 3, 0}};

static uint64_t arith_by_definition(enum arith what, wide a, wide b, wide c, int bits, bool sign) {
  /* 64 x 64 bit unsigned products need the full unsigned 128 bits */
  unsigned __int128 p = (unsigned __int128)a * (unsigned __int128)b;
  wide high = sign ? (wide)p >> bits : (wide)(p >> bits);
  switch (what) {
  case ADD:
    return lowbits(a + b, bits);
  case SUB:
    return lowbits(a - b, bits);
  case MUL_LO:
    return lowbits((wide)p, bits);
  case MUL_HI:
    return lowbits(high, bits);
  case MAD_LO:
    return lowbits((wide)(p + (unsigned __int128)c), bits);
  case MAD_HI:
    return lowbits(high + c, bits);
  case DIV:
    return b == 0 ? lowbits(-1, bits) : lowbits(a / b, bits);
  case REM:
    return b == 0 ? lowbits(-1, bits) : lowbits(a % b, bits); /* H200: all ones */
  case MIN:
    return lowbits(a < b ? a : b, bits);
  case MAX:
    return lowbits(a > b ? a : b, bits);
  case SAD:
    return lowbits((a > b ? a - b : b - a) + c, bits);
  case ABS:
    return lowbits(a < 0 ? -a : a, bits);
  case NEG:
    return lowbits(-a, bits);
  case MUL_WIDE:
    return lowbits((wide)p, 2 * bits);
  default:
    return lowbits((wide)(p + (unsigned __int128)c), 2 * bits);
  }
}

START_TEST(integer_arithmetic) {
  state = bwt_run_seed();
  for (int bits = 16; bits <= 64; bits *= 2)
    for (int sign = 0; sign < 2; sign++) {
      const bool widens = ariths[_i].what == MUL_WIDE || ariths[_i].what == MAD_WIDE;
      if ((ariths[_i].sign_only && !sign) || (widens && bits == 64))
        continue;
      const int out = widens ? 2 * bits : bits;
      char body[256];
      const char *sources[] = {"a", "a, b", widens ? "a, b, c" : "a, b, e"};
      snprintf(body, sizeof body, ".reg .b%d a, b, e; .reg .b%d d, c; %s.%c%d d, %s;", bits, out,
               ariths[_i].op, sign ? 's' : 'u', bits, sources[ariths[_i].sources - 1]);
      struct tiny *t = tiny_new("sm_90a", body);
      uint64_t *a = tiny_reg(t, "a"), *b = ariths[_i].sources > 1 ? tiny_reg(t, "b") : a,
               *c = ariths[_i].sources < 3 ? a : tiny_reg(t, widens ? "c" : "e"),
               *d = tiny_reg(t, "d");
      for (int round = 0; round < 40; round++) {
        for (int l = 0; l < 32; l++) {
          a[l] = lowbits((wide)operand(), bits);
          if (ariths[_i].sources > 1)
            b[l] = lowbits((wide)operand(), bits);
          if (ariths[_i].sources > 2)
            c[l] = lowbits((wide)operand(), out);
        }
        const uint32_t lanes = round % 2 ? (uint32_t)rnd() : ~0u;
        for (int l = 0; l < 32; l++)
          d[l] = 0xdead;
        tiny_run(t, lanes);
        for (int l = 0; l < 32; l++) {
          uint64_t want =
              arith_by_definition(ariths[_i].what, number(a[l], bits, sign),
                                  number(b[l], bits, sign), number(c[l], out, sign), bits, sign);
          BWT_REQUIRE(d[l] == (lanes >> l & 1 ? want : 0xdead),
                      "%s a=%llx b=%llx c=%llx: %llx, not %llx", body, (unsigned long long)a[l],
                      (unsigned long long)b[l], (unsigned long long)c[l], (unsigned long long)d[l],
                      (unsigned long long)want);
        }
      }
      tiny_free(t);
    }
}
END_TEST

/* Multi-word sums through the carry flag equal 128-bit ones. */
START_TEST(carry_chains) {
  state = bwt_run_seed();
  struct tiny *t = tiny_new(
      "sm_90a",
      ".reg .b32 a<4>, b<4>, s<4>, m<4>, z; .reg .b64 x, y, hi, lo;\nmov.u32 z, 0;"
      "add.cc.u32 s0, a0, b0; addc.cc.u32 s1, a1, b1; addc.cc.u32 s2, a2, b2; addc.u32 s3, a3, b3;"
      "sub.cc.u32 m0, a0, b0; subc.cc.u32 m1, a1, b1; subc.cc.u32 m2, a2, b2; subc.u32 m3, a3, b3;"
      "mad.lo.cc.u64 lo, x, y, x; madc.hi.u64 hi, x, y, y;");
  uint64_t *x = tiny_reg(t, "x"), *y = tiny_reg(t, "y");
  for (int round = 0; round < 200; round++) {
    unsigned __int128 a[32], b[32];
    for (int l = 0; l < 32; l++) {
      a[l] = (unsigned __int128)operand() << 64 | operand();
      b[l] = (unsigned __int128)operand() << 64 | operand();
      x[l] = operand();
      y[l] = operand();
      for (int i = 0; i < 4; i++) {
        char name[3] = {'a', (char)('0' + i), 0};
        tiny_reg(t, name)[l] = (uint32_t)(a[l] >> 32 * i);
        name[0] = 'b';
        tiny_reg(t, name)[l] = (uint32_t)(b[l] >> 32 * i);
      }
    }
    tiny_run(t, ~0u);
    for (int l = 0; l < 32; l++) {
      for (int i = 0; i < 4; i++) {
        char name[3] = {'s', (char)('0' + i), 0};
        BWT_SAME(tiny_reg(t, name)[l], (uint32_t)((a[l] + b[l]) >> 32 * i));
        name[0] = 'm';
        BWT_SAME(tiny_reg(t, name)[l], (uint32_t)((a[l] - b[l]) >> 32 * i));
      }
      unsigned __int128 p = (unsigned __int128)x[l] * y[l];
      unsigned __int128 sum = p + x[l] + ((unsigned __int128)y[l] << 64);
      BWT_SAME(tiny_reg(t, "lo")[l], (uint64_t)sum);
      BWT_SAME(tiny_reg(t, "hi")[l], (uint64_t)(sum >> 64));
    }
  }
  tiny_free(t);
}
END_TEST

/* ---- bits, each by a walk over single bits ----------------------------------------------- */

static uint64_t bfe_by_bits(uint64_t a, int pos, int len, int bits, bool sign) {
  uint64_t r = 0;
  int msb = bits - 1;
  int s = !sign || len == 0 ? 0 : (int)(a >> (pos + len - 1 < msb ? pos + len - 1 : msb) & 1);
  for (int i = 0; i <= msb; i++)
    r |= (uint64_t)(i < len && pos + i <= msb ? (int)(a >> (pos + i) & 1) : s) << i;
  return r;
}

START_TEST(bit_fields) {
  state = bwt_run_seed();
  struct tiny *t = tiny_new(
      "sm_90a",
      ".reg .b32 a, b, c, p, n, u, s, i, sl, sr, pr, lp, br, cl, pc, fl, fr, dp; .reg .b64 A, B, "
      "U, S, I;"
      "bfe.u32 u, a, p, n; bfe.s32 s, a, p, n; bfi.b32 i, a, b, p, n;"
      "bfe.u64 U, A, p, n; bfe.s64 S, A, p, n; bfi.b64 I, A, B, p, n;"
      "shl.b32 sl, a, p; shr.s32 sr, a, p; prmt.b32 pr, a, b, c; lop3.b32 lp, a, b, c, 0x96;"
      "brev.b32 br, a; clz.b32 cl, a; popc.b32 pc, a;"
      "shf.l.wrap.b32 fl, a, b, p; shf.r.clamp.b32 fr, a, b, p; dp4a.s32.u32 dp, a, b, c;");
  static const char *const inputs[] = {"a", "b", "c", "p", "n"};
  for (int round = 0; round < 300; round++) {
    for (int l = 0; l < 32; l++) {
      for (int k = 0; k < 5; k++)
        tiny_reg(t, inputs[k])[l] = (uint32_t)operand();
      if (rnd() & 1) { /* positions in range */
        tiny_reg(t, "p")[l] %= 70;
        tiny_reg(t, "n")[l] %= 70;
      }
      tiny_reg(t, "A")[l] = operand();
      tiny_reg(t, "B")[l] = operand();
    }
    tiny_run(t, ~0u);
    for (int l = 0; l < 32; l++) {
#define R(name) tiny_reg(t, name)[l]
      const uint32_t a = (uint32_t)R("a"), b = (uint32_t)R("b"), c = (uint32_t)R("c"),
                     p = (uint32_t)R("p");
      const int pos = (int)(p & 255), len = (int)(R("n") & 255);
      BWT_SAME(R("u"), bfe_by_bits(a, pos, len, 32, false));
      BWT_SAME(R("s"), bfe_by_bits(a, pos, len, 32, true));
      /* 64-bit fields mask neither: position and length as they are, cut to beyond the end */
      const int pos64 = p > 255 ? 255 : (int)p, len64 = R("n") > 255 ? 255 : (int)R("n");
      BWT_SAME(R("U"), bfe_by_bits(R("A"), pos64, len64, 64, false));
      BWT_SAME(R("S"), bfe_by_bits(R("A"), pos64, len64, 64, true));
      uint64_t i32 = b, i64 = R("B");
      for (int k = 0; k < len64 && pos64 + k < 64; k++)
        i64 = (i64 & ~(1ull << (pos64 + k))) | (R("A") >> k & 1) << (pos64 + k);
      for (int k = 0; k < len && pos + k < 64; k++) {
        if (pos + k < 32)
          i32 = (i32 & ~(1ull << (pos + k))) | (uint64_t)(a >> k & 1) << (pos + k);
      }
      BWT_SAME(R("i"), i32);
      BWT_SAME(R("I"), i64);
      BWT_SAME(R("sl"), p > 31 ? 0 : (uint32_t)(a << p));
      BWT_SAME(R("sr"), (uint32_t)((int32_t)a >> (p > 31 ? 31 : p)));
      uint32_t pr = 0, lp = 0, br = 0, cl = 32, pc = 0;
      for (int k = 0; k < 4; k++) {
        uint32_t sel = c >> (4 * k) & 15;
        uint8_t byte = (uint8_t)((sel & 4 ? b : a) >> (8 * (sel & 3)));
        pr |= (uint32_t)(sel & 8 ? (byte & 128 ? 255 : 0) : byte) << (8 * k);
      }
      for (int k = 0; k < 32; k++) {
        lp |= ((a ^ b ^ c) >> k & 1) << k;
        br |= (a >> k & 1) << (31 - k);
        pc += a >> k & 1;
        if (a >> k & 1)
          cl = 31 - (uint32_t)k;
      }
      BWT_SAME(R("pr"), pr);
      BWT_SAME(R("lp"), lp);
      BWT_SAME(R("br"), br);
      BWT_SAME(R("cl"), cl);
      BWT_SAME(R("pc"), pc);
      const uint32_t n = p & 31, m = p > 32 ? 32 : p;
      BWT_SAME(R("fl"), n ? (b << n) | (a >> (32 - n)) : b);
      BWT_SAME(R("fr"), m == 32 ? b : m ? (b << (32 - m)) | (a >> m) : a);
      int64_t dot = (int32_t)c;
      for (int k = 0; k < 4; k++)
        dot += (int)(int8_t)(a >> (8 * k)) * (int)(uint8_t)(b >> (8 * k));
      BWT_SAME(R("dp"), (uint32_t)dot);
    }
  }
  tiny_free(t);
}
END_TEST

/* ---- small formats, exhaustively ------------------------------------------------------------ */

static double f16_value(uint32_t h) {
  const int e = (int)(h >> 10 & 31), m = (int)(h & 1023);
  double v = e == 31 ? (m ? (double)NAN : (double)INFINITY)
             : e     ? ldexp(1024 + m, e - 25)
                     : ldexp(m, -24);
  return h >> 15 ? -v : v;
}

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

/* ---- float arithmetic ---------------------------------------------------------------------------
 */

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

/* ---- warp ------------------------------------------------------------------------------------ */

/* The CUDA guide's words: lanes of a segment of `width`; a source outside leaves the own value. */
static int source_lane(int mode, int lane, int delta, int width, bool *ok) {
  const int start = lane - lane % width;
  int j;
  switch (mode) {
  case 0:
    j = lane - delta;
    *ok = j >= start;
    break;
  case 1:
    j = lane + delta;
    *ok = j < start + width;
    break;
  case 2:
    j = lane ^ delta;
    *ok = j < start + width;
    break;
  default:
    j = start + delta % width;
    *ok = true;
  }
  return *ok ? j : lane;
}

START_TEST(shuffles) {
  static const char *const names[] = {"up", "down", "bfly", "idx"};
  state = bwt_run_seed();
  for (int mode = 0; mode < 4; mode++) {
    char body[128];
    snprintf(body, sizeof body,
             ".reg .b32 a, b, c, d; .reg .pred p; shfl.sync.%s.b32 d|p, a, b, c, -1;", names[mode]);
    struct tiny *t = tiny_new("sm_90a", body);
    for (int width = 1; width <= 32; width *= 2)
      for (int delta = 0; delta < 32; delta++) {
        for (int l = 0; l < 32; l++) {
          R("a") = rnd() & 0xffffffff;
          R("b") = (uint32_t)delta;
          R("c") = (uint32_t)((32 - width) << 8 | (mode == 0 ? 0 : 0x1f));
          tiny_undef(t, "a")[l] = rnd() & 0xff;
        }
        tiny_run(t, ~0u);
        for (int l = 0; l < 32; l++) {
          bool ok;
          const int j = source_lane(mode, l, delta, width, &ok);
          BWT_REQUIRE(R("d") == tiny_reg(t, "a")[j] && R("p") == ok &&
                          tiny_undef(t, "d")[l] == tiny_undef(t, "a")[j],
                      "shfl.%s width %d by %d: lane %d", names[mode], width, delta, l);
        }
      }
    tiny_free(t);
  }
}
END_TEST

START_TEST(votes_and_reductions) {
  state = bwt_run_seed();
  struct tiny *t = tiny_new(
      "sm_100f",
      ".reg .b32 v, m, b, any, sum, mn, mx, x, e, f; .reg .f32 g; .reg .pred p, pa, po, pu, q, "
      "lead;"
      "setp.ne.u32 p, v, 0; vote.sync.ballot.b32 b, p, m; vote.sync.all.pred pa, p, m;"
      "vote.sync.any.pred po, p, m; vote.sync.uni.pred pu, p, m; match.any.sync.b32 any, v, m;"
      "match.all.sync.b32 f|q, v, m; redux.sync.add.s32 sum, v, m; redux.sync.min.s32 mn, v, m;"
      "redux.sync.max.u32 mx, v, m; redux.sync.xor.b32 x, v, m; elect.sync e|lead, m;"
      "mov.b32 g, v; redux.sync.max.NaN.f32 g, g, m;");
  for (int round = 0; round < 500; round++) {
    const uint32_t half = (uint32_t)rnd();
    for (int l = 0; l < 32; l++) { /* two groups in one call */
      R("m") = half >> l & 1 ? half : ~half;
      R("v") = rnd() % 3 ? rnd() % 3 : rnd() & 0xffffffff;
    }
    tiny_run(t, ~0u);
    int leaders = 0;
    for (int l = 0; l < 32; l++) {
      const uint32_t m = (uint32_t)R("m");
      uint32_t ballot = 0, same = 0, sum = 0, mx = 0, x = 0;
      int32_t mn = INT32_MAX;
      float g = -INFINITY;
      bool nan = false;
      for (int j = 0; j < 32; j++) {
        if (!(m >> j & 1))
          continue;
        const uint32_t v = (uint32_t)tiny_reg(t, "v")[j];
        ballot |= (uint32_t)(v != 0) << j;
        same |= (uint32_t)(v == R("v")) << j;
        sum += v;
        x ^= v;
        mx = v > mx ? v : mx;
        mn = (int32_t)v < mn ? (int32_t)v : mn;
        nan |= isnan(u2f(v));
        if (u2f(v) > g)
          g = u2f(v);
      }
      BWT_SAME(R("b"), ballot);
      BWT_SAME(R("pa"), ballot == m);
      BWT_SAME(R("po"), ballot != 0);
      BWT_SAME(R("pu"), ballot == m || ballot == 0);
      BWT_SAME(R("any"), same);
      BWT_SAME(R("f"), same == m ? m : 0);
      BWT_SAME(R("q"), same == m);
      BWT_SAME(R("sum"), sum);
      BWT_SAME(R("mn"), (uint32_t)mn);
      BWT_SAME(R("mx"), mx);
      BWT_SAME(R("x"), x);
      BWT_SAME(R("g"), nan ? 0x7fffffff : f2u(g));
      BWT_REQUIRE(m >> R("e") & 1, "the leader %llu is not in %08x", (unsigned long long)R("e"), m);
      BWT_SAME(R("lead"), R("e") == (uint64_t)l);
      leaders += (int)R("lead");
    }
    ck_assert_int_eq(leaders, half == 0 || half == ~0u ? 1 : 2);
  }
  tiny_free(t);
}
END_TEST

/* ---- undefined bits -------------------------------------------------------------------------- */

START_TEST(undefined_bits_travel) {
  static const struct {
    const char *text; /* r from a (undefined bits ua) and b (defined) */
    uint64_t ua, b, want;
  } rules[] = {
      {"mov.b32 r, a;", 0x10, 0, 0x10},
      {"and.b32 r, a, b;", 0xff, 0x0f, 0x0f},
      {"or.b32 r, a, b;", 0xff, 0x0f, 0xf0},
      {"xor.b32 r, a, b;", 0xff, 0x0f, 0xff},
      {"not.b32 r, a;", 0x81, 0, 0x81},
      {"shl.b32 r, a, 4;", 0xf000000f, 0, 0xf0},
      {"shr.s32 r, a, 4;", 0x80000010, 0, 0xf8000001},
      {"shr.u32 r, a, 4;", 0x80000010, 0, 0x08000001},
      {"prmt.b32 r, a, b, 0x4501;", 0x00ff, 0, 0x0000ff00},
      {"bfe.u32 r, a, 8, 8;", 0x1234, 0, 0x12},
      {"bfi.b32 r, a, b, 8, 4;", 0xff, 0, 0xf00},
      {"add.u32 r, a, b;", 0x100, 1, 0xffffff00},
      {"mul.lo.u32 r, a, b;", 0x100, 3, 0xffffff00},
      {"div.u32 r, a, b;", 0x100, 3, 0xffffffff},
      {"lop3.b32 r, a, b, b, 0xc0;", 0xff, 0x0f, 0x0f}, /* a & b */
      {"{ .reg .b16 h, k; mov.b32 {h, k}, a; mov.b32 r, {k, h}; }", 0xff, 0, 0xff0000},
      {"{ .reg .pred p; setp.eq.u32 p, a, 0; selp.b32 r, 5, 7, p; }", 1, 0, 2},
      {"{ .reg .b64 q; cvt.u64.u32 q, a; cvt.u32.u64 r, q; }", 0x80, 0, 0x80},
      {"cvt.s32.s8 r, a;", 0x80, 0, 0xffffff80},
      {"cvt.u32.u8 r, a;", 0xff00, 0, 0},
      {"{ .reg .b32 c; add.cc.u32 c, a, b; addc.u32 r, b, b; }", 1, 0, 0xffffffff},
  };
  char body[256];
  snprintf(body, sizeof body, ".reg .b32 a, b, r; mov.b32 b, b; %s", rules[_i].text);
  struct tiny *t = tiny_new("sm_90a", body);
  for (int l = 0; l < 32; l++) {
    if (strstr(rules[_i].text, " b"))
      R("b") = rules[_i].b;
    tiny_undef(t, "a")[l] = rules[_i].ua;
    tiny_undef(t, "r")[l] = 0x5555;
  }
  tiny_run(t, ~0u);
  for (int l = 0; l < 32; l++)
    BWT_REQUIRE(tiny_undef(t, "r")[l] == rules[_i].want, "%s: undefined 0x%llx, not 0x%llx",
                rules[_i].text, (unsigned long long)tiny_undef(t, "r")[l],
                (unsigned long long)rules[_i].want);
  tiny_free(t);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("integers", integer_arithmetic, 0, (int)BWT_COUNT(ariths), 20),
      BWT_TEST("integers", carry_chains, 20),
      BWT_TEST("bits", bit_fields, 20),
      BWT_LOOP("formats", small_floats_from_f16, 0, (int)BWT_COUNT(smalls), 60),
      BWT_LOOP("formats", tiny_floats, 0, (int)BWT_COUNT(tinies), 60),
      BWT_TEST("formats", e4m3_from_f32, 20),
      BWT_TEST("formats", tf32_from_f32, 20),
      BWT_TEST("formats", ue8m0_from_f32, 20),
      BWT_TEST("formats", bf16_from_f32, 60),
      BWT_TEST("floats", directed_rounding, 20),
      BWT_TEST("floats", half_arithmetic, 60),
      BWT_TEST("floats", float_special_values, 20),
      BWT_TEST("floats", mixed_precision, 20),
      BWT_TEST("conversions", float_and_integer_conversions, 20),
      BWT_TEST("warp", shuffles, 20),
      BWT_TEST("warp", votes_and_reductions, 20),
      BWT_LOOP("undefined", undefined_bits_travel, 0, 21, 10),
  };
  return bwt_suite_main("emu_ops", tests, BWT_COUNT(tests));
}
