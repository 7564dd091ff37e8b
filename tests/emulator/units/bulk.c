/* SPDX-License-Identifier: Apache-2.0
 *
 * cp.async.bulk and cp.reduce.async.bulk without a tensor map (PTX ISA 9.7.9.25.4).
 * Sources are read and destinations written in the async proxy when the copy fires; the
 * mbarrier is signalled, in the generic proxy, after the last part.
 */
#include "bulk.h"
#include "reduce.h"

#include <stdlib.h>
#include <string.h>

struct bulk_copy {
  struct job job;
  enum space from_space, to_space;
  uint64_t from, to, mbar;
  bool signals;      /* complete_tx on mbar */
  uint32_t mask;     /* .cp_mask: bytes of each 16 that are written */
  enum mod op, type; /* reduction; MOD_none: plain copy */
};

static bool copy_read(struct job *j, unsigned part) {
  struct bulk_copy *c = (struct bulk_copy *)j;
  uint32_t from, to;
  job_range(j, part, j->size / 16, &from, &to);
  return mem_load(&j->a, c->from_space, c->from + from * 16ull, (to - from) * 16, 16,
                  j->data + from * 16ull, j->undef ? j->undef + from * 16ull : NULL);
}

static bool copy_write(struct job *j, unsigned part) {
  struct bulk_copy *c = (struct bulk_copy *)j;
  uint32_t from, to;
  job_range(j, part, j->size / 16, &from, &to);
  if (c->mask == 0xffff)
    return mem_store(&j->a, c->to_space, c->to + from * 16ull, (to - from) * 16, 16,
                     j->data + from * 16ull, j->undef ? j->undef + from * 16ull : NULL);
  for (uint32_t i = from * 16; i < to * 16; i++)
    if (c->mask >> i % 16 & 1 && !mem_store(&j->a, c->to_space, c->to + i, 1, 1, j->data + i,
                                            j->undef ? j->undef + i : NULL))
      return false;
  return true;
}

static bool reduce_write(struct job *j, unsigned part) {
  struct bulk_copy *c = (struct bulk_copy *)j;
  struct access a = j->a;
  a.atomic = true;
  a.sem = SEM_relaxed;
  a.scope = c->to_space == SPACE_global ? SCOPE_gpu : SCOPE_cluster;
  unsigned es = mod_bits(c->type) / 8;
  uint32_t from, to;
  /* The same range as copy_read's: a part may be written before another one is read. */
  job_range(j, part, j->size / 16, &from, &to);
  for (uint32_t i = from * 16 / es; i < to * 16 / es; i++) {
    uint64_t old = 0, old_undef = 0, add = 0, add_undef = 0;
    if (!mem_load(&a, c->to_space, c->to + (uint64_t)i * es, es, es, &old,
                  j->undef ? &old_undef : NULL))
      return false;
    memcpy(&add, j->data + (size_t)i * es, es);
    if (j->undef)
      memcpy(&add_undef, j->undef + (size_t)i * es, es);
    uint64_t sum = reduce_element(c->op, c->type, old, add);
    uint64_t undef = old_undef | add_undef ? UINT64_MAX : 0;
    if (!mem_store(&a, c->to_space, c->to + (uint64_t)i * es, es, es, &sum,
                   j->undef ? &undef : NULL))
      return false;
  }
  return true;
}

static void copy_done(struct job *j) {
  struct bulk_copy *c = (struct bulk_copy *)j;
  if (!c->signals)
    return;
  struct access a = j->a;
  a.proxy = PROXY_generic;
  a.sem = SEM_release;
  a.scope = SCOPE_cluster;
  mbar_complete_tx(&a, c->mbar, j->size);
}

/* The size operand and the alignment of both ends. */
static bool size_operand(struct warp *w, const struct insn *I, int lane, uint64_t from, uint64_t to,
                         uint32_t *size) {
  struct access a = access_of(w, I, lane);
  if (!require_defined(w, I, &I->opd[2], lane, "count"))
    return false;
  *size = (uint32_t)opd_get(w, &I->opd[2], lane);
  const char *which = from % 16 ? "source address" : to % 16 ? "destination address" : NULL;
  if (which)
    hard_fault(&a, CHECK_bounds, "misaligned-bulk",
               "the %s 0x%llx of a bulk copy is not a multiple of 16", which,
               (unsigned long long)(from % 16 ? from : to));
  else if (*size % 16)
    hard_fault(&a, CHECK_bounds, "bulk-size", "the size %u of a bulk copy is not a multiple of 16",
               (unsigned)*size);
  else
    return true;
  return false;
}

static struct bulk_copy *copy_new(struct warp *w, const struct insn *I, int lane) {
  struct bulk_copy *c = unit_alloc(sizeof *c);
  c->job.a = async_access(w, I, lane, PROXY_async);
  c->job.latency = LAT_tma;
  c->job.what = "cp.async.bulk";
  c->job.read = copy_read;
  c->job.write = copy_write;
  c->job.done = copy_done;
  c->mask = 0xffff;
  return c;
}

