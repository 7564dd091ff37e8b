/* SPDX-License-Identifier: Apache-2.0
 *
 * Grids: placing clusters on SMs, the life of CTAs, completion and failure.
 */
#include "internal.h"
#include "peers.h"

#define CTA_RESERVED_SHARED 1024 /* the system's share per CTA */
#define DEFAULT_REGISTERS   64   /* per thread, where the PTX does not say */

/* ---- resources --------------------------------------------------------------------------- */

static uint32_t threads_of(const struct grid *g) {
  return g->block[0] * g->block[1] * g->block[2];
}
static uint32_t warps_of(const struct grid *g) {
  return (threads_of(g) + WARP - 1) / WARP;
}

static uint32_t registers_of(const struct grid *g) {
  const struct function *f = g->fn;
  uint32_t threads = warps_of(g) * WARP;
  uint32_t per = f->maxnreg ? f->maxnreg : DEFAULT_REGISTERS;
  uint32_t most = g->dev->registers_sm / (threads * (f->minnctapersm ? f->minnctapersm : 1));
  if (per > most)
    per = most;
  return per * threads;
}

static uint32_t shared_of(const struct grid *g) {
  return g->fn->dynamic_offset > g->fn->shared_bytes ? g->fn->dynamic_offset + g->dynamic_shared
                                                     : g->fn->shared_bytes + g->dynamic_shared;
}

static bool sm_fits(const struct device *d, const struct sm *sm, const struct grid *g) {
  return sm->threads + warps_of(g) * WARP <= d->max_threads_sm && sm->ctas < d->max_ctas_sm &&
         sm->shared_bytes + g->run->cta_shared <= d->shared_sm &&
         sm->registers + g->run->cta_registers <= d->registers_sm;
}

static void sm_account(const struct grid *g, uint32_t index, bool take) {
  struct sm *sm = &g->dev->sm[index];
  uint32_t sign = take ? 1u : -1u;
  sm->threads += sign * warps_of(g) * WARP;
  sm->ctas += sign;
  sm->shared_bytes += sign * g->run->cta_shared;
  sm->registers += sign * g->run->cta_registers;
}

/* The least loaded SM that has room, like the hardware's breadth-first choice; ties are
 * broken by a moving start.  -1: none. */
static int sm_choose(const struct grid *g) {
  struct device *d = g->dev;
  int best = -1;
  for (uint32_t i = 0; i < d->nsm; i++) {
    uint32_t k = (d->m->s->next_sm + i) % d->nsm;
    if (sm_fits(d, &d->sm[k], g) && (best < 0 || d->sm[k].threads < d->sm[best].threads))
      best = (int)k;
    if (best >= 0 && !d->sm[best].threads)
      break;
  }
  return best;
}

/* ---- starting a cluster --------------------------------------------------------------------- */

static void warp_start(struct cta *c, uint32_t index) {
  struct grid *g = c->grid;
  struct machine *m = g->dev->m;
  struct warp *w = &c->warp[index];
  size_t slots = (size_t)g->fn->nreg * WARP;
  w->cta = c;
  w->fn = g->fn;
  w->index = index;
  uint32_t first = index * WARP, n = threads_of(g) - first;
  w->live = n >= WARP ? ALL_LANES : (1u << n) - 1;
  w->r = emu_alloc(slots * sizeof *w->r);
  w->u = emu_alloc(slots * sizeof *w->u);
  if (check_on(m, CHECK_undef))
    memset(w->u, 0xff, slots * sizeof *w->u);
  if (g->fn->local_bytes) {
    uint64_t bytes = (uint64_t)g->fn->local_bytes * WARP;
    w->local = emu_alloc(bytes);
    memset(w->local, 0xa5, bytes);
    w->local_mem = (struct mem){.size = bytes,
                                .data = w->local,
                                .space = SPACE_local,
                                .dev = g->dev,
                                .cta = c,
                                .what = "local memory"};
    if (check_on(m, CHECK_undef)) {
      w->local_mem.undef = emu_alloc(bytes);
      memset(w->local_mem.undef, 0xff, bytes);
    }
  }
  sched_add(m, w);
}

static void cta_start(struct cta *c, int sm) {
  struct grid *g = c->grid;
  struct machine *m = g->dev->m;
  c->sm = (uint32_t)sm;
  c->dynamic_offset = shared_of(g) - g->dynamic_shared;
  uint32_t bytes = shared_of(g);
  char what[48];
  (void)snprintf(what, sizeof what, "shared memory of CTA (%u,%u,%u)", c->ctaid[0], c->ctaid[1],
                 c->ctaid[2]);
  c->shared = (struct mem){.size = bytes, .space = SPACE_shared, .dev = g->dev, .cta = c};
  c->shared.what = c->shared.name = strdup(what);
  c->shared.data = emu_alloc(bytes);
  memset(c->shared.data, 0xa5, bytes);
  if (check_on(m, CHECK_undef)) {
    c->shared.undef = emu_alloc(bytes);
    memset(c->shared.undef, 0xff, bytes);
  }
  peers_cta_start(c);
  c->nwarp = c->live_warps = warps_of(g);
  c->nthread = threads_of(g);
  c->warp = emu_alloc(c->nwarp * sizeof *c->warp);
  for (uint32_t i = 0; i < c->nwarp; i++)
    warp_start(c, i);
}

