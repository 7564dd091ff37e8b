/* SPDX-License-Identifier: Apache-2.0
 *
 * What the CTAs of a cluster know of one another: that a peer has started, and which of a
 * peer's accesses to their shared memory are over.  Both follow from barriers alone
 * (barrier.cluster, mbarriers), so that a program which relies on luck is told so on every
 * schedule.  Whole CTAs know; that the threads of one CTA pass it on among themselves is
 * the business of the checks of order.
 *
 * Nothing of this exists in clusters of one CTA.
 */
#ifndef EMU_PEERS_H
#define EMU_PEERS_H

#include "engine.h"

#define PEERS 16

/* What the arrivals at a barrier pass on to those who wait for it. */
struct peer_view {
  uint32_t gathered[PEERS]; /* by the arrivals so far */
  uint32_t passed[PEERS];   /* by those of the phases that are over */
};

void peers_cta_start(struct cta *c);
void peers_cta_release(struct cta *c);
/* All its threads have exited: every access of others to its memory must be known to be
 * over. */
void peers_cta_exit(struct cta *c);

/* A thread accesses a peer's memory; false: the launch ends. */
bool peers_access(const struct access *a, struct cta *to, uint64_t addr);
/* An asynchronous operation on a peer's memory is issued. */
bool peers_started(const struct access *a, uint32_t rank, uint64_t addr);

/* An arrival of a thread at a barrier of CTA `at` (NULL: of the cluster); *v is made when
 * it is needed.  The end of its phase.  A wait that saw the end. */
void peers_release(const struct access *a, const struct cta *at, struct peer_view **v);
void peers_phase_over(struct peer_view *v);
void peers_acquire(struct cta *c, const struct peer_view *v);
void peers_view_free(struct peer_view *v);

#endif
