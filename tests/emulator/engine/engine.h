/* SPDX-License-Identifier: Apache-2.0
 *
 * The engine: devices, grids, CTAs and warps, memory with its shadow, the schedule,
 * and the queue of asynchronous work.  One machine per process; every entry from the
 * driver layer holds the machine's lock, so nothing here is concurrent.
 *
 * Determinism.  All choices (which warp next, how long, when asynchronous work
 * completes) are drawn from the seed.  Same calls, same seed, same run.
 */
#ifndef EMU_ENGINE_H
#define EMU_ENGINE_H

#include "../ptx/ptx.h"

#define WARP          32
#define SHARED_WINDOW 0x0000100000000000ull /* generic address of shared::cluster 0 */
#define LOCAL_WINDOW  0x0000200000000000ull /* generic address of local 0 */
#define PARAM_WINDOW  0x0000300000000000ull /* generic address of the entry's parameter 0 */
#define WINDOW_SIZE   0x0000010000000000ull /* of each; device memory lies above them all */
/* shared::cluster = rank<<24 | offset.  A CTA's own shared::cta addresses carry its rank
 * too, so they are shared::cluster addresses of itself, as the ISA wants. */
#define SHARED_RANK_SHIFT 24

struct machine;
struct device;
struct grid;
struct cluster;
struct cta;

/* ---- checks and reports --------------------------------------------------- */

/* Groups of checks, switched by EMU_CHECKS. */
enum check {
  CHECK_bounds = 1,
  CHECK_undef = 2,
  CHECK_race = 3,
  CHECK_proxy = 4,
  CHECK_tcgen05 = 5,
  CHECK_mbarrier = 6,
  CHECK_pdl = 7,
  CHECK_cluster = 8,
  CHECK_mailbox = 9,
  CHECK_progress = 10 /* cannot be switched off */
};

/* Who does a memory access.  Asynchronous engines keep a copy of the issuer's. */
enum proxy { PROXY_generic, PROXY_async, PROXY_tensormap };
enum sem { SEM_weak, SEM_relaxed, SEM_acquire, SEM_release, SEM_acq_rel, SEM_volatile };
enum scope { SCOPE_cta, SCOPE_cluster, SCOPE_gpu, SCOPE_sys };

struct access {
  struct machine *m;
  struct device *dev;
  struct grid *grid;
  struct cta *cta; /* the issuer's; NULL: the host */
  uint32_t warp, lane;
  const struct insn *insn; /* NULL: the host */
  uint8_t proxy, sem, scope;
  bool atomic;         /* read-modify-write */
  bool engine;         /* done by an asynchronous engine, later than its issue */
  uint8_t element;     /* bytes of the parts that are accessed as wholes, 0: not known */
  struct issue *order; /* of an asynchronous operation: see order.h */
};
struct access access_of(struct warp *w, const struct insn *I, int lane);

struct report {
  enum check check;
  const char *rule;         /* stable id: "oob-global", "undef-branch", "no-progress" */
  const struct access *who; /* may be NULL */
  bool has_address;
  uint8_t space;
  uint64_t address;
  const struct access *other; /* the conflicting side, or NULL */
  char text[8192];            /* what happened and what ordering or value was missing */
};
/* Prints text and JSON line, remembers it in the grid, ends the launch unless told
 * to go on; returns true when execution must stop (the caller returns STEP_fault). */
