/* SPDX-License-Identifier: Apache-2.0
 *
 * Clients that know nothing of barewarp, on the emulated driver: tests/client/client.c, written
 * against cuda.h alone, and client.py, which reaches the driver through cuda-python's bindings
 * (skipped where PyPI's wheels could not be had).  Both also meet kernels with a fault, and must
 * find it.
 */
#include "harness/command.h"
#include "harness/kernel.h"
#include "harness/program.h"
#include "harness/random.h"
#include "harness/suite.h"

#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char folder[PATH_MAX], output[1 << 16];

/* The folder of the emulated driver. */
static void find_driver(char driver[PATH_MAX]) {
  ck_assert_msg(bwt_build_file("emu/libcuda.so.1", driver), "no emulated driver in the build");
  dirname(driver);
}

/* Each run draws its own numbers. */
static unsigned long long seed_of(int run) {
  return bwt_mix(bwt_run_seed(), 7000 + (unsigned)run) >> 1;
}

static void compile(void) {
  char driver[PATH_MAX], cuda[PATH_MAX];
  find_driver(driver);
  bwt_build_setting("CUDA_INCLUDE", cuda);
  bwt_folder_make(folder);
  int status = bwt_command(output, sizeof output,
                           "${CC:-cc} -std=c11 -O1 -Wall -Wextra -Werror -isystem '%s' "
                           "tests/client/*.c '%s/libcuda.so.1' -Wl,-rpath,'%s' -lm "
                           "-o '%s/client'",
                           cuda, driver, driver, folder);
  ck_assert_msg(status == 0, "the client does not compile:\n%s", output);
}

static int run_client(const char *arch, int devices, const char *kernels, int run) {
  return bwt_command(output, sizeof output, "EMU_ARCH=%s EMU_DEVICES=%d '%s/client' '%s' %llu",
                     arch, devices, folder, kernels, seed_of(run));
}

static int run_python(const char *arch, int devices, const char *kernels, int run) {
  char driver[PATH_MAX], bindings[PATH_MAX];
  find_driver(driver);
  ck_assert(bwt_build_file("python-client", bindings));
  return bwt_command(output, sizeof output,
                     "EMU_ARCH=%s EMU_DEVICES=%d LD_LIBRARY_PATH='%s' PYTHONPATH='%s' "
                     "python3 tests/client/client.py '%s' %llu",
                     arch, devices, driver, bindings, kernels, seed_of(run));
}

#define NEED_BINDINGS                                                                              \
  char stamp[PATH_MAX];                                                                            \
  if (!bwt_build_file("python-client/pinned", stamp))                                              \
  BWT_SKIP("no cuda-bindings from PyPI (scripts/setup.sh python-client): cuda-python as a client")

/* ---- kernels that are right -------------------------------------------------------------- */

static const struct {
  const char *arch;
  int devices;
} machines[] = {{"sm_100", 1}, {"sm_90", 3}, {"sm_103", 1}};

static void expect_success(int status, int devices) {
  char says[64];
  snprintf(says, sizeof says, "on %d devices, 0 wrong", devices);
  ck_assert_msg(status == 0 && strstr(output, says) != NULL, "exit status %d:\n%s", status, output);
}

START_TEST(c_client) {
  compile();
  int status = run_client(machines[_i].arch, machines[_i].devices, "tests/client", _i);
  expect_success(status, machines[_i].devices);
  bwt_folder_remove(folder);
}
END_TEST

START_TEST(cuda_python) {
  NEED_BINDINGS;
  int status = run_python(machines[_i].arch, machines[_i].devices, "tests/client", 10 + _i);
  expect_success(status, machines[_i].devices);
  ck_assert_msg(strstr(output, "barewarp emulated") != NULL, "of another driver: %s", output);
}
END_TEST

/* ---- and that are not ----------------------------------------------------------------------- */

static const struct {
  const char *kernel, *edit, *says;
} faults[] = {
    {"vector_add", "s/add.rn.f32/sub.rn.f32/", "wrong: device 0, c["},
    {"vector_add", "s/setp.ge.u32/setp.gt.u32/", "canar"},
    {"gemm", "s/fma.rn.f32 %f0, %f1, %f2, %f0/fma.rz.f32 %f0, %f2, %f2, %f0/",
     "wrong: device 0, d["},
    {"gemm", "0,/bar.sync 0;/s///", "CUDA_ERROR_LAUNCH_FAILED"},
    {"reduction", "0,/%r7, 16;/s//%r7, 8;/", "wrong: device 0, "},
};

/* A folder of the kernels, fault f made in them. */
static void make_fault(int f) {
  int status = bwt_command(output, sizeof output,
                           "cp tests/client/*.ptx '%s' && sed -i '%s' '%s/%s.ptx' && "
                           "! cmp -s '%s/%s.ptx' tests/client/%s.ptx",
                           folder, faults[f].edit, folder, faults[f].kernel, folder,
                           faults[f].kernel, faults[f].kernel);
  ck_assert_msg(status == 0, "fault %d: nothing was changed: %s", f, output);
}

static void expect_found(int status, int f) {
  ck_assert_msg(status == 1 && strstr(output, "seed ") != NULL &&
                    strstr(output, faults[f].says) != NULL,
                "%s, %s: exit status %d, not \"%s\":\n%s", faults[f].kernel, faults[f].edit, status,
                faults[f].says, output);
}

START_TEST(c_client_finds_faults) {
  compile();
  make_fault(_i);
  expect_found(run_client("sm_100", 1, folder, 20 + _i), _i);
  bwt_folder_remove(folder);
}
END_TEST

START_TEST(cuda_python_finds_faults) {
  NEED_BINDINGS;
  bwt_folder_make(folder);
  make_fault(_i);
  expect_found(run_python("sm_90", 1, folder, 30 + _i), _i);
  bwt_folder_remove(folder);
}
END_TEST

int main(void) {
  const int count = (int)BWT_COUNT(machines), wrong = (int)BWT_COUNT(faults);
  const struct bwt_test tests[] = {
      BWT_LOOP("c", c_client, 0, count, 120),
      BWT_LOOP("c", c_client_finds_faults, 0, wrong, 120),
      BWT_LOOP("python", cuda_python, 0, count, 120),
      BWT_LOOP("python", cuda_python_finds_faults, 0, wrong, 120),
  };
  return bwt_suite_main("client", tests, BWT_COUNT(tests));
}
