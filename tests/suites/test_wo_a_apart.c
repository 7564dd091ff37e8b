/* SPDX-License-Identifier: Apache-2.0
 *
 * wo_a: what is odd in one token touches no other.  The same operands are run with and without
 * a NaN, an infinity or a whole block of NaNs in one token and group: its outputs become NaN,
 * all others keep their bits.  Comparing with a reference does not show this where a kernel
 * may round in more ways than one.
 */
#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/suite.h"
#include "harness/verify_wo_a.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 32, NAN_CODE = 0x7f, NAN_SCALE = 0xff };

static bw_bundle *bundle;
static struct bwt_session session;
static struct bwt_wo_a_result result;

struct outputs {
  uint8_t *q, *qs;
};

static struct outputs launch(struct bwt_wo_a_run *run) {
  struct outputs out = {malloc(run->q.size), malloc(run->qs.size)};
  ck_assert(out.q != NULL && out.qs != NULL);
  ck_assert_msg(bwt_wo_a_run_poison(run, &result), "%s", result.why.chars);
  ck_assert_msg(bw_wo_a_launch(run->plan, &run->args, NULL) == BW_OK, "%s", bw_last_error());
  CUresult error = session.driver.CtxSynchronize();
  if (error != CUDA_SUCCESS)
    bwt_wo_a_fault(&result, &session, error);
  ck_assert_msg(error == CUDA_SUCCESS, "%s", result.why.chars);
  ck_assert(bwt_buffer_read(&run->q, out.q, &result.why) &&
            bwt_buffer_read(&run->qs, out.qs, &result.why));
  return out;
}

static void free_outputs(struct outputs out) {
  free(out.q);
  free(out.qs);
}

/* Of token t and output n. */
static size_t scale_at(uint32_t t, uint32_t n) {
  return (size_t)n / 128 * 512 + t % 32 * 16 + t / 32 * 4 + n % 128 / 32;
}

static void compare(const struct bwt_wo_a_run *run, struct outputs without, struct outputs with,
                    uint32_t odd_token, uint32_t odd_group, const char *what) {
  const struct ref_wo_a *c = &run->inputs.ref;
  uint32_t outputs = c->groups * c->rank;
  for (uint32_t t = 0; t < c->tokens; t++)
    for (uint32_t n = 0; n < outputs; n++) {
      bool odd = t == odd_token && n / c->rank == odd_group;
      size_t at = (size_t)t * outputs + n, scale = scale_at(t, n);
      uint8_t q = odd ? NAN_CODE : without.q[at], qs = odd ? NAN_SCALE : without.qs[scale];
      ck_assert_msg(with.q[at] == q && with.qs[scale] == qs,
                    "T=%u G=%u H=%u %s, in token %u, group %u: token %u, output %u has 0x%02x, "
                    "scale 0x%02x, wanted 0x%02x, 0x%02x",
                    c->tokens, c->groups, c->heads, what, odd_token, odd_group, t, n, with.q[at],
                    with.qs[scale], q, qs);
    }
}

static const struct odd {
  const char *what;
  uint16_t value; /* bf16 */
  uint32_t count; /* elements */
} odds[] = {{"a NaN", 0x7fc1, 1},
            {"+Inf", 0x7f80, 1},
            {"-Inf", 0xff80, 1},
            {"a block of NaNs", 0xffc0, BLOCK}};

static void try_odd(struct bwt_wo_a_run *run, struct outputs without, const struct odd *odd,
                    struct bwt_random *r) {
  const struct ref_wo_a *c = &run->inputs.ref;
  uint32_t token = bwt_random_below(r, c->tokens), group = bwt_random_below(r, c->groups);
  uint32_t head = group * c->heads + bwt_random_below(r, c->heads);
  uint32_t d = bwt_random_below(r, REF_WO_A_HEAD) / odd->count * odd->count;
  uint16_t *x = run->inputs.x + token * c->token_stride + (uint64_t)head * REF_WO_A_HEAD + d;
  uint16_t kept[BLOCK];
  memcpy(kept, x, odd->count * sizeof *x);
  for (uint32_t i = 0; i < odd->count; i++)
    x[i] = odd->value;
  ck_assert(bwt_buffer_write(&run->x, run->inputs.x, &result.why));
  struct outputs with = launch(run);
  compare(run, without, with, token, group, odd->what);
  free_outputs(with);
  memcpy(x, kept, odd->count * sizeof *x);
}

static const struct shape {
  uint32_t tokens, groups, heads;
  bool always; /* also without BW_FULL */
} shapes[] = {{5, 1, 2, true},   {37, 2, 1, true},  {2, 2, 2, false},
              {16, 1, 4, false}, {70, 1, 2, false}, {100, 1, 2, false}};

static void tokens_apart(const char *arch, const struct shape *s) {
  if (!s->always && !bwt_full() && !bwt_on_gpu())
    return;
  struct bwt_text why = {0};
  struct bwt_wo_a_run run;
  struct bwt_random r;
  setenv("EMU_ARCH", arch, 1);
  ck_assert_msg(bw_bundle_open(NULL, &bundle) == BW_OK, "%s", bw_last_error());
  ck_assert_msg(bwt_session_open(&session, NULL, bundle, &why), "%s", why.chars);
  struct bwt_wo_a_case c = bwt_wo_a_case_for(s->tokens, s->groups, s->heads, 128, bwt_run_seed());
  c.kind = BWT_WO_A_normal;
  bwt_wo_a_result_start(&result, &session, &c);
  ck_assert_msg(bwt_wo_a_run_open(&run, &session, &c, &result), "%s", result.why.chars);
  bwt_random_seed(&r, bwt_mix(bwt_run_seed(), s->tokens));
  struct outputs without = launch(&run);
  for (size_t i = 0; i < BWT_COUNT(odds); i++)
    try_odd(&run, without, &odds[i], &r);
  free_outputs(without);
  bwt_wo_a_run_close(&run);
  bwt_session_close(&session);
  bw_bundle_close(bundle);
}

START_TEST(blackwell_or_gpu) {
  tokens_apart("sm_100", &shapes[_i]);
}
END_TEST

START_TEST(hopper) {
  if (bwt_on_gpu())
    BWT_SKIP("a GPU runs one architecture");
  tokens_apart("sm_90", &shapes[_i]);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("apart", blackwell_or_gpu, 0, BWT_COUNT(shapes), 240),
      BWT_LOOP("apart", hopper, 0, BWT_COUNT(shapes), 240),
  };
  return bwt_suite_main("wo_a_apart", tests, BWT_COUNT(tests));
}
