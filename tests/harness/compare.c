/* SPDX-License-Identifier: Apache-2.0
 *
 * Element-by-element comparison of wo_a's outputs; see compare.h.
 */
#include "harness/compare.h"

#include "ref/formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static bool is_nan(uint8_t code) {
  return (code & 0x7f) == REF_E4M3_NAN;
}

static bool is_complement(uint8_t a, uint8_t b) {
  return (a ^ b) == 0xff;
}

/* Codes in the order of their values, -0 and +0 one apart. */
static int rank_of(uint8_t code) {
  int magnitude = code & 0x7f;
  return code & 0x80 ? -1 - magnitude : magnitude;
}

static int distance(uint8_t a, uint8_t b) {
  return abs(rank_of(a) - rank_of(b));
}

/* ---- bit by bit -------------------------------------------------------------- */

struct place {
  uint32_t token, column;
};

static void say_place(struct bwt_text *why, const char *what, const struct ref_wo_a *c,
                      struct place p, const uint8_t *got_q, const uint8_t *got_qs,
                      const uint8_t *want_q, const uint8_t *want_qs) {
  size_t i = (size_t)p.token * c->groups * c->rank + p.column;
  size_t s = ref_wo_a_qs_offset(p.token, p.column);
  bwt_say(why,
          "  %s: token %u, column %u (group %u, row %u): q 0x%02X (%g), expected 0x%02X (%g); "
          "qs 0x%02X, expected 0x%02X\n",
          what, p.token, p.column, p.column / c->rank, p.column % c->rank, got_q[i],
          ref_e4m3_value(got_q[i]), want_q[i], ref_e4m3_value(want_q[i]), got_qs[s], want_qs[s]);
}

/* Rows of q that are those of another token: a shifted row index is easily told. */
static void say_moved_row(struct bwt_text *why, const struct ref_wo_a *c, uint32_t token,
                          const uint8_t *got_q, const uint8_t *want_q) {
  size_t row = (size_t)c->groups * c->rank;
  for (uint32_t t = 0; t < c->tokens; t++)
    if (t != token && memcmp(got_q + token * row, want_q + t * row, row) == 0) {
      bwt_say(why, "  q of token %u holds what belongs to token %u\n", token, t);
      return;
    }
}

static void compare_q(const struct ref_wo_a *c, const uint8_t *got_q, const uint8_t *got_qs,
                      const uint8_t *want_q, const uint8_t *want_qs, struct bwt_difference *d,
                      struct bwt_text *why) {
  struct place nan_at = {0}, worst_at = {0};
  int worst = -1;
  uint32_t outputs = c->groups * c->rank;
  d->compared = (uint64_t)c->tokens * outputs;
  for (uint32_t t = 0; t < c->tokens; t++) {
    for (uint32_t n = 0; n < outputs; n++) {
      size_t i = (size_t)t * outputs + n;
      if (got_q[i] == want_q[i])
        continue;
      struct place here = {t, n};
      d->q++;
      d->unwritten += is_complement(got_q[i], want_q[i]);
      if (is_nan(got_q[i]) != is_nan(want_q[i])) {
        if (d->not_a_number++ == 0)
          nan_at = here;
      } else if (distance(got_q[i], want_q[i]) > worst) {
        worst = distance(got_q[i], want_q[i]);
        worst_at = here;
      }
      size_t s = ref_wo_a_qs_offset(t, n);
      if (got_qs[s] == want_qs[s] && distance(got_q[i], want_q[i]) > d->codes)
        d->codes = distance(got_q[i], want_q[i]);
    }
  }
  if (d->q == 0)
    return;
  bwt_say(why, "q: %llu of %llu bytes differ\n", (unsigned long long)d->q,
          (unsigned long long)d->compared);
  if (d->not_a_number > 0) {
    bwt_say(why, "  %llu of them NaN on one side only\n", (unsigned long long)d->not_a_number);
    say_place(why, "first NaN", c, nan_at, got_q, got_qs, want_q, want_qs);
  }
  if (worst >= 0) {
    say_place(why, "worst", c, worst_at, got_q, got_qs, want_q, want_qs);
    say_moved_row(why, c, worst_at.token, got_q, want_q);
  }
}

