/* SPDX-License-Identifier: Apache-2.0
 *
 * The asynchronous and tensor-core units of an SM: what they add to the table of
 * instruction forms, and what the engine and the driver layer see of them.
 */
#ifndef EMU_UNITS_UNITS_H
#define EMU_UNITS_UNITS_H

#include "../engine/order.h"

/* Form tables (listed in ptx/families.def). */
extern const struct form forms_bulk[];        /* bulk.c: cp.async.bulk, cp.reduce.async.bulk */
extern const struct form forms_bulk_group[];  /* job.c: commit_group, wait_group */
extern const struct form forms_remote[];      /* remote.c: st.async, red.async, st.bulk */
extern const struct form forms_tma[];         /* tma.c */
extern const struct form forms_tensormap[];   /* tensormap_ops.c */
extern const struct form forms_tcgen05[];     /* tcgen05_queue.c: alloc, wait, fence, commit */
extern const struct form forms_tcgen05_cp[];  /* tcgen05_cp.c */
extern const struct form forms_tcgen05_ld[];  /* tcgen05_ld.c */
extern const struct form forms_tcgen05_mma[]; /* tcgen05_mma.c */
extern const struct form forms_wgmma[];       /* wgmma.c */
extern const struct form forms_mma_sync[];    /* mma_sync.c */
extern const struct form forms_matrix[];      /* matrix.c: ldmatrix, stmatrix, movmatrix */
extern const struct form forms_multimem[];    /* multimem.c */

/* ---- per CTA state (cta->tc) ------------------------------------------------------- */

struct bulk_thread; /* bulk.c: the bulk groups of one thread */
struct wgmma_warp;  /* wgmma.c: the wgmma groups of one warp */
struct tc_queue;    /* tcgen05_queue.c */
struct multimem;    /* multimem.c: a store on its way */

struct unit_cta {
  struct bulk_thread **bulk; /* nwarp * 32, each made on first use */
  struct wgmma_warp **wgmma; /* nwarp, each made on first use */
  struct tc_queue *queue;    /* made on first use */
  struct multimem *multimem; /* the CTA's stores to multicast addresses on their way */
};
struct unit_cta *unit_cta(struct cta *c);

void bulk_free(struct bulk_thread *t);
void wgmma_free(struct wgmma_warp *g);
bool wgmma_pending(const struct wgmma_warp *g, uint32_t reg); /* an accumulator not waited for */
/* Another instruction accesses registers that some wgmma uses; false: a report. */
bool wgmma_registers_used(struct wgmma_warp *g, struct warp *w, const struct insn *I,
                          uint32_t lanes);
void multimem_cta_exit(struct multimem *first);

/* Multicast stores take time to arrive.  A release pattern (release operation or fence, at
 * cluster scope or wider) must not be passed by stores before it: while this is true the
 * instruction has to wait; multimem_wait fills in what for. */
bool multimem_pending(const struct cta *c);
struct wait multimem_wait(struct cta *c);

/* For executors: the engine's view of an asynchronous access by this thread. */
static inline struct access async_access(struct warp *w, const struct insn *I, int lane,
                                         enum proxy proxy) {
  struct access a = access_of(w, I, lane);
  a.proxy = (uint8_t)proxy;
  a.engine = true;
  return a;
}

#define FOR_LANES(lane, lanes)                                                                     \
  for (int lane = 0; lane < WARP; lane++)                                                          \
    if ((lanes) >> lane & 1)

/* Reports what execution cannot go on from, whatever checks are on; the caller returns
 * STEP_fault. */
void hard_fault(const struct access *who, enum check c, const char *rule, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));

/* Zeroed memory; running out of it ends the process, with a message. */
void *unit_alloc(size_t size);

#endif
