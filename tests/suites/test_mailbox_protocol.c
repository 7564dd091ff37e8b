/* SPDX-License-Identifier: Apache-2.0
 *
 * The mailbox protocol at length: eight ranks, rows that change from step to step, delays on
 * every rank, chains many grids deep, eager and from graphs of an odd number of steps, on two
 * streams in turn, a rank held between its last poll and its re-arm.  And with planted bugs
 * (tests/broken/mailbox), each of which must be caught; tests/broken/lib.awk explains how
 * these are written.  Their heads say
 *
 *   @family NAME...   the kernels that are edited
 *   @scenario NAME    held: rank 0's reader is held before it re-arms; pdl: every launch has
 *                     PDL; pdl_first: the same, readers wait first; peers: that mode instead of
 *                     multicast; verify: one up_proj, its operands full of results that are -0
 *   @says TEXT        what the explanation must contain
 *
 * In `make check` a sample, 700 steps in all: two schedules of 200 eager steps and of 100 from
 * graphs, one of the others, and in each bug's scenario the first schedule that shows it (within
 * 28 steps), all checks on.  With BW_FULL 20 seeds of each test (10,000 steps in all), and more
 * steps at the sizes of the model, on 8 and on 16 ranks: some 10 minutes of one core.
 */
#include "bundle.h"
#include "harness/kernel.h"
#include "harness/protocol.h"
#include "harness/random.h"
#include "harness/rebundle.h"
#include "harness/suite.h"
#include "harness/verify_up_proj.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define FOLDER "tests/broken"

enum { RANKS = 8, SHARD = 16, LATENT = 256, ROWS = 8, CHAIN = 7, LATE_SEEDS = 10 };

static const struct bwt_protocol usual = {.ranks = RANKS,
                                          .hidden = RANKS * SHARD,
                                          .latent_dim = LATENT,
                                          .rows = ROWS,
                                          .mode = BW_MAILBOX_MULTICAST,
                                          .chain = CHAIN,
                                          .delays = 4};

/* The schedule and everything drawn. */
static void seed_everything(struct bwt_protocol *p, uint64_t number) {
  char text[24];
  p->seed = bwt_mix(bwt_run_seed(), number);
  snprintf(text, sizeof text, "%u", (unsigned)(p->seed >> 40));
  setenv("EMU_SEED", text, 1);
  bwt_allow_multicast();
}

static void open_test_bundle(bw_bundle **bundle) {
  char path[PATH_MAX];
  ck_assert_msg(bwt_build_file("test.bundle", path), "no test.bundle in the build");
  ck_assert_msg(bw_bundle_open(path, bundle) == BW_OK, "%s", bw_last_error());
}

static void expect_right(const struct bwt_protocol *p) {
  static struct bwt_protocol_result result;
  ck_assert_msg(bwt_protocol_run(p, &result), "%s", result.why.chars);
  ck_assert_uint_ge(result.steps, p->steps);
  printf("%u steps of %u ranks, EMU_SEED=%s\n", result.steps, p->ranks, getenv("EMU_SEED"));
}

/* ---- edited kernels -------------------------------------------------------------------- */

struct edit {
  const char *names[2]; /* of tests/broken/mailbox */
  char families[2][64];
  const char *mode;
  char *text; /* of the entry edited last */
};

/* The rest of the line "# @name ..."; "" if there is none. */
static void directive(const char *file, const char *name, char *value, size_t size) {
  char path[256], start[32];
  snprintf(path, sizeof path, FOLDER "/mailbox/%s.awk", file);
  snprintf(start, sizeof start, "\n# @%s ", name);
  char *text = bwt_read_text(path);
  ck_assert_msg(text != NULL, "cannot read %s", path);
  const char *at = strstr(text, start);
  at = at != NULL ? at + strlen(start) : "";
  snprintf(value, size, "%.*s", (int)strcspn(at, "\n"), at);
  free(text);
}

static char *awk(const char *name, const char *ptx) {
  char source[] = "/tmp/bw-protocol-XXXXXX", target[64], command[512];
  int file = mkstemp(source);
  ck_assert_int_ge(file, 0);
  close(file);
  snprintf(target, sizeof target, "%s.out", source);
  ck_assert_msg(bwi_write_file(source, ptx, strlen(ptx)) == BW_OK, "%s", bw_last_error());
  snprintf(command, sizeof command,
           "awk -f " FOLDER "/lib.awk -f " FOLDER "/mailbox/%s.awk %s > %s", name, source, target);
  ck_assert_msg(system(command) == 0, "%s: the kernel no longer has what this edits", name);
  char *text = bwt_read_text(target);
  unlink(source);
  unlink(target);
  ck_assert_ptr_nonnull(text);
  ck_assert_msg(strcmp(text, ptx) != 0, "%s changes nothing", name);
  return text;
}

