/* SPDX-License-Identifier: Apache-2.0
 *
 * The cases of up_proj and lamport_copy: one kernel judged by itself, and steps of two or
 * three ranks in chains, where grids of a stream overlap and ranks run ahead of each other.
 */
#include "harness/kernel.h"
#include "harness/protocol.h"
#include "harness/random.h"
#include "harness/verify_up_proj.h"
#include "mutate/cases.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum what {
  ONE_PRODUCER, /* up_proj alone */
  ONE_READER,   /* lamport_copy alone, rows arriving while it polls */
  STEPS,        /* the protocol; both kernels */
  EARLY,        /* steps in which the dependents of this kernel are to start early */
  STUCK         /* a reader whose rows never come */
};

struct mail_case {
  const char *name;
  enum what what;
  unsigned seed; /* of the schedule, and of the values */
  enum bwt_up_proj_late late;
  uint32_t plan_flags, launch_flags, mailbox_flags;
  uint32_t ranks, rows, hidden, steps, delays;
  const char *sms; /* so few SMs; NULL: all */
  bool pdl_only, graph;
};

#define WEIGHT_LATE .late = BWT_LATE_weight, .plan_flags = BW_UP_PROJ_WEIGHT_AFTER_WAIT
#define FEW_SMS     .sms = "2" /* a reader takes half of them */
#define WAITS_FIRST .mailbox_flags = BW_MAILBOX_COPY_WAITS_FIRST

/* M is the kernel's, hidden has eight columns a rank. */
static const struct mail_case up_proj_cases[] = {
    {"latent written late, seed 1", ONE_PRODUCER, 1, .late = BWT_LATE_latent},
    {"shared written late, seed 2", ONE_PRODUCER, 2, .late = BWT_LATE_shared},
    {"weight written late, seed 3", ONE_PRODUCER, 3, WEIGHT_LATE},
    {"trigger late", EARLY, 4, .launch_flags = BW_LAUNCH_TRIGGER_LATE},
    {"trigger at entry", EARLY, 5, .launch_flags = BW_LAUNCH_TRIGGER_ENTRY, WAITS_FIRST},
    {"trigger after the wait", EARLY, 6, .launch_flags = BW_LAUNCH_TRIGGER_AFTER_WAIT},
    {"steps under PDL, seed 7", STEPS, 7, .steps = 14, .pdl_only = true},
    {"steps with delays, seed 8", STEPS, 8, .steps = 14, .delays = 3},
    {"steps with delays, readers wait first, seed 9", STEPS, 9, .steps = 14, .delays = 3,
     WAITS_FIRST},
    {"steps from a graph, seed 10", STEPS, 10, .steps = 14, .delays = 4, .graph = true},
    {"seed 11", ONE_PRODUCER, 11, .late = BWT_LATE_latent},
};

static const struct mail_case lamport_copy_cases[] = {
    {"one reader, seed 1", ONE_READER, 1, .rows = 3, .hidden = 64},
    {"one reader of several CTAs, seed 2", ONE_READER, 2, .rows = 5, .hidden = 512},
    {"one reader that waits first, seed 3", ONE_READER, 3, .rows = 5, .hidden = 512, WAITS_FIRST},
    {"trigger late", EARLY, 4, .launch_flags = BW_LAUNCH_TRIGGER_LATE},
    {"trigger at entry", EARLY, 5, .launch_flags = BW_LAUNCH_TRIGGER_ENTRY},
    {"trigger after the wait", EARLY, 6, .launch_flags = BW_LAUNCH_TRIGGER_AFTER_WAIT},
    {"steps under PDL, seed 7", STEPS, 7, .steps = 14, .pdl_only = true},
    {"steps with delays, seed 8", STEPS, 8, .steps = 14, .delays = 3, .ranks = 3},
    {"steps with delays, readers wait first, seed 9", STEPS, 9, .steps = 14, .delays = 3,
     WAITS_FIRST},
    {"steps from a graph, seed 10", STEPS, 10, .steps = 14, .delays = 4, .graph = true},
    {"steps of several CTAs, seed 11", STEPS, 11, .steps = 7, .hidden = 512, .pdl_only = true},
    {"steps of several CTAs, readers wait first, seed 12", STEPS, 12, .steps = 7, .hidden = 512,
     .pdl_only = true, WAITS_FIRST},
    {"rows that never come, seed 13", STUCK, 13, .rows = 2, .hidden = 64},
    {"several chunks a thread, seed 14", ONE_READER, 14, .rows = 3, .hidden = 1024, FEW_SMS},
    {"several chunks a thread that never come, seed 15", STUCK, 15, .rows = 3, .hidden = 1024,
     FEW_SMS},
    {"steps of several chunks a thread, seed 16", STEPS, 16, .steps = 7, .hidden = 512, FEW_SMS},
};

