/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest kernels with which compute-sanitizer's racecheck reports what it reports of wo_a's:
 * shared memory that warps store and others load behind an mbarrier, at which one lane of each
 * warp arrives for all of it, after bar.warp.sync.
 *
 *   handover [MODE]     0 (default) to 5: tests/kernels/handover.ptx
 *
 * bar.warp.sync orders what the lanes did before what the one lane does, the arrival releases
 * that, and the wait acquires it; ptxas makes nothing of that bar.warp.sync where a warp is
 * converged anyway, and the tool does not see it.  Every launch's values are compared: "N passed,
 * N failed" counts launches.  `gpu.sh sanitize` runs it where racecheck reports wo_a, and takes
 * that report for false only if this one is reported, too, and right.
 */
#include "harness/kernel.h"

#include <stdio.h>
#include <stdlib.h>

enum { CELLS = 128, LAUNCHES = 2000 };

static bool launch(const struct bwt_session *s, const struct bwt_kernel *k, CUdeviceptr out,
                   uint32_t first, uint32_t mode) {
  static uint32_t cells[CELLS];
  void *parameters[] = {&out, &first, &mode};
  if (bwt_kernel_launch(k, 1, 2 * CELLS, NULL, false, parameters) != CUDA_SUCCESS ||
      s->driver.MemcpyDtoH(cells, out, sizeof cells) != CUDA_SUCCESS)
    return false;
  for (uint32_t i = 0; i < CELLS; i++)
    if (cells[i] != first + i)
      return false;
  return true;
}

int main(int argc, char **argv) {
  struct bwt_session session;
  struct bwt_kernel kernel;
  struct bwt_text why = {0};
  CUdeviceptr out = 0;
  const uint32_t mode = argc > 1 ? (uint32_t)strtoul(argv[1], NULL, 10) : 0;
  unsigned passed = 0;
  if (!bwt_session_open(&session, NULL, NULL, &why) ||
      !bwt_kernel_open(&kernel, &session, "handover", &why) ||
      session.driver.MemAlloc(&out, CELLS * 4) != CUDA_SUCCESS) {
    fprintf(stderr, "handover: %s\n", why.chars);
    return 1;
  }
  for (uint32_t i = 0; i < LAUNCHES; i++)
    passed += launch(&session, &kernel, out, i * CELLS, mode);
  printf("%u passed, %u failed\n", passed, LAUNCHES - passed);
  (void)session.driver.MemFree(out);
  bwt_kernel_close(&kernel);
  bwt_session_close(&session);
  return passed == LAUNCHES ? 0 : 1;
}
