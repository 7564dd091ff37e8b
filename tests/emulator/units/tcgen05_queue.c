/* SPDX-License-Identifier: Apache-2.0
 *
 * TMEM ownership, and the order in which a CTA's tcgen05 operations complete; the
 * instructions around them: alloc, dealloc, relinquish, wait, fence, commit.
 */
#include "bulk.h"
#include "tcgen05.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the queue ------------------------------------------------------------------ */

struct tc_queue *tc_queue(struct cta *c) {
  struct unit_cta *u = unit_cta(c);
  if (!u->queue) {
    struct tc_queue *q = unit_alloc(sizeof *q);
    q->largest = TMEM_COLUMNS;
    q->nwarp = c->nwarp;
    q->warp = unit_alloc(c->nwarp * sizeof *q->warp);
    for (uint32_t i = 0; i < c->nwarp; i++)
      q->warp[i].last = &q->warp[i].first;
    u->queue = q;
  }
  return u->queue;
}

static void queue_drop(struct tc_queue *q) {
  for (uint32_t i = 0; i < q->nwarp; i++)
    while (q->warp[i].first) {
      struct tc_load *l = q->warp[i].first;
      q->warp[i].first = l->next_load;
      tc_load_free(l);
    }
  free(q->warp);
  free(q);
}

void tc_load_free(struct tc_load *l) {
  free(l->undef);
  free(l);
}

/* A CTA that keeps the right to allocate keeps it from the others of its SM until it exits,
 * though they may fit.  The ISA leaves that to the program: "it relinquishes" is all it says. */
static void permit_kept(struct cta *c, const struct tc_queue *q) {
  if (!q->allocated || q->relinquished || q->all_columns || c->killed)
    return;
  struct access a = {.m = c->grid->dev->m,
                     .dev = c->grid->dev,
                     .grid = c->grid,
                     .cta = c,
                     .insn = q->allocated,
                     .warp = q->allocator};
  (void)fault(&a, CHECK_tcgen05, "tmem-permit-kept",
              "the CTA exited without tcgen05.relinquish_alloc_permit after its last "
              "tcgen05.alloc: until then other CTAs of its SM may have to wait for the right to "
              "allocate");
}

void tc_queue_exit(struct cta *c, struct tc_queue *q) {
  permit_kept(c, q);
  struct tmem *t = c->grid->dev->sm[c->sm].tmem;
  struct taken by = {0};
  uint32_t held = 0;
  for (uint32_t i = 0; t && i < TMEM_COLUMNS; i++)
    if (t->owner[i] == c) {
      t->owner[i] = NULL;
      by = t->taken[i];
      held++;
    }
  if (held && !c->killed) {
    struct access a = {.m = c->grid->dev->m,
                       .dev = c->grid->dev,
                       .grid = c->grid,
                       .cta = c,
                       .insn = by.insn,
                       .warp = by.warp,
                       .lane = by.lane};
    (void)fault(&a, CHECK_tcgen05, "tmem-leak",
                "the CTA exited holding %u columns of tensor memory", held);
  }
  q->dead = true;
  if (q->in_flight == 0)
    queue_drop(q);
}

static bool same_thread(const struct access *a, const struct access *b) {
  return a->warp == b->warp && a->lane == b->lane;
}

/* Does the ISA promise that p completes before op?  Between threads only when p's thread
 * has fenced it; the synchronisation that must follow is the program's. */
static bool ordered(const struct tc_op *p, const struct tc_op *op) {
  if (op->kind == TC_OP_commit)
    return (p->kind == TC_OP_mma || p->kind == TC_OP_cp) && same_thread(&p->a, &op->a);
  if (!same_thread(&p->a, &op->a) && !p->fenced)
    return false;
  if (op->kind == TC_OP_mma && p->kind == TC_OP_mma)
    return p->column == op->column && p->shape == op->shape;
  return op->kind == TC_OP_mma && p->kind == TC_OP_cp;
}

static void op_fire(struct machine *m, struct event *e) {
  struct tc_op *op = (struct tc_op *)e;
  struct tc_queue *q = op->queue;
  (void)m;
  struct tc_op **link = &q->op;
  while (*link != op)
    link = &(*link)->next;
  *link = op->next;
  q->in_flight--;
  bool keep = op->kind == TC_OP_ld; /* until wait::ld, or queue_drop */
  op->run(op);
  order_issue_over(&op->a);
  if (!keep)
    free(op);
  if (q->dead && q->in_flight == 0)
    queue_drop(q);
}