static const struct mail_case *cases_of(const struct bwm_kernel *k, unsigned *count) {
  bool copy = k->family == BWM_LAMPORT_COPY;
  *count = (unsigned)(copy ? sizeof lamport_copy_cases / sizeof *lamport_copy_cases
                           : sizeof up_proj_cases / sizeof *up_proj_cases);
  return copy ? lamport_copy_cases : up_proj_cases;
}

unsigned bwm_mailbox_count(const struct bwm_kernel *k) {
  unsigned count;
  (void)cases_of(k, &count);
  return count;
}

const char *bwm_mailbox_name(const struct bwm_kernel *k, unsigned number) {
  unsigned count;
  return cases_of(k, &count)[number].name;
}

/* ---- one kernel ------------------------------------------------------------------------- */

static bw_mailbox_mode mode_of(const struct bwm_kernel *k, const struct mail_case *c) {
  if (k->family == BWM_LAMPORT_COPY)
    return c->seed % 2 ? BW_MAILBOX_PEERS : BW_MAILBOX_MULTICAST;
  return bwt_mode_find(strrchr(k->key, '_') + 1);
}

static void judge(const struct bwt_mail_result *r, struct bwm_verdict *v) {
  if (r->failures & (BWT_MAIL_SETUP | BWT_MAIL_STATUS))
    bwm_no_verdict(v, r->why.chars);
  else if (r->failures != 0)
    bwm_kill(v, r->why.chars);
}

static void run_one(const struct bwm_kernel *k, const struct mail_case *c, struct bwt_ranks *ranks,
                    struct bwm_verdict *v) {
  static struct bwt_mail_result result;
  if (c->what == ONE_PRODUCER) {
    const struct bwt_up_proj_case one = {.rows = k->rows,
                                         .tp_size = 2,
                                         .rank = c->seed % 2,
                                         .latent_dim = 3 * 1792,
                                         .hidden = 2 * 8,
                                         .mode = mode_of(k, c),
                                         .seed = c->seed,
                                         .plan_flags = c->plan_flags,
                                         .launch_flags = c->launch_flags,
                                         .late = c->late};
    (void)bwt_up_proj_verify(ranks, &one, &result);
  } else {
    const struct bwt_lamport_copy_case one = {.rows = c->rows,
                                              .tp_size = 2,
                                              .hidden = c->hidden,
                                              .seed = c->seed,
                                              .launch_flags = c->launch_flags,
                                              .mailbox_flags = c->mailbox_flags};
    (void)bwt_lamport_copy_verify(ranks, &one, &result);
  }
  judge(&result, v);
}

/* ---- a reader whose rows never come -------------------------------------------------------- */

enum { POLLS = 30, DELAY_SPINS = 400 };

/* Behind a kernel that takes its time the reader starts early, polls an empty ring, gives
 * up, and says so where the host looks. */
