/* SPDX-License-Identifier: Apache-2.0
 *
 * The main of a Check suite; see suite.h.
 */
#include "harness/suite.h"

#include "harness/driver.h"
#include "harness/random.h"

#include <fnmatch.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bwt_full(void) {
  const char *set = getenv("BW_FULL");
  return set != NULL && *set != '\0';
}

bool bwt_sampled(void) {
  return getenv("BW_SAMPLE") != NULL;
}

/* A line by itself: run-suites.sh looks for it at a line's start. */
void bwt_skipped(const char *format, ...) {
  va_list arguments;
  printf("skipped: ");
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf("\n");
  fflush(stdout);
}

static bool selected(const struct bwt_test *t, const char *pattern) {
  if (pattern == NULL || *pattern == '\0')
    return true;
  char both[256];
  snprintf(both, sizeof both, "%s/%s", t->group, t->test->name);
  return fnmatch(pattern, t->test->name, 0) == 0 || fnmatch(pattern, t->group, 0) == 0 ||
         fnmatch(pattern, both, 0) == 0;
}

/* BW_SAMPLE: of a test's loop only so many runs, evenly spread from a start that the seed
 * decides; the sanitizers' run is a sample so. */
static int loop_step(const struct bwt_test *t) {
  const char *set = getenv("BW_SAMPLE");
  int most = set != NULL ? atoi(set) : 0;
  return most > 0 ? (t->last - t->first + most - 1) / most : 1;
}

static void add_loop(TCase *group, const struct bwt_test *t) {
  int step = loop_step(t);
  if (step <= 1) {
    tcase_add_loop_test(group, t->test, t->first, t->last);
    return;
  }
  for (int i = t->first + (int)(bwt_run_seed() % (unsigned)step); i < t->last; i += step)
    tcase_add_loop_test(group, t->test, i, i + 1);
}

/* The Check case of that name in the suite, made when it is first asked for.  Tests of
 * one group stand together in the table, and share a limit: the longest. */
static void add_group(Suite *suite, const struct bwt_test *tests, size_t count,
                      const char *pattern) {
  TCase *group = tcase_create(tests->group);
  int seconds = 0;
  for (size_t i = 0; i < count; i++) {
    if (!selected(&tests[i], pattern))
      continue;
    add_loop(group, &tests[i]);
    if (tests[i].seconds > seconds)
      seconds = tests[i].seconds;
  }
  tcase_set_timeout(group, seconds);
  suite_add_tcase(suite, group);
}

/* Primary contexts go with their last user; making one takes longer than most tests. */
static void keep_devices(void) {
  static struct bwt_driver driver;
  CUcontext context;
  int count = 0;
  if (!bwt_on_gpu() || bwt_driver_open(NULL, &driver) != NULL)
    return;
  (void)driver.DeviceGetCount(&count);
  for (int i = 0; i < count; i++)
    (void)driver.DevicePrimaryCtxRetain(&context, i);
}

int bwt_suite_main(const char *name, const struct bwt_test *tests, size_t count) {
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf("%s: seed %llu\n", name, (unsigned long long)bwt_run_seed());
  const char *pattern = getenv("BW_K");
  Suite *suite = suite_create(name);
  size_t chosen = 0;
  for (size_t i = 0; i < count;) {
    size_t end = i;
    size_t before = chosen;
    while (end < count && strcmp(tests[end].group, tests[i].group) == 0)
      chosen += selected(&tests[end++], pattern);
    if (chosen > before)
      add_group(suite, tests + i, end - i, pattern);
    i = end;
  }
  SRunner *runner = srunner_create(suite);
  int ran = 0, bad = 0;
  if (chosen > 0) {
    const char *fork = getenv("BW_FORK");
    if (fork != NULL && strcmp(fork, "no") == 0) {
      srunner_set_fork_status(runner, CK_NOFORK);
      keep_devices();
    }
    const char *results = getenv("BW_RESULTS");
    if (results != NULL && *results != '\0')
      srunner_set_tap(runner, results);
    srunner_run_all(runner, CK_ENV);
    ran = srunner_ntests_run(runner);
    bad = srunner_ntests_failed(runner);
  }
  srunner_free(runner);
  if (chosen == 0 && pattern != NULL && *pattern != '\0') {
    printf("%s: nothing selected by BW_K=%s\n", name, pattern);
    return EXIT_SUCCESS;
  }
  if (ran == 0)
    printf("%s: no case ran\n", name);
  return ran > 0 && bad == 0 ? EXIT_SUCCESS : EXIT_FAILURE;
}
