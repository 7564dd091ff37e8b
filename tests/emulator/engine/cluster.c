/* SPDX-License-Identifier: Apache-2.0
 *
 * Clusters: the CTA behind a shared::cluster address, and barrier.cluster.
 *
 * Every thread of the cluster that has not exited arrives once per phase; the barrier
 * re-arms itself.  A thread waits for the phase it arrived in.
 */
#include "peers.h"
#include "warp_memory.h"

/* ---- shared::cluster addresses -------------------------------------------------------------- */

struct cta *cluster_cta(const struct access *a, uint64_t addr) {
  const struct cluster *k = a->cta->cluster;
  uint64_t rank = addr >> SHARED_RANK_SHIFT;
  struct report r = {.who = a, .has_address = true, .space = SPACE_shared_cluster, .address = addr};
  if (rank >= k->size) {
    r.check = CHECK_bounds;
    r.rule = "oob-cluster";
    (void)snprintf(r.text, sizeof r.text,
                   "a shared::cluster address of rank %llu in a cluster of %u",
                   (unsigned long long)rank, k->size);
  } else if (k->cta[rank]->exited && !k->cta[rank]->killed) {
    /* One that a failed launch took away is no news: the failure was reported. */
    r.check = CHECK_cluster;
    r.rule = "dsmem-exited";
    (void)snprintf(r.text, sizeof r.text,
                   "shared memory of CTA rank %llu is accessed after that CTA has exited",
                   (unsigned long long)rank);
    /* Its memory is still there, so this one can be told to go on. */
    return check_on(a->m, CHECK_cluster) && report(a->m, &r) ? NULL : k->cta[rank];
  } else {
    return a->engine || peers_access(a, k->cta[rank], addr) ? k->cta[rank] : NULL;
  }
  report_publish(a->m, &r);
  grid_fail(a->grid);
  return NULL;
}

bool shared_cluster_address(const struct access *a, enum space sp, uint64_t addr, uint64_t *out) {
  *out = addr; /* a CTA's own addresses carry its rank */
  if (sp == SPACE_shared || sp == SPACE_shared_cluster ||
      (sp == SPACE_generic && generic_space(addr, out) == SPACE_shared_cluster))
    return peers_started(a, (uint32_t)(*out >> SHARED_RANK_SHIFT), *out);
  struct report r = {.check = CHECK_bounds,
                     .rule = "wrong-space",
                     .who = a,
                     .has_address = true,
                     .space = (uint8_t)sp,
                     .address = addr,
                     .text = "an address in shared memory is needed"};
  report_publish(a->m, &r);
  if (a->grid)
    grid_fail(a->grid);
  return false;
}

/* ---- barrier.cluster ----------------------------------------------------------- */

static void settle(struct cluster *k) {
  if (!k->bar_arrived || k->bar_arrived < k->nthread)
    return;
  k->bar_arrived = 0;
  order_cluster_phase(k);
  k->bar_phase++;
  peers_phase_over(k->view);
  barrier_activity(k->grid->dev->m);
}

/* Lanes whose arrival counts towards the phase in progress. */
static uint32_t pending(const struct warp *w, uint32_t lanes) {
  uint32_t p = 0;
  FOR_LANES(l, w->simt.cluster_arrived & lanes) {
    if (w->simt.cluster_phase[l] == w->cta->cluster->bar_phase)
      p |= 1u << l;
  }
  return p;
}

void cluster_lanes_exited(struct warp *w, uint32_t lanes) {
  struct cluster *k = w->cta->cluster;
  k->bar_arrived -= (uint32_t)__builtin_popcount(pending(w, lanes));
  w->simt.cluster_arrived &= ~lanes;
  settle(k);
}