void tc_post(struct tc_op *op, const char *what) {
  struct tc_queue *q = op->queue = tc_queue(op->cta);
  uint64_t earliest = 0;
  for (const struct tc_op *p = q->op; p; p = p->next)
    if (ordered(p, op) && p->e.due + 1 > earliest)
      earliest = p->e.due + 1;
  op->e.fire = op_fire;
  op->e.what = what;
  op->next = q->op;
  q->op = op;
  q->in_flight++;
  event_post_after(op->a.m, &op->e, LAT_tcgen05, earliest);
}

const struct tc_op *tc_in_flight(const struct tc_queue *q, uint32_t kinds, uint32_t column,
                                 uint32_t columns) {
  for (const struct tc_op *p = q->op; p; p = p->next)
    if (kinds >> p->kind & 1 && p->column < column + columns && column < p->column + p->columns)
      return p;
  return NULL;
}

/* ---- tensor memory --------------------------------------------------------------- */

bool tmem_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                  uint32_t mask, const char *what, uint32_t columns, uint32_t *tmem_lane,
                  uint32_t *column) {
  uint64_t addr;
  struct access a = access_of(w, I, lane);
  if (!opd_address(w, I, o, lane, &addr))
    return false;
  addr &= mask;
  *tmem_lane = (uint32_t)addr >> 16;
  *column = (uint32_t)addr & 0xffff;
  if (*tmem_lane >= TMEM_LANES) {
    hard_fault(&a, CHECK_tcgen05, "tmem-lane",
               "the tensor memory address 0x%08x of %s names lane %u", (unsigned)addr, what,
               *tmem_lane);
    return false;
  }
  return tmem_owned(&a, w->cta, what, *column, columns);
}

bool tc_single_thread(struct warp *w, const struct insn *I, uint32_t lanes) {
  if ((lanes & (lanes - 1)) == 0)
    return true;
  struct access a = access_of(w, I, __builtin_ctz(lanes));
  return !fault(&a, CHECK_tcgen05, "tcgen05-many-threads",
                "%d threads of the warp issue an instruction that one thread must issue",
                __builtin_popcount(lanes));
}

static bool full_warp(struct warp *w, const struct insn *I, uint32_t lanes) {
  if (lanes == 0xffffffffu)
    return true;
  struct access a = access_of(w, I, __builtin_ctz(lanes));
  return !fault(&a, CHECK_tcgen05, "tcgen05-partial-warp",
                "%d of 32 threads execute an instruction for the whole warp",
                __builtin_popcount(lanes));
}

static bool has_room(const struct wait *wait) {
  return tmem_room(wait->object, (uint32_t)wait->arg) < TMEM_COLUMNS;
}

static void never_room(const struct wait *wait, const struct access *who) {
  (void)fault(who, CHECK_tcgen05, "tmem-alloc-never", "%llu columns can never be had: %s",
              (unsigned long long)wait->arg, wait->what);
}

static bool column_count(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                         uint32_t *n) {
  struct access a = access_of(w, I, lane);
  if (!require_defined(w, I, o, lane, "count"))
    return false;
  *n = (uint32_t)opd_get(w, o, lane);
  if (*n >= 32 && *n <= TMEM_COLUMNS && (*n & (*n - 1)) == 0)
    return true;
  hard_fault(&a, CHECK_tcgen05, "tmem-columns", "%u columns: must be a power of two in 32..512",
             *n);
  return false;
}

static enum step exec_alloc(struct warp *w, const struct insn *I, uint32_t lanes) {
  int lane = __builtin_ctz(lanes);
  struct cta *c = w->cta;
  struct access a = access_of(w, I, lane);
  struct tc_queue *q = tc_queue(c);
  struct tmem *t = tmem_of(c);
  uint64_t to;
  uint32_t n;
  enum space sp = I->mod[0] == MOD_shared__cta ? SPACE_shared : SPACE_generic;
  if (!full_warp(w, I, lanes) || !column_count(w, I, &I->opd[1], lane, &n) ||
      !shared_operand(w, I, &I->opd[0], lane, sp, &to))
    return STEP_fault;
  if (q->relinquished && fault(&a, CHECK_tcgen05, "tmem-alloc-relinquished",
                               "tcgen05.alloc after tcgen05.relinquish_alloc_permit"))
    return STEP_fault;
  if (n > q->largest && fault(&a, CHECK_tcgen05, "tmem-alloc-larger",
                              "allocates %u columns after an allocation of %u: a later one "
                              "must not be larger",
                              n, q->largest))
    return STEP_fault;
  uint32_t at = tmem_room(t, n);
  if (at == TMEM_COLUMNS) {
    if (!tmem_holders(t, c, q->waiting, sizeof q->waiting)) {
      hard_fault(&a, CHECK_tcgen05, "tmem-alloc-never", "%u columns can never be had: %s", n,
                 q->waiting);
      return STEP_fault;
    }
    warp_wait(
        w, lanes,
        (struct wait){
            .ready = has_room, .object = t, .arg = n, .stuck = never_room, .what = q->waiting});
    return STEP_wait;
  }
  tmem_take(t, &a, at, n);
  q->largest = n;
  q->all_columns |= n == TMEM_COLUMNS;
  q->allocated = I;
  q->allocator = w->index;
  return mem_store(&a, SPACE_shared_cluster, to, 4, 4, &at, NULL) ? STEP_next : STEP_fault;
}

