/* SPDX-License-Identifier: Apache-2.0
 *
 * Barriers of a CTA: bar and barrier in all forms, and bar.warp.sync.
 *
 * With a thread count an .aligned instruction counts whole warps, the unaligned forms
 * count threads.  Without one the barrier expects every thread of the CTA that has not
 * exited.  Completion re-arms it.
 */
#include "warp_memory.h"

#define IDS 16

enum what { WHAT_sync, WHAT_arrive, WHAT_red };

/* ---- state -------------------------------------------------------------------------------- */

/* Threads the barrier waits for now. */
static uint32_t wanted(const struct cta *c, const struct named_barrier *b) {
  if (!b->all)
    return b->expected;
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->nwarp; i++)
    n += (uint32_t)__builtin_popcount(c->warp[i].live);
  return n;
}

static void complete(struct cta *c, struct named_barrier *b) {
  unsigned at = b->phase & 3;
  b->result[at].popc = b->popc;
  b->result[at].and_ = b->and_;
  b->result[at].or_ = b->or_;
  order_bar_phase(c, (uint32_t)(b - c->bar), b->phase);
  b->phase++;
  b->arrived = 0;
  b->expected = 0;
  b->all = false;
  b->popc = 0;
  b->or_ = 0;
  b->and_ = 1;
  memset(b->came, 0, sizeof b->came);
  barrier_activity(c->grid->dev->m);
}

static void settle(struct cta *c, struct named_barrier *b) {
  if (b->arrived && b->arrived >= wanted(c, b))
    complete(c, b);
}

/* The CTA ends: a phase that some have arrived at will never be complete.  Nobody waits for it,
 * or the CTA would not end; but whoever had to, by the count, came too early or not at all. */
static void left_over(struct cta *c, uint32_t id) {
  struct named_barrier *b = &c->bar[id];
  if (b->arrived && !c->killed)
    (void)fault(&b->last, CHECK_cluster, "barrier-left",
                "the CTA ends, and of the %u threads that barrier %u expects %u have arrived since "
                "it was last complete",
                b->expected, id, b->arrived);
}

void barrier_lanes_exited(struct warp *w, uint32_t lanes) {
  struct cta *c = w->cta;
  bool over = true;
  (void)lanes;
  for (uint32_t i = 0; i < c->nwarp; i++)
    over &= !c->warp[i].live;
  for (uint32_t i = 0; i < IDS; i++) {
    if (c->bar[i].all)
      settle(c, &c->bar[i]);
    if (over)
      left_over(c, i);
  }
}

/* Threads that an arrival of these lanes stands for.  A thread count means whole warps:
 * absent lanes of a warp go with those present when they come all at once. */
static uint32_t weight(const struct warp *w, uint32_t lanes, bool aligned, bool has_count) {
  if (has_count && (aligned || lanes == w->live))
    return WARP;
  return (uint32_t)__builtin_popcount(lanes);
}

static enum step exec_red(struct warp *w, const struct insn *I, uint32_t lanes);

static bool arrive(struct warp *w, const struct insn *I, uint32_t lanes, uint32_t id,
                   uint32_t count, bool has_count, bool aligned) {
  bool red = I->form->exec == exec_red;
  struct cta *c = w->cta;
  struct named_barrier *b = &c->bar[id];
  struct access a = access_of(w, I, first_lane(lanes));
  if (!b->arrived) {
    b->expected = count;
    b->all = !has_count;
    b->and_ = 1;
  } else if (b->all != !has_count || b->expected != count) {
    if (fault(&a, CHECK_cluster, "barrier-count",
              "barrier %u is in use with %s%u threads, this arrival says %s%u", id,
              b->all ? "all " : "", b->all ? wanted(c, b) : b->expected, has_count ? "" : "all ",
              has_count ? count : wanted(c, b)))
      return false;
  }
  if (b->arrived && b->red != red &&
      fault(&a, CHECK_cluster, "barrier-mixed",
            "barrier %u is in use by %s, this arrival is a %s: they must not be mixed", id,
            b->red ? "barrier.red" : "barrier.sync or .arrive", red ? "red" : "sync or arrive"))
    return false;
  if (b->came[w->index] & lanes &&
      fault(&a, CHECK_cluster, "barrier-twice",
            "warp %u arrives at barrier %u again, %u of %u threads have arrived since it was last "
            "complete: whoever is missing is counted for",
            w->index, id, b->arrived, wanted(c, b)))
    return false;
  b->red = red;
  b->came[w->index] |= lanes;
  b->last = a;
  order_bar_arrive(w, lanes, id);
  b->arrived += weight(w, lanes, aligned, has_count);
  barrier_activity(c->grid->dev->m);
  if (b->arrived > wanted(c, b) &&
      fault(&a, CHECK_cluster, "barrier-overflow", "barrier %u expects %u threads, %u have arrived",
            id, wanted(c, b), b->arrived))
    return false;
  settle(c, b);
  return true;
}

