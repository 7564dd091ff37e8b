/* SPDX-License-Identifier: Apache-2.0
 *
 * Order: which accesses happen before which, by the causality order of the PTX memory model.
 *
 * The machine itself is sequentially consistent; what a program may rely on is less.  So
 * every thread carries what it knows of the others (clock.h), every synchronising
 * instruction passes that on here, and every access is compared with the accesses before
 * it of the same bytes (shadow.c).  Two that conflict, and of which the later does not
 * know the earlier, are reported, whether or not this schedule did harm.
 *
 * Who accesses:
 *   - a thread: its accesses are numbered by epochs, which its releases advance;
 *   - an asynchronous operation: known to whoever observed its completion.  Those that
 *     complete on an mbarrier belong to (barrier, phase), those of groups and commits to a
 *     pipe (of a thread or a warp), in which they are numbered;
 *   - the host's copies and fills, and whole grids: known by stream order.
 *
 * The hooks do nothing while no check that needs them is on.
 */
#ifndef EMU_ORDER_H
#define EMU_ORDER_H

#include "engine.h"

/* Is any check on that needs the order? */
static inline bool order_on(const struct machine *m) {
  const uint32_t need = 1u << CHECK_race | 1u << CHECK_proxy | 1u << CHECK_pdl |
                        1u << CHECK_tcgen05 | 1u << CHECK_mbarrier | 1u << CHECK_cluster |
                        1u << CHECK_mailbox;
  return m->checks & need;
}

/* ---- threads synchronise ------------------------------------------------------------------ */

/* Threads meet: gathers what the arriving threads know, for those who wait.  Zeroed: empty. */
struct view;
struct meeting {
  struct view *base; /* what the arrived know, own accesses aside */
  struct clock *own; /* own accesses of the arrived */
  bool any;
};
void gather_add(struct meeting *g, struct warp *w, uint32_t lanes);
/* Of a relaxed arrival only what fences published before. */
void gather_add_relaxed(struct meeting *g, struct warp *w, uint32_t lanes, uint8_t scope);
/* What all of them know; the gather is empty again.  NULL: nobody arrived. */
struct view *gather_close(struct meeting *g);
/* The lanes learn it. */
void order_learn(struct warp *w, uint32_t lanes, struct view *v);
void view_drop(struct view *v);

/* bar.warp.sync */
void order_warp_sync(struct warp *w, uint32_t lanes);
/* fence, membar: scope as in struct access; sem SEM_acquire, SEM_release, SEM_acq_rel */
void order_fence(struct warp *w, uint32_t lanes, uint8_t scope, uint8_t sem);
/* The same of shared memory alone, at cluster scope: SEM_acquire or SEM_release. */
void order_fence_shared(struct warp *w, uint32_t lanes, uint8_t sem);
enum order_proxy { ORDER_shared = 1, ORDER_global = 2, ORDER_both = 3 };
void order_fence_async(struct warp *w, uint32_t lanes, enum order_proxy spaces);
void order_fence_mbarrier_init(struct warp *w, uint32_t lanes);
void order_fence_tensormap(struct warp *w, uint32_t lanes, uint8_t scope, bool acquire);
/* tensormap.cp_fenceproxy: the lanes released a tensor map that `lane` wrote for all of them. */
void order_map_copied(struct warp *w, uint32_t lanes, int lane, uint8_t scope);
void order_lanes_exited(struct warp *w, uint32_t lanes);

/* ---- asynchronous operations ---------------------------------------------------------------- */

/* What the issuer knew when it issued the operation, and when the operation is known to be
 * complete.  access.order points to it from the issue until the operation is over. */
struct issue;

/* Completes with the current phase of the mbarrier at this shared::cluster address. */
void order_issue_mbarrier(struct access *a, uint64_t mbar);
/* The same of st.async and red.async: its completion needs an acquire at cluster scope. */
void order_issue_remote(struct access *a, uint64_t mbar);
/* Completes with the n-th operation or group (from 1) of a pipe of the issuing thread or
 * warp.  Reads of their source may be done before the writes. */
enum pipe {
  PIPE_bulk_read,  /* thread: bulk groups, sources read */
  PIPE_bulk_write, /* thread: bulk groups, done */
  PIPE_cp_async,   /* thread: groups */
  PIPE_wgmma,      /* warp: groups */
  PIPE_tcgen05,    /* thread: mma and cp, in the order of issue */
  PIPE_tcgen05_ld, /* warp */
  PIPE_tcgen05_st, /* warp */
  PIPE_count
};
void order_issue_pipe(struct access *a, enum pipe pipe, uint64_t n);
void order_issue_bulk_store(struct access *a, uint64_t group);
/* A store of the thread itself that only takes time to arrive. */
void order_issue_store(struct access *a);
void order_issue_hold(struct issue *i); /* one more holder */
void order_issue_over(struct access *a);
/* The lanes have waited until operations up to n of their pipe are complete. */
void order_pipe_known(struct warp *w, uint32_t lanes, enum pipe pipe, uint64_t n);