static enum step exec_dealloc(struct warp *w, const struct insn *I, uint32_t lanes) {
  int lane = __builtin_ctz(lanes);
  struct cta *c = w->cta;
  struct access a = access_of(w, I, lane);
  struct tmem *t = tmem_of(c);
  uint32_t n;
  if (!full_warp(w, I, lanes) || !column_count(w, I, &I->opd[1], lane, &n) ||
      !require_defined(w, I, &I->opd[0], lane, "address"))
    return STEP_fault;
  uint32_t at = (uint32_t)opd_get(w, &I->opd[0], lane);
  if (at + (uint64_t)n > TMEM_COLUMNS) {
    hard_fault(&a, CHECK_tcgen05, "tmem-dealloc", "0x%08x is no address that an alloc of %u gave",
               at, n);
    return STEP_fault;
  }
  if (!tmem_owned(&a, c, "tcgen05.dealloc", at, n))
    return STEP_fault;
  if (t->owner[at] == c && (t->taken[at].first != at || t->taken[at].count != n) &&
      fault(&a, CHECK_tcgen05, "tmem-dealloc",
            "%u columns from %u on are no allocation: that has %u columns from %u on", n, at,
            t->taken[at].count, t->taken[at].first))
    return STEP_fault;
  if (!order_tmem(&a, TMEM_dealloc, 0, TMEM_LANES / 16, at, n, true, 0))
    return STEP_fault;
  const struct tc_op *p = tc_in_flight(tc_queue(c), ~(1u << TC_OP_commit), at, n);
  if (p) {
    struct report r = {
        .check = CHECK_tcgen05, .rule = "tmem-dealloc-in-flight", .who = &a, .other = &p->a};
    snprintf(r.text, sizeof r.text,
             "deallocates columns %u..%u that an operation in flight still uses", at, at + n - 1);
    if (report(a.m, &r))
      return STEP_fault;
  }
  for (uint32_t i = at; i < at + n; i++)
    if (t->owner[i] == c)
      t->owner[i] = NULL;
  a.m->activity++;
  return STEP_next;
}

static enum step exec_relinquish(struct warp *w, const struct insn *I, uint32_t lanes) {
  if (!full_warp(w, I, lanes))
    return STEP_fault;
  tc_queue(w->cta)->relinquished = true;
  return STEP_next;
}

/* ---- waits and fences -------------------------------------------------------------- */

static bool none_left(const struct wait *wait) {
  return *(const uint32_t *)wait->object == 0;
}

static enum step exec_wait_ld(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  struct tc_warp *tw = &tc_queue(w->cta)->warp[w->index];
  if (tw->loads) {
    warp_wait(w, lanes,
              (struct wait){.ready = none_left, .object = &tw->loads, .what = "tcgen05.wait::ld"});
    return STEP_wait;
  }
  order_tcgen05_waited(w, lanes, PIPE_tcgen05_ld);
  while (tw->first) { /* the registers may be used from here on */
    struct tc_load *l = tw->first;
    const struct opd *v = &l->insn->opd[0];
    for (uint32_t i = 0; l->undef && i < l->count; i++) {
      if (v->elem[i].kind != OPD_reg)
        continue;
      uint64_t *u = &w->u[(size_t)v->elem[i].reg * WARP];
      for (int lane = 0; lane < WARP; lane++)
        if ((uint32_t)u[lane] == 0xffffffffu) /* else written by something else since */
          u[lane] = l->undef[i * WARP + (uint32_t)lane];
    }
    tw->first = l->next_load;
    tc_load_free(l);
  }
  tw->last = &tw->first;
  return STEP_next;
}