static void compare_qs(const struct ref_wo_a *c, const uint8_t *got_qs, const uint8_t *want_qs,
                       struct bwt_difference *d, struct bwt_text *why) {
  struct place first = {0}, first_padding = {0};
  for (uint32_t t = 0; t < 128; t++) {
    for (uint32_t n = 0; n < c->groups * c->rank; n += 32) {
      size_t s = ref_wo_a_qs_offset(t, n);
      if (got_qs[s] == want_qs[s])
        continue;
      struct place here = {t, n};
      d->unwritten += is_complement(got_qs[s], want_qs[s]);
      if (t < c->tokens) {
        if (d->qs++ == 0)
          first = here;
      } else if (d->padding++ == 0) {
        first_padding = here;
      }
    }
  }
  if (d->qs > 0) {
    size_t s = ref_wo_a_qs_offset(first.token, first.column);
    bwt_say(why, "qs: %llu bytes differ, first at token %u, column %u: 0x%02X, expected 0x%02X\n",
            (unsigned long long)d->qs, first.token, first.column, got_qs[s], want_qs[s]);
  }
  if (d->padding > 0) {
    size_t s = ref_wo_a_qs_offset(first_padding.token, first_padding.column);
    bwt_say(why, "qs: %llu padding bytes are not 0, first at row %u, column %u: 0x%02X\n",
            (unsigned long long)d->padding, first_padding.token, first_padding.column, got_qs[s]);
  }
}

void bwt_compare_exact(const struct ref_wo_a *c, const uint8_t *got_q, const uint8_t *got_qs,
                       const uint8_t *want_q, const uint8_t *want_qs, struct bwt_difference *d,
                       struct bwt_text *why) {
  memset(d, 0, sizeof *d);
  compare_q(c, got_q, got_qs, want_q, want_qs, d, why);
  compare_qs(c, got_qs, want_qs, d, why);
  if (d->unwritten > 0)
    bwt_say(why, "%llu bytes were never written\n", (unsigned long long)d->unwritten);
}

/* ---- against the truth --------------------------------------------------------- */

bool bwt_truth_make(struct bwt_truth *truth, const struct ref_wo_a *c) {
  size_t count = ref_wo_a_q_size(c);
  uint16_t *rounded = malloc(count * sizeof *rounded + 1);
  truth->y = malloc(count * sizeof *truth->y + 1);
  truth->magnitude = malloc(count * sizeof *truth->magnitude + 1);
  truth->q = malloc(count + 1);
  truth->qs = malloc(ref_wo_a_qs_size(c));
  bool ok = rounded != NULL && truth->y != NULL && truth->magnitude != NULL && truth->q != NULL &&
            truth->qs != NULL && ref_wo_a_truth_y(c, truth->y, truth->magnitude);
  if (ok) {
    for (size_t i = 0; i < count; i++)
      rounded[i] = ref_bf16_from_f64(truth->y[i]);
    ref_wo_a_quantize_y(c, rounded, truth->q, truth->qs);
  } else {
    bwt_truth_free(truth);
  }
  free(rounded);
  return ok;
}

void bwt_truth_free(struct bwt_truth *truth) {
  free(truth->y);
  free(truth->magnitude);
  free(truth->q);
  free(truth->qs);
  memset(truth, 0, sizeof *truth);
}

/* How far an f32 sum may be from the true one.  Each of the 16 instructions a head cuts
 * its running sum to 24 bits, and 33 terms at 25 bits below the largest; in proportion
 * to the sums' magnitude this stays below 2^-20 with a wide margin in practice, while
 * half a bf16 step is 2^-9.  The second term is for sums in f32's denormal range. */
static double sum_tolerance(double magnitude) {
  return magnitude * 0x1p-20 + 0x1p-141;
}

