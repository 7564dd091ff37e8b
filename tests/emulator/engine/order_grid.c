/* SPDX-License-Identifier: Apache-2.0
 *
 * Order between whole grids and the host's operations.  Each stands in a timeline (a stream,
 * a path through a graph) at a place; a world says up to which place of each timeline all is
 * known.  A programmatic launch knows at its start what its prerequisite knew at its own,
 * plus what that released before it triggered; everything else only after
 * griddepcontrol.wait.
 */
#include "order_state.h"

static struct {
  struct grid_record *at;
  uint32_t n, room;
} records;

/* What the grids of a timeline knew, up to a place. */
static struct timeline {
  uint32_t next; /* place of the next operation */
  bool over;     /* free for another stream or graph, once the host knows all of it */
  struct passed {
    uint32_t at;
    struct world *end;
  } *passed;
  uint32_t n, room;
} *timelines;
static uint32_t ntimeline, timeline_room;

static struct world *host_world;     /* what the host has waited for */
static struct world *complete_world; /* everything that is over */

struct grid_record *grid_record(uint32_t number) {
  return &records.at[number];
}

bool world_knows_grid(const struct world *w, uint32_t grid) {
  return world_knows(w, &records.at[grid]);
}

static uint32_t record_new(void) {
  if (!records.n) { /* number 0: always known, as it is at place 0 of timeline 0 */
    records.at = emu_grow(records.at, records.n, &records.room, sizeof *records.at);
    records.at[records.n++] = (struct grid_record){.what = "an access before the checks were on"};
  }
  records.at = emu_grow(records.at, records.n, &records.room, sizeof *records.at);
  records.at[records.n] = (struct grid_record){0};
  return records.n++;
}

/* ---- timelines ------------------------------------------------------------------------------ */

/* Then others may go on in it, though who knows them is taken to know all before them: every
 * operation from now on does know what the host knows now.  If timelines were never used again,
 * programs that make graphs all the time would have ever longer worlds. */
static bool host_knows_timeline(uint32_t t) {
  uint32_t last = timelines[t].next - 1;
  return !last || (host_world && t < host_world->n && host_world->done[t] >= last);
}

uint32_t order_timeline(struct machine *m) {
  (void)m;
  for (uint32_t t = 1; t < ntimeline; t++)
    if (timelines[t].over && host_knows_timeline(t)) {
      timelines[t].over = false;
      return t;
    }
  do { /* number 0 is nobody's */
    timelines = emu_grow(timelines, ntimeline, &timeline_room, sizeof *timelines);
    timelines[ntimeline] = (struct timeline){.next = 1};
  } while (!ntimeline++);
  return ntimeline - 1;
}

void order_timeline_over(struct machine *m, uint32_t timeline) {
  (void)m;
  if (timeline)
    timelines[timeline].over = true;
}

static void replace(struct world **w, struct world *by) {
  world_drop(*w);
  *w = by;
}

static void add(struct world **w, struct world *more) {
  replace(w, world_join(*w, more));
}

/* The world that knows one operation. */
static struct world *world_at(uint32_t timeline, uint32_t at) {
  struct world *w = world_new(timeline + 1);
  w->done[timeline] = at;
  return w;
}

/* What the grids knew that this world knows. */
static void close_world(struct world **w) {
  struct world *r = world_ref(*w);
  for (uint32_t t = 0; *w && t < (*w)->n && t < ntimeline; t++) {
    const struct timeline *l = &timelines[t];
    uint32_t lo = 0, hi = l->n; /* the first past the place */
    while (lo < hi) {
      uint32_t mid = (lo + hi) / 2;
      if (l->passed[mid].at > (*w)->done[t])
        hi = mid;
      else
        lo = mid + 1;
    }
    if (lo)
      add(&r, l->passed[lo - 1].end);
  }
  replace(w, r);
}

/* The operation is over, and with it all before it in its timeline. */
static void passed(uint32_t t, uint32_t at, struct world *end) {
  struct timeline *l = &timelines[t];
  struct world *w = world_ref(end);
  if (l->n)
    add(&w, l->passed[l->n - 1].end);
  if (l->n && l->passed[l->n - 1].end == w) {
    world_drop(w);
    return;
  }
  l->passed = emu_grow(l->passed, l->n, &l->room, sizeof *l->passed);
  uint32_t i = l->n++;
  for (; i && l->passed[i - 1].at > at; i--)
    l->passed[i] = l->passed[i - 1];
  l->passed[i] = (struct passed){at, w};
}

/* ---- points -------------------------------------------------------------------- */

void order_point_next(struct machine *m, struct order_point *p, uint32_t timeline) {
  if (!order_on(m))
    return;
  *p = (struct order_point){.timeline = timeline, .at = timelines[timeline].next++};
  p->start = world_ref(host_world);
  p->waited = world_ref(host_world);
}

void order_point_after(struct order_point *p, const struct order_point *before, bool programmatic) {
  if (!p->at || !before->at)
    return;
  add(&p->start, programmatic ? before->start : before->full);
  add(&p->waited, before->full);
  p->unknown |= before->unknown;
}

void order_point_placed(struct order_point *p) {
  if (!p->at)
    return;
  struct world *self = world_at(p->timeline, p->at);
  p->full = world_join(p->waited, self);
  world_drop(self);
}

void order_point_drop(struct order_point *p) {
  world_drop(p->start);
  world_drop(p->waited);
  world_drop(p->full);
  p->start = p->waited = p->full = NULL;
}

void order_host_waited(struct machine *m, const struct order_point *p) {
  (void)m;
  if (p->at)
    add(&host_world, p->full);
  if (p->at && p->unknown)
    add(&host_world, complete_world);
}

/* ---- the host's accesses ------------------------------------------------------- */

