/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs that are made for machines with GPUs (tests/gpu), on a small emulated Hopper:
 * that they run to their end, and that they see what they are there to see.
 */
#include "harness/command.h"
#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/suite.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[PATH_MAX], program[PATH_MAX], output[1 << 16];

#define RUN(...) bwt_command(output, sizeof output, __VA_ARGS__)

static void assert_says(int status, int want, const char *words) {
  ck_assert_msg(status == want, "exit status %d, not %d:\n%s", status, want, output);
  ck_assert_msg(strstr(output, words) != NULL, "\"%s\" is not in:\n%s", words, output);
}

static void setup(void) {
  bwt_folder_make(folder);
  ck_assert_msg(bwt_build_file("gpu/mailbox_run", program), "no gpu/mailbox_run in the build");
  setenv("EMU_ARCH", "sm_90", 1);
  setenv("EMU_CHECKS", "bounds", 1);
}

static void teardown(void) {
  bwt_folder_remove(folder);
}

#define SMALL "--steps 20 --shard 16 --latent 3584 --rows 2"

/* _i: the seed's lowest bit decides whether readers wait before they poll. */
START_TEST(mailbox_run) {
  static const char *const ways[] = {"--ranks 2", "--ranks 3 --processes"};
  setup();
  assert_says(RUN("'%s' " SMALL " %s --seed %" PRIu64, program, ways[_i],
                  (bwt_run_seed() >> 1 & ~(uint64_t)1) | (unsigned)_i),
              0, _i == 0 ? "\n2 passed, 0 failed\n" : "\n3 passed, 0 failed\n");
  ck_assert_ptr_nonnull(strstr(output, "30 steps, "));
  ck_assert_ptr_nonnull(strstr(output, "mailbox empty again"));
  teardown();
}
END_TEST

/* Rows that are not what the check expects: one other bit in the rule that makes them. */
START_TEST(mailbox_run_sees_wrong_rows) {
  setup();
  assert_says(RUN("cp tests/kernels/*.ptx '%s' && sed -i 's/0x85ebca77/0x85ebca75/' "
                  "'%s/make_rows.ptx' && BW_KERNELS='%s' '%s' " SMALL " --ranks 2 --seed 3",
                  folder, folder, folder, program),
              1, "words are wrong");
  ck_assert_ptr_nonnull(strstr(output, "0 passed, 2 failed"));
  teardown();
}
END_TEST

START_TEST(mailbox_run_refuses) {
  setup();
  assert_says(RUN("'%s' --ranks 17", program), 2, "--ranks is '17', must be 1..16");
  assert_says(RUN("'%s' --rows 9", program), 2, "--rows is '9'");
  assert_says(RUN("'%s' --ranks 2 --latent 300", program), 1, "latent_dim is 300");
  teardown();
}
END_TEST

/* What shows a report of compute-sanitizer false is right itself, and sees a race. */
START_TEST(handover) {
  ck_assert(bwt_build_file("gpu/handover", program));
  setenv("EMU_ARCH", "sm_90", 1);
  for (int mode = 0; mode <= 4; mode++)
    assert_says(RUN("'%s' %d", program, mode), 0, "2000 passed, 0 failed");
  assert_says(RUN("'%s' 5", program), 1, "race-read-write");
  /* Unchecked, the race shows in what most launches give: the exit status is that of failures. */
  assert_says(RUN("EMU_CHECKS=bounds '%s' 5", program), 1, " failed");
}
END_TEST

#define RESULTS "python3 scripts/gpu/results.py "

/* The README's tables, and the plot that it shows, are those of the measurements that are kept. */
START_TEST(readme_has_the_results) {
  assert_says(RUN(RESULTS
                  "check tests/results/h200.json README.md && grep -o 'tests/.*png' README.md "
                  "&& echo same"),
              0, "tests/results/h200.png\nsame");
}
END_TEST

/* In a copy of results, plot and README: other times, with and without new tables. */
static void change(const char *row, const char *times) {
  bwt_folder_make(folder);
  assert_says(RUN("cp tests/results/h200.json tests/results/h200.png README.md '%s' && cd '%s' && "
                  "python3 -c 'import json; r = json.load(open(\"h200.json\")); "
                  "[x[\"us\"]%s.update(median=4321.0) for x in %s]; "
                  "json.dump(r, open(\"h200.json\", \"w\"))' && echo changed",
                  folder, folder, times, row),
              0, "changed");
}

static int check_copy(const char *first) {
  return RUN("%s " RESULTS "check '%s/h200.json' '%s/README.md' && echo same", first, folder,
             folder);
}

static int check_copy_with_new_tables(void) {
  char make[3 * PATH_MAX];
  snprintf(make, sizeof make, RESULTS "readme '%s/h200.json' '%s/README.md' && ", folder, folder);
  return check_copy(make);
}

START_TEST(other_results_are_seen) {
  change("r[\"rows\"] if x[\"family\"] == \"wo_a\" and x[\"tokens\"] == 8", "[\"none\"]");
  assert_says(check_copy(""), 1, "README.md has other results");
  assert_says(check_copy_with_new_tables(), 1, "h200.png shows other results");
  bwt_folder_remove(folder);

  change("r[\"peers\"] if \"us\" in x and x.get(\"peer\") == \"bf16\"", "");
  assert_says(check_copy_with_new_tables(), 1, "h200.png shows other results");
  bwt_folder_remove(folder);
}
END_TEST

/* What the plot does not show needs no new plot; one that is cut off, or is not there, is none. */
START_TEST(plot_is_looked_at) {
  change("r[\"rows\"] if x[\"family\"] == \"host\"", "");
  assert_says(check_copy_with_new_tables(), 0, "same");
  assert_says(RUN("truncate -s -1 '%s/h200.png'", folder), 0, "");
  assert_says(check_copy(""), 1, "h200.png: the PNG ends early");
  assert_says(RUN("printf '\\0' >>'%s/h200.png'", folder), 0, "");
  assert_says(check_copy(""), 1, "h200.png: a broken chunk");
  assert_says(RUN("rm '%s/h200.png'", folder), 0, "");
  assert_says(check_copy(""), 1, "No such file");
  bwt_folder_remove(folder);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("handover", handover, 120),
      BWT_TEST("results", readme_has_the_results, 60),
      BWT_TEST("results", other_results_are_seen, 60),
      BWT_TEST("results", plot_is_looked_at, 60),
      BWT_LOOP("mailbox_run", mailbox_run, 0, 2, 120),
      BWT_TEST("mailbox_run", mailbox_run_sees_wrong_rows, 120),
      BWT_TEST("mailbox_run", mailbox_run_refuses, 60),
  };
  return bwt_suite_main("gpu_programs", tests, BWT_COUNT(tests));
}
