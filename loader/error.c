/* SPDX-License-Identifier: Apache-2.0
 *
 * The thread's last error, the words for a status, the version.
 */
#include "error.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* Long enough for a path and a sentence; what is longer is cut, never overrun. */
static _Thread_local char last_message[1024];
static _Thread_local int last_curesult;

const char *bw_status_text(bw_status status) {
  switch (status) {
  case BW_OK:
    return "success";
  case BW_ERROR_INVALID_ARGUMENT:
    return "invalid argument";
  case BW_ERROR_UNSUPPORTED:
    return "not supported by this bundle or device";
  case BW_ERROR_NO_DRIVER:
    return "no usable CUDA driver";
  case BW_ERROR_NO_DEVICE:
    return "no usable device";
  case BW_ERROR_DRIVER:
    return "a CUDA driver call failed";
  case BW_ERROR_BUNDLE:
    return "bad bundle";
  case BW_ERROR_IO:
    return "file cannot be read or written";
  case BW_ERROR_NO_MEMORY:
    return "out of host memory";
  case BW_ERROR_STATE:
    return "call at the wrong time";
  case BW_MORE:
    return "call again";
  }
  return "unknown status";
}

const char *bw_last_error(void) {
  return last_message;
}

int bw_last_curesult(void) {
  return last_curesult;
}

#define BW_STRING_(x) #x
#define BW_STRING(x)  BW_STRING_(x)

const char *bw_version(void) {
  return BW_STRING(BW_VERSION_MAJOR) "." BW_STRING(BW_VERSION_MINOR) "." BW_STRING(
      BW_VERSION_PATCH);
}

void bw_free(void *memory) {
  free(memory);
}

void bwi_record(int curesult, const char *format, ...) {
  va_list args;
  va_start(args, format);
  (void)vsnprintf(last_message, sizeof last_message, format, args);
  va_end(args);
  last_curesult = curesult;
}

void bwi_record_range(const char *name, uint64_t value, uint64_t lo, uint64_t hi) {
  bwi_record(0, "%s is %" PRIu64 ", must be %" PRIu64 "..%" PRIu64, name, value, lo, hi);
}

void bwi_record_multiple(const char *name, uint64_t value, uint64_t multiple) {
  bwi_record(0, "%s is %" PRIu64 ", must be a multiple of %" PRIu64, name, value, multiple);
}

bw_status bwi_check_address(const char *name, bw_devptr address, uint32_t alignment) {
  if (address == 0)
    return bwi_fail_null(name);
  if (address % alignment != 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s is 0x%" PRIx64 ", must be %u-byte aligned", name,
                    address, alignment);
  return BW_OK;
}
