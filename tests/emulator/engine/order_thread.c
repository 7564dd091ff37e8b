/* SPDX-License-Identifier: Apache-2.0
 *
 * What threads know, and how they pass it on: barriers of warps, CTAs and clusters, and
 * fences.
 */
#include "order_state.h"

/* ---- threads ------------------------------------------------------------------- */

void thread_learn(struct thread_state *t, struct view *v) {
  struct view *joined = view_join(t->view, v);
  view_drop(t->view);
  t->view = joined;
}

void order_learn(struct warp *w, uint32_t lanes, struct view *v) {
  const struct cta_order *o = w->cta->order;
  if (o && v)
    FOR_LANES(l, lanes) thread_learn(thread_of(o, w->index, l), v);
}

void thread_pend(struct thread_state *t, int relation, struct view *v) {
  struct view **p = &extra_of(t)->pending[relation], *joined = view_join(*p, v);
  view_drop(*p);
  *p = joined;
}

struct view *view_with_own(struct view *v, enum kind kind, const struct cta_order *o, uint32_t warp,
                           uint32_t lane, uint32_t epoch) {
  struct clock *c = clock_ref(v->k[kind]);
  clock_set_lanes(&c, o->rank, o->nwarp, warp, 1u << lane, &epoch, true);
  return view_with(v, kind, c);
}

struct view *thread_publish(const struct cta_order *o, uint32_t warp, uint32_t lane) {
  struct thread_state *t = thread_of(o, warp, lane);
  return view_with_own(t->view, KIND_generic, o, warp, lane, t->epoch++);
}

struct view *thread_fenced(const struct cta_order *o, uint32_t warp, uint32_t lane,
                           uint8_t relation) {
  struct extra *x = thread_of(o, warp, lane)->extra;
  struct fenced *f = x ? &x->fenced[relation] : NULL;
  if (!f || !f->view)
    return NULL;
  if (!f->made)
    f->made = view_with_own(f->view, f->own, o, warp, lane, f->epoch);
  return view_ref(f->made);
}

static void extra_free(struct extra *x) {
  for (int i = 0; x && i < RELATIONS; i++) {
    view_drop(x->fenced[i].view);
    view_drop(x->fenced[i].made);
    view_drop(x->pending[i]);
  }
  if (x) {
    clock_drop(x->maps);
    view_drop(x->after);
    clock_drop(x->tmem);
  }
  free(x);
}

/* The lanes that the warp began with. */
static uint32_t all_lanes(const struct warp *w) {
  const uint32_t *b = w->cta->grid->block;
  uint32_t n = b[0] * b[1] * b[2] - w->index * WARP;
  return n >= WARP ? ALL_LANES : (1u << n) - 1;
}

/* Raises the lanes to one epoch, if they are a whole warp; epoch[] are then all that one. */
static bool common_epoch(const struct warp *w, uint32_t lanes, uint32_t epoch[WARP]) {
  const struct cta_order *o = w->cta->order;
  uint32_t most = 0;
  FOR_LANES(l, lanes) {
    epoch[l] = thread_of(o, w->index, l)->epoch;
    most = epoch[l] > most ? epoch[l] : most;
  }
  if (lanes != all_lanes(w))
    return false;
  FOR_LANES(l, lanes) thread_of(o, w->index, l)->epoch = epoch[l] = most;
  return true;
}

static void next_epoch(const struct warp *w, uint32_t lanes) {
  FOR_LANES(l, lanes) thread_of(w->cta->order, w->index, l)->epoch++;
}

/* ---- meeting ------------------------------------------------------------------- */

static void gather_base(struct meeting *g, struct view *v) {
  struct view *joined = view_join(g->base, v);
  view_drop(g->base);
  g->base = joined;
  g->any = true;
}

