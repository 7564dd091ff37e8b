/* SPDX-License-Identifier: Apache-2.0
 *
 * A device inside the library: its driver and context, its share of the bundle, the
 * kernels loaded so far.  What every kernel family's plan builds on.
 */
#ifndef BW_LOADER_DEVICE_H
#define BW_LOADER_DEVICE_H

#include "bundle.h"
#include "driver.h"

#include <pthread.h>
#include <stdatomic.h>

/* A kernel in a context.  Immutable once loaded. */
typedef struct bwi_kernel {
  CUlibrary library; /* NULL: not loaded */
  CUfunction function;
  uint32_t clusters; /* that the device holds at the same time */
  const bw_kernel_info *info;
} bwi_kernel;

/* All but references and kernels is fixed once the device is open. */
struct bw_device {
  atomic_size_t references;
  bw_bundle *bundle;
  const bwi_driver *driver;
  CUdevice device;
  CUcontext context;
  bool primary; /* the context is retained, not the caller's */
  bool debug;   /* BAREWARP_DEBUG=1 when it was opened */
  char *choice; /* the driver, in words */
  bw_device_info info;
  char title[192];      /* "NVIDIA B200 (compute capability 10.0)", for messages */
  pthread_mutex_t lock; /* of kernels; taken by plans, never by launches */
  bwi_kernel *kernels;  /* one slot for each entry of the bundle */
};

/* ---- device.c: life and context ------------------------------------------------------- */

bw_device *bwi_device_retain(bw_device *device);

/* Between enter and leave the device's context is current to the thread; leave restores
 * what was current before.  leave returns `status`, or its own failure if that is BW_OK;
 * call it only after an enter that returned BW_OK. */
typedef struct bwi_scope {
  const bw_device *device;
  bool pushed;
} bwi_scope;

bw_status bwi_enter(const bw_device *device, bwi_scope *scope);
bw_status bwi_leave(const bwi_scope *scope, bw_status status);

/* ---- kernel.c: loading and launching ----------------------------------------------------- */

/* Whether the device has room for a kernel: threads, shared memory, registers.  Loads
 * nothing.  BW_ERROR_UNSUPPORTED. */
bw_status bwi_kernel_fits(const bw_device *device, const bw_kernel_info *info);

/* The bundle's entry, loaded into the device's context completely: code in the device's
 * memory, dynamic shared memory allowed, one cluster known to fit.  Within enter and
 * leave.  Kernels stay loaded until the device's last reference goes, since a captured
 * graph may need them longer than any plan does. */
bw_status bwi_kernel_load(bw_device *device, size_t index, const bwi_kernel **out);

/* Unloads all, once the work that may use them is done.  For the device's end. */
void bwi_kernels_unload(bw_device *device);

/* Enqueues a kernel: cluster, threads and shared memory as the bundle says, the PDL
 * attribute if `pdl` and the kernel waits.  Enters and leaves by itself. */
bw_status bwi_kernel_launch(const bw_device *device, const bwi_kernel *kernel, uint32_t grid_x,
                            uint32_t grid_y, bool pdl, bw_stream stream, void **parameters);

/* Around calls that may allocate or wait: see kernel.c. */
CUstreamCaptureMode bwi_relax_capture(const bwi_driver *cu);
void bwi_restore_capture(const bwi_driver *cu, CUstreamCaptureMode mode);

/* ---- launch_flags.c: BW_LAUNCH_* ------------------------------------------------------------- */

/* Where a kernel's dependents may start: bits 0-1 of its parameter `flags`. */
enum { BWI_TRIGGER_LATE = 0, BWI_TRIGGER_ENTRY = 1, BWI_TRIGGER_AFTER_WAIT = 2 };

/* args.flags: known bits, at most one trigger. */
bw_status bwi_check_launch_flags(uint32_t flags);
/* The trigger chosen by them, else `fallback`. */
uint32_t bwi_trigger_bits(uint32_t flags, uint32_t fallback);

/* ---- operand.c: what pointers and streams belong to ----------------------------------------- */

/* Whether `bytes` bytes at `address` are memory of this device, as far as the driver can
 * tell.  Within enter and leave; allowed during capture. */
bw_status bwi_check_operand(const bw_device *device, const char *name, bw_devptr address,
                            uint64_t bytes);

/* Whether the stream is one of the device's context, as far as the driver can tell. */
bw_status bwi_check_stream(const bw_device *device, bw_stream stream);

#endif
