/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-by-element comparison of up_proj's results, with the model (bit by bit) and with
 * the truth in double (within the bounds that rounding explains).
 */
#ifndef BW_HARNESS_COMPARE_UP_PROJ_H
#define BW_HARNESS_COMPARE_UP_PROJ_H

#include "harness/text.h"
#include "ref/up_proj_ref.h"

struct bwt_up_proj_difference {
  uint64_t compared;
  uint64_t differ;       /* elements whose bits are not the wanted ones */
  uint64_t not_a_number; /* NaN where a number belongs, or the reverse */
  uint64_t unwritten;    /* still the complement of what belongs there */
  uint64_t minus_zero;   /* -0, which no word may have */
};

/* got and want [M, S]; rows of got are got_stride elements apart. */
void bwt_up_proj_compare(const struct ref_up_proj *c, const uint16_t *got, uint64_t got_stride,
                         const uint16_t *want, struct bwt_up_proj_difference *d,
                         struct bwt_text *why);

struct bwt_up_proj_judgement {
  uint64_t judged; /* those with a finite truth within bf16 */
  uint64_t out_of_bounds;
  double worst_error; /* |result - truth| in steps of bf16 at the larger of the two numbers that
                       * are rounded to bf16: two roundings make at most 1 */
};

/* Judges got [M, S] (rows got_stride elements apart) by sum + shared in double.  Explained
 * are: an f32 rounding for each addition a product goes through, in proportion to the sum
 * of the absolute products, and two roundings to bf16.  false: no memory. */
bool bwt_up_proj_judge(const struct ref_up_proj *c, const uint16_t *got, uint64_t got_stride,
                       struct bwt_up_proj_judgement *j, struct bwt_text *why);

#endif