void gather_add(struct meeting *g, struct warp *w, uint32_t lanes) {
  const struct cta_order *o = w->cta->order;
  if (!o || !lanes)
    return;
  if (!g->own)
    g->own = clock_new(o->grid, o->first, o->size, o->start->k[KIND_generic]->world);
  const struct view *last = NULL;
  uint32_t epoch[WARP];
  FOR_LANES(l, lanes) {
    struct thread_state *t = thread_of(o, w->index, l);
    if (t->view != last)
      gather_base(g, t->view);
    last = t->view;
  }
  /* A whole warp goes on with one epoch, so that its clocks are one number. */
  if (common_epoch(w, lanes, epoch))
    clock_set_lanes(&g->own, o->rank, o->nwarp, w->index, ALL_LANES, &epoch[first_lane(lanes)],
                    true);
  else
    clock_set_lanes(&g->own, o->rank, o->nwarp, w->index, lanes, epoch, false);
  next_epoch(w, lanes);
}

/* Nothing but what is true of itself: the CTA runs, and its fenced mbarriers. */
static struct view *bare(const struct cta_order *o, const struct thread_state *t) {
  struct view *v = view_own(view_ref(o->start));
  clock_drop(v->k[KIND_init]);
  v->k[KIND_init] = clock_ref(t->view->k[KIND_init]);
  return v;
}

void gather_add_relaxed(struct meeting *g, struct warp *w, uint32_t lanes, uint8_t scope) {
  const struct cta_order *o = w->cta->order;
  if (!o)
    return;
  FOR_LANES(l, lanes) {
    const struct thread_state *t = thread_of(o, w->index, l);
    if (l && lanes >> (l - 1) & 1 && !t->extra && !thread_of(o, w->index, l - 1)->extra &&
        t->view == thread_of(o, w->index, l - 1)->view)
      continue; /* nothing new */
    struct view *v = bare(o, t), *f = thread_fenced(o, w->index, l, scope);
    gather_base(g, v);
    if (f)
      gather_base(g, f);
    view_drop(v);
    view_drop(f);
  }
}

struct view *gather_close(struct meeting *g) {
  struct view *v = g->base;
  if (v && g->own) {
    clock_even(g->own);
    struct clock *c = clock_join(v->k[KIND_generic], g->own);
    struct view *with = view_with(v, KIND_generic, c);
    view_drop(v);
    v = with;
  }
  clock_drop(g->own);
  *g = (struct meeting){0};
  return v;
}

static void gather_free(struct meeting *g) {
  view_drop(g->base);
  clock_drop(g->own);
  *g = (struct meeting){0};
}

void order_warp_sync(struct warp *w, uint32_t lanes) {
  if (!w->cta->order || !(lanes & (lanes - 1)))
    return;
  struct meeting g = {0};
  gather_add(&g, w, lanes);
  struct view *v = gather_close(&g);
  order_learn(w, lanes, v);
  view_drop(v);
}

/* ---- named barriers ------------------------------------------------------------ */

void order_bar_arrive(struct warp *w, uint32_t lanes, uint32_t id) {
  if (w->cta->order)
    gather_add(&w->cta->order->bar[id].gather, w, lanes);
}

void order_bar_phase(struct cta *c, uint32_t id, uint64_t phase) {
  if (!c->order)
    return;
  struct view **done = &c->order->bar[id].done[phase & 3];
  view_drop(*done);
  *done = gather_close(&c->order->bar[id].gather);
}

void order_bar_passed(struct warp *w, uint32_t lanes, uint32_t id, uint64_t phase) {
  if (w->cta->order)
    order_learn(w, lanes, w->cta->order->bar[id].done[phase & 3]);
}

/* ---- clusters ------------------------------------------------------------------ */

struct cluster_order {
  struct meeting gather;
  struct view *done[2]; /* by phase & 1 */
};

void order_cluster_arrive(struct warp *w, uint32_t lanes, bool relaxed) {
  struct cluster_order *k = w->cta->cluster->order;
  if (!k)
    return;
  if (relaxed)
    gather_add_relaxed(&k->gather, w, lanes, SCOPE_cluster);
  else
    gather_add(&k->gather, w, lanes);
}

void order_cluster_phase(struct cluster *k) {
  if (!k->order)
    return;
  struct view **done = &k->order->done[k->bar_phase & 1];
  view_drop(*done);
  *done = gather_close(&k->order->gather);
}

void order_cluster_passed(struct warp *w, uint32_t lanes, uint64_t phase) {
  if (w->cta->cluster->order)
    order_learn(w, lanes, w->cta->cluster->order->done[phase & 1]);
}

