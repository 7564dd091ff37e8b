/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of wo_a: one group, one tile of rows, so that a run is short; every operand
 * written late by a predecessor; every place of the trigger; several clusters at once.
 * Kernels that loop over n tiles do so in cases of their own, by each way of multiplying.
 */
#include "harness/late.h"
#include "harness/random.h"
#include "harness/verify_wo_a.h"
#include "mutate/cases.h"

#include <stdio.h>
#include <string.h>

enum late { LATE_none, LATE_x, LATE_positions, LATE_rope, LATE_weight, LATE_scales };

enum {
  EARLY_SEEDS = 8, /* schedules in which a dependent is to start early at least once */
  DELAY_SPINS = 4,
  LOOPING_CLUSTERS = 2
};

struct wo_a_case {
  const char *name;
  unsigned seed; /* of the schedule */
  enum late late;
  uint32_t plan_flags, launch_flags;
  uint32_t lora_rank;      /* 0: 128 */
  unsigned launches;       /* 0: one */
  bool dependent;          /* a kernel behind it is to start early */
  bool two_ways;           /* only of Hopper's kernels that multiply in one chain or by blocks */
  bool loops;              /* only of them: the device has room for two clusters, they loop */
  uint32_t groups;         /* 0: one */
  enum bwt_wo_a_kind kind; /* mixed: Hopper multiplies block by block; normal: in one chain */
};

/* late: the operand has to be read after griddepcontrol.wait. */
static const struct wo_a_case cases[] = {
    {.name = "x written late, seed 1", .seed = 1, .late = LATE_x},
    {.name = "seed 2", .seed = 2},
    {.name = "clusters for two n tiles and one, seed 11",
     .seed = 11,
     .loops = true,
     .lora_rank = 384,
     .kind = BWT_WO_A_normal},
    {.name = "clusters for three and two n tiles, block by block, seed 12",
     .seed = 12,
     .late = LATE_x,
     .loops = true,
     .lora_rank = 640},
    {.name = "clusters with n tiles of two groups, seed 13",
     .seed = 13,
     .loops = true,
     .groups = 3,
     .lora_rank = 256,
     .kind = BWT_WO_A_normal},
    {.name = "positions written late, seed 3", .seed = 3, .late = LATE_positions},
    {.name = "rope written late, seed 4", .seed = 4, .late = LATE_rope},
    {.name = "weights written late, seed 5",
     .seed = 5,
     .late = LATE_weight,
     .plan_flags = BW_WO_A_WEIGHTS_AFTER_WAIT},
    {.name = "scales written late, seed 6",
     .seed = 6,
     .late = LATE_scales,
     .plan_flags = BW_WO_A_WEIGHTS_AFTER_WAIT},
    {.name = "trigger late", .launch_flags = BW_LAUNCH_TRIGGER_LATE, .dependent = true},
    {.name = "trigger late, in one chain",
     .two_ways = true,
     .launch_flags = BW_LAUNCH_TRIGGER_LATE,
     .dependent = true,
     .kind = BWT_WO_A_normal},
    {.name = "one row in 64 sends its warps block by block, seed 15",
     .seed = 15,
     .two_ways = true,
     .kind = BWT_WO_A_row_span_22},
    {.name = "trigger at entry", .launch_flags = BW_LAUNCH_TRIGGER_ENTRY, .dependent = true},
    {.name = "trigger after the wait",
     .launch_flags = BW_LAUNCH_TRIGGER_AFTER_WAIT,
     .dependent = true},
    {.name = "two launches, trigger at entry, seed 7",
     .seed = 7,
     .late = LATE_x,
     .launch_flags = BW_LAUNCH_TRIGGER_ENTRY,
     .launches = 2},
    {.name = "three tiles of rows, seed 8", .seed = 8, .lora_rank = 384},
    {.name = "seed 9", .seed = 9, .late = LATE_x},
    {.name = "seed 10", .seed = 10},
    {.name = "clusters for two n tiles and one, seed 14",
     .seed = 14,
     .loops = true,
     .lora_rank = 384,
     .kind = BWT_WO_A_normal},
    {.name = "clusters with four n tiles, or eight of 64 rows, seed 16",
     .seed = 16,
     .loops = true,
     .lora_rank = 1024},
};
enum { ALL_CASES = sizeof cases / sizeof *cases };

/* The kernel's case of this number; NULL: it has not so many, *count says how many. */
static const struct wo_a_case *case_of(const struct bwm_kernel *k, unsigned number,
                                       unsigned *count) {
  *count = 0;
  for (size_t i = 0; i < ALL_CASES; i++)
    if ((!(cases[i].loops || cases[i].two_ways) || k->loops) && (*count)++ == number)
      return &cases[i];
  return NULL;
}

unsigned bwm_wo_a_count(const struct bwm_kernel *k) {
  unsigned count;
  (void)case_of(k, ALL_CASES, &count);
  return count;
}

