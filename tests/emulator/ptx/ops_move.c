/* SPDX-License-Identifier: Apache-2.0
 *
 * Moves: registers, constants, special registers, addresses of variables, packing and
 * unpacking; address conversions between state spaces and between the CTAs of a cluster.
 * Undefined bits move with the bits.
 */
#include <assert.h>

#include "ops.h"

/* ---- mov --------------------------------------------------------------------------- */

struct wide {
  uint64_t v[2], u[2];
};

/* bits of x at position `at` of the 128. */
static void put(uint64_t to[2], uint64_t x, unsigned at) {
  to[at / 64] |= x << at % 64;
}
static uint64_t take(const uint64_t from[2], unsigned at, unsigned bits) {
  assert(at < 128); /* no vector is wider */
  return from[at / 64] >> at % 64 & ones(bits);
}

static struct opd upper_half(const struct opd *o) {
  struct opd h = *o;
  h.reg++;
  h.bits = 64;
  return h;
}

static void read_part(struct warp *w, const struct opd *o, int l, unsigned at, struct wide *x) {
  if (o->kind == OPD_reg && o->bits > 64) {
    const struct opd high = upper_half(o);
    struct opd low = *o;
    low.bits = 64;
    x->v[0] = opd_get(w, &low, l);
    x->u[0] = opd_get_undef(w, &low, l);
    x->v[1] = opd_get(w, &high, l);
    x->u[1] = opd_get_undef(w, &high, l);
    return;
  }
  put(x->v, opd_get(w, o, l), at);
  put(x->u, opd_get_undef(w, o, l), at);
}

static void write_part(struct warp *w, const struct opd *o, int l, unsigned at, unsigned bits,
                       const struct wide *x) {
  if (o->kind == OPD_reg && o->bits > 64) {
    const struct opd high = upper_half(o);
    struct opd low = *o;
    low.bits = 64;
    opd_set(w, &low, l, x->v[0], x->u[0]);
    opd_set(w, &high, l, x->v[1], x->u[1]);
    return;
  }
  opd_set(w, o, l, take(x->v, at, bits), take(x->u, at, bits));
}

static enum step mov_packed(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *d = &I->opd[0], *s = &I->opd[1];
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    struct wide x = {{0, 0}, {0, 0}};
    if (s->kind == OPD_vec)
      for (unsigned i = 0, at = 0; i < s->n; at += s->elem[i++].bits)
        read_part(w, &s->elem[i], l, at, &x);
    else
      read_part(w, s, l, 0, &x);
    if (d->kind == OPD_vec)
      for (unsigned i = 0, at = 0; i < d->n; at += d->elem[i++].bits)
        write_part(w, &d->elem[i], l, at, d->elem[i].bits, &x);
    else
      write_part(w, d, l, 0, d->bits, &x);
  }
  return STEP_next;
}

static enum step mov(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = I->opd;
  if (o[0].kind != OPD_reg || o[1].kind == OPD_vec || o[0].bits > 64)
    return mov_packed(w, I, lanes);
  const struct col ca = col_of(w, &o[1]);
  const uint64_t mask = ones(o[0].bits);
  uint64_t *d = reg_of(w, o[0].reg);
  EACH_LANE(l, lanes, d[l] = AT(ca, l) & mask;);
  if (undef_on(w)) {
    struct col ua;
    ua.v = opd_undef(w, &o[1], &ua.s);
    uint64_t *u = undef_of(w, o[0].reg);
    EACH_LANE(l, lanes, u[l] = AT(ua, l););
  }
  return STEP_next;
}

/* ---- state spaces ---------------------------------------------------------------------- */

static uint64_t window(enum mod space) {
  switch (space) {
  case MOD_shared:
  case MOD_shared__cta:
  case MOD_shared__cluster:
    return SHARED_WINDOW;
  case MOD_local:
    return LOCAL_WINDOW;
  case MOD_param:
  case MOD_param__entry:
    return PARAM_WINDOW;
  default:
    return 0; /* .global and .const addresses are generic ones */
  }
}
EXEC1(cvta, uint64_t, uint64_t, done_any, a + window((enum mod)I->mod[0]))
EXEC1(cvta_to, uint64_t, uint64_t, done_any, a - window((enum mod)I->mod[0]))

