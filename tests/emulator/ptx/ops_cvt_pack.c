/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions between pairs: a goes to the upper part, b to the lower; and cvt.pack.
 */
#include <assert.h>

#include "cvt.h"

/* A pair's element format; NULL for ue8m0, which is an exponent alone. */
static const struct fp_format *element(enum mod type) {
  switch (type) {
  case MOD_f16x2:
    return &FP_f16;
  case MOD_bf16x2:
    return &FP_bf16;
  case MOD_e4m3x2:
    return &FP_e4m3;
  case MOD_e5m2x2:
    return &FP_e5m2;
  case MOD_e2m3x2:
    return &FP_e2m3;
  case MOD_e3m2x2:
    return &FP_e3m2;
  case MOD_e2m1x2:
    return &FP_e2m1;
  case MOD_f32:
    return &FP_f32;
  default:
    return NULL;
  }
}

/* The exponent of |x|, x as f32 bits: rp takes the power of two at or above, rz the one at
 * or below; the least is 2^-127. */
static uint32_t to_ue8m0(uint32_t x, bool up, bool satfinite) {
  x &= 0x7fffffff;
  if (x > 0x7f800000)
    return 0xff;
  const uint32_t limit = satfinite ? 0xfe : 0xff;
  if (x == 0x7f800000)
    return limit;
  uint32_t e = x >> 23, m = x & 0x7fffff;
  if (e == 0)
    return up && m > 0x400000;
  if (up && m)
    e++;
  return e > 0xfe ? limit : e;
}

static uint32_t from_ue8m0(uint32_t e) {
  return e == 0xff ? 0x7fff : e == 0 ? 0x0040 : e << 7;
}

static uint32_t encode(double v, enum mod to, const struct cvt_op *c) {
  const struct fp_format *f = element(to);
  return f ? cvt_encode(v, f, c) : to_ue8m0(bits_of((float)v), c->round == ROUND_rp, c->satfinite);
}

/* Definedness of two parts, to parts of another width. */
static void pair_undef(struct warp *w, const struct insn *I, uint32_t lanes, unsigned to) {
  const struct opd *o = I->opd;
  const bool two = I->nopd == 3;
  const unsigned from = two ? 32 : o[1].bits / 2;
  uint64_t *u = undef_of(w, o[0].reg);
  EACH_LANE(l, lanes, uint64_t a = opd_get_undef(w, &o[1], l);
            uint64_t high = two ? a : a >> from,
            low = two ? opd_get_undef(w, &o[2], l) : a & ones(from);
            u[l] = (low ? ones(to) : 0) | (high ? ones(to) << to : 0););
}

/* The bits of one element of a pair of this type. */
static unsigned part_bits(enum mod type) {
  const unsigned bits = mod_bits(type) / 2;
  assert(bits <= 32);
  return bits;
}

/* d = {a, b} from two f32. */
static enum step cvt_two(struct warp *w, const struct insn *I, uint32_t lanes) {
  const enum mod to = (enum mod)I->type[0];
  const struct cvt_op c = cvt_op_of(I);
  const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[2]);
  const unsigned n = part_bits(to);
  if (undef_on(w))
    pair_undef(w, I, lanes, n);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  EACH_LANE(l, lanes, uint64_t high = encode((double)f32_of(AT(ca, l)), to, &c);
            d[l] = high << n | encode((double)f32_of(AT(cb, l)), to, &c););
  return STEP_next;
}

/* d = a, part by part. */
static enum step cvt_pair(struct warp *w, const struct insn *I, uint32_t lanes) {
  const enum mod to = (enum mod)I->type[0], from = (enum mod)I->type[1];
  const struct cvt_op c = cvt_op_of(I);
  const struct col ca = col_of(w, &I->opd[1]);
  const unsigned n = part_bits(to), m = part_bits(from);
  const struct fp_format *f = element(from);
  if (undef_on(w))
    pair_undef(w, I, lanes, n);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  EACH_LANE(
      l, lanes, uint64_t r = 0; for (unsigned i = 0; i < 2; i++) {
        uint32_t v = (uint32_t)(AT(ca, l) >> (i * m) & ones(m));
        r |= (uint64_t)(f ? encode(fp_decode(v, f), to, &c) : from_ue8m0(v)) << (i * n);
      } d[l] = r;);
  return STEP_next;
}

/* ---- cvt.pack ---------------------------------------------------------------------- */

static uint64_t clamp(int32_t v, enum mod to) {
  const unsigned bits = mod_bits(to);
  const bool s = mod_kind(to) == 's';
  const int64_t high = (int64_t)ones(s ? bits - 1 : bits), low = s ? -high - 1 : 0;
  return (uint64_t)(v > high ? high : v < low ? low : v) & ones(bits);
}

static enum step cvt_pack(struct warp *w, const struct insn *I, uint32_t lanes) {
  const enum mod to = (enum mod)I->type[0];
  const unsigned n = mod_bits(to);
  const bool three = I->nopd == 4;
  const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[2]),
                   cc = col_of(w, &I->opd[three ? 3 : 2]);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  EACH_LANE(l, lanes,
            uint64_t r = clamp((int32_t)AT(ca, l), to) << n | clamp((int32_t)AT(cb, l), to);
            d[l] = (uint32_t)(three ? AT(cc, l) << (2 * n) | r : r););
  done_any(w, I, lanes);
  return STEP_next;
}

#define D     "definition"
#define SMALL "{.e4m3x2|.e5m2x2}"
#define TINY  "{.e2m1x2|.e2m3x2|.e3m2x2}"

const struct form forms_cvt_pack[] = {
    {"cvt{.rn|.rz}[.relu][.satfinite]{.f16x2|.bf16x2}.f32", "wT1 rT2 rT2", cvt_two, 0, D, 0},
    {"cvt.rn{.satfinite}[.relu]" SMALL ".f32", "wT1 rT2 rT2", cvt_two, 0, D, 0},
    {"cvt.rn{.satfinite}[.relu]" SMALL ".f16x2", "wT1 rT2", cvt_pair, 0, D, 0},
    {"cvt.rn[.relu].f16x2" SMALL, "wT1 rT2", cvt_pair, 0, D, 0},
    {"cvt.rn{.satfinite}[.relu]" TINY ".f32", "wT1 rT2 rT2", cvt_two, FORM_sm100f, D, 0},
    {"cvt.rn[.relu].f16x2" TINY, "wT1 rT2", cvt_pair, FORM_sm100f, D, 0},
    {"cvt{.rz|.rp}[.satfinite].ue8m0x2.f32", "wT1 rT2 rT2", cvt_two, FORM_sm100f, D, 0},
    {"cvt{.rz|.rp}[.satfinite].ue8m0x2.bf16x2", "wT1 rT2", cvt_pair, FORM_sm100f, D, 0},
    {"cvt.rn.bf16x2.ue8m0x2", "wT1 rT2", cvt_pair, FORM_sm100f, D, 0},
    {"cvt.pack.sat{.u16|.s16}.s32", "w32 r32 r32", cvt_pack, 0, D, 0},
    {"cvt.pack.sat{.u8|.s8|.u4|.s4|.u2|.s2}.s32.b32", "w32 r32 r32 r32", cvt_pack, 0, D, 0},
    {0},
};
