/* SPDX-License-Identifier: Apache-2.0
 *
 * Comparisons (setp, set) and selections (selp, slct).
 */
#include <math.h>

#include "fp.h"
#include "ops.h"

/* ---- one comparison ---------------------------------------------------------------- */

enum order { LESS, EQUAL, GREATER, UNORDERED };

/* Which orders satisfy a comparison; integers never meet UNORDERED. */
static uint8_t satisfied(enum mod cmp) {
  const uint8_t lt = 1 << LESS, eq = 1 << EQUAL, gt = 1 << GREATER, un = 1 << UNORDERED;
  switch (cmp) {
  case MOD_eq:
    return eq;
  case MOD_ne:
    return lt | gt;
  case MOD_lt:
  case MOD_lo:
    return lt;
  case MOD_le:
  case MOD_ls:
    return lt | eq;
  case MOD_gt:
  case MOD_hi:
    return gt;
  case MOD_ge:
  case MOD_hs:
    return gt | eq;
  case MOD_equ:
    return eq | un;
  case MOD_neu:
    return lt | gt | un;
  case MOD_ltu:
    return lt | un;
  case MOD_leu:
    return lt | eq | un;
  case MOD_gtu:
    return gt | un;
  case MOD_geu:
    return gt | eq | un;
  case MOD_num:
    return lt | eq | gt;
  default:
    return un; /* nan */
  }
}

static enum order order_float(double a, double b) {
  return isnan(a) || isnan(b) ? UNORDERED : a < b ? LESS : a > b ? GREATER : EQUAL;
}

/* Values of a type as doubles; only 64-bit integers would not fit, they don't come here. */
static double value_of(enum mod type, uint64_t v, bool ftz) {
  switch (type) {
  case MOD_f32:
    return (double)f32_of(ftz ? ftz32((uint32_t)v) : v);
  case MOD_f64:
    return f64_of(v);
  case MOD_f16:
  case MOD_f16x2: {
    uint32_t b = (uint32_t)v & 0xffff;
    return fp_decode(ftz && !(b & 0x7c00) ? b & 0x8000 : b, &FP_f16);
  }
  default:
    return fp_decode((uint32_t)v & 0xffff, &FP_bf16);
  }
}

static enum order compare(enum mod type, uint64_t a, uint64_t b, bool ftz) {
  const unsigned bits = mod_bits(type);
  switch (mod_kind(type)) {
  case 'f':
    return order_float(value_of(type, a, ftz), value_of(type, b, ftz));
  case 's': {
    int64_t x = (int64_t)(a << (64 - bits)), y = (int64_t)(b << (64 - bits));
    return x < y ? LESS : x > y ? GREATER : EQUAL;
  }
  default:
    return a < b ? LESS : a > b ? GREATER : EQUAL;
  }
}

static bool combine(enum mod op, bool cmp, bool c) {
  switch (op) {
  case MOD_and:
    return cmp && c;
  case MOD_or:
    return cmp || c;
  case MOD_xor:
    return cmp != c;
  default:
    return cmp;
  }
}

/* ---- setp and set ----------------------------------------------------------------------
 *
 * Slots: 0 comparison, 1 .and/.or/.xor, 2 .ftz. */