/* ---- fences -------------------------------------------------------------------- */

void order_fence(struct warp *w, uint32_t lanes, uint8_t scope, uint8_t sem) {
  const struct cta_order *o = w->cta->order;
  if (!o)
    return;
  FOR_LANES(l, lanes) {
    struct thread_state *t = thread_of(o, w->index, l);
    struct extra *x = extra_of(t);
    if (sem != SEM_release)
      for (int r = 0; r <= scope; r++)
        if (x->pending[r]) {
          thread_learn(t, x->pending[r]);
          view_drop(x->pending[r]);
          x->pending[r] = NULL;
        }
    if (sem == SEM_acquire)
      continue;
    for (int r = 0; r <= scope; r++) {
      struct fenced *f = &x->fenced[r];
      view_drop(f->view);
      view_drop(f->made);
      *f = (struct fenced){view_ref(t->view), KIND_generic, t->epoch, NULL};
    }
    t->epoch++;
  }
}

/* What an acquiring fence leaves may still be for one of all memory; what a releasing one adds
 * comes to what fences before it published. */
void order_fence_shared(struct warp *w, uint32_t lanes, uint8_t sem) {
  const struct cta_order *o = w->cta->order;
  if (!o)
    return;
  FOR_LANES(l, lanes) {
    struct thread_state *t = thread_of(o, w->index, l);
    struct extra *x = extra_of(t);
    for (int r = 0; sem == SEM_acquire && r <= SCOPE_cluster; r++)
      if (x->pending[r]) {
        struct view *v = view_near(x->pending[r], o->start);
        thread_learn(t, v);
        view_drop(v);
      }
    if (sem == SEM_acquire)
      continue;
    struct view *near = view_near(t->view, o->start);
    for (int r = 0; r <= SCOPE_cluster; r++) {
      struct view *before = thread_fenced(o, w->index, l, (uint8_t)r),
                  *all = view_join(near, before);
      struct fenced *f = &x->fenced[r];
      view_drop(before);
      view_drop(f->view);
      view_drop(f->made);
      *f = (struct fenced){all, KIND_near, t->epoch, NULL};
    }
    view_drop(near);
    t->epoch++;
  }
}

/* The lanes' clocks of one kind catch up with all that they know by causality, and with
 * their own accesses so far.  Lanes that know the same share the result, so that it holds
 * the accesses of each for the others, too: whoever uses a kind asks for causality as well. */
static void catch_up(struct warp *w, uint32_t lanes, enum kind kind, bool own_alone) {
  const struct cta_order *o = w->cta->order;
  uint32_t epoch[WARP];
  bool whole = common_epoch(w, lanes, epoch);
  while (lanes) {
    struct view *old = thread_of(o, w->index, (uint32_t)first_lane(lanes))->view;
    uint32_t group = 0;
    FOR_LANES(l, lanes) group |= (uint32_t)(thread_of(o, w->index, l)->view == old) << l;
    struct clock *c =
        own_alone ? clock_ref(old->k[kind]) : clock_join(old->k[kind], old->k[KIND_generic]);
    if (kind == KIND_shared) {
      struct clock *with_near = clock_join(c, old->k[KIND_near]);
      clock_drop(c);
      c = with_near;
    }
    bool all = whole && group == all_lanes(w);
    if (all)
      clock_set_lanes(&c, o->rank, o->nwarp, w->index, ALL_LANES, &epoch[first_lane(group)], true);
    else
      clock_set_lanes(&c, o->rank, o->nwarp, w->index, group, epoch, false);
    struct view *v = view_with(old, kind, c);
    FOR_LANES(l, group) {
      struct thread_state *t = thread_of(o, w->index, l);
      view_drop(t->view);
      t->view = view_ref(v);
    }
    view_drop(v);
    lanes &= ~group;
  }
}

void order_fence_async(struct warp *w, uint32_t lanes, enum order_proxy spaces) {
  if (!w->cta->order)
    return;
  if (spaces & ORDER_shared)
    catch_up(w, lanes, KIND_shared, false);
  if (spaces & ORDER_global)
    catch_up(w, lanes, KIND_global, false);
  next_epoch(w, lanes);
}