/* Some CTA of a grid that it depends on is still there. */
static bool starts_early(const struct grid *g) {
  for (uint32_t i = 0; i < g->nprereq; i++)
    if (g->prereq[i]->ctas_exited < g->prereq[i]->ctas_total)
      return true;
  return false;
}

static bool cluster_start(struct grid *g) {
  struct grid_run *run = g->run;
  uint32_t n = run->cluster_size;
  int sm[64];
  uint32_t placed = 0;
  for (; placed < n; placed++) {
    sm[placed] = sm_choose(g);
    if (sm[placed] < 0)
      break;
    sm_account(g, (uint32_t)sm[placed], true);
    g->dev->m->s->next_sm = (uint32_t)sm[placed] + 1;
  }
  if (placed < n) {
    while (placed)
      sm_account(g, (uint32_t)sm[--placed], false);
    return false;
  }
  if (!run->next_cluster && starts_early(g))
    g->dev->m->s->early_starts++;
  struct cluster *k = emu_alloc(sizeof *k);
  *k = (struct cluster){.grid = g, .size = n, .live_ctas = n, .next = run->clusters};
  run->clusters = k;
  k->cta = emu_alloc(n * sizeof(struct cta *));
  k->nthread = n * threads_of(g);
  /* Clusters, and CTAs in one, run fastest along x. */
  const uint32_t *cd = g->cluster_dim;
  uint32_t nx = g->dim[0] / cd[0], ny = g->dim[1] / cd[1];
  uint64_t id = run->next_cluster++;
  uint32_t at[3] = {(uint32_t)(id % nx), (uint32_t)(id / nx % ny), (uint32_t)(id / nx / ny)};
  for (uint32_t r = 0; r < n; r++) {
    struct cta *c = k->cta[r] = emu_alloc(sizeof *c);
    c->grid = g;
    c->cluster = k;
    c->rank = r;
    c->ctaid[0] = at[0] * cd[0] + r % cd[0];
    c->ctaid[1] = at[1] * cd[1] + r / cd[0] % cd[1];
    c->ctaid[2] = at[2] * cd[2] + r / cd[0] / cd[1];
  }
  for (uint32_t r = 0; r < n; r++) {
    cta_start(k->cta[r], sm[r]);
    g->ctas_started++;
  }
  order_cluster_started(k, id);
  return true;
}

void grids_place(struct machine *m) {
  m->s->place = false;
  /* In the order of submission on each device: a grid that does not fit holds back
   * later ones, as the hardware's queue does. */
  uint32_t blocked = 0;
  for (struct grid *g = m->s->grids; g; g = g->run->next) {
    uint32_t bit = 1u << g->dev->ordinal;
    if (g->run->failed || blocked & bit)
      continue;
    while (g->run->next_cluster < g->run->clusters_total && cluster_start(g))
      g->state = GRID_running;
    if (g->run->next_cluster < g->run->clusters_total)
      blocked |= bit;
  }
}

/* ---- ending -------------------------------------------------------------------- */

static void warp_free(struct warp *w) {
  free(w->r);
  free(w->u);
  free(w->local);
  free(w->local_mem.undef);
  free(w->simt.spin_r);
  w->r = w->u = NULL;
  w->local = w->local_mem.data = w->local_mem.undef = NULL;
  w->local_mem.size = 0;
  w->simt.spin_r = NULL;
}

static void cluster_free(struct cluster *k) {
  for (struct cluster **p = &k->grid->run->clusters; *p; p = &(*p)->next) {
    if (*p == k) {
      *p = k->next;
      break;
    }
  }
  order_cluster_freed(k);
  for (uint32_t r = 0; r < k->size; r++) {
    struct cta *c = k->cta[r];
    mbar_cta_release(c);
    peers_cta_release(c);
    cpasync_cta_release(c);
    free(c->warp);
    free(c->shared.data);
    free(c->shared.undef);
    free(c->shared.name);
    free(c);
  }
  peers_view_free(k->view);
  free(k->cta);
  free(k);
}

static void grid_end(struct grid *g, enum grid_state state) {
  struct machine *m = g->dev->m;
  struct grid_run *run = g->run;
  griddep_check(g);
  if (run->failed)
    state = GRID_failed;
  trigger_now(g);
  struct grid **p = &m->s->grids;
  while (*p != g)
    p = &(*p)->run->next;
  *p = run->next;
  if (!run->next)
    m->s->grids_end = p;
  trace_grid_done(m, g);
  order_grid_complete(g);
  free(run);
  g->run = NULL;
  g->state = state;
  m->activity++;
  m->s->place = true;
  if (g->on_complete)
    g->on_complete(g, g->arg);
}

static bool grid_over(const struct grid *g) {
  return g->ctas_exited == g->ctas_total && !g->events;
}