static uint32_t host_record;

void order_host_begin(struct machine *m, const struct order_point *p, struct device *d,
                      const char *what) {
  if (!order_on(m) || !p->at || p->unknown)
    return;
  host_record = record_new();
  struct grid_record *r = &records.at[host_record];
  r->what = what;
  r->dev = d;
  r->timeline = p->timeline;
  r->at = p->at;
  r->start = world_ref(p->start);
  close_world(&r->start);
  r->waited = world_ref(p->waited);
  r->full = world_ref(p->full);
}

void order_host_end(struct machine *m) {
  (void)m;
  if (host_record) {
    const struct grid_record *r = &records.at[host_record];
    passed(r->timeline, r->at, r->start);
    add(&complete_world, r->full);
  }
  host_record = 0;
}

uint32_t order_host_record(void) {
  return host_record;
}

/* ---- grids --------------------------------------------------------------------- */

#define KEPT 256 /* later records, for how long what a grid's dependents may ask for is kept */

static void forget_triggers(uint32_t number) {
  struct grid_record *r = &records.at[number > KEPT ? number - KEPT : 0];
  for (int k = 0; k < KINDS; k++) {
    replace(&r->begin[k], NULL);
    replace(&r->trigger[k], NULL);
  }
}

/* Without a driver layer a grid comes after all that is over, but for its prerequisites. */
static struct order_point point_alone(struct grid *g) {
  struct order_point p = {0};
  bool waits = false;
  order_point_next(g->dev->m, &p, order_timeline(g->dev->m));
  for (uint32_t i = 0; i < g->nprereq; i++) {
    const struct grid_record *r = &records.at[g->prereq[i]->record];
    if (!g->prereq[i]->record)
      continue;
    waits = true;
    order_point_after(&p, &(struct order_point){0, r->at, r->start, r->waited, r->full, false},
                      true);
  }
  if (!waits) {
    add(&p.start, complete_world);
    add(&p.waited, complete_world);
  }
  order_point_placed(&p);
  return p;
}

void order_grid_submitted(struct grid *g) {
  g->record = 0;
  if (!order_on(g->dev->m) || (g->point && g->point->unknown))
    return;
  uint32_t number = record_new();
  struct order_point p;
  if (g->point && g->point->at) {
    p = *g->point;
    world_ref(p.start);
    world_ref(p.waited);
    world_ref(p.full);
  } else {
    p = point_alone(g);
  }
  struct grid_record *r = &records.at[g->record = number];
  *r = (struct grid_record){.fn = g->fn,
                            .id = g->id,
                            .cluster_size = g->run->cluster_size,
                            .dev = g->dev,
                            .timeline = p.timeline,
                            .at = p.at,
                            .start = p.start,
                            .waited = p.waited,
                            .full = p.full};
  memcpy(r->dim, g->dim, sizeof r->dim);
  memcpy(r->block, g->block, sizeof r->block);
  memcpy(r->cluster, g->cluster_dim, sizeof r->cluster);
  close_world(&r->start);
  for (int k = 0; k < KINDS; k++) {
    r->begin[k] = world_ref(r->start);
    for (uint32_t i = 0; i < g->nprereq; i++) {
      const struct grid_record *before = &records.at[g->prereq[i]->record];
      add(&r->begin[k], before->begin[k]); /* it has started, so what that followed is over */
      add(&r->begin[k], before->trigger[k]);
    }
  }
  forget_triggers(number);
}

struct view *order_start_view(uint32_t grid, uint32_t first) {
  const struct grid_record *r = &records.at[grid];
  struct clock *c = clock_new(grid, first, r->cluster_size, r->start);
  struct view *v = view_of(c);
  clock_drop(c);
  for (int k = 0; k < KINDS; k++)
    if (r->begin[k] != r->start) {
      clock_drop(v->k[k]);
      v->k[k] = clock_new(grid, first, r->cluster_size, r->begin[k]);
    }
  return v;
}

void order_triggered(struct warp *w, uint32_t lanes) {
  const struct cta_order *o = w->cta->order;
  if (!o || w->cta->triggered)
    return;
  struct grid_record *r = &records.at[o->grid];
  FOR_LANES(l, lanes) {
    struct view *v = thread_fenced(o, w->index, l, SCOPE_gpu);
    if (!v)
      continue;
    for (int k = 0; k < KINDS; k++) {
      struct world *all = world_import(v->k[k]->world, v->k[k]);
      add(&r->trigger[k], all);
      world_drop(all);
    }
    view_drop(v);
  }
}

void order_grid_waited(struct warp *w, uint32_t lanes) {
  const struct cta_order *o = w->cta->order;
  if (!o)
    return;
  struct world *known = world_ref(records.at[o->grid].waited);
  close_world(&known);
  FOR_LANES(l, lanes) {
    struct thread_state *t = thread_of(o, w->index, l);
    if (t->waited)
      continue;
    t->waited = true;
    struct view *v = view_own(view_ref(t->view));
    for (int k = 0; k < KINDS; k++) {
      struct clock *c = clock_in_world(v->k[k], known);
      clock_drop(v->k[k]);
      v->k[k] = c;
    }
    thread_learn(t, v); /* by way of the memo, so that alike threads share it */
    view_drop(v);
  }
  world_drop(known);
}

/* An exiting thread knew this world. */
void order_grid_end_known(uint32_t grid, struct world *w) {
  add(&records.at[grid].end, w);
}

void order_grid_complete(struct grid *g) {
  if (!g->record)
    return;
  struct grid_record *r = &records.at[g->record];
  add(&r->end, r->start);
  passed(r->timeline, r->at, r->end);
  replace(&r->end, NULL);
  add(&complete_world, r->full);
  clock_forget_memos();
}
