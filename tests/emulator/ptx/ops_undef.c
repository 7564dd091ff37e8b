/* SPDX-License-Identifier: Apache-2.0
 *
 * How undefined bits travel through arithmetic.
 */
#include <assert.h>
#include <string.h>

#include "ops.h"

static uint64_t add_masks(struct warp *w, const struct opd *o, uint64_t out[WARP]) {
  uint64_t seen = 0;
  if (o->kind == OPD_reg) {
    for (int half = 0; half < (o->bits > 64 ? 2 : 1); half++) {
      const uint64_t *u = undef_of(w, o->reg + half);
      for (int l = 0; l < WARP; l++) {
        out[l] |= u[l];
        seen |= u[l];
      }
    }
  } else if (o->kind == OPD_vec) {
    for (unsigned i = 0; i < o->n; i++)
      seen |= add_masks(w, &o->elem[i], out);
  }
  return seen;
}

bool gather_undef(struct warp *w, const struct insn *I, unsigned first, uint64_t out[WARP]) {
  uint64_t seen = 0;
  memset(out, 0, WARP * sizeof *out);
  for (unsigned k = first; k < I->nopd; k++)
    seen |= add_masks(w, &I->opd[k], out);
  return seen != 0;
}

void spread_undef(struct warp *w, const struct insn *I, uint32_t lanes, enum spread how) {
  uint64_t any[WARP];
  const struct opd *d = &I->opd[0];
  bool seen = gather_undef(w, I, 1, any);
  if (d->kind == OPD_reg) {
    uint64_t *u = undef_of(w, d->reg);
    const uint64_t mask = ones(d->bits);
    if (!seen)
      EACH_LANE(l, lanes, u[l] = 0;);
    else if (how == SPREAD_up)
      EACH_LANE(l, lanes, u[l] = (0 - (any[l] & (0 - any[l]))) & mask;);
    else
      EACH_LANE(l, lanes, u[l] = any[l] ? mask : 0;);
  }
  if (d->pair >= 0) {
    uint64_t *u = undef_of(w, d->pair);
    EACH_LANE(l, lanes, u[l] = any[l] != 0;);
  }
}

void spread_parts(struct warp *w, const struct insn *I, uint32_t lanes, unsigned bits) {
  uint64_t any[WARP], *u = undef_of(w, I->opd[0].reg);
  const uint64_t all = ones(I->opd[0].bits), first = ones(bits);
  assert(bits < 64);
  gather_undef(w, I, 1, any);
  EACH_LANE(
      l, lanes, uint64_t r = 0; for (uint64_t part = first; part & all; part <<= bits) {
        if (any[l] & part)
          r |= part;
      } u[l] = r;);
}
