/* SPDX-License-Identifier: Apache-2.0
 *
 * Asynchronous operations and mbarriers: what an operation may count on is what its issuer
 * knew at the issue; who may count on it is whoever observed its completion.
 */
#include "order_state.h"

#include "mbarrier.h"

/* ---- slots --------------------------------------------------------------------- */

uint32_t order_slot(struct cta_order *o, uint32_t key) {
  for (uint32_t i = o->nslot; i-- > 0;)
    if (o->slot_key[i] == key)
      return i;
  o->slot_key = emu_grow(o->slot_key, o->nslot, &o->slot_room, sizeof *o->slot_key);
  o->slot_key[o->nslot] = key;
  return o->nslot++;
}

struct barrier_state *order_barrier(struct cta_order *o, uint32_t offset) {
  for (uint32_t i = 0; i < o->nbarrier; i++)
    if (o->barrier[i].offset == offset)
      return &o->barrier[i];
  o->barrier = emu_grow(o->barrier, o->nbarrier, &o->barrier_room, sizeof *o->barrier);
  struct barrier_state *b = &o->barrier[o->nbarrier++];
  *b = (struct barrier_state){.offset = offset};
  b->slot = order_slot(o, SLOT_MBARRIER | offset);
  return b;
}

/* ---- issues -------------------------------------------------------------------- */

static struct issue *issue_new(struct access *a) {
  const struct cta_order *o = a->cta ? a->cta->order : NULL;
  a->order = NULL;
  if (!o)
    return NULL;
  struct thread_state *t = thread_of(o, a->warp, a->lane);
  struct issue *i = emu_alloc(sizeof *i);
  i->refs = 1;
  i->view = view_ref(t->view);
  if (t->extra && t->extra->maps)
    i->maps = clock_ref(t->extra->maps);
  i->rank = o->rank;
  i->epoch = t->epoch++; /* what the thread does from here on is not before the operation */
  i->waited = t->waited;
  i->slot[0] = i->slot[1] = NO_SLOT;
  return a->order = i;
}

void order_issue_hold(struct issue *i) {
  if (i)
    i->refs++;
}

void order_issue_over(struct access *a) {
  struct issue *i = a->order;
  a->order = NULL;
  if (!i || --i->refs)
    return;
  view_drop(i->view);
  view_drop(i->shared);
  clock_drop(i->maps);
  clock_drop(i->commit);
  for (int r = 0; r < RELATIONS; r++)
    view_drop(i->fenced[r]);
  free(i);
}

void order_issue_mbarrier(struct access *a, uint64_t mbar) {
  struct issue *i = issue_new(a);
  if (!i)
    return;
  uint32_t rank = (uint32_t)(mbar >> SHARED_RANK_SHIFT);
  if (rank >= a->cta->cluster->size)
    return;
  i->target = a->cta->cluster->cta[rank]->order;
  i->offset = (uint32_t)(mbar & low_mask(SHARED_RANK_SHIFT));
  i->rank = rank;
  i->engine = true;
  i->slot[0] = i->slot[1] = order_barrier(i->target, i->offset)->slot;
}

void order_issue_remote(struct access *a, uint64_t mbar) {
  order_issue_mbarrier(a, mbar);
  if (a->order) {
    a->order->remote = true;
    a->order->engine = false;
  }
}

static uint32_t pipe_key(enum pipe pipe, uint32_t warp, uint32_t lane) {
  bool whole = pipe == PIPE_wgmma || pipe == PIPE_tcgen05_ld || pipe == PIPE_tcgen05_st;
  return (uint32_t)pipe << 16 | (warp * WARP + (whole ? 0 : lane));
}

void order_issue_pipe(struct access *a, enum pipe pipe, uint64_t n) {
  struct issue *i = issue_new(a);
  if (!i)
    return;
  i->slot[0] = i->slot[1] = order_slot(a->cta->order, pipe_key(pipe, a->warp, a->lane));
  i->n[0] = i->n[1] = (uint32_t)n;
  const struct extra *x = thread_of(a->cta->order, a->warp, a->lane)->extra;
  if (pipe == PIPE_tcgen05)
    i->shared = view_ref(x && x->after ? x->after : a->cta->order->start);
}

