/* SPDX-License-Identifier: Apache-2.0
 *
 * The memory of a mailbox: a rank's own, its mappings of the others', the multicast
 * object over all of them.  Each function does its part or fails with a message; what it
 * had made by then is in the mailbox and goes with bwi_memory_release.
 */
#include "error.h"
#include "mailbox.h"

#include <inttypes.h>
#include <string.h>
#include <unistd.h>

static CUmemAllocationProp allocation_prop(const bw_mailbox *m) {
  CUmemAllocationProp prop;
  memset(&prop, 0, sizeof prop);
  prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  prop.requestedHandleTypes = m->handle_type;
  prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  prop.location.id = m->device->device;
  return prop;
}

static CUmulticastObjectProp multicast_prop(const bw_mailbox *m) {
  CUmulticastObjectProp prop;
  memset(&prop, 0, sizeof prop);
  prop.numDevices = m->config.tp_size;
  prop.size = m->bytes;
  prop.handleTypes = (unsigned long long)m->handle_type;
  return prop;
}

static size_t round_up(size_t size, size_t unit) {
  return (size + unit - 1) / unit * unit;
}

/* ---- mapping ----------------------------------------------------------------------- */

bw_status bwi_memory_map(bw_mailbox *m, bwi_mapping *mapping) {
  const bwi_driver *cu = m->device->driver;
  bw_status status =
      BWI_CALL(cu, cuMemAddressReserve, (&mapping->address, m->bytes, m->bytes_alignment, 0, 0));
  if (status != BW_OK)
    return status;
  mapping->reserved = m->bytes;
  status = BWI_CALL(cu, cuMemMap, (mapping->address, m->bytes, 0, mapping->handle->handle, 0));
  if (status != BW_OK)
    return status;
  mapping->mapped = true;
  CUmemAccessDesc access;
  memset(&access, 0, sizeof access);
  access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  access.location.id = m->device->device;
  access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  return BWI_CALL(cu, cuMemSetAccess, (mapping->address, m->bytes, &access, 1));
}

/* Failures at the end of an object have no one to go to. */
static void release_mapping(const bwi_driver *cu, bwi_mapping *mapping) {
  if (mapping->mapped)
    (void)cu->cuMemUnmap(mapping->address, mapping->reserved);
  if (mapping->reserved)
    (void)cu->cuMemAddressFree(mapping->address, mapping->reserved);
  bwi_handle_drop(&mapping->handle);
  *mapping = (bwi_mapping){0};
}

/* ---- this rank's memory ------------------------------------------------------------ */

/* What ranks map must be a multiple of every granularity involved. */
bw_status bwi_memory_size(bw_mailbox *m) {
  const bwi_driver *cu = m->device->driver;
  CUmemAllocationProp prop = allocation_prop(m);
  size_t unit = 0;
  bw_status status = BWI_CALL(cu, cuMemGetAllocationGranularity,
                              (&unit, &prop, CU_MEM_ALLOC_GRANULARITY_RECOMMENDED));
  if (status != BW_OK)
    return status;
  m->bytes_alignment = unit;
  m->bytes = round_up(m->ring_bytes + BWI_COUNTER_BYTES, unit);
  return BW_OK;
}

bw_status bwi_memory_create(bw_mailbox *m) {
  const bwi_driver *cu = m->device->driver;
  CUmemAllocationProp prop = allocation_prop(m);
  CUmemGenericAllocationHandle handle;
  bw_status status = BWI_CALL(cu, cuMemCreate, (&handle, m->bytes, &prop, 0));
  if (status == BW_OK)
    status = bwi_handle_new(cu, handle, &m->own.handle);
  if (status == BW_OK)
    status = bwi_memory_map(m, &m->own);
  if (status != BW_OK)
    return status;
  m->ring = m->own.address;
  m->counters = m->ring + m->ring_bytes;
  return BW_OK;
}

