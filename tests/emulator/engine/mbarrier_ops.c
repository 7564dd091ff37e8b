/* SPDX-License-Identifier: Apache-2.0
 *
 * The mbarrier instructions.  Lanes of a warp act one after the other, so each gets the
 * state token of its own arrival.
 */
#include "mbarrier.h"

/* A suspended try_wait gives up after a drawn time of at most this much virtual time. */
#define TRY_LIMIT_BITS 20

/* ---- operands ---------------------------------------------------------------------------- */

static enum space space_in(const struct insn *I, const struct opd *o) {
  if (o->symbol && o->space != SPACE_generic)
    return (enum space)o->space;
  if (insn_has(I, MOD_shared__cluster))
    return SPACE_shared_cluster;
  return insn_has(I, MOD_shared__cta) || insn_has(I, MOD_shared) ? SPACE_shared : SPACE_generic;
}

static struct access access_at(struct warp *w, const struct insn *I, int lane, uint8_t sem) {
  struct access a = access_of(w, I, lane);
  a.sem = insn_has(I, MOD_relaxed) ? SEM_relaxed : sem;
  a.scope = insn_has(I, MOD_cluster) ? SCOPE_cluster : SCOPE_cta;
  a.atomic = true;
  return a;
}

static bool address(struct warp *w, const struct insn *I, const struct opd *o,
                    const struct access *a, uint64_t *addr) {
  uint64_t v;
  return opd_address(w, I, o, (int)a->lane, &v) &&
         shared_cluster_address(a, space_in(I, o), v, addr);
}

/* Waits, tokens, init and inval are for the executing CTA's own barriers. */
static bool own(const struct access *a, uint64_t addr, const char *what) {
  if (addr >> SHARED_RANK_SHIFT == a->cta->rank)
    return true;
  return !fault(a, CHECK_mbarrier, "mbarrier-remote",
                "%s on an mbarrier of CTA rank %llu: allowed on the own CTA's alone", what,
                (unsigned long long)(addr >> SHARED_RANK_SHIFT));
}

static bool count_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                          uint32_t *count) {
  if (!require_defined(w, I, o, lane, "count"))
    return false;
  *count = (uint32_t)opd_get(w, o, lane);
  return true;
}

/* ---- init, inval, transactions ------------------------------------------------- */

static enum step exec_init(struct warp *w, const struct insn *I, uint32_t lanes) {
  FOR_LANES(l, lanes) {
    struct access a = access_at(w, I, (int)l, SEM_weak);
    uint64_t addr;
    uint32_t n;
    if (!address(w, I, &I->opd[0], &a, &addr) || !own(&a, addr, "mbarrier.init") ||
        !count_operand(w, I, &I->opd[1], (int)l, &n) || !mbar_init(&a, addr, n))
      return STEP_fault;
  }
  return STEP_next;
}

static enum step exec_inval(struct warp *w, const struct insn *I, uint32_t lanes) {
  FOR_LANES(l, lanes) {
    struct access a = access_at(w, I, (int)l, SEM_weak);
    uint64_t addr;
    if (!address(w, I, &I->opd[0], &a, &addr) || !own(&a, addr, "mbarrier.inval") ||
        !mbar_inval(&a, addr))
      return STEP_fault;
  }
  return STEP_next;
}

static enum step transactions(struct warp *w, const struct insn *I, uint32_t lanes,
                              bool (*act)(const struct access *, uint64_t, uint32_t)) {
  FOR_LANES(l, lanes) {
    struct access a = access_at(w, I, (int)l, SEM_relaxed);
    uint64_t addr;
    uint32_t n;
    if (!address(w, I, &I->opd[0], &a, &addr) || !count_operand(w, I, &I->opd[1], (int)l, &n) ||
        !act(&a, addr, n))
      return STEP_fault;
  }
  return STEP_next;
}