void order_issue_bulk_store(struct access *a, uint64_t group) {
  struct issue *i = issue_new(a);
  if (!i)
    return;
  i->slot[0] = order_slot(a->cta->order, pipe_key(PIPE_bulk_read, a->warp, a->lane));
  i->slot[1] = order_slot(a->cta->order, pipe_key(PIPE_bulk_write, a->warp, a->lane));
  i->n[0] = i->n[1] = (uint32_t)group;
}

void order_issue_store(struct access *a) {
  struct issue *i = issue_new(a);
  if (!i)
    return;
  const struct cta_order *o = a->cta->order;
  if (a->sem == SEM_release) {
    struct view *v = thread_publish(o, a->warp, a->lane);
    for (int r = 0; r <= a->scope; r++)
      i->fenced[r] = view_ref(v);
    view_drop(v);
  } else if (a->sem != SEM_weak) {
    for (int r = 0; r <= a->scope; r++)
      i->fenced[r] = thread_fenced(o, a->warp, a->lane, (uint8_t)r);
  }
}

void order_pipe_known(struct warp *w, uint32_t lanes, enum pipe pipe, uint64_t n) {
  struct cta_order *o = w->cta->order;
  if (!o || !n)
    return;
  bool whole = pipe == PIPE_wgmma || pipe == PIPE_tcgen05_ld || pipe == PIPE_tcgen05_st;
  struct view *before = NULL, *after = NULL;
  FOR_LANES(l, lanes) {
    struct thread_state *t = thread_of(o, w->index, l);
    uint32_t slot = order_slot(o, pipe_key(pipe, w->index, l));
    const struct cta_clock *k = t->view->k[KIND_generic]->cta[o->rank];
    if (k && cta_clock_knows_slot(k, slot, (uint32_t)n))
      continue;
    if (!whole || t->view != before) {
      view_drop(before);
      view_drop(after);
      before = view_ref(t->view);
      struct clock *c = clock_ref(before->k[KIND_generic]);
      clock_set_slot(&c, o->rank, o->nwarp, slot, (uint32_t)n);
      after = view_with(before, KIND_generic, c);
    }
    view_drop(t->view);
    t->view = view_ref(after);
  }
  view_drop(before);
  view_drop(after);
}

/* ---- mbarriers ----------------------------------------------------------------- */

bool order_mbar_init(const struct access *a, struct cta *c, uint32_t offset) {
  struct cta_order *o = c->order;
  if (!o || !a->cta)
    return true;
  struct barrier_state *b = order_barrier(o, offset);
  b->live = true;
  b->any_done = false;
  b->phase++; /* what still arrives for an earlier life is not of this one */
  b->init = *a;
  b->init_epoch = thread_of(a->cta->order, a->warp, a->lane)->epoch;
  return true;
}

bool order_mbar_inval(const struct access *a, struct cta *c, uint32_t offset) {
  if (c->order)
    order_barrier(c->order, offset)->live = false;
  (void)a;
  return true;
}

static bool init_in(const struct view *v, enum kind kind, const struct cta_order *o,
                    const struct barrier_state *b) {
  const struct clock *c = v->k[kind];
  if (c->grid != o->grid || c->first != o->first)
    return true;
  const struct cta_clock *k = c->cta[b->init.cta->rank];
  return k && cta_clock_knows(k, b->init.warp, 1u << b->init.lane, b->init_epoch);
}

