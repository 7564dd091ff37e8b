/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-by-element comparison of up_proj's results; see compare_up_proj.h.
 */
#include "harness/compare_up_proj.h"

#include "ref/formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_nan(uint16_t code) {
  return (code & 0x7fff) > 0x7f80;
}

/* ---- bit by bit ---------------------------------------------------------------- */

void bwt_up_proj_compare(const struct ref_up_proj *c, const uint16_t *got, uint64_t got_stride,
                         const uint16_t *want, struct bwt_up_proj_difference *d,
                         struct bwt_text *why) {
  uint32_t row = 0, column = 0;
  memset(d, 0, sizeof *d);
  d->compared = (uint64_t)c->rows * c->shard;
  for (uint32_t m = 0; m < c->rows; m++)
    for (uint32_t n = 0; n < c->shard; n++) {
      uint16_t g = got[m * got_stride + n], w = want[(size_t)m * c->shard + n];
      d->minus_zero += g == 0x8000;
      if (g == w)
        continue;
      if (d->differ++ == 0) {
        row = m;
        column = n;
      }
      d->unwritten += (g ^ w) == 0xffff;
      d->not_a_number += is_nan(g) != is_nan(w);
    }
  if (d->differ == 0)
    return;
  uint16_t g = got[row * got_stride + column], w = want[(size_t)row * c->shard + column];
  bwt_say(why,
          "%llu of %llu elements differ, %llu of them never written, %llu NaN on one side only, "
          "%llu -0; first: row %u, column %u of the rank's: 0x%04X (%g), expected 0x%04X (%g)\n",
          (unsigned long long)d->differ, (unsigned long long)d->compared,
          (unsigned long long)d->unwritten, (unsigned long long)d->not_a_number,
          (unsigned long long)d->minus_zero, row, column, g, (double)ref_bf16_value(g), w,
          (double)ref_bf16_value(w));
}

/* ---- by the truth ---------------------------------------------------------------- */

static const double largest = 0x1.fep127;

/* What a rounding to bf16 of a number up to `magnitude` can change. */
static double rounding(double magnitude) {
  return magnitude * 0x1p-8 + 0x1p-134;
}

/* Additions on the way of a product to the result. */
static double additions(const struct ref_up_proj *c) {
  struct ref_up_proj_order o = ref_up_proj_order(c->rows, c->shard, c->latent_dim);
  return (double)c->latent_dim / o.block + 5 + o.block / 32.0;
}

/* largest_rounded: the larger of the two numbers that are rounded to bf16 on the way. */
static void judge_one(double y, double largest_rounded, double bound, uint16_t got,
                      struct bwt_up_proj_judgement *j) {
  double error = fabs((double)ref_bf16_value(got) - y);
  double step = ldexp(1, ilogb(fmax(largest_rounded, 0x1p-126)) - 7);
  j->judged++;
  if (!(error <= bound)) /* a NaN, too */
    j->out_of_bounds++;
  if (error / step > j->worst_error)
    j->worst_error = error / step;
}

bool bwt_up_proj_judge(const struct ref_up_proj *c, const uint16_t *got, uint64_t got_stride,
                       struct bwt_up_proj_judgement *j, struct bwt_text *why) {
  size_t count = (size_t)c->rows * c->shard;
  double *sum = malloc(count * sizeof *sum + 1), *magnitude = malloc(count * sizeof *sum + 1);
  bool ok = sum != NULL && magnitude != NULL && ref_up_proj_truth(c, sum, magnitude);
  memset(j, 0, sizeof *j);
  for (uint32_t m = 0; ok && m < c->rows; m++)
    for (uint32_t n = 0; n < c->shard; n++) {
      size_t i = (size_t)m * c->shard + n;
      double shared = ref_bf16_value(c->shared[m * c->shared_stride + n]);
      double y = sum[i] + shared;
      double noise = magnitude[i] * (additions(c) + 1) * 0x1p-24 + additions(c) * 0x1p-149;
      if (!isfinite(y) || magnitude[i] > largest || fabs(sum[i]) + fabs(shared) > largest)
        continue;
      double at_sum = rounding(fabs(sum[i]) + noise);
      double bound = noise + at_sum + rounding(fabs(y) + noise + at_sum) * (1 + 0x1p-8);
      uint64_t before = j->out_of_bounds;
      judge_one(y, fmax(fabs(y), fabs(sum[i])), bound, got[m * got_stride + n], j);
      if (before == 0 && j->out_of_bounds > 0)
        bwt_say(why, "row %u, column %u is %g, too far from %g (at most %g)\n", m, n,
                (double)ref_bf16_value(got[m * got_stride + n]), y, bound);
    }
  if (!ok)
    bwt_say(why, "no memory for the truth\n");
  free(sum);
  free(magnitude);
  return ok;
}
