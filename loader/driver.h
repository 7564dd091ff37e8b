/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver as a table of functions, filled from a library chosen at run time:
 * the system's libcuda.so.1, the emulated driver, or a library at a path.  cuda.h is
 * used for its types only; nothing links to the driver.
 *
 * A new driver call is one line in BWI_DRIVER_FUNCTIONS and nothing else.
 */
#ifndef BW_LOADER_DRIVER_H
#define BW_LOADER_DRIVER_H

#include "barewarp.h"

#include <cuda.h>

/* X(function, CUDA version whose variant is meant, is it needed).
 * The version is that of cuGetProcAddress: 3020 for cuMemGetAddressRange means _v2.
 * What is not needed may be NULL in the table. */
#define BWI_DRIVER_FUNCTIONS(X)                                                                    \
  X(cuInit, 2000, true)                                                                            \
  X(cuDriverGetVersion, 2020, true)                                                                \
  X(cuGetErrorName, 6000, true)                                                                    \
  X(cuGetErrorString, 6000, true)                                                                  \
  X(cuDeviceGetCount, 2000, true)                                                                  \
  X(cuDeviceGet, 2000, true)                                                                       \
  X(cuDeviceGetName, 2000, true)                                                                   \
  X(cuDeviceGetAttribute, 2000, true)                                                              \
  X(cuDeviceTotalMem, 3020, true)                                                                  \
  X(cuDevicePrimaryCtxRetain, 7000, true)                                                          \
  X(cuDevicePrimaryCtxRelease, 11000, true)                                                        \
  X(cuCtxGetCurrent, 4000, true)                                                                   \
  X(cuCtxGetDevice, 2000, true)                                                                    \
  X(cuCtxPushCurrent, 4000, true)                                                                  \
  X(cuCtxPopCurrent, 4000, true)                                                                   \
  X(cuCtxSynchronize, 2000, true)                                                                  \
  X(cuThreadExchangeStreamCaptureMode, 10010, false)                                               \
  X(cuStreamGetCtx, 9020, false)                                                                   \
  X(cuPointerGetAttributes, 7000, true)                                                            \
  X(cuMemGetAddressRange, 3020, true)                                                              \
  X(cuMemRetainAllocationHandle, 11000, false)                                                     \
  X(cuMemRelease, 10020, false)                                                                    \
  X(cuMemCreate, 10020, false)                                                                     \
  X(cuMemAddressReserve, 10020, false)                                                             \
  X(cuMemAddressFree, 10020, false)                                                                \
  X(cuMemMap, 10020, false)                                                                        \
  X(cuMemUnmap, 10020, false)                                                                      \
  X(cuMemSetAccess, 10020, false)                                                                  \
  X(cuMemGetAllocationGranularity, 10020, false)                                                   \
  X(cuMemExportToShareableHandle, 10020, false)                                                    \
  X(cuMemImportFromShareableHandle, 10020, false)                                                  \
  X(cuMulticastCreate, 12010, false)                                                               \
  X(cuMulticastAddDevice, 12010, false)                                                            \
  X(cuMulticastBindMem, 12010, false)                                                              \
  X(cuMulticastUnbind, 12010, false)                                                               \
  X(cuMulticastGetGranularity, 12010, false)                                                       \
  X(cuMemAlloc, 3020, true)                                                                        \
  X(cuMemFree, 3020, true)                                                                         \
  X(cuMemHostAlloc, 2020, true)                                                                    \
  X(cuMemHostGetDevicePointer, 3020, true)                                                         \
  X(cuMemFreeHost, 2000, true)                                                                     \
  X(cuMemsetD32Async, 3020, true)                                                                  \
  X(cuStreamCreate, 2000, true)                                                                    \
  X(cuStreamSynchronize, 2000, true)                                                               \
  X(cuStreamDestroy, 4000, true)                                                                   \
  X(cuStreamGetCaptureInfo, 12030, false)                                                          \
  X(cuEventCreate, 2000, true)                                                                     \
  X(cuEventRecord, 2000, true)                                                                     \
  X(cuEventQuery, 2000, true)                                                                      \
  X(cuEventDestroy, 4000, true)                                                                    \
  X(cuTensorMapEncodeTiled, 12000, true)                                                           \
  X(cuLibraryLoadData, 12000, true)                                                                \
  X(cuLibraryUnload, 12000, true)                                                                  \
  X(cuLibraryGetKernel, 12000, true)                                                               \
  X(cuKernelGetFunction, 12000, true)                                                              \
  X(cuFuncLoad, 12040, true)                                                                       \
  X(cuFuncGetAttribute, 2020, true)                                                                \
  X(cuFuncSetAttribute, 9000, true)                                                                \
  X(cuOccupancyMaxActiveBlocksPerMultiprocessor, 6050, true)                                       \
  X(cuOccupancyMaxActiveClusters, 11070, true)                                                     \
  X(cuLaunchKernelEx, 11060, true)

/* Immutable once made, shared by all who ask for the same library, and never freed:
 * see driver.c. */
typedef struct bwi_driver {
#define BWI_MEMBER(function, version, needed) __typeof__(function) *function;
  BWI_DRIVER_FUNCTIONS(BWI_MEMBER)
#undef BWI_MEMBER
  bool emulated;
  int version; /* cuDriverGetVersion */
} bwi_driver;

/* Finds the driver (choice as bw_device_open's `driver`), fills its table and
 * initializes it.  *choice becomes "cuda", "emu" or the path; a static string, or the
 * environment's.  BW_ERROR_NO_DRIVER says what was looked for and where. */
bw_status bwi_driver_open(const char **choice, const bwi_driver **out);

/* BW_OK for CUDA_SUCCESS, else BW_ERROR_DRIVER with the call's name and the driver's
 * words for the error. */
bw_status bwi_driver_check(const bwi_driver *driver, CUresult result, const char *call);

/* Calls and checks: BWI_CALL(driver, cuInit, (0)). */
#define BWI_CALL(driver, function, arguments)                                                      \
  bwi_driver_check((driver), (driver)->function arguments, #function)

#endif
