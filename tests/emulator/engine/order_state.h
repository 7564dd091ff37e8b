/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of the order of accesses share: records of grids, state of CTAs and
 * threads, the issue of asynchronous operations.
 */
#ifndef EMU_ORDER_STATE_H
#define EMU_ORDER_STATE_H

#include "clock.h"
#include "internal.h"

/* ---- grids (order_grid.c) ------------------------------------------------------------------ */

/* Of a grid, or of one operation of the host; kept after its end, for reports.  Number 0 is
 * what is older than everything. */
struct grid_record {
  const struct function *fn; /* NULL: the host's, or its module has been unloaded */
  const char *what;          /* where fn is NULL */
  uint64_t id;
  uint32_t dim[3], block[3], cluster[3], cluster_size;
  struct device *dev;
  uint32_t timeline, at;
  bool failed; /* something of it was reported: its accesses are no news any more */
  struct world *start, *waited, *full; /* as of its struct order_point */
  struct world *begin[KINDS];   /* start, and what its prerequisites released when they triggered */
  struct world *trigger[KINDS]; /* what its CTAs released when they triggered */
  struct world *end;            /* what its threads knew when they exited */
};
struct view *order_start_view(uint32_t grid, uint32_t first);
void order_grid_end_known(uint32_t grid, struct world *w);
uint32_t order_host_record(void); /* 0: none */
struct grid_record *grid_record(uint32_t number);
static inline bool world_knows(const struct world *w, const struct grid_record *g) {
  return w && g->timeline < w->n && w->done[g->timeline] >= g->at;
}

/* ---- CTAs and threads (order_thread.c) ----------------------------------------- */

#define RELATIONS 4 /* enum scope: the least one that holds both threads */

/* What a fence published, until a store carries it on. */
struct fenced {
  struct view *view; /* of the thread at the fence, own accesses aside */
  enum kind own;     /* as what these count: KIND_near after a fence of shared memory alone */
  uint32_t epoch;    /* own accesses up to this one */
  struct view *made; /* both, once it was needed */
};

struct extra {
  struct fenced fenced[RELATIONS]; /* of the last fence of at least this scope */
  struct view *pending[RELATIONS]; /* read by relaxed loads, for an acquiring fence */
  struct clock *maps;              /* tensor maps acquired */
  /* tcgen05: what was known at the last fence::after_thread_sync; of tensor memory also
   * what the thread waited for itself. */
  struct view *after;
  struct clock *tmem;
  uint32_t issued;         /* tcgen05 mma and cp */
  uint32_t warp_issued[2]; /* of lane 0: the warp's tcgen05.ld, .st */
};

struct thread_state {
  struct view *view;
  struct extra *extra;
  uint32_t epoch;
  bool waited; /* griddepcontrol.wait */
};

/* Slots are found by a key: pipe << 16 | thread, or this | the offset of an mbarrier. */
#define SLOT_MBARRIER 0x80000000u

/* An mbarrier's side of the order. */
struct barrier_state {
  uint32_t offset, slot;
  bool live;
  uint32_t phase;                       /* completed ones, over all its lives */
  struct meeting here[1], remote[1];    /* arrivals of the phase in progress: own CTA's, others' */
  struct view *done_here, *done_remote; /* of the last completed phase */
  bool any_done;                        /* in this life */
  struct access init;                   /* who initialised it (order is NULL) */
  uint32_t init_epoch;
};

struct cta_order {
  uint32_t grid, first, rank, size; /* record; cluster */
  uint32_t nwarp;
  struct thread_state *thread; /* nwarp * 32 */
  uint32_t *slot_key;          /* by slot */
  uint32_t nslot, slot_room;
  struct barrier_state *barrier;
  uint32_t nbarrier, barrier_room;
  struct {
    struct meeting gather;
    struct view *done[4];
  } bar[16];
  struct view *start;
  struct shadow *tmem;
};

static inline uint32_t cta_index(const struct cta_order *o) {
  return o->first + o->rank;
}
static inline struct thread_state *thread_of(const struct cta_order *o, uint32_t warp,
                                             uint32_t lane) {
  return &o->thread[warp * WARP + lane];
}
static inline struct extra *extra_of(struct thread_state *t) {
  if (!t->extra)
    t->extra = emu_alloc(sizeof *t->extra);
  return t->extra;
}
/* The view of the thread with its own accesses so far, which this closes (an epoch). */
struct view *thread_publish(const struct cta_order *o, uint32_t warp, uint32_t lane);
struct view *view_with_own(struct view *v, enum kind kind, const struct cta_order *o, uint32_t warp,
                           uint32_t lane, uint32_t epoch);
/* What relaxed stores and arrivals of the thread pass on to threads so near; may be NULL. */
struct view *thread_fenced(const struct cta_order *o, uint32_t warp, uint32_t lane,
                           uint8_t relation);
void thread_learn(struct thread_state *t, struct view *v);
/* What a relaxed read or wait saw of a thread so near: known after a fence that acquires. */
void thread_pend(struct thread_state *t, int relation, struct view *v);

uint32_t order_slot(struct cta_order *o, uint32_t key);
struct barrier_state *order_barrier(struct cta_order *o, uint32_t offset);

/* ---- asynchronous operations (order_async.c) ----------------------------------- */

