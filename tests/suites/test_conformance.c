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

START_TEST(family) {
  char self[PATH_MAX], command[PATH_MAX + 512], line[512], last[512] = "";
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  ck_assert_int_gt((int)n, 0);
  self[n] = '\0';
  snprintf(command, sizeof command,
           "'%s/conformance' --kernels tests/conformance/ptx --cuda tests/conformance/cuda "
           "--against tests/conformance/recorded/h200.txt %s --family '%s' 2>&1",
           dirname(self), bwt_full() ? "--full" : "", families[_i]);
  FILE *f = popen(command, "r");
  ck_assert_ptr_nonnull(f);
  while (fgets(line, sizeof line, f)) {
    fputs(line, stdout);
    strcpy(last, line);
  }
  int status = pclose(f);
  unsigned passed = 0, failed = 1;
  ck_assert_msg(sscanf(last, "%u passed, %u failed", &passed, &failed) == 2, "no count: %s", last);
  ck_assert_msg(passed > 0 && failed == 0 && status == 0, "%s: %s", families[_i], last);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {BWT_LOOP("conformance", family, 0, BWT_COUNT(families), 900)};
  return bwt_suite_main("conformance", tests, BWT_COUNT(tests));
}
