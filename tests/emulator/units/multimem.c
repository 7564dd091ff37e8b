/* SPDX-License-Identifier: Apache-2.0
 *
 * multimem.st, multimem.red and multimem.ld_reduce (PTX ISA 9.7.9.14): accesses to every
 * device's copy behind a multicast address.
 *
 * A store is as many events as it has elements times copies, each arriving at its own drawn
 * time: neither a vector (or packed pair) nor the set of copies changes at once.  Two stores of a
 * CTA to the same word keep their order, and a release does not pass what its CTA stored before it.
 */
#include "bulk.h"
#include "reduce.h"

#include <stdlib.h>
#include <string.h>

struct multimem {
  struct event e;
  struct access a;
  uint64_t to;
  uint32_t bytes;    /* 2, 4 or 8 */
  enum mod op, type; /* MOD_none: store */
  uint64_t value, undef;
  struct unit_cta *owner; /* NULL: the CTA has exited */
  struct multimem *next;
};

static void multimem_fire(struct machine *m, struct event *e) {
  struct multimem *s = (struct multimem *)e;
  bool track = check_on(m, CHECK_undef), ok = true;
  if (s->op != MOD_none) {
    uint64_t old = 0, old_undef = 0;
    ok = mem_load(&s->a, SPACE_global, s->to, s->bytes, s->bytes, &old, track ? &old_undef : NULL);
    s->value = reduce_element(s->op, s->type, old, s->value);
    s->undef = old_undef | s->undef ? UINT64_MAX : 0;
  }
  if (ok)
    mem_store(&s->a, SPACE_global, s->to, s->bytes, s->bytes, &s->value, track ? &s->undef : NULL);
  struct multimem **link = s->owner ? &s->owner->multimem : NULL;
  while (link && *link != s)
    link = &(*link)->next;
  if (link)
    *link = s->next;
  order_issue_over(&s->a);
  free(s);
}

void multimem_cta_exit(struct multimem *first) {
  while (first) {
    struct multimem *next = first->next;
    first->owner = NULL;
    first->next = NULL;
    first = next;
  }
}

bool multimem_pending(const struct cta *c) {
  const struct unit_cta *u = c->tc;
  return u && u->multimem;
}

static bool nothing_pending(const struct wait *w) {
  return !multimem_pending(w->object);
}

struct wait multimem_wait(struct cta *c) {
  return (struct wait){
      .ready = nothing_pending, .object = c, .what = "arrival of earlier multimem stores"};
}

/* ---- operands ------------------------------------------------------------------------------ */

static bool targets_of(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                       uint32_t bytes, struct multicast_target *t, unsigned *n) {
  struct access a = access_of(w, I, lane);
  uint64_t addr;
  if (!opd_address(w, I, o, lane, &addr))
    return false;
  if (addr % bytes) {
    hard_fault(&a, CHECK_bounds, "misaligned-multimem",
               "address 0x%llx is not a multiple of the access size %u", (unsigned long long)addr,
               bytes);
    return false;
  }
  *n = multicast_targets ? multicast_targets(a.m, addr, bytes, t, MAX_TARGETS) : 0;
  if (*n)
    return true;
  hard_fault(&a, CHECK_mailbox, "not-multicast", "0x%llx is not a multicast address",
             (unsigned long long)addr);
  return false;
}

static void set_order(struct access *a, enum mod sem, enum mod scope, bool red) {
  a->sem = (uint8_t)(sem == MOD_release          ? SEM_release
                     : sem == MOD_acquire        ? SEM_acquire
                     : sem == MOD_relaxed || red ? SEM_relaxed
                                                 : SEM_weak);
  a->scope = (uint8_t)(scope == MOD_cta       ? SCOPE_cta
                       : scope == MOD_cluster ? SCOPE_cluster
                       : scope == MOD_gpu     ? SCOPE_gpu
                                              : SCOPE_sys);
}

static uint64_t earliest_for(const struct unit_cta *u, const struct multimem *s) {
  uint64_t earliest = 0;
  for (const struct multimem *p = u->multimem; p; p = p->next) {
    bool same = p->to < s->to + s->bytes && s->to < p->to + p->bytes;
    if ((same || s->a.sem == SEM_release) && p->e.due + 1 > earliest)
      earliest = p->e.due + 1;
  }
  return earliest;
}

