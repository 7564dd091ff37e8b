/* SPDX-License-Identifier: Apache-2.0
 *
 * The main of a Check suite: prints the seed, runs what BW_K selects, counts what ran.
 *
 *   int main(void) {
 *     const struct bwt_test tests[] = {
 *         BWT_TEST("formats", e4m3_values, 30),
 *         BWT_LOOP("tokens", one_token_count, 1, 129, 60),
 *     };
 *     return bwt_suite_main("formats", tests, BWT_COUNT(tests));
 *   }
 *
 * Environment
 *   BW_SEED     seed of every random choice; drawn and printed if not set
 *   BW_K        a glob; only tests whose name, case or "case/name" matches run
 *   BW_FULL     not empty: everything, not only a sample
 *   BW_SAMPLE   N: of each looped test at most N runs
 *   BW_FORK=no  all tests in this process; on a GPU it also keeps the devices open meanwhile
 *   BW_RESULTS  a file to write TAP to (Check's CK_TAP_LOG_FILE_NAME works too)
 *   BW_TEST_DRIVER  the driver to test on: emu (default), cuda, or a path
 */
#ifndef BW_HARNESS_SUITE_H
#define BW_HARNESS_SUITE_H

#include "harness/target.h"

#include <check.h>
#include <stdbool.h>
#include <stddef.h>

struct bwt_test {
  const char *group; /* the Check case */
  const TTest *test;
  int first, last; /* the loop's _i runs from first to last-1 */
  int seconds;     /* limit of one run */
};

#define BWT_TEST(group, name, seconds)              {group, name, 0, 1, seconds}
#define BWT_LOOP(group, name, first, last, seconds) {group, name, first, last, seconds}
#define BWT_COUNT(array)                            (sizeof(array) / sizeof *(array))

/* Assertions for loops over many values: Check's own note every one that holds. */
#define BWT_REQUIRE(condition, ...)                                                                \
  do {                                                                                             \
    if (!(condition))                                                                              \
      ck_abort_msg(__VA_ARGS__);                                                                   \
  } while (0)
#define BWT_SAME(got, want)                                                                        \
  do {                                                                                             \
    unsigned long long got_ = (unsigned long long)(got), want_ = (unsigned long long)(want);       \
    BWT_REQUIRE(got_ == want_, "%s is 0x%llx, not 0x%llx (%s)", #got, got_, want_, #want);         \
  } while (0)

/* Exit status: 0 if something ran and all passed, or BW_K selects nothing here. */
int bwt_suite_main(const char *suite, const struct bwt_test *tests, size_t count);

/* BW_FULL is set. */
bool bwt_full(void);
/* BW_SAMPLE is set, as for the sanitizers: what takes long should do less. */
bool bwt_sampled(void);

/* For a test that needs what this machine lacks: says so and returns from the test, which
 * scripts/run-suites.sh then counts as skipped, not as passed. */
#define BWT_SKIP(...)                                                                              \
  do {                                                                                             \
    bwt_skipped(__VA_ARGS__);                                                                      \
    return;                                                                                        \
  } while (0)
void bwt_skipped(const char *format, ...) __attribute__((format(printf, 1, 2)));

#endif
