/* SPDX-License-Identifier: Apache-2.0
 *
 * Failing with a sentence.  Each of these records the thread's message and CUresult and
 * is the status, so that a check reads
 *
 *     if (tokens > max)
 *       return bwi_fail_range("args.tokens", tokens, 0, max);
 *
 * Only a failing public call may leave a message behind: code that tries something
 * and copes with its failure must not use these on the way.
 */
#ifndef BW_LOADER_ERROR_H
#define BW_LOADER_ERROR_H

#include "barewarp.h"

#if defined(__GNUC__)
#define BWI_PRINTF(fmt, args) __attribute__((format(printf, fmt, args)))
#else
#define BWI_PRINTF(fmt, args)
#endif

/* Keeps the message and the CUresult (0: not the driver's). */
void bwi_record(int curesult, const char *format, ...) BWI_PRINTF(2, 3);

/* Macros, so that compilers and analyzers see that a failure is not BW_OK. */
#define bwi_fail(status, ...) (bwi_record(0, __VA_ARGS__), (bw_status)(status))
#define bwi_fail_cu(status, curesult, ...)                                                         \
  (bwi_record((curesult), __VA_ARGS__), (bw_status)(status))

/* "NAME is VALUE, must be LO..HI" */
#define bwi_fail_range(name, value, lo, hi)                                                        \
  (bwi_record_range((name), (value), (lo), (hi)), (bw_status)BW_ERROR_INVALID_ARGUMENT)
void bwi_record_range(const char *name, uint64_t value, uint64_t lo, uint64_t hi);

/* "NAME is VALUE, must be a multiple of MULTIPLE" */
#define bwi_fail_multiple(name, value, multiple)                                                   \
  (bwi_record_multiple((name), (value), (multiple)), (bw_status)BW_ERROR_INVALID_ARGUMENT)
void bwi_record_multiple(const char *name, uint64_t value, uint64_t multiple);

#define bwi_fail_null(name) bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s is NULL", (name))

/* Host memory ran out while making WHAT. */
#define bwi_fail_memory(what) bwi_fail(BW_ERROR_NO_MEMORY, "out of host memory for %s", (what))

/* Checks an address: not 0, and aligned (a power of two, in bytes). */
bw_status bwi_check_address(const char *name, bw_devptr address, uint32_t alignment);

#endif