/* .const variables live in device memory: told from .global by the module's list. */
static bool in_const(const struct warp *w, uint64_t addr) {
  const struct module *m = w->fn->module;
  for (uint32_t i = 0; i < m->nvar; i++)
    if (m->var[i].space == SPACE_const && addr - m->var[i].address < m->var[i].size)
      return true;
  return false;
}

static bool in_space(const struct warp *w, enum mod space, uint64_t addr) {
  uint64_t at;
  const enum space s = generic_space(addr, &at);
  switch (space) {
  case MOD_global:
    return s == SPACE_global && !in_const(w, addr);
  case MOD_const:
    return s == SPACE_const || in_const(w, addr);
  case MOD_local:
    return s == SPACE_local;
  case MOD_param:
  case MOD_param__entry:
    return s == SPACE_param;
  case MOD_shared__cluster:
    return s == SPACE_shared || s == SPACE_shared_cluster;
  default: /* the CTA's own part of the window */
    return (s == SPACE_shared || s == SPACE_shared_cluster) &&
           at >> SHARED_RANK_SHIFT == w->cta->rank;
  }
}
EXEC1(isspacep, uint64_t, uint64_t, done_any, in_space(w, (enum mod)I->mod[0], a))

/* ---- clusters -------------------------------------------------------------------------------
 *
 * mapa: slot 0 .shared::cluster (else generic addresses), slot 1 the type. */

static enum step mapa(struct warp *w, const struct insn *I, uint32_t lanes) {
  const uint64_t offset = (1ull << SHARED_RANK_SHIFT) - 1;
  const uint64_t base = I->mod[0] == MOD_none ? SHARED_WINDOW : 0;
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    const uint64_t a = opd_get(w, &I->opd[1], l), rank = opd_get(w, &I->opd[2], l);
    uint64_t undef = opd_get_undef(w, &I->opd[1], l) | opd_get_undef(w, &I->opd[2], l);
    if (!undef && rank >= w->cta->cluster->size) {
      struct access who = access_of(w, I, l);
      if (fault(&who, CHECK_cluster, "mapa-rank", "rank %llu in a cluster of %u CTAs",
                (unsigned long long)rank, w->cta->cluster->size))
        return STEP_fault;
    }
    opd_set(w, &I->opd[0], l, base + (rank << SHARED_RANK_SHIFT | (a & offset)), undef ? ~0ull : 0);
  }
  return STEP_next;
}

EXEC1(getctarank, uint32_t, uint64_t, done_any,
      (a - (I->mod[0] == MOD_none ? SHARED_WINDOW : 0)) >> SHARED_RANK_SHIFT)

#define D      "definition"
#define SPACES "{.global|.shared|.shared::cta|.shared::cluster|.local|.const|.param|.param::entry}"

const struct form forms_move[] = {
    {"mov{.pred|.u16|.s16|.u32|.s32|.u64|.s64|.f32|.f64}", "wT rT$", mov, 0, D, 0},
    {"mov{.b16|.b32|.b64}", "xwT xrT$", mov, 0, D, 0},
    {"mov.b128", "xwT xrT", mov, 0, D, 0},
    {"cvta" SPACES ".u64", "wT rT$", cvta, 0, D, 0},
    {"cvta.to" SPACES ".u64", "wT rT", cvta_to, 0, D, 0},
    {"isspacep" SPACES, "wp r64", isspacep, 0, D, 0},
    {"mapa[.shared::cluster]{.u32|.u64}", "wT rT$ r32", mapa, 0, D, 0},
    {"getctarank[.shared::cluster]{.u32|.u64}", "w32 rT$", getctarank, 0, D, 0},
    {0},
};