/* Is y so near a point where bf16 rounding flips that its sum's error may cross it? */
static bool near_bf16_tie(double y, double tolerance) {
  return ref_bf16_from_f64(y - tolerance) != ref_bf16_from_f64(y + tolerance);
}

/* Is amax within one bf16 step of 448*2^k for the k that separates scales a and b? */
static bool near_scale_step(double amax, double tolerance, uint8_t a, uint8_t b) {
  int low = a < b ? a : b;
  double edge = ldexp(448, low - 127), step = ldexp(2, low - 127);
  return abs(a - b) == 1 && fabs(amax - edge) <= step + tolerance;
}

/* |result - y| in steps of e4m3 at the result's place. */
static double error_in_steps(double y, uint8_t code, uint8_t scale) {
  double unit = scale == 0 ? ldexp(1, -127) : ref_ue8m0_value(scale);
  int exponent;
  frexp(fmin(fabs(y) / unit, 448), &exponent);
  if (exponent - 1 < -6)
    exponent = -5;
  return fabs(ref_e4m3_value(code) * unit - y) / unit / ldexp(1, exponent - 1 - 3);
}

/* Below this scale y lies among bf16's denormals, whose steps are as coarse as e4m3's, or
 * q is zero by rule: no measure of the sum's quality. */
enum { LEAST_SCALE = 16 };

static void judge_block(const struct ref_wo_a *c, const struct bwt_truth *truth, const uint8_t *q,
                        const uint8_t *qs, uint32_t token, uint32_t column, struct bwt_judgement *j,
                        struct bwt_text *why) {
  size_t at = (size_t)token * c->groups * c->rank + column;
  size_t s = ref_wo_a_qs_offset(token, column);
  double amax = 0, tolerance = 0;
  for (size_t i = at; i < at + 32; i++) {
    if (!(fabs(truth->y[i]) < 0x1p+127))
      return;
    amax = fmax(amax, fabs(truth->y[i]));
    tolerance = fmax(tolerance, sum_tolerance(truth->magnitude[i]));
  }
  if (qs[s] != truth->qs[s]) {
    j->qs++;
    if (!near_scale_step(amax, tolerance, qs[s], truth->qs[s])) {
      if (j->out_of_bounds++ == 0)
        bwt_say(why, "against double: token %u, column %u: qs 0x%02X, expected 0x%02X for %g\n",
                token, column, qs[s], truth->qs[s], amax);
    }
    return;
  }
  for (uint32_t i = 0; i < 32; i++) {
    double y = truth->y[at + i];
    uint8_t got = q[at + i], want = truth->q[at + i];
    if (qs[s] >= LEAST_SCALE)
      j->worst_error = fmax(j->worst_error, error_in_steps(y, got, qs[s]));
    if (got == want)
      continue;
    j->q++;
    if (is_nan(got) || distance(got, want) > 1 ||
        !near_bf16_tie(y, sum_tolerance(truth->magnitude[at + i]))) {
      if (j->out_of_bounds++ == 0)
        bwt_say(why,
                "against double: token %u, column %u: q 0x%02X, expected 0x%02X, for %.9g at "
                "scale 0x%02X\n",
                token, column + i, got, want, y, qs[s]);
    }
  }
}

void bwt_judge(const struct ref_wo_a *c, const struct bwt_truth *truth, const uint8_t *q,
               const uint8_t *qs, struct bwt_judgement *j, struct bwt_text *why) {
  memset(j, 0, sizeof *j);
  for (uint32_t t = 0; t < c->tokens; t++)
    for (uint32_t n = 0; n < c->groups * c->rank; n += 32)
      judge_block(c, truth, q, qs, t, n, j, why);
  uint64_t allowed = ref_wo_a_q_size(c) / 200 + 1;
  if (j->q > allowed) {
    j->out_of_bounds++;
    bwt_say(why, "against double: %llu bytes of q differ, %llu would do\n",
            (unsigned long long)j->q, (unsigned long long)allowed);
  }
}
