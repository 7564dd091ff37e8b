/* SPDX-License-Identifier: Apache-2.0
 *
 * Exchanges between the lanes of a warp.  The engine brings the lanes of a membermask
 * together before it calls; lanes of different masks may come in one call, so each lane
 * looks at its own.  What a lane takes from one that does not take part is undefined.
 */
#include <string.h>

#include "fp.h"
#include "ops.h"

static const struct opd *mask_opd(const struct insn *I) {
  return &I->opd[I->nopd - 1];
}

/* The members of lane l's group that are here. */
static uint32_t members(struct warp *w, const struct insn *I, uint32_t lanes, int l) {
  return (uint32_t)opd_get(w, mask_opd(I), l) & lanes;
}

static void set_pair(struct warp *w, const struct insn *I, int l, bool v, bool undef) {
  const struct opd p = {.kind = OPD_reg, .bits = 1, .reg = I->opd[0].pair};
  if (I->opd[0].pair >= 0)
    opd_set(w, &p, l, v, undef);
}

/* ---- shfl ----------------------------------------------------------------------------- */

static enum step shfl(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  const enum mod mode = (enum mod)I->mod[0];
  const struct col ca = col_of(w, &o[1]), cb = col_of(w, &o[2]), cc = col_of(w, &o[3]),
                   cm = col_of(w, &o[4]);
  const bool undefined = undef_on(w);
  uint64_t value[WARP], undef[WARP], amount[WARP]; /* amount: of b and c, by definedness */
  for (int l = 0; l < WARP; l++)
    value[l] = AT(ca, l);
  for (int l = 0; undefined && l < WARP; l++) {
    undef[l] = opd_get_undef(w, &o[1], l);
    amount[l] = opd_get_undef(w, &o[2], l) | opd_get_undef(w, &o[3], l);
  }
  uint64_t *d = reg_of(w, o[0].reg);
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const uint32_t b = (uint32_t)AT(cb, l) & 31, c = (uint32_t)AT(cc, l);
    const int segment = (int)(c >> 8 & 31), clamp = (int)(c & 31);
    const int top = (l & segment) | (clamp & ~segment), bottom = l & segment;
    int j;
    bool ok;
    switch (mode) {
    case MOD_up:
      j = l - (int)b;
      ok = j >= top;
      break;
    case MOD_down:
      j = l + (int)b;
      ok = j <= top;
      break;
    case MOD_bfly:
      j = l ^ (int)b;
      ok = j <= top;
      break;
    default:
      j = bottom | ((int)b & ~segment);
      ok = j <= top;
    }
    if (!ok)
      j = l;
    const bool lost = undefined && amount[l];
    const bool there = ((uint32_t)AT(cm, l) & lanes) >> j & 1;
    d[l] = there ? value[j] : value[l];
    if (undefined)
      undef_of(w, o[0].reg)[l] = lost || !there ? ones(32) : undef[j];
    if (o[0].pair >= 0)
      set_pair(w, I, l, ok, lost);
  }
  return STEP_next;
}

/* ---- vote, match, activemask, elect --------------------------------------------------------- */

/* Lanes of `set` whose operand o is not zero; *undef: lanes where it is undefined. */
static uint32_t ballot(struct warp *w, const struct opd *o, uint32_t set, uint32_t *undef) {
  uint32_t r = 0;
  *undef = 0;
  for (uint32_t left = set; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    r |= (uint32_t)(opd_get(w, o, l) != 0) << l;
    *undef |= (uint32_t)(opd_get_undef(w, o, l) != 0) << l;
  }
  return r;
}

static enum step vote(struct warp *w, const struct insn *I, uint32_t lanes) {
  uint32_t undef;
  const uint32_t yes = ballot(w, &I->opd[1], lanes, &undef);
  uint64_t out[WARP], out_undef[WARP];
  EACH_LANE(
      l, lanes, const uint32_t m = members(w, I, lanes, l); switch (I->mod[0]) {
        case MOD_all:
          out[l] = (yes & m) == m;
          break;
        case MOD_any:
          out[l] = (yes & m) != 0;
          break;
        case MOD_uni:
          out[l] = (yes & m) == 0 || (yes & m) == m;
          break;
        default:
          out[l] = yes & m;
      } out_undef[l] = I->mod[0] == MOD_ballot ? undef & m : (undef & m) != 0;);
  EACH_LANE(l, lanes, opd_set(w, &I->opd[0], l, out[l], out_undef[l]););
  return STEP_next;
}

static enum step match(struct warp *w, const struct insn *I, uint32_t lanes) {
  uint64_t value[WARP], undef[WARP];
  EACH_LANE(l, lanes, value[l] = opd_get(w, &I->opd[1], l);
            undef[l] = opd_get_undef(w, &I->opd[1], l););
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const uint32_t m = members(w, I, lanes, l);
    uint32_t same = 0;
    bool lost = false;
    for (uint32_t k = m; k; k &= k - 1) {
      const int j = __builtin_ctz(k);
      same |= (uint32_t)(value[j] == value[l]) << j;
      lost |= undef[j] != 0;
    }
    const bool all = I->mod[0] == MOD_all;
    opd_set(w, &I->opd[0], l, all && same != m ? 0 : same, lost ? ~0ull : 0);
    set_pair(w, I, l, same == m, lost);
  }
  return STEP_next;
}

static enum step activemask(struct warp *w, const struct insn *I, uint32_t lanes) {
  EACH_LANE(l, lanes, opd_set(w, &I->opd[0], l, lanes, 0););
  return STEP_next;
}