static void run_stuck(const struct mail_case *c, struct bwt_ranks *ranks, struct bwm_verdict *v) {
  const struct bwt_driver *d = &ranks->session.driver;
  const bw_mailbox_config config = {.hidden = c->hidden,
                                    .capacity = c->rows,
                                    .tp_size = 2,
                                    .rank = 1,
                                    .mode = BW_MAILBOX_LOCAL,
                                    .poll_limit = POLLS};
  struct bwt_text why = {0};
  struct bwt_kernel delay = {0};
  bw_mailbox *m = NULL;
  CUdeviceptr out = 0;
  uint32_t spins = DELAY_SPINS;
  void *parameters[] = {&spins};
  const bool ready = bw_mailbox_create(ranks->device[0], &config, &m) == BW_OK &&
                     bwt_rounds(&m, 1, &why) &&
                     d->MemAlloc(&out, (size_t)2 * c->rows * c->hidden) == CUDA_SUCCESS &&
                     bwt_kernel_open(&delay, &ranks->session, "delay", &why) &&
                     bwt_kernel_launch(&delay, 1, 32, NULL, true, parameters) == CUDA_SUCCESS;
  const bw_lamport_copy_args args = {.out = out, .rows = c->rows, .flags = BW_LAUNCH_TRIGGER_ENTRY};
  if (!ready || bw_lamport_copy_launch(m, &args, NULL) != BW_OK) {
    bwm_no_verdict(v, bw_last_error());
    return;
  }
  CUresult error = d->CtxSynchronize();
  if (error != CUDA_SUCCESS)
    bwm_kill(v, bwt_driver_error(d, error));
  else if (bw_mailbox_check(m) != BW_ERROR_STATE || strstr(bw_last_error(), "never came") == NULL)
    bwm_kill(v, "the mailbox does not know that rows never came");
}

/* ---- steps of several ranks ----------------------------------------------------------------- */

static void run_steps(const struct bwm_kernel *k, const struct mail_case *c, bw_bundle *bundle,
                      struct bwm_verdict *v) {
  static struct bwt_protocol_result result;
  bool copy = k->family == BWM_LAMPORT_COPY;
  struct bwt_protocol p = {.mode = mode_of(k, c),
                           .mailbox_flags = c->mailbox_flags,
                           .steps = c->what == EARLY ? 7 : c->steps,
                           .chain = 7,
                           .graph = c->graph,
                           .pdl_only = c->pdl_only,
                           .delays = c->delays,
                           .seed = c->seed,
                           .bundle = bundle};
  p.ranks = p.mode == BW_MAILBOX_LOCAL ? 1 : c->ranks ? c->ranks : 2;
  p.hidden = c->hidden ? c->hidden : p.ranks * 8;
  p.rows = copy ? BW_UP_PROJ_MAX_ROWS : k->rows;
  p.all_rows = !copy; /* the plan's other kernels are empty */
  p.latent_dim = copy ? 256 : 1792;
  if (c->what == EARLY) { /* whatever starts early does so behind this kernel */
    p.fixed = true;
    p.produce_flags = copy ? 0 : BW_LAUNCH_NO_PDL | c->launch_flags;
    p.consume_flags = copy ? BW_LAUNCH_NO_PDL | c->launch_flags : 0;
  }
  if (!bwt_protocol_run(&p, &result)) {
    if (result.ran)
      bwm_kill(v, result.why.chars);
    else
      bwm_no_verdict(v, result.why.chars);
  } else if (c->what == EARLY && bwm_early_starts() == 0) {
    bwm_kill(v, "no dependent started before the kernel was complete");
    snprintf(v->by, sizeof v->by, "no early start");
  }
}

void bwm_mailbox_run(const struct bwm_kernel *k, unsigned number, bw_bundle *bundle,
                     struct bwm_verdict *v) {
  static struct bwt_ranks ranks;
  struct bwt_text why = {0};
  unsigned count;
  const struct mail_case *c = &cases_of(k, &count)[number];
  bwm_seed(c->seed);
  setenv("EMU_DEVICES", "3", 1);
  if (c->sms != NULL)
    setenv("EMU_SMS", c->sms, 1);
  if (c->what == STEPS || c->what == EARLY)
    run_steps(k, c, bundle, v);
  else if (!bwt_ranks_open(&ranks, "emu", bundle, &why))
    bwm_no_verdict(v, why.chars);
  else if (c->what == STUCK)
    run_stuck(c, &ranks, v);
  else
    run_one(k, c, &ranks, v);
  if (v->outcome == BWM_SURVIVED)
    bwm_judge_reports(v);
}
