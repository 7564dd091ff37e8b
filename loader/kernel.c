/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels of the bundle in a device's context.
 *
 * Loading uses cuLibraryLoadData rather than cuModuleLoadData, because a library does
 * not die with a context and can be unloaded without entering one.  It is lazy by
 * default, so each kernel is then resolved for the context and its code loaded with
 * cuFuncLoad: the first launch has nothing left to do that a capture would forbid.
 */
#include "device.h"
#include "error.h"

#include <stdio.h>
#include <string.h>

/* ---- limits ----------------------------------------------------------------------- */

static bw_status check_limit(const bw_device *device, const bw_kernel_info *info,
                             const char *resource, uint64_t needed, CUdevice_attribute limit) {
  int has = 0;
  bw_status status = BWI_CALL(device->driver, cuDeviceGetAttribute, (&has, limit, device->device));
  if (status != BW_OK || needed <= (uint64_t)has)
    return status;
  return bwi_fail(BW_ERROR_UNSUPPORTED, "%s %s needs %llu %s per CTA, %s has %d", info->family,
                  info->key, (unsigned long long)needed, resource, device->title, has);
}

bw_status bwi_kernel_fits(const bw_device *device, const bw_kernel_info *info) {
  bw_status status = check_limit(device, info, "threads", info->threads,
                                 CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK);
  if (status == BW_OK)
    status = check_limit(device, info, "bytes of shared memory",
                         (uint64_t)info->shared_static + info->shared_dynamic,
                         CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN);
  if (status == BW_OK)
    status = check_limit(device, info, "registers", (uint64_t)info->registers * info->threads,
                         CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK);
  return status;
}

/* ---- launch configuration ------------------------------------------------------------ */

enum { MAX_ATTRIBUTES = 2 };

/* Fills config; attributes[MAX_ATTRIBUTES] must live as long. */
static void configure(const bw_kernel_info *info, uint32_t grid_x, uint32_t grid_y, bool pdl,
                      CUstream stream, CUlaunchAttribute *attributes, CUlaunchConfig *config) {
  *config = (CUlaunchConfig){.gridDimX = grid_x,
                             .gridDimY = grid_y,
                             .gridDimZ = 1,
                             .blockDimX = info->threads,
                             .blockDimY = 1,
                             .blockDimZ = 1,
                             .sharedMemBytes = info->shared_dynamic,
                             .hStream = stream,
                             .attrs = attributes};
  memset(attributes, 0, MAX_ATTRIBUTES * sizeof *attributes);
  if (info->cluster > 1) {
    CUlaunchAttribute *a = &attributes[config->numAttrs++];
    a->id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    a->value.clusterDim.x = info->cluster;
    a->value.clusterDim.y = 1;
    a->value.clusterDim.z = 1;
  }
  /* Never on a kernel that does not wait: it would run before its input is there. */
  if (pdl && info->waits) {
    CUlaunchAttribute *a = &attributes[config->numAttrs++];
    a->id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    a->value.programmaticStreamSerializationAllowed = 1;
  }
}

bw_status bwi_kernel_launch(const bw_device *device, const bwi_kernel *kernel, uint32_t grid_x,
                            uint32_t grid_y, bool pdl, bw_stream stream, void **parameters) {
  CUlaunchAttribute attributes[MAX_ATTRIBUTES];
  CUlaunchConfig config;
  configure(kernel->info, grid_x, grid_y, pdl, stream, attributes, &config);
  bwi_scope scope;
  bw_status status = bwi_enter(device, &scope);
  if (status != BW_OK)
    return status;
  status =
      BWI_CALL(device->driver, cuLaunchKernelEx, (&config, kernel->function, parameters, NULL));
  return bwi_leave(&scope, status);
}

/* ---- capture -------------------------------------------------------------------------------
 *
 * While any thread captures a stream in the default mode, calls that may allocate or wait are
 * refused, and break the capture.  In the relaxed mode of the calling thread they are neither. */

CUstreamCaptureMode bwi_relax_capture(const bwi_driver *cu) {
  CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  if (!cu->cuThreadExchangeStreamCaptureMode ||
      cu->cuThreadExchangeStreamCaptureMode(&mode) != CUDA_SUCCESS)
    return CU_STREAM_CAPTURE_MODE_RELAXED; /* nothing to restore */
  return mode;
}

void bwi_restore_capture(const bwi_driver *cu, CUstreamCaptureMode mode) {
  if (mode != CU_STREAM_CAPTURE_MODE_RELAXED)
    (void)cu->cuThreadExchangeStreamCaptureMode(&mode);
}

/* ---- loading ---------------------------------------------------------------------------- */

/* The image the driver wants: a cubin, or the PTX for the emulated one. */
static bw_status load_library(const bw_device *device, size_t index, CUlibrary *library) {
  void *image = NULL;
  bw_status status;
  if (device->driver->emulated) {
    char *text = NULL;
    status = bw_bundle_ptx(device->bundle, index, &text, NULL);
    image = text;
  } else {
    status = bw_bundle_cubin(device->bundle, index, &image, NULL);
  }
  if (status == BW_OK)
    status =
        BWI_CALL(device->driver, cuLibraryLoadData, (library, image, NULL, NULL, 0, NULL, NULL, 0));
  bw_free(image); /* the driver has its own copy */
  return status;
}