/* The leader of a membermask: always the same one for a mask, but PTX does not say which,
 * so it is drawn from the seed: code that counts on lane 0 is found out. */
static uint32_t leader(const struct warp *w, uint32_t mask) {
  uint64_t h = (w->cta->grid->dev->m->seed ^ mask) * 0x9e3779b97f4a7c15ull;
  h = (h ^ h >> 29) * 0xbf58476d1ce4e5b9ull;
  for (uint32_t skip = (uint32_t)(h >> 32) % (uint32_t)__builtin_popcount(mask); skip; skip--)
    mask &= mask - 1;
  return (uint32_t)__builtin_ctz(mask);
}

static enum step elect(struct warp *w, const struct insn *I, uint32_t lanes) {
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const uint32_t mask = (uint32_t)opd_get(w, mask_opd(I), l);
    if (!(mask >> l & 1)) {
      struct access a = access_of(w, I, l);
      if (fault(&a, CHECK_cluster, "elect-mask", "lane %d is not in its membermask 0x%08x", l,
                mask))
        return STEP_fault;
      continue;
    }
    const uint32_t first = leader(w, mask);
    opd_set(w, &I->opd[0], l, first, 0);
    set_pair(w, I, l, first == (uint32_t)l, false);
  }
  return STEP_next;
}

/* ---- redux --------------------------------------------------------------------- */

static uint32_t reduce2(enum mod op, enum mod type, uint32_t a, uint32_t b) {
  switch (op) {
  case MOD_add:
    return a + b;
  case MOD_and:
    return a & b;
  case MOD_or:
    return a | b;
  case MOD_xor:
    return a ^ b;
  default:
    break;
  }
  bool less = type == MOD_s32 ? (int32_t)a < (int32_t)b : a < b;
  return less == (op == MOD_min) ? a : b;
}

static enum step redux(struct warp *w, const struct insn *I, uint32_t lanes) {
  uint32_t out[WARP];
  bool lost[WARP];
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    uint32_t m = members(w, I, lanes, l), r = 0;
    lost[l] = false;
    for (uint32_t k = m; k; k &= k - 1) {
      const int j = __builtin_ctz(k);
      const uint32_t v = (uint32_t)opd_get(w, &I->opd[1], j);
      r = k == m ? v : reduce2((enum mod)I->mod[0], (enum mod)I->type[0], r, v);
      lost[l] |= opd_get_undef(w, &I->opd[1], j) != 0;
    }
    out[l] = r;
  }
  EACH_LANE(l, lanes, opd_set(w, &I->opd[0], l, out[l], lost[l] ? ~0ull : 0););
  return STEP_next;
}

/* f32 by an order in which -0 is just below +0.  Slots: 0 .min/.max, 1 .abs, 2 .NaN. */
static int64_t f32_rank(uint32_t b) {
  return b >> 31 ? -(int64_t)(b & 0x7fffffff) - 1 : (int64_t)b;
}

static enum step redux_f32(struct warp *w, const struct insn *I, uint32_t lanes) {
  uint32_t out[WARP];
  bool lost[WARP];
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    uint32_t r = NAN_F32;
    bool any_nan = false, have = false;
    lost[l] = false;
    for (uint32_t k = members(w, I, lanes, l); k; k &= k - 1) {
      const int j = __builtin_ctz(k);
      uint32_t v = (uint32_t)opd_get(w, &I->opd[1], j);
      lost[l] |= opd_get_undef(w, &I->opd[1], j) != 0;
      if (is_nan32(v)) {
        any_nan = true;
        continue;
      }
      if (I->mod[1] == MOD_abs)
        v &= 0x7fffffff;
      if (!have || (f32_rank(v) < f32_rank(r)) == (I->mod[0] == MOD_min))
        r = v;
      have = true;
    }
    out[l] = any_nan && I->mod[2] == MOD_NaN ? NAN_F32 : r;
  }
  EACH_LANE(l, lanes, opd_set(w, &I->opd[0], l, out[l], lost[l] ? ~0ull : 0););
  return STEP_next;
}

static const char *check_elect(const struct insn *I) {
  return I->opd[0].pair < 0 ? "elect.sync has a predicate destination, d|p" : NULL;
}

#define D "definition"

const struct form forms_warp[] = {
    {"shfl.sync{.up|.down|.bfly|.idx}.b32", "w32|p r32 r32 r32 r32", shfl, FORM_member, D, 0},
    {"vote.sync{.all|.any|.uni}.pred", "wp rp r32", vote, FORM_member, D, 0},
    {"vote.sync{.ballot}.b32", "w32 rp r32", vote, FORM_member, D, 0},
    {"match{.any}.sync{.b32|.b64}", "w32 rT r32", match, FORM_member, D, 0},
    {"match{.all}.sync{.b32|.b64}", "w32_|p rT r32", match, FORM_member, D, 0},
    {"activemask.b32", "w32", activemask, 0, D, 0},
    {"elect.sync", "w32_|p r32", elect, FORM_member, D, check_elect},
    {"redux.sync{.add|.min|.max}{.u32|.s32}", "wT rT r32", redux, FORM_member, D, 0},
    {"redux.sync{.and|.or|.xor}.b32", "wT rT r32", redux, FORM_member, D, 0},
    {"redux.sync{.min|.max}[.abs][.NaN].f32", "wT rT r32", redux_f32, FORM_member | FORM_sm100f, D,
     0},
    {0},
};