struct issue {
  uint32_t refs;
  bool remote; /* completes with a release at cluster scope that needs such an acquire */
  bool engine; /* what signals the mbarrier is no thread: its init must have been fenced */
  bool waited;
  struct view *view;              /* the issuer's */
  struct view *shared;            /* of tcgen05: what it may count on in shared memory */
  struct view *fenced[RELATIONS]; /* of a store: what it carries on */
  struct clock *maps;
  struct clock *commit; /* of tcgen05.commit: tensor memory */
  uint32_t epoch;       /* the issuer's at the issue */
  /* The slot owner; reads and writes have a slot and number each (NO_SLOT: the issuer's own
   * accesses).  With a target the number follows the phase of its mbarrier. */
  uint32_t rank, slot[2], n[2];
  struct cta_order *target;
  uint32_t offset;
};
#define NO_SLOT UINT32_MAX

/* ---- cells (shadow.c) ---------------------------------------------------------- */

#define LINE_BYTES 64
#define PAGE_LINES 64

enum entry_flags {
  ENTRY_write = 1 << 0,
  ENTRY_async = 1 << 1,  /* through the async proxy */
  ENTRY_strong = 1 << 2, /* relaxed or stronger, or volatile */
  ENTRY_atomic = 1 << 3,
  ENTRY_slot = 1 << 4,  /* agent is a slot, lanes the issuer (warp << 5 | lane) */
  ENTRY_early = 1 << 5, /* before griddepcontrol.wait */
  ENTRY_grid = 1 << 6,  /* by many CTAs of the grid */
  ENTRY_map = 1 << 7,   /* through the tensormap proxy */
  ENTRY_scope = 8,      /* shift: enum scope, 2 bits */
  ENTRY_element = 10    /* shift: log2 of the element's bytes + 1, 0: unknown; 3 bits */
};

struct entry {
  uint64_t mask; /* bytes of the line */
  uint32_t grid, cta;
  uint32_t epoch; /* or the slot's n */
  uint32_t insn;
  uint32_t lanes;
  uint16_t agent; /* warp or slot */
  uint16_t flags;
};

struct line {
  uint16_t n, room;
  struct sync *sync;
  struct entry at[];
};

struct page {
  struct entry whole; /* the last write of all of it, if mask */
  struct line *line[PAGE_LINES];
};

struct shadow {
  uint32_t refs; /* memories that it is of: addresses of the same bytes */
  uint64_t pages;
  struct page *page[];
};

/* One access, as far as the order is concerned. */
struct observer {
  const struct access *a;
  const struct cta_order *cta;       /* the issuer's; NULL: the host */
  const struct thread_state *thread; /* the issuer's */
  struct view *view;                 /* what it may count on */
  struct view *after;   /* of tcgen05: what it would know after a fence::after_thread_sync */
  struct clock *fenced; /* of asynchronous operations: what was fenced for its proxy, */
  enum kind kind;       /* and of which kind */
  struct clock *maps;   /* of reads of tensor maps: what was acquired */
  struct world *world;  /* the host's */
  struct mem *mem;
  struct entry entry; /* what it leaves, but for the mask */
};

/* order_sync.c: what releases left at a word. */
struct sync;
void sync_free(struct sync *s);
/* The access of bytes [first, first + size) of the line, after it was checked. */
void sync_access(struct line *line, const struct observer *w, uint32_t first, uint32_t size);

/* shadow.c */
struct shadow *shadow_new(uint64_t bytes);
struct shadow *shadow_ref(struct shadow *s);
void shadow_free(struct shadow *s); /* a reference */
/* Looks at the entries of the bytes, then leaves w->entry there.  conflict is asked about
 * each entry that is a write or meets one; bytes: those in common; false: it ends here. */
typedef bool (*conflict_fn)(struct observer *w, const struct entry *old, uint64_t line,
                            uint64_t bytes);
bool shadow_access(struct shadow *s, struct observer *w, uint64_t offset, uint64_t size,
                   conflict_fn conflict);
/* Forgets columns [column, +columns) of each of `groups` rows of `row` bytes. */
void shadow_clear(struct shadow *s, uint64_t column, uint64_t columns, uint64_t row,
                  uint64_t groups);
/* The last write of the byte, or NULL. */
const struct entry *shadow_writer(const struct shadow *s, uint64_t offset);

/* order_check.c */
bool known_to(const struct clock *c, const struct world *whole, const struct entry *e,
              uint32_t lanes);
/* The least scope that holds both sides. */
uint8_t order_relation(const struct observer *w, const struct entry *e);
/* Is the instruction in a loop, so that what it reads it may read again? */
bool order_in_loop(const struct function *fn, uint32_t index);
/* order_report.c: e was in conflict with the access and is not known to it; bytes of the
 * line.  true: the launch ends. */
enum lack {
  LACK_order,    /* no causality */
  LACK_fence,    /* causality, but no proxy fence */
  LACK_after,    /* no tcgen05.fence::after_thread_sync since */
  LACK_map,      /* no fence.proxy.tensormap */
  LACK_wait,     /* causality by a trigger alone, which a weak read does not follow */
  LACK_coherence /* strong both, and which comes last is a matter of timing */
};
/* Fills in the other side; true: the launch ends. */
bool order_report_entry(struct report *r, const struct entry *other);
bool order_report(const struct observer *w, const struct entry *e, uint64_t line, uint64_t bytes,
                  enum lack lack);

#endif
