/* SPDX-License-Identifier: Apache-2.0
 *
 * The schedule: which warp runs next and for how long, when waits are looked at again,
 * and when time jumps because only asynchronous work is left.
 */
#include "internal.h"

/* Instructions without any activity in the whole machine, and without any event pending,
 * after which loops that keep counting count as hanging: about a second for a few warps. */
#define STALL_STEPS          (1ull << 24)
#define STALL_STEPS_PER_WARP (1ull << 16)
/* A jump to a deadline counts as this many, so that polls with a limit end too. */
#define JUMP_STEPS 512

/* ---- lists of warps ---------------------------------------------------------------------- */

static struct warp_list *list_of(struct machine *m, const struct warp *w) {
  return w->simt.parked ? &m->s->parked : &m->s->run;
}

static void list_put(struct warp_list *list, struct warp *w) {
  list->at = emu_grow(list->at, list->n, &list->capacity, sizeof(struct warp *));
  w->simt.slot = list->n;
  list->at[list->n++] = w;
}

void sched_remove(struct machine *m, struct warp *w) {
  struct warp_list *list = list_of(m, w);
  struct warp *last = list->at[--list->n];
  list->at[w->simt.slot] = last;
  last->simt.slot = w->simt.slot;
}

void sched_add(struct machine *m, struct warp *w) {
  w->simt.parked = false;
  list_put(&m->s->run, w);
}

static void move(struct machine *m, struct warp *w, bool parked) {
  sched_remove(m, w);
  w->simt.parked = parked;
  list_put(list_of(m, w), w);
}

/* ---- one decision --------------------------------------------------------------------------- */

static bool sweep(struct machine *m) {
  struct engine_state *s = m->s;
  s->since_sweep = 0;
  bool any = false;
  for (uint32_t i = 0; i < s->parked.n;) {
    struct warp *w = s->parked.at[i];
    if (warp_wake(m, w)) {
      move(m, w, false); /* another one is at i now */
      any = true;
    } else {
      i++;
    }
  }
  return any;
}

static uint64_t first_deadline(const struct machine *m) {
  uint64_t first = 0;
  for (uint32_t i = 0; i < m->s->parked.n; i++) {
    uint64_t d = m->s->parked.at[i]->simt.deadline;
    if (d && (!first || d < first))
      first = d;
  }
  return first;
}

#define FEW_WARPS 64 /* whose registers stay in the cache together */

/* Short turns are where races live, long ones keep a warp's registers in the cache: most
 * are short while few warps are resident, one in four when there are many. */
static uint32_t quantum(const struct machine *m, uint64_t r) {
  bool few = m->s->run.n + m->s->parked.n <= FEW_WARPS;
  bool brief = few ? r & 3 : !(r & 3);
  return brief ? 1 + (uint32_t)(r >> 2 & 7) : 64 + (uint32_t)(r >> 2 & 127);
}

static void run_one(struct machine *m) {
  struct engine_state *s = m->s;
  uint64_t r = draw_stream(m, STREAM_schedule);
  struct warp *w = s->run.at[(r >> 32) * s->run.n >> 32];
  switch (warp_run(m, w, quantum(m, r & 0xffffffff))) {
  case QUANTUM_more:
    break;
  case QUANTUM_parked:
    move(m, w, true);
    break;
  case QUANTUM_over:
    warp_over(m, w);
    break;
  case QUANTUM_fault:
    break; /* its grid is torn down next */
  }
}

/* Decisions between two looks at all waits.  A look costs as much as there are parked
 * warps, so it comes about once for as many turns; and while only events happen, once for
 * a few of them when thousands of warps are parked. */
static uint32_t patience(const struct engine_state *s) {
  if (s->run.n)
    return s->parked.n + 4;
  return s->heap_n ? s->parked.n / 256 : 0;
}

enum decision { DECIDED_ran, DECIDED_jumped, DECIDED_nothing };

static enum decision decide(struct machine *m) {
  struct engine_state *s = m->s;
  if (s->failing)
    grids_teardown(m);
  if (s->next_due <= m->now && events_fire_due(m))
    return DECIDED_ran;
  if (s->place)
    grids_place(m);
  if (++s->since_sweep > patience(s))
    sweep(m);
  if (s->run.n) {
    run_one(m);
    return DECIDED_ran;
  }
  /* Nobody can run: time jumps to the next event, else to the next deadline. */
  const struct event *e = events_first(m);
  if (e) {
    m->now = e->due > m->now ? e->due : m->now;
    return DECIDED_jumped;
  }
  uint64_t deadline = first_deadline(m);
  if (deadline) {
    m->now = deadline > m->now ? deadline : m->now;
    s->steps += JUMP_STEPS;
    return DECIDED_jumped;
  }
  return s->failing || s->place ? DECIDED_ran : DECIDED_nothing;
}

void barrier_activity(struct machine *m) {
  m->activity++;
  m->s->barriers++;
}

/* Only activity, other than of barriers, shows that loops with changing registers get
 * anywhere. */
static bool stalled(struct machine *m) {
  struct engine_state *s = m->s;
  uint64_t activity = m->activity - s->barriers;
  if (s->stall_activity != activity || s->heap_n) {
    s->stall_activity = activity;
    s->stall_steps = s->steps;
    return false;
  }
  uint64_t warps = s->run.n + s->parked.n;
  return s->steps - s->stall_steps > STALL_STEPS + warps * STALL_STEPS_PER_WARP;
}

/* Threads that write for ever are active and get nowhere, too: only the end of CTAs shows. */
static bool over_limit(const struct machine *m) {
  const struct engine_state *s = m->s;
  return m->limit && s->grids && s->steps - s->ended_steps > m->limit;
}

static void no_progress(struct machine *m, bool limit) {
  report_no_progress(m, limit);
  for (struct grid *g = m->s->grids; g; g = g->run->next)
    grid_fail(g);
  grids_teardown(m);
  m->s->ended_steps = m->s->steps;
}

/* ---- the driver layer's entries ------------------------------------------------ */

bool machine_run(struct machine *m, bool (*done)(void *arg), void *arg) {
  while (!done(arg)) {
    bool idle = decide(m) == DECIDED_nothing || stalled(m);
    if (!idle && !over_limit(m))
      continue;
    if (!m->s->grids)
      return done(arg);
    no_progress(m, !idle);
    return false;
  }
  return true;
}

void machine_poll(struct machine *m) {
  for (int i = 0; i < 64; i++) {
    if (decide(m) == DECIDED_nothing)
      return;
    if (over_limit(m)) {
      no_progress(m, true);
      return;
    }
  }
}
