/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks: what one knows of the accesses of others.  All are immutable once shared,
 * counted by references, and share their parts: after a barrier every thread of a CTA
 * holds the same pointer.
 *
 *   lanes    of one warp, where its lanes differ
 *   cta      of one CTA: for each warp an epoch, for each slot (an mbarrier's phases, a
 *            pipe's operations) a number
 *   world    of everything outside one's cluster: for each timeline (a stream, or what else
 *            the driver keeps in order) the last grid that is known as a whole, and CTAs of
 *            grids that are not, which synchronised through memory
 *   clock    of a cluster: its CTAs, and the world
 *   view     what a thread passes on: a clock for each way in which knowledge can depend on
 *            a fence that was on the path
 */
#ifndef EMU_CLOCK_H
#define EMU_CLOCK_H

#include "order.h"

struct lanes {
  uint32_t refs;
  uint32_t at[WARP];
};

struct warp_clock {
  uint32_t all; /* of every lane, if lane is NULL */
  struct lanes *lane;
};

struct cta_clock {
  uint32_t refs;
  uint16_t nwarp, nslot;
  uint32_t *slot; /* those beyond nslot: nothing known */
  struct warp_clock warp[];
};

struct world {
  uint32_t refs;
  uint32_t n;     /* timelines; of those beyond nothing is known */
  uint32_t *done; /* known up to this grid of it */
  uint32_t nblock;
  struct world_block **block; /* by grid and place in order */
};

/* CTAs of a grid, neighbours by number: worlds that differ in few CTAs share the rest. */
#define BLOCK_CTAS 16
struct world_block {
  uint32_t refs;
  uint32_t grid, place; /* CTAs from place * BLOCK_CTAS on; not all NULL */
  struct cta_clock *k[BLOCK_CTAS];
};

struct clock {
  uint32_t refs;
  uint32_t grid, first; /* index of the cluster's CTA of rank 0 */
  uint32_t size;
  struct world *world;
  struct cta_clock *cta[]; /* by rank; NULL: nothing known */
};

enum kind {
  KIND_generic,   /* causality order */
  KIND_near,      /* beyond it, of shared memory: by fences of that alone (sync_restrict) */
  KIND_shared,    /* with a fence.proxy.async for shared memory on the path */
  KIND_global,    /* with one for global memory */
  KIND_tensormap, /* with fence.proxy.tensormap::generic.release */
  KIND_init,      /* initialisations of mbarriers, with fence.mbarrier_init */
  KIND_tcgen05,   /* of tensor memory, with tcgen05.fence::before_thread_sync */
  KINDS
};

struct view {
  uint32_t refs;
  struct clock *k[KINDS]; /* none NULL, all of one cluster */
};

/* Every function that returns a pointer returns a new reference; arguments keep theirs. */
struct world *world_ref(struct world *w);
void world_drop(struct world *w);
struct world *world_new(uint32_t timelines);
struct world *world_join(struct world *a, struct world *b); /* either may be NULL */
/* a without the CTAs of grids that it knows as wholes, plus what clock c knows of its cluster. */
struct world *world_import(struct world *a, const struct clock *c);

struct clock *clock_new(uint32_t grid, uint32_t first, uint32_t size, struct world *w);
struct clock *clock_ref(struct clock *c);
void clock_drop(struct clock *c);
struct clock *clock_join(struct clock *a, struct clock *b);     /* of one cluster */
struct clock *clock_in_world(struct clock *c, struct world *w); /* c and all of w */
/* c, of whatever cluster, as known to a thread of the cluster of `home`. */
struct clock *clock_at_home(struct clock *c, const struct clock *home);

/* For building: changes a clock that nobody else holds; *c is replaced if others do. */
void clock_set_lanes(struct clock **c, uint32_t rank, uint32_t nwarp, uint32_t warp, uint32_t lanes,
                     const uint32_t *epoch, bool same);
void clock_set_slot(struct clock **c, uint32_t rank, uint32_t nwarp, uint32_t slot, uint32_t n);
/* Warps whose lanes are alike become one number again; c is nobody else's. */
void clock_even(struct clock *c);

struct view *view_ref(struct view *v);
struct view *view_of(struct clock *every);              /* the same clock for all kinds */
struct view *view_join(struct view *a, struct view *b); /* either may be NULL */
struct view *view_with(struct view *v, enum kind kind, struct clock *c); /* takes c over */
struct view *view_at_home(struct view *v, struct view *home);
/* Of v what it says of shared memory; the rest is what everybody knows, as at the start. */
struct view *view_near(struct view *v, struct view *start);
/* One that can be changed: v itself if nobody else holds it (its reference is taken over). */
struct view *view_own(struct view *v);

/* Does the clock know warp's lanes at the epoch, or the slot at n? */
bool cta_clock_knows(const struct cta_clock *k, uint32_t warp, uint32_t lanes, uint32_t epoch);
static inline bool cta_clock_knows_slot(const struct cta_clock *k, uint32_t slot, uint32_t n) {
  return slot < k->nslot && k->slot[slot] >= n;
}
const struct cta_clock *world_cta(const struct world *w, uint32_t grid, uint32_t cta);

/* Does the world know the grid as a whole?  (grids are in order_grid.c) */
bool world_knows_grid(const struct world *w, uint32_t grid);
void clock_forget_memos(void);

#endif