bool order_mbar_used(const struct access *a, struct cta *c, uint32_t offset) {
  struct cta_order *o = c->order;
  if (!o || !a->cta)
    return true;
  if (!check_on(a->m, CHECK_mbarrier))
    return true;
  const struct barrier_state *b = order_barrier(o, offset);
  if (!b->live || !b->init.cta)
    return true;
  const struct view *v =
      a->order ? a->order->view : thread_of(a->cta->order, a->warp, a->lane)->view;
  bool self = a->cta == b->init.cta && a->warp == b->init.warp && a->lane == b->init.lane;
  bool fenced = init_in(v, KIND_init, o, b) || init_in(v, KIND_shared, o, b);
  bool known = self || init_in(v, KIND_generic, o, b) || init_in(v, KIND_near, o, b);
  bool engine = a->order && a->order->engine;
  if (fenced || (!engine && known))
    return true;
  struct report r = {.check = CHECK_mbarrier,
                     .rule = "mbarrier-init-order",
                     .who = a,
                     .has_address = true,
                     .space = SPACE_shared_cluster,
                     .address = (uint64_t)c->rank << SHARED_RANK_SHIFT | offset,
                     .other = &b->init};
  (void)snprintf(r.text, sizeof r.text,
                 known ? "an asynchronous operation uses the mbarrier, whose mbarrier.init at line "
                         "%u no fence.mbarrier_init or fence.proxy.async follows on the path"
                       : "the mbarrier is used, and nothing orders its mbarrier.init at line %u "
                         "before: neither a barrier of the CTA nor a fence.mbarrier_init and a "
                         "barrier of the cluster",
                 b->init.insn->line);
  return !report(a->m, &r);
}

void order_mbar_arrived(const struct access *a, struct cta *c, uint32_t offset) {
  struct cta_order *o = c->order;
  if (!o || !a->cta)
    return;
  struct barrier_state *b = order_barrier(o, offset);
  if (!a->order) {
    struct warp *w = &a->cta->warp[a->warp];
    bool own = a->cta == c;
    const uint8_t relation = own ? SCOPE_cta : SCOPE_cluster;
    if (a->scope < relation)
      return; /* who waits there is not in the scope */
    if (a->sem == SEM_relaxed)
      gather_add_relaxed(own ? b->here : b->remote, w, 1u << a->lane, relation);
    else
      gather_add(own ? b->here : b->remote, w, 1u << a->lane);
    return;
  }
  /* An operation that completes in this phase, or has: what it publishes is itself. */
  const struct issue *i = a->order;
  struct meeting *g = i->remote ? b->remote : b->here;
  struct view *v = view_own(view_ref(o->start));
  for (int k = 0; k < 2; k++)
    if (i->slot[k] != NO_SLOT)
      clock_set_slot(&v->k[KIND_generic], i->rank, o->nwarp, i->slot[k],
                     i->target ? b->phase + 1 : i->n[k]);
  if (i->commit) { /* tcgen05.commit: tensor memory, too */
    struct clock *t = clock_join(v->k[KIND_tcgen05], i->commit);
    clock_drop(v->k[KIND_tcgen05]);
    v->k[KIND_tcgen05] = t;
  }
  struct view *joined = view_join(g->base, v);
  view_drop(g->base);
  view_drop(v);
  g->base = joined;
}

void order_mbar_phase(struct cta *c, uint32_t offset) {
  if (!c->order)
    return;
  struct barrier_state *b = order_barrier(c->order, offset);
  view_drop(b->done_here);
  view_drop(b->done_remote);
  b->done_here = gather_close(b->here);
  b->done_remote = gather_close(b->remote);
  b->any_done = true;
  b->phase++;
}

void order_mbar_passed(const struct access *a, struct cta *c, uint32_t offset) {
  if (!c->order)
    return;
  const struct barrier_state *b = order_barrier(c->order, offset);
  if (!b->any_done)
    return;
  struct thread_state *t = thread_of(a->cta->order, a->warp, a->lane);
  struct view *const done[] = {b->done_here, b->done_remote};
  static const uint8_t relation[] = {SCOPE_cta, SCOPE_cluster};
  for (int i = 0; i < 2; i++) {
    if (!done[i] || a->scope < relation[i])
      continue;
    if (a->sem == SEM_relaxed)
      thread_pend(t, relation[i], done[i]);
    else
      thread_learn(t, done[i]);
  }
}
