/* SPDX-License-Identifier: Apache-2.0
 *
 * The CUDA driver as the tests use it: the real one or the emulated one, reached by
 * dlopen through a table of its own (what is under test has another).
 */
#ifndef BW_HARNESS_DRIVER_H
#define BW_HARNESS_DRIVER_H

#include <cuda.h>
#include <limits.h>
#include <stdbool.h>

/* name in this table, symbol in the driver */
#define BWT_DRIVER_CALLS(X)                                                                        \
  X(Init, cuInit)                                                                                  \
  X(DriverGetVersion, cuDriverGetVersion)                                                          \
  X(GetErrorName, cuGetErrorName)                                                                  \
  X(DeviceGet, cuDeviceGet)                                                                        \
  X(DeviceGetCount, cuDeviceGetCount)                                                              \
  X(DeviceGetAttribute, cuDeviceGetAttribute)                                                      \
  X(DevicePrimaryCtxRetain, cuDevicePrimaryCtxRetain)                                              \
  X(DevicePrimaryCtxRelease, cuDevicePrimaryCtxRelease_v2)                                         \
  X(CtxSetCurrent, cuCtxSetCurrent)                                                                \
  X(CtxGetCurrent, cuCtxGetCurrent)                                                                \
  X(CtxPushCurrent, cuCtxPushCurrent_v2)                                                           \
  X(CtxPopCurrent, cuCtxPopCurrent_v2)                                                             \
  X(CtxSynchronize, cuCtxSynchronize)                                                              \
  X(MemAlloc, cuMemAlloc_v2)                                                                       \
  X(MemFree, cuMemFree_v2)                                                                         \
  X(MemcpyHtoD, cuMemcpyHtoD_v2)                                                                   \
  X(MemcpyDtoH, cuMemcpyDtoH_v2)                                                                   \
  X(MemcpyHtoDAsync, cuMemcpyHtoDAsync_v2)                                                         \
  X(MemcpyDtoDAsync, cuMemcpyDtoDAsync_v2)                                                         \
  X(MemGetInfo, cuMemGetInfo_v2)                                                                   \
  X(StreamCreate, cuStreamCreate)                                                                  \
  X(StreamDestroy, cuStreamDestroy_v2)                                                             \
  X(StreamSynchronize, cuStreamSynchronize)                                                        \
  X(EventCreate, cuEventCreate)                                                                    \
  X(EventDestroy, cuEventDestroy_v2)                                                               \
  X(EventRecord, cuEventRecord)                                                                    \
  X(EventSynchronize, cuEventSynchronize)                                                          \
  X(EventElapsedTime, cuEventElapsedTime)                                                          \
  X(StreamBeginCapture, cuStreamBeginCapture_v2)                                                   \
  X(StreamEndCapture, cuStreamEndCapture)                                                          \
  X(GraphInstantiateWithFlags, cuGraphInstantiateWithFlags)                                        \
  X(GraphLaunch, cuGraphLaunch)                                                                    \
  X(GraphExecDestroy, cuGraphExecDestroy)                                                          \
  X(GraphDestroy, cuGraphDestroy)                                                                  \
  X(ModuleLoadData, cuModuleLoadData)                                                              \
  X(ModuleGetFunction, cuModuleGetFunction)                                                        \
  X(ModuleUnload, cuModuleUnload)                                                                  \
  X(FuncSetAttribute, cuFuncSetAttribute)                                                          \
  X(LaunchKernelEx, cuLaunchKernelEx)

struct bwt_driver {
  void *library;
  char path[PATH_MAX]; /* what bw_device_open is to be given for the same driver */
  bool emulated;
#define X(name, symbol) __typeof__(symbol) *name;
  BWT_DRIVER_CALLS(X)
#undef X
};

/* which: "cuda" the system's, "emu" the emulated one (at BAREWARP_EMU, or where the
 * build puts it beside the running program), a path, or NULL: BW_TEST_DRIVER, else
 * "emu".  Also calls cuInit.  NULL on success, else what went wrong (a static text,
 * overwritten by the next failure). */
const char *bwt_driver_open(const char *which, struct bwt_driver *driver);
void bwt_driver_close(struct bwt_driver *driver);

/* "CUDA_ERROR_LAUNCH_FAILED", never NULL. */
const char *bwt_driver_error(const struct bwt_driver *driver, CUresult result);

#endif