bw_status bwi_memory_adopt(bw_mailbox *m) {
  const bwi_driver *cu = m->device->driver;
  bw_status status = bwi_check_operand(m->device, "memory.ring", m->ring, m->ring_bytes);
  if (status == BW_OK && m->counters)
    status = bwi_check_operand(m->device, "memory.counters", m->counters, BWI_COUNTER_BYTES);
  if (status != BW_OK || m->counters)
    return status;
  status = BWI_CALL(cu, cuMemAlloc, (&m->own_counters, BWI_COUNTER_BYTES));
  m->counters = m->own_counters;
  return status;
}

bw_status bwi_memory_arm(bw_mailbox *m) {
  const bwi_driver *cu = m->device->driver;
  CUstream stream;
  bw_status status = BWI_CALL(cu, cuStreamCreate, (&stream, CU_STREAM_NON_BLOCKING));
  if (status != BW_OK)
    return status;
  atomic_store_explicit(&m->used, true, memory_order_relaxed);
  status = BWI_CALL(cu, cuMemsetD32Async, (m->ring, BWI_EMPTY_WORD, m->ring_bytes / 4, stream));
  if (status == BW_OK)
    status = BWI_CALL(cu, cuMemsetD32Async, (m->counters, 0, BWI_COUNTER_BYTES / 4, stream));
  if (status == BW_OK)
    status = BWI_CALL(cu, cuStreamSynchronize, (stream));
  CUresult result = cu->cuStreamDestroy(stream);
  if (status == BW_OK)
    status = bwi_driver_check(cu, result, "cuStreamDestroy");
  if (m->stuck)
    *m->stuck = 0;
  m->mine.armed = status == BW_OK;
  return status;
}

/* ---- handles for others, and theirs ------------------------------------------------ */

static bw_status make_offer(bw_mailbox *m, const bwi_handle *handle, int *descriptor,
                            bwi_offer *offer) {
  const bwi_driver *cu = m->device->driver;
  offer->token = handle->token;
  offer->descriptor = -1;
  if (m->one_process)
    return BW_OK;
  if (m->handle_type == CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR) {
    bw_status status =
        BWI_CALL(cu, cuMemExportToShareableHandle, (descriptor, handle->handle, m->handle_type, 0));
    offer->descriptor = *descriptor;
    return status;
  }
  if (m->handle_type == CU_MEM_HANDLE_TYPE_FABRIC) {
    CUmemFabricHandle fabric;
    _Static_assert(sizeof fabric <= sizeof offer->fabric, "a fabric handle fits an offer");
    bw_status status =
        BWI_CALL(cu, cuMemExportToShareableHandle, (&fabric, handle->handle, m->handle_type, 0));
    if (status == BW_OK)
      memcpy(offer->fabric, &fabric, sizeof fabric);
    return status;
  }
  return bwi_fail(BW_ERROR_UNSUPPORTED, "the device's memory cannot be shared between processes");
}

bw_status bwi_memory_offer(bw_mailbox *m) {
  return make_offer(m, m->own.handle, &m->mail.offered[BWI_MAIL_MEMORY], &m->mine.memory);
}

bw_status bwi_memory_import(bw_mailbox *m, const bwi_blob *from, const bwi_offer *offer,
                            int *descriptor, bwi_handle **out) {
  const bwi_driver *cu = m->device->driver;
  if (bwi_same_process(&from->where, &m->mine.where)) {
    *out = bwi_handle_find(cu, offer->token);
    return *out ? BW_OK
                : bwi_fail(BW_ERROR_STATE, "rank %u was destroyed before set-up was over",
                           from->rank);
  }
  CUmemFabricHandle fabric;
  void *shared = &fabric;
  if (m->handle_type == CU_MEM_HANDLE_TYPE_FABRIC)
    memcpy(&fabric, offer->fabric, sizeof fabric);
  else
    shared = (void *)(intptr_t)*descriptor; /* the API wants the number as a pointer */
  CUmemGenericAllocationHandle handle;
  bw_status status =
      BWI_CALL(cu, cuMemImportFromShareableHandle, (&handle, shared, m->handle_type));
  if (*descriptor >= 0)
    (void)close(*descriptor);
  *descriptor = -1;
  return status == BW_OK ? bwi_handle_new(cu, handle, out) : status;
}

