/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs a twin of a rule pair on the emulated driver, through the Driver API alone, and
 * tells what was reported.
 */
#ifndef BW_HARNESS_RULE_RUN_H
#define BW_HARNESS_RULE_RUN_H

#include "harness/rule_pair.h"

#include <cuda.h>

/* Of the first run that reported something or failed; else of the last. */
struct rule_outcome {
  uint64_t seed;
  CUresult result;  /* the first that is no success */
  unsigned reports; /* lines of the report */
  /* of the first report; "" and 0 without one */
  char group[16], rule[48], message[512];
  unsigned line, other; /* 0: that side has no instruction */
};

/* What is run, and how. */
enum rule_twin {
  RULE_good,
  RULE_bad,
  RULE_bad_unchecked, /* with the check of its group off */
  RULE_bad_going      /* told to go on after reports */
};

/* Runs it under each of these schedule seeds in turn, in a child process, until one reports
 * something or fails.  false: the twin could not be run at all, *why says why. */
bool bwt_rule_run(const struct rule_pair *p, enum rule_twin twin, const uint64_t *seeds,
                  unsigned count, struct rule_outcome *outcome, struct bwt_text *why);

#endif
