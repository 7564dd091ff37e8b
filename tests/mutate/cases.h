/* SPDX-License-Identifier: Apache-2.0
 *
 * What a mutant has to survive: a few launches of its kernel on the emulated driver with
 * all checks on, each judged by the references in C.  In order of what they cost.
 */
#ifndef BW_MUTATE_CASES_H
#define BW_MUTATE_CASES_H

#include "mutate/kernels.h"

enum bwm_outcome {
  BWM_SURVIVED,
  BWM_KILLED,
  BWM_NO_VERDICT /* the case could not be run: not loaded, out of memory, out of time */
};

struct bwm_verdict {
  enum bwm_outcome outcome;
  char by[64];   /* the rule of the report, "wrong result", "no early start" */
  char why[400]; /* what was said about it */
};

unsigned bwm_case_count(const struct bwm_kernel *k);
const char *bwm_case_name(const struct bwm_kernel *k, unsigned number);
/* The most clusters that the case leaves to a kernel that loops over n tiles; 0: all. */
uint32_t bwm_case_clusters(const struct bwm_kernel *k, unsigned number);
/* Runs case `number` with this bundle; to be called once in a process of its own. */
void bwm_case_run(const struct bwm_kernel *k, unsigned number, bw_bundle *bundle,
                  struct bwm_verdict *v);

/* ---- for the families ------------------------------------------------------------------ */

/* Settings of the emulated driver, before it is opened. */
void bwm_seed(unsigned seed);
bool bwm_configure(const char *key, const char *value);
uint64_t bwm_early_starts(void);
/* The verdict on a case whose launch or comparison failed with these words. */
void bwm_kill(struct bwm_verdict *v, const char *why);
void bwm_no_verdict(struct bwm_verdict *v, const char *why);
/* Reports that ended no launch kill, too; else the verdict stays BWM_SURVIVED. */
void bwm_judge_reports(struct bwm_verdict *v);

unsigned bwm_wo_a_count(const struct bwm_kernel *k);
const char *bwm_wo_a_name(const struct bwm_kernel *k, unsigned number);
uint32_t bwm_wo_a_clusters(const struct bwm_kernel *k, unsigned number);
void bwm_wo_a_run(const struct bwm_kernel *k, unsigned number, bw_bundle *bundle,
                  struct bwm_verdict *v);
unsigned bwm_mailbox_count(const struct bwm_kernel *k);
const char *bwm_mailbox_name(const struct bwm_kernel *k, unsigned number);
void bwm_mailbox_run(const struct bwm_kernel *k, unsigned number, bw_bundle *bundle,
                     struct bwm_verdict *v);

#endif
