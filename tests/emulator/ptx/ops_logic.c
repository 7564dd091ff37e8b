/* SPDX-License-Identifier: Apache-2.0
 *
 * Bits: logic, shifts, fields, permutations.  Undefined bits travel exactly: a bit of the
 * result is undefined if some choice of the undefined bits it depends on changes it, for
 * the operations where that can be told from the masks; amounts and positions that are
 * undefined make the whole result undefined.
 */
#include "ops.h"

/* ---- and, or, xor, not --------------------------------------------------------- */

enum logic { LOGIC_and, LOGIC_or, LOGIC_xor };

static inline uint64_t logic_undef(enum logic op, uint64_t a, uint64_t b, uint64_t ua,
                                   uint64_t ub) {
  switch (op) {
  case LOGIC_and:
    return (ua & ub) | (ua & b & ~ub) | (ub & a & ~ua);
  case LOGIC_or:
    return (ua & ub) | (ua & ~b & ~ub) | (ub & ~a & ~ua);
  default:
    return ua | ub;
  }
}

static inline enum step logic(struct warp *w, const struct insn *I, uint32_t lanes, enum logic op) {
  const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[2]);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  if (undef_on(w)) {
    struct col ua, ub;
    ua.v = opd_undef(w, &I->opd[1], &ua.s);
    ub.v = opd_undef(w, &I->opd[2], &ub.s);
    uint64_t *u = undef_of(w, I->opd[0].reg);
    EACH_LANE(l, lanes, u[l] = logic_undef(op, AT(ca, l), AT(cb, l), AT(ua, l), AT(ub, l)););
  }
  switch (op) {
  case LOGIC_and:
    EACH_LANE(l, lanes, d[l] = AT(ca, l) & AT(cb, l););
    break;
  case LOGIC_or:
    EACH_LANE(l, lanes, d[l] = AT(ca, l) | AT(cb, l););
    break;
  default:
    EACH_LANE(l, lanes, d[l] = AT(ca, l) ^ AT(cb, l););
  }
  return STEP_next;
}
static enum step exec_and(struct warp *w, const struct insn *I, uint32_t lanes) {
  return logic(w, I, lanes, LOGIC_and);
}
static enum step exec_or(struct warp *w, const struct insn *I, uint32_t lanes) {
  return logic(w, I, lanes, LOGIC_or);
}
static enum step exec_xor(struct warp *w, const struct insn *I, uint32_t lanes) {
  return logic(w, I, lanes, LOGIC_xor);
}

static enum step exec_not(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct col ca = col_of(w, &I->opd[1]);
  const uint64_t mask = ones(I->opd[0].bits);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  EACH_LANE(l, lanes, d[l] = ~AT(ca, l) & mask;);
  if (undef_on(w)) {
    struct col ua;
    ua.v = opd_undef(w, &I->opd[1], &ua.s);
    uint64_t *u = undef_of(w, I->opd[0].reg);
    EACH_LANE(l, lanes, u[l] = AT(ua, l););
  }
  return STEP_next;
}

EXEC1(cnot, uint64_t, uint64_t, done_any, a == 0)

/* ---- lop3 ------------------------------------------------------------------------ */

static inline uint32_t lut(uint32_t a, uint32_t b, uint32_t c, unsigned table) {
  uint32_t r = 0;
  for (unsigned i = 0; i < 8; i++)
    if (table >> i & 1)
      r |= (i & 4 ? a : ~a) & (i & 2 ? b : ~b) & (i & 1 ? c : ~c);
  return r;
}

/* A bit is undefined unless all choices of its undefined sources agree. */
static uint32_t lut_undef(uint32_t a, uint32_t b, uint32_t c, uint32_t ua, uint32_t ub, uint32_t uc,
                          unsigned table) {
  uint32_t zero = ~0u, one = ~0u;
  for (unsigned i = 0; i < 8; i++) {
    uint32_t r = lut(i & 4 ? a ^ ua : a, i & 2 ? b ^ ub : b, i & 1 ? c ^ uc : c, table);
    one &= r;
    zero &= ~r;
  }
  return ~(zero | one);
}

