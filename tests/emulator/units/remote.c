/* SPDX-License-Identifier: Apache-2.0
 *
 * Asynchronous stores and reductions to a peer's shared memory (st.async, red.async),
 * the asynchronous release store to global memory, and st.bulk.
 */
#include "bulk.h"
#include "reduce.h"

#include <stdlib.h>
#include <string.h>

struct remote_store {
  struct event e;
  struct access a;
  enum space space;
  uint64_t to, mbar;
  bool signals;
  uint32_t bytes; /* in all */
  uint32_t each;  /* of one element: what arrives as a whole */
  enum mod op, type;
  uint8_t data[16], undef[16];
};

static void remote_fire(struct machine *m, struct event *e) {
  struct remote_store *s = (struct remote_store *)e;
  bool track = check_on(m, CHECK_undef), ok = true;
  for (uint32_t i = 0; ok && i < s->bytes; i += s->each) {
    if (s->op != MOD_none) {
      uint64_t old = 0, old_undef = 0, add = 0, add_undef = 0;
      memcpy(&add, s->data + i, s->each);
      memcpy(&add_undef, s->undef + i, s->each);
      ok = mem_load(&s->a, s->space, s->to + i, s->each, s->each, &old, track ? &old_undef : NULL);
      add = reduce_element(s->op, s->type, old, add);
      add_undef = old_undef | add_undef ? UINT64_MAX : 0;
      memcpy(s->data + i, &add, s->each);
      memcpy(s->undef + i, &add_undef, s->each);
    }
    ok = ok && mem_store(&s->a, s->space, s->to + i, s->each, s->each, s->data + i,
                         track ? s->undef + i : NULL);
  }
  if (ok && s->signals) {
    struct access a = s->a;
    a.atomic = false;
    a.sem = SEM_release;
    a.scope = SCOPE_cluster;
    mbar_complete_tx(&a, s->mbar, s->bytes);
  }
  order_issue_over(&s->a);
  free(s);
}

static bool remote_new(struct warp *w, const struct insn *I, int lane, struct remote_store **out) {
  struct remote_store *s = unit_alloc(sizeof *s);
  const struct opd *v = &I->opd[1];
  unsigned n = v->kind == OPD_vec ? v->n : 1;
  s->a = async_access(w, I, lane, PROXY_generic);
  s->e.fire = remote_fire;
  s->each = mod_bits((enum mod)I->type[0]) / 8;
  s->bytes = s->each * n;
  s->space = SPACE_shared_cluster;
  s->signals = true;
  if (s->bytes > sizeof s->data) { /* the pattern admits no such form */
    free(s);
    return false;
  }
  for (unsigned i = 0; i < n; i++) {
    const struct opd *o = v->kind == OPD_vec ? &v->elem[i] : v;
    uint64_t value = opd_get(w, o, lane), undef = opd_get_undef(w, o, lane);
    memcpy(s->data + i * s->each, &value, s->each);
    memcpy(s->undef + i * s->each, &undef, s->each);
  }
  *out = s;
  return true;
}

static enum step to_shared(struct warp *w, const struct insn *I, uint32_t lanes, enum mod op) {
  FOR_LANES(lane, lanes) {
    struct remote_store *s;
    uint64_t to, mbar;
    struct access a = access_of(w, I, lane);
    if (!shared_operand(w, I, &I->opd[0], lane, SPACE_shared_cluster, &to) ||
        !mbar_operand(w, I, &I->opd[2], lane, SPACE_shared_cluster, &mbar))
      return STEP_fault;
    if (w->cta->cluster->size == 1 &&
        fault(&a, CHECK_cluster, "st-async-no-cluster",
              "st.async and red.async need a cluster of more than one CTA"))
      return STEP_fault;
    if (mbar >> SHARED_RANK_SHIFT != to >> SHARED_RANK_SHIFT &&
        fault(&a, CHECK_cluster, "mbarrier-elsewhere",
              "the mbarrier must be in the destination's CTA %u, it is in CTA %u",
              (unsigned)(to >> SHARED_RANK_SHIFT), (unsigned)(mbar >> SHARED_RANK_SHIFT)))
      return STEP_fault;
    if (!remote_new(w, I, lane, &s))
      return STEP_fault;
    if (to % s->bytes && fault(&a, CHECK_bounds, "misaligned-shared",
                               "address 0x%llx is not a multiple of the access size %u",
                               (unsigned long long)to, s->bytes)) {
      free(s);
      return STEP_fault;
    }
    s->e.what = op == MOD_none ? "st.async" : "red.async";
    s->to = to;
    s->mbar = mbar;
    s->op = op;
    s->type = (enum mod)I->type[0];
    s->a.atomic = op != MOD_none;
    s->a.sem = op != MOD_none ? SEM_relaxed : SEM_weak;
    s->a.scope = SCOPE_cluster;
    order_issue_remote(&s->a, mbar);
    mbar_issued(&s->a, mbar);
    event_post(s->a.m, &s->e, LAT_st_async);
  }
  return STEP_next;
}