static enum step exec_wait_st(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  struct tc_warp *tw = &tc_queue(w->cta)->warp[w->index];
  if (tw->stores == 0) {
    order_tcgen05_waited(w, lanes, PIPE_tcgen05_st);
    return STEP_next;
  }
  warp_wait(w, lanes,
            (struct wait){.ready = none_left, .object = &tw->stores, .what = "tcgen05.wait::st"});
  return STEP_wait;
}

static enum step exec_fence_before(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  struct tc_queue *q = tc_queue(w->cta);
  order_tcgen05_before(w, lanes);
  for (struct tc_op *p = q->op; p; p = p->next)
    if (p->a.warp == w->index && lanes >> p->a.lane & 1)
      p->fenced = true;
  return STEP_next;
}

static enum step exec_fence_after(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  order_tcgen05_after(w, lanes);
  return STEP_next;
}

/* ---- commit -------------------------------------------------------------------------- */

struct tc_commit {
  struct tc_op op;
  uint64_t mbar;
  uint32_t mask;
};

static void commit_run(struct tc_op *op) {
  struct tc_commit *c = (struct tc_commit *)op;
  for (uint32_t rank = 0; rank < 16; rank++)
    if (c->mask >> rank & 1 && !mbar_arrive(&op->a, in_rank(c->mbar, rank), 1))
      return;
}

static enum step commit(struct warp *w, const struct insn *I, uint32_t lanes,
                        const struct opd *mask_opd) {
  int lane = __builtin_ctz(lanes);
  enum space sp =
      I->mod[0] == MOD_shared__cluster || mask_opd ? SPACE_shared_cluster : SPACE_generic;
  uint64_t mbar;
  uint32_t mask = 0;
  if (!tc_single_thread(w, I, lanes) || !mbar_operand(w, I, &I->opd[0], lane, sp, &mbar) ||
      (mask_opd && !mask_operand(w, I, mask_opd, lane, &mask)))
    return STEP_fault;
  struct tc_commit *c = unit_alloc(sizeof *c);
  c->op.a = async_access(w, I, lane, PROXY_generic);
  c->op.a.sem = SEM_release;
  c->op.a.scope = SCOPE_cluster;
  order_issue_commit(&c->op.a);
  c->op.cta = w->cta;
  c->op.kind = TC_OP_commit;
  c->op.run = commit_run;
  c->mbar = mbar;
  c->mask = mask_opd ? mask : 1u << (mbar >> SHARED_RANK_SHIFT);
  for (uint32_t rank = 0; rank < 16; rank++)
    if (c->mask >> rank & 1 && rank != w->cta->rank) /* a peer must be there when it arrives */
      mbar_issued(&c->op.a, in_rank(mbar, rank));
  tc_post(&c->op, "tcgen05.commit");
  return STEP_next;
}

static enum step exec_commit(struct warp *w, const struct insn *I, uint32_t lanes) {
  return commit(w, I, lanes, NULL);
}
static enum step exec_commit_multicast(struct warp *w, const struct insn *I, uint32_t lanes) {
  return commit(w, I, lanes, &I->opd[1]);
}

#define ALIGNED .flags = FORM_sm100f | FORM_aligned, .tested = "definition"
#define THREAD  .flags = FORM_sm100f, .tested = "definition"
#define COMMIT  "tcgen05.commit.cta_group::1.mbarrier::arrive::one"

const struct form forms_tcgen05[] = {
    {.pattern = "tcgen05.alloc.cta_group::1.sync.aligned[.shared::cta].b32",
     .operands = "m r32",
     .exec = exec_alloc,
     ALIGNED},
    {.pattern = "tcgen05.dealloc.cta_group::1.sync.aligned.b32",
     .operands = "r32 r32",
     .exec = exec_dealloc,
     ALIGNED},
    {.pattern = "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned",
     .operands = "",
     .exec = exec_relinquish,
     ALIGNED},
    {.pattern = "tcgen05.wait::ld.sync.aligned", .operands = "", .exec = exec_wait_ld, ALIGNED},
    {.pattern = "tcgen05.wait::st.sync.aligned", .operands = "", .exec = exec_wait_st, ALIGNED},
    {.pattern = "tcgen05.fence::before_thread_sync",
     .operands = "",
     .exec = exec_fence_before,
     THREAD},
    {.pattern = "tcgen05.fence::after_thread_sync",
     .operands = "",
     .exec = exec_fence_after,
     THREAD},
    {.pattern = COMMIT "[.shared::cluster].b64", .operands = "m", .exec = exec_commit, THREAD},
    {.pattern = COMMIT ".shared::cluster.multicast::cluster.b64",
     .operands = "m r16",
     .exec = exec_commit_multicast,
     THREAD},
    {.pattern = NULL},
};
