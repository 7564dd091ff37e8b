/* SPDX-License-Identifier: Apache-2.0
 *
 * wo_a's reference, judged: its single instruction by hand-worked sums, its fast way by
 * its slow one, its result by the truth in double, its treatment of NaN and infinity by
 * the contract.
 */
#include "harness/compare.h"
#include "harness/random.h"
#include "harness/suite.h"
#include "harness/wo_a_inputs.h"
#include "ref/formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- one instruction ----------------------------------------------------------- */

struct step {
  uint8_t a[32], b[32], sa, sb;
  float c;
};

static float mma(const struct step *s) {
  return ref_f32_from_bits(ref_mma_mxf8_k32(s->a, s->b, s->sa, s->sb, ref_f32_bits(s->c)));
}

START_TEST(mma_plain_sums) {
  struct step s = {.sa = 127, .sb = 127};
  ck_assert_uint_eq(ref_f32_bits(mma(&s)), 0);
  s.a[0] = 0x38, s.b[0] = 0x38; /* 1 * 1 */
  ck_assert_float_eq(mma(&s), 1);
  s.sa = 130, s.sb = 120; /* 2^3 * 2^-7 */
  ck_assert_float_eq(mma(&s), 0x1p-4f);
  s.a[31] = 0xc0, s.b[31] = 0x39; /* -2 * 1.125 */
  ck_assert_float_eq(mma(&s), -1.25f * 0x1p-4f);
  s.c = 0.5f;
  ck_assert_float_eq(mma(&s), 0.5f - 1.25f * 0x1p-4f);
  memset(s.a, 0x7e, sizeof s.a); /* 32 * 448 * 448 */
  memset(s.b, 0x7e, sizeof s.b);
  s.sa = s.sb = 127, s.c = 0;
  ck_assert_float_eq(mma(&s), 32 * 448.0f * 448.0f);
}
END_TEST

/* What lies more than 25 bits below the largest exponent is cut from each term before
 * the sum: two halves of the last bit do not make one. */
START_TEST(mma_aligns_and_truncates) {
  struct step s = {.sa = 127, .sb = 127, .c = 0};
  s.a[0] = 0x78, s.b[0] = 0x78; /* 2^16, so the last bit kept is 2^-9 */
  s.a[1] = 0x01, s.b[1] = 0x38; /* 2^-9: kept by the sum */
  s.a[2] = 0xf8, s.b[2] = 0x78; /* -2^16 */
  ck_assert_float_eq(mma(&s), 0x1p-9f);
  s.a[1] = 0x01, s.b[1] = 0x30; /* 2^-10: cut */
  s.a[3] = 0x01, s.b[3] = 0x30; /* twice */
  ck_assert_float_eq(mma(&s), 0);
  s.a[1] = 0x81, s.a[3] = 0x81; /* toward zero from below too */
  ck_assert_float_eq(mma(&s), 0);
  s.a[1] = s.a[3] = 0;
  s.c = -0x1.8p-9f; /* so is c */
  ck_assert_float_eq(mma(&s), -0x1p-9f);
}
END_TEST

/* The result is truncated too, not rounded. */
START_TEST(mma_result_toward_zero) {
  struct step s = {.sa = 127, .sb = 127, .c = 0x1.fffffep0f};
  s.a[0] = 0x38, s.b[0] = 0x01; /* 2^-9 */
  ck_assert_float_eq(mma(&s), (float)(0x1.fffffep0 + 0x1p-9 - 0x1p-23));
  s.c = -s.c, s.a[0] = 0xb8;
  ck_assert_float_eq(mma(&s), -(float)(0x1.fffffep0 + 0x1p-9 - 0x1p-23));
}
END_TEST

START_TEST(mma_denormals_and_overflow) {
  struct step s = {.sa = 0, .sb = 127, .c = 0};
  s.a[0] = 0x38, s.b[0] = 0x38; /* 2^-127 */
  ck_assert_float_eq(mma(&s), 0x1p-127f);
  s.sb = 105; /* 2^-149, the least f32 */
  ck_assert_float_eq(mma(&s), 0x1p-149f);
  s.sb = 104;
  ck_assert_float_eq(mma(&s), 0);
  s.sa = s.sb = 254;
  ck_assert(isinf(mma(&s)) && mma(&s) > 0);
  s.a[0] = 0xb8;
  ck_assert(isinf(mma(&s)) && mma(&s) < 0);
}
END_TEST

