/* SPDX-License-Identifier: Apache-2.0
 *
 * Multicast objects within one process: one address, a copy in each device's memory.
 * The units ask which copies lie behind an address (multicast_targets).
 */
#include "vmm.h"

#include "../units/units.h"

#include <stdlib.h>

struct binding {
  int ordinal;
  size_t at, size; /* in the multicast object */
  struct allocation *memory;
  size_t offset;    /* in the memory */
  uint64_t address; /* bound by address: of the mapping; 0: by handle */
  struct binding *next;
};

static CUresult prop_valid(const CUmulticastObjectProp *p) {
  if (!p || !p->numDevices || p->flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (p->handleTypes & ~(unsigned long long)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

/* An address of device `ordinal`'s memory where the bytes of the binding are mapped. */
static uint64_t mapped_at(const struct binding *b, size_t in_object) {
  size_t in_memory = b->offset + (in_object - b->at);
  if (b->address)
    return b->address + (in_object - b->at);
  struct mapping *m = mapping_of(b->memory);
  return m && in_memory < m->size ? m->base + in_memory : 0;
}

static unsigned targets(struct machine *m, uint64_t address, uint64_t size,
                        struct multicast_target *out, unsigned room) {
  struct mapping *map = mapping_at(address);
  unsigned n = 0;
  if (!map || !map->of->is_multicast)
    return 0;
  size_t at = address - map->base;
  for (int ordinal = 0; (uint32_t)ordinal < m->ndev; ordinal++)
    for (struct binding *b = map->of->bound; b && n < room; b = b->next) {
      if (b->ordinal != ordinal || at < b->at || at + size > b->at + b->size)
        continue;
      uint64_t copy = mapped_at(b, at);
      if (copy)
        out[n++] = (struct multicast_target){&m->dev[ordinal], copy};
    }
  return n;
}

CUresult cuMulticastGetGranularity(size_t *out, const CUmulticastObjectProp *prop,
                                   CUmulticastGranularity_flags option) {
  API(ENTER_init);
  if (!out || (unsigned)option > CU_MULTICAST_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult r = prop_valid(prop);
  if (!r)
    *out = GRANULARITY;
  return r;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *out, const CUmulticastObjectProp *prop) {
  API(ENTER_init);
  CUresult r = prop_valid(prop);
  if (r)
    return r;
  if (!out || !prop->size || prop->size % GRANULARITY)
    return CUDA_ERROR_INVALID_VALUE;
  struct allocation *a = calloc(1, sizeof *a);
  if (!a || !handle_add(a, HANDLE_allocation)) {
    free(a);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  a->is_multicast = true;
  a->handles = 1;
  a->size = prop->size;
  a->multicast = *prop;
  multicast_targets = targets;
  *out = (uintptr_t)a;
  return CUDA_SUCCESS;
}

static struct allocation *object(CUmemGenericAllocationHandle handle) {
  struct allocation *a = allocation_of(handle);
  return a && a->is_multicast ? a : NULL;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice dev) {
  API(ENTER_init);
  struct allocation *a = object(handle);
  if (!a)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (a->devices >> dev & 1 || (unsigned)__builtin_popcount(a->devices) == a->multicast.numDevices)
    return CUDA_ERROR_INVALID_VALUE;
  a->devices |= 1u << dev;
  return CUDA_SUCCESS;
}

static bool complete(void *object) {
  struct allocation *a = object;
  return !handle_is(a, HANDLE_allocation) ||
         (unsigned)__builtin_popcount(a->devices) == a->multicast.numDevices;
}

/* Binding waits until every device has been added, as on hardware; not for ever here. */
static CUresult bind(CUmemGenericAllocationHandle handle, size_t at, struct allocation *memory,
                     size_t offset, uint64_t address, size_t size, unsigned long long flags) {
  struct allocation *a = object(handle);
  if (!a || !memory || memory->is_multicast || !size || flags || at % GRANULARITY ||
      offset % GRANULARITY || size % GRANULARITY || at + size > a->size ||
      offset + size > memory->size)
    return CUDA_ERROR_INVALID_VALUE;
  int ordinal = memory->prop.location.id;
  if (!(a->devices >> ordinal & 1))
    return CUDA_ERROR_INVALID_DEVICE;
  for (struct binding *b = a->bound; b; b = b->next)
    if (b->ordinal == ordinal && b->at < at + size && at < b->at + b->size)
      return CUDA_ERROR_INVALID_VALUE;
  struct binding *b = calloc(1, sizeof *b);
  if (!b)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *b = (struct binding){ordinal, at, size, memory, offset, address, NULL};
  a->uses++; /* neither goes away meanwhile */
  memory->uses++;
  CUresult r = drive(complete, a);
  a->uses--;
  if (r || !handle_is(a, HANDLE_allocation)) {
    memory->uses--;
    allocation_release(memory);
    allocation_release(a);
    free(b);
    return r ? CUDA_ERROR_SYSTEM_NOT_READY : CUDA_ERROR_INVALID_VALUE;
  }
  b->next = a->bound;
  a->bound = b;
  return CUDA_SUCCESS;
}

CUresult cuMulticastBindMem(CUmemGenericAllocationHandle handle, size_t at,
                            CUmemGenericAllocationHandle memory, size_t offset, size_t size,
                            unsigned long long flags) {
  API(ENTER_init);
  return bind(handle, at, allocation_of(memory), offset, 0, size, flags);
}

CUresult cuMulticastBindAddr(CUmemGenericAllocationHandle handle, size_t at, CUdeviceptr address,
                             size_t size, unsigned long long flags) {
  API(ENTER_init);
  struct mapping *m = mapping_at(address);
  if (!m)
    return CUDA_ERROR_INVALID_VALUE;
  return bind(handle, at, m->of, address - m->base, address, size, flags);
}

static void unbind(struct binding *b) {
  b->memory->uses--;
  allocation_release(b->memory);
  free(b);
}

CUresult cuMulticastUnbind(CUmemGenericAllocationHandle handle, CUdevice dev, size_t at,
                           size_t size) {
  API(ENTER_init);
  struct allocation *a = object(handle);
  if (!a)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  for (struct binding **p = &a->bound; *p; p = &(*p)->next)
    if ((*p)->ordinal == dev && (*p)->at == at && (*p)->size == size) {
      struct binding *b = *p;
      *p = b->next;
      unbind(b);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

void multicast_release(struct allocation *a) {
  while (a->bound) {
    struct binding *b = a->bound;
    a->bound = b->next;
    unbind(b);
  }
}
