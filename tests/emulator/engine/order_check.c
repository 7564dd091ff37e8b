/* SPDX-License-Identifier: Apache-2.0
 *
 * Every access, compared with those before it of the same bytes.
 *
 * Two accesses are in conflict when one of them writes.  The later must know the earlier:
 * by causality, and where they go through different proxies with a fence on the path.  Of
 * two strong ones whose scopes hold both threads neither has to know the other; but where
 * the value that stays, or one that is read once, depends on which comes first, that is
 * told as well (LACK_coherence).
 */
#include "order_state.h"

/* ---- known? --------------------------------------------------------------------------------- */

static bool cta_knows(const struct cta_clock *k, const struct entry *e, uint32_t lanes) {
  if (e->flags & ENTRY_slot)
    return cta_clock_knows_slot(k, e->agent, e->epoch);
  return cta_clock_knows(k, e->agent, lanes, e->epoch);
}

bool known_to(const struct clock *c, const struct world *whole, const struct entry *e,
              uint32_t lanes) {
  const struct grid_record *g = grid_record(e->grid);
  if (!e->grid || world_knows(c->world, g) || world_knows(whole, g))
    return true;
  if (e->flags & ENTRY_grid)
    return e->grid == c->grid; /* cannot be told apart any more */
  const struct cta_clock *k =
      e->grid == c->grid && e->cta - c->first < c->size ? c->cta[e->cta - c->first] : NULL;
  if (k && cta_knows(k, e, lanes))
    return true;
  k = c->world ? world_cta(c->world, e->grid, e->cta) : NULL;
  return k && cta_knows(k, e, lanes);
}

/* By causality, for shared memory also as fences of that alone hand it on. */
static bool caused(const struct observer *w, const struct view *v, const struct world *whole,
                   const struct entry *e, uint32_t lanes) {
  return known_to(v->k[KIND_generic], whole, e, lanes) ||
         (w->mem->space == SPACE_shared && known_to(v->k[KIND_near], whole, e, lanes));
}

/* ---- in conflict --------------------------------------------------------------- */

/* The least scope that holds both. */
uint8_t order_relation(const struct observer *w, const struct entry *e) {
  const struct grid_record *g = grid_record(e->grid);
  if (!w->cta || !g->fn)
    return SCOPE_sys;
  if (g->dev != w->a->grid->dev)
    return SCOPE_sys;
  if (e->grid != w->cta->grid || e->cta - w->cta->first >= w->cta->size)
    return SCOPE_gpu;
  return e->cta == cta_index(w->cta) ? SCOPE_cta : SCOPE_cluster;
}

static bool morally_strong(const struct observer *w, const struct entry *e) {
  const uint16_t mine = w->entry.flags, old = e->flags;
  if (!(mine & old & ENTRY_strong))
    return false;
  uint8_t r = order_relation(w, e);
  unsigned each = mine >> ENTRY_element & 7, other = old >> ENTRY_element & 7;
  return (mine >> ENTRY_scope & 3) >= r && (old >> ENTRY_scope & 3) >= r &&
         (each == other || !each || !other);
}

/* Is the instruction inside a loop, so that what it reads may be read again? */
bool order_in_loop(const struct function *fn, uint32_t index) {
  for (uint32_t i = index; fn && i < fn->ninsn; i++) {
    const struct insn *I = &fn->insn[i];
    if (!(I->form->flags & FORM_branch))
      continue;
    for (unsigned k = 0; k < I->nopd; k++)
      if (I->opd[k].kind == OPD_label && I->opd[k].imm <= index)
        return true;
  }
  return false;
}

static bool by_self(const struct observer *w, const struct entry *e) {
  return !(e->flags & (ENTRY_slot | ENTRY_grid)) && e->grid == w->cta->grid &&
         e->cta == cta_index(w->cta) && e->agent == w->a->warp;
}

/* Has the thread, or whom it knows, read what e left there? */
static bool seen(const struct observer *w, const struct line *l, const struct entry *e,
                 uint64_t bytes) {
  uint64_t left = bytes;
  for (uint32_t i = 0; l && i < l->n && left; i++) {
    const struct entry *r = &l->at[i];
    if (r == e || r->flags & ENTRY_write || !(r->mask & left))
      continue;
    bool self = by_self(w, r) && r->lanes >> w->a->lane & 1;
    if (self || known_to(w->view->k[KIND_generic], NULL, r, r->lanes))
      left &= ~r->mask;
  }
  return !left;
}