/* A c of zero is aligned to as if it were 2^-133: 25 bits below that are kept. */
START_TEST(mma_zero_c_counts_as_133) {
  struct step s = {.sa = 0, .sb = 90, .c = 0}; /* unit scale: 2^-127 * 2^-37 = 2^-164 */
  for (int k = 0; k < 6; k++)
    s.a[k] = 0x60, s.b[k] = 0x60;         /* 2^5 * 2^5 * 2^-164 = 2^-154, six times */
  ck_assert_float_eq(mma(&s), 0);         /* 6 * 2^-154 < 2^-149, the least f32 */
  s.sb = 94;                              /* 16 times as much: 6 * 2^-150, all below 2^-149 */
  ck_assert_float_eq(mma(&s), 0x3p-149f); /* would be 0 if aligned to 2^-126, or less kept */
  s.c = -0.0f;
  ck_assert_float_eq(mma(&s), 0x3p-149f);
  for (int k = 0; k < 32; k++)
    s.a[k] = 0x60, s.b[k] = 0x60;
  s.sb = 85; /* 32 * 2^-159: each a bit below the last one kept, 2^-158 */
  ck_assert_float_eq(mma(&s), 0);
  s.sb = 0;
  ck_assert_float_eq(mma(&s), 0);
}
END_TEST

/* A product with a zero factor does not raise what the others are aligned to. */
START_TEST(mma_zero_products_take_no_part) {
  struct step s = {.sa = 254, .sb = 200, .c = 0x1.fffffep-60f};
  s.b[0] = 0x7e; /* 0 * 448 under 2^200 */
  ck_assert_float_eq(mma(&s), 0x1.fffffep-60f);
  s.a[1] = 0x7e;
  ck_assert_float_eq(mma(&s), 0x1.fffffep-60f);
}
END_TEST

START_TEST(mma_nan) {
  struct step s = {.sa = 127, .sb = 127, .c = 0};
  s.a[5] = 0xff;
  ck_assert_uint_eq(ref_f32_bits(mma(&s)), REF_F32_NAN);
  s.a[5] = 0, s.b[7] = 0x7f;
  ck_assert_uint_eq(ref_f32_bits(mma(&s)), REF_F32_NAN);
  s.b[7] = 0, s.sa = 255;
  ck_assert_uint_eq(ref_f32_bits(mma(&s)), REF_F32_NAN);
  s.sa = 127, s.sb = 255;
  ck_assert_uint_eq(ref_f32_bits(mma(&s)), REF_F32_NAN);
  s.sb = 127, s.c = NAN;
  ck_assert_uint_eq(ref_f32_bits(mma(&s)), REF_F32_NAN);
  s.c = -INFINITY;
  ck_assert(isinf(mma(&s)) && mma(&s) < 0);
}
END_TEST

/* An exact sum that needs no truncation is the double sum, truncated. */
START_TEST(mma_against_double) {
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(bwt_run_seed(), 3));
  for (int round = 0; round < 20000; round++) {
    struct step s;
    double exact = s.c = (float)(int)bwt_random_below(&r, 1 << 20);
    s.sa = (uint8_t)(120 + bwt_random_below(&r, 14));
    s.sb = (uint8_t)(254 - s.sa);
    for (int k = 0; k < 32; k++) {
      s.a[k] = (uint8_t)(0x38 + bwt_random_below(&r, 32)) | (uint8_t)(bwt_random_below(&r, 2) << 7);
      s.b[k] = (uint8_t)(0x38 + bwt_random_below(&r, 32)) | (uint8_t)(bwt_random_below(&r, 2) << 7);
      exact += ref_e4m3_value(s.a[k]) * ref_e4m3_value(s.b[k]);
    }
    float nearest = (float)exact;
    if (fabs((double)nearest) > fabs(exact))
      nearest = nextafterf(nearest, 0);
    float got = mma(&s);
    BWT_REQUIRE(got == nearest, "%a, not %a", (double)got, (double)nearest);
  }
}
END_TEST

/* ---- the whole ------------------------------------------------------------------- */

