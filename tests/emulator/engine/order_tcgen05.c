/* SPDX-License-Identifier: Apache-2.0
 *
 * The order of tcgen05 operations.
 *
 * They are asynchronous even to their own thread.  What an operation of tensor memory may
 * count on is kept apart (extra.tmem): what the thread itself waited for, and what reached
 * it by synchronisation from a fence::before_thread_sync of others (or a tcgen05.commit,
 * which implies one) and was then followed by a fence::after_thread_sync.  Besides there
 * are the pairs that the hardware keeps in order (PTX ISA 9.7.16.6.2).
 *
 * The cells of tensor memory stand for a column of 16 lanes each.
 */
#include "order_state.h"

#define GROUPS      8
#define COLUMNS     512
#define PIPE_issued PIPE_count /* how many were issued: for the pairs in order */

static struct clock *tmem_of(const struct cta_order *o, struct extra *x) {
  if (!x->tmem)
    x->tmem = clock_ref(o->start->k[KIND_tcgen05]);
  return x->tmem;
}

static void learn(struct clock **c, struct clock *more) {
  struct clock *joined = clock_join(*c, more);
  clock_drop(*c);
  *c = joined;
}

static uint32_t slot_of(struct cta_order *o, unsigned pipe, uint32_t warp, uint32_t lane) {
  return order_slot(o, pipe << 16 | (warp * WARP + lane));
}

/* ---- fences -------------------------------------------------------------------- */

/* What the thread hands on from here: what it may count on itself, and that it has issued. */
static struct clock *handed_on(struct cta_order *o, uint32_t warp, uint32_t lane) {
  struct extra *x = extra_of(thread_of(o, warp, lane));
  struct clock *c = clock_ref(tmem_of(o, x));
  if (x->issued)
    clock_set_slot(&c, o->rank, o->nwarp, slot_of(o, PIPE_issued, warp, lane), x->issued);
  return c;
}

void order_tcgen05_before(struct warp *w, uint32_t lanes) {
  struct cta_order *o = w->cta->order;
  if (!o)
    return;
  struct view *before = NULL, *after = NULL;
  struct clock *same = NULL;
  FOR_LANES(l, lanes) {
    struct thread_state *t = thread_of(o, w->index, l);
    struct clock *c = handed_on(o, w->index, l);
    if (t->view != before || c != same) {
      view_drop(before);
      view_drop(after);
      clock_drop(same);
      before = view_ref(t->view);
      same = clock_ref(c);
      after = view_with(before, KIND_tcgen05, clock_join(before->k[KIND_tcgen05], c));
    }
    clock_drop(c);
    view_drop(t->view);
    t->view = view_ref(after);
  }
  view_drop(before);
  view_drop(after);
  clock_drop(same);
}

void order_tcgen05_after(struct warp *w, uint32_t lanes) {
  const struct cta_order *o = w->cta->order;
  if (!o)
    return;
  FOR_LANES(l, lanes) {
    struct thread_state *t = thread_of(o, w->index, l);
    struct extra *x = extra_of(t);
    (void)tmem_of(o, x);
    learn(&x->tmem, t->view->k[KIND_tcgen05]);
    view_drop(x->after);
    x->after = view_ref(t->view);
  }
}

/* tcgen05.wait::ld, ::st: the threads know, and so does whoever they tell with a fence. */
void order_tcgen05_waited(struct warp *w, uint32_t lanes, enum pipe pipe) {
  struct cta_order *o = w->cta->order;
  uint32_t n = o ? extra_of(thread_of(o, w->index, 0))->warp_issued[pipe == PIPE_tcgen05_st] : 0;
  if (!n)
    return;
  order_pipe_known(w, lanes, pipe, n);
  struct clock *before = NULL, *after = NULL;
  uint32_t slot = slot_of(o, pipe, w->index, 0);
  FOR_LANES(l, lanes) {
    struct extra *x = extra_of(thread_of(o, w->index, l));
    if (tmem_of(o, x) != before) {
      clock_drop(before);
      clock_drop(after);
      before = clock_ref(x->tmem);
      after = clock_ref(before);
      clock_set_slot(&after, o->rank, o->nwarp, slot, n);
    }
    clock_drop(x->tmem);
    x->tmem = clock_ref(after);
  }
  clock_drop(before);
  clock_drop(after);
}

void order_issue_tcgen05(struct access *a, enum pipe pipe) {
  struct cta_order *o = a->cta->order;
  if (!o) {
    a->order = NULL;
    return;
  }
  bool whole = pipe != PIPE_tcgen05; /* the warp's count is kept by its lane 0 */
  struct extra *x = extra_of(thread_of(o, a->warp, whole ? 0 : a->lane));
  uint32_t n = whole ? ++x->warp_issued[pipe == PIPE_tcgen05_st] : ++x->issued;
  order_issue_pipe(a, pipe, n);
}

void order_issue_commit(struct access *a) {
  struct cta_order *o = a->cta->order;
  a->order = NULL;
  if (!o)
    return;
  const struct extra *x = extra_of(thread_of(o, a->warp, a->lane));
  order_issue_pipe(a, PIPE_tcgen05, x->issued);
  struct issue *i = a->order;
  i->engine = true;
  i->commit = handed_on(o, a->warp, a->lane);
  if (x->issued)
    clock_set_slot(&i->commit, o->rank, o->nwarp, i->slot[0], x->issued);
}

