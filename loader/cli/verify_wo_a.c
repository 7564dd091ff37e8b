/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp verify wo_a`: on fresh random data, every byte compared with the reference.  The
 * body is the one of the test suites (tests/harness).
 */
#include "harness/verify_wo_a.h"
#include "cli.h"
#include "cli/emulated.h"
#include "harness/random.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char usage[] =
    "usage: barewarp verify wo_a [--tokens LIST] [--groups LIST] [--heads-per-group LIST]\n"
    "           [--lora-rank LIST] [--seed N] [--driver cuda|emu|PATH] [--bundle FILE]\n"
    "           [--arch sm_100f|sm_90a] [--device sm_100|sm_103|sm_90]\n"
    "           [--checks all|none|LIST]\n"
    "\n"
    "Every combination is one case.  LIST is 1,7,32 or 1-96.  Defaults: tokens 1,8,32,96, 2\n"
    "groups of 8 heads, 1024 rows a group, a new seed, a GPU if there is one that the bundle\n"
    "has code for, else the emulated driver as an sm_100 with all checks on.\n"
    "The last line is \"N passed, N failed\"; exit status 1 on a failure or when nothing ran.\n";

typedef struct cases {
  cli_list tokens, groups, heads, rank;
  uint64_t seed;
} cases;

typedef struct progress {
  size_t done, total, passed;
  bool terminal;
} progress;

static void print_head(const bw_device_info *info, const cli_choice *choice, uint64_t seed) {
  printf("driver %s (%s)\ndevice %s, running %s\n", choice->driver, choice->why, info->name,
         info->arch);
  const char *checks = getenv("EMU_CHECKS");
  if (info->emulated)
    printf("checks %s\n", checks ? checks : "all");
  else
    printf("checks off: only the emulated driver has them\n");
  printf("seed   %" PRIu64 "\n\n", seed);
  printf("%6s %6s %6s %6s  %-11s %12s %9s  %s\n", "T", "G", "H", "R", "model", "worst error",
         "seconds", "result");
}

static void print_row(const struct bwt_wo_a_case *c, const struct bwt_wo_a_result *r) {
  printf("%6u %6u %6u %6u  %-11s %12.3f %9.3f  %s\n", c->tokens, c->groups, c->heads_per_group,
         c->lora_rank, r->exact ? "exact" : "not exact", r->judgement.worst_error, r->seconds,
         r->passed ? "pass" : "FAIL");
  if (!r->passed)
    printf("%s%s\n", r->why.chars, r->replay.chars);
  fflush(stdout);
}

/* Runs one case; opens the session again when the last one left the device in an error. */
static bool run_case(struct bwt_session *s, bool *open, const char *driver, bw_bundle *bundle,
                     const struct bwt_wo_a_case *c, progress *p) {
  static struct bwt_text why;
  static struct bwt_wo_a_result result;
  if (!*open) {
    why.length = 0;
    *open = bwt_session_open(s, driver, bundle, &why);
    if (!*open) {
      cli_error("verify", "%s", why.chars);
      return false;
    }
  }
  if (p->terminal)
    fprintf(stderr, "\r%zu of %zu ... ", p->done + 1, p->total);
  const bool passed = bwt_wo_a_verify(s, c, &result);
  if (p->terminal)
    fputs("\r                    \r", stderr);
  print_row(c, &result);
  p->done++;
  p->passed += passed;
  if (!result.usable) {
    bwt_session_close(s);
    *open = false;
  }
  return true;
}

static void run_cases(const cases *all, struct bwt_session *s, const char *driver,
                      bw_bundle *bundle, progress *p) {
  bool open = true;
  for (size_t r = 0; r < all->rank.count; r++)
    for (size_t h = 0; h < all->heads.count; h++)
      for (size_t g = 0; g < all->groups.count; g++)
        for (size_t t = 0; t < all->tokens.count; t++) {
          const struct bwt_wo_a_case c =
              bwt_wo_a_case_for(all->tokens.numbers[t], all->groups.numbers[g],
                                all->heads.numbers[h], all->rank.numbers[r], all->seed);
          if (!run_case(s, &open, driver, bundle, &c, p))
            return;
        }
  if (open)
    bwt_session_close(s);
}

static int verify(const cases *all, bw_bundle *bundle, const cli_choice *choice) {
  struct bwt_session session;
  static struct bwt_text why;
  progress p = {.total = all->tokens.count * all->groups.count * all->heads.count * all->rank.count,
                .terminal = isatty(STDERR_FILENO) && isatty(STDOUT_FILENO)};
  bw_device_info info;
  if (!bwt_session_open(&session, choice->driver, bundle, &why)) {
    cli_error("verify", "%s", why.chars);
  } else if (bw_device_query(session.device, &info) == BW_OK) {
    print_head(&info, choice, all->seed);
    run_cases(all, &session, choice->driver, bundle, &p);
  }
  /* Cases that could not be started count as failed. */
  printf("%zu passed, %zu failed\n", p.passed, p.total - p.passed);
  return p.total > 0 && p.passed == p.total ? CLI_OK : CLI_FAILED;
}

static int run_command(int argc, char **argv) {
  const char *family = NULL, *tokens = "1,8,32,96", *groups = "2", *heads = "8", *rank = "1024";
  const char *t = NULL, *g = NULL, *h = NULL, *r = NULL, *seed = NULL, *driver = NULL, *path = NULL;
  cli_emulated emulated = {0};
  const cli_option options[] = {
      {"--tokens", &t, NULL},
      {"--groups", &g, NULL},
      {"--heads-per-group", &h, NULL},
      {"--lora-rank", &r, NULL},
      {"--seed", &seed, NULL},
      {"--driver", &driver, NULL},
      {"--bundle", &path, NULL},
      {"--arch", &emulated.arch, NULL},
      {"--device", &emulated.device, NULL},
      {"--checks", &emulated.checks, NULL},
  };
  static cases all;
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, &family, 1, usage))
    return CLI_USAGE;
  if (!cli_numbers("--tokens", t ? t : tokens, 0, BW_WO_A_MAX_TOKENS, &all.tokens) ||
      !cli_numbers("--groups", g ? g : groups, 1, 1024, &all.groups) ||
      !cli_numbers("--heads-per-group", h ? h : heads, 1, 8, &all.heads) ||
      !cli_numbers("--lora-rank", r ? r : rank, 1, 65536, &all.rank) ||
      (seed && !cli_number("--seed", seed, 0, UINT64_MAX, &all.seed)) ||
      !cli_emulated_configure(&emulated, argv[0]))
    return CLI_USAGE;
  if (!seed)
    all.seed = bwt_run_seed();
  bw_bundle *bundle = NULL;
  if (bw_bundle_open(path, &bundle) != BW_OK)
    return cli_library_error(argv[0]);
  bwt_replay_bundle(path);
  cli_choice choice;
  cli_choose_driver(bundle, driver, &choice);
  const int status = verify(&all, bundle, &choice);
  bw_bundle_close(bundle);
  return status;
}

const cli_family cli_verify_wo_a = {"wo_a", usage, run_command};