static struct bwt_wo_a_inputs make(enum bwt_wo_a_kind kind, uint32_t t, uint32_t g, uint32_t h,
                                   uint32_t rank) {
  struct bwt_wo_a_inputs in;
  uint64_t seed = bwt_mix(bwt_run_seed(), (uint64_t)kind << 32 | t << 16 | g << 8 | h);
  ck_assert(bwt_wo_a_inputs_make(&in, kind, t, g, h, rank, 8, seed));
  return in;
}

/* The model again, one instruction after the other, no shortcuts. */
static uint16_t slow_y(const struct ref_wo_a *c, const uint8_t *codes, const uint8_t *scales,
                       uint32_t t, uint32_t n) {
  float sum = 0;
  uint32_t g = n / c->rank;
  for (uint32_t h = 0; h < c->heads; h++) {
    size_t head = ((size_t)t * c->groups + g) * c->heads + h;
    uint32_t partial = 0;
    for (uint32_t b = 0; b < 16; b++)
      partial =
          ref_mma_mxf8_k32(codes + head * 512 + (size_t)b * 32,
                           c->weight + ((size_t)n * c->heads + h) * 512 + (size_t)b * 32,
                           scales[head * 16 + b], ref_wo_a_weight_scale(c, n, h * 16 + b), partial);
    sum += ref_f32_from_bits(partial);
  }
  return ref_bf16_from_f32(sum);
}

START_TEST(fast_way_equals_slow_way) {
  struct bwt_wo_a_inputs in = make((enum bwt_wo_a_kind)_i, 3, 2, 2, 128);
  const struct ref_wo_a *c = &in.ref;
  size_t elements = (size_t)c->tokens * c->groups * c->heads * 512;
  uint8_t *codes = malloc(elements), *scales = malloc(elements / 32);
  uint16_t *y = malloc(ref_wo_a_q_size(c) * sizeof *y);
  ref_wo_a_quantize(c, codes, scales);
  ck_assert(ref_wo_a_model_y(c, y));
  for (uint32_t t = 0; t < c->tokens; t++)
    for (uint32_t n = 0; n < c->groups * c->rank; n++) {
      uint16_t slow = slow_y(c, codes, scales, t, n), fast = y[t * c->groups * c->rank + n];
      BWT_REQUIRE(slow == fast, "token %u, column %u: 0x%04X, slowly 0x%04X", t, n, fast, slow);
    }
  free(codes);
  free(scales);
  free(y);
  bwt_wo_a_inputs_free(&in);
}
END_TEST

/* Runs the model into outputs filled with the complement of zero. */
static void model(const struct ref_wo_a *c, uint8_t **q, uint8_t **qs) {
  *q = malloc(ref_wo_a_q_size(c));
  *qs = malloc(ref_wo_a_qs_size(c));
  memset(*qs, 0xff, ref_wo_a_qs_size(c));
  ck_assert(ref_wo_a_model(c, *q, *qs));
}

static void judge_case(enum bwt_wo_a_kind kind, uint32_t t, uint32_t g, uint32_t h, uint32_t rank) {
  struct bwt_wo_a_inputs in = make(kind, t, g, h, rank);
  struct bwt_truth truth;
  struct bwt_judgement j;
  struct bwt_text why = {0};
  uint8_t *q, *qs;
  model(&in.ref, &q, &qs);
  ck_assert(bwt_truth_make(&truth, &in.ref));
  bwt_judge(&in.ref, &truth, q, qs, &j, &why);
  ck_assert_msg(j.out_of_bounds == 0, "kind %s, T=%u G=%u H=%u R=%u: %llu out of bounds\n%s",
                bwt_wo_a_kind_name(kind), t, g, h, rank, (unsigned long long)j.out_of_bounds,
                why.chars);
  ck_assert_msg(j.worst_error < 0.57, "worst error %g steps", j.worst_error);
  bwt_truth_free(&truth);
  free(q);
  free(qs);
  bwt_wo_a_inputs_free(&in);
}

START_TEST(model_within_bounds_of_truth) {
  static const uint32_t heads[] = {1, 2, 3, 4, 8};
  for (size_t i = 0; i < BWT_COUNT(heads); i++)
    judge_case((enum bwt_wo_a_kind)_i, 5, 2, heads[i], 128);
}
END_TEST