void order_fence_mbarrier_init(struct warp *w, uint32_t lanes) {
  if (!w->cta->order)
    return;
  catch_up(w, lanes, KIND_init, true);
  next_epoch(w, lanes);
}

/* release: later strong stores carry on that tensor maps were written; acquire: the thread's
 * own copies may use what it knows so. */
void order_fence_tensormap(struct warp *w, uint32_t lanes, uint8_t scope, bool acquire) {
  const struct cta_order *o = w->cta->order;
  if (!o)
    return;
  if (acquire) {
    order_fence(w, lanes, scope, SEM_acquire);
    FOR_LANES(l, lanes) {
      struct thread_state *t = thread_of(o, w->index, l);
      struct extra *x = extra_of(t);
      clock_drop(x->maps);
      x->maps = clock_ref(t->view->k[KIND_tensormap]);
    }
    return;
  }
  catch_up(w, lanes, KIND_tensormap, false);
  next_epoch(w, lanes);
  order_fence(w, lanes, scope, SEM_release);
}

void order_map_copied(struct warp *w, uint32_t lanes, int lane, uint8_t scope) {
  const struct cta_order *o = w->cta->order;
  if (!o)
    return;
  struct view *v = thread_publish(o, w->index, (uint32_t)lane);
  order_learn(w, lanes, v);
  view_drop(v);
  order_fence_tensormap(w, lanes, scope, false);
}

/* ---- life of CTAs -------------------------------------------------------------- */

void order_cluster_started(struct cluster *k, uint64_t id) {
  struct grid *g = k->grid;
  if (!g->record)
    return;
  k->order = emu_alloc(sizeof *k->order);
  uint32_t first = (uint32_t)id * k->size;
  struct view *start = order_start_view(g->record, first);
  for (uint32_t r = 0; r < k->size; r++) {
    struct cta *c = k->cta[r];
    struct cta_order *o = c->order = emu_alloc(sizeof *o);
    o->grid = g->record;
    o->first = first;
    o->rank = r;
    o->size = k->size;
    o->nwarp = c->nwarp;
    o->start = view_ref(start);
    o->thread = emu_alloc((size_t)c->nwarp * WARP * sizeof *o->thread);
    for (uint32_t i = 0; i < c->nwarp * WARP; i++)
      o->thread[i] = (struct thread_state){.view = view_ref(start), .epoch = 1};
  }
  view_drop(start);
}

void order_lanes_exited(struct warp *w, uint32_t lanes) {
  const struct cta_order *o = w->cta->order;
  if (!o)
    return;
  const struct view *last = NULL;
  FOR_LANES(l, lanes) {
    struct thread_state *t = thread_of(o, w->index, l);
    if (t->view == last)
      continue;
    last = t->view;
    order_grid_end_known(o->grid, last->k[KIND_generic]->world);
  }
}

static void cta_order_free(struct cta_order *o) {
  for (uint32_t i = 0; i < o->nwarp * WARP; i++) {
    view_drop(o->thread[i].view);
    extra_free(o->thread[i].extra);
  }
  for (int i = 0; i < 16; i++) {
    gather_free(&o->bar[i].gather);
    for (int p = 0; p < 4; p++)
      view_drop(o->bar[i].done[p]);
  }
  for (uint32_t i = 0; i < o->nbarrier; i++) {
    struct barrier_state *b = &o->barrier[i];
    gather_free(b->here);
    gather_free(b->remote);
    view_drop(b->done_here);
    view_drop(b->done_remote);
  }
  view_drop(o->start);
  shadow_free(o->tmem);
  free(o->barrier);
  free(o->slot_key);
  free(o->thread);
  free(o);
}

void order_cluster_freed(struct cluster *k) {
  for (uint32_t r = 0; r < k->size; r++) {
    if (k->cta[r]->order)
      cta_order_free(k->cta[r]->order);
    k->cta[r]->order = NULL;
    shadow_free(k->cta[r]->shared.shadow);
    k->cta[r]->shared.shadow = NULL;
  }
  if (k->order) {
    gather_free(&k->order->gather);
    view_drop(k->order->done[0]);
    view_drop(k->order->done[1]);
  }
  free(k->order);
  k->order = NULL;
}
