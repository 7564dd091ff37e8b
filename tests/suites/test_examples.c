/* SPDX-License-Identifier: Apache-2.0
 *
 * The programs that users are shown compile as they stand and do what they say: the one
 * in README.md, and those in tests/examples.  They are linked to the emulated driver in
 * the place of the system's.
 */
#include "harness/command.h"
#include "harness/kernel.h"
#include "harness/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#define SANITIZE "-fsanitize=address,undefined"
#else
#define SANITIZE ""
#endif

static char folder[PATH_MAX], output[1 << 16];

static void setup(void) {
  bwt_folder_make(folder);
}

/* The value of a variable in the build's config.mk. */
static void config(const char *name, char value[PATH_MAX]) {
  char path[PATH_MAX], wanted[64];
  ck_assert_msg(bwt_build_file("config.mk", path), "no config.mk in the build");
  char *text = bwt_read_text(path);
  snprintf(wanted, sizeof wanted, "\n%s := ", name);
  char *at = text != NULL ? strstr(text, wanted) : NULL;
  ck_assert_msg(at != NULL, "config.mk does not set %s", name);
  at += strlen(wanted);
  snprintf(value, PATH_MAX, "%.*s", (int)strcspn(at, "\n"), at);
  free(text);
}

/* Compiles source with warnings as errors, links it as the README says, runs it. */
static int compile_and_run(const char *source) {
  char library[PATH_MAX], driver[PATH_MAX], cuda[PATH_MAX], zstd[PATH_MAX];
  ck_assert_msg(bwt_build_file("lib/libbarewarp.a", library), "no library in the build");
  ck_assert_msg(bwt_build_file("emu/libcuda.so.1", driver), "no emulated driver in the build");
  config("CUDA_INCLUDE", cuda);
  config("ZSTD_LIBS", zstd);
  int status = bwt_command(output, sizeof output,
                           "${CC:-cc} -std=c11 -Wall -Wextra -Werror " SANITIZE
                           " -Iinclude -isystem '%s' '%s' '%s' '%s' %s -lpthread -ldl -lm "
                           "-Wl,-rpath,\"$(dirname '%s')\" -o '%s/program'",
                           cuda, source, library, driver, zstd, driver, folder);
  ck_assert_msg(status == 0, "%s does not compile:\n%s", source, output);
  return bwt_command(output, sizeof output, "'%s/program'", folder);
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
