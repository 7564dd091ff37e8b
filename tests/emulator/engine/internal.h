/* SPDX-License-Identifier: Apache-2.0
 *
 * What the engine's own files share and nobody else needs.
 */
#ifndef EMU_INTERNAL_H
#define EMU_INTERNAL_H

#include "order.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define ALL_LANES 0xffffffffu

/* Streams of seeded numbers besides those of enum latency. */
enum stream {
  STREAM_schedule = LAT_count,
  STREAM_timeout,
  STREAM_place,
  STREAM_apart,
  STREAM_poll,
  STREAM_count
};

struct warp_list {
  struct warp **at;
  uint32_t n, capacity;
};

struct grid_run {
  struct grid *next;        /* in engine_state.grids */
  struct cluster *clusters; /* resident, or with work in flight */
  uint64_t next_cluster, clusters_total;
  uint32_t cluster_size;
  uint32_t cta_shared, cta_registers; /* per CTA, as the SM accounts for them */
  bool failed;                        /* a check fired: to be torn down at the next safe point */
  bool triggered;                     /* on_triggered was called, or its event posted */
  struct mem param;
  struct trigger *trigger;   /* the posted event of on_triggered */
  uint64_t first_seq, order; /* hash of the order in which its events fired */
};

struct engine_state {
  uint64_t stream[STREAM_count];
  struct event **heap;
  uint32_t heap_n, heap_capacity;
  uint64_t next_due; /* of the first event, UINT64_MAX: none */
  uint64_t next_seq;
  struct mem **global; /* sorted by base, tombstones included */
  uint32_t global_n, global_capacity;
  struct mem *last_found;
  struct grid *grids, **grids_end; /* submitted and not complete, oldest first */
  bool place;                      /* resources or grids changed: try to place CTAs */
  bool failing;                    /* some grid's run->failed is set */
  struct warp_list run, parked;
  uint32_t since_sweep;
  struct warp *current; /* executing now */
  struct event *firing; /* or this */
  uint64_t steps;       /* warp instructions executed */
  uint64_t ended_steps; /* as many when a CTA ended last */
  uint64_t barriers;    /* what barriers added to activity: threads that only meet get nowhere */
  uint64_t stall_activity, stall_steps;
  uint32_t next_sm;
  /* reports */
  FILE *json;
  struct report_record record[256];
  uint64_t reports;
  bool trace;
  uint64_t *orders; /* distinct hashes of event orders */
  uint32_t orders_n, orders_capacity;
  uint64_t launches_traced;
  uint64_t early_starts; /* grids that started while one they depend on had CTAs */
};

/* Allocation that cannot fail: a test process without memory has nothing to say. */
void *emu_alloc(size_t size); /* zeroed */
void *emu_grow(void *p, uint32_t n, uint32_t *capacity, size_t size);

uint64_t draw_stream(struct machine *m, unsigned stream);

/* events.c */
bool events_fire_due(struct machine *m); /* true: at least one fired */
struct event *events_first(struct machine *m);
void trace_grid_done(struct machine *m, struct grid *g);

/* simt.c: runs the warp for up to `budget` instructions.  Afterwards it may be over
 * (live == 0), unable to run (all lanes wait), or simply out of budget. */
enum quantum { QUANTUM_more, QUANTUM_parked, QUANTUM_over, QUANTUM_fault };
enum quantum warp_run(struct machine *m, struct warp *w, uint32_t budget);
/* Ends waits that are over; true: some lane can run again. */
bool warp_wake(struct machine *m, struct warp *w);
bool spin_ready(const struct wait *wait);

/* apart.c: lanes part at a branch, some that took it and some that did not; or because a
 * wait of theirs is over. */
void apart_branch(struct machine *m, struct warp *w, uint32_t taken, uint32_t past);
void apart_wait(struct machine *m, struct warp *w, uint32_t woken);
uint32_t apart_choose(struct simt *s, uint32_t can);
static inline void apart_ran(struct simt *s, uint64_t steps) {
  s->late_steps -= steps < s->late_steps ? (uint32_t)steps : s->late_steps;
}

/* sched.c */
/* A machine with many resident warps executes more instructions in the same time: by this
 * factor virtual time goes faster. */
static inline uint64_t sched_scale(const struct machine *m) {
  return 1 + (m->s->run.n + m->s->parked.n) / 8;
}
void sched_add(struct machine *m, struct warp *w);
void sched_remove(struct machine *m, struct warp *w);
void barrier_activity(struct machine *m); /* raises activity for a barrier */

/* grids.c */
void grids_place(struct machine *m);
void grids_teardown(struct machine *m); /* of those that failed */
void warp_over(struct machine *m, struct warp *w);
void grid_event_done(struct machine *m, struct grid *g, struct cluster *c);
void grid_fail(struct grid *g);

/* cluster.c, barrier.c: threads left, so fewer are expected */
void barrier_lanes_exited(struct warp *w, uint32_t lanes);
void cluster_lanes_exited(struct warp *w, uint32_t lanes);
void mbar_cta_release(struct cta *c);
void mbar_cta_exit(const struct cta *c);    /* its threads have exited */
void mbar_cluster_end(const struct cta *c); /* and nothing is on its way any more */
/* An access to shared memory of a CTA that has mbarriers: it must not touch them. */
bool mbar_guard(const struct access *a, const struct mem *mem, uint64_t at, uint64_t size,
                bool write);

void cpasync_cta_release(struct cta *c);

/* griddep.c */
void trigger_now(struct grid *g);
void cta_trigger(struct cta *c);
void griddep_check(struct grid *g); /* at its end */

/* report.c: prints and records, whatever is switched off */
void report_publish(struct machine *m, const struct report *r);
/* The coordinates in its CTA of the thread that made the access. */
void access_thread(const struct access *a, uint32_t tid[3]);

/* progress.c */
/* limit: it is not that nothing can run, but that no CTA ended for so long. */
void report_no_progress(struct machine *m, bool limit);

/* memory.c */
struct mem *global_near(struct machine *m, uint64_t addr);
static inline bool mem_reachable(const struct device *d, const struct mem *mem) {
  return mem->mapped ? mem->reach >> d->ordinal & 1
                     : mem->dev == d || d->peers >> mem->dev->ordinal & 1;
}
bool store_defined(const struct access *a, const struct mem *mem, uint64_t addr);

/* Every access passes here, after it was resolved: the checks that compare accesses
 * (order.h) keep their cells in mem->shadow. */
void order_access(const struct access *a, struct mem *mem, uint64_t offset, uint64_t size,
                  bool write);
static inline void shadow_note(const struct access *a, struct mem *mem, uint64_t offset,
                               uint64_t size, bool write) {
  if (order_on(a->m))
    order_access(a, mem, offset, size, write);
}

static inline uint64_t low_mask(unsigned bits) {
  return bits >= 64 ? ~0ull : (1ull << bits) - 1;
}
static inline int first_lane(uint32_t lanes) {
  return __builtin_ctz(lanes);
}
#define FOR_LANES(l, lanes)                                                                        \
  for (uint32_t l##_left = (lanes), l = 0;                                                         \
       l##_left && ((l = (uint32_t)__builtin_ctz(l##_left)), 1); l##_left &= l##_left - 1)

#endif
