/* SPDX-License-Identifier: Apache-2.0
 *
 * The score: what became of every mutant, by template and by kind.
 */
#ifndef BW_MUTATE_SCORE_H
#define BW_MUTATE_SCORE_H

#include "mutate/cases.h"

/* What is known of one mutant. */
struct bwm_result {
  const struct bwm_kernel *kernel;
  const struct bwm_mutant *mutant;
  unsigned next; /* case */
  bool running;
  struct bwm_verdict verdict; /* of the last case that was run */
  const char *equivalent;     /* the rule, if it survived and is listed */
};

/* The list of equivalent mutants (equivalent.tsv); ends the program if it cannot be read. */
void bwm_equivalents_read(const char *path);
/* The rule of the entry that this mutant matches; NULL: none. */
const char *bwm_equivalent(const struct bwm_kernel *k, const struct bwm_mutant *m);

/* A line or two on a mutant that survived. */
void bwm_print_survivor(const struct bwm_result *r);
/* Tables by template and kind, what killed them, and how many were listed as equivalent. */
void bwm_print_score(const struct bwm_result *results, size_t count);

#endif