static enum step exec_st_async(struct warp *w, const struct insn *I, uint32_t lanes) {
  return to_shared(w, I, lanes, MOD_none);
}
static enum step exec_red_async(struct warp *w, const struct insn *I, uint32_t lanes) {
  return to_shared(w, I, lanes, (enum mod)I->mod[1]);
}

static enum step exec_st_async_global(struct warp *w, const struct insn *I, uint32_t lanes) {
  FOR_LANES(lane, lanes) {
    struct remote_store *s;
    uint64_t to;
    if (!global_operand(w, I, &I->opd[0], lane, &to) || !remote_new(w, I, lane, &s))
      return STEP_fault;
    s->e.what = "st.async";
    s->space = SPACE_global;
    s->signals = false;
    s->to = to;
    s->a.sem = SEM_release;
    s->a.scope = I->mod[1] == MOD_sys   ? SCOPE_sys
                 : I->mod[1] == MOD_gpu ? SCOPE_gpu
                                        : SCOPE_cluster;
    order_issue_store(&s->a);
    event_post(s->a.m, &s->e, LAT_st_async);
  }
  return STEP_next;
}

static enum step exec_st_bulk(struct warp *w, const struct insn *I, uint32_t lanes) {
  static const uint8_t zero[256];
  FOR_LANES(lane, lanes) {
    uint64_t to;
    struct access a = access_of(w, I, lane);
    if (!shared_operand(w, I, &I->opd[0], lane, SPACE_shared, &to) ||
        !require_defined(w, I, &I->opd[1], lane, "count"))
      return STEP_fault;
    uint64_t size = opd_get(w, &I->opd[1], lane);
    if (size % 8 &&
        fault(&a, CHECK_bounds, "bulk-size", "the size %llu of st.bulk is not a multiple of 8",
              (unsigned long long)size))
      return STEP_fault;
    for (uint64_t done = 0; done < size;) {
      uint32_t piece = size - done < sizeof zero ? (uint32_t)(size - done) : (uint32_t)sizeof zero;
      if (!mem_store(&a, SPACE_shared_cluster, to + done, piece, 8, zero, NULL))
        return STEP_fault;
      done += piece;
    }
  }
  return STEP_next;
}

static const char *check_zero(const struct insn *I) {
  return I->opd[2].imm == 0 ? NULL : "the value of st.bulk must be 0";
}

#define DEFINITION .tested = "definition"

const struct form forms_remote[] = {
    {.pattern = "st.async[.weak].shared::cluster.mbarrier::complete_tx::bytes[.v2]"
                "{.b32|.b64|.u32|.u64|.s32|.s64|.f32|.f64}",
     .operands = "m vrT m",
     .exec = exec_st_async,
     DEFINITION},
    {.pattern = "st.async[.weak].shared::cluster.mbarrier::complete_tx::bytes.v4"
                "{.b32|.u32|.s32|.f32}",
     .operands = "m vrT m",
     .exec = exec_st_async,
     DEFINITION},
    {.pattern = "st.async[.mmio].release{.gpu|.sys}.global"
                "{.b8|.b16|.b32|.b64|.u8|.u16|.u32|.u64|.s8|.s16|.s32|.s64|.f32|.f64}",
     .operands = "m rT+",
     .exec = exec_st_async_global,
     .flags = FORM_sm100,
     DEFINITION},
    {.pattern = "red.async.relaxed.cluster[.shared::cluster].mbarrier::complete_tx::bytes"
                "{.add|.min|.max|.inc|.dec|.and|.or|.xor}{.u32|.s32|.u64|.b32}",
     .operands = "m rT m",
     .exec = exec_red_async,
     DEFINITION},
    {.pattern = "st.bulk[.weak].shared::cta",
     .operands = "m r64 i",
     .exec = exec_st_bulk,
     .flags = FORM_sm100,
     DEFINITION,
     .check = check_zero},
    {.pattern = NULL},
};
