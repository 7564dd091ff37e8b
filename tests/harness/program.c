/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiling programs; see program.h.
 */
#include "harness/program.h"

#include "harness/command.h"
#include "harness/kernel.h"

#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef __SANITIZE_ADDRESS__
#define SANITIZE "-fsanitize=address,undefined"
#else
#define SANITIZE ""
#endif

void bwt_build_setting(const char *name, char value[PATH_MAX]) {
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

void bwt_compile(char *output, size_t size, const char *compiler, const char *source,
                 const char *program, int kind) {
  char library[PATH_MAX], driver[PATH_MAX], support[PATH_MAX], cuda[PATH_MAX], zstd[PATH_MAX];
  char link[4 * PATH_MAX];
  const bool users = kind == BWT_PROGRAM_OF_USERS;
  ck_assert_msg(bwt_build_file("lib/libbarewarp.a", library), "no library in the build");
  ck_assert_msg(bwt_build_file("emu/libcuda.so.1", driver), "no emulated driver in the build");
  ck_assert_msg(bwt_build_file("tests/libsupport.a", support), "no test harness in the build");
  bwt_build_setting("CUDA_INCLUDE", cuda);
  bwt_build_setting("ZSTD_LIBS", zstd);
  if (users)
    snprintf(link, sizeof link, "'%s' '%s' -Wl,-rpath,\"$(dirname '%s')\"", library, driver,
             driver);
  else
    snprintf(link, sizeof link, "'%s' '%s'", support, library);
  int status = bwt_command(output, size,
                           "%s -std=%s -Wall -Wextra -Werror " SANITIZE
                           " -Iinclude %s -isystem '%s' '%s' %s %s -lpthread -ldl -lm -o '%s'",
                           compiler, users ? "c11" : "gnu11", users ? "" : "-Iloader -Itests", cuda,
                           source, link, zstd, program);
  ck_assert_msg(status == 0, "%s does not compile:\n%s", source, output);
}