START_TEST(model_size_within_bounds_of_truth) {
  judge_case(_i == 0 ? BWT_WO_A_normal : BWT_WO_A_mixed, bwt_full() ? 96 : 24, 2, 8, 1024);
}
END_TEST

/* The judge itself: what is beyond its bounds it must see. */
START_TEST(judge_sees_wrong_bytes) {
  struct bwt_wo_a_inputs in = make(BWT_WO_A_normal, 4, 1, 2, 128);
  struct bwt_truth truth;
  struct bwt_judgement j;
  struct bwt_text why = {0};
  uint8_t *q, *qs;
  model(&in.ref, &q, &qs);
  ck_assert(bwt_truth_make(&truth, &in.ref));
  uint8_t kept = q[200];
  q[200] = (uint8_t)(kept ^ 0x08); /* off by more than one code */
  bwt_judge(&in.ref, &truth, q, qs, &j, &why);
  ck_assert_uint_eq(j.out_of_bounds, 1);
  q[200] = 0x7f;
  bwt_judge(&in.ref, &truth, q, qs, &j, &why);
  ck_assert_uint_eq(j.out_of_bounds, 1);
  q[200] = kept;
  qs[ref_wo_a_qs_offset(2, 64)] += 2; /* by one would do where amax is near 448*2^k */
  bwt_judge(&in.ref, &truth, q, qs, &j, &why);
  ck_assert_uint_eq(j.out_of_bounds, 1);
  bwt_truth_free(&truth);
  free(q);
  free(qs);
  bwt_wo_a_inputs_free(&in);
}
END_TEST

/* ---- special values ---------------------------------------------------------------- */

/* A NaN or infinity in x takes every output of its token and group, and nothing else:
 * all other bytes are those of the same case with that element 0. */
START_TEST(odd_input_takes_token_and_group) {
  enum bwt_wo_a_kind kind = (enum bwt_wo_a_kind)_i;
  struct bwt_wo_a_inputs in = make(kind, 5, 3, 2, 128);
  const struct ref_wo_a *c = &in.ref;
  uint8_t *q, *qs, *clean_q, *clean_qs;
  model(c, &q, &qs);
  for (size_t i = 0; i < in.x_size / 2; i++)
    if ((in.x[i] & 0x7f80) == 0x7f80 && in.x[i] != 0xffff)
      in.x[i] = 0;
  model(c, &clean_q, &clean_qs);
  uint32_t outputs = c->groups * c->rank;
  for (uint32_t t = 0; t < c->tokens; t++) {
    for (uint32_t n = 0; n < outputs; n++) {
      bool odd = t == in.odd_token && n / c->rank == in.odd_group;
      size_t s = ref_wo_a_qs_offset(t, n);
      BWT_SAME(q[t * outputs + n], odd ? 0x7f : clean_q[t * outputs + n]);
      BWT_SAME(qs[s], odd ? 0xff : clean_qs[s]);
      BWT_REQUIRE(odd || (q[t * outputs + n] & 0x7f) != 0x7f, "token %u, column %u: NaN", t, n);
    }
  }
  free(q);
  free(qs);
  free(clean_q);
  free(clean_qs);
  bwt_wo_a_inputs_free(&in);
}
END_TEST

/* A NaN in the weights takes its row, in every token; the block's scale is that of the
 * other rows. */
START_TEST(odd_weight_takes_row) {
  struct bwt_wo_a_inputs in = make((enum bwt_wo_a_kind)_i, 4, 2, 2, 128);
  const struct ref_wo_a *c = &in.ref;
  uint8_t *q, *qs;
  model(c, &q, &qs);
  for (uint32_t t = 0; t < c->tokens; t++)
    for (uint32_t n = 0; n < c->groups * c->rank; n++) {
      bool odd = n == in.odd_row;
      BWT_SAME((q[t * c->groups * c->rank + n] & 0x7f) == 0x7f, odd);
      BWT_REQUIRE(qs[ref_wo_a_qs_offset(t, n)] != 0xff, "token %u, column %u: scale NaN", t, n);
    }
  free(q);
  free(qs);
  bwt_wo_a_inputs_free(&in);
}
END_TEST