/* Slot 0, when the row has one: .or or .and of the predicate that is operand 5. */
static enum step lop3(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  const unsigned table = (unsigned)o[4].imm;
  const bool pred = o[0].pair >= 0;
  EACH_LANE(
      l, lanes, uint32_t a = (uint32_t)opd_get(w, &o[1], l), b = (uint32_t)opd_get(w, &o[2], l),
      c = (uint32_t)opd_get(w, &o[3], l), u = 0;
      if (undef_on(w)) u = lut_undef(a, b, c, (uint32_t)opd_get_undef(w, &o[1], l),
                                     (uint32_t)opd_get_undef(w, &o[2], l),
                                     (uint32_t)opd_get_undef(w, &o[3], l), table);
      uint32_t r = lut(a, b, c, table); if (pred) {
        bool q = opd_get(w, &o[5], l) != 0;
        uint64_t uq = opd_get_undef(w, &o[5], l);
        struct opd p = {.kind = OPD_reg, .bits = 1, .reg = o[0].pair};
        bool unknown = u && !(r & ~u); /* no defined bit is set, some bit is undefined */
        bool and = I->mod[0] == MOD_and;
        opd_set(w, &p, l, and? (r != 0) && q : (r != 0) || q,
                logic_undef(and? LOGIC_and : LOGIC_or, r != 0, q, unknown, uq & 1));
      } opd_set(w, &o[0], l, r, u););
  return STEP_next;
}

static const char *check_lut(const struct insn *I) {
  if (I->nopd > 5 && I->opd[0].pair < 0)
    return "lop3 with a predicate source has a predicate destination, d|p";
  return I->opd[4].imm > 255 ? "the look-up table of lop3 is 0 .. 255" : NULL;
}

/* ---- shifts ------------------------------------------------------------------------ */

/* f(value, amount) shifts values and, with `fill` for what comes in, their masks. */
static inline uint64_t shift_left(uint64_t v, uint32_t n, unsigned bits) {
  return n >= bits ? 0 : (v << n) & ones(bits);
}
static inline uint64_t shift_right(uint64_t v, uint32_t n, unsigned bits) {
  return n >= bits ? 0 : v >> n;
}
static inline uint64_t shift_right_signed(uint64_t v, uint32_t n, unsigned bits) {
  int64_t s = (int64_t)(v << (64 - bits)) >> (64 - bits);
  return (uint64_t)(s >> (n >= bits ? bits - 1 : n)) & ones(bits);
}

#define SHIFT(name, f)                                                                             \
  static enum step name(struct warp *w, const struct insn *I, uint32_t lanes) {                    \
    const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[2]);                       \
    const unsigned bits = I->opd[0].bits;                                                          \
    uint64_t *d = reg_of(w, I->opd[0].reg);                                                        \
    if (undef_on(w)) {                                                                             \
      struct col ua, ub;                                                                           \
      ua.v = opd_undef(w, &I->opd[1], &ua.s);                                                      \
      ub.v = opd_undef(w, &I->opd[2], &ub.s);                                                      \
      uint64_t *u = undef_of(w, I->opd[0].reg);                                                    \
      EACH_LANE(l, lanes,                                                                          \
                u[l] = AT(ub, l) ? ones(bits) : f(AT(ua, l), (uint32_t)AT(cb, l), bits););         \
    }                                                                                              \
    EACH_LANE(l, lanes, d[l] = f(AT(ca, l), (uint32_t)AT(cb, l), bits););                          \
    return STEP_next;                                                                              \
  }
SHIFT(shl, shift_left)
SHIFT(shr_u, shift_right)
SHIFT(shr_s, shift_right_signed)

/* shf: slot 0 .l/.r, slot 1 .clamp/.wrap; a is the low word, b the high one. */
static inline uint32_t funnel(uint64_t low, uint64_t high, uint32_t n, bool left, bool clamp) {
  const uint64_t v = high << 32 | low;
  n = clamp ? (n > 32 ? 32 : n) : n & 31;
  return (uint32_t)(left ? v >> (32 - n) : v >> n);
}
static enum step shf(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  const bool left = I->mod[0] == MOD_l, clamp = I->mod[1] == MOD_clamp;
  EACH_LANE(l, lanes, uint32_t n = (uint32_t)opd_get(w, &o[3], l);
            uint32_t r = funnel(opd_get(w, &o[1], l), opd_get(w, &o[2], l), n, left, clamp);
            uint32_t u = opd_get_undef(w, &o[3], l)
                             ? ~0u
                             : funnel(opd_get_undef(w, &o[1], l), opd_get_undef(w, &o[2], l), n,
                                      left, clamp);
            opd_set(w, &o[0], l, r, u););
  return STEP_next;
}

