/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp verify up_proj` and `barewarp verify lamport_copy`: on fresh random data, every
 * byte compared with the reference.  The bodies are those of the test suites (tests/harness).
 */
#include "harness/verify_up_proj.h"
#include "cli.h"
#include "cli/emulated.h"
#include "harness/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char up_proj_usage[] =
    "usage: barewarp verify up_proj [--rows LIST] [--tp LIST] [--latent L] [--hidden N]\n"
    "           [--rank LIST] [--mode multicast|peers|local] [--seed N]\n"
    "           [--driver cuda|emu|PATH] [--bundle FILE] [--arch sm_100f|sm_90a]\n"
    "           [--device sm_100|sm_103|sm_90] [--checks all|none|LIST]\n"
    "\n"
    "One rank of tp stores its columns; every rank's mailbox is looked at.  Every combination\n"
    "is one case.  Defaults: rows 1,5,6,8, tp 8, the model's L = 3584 and N = 7168, every rank,\n"
    "every mode on the emulated driver (multicast if tp > 1), peers and local on a GPU, where\n"
    "multicast needs tp of them.\n";

static const char lamport_copy_usage[] =
    "usage: barewarp verify lamport_copy [--rows LIST] [--hidden N] [--tp LIST] [--seed N]\n"
    "           [--driver cuda|emu|PATH] [--bundle FILE] [--arch sm_100f|sm_90a]\n"
    "           [--device sm_100|sm_103|sm_90] [--checks all|none|LIST]\n"
    "\n"
    "The rows of a step come in tp parts each, some of them while the kernel polls.  Every\n"
    "combination is one case.  Defaults: rows 1,5,6,8, N = 7168, tp 8.\n";

typedef struct options {
  const char *family;
  const char *rows, *tp, *latent, *hidden, *rank, *mode, *seed, *driver, *path;
  cli_emulated emulated;
} options;

typedef struct cases {
  bool copies; /* of lamport_copy */
  cli_list rows, tp, rank;
  bool every_rank;
  uint64_t latent, hidden, seed;
  bw_mailbox_mode mode; /* AUTO: every mode that the driver is asked for */
} cases;

typedef struct progress {
  struct bwt_ranks ranks;
  bool open;
  bw_bundle *bundle;
  const char *driver;
  size_t done, passed;
  bool stopped, terminal;
} progress;

/* ---- output ------------------------------------------------------------------------------ */

static void print_head(const progress *p, const cli_choice *choice, const cases *all) {
  bw_device_info info;
  if (bw_device_query(p->ranks.session.device, &info) != BW_OK)
    return;
  printf("driver %s (%s)\ndevice %s, running %s\n", choice->driver, choice->why, info.name,
         info.arch);
  const char *checks = getenv("EMU_CHECKS");
  if (info.emulated)
    printf("checks %s\n", checks ? checks : "all");
  else
    printf("checks off: only the emulated driver has them\n");
  printf("seed   %" PRIu64 "\n\n", all->seed);
  if (all->copies)
    printf("%6s %4s %6s  %9s  %s\n", "rows", "tp", "N", "seconds", "result");
  else
    printf("%4s %4s %4s %6s %6s  %-9s  %-9s %12s %9s  %s\n", "rows", "tp", "rank", "L", "N", "mode",
           "model", "worst error", "seconds", "result");
}

static void finish_row(progress *p, const struct bwt_mail_result *r) {
  printf("%s\n", r->passed ? "pass" : "FAIL");
  if (!r->passed)
    printf("%s%s\n", r->why.chars, r->replay.chars);
  fflush(stdout);
  p->done++;
  p->passed += r->passed;
  if (!r->usable) {
    bwt_ranks_close(&p->ranks);
    p->open = false;
  }
}

/* ---- running -------------------------------------------------------------------------------- */

/* Opens the ranks again when the last case left a device in an error. */
static bool ready(progress *p) {
  static struct bwt_text why;
  if (!p->open && !p->stopped) {
    why.length = 0;
    p->open = bwt_ranks_open(&p->ranks, p->driver, p->bundle, &why);
    p->stopped = !p->open;
    if (p->stopped)
      cli_error("verify", "%s", why.chars);
  }
  if (p->open && p->terminal)
    fprintf(stderr, "\r%zu ... ", p->done + 1);
  return p->open;
}

static void clear_progress(const progress *p) {
  if (p->terminal)
    fputs("\r            \r", stderr);
}

static void run_up_proj(progress *p, const cases *all, uint32_t rows, uint32_t tp, uint32_t rank,
                        bw_mailbox_mode mode) {
  static struct bwt_mail_result r;
  if (!ready(p))
    return;
  const struct bwt_up_proj_case c = bwt_up_proj_case_for(rows, tp, rank, (uint32_t)all->latent,
                                                         (uint32_t)all->hidden, mode, all->seed);
  bwt_up_proj_verify(&p->ranks, &c, &r);
  clear_progress(p);
  const unsigned not_run = BWT_MAIL_SETUP | BWT_MAIL_STATUS | BWT_MAIL_FAULT;
  const char *model = r.failures & not_run          ? "not run"
                      : r.failures & BWT_MAIL_WORDS ? "not exact"
                                                    : "exact";
  printf("%4u %4u %4u %6u %6u  %-9s  %-9s %12.3f %9.3f  ", rows, tp, rank, c.latent_dim, c.hidden,
         bwt_mode_name(mode), model, r.judgement.worst_error, r.seconds);
  finish_row(p, &r);
}

static void run_copy(progress *p, const cases *all, uint32_t rows, uint32_t tp) {
  static struct bwt_mail_result r;
  if (!ready(p))
    return;
  const struct bwt_lamport_copy_case c =
      bwt_lamport_copy_case_for(rows, tp, (uint32_t)all->hidden, all->seed);
  bwt_lamport_copy_verify(&p->ranks, &c, &r);
  clear_progress(p);
  printf("%6u %4u %6u  %9.3f  ", rows, tp, c.hidden, r.seconds);
  finish_row(p, &r);
}

/* Whether the mode was asked for, or belongs to the default. */
static bool wanted(const cases *all, bw_mailbox_mode mode, uint32_t tp, bool emulated) {
  if (all->mode != BW_MAILBOX_AUTO)
    return mode == all->mode;
  return mode != BW_MAILBOX_MULTICAST || (emulated && tp > 1);
}

static void run_ranks(progress *p, const cases *all, uint32_t tp, bw_mailbox_mode mode,
                      size_t *total) {
  for (uint32_t rank = 0; rank < tp; rank++) {
    bool chosen = all->every_rank;
    for (size_t i = 0; !chosen && i < all->rank.count; i++)
      chosen = all->rank.numbers[i] == rank;
    for (size_t m = 0; chosen && m < all->rows.count; m++) {
      ++*total;
      run_up_proj(p, all, all->rows.numbers[m], tp, rank, mode);
    }
  }
}

static size_t run_cases(progress *p, const cases *all, bool emulated) {
  size_t total = 0;
  for (size_t t = 0; t < all->tp.count; t++) {
    const uint32_t tp = all->tp.numbers[t];
    for (int mode = BW_MAILBOX_MULTICAST; !all->copies && mode <= BW_MAILBOX_LOCAL; mode++)
      if (wanted(all, (bw_mailbox_mode)mode, tp, emulated))
        run_ranks(p, all, tp, (bw_mailbox_mode)mode, &total);
    for (size_t m = 0; all->copies && m < all->rows.count; m++, total++)
      run_copy(p, all, all->rows.numbers[m], tp);
  }
  return total;
}

static int verify(const cases *all, bw_bundle *bundle, const cli_choice *choice) {
  static progress p;
  p = (progress){.bundle = bundle,
                 .driver = choice->driver,
                 .terminal = isatty(STDERR_FILENO) && isatty(STDOUT_FILENO)};
  static struct bwt_text why;
  p.open = bwt_ranks_open(&p.ranks, choice->driver, bundle, &why);
  if (!p.open) {
    puts("0 passed, 1 failed");
    return cli_error("verify", "%s", why.chars);
  }
  print_head(&p, choice, all);
  /* Cases that could not be started count as failed. */
  const size_t total = run_cases(&p, all, p.ranks.session.driver.emulated);
  if (p.open)
    bwt_ranks_close(&p.ranks);
  printf("%zu passed, %zu failed\n", p.passed, total - p.passed);
  return total > 0 && p.passed == total ? CLI_OK : CLI_FAILED;
}

/* ---- command lines ------------------------------------------------------------- */

static bool read_cases(const options *o, cases *all) {
  all->latent = 3584;
  all->hidden = 7168;
  all->every_rank = !o->rank;
  const uint32_t most_rows = all->copies ? 1024 : BW_UP_PROJ_MAX_ROWS;
  if (!cli_numbers("--rows", o->rows ? o->rows : "1,5,6,8", 0, most_rows, &all->rows) ||
      !cli_numbers("--tp", o->tp ? o->tp : "8", 1, BW_MAILBOX_MAX_RANKS, &all->tp) ||
      (o->latent && !cli_number("--latent", o->latent, 1, 1 << 20, &all->latent)) ||
      (o->hidden && !cli_number("--hidden", o->hidden, 8, 1 << 20, &all->hidden)) ||
      (o->rank && !cli_numbers("--rank", o->rank, 0, BW_MAILBOX_MAX_RANKS - 1, &all->rank)) ||
      (o->seed && !cli_number("--seed", o->seed, 0, UINT64_MAX, &all->seed)))
    return false;
  if (o->mode) {
    all->mode = bwt_mode_find(o->mode);
    if (all->mode == BW_MAILBOX_AUTO) {
      cli_error("verify", "--mode is '%s', must be multicast, peers or local", o->mode);
      return false;
    }
  }
  for (size_t t = 0; t < all->tp.count; t++)
    if (all->hidden % all->tp.numbers[t] != 0) {
      cli_error("verify", "--hidden is %" PRIu64 ", must be a multiple of --tp, %u", all->hidden,
                all->tp.numbers[t]);
      return false;
    }
  return true;
}

static int run_parsed(const options *o, cases *all, const char *command) {
  if (!read_cases(o, all) || !cli_emulated_configure(&o->emulated, command))
    return CLI_USAGE;
  if (!o->seed)
    all->seed = bwt_run_seed();
  bw_bundle *bundle = NULL;
  if (bw_bundle_open(o->path, &bundle) != BW_OK)
    return cli_library_error(command);
  bwt_replay_bundle(o->path);
  cli_choice choice;
  cli_choose_driver(bundle, o->driver, &choice);
  const int status = verify(all, bundle, &choice);
  bw_bundle_close(bundle);
  return status;
}

static int run_command(int argc, char **argv) {
  static cases all;
  options o = {0};
  all.copies = strcmp(argv[1], "lamport_copy") == 0;
  const cli_option table[] = {
      {"--rows", &o.rows, NULL},
      {"--tp", &o.tp, NULL},
      {"--hidden", &o.hidden, NULL},
      {"--seed", &o.seed, NULL},
      {"--driver", &o.driver, NULL},
      {"--bundle", &o.path, NULL},
      {"--arch", &o.emulated.arch, NULL},
      {"--device", &o.emulated.device, NULL},
      {"--checks", &o.emulated.checks, NULL},
      /* up_proj only */
      {"--latent", &o.latent, NULL},
      {"--rank", &o.rank, NULL},
      {"--mode", &o.mode, NULL},
  };
  const size_t count = sizeof table / sizeof *table;
  if (!cli_parse(argc, argv, table, all.copies ? count - 3 : count, &o.family, 1,
                 all.copies ? lamport_copy_usage : up_proj_usage))
    return CLI_USAGE;
  return run_parsed(&o, &all, argv[0]);
}

const cli_family cli_verify_up_proj = {"up_proj", up_proj_usage, run_command};
const cli_family cli_verify_lamport_copy = {"lamport_copy", lamport_copy_usage, run_command};