/* Slots: 0 .sem, 1 .scope; red: 2 the operation. */
static enum step send(struct warp *w, const struct insn *I, uint32_t lanes, enum mod op) {
  enum mod type = (enum mod)I->type[0];
  const struct opd *v = &I->opd[1];
  unsigned n = v->kind == OPD_vec ? v->n : 1, each = mod_bits(type) / 8;
  FOR_LANES(lane, lanes) {
    struct multicast_target target[MAX_TARGETS];
    unsigned targets;
    uint8_t value[16] = {0}, undef[16] = {0};
    if (!targets_of(w, I, &I->opd[0], lane, n * each, target, &targets))
      return STEP_fault;
    for (unsigned i = 0; i < n; i++) {
      const struct opd *o = v->kind == OPD_vec ? &v->elem[i] : v;
      uint64_t bits = opd_get(w, o, lane), bad = opd_get_undef(w, o, lane);
      memcpy(value + (size_t)i * each, &bits, each);
      memcpy(undef + (size_t)i * each, &bad, each);
    }
    /* Elements are accesses of their own, and the halves of a packed type, too (PTX ISA
     * 8.2.2, 8.2.3). */
    unsigned part = op == MOD_none && (type == MOD_f16x2 || type == MOD_bf16x2) ? 2 : each;
    struct unit_cta *u = unit_cta(w->cta);
    for (unsigned t = 0; t < targets; t++)
      for (unsigned at = 0; at < n * each; at += part) {
        struct multimem *s = unit_alloc(sizeof *s);
        s->a = async_access(w, I, lane, PROXY_generic);
        set_order(&s->a, (enum mod)I->mod[0], (enum mod)I->mod[1], op != MOD_none);
        s->a.dev = target[t].dev;
        s->a.atomic = op != MOD_none;
        s->a.element = (uint8_t)part;
        order_issue_store(&s->a);
        s->e.fire = multimem_fire;
        s->e.what = op == MOD_none ? "multimem.st" : "multimem.red";
        s->to = target[t].address + at;
        s->bytes = part;
        s->op = op;
        s->type = type;
        memcpy(&s->value, value + at, part);
        memcpy(&s->undef, undef + at, part);
        s->owner = u;
        event_post_after(s->a.m, &s->e, LAT_multimem, earliest_for(u, s));
        s->next = u->multimem;
        u->multimem = s;
      }
  }
  return STEP_next;
}

static enum step exec_st(struct warp *w, const struct insn *I, uint32_t lanes) {
  return send(w, I, lanes, MOD_none);
}
static enum step exec_red(struct warp *w, const struct insn *I, uint32_t lanes) {
  return send(w, I, lanes, (enum mod)I->mod[2]);
}

/* ---- ld_reduce ----------------------------------------------------------------- */

/* Slots: 0 .sem, 1 .scope, 2 the operation, 3 .acc. */
static enum mod half_of(enum mod type) {
  return type == MOD_f16x2 ? MOD_f16 : type == MOD_bf16x2 ? MOD_bf16 : type;
}

/* One element over all copies; acc_f32: sums in f32, rounds once. */
static uint64_t reduce_copies(enum mod op, enum mod type, bool acc_f32, const uint64_t *copy,
                              unsigned n) {
  if (!acc_f32) {
    uint64_t sum = copy[0];
    for (unsigned i = 1; i < n; i++)
      sum = reduce_element(op, type, sum, copy[i]);
    return sum;
  }
  enum mod half = half_of(type);
  unsigned bits = mod_bits(half), parts = mod_bits(type) / bits;
  uint64_t result = 0, mask = ((uint64_t)1 << bits) - 1;
  for (unsigned p = 0; p < parts; p++) {
    float sum = (float)reduce_widen(half, copy[0] >> p * bits & mask);
    for (unsigned i = 1; i < n; i++)
      sum += (float)reduce_widen(half, copy[i] >> p * bits & mask);
    result |= reduce_narrow(half, (double)sum) << p * bits;
  }
  return result;
}

static enum step exec_ld_reduce(struct warp *w, const struct insn *I, uint32_t lanes) {
  enum mod type = (enum mod)I->type[0];
  const struct opd *v = &I->opd[0];
  unsigned n = v->kind == OPD_vec ? v->n : 1, each = mod_bits(type) / 8;
  bool acc_f32 = I->mod[3] == MOD_acc__f32;
  FOR_LANES(lane, lanes) {
    struct multicast_target target[MAX_TARGETS];
    unsigned targets;
    uint64_t copy[8][MAX_TARGETS], undef[8] = {0};
    struct access a = access_of(w, I, lane);
    if (!targets_of(w, I, &I->opd[1], lane, n * each, target, &targets))
      return STEP_fault;
    set_order(&a, (enum mod)I->mod[0], (enum mod)I->mod[1], false);
    a.element = (uint8_t)each;
    for (unsigned t = 0; t < targets; t++) {
      uint8_t bytes[16], bad[16] = {0};
      a.dev = target[t].dev;
      if (!mem_load(&a, SPACE_global, target[t].address, n * each, n * each, bytes,
                    check_on(a.m, CHECK_undef) ? bad : NULL))
        return STEP_fault;
      for (unsigned i = 0; i < n; i++) {
        uint64_t word = 0, bits = 0;
        memcpy(&word, bytes + (size_t)i * each, each);
        memcpy(&bits, bad + (size_t)i * each, each);
        copy[i][t] = word;
        undef[i] |= bits;
      }
    }
    for (unsigned i = 0; i < n; i++)
      opd_set(w, v->kind == OPD_vec ? &v->elem[i] : v, lane,
              reduce_copies((enum mod)I->mod[2], type, acc_f32, copy[i], targets),
              undef[i] ? UINT64_MAX : 0);
  }
  return STEP_next;
}

