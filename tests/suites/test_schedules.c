/* SPDX-License-Identifier: Apache-2.0
 *
 * No false alarm: every kind of shipped kernel, of both targets, on many schedules with all
 * checks of the emulated driver.  Shapes are small; each run has a predecessor that writes
 * an operand late, or another place of the trigger, and is judged by the references.
 * With BW_FULL 20 schedules of all of them, else some of a part that the seed chooses.
 */
#include "harness/late.h"
#include "harness/random.h"
#include "harness/suite.h"
#include "harness/verify_up_proj.h"
#include "harness/verify_wo_a.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

enum { SEEDS = 20, SAMPLE_SEEDS = 2 };

static const char *const archs[] = {"sm_100", "sm_90"};
static const uint32_t triggers[] = {BW_LAUNCH_TRIGGER_ENTRY, BW_LAUNCH_TRIGGER_AFTER_WAIT,
                                    BW_LAUNCH_TRIGGER_LATE, 0};

static bw_bundle *bundle;

/* Of `cases` the one of run i; of a sample they are spread evenly from where the seed says. */
static unsigned case_of(int i, unsigned cases, unsigned sample) {
  if (bwt_full())
    return (unsigned)i;
  return (unsigned)((bwt_run_seed() + (uint64_t)i * cases / sample) % cases);
}

static void choose_device(size_t arch) {
  setenv("EMU_ARCH", archs[arch], 1);
  setenv("EMU_CHECKS", "all", 1);
  setenv("EMU_DEVICES", "2", 1);
  unsetenv("EMU_KEEP_GOING");
  ck_assert_msg(bw_bundle_open(NULL, &bundle) == BW_OK, "%s", bw_last_error());
}

/* Another schedule for what is launched from here on. */
static void next_schedule(const struct bwt_driver *d, uint64_t number) {
  int (*configure)(const char *, const char *);
  uint64_t seed = bwt_mix(bwt_run_seed(), number) >> 40;
  char text[32];
  *(void **)&configure = dlsym(d->library, "barewarp_emulated_configure");
  ck_assert_ptr_nonnull(configure);
  snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
  ck_assert_int_eq(configure("seed", text), 1);
}

/* ---- wo_a ---------------------------------------------------------------------------------- */

/* Tiles of 1, 7 and 32 tokens; two of 28, of which the second is ragged; three of 32. */
static const uint32_t tokens[] = {1, 7, 32, 54, 96};
static const uint32_t heads[] = {1, 2, 4, 8};
enum {
  WO_A_SIZES = sizeof tokens / sizeof *tokens * (sizeof heads / sizeof *heads),
  WO_A_CASES = 2 * WO_A_SIZES,
  WO_A_SAMPLE = 5
};

/* One of the operands comes late. */
static bool write_late(struct bwt_late *late, struct bwt_wo_a_run *run, unsigned which,
                       struct bwt_text *why) {
  const struct bwt_wo_a_inputs *in = &run->inputs;
  struct bwt_buffer *const to[] = {&run->x, &run->positions, &run->weight, &run->rope};
  const void *const data[] = {in->x, in->positions, in->weight, in->rope};
  return bwt_late_write(late, run->session, to[which], data[which], why);
}

START_TEST(wo_a) {
  const unsigned number = case_of(_i, WO_A_CASES, WO_A_SAMPLE);
  static struct bwt_session session;
  static struct bwt_wo_a_run run;
  static struct bwt_wo_a_result result;
  const size_t size = number % WO_A_SIZES;
  const struct bwt_wo_a_case c = {.tokens = tokens[size % BWT_COUNT(tokens)],
                                  .groups = 1,
                                  .heads_per_group = heads[size / BWT_COUNT(tokens)],
                                  .lora_rank = 128,
                                  .seed = bwt_mix(bwt_run_seed(), number),
                                  .kind = number % 3 ? BWT_WO_A_mixed : BWT_WO_A_normal,
                                  .plan_flags = BW_WO_A_WEIGHTS_AFTER_WAIT};
  choose_device(number / WO_A_SIZES);
  ck_assert_msg(bwt_session_open(&session, "emu", bundle, &result.why), "%s", result.why.chars);
  bwt_wo_a_result_start(&result, &session, &c);
  ck_assert_msg(bwt_wo_a_run_open(&run, &session, &c, &result), "%s", result.why.chars);
  for (unsigned s = 0; s < (bwt_full() ? SEEDS : SAMPLE_SEEDS); s++) {
    struct bwt_late late = {0};
    next_schedule(&session.driver, number * SEEDS + s);
    run.args.flags = triggers[s % BWT_COUNT(triggers)];
    ck_assert(bwt_wo_a_run_poison(&run, &result));
    ck_assert_msg(write_late(&late, &run, (s / 4 + s + number) % 4, &result.why), "%s",
                  result.why.chars);
    ck_assert_msg(bw_wo_a_launch(run.plan, &run.args, NULL) == BW_OK, "%s", bw_last_error());
    CUresult error = session.driver.CtxSynchronize();
    if (error != CUDA_SUCCESS)
      bwt_wo_a_fault(&result, &session, error);
    else
      bwt_wo_a_run_check(&run, false, &result);
    ck_assert_msg(bwt_wo_a_result_finish(&result, &session), "T=%u H=%u on %s, schedule %u:\n%s",
                  c.tokens, c.heads_per_group, archs[number / WO_A_SIZES], s, result.why.chars);
    bwt_late_close(&late);
  }
  bwt_wo_a_run_close(&run);
  bwt_session_close(&session);
  bw_bundle_close(bundle);
}
END_TEST

