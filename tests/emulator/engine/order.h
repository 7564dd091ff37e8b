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
bool order_on(const struct machine *m);

/* ---- threads synchronise ------------------------------------------------------------------ */

/* Threads meet: gathers what the arriving threads know, for those who wait.  Zeroed: empty. */
struct view;
struct gather {
  struct view *base;   /* what the arrived know, own accesses aside */
  struct clock *own;   /* own accesses of the arrived */
  bool any;
};
void gather_add(struct gather *g, struct warp *w, uint32_t lanes);
/* Of a relaxed arrival only what fences published before. */
void gather_add_relaxed(struct gather *g, struct warp *w, uint32_t lanes, uint8_t scope);
/* What all of them know; the gather is empty again.  NULL: nobody arrived. */
struct view *gather_close(struct gather *g);
/* The lanes learn it. */
void order_learn(struct warp *w, uint32_t lanes, struct view *v);
void view_drop(struct view *v);

/* bar.warp.sync */
void order_warp_sync(struct warp *w, uint32_t lanes);
/* fence, membar: scope as in struct access; sem SEM_acquire, SEM_release, SEM_acq_rel;
 * sc: fence.sc. */
void order_fence(struct warp *w, uint32_t lanes, uint8_t scope, uint8_t sem, bool sc);
enum order_proxy { ORDER_shared = 1, ORDER_global = 2, ORDER_both = 3 };
void order_fence_async(struct warp *w, uint32_t lanes, enum order_proxy spaces);
void order_fence_mbarrier_init(struct warp *w, uint32_t lanes);
void order_fence_tensormap(struct warp *w, uint32_t lanes, uint8_t scope, bool acquire);
void order_lanes_exited(struct warp *w, uint32_t lanes);

/* ---- asynchronous operations ---------------------------------------------------------------- */

/* What the issuer knew when it issued the operation, and when the operation is known to be
 * complete.  access.order points to it from the issue until the operation is over. */
struct issue;

/* Completes with the current phase of the mbarrier at this shared::cluster address. */
void order_issue_mbarrier(struct access *a, uint64_t mbar);
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

/* ---- the last writer, for reports of polls that never end -------------------------------------- */

struct order_site {
  bool host;          /* the host wrote it, else: */
  int device;
  const char *kernel; /* valid as long as the record of it: until the next driver call */
  uint32_t line;
  const char *text;
  uint64_t launch;
  uint32_t cta[3], thread[3];
};
/* Who last wrote the word (of up to 8 bytes) at the global address; false: nobody did, or it
 * is not known. */
bool order_last_writer(struct machine *m, uint64_t addr, uint32_t bytes, struct order_site *s);

#endif