/* ---- barriers of the engine ------------------------------------------------------------------ */

/* Named barriers of a CTA: `phase` is the one that these lanes arrive for, or that has ended. */
void order_bar_arrive(struct warp *w, uint32_t lanes, uint32_t id);
void order_bar_phase(struct cta *c, uint32_t id, uint64_t phase);
void order_bar_passed(struct warp *w, uint32_t lanes, uint32_t id, uint64_t phase);
/* barrier.cluster */
void order_cluster_arrive(struct warp *w, uint32_t lanes, bool relaxed);
void order_cluster_phase(struct cluster *k);
void order_cluster_passed(struct warp *w, uint32_t lanes, uint64_t phase);

/* mbarriers, at an offset of the CTA's shared memory; false: a report ended the launch.
 * used: any operation but init. */
bool order_mbar_init(const struct access *a, struct cta *c, uint32_t offset);
bool order_mbar_inval(const struct access *a, struct cta *c, uint32_t offset);
bool order_mbar_used(const struct access *a, struct cta *c, uint32_t offset);
void order_mbar_arrived(const struct access *a, struct cta *c, uint32_t offset);
void order_mbar_phase(struct cta *c, uint32_t offset);
/* A wait of the thread saw that the phase before the one in progress is complete. */
void order_mbar_passed(const struct access *a, struct cta *c, uint32_t offset);

/* ---- tensor memory (tcgen05) --------------------------------------------------- */

void order_tcgen05_before(struct warp *w, uint32_t lanes);
void order_tcgen05_after(struct warp *w, uint32_t lanes);
/* The next mma, cp, ld or st; and a commit of all mma and cp of the thread so far. */
void order_issue_tcgen05(struct access *a, enum pipe pipe);
void order_issue_commit(struct access *a);
/* wait::ld, wait::st of all that the warp issued so far */
void order_tcgen05_waited(struct warp *w, uint32_t lanes, enum pipe pipe);
/* The operation (a.order: issued in its pipe) accesses 16-lane groups [group, +groups) of
 * columns [column, +columns).  What tensor-core operations keep in order among themselves:
 * same: what an accumulator's order depends on (0: none); false: a report. */
enum tmem_use { TMEM_mma, TMEM_cp, TMEM_ld, TMEM_st, TMEM_dealloc };
bool order_tmem(const struct access *a, enum tmem_use use, uint32_t group, uint32_t groups,
                uint32_t column, uint32_t columns, bool write, uint64_t same);

/* ---- grids --------------------------------------------------------------------- */

/* Where an operation of the driver layer stands: in a timeline, whose operations it keeps in
 * order, and after what else.  Zeroed: nowhere yet. */
struct order_point {
  uint32_t timeline, at;
  struct world *start;  /* known when it starts, */
  struct world *waited; /* when its programmatic prerequisites are complete, */
  struct world *full;   /* and when it is complete itself */
  bool unknown;         /* behind something that is not followed: its accesses are not checked */
};
uint32_t order_timeline(struct machine *m); /* a new one, or one that is over */
/* Nothing more will be put there. */
void order_timeline_over(struct machine *m, uint32_t timeline);
/* When the operation is made: the next of its timeline, after what the host has waited for;
 * then once for each prerequisite as it is met; placed when it starts. */
void order_point_next(struct machine *m, struct order_point *p, uint32_t timeline);
void order_point_after(struct order_point *p, const struct order_point *before, bool programmatic);
void order_point_placed(struct order_point *p);
void order_point_drop(struct order_point *p);
/* The host has waited for the operation. */
void order_host_waited(struct machine *m, const struct order_point *p);
/* The host's accesses from now on belong to the operation (what: "a copy"), until NULL. */
void order_host_begin(struct machine *m, const struct order_point *p, struct device *d,
                      const char *what);
void order_host_end(struct machine *m);
void order_grid_submitted(struct grid *g);
void order_grid_complete(struct grid *g);
void order_cluster_started(struct cluster *k, uint64_t id);
void order_cluster_freed(struct cluster *k);
void order_triggered(struct warp *w, uint32_t lanes);
void order_grid_waited(struct warp *w, uint32_t lanes);
void order_mem_freed(struct mem *mem);
/* The bytes, `size` in all, are those of `other`, too (NULL: of nothing else so far). */
void order_mem_same(struct mem *mem, struct mem *other, uint64_t size);

/* ---- the last writer, for reports of polls that never end ---------------------- */

struct order_site {
  bool host; /* the host wrote it, else: */
  int device;
  const char *kernel;
  uint32_t line;
  const char *text;
  uint64_t launch;
  uint32_t cta[3], thread[3];
};
/* Who last wrote the word (of up to 8 bytes) at the global address; false: nobody did, or it
 * is not known. */
bool order_last_writer(struct machine *m, uint64_t addr, uint32_t bytes, struct order_site *s);

#endif
