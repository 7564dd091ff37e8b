/* SPDX-License-Identifier: Apache-2.0
 *
 * Cases in processes of their own, several at a time, and what they found, kept between
 * runs.
 */
#ifndef BW_MUTATE_POOL_H
#define BW_MUTATE_POOL_H

#include "mutate/cases.h"

struct bwm_job {
  const struct bwm_kernel *kernel;
  const struct bwm_mutant *mutant; /* NULL: the kernel as it ships */
  unsigned number;                 /* of the case */
  struct bwm_verdict verdict;
  void *owner;
};

struct bwm_pool;

/* Verdicts are kept in `file`; those of other versions of the emulated driver, of this
 * program or of a kernel do not count.  workers: processes at a time. */
struct bwm_pool *bwm_pool_open(const struct bwm_bundles *from, const char *file, int workers);
void bwm_pool_close(struct bwm_pool *p);

bool bwm_pool_full(const struct bwm_pool *p);
/* Starts a job, unless its verdict is known: then that is filled in and true returned. */
bool bwm_pool_start(struct bwm_pool *p, struct bwm_job *job);
/* Waits for one job to end; NULL: none is under way. */
struct bwm_job *bwm_pool_wait(struct bwm_pool *p);

#endif
