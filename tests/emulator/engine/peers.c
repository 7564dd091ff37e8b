/* SPDX-License-Identifier: Apache-2.0
 *
 * Knowledge of peers in a cluster; see peers.h.
 *
 * Every CTA counts its accesses to the memory of others, from 1 on: that it has started.
 * known[r] is the count of rank r up to which a CTA knows that all is done; stamp[r] is
 * rank r's count at its last access here.
 */
#include "peers.h"

#include "internal.h"

struct peers {
  uint32_t known[PEERS], stamp[PEERS];
  struct access last[PEERS]; /* of rank r here */
};

void peers_cta_start(struct cta *c) {
  if (c->cluster->size < 2 || c->cluster->size > PEERS)
    return;
  c->peers = emu_alloc(sizeof *c->peers);
  c->peers->known[c->rank] = 1;
}

void peers_cta_release(struct cta *c) {
  free(c->peers);
  c->peers = NULL;
}

/* ---- accesses ---------------------------------------------------------------------------- */

bool peers_started(const struct access *a, uint32_t rank, uint64_t addr) {
  const struct peers *p = a->cta->peers;
  if (!p || rank >= a->cta->cluster->size || p->known[rank])
    return true;
  struct report r = {.check = CHECK_cluster,
                     .rule = "dsmem-not-started",
                     .who = a,
                     .has_address = true,
                     .space = SPACE_shared_cluster,
                     .address = addr};
  (void)snprintf(r.text, sizeof r.text,
                 "shared memory of CTA rank %u is accessed, and nothing says that this CTA has "
                 "started: barrier.cluster must come before",
                 rank);
  return !report(a->m, &r);
}

bool peers_access(const struct access *a, struct cta *to, uint64_t addr) {
  struct peers *own = a->cta->peers;
  if (!own || to == a->cta)
    return true;
  if (!peers_started(a, to->rank, addr))
    return false;
  to->peers->stamp[a->cta->rank] = ++own->known[a->cta->rank];
  to->peers->last[a->cta->rank] = *a;
  return true;
}

void peers_cta_exit(struct cta *c) {
  const struct peers *p = c->peers;
  for (uint32_t rank = 0; p && rank < c->cluster->size; rank++) {
    if (p->stamp[rank] <= p->known[rank])
      continue;
    struct report r = {.check = CHECK_cluster, .rule = "dsmem-exited", .who = &p->last[rank]};
    (void)snprintf(r.text, sizeof r.text,
                   "an access to shared memory of CTA rank %u, which has exited without having "
                   "waited for anything that comes after the access: it may be gone by then",
                   c->rank);
    if (report(c->grid->dev->m, &r))
      return;
  }
}

/* ---- barriers ------------------------------------------------------------------------------ */

static void join(uint32_t *to, const uint32_t *from) {
  for (int i = 0; i < PEERS; i++)
    to[i] = from[i] > to[i] ? from[i] : to[i];
}

/* What an engine does comes later than its issue, and says nothing of the issuer's own
 * accesses. */
void peers_release(const struct access *a, const struct cta *at, struct peer_view **v) {
  if (!a->cta || !a->cta->peers || a->engine || (at && !at->peers))
    return;
  if (!*v)
    *v = emu_alloc(sizeof **v);
  join((*v)->gathered, a->cta->peers->known);
}

void peers_phase_over(struct peer_view *v) {
  if (v)
    memcpy(v->passed, v->gathered, sizeof v->passed);
}

void peers_acquire(struct cta *c, const struct peer_view *v) {
  if (v && c->peers)
    join(c->peers->known, v->passed);
}

void peers_view_free(struct peer_view *v) {
  free(v);
}
