/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulated driver's bound on what is executed while no CTA ends (EMU_LIMIT): a kernel
 * that keeps writing memory and gets nowhere is ended with the report of no progress.
 */
#include <cuda.h>

#include "emulator/driver/private.h"
#include "harness/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define OK(call)           ck_assert_int_eq(call, CUDA_SUCCESS)
#define FAILS(call, error) ck_assert_int_eq(call, error)

/* churn: adds 1 to *w, n times; TURN instructions each.
 * token: CTAs 0 and 1 hand a number to and fro, n times each. */
#define TURN 4
static const char *const code =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry churn(.param .u64 pw, .param .u64 pn) {\n"
    "  .reg .pred p; .reg .b32 v; .reg .b64 w, n;\n"
    "  ld.param.u64 w, [pw]; ld.param.u64 n, [pn];\n"
    "again:\n"
    "  atom.relaxed.gpu.global.add.u32 v, [w], 1;\n"
    "  sub.u64 n, n, 1;\n  setp.ne.u64 p, n, 0;\n  @p bra again;\n  ret;\n}\n"
    ".visible .entry token(.param .u64 pw, .param .u64 pn) {\n"
    "  .reg .pred p; .reg .b32 v, me; .reg .b64 w, n;\n"
    "  ld.param.u64 w, [pw]; ld.param.u64 n, [pn];\n  mov.u32 me, %ctaid.x;\n"
    "again:\n"
    "  ld.acquire.gpu.global.u32 v, [w];\n  and.b32 v, v, 1;\n"
    "  setp.ne.u32 p, v, me;\n  @p bra again;\n"
    "  atom.release.gpu.global.add.u32 v, [w], 1;\n"
    "  sub.u64 n, n, 1;\n  setp.ne.u64 p, n, 0;\n  @p bra again;\n  ret;\n}\n";

enum { LIMIT = 20000 };
#define FOR_EVER UINT64_MAX

static CUmodule module;

static void open_device(const char *limit) {
  CUcontext context;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuModuleLoadData(&module, code));
  ck_assert_int_eq(barewarp_emulated_configure("limit", limit), 1);
}

static CUresult run(const char *kernel, unsigned ctas, uint64_t turns, unsigned launches) {
  CUdeviceptr w;
  CUfunction f;
  OK(cuModuleGetFunction(&f, module, kernel));
  OK(cuMemAlloc(&w, 4));
  OK(cuMemsetD32(w, 0, 1));
  void *params[] = {&w, &turns};
  for (unsigned i = 0; i < launches; i++)
    OK(cuLaunchKernel(f, ctas, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
  return cuCtxSynchronize();
}

/* What a thread waits at that never calls the driver: it might, so the driver waits on. */
static pthread_mutex_t held = PTHREAD_MUTEX_INITIALIZER;

static void *idles(void *unused) {
  pthread_mutex_lock(&held);
  pthread_mutex_unlock(&held);
  return unused;
}

static const struct {
  const char *kernel;
  unsigned ctas;
  bool beside; /* another thread */
} livelocks[] = {
    {"churn", 1, false}, {"churn", 1, true}, {"churn", 40, false},
    {"token", 2, false}, {"token", 2, true},
};

START_TEST(livelock_is_ended) {
  pthread_t t;
  open_device("20000");
  pthread_mutex_lock(&held);
  if (livelocks[_i].beside)
    ck_assert_int_eq(pthread_create(&t, NULL, idles, NULL), 0);
  FAILS(run(livelocks[_i].kernel, livelocks[_i].ctas, FOR_EVER, 1), CUDA_ERROR_LAUNCH_FAILED);
  pthread_mutex_unlock(&held);
  if (livelocks[_i].beside)
    ck_assert_int_eq(pthread_join(t, NULL), 0);
  ck_assert_str_eq(barewarp_emulated_report_rule(), "no-progress");
  const char *text = barewarp_emulated_last_report();
  ck_assert_msg(strstr(text, "no CTA has ended for 20000 warp instructions") != NULL, "%s", text);
  ck_assert_msg(strstr(text, livelocks[_i].kernel) != NULL, "%s", text);
}
END_TEST

/* Every CTA that ends begins the count anew; one alone may execute so much and no more. */
START_TEST(ends_begin_anew) {
  open_device("20000");
  OK(run("churn", 1, LIMIT / TURN - 100, 10));
  OK(run("token", 2, 100, 10));
  FAILS(run("churn", 1, LIMIT / TURN + 100, 1), CUDA_ERROR_LAUNCH_FAILED);
}
END_TEST

START_TEST(no_limit) {
  open_device("0");
  OK(run("churn", 1, LIMIT, 1));
  ck_assert_uint_eq(barewarp_emulated_reports(), 0);
}
END_TEST

START_TEST(environment) {
  setenv("EMU_LIMIT", _i ? "-5" : "20000", 1);
  if (_i) {
    FAILS(cuInit(0), CUDA_ERROR_NO_DEVICE);
    return;
  }
  CUcontext context;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuModuleLoadData(&module, code));
  FAILS(run("churn", 1, FOR_EVER, 1), CUDA_ERROR_LAUNCH_FAILED);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("livelock", livelock_is_ended, 0, (int)BWT_COUNT(livelocks), 20),
      BWT_TEST("livelock", ends_begin_anew, 20),
      BWT_TEST("livelock", no_limit, 20),
      BWT_LOOP("setting", environment, 0, 2, 20),
  };
  return bwt_suite_main("emulator limit", tests, BWT_COUNT(tests));
}
