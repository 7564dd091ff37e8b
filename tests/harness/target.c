/* SPDX-License-Identifier: Apache-2.0
 *
 * What tests run on; see target.h.
 */
#include "harness/target.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

bool bwt_on_gpu(void) {
  const char *driver = getenv("BW_TEST_DRIVER");
  return driver != NULL && *driver != '\0' && strcmp(driver, "emu") != 0;
}

void bwt_allow_multicast(void) {
  if (bwt_on_gpu())
    return;
  unsetenv("NCCL_NVLS_ENABLE");
  unsetenv("BAREWARP_MULTICAST");
}

void bwt_emulate_devices(uint32_t count) {
  char text[16];
  snprintf(text, sizeof text, "%u", count);
  if (!bwt_on_gpu())
    setenv("EMU_DEVICES", text, 1);
}

int bwt_device_of(CUresult (*count_devices)(int *), uint32_t rank) {
  int count = 0;
  if (count_devices(&count) != CUDA_SUCCESS || count <= 0)
    return (int)rank;
  return (int)(rank % (uint32_t)count);
}