static void cluster_over(struct cluster *k) {
  struct grid *g = k->grid;
  if (k->live_ctas || k->events)
    return;
  for (uint32_t r = 0; r < k->size && !g->run->failed; r++)
    mbar_cluster_end(k->cta[r]);
  cluster_free(k);
  if (grid_over(g) && !g->run->failed)
    grid_end(g, GRID_complete);
}

static void cta_over(struct cta *c) {
  struct grid *g = c->grid;
  tcgen05_cta_exit(c);
  if (!g->run->failed) {
    mbar_cta_exit(c);
    peers_cta_exit(c);
  }
  c->exited = true;
  cta_trigger(c);
  sm_account(g, c->sm, false);
  g->dev->m->s->place = true;
  g->ctas_exited++;
  g->dev->m->s->ended_steps = g->dev->m->s->steps;
  c->cluster->live_ctas--;
  cluster_over(c->cluster);
}

void warp_over(struct machine *m, struct warp *w) {
  sched_remove(m, w);
  warp_free(w);
  if (!--w->cta->live_warps)
    cta_over(w->cta);
}

/* An event posted on the grid's behalf has fired. */
void grid_event_done(struct machine *m, struct grid *g, struct cluster *c) {
  (void)m;
  g->events--;
  if (c) {
    c->events--;
    if (!g->run->failed)
      cluster_over(c);
  } else if (grid_over(g) && !g->run->clusters && !g->run->failed) {
    grid_end(g, GRID_complete);
  }
}

/* ---- failing --------------------------------------------------------------------------------- */

void grid_fail(struct grid *g) {
  if (!g->run)
    return;
  g->run->failed = true;
  g->dev->m->s->failing = true;
}

static void cluster_kill(struct machine *m, struct cluster *k) {
  for (uint32_t r = 0; r < k->size; r++) {
    struct cta *c = k->cta[r];
    for (uint32_t i = 0; i < c->nwarp && !c->exited; i++) {
      struct warp *w = &c->warp[i];
      if (!w->r)
        continue;
      w->live = 0;
      sched_remove(m, w);
      warp_free(w);
    }
    if (!c->exited) {
      c->killed = true;
      tcgen05_cta_exit(c);
      c->exited = true;
      sm_account(k->grid, c->sm, false);
    }
  }
  k->live_ctas = 0;
}

/* A failed grid without work in flight, after the CTAs of all failed grids were removed;
 * *draining: some have work left. */
static struct grid *next_failed(struct machine *m, bool *draining) {
  struct grid *over = NULL;
  *draining = false;
  for (struct grid *g = m->s->grids; g && g->run; g = g->run->next) {
    if (!g->run->failed)
      continue;
    for (struct cluster *k = g->run->clusters; k; k = k->next)
      cluster_kill(m, k);
    if (g->events)
      *draining = true;
    else if (!over)
      over = g;
  }
  return over;
}

/* The CTAs go at once; the grid itself when its asynchronous work has drained, since
 * that work points into it. */
void grids_teardown(struct machine *m) {
  bool draining;
  m->s->failing = false;
  m->s->place = true;
  for (struct grid *g; (g = next_failed(m, &draining));) {
    for (struct cluster *next, *k = g->run->clusters; k; k = next) {
      next = k->next;
      cluster_free(k);
    }
    grid_end(g, GRID_failed); /* its callback may abort others */
  }
  m->s->failing = m->s->failing || draining;
}

/* ---- the driver layer's entries -------------------------------------------------------------- */

bool grid_submit(struct grid *g) {
  struct machine *m = g->dev->m;
  const struct sm empty = {0};
  g->run = emu_alloc(sizeof *g->run);
  struct grid_run *run = g->run;
  for (int i = 0; i < 3; i++)
    if (!g->cluster_dim[i])
      g->cluster_dim[i] = 1;
  run->cluster_size = g->cluster_dim[0] * g->cluster_dim[1] * g->cluster_dim[2];
  run->cta_shared = shared_of(g) + CTA_RESERVED_SHARED;
  bool possible = threads_of(g) >= 1 && threads_of(g) <= 1024 && run->cluster_size <= 16;
  for (int i = 0; i < 3; i++)
    possible = possible && g->dim[i] && g->dim[i] % g->cluster_dim[i] == 0;
  if (possible) {
    run->cta_registers = registers_of(g);
    possible = sm_fits(g->dev, &empty, g);
  }
  if (!possible) {
    free(run);
    g->run = NULL;
    return false;
  }
  g->ctas_total = (uint64_t)g->dim[0] * g->dim[1] * g->dim[2];
  run->clusters_total = g->ctas_total / run->cluster_size;
  run->first_seq = m->s->next_seq;
  run->order = 0xcbf29ce484222325ull;
  run->param = (struct mem){.size = g->fn->param_bytes,
                            .data = g->param,
                            .space = SPACE_param,
                            .dev = g->dev,
                            .what = "the parameters"};
  order_grid_submitted(g);
  g->state = GRID_queued;
  *m->s->grids_end = g;
  m->s->grids_end = &run->next;
  m->s->place = true;
  m->activity++;
  return true;
}

void grid_abort(struct grid *g) {
  grid_fail(g);
}
