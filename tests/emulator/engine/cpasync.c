/* SPDX-License-Identifier: Apache-2.0
 *
 * cp.async, the non-bulk copies from global to shared memory: one event per instruction
 * and warp, which reads and writes when it fires; groups and mbarrier arrivals per thread.
 */
#include "mbarrier.h"

/* A copy in flight, of a warp's lanes. */
struct copy {
  struct event event;
  struct copy *next;
  struct warp *warp;
  struct access access;
  struct issue *order[WARP];
  uint32_t lanes, size;
  uint32_t group[WARP]; /* the lane's open group when it was issued */
  uint32_t read[WARP];  /* bytes to read; the rest of size is filled with zeros */
  uint64_t dst[WARP], src[WARP];
  enum space src_space;
  uint64_t serial;
};

/* cp.async.mbarrier.arrive: due when the lane's copies issued before it are done. */
struct arrival {
  struct event event; /* posted then: the arrival itself is asynchronous too */
  struct arrival *next;
  struct access access;
  uint64_t addr, serial;
};

struct copies {
  struct copy *pending;     /* newest first */
  struct arrival *arrivals; /* not due yet */
  uint32_t open[WARP];      /* number of the group that is being filled */
  uint64_t serial;
};

static struct copies *copies_of(struct warp *w) {
  if (!w->simt.copies)
    w->simt.copies = emu_alloc(sizeof(struct copies));
  return w->simt.copies;
}

void cpasync_cta_release(struct cta *c) {
  for (uint32_t i = 0; i < c->nwarp; i++) {
    struct copies *k = c->warp[i].simt.copies;
    while (k && k->arrivals) {
      struct arrival *a = k->arrivals;
      k->arrivals = a->next;
      order_issue_over(&a->access);
      free(a);
    }
    free(k);
    c->warp[i].simt.copies = NULL;
  }
}

/* ---- completion ------------------------------------------------------------------------------ */

static void fire_arrival(struct machine *m, struct event *e) {
  struct arrival *a = (struct arrival *)e;
  (void)m;
  (void)mbar_arrive(&a->access, a->addr, 1);
  order_issue_over(&a->access);
  free(a);
}

static bool lane_busy(const struct copies *k, uint32_t lane, uint64_t serial) {
  for (const struct copy *c = k->pending; c; c = c->next)
    if (c->serial < serial && c->lanes >> lane & 1)
      return true;
  return false;
}

/* Posts the arrivals whose copies are done. */
static void release_arrivals(struct machine *m, struct copies *k) {
  for (struct arrival **p = &k->arrivals; *p;) {
    struct arrival *a = *p;
    if (lane_busy(k, a->access.lane, a->serial)) {
      p = &a->next;
      continue;
    }
    *p = a->next;
    event_post(m, &a->event, LAT_cp_async);
  }
}

static void perform(struct copy *c) {
  FOR_LANES(l, c->lanes) {
    uint8_t data[16] = {0}, undef[16] = {0};
    c->access.lane = l;
    c->access.order = c->order[l];
    if (c->read[l] && !mem_load(&c->access, c->src_space, c->src[l], c->read[l], 1, data, undef))
      return;
    if (!mem_store(&c->access, SPACE_shared_cluster, c->dst[l], c->size, c->size, data, undef))
      return;
  }
}

static void copy_free(struct copy *c) {
  FOR_LANES(l, c->lanes) {
    c->access.order = c->order[l];
    order_issue_over(&c->access);
  }
  free(c);
}

static void fire_copy(struct machine *m, struct event *e) {
  struct copy *c = (struct copy *)e;
  struct copies *k = c->warp->simt.copies;
  perform(c);
  struct copy **p = &k->pending;
  while (*p != c)
    p = &(*p)->next;
  *p = c->next;
  copy_free(c);
  release_arrivals(m, k);
}

/* ---- issuing ------------------------------------------------------------------- */

/* cp.async.ca|cg [dst], [src], size{, src-size | ignore-src}{, policy} */
static enum step exec_copy(struct warp *w, const struct insn *I, uint32_t lanes) {
  struct copies *k = copies_of(w);
  const struct opd *extra = &I->opd[3];
  const bool given = I->nopd > 3 && extra->bits != 64; /* 64: the cache policy */
  struct copy *c = emu_alloc(sizeof *c);
  c->warp = w;
  c->lanes = lanes;
  c->size = (uint32_t)I->opd[2].imm;
  c->access = access_of(w, I, first_lane(lanes));
  c->access.engine = true;
  c->src_space = SPACE_global;
  FOR_LANES(l, lanes) {
    uint64_t at;
    c->access.lane = l;
    c->group[l] = k->open[l];
    c->read[l] = c->size;
    if (!opd_address(w, I, &I->opd[0], (int)l, &c->dst[l]) ||
        !opd_address(w, I, &I->opd[1], (int)l, &c->src[l]))
      goto fault;
    if (given && !require_defined(w, I, extra, (int)l, extra->bits == 1 ? "predicate" : "count"))
      goto fault;
    if (given && extra->bits == 1) {
      if (opd_get(w, extra, (int)l))
        c->read[l] = 0;
    } else if (given) {
      uint32_t n = (uint32_t)opd_get(w, extra, (int)l);
      if (n > c->size && fault(&c->access, CHECK_bounds, "cp-async-size",
                               "src-size %u is larger than cp-size %u", n, c->size))
        goto fault;
      c->read[l] = n < c->size ? n : c->size;
    }
    /* A bad address is told where it was issued, not when the copy happens. */
    if (!mem_resolve(&c->access, SPACE_shared, c->dst[l], c->size, c->size, true, &at) ||
        (c->read[l] &&
         !mem_resolve(&c->access, SPACE_global, c->src[l], c->read[l], 1, false, &at)))
      goto fault;
    if (c->src[l] & (c->size - 1)) {
      (void)mem_resolve(&c->access, SPACE_global, c->src[l], c->size, c->size, false, &at);
      goto fault;
    }
  }
  FOR_LANES(l, lanes) {
    c->access.lane = l;
    order_issue_pipe(&c->access, PIPE_cp_async, c->group[l] + 1);
    c->order[l] = c->access.order;
  }
  c->serial = k->serial++;
  c->next = k->pending;
  k->pending = c;
  c->event.fire = fire_copy;
  c->event.what = "cp.async";
  event_post(w->cta->grid->dev->m, &c->event, LAT_cp_async);
  return STEP_next;
fault:
  free(c);
  return STEP_fault;
}