/* Only what is launched here: of up_proj the kernels of one warp in one mode. */
static bool edit_entry(bwi_entry *e, void *arg) {
  struct edit *edit = arg;
  bool copy = strcmp(e->info.family, "lamport_copy") == 0;
  if (!copy && (strstr(e->info.key, "_b32o") == NULL || strstr(e->info.key, edit->mode) == NULL))
    return false;
  for (int i = 0; i < 2; i++) {
    if (edit->names[i] == NULL || strstr(edit->families[i], e->info.family) == NULL)
      continue;
    char *text = awk(edit->names[i], e->ptx);
    free(edit->text);
    edit->text = text;
    e->ptx = text;
    e->ptx_size = strlen(text);
  }
  return true;
}

/* Edited by one file of tests/broken/mailbox, and by a second one unless that is NULL. */
static void edit_bundle(const bw_bundle *from, bw_mailbox_mode mode, const char *first,
                        const char *second, struct bwt_rebundled *out) {
  struct edit edit = {.names = {first, second}, .mode = bwt_mode_name(mode)};
  struct bwt_text why = {0};
  for (int i = 0; i < 2; i++)
    if (edit.names[i] != NULL)
      directive(edit.names[i], "family", edit.families[i], sizeof edit.families[i]);
  ck_assert_msg(bwt_rebundle_all(from, "sm_100f", edit_entry, &edit, out, &why), "%s", why.chars);
  free(edit.text);
}

/* ---- right kernels ------------------------------------------------------------------------ */

/* Steps of a seed: fewer for the sanitizers. */
static uint32_t steps_of(uint32_t sanitizers, uint32_t sample, uint32_t full) {
  return bwt_sampled() ? sanitizers : bwt_full() ? full : sample;
}

/* _i: seed; its low bits choose the mode and whether readers wait first. */
static struct bwt_protocol protocol_of(int i, uint64_t number) {
  struct bwt_protocol p = usual;
  uint64_t choice = (unsigned)i + bwt_run_seed();
  p.mode = choice & 1 && !bwt_on_gpu() ? BW_MAILBOX_MULTICAST : BW_MAILBOX_PEERS;
  p.mailbox_flags = choice & 2 ? BW_MAILBOX_COPY_WAITS_FIRST : 0;
  seed_everything(&p, number + (unsigned)i);
  return p;
}

START_TEST(eager) {
  struct bwt_protocol p = protocol_of(_i, 0);
  open_test_bundle(&p.bundle);
  p.steps = steps_of(40, 200, 300);
  expect_right(&p);
  bw_bundle_close(p.bundle);
}
END_TEST

START_TEST(replayed) {
  struct bwt_protocol p = protocol_of(_i, 1000);
  open_test_bundle(&p.bundle);
  p.steps = steps_of(20, 105, 120);
  p.graph = true;
  expect_right(&p);
  bw_bundle_close(p.bundle);
}
END_TEST

/* All launches with PDL and nothing between them: as many grids in flight as can be. */
START_TEST(pdl_everywhere) {
  struct bwt_protocol p = protocol_of(_i, 2000);
  open_test_bundle(&p.bundle);
  p.steps = steps_of(15, 45, 45);
  p.pdl_only = true;
  p.delays = 0;
  p.chain = 15;
  expect_right(&p);
  bw_bundle_close(p.bundle);
}
END_TEST

START_TEST(one_rank_held) {
  if (bwt_on_gpu())
    BWT_SKIP("edited PTX, which only the emulator runs");
  struct bwt_protocol p = protocol_of(_i, 3000);
  struct bwt_rebundled held;
  bw_bundle *shipped;
  p.mode = BW_MAILBOX_MULTICAST;
  open_test_bundle(&shipped);
  edit_bundle(shipped, p.mode, "held_reader", NULL, &held);
  p.bundle = shipped;
  p.first_bundle = held.bundle;
  p.steps = steps_of(14, 40, 28);
  p.delays = 0;
  expect_right(&p);
  bwt_rebundle_close(&held);
  bw_bundle_close(shipped);
}
END_TEST

/* A few steps of the sizes of the model; latent is 0 there, too. */
START_TEST(size_of_the_model) {
  struct bwt_protocol p = protocol_of(_i, 4000);
  ck_assert_msg(bw_bundle_open(NULL, &p.bundle) == BW_OK, "%s", bw_last_error());
  p.hidden = 7168;
  p.latent_dim = 3584;
  p.rows = bwt_full() && _i == 0 ? 2 : 1;
  if (bwt_full() && _i == 1)
    p.ranks = 16;
  /* Eight such ranks take the sanitizers long, and do not fit on one GPU at once: readers that
   * poll would keep producers out. */
  if (bwt_sampled() || bwt_on_gpu()) {
    p.ranks = 2;
    p.hidden = 2 * 896;
  }
  p.chain = 3;
  p.steps = 3;
  p.graph = bwt_full() && _i == 1;
  expect_right(&p);
  bw_bundle_close(p.bundle);
}
END_TEST

