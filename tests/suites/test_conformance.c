/* SPDX-License-Identifier: Apache-2.0
 *
 * The conformance kernels on the emulated driver, a sample of each (with BW_FULL all of it):
 * the program `conformance` beside this one, once for each family of instructions.
 */
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "harness/suite.h"

static const char *const families[] = {"integer",
                                       "logic and shift",
                                       "float",
                                       "half and packed float",
                                       "approximate functions",
                                       "compare and select",
                                       "convert",
                                       "convert pairs",
                                       "move",
                                       "warp",
                                       "control",
                                       "load and store",
                                       "atomic",
                                       "asynchronous copy, not bulk",
                                       "fence and hint",
                                       "barrier",
                                       "cluster barrier",
                                       "mbarrier",
                                       "bulk copy",
                                       "asynchronous store",
                                       "tensor copy",
                                       "tensor map",
                                       "mma.sync",
                                       "matrix load and store",
                                       "wgmma",
                                       "open questions",
                                       "cuda"};

/* Runs the program with more options; all that it judges must pass. */
static void run(const char *options) {
  char self[PATH_MAX], command[PATH_MAX + 512], line[512], last[512] = "";
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  ck_assert_int_gt((int)n, 0);
  self[n] = '\0';
  snprintf(command, sizeof command,
           "'%s/conformance' --kernels tests/conformance/ptx --cuda tests/conformance/cuda "
           "--against tests/conformance/recorded/h200.txt %s 2>&1",
           dirname(self), options);
  FILE *f = popen(command, "r");
  ck_assert_ptr_nonnull(f);
  while (fgets(line, sizeof line, f)) {
    fputs(line, stdout);
    strcpy(last, line);
  }
  int status = pclose(f);
  unsigned passed = 0, failed = 1;
  ck_assert_msg(sscanf(last, "%u passed, %u failed", &passed, &failed) == 2, "no count: %s", last);
  ck_assert_msg(passed > 0 && failed == 0 && status == 0, "%s: %s", options, last);
}

START_TEST(family) {
  char options[128];
  snprintf(options, sizeof options, "%s --family '%s'", bwt_full() ? "--full" : "", families[_i]);
  run(options);
}
END_TEST

/* Products so small that a C of zero decides how they are aligned are rare: a few in 10,000
 * tiles, none in a sample. */
START_TEST(all_tiles) {
  run("--full mma.m16n8k8.f32.bf16.bf16 mma.m16n8k4.f32.tf32.tf32");
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {BWT_LOOP("conformance", family, 0, BWT_COUNT(families), 900),
                                   BWT_TEST("conformance", all_tiles, 300)};
  return bwt_suite_main("conformance", tests, BWT_COUNT(tests));
}
