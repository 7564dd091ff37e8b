/* SPDX-License-Identifier: Apache-2.0
 *
 * What instructions on integers, bits and the lanes of a warp compute, one warp at a time,
 * against definitions written here: nothing is shared with the emulator's tables.
 */
#include <stdio.h>

#include "emu_numbers.h"
#include "emu_warp.h"
#include "harness/random.h"
#include "harness/suite.h"

/* ---- integers --------------------------------------------------------------------- */

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
      BWT_TEST("warp", shuffles, 20),
      BWT_TEST("warp", votes_and_reductions, 20),
      BWT_LOOP("undefined", undefined_bits_travel, 0, 21, 10),
  };
  return bwt_suite_main("emu_ops", tests, BWT_COUNT(tests));
}
