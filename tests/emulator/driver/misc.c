/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls that an ordinary client makes at its start and that mean little here.
 */
#include "driver.h"

/* As cudaProfiler.h has them, a header that cuda.h's own package does not bring along. */
CUresult cuProfilerStart(void);
CUresult cuProfilerStop(void);

CUresult cuProfilerStart(void) {
  API(ENTER_context);
  return CUDA_SUCCESS; /* no profiler can be attached */
}

CUresult cuProfilerStop(void) {
  API(ENTER_context);
  return CUDA_SUCCESS;
}

CUresult cuMemPrefetchAsync(CUdeviceptr address, size_t count, CUmemLocation location,
                            unsigned int flags, CUstream s) {
  API(ENTER_context);
  CUresult r = CUDA_SUCCESS;
  if (flags || !count || location.type == CU_MEM_LOCATION_TYPE_INVALID ||
      !memory_covers(address, count) || memory_find(address)->kind != MEMORY_managed)
    return CUDA_ERROR_INVALID_VALUE;
  s = stream_resolve(s, guard.ctx, &r);
  if (!s)
    return r;
  struct work w = {.kind = WORK_empty}; /* managed memory never moves here */
  return enqueue(s, &w);
}

CUresult cuMemAdvise(CUdeviceptr address, size_t count, CUmem_advise advice,
                     CUmemLocation location) {
  API(ENTER_context);
  (void)advice;
  (void)location;
  if (!count || !memory_covers(address, count) || memory_find(address)->kind != MEMORY_managed)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

CUresult cuStreamAttachMemAsync(CUstream s, CUdeviceptr address, size_t length,
                                unsigned int flags) {
  API(ENTER_context);
  CUresult r = CUDA_SUCCESS;
  (void)length;
  struct memory *m = memory_find(address);
  if (!m || m->kind != MEMORY_managed || !flags ||
      flags & ~(unsigned)(CU_MEM_ATTACH_GLOBAL | CU_MEM_ATTACH_HOST | CU_MEM_ATTACH_SINGLE))
    return CUDA_ERROR_INVALID_VALUE;
  s = stream_resolve(s, guard.ctx, &r);
  if (!s)
    return r;
  struct work w = {.kind = WORK_empty};
  return enqueue(s, &w);
}
