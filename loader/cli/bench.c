/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp bench`: opening the devices, memory, sizes; see bench.h.
 */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>

/* ---- errors and memory ------------------------------------------------------------------- */

bool bench_driver_ok(bench *b, CUresult result, const char *what) {
  if (result == CUDA_SUCCESS)
    return true;
  static struct bwt_text reports;
  reports.length = 0;
  reports.chars[0] = '\0';
  bwt_session_report(&b->ranks.session, &reports);
  cli_error("bench", "%s: %s\n%s", what, bwt_driver_error(&b->ranks.session.driver, result),
            reports.chars);
  return false;
}

#define DRIVER(call) bench_driver_ok(b, b->ranks.session.driver.call, #call)

bool bench_library_ok(bw_status status) {
  return status == BW_OK || cli_library_error("bench") == CLI_OK;
}

bool bench_memory(bench *b, CUdeviceptr *address, const void *data, size_t bytes) {
  return DRIVER(MemAlloc(address, bytes)) && (!data || DRIVER(MemcpyHtoD(*address, data, bytes)));
}

void bench_release(bench *b, CUdeviceptr *addresses, size_t count) {
  for (size_t i = 0; i < count; i++) {
    if (addresses[i])
      (void)b->ranks.session.driver.MemFree(addresses[i]);
    addresses[i] = 0;
  }
}

bool bench_enter(bench *b, uint32_t device) {
  return DRIVER(CtxSetCurrent(b->ranks.context[device]));
}

/* ---- sizes ----------------------------------------------------------------------------------- */

uint32_t bench_rotation(const bench *b, size_t bytes) {
  return b->info.emulated ? 2 : (uint32_t)(b->cold_bytes / bytes) + 2;
}

uint32_t bench_launches(const bench *b, uint32_t wanted, uint32_t multiple) {
  const uint32_t least = b->launches ? b->launches : b->info.emulated ? 2 : wanted;
  return (least + multiple - 1) / multiple * multiple;
}

/* ---- opening and closing ------------------------------------------------------- */

static bool read_options(bench *b, const bench_options *o, const char *command) {
  uint64_t launches = 0, replays = 0;
  if ((o->seed && !cli_number("--seed", o->seed, 0, UINT64_MAX, &b->seed)) ||
      (o->launches && !cli_number("--launches", o->launches, 1, 100000, &launches)) ||
      (o->replays && !cli_number("--replays", o->replays, 1, 100000, &replays)) ||
      !cli_emulated_configure(&o->emulated, command))
    return false;
  b->launches = (uint32_t)launches;
  b->replays = (uint32_t)replays;
  if (!o->seed)
    b->seed = bwt_run_seed();
  b->json = o->json;
  return true;
}

static bool measure_surroundings(bench *b) {
  int l2 = 0;
  if (!bench_library_ok(bw_device_query(b->ranks.device[0], &b->info)) ||
      !DRIVER(DeviceGetAttribute(&l2, CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE, b->ranks.session.ordinal)))
    return false;
  /* Three times the L2: "more than twice", with room for what it keeps of the last round. */
  b->cold_bytes = (size_t)l2 * 3;
  if (b->replays == 0)
    b->replays = b->info.emulated ? 1 : 31;
  return bench_kernels_open(b) && bench_read_rate(b);
}

static void release(bench *b) {
  if (b->ranks.opened > 0) {
    (void)bench_enter(b, 0);
    bench_kernels_close(b);
    bwt_ranks_close(&b->ranks);
  }
  bw_bundle_close(b->bundle);
  json_decref(b->report);
  b->report = NULL;
  b->bundle = NULL;
}

int bench_open(bench *b, const bench_options *options) {
  static struct bwt_text why;
  *b = (bench){0};
  if (!read_options(b, options, "bench"))
    return CLI_USAGE;
  if (bw_bundle_open(options->path, &b->bundle) != BW_OK)
    return cli_library_error("bench");
  cli_choose_driver(b->bundle, options->driver, &b->choice);
  bool ok = bwt_ranks_open(&b->ranks, b->choice.driver, b->bundle, &why);
  if (!ok)
    cli_error("bench", "%s", why.chars);
  ok = ok && measure_surroundings(b) && bench_report_open(b, options);
  if (!ok)
    release(b);
  return ok ? CLI_OK : CLI_FAILED;
}

int bench_close(bench *b, bool ok) {
  ok = bench_report_close(b) && ok;
  release(b);
  return ok ? CLI_OK : CLI_FAILED;
}
