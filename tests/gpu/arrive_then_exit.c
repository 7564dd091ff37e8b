/* SPDX-License-Identifier: Apache-2.0
 *
 * The smallest kernel with which compute-sanitizer's racecheck reports what it reports of
 * wo_a's kernels for one head a group: shared memory that is stored before bar.arrive, whose
 * threads then exit, and loaded behind bar.sync of the same barrier.
 *
 *   arrive_then_exit [MODE]     0 (default), 1 or 2: tests/kernels/arrive_then_exit.ptx
 *
 * The PTX ISA gives this very use of bar.arrive as its example of a producer and a consumer;
 * wo_a's producers leave so because nothing is left for them to do.  Every launch's values are
 * compared: "N passed, N failed" counts launches.  `gpu.sh sanitize` runs it where racecheck
 * reports wo_a, and takes that report for false only if this one is reported, too.
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
      !bwt_kernel_open(&kernel, &session, "arrive_then_exit", &why) ||
      session.driver.MemAlloc(&out, CELLS * 4) != CUDA_SUCCESS) {
    fprintf(stderr, "arrive_then_exit: %s\n", why.chars);
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