/* ---- multicast ------------------------------------------------------------------------
 *
 * Only called when all ranks allow it: see mailbox_rounds.c. */

bw_status bwi_multicast_fit(bw_mailbox *m) {
  CUmulticastObjectProp prop = multicast_prop(m);
  size_t unit = 0;
  bw_status status = BWI_CALL(m->device->driver, cuMulticastGetGranularity,
                              (&unit, &prop, CU_MULTICAST_GRANULARITY_MINIMUM));
  if (status != BW_OK)
    return status;
  if (unit > m->bytes_alignment)
    m->bytes_alignment = unit;
  m->bytes = round_up(m->bytes, unit);
  return BW_OK;
}

bw_status bwi_multicast_create(bw_mailbox *m) {
  const bwi_driver *cu = m->device->driver;
  CUmulticastObjectProp prop = multicast_prop(m);
  CUmemGenericAllocationHandle handle;
  bw_status status = BWI_CALL(cu, cuMulticastCreate, (&handle, &prop));
  if (status == BW_OK)
    status = bwi_handle_new(cu, handle, &m->multicast.handle);
  if (status == BW_OK)
    status = make_offer(m, m->multicast.handle, &m->mail.offered[BWI_MAIL_MULTICAST],
                        &m->mine.multicast);
  return status;
}

bw_status bwi_multicast_add(bw_mailbox *m) {
  return BWI_CALL(m->device->driver, cuMulticastAddDevice,
                  (m->multicast.handle->handle, m->device->device));
}

bw_status bwi_multicast_bind(bw_mailbox *m) {
  bw_status status =
      BWI_CALL(m->device->driver, cuMulticastBindMem,
               (m->multicast.handle->handle, 0, m->own.handle->handle, 0, m->bytes, 0));
  m->bound = status == BW_OK;
  return status == BW_OK ? bwi_memory_map(m, &m->multicast) : status;
}

void bwi_multicast_release(bw_mailbox *m) {
  const bwi_driver *cu = m->device->driver;
  if (m->multicast.mapped)
    (void)cu->cuMemUnmap(m->multicast.address, m->multicast.reserved);
  m->multicast.mapped = false;
  if (m->bound)
    (void)cu->cuMulticastUnbind(m->multicast.handle->handle, m->device->device, 0, m->bytes);
  m->bound = false;
  release_mapping(cu, &m->multicast);
}

/* ---- the end ----------------------------------------------------------------------- */

/* What is mapped is the process's, not the context's: it goes even if the context, of the
 * caller's, is gone already. */
static void unmap_all(bw_mailbox *m) {
  const bwi_driver *cu = m->device->driver;
  bwi_multicast_release(m);
  for (uint32_t r = 0; r < BW_MAILBOX_MAX_RANKS; r++)
    release_mapping(cu, &m->peers[r]);
  release_mapping(cu, &m->own);
}

void bwi_memory_release(bw_mailbox *m) {
  const bwi_driver *cu = m->device->driver;
  bwi_mail_close(&m->mail);
  CUstreamCaptureMode mode = bwi_relax_capture(cu);
  bool entered = cu->cuCtxPushCurrent(m->device->context) == CUDA_SUCCESS;
  if (entered && atomic_load_explicit(&m->used, memory_order_relaxed))
    (void)cu->cuCtxSynchronize(); /* of what may still use the memory */
  unmap_all(m);
  if (entered && m->own_counters)
    (void)cu->cuMemFree(m->own_counters);
  if (entered && m->stuck)
    (void)cu->cuMemFreeHost(m->stuck);
  m->own_counters = 0;
  m->stuck = NULL;
  CUcontext ours;
  if (entered)
    (void)cu->cuCtxPopCurrent(&ours);
  bwi_restore_capture(cu, mode);
}