/* ---- prmt ------------------------------------------------------------------------- */

/* The selector nibbles that a mode stands for. */
static uint32_t prmt_selector(enum mod mode, uint32_t c) {
  static const uint16_t f4e[] = {0x3210, 0x4321, 0x5432, 0x6543},
                        b4e[] = {0x5670, 0x6701, 0x7012, 0x0123},
                        rc8[] = {0x0000, 0x1111, 0x2222, 0x3333},
                        ecl[] = {0x3210, 0x3211, 0x3222, 0x3333},
                        ecr[] = {0x0000, 0x1110, 0x2210, 0x3210},
                        rc16[] = {0x1010, 0x3232, 0x1010, 0x3232};
  switch (mode) {
  case MOD_f4e:
    return f4e[c & 3];
  case MOD_b4e:
    return b4e[c & 3];
  case MOD_rc8:
    return rc8[c & 3];
  case MOD_ecl:
    return ecl[c & 3];
  case MOD_ecr:
    return ecr[c & 3];
  case MOD_rc16:
    return rc16[c & 3];
  default:
    return c;
  }
}

static uint32_t permute(uint64_t bytes, uint32_t selector, bool signs) {
  uint32_t r = 0;
  for (int i = 0; i < 4; i++) {
    uint32_t s = selector >> (4 * i) & 15, b = (uint32_t)(bytes >> (8 * (s & 7))) & 255;
    if (signs && s & 8)
      b = b & 128 ? 255 : 0;
    r |= b << (8 * i);
  }
  return r;
}

static enum step prmt(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  const enum mod mode = (enum mod)I->mod[0];
  const bool signs = mode == MOD_none;
  const struct col ca = col_of(w, &o[1]), cb = col_of(w, &o[2]), cc = col_of(w, &o[3]);
  uint64_t *d = reg_of(w, o[0].reg);
  if (undef_on(w)) {
    struct col ua, ub, uc;
    ua.v = opd_undef(w, &o[1], &ua.s);
    ub.v = opd_undef(w, &o[2], &ub.s);
    uc.v = opd_undef(w, &o[3], &uc.s);
    uint64_t *u = undef_of(w, o[0].reg);
    EACH_LANE(l, lanes, const uint32_t s = prmt_selector(mode, (uint32_t)AT(cc, l));
              u[l] = AT(uc, l) & (signs ? 0xffff : 3)
                         ? ones(32)
                         : permute(AT(ub, l) << 32 | AT(ua, l), s, signs););
  }
  EACH_LANE(l, lanes, const uint32_t s = prmt_selector(mode, (uint32_t)AT(cc, l));
            d[l] = permute(AT(cb, l) << 32 | AT(ca, l), s, signs););
  return STEP_next;
}

/* ---- fields -------------------------------------------------------------------------- */

static uint64_t field(uint64_t v, uint32_t pos, uint32_t len, unsigned bits, bool sign) {
  if (bits == 32) { /* as in insert below */
    pos &= 255;
    len &= 255;
  }
  const uint64_t kept = len > bits ? bits : len;
  if (!len)
    return 0;
  /* the sign of a field that reaches beyond the register is the register's */
  uint64_t top = (uint64_t)pos + kept - 1 < bits ? pos + kept - 1 : bits - 1;
  uint64_t r = pos >= bits ? 0 : (v >> pos) & ones((unsigned)kept);
  if (!sign || !(v >> top & 1))
    return r;
  uint64_t have = pos >= bits ? 0 : bits - pos < kept ? bits - pos : kept;
  return (r | ~ones((unsigned)have)) & ones(bits);
}