static enum step setp(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  const enum mod type = (enum mod)I->type[0], op = (enum mod)I->mod[1];
  const bool ftz = I->mod[2] == MOD_ftz, x2 = type == MOD_f16x2 || type == MOD_bf16x2;
  const uint8_t want = satisfied((enum mod)I->mod[0]);
  const struct col ca = col_of(w, &o[1]), cb = col_of(w, &o[2]), cc = col_of(w, &o[I->nopd - 1]);
  uint64_t scratch[WARP]; /* stands for "_" */
  uint64_t *p = o[0].kind == OPD_reg ? reg_of(w, o[0].reg) : scratch;
  const bool two = o[0].pair >= 0;
  uint64_t *q = two ? reg_of(w, o[0].pair) : scratch;
  if (type == MOD_u32 && !two && op == MOD_none) {
    EACH_LANE(l, lanes, uint32_t a = (uint32_t)AT(ca, l), b = (uint32_t)AT(cb, l);
              p[l] = want >> (a < b   ? LESS
                              : a > b ? GREATER
                                      : EQUAL) &
                     1;);
  } else if (type == MOD_s32 && !two && op == MOD_none) {
    EACH_LANE(l, lanes, int32_t a = (int32_t)AT(ca, l), b = (int32_t)AT(cb, l);
              p[l] = want >> (a < b   ? LESS
                              : a > b ? GREATER
                                      : EQUAL) &
                     1;);
  } else {
    EACH_LANE(
        l, lanes, const uint64_t a = AT(ca, l), b = AT(cb, l); const bool c = AT(cc, l) & 1;
        bool cmp = want >> compare(type, a, b, ftz) & 1; p[l] = combine(op, cmp, c); if (two) {
          bool other = x2 ? want >> compare(type, a >> 16, b >> 16, ftz) & 1 : !cmp;
          q[l] = combine(op, other, c);
        });
  }
  done_any(w, I, lanes);
  return STEP_next;
}

/* What stands for true in the destination's type. */
static uint64_t truth(enum mod type) {
  switch (type) {
  case MOD_f32:
    return 0x3f800000;
  case MOD_f16:
  case MOD_f16x2:
    return 0x3c00;
  case MOD_bf16:
  case MOD_bf16x2:
    return 0x3f80;
  case MOD_u16:
  case MOD_s16:
    return 0xffff;
  default:
    return 0xffffffff;
  }
}

static enum step set(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  const enum mod dtype = (enum mod)I->type[0], type = (enum mod)I->type[1],
                 op = (enum mod)I->mod[1];
  const bool ftz = I->mod[2] == MOD_ftz, x2 = type == MOD_f16x2 || type == MOD_bf16x2;
  const uint8_t want = satisfied((enum mod)I->mod[0]);
  const uint64_t yes = truth(dtype) & (x2 ? 0xffff : ~0ull);
  const struct col ca = col_of(w, &o[1]), cb = col_of(w, &o[2]), cc = col_of(w, &o[I->nopd - 1]);
  uint64_t *d = reg_of(w, o[0].reg);
  EACH_LANE(l, lanes, const uint64_t a = AT(ca, l), b = AT(cb, l); const bool c = AT(cc, l) & 1;
            uint64_t r = combine(op, want >> compare(type, a, b, ftz) & 1, c) ? yes : 0;
            if (x2 && combine(op, want >> compare(type, a >> 16, b >> 16, ftz) & 1, c)) r |= yes
                                                                                             << 16;
            d[l] = r;);
  done_any(w, I, lanes);
  return STEP_next;
}

/* ---- selp, slct ----------------------------------------------------------------------------- */

static enum step selp(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  const struct col ca = col_of(w, &o[1]), cb = col_of(w, &o[2]), cc = col_of(w, &o[3]);
  uint64_t *d = reg_of(w, o[0].reg);
  if (undef_on(w)) { /* an undefined choice matters where the two values differ */
    struct col ua, ub, uc;
    ua.v = opd_undef(w, &o[1], &ua.s);
    ub.v = opd_undef(w, &o[2], &ub.s);
    uc.v = opd_undef(w, &o[3], &uc.s);
    uint64_t *u = undef_of(w, o[0].reg);
    EACH_LANE(l, lanes,
              u[l] = AT(uc, l)   ? (AT(ca, l) ^ AT(cb, l)) | AT(ua, l) | AT(ub, l)
                     : AT(cc, l) ? AT(ua, l)
                                 : AT(ub, l););
  }
  EACH_LANE(l, lanes, d[l] = AT(cc, l) ? AT(ca, l) : AT(cb, l););
  return STEP_next;
}

