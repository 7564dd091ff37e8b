/* SPDX-License-Identifier: Apache-2.0
 *
 * The mailbox protocol under the model checker spin: every interleaving of the protocol
 * as it is, and for each deliberate mistake a counterexample.
 */
#include "harness/command.h"
#include "harness/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* spin's exhaustive search of tests/model/mailbox.pml with these settings. */
static void search(const char *settings, bool sound) {
  static char output[1 << 16];
  char folder[PATH_MAX], here[PATH_MAX];
  bwt_folder_make(folder);
  ck_assert_ptr_nonnull(realpath("tests/model/mailbox.pml", here));
  int status = bwt_command(output, sizeof output,
                           "cd '%s' && spin %s -a '%s' && "
                           "${CC:-cc} -O2 -w -DSAFETY -DCOLLAPSE -DMEMLIM=4000 -o pan pan.c && "
                           "./pan -m100000",
                           folder, settings, here);
  bwt_folder_remove(folder);
  ck_assert_msg(status == 0, "spin %s: exit status %d\n%s", settings, status, output);
  ck_assert_msg(strstr(output, "Search not completed") == NULL || !sound,
                "spin %s: the search was not exhaustive\n%s", settings, output);
  ck_assert_msg((strstr(output, "errors: 0") != NULL) == sound, "spin %s: %s\n%s", settings,
                sound ? "a counterexample" : "no counterexample", output);
}

/* Three ranks, and steps that wrap the ring twice; two ranks with a reader of two CTAs and
 * rows that change, over three rings' length; with overlap and with graph ends.  Three
 * ranks with rows that change take many minutes: only with BW_FULL. */
static const struct sound {
  const char *settings;
  bool full;
} sound[] = {
    {"-DN=3 -DS=4 -DCTAS=1 -DMPAT=0", false},
    {"-DN=2 -DS=6 -DCTAS=2 -DMPAT=22", false},
    {"-DN=2 -DS=6 -DCTAS=2 -DMPAT=41 -DREPLAY=1", false},
    {"-DN=2 -DS=6 -DCTAS=2 -DMPAT=22 -DTRIGGER_AT_ENTRY", false},
    {"-DN=3 -DS=4 -DCTAS=1 -DMPAT=2 -DTRIGGER_AT_ENTRY", true},
};

static const char *const faults[] = {
    "-DG=1",
    "-DFAULT_NO_NEGATIVE_ZERO_RULE",
    "-DFAULT_NO_WAIT_PRODUCER",
    "-DFAULT_NO_WAIT_READER -DTRIGGER_AT_ENTRY",
    "-DFAULT_REARM_BEFORE_COPY",
    "-DFAULT_REARM_WRONG_GENERATION",
    "-DFAULT_COUNTER_BY_FIRST_CTA",
};

START_TEST(holds) {
  if (sound[_i].full && !bwt_full())
    return;
  search(sound[_i].settings, true);
}
END_TEST

START_TEST(counterexample) {
  char settings[256];
  snprintf(settings, sizeof settings, "-DN=2 -DS=6 -DCTAS=2 -DMPAT=22 %s", faults[_i]);
  search(settings, false);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("mailbox", holds, 0, BWT_COUNT(sound), 1800),
      BWT_LOOP("mailbox", counterexample, 0, BWT_COUNT(faults), 60),
  };
  return bwt_suite_main("model", tests, BWT_COUNT(tests));
}