/* ---- forms ----------------------------------------------------------------------------------- */

static const char *check_order(const struct insn *I) {
  bool strong = I->mod[0] != MOD_none && I->mod[0] != MOD_weak;
  if (strong && I->mod[1] == MOD_none)
    return "a scope must follow .relaxed, .acquire or .release";
  if (!strong && I->mod[1] != MOD_none)
    return "a scope needs .relaxed, .acquire or .release before it";
  const struct opd *v = &I->opd[I->opd[0].kind == OPD_addr ? 1 : 0];
  unsigned bytes = (v->kind == OPD_vec ? v->n : 1) * mod_bits((enum mod)I->type[0]) / 8;
  return bytes == 4 || bytes == 8 || bytes == 16 ? NULL : "the access must have 4, 8 or 16 bytes";
}

#define COMMON .tested = "definition", .check = check_order
#define ST     "multimem.st[.weak|.relaxed|.release][.cta|.cluster|.gpu|.sys][.global]"
#define RED    "multimem.red[.relaxed|.release][.cta|.cluster|.gpu|.sys][.global]"
#define LD     "multimem.ld_reduce[.weak|.relaxed|.acquire][.cta|.cluster|.gpu|.sys][.global]"
#define ROW(pattern_, operands_, exec_)                                                            \
  {.pattern = pattern_, .operands = operands_, .exec = exec_, COMMON}

const struct form forms_multimem[] = {
    ROW(ST "{.b32|.b64|.u32|.u64|.s32|.s64|.f32|.f64|.f16x2|.bf16x2}", "m rT", exec_st),
    ROW(ST "{.v2|.v4}{.f32|.f16x2|.bf16x2}", "m vrT", exec_st),
    ROW(ST "{.v2|.v4|.v8}{.f16|.bf16}", "m vrT", exec_st),
    ROW(ST "{.v2}{.f64}", "m vrT", exec_st),
    ROW(RED "{.add}{.u32|.s32|.u64|.f32|.f64|.f16x2|.bf16x2}", "m rT", exec_red),
    ROW(RED "{.min|.max}{.u32|.s32|.u64|.s64|.f16x2|.bf16x2}", "m rT", exec_red),
    ROW(RED "{.and|.or|.xor}{.b32|.b64}", "m rT", exec_red),
    ROW(RED "{.add}{.v2|.v4}{.f32|.f16x2|.bf16x2}", "m vrT", exec_red),
    ROW(RED "{.add|.min|.max}{.v2|.v4|.v8}{.f16|.bf16}", "m vrT", exec_red),
    ROW(RED "{.min|.max}{.v2|.v4}{.f16x2|.bf16x2}", "m vrT", exec_red),
    ROW(LD "{.add}[.acc::f32]{.f16x2|.bf16x2}", "wT m", exec_ld_reduce),
    ROW(LD "{.add}[.acc::f32]{.v2|.v4}{.f16x2|.bf16x2}", "vwT m", exec_ld_reduce),
    ROW(LD "{.add}[.acc::f32]{.v2|.v4|.v8}{.f16|.bf16}", "vwT m", exec_ld_reduce),
    ROW(LD "{.add}{.u32|.s32|.u64|.f32|.f64}", "wT m", exec_ld_reduce),
    ROW(LD "{.add}{.v2|.v4}{.f32}", "vwT m", exec_ld_reduce),
    ROW(LD "{.min|.max}{.u32|.s32|.u64|.s64|.f16x2|.bf16x2}", "wT m", exec_ld_reduce),
    ROW(LD "{.min|.max}{.v2|.v4}{.f16x2|.bf16x2}", "vwT m", exec_ld_reduce),
    ROW(LD "{.min|.max}{.v2|.v4|.v8}{.f16|.bf16}", "vwT m", exec_ld_reduce),
    ROW(LD "{.and|.or|.xor}{.b32|.b64}", "wT m", exec_ld_reduce),
    {.pattern = NULL},
};
