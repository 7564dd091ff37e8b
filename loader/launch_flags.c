/* SPDX-License-Identifier: Apache-2.0
 *
 * BW_LAUNCH_* checked and turned into the bits that kernels take.
 */
#include "device.h"
#include "error.h"

enum { TRIGGERS = BW_LAUNCH_TRIGGER_ENTRY | BW_LAUNCH_TRIGGER_AFTER_WAIT | BW_LAUNCH_TRIGGER_LATE };

bw_status bwi_check_launch_flags(uint32_t flags) {
  const uint32_t known = BW_LAUNCH_NO_PDL | TRIGGERS;
  if ((flags & ~known) != 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "args.flags is 0x%x, must be made of BW_LAUNCH_* (0x%x)", flags, known);
  uint32_t chosen = flags & TRIGGERS;
  if ((chosen & (chosen - 1)) != 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "args.flags is 0x%x, must hold at most one BW_LAUNCH_TRIGGER_*", flags);
  return BW_OK;
}

uint32_t bwi_trigger_bits(uint32_t flags, uint32_t fallback) {
  if (flags & BW_LAUNCH_TRIGGER_ENTRY)
    return BWI_TRIGGER_ENTRY;
  if (flags & BW_LAUNCH_TRIGGER_AFTER_WAIT)
    return BWI_TRIGGER_AFTER_WAIT;
  if (flags & BW_LAUNCH_TRIGGER_LATE)
    return BWI_TRIGGER_LATE;
  return fallback;
}