static bw_status check_thread_limit(const bwi_driver *cu, const bwi_kernel *k) {
  int limit = 0;
  bw_status status = BWI_CALL(cu, cuFuncGetAttribute,
                              (&limit, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, k->function));
  if (status != BW_OK || k->info->threads <= (uint32_t)limit)
    return status;
  return bwi_fail(BW_ERROR_UNSUPPORTED, "it has %u threads per CTA, the driver allows %d",
                  k->info->threads, limit);
}

/* How many of the kernel's clusters the device can hold.  For CTAs that form no cluster
 * cuOccupancyMaxActiveClusters answers 0 (seen on an H200); those are counted one by one. */
static bw_status count_clusters(const bwi_driver *cu, const bwi_kernel *k, int *clusters) {
  if (k->info->cluster == 1)
    return BWI_CALL(
        cu, cuOccupancyMaxActiveBlocksPerMultiprocessor,
        (clusters, k->function, (int)k->info->threads, (size_t)k->info->shared_dynamic));
  CUlaunchAttribute attributes[MAX_ATTRIBUTES];
  CUlaunchConfig config;
  configure(k->info, k->info->cluster, 1, false, NULL, attributes, &config);
  return BWI_CALL(cu, cuOccupancyMaxActiveClusters, (clusters, k->function, &config));
}

static bw_status check_clusters(const bwi_driver *cu, bwi_kernel *k) {
  int clusters = 0;
  bw_status status = count_clusters(cu, k, &clusters);
  k->clusters = clusters > 0 ? (uint32_t)clusters : 0;
  if (status != BW_OK || clusters > 0)
    return status;
  return bwi_fail(BW_ERROR_UNSUPPORTED,
                  "the device has no room for one cluster of %u CTAs with %u bytes of shared "
                  "memory each",
                  k->info->cluster, k->info->shared_static + k->info->shared_dynamic);
}

static bw_status load_function(const bwi_driver *cu, bwi_kernel *k) {
  CUkernel kernel = NULL;
  bw_status status = BWI_CALL(cu, cuLibraryGetKernel, (&kernel, k->library, k->info->symbol));
  if (status == BW_OK)
    status = BWI_CALL(cu, cuKernelGetFunction, (&k->function, kernel));
  if (status == BW_OK)
    status = BWI_CALL(cu, cuFuncLoad, (k->function));
  if (status == BW_OK && k->info->shared_dynamic > 0)
    status = BWI_CALL(cu, cuFuncSetAttribute,
                      (k->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                       (int)k->info->shared_dynamic));
  if (status == BW_OK)
    status = check_thread_limit(cu, k);
  if (status == BW_OK)
    status = check_clusters(cu, k);
  return status;
}

/* Says which kernel the failure just recorded is about. */
static bw_status name_failure(bw_status status, const bw_kernel_info *info) {
  char reason[512];
  (void)snprintf(reason, sizeof reason, "%s", bw_last_error());
  return bwi_fail_cu(status, bw_last_curesult(), "loading %s %s %s: %s", info->family, info->arch,
                     info->key, reason);
}

/* With the lock held. */
static bw_status load(bw_device *device, size_t index, bwi_kernel *slot) {
  bwi_kernel k = {.info = bwi_bundle_entry(device->bundle, index)};
  bw_status status = bwi_kernel_fits(device, k.info);
  if (status == BW_OK)
    status = load_library(device, index, &k.library);
  if (status == BW_OK) {
    status = load_function(device->driver, &k);
    if (k.info->cluster == 1)
      k.clusters *= (uint32_t)device->info.multiprocessors; /* was counted on one */
    if (status != BW_OK)
      (void)device->driver->cuLibraryUnload(k.library); /* the first failure is told */
  }
  if (status != BW_OK)
    return name_failure(status, k.info);
  *slot = k;
  return BW_OK;
}

bw_status bwi_kernel_load(bw_device *device, size_t index, const bwi_kernel **out) {
  bw_status status = BW_OK;
  (void)pthread_mutex_lock(&device->lock);
  bwi_kernel *slot = &device->kernels[index];
  if (!slot->library) {
    CUstreamCaptureMode mode = bwi_relax_capture(device->driver);
    status = load(device, index, slot);
    bwi_restore_capture(device->driver, mode);
  }
  (void)pthread_mutex_unlock(&device->lock);
  if (status == BW_OK)
    *out = slot;
  return status;
}

/* ---- unloading ------------------------------------------------------------------------------ */

static bool any_loaded(const bw_device *device) {
  for (size_t i = 0; i < bw_bundle_count(device->bundle); i++)
    if (device->kernels[i].library)
      return true;
  return false;
}

/* Waits for the context's work; false when the driver will not. */
static bool drain(const bw_device *device) {
  const bwi_driver *cu = device->driver;
  if (cu->cuCtxPushCurrent(device->context) != CUDA_SUCCESS)
    return false;
  CUstreamCaptureMode mode = bwi_relax_capture(cu);
  bool drained = cu->cuCtxSynchronize() == CUDA_SUCCESS;
  bwi_restore_capture(cu, mode);
  CUcontext ours;
  (void)cu->cuCtxPopCurrent(&ours);
  return drained;
}

/* This is the end of an object, so failures have no one to go to.  Code that may still
 * run, because the driver would not wait, is left loaded: a leak, but no crash. */
void bwi_kernels_unload(bw_device *device) {
  if (!any_loaded(device) || !drain(device))
    return;
  for (size_t i = 0; i < bw_bundle_count(device->bundle); i++)
    if (device->kernels[i].library)
      (void)device->driver->cuLibraryUnload(device->kernels[i].library);
}
