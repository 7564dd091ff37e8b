/* SPDX-License-Identifier: Apache-2.0
 *
 * Asynchronous work: a queue of events ordered by virtual time.  How long a piece of
 * work takes is drawn from the seed: often short, sometimes very long, so that code
 * which relies on luck shows it within a few seeds.
 */
#include "internal.h"

/* ---- the queue: a binary heap by (due, seq) ----------------------------------------- */

static bool before(const struct event *a, const struct event *b) {
  return a->due != b->due ? a->due < b->due : a->seq < b->seq;
}

static void push(struct engine_state *s, struct event *e) {
  s->heap = emu_grow(s->heap, s->heap_n, &s->heap_capacity, sizeof(struct event *));
  uint32_t i = s->heap_n++;
  for (; i && before(e, s->heap[(i - 1) / 2]); i = (i - 1) / 2)
    s->heap[i] = s->heap[(i - 1) / 2];
  s->heap[i] = e;
  s->next_due = s->heap[0]->due;
}

static struct event *pop(struct engine_state *s) {
  struct event *top = s->heap[0], *e = s->heap[--s->heap_n];
  uint32_t i = 0;
  for (;;) {
    uint32_t c = 2 * i + 1;
    if (c >= s->heap_n)
      break;
    if (c + 1 < s->heap_n && before(s->heap[c + 1], s->heap[c]))
      c++;
    if (!before(s->heap[c], e))
      break;
    s->heap[i] = s->heap[c];
    i = c;
  }
  if (s->heap_n)
    s->heap[i] = e;
  s->next_due = s->heap_n ? s->heap[0]->due : UINT64_MAX;
  return top;
}

struct event *events_first(struct machine *m) {
  return m->s->heap_n ? m->s->heap[0] : NULL;
}

/* ---- posting -------------------------------------------------------------------------- */

/* Half of all work is nearly immediate, a quarter takes about as long as a few of the
 * schedule's turns, the rest up to what a whole phase of a kernel takes. */
static uint64_t latency(struct machine *m, enum latency c) {
  uint64_t r = draw(m, c);
  uint64_t scale = sched_scale(m);
  uint64_t v = r >> 8;
  switch (r & 7) {
  case 0:
    return 0;
  case 1:
  case 2:
  case 3:
    return v % 32 * scale;
  case 4:
  case 5:
    return v % 512 * scale;
  case 6:
    return v % 4096 * scale;
  default:
    return v % 65536 * scale;
  }
}

void event_post_unowned(struct machine *m, struct event *e, enum latency c, uint64_t earliest) {
  struct engine_state *s = m->s;
  uint64_t due = m->now + latency(m, c);
  e->due = due > earliest ? due : earliest;
  e->seq = s->next_seq++;
  e->grid = NULL;
  e->cluster = NULL;
  push(s, e);
}

void event_post_after(struct machine *m, struct event *e, enum latency c, uint64_t earliest) {
  struct engine_state *s = m->s;
  event_post_unowned(m, e, c, earliest);
  if (s->current) {
    e->grid = s->current->cta->grid;
    e->cluster = s->current->cta->cluster;
  } else if (s->firing) {
    e->grid = s->firing->grid;
    e->cluster = s->firing->cluster;
  }
  if (e->grid)
    e->grid->events++;
  if (e->cluster)
    e->cluster->events++;
}

void event_post(struct machine *m, struct event *e, enum latency c) {
  event_post_after(m, e, c, 0);
}

/* ---- firing ---------------------------------------------------------------------------- */

static void fire(struct machine *m, struct event *e) {
  /* e is freed by its function; what it posts in turn belongs to the same grid. */
  struct event owner = {.grid = e->grid, .cluster = e->cluster};
  if (owner.grid)
    owner.grid->run->order =
        (owner.grid->run->order ^ (e->seq - owner.grid->run->first_seq)) * 0x100000001b3ull;
  m->activity++;
  m->s->firing = &owner;
  e->fire(m, e);
  m->s->firing = NULL;
  if (owner.grid)
    grid_event_done(m, owner.grid, owner.cluster);
}

bool events_fire_due(struct machine *m) {
  bool any = false;
  while (m->s->heap_n && m->s->heap[0]->due <= m->now) {
    fire(m, pop(m->s));
    any = true;
  }
  return any;
}

/* ---- EMU_TRACE: how many different orders of events there were ---------------------------- */

static void trace_print(void) {
  const struct engine_state *s = machine_get()->s;
  (void)fprintf(stderr, "emulated driver: %llu launches, %u distinct event orders\n",
                (unsigned long long)s->launches_traced, s->orders_n);
}

void trace_grid_done(struct machine *m, struct grid *g) {
  struct engine_state *s = m->s;
  if (!s->trace)
    return;
  if (!s->launches_traced++)
    (void)atexit(trace_print);
  for (uint32_t i = 0; i < s->orders_n; i++)
    if (s->orders[i] == g->run->order)
      return;
  s->orders = emu_grow(s->orders, s->orders_n, &s->orders_capacity, sizeof *s->orders);
  s->orders[s->orders_n++] = g->run->order;
}
