/* SPDX-License-Identifier: Apache-2.0
 *
 * The one body that runs wo_a and judges it: suites, `barewarp verify` and benchmarks
 * use it.  A case is: random operands from a seed, the reference, outputs filled with
 * the complement of what belongs there, guard bands, a launch through the public API,
 * and then every byte looked at: outputs, bands, inputs.
 *
 *   struct bwt_wo_a_case c = bwt_wo_a_case_for(7, 1, 8, 128, seed);
 *   struct bwt_wo_a_result r;
 *   bwt_wo_a_verify(&session, &c, &r);
 *   if (!r.passed) printf("%s%s\n", r.why.chars, r.replay.chars);
 */
#ifndef BW_HARNESS_VERIFY_WO_A_H
#define BW_HARNESS_VERIFY_WO_A_H

#include "harness/buffer.h"
#include "harness/compare.h"
#include "harness/session.h"
#include "harness/wo_a_inputs.h"

struct bwt_wo_a_case {
  uint32_t tokens, groups, heads_per_group, lora_rank;
  uint64_t seed;
  enum bwt_wo_a_kind kind; /* mixed */
  uint64_t stride_extra;   /* 0; elements of NaN between tokens, a multiple of 8 */
  uint32_t max_tokens;     /* the plan's; 0: tokens */
  uint32_t plan_flags, launch_flags;
  enum bwt_guard guard; /* BWT_GUARDED */
};

/* A case of these sizes; the rest as BW_CASE says ("kind=nan,stride=64,max=128,plan=1,
 * launch=1,tight=1"), which is how a failing case is replayed, else the defaults. */
struct bwt_wo_a_case bwt_wo_a_case_for(uint32_t tokens, uint32_t groups, uint32_t heads_per_group,
                                       uint32_t lora_rank, uint64_t seed);

/* What was wrong; several bits may be set. */
enum {
  BWT_FAIL_SETUP = 1 << 0,   /* memory, or no driver: the kernel did not run */
  BWT_FAIL_STATUS = 1 << 1,  /* barewarp refused */
  BWT_FAIL_FAULT = 1 << 2,   /* the driver reported an error of the running kernel */
  BWT_FAIL_Q = 1 << 3,       /* q is not the model's, bit for bit */
  BWT_FAIL_QS = 1 << 4,      /* the same of qs */
  BWT_FAIL_PADDING = 1 << 5, /* rows of qs beyond the tokens are not 0 */
  BWT_FAIL_BAND = 1 << 6,    /* written outside a buffer */
  BWT_FAIL_INPUT = 1 << 7,   /* an input changed */
  BWT_FAIL_TRUTH = 1 << 8    /* further from double than rounding explains */
};

struct bwt_wo_a_result {
  bool passed;       /* exactness on the emulated Blackwell, the bounds elsewhere */
  bool exact;        /* q and qs equal the model's bit for bit */
  bool usable;       /* false: the device was left in an error; open another session */
  unsigned failures; /* BWT_FAIL_* */
  struct bwt_difference difference; /* from the model */
  struct bwt_judgement judgement;   /* by the truth */
  double seconds;                   /* launch to completion, on the host's clock */
  struct bwt_text why;              /* what is to be said about the failures */
  struct bwt_text replay;           /* the command that runs this one case again */
};

/* Runs one case and returns result->passed. */
bool bwt_wo_a_verify(struct bwt_session *s, const struct bwt_wo_a_case *c,
                     struct bwt_wo_a_result *result);

/* ---- in parts, for those who launch in their own way ------------------------- */

struct bwt_wo_a_run {
  struct bwt_session *session;
  struct bwt_wo_a_case c;
  struct bwt_wo_a_inputs inputs;
  uint8_t *want_q, *want_qs; /* by the model */
  struct bwt_buffer x, positions, rope, weight, weight_scale, q, qs;
  bw_wo_a_plan *plan;
  bw_wo_a_args args;
};

/* Operands, reference and plan; nothing launched yet. */
bool bwt_wo_a_run_open(struct bwt_wo_a_run *run, struct bwt_session *s,
                       const struct bwt_wo_a_case *c, struct bwt_wo_a_result *result);
/* New x and positions, and what belongs in the outputs then. */
bool bwt_wo_a_run_next_x(struct bwt_wo_a_run *run, uint64_t seed, struct bwt_wo_a_result *result);
/* Fills the outputs with what must not be there afterwards. */
bool bwt_wo_a_run_poison(struct bwt_wo_a_run *run, struct bwt_wo_a_result *result);
/* Looks at every byte; work must be complete.  judge: by the truth too. */
void bwt_wo_a_run_check(struct bwt_wo_a_run *run, bool judge, struct bwt_wo_a_result *result);
void bwt_wo_a_run_close(struct bwt_wo_a_run *run);

/* Starts a result: nothing wrong yet, the replay command written. */
void bwt_wo_a_result_start(struct bwt_wo_a_result *result, const struct bwt_session *s,
                           const struct bwt_wo_a_case *c);
/* Notes a driver error, with its name and the emulator's report. */
void bwt_wo_a_fault(struct bwt_wo_a_result *result, struct bwt_session *s, CUresult error);
/* Sets passed and exact from what was noted. */
bool bwt_wo_a_result_finish(struct bwt_wo_a_result *result, const struct bwt_session *s);

#endif
