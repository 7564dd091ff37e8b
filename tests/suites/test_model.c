/* SPDX-License-Identifier: Apache-2.0
 *
 * The mailbox protocol and the rounds that set a mailbox up under the model checker spin:
 * every interleaving of each as it is, and for each deliberate mistake a counterexample.
 */
#include "harness/command.h"
#include "harness/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SMALL, LARGE }; /* LARGE: many states, which are compressed for four times the time */

/* spin's exhaustive search of a model with these settings. */
static void search(const char *model, const char *settings, int size, bool sound) {
  static char output[1 << 16];
  char folder[PATH_MAX], path[64], here[PATH_MAX];
  bwt_folder_make(folder);
  snprintf(path, sizeof path, "tests/model/%s.pml", model);
  ck_assert_ptr_nonnull(realpath(path, here));
  int status = bwt_command(output, sizeof output,
                           "cd '%s' && spin %s -a '%s' && "
                           "${CC:-cc} %s -w -DSAFETY -DMEMLIM=%d %s -o pan pan.c && "
                           "./pan -m200000",
                           folder, settings, here, sound ? "-O2" : "-O0",
                           size == LARGE ? 6000 : 1000, size == LARGE ? "-DCOLLAPSE" : "");
  bwt_folder_remove(folder);
  ck_assert_msg(status == 0, "spin %s %s: exit status %d\n%s", settings, path, status, output);
  ck_assert_msg(strstr(output, "Search not completed") == NULL || !sound,
                "spin %s %s: the search was not exhaustive\n%s", settings, path, output);
  ck_assert_msg(strstr(output, "max search depth too small") == NULL,
                "spin %s %s: the search was not exhaustive\n%s", settings, path, output);
  ck_assert_msg((strstr(output, "errors: 0") != NULL) == sound, "spin %s %s: %s\n%s", settings,
                path, sound ? "a counterexample" : "no counterexample", output);
}

/* The protocol, with rows that change from step to step: three ranks, over steps that wrap
 * the ring twice and a half; two ranks with a reader of two CTAs, over three rings' length;
 * with overlap and with graph ends; two ranks without the model's reductions. */
static const char *const protocol[] = {
    "-DN=3 -DS=5 -DCTAS=1 -DMPAT=10",
    "-DN=3 -DS=5 -DCTAS=1 -DMPAT=10 -DTRIGGER_AT_ENTRY",
    "-DN=2 -DS=6 -DCTAS=2 -DMPAT=22",
    "-DN=2 -DS=6 -DCTAS=2 -DMPAT=41 -DREPLAY=1",
    "-DN=2 -DS=6 -DCTAS=2 -DMPAT=22 -DTRIGGER_AT_ENTRY",
    "-DN=2 -DS=6 -DCTAS=2 -DMPAT=22 -DEVERY_WORD",
};

/* Only with BW_FULL. */
static const char *const large[] = {
    "-DN=3 -DS=6 -DCTAS=1 -DMPAT=42",
    "-DN=3 -DS=4 -DCTAS=2 -DMPAT=6",
    "-DN=3 -DS=4 -DCTAS=2 -DMPAT=6 -DTRIGGER_AT_ENTRY",
    "-DN=2 -DS=6 -DCTAS=2 -DMPAT=22 -DEVERY_WORD -DTRIGGER_AT_ENTRY",
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

/* The rounds of set-up; any rank may fail in any of them, or die. */
static const char *const rounds[] = {
    "-DN=3 -DMODE=AUTO",
    "-DN=3 -DMODE=DEMANDED",
    "-DN=3 -DMODE=PEERS",
    "-DN=2 -DMODE=AUTO",
};

static const char *const round_faults[] = {
    "-DFAULT_STOPS_WHEN_IT_FAILS",
    "-DFAULT_OWN_MODE",
    "-DFAULT_KEEPS_OBJECT",
    "-DFAULT_BINDS_AT_ONCE",
    "-DFAULT_RECEIVES_WHILE_OTHERS_SEND",
};

START_TEST(protocol_holds) {
  search("mailbox", protocol[_i], SMALL, true);
}
END_TEST

START_TEST(large_protocol_holds) {
  search("mailbox", large[_i], LARGE, true);
}
END_TEST

START_TEST(protocol_counterexample) {
  char settings[256];
  snprintf(settings, sizeof settings, "-DN=2 -DS=6 -DCTAS=2 -DMPAT=22 %s", faults[_i]);
  search("mailbox", settings, SMALL, false);
  if (!bwt_full())
    return;
  /* The reductions hide none. */
  snprintf(settings, sizeof settings, "-DN=2 -DS=6 -DCTAS=2 -DMPAT=22 -DEVERY_WORD %s", faults[_i]);
  search("mailbox", settings, SMALL, false);
}
END_TEST

START_TEST(rounds_hold) {
  search("setup", rounds[_i], SMALL, true);
}
END_TEST

START_TEST(rounds_counterexample) {
  char settings[256];
  snprintf(settings, sizeof settings, "-DN=3 -DMODE=AUTO %s", round_faults[_i]);
  search("setup", settings, SMALL, false);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("mailbox", protocol_holds, 0, BWT_COUNT(protocol), 300),
      BWT_LOOP("mailbox", protocol_counterexample, 0, BWT_COUNT(faults), 300),
      BWT_LOOP("setup", rounds_hold, 0, BWT_COUNT(rounds), 300),
      BWT_LOOP("setup", rounds_counterexample, 0, BWT_COUNT(round_faults), 300),
      /* last: the others are all there is without BW_FULL */
      BWT_LOOP("large", large_protocol_holds, 0, BWT_COUNT(large), 1800),
  };
  return bwt_suite_main("model", tests, BWT_COUNT(tests) - !bwt_full());
}