static enum step exec_expect_tx(struct warp *w, const struct insn *I, uint32_t lanes) {
  return transactions(w, I, lanes, mbar_expect_tx);
}
static enum step exec_complete_tx(struct warp *w, const struct insn *I, uint32_t lanes) {
  return transactions(w, I, lanes, mbar_complete_tx);
}

/* ---- arrivals -------------------------------------------------------------------------------- */

enum arrival {
  ARRIVE_plain,
  ARRIVE_tx,
  ARRIVE_drop,
  ARRIVE_drop_tx,
  ARRIVE_incomplete,
  ARRIVE_drop_incomplete
};

/* .noComplete must not complete the phase. */
static bool check_incomplete(const struct access *a, uint64_t addr, uint32_t n) {
  struct mbar_ref r;
  if (!mbar_open(a, addr, "mbarrier.arrive.noComplete", &r))
    return false;
  return r.state.pending > n ||
         !fault(a, CHECK_mbarrier, "mbarrier-nocomplete",
                ".noComplete with count %u where %u are pending", n, r.state.pending);
}

/* The executing threads act one after the other; opd: d|_, [a]{, n}. */
static enum step arrive(struct warp *w, const struct insn *I, uint32_t lanes, enum arrival kind) {
  const struct opd *d = &I->opd[0], *at = &I->opd[1], *n_opd = I->nopd > 2 ? &I->opd[2] : NULL;
  FOR_LANES(l, lanes) {
    struct access a = access_at(w, I, (int)l, SEM_release);
    uint64_t addr, token = 0;
    uint32_t n = 1;
    if (!address(w, I, at, &a, &addr) || (n_opd && !count_operand(w, I, n_opd, (int)l, &n)))
      return STEP_fault;
    if (d->kind == OPD_reg) {
      struct mbar_ref r;
      if (!own(&a, addr, "an arrival that returns the state") ||
          !mbar_open(&a, addr, "an arrival", &r))
        return STEP_fault;
      token = mbar_encode(&r.state);
    }
    bool ok = true;
    switch (kind) {
    case ARRIVE_tx:
      ok = mbar_expect_tx(&a, addr, n) && mbar_arrive(&a, addr, 1);
      break;
    case ARRIVE_drop_tx:
      ok = mbar_expect_tx(&a, addr, n) && mbar_drop(&a, addr, 1);
      break;
    case ARRIVE_drop:
      ok = mbar_drop(&a, addr, n);
      break;
    case ARRIVE_incomplete:
      ok = check_incomplete(&a, addr, n) && mbar_arrive(&a, addr, n);
      break;
    case ARRIVE_drop_incomplete:
      ok = check_incomplete(&a, addr, n) && mbar_drop(&a, addr, n);
      break;
    default:
      ok = mbar_arrive(&a, addr, n);
    }
    if (!ok)
      return STEP_fault;
    opd_set(w, d, (int)l, token, 0);
  }
  return STEP_next;
}

static enum step exec_arrive(struct warp *w, const struct insn *I, uint32_t lanes) {
  return arrive(w, I, lanes, ARRIVE_plain);
}
static enum step exec_arrive_tx(struct warp *w, const struct insn *I, uint32_t lanes) {
  return arrive(w, I, lanes, ARRIVE_tx);
}
static enum step exec_drop(struct warp *w, const struct insn *I, uint32_t lanes) {
  return arrive(w, I, lanes, ARRIVE_drop);
}
static enum step exec_drop_tx(struct warp *w, const struct insn *I, uint32_t lanes) {
  return arrive(w, I, lanes, ARRIVE_drop_tx);
}
static enum step exec_incomplete(struct warp *w, const struct insn *I, uint32_t lanes) {
  return arrive(w, I, lanes, ARRIVE_incomplete);
}
static enum step exec_drop_incomplete(struct warp *w, const struct insn *I, uint32_t lanes) {
  return arrive(w, I, lanes, ARRIVE_drop_incomplete);
}