START_TEST(zero_gives_zero) {
  struct bwt_wo_a_inputs in = make(BWT_WO_A_zero, 3, 1, 2, 128);
  uint8_t *q, *qs;
  model(&in.ref, &q, &qs);
  for (size_t i = 0; i < ref_wo_a_q_size(&in.ref); i++)
    BWT_SAME(q[i] & 0x7f, 0);
  for (size_t i = 0; i < ref_wo_a_qs_size(&in.ref); i++)
    BWT_SAME(qs[i], 0);
  free(q);
  free(qs);
  bwt_wo_a_inputs_free(&in);
}
END_TEST

/* Each hard value is really there: both scales around 448*2^k among the outputs, ties,
 * denormal results and the scale 0. */
START_TEST(hard_values_are_reached) {
  struct bwt_wo_a_inputs in = make(BWT_WO_A_edges, 4, 1, 1, 256);
  uint16_t *y = malloc(ref_wo_a_q_size(&in.ref) * sizeof *y);
  ck_assert(ref_wo_a_model_y(&in.ref, y));
  int at_edge = 0, above = 0, ties = 0;
  for (uint32_t i = 0; i < ref_wo_a_q_size(&in.ref); i += 32) {
    float amax = 0;
    for (uint32_t j = 0; j < 32; j++)
      amax = fmaxf(amax, fabsf(ref_bf16_value(y[i + j])));
    int exponent;
    double fraction = frexp((double)amax, &exponent);
    at_edge += fraction == 448.0 / 512;
    above += fraction == 450.0 / 512;
    for (uint32_t j = 0; j < 32; j++) {
      double v = ldexp((double)fabsf(ref_bf16_value(y[i + j])), 9 - exponent);
      uint8_t code = ref_e4m3_from_f64(v);
      double below = (ref_e4m3_value(code) + ref_e4m3_value((uint8_t)(code - (code > 0)))) / 2;
      double over = (ref_e4m3_value(code) + ref_e4m3_value((uint8_t)(code + 1))) / 2;
      ties += v == below || v == over;
    }
  }
  ck_assert_msg(at_edge > 0 && above > 0 && ties > 50, "%d at 448, %d above, %d ties", at_edge,
                above, ties);
  free(y);
  bwt_wo_a_inputs_free(&in);

  in = make(BWT_WO_A_tiny, 4, 1, 1, 256);
  uint8_t *q, *qs;
  model(&in.ref, &q, &qs);
  int floor = 0, low = 0;
  for (uint32_t t = 0; t < 4; t++)
    for (uint32_t n = 0; n < 256; n += 32) {
      floor += qs[ref_wo_a_qs_offset(t, n)] == 0;
      low += qs[ref_wo_a_qs_offset(t, n)] != 0;
    }
  ck_assert_msg(floor > 0 && low > 0, "%d blocks with scale 0, %d with more", floor, low);
  free(q);
  free(qs);
  bwt_wo_a_inputs_free(&in);
}
END_TEST

/* The order of the heads decides the result of the kind that is made for it. */
START_TEST(order_of_heads_shows) {
  struct bwt_wo_a_inputs in = make(BWT_WO_A_cancel, 2, 1, 4, 128);
  const struct ref_wo_a *c = &in.ref;
  uint8_t *q, *qs, codes[2 * 4 * 512], scales[2 * 4 * 16];
  model(c, &q, &qs);
  ref_wo_a_quantize(c, codes, scales);
  int differ = 0;
  for (uint32_t n = 0; n < c->rank; n++) {
    float p[4];
    for (uint32_t h = 0; h < 4; h++) {
      uint32_t partial = 0;
      for (uint32_t b = 0; b < 16; b++)
        partial =
            ref_mma_mxf8_k32(codes + (size_t)h * 512 + (size_t)b * 32,
                             c->weight + ((size_t)n * 4 + h) * 512 + (size_t)b * 32,
                             scales[h * 16 + b], ref_wo_a_weight_scale(c, n, h * 16 + b), partial);
      p[h] = ref_f32_from_bits(partial);
    }
    BWT_REQUIRE(p[0] == -p[2], "row %u: %a and %a", n, (double)p[0], (double)p[2]);
    float right = p[0] + p[1], wrong = p[0] + p[2];
    differ += ref_bf16_from_f32((right + p[2]) + p[3]) != ref_bf16_from_f32((wrong + p[1]) + p[3]);
  }
  ck_assert_int_gt(differ, 100);
  free(q);
  free(qs);
  bwt_wo_a_inputs_free(&in);
}
END_TEST

