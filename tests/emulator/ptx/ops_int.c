/* SPDX-License-Identifier: Apache-2.0
 *
 * Integer arithmetic.  Division by zero, which PTX leaves unspecified, gives all ones as
 * quotient and the dividend as remainder; the most negative number divided by -1 is itself.
 */
#include "ops.h"

typedef unsigned __int128 u128;
typedef __int128 s128;

/* Arithmetic in unsigned types: wrap-around is defined there. */
#define SAME_WIDTH(bits)                                                                           \
  EXEC2(add_u##bits, uint##bits##_t, uint64_t, done_up, a + b)                                     \
  EXEC2(sub_u##bits, uint##bits##_t, uint64_t, done_up, a - b)                                     \
  EXEC2(mul_lo_##bits, uint##bits##_t, uint64_t, done_up, a *b)                                    \
  EXEC3(mad_lo_##bits, uint##bits##_t, uint64_t, done_up, a *b + c)                                \
  EXEC1(neg_##bits, uint##bits##_t, uint64_t, done_up, 0 - a)
SAME_WIDTH(16)
SAME_WIDTH(32)
SAME_WIDTH(64)

/* W is a type with twice the bits of T. */
#define BY_SIGN(tag, U, T, W)                                                                      \
  EXEC2(mul_hi_##tag, U, T, done_any, ((W)a * (W)b) >> (8 * sizeof(T)))                            \
  EXEC3(mad_hi_##tag, U, T, done_any, (U)(((W)a * (W)b) >> (8 * sizeof(T))) + (U)c)                \
  EXEC3(sad_##tag, U, T, done_any, (U)c + (a < b ? (U)b - (U)a : (U)a - (U)b))                     \
  EXEC2(min_##tag, U, T, done_any, a < b ? a : b)                                                  \
  EXEC2(max_##tag, U, T, done_any, a > b ? a : b)
BY_SIGN(u16, uint16_t, uint16_t, uint32_t)
BY_SIGN(s16, uint16_t, int16_t, int32_t)
BY_SIGN(u32, uint32_t, uint32_t, uint64_t)
BY_SIGN(s32, uint32_t, int32_t, int64_t)
BY_SIGN(u64, uint64_t, uint64_t, u128)
BY_SIGN(s64, uint64_t, int64_t, s128)

#define DIVIDE(tag, U, T, overflow)                                                                \
  EXEC2(div_##tag, U, T, done_any, b == 0 ? (U) ~(U)0 : (overflow) ? (U)a : (U)(a / b))            \
  EXEC2(rem_##tag, U, T, done_any, b == 0 ? (U) ~(U)0 : (overflow) ? (U)0 : (U)(a % b))
DIVIDE(u16, uint16_t, uint16_t, false)
DIVIDE(s16, uint16_t, int16_t, false)
DIVIDE(u32, uint32_t, uint32_t, false)
DIVIDE(s32, uint32_t, int32_t, b == -1 && a == INT32_MIN)
DIVIDE(u64, uint64_t, uint64_t, false)
DIVIDE(s64, uint64_t, int64_t, b == -1 && a == INT64_MIN)

EXEC2(mul_wide_u16, uint32_t, uint16_t, done_any, (uint32_t)a *b)
EXEC2(mul_wide_s16, uint32_t, int16_t, done_any, (int32_t)a *b)
EXEC2(mul_wide_u32, uint64_t, uint32_t, done_any, (uint64_t)a *b)
EXEC2(mul_wide_s32, uint64_t, int32_t, done_any, (int64_t)a *b)
/* c is as wide as the result: the sources are narrowed here. */
EXEC3(mad_wide_u16, uint32_t, uint64_t, done_any, (uint64_t)(uint16_t)a *(uint16_t)b + c)
EXEC3(mad_wide_s16, uint32_t, uint64_t, done_any, (uint64_t)((int64_t)(int16_t)a *(int16_t)b) + c)
EXEC3(mad_wide_u32, uint64_t, uint64_t, done_any, (uint64_t)(uint32_t)a *(uint32_t)b + c)
EXEC3(mad_wide_s32, uint64_t, uint64_t, done_any, (uint64_t)((int64_t)(int32_t)a *(int32_t)b) + c)

static inline int32_t sat32(int64_t v) {
  return v > INT32_MAX ? INT32_MAX : v < INT32_MIN ? INT32_MIN : (int32_t)v;
}
EXEC2(add_sat, uint32_t, int32_t, done_any, sat32((int64_t)a + b))
EXEC2(sub_sat, uint32_t, int32_t, done_any, sat32((int64_t)a - b))
EXEC3(mad_hi_sat, uint32_t, int32_t, done_any, sat32((((int64_t)a * b) >> 32) + c))

EXEC1(abs_16, uint16_t, int16_t, done_any, a < 0 ? 0 - (uint32_t)a : (uint32_t)a)
EXEC1(abs_32, uint32_t, int32_t, done_any, a < 0 ? 0 - (uint32_t)a : (uint32_t)a)
EXEC1(abs_64, uint64_t, int64_t, done_any, a < 0 ? 0 - (uint64_t)a : (uint64_t)a)

static inline uint64_t u24(uint32_t a) {
  return a & 0xffffff;
}
static inline int64_t s24(uint32_t a) {
  return (int32_t)(a << 8) >> 8;
}
EXEC2(mul24_lo_u, uint32_t, uint32_t, done_any, u24(a) * u24(b))
EXEC2(mul24_lo_s, uint32_t, uint32_t, done_any, s24(a) * s24(b))
EXEC2(mul24_hi_u, uint32_t, uint32_t, done_any, (u24(a) * u24(b)) >> 16)
EXEC2(mul24_hi_s, uint32_t, uint32_t, done_any, (s24(a) * s24(b)) >> 16)
EXEC3(mad24_lo_u, uint32_t, uint32_t, done_any, u24(a) * u24(b) + c)
EXEC3(mad24_lo_s, uint32_t, uint32_t, done_any, (uint64_t)(s24(a) * s24(b)) + c)
EXEC3(mad24_hi_u, uint32_t, uint32_t, done_any, ((u24(a) * u24(b)) >> 16) + c)
EXEC3(mad24_hi_s, uint32_t, uint32_t, done_any, (uint64_t)((s24(a) * s24(b)) >> 16) + c)
EXEC3(mad24_hi_sat, uint32_t, uint32_t, done_any,
      sat32((int32_t)((s24(a) * s24(b)) >> 16) + (int64_t)(int32_t)c))

/* Two 16-bit halves; E sees x and y of type T. */
#define HALVES(name, T, E)                                                                         \
  static inline uint32_t half_##name(T x, T y) {                                                   \
    return (uint16_t)(E);                                                                          \
  }                                                                                                \
  EXEC2(name, uint32_t, uint32_t, done_any,                                                        \
        half_##name((T)a, (T)b) | half_##name((T)(a >> 16), (T)(b >> 16)) << 16)
HALVES(add_x2, uint16_t, x + y)
HALVES(min_u16x2, uint16_t, x < y ? x : y)
HALVES(max_u16x2, uint16_t, x > y ? x : y)
HALVES(min_s16x2, int16_t, x < y ? x : y)
HALVES(max_s16x2, int16_t, x > y ? x : y)
HALVES(min_s16x2_relu, int16_t, (x < y ? x : y) < 0 ? 0 : (x < y ? x : y))
HALVES(max_s16x2_relu, int16_t, (x > y ? x : y) < 0 ? 0 : (x > y ? x : y))
EXEC2(min_s32_relu, uint32_t, int32_t, done_any, (a < b ? a : b) < 0 ? 0 : (a < b ? a : b))
EXEC2(max_s32_relu, uint32_t, int32_t, done_any, (a > b ? a : b) < 0 ? 0 : (a > b ? a : b))

/* ---- dot products ------------------------------------------------------------- */

static inline int64_t part(uint32_t v, int i, int bits, bool sign) {
  uint32_t x = v >> (i * bits) & (uint32_t)ones((unsigned)bits);
  return sign && x >> (bits - 1) ? (int64_t)x - (1ll << bits) : (int64_t)x;
}

/* first: which pair of b's bytes dp2a takes. */
static enum step dot(struct warp *w, const struct insn *I, uint32_t lanes, int n, int abits,
                     int first) {
  const bool sa = mod_kind((enum mod)I->type[0]) == 's', sb = mod_kind((enum mod)I->type[1]) == 's';
  const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[2]),
                   cc = col_of(w, &I->opd[3]);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  EACH_LANE(l, lanes, int64_t sum = (int64_t)AT(cc, l);
            for (int i = 0; i < n; i++) sum +=
            part((uint32_t)AT(ca, l), i, abits, sa) * part((uint32_t)AT(cb, l), first + i, 8, sb);
            d[l] = (uint32_t)sum;);
  done_any(w, I, lanes);
  return STEP_next;
}
static enum step dp4a(struct warp *w, const struct insn *I, uint32_t lanes) {
  return dot(w, I, lanes, 4, 8, 0);
}
static enum step dp2a(struct warp *w, const struct insn *I, uint32_t lanes) {
  return dot(w, I, lanes, 2, 16, I->mod[0] == MOD_hi ? 2 : 0);
}

/* ---- carry -------------------------------------------------------------------------
 *
 * The loader adds the thread's carry flag as last operand.  Slots of the patterns: 0 .cc. */

enum carry { CARRY_add, CARRY_sub, CARRY_mad_lo, CARRY_mad_hi };

static uint64_t product(uint64_t a, uint64_t b, enum mod type, bool high) {
  switch (type) {
  case MOD_u32:
    return high ? (uint64_t)(uint32_t)a * (uint32_t)b >> 32 : a * b;
  case MOD_s32:
    return high ? (uint64_t)((int64_t)(int32_t)a * (int32_t)b >> 32) : a * b;
  case MOD_u64:
    return high ? (uint64_t)((u128)a * b >> 64) : a * b;
  default:
    return high ? (uint64_t)((s128)(int64_t)a * (int64_t)b >> 64) : a * b;
  }
}

static enum step carried(struct warp *w, const struct insn *I, uint32_t lanes, enum carry op,
                         bool in, bool out) {
  const enum mod type = (enum mod)I->type[0];
  const uint64_t mask = ones(mod_bits(type));
  const bool mad = op >= CARRY_mad_lo;
  const struct opd *flag = &I->opd[I->nopd - 1];
  const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[2]),
                   cc = col_of(w, &I->opd[mad ? 3 : 2]);
  uint64_t *d = reg_of(w, I->opd[0].reg), *cf = reg_of(w, flag->reg);
  uint64_t undef[WARP];
  if (undef_on(w)) {
    /* an operation that does not read the flag is not touched by its definedness */
    struct insn plain = *I;
    plain.nopd = (uint8_t)(I->nopd - !in);
    gather_undef(w, &plain, 1, undef);
  }
  EACH_LANE(l, lanes,
            uint64_t x = mad ? product(AT(ca, l), AT(cb, l), type, op == CARRY_mad_hi) : AT(ca, l);
            uint64_t y = mad ? AT(cc, l) : AT(cb, l); uint64_t c = in ? cf[l] & 1 : 0; u128 r;
            x &= mask; y &= mask; r = op == CARRY_sub ? (u128)x - y - c : (u128)x + y + c;
            d[l] = (uint64_t)r & mask; if (out) cf[l] = (uint64_t)(r >> mod_bits(type)) & 1;);
  if (undef_on(w)) {
    uint64_t *ud = undef_of(w, I->opd[0].reg), *uf = undef_of(w, flag->reg);
    EACH_LANE(l, lanes, ud[l] = undef[l] ? mask : 0; if (out) uf[l] = undef[l] != 0;);
  }
  return STEP_next;
}

#define CARRIED(name, op, in, out)                                                                 \
  static enum step name(struct warp *w, const struct insn *I, uint32_t lanes) {                    \
    return carried(w, I, lanes, op, in, out);                                                      \
  }
CARRIED(add_cc, CARRY_add, false, true)
CARRIED(sub_cc, CARRY_sub, false, true)
CARRIED(addc, CARRY_add, true, I->mod[0] == MOD_cc)
CARRIED(subc, CARRY_sub, true, I->mod[0] == MOD_cc)
CARRIED(mad_cc, I->mod[0] == MOD_hi ? CARRY_mad_hi : CARRY_mad_lo, false, true)
CARRIED(madc, I->mod[0] == MOD_hi ? CARRY_mad_hi : CARRY_mad_lo, true, I->mod[1] == MOD_cc)

/* ---- table ---------------------------------------------------------------------------- */

#define D "definition"
#define SIX(op, operands, prefix)                                                                  \
  {op ".u16", operands, prefix##_u16, 0, D, 0}, {op ".s16", operands, prefix##_s16, 0, D, 0},      \
      {op ".u32", operands, prefix##_u32, 0, D, 0}, {op ".s32", operands, prefix##_s32, 0, D, 0},  \
      {op ".u64", operands, prefix##_u64, 0, D, 0}, {                                              \
    op ".s64", operands, prefix##_s64, 0, D, 0                                                     \
  }
#define THREE(op, operands, prefix)                                                                \
  {op "{.u16|.s16}", operands, prefix##16, 0, D, 0},                                               \
      {op "{.u32|.s32}", operands, prefix##32, 0, D, 0}, {                                         \
    op "{.u64|.s64}", operands, prefix##64, 0, D, 0                                                \
  }

const struct form forms_int[] = {
    THREE("add", "wT rT rT", add_u),
    THREE("sub", "wT rT rT", sub_u),
    {"add.sat.s32", "wT rT rT", add_sat, 0, D, 0},
    {"sub.sat.s32", "wT rT rT", sub_sat, 0, D, 0},
    {"add{.u16x2|.s16x2}", "wT rT rT", add_x2, 0, D, 0},
    THREE("mul.lo", "wT rT rT", mul_lo_),
    SIX("mul.hi", "wT rT rT", mul_hi),
    {"mul.wide.u16", "w32 r16 r16", mul_wide_u16, 0, D, 0},
    {"mul.wide.s16", "w32 r16 r16", mul_wide_s16, 0, D, 0},
    {"mul.wide.u32", "w64 r32 r32", mul_wide_u32, 0, D, 0},
    {"mul.wide.s32", "w64 r32 r32", mul_wide_s32, 0, D, 0},
    THREE("mad.lo", "wT rT rT rT", mad_lo_),
    SIX("mad.hi", "wT rT rT rT", mad_hi),
    {"mad.hi.sat.s32", "wT rT rT rT", mad_hi_sat, 0, D, 0},
    {"mad.wide.u16", "w32 r16 r16 r32", mad_wide_u16, 0, D, 0},
    {"mad.wide.s16", "w32 r16 r16 r32", mad_wide_s16, 0, D, 0},
    {"mad.wide.u32", "w64 r32 r32 r64", mad_wide_u32, 0, D, 0},
    {"mad.wide.s32", "w64 r32 r32 r64", mad_wide_s32, 0, D, 0},
    {"mul24.lo.u32", "wT rT rT", mul24_lo_u, 0, D, 0},
    {"mul24.lo.s32", "wT rT rT", mul24_lo_s, 0, D, 0},
    {"mul24.hi.u32", "wT rT rT", mul24_hi_u, 0, D, 0},
    {"mul24.hi.s32", "wT rT rT", mul24_hi_s, 0, D, 0},
    {"mad24.lo.u32", "wT rT rT rT", mad24_lo_u, 0, D, 0},
    {"mad24.lo.s32", "wT rT rT rT", mad24_lo_s, 0, D, 0},
    {"mad24.hi.u32", "wT rT rT rT", mad24_hi_u, 0, D, 0},
    {"mad24.hi.s32", "wT rT rT rT", mad24_hi_s, 0, D, 0},
    {"mad24.hi.sat.s32", "wT rT rT rT", mad24_hi_sat, 0, D, 0},
    SIX("sad", "wT rT rT rT", sad),
    SIX("div", "wT rT rT", div),
    SIX("rem", "wT rT rT", rem),
    {"abs.s16", "wT rT", abs_16, 0, D, 0},
    {"abs.s32", "wT rT", abs_32, 0, D, 0},
    {"abs.s64", "wT rT", abs_64, 0, D, 0},
    {"neg.s16", "wT rT", neg_16, 0, D, 0},
    {"neg.s32", "wT rT", neg_32, 0, D, 0},
    {"neg.s64", "wT rT", neg_64, 0, D, 0},
    SIX("min", "wT rT rT", min),
    SIX("max", "wT rT rT", max),
    {"min.relu.s32", "wT rT rT", min_s32_relu, 0, D, 0},
    {"max.relu.s32", "wT rT rT", max_s32_relu, 0, D, 0},
    {"min.u16x2", "wT rT rT", min_u16x2, 0, D, 0},
    {"max.u16x2", "wT rT rT", max_u16x2, 0, D, 0},
    {"min.s16x2", "wT rT rT", min_s16x2, 0, D, 0},
    {"max.s16x2", "wT rT rT", max_s16x2, 0, D, 0},
    {"min.relu.s16x2", "wT rT rT", min_s16x2_relu, 0, D, 0},
    {"max.relu.s16x2", "wT rT rT", max_s16x2_relu, 0, D, 0},
    {"min.s16x2.relu", "wT rT rT", min_s16x2_relu, 0, D, 0},
    {"max.s16x2.relu", "wT rT rT", max_s16x2_relu, 0, D, 0},
    {"dp4a{.u32|.s32}{.u32|.s32}", "w32 r32 r32 r32", dp4a, 0, D, 0},
    {"dp2a{.lo|.hi}{.u32|.s32}{.u32|.s32}", "w32 r32 r32 r32", dp2a, 0, D, 0},
    {"add.cc{.u32|.s32|.u64|.s64}", "wT rT rT rp", add_cc, 0, D, 0},
    {"sub.cc{.u32|.s32|.u64|.s64}", "wT rT rT rp", sub_cc, 0, D, 0},
    {"addc[.cc]{.u32|.s32|.u64|.s64}", "wT rT rT rp", addc, 0, D, 0},
    {"subc[.cc]{.u32|.s32|.u64|.s64}", "wT rT rT rp", subc, 0, D, 0},
    {"mad{.lo|.hi}.cc{.u32|.s32|.u64|.s64}", "wT rT rT rT rp", mad_cc, 0, D, 0},
    {"madc{.lo|.hi}[.cc]{.u32|.s32|.u64|.s64}", "wT rT rT rT rp", madc, 0, D, 0},
    {0},
};