/* Both strong, and neither known: does the outcome depend on timing? */
static bool strong_conflict(struct observer *w, const struct entry *e, uint64_t line,
                            uint64_t bytes) {
  const uint16_t mine = w->entry.flags, old = e->flags;
  if ((mine | old) & ENTRY_atomic || w->mem->space != SPACE_global)
    return true;
  if (mine & old & ENTRY_write) {
    const struct shadow *s = w->mem->shadow;
    uint64_t n = line / LINE_BYTES;
    if ((mine >> ENTRY_scope & 3) < SCOPE_sys || (old >> ENTRY_scope & 3) < SCOPE_sys ||
        seen(w, s->page[n / PAGE_LINES]->line[n % PAGE_LINES], e, bytes))
      return true;
    return !order_report(w, e, line, bytes, LACK_coherence);
  }
  /* A load that is not repeated takes what it gets: the store must be before or after it. */
  const struct function *fn = mine & ENTRY_write ? grid_record(e->grid)->fn : w->a->grid->fn;
  uint32_t index = mine & ENTRY_write ? e->insn : w->entry.insn;
  if (order_in_loop(fn, index))
    return true;
  return !order_report(w, e, line, bytes, LACK_coherence);
}

/* Before its wait a grid knows what a grid before it released by a fence before it triggered:
 * but for a load that goes to where the scope begins, no copy of the word in a cache of the
 * SM, left by whoever ran there, is known to be dropped.  (If the thread has learned anything
 * by other ways, this may be among it.) */
static bool only_by_trigger(const struct observer *w, const struct entry *e) {
  const uint16_t flags = w->entry.flags;
  if (!(flags & ENTRY_early) || flags & ENTRY_write || w->mem->space != SPACE_global ||
      (flags & ENTRY_strong && (flags >> ENTRY_scope & 3) >= SCOPE_gpu) || e->flags & ENTRY_slot ||
      e->grid == w->cta->grid)
    return false;
  const struct grid_record *me = grid_record(w->cta->grid), *by = grid_record(e->grid);
  const struct world *known = w->view->k[KIND_generic]->world;
  return known && known == me->begin[KIND_generic] && known != me->start &&
         !world_knows(me->start, by) && world_knows(me->waited, by);
}

static bool conflict(struct observer *w, const struct entry *e, uint64_t line, uint64_t bytes) {
  if (!e->grid || grid_record(e->grid)->failed)
    return true;
  if (!w->cta) /* the host */
    return world_knows(w->world, grid_record(e->grid)) || morally_strong(w, e) ||
           !order_report(w, e, line, bytes, LACK_order);
  const struct world *whole = w->view->k[KIND_generic]->world;
  uint32_t lanes = e->lanes;
  bool proxies = w->fenced && e->flags & ENTRY_write && !(e->flags & ENTRY_async);
  if (by_self(w, e)) {
    if (!w->a->order || e->epoch <= w->a->order->epoch)
      lanes &= ~(1u << w->a->lane);
    if (!lanes && w->maps) /* its own change of a map */
      return known_to(w->maps, whole, e, e->lanes) || !order_report(w, e, line, bytes, LACK_map);
    if (!lanes && (!proxies || w->entry.flags & e->flags & ENTRY_strong))
      return true;
    if (!lanes) {
      const struct clock *fenced = w->a->order->view->k[w->kind];
      return known_to(fenced, whole, e, e->lanes) || !order_report(w, e, line, bytes, LACK_fence);
    }
    /* Lanes of one instruction that write the same place. */
    if (w->entry.flags & e->flags & ENTRY_write && e->insn == w->entry.insn &&
        e->epoch == w->entry.epoch)
      return true;
  }
  if (w->maps)
    return known_to(w->maps, whole, e, lanes) || !(e->flags & ENTRY_write) ||
           !order_report(w, e, line, bytes, LACK_map);
  if (only_by_trigger(w, e))
    return !order_report(w, e, line, bytes, LACK_wait);
  if (!caused(w, w->view, whole, e, lanes)) {
    if (morally_strong(w, e))
      return strong_conflict(w, e, line, bytes);
    bool later = w->after && caused(w, w->after, whole, e, lanes);
    return !order_report(w, e, line, bytes, later ? LACK_after : LACK_order);
  }
  return !proxies || known_to(w->fenced, whole, e, lanes) ||
         !order_report(w, e, line, bytes, LACK_fence);
}