static enum step exec_pending_count(struct warp *w, const struct insn *I, uint32_t lanes) {
  FOR_LANES(l, lanes) {
    struct mbar b = mbar_decode(opd_get(w, &I->opd[1], (int)l));
    opd_set(w, &I->opd[0], (int)l, b.pending, opd_get_undef(w, &I->opd[1], (int)l) ? ~0ull : 0);
  }
  return STEP_next;
}

/* ---- waits --------------------------------------------------------------------- */

/* What a lane waits for: that the phase numbered by arg of struct wait is over; the object
 * is the CTA, address the barrier.  The state in memory holds the number modulo 8. */

static bool phase_over(const struct wait *wait) {
  const struct cta *c = wait->object;
  uint64_t word;
  memcpy(&word, c->shared.data + (wait->address & low_mask(SHARED_RANK_SHIFT)), 8);
  return mbar_decode(word).phase != (wait->arg & 7);
}

uint32_t mbar_waiting(const struct cta *c, uint32_t offset) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->nwarp; i++) {
    const struct warp *w = &c->warp[i];
    FOR_LANES(l, w->waiting) {
      n += w->wait[l].ready == phase_over &&
           (w->wait[l].address & low_mask(SHARED_RANK_SHIFT)) == offset;
    }
  }
  return n;
}

/* One lane's test; *wait describes what it would wait for. */
static bool test(struct warp *w, const struct insn *I, int lane, bool parity, bool *complete,
                 struct wait *wait) {
  struct access a = access_at(w, I, lane, SEM_acquire);
  const struct opd *state = &I->opd[2];
  struct mbar_ref r;
  uint64_t addr;
  if (!address(w, I, &I->opd[1], &a, &addr) || !own(&a, addr, "a wait") ||
      !require_defined(w, I, state, lane, parity ? "parity" : "state") ||
      !mbar_open(&a, addr, "a wait", &r))
    return false;
  if (w->resumed >> lane & 1 && !mbar_check_waiter(&a, addr, &r, w->wait[lane].arg))
    return false;
  uint64_t v = opd_get(w, state, lane);
  if (parity) {
    *complete = (r.state.phase & 1) != (v & 1);
  } else {
    unsigned behind = (r.state.phase - mbar_decode(v).phase) & 7u;
    *complete = behind != 0;
    if (behind > 1 && mbar_misuse(&a, &r.entry->ended, addr, "mbarrier-stale-state",
                                  "the state is of %u phases ago: only the current phase and the "
                                  "one before may be asked for",
                                  behind))
      return false;
  }
  if (*complete) {
    mbar_observed(w->cta, r.entry);
    order_mbar_passed(&a, r.cta, r.offset);
  }
  *wait = (struct wait){.ready = phase_over,
                        .object = w->cta,
                        .arg = r.entry->phases,
                        .what = parity ? "mbarrier phase by parity" : "mbarrier phase by state",
                        .address = addr};
  return true;
}

static enum step wait_lanes(struct warp *w, const struct insn *I, uint32_t lanes, bool suspend) {
  bool parity = insn_has(I, MOD_parity);
  struct machine *m = w->cta->grid->dev->m;
  uint32_t parked = 0;
  struct wait first = {0};
  uint32_t group = 0;
  for (uint32_t left = lanes; left; left &= left - 1) {
    int l = first_lane(left);
    bool complete;
    struct wait wait;
    if (!test(w, I, l, parity, &complete, &wait))
      return STEP_fault;
    if (complete || !suspend || w->resumed & lanes) {
      opd_set(w, &I->opd[0], l, complete, 0);
      continue;
    }
    if (group && (wait.address != first.address || wait.arg != first.arg)) {
      warp_wait(w, group, first); /* rare: lanes wait for different barriers */
      parked |= group;
      group = 0;
    }
    if (!group) {
      first = wait;
      uint64_t r = draw_stream(m, STREAM_timeout);
      uint64_t limit = (r >> 8) % (1ull << (8 + r % (TRY_LIMIT_BITS - 7)));
      first.deadline = m->now + 1 + limit * sched_scale(m);
    }
    group |= 1u << l;
  }
  if (group)
    warp_wait(w, group, first);
  return parked | group ? STEP_wait : STEP_next;
}

