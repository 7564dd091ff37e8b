/* SPDX-License-Identifier: Apache-2.0
 *
 * Device memory, pinned host memory, and questions about pointers.  One table, sorted by
 * address, knows every live allocation.
 */
#include "driver.h"

#include "../engine/map.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static struct {
  struct memory **at;
  size_t n, room;
} table;

struct access host_access(CUcontext ctx) {
  return (struct access){.m = driver.m,
                         .dev = ctx ? device_of(ctx) : NULL,
                         .proxy = PROXY_generic,
                         .sem = SEM_weak,
                         .scope = SCOPE_sys};
}

/* ---- the table -------------------------------------------------------------------------- */

static size_t index_of(uint64_t address) /* of the first with base > address */
{
  size_t lo = 0, hi = table.n;
  while (lo < hi) {
    size_t mid = (lo + hi) / 2;
    if (table.at[mid]->mem->base > address)
      hi = mid;
    else
      lo = mid + 1;
  }
  return lo;
}

struct memory *memory_find(uint64_t address) {
  size_t i = index_of(address);
  if (!i)
    return NULL;
  struct memory *m = table.at[i - 1];
  return address - m->mem->base < m->mem->size ? m : NULL;
}

bool memory_covers(uint64_t address, size_t size) {
  while (size) {
    struct memory *m = memory_find(address);
    if (!m)
      return false;
    uint64_t left = m->mem->base + m->mem->size - address;
    if (left >= size)
      return true;
    address += left;
    size -= left;
  }
  return memory_find(address) != NULL;
}

/* Takes the mem in; NULL without memory (the mem is then the caller's to release). */
struct memory *memory_add(struct mem *mem, CUcontext ctx, enum memory_kind kind) {
  if (table.n == table.room) {
    size_t room = table.room ? table.room * 2 : 64;
    struct memory **at = realloc(table.at, room * sizeof(struct memory *));
    if (!at)
      return NULL;
    table.at = at;
    table.room = room;
  }
  struct memory *m = calloc(1, sizeof *m);
  if (!m)
    return NULL;
  m->mem = mem;
  m->ctx = ctx;
  m->kind = kind;
  m->id = ++driver.next_id;
  size_t i = index_of(mem->base);
  memmove(table.at + i + 1, table.at + i, (table.n - i) * sizeof(struct memory *));
  table.at[i] = m;
  table.n++;
  return m;
}

struct memory *memory_alloc(CUcontext ctx, size_t size, enum memory_kind kind, const char *what) {
  char name[96];
  static unsigned count;
  snprintf(name, sizeof name, "%s #%u", what, ++count);
  struct mem *mem = global_alloc(device_of(ctx), size, 512, name);
  if (!mem)
    return NULL;
  struct memory *m = memory_add(mem, ctx, kind);
  if (!m)
    global_free(mem);
  return m;
}

void memory_free(struct memory *m) {
  size_t i = index_of(m->mem->base) - 1;
  table.n--;
  memmove(table.at + i, table.at + i + 1, (table.n - i) * sizeof(struct memory *));
  switch (m->kind) {
  case MEMORY_host:
  case MEMORY_managed: {
    uint8_t *data = m->mem->data;
    global_unmap(m->mem);
    free(data);
    break;
  }
  case MEMORY_registered:
  case MEMORY_mapped:
    global_unmap(m->mem);
    break;
  default:
    global_free(m->mem);
    break;
  }
  free(m);
}

void memory_free_context(CUcontext ctx) {
  for (size_t i = table.n; i-- > 0;)
    if (table.at[i]->ctx == ctx && table.at[i]->kind != MEMORY_mapped)
      memory_free(table.at[i]);
}

/* ---- device memory ------------------------------------------------------------------------ */

CUresult cuMemGetInfo(size_t *free_bytes, size_t *total) {
  API(ENTER_context);
  struct device *d = device_of(guard.ctx);
  if (free_bytes)
    *free_bytes = d->memory - d->allocated;
  if (total)
    *total = d->memory;
  return CUDA_SUCCESS;
}