/* slct: a if c >= 0, else b; a NaN chooses b.  Slot 0 .ftz on .f32. */
static enum step slct(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  const bool real = I->type[1] == MOD_f32;
  const bool ftz = I->mod[0] == MOD_ftz;
  const struct col ca = col_of(w, &o[1]), cb = col_of(w, &o[2]), cc = col_of(w, &o[3]);
  uint64_t *d = reg_of(w, o[0].reg);
  EACH_LANE(l, lanes, const uint32_t c = (uint32_t)AT(cc, l);
            bool first = real ? f32_of(ftz ? ftz32(c) : c) >= 0 : (int32_t)c >= 0;
            d[l] = first ? AT(ca, l) : AT(cb, l););
  done_any(w, I, lanes);
  return STEP_next;
}

#define D      "definition"
#define CMP_B  "{.eq|.ne}"
#define CMP_S  "{.eq|.ne|.lt|.le|.gt|.ge}"
#define CMP_U  "{.eq|.ne|.lt|.le|.gt|.ge|.lo|.ls|.hi|.hs}"
#define CMP_F  "{.eq|.ne|.lt|.le|.gt|.ge|.equ|.neu|.ltu|.leu|.gtu|.geu|.num|.nan}"
#define TYPE_B "{.b16|.b32|.b64}"
#define TYPE_S "{.s16|.s32|.s64}"
#define TYPE_U "{.u16|.u32|.u64}"
/* Rows without .ftz leave its slot 2 to the type, which is never MOD_ftz. */
#define SETP(cmp, ftz, types, dst)                                                                 \
  {"setp" cmp "[.and|.or|.xor]" ftz types, dst " rT rT rp?", setp, 0, D, check_setp}
#define SET(cmp, ftz, dtype, types)                                                                \
  {"set" cmp "[.and|.or|.xor]" ftz dtype types, "wT1 rT2 rT2 rp?", set, 0, D, check_setp}

static const char *check_setp(const struct insn *I) {
  if ((I->mod[1] != MOD_none) != (I->nopd == 4))
    return "a combining operator and a fourth operand come together";
  return NULL;
}

const struct form forms_cmp[] = {
    SETP(CMP_B, "", TYPE_B, "wp_|p"),
    SETP(CMP_S, "", TYPE_S, "wp_|p"),
    SETP(CMP_U, "", TYPE_U, "wp_|p"),
    SETP(CMP_F, "[.ftz]", "{.f32|.f16|.f16x2}", "wp_|p"),
    SETP(CMP_F, "", "{.f64|.bf16|.bf16x2}", "wp_|p"),
    SET(CMP_B, "", "{.u32|.s32|.f32}", TYPE_B),
    SET(CMP_S, "", "{.u32|.s32|.f32}", TYPE_S),
    SET(CMP_U, "", "{.u32|.s32|.f32}", TYPE_U),
    SET(CMP_F, "[.ftz]", "{.u32|.s32|.f32}", "{.f32}"),
    SET(CMP_F, "", "{.u32|.s32|.f32}", "{.f64}"),
    SET(CMP_F, "[.ftz]", "{.f16|.u16|.s16|.u32|.s32}", "{.f16}"),
    SET(CMP_F, "", "{.bf16|.u16|.s16|.u32|.s32}", "{.bf16}"),
    SET(CMP_F, "[.ftz]", "{.f16x2|.u32|.s32}", "{.f16x2}"),
    SET(CMP_F, "", "{.bf16x2|.u32|.s32}", "{.bf16x2}"),
    {"selp{.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64}", "wT rT rT rp", selp, 0, D, 0},
    {"slct{.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64}.s32", "wT1 rT1 rT1 rT2", slct, 0,
     D, 0},
    {"slct[.ftz]{.b16|.b32|.b64|.u16|.u32|.u64|.s16|.s32|.s64|.f32|.f64}.f32", "wT1 rT1 rT1 rT2",
     slct, 0, D, 0},
    {0},
};