/* ---- the access ---------------------------------------------------------------- */

static uint16_t flags_of(const struct access *a, bool write) {
  unsigned element = a->element ? 1 + (unsigned)__builtin_ctz(a->element) : 0;
  return (uint16_t)((write ? ENTRY_write : 0) | (a->proxy == PROXY_async ? ENTRY_async : 0) |
                    (a->sem != SEM_weak ? ENTRY_strong : 0) | (a->atomic ? ENTRY_atomic : 0) |
                    (a->proxy == PROXY_tensormap ? ENTRY_map : 0) |
                    (unsigned)(a->scope & 3) << ENTRY_scope | (element & 7) << ENTRY_element);
}

static void observe_issue(struct observer *w, const struct issue *i, bool write) {
  const struct access *a = w->a;
  w->view = i->view;
  if (i->shared && w->mem->space == SPACE_shared) {
    w->view = i->shared;
    w->after = i->view;
  }
  if (a->proxy == PROXY_async) {
    w->kind = w->mem->space == SPACE_shared ? KIND_shared : KIND_global;
    w->fenced = w->view->k[w->kind];
  }
  w->entry.epoch = i->epoch;
  if (i->slot[write] == NO_SLOT)
    return;
  w->entry.flags |= ENTRY_slot;
  w->entry.agent = (uint16_t)i->slot[write];
  w->entry.cta = w->cta->first + i->rank;
  w->entry.lanes = a->warp << 5 | a->lane;
  w->entry.epoch = i->target ? order_barrier(i->target, i->offset)->phase + 1 : i->n[write];
}

static bool observe(struct observer *w, const struct access *a, struct mem *mem, bool write) {
  *w = (struct observer){.a = a, .mem = mem, .entry = {.flags = flags_of(a, write)}};
  if (!a->cta) {
    w->entry.grid = order_host_record();
    w->entry.flags |= ENTRY_strong | SCOPE_sys << ENTRY_scope;
    w->world = w->entry.grid ? grid_record(w->entry.grid)->start : NULL;
    return true;
  }
  const struct cta_order *o = w->cta = a->cta->order;
  if (!o)
    return false;
  struct thread_state *t = thread_of(o, a->warp, a->lane);
  w->thread = t;
  w->view = t->view;
  w->entry.grid = o->grid;
  w->entry.cta = cta_index(o);
  w->entry.insn = a->insn->index;
  w->entry.agent = (uint16_t)a->warp;
  w->entry.lanes = 1u << a->lane;
  w->entry.epoch = t->epoch;
  if (a->proxy == PROXY_tensormap)
    w->maps = t->extra && t->extra->maps ? t->extra->maps : o->start->k[KIND_tensormap];
  if (a->order)
    observe_issue(w, a->order, write);
  if (!(a->order ? a->order->waited : t->waited))
    w->entry.flags |= ENTRY_early;
  return true;
}

void order_access(const struct access *a, struct mem *mem, uint64_t offset, uint64_t size,
                  bool write) {
  struct observer w;
  if (a->grid && (!a->grid->run || a->grid->run->failed))
    return; /* one report is enough */
  if ((mem->space != SPACE_global && mem->space != SPACE_shared) || !observe(&w, a, mem, write))
    return;
  if (!mem->shadow)
    mem->shadow = shadow_new(mem->size);
  if (mem->pinned && w.cta && !a->engine && a->sem != SEM_weak && a->scope < SCOPE_sys &&
      fault(a, CHECK_mailbox, "host-scope",
            "a strong %s of %s at a scope that leaves the host out: who else may use the word at "
            "that time is the host, and to it the access is no better than a weak one: .sys",
            a->atomic ? "update"
            : write   ? "write"
                      : "read",
            mem->what))
    return;
  bool check = w.cta || w.entry.grid;
  (void)shadow_access(mem->shadow, &w, offset, size, check ? conflict : NULL);
}

void order_mem_same(struct mem *mem, struct mem *other, uint64_t size) {
  mem->shadow = other ? shadow_ref(other->shadow) : shadow_new(size);
}

void order_mem_freed(struct mem *mem) {
  shadow_free(mem->shadow);
  mem->shadow = NULL;
}