/* ---- instructions ---------------------------------------------------------------------------- */

static bool phase_over(const struct wait *wait) {
  const struct named_barrier *b = wait->object;
  return b->phase != wait->arg;
}

/* Every thread that is left waits at some barrier of the CTA, and none of them completes. */
static void mismatch(const struct wait *wait, const struct access *who) {
  const struct cta *c = who->cta;
  const struct named_barrier *b = wait->object;
  struct access other = {0};
  for (uint32_t i = 0; i < c->nwarp; i++) {
    struct warp *w = &c->warp[i];
    FOR_LANES(l, w->live) {
      if (!(w->waiting >> l & 1) || w->wait[l].ready != phase_over || phase_over(&w->wait[l]))
        return;
      if (w->wait[l].object != b && !other.insn)
        other = access_of(w, &w->fn->insn[w->pc[l]], (int)l);
    }
  }
  struct report r = {.check = CHECK_cluster,
                     .rule = "barrier-mismatch",
                     .who = who,
                     .other = other.insn ? &other : NULL};
  (void)snprintf(r.text, sizeof r.text,
                 "barrier %llu expects %u threads, %u have arrived, and all others of the CTA have "
                 "exited or wait at other barriers",
                 (unsigned long long)wait->address, wanted(c, b), b->arrived);
  (void)report(who->m, &r);
}

/* The identity or count operand, the same in all lanes that arrive together. */
static bool operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                    uint32_t *value) {
  if (!require_defined(w, I, o, lane, "count"))
    return false;
  *value = (uint32_t)opd_get(w, o, lane);
  return true;
}

static bool valid(struct warp *w, const struct insn *I, int lane, uint32_t id, uint32_t count,
                  bool has_count) {
  struct access a = access_of(w, I, lane);
  if (id >= IDS) {
    (void)fault(&a, CHECK_cluster, "barrier-id", "barrier %u: there are 0 to 15", id);
    return false; /* there is no such barrier to go on with */
  }
  if (has_count && (!count || count % WARP || count > 1024))
    return !fault(&a, CHECK_cluster, "barrier-count",
                  "a thread count of %u: allowed are multiples of 32 up to 1024", count);
  if (count > w->cta->nwarp * WARP)
    return !fault(&a, CHECK_cluster, "barrier-count", "a thread count of %u in a CTA of %u warps",
                  count, w->cta->nwarp);
  return true;
}

static void red_add(struct warp *w, const struct opd *p, uint32_t lanes, struct named_barrier *b) {
  FOR_LANES(l, lanes) {
    uint32_t v = (uint32_t)opd_get(w, p, (int)l) & 1;
    b->popc += v;
    b->or_ |= v;
    b->and_ &= v;
  }
}

static void red_result(struct warp *w, const struct insn *I, uint32_t lanes,
                       const struct named_barrier *b, uint64_t phase) {
  enum mod op = (enum mod)I->mod[1];
  unsigned at = phase & 3;
  uint32_t v = op == MOD_popc  ? b->result[at].popc
               : op == MOD_and ? b->result[at].and_
                               : b->result[at].or_;
  FOR_LANES(l, lanes) opd_set(w, &I->opd[0], (int)l, v, 0);
}

/* Lanes that name the same barrier and count arrive together. */
static enum step barrier(struct warp *w, const struct insn *I, uint32_t lanes, enum what what,
                         const struct opd *id_opd, const struct opd *count_opd,
                         const struct opd *pred) {
  bool aligned = I->form->flags & FORM_aligned,
       has_count = count_opd && count_opd->kind != OPD_none;
  uint32_t parked = 0;
  if (w->resumed & lanes) {
    FOR_LANES(l, lanes) order_bar_passed(w, 1u << l, (uint32_t)w->wait[l].address, w->wait[l].arg);
    if (what == WHAT_red) {
      FOR_LANES(l, lanes)
      red_result(w, I, 1u << l, w->wait[l].object, w->wait[l].arg);
    }
    return STEP_next;
  }
  for (uint32_t left = lanes; left;) {
    int lead = first_lane(left);
    uint32_t id, count = 0, group = 0;
    if (!operand(w, I, id_opd, lead, &id) ||
        (has_count && !operand(w, I, count_opd, lead, &count)) ||
        !valid(w, I, lead, id, count, has_count))
      return STEP_fault;
    FOR_LANES(l, left) {
      if ((uint32_t)opd_get(w, id_opd, (int)l) == id &&
          (!has_count || (uint32_t)opd_get(w, count_opd, (int)l) == count))
        group |= 1u << l;
    }
    left &= ~group;
    struct named_barrier *b = &w->cta->bar[id];
    uint64_t phase = b->phase;
    if (what == WHAT_red) {
      FOR_LANES(l, group) {
        if (!require_defined(w, I, pred, (int)l, "predicate"))
          return STEP_fault;
      }
      if (!b->arrived)
        b->and_ = 1;
      red_add(w, pred, group, b);
    }
    if (!arrive(w, I, group, id, count, has_count, aligned))
      return STEP_fault;
    if (what == WHAT_arrive)
      continue;
    if (b->phase != phase) {
      order_bar_passed(w, group, id, phase);
      if (what == WHAT_red)
        red_result(w, I, group, b, phase);
      continue;
    }
    parked |= group;
    warp_wait(w, group,
              (struct wait){.ready = phase_over,
                            .object = b,
                            .arg = phase,
                            .stuck = mismatch,
                            .what = "barrier",
                            .address = id});
  }
  return parked ? STEP_wait : STEP_next;
}