/* Size 0 copies nothing and signals nothing, but a group it is in stays well formed. */
static void copy_start(struct bulk_copy *c, uint32_t size) {
  if (c->job.thread) {
    c->job.group = bulk_enter(c->job.thread, &c->job.a);
    order_issue_bulk_store(&c->job.a, c->job.group + 1);
  }
  job_start(&c->job, size, size / 16);
}

/* slots: 0 destination space, then for to_shared the multicast and hint stand bare. */
static enum step load_global(struct warp *w, const struct insn *I, uint32_t lanes,
                             const struct opd *mask_opd) {
  FOR_LANES(lane, lanes) {
    uint64_t to, from, mbar;
    uint32_t size, mask = 0;
    enum space sp = I->mod[0] == MOD_shared__cta ? SPACE_shared : SPACE_shared_cluster;
    if (!shared_operand(w, I, &I->opd[0], lane, sp, &to) ||
        !global_operand(w, I, &I->opd[1], lane, &from) ||
        !mbar_operand(w, I, &I->opd[3], lane, sp, &mbar) ||
        !size_operand(w, I, lane, from, to, &size) ||
        (mask_opd && !mask_operand(w, I, mask_opd, lane, &mask)))
      return STEP_fault;
    if (!mask_opd)
      mask = 1u << (to >> SHARED_RANK_SHIFT);
    for (uint32_t rank = 0; rank < 16; rank++) {
      if (!(mask >> rank & 1))
        continue;
      struct bulk_copy *c = copy_new(w, I, lane);
      c->from_space = SPACE_global;
      c->to_space = SPACE_shared_cluster;
      c->from = from;
      c->to = in_rank(to, rank);
      c->mbar = mask_opd ? in_rank(mbar, rank) : mbar;
      c->signals = true;
      order_issue_mbarrier(&c->job.a, c->mbar);
      mbar_issued(&c->job.a, c->mbar);
      copy_start(c, size);
    }
  }
  return STEP_next;
}

static enum step exec_load(struct warp *w, const struct insn *I, uint32_t lanes) {
  return load_global(w, I, lanes, NULL);
}
static enum step exec_load_multicast(struct warp *w, const struct insn *I, uint32_t lanes) {
  return load_global(w, I, lanes, &I->opd[4]);
}

/* shared::cta to another CTA's shared memory; op MOD_none: copy. */
static enum step to_cluster(struct warp *w, const struct insn *I, uint32_t lanes, enum mod op,
                            enum mod type) {
  FOR_LANES(lane, lanes) {
    uint64_t to, from, mbar;
    uint32_t size;
    if (!shared_operand(w, I, &I->opd[0], lane, SPACE_shared_cluster, &to) ||
        !shared_operand(w, I, &I->opd[1], lane, SPACE_shared, &from) ||
        !mbar_operand(w, I, &I->opd[3], lane, SPACE_shared_cluster, &mbar) ||
        !size_operand(w, I, lane, from, to, &size))
      return STEP_fault;
    struct access a = access_of(w, I, lane);
    uint32_t rank = (uint32_t)(to >> SHARED_RANK_SHIFT);
    if (op == MOD_none && rank == w->cta->rank &&
        fault(&a, CHECK_cluster, "bulk-to-self",
              "a bulk copy from shared to shared memory must go to another CTA"))
      return STEP_fault;
    if (mbar >> SHARED_RANK_SHIFT != rank &&
        fault(&a, CHECK_cluster, "mbarrier-elsewhere",
              "the mbarrier must be in the destination's CTA %u, it is in CTA %u", rank,
              (uint32_t)(mbar >> SHARED_RANK_SHIFT)))
      return STEP_fault;
    struct bulk_copy *c = copy_new(w, I, lane);
    c->from_space = c->to_space = SPACE_shared_cluster;
    c->from = from;
    c->to = to;
    c->mbar = mbar;
    c->signals = true;
    c->op = op;
    c->type = type;
    if (op != MOD_none)
      c->job.write = reduce_write;
    order_issue_mbarrier(&c->job.a, mbar);
    mbar_issued(&c->job.a, mbar);
    copy_start(c, size);
  }
  return STEP_next;
}

static enum step exec_to_cluster(struct warp *w, const struct insn *I, uint32_t lanes) {
  return to_cluster(w, I, lanes, MOD_none, MOD_none);
}
static enum step exec_reduce_cluster(struct warp *w, const struct insn *I, uint32_t lanes) {
  return to_cluster(w, I, lanes, (enum mod)I->mod[0], (enum mod)I->mod[1]);
}

static enum step to_global(struct warp *w, const struct insn *I, uint32_t lanes,
                           const struct opd *mask_opd, enum mod op, enum mod type) {
  FOR_LANES(lane, lanes) {
    uint64_t to, from;
    uint32_t size;
    if (!global_operand(w, I, &I->opd[0], lane, &to) ||
        !shared_operand(w, I, &I->opd[1], lane, SPACE_shared, &from) ||
        !size_operand(w, I, lane, from, to, &size) ||
        (mask_opd && !require_defined(w, I, mask_opd, lane, "mask")))
      return STEP_fault;
    struct bulk_copy *c = copy_new(w, I, lane);
    c->from_space = SPACE_shared_cluster;
    c->to_space = SPACE_global;
    c->from = from;
    c->to = to;
    c->op = op;
    c->type = type;
    if (mask_opd)
      c->mask = (uint32_t)opd_get(w, mask_opd, lane) & 0xffff;
    if (op != MOD_none)
      c->job.write = reduce_write;
    c->job.deferred_write = true;
    c->job.thread = bulk_thread(w, lane);
    copy_start(c, size);
  }
  return STEP_next;
}