/* ---- planted bugs --------------------------------------------------------------------------- */

static const char *const bugs[] = {
    "one_generation",
    "rearmed_wrong_generation",
    "counted_by_the_first_cta",
    "rearmed_before_the_copy",
    "kept_minus_zero",
    "producer_without_wait",
    "reader_without_wait",
    "plain_store_to_multicast",
    "halves_stored_apart",
    "stored_as_bf16x2",
    "stored_as_v2_bf16",
    "warp_vote_in_the_poll",
    "reader_stores_before_the_wait",
    "reader_without_sys_fence",
    "producer_without_sys_fence",
};

static bool verify_fails(bw_bundle *broken, struct bwt_text *why) {
  static struct bwt_ranks ranks;
  static struct bwt_mail_result result;
  const struct bwt_up_proj_case c = {.rows = 3,
                                     .tp_size = 2,
                                     .latent_dim = LATENT,
                                     .hidden = 2 * 128,
                                     .mode = BW_MAILBOX_LOCAL,
                                     .seed = bwt_run_seed()};
  ck_assert_msg(bwt_ranks_open(&ranks, NULL, broken, why), "%s", why->chars);
  bwt_up_proj_verify(&ranks, &c, &result);
  bwt_ranks_close(&ranks);
  *why = result.why;
  return result.failures == BWT_MAIL_WORDS;
}

/* Runs the bug's scenario; whether it was caught, with the words that it must have. */
static bool caught(const char *name, uint64_t number) {
  static struct bwt_protocol_result result;
  struct bwt_protocol p = usual;
  struct bwt_rebundled broken, held = {0};
  char scenario[64], says[64];
  bw_bundle *shipped;
  directive(name, "scenario", scenario, sizeof scenario);
  directive(name, "says", says, sizeof says);
  bool verify = strcmp(scenario, "verify") == 0;
  if (strcmp(scenario, "peers") == 0)
    p.mode = BW_MAILBOX_PEERS;
  seed_everything(&p, 5000 + number);
  open_test_bundle(&shipped);
  edit_bundle(shipped, verify ? BW_MAILBOX_LOCAL : p.mode, name, NULL, &broken);
  if (strcmp(scenario, "held") == 0) {
    edit_bundle(shipped, p.mode, "held_reader", name, &held);
    p.first_bundle = held.bundle;
    p.delays = 0;
  }
  p.bundle = broken.bundle;
  p.steps = 28;
  p.pdl_only = strncmp(scenario, "pdl", 3) == 0;
  if (strcmp(scenario, "pdl_first") == 0)
    p.mailbox_flags = BW_MAILBOX_COPY_WAITS_FIRST;
  bool failed = verify ? verify_fails(broken.bundle, &result.why)
                       : !bwt_protocol_run(&p, &result) && result.ran;
  if (failed && strstr(result.why.chars, says) == NULL)
    printf("%s, but without \"%s\": %s\n", name, says, result.why.chars);
  failed = failed && strstr(result.why.chars, says) != NULL;
  if (failed)
    printf("%s: %s", name, result.why.chars);
  bwt_rebundle_close(&broken);
  if (held.bundle != NULL)
    bwt_rebundle_close(&held);
  bw_bundle_close(shipped);
  return failed;
}

/* In one of the first schedules it must show. */
START_TEST(bug_is_caught) {
  if (bwt_on_gpu())
    BWT_SKIP("edited PTX, which only the emulator runs");
  bool seen = false;
  for (int seed = 1; !seen && seed <= LATE_SEEDS; seed++) {
    fflush(stdout);
    pid_t child = fork(); /* before the driver is opened */
    ck_assert_int_ge(child, 0);
    if (child == 0) {
      bool yes = caught(bugs[_i], (uint64_t)seed);
      fflush(stdout);
      _exit(yes ? 0 : 1);
    }
    int status = 0;
    waitpid(child, &status, 0);
    seen = WIFEXITED(status) && WEXITSTATUS(status) == 0;
  }
  ck_assert_msg(seen, "%s: not caught in %d schedules", bugs[_i], LATE_SEEDS);
}
END_TEST

int main(void) {
  int seeds = bwt_full() ? 20 : 2;
  const struct bwt_test tests[] = {
      BWT_LOOP("steps", eager, 0, seeds, 1800),
      BWT_LOOP("steps", replayed, 0, seeds, 1800),
      BWT_LOOP("steps", pdl_everywhere, 0, bwt_full() ? 20 : 1, 1800),
      BWT_LOOP("steps", one_rank_held, 0, bwt_full() ? 20 : 1, 1800),
      BWT_LOOP("steps", size_of_the_model, 0, bwt_full() ? 2 : 1, 1800),
      BWT_LOOP("bugs", bug_is_caught, 0, (int)BWT_COUNT(bugs), 400),
  };
  return bwt_suite_main("mailbox_protocol", tests, BWT_COUNT(tests));
}