CUresult cuMemAlloc(CUdeviceptr *out, size_t size) {
  API(ENTER_unsafe);
  if (!out || !size)
    return CUDA_ERROR_INVALID_VALUE;
  struct memory *m = memory_alloc(guard.ctx, size, MEMORY_device, "cuMemAlloc");
  if (!m)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *out = m->mem->base;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocPitch(CUdeviceptr *out, size_t *pitch, size_t width, size_t height,
                         unsigned int element) {
  API(ENTER_unsafe);
  if (!out || !pitch || !width || !height || (element != 4 && element != 8 && element != 16) ||
      width > SIZE_MAX / 2)
    return CUDA_ERROR_INVALID_VALUE;
  size_t row = (width + 511) & ~(size_t)511;
  if (row > SIZE_MAX / height)
    return CUDA_ERROR_OUT_OF_MEMORY;
  struct memory *m = memory_alloc(guard.ctx, row * height, MEMORY_device, "cuMemAllocPitch");
  if (!m)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *pitch = row;
  *out = m->mem->base;
  return CUDA_SUCCESS;
}

CUresult cuMemFree(CUdeviceptr address) {
  API(ENTER_unsafe);
  if (!address)
    return CUDA_SUCCESS;
  struct memory *m = memory_find(address);
  if (!m || m->mem->base != address || m->freeing ||
      (m->kind != MEMORY_device && m->kind != MEMORY_pool && m->kind != MEMORY_managed))
    return CUDA_ERROR_INVALID_VALUE;
  if (m->kind != MEMORY_pool) { /* freeing waits for the device, except for pool memory */
    CUresult r = context_sync(m->ctx);
    if (r)
      return r;
    m = memory_find(address); /* another thread may have come in */
    if (!m)
      return CUDA_ERROR_INVALID_VALUE;
  }
  memory_free(m);
  return CUDA_SUCCESS;
}

CUresult cuMemGetAddressRange(CUdeviceptr *base, size_t *size, CUdeviceptr address) {
  API(ENTER_context);
  struct memory *m = memory_find(address);
  if (!m)
    return CUDA_ERROR_NOT_FOUND;
  if (base)
    *base = m->mem->base;
  if (size)
    *size = m->mem->size;
  return CUDA_SUCCESS;
}

/* ---- host memory that kernels can reach ----------------------------------------------------- */

static CUresult host_alloc(void **out, CUcontext ctx, size_t size, unsigned flags,
                           enum memory_kind kind, const char *what) {
  if (!out || !size)
    return CUDA_ERROR_INVALID_VALUE;
  void *p = NULL;
  if (posix_memalign(&p, 4096, size))
    return CUDA_ERROR_OUT_OF_MEMORY;
  struct mem *mem = global_map(device_of(ctx), (uintptr_t)p, size, p, NULL, what);
  struct memory *m = memory_add(mem, ctx, kind);
  mem->pinned = kind == MEMORY_host;
  if (!m) {
    global_unmap(mem);
    free(p);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  m->flags = flags;
  *out = p;
  return CUDA_SUCCESS;
}

CUresult cuMemHostAlloc(void **out, size_t size, unsigned int flags) {
  API(ENTER_unsafe);
  if (flags & ~(unsigned)(CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP |
                          CU_MEMHOSTALLOC_WRITECOMBINED))
    return CUDA_ERROR_INVALID_VALUE;
  return host_alloc(out, guard.ctx, size, flags, MEMORY_host, "cuMemHostAlloc");
}

CUresult cuMemAllocHost(void **out, size_t size) {
  API(ENTER_unsafe);
  return host_alloc(out, guard.ctx, size, CU_MEMHOSTALLOC_DEVICEMAP, MEMORY_host, "cuMemAllocHost");
}

CUresult cuMemAllocManaged(CUdeviceptr *out, size_t size, unsigned int flags) {
  API(ENTER_unsafe);
  if (flags != CU_MEM_ATTACH_GLOBAL && flags != CU_MEM_ATTACH_HOST)
    return CUDA_ERROR_INVALID_VALUE;
  void *p = NULL;
  CUresult r = host_alloc(out ? &p : NULL, guard.ctx, size, 0, MEMORY_managed, "cuMemAllocManaged");
  if (!r)
    *out = (uintptr_t)p;
  return r;
}

CUresult cuMemFreeHost(void *p) {
  API(ENTER_unsafe);
  struct memory *m = memory_find((uintptr_t)p);
  if (!p || !m || m->kind != MEMORY_host || m->mem->base != (uintptr_t)p)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult r = context_sync(m->ctx);
  if (r)
    return r;
  m = memory_find((uintptr_t)p);
  if (!m)
    return CUDA_ERROR_INVALID_VALUE;
  memory_free(m);
  return CUDA_SUCCESS;
}

CUresult cuMemHostRegister(void *p, size_t size, unsigned int flags) {
  API(ENTER_unsafe);
  const unsigned known = CU_MEMHOSTREGISTER_PORTABLE | CU_MEMHOSTREGISTER_DEVICEMAP |
                         CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY;
  if (!p || !size || flags & ~known)
    return CUDA_ERROR_INVALID_VALUE;
  if (flags & (CU_MEMHOSTREGISTER_IOMEMORY | CU_MEMHOSTREGISTER_READ_ONLY))
    return lacking("cuMemHostRegister of I/O or read-only memory");
  uint64_t first = (uintptr_t)p, last = first + size - 1;
  size_t i = index_of(last);
  if (i && table.at[i - 1]->mem->base + table.at[i - 1]->mem->size > first)
    return CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED;
  struct mem *mem = global_map(device_of(guard.ctx), first, size, p, NULL, "cuMemHostRegister");
  struct memory *m = memory_add(mem, guard.ctx, MEMORY_registered);
  mem->pinned = true;
  if (!m) {
    global_unmap(mem);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  m->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuMemHostUnregister(void *p) {
  API(ENTER_unsafe);
  struct memory *m = memory_find((uintptr_t)p);
  if (!p || !m || m->kind != MEMORY_registered || m->mem->base != (uintptr_t)p)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  CUresult r = context_sync(m->ctx);
  if (r)
    return r;
  m = memory_find((uintptr_t)p);
  if (!m)
    return CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED;
  memory_free(m);
  return CUDA_SUCCESS;
}

static bool is_host(const struct memory *m) {
  return m->kind == MEMORY_host || m->kind == MEMORY_registered;
}

CUresult cuMemHostGetDevicePointer(CUdeviceptr *out, void *p, unsigned int flags) {
  API(ENTER_context);
  struct memory *m = memory_find((uintptr_t)p);
  if (!out || !p || flags || !m || !is_host(m))
    return CUDA_ERROR_INVALID_VALUE;
  *out = (uintptr_t)p; /* unified addressing */
  return CUDA_SUCCESS;
}

CUresult cuMemHostGetFlags(unsigned int *flags, void *p) {
  API(ENTER_context);
  struct memory *m = memory_find((uintptr_t)p);
  if (!flags || !p || !m || !is_host(m))
    return CUDA_ERROR_INVALID_VALUE;
  *flags = m->flags;
  return CUDA_SUCCESS;
}

/* ---- pointer attributes -------------------------------------------------------- */

static CUresult pointer_attribute(void *data, CUpointer_attribute a, uint64_t address,
                                  struct memory *m) {
  if (!m)
    return CUDA_ERROR_INVALID_VALUE;
  switch (a) {
  case CU_POINTER_ATTRIBUTE_CONTEXT:
    *(CUcontext *)data = m->kind == MEMORY_mapped || m->kind == MEMORY_pool ? NULL : m->ctx;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    *(CUmemorytype *)data = is_host(m) ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_POINTER:
    *(CUdeviceptr *)data = address;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_HOST_POINTER:
    if (!is_host(m) && m->kind != MEMORY_managed)
      return CUDA_ERROR_INVALID_VALUE;
    *(void **)data = (void *)(uintptr_t)address;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    *(unsigned *)data = 0;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_BUFFER_ID:
    *(unsigned long long *)data = m->id;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    *(unsigned *)data = m->kind == MEMORY_managed;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
    *(int *)data = m->mem->dev->ordinal;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    *(unsigned *)data = 0;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_START_ADDR:
  case CU_POINTER_ATTRIBUTE_MAPPING_BASE_ADDR:
    *(CUdeviceptr *)data = m->mem->base;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_RANGE_SIZE:
  case CU_POINTER_ATTRIBUTE_MAPPING_SIZE:
    *(size_t *)data = m->mem->size;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MAPPED:
    *(unsigned *)data = 1;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_ALLOWED_HANDLE_TYPES:
    *(unsigned long long *)data =
        m->kind == MEMORY_mapped ? CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR : 0;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    *(unsigned *)data = 0;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    *(unsigned *)data = CU_POINTER_ATTRIBUTE_ACCESS_FLAG_READWRITE;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MEMPOOL_HANDLE:
    *(CUmemoryPool *)data = m->pool;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_MEMORY_BLOCK_ID:
    *(unsigned long long *)data = m->id;
    return CUDA_SUCCESS;
  case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
    *(unsigned *)data = 0;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuPointerGetAttribute(void *data, CUpointer_attribute attribute, CUdeviceptr address) {
  API(ENTER_context);
  if (!data)
    return CUDA_ERROR_INVALID_VALUE;
  return pointer_attribute(data, attribute, address, memory_find(address));
}

/* Unlike the above, this one answers "nothing" about a pointer it does not know. */
CUresult cuPointerGetAttributes(unsigned int n, CUpointer_attribute *attributes, void **data,
                                CUdeviceptr address) {
  API(ENTER_context);
  if (!attributes || !data)
    return CUDA_ERROR_INVALID_VALUE;
  struct memory *m = memory_find(address);
  for (unsigned i = 0; i < n; i++) {
    if (!data[i])
      return CUDA_ERROR_INVALID_VALUE;
    if (m && pointer_attribute(data[i], attributes[i], address, m) == CUDA_SUCCESS)
      continue;
    switch (attributes[i]) { /* by the size of the answer */
    case CU_POINTER_ATTRIBUTE_MEMORY_TYPE:
    case CU_POINTER_ATTRIBUTE_SYNC_MEMOPS:
    case CU_POINTER_ATTRIBUTE_IS_MANAGED:
    case CU_POINTER_ATTRIBUTE_IS_LEGACY_CUDA_IPC_CAPABLE:
    case CU_POINTER_ATTRIBUTE_MAPPED:
    case CU_POINTER_ATTRIBUTE_IS_GPU_DIRECT_RDMA_CAPABLE:
    case CU_POINTER_ATTRIBUTE_ACCESS_FLAGS:
    case CU_POINTER_ATTRIBUTE_IS_HW_DECOMPRESS_CAPABLE:
      *(unsigned *)data[i] = 0;
      break;
    case CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL:
      *(int *)data[i] = -2;
      break;
    default:
      *(uint64_t *)data[i] = 0;
      break;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuPointerSetAttribute(const void *value, CUpointer_attribute attribute,
                               CUdeviceptr address) {
  API(ENTER_context);
  struct memory *m = memory_find(address);
  if (!value || !m || attribute != CU_POINTER_ATTRIBUTE_SYNC_MEMOPS)
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS; /* synchronous copies are complete on return here anyway */
}