static enum step exec_store(struct warp *w, const struct insn *I, uint32_t lanes) {
  return to_global(w, I, lanes, NULL, MOD_none, MOD_none);
}
static enum step exec_store_mask(struct warp *w, const struct insn *I, uint32_t lanes) {
  return to_global(w, I, lanes, &I->opd[3], MOD_none, MOD_none);
}
static enum step exec_store_hint_mask(struct warp *w, const struct insn *I, uint32_t lanes) {
  return to_global(w, I, lanes, &I->opd[4], MOD_none, MOD_none);
}
static enum step exec_reduce_global(struct warp *w, const struct insn *I, uint32_t lanes) {
  return to_global(w, I, lanes, NULL, (enum mod)I->mod[0], (enum mod)I->mod[1]);
}

static enum step exec_prefetch(struct warp *w, const struct insn *I, uint32_t lanes) {
  FOR_LANES(lane, lanes) { /* a hint: only its operands can be wrong */
    uint64_t from;
    if (!global_operand(w, I, &I->opd[0], lane, &from) ||
        !require_defined(w, I, &I->opd[1], lane, "count"))
      return STEP_fault;
  }
  return STEP_next;
}

#define DEFINITION .tested = "definition"
#define TO_SHARED  "cp.async.bulk{.shared::cluster|.shared::cta}.global.mbarrier::complete_tx::bytes"
#define TO_CLUSTER "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
#define TO_GLOBAL  "cp.async.bulk.global.shared::cta.bulk_group"
#define REDUCE_CLUSTER                                                                             \
  "cp.reduce.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
#define REDUCE_GLOBAL "cp.reduce.async.bulk.global.shared::cta.bulk_group"
#define REDUCE_ROWS(ops)                                                                           \
  {.pattern = REDUCE_GLOBAL ops, .operands = "m m r32", .exec = exec_reduce_global, DEFINITION}, { \
    .pattern = REDUCE_GLOBAL ".L2::cache_hint" ops, .operands = "m m r32 r64",                     \
    .exec = exec_reduce_global, DEFINITION                                                         \
  }

const struct form forms_bulk[] = {
    {.pattern = TO_SHARED, .operands = "m m r32 m", .exec = exec_load, DEFINITION},
    {.pattern = TO_SHARED ".L2::cache_hint",
     .operands = "m m r32 m r64",
     .exec = exec_load,
     DEFINITION},
    {.pattern = TO_SHARED ".multicast::cluster",
     .operands = "m m r32 m r16",
     .exec = exec_load_multicast,
     DEFINITION},
    {.pattern = TO_SHARED ".multicast::cluster.L2::cache_hint",
     .operands = "m m r32 m r16 r64",
     .exec = exec_load_multicast,
     DEFINITION},
    {.pattern = TO_CLUSTER, .operands = "m m r32 m", .exec = exec_to_cluster, DEFINITION},
    {.pattern = TO_GLOBAL, .operands = "m m r32", .exec = exec_store, DEFINITION},
    {.pattern = TO_GLOBAL ".L2::cache_hint",
     .operands = "m m r32 r64",
     .exec = exec_store,
     DEFINITION},
    {.pattern = TO_GLOBAL ".cp_mask",
     .operands = "m m r32 r16",
     .exec = exec_store_mask,
     .flags = FORM_sm100,
     DEFINITION},
    {.pattern = TO_GLOBAL ".L2::cache_hint.cp_mask",
     .operands = "m m r32 r64 r16",
     .exec = exec_store_hint_mask,
     .flags = FORM_sm100,
     DEFINITION},
    {.pattern = REDUCE_CLUSTER "{.add|.min|.max|.inc|.dec|.and|.or|.xor}{.u32|.s32|.u64|.b32}",
     .operands = "m m r32 m",
     .exec = exec_reduce_cluster,
     DEFINITION},
    REDUCE_ROWS("{.add|.min|.max|.inc|.dec|.and|.or|.xor}{.u32|.s32|.u64|.s64|.b32|.b64}"),
    REDUCE_ROWS("{.add}{.f32|.f64}"),
    REDUCE_ROWS("{.add}.noftz{.f16|.bf16}"),
    REDUCE_ROWS("{.min|.max}{.f16|.bf16}"),
    {.pattern = "cp.async.bulk.prefetch.L2.global",
     .operands = "m r32",
     .exec = exec_prefetch,
     DEFINITION},
    {.pattern = "cp.async.bulk.prefetch.L2.global.L2::cache_hint",
     .operands = "m r32 r64",
     .exec = exec_prefetch,
     DEFINITION},
    {.pattern = NULL},
};