static const char *check_copy(const struct insn *I) {
  uint64_t n = I->opd[2].imm;
  if (I->mod[0] == MOD_cg ? n != 16 : n != 4 && n != 8 && n != 16)
    return "cp-size is 4, 8 or 16 (.cg: 16)";
  bool hint = insn_has(I, MOD_L2__cache_hint);
  const struct opd *last = &I->opd[I->nopd - 1];
  return hint == (I->nopd > 3 && last->bits == 64)
             ? NULL
             : ".L2::cache_hint and the cache policy operand go together";
}

/* ---- groups ---------------------------------------------------------------------------------- */

static enum step exec_commit(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  struct copies *k = copies_of(w);
  FOR_LANES(l, lanes) k->open[l]++;
  return STEP_next;
}

#define WAIT_ALL UINT32_MAX

/* arg: lanes << 32 | the number of newest groups that may stay pending. */
static bool groups_done(const struct wait *wait) {
  const struct copies *k = wait->object;
  uint32_t lanes = (uint32_t)(wait->arg >> 32), n = (uint32_t)wait->arg;
  for (const struct copy *c = k->pending; c; c = c->next) {
    FOR_LANES(l, c->lanes & lanes) {
      /* Committed groups are those below open; the newest n of them may pend. */
      if (n == WAIT_ALL || (c->group[l] < k->open[l] && k->open[l] - c->group[l] > n))
        return false;
    }
  }
  return true;
}

static enum step wait_groups(struct warp *w, uint32_t lanes, uint32_t n) {
  struct wait wait = {.ready = groups_done,
                      .object = copies_of(w),
                      .arg = (uint64_t)lanes << 32 | n,
                      .what = "cp.async groups"};
  if (w->resumed & lanes || groups_done(&wait)) {
    const struct copies *k = wait.object;
    FOR_LANES(l, lanes) {
      uint32_t most = k->open[l] + (n == WAIT_ALL);
      order_pipe_known(w, 1u << l, PIPE_cp_async, n == WAIT_ALL ? most : most > n ? most - n : 0);
    }
    return STEP_next;
  }
  warp_wait(w, lanes, wait);
  return STEP_wait;
}
static enum step exec_wait_group(struct warp *w, const struct insn *I, uint32_t lanes) {
  return wait_groups(w, lanes, (uint32_t)I->opd[0].imm);
}
static enum step exec_wait_all(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  return wait_groups(w, lanes, WAIT_ALL);
}

/* cp.async.mbarrier.arrive{.noinc} [mbar] */
static enum step exec_arrive(struct warp *w, const struct insn *I, uint32_t lanes) {
  struct copies *k = copies_of(w);
  const struct opd *o = &I->opd[0];
  enum space sp =
      o->symbol && o->space != SPACE_generic ? (enum space)o->space : space_of((enum mod)I->mod[1]);
  FOR_LANES(l, lanes) {
    struct access a = access_of(w, I, (int)l);
    uint64_t v, addr;
    if (!opd_address(w, I, o, (int)l, &v) || !shared_cluster_address(&a, sp, v, &addr))
      return STEP_fault;
    if (I->mod[0] != MOD_noinc && !mbar_raise(&a, addr))
      return STEP_fault;
    struct arrival *r = emu_alloc(sizeof *r);
    r->event.fire = fire_arrival;
    r->event.what = "cp.async.mbarrier.arrive";
    r->access = a;
    r->access.engine = true;
    r->access.sem = SEM_release;
    order_issue_pipe(&r->access, PIPE_cp_async, k->open[l] + 1);
    r->addr = addr;
    r->serial = k->serial;
    r->next = k->arrivals;
    k->arrivals = r;
  }
  release_arrivals(w->cta->grid->dev->m, k);
  return STEP_next;
}

/* ---- forms ----------------------------------------------------------------------------------- */

#define COPY                                                                                       \
  "cp.async{.ca|.cg}{.shared|.shared::cta}.global[.L2::cache_hint][.L2::64B|.L2::128B|.L2::256B]"
#define D 0, "definition"

const struct form forms_cpasync[] = {
    {COPY, "m m i", exec_copy, D, check_copy},
    /* A constant is a source size, also 0 and 1. */
    {COPY, "m m i r32 r64?", exec_copy, D, check_copy},
    {COPY, "m m i rp r64?", exec_copy, D, check_copy},
    {COPY, "m m i r64", exec_copy, D, check_copy},
    {"cp.async.commit_group", "", exec_commit, D, NULL},
    {"cp.async.wait_group", "i", exec_wait_group, D, NULL},
    {"cp.async.wait_all", "", exec_wait_all, D, NULL},
    {"cp.async.mbarrier.arrive[.noinc][.shared|.shared::cta].b64", "m", exec_arrive, D, NULL},
    {NULL, NULL, NULL, 0, NULL, NULL},
};
