/* SPDX-License-Identifier: Apache-2.0
 *
 * Random numbers of the tests: xoshiro256** (Blackman and Vigna), seeded through
 * splitmix64.  Every case seeds its own generator from the run's seed and its own
 * parameters, so that leaving out one case does not change the others.
 */
#ifndef BW_HARNESS_RANDOM_H
#define BW_HARNESS_RANDOM_H

#include <stddef.h>
#include <stdint.h>

struct bwt_random {
  uint64_t state[4];
};

/* The run's seed: BW_SEED if set, else drawn once per process tree (it is put into
 * BW_SEED, so that forked tests agree). */
uint64_t bwt_run_seed(void);

void bwt_random_seed(struct bwt_random *r, uint64_t seed);
/* seed mixed with a number that tells a case from its siblings. */
uint64_t bwt_mix(uint64_t seed, uint64_t number);

uint64_t bwt_random_u64(struct bwt_random *r);
/* 0..bound-1; bound 0 gives 0. */
uint32_t bwt_random_below(struct bwt_random *r, uint32_t bound);
double bwt_random_unit(struct bwt_random *r);   /* [0, 1) */
double bwt_random_normal(struct bwt_random *r); /* mean 0, variance 1 */
void bwt_random_bytes(struct bwt_random *r, void *bytes, size_t size);

#endif