static enum step bfe(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  const unsigned bits = o[0].bits;
  const bool sign = mod_kind((enum mod)I->type[0]) == 's';
  EACH_LANE(l, lanes, uint32_t pos = (uint32_t)opd_get(w, &o[2], l);
            uint32_t len = (uint32_t)opd_get(w, &o[3], l);
            uint64_t u = (opd_get_undef(w, &o[2], l) | opd_get_undef(w, &o[3], l)) & 255
                             ? ~0ull
                             : field(opd_get_undef(w, &o[1], l), pos, len, bits, sign);
            opd_set(w, &o[0], l, field(opd_get(w, &o[1], l), pos, len, bits, sign), u););
  return STEP_next;
}

static uint64_t insert(uint64_t a, uint64_t b, uint32_t pos, uint32_t len, unsigned bits) {
  if (bits == 32) { /* 64-bit fields are a sequence of instructions, which masks nothing */
    pos &= 255;
    len &= 255;
  }
  if (pos >= bits || !len)
    return b;
  uint64_t mask = (ones(len > bits ? bits : len) << pos) & ones(bits);
  return (b & ~mask) | (a << pos & mask);
}

static enum step bfi(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  const unsigned bits = o[0].bits;
  EACH_LANE(
      l, lanes, uint32_t pos = (uint32_t)opd_get(w, &o[3], l);
      uint32_t len = (uint32_t)opd_get(w, &o[4], l);
      uint64_t u =
          (opd_get_undef(w, &o[3], l) | opd_get_undef(w, &o[4], l)) & 255
              ? ~0ull
              : insert(opd_get_undef(w, &o[1], l), opd_get_undef(w, &o[2], l), pos, len, bits);
      opd_set(w, &o[0], l, insert(opd_get(w, &o[1], l), opd_get(w, &o[2], l), pos, len, bits), u););
  return STEP_next;
}

/* bmsk, szext: slot 0 .clamp/.wrap. */
static uint32_t mask_bits(uint32_t pos, uint32_t len, bool clamp) {
  if (!clamp) {
    pos &= 31;
    len &= 31;
  }
  return pos >= 32 ? 0 : (uint32_t)(ones(len > 32 ? 32 : len) << pos);
}
EXEC2(bmsk, uint32_t, uint32_t, done_any, mask_bits(a, b, I->mod[0] == MOD_clamp))

static uint32_t extend(uint32_t v, uint32_t n, bool clamp, bool sign) {
  n = clamp ? n : n & 31;
  if (n >= 32)
    return v;
  uint32_t r = v & (uint32_t)ones(n);
  return sign && n && v >> (n - 1) & 1 ? r | ~(uint32_t)ones(n) : r;
}
EXEC2(szext_u, uint32_t, uint32_t, done_any, extend(a, b, I->mod[0] == MOD_clamp, false))
EXEC2(szext_s, uint32_t, uint32_t, done_any, extend(a, b, I->mod[0] == MOD_clamp, true))

/* ---- counting --------------------------------------------------------------------------- */

EXEC1(popc, uint32_t, uint64_t, done_any, __builtin_popcountll(a))
EXEC1(clz_32, uint32_t, uint32_t, done_any, a ? __builtin_clz(a) : 32)
EXEC1(clz_64, uint32_t, uint64_t, done_any, a ? __builtin_clzll(a) : 64)

/* slot 0 .shiftamt; a signed number's leading sign bits do not count. */
static inline uint32_t find_msb(uint64_t v, unsigned bits, bool shiftamt) {
  if (!v)
    return ~0u;
  uint32_t msb = 63u - (uint32_t)__builtin_clzll(v);
  return shiftamt ? bits - 1 - msb : msb;
}
EXEC1(bfind_u32, uint32_t, uint32_t, done_any, find_msb(a, 32, I->mod[0] != MOD_none))
EXEC1(bfind_u64, uint32_t, uint64_t, done_any, find_msb(a, 64, I->mod[0] != MOD_none))
EXEC1(bfind_s32, uint32_t, int32_t, done_any,
      find_msb((uint32_t)(a < 0 ? ~a : a), 32, I->mod[0] != MOD_none))
