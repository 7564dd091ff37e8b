/* SPDX-License-Identifier: Apache-2.0
 *
 * Many steps of many ranks through the mailbox: up_proj and lamport_copy on a device each,
 * enqueued in chains without waiting, so that ranks run ahead of each other as far as the
 * protocol lets them and grids of a stream overlap.  Every row of every step is compared, on
 * every rank; in the end every word of every ring must be empty and the steps counted.
 *
 * What is stored is known without arithmetic: latent is 0, so a rank's columns are its
 * `shared`, and those are random.
 */
#ifndef BW_HARNESS_PROTOCOL_H
#define BW_HARNESS_PROTOCOL_H

#include "barewarp.h"
#include "harness/text.h"

struct bwt_protocol {
  uint32_t ranks, hidden, latent_dim;
  uint32_t rows; /* M changes between 1 and this */
  bw_mailbox_mode mode;
  uint32_t mailbox_flags;
  uint32_t steps; /* in all; at least */
  uint32_t chain; /* steps enqueued before anyone waits; odd, for graphs */
  bool graph;     /* chains are captured and replayed, on one of two streams in turn */
  bool pdl_only;  /* no launch without PDL */
  bool all_rows;  /* M is always `rows` */
  bool fixed;     /* launch flags are these, not drawn */
  uint32_t produce_flags, consume_flags;
  uint32_t delays; /* one launch in so many has a kernel that takes time before it; 0: none */
  uint64_t seed;   /* of rows, values, delays and flags; the schedule has EMU_SEED */
  bw_bundle *bundle;
  bw_bundle *first_bundle; /* of rank 0, if another */

  /* One rank per process: this one's (a device of that number), and how the blobs of the
   * rounds are gathered from all.  NULL: this process has all ranks. */
  uint32_t own_rank;
  bool (*gather)(const void *mine, void *all);
};

struct bwt_protocol_result {
  bool ran;            /* the set-up was right: what is wrong is wrong with a step */
  uint32_t steps;      /* done and right */
  struct bwt_text why; /* what was wrong */
};

/* Opens the emulated driver with as many devices, sets up the mailboxes, runs, closes.
 * false: result->why.  Processes that share a run must be given the same *p but for own_rank
 * and the bundles; everything that they must agree on is drawn from p->seed. */
bool bwt_protocol_run(const struct bwt_protocol *p, struct bwt_protocol_result *result);

#endif
