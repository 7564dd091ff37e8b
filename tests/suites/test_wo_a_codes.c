/* SPDX-License-Identifier: Apache-2.0
 *
 * wo_a: the codes of the activations.  Each weight row has a single 1, so that the output of a
 * row is one element of x, quantized: all sums are exact, and q and qs must be the model's bit
 * for bit, on Hopper too, whichever way the scales went.  The elements go through all signs and
 * fractions of bf16 and all exponents from that of their block's largest to where codes are
 * zero (all of them from 96 tokens on); the largest go through the ends of the range and have
 * fractions on both sides of that of 448.
 */
#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/suite.h"
#include "harness/verify_wo_a.h"

#include <stdlib.h>
#include <string.h>

enum {
  RANK = 512, /* a row for each element of a head */
  BLOCK = REF_WO_A_BLOCK,
  E4M3_ONE = 0x38,
  EXPONENTS = 23, /* below that of the largest, where codes are surely zero */
  PATTERNS = EXPONENTS * 256
};

/* Exponent fields of the largest elements, by token.  The second lot sends a launch the long
 * way; 93 is that of 1e-10, 149 the last whose scale the kernel applies in one step. */
static const uint16_t tops[][8] = {{60, 92, 93, 94, 127, 149, 150, 226},
                                   {1, 93, 126, 148, 149, 150, 253, 254}};
/* Their fractions: 0x60 makes 448 * 2^k. */
static const uint16_t fractions[] = {0x60, 0x61, 0x7f, 0x00};

static const struct shape {
  uint32_t tokens;
  bool always; /* also without BW_FULL */
} shapes[] = {{8, true}, {13, true}, {24, false}, {37, false}, {96, true}, {128, false}};

static void fill_x(struct bwt_wo_a_inputs *in, size_t lot, uint32_t start) {
  for (uint32_t t = 0; t < in->ref.tokens; t++)
    for (uint32_t d = 0; d < REF_WO_A_HEAD; d++) {
      uint32_t block = t / 8 * REF_WO_A_BLOCKS + d / BLOCK;
      uint16_t top = tops[lot][t % 8], fraction = fractions[block % BWT_COUNT(fractions)];
      uint16_t largest = (uint16_t)(top << 7 | fraction);
      uint32_t n = (start + block * BLOCK + d % BLOCK) % PATTERNS, below = n / 256;
      uint16_t value = (uint16_t)((top > below ? top - below : 0) << 7 | (n & 0x7f));
      if (d % BLOCK == block % BLOCK || value > largest)
        value = largest;
      in->x[t * in->ref.token_stride + d] = (uint16_t)(value | (n & 0x80) << 8);
    }
}

static void set_weights(struct bwt_wo_a_inputs *in) {
  memset(in->weight, 0, in->weight_size);
  for (uint32_t n = 0; n < RANK; n++)
    in->weight[n * REF_WO_A_HEAD + n] = E4M3_ONE;
  memset(in->weight_scale, 127, in->weight_scale_size);
}

static void try_lot(struct bwt_wo_a_run *run, size_t lot, uint32_t start) {
  struct bwt_wo_a_result result;
  bwt_wo_a_result_start(&result, run->session, &run->c);
  fill_x(&run->inputs, lot, start);
  ck_assert(ref_wo_a_model(&run->inputs.ref, run->want_q, run->want_qs));
  ck_assert_msg(bwt_buffer_write(&run->x, run->inputs.x, &result.why), "%s", result.why.chars);
  ck_assert_msg(bwt_wo_a_run_poison(run, &result), "%s", result.why.chars);
  ck_assert_msg(bw_wo_a_launch(run->plan, &run->args, NULL) == BW_OK, "%s", bw_last_error());
  CUresult error = run->session->driver.CtxSynchronize();
  if (error != CUDA_SUCCESS)
    bwt_wo_a_fault(&result, run->session, error);
  ck_assert_msg(error == CUDA_SUCCESS, "%s", result.why.chars);
  bwt_wo_a_run_check(run, false, &result);
  ck_assert_msg(result.failures == 0, "T=%u, lot %zu from %u: %s", run->c.tokens, lot, start,
                result.why.chars);
}

static void try_shape(const char *arch, const struct shape *s) {
  if (!s->always && !bwt_full() && !bwt_on_gpu())
    return;
  bw_bundle *bundle;
  struct bwt_session session;
  struct bwt_text why = {0};
  struct bwt_wo_a_run run;
  struct bwt_wo_a_result result;
  struct bwt_random r;
  setenv("EMU_ARCH", arch, 1);
  ck_assert_msg(bw_bundle_open(NULL, &bundle) == BW_OK, "%s", bw_last_error());
  ck_assert_msg(bwt_session_open(&session, NULL, bundle, &why), "%s", why.chars);
  struct bwt_wo_a_case c = bwt_wo_a_case_for(s->tokens, 1, 1, RANK, bwt_run_seed());
  c.kind = BWT_WO_A_normal;
  bwt_wo_a_result_start(&result, &session, &c);
  ck_assert_msg(bwt_wo_a_run_open(&run, &session, &c, &result), "%s", result.why.chars);
  set_weights(&run.inputs);
  ck_assert(bwt_buffer_write(&run.weight, run.inputs.weight, &result.why));
  ck_assert(bwt_buffer_write(&run.weight_scale, run.inputs.weight_scale, &result.why));
  bwt_random_seed(&r, bwt_mix(bwt_run_seed(), s->tokens));
  for (size_t lot = 0; lot < BWT_COUNT(tops); lot++)
    try_lot(&run, lot, bwt_random_below(&r, PATTERNS));
  bwt_wo_a_run_close(&run);
  bwt_session_close(&session);
  bw_bundle_close(bundle);
}

START_TEST(blackwell_or_gpu) {
  try_shape("sm_100", &shapes[_i]);
}
END_TEST

START_TEST(hopper) {
  if (bwt_on_gpu())
    BWT_SKIP("a GPU runs one architecture");
  try_shape("sm_90", &shapes[_i]);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("codes", blackwell_or_gpu, 0, BWT_COUNT(shapes), 240),
      BWT_LOOP("codes", hopper, 0, BWT_COUNT(shapes), 240),
  };
  return bwt_suite_main("wo_a_codes", tests, BWT_COUNT(tests));
}