/* ---- tensor memory ------------------------------------------------------------- */

struct tmem_access {
  struct observer w;
  enum tmem_use use;
  uint32_t same;
  struct clock *known, *causal;
  bool failed;
};
static struct tmem_access *now; /* shadow_access hands on the observer alone */

static enum tmem_use use_of(const struct entry *e) {
  return (enum tmem_use)(e->flags >> ENTRY_element & 7);
}

/* The hardware keeps e's operation, if it was issued before by causality, before this one. */
static bool kept_in_order(const struct entry *e) {
  bool pair = now->use == TMEM_mma &&
              (use_of(e) == TMEM_cp || (use_of(e) == TMEM_mma && e->cta == now->same && e->cta));
  if (!pair)
    return false;
  uint32_t warp = e->lanes >> 5, lane = e->lanes & 31;
  if (warp == now->w.a->warp && lane == now->w.a->lane)
    return true;
  struct cta_order *o = now->w.a->cta->order;
  const struct cta_clock *k = now->known->cta[o->rank];
  return k && cta_clock_knows_slot(k, slot_of(o, PIPE_issued, warp, lane), e->epoch);
}

static const char *const uses[] = {"tcgen05.mma", "tcgen05.cp", "tcgen05.ld", "tcgen05.st",
                                   "tcgen05.dealloc"};

static bool tmem_conflict(struct observer *w, const struct entry *e, uint64_t line,
                          uint64_t bytes) {
  struct cta_order *o = w->a->cta->order;
  const struct cta_clock *k = now->known->cta[o->rank];
  if (kept_in_order(e) || (k && cta_clock_knows_slot(k, e->agent, e->epoch)))
    return true;
  struct entry other = *e;
  other.grid = o->grid;
  other.cta = cta_index(o);
  const struct cta_clock *c = now->causal->cta[o->rank];
  const struct cta_clock *sent = w->thread->view->k[KIND_tcgen05]->cta[o->rank];
  bool causal = c && cta_clock_knows_slot(c, e->agent, e->epoch);
  bool before = sent && cta_clock_knows_slot(sent, e->agent, e->epoch);
  uint32_t column = (uint32_t)((line + (uint64_t)__builtin_ctzll(bytes)) % COLUMNS);
  struct report r = {.check = CHECK_tcgen05, .who = w->a};
  r.rule = before ? "tcgen05-fence-after" : causal ? "tcgen05-fence-before" : "tmem-unordered";
  const char *mine = uses[now->use], *theirs = uses[use_of(e)];
  if (before)
    (void)snprintf(r.text, sizeof r.text,
                   "%s of column %u: no tcgen05.fence::after_thread_sync between it and the "
                   "synchronisation with %s",
                   mine, column, theirs);
  else if (causal)
    (void)snprintf(r.text, sizeof r.text,
                   "%s of column %u: no tcgen05.fence::before_thread_sync between %s and the "
                   "synchronisation with it",
                   mine, column, theirs);
  else
    (void)snprintf(r.text, sizeof r.text, "%s of column %u, where %s may not be complete: %s", mine,
                   column, theirs,
                   use_of(e) == TMEM_ld ? "tcgen05.wait::ld is missing, or synchronisation after it"
                   : use_of(e) == TMEM_st
                       ? "tcgen05.wait::st is missing, or synchronisation after it"
                       : "the hardware keeps no such pair in order; its "
                         "tcgen05.commit must be waited for");
  now->failed = order_report_entry(&r, &other);
  return !now->failed;
}

bool order_tmem(const struct access *a, enum tmem_use use, uint32_t group, uint32_t groups,
                uint32_t column, uint32_t columns, bool write, uint64_t same) {
  struct cta_order *o = a->cta->order;
  if (!o || !check_on(a->m, CHECK_tcgen05))
    return true;
  if (!o->tmem)
    o->tmem = shadow_new(GROUPS * COLUMNS);
  struct thread_state *t = thread_of(o, a->warp, a->lane);
  static struct mem place;
  struct tmem_access x = {.use = use, .same = (uint32_t)(same ^ same >> 32)};
  x.known = tmem_of(o, extra_of(t));
  x.causal = t->view->k[KIND_generic];
  x.w = (struct observer){.a = a, .cta = o, .thread = t, .view = t->view, .mem = &place};
  x.w.entry.flags =
      (uint16_t)((write ? ENTRY_write : 0) | ENTRY_slot | (unsigned)use << ENTRY_element);
  x.w.entry.grid = o->grid;
  x.w.entry.cta = x.same;
  x.w.entry.insn = a->insn->index;
  x.w.entry.lanes = a->warp << 5 | a->lane;
  if (a->order) {
    x.w.entry.agent = (uint16_t)a->order->slot[0];
    x.w.entry.epoch = a->order->n[0];
  }
  now = &x;
  for (uint32_t g = group; g < group + groups && !x.failed; g++)
    (void)shadow_access(o->tmem, &x.w, (uint64_t)g * COLUMNS + column, columns, tmem_conflict);
  if (use == TMEM_dealloc && !x.failed) /* the columns are nobody's: nothing is left of them */
    shadow_clear(o->tmem, column, columns, COLUMNS, GROUPS);
  now = NULL;
  return !x.failed;
}
