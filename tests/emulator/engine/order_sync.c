/* SPDX-License-Identifier: Apache-2.0
 *
 * Synchronisation through memory: what release patterns left at a word, for the acquire
 * patterns that read it.
 *
 * A pattern works between threads that every scope in it holds.  So what a word carries is
 * kept by relation (the least scope that holds writer and reader): a release at scope s
 * counts for all up to s, a relaxed store carries for each what the last fence of at least
 * that scope published.  A read-modify-write adds to what it finds (a release sequence), a
 * plain store replaces it.
 */
#include "order_state.h"

struct sync {
  struct sync *next;
  uint8_t first, bytes; /* of the line */
  struct {
    struct view *view;
    uint32_t grid, group; /* CTA or cluster that it counts for */
    const struct device *dev;
  } rel[RELATIONS];
};

void sync_free(struct sync *s) {
  while (s) {
    struct sync *next = s->next;
    for (int r = 0; r < RELATIONS; r++)
      view_drop(s->rel[r].view);
    free(s);
    s = next;
  }
}

/* The CTA or cluster that relation r means for a thread of this CTA. */
static uint32_t group_of(const struct cta_order *o, int r) {
  return r == SCOPE_cta ? cta_index(o) : r == SCOPE_cluster ? o->first : 0;
}

static bool holds(const struct sync *s, int r, const struct cta_order *o,
                  const struct device *dev) {
  if (r == SCOPE_sys)
    return true;
  if (r == SCOPE_gpu)
    return s->rel[r].dev == dev;
  return s->rel[r].grid == o->grid && s->rel[r].group == group_of(o, r);
}

static void acquire(const struct sync *s, const struct observer *w) {
  const struct access *a = w->a;
  struct thread_state *t = thread_of(w->cta, a->warp, a->lane);
  for (int r = 0; r <= a->scope; r++) {
    if (!s->rel[r].view || !holds(s, r, w->cta, a->grid->dev))
      continue;
    struct view *v = view_at_home(s->rel[r].view, w->cta->start);
    if (a->sem == SEM_acquire || a->sem == SEM_acq_rel)
      thread_learn(t, v);
    else
      thread_pend(t, r, v);
    view_drop(v);
  }
}

/* What a write of this thread carries for relation r. */
static struct view *carried(const struct observer *w, int r, struct view *release) {
  const struct access *a = w->a;
  if (a->sem == SEM_weak || r > a->scope)
    return NULL;
  if (a->order)
    return view_ref(a->order->fenced[r]);
  return release ? view_ref(release) : thread_fenced(w->cta, a->warp, a->lane, (uint8_t)r);
}

static void put(struct sync *s, int r, const struct observer *w, struct view *v, bool rmw) {
  const struct device *dev = w->a->grid->dev;
  bool joins = rmw && s->rel[r].view && holds(s, r, w->cta, dev);
  if (!v && rmw)
    return;
  if (joins) {
    struct view *home = view_at_home(v, s->rel[r].view);
    struct view *joined = view_join(s->rel[r].view, home);
    view_drop(home);
    view_drop(v);
    v = joined;
  }
  view_drop(s->rel[r].view);
  s->rel[r].view = v;
  s->rel[r].grid = w->cta->grid;
  s->rel[r].group = group_of(w->cta, r);
  s->rel[r].dev = dev;
}

static void write_access(struct line *line, const struct observer *w, uint32_t first,
                         uint32_t size) {
  const struct access *a = w->a;
  bool rmw = a->atomic;
  struct view *release = NULL;
  if (!a->order && w->cta && (a->sem == SEM_release || a->sem == SEM_acq_rel))
    release = thread_publish(w->cta, a->warp, a->lane);
  struct view *v[RELATIONS] = {NULL};
  bool any = false;
  for (int r = 0; r < RELATIONS && w->cta; r++)
    any |= (v[r] = carried(w, r, release)) != NULL;
  struct sync *exact = NULL;
  for (struct sync **p = &line->sync; *p;) {
    struct sync *s = *p;
    bool overlaps = s->first < first + size && first < (uint32_t)s->first + s->bytes;
    if (overlaps && s->first == first && s->bytes == size && (any || rmw)) {
      exact = s;
    } else if (overlaps && !rmw) {
      *p = s->next;
      s->next = NULL;
      sync_free(s);
      continue;
    }
    p = &s->next;
  }
  if (any && !exact) {
    exact = emu_alloc(sizeof *exact);
    exact->first = (uint8_t)first;
    exact->bytes = (uint8_t)size;
    exact->next = line->sync;
    line->sync = exact;
  }
  for (int r = 0; r < RELATIONS && exact && w->cta; r++) {
    put(exact, r, w, v[r], rmw);
    v[r] = NULL;
  }
  for (int r = 0; r < RELATIONS; r++)
    view_drop(v[r]);
  view_drop(release);
}

void sync_access(struct line *line, const struct observer *w, uint32_t first, uint32_t size) {
  const struct access *a = w->a;
  bool write = w->entry.flags & ENTRY_write;
  /* A read-modify-write in two accesses (of an engine) reads first. */
  if ((!write || a->atomic) && a->sem != SEM_weak && a->sem != SEM_release && w->cta && !a->order)
    for (const struct sync *s = line->sync; s; s = s->next)
      if (s->first < first + size && first < (uint32_t)s->first + s->bytes)
        acquire(s, w);
  if (write) {
    /* Words of a vector are stores of their own. */
    uint32_t each = a->element && a->element < size ? a->element : size;
    for (uint32_t at = 0; at < size; at += each)
      write_access(line, w, first + at, each);
  }
}
