/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs that users are shown compile as they stand and do what they say: the one
 * in README.md, and those in tests/examples.  They are linked to the emulated driver in
 * the place of the system's.
 */
#include "harness/command.h"
#include "harness/kernel.h"
#include "harness/program.h"
#include "harness/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[PATH_MAX], output[1 << 16];

static void setup(void) {
  bwt_folder_make(folder);
}

static int compile_and_run(const char *source) {
  char program[PATH_MAX + 16];
  snprintf(program, sizeof program, "%s/program", folder);
  bwt_compile(output, sizeof output, "${CC:-cc}", source, program, BWT_PROGRAM_OF_USERS);
  return bwt_command(output, sizeof output, "'%s'", program);
}

START_TEST(readme_program) {
  setup();
  char *readme = bwt_read_text("README.md");
  ck_assert_ptr_nonnull(readme);
  char *from = strstr(readme, "\n```c\n"), *to = from != NULL ? strstr(from + 6, "\n```\n") : NULL;
  ck_assert_msg(to != NULL, "README.md has no C program");
  char source[PATH_MAX + 16];
  snprintf(source, sizeof source, "%s/readme.c", folder);
  FILE *file = fopen(source, "w");
  ck_assert_ptr_nonnull(file);
  fwrite(from + 6, 1, (size_t)(to + 1 - from - 6), file);
  ck_assert_int_eq(fclose(file), 0);
  int status = compile_and_run(source);
  ck_assert_msg(status == 0, "exit status %d:\n%s", status, output);
  ck_assert_msg(strstr(output, "q[0][0] = e4m3 0x") != NULL, "it printed:\n%s", output);
  free(readme);
  bwt_folder_remove(folder);
}
END_TEST

START_TEST(wo_a_engine) {
  setup();
  int status = compile_and_run("tests/examples/wo_a_engine.c");
  ck_assert_msg(status == 0 && strstr(output, " 0 wrong bytes") != NULL, "exit status %d:\n%s",
                status, output);
  bwt_folder_remove(folder);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("examples", readme_program, 120),
      BWT_TEST("examples", wo_a_engine, 120),
  };
  return bwt_suite_main("examples", tests, BWT_COUNT(tests));
}