bool report(struct machine *m, struct report *r);
/* Shorthand. */
bool fault(const struct access *who, enum check c, const char *rule, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
bool check_on(const struct machine *m, enum check c);

/* The reports of this process so far, oldest first (the first 256 are kept); for tests
 * and for the driver layer's error texts.  NULL past the end. */
struct report_record {
  enum check check;
  const char *rule;
  char kernel[64];
  uint32_t line; /* 0: no instruction */
  uint64_t grid_id;
  const char *text; /* the whole text report */
};
uint64_t report_count(const struct machine *m); /* repeats included */
const struct report_record *report_at(const struct machine *m, uint64_t i);

/* ---- memory ---------------------------------------------------------------- */

/* One allocation, a CTA's shared memory, or a lane's local memory.
 * undef: for each byte a mask of bits nobody wrote (1 = undefined); NULL when
 * check 2 is off.  shadow: room for the checks that track who accessed what. */
struct mem {
  uint64_t base, size; /* device address (global) or 0 */
  uint8_t *data, *undef;
  uint8_t space;
  bool freed;
  bool multicast; /* no bytes of its own: addresses of a multicast object */
  bool mapped;    /* accessible to the devices of reach, else to its own and those peers of
                     it for which device.peers says so */
  uint32_t reach; /* bit per device */
  bool constant;  /* .const: kernels may not write it */
  struct device *dev;
  struct cta *cta;
  const char *what; /* for reports: "cuMemAlloc #12", "shared of CTA 3" */
  void *shadow;
  uint64_t allocation; /* what is mapped here, by a number, and maybe elsewhere, too; 0: nowhere */
  bool pinned;         /* the host's own memory, which it may use while kernels run */
  char *name;          /* global: owned copy that `what` points at */
};

/* Every load and store of every agent goes through these two.  They resolve the
 * address, check bounds, alignment (to align bytes), lifetime and state space, move
 * the bytes and their undef masks, and feed the shadow.  false: a report ended the
 * launch.  undef may be NULL (all defined on store; not wanted on load). */
bool mem_load(const struct access *a, enum space sp, uint64_t addr, uint32_t size, uint32_t align,
              void *data, void *undef);
bool mem_store(const struct access *a, enum space sp, uint64_t addr, uint32_t size, uint32_t align,
               const void *data, const void *undef);
/* The raw bytes behind an address for tight loops (tensor cores); checks bounds and
 * feeds the shadow like a load or store of the whole range. */
uint8_t *mem_span(const struct access *a, enum space sp, uint64_t addr, uint64_t size, bool write,
                  uint8_t **undef);
/* Records an access that mem_span already resolved, or one by a fast path: the single
 * place that the checks which compare accesses see.  Writes raise machine.activity. */
void mem_touch(const struct access *a, struct mem *mem, uint64_t offset, uint64_t size, bool write);
/* Resolves an address without touching it: the memory and the offset in it, after all
 * checks of group 1; NULL: a report ended the launch. */
struct mem *mem_resolve(const struct access *a, enum space sp, uint64_t addr, uint64_t size,
                        uint64_t align, bool write, uint64_t *offset);
/* Generic address to (space, address in it). */
enum space generic_space(uint64_t addr, uint64_t *in_space);

/* New memory is undefined (and holds garbage).  Freed memory stays known as a tombstone,
 * its addresses are never given out again. */
struct mem *global_alloc(struct device *d, uint64_t size, uint64_t align, const char *what);
void global_free(struct mem *m);
struct mem *global_find(struct machine *m, uint64_t addr); /* live or freed, or NULL */

/* One copy behind a multicast address: an address in a device's memory. */
#define MAX_TARGETS 16
struct multicast_target {
  struct device *dev;
  uint64_t address;
};
/* Fills targets with the copies behind [addr, addr + size), in device order; returns how
 * many, 0: addr is not a multicast address.  The driver layer sets it; while it is NULL
 * no address is one. */
typedef unsigned (*multicast_lookup)(struct machine *m, uint64_t addr, uint64_t size,
                                     struct multicast_target *targets, unsigned room);
extern multicast_lookup multicast_targets;

/* ---- warps ------------------------------------------------------------------ */

struct wait {
  bool (*ready)(const struct wait *w);
  void *object;
  uint64_t arg;
  uint64_t deadline; /* virtual time at which the wait ends anyway, 0: none */
  bool timed_out;
  /* Nothing can run any more: reports the cause if it is known better than "it waits".
   * May be NULL. */
  void (*stuck)(const struct wait *w, const struct access *who);
  const char *what; /* for the no-progress report: "mbarrier phase" */
  uint64_t address;
};

/* The engine's bookkeeping of a warp's lanes (simt.c).  opd_src's computed rows stay
 * valid for that many calls. */
#define SCRATCH_ROWS 8
struct simt {
  uint32_t held;  /* stand at an instruction that needs lanes not yet there */
  uint32_t avoid; /* spun long enough: siblings first, for avoid_steps steps */
  uint32_t avoid_steps;
  uint32_t late; /* left behind (apart.c), while others can run, for late_steps steps */
  uint32_t late_steps;
  bool parted;    /* some were left behind since all lanes last executed an instruction together */
  uint32_t ended; /* lanes whose wait is over, not yet called again */
  uint32_t group[WARP]; /* by lowest lane of a warp_wait call: its lanes */
  /* loops that it may be spinning in */
  struct spin {
    uint32_t pc, head, lanes, count, next;
    uint64_t activity;
    bool saved; /* spin_r holds the registers at its last back edge */
  } spin[4];    /* by pc & 3 */
  uint64_t *spin_r;
  uint32_t sibling_edges;               /* back edges taken while siblings could run */
  bool parked;                          /* on the parked list */
  uint64_t seen;                        /* activity when its waits were last looked at */
  uint64_t deadline;                    /* the earliest of its waits, 0: none */
  uint32_t slot;                        /* index in the run or the parked list */
  uint32_t cluster_arrived;             /* lanes between barrier.cluster arrive and wait */
  uint64_t cluster_phase[WARP];         /* the phase they arrived for */
  void *copies;                         /* cp.async.c: groups of the lanes */
  struct mem *near;                     /* the allocation its last global access hit */
  uint64_t scratch[SCRATCH_ROWS][WARP]; /* opd_src: values computed per lane */
  uint32_t scratch_next;
};

struct warp {
  struct cta *cta;
  const struct function *fn;
  uint32_t index;   /* in the CTA */
  uint32_t live;    /* lanes that have not exited */
  uint32_t waiting; /* lanes that called warp_wait */
  uint32_t resumed; /* lanes whose wait just ended: set while exec is called again */
  uint32_t pc[WARP];
  struct wait wait[WARP];
  /* value of register slot s, lane l: r[s*32 + l], zero-extended; NULL once the warp has
   * ended: asynchronous work that writes registers must look */
  uint64_t *r;
  uint64_t *u;    /* undefined bits of it; all 0 when check 2 is off */
  uint8_t *local; /* local_bytes per lane */
  struct mem local_mem;
  struct simt simt; /* the engine's own: which lanes run next */
};

/* Parks the lanes on a condition; exec returns STEP_wait.  Lanes of the group that exec
 * did not park are done and advance.  Lanes parked by one call share one evaluation of
 * the condition.  When exec is called again, all its lanes are resumed ones or none is:
 * test `w->resumed & lanes`. */
void warp_wait(struct warp *w, uint32_t lanes, struct wait wait);
/* The lanes are done for good (exit, ret of an entry); exec returns STEP_jump. */
void warp_exit(struct warp *w, uint32_t lanes);

/* Operand access for lane l.  opd_src gives pointer and stride (0 for constants) so
 * that loops over lanes stay tight. */
const uint64_t *opd_src(struct warp *w, const struct opd *o, int *stride);
const uint64_t *opd_undef(struct warp *w, const struct opd *o, int *stride);
uint64_t opd_get(struct warp *w, const struct opd *o, int lane);
uint64_t opd_get_undef(struct warp *w, const struct opd *o, int lane);
void opd_set(struct warp *w, const struct opd *o, int lane, uint64_t value, uint64_t undef);
uint64_t sreg_get(struct warp *w, enum sreg s, int lane);

/* [base + imm] with the symbol's placement; reports an undefined address.  space: the
 * space the address is in when the operand names a variable, else sp. */
bool opd_address(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                 uint64_t *addr);
/* A value that decides something: reports when any of its bits is undefined.
 * what: "branch", "predicate", "count", "mask", "descriptor". */
bool require_defined(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                     const char *what);

/* ---- CTAs, clusters, grids ---------------------------------------------------- */

struct named_barrier {
  uint32_t expected; /* threads, 0: idle */
  uint32_t arrived;
  uint64_t phase;           /* completions so far */
  bool all;                 /* expected: all threads of the CTA that have not exited */
  bool red;                 /* the arrivals so far are barrier.red */
  uint32_t came[32];        /* by warp: the lanes that have arrived in this phase */
  struct access last;       /* of the arrivals of this phase, if arrived */
  uint32_t popc, and_, or_; /* barrier.red: of the arrivals so far */
  struct {
    uint32_t popc, and_, or_;
  } result[4]; /* of the completed phases, by phase & 3 */
};

struct tmem; /* units/tcgen05.c: 512 columns x 128 lanes of one SM */

struct cta {
  struct grid *grid;
  struct cluster *cluster;
  uint32_t rank; /* in the cluster */
  uint32_t ctaid[3];
  uint32_t sm;
  struct mem shared; /* static, then dynamic */
  uint32_t dynamic_offset;
  struct named_barrier bar[16];
  struct warp *warp;
  uint32_t nwarp, live_warps;
  bool triggered;          /* griddepcontrol.launch_dependents executed, or exited */
  void *tc;                /* units/tcgen05.c: its allocations and queue */
  bool killed;             /* its launch failed: its exit is no leak */
  bool exited;             /* its memory stays until its cluster has nothing in flight */
  uint32_t nthread;        /* threads that have not exited */
  void *mbar;              /* mbarrier.c: the barriers that were initialised */
  struct peers *peers;     /* peers.c; NULL: no cluster */
  struct cta_order *order; /* order.h */
};

struct cluster {
  struct grid *grid;
  uint32_t size;
  struct cta **cta;   /* by rank */
  uint64_t bar_phase; /* barrier.cluster completions */
  uint32_t bar_arrived;
  uint32_t nthread; /* threads that have not exited */
  uint32_t live_ctas;
  uint32_t events;        /* asynchronous work posted by it and not done */
  struct peer_view *view; /* peers.c: what barrier.cluster passes on */
  struct cluster *next;
  struct cluster_order *order; /* order.h */
};

enum grid_state { GRID_queued, GRID_running, GRID_complete, GRID_failed };

struct grid {
  struct device *dev;
  const struct function *fn;
  uint64_t id; /* launch number in the process, for reports */
  uint32_t dim[3], block[3], cluster_dim[3];
  uint32_t dynamic_shared;
  uint8_t *param;       /* param_bytes */
  bool pdl;             /* launched with programmatic stream serialization */
  struct grid **prereq; /* griddepcontrol.wait waits until these are complete */
  uint32_t nprereq;
  enum grid_state state;
  uint64_t ctas_total, ctas_started, ctas_exited, ctas_triggered;
  bool waited;                                     /* some thread executed griddepcontrol.wait */
  void (*on_triggered)(struct grid *g, void *arg); /* every CTA triggered or exited */
  void (*on_complete)(struct grid *g, void *arg);
  void *arg;
  uint64_t events;                 /* asynchronous work posted by it and not done */
  struct grid_run *run;            /* engine-private */
  const struct order_point *point; /* its place in the driver's order (order.h); may be NULL */
  uint32_t record;                 /* order.h: its number there */
};

/* The driver layer fills a zeroed grid (dev, fn, id, dim, block, cluster_dim (1s without
 * a cluster), dynamic_shared, param, pdl, prereq, callbacks) and hands it over; the
 * engine places its CTAs as SM resources allow (threads, shared memory, registers, CTA
 * slots), beside those of other grids.  false: no SM can ever hold a CTA of it.
 *
 * on_triggered is called once, some drawn time (LAT_grid_start) after every CTA has
 * triggered or exited, at the latest right before on_complete: submitting the dependent
 * grid in it makes the overlap possible and not certain.  on_complete is called once,
 * with state GRID_complete or GRID_failed, when no CTA and no asynchronous work of the
 * grid is left; from then on the engine does not touch the grid again, except that grids
 * whose prereq names it read its state: keep it until they are complete. */
bool grid_submit(struct grid *g);
/* Ends a grid, queued or running, as failed (its context has failed). */
void grid_abort(struct grid *g);

/* ---- devices ------------------------------------------------------------------ */

struct sm {
  uint32_t threads, ctas, shared_bytes, registers; /* in use */
  struct tmem *tmem;
};

struct device {
  struct machine *m;
  int ordinal;
  int cc_major, cc_minor;
  uint32_t nsm;
  struct sm *sm;
  uint32_t max_threads_sm, max_ctas_sm, shared_sm, shared_optin, registers_sm;
  const char *name;   /* "NVIDIA B200 (emulated)" */
  uint64_t memory;    /* bytes of device memory that it claims */
  uint64_t allocated; /* bytes of live allocations */
  uint64_t next_address;
  uint32_t peers; /* bit per device whose memory it may access */
};

/* ---- asynchronous work ---------------------------------------------------------- */

enum latency {
  LAT_tma,
  LAT_st_async,
  LAT_tcgen05,
  LAT_wgmma,
  LAT_remote,
  LAT_multimem,
  LAT_grid_start,
  LAT_cp_async,
  LAT_count
};

/* Embed it first in what the engine needs to finish the work; fire owns and frees. */
struct event {
  uint64_t due, seq;
  void (*fire)(struct machine *m, struct event *e);
  const char *what; /* for the no-progress report */
  /* Set when posted: on whose behalf (what was executing or firing then).  A grid is not
   * complete, and a cluster's memory not released, before their events have fired. */
  struct grid *grid;
  struct cluster *cluster;
};
/* The post functions may be called while a warp executes, from another event's fire, or
 * from the driver layer (then the event belongs to no grid).
 * Draws the delay from the seed by class: often short, at times very long. */
void event_post(struct machine *m, struct event *e, enum latency c);
/* As above but never before `earliest` (keeps an order two pieces of work must have). */
void event_post_after(struct machine *m, struct event *e, enum latency c, uint64_t earliest);
/* For work that belongs to no grid, whatever is executing or firing now. */
void event_post_unowned(struct machine *m, struct event *e, enum latency c, uint64_t earliest);

/* ---- the machine ------------------------------------------------------------------ */

struct machine {
  uint64_t seed, now; /* virtual time: warp-instructions executed and event jumps */
  uint64_t activity;  /* rises with every write, arrival, exit or event: a loop in
                         which it stands still and no register changes is a spin */
  uint32_t checks;    /* bit per enum check */
  bool keep_going;    /* EMU_KEEP_GOING: report, do not end the launch */
  uint32_t patience;  /* EMU_PATIENCE: seconds without progress that others may still end */
  uint64_t limit;     /* EMU_LIMIT: warp instructions between two ends of CTAs; 0: none */
  struct device *dev;
  uint32_t ndev;
  /* engine-private state follows in engine/internal.h */
  struct engine_state *s;
};
/* Created on first use from the environment; NULL if a setting there is bad, which stderr
 * then names. */
struct machine *machine_get(void);
/* Changes a setting between launches: seed, checks, limit, keep_going, trace, report, with
 * the values of the environment variables.  false: no such key or value. */
bool machine_configure(struct machine *m, const char *key, const char *value);
uint64_t machine_event_orders(const struct machine *m); /* distinct ones, while tracing */
uint64_t machine_early_starts(const struct machine *m); /* grids that started under PDL */

/* Runs until done(arg) is true.  false: no progress is possible (reported; every grid
 * that was running has failed).  When a check ends a launch its grid fails, on_complete
 * is called, and the run goes on until done. */
bool machine_run(struct machine *m, bool (*done)(void *arg), void *arg);
/* Runs a bounded number of steps: cuStreamQuery and the like. */
void machine_poll(struct machine *m);

/* Seeded numbers, one stream per purpose so that one consumer does not shift another. */
uint64_t draw(struct machine *m, enum latency purpose);

/* ---- mbarrier (engine/mbarrier.c), for the asynchronous units ------------------------ */

/* addr is a shared::cluster address.  Effects of the issuer named in a. */
bool mbar_arrive(const struct access *a, uint64_t addr, uint32_t count);
bool mbar_expect_tx(const struct access *a, uint64_t addr, uint32_t bytes);
bool mbar_complete_tx(const struct access *a, uint64_t addr, uint32_t bytes);
/* An asynchronous operation that will signal it is issued. */
void mbar_issued(const struct access *a, uint64_t addr);
/* The shared::cluster address of a shared or generic one, as seen by the issuer. */
bool shared_cluster_address(const struct access *a, enum space sp, uint64_t addr, uint64_t *out);
/* The CTA behind a shared::cluster address; reports (group 8) a rank outside the cluster
 * or a CTA that has exited, and returns NULL. */
struct cta *cluster_cta(const struct access *a, uint64_t addr);

/* ---- hooks the units implement -------------------------------------------------------- */

void tcgen05_cta_exit(struct cta *c); /* leak check, frees the queue */
void units_device_init(struct device *d);
/* A watched instruction (insn.watched) is about to access its registers; false: a report ends
 * the launch. */
bool units_registers_used(struct warp *w, const struct insn *I, uint32_t lanes);
/* An asynchronous instruction of the warp has this register as its result, and nothing has
 * waited for that: what must be waited with, else NULL; *by: the instruction, if known. */
const char *units_pending_register(struct warp *w, uint32_t reg, const struct access **by);

#endif