const char *bwm_wo_a_name(const struct bwm_kernel *k, unsigned number) {
  unsigned count;
  return case_of(k, number, &count)->name;
}

uint32_t bwm_wo_a_clusters(const struct bwm_kernel *k, unsigned number) {
  unsigned count;
  return case_of(k, number, &count)->loops ? LOOPING_CLUSTERS : 0;
}

static bool write_late(struct bwt_late *late, struct bwt_wo_a_run *run, enum late which,
                       struct bwt_text *why) {
  const struct bwt_wo_a_inputs *in = &run->inputs;
  struct bwt_buffer *const to[] = {NULL,       &run->x,      &run->positions,
                                   &run->rope, &run->weight, &run->weight_scale};
  const void *const data[] = {NULL, in->x, in->positions, in->rope, in->weight, in->weight_scale};
  return which == LATE_none || bwt_late_write(late, run->session, to[which], data[which], why);
}

/* The launches, and the comparison with the reference. */
static void launch(const struct wo_a_case *c, struct bwt_wo_a_run *run,
                   struct bwt_wo_a_result *result, struct bwm_verdict *v) {
  struct bwt_late late = {0};
  bw_status status = BW_OK;
  if (!write_late(&late, run, c->late, &result->why)) {
    bwm_no_verdict(v, result->why.chars);
    return;
  }
  for (unsigned i = 0; i < (c->launches ? c->launches : 1) && status == BW_OK; i++)
    status = bw_wo_a_launch(run->plan, &run->args, NULL);
  CUresult error = run->session->driver.CtxSynchronize();
  if (error != CUDA_SUCCESS)
    bwt_wo_a_fault(result, run->session, error);
  else if (status == BW_OK)
    bwt_wo_a_run_check(run, true, result);
  if (status != BW_OK)
    bwm_no_verdict(v, bw_last_error());
  else if (!bwt_wo_a_result_finish(result, run->session))
    bwm_kill(v, result->why.chars);
  bwt_late_close(&late);
}

/* In one of some schedules a dependent must start before this kernel is complete: that is
 * what the trigger is for. */
static void expect_early(struct bwt_wo_a_run *run, struct bwt_wo_a_result *result,
                         struct bwm_verdict *v) {
  struct bwt_kernel delay;
  const struct bwt_driver *d = &run->session->driver;
  uint32_t spins = DELAY_SPINS;
  void *parameters[] = {&spins};
  if (!bwt_kernel_open(&delay, run->session, "delay", &result->why)) {
    bwm_no_verdict(v, result->why.chars);
    return;
  }
  run->args.flags |= BW_LAUNCH_NO_PDL;
  for (int seed = 1; v->outcome == BWM_SURVIVED && seed <= EARLY_SEEDS; seed++) {
    char text[8];
    snprintf(text, sizeof text, "%d", seed);
    if (!bwm_configure("seed", text) || bw_wo_a_launch(run->plan, &run->args, NULL) != BW_OK ||
        bwt_kernel_launch(&delay, 1, 32, NULL, true, parameters) != CUDA_SUCCESS)
      bwm_no_verdict(v, bw_last_error());
    CUresult error = d->CtxSynchronize();
    if (v->outcome == BWM_SURVIVED && error != CUDA_SUCCESS)
      bwm_kill(v, bwt_driver_error(d, error));
    if (bwm_early_starts() > 0)
      break;
  }
  if (v->outcome == BWM_SURVIVED && bwm_early_starts() == 0) {
    bwm_kill(v, "no dependent started before the kernel was complete");
    snprintf(v->by, sizeof v->by, "no early start");
  }
  bwt_kernel_close(&delay);
}

void bwm_wo_a_run(const struct bwm_kernel *k, unsigned number, bw_bundle *bundle,
                  struct bwm_verdict *v) {
  static struct bwt_session session;
  static struct bwt_wo_a_run run;
  static struct bwt_wo_a_result result;
  unsigned count;
  const struct wo_a_case *c = case_of(k, number, &count);
  const struct bwt_wo_a_case shape = {.tokens = k->tokens,
                                      .groups = c->groups ? c->groups : 1,
                                      .heads_per_group = k->heads,
                                      .lora_rank = c->lora_rank ? c->lora_rank : 128,
                                      .kind = c->kind,
                                      .seed = bwt_mix(1, number),
                                      .plan_flags = c->plan_flags,
                                      .launch_flags = c->launch_flags};
  bwm_seed(c->seed);
  if (!bwt_session_open(&session, "emu", bundle, &result.why)) {
    bwm_no_verdict(v, result.why.chars);
    return;
  }
  bwt_wo_a_result_start(&result, &session, &shape);
  if (!bwt_wo_a_run_open(&run, &session, &shape, &result))
    bwm_no_verdict(v, result.why.chars);
  else if (c->dependent)
    expect_early(&run, &result, v);
  else
    launch(c, &run, &result, v);
  if (v->outcome == BWM_SURVIVED)
    bwm_judge_reports(v);
}