EXEC1(bfind_s64, uint32_t, int64_t, done_any,
      find_msb((uint64_t)(a < 0 ? ~a : a), 64, I->mod[0] != MOD_none))

/* The offset-th set bit from base on, upward or downward; offset 0: base itself. */
static uint32_t nth_set(uint32_t mask, uint32_t base, int32_t offset) {
  if (base > 31)
    return ~0u;
  if (offset == 0)
    return mask >> base & 1 ? base : ~0u;
  int step = offset < 0 ? -1 : 1;
  int64_t left = offset < 0 ? -(int64_t)offset : offset;
  for (int pos = (int)base; pos >= 0 && pos < 32; pos += step)
    if (mask >> pos & 1 && --left == 0)
      return (uint32_t)pos;
  return ~0u;
}
EXEC3(fns, uint32_t, uint32_t, done_any, nth_set(a, b, (int32_t)c))

static inline uint64_t reverse(uint64_t v, unsigned bits) {
  uint64_t r = 0;
  for (unsigned i = 0; i < bits; i++)
    r |= (v >> i & 1) << (bits - 1 - i);
  return r;
}
static enum step brev(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  EACH_LANE(l, lanes,
            opd_set(w, &o[0], l, reverse(opd_get(w, &o[1], l), o[0].bits),
                    reverse(opd_get_undef(w, &o[1], l), o[0].bits)););
  return STEP_next;
}

#define D           "definition"
#define LOGIC_TYPES "{.pred|.b16|.b32|.b64}"

const struct form forms_logic[] = {
    {"and" LOGIC_TYPES, "wT rT rT", exec_and, 0, D, 0},
    {"or" LOGIC_TYPES, "wT rT rT", exec_or, 0, D, 0},
    {"xor" LOGIC_TYPES, "wT rT rT", exec_xor, 0, D, 0},
    {"not" LOGIC_TYPES, "wT rT", exec_not, 0, D, 0},
    {"cnot{.b16|.b32|.b64}", "wT rT", cnot, 0, D, 0},
    {"lop3.b32", "wT rT rT rT i", lop3, 0, D, check_lut},
    {"lop3{.or|.and}.b32", "wT_|p rT rT rT i rp", lop3, 0, D, check_lut},
    {"shl{.b16|.b32|.b64}", "wT rT r32", shl, 0, D, 0},
    {"shr{.b16|.b32|.b64|.u16|.u32|.u64}", "wT rT r32", shr_u, 0, D, 0},
    {"shr{.s16|.s32|.s64}", "wT rT r32", shr_s, 0, D, 0},
    {"shf{.l|.r}{.clamp|.wrap}.b32", "wT rT rT r32", shf, 0, D, 0},
    {"prmt.b32[.f4e|.b4e|.rc8|.ecl|.ecr|.rc16]", "wT rT rT r32", prmt, 0, D, 0},
    {"bfe{.u32|.s32|.u64|.s64}", "wT rT r32 r32", bfe, 0, D, 0},
    {"bfi{.b32|.b64}", "wT rT rT r32 r32", bfi, 0, D, 0},
    {"bmsk{.clamp|.wrap}.b32", "wT rT r32", bmsk, 0, D, 0},
    {"szext{.clamp|.wrap}.u32", "wT rT r32", szext_u, 0, D, 0},
    {"szext{.clamp|.wrap}.s32", "wT rT r32", szext_s, 0, D, 0},
    {"popc{.b32|.b64}", "w32 rT", popc, 0, D, 0},
    {"clz.b32", "w32 rT", clz_32, 0, D, 0},
    {"clz.b64", "w32 rT", clz_64, 0, D, 0},
    {"bfind[.shiftamt].u32", "w32 rT", bfind_u32, 0, D, 0},
    {"bfind[.shiftamt].u64", "w32 rT", bfind_u64, 0, D, 0},
    {"bfind[.shiftamt].s32", "w32 rT", bfind_s32, 0, D, 0},
    {"bfind[.shiftamt].s64", "w32 rT", bfind_s64, 0, D, 0},
    {"fns.b32", "wT rT r32 r32", fns, 0, D, 0},
    {"brev{.b32|.b64}", "wT rT", brev, 0, D, 0},
    {0},
};