/* ---- rotation ------------------------------------------------------------------------ */

/* Turning a vector forward in double and giving it to the reference brings it back. */
START_TEST(rotation_is_undone) {
  enum { TOKENS = 1 };
  struct bwt_wo_a_inputs in = make(BWT_WO_A_normal, TOKENS, 1, 1, 128);
  in.positions[0] = 5;
  double want[64];
  for (uint32_t i = 0; i < 32; i++) {
    double c = (double)in.rope[5 * 64 + i], s = (double)in.rope[5 * 64 + 32 + i];
    double even = 300 + i, odd = -400 - (double)i; /* one scale for all */
    want[2 * i] = even;
    want[2 * i + 1] = odd;
    in.x[448 + 2 * i] = ref_bf16_from_f64(even * c - odd * s);
    in.x[448 + 2 * i + 1] = ref_bf16_from_f64(even * s + odd * c);
  }
  uint8_t codes[512], scales[16];
  ref_wo_a_quantize(&in.ref, codes, scales);
  for (uint32_t i = 0; i < 64; i++) {
    double got = ref_e4m3_value(codes[448 + i]) * ref_ue8m0_value(scales[14 + i / 32]);
    ck_assert_msg(fabs(got - want[i]) <= 0.0625 * fabs(want[i]) + 4, "element %u: %g, not %g", i,
                  got, want[i]);
  }
  bwt_wo_a_inputs_free(&in);
}
END_TEST

/* ---- where scales lie ------------------------------------------------------------------ */

START_TEST(scale_offsets_fill_the_tiles) {
  enum { COLUMNS = 384 };
  uint8_t seen[128 * COLUMNS / 32] = {0};
  for (uint32_t t = 0; t < 128; t++)
    for (uint32_t n = 0; n < COLUMNS; n += 32) {
      size_t at = ref_wo_a_qs_offset(t, n);
      BWT_REQUIRE(at < sizeof seen, "offset %zu", at);
      BWT_SAME(seen[at]++, 0);
      BWT_SAME(ref_wo_a_qs_offset(t, n + 31), at);
    }
  ck_assert_uint_eq(ref_wo_a_qs_offset(33, 128 + 64), 512 + 16 + 4 + 2);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("mma", mma_plain_sums, 10),
      BWT_TEST("mma", mma_aligns_and_truncates, 10),
      BWT_TEST("mma", mma_result_toward_zero, 10),
      BWT_TEST("mma", mma_zero_c_counts_as_133, 10),
      BWT_TEST("mma", mma_zero_products_take_no_part, 10),
      BWT_TEST("mma", mma_denormals_and_overflow, 10),
      BWT_TEST("mma", mma_nan, 10),
      BWT_TEST("mma", mma_against_double, 10),
      BWT_LOOP("model", fast_way_equals_slow_way, 0, BWT_WO_A_KIND_COUNT, 30),
      BWT_LOOP("truth", model_within_bounds_of_truth, 0, BWT_WO_A_overflow, 60),
      BWT_LOOP("truth", model_within_bounds_of_truth, BWT_WO_A_edges, BWT_WO_A_edges + 1, 60),
      BWT_LOOP("truth", model_size_within_bounds_of_truth, 0, 2, 120),
      BWT_TEST("truth", judge_sees_wrong_bytes, 10),
      BWT_LOOP("special", odd_input_takes_token_and_group, BWT_WO_A_nan, BWT_WO_A_minus_inf + 1,
               10),
      BWT_LOOP("special", odd_weight_takes_row, BWT_WO_A_weight_nan, BWT_WO_A_scale_nan + 1, 10),
      BWT_TEST("special", zero_gives_zero, 10),
      BWT_TEST("special", hard_values_are_reached, 10),
      BWT_TEST("special", order_of_heads_shows, 10),
      BWT_TEST("rotation", rotation_is_undone, 10),
      BWT_TEST("scales", scale_offsets_fill_the_tiles, 10),
  };
  return bwt_suite_main("ref", tests, BWT_COUNT(tests));
}
