/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-by-element comparison of wo_a's outputs, with the model (bit by bit) and with
 * the truth in double (within the bounds that rounding explains).
 */
#ifndef BW_HARNESS_COMPARE_H
#define BW_HARNESS_COMPARE_H

#include "harness/text.h"
#include "ref/wo_a_ref.h"

/* What the outputs of a case looked like. */
struct bwt_difference {
  uint64_t compared;     /* bytes of q */
  uint64_t q, qs;        /* bytes that differ; qs: of existing tokens */
  uint64_t padding;      /* bytes of qs of absent tokens that are not 0 */
  uint64_t not_a_number; /* of q: NaN where a number belongs, or the reverse */
  uint64_t unwritten;    /* of q and qs: still the complement of the expected byte */
  int codes;             /* largest distance in codes of e4m3, where the scales agree */
};

/* got against want; says what differs, the worst place first.  Outputs are expected to
 * have been filled with the complement of want before the kernel ran. */
void bwt_compare_exact(const struct ref_wo_a *c, const uint8_t *got_q, const uint8_t *got_qs,
                       const uint8_t *want_q, const uint8_t *want_qs, struct bwt_difference *d,
                       struct bwt_text *why);

/* The truth of a case, for judging one or several results by it. */
struct bwt_truth {
  double *y, *magnitude;
  uint8_t *q, *qs; /* quantized from the exact sums */
};
bool bwt_truth_make(struct bwt_truth *truth, const struct ref_wo_a *c); /* false: no memory */
void bwt_truth_free(struct bwt_truth *truth);

struct bwt_judgement {
  uint64_t q, qs; /* bytes that differ from the truth's, within bounds or not */
  uint64_t out_of_bounds;
  double worst_error; /* |result - y| in steps of the output format there; 0.5 is the
                       * best any rounding can promise */
};

/* Bounds.  qs may differ, by one, only where the block's largest |y| is within one bf16
 * step of 448*2^k.  Where it agrees q may differ by one code, only where y is so near a
 * tie of the bf16 rounding that the sum's own error can cross it, and in fewer than 0.5%
 * of the bytes.  Sums that are not finite, or beyond f32, are not judged. */
void bwt_judge(const struct ref_wo_a *c, const struct bwt_truth *truth, const uint8_t *q,
               const uint8_t *qs, struct bwt_judgement *j, struct bwt_text *why);

#endif