/* ---- up_proj and lamport_copy -------------------------------------------------- */

/* Rows and columns of a rank that take different keys. */
static const struct {
  uint32_t rows, shard;
} shapes[] = {{1, 8}, {1, 448}, {2, 64},  {3, 8}, {4, 448},
              {5, 8}, {6, 16},  {7, 448}, {8, 8}, {8, 896}};
enum {
  SHAPES = sizeof shapes / sizeof *shapes,
  UP_PROJ_CASES = 2 * 3 * SHAPES,
  UP_PROJ_SAMPLE = 2
};

static void check(const struct bwt_mail_result *r, const char *what, size_t arch, unsigned s) {
  ck_assert_msg(r->passed, "%s on %s, schedule %u: failures 0x%x:\n%s", what, archs[arch], s,
                r->failures, r->why.chars);
}

START_TEST(up_proj) {
  const unsigned number = case_of(_i, UP_PROJ_CASES, UP_PROJ_SAMPLE);
  static struct bwt_ranks ranks;
  static struct bwt_mail_result result;
  const size_t shape = number % SHAPES, arch = number / SHAPES % 2;
  static const bw_mailbox_mode modes[] = {BW_MAILBOX_MULTICAST, BW_MAILBOX_PEERS, BW_MAILBOX_LOCAL};
  choose_device(arch);
  ck_assert_msg(bwt_ranks_open(&ranks, "emu", bundle, &result.why), "%s", result.why.chars);
  for (unsigned s = 0; s < (bwt_full() ? SEEDS : SAMPLE_SEEDS); s++) {
    const struct bwt_up_proj_case c = {.rows = shapes[shape].rows,
                                       .tp_size = 2,
                                       .rank = s % 2,
                                       .latent_dim = shapes[shape].shard < 448 ? 1792 : 3584,
                                       .hidden = 2 * shapes[shape].shard,
                                       .mode = modes[number / SHAPES / 2],
                                       .seed = bwt_mix(bwt_run_seed(), s),
                                       .plan_flags = BW_UP_PROJ_WEIGHT_AFTER_WAIT,
                                       .launch_flags = triggers[s % BWT_COUNT(triggers)],
                                       .mailbox_flags = s % 4 ? 0 : BW_MAILBOX_COPY_WAITS_FIRST,
                                       .late = (enum bwt_up_proj_late)((s / 4 + s + number) % 4)};
    next_schedule(&ranks.session.driver, number * SEEDS + s);
    (void)bwt_up_proj_verify(&ranks, &c, &result);
    check(&result, bwt_mode_name(c.mode), arch, s);
  }
  bwt_ranks_close(&ranks);
  bw_bundle_close(bundle);
}
END_TEST

static const struct {
  uint32_t rows, tp_size, hidden;
} copies[] = {{3, 2, 64}, {5, 2, 512}, {8, 8, 1024}, {8, 2, 10240}};
enum { COPIES = sizeof copies / sizeof *copies, COPY_CASES = 2 * COPIES, COPY_SAMPLE = 1 };

START_TEST(lamport_copy) {
  const unsigned number = case_of(_i, COPY_CASES, COPY_SAMPLE);
  static struct bwt_ranks ranks;
  static struct bwt_mail_result result;
  const size_t size = number % COPIES, arch = number / COPIES;
  choose_device(arch);
  ck_assert_msg(bwt_ranks_open(&ranks, "emu", bundle, &result.why), "%s", result.why.chars);
  for (unsigned s = 0; s < (bwt_full() ? SEEDS : SAMPLE_SEEDS); s++) {
    const struct bwt_lamport_copy_case c = {.rows = copies[size].rows,
                                            .tp_size = copies[size].tp_size,
                                            .hidden = copies[size].hidden,
                                            .seed = bwt_mix(bwt_run_seed(), s),
                                            .launch_flags = triggers[s % BWT_COUNT(triggers)],
                                            .mailbox_flags =
                                                s / 4 % 2 ? BW_MAILBOX_COPY_WAITS_FIRST : 0};
    next_schedule(&ranks.session.driver, number * SEEDS + s);
    (void)bwt_lamport_copy_verify(&ranks, &c, &result);
    check(&result, "lamport_copy", arch, s);
  }
  bwt_ranks_close(&ranks);
  bw_bundle_close(bundle);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("wo_a", wo_a, 0, bwt_full() ? WO_A_CASES : WO_A_SAMPLE, 600),
      BWT_LOOP("up_proj", up_proj, 0, bwt_full() ? UP_PROJ_CASES : UP_PROJ_SAMPLE, 600),
      BWT_LOOP("lamport_copy", lamport_copy, 0, bwt_full() ? COPY_CASES : COPY_SAMPLE, 600),
  };
  return bwt_suite_main("schedules", tests, BWT_COUNT(tests));
}