static enum step exec_arrive(struct warp *w, const struct insn *I, uint32_t lanes) {
  struct cluster *k = w->cta->cluster;
  struct simt *s = &w->simt;
  uint32_t again = s->cluster_arrived & lanes;
  if (again) {
    struct access a = access_of(w, I, first_lane(again));
    if (fault(&a, CHECK_cluster, "cluster-arrive-twice",
              "lanes 0x%08x arrive again without barrier.cluster.wait in between", again))
      return STEP_fault;
    lanes &= ~pending(w, again);
  }
  if (lanes) {
    struct access a = access_of(w, I, first_lane(lanes));
    peers_release(&a, NULL, &k->view);
  }
  s->cluster_arrived |= lanes;
  FOR_LANES(l, lanes) s->cluster_phase[l] = k->bar_phase;
  order_cluster_arrive(w, lanes, I->mod[0] == MOD_relaxed);
  k->bar_arrived += (uint32_t)__builtin_popcount(lanes);
  barrier_activity(k->grid->dev->m);
  settle(k);
  return STEP_next;
}

static bool phase_over(const struct wait *wait) {
  const struct cluster *k = wait->object;
  return k->bar_phase != wait->arg;
}

/* Every thread of the cluster that is left waits at this barrier, or in a CTA where all do
 * at barriers of the CTA. */
static void mismatch(const struct wait *wait, const struct access *who) {
  const struct cluster *k = wait->object;
  struct access other = {0};
  uint32_t elsewhere = 0;
  for (uint32_t r = 0; r < k->size; r++) {
    for (uint32_t i = 0; i < k->cta[r]->nwarp; i++) {
      struct warp *w = &k->cta[r]->warp[i];
      FOR_LANES(l, w->live) {
        if (!(w->waiting >> l & 1) || w->wait[l].ready(&w->wait[l]))
          return;
        bool here = w->wait[l].ready == phase_over;
        if (!here && strcmp(w->wait[l].what, "barrier") != 0)
          return;
        elsewhere += !here;
        if (!here && !other.insn)
          other = access_of(w, &w->fn->insn[w->pc[l]], (int)l);
      }
    }
  }
  struct report rep = {.check = CHECK_cluster,
                       .rule = "barrier-mismatch",
                       .who = who,
                       .other = other.insn ? &other : NULL};
  (void)snprintf(rep.text, sizeof rep.text,
                 "barrier.cluster expects %u threads, %u have arrived, and %u of the cluster wait "
                 "at barriers of their CTA",
                 k->nthread, k->bar_arrived, elsewhere);
  (void)report(who->m, &rep);
}

static enum step exec_wait(struct warp *w, const struct insn *I, uint32_t lanes) {
  struct cluster *k = w->cta->cluster;
  struct simt *s = &w->simt;
  uint32_t stray = lanes & ~s->cluster_arrived;
  if (stray) {
    struct access a = access_of(w, I, first_lane(stray));
    if (fault(&a, CHECK_cluster, "cluster-wait-without-arrive",
              "lanes 0x%08x wait without having arrived", stray))
      return STEP_fault;
    lanes &= ~stray;
  }
  uint32_t wait = pending(w, lanes);
  s->cluster_arrived &= ~(lanes & ~wait);
  FOR_LANES(l, lanes & ~wait) order_cluster_passed(w, 1u << l, s->cluster_phase[l]);
  if (!wait) {
    peers_acquire(w->cta, k->view);
    return STEP_next;
  }
  warp_wait(w, wait,
            (struct wait){.ready = phase_over,
                          .object = k,
                          .arg = k->bar_phase,
                          .stuck = mismatch,
                          .what = "barrier.cluster",
                          .address = k->bar_phase});
  return STEP_wait;
}

const struct form forms_cluster[] = {
    {"barrier.cluster.arrive[.release|.relaxed].aligned", "", exec_arrive, FORM_aligned,
     "definition", NULL},
    {"barrier.cluster.arrive[.release|.relaxed]", "", exec_arrive, 0, "definition", NULL},
    {"barrier.cluster.wait[.acquire].aligned", "", exec_wait, FORM_aligned, "definition", NULL},
    {"barrier.cluster.wait[.acquire]", "", exec_wait, 0, "definition", NULL},
    {NULL, NULL, NULL, 0, NULL, NULL},
};
