/* SPDX-License-Identifier: Apache-2.0
 *
 * Whether pointers and streams are what a launch needs, as far as the driver can tell.
 * Only queries, which a capture allows.
 */
#include "device.h"
#include "error.h"

#include <inttypes.h>

/* What the driver says about an address; type 0 if it does not know it. */
typedef struct residence {
  CUmemorytype type;
  int ordinal;
  int managed;
} residence;

static bw_status find_residence(const bw_device *device, bw_devptr address, residence *where) {
  /* Zeros: whether a boolean has 1 byte or 4 is not documented. */
  unsigned int type = 0, managed = 0;
  int ordinal = -1;
  CUpointer_attribute attributes[] = {CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                                      CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                      CU_POINTER_ATTRIBUTE_IS_MANAGED};
  void *values[] = {&type, &ordinal, &managed};
  bw_status status = BWI_CALL(device->driver, cuPointerGetAttributes,
                              (sizeof values / sizeof *values, attributes, values, address));
  *where = (residence){(CUmemorytype)type, ordinal, managed != 0};
  return status;
}

/* Memory the driver never heard of: on machines whose GPU reads the page tables of the
 * process any address may be good, elsewhere none is. */
static bw_status check_unknown(const bw_device *device, const char *name, bw_devptr address) {
  int pageable = 0;
  bw_status status =
      BWI_CALL(device->driver, cuDeviceGetAttribute,
               (&pageable, CU_DEVICE_ATTRIBUTE_PAGEABLE_MEMORY_ACCESS, device->device));
  if (status != BW_OK || pageable)
    return status;
  return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                  "%s is 0x%" PRIx64 ", which is no memory that the driver knows", name, address);
}

/* Whether cuMemMap put memory at this address. */
static bool is_mapped(const bwi_driver *cu, CUdeviceptr address) {
  CUmemGenericAllocationHandle handle;
  if (!cu->cuMemRetainAllocationHandle || !cu->cuMemRelease ||
      cu->cuMemRetainAllocationHandle(&handle, (void *)(uintptr_t)address) != CUDA_SUCCESS)
    return false;
  (void)cu->cuMemRelease(handle);
  return true;
}

/* Walks over the ranges that cover [address, address + bytes).  What was mapped in pieces
 * (cuMemMap; PyTorch's expandable segments) is one operand; what cuMemAlloc happened to put
 * side by side is not. */
static bw_status check_extent(const bw_device *device, const char *name, bw_devptr address,
                              uint64_t bytes) {
  const bwi_driver *cu = device->driver;
  uint64_t covered = 0;
  while (covered < bytes) {
    CUdeviceptr base = 0, at = address + covered;
    size_t size = 0;
    bool found = cu->cuMemGetAddressRange(&base, &size, at) == CUDA_SUCCESS;
    if (!found && covered == 0)
      return BW_OK; /* not from an allocator that keeps extents */
    if (!found || at - base >= size ||
        (covered > 0 && !(is_mapped(cu, at - 1) && is_mapped(cu, at))))
      return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                      "%s needs %" PRIu64 " bytes at 0x%" PRIx64
                      ", its allocation ends after %" PRIu64,
                      name, bytes, address, covered);
    covered += size - (at - base);
  }
  return BW_OK;
}

bw_status bwi_check_operand(const bw_device *device, const char *name, bw_devptr address,
                            uint64_t bytes) {
  if (bytes == 0)
    return BW_OK;
  if (address > UINT64_MAX - bytes)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "%s: %" PRIu64 " bytes at 0x%" PRIx64 " pass the end of memory", name, bytes,
                    address);
  residence where;
  bw_status status = find_residence(device, address, &where);
  if (status != BW_OK)
    return status;
  if (where.type == 0)
    return check_unknown(device, name, address);
  if (where.managed)
    return check_extent(device, name, address, bytes);
  if (where.type != CU_MEMORYTYPE_DEVICE)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "%s is 0x%" PRIx64 ", host memory; must be memory of device %d", name, address,
                    device->info.ordinal);
  if (where.ordinal != device->info.ordinal)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "%s is 0x%" PRIx64 ", memory of device %d; must be of device %d", name, address,
                    where.ordinal, device->info.ordinal);
  return check_extent(device, name, address, bytes);
}

bw_status bwi_check_stream(const bw_device *device, bw_stream stream) {
  const bwi_driver *cu = device->driver;
  /* The default streams belong to whatever context is current, which will be ours. */
  if (!stream || stream == CU_STREAM_LEGACY || stream == CU_STREAM_PER_THREAD ||
      !cu->cuStreamGetCtx)
    return BW_OK;
  CUcontext context = NULL;
  if (cu->cuStreamGetCtx(stream, &context) != CUDA_SUCCESS)
    return BW_OK; /* a green context's stream; the launch itself will tell */
  if (context == device->context)
    return BW_OK;
  return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                  "stream is of another context than the plan's device %d", device->info.ordinal);
}
