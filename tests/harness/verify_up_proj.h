/* SPDX-License-Identifier: Apache-2.0
 *
 * The bodies that run up_proj and lamport_copy once and judge them: suites and `barewarp
 * verify` use them.  Both work on one rank of tp_size; what the other ranks would do, the
 * host does.
 *
 * up_proj: every rank's ring is filled with a pattern, and this rank's columns with the
 * complement of what belongs there; after the launch those have the model's bits on every
 * rank that the mode reaches, and every other byte is as it was.  In mode local and peers
 * the rings are guarded memory of the session's device, handed over with bw_mailbox_adopt;
 * in mode multicast each lies on a device of its own, set up by the rounds.
 *
 * lamport_copy: words of all values but the empty one are put into the rows of a step, a
 * part of them only while the kernel already polls; after it `out` has them bit for bit,
 * the ring is empty there and as it was elsewhere, and the step is counted.
 */
#ifndef BW_HARNESS_VERIFY_UP_PROJ_H
#define BW_HARNESS_VERIFY_UP_PROJ_H

#include "harness/buffer.h"
#include "harness/compare_up_proj.h"
#include "harness/ranks.h"
#include "harness/up_proj_inputs.h"

/* weight: only with BW_UP_PROJ_WEIGHTS_AFTER_WAIT among the plan's flags. */
enum bwt_up_proj_late { BWT_LATE_none, BWT_LATE_latent, BWT_LATE_shared, BWT_LATE_weight };

struct bwt_up_proj_case {
  uint32_t rows, tp_size, rank, latent_dim, hidden;
  bw_mailbox_mode mode; /* not AUTO */
  uint64_t seed;
  enum bwt_up_proj_kind kind; /* mixed */
  uint32_t plan_flags, launch_flags, mailbox_flags;
  bool tight;                 /* buffers of exactly their size instead of guard bands */
  enum bwt_up_proj_late late; /* a predecessor writes this operand while up_proj may start */
};

struct bwt_lamport_copy_case {
  uint32_t rows, tp_size, hidden;
  uint64_t seed;
  uint32_t launch_flags, mailbox_flags;
};

/* Cases of these sizes; the rest as BW_CASE says ("kind=nan,plan=1,launch=1,mailbox=1,
 * tight=1"), which is how a failing case is replayed, else the defaults. */
struct bwt_up_proj_case bwt_up_proj_case_for(uint32_t rows, uint32_t tp_size, uint32_t rank,
                                             uint32_t latent_dim, uint32_t hidden,
                                             bw_mailbox_mode mode, uint64_t seed);
struct bwt_lamport_copy_case bwt_lamport_copy_case_for(uint32_t rows, uint32_t tp_size,
                                                       uint32_t hidden, uint64_t seed);

/* "multicast", "peers" or "local"; and back: BW_MAILBOX_AUTO if there is none of that name. */
const char *bwt_mode_name(bw_mailbox_mode mode);
bw_mailbox_mode bwt_mode_find(const char *name);

/* What was wrong; several bits may be set. */
enum {
  BWT_MAIL_SETUP = 1 << 0,     /* memory, or no driver: the kernel did not run */
  BWT_MAIL_STATUS = 1 << 1,    /* barewarp refused */
  BWT_MAIL_FAULT = 1 << 2,     /* the driver reported an error of the running kernel */
  BWT_MAIL_WORDS = 1 << 3,     /* results are not the model's (resp. the words put in) */
  BWT_MAIL_ELSEWHERE = 1 << 4, /* a ring changed, or was not re-armed, where it must (not) */
  BWT_MAIL_COUNTERS = 1 << 5,  /* the count of steps is wrong */
  BWT_MAIL_BAND = 1 << 6,      /* written outside a buffer */
  BWT_MAIL_INPUT = 1 << 7,     /* an input changed */
  BWT_MAIL_TRUTH = 1 << 8      /* further from double than rounding explains */
};

struct bwt_mail_result {
  bool passed;       /* no failure: the bits are the contract on every device */
  bool usable;       /* false: a device was left in an error; open the ranks again */
  unsigned failures; /* BWT_MAIL_* */
  struct bwt_up_proj_difference difference; /* up_proj: the worst rank's ring */
  struct bwt_up_proj_judgement judgement;   /* up_proj: of this rank's columns */
  double seconds;                           /* launch to completion, on the host's clock */
  struct bwt_text why;                      /* what is to be said about the failures */
  struct bwt_text replay;                   /* the command that runs this one case again */
};

/* Run one case and return result->passed. */
bool bwt_up_proj_verify(struct bwt_ranks *ranks, const struct bwt_up_proj_case *c,
                        struct bwt_mail_result *result);
bool bwt_lamport_copy_verify(struct bwt_ranks *ranks, const struct bwt_lamport_copy_case *c,
                             struct bwt_mail_result *result);

/* ---- shared by the two bodies (mail_result.c) ----------------------------------------- */

/* What BW_CASE may set; NULL: not in this family. */
struct bwt_mail_overrides {
  enum bwt_up_proj_kind *kind;
  uint32_t *plan_flags, *launch_flags, *mailbox_flags;
  bool *tight;
};
void bwt_mail_override(const struct bwt_mail_overrides *o);
/* Starts a result: nothing wrong yet; the environment of the replay command, with what
 * differs from the defaults. */
void bwt_mail_result_start(struct bwt_mail_result *result, const struct bwt_ranks *ranks,
                           const struct bwt_mail_overrides *o);
/* Notes a failure and returns false. */
bool bwt_mail_fail(struct bwt_mail_result *result, unsigned failure);
/* The same of a library call, with its words. */
bool bwt_mail_fail_status(struct bwt_mail_result *result, const char *call, bw_status status);
/* Notes a driver error, with its name and the emulator's report. */
void bwt_mail_fault(struct bwt_mail_result *result, struct bwt_ranks *ranks, CUresult error);
double bwt_mail_now(void);

#endif