static enum step exec_sync(struct warp *w, const struct insn *I, uint32_t lanes) {
  return barrier(w, I, lanes, WHAT_sync, &I->opd[0], I->nopd > 1 ? &I->opd[1] : NULL, NULL);
}
static enum step exec_arrive(struct warp *w, const struct insn *I, uint32_t lanes) {
  return barrier(w, I, lanes, WHAT_arrive, &I->opd[0], &I->opd[1], NULL);
}
/* d, a{, b}, p */
static enum step exec_red(struct warp *w, const struct insn *I, uint32_t lanes) {
  bool has_count = I->nopd == 4;
  return barrier(w, I, lanes, WHAT_red, &I->opd[1], has_count ? &I->opd[2] : NULL,
                 &I->opd[has_count ? 3 : 2]);
}

/* The scheduler has gathered the members: they know of each other now. */
static enum step exec_warp_sync(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  order_warp_sync(w, lanes);
  return STEP_next;
}

static const char *check_sync(const struct insn *I) {
  if (I->opd[0].kind == OPD_imm && I->opd[0].imm >= IDS)
    return "barriers are 0 to 15";
  const struct opd *n = I->nopd > 1 ? &I->opd[1] : NULL;
  return n && n->kind == OPD_imm && (n->imm % WARP || !n->imm || n->imm > 1024)
             ? "the thread count is a multiple of 32 up to 1024"
             : NULL;
}

/* ---- forms ----------------------------------------------------------------------------------- */

#define ALIGNED FORM_aligned, "definition"
#define FREE    0, "definition"

const struct form forms_barrier[] = {
    {"bar[.cta].sync", "r32 r32?", exec_sync, ALIGNED, check_sync},
    {"bar[.cta].arrive", "r32 r32", exec_arrive, ALIGNED, check_sync},
    {"bar[.cta].red{.popc}.u32", "w32 r32 rp", exec_red, ALIGNED, NULL},
    {"bar[.cta].red{.popc}.u32", "w32 r32 r32 rp", exec_red, ALIGNED, NULL},
    {"bar[.cta].red{.and|.or}.pred", "wp r32 rp", exec_red, ALIGNED, NULL},
    {"bar[.cta].red{.and|.or}.pred", "wp r32 r32 rp", exec_red, ALIGNED, NULL},
    {"barrier[.cta].sync.aligned", "r32 r32?", exec_sync, ALIGNED, check_sync},
    {"barrier[.cta].arrive.aligned", "r32 r32", exec_arrive, ALIGNED, check_sync},
    {"barrier[.cta].red{.popc}.aligned.u32", "w32 r32 rp", exec_red, ALIGNED, NULL},
    {"barrier[.cta].red{.popc}.aligned.u32", "w32 r32 r32 rp", exec_red, ALIGNED, NULL},
    {"barrier[.cta].red{.and|.or}.aligned.pred", "wp r32 rp", exec_red, ALIGNED, NULL},
    {"barrier[.cta].red{.and|.or}.aligned.pred", "wp r32 r32 rp", exec_red, ALIGNED, NULL},
    {"barrier[.cta].sync", "r32 r32?", exec_sync, FREE, check_sync},
    {"barrier[.cta].arrive", "r32 r32", exec_arrive, FREE, check_sync},
    {"barrier[.cta].red{.popc}.u32", "w32 r32 rp", exec_red, FREE, NULL},
    {"barrier[.cta].red{.popc}.u32", "w32 r32 r32 rp", exec_red, FREE, NULL},
    {"barrier[.cta].red{.and|.or}.pred", "wp r32 rp", exec_red, FREE, NULL},
    {"barrier[.cta].red{.and|.or}.pred", "wp r32 r32 rp", exec_red, FREE, NULL},
    {"bar.warp.sync", "r32", exec_warp_sync, FORM_member, "definition", NULL},
    {NULL, NULL, NULL, 0, NULL, NULL},
};
