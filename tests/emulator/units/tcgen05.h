/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor memory and the tcgen05 operations in flight of one CTA (PTX ISA 9.7.16).
 *
 * Operations complete at drawn times.  Only the pairs that the ISA orders (9.7.16.6.2)
 * keep their order: mma -> mma on the same accumulator with the same shape and kind,
 * cp -> mma, and mma or cp -> commit of the same thread.  Everything else may pass.
 */
#ifndef EMU_UNITS_TCGEN05_H
#define EMU_UNITS_TCGEN05_H

#include "units.h"

#define TMEM_LANES   128
#define TMEM_COLUMNS 512

/* Of one SM, shared by the CTAs on it. */
struct tmem {
  uint32_t word[TMEM_LANES][TMEM_COLUMNS];
  uint32_t undef[TMEM_LANES][TMEM_COLUMNS]; /* bits nobody wrote since the allocation */
  struct cta *owner[TMEM_COLUMNS];          /* NULL: free */
  struct taken {                            /* by this thread at this instruction */
    const struct insn *insn;
    uint32_t warp, lane;
    uint32_t first, count; /* the columns of the allocation */
  } taken[TMEM_COLUMNS];
};
struct tmem *tmem_of(struct cta *c);
/* Where n columns are free; TMEM_COLUMNS: nowhere. */
uint32_t tmem_room(const struct tmem *t, uint32_t n);
/* Names the holders; false: only the CTA itself holds any, so that waiting is in vain. */
bool tmem_holders(const struct tmem *t, const struct cta *self, char *text, size_t size);
/* Gives columns [at, at + n) to the CTA of the access, with garbage in them. */
void tmem_take(struct tmem *t, const struct access *a, uint32_t at, uint32_t n);

enum tc_kind { TC_OP_mma, TC_OP_cp, TC_OP_commit, TC_OP_ld, TC_OP_st };

/* Embed it first. */
struct tc_op {
  struct event e;
  struct access a; /* of the issuing thread (ld, st: lane 0) */
  struct tc_queue *queue;
  struct cta *cta;
  enum tc_kind kind;
  uint32_t column, columns; /* of TMEM it writes (ld: reads) */
  uint64_t shape;           /* mma: what the accumulator's order depends on */
  bool fenced;              /* its thread ran fence::before_thread_sync since */
  /* Does the work.  queue->dead: the CTA has exited, its tensor memory is gone. */
  void (*run)(struct tc_op *op);
  struct tc_op *next;
};

/* A tcgen05.ld between issue and wait::ld. */
struct tc_load {
  struct tc_op op;
  const struct insn *insn;
  bool arrived;
  uint32_t count;            /* registers */
  uint64_t *undef;           /* count * 32, for when wait::ld makes them usable */
  struct tc_load *next_load; /* of the warp, oldest first */
};

struct tc_warp {
  uint32_t loads, stores; /* in flight */
  struct tc_load *first, **last;
};

struct tc_queue {
  struct tc_op *op; /* in flight, newest first */
  uint32_t in_flight;
  uint32_t largest;             /* columns of the smallest allocation so far: none may be larger */
  const struct insn *allocated; /* the last tcgen05.alloc */
  uint32_t allocator;           /* its warp */
  bool all_columns;             /* one left nothing for others to allocate */
  bool relinquished, dead;
  uint32_t nwarp;
  struct tc_warp *warp;
  char waiting[160]; /* what an allocation waits for */
};
struct tc_queue *tc_queue(struct cta *c);
void tc_queue_exit(struct cta *c, struct tc_queue *q);

/* Puts op (kind, a, cta, column, columns, shape, run filled) in flight. */
void tc_post(struct tc_op *op, const char *what);
/* An operation in flight of one of `kinds` (bit per tc_kind) that writes any of these
 * columns, or NULL. */
const struct tc_op *tc_in_flight(const struct tc_queue *q, uint32_t kinds, uint32_t column,
                                 uint32_t columns);
void tc_load_free(struct tc_load *l);
/* Another instruction accesses registers, while these loads are not waited for; false: a
 * report ends the launch. */
bool tc_registers_used(const struct tc_load *first, struct warp *w, const struct insn *I,
                       uint32_t lanes);

/* A TMEM operand: lane and column.  Checks that [column, +columns) is the CTA's. */
bool tmem_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                  uint32_t mask, const char *what, uint32_t columns, uint32_t *tmem_lane,
                  uint32_t *column);
bool tmem_owned(const struct access *a, struct cta *c, const char *what, uint32_t column,
                uint32_t columns);
/* Instructions that one thread issues. */
bool tc_single_thread(struct warp *w, const struct insn *I, uint32_t lanes);

#endif