static enum step exec_test_wait(struct warp *w, const struct insn *I, uint32_t lanes) {
  return wait_lanes(w, I, lanes, false);
}
static enum step exec_try_wait(struct warp *w, const struct insn *I, uint32_t lanes) {
  return wait_lanes(w, I, lanes, true);
}

/* ---- forms --------------------------------------------------------------------- */

#define CTA     "[.shared|.shared::cta]"
#define ANY     "[.shared|.shared::cta|.shared::cluster]"
#define RELEASE "[.release|.relaxed][.cta|.cluster]"
#define ACQUIRE "[.acquire|.relaxed][.cta|.cluster]"
#define D       0, "definition"

/* .sem and .scope come together; a result comes from the own CTA's barriers alone. */
static const char *check_sem(const struct insn *I) {
  bool sem = insn_has(I, MOD_release) || insn_has(I, MOD_relaxed) || insn_has(I, MOD_acquire);
  if (sem != (insn_has(I, MOD_cta) || insn_has(I, MOD_cluster)))
    return "semantics and scope come together";
  return NULL;
}
static const char *check_arrive(const struct insn *I) {
  if (insn_has(I, MOD_shared__cluster) && I->opd[0].kind != OPD_sink)
    return "with .shared::cluster the result is \"_\"";
  return check_sem(I);
}

const struct form forms_mbarrier[] = {
    {"mbarrier.init" CTA ".b64", "m r32", exec_init, D, NULL},
    {"mbarrier.inval" CTA ".b64", "m", exec_inval, D, NULL},
    {"mbarrier.expect_tx[.relaxed][.cta|.cluster]" ANY ".b64", "m r32", exec_expect_tx, D,
     check_sem},
    {"mbarrier.complete_tx[.relaxed][.cta|.cluster]" ANY ".b64", "m r32", exec_complete_tx, D,
     check_sem},
    {"mbarrier.arrive" RELEASE ANY ".b64", "w64_ m r32?", exec_arrive, D, check_arrive},
    {"mbarrier.arrive.expect_tx" RELEASE ANY ".b64", "w64_ m r32", exec_arrive_tx, D, check_arrive},
    {"mbarrier.arrive.noComplete[.release][.cta]" CTA ".b64", "w64 m r32", exec_incomplete, D,
     check_sem},
    {"mbarrier.arrive_drop" RELEASE ANY ".b64", "w64_ m r32?", exec_drop, D, check_arrive},
    {"mbarrier.arrive_drop.noComplete[.release][.cta]" CTA ".b64", "w64 m r32",
     exec_drop_incomplete, D, check_sem},
    {"mbarrier.arrive_drop.expect_tx" RELEASE ANY ".b64", "w64_ m r32", exec_drop_tx, D,
     check_arrive},
    {"mbarrier.test_wait" ACQUIRE CTA ".b64", "wp m r64", exec_test_wait, D, check_sem},
    {"mbarrier.try_wait" ACQUIRE CTA ".b64", "wp m r64 r32?", exec_try_wait, D, check_sem},
    {"mbarrier.test_wait{.parity}" ACQUIRE CTA ".b64", "wp m r32", exec_test_wait, D, check_sem},
    {"mbarrier.try_wait{.parity}" ACQUIRE CTA ".b64", "wp m r32 r32?", exec_try_wait, D, check_sem},
    {"mbarrier.pending_count.b64", "w32 r64", exec_pending_count, D, NULL},
    {NULL, NULL, NULL, 0, NULL, NULL},
};
