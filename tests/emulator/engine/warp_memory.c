/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory accesses of a whole warp: what the modifiers mean, the addresses of all lanes,
 * and the one memory they lie in.
 */
#include "mbarrier.h"

/* ---- modifiers ------------------------------------------------------------------------ */

enum space space_of(enum mod m) {
  switch (m) {
  case MOD_global:
    return SPACE_global;
  case MOD_const:
    return SPACE_const;
  case MOD_local:
    return SPACE_local;
  case MOD_param:
  case MOD_param__entry:
  case MOD_param__func:
    return SPACE_param;
  case MOD_shared:
  case MOD_shared__cta:
    return SPACE_shared;
  case MOD_shared__cluster:
    return SPACE_shared_cluster;
  default:
    return SPACE_generic;
  }
}

uint8_t sem_of(enum mod m) {
  switch (m) {
  case MOD_relaxed:
    return SEM_relaxed;
  case MOD_acquire:
    return SEM_acquire;
  case MOD_release:
    return SEM_release;
  case MOD_acq_rel:
    return SEM_acq_rel;
  case MOD_volatile:
    return SEM_volatile;
  default:
    return SEM_weak;
  }
}

uint8_t scope_of(enum mod m, uint8_t missing) {
  switch (m) {
  case MOD_cta:
    return SCOPE_cta;
  case MOD_cluster:
    return SCOPE_cluster;
  case MOD_gpu:
  case MOD_gl:
    return SCOPE_gpu;
  case MOD_sys:
    return SCOPE_sys;
  default:
    return missing;
  }
}

bool insn_has(const struct insn *I, enum mod m) {
  for (int i = 0; i < INSN_MODS; i++)
    if (I->mod[i] == m)
      return true;
  return false;
}

/* ---- addresses ------------------------------------------------------------------------ */

bool warp_addresses(struct warp *w, const struct insn *I, const struct opd *o, uint32_t lanes,
                    uint64_t addr[WARP]) {
  if (!o->n) {
    uint64_t a;
    if (!opd_address(w, I, o, first_lane(lanes), &a))
      return false;
    for (int l = 0; l < WARP; l++)
      addr[l] = a;
    return true;
  }
  int rs, us;
  const uint64_t *r = opd_src(w, &o->elem[0], &rs), *u = opd_undef(w, &o->elem[0], &us);
  uint64_t mask = low_mask(o->elem[0].bits), undef = 0;
  FOR_LANES(l, lanes) undef |= u[l * (uint32_t)us];
  if (undef & mask || o->symbol) {
    FOR_LANES(l, lanes) {
      if (!opd_address(w, I, o, (int)l, &addr[l]))
        return false;
    }
    return true;
  }
  for (int l = 0; l < WARP; l++)
    addr[l] = (r[l * rs] + o->imm) & mask;
  return true;
}

/* Where generic or plain address `first` of the space leads, as (memory, base address). */
static struct mem *candidate(struct warp *w, enum space sp, uint64_t first, bool write,
                             uint64_t *base) {
  struct grid *g = w->cta->grid;
  uint64_t in = first, window = 0;
  if (sp == SPACE_generic) {
    sp = generic_space(first, &in);
    window = first - in;
  }
  *base = window;
  switch (sp) {
  case SPACE_shared:
    *base += (uint64_t)w->cta->rank << SHARED_RANK_SHIFT;
    return &w->cta->shared;
  case SPACE_shared_cluster: {
    uint64_t rank = in >> SHARED_RANK_SHIFT;
    struct cluster *k = w->cta->cluster;
    if (rank >= k->size || k->cta[rank]->exited)
      return NULL;
    if (k->cta[rank] != w->cta)
      return NULL; /* lane by lane: peers.c counts the accesses */
    *base += rank << SHARED_RANK_SHIFT;
    return &k->cta[rank]->shared;
  }
  case SPACE_param:
    return write ? NULL : &g->run->param;
  case SPACE_local:
  case SPACE_tmem:
    return NULL;
  default: {
    struct mem *mem = w->simt.near;
    if (!mem || mem->freed || first - mem->base >= mem->size) {
      mem = global_find(g->dev->m, first);
      if (!mem || mem->freed || mem->multicast || !mem_reachable(g->dev, mem))
        return NULL; /* the slow way says what is wrong, or does what is special */
      w->simt.near = mem;
    }
    if (write && mem->constant)
      return NULL;
    *base = mem->base;
    return mem;
  }
  }
}

/* Some mbarrier may lie in [from, to) of the CTA's shared memory. */
static bool mbar_near(const struct cta *c, uint64_t from, uint64_t to) {
  const struct mbar_table *t = c->mbar;
  return t && from < t->hi && to > t->lo;
}

struct mem *warp_resolve(struct warp *w, enum space sp, uint32_t lanes, uint64_t addr[WARP],
                         uint32_t size, bool write) {
  uint64_t lo = UINT64_MAX, hi = 0, bits = 0, base;
  if (lanes == ALL_LANES) {
    for (int l = 0; l < WARP; l++) {
      lo = addr[l] < lo ? addr[l] : lo;
      hi = addr[l] > hi ? addr[l] : hi;
      bits |= addr[l];
    }
  } else {
    FOR_LANES(l, lanes) {
      lo = addr[l] < lo ? addr[l] : lo;
      hi = addr[l] > hi ? addr[l] : hi;
      bits |= addr[l];
    }
  }
  struct mem *mem = candidate(w, sp, lo, write, &base);
  if (!mem || bits & (size - 1) || mem->size < size || lo < base || hi - base > mem->size - size)
    return NULL;
  if (mem->space == SPACE_shared && mbar_near(mem->cta, lo - base, hi - base + size))
    return NULL;
  for (int l = 0; l < WARP; l++)
    addr[l] -= base;
  return mem;
}
