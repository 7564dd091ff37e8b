/* SPDX-License-Identifier: Apache-2.0
 *
 * Virtual memory management: physical allocations, reserved addresses, and mappings.
 * Behind every allocation is a memfd, so that a file descriptor shares it with another
 * process, definedness included.
 */
#define _GNU_SOURCE /* memfd_create */
#include "vmm.h"

#include "../engine/map.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

/* Above every device's own range of addresses, and never given out twice. */
#define FIRST_ADDRESS 0x0000720000000000ull
#define HEAD_BYTES    4096
#define HEAD_MAGIC    0x32306d656d776d65ull

/* The last page of the memfd: what an importing process must know. */
struct head {
  uint64_t magic, size, number;
  int32_t ordinal;
};

struct reservation {
  uint64_t base;
  size_t size;
  struct reservation *next;
};

static struct reservation *reservations;
static struct mapping *mappings;
static uint64_t next_address = FIRST_ADDRESS;

/* ---- physical memory --------------------------------------------------------------------- */

struct allocation *allocation_of(CUmemGenericAllocationHandle handle) {
  struct allocation *a = (struct allocation *)(uintptr_t)handle;
  return handle_is(a, HANDLE_allocation) ? a : NULL;
}

void allocation_release(struct allocation *a) {
  if (!a->handles)
    handle_remove(a);
  if (a->handles || a->uses)
    return;
  if (a->multicast) {
    multicast_release(a);
  } else {
    driver.m->dev[a->prop.location.id].allocated -= a->size;
    munmap(a->data, 2 * a->size + HEAD_BYTES);
  }
  close(a->fd);
  free(a);
}

static CUresult prop_valid(const CUmemAllocationProp *p) {
  if (!p || p->type != CU_MEM_ALLOCATION_TYPE_PINNED || p->allocFlags.compressionType)
    return CUDA_ERROR_INVALID_VALUE;
  if (p->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return lacking("virtual memory management outside of a device's memory");
  if (!ordinal_valid(p->location.id))
    return CUDA_ERROR_INVALID_DEVICE;
  if (p->requestedHandleTypes & ~(unsigned)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED; /* fabric handles among them, as the attribute says */
  return CUDA_SUCCESS;
}

/* Takes over the descriptor. */
static CUresult allocation_new(struct allocation **out, int fd, size_t size) {
  struct allocation *a = calloc(1, sizeof *a);
  uint8_t *data = mmap(NULL, 2 * size + HEAD_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  if (!a || data == MAP_FAILED || !handle_add(a, HANDLE_allocation)) {
    if (data != MAP_FAILED)
      munmap(data, 2 * size + HEAD_BYTES);
    close(fd);
    free(a);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  a->handles = 1;
  a->size = size;
  a->fd = fd;
  a->data = data;
  a->undef = data + size;
  *out = a;
  return CUDA_SUCCESS;
}

CUresult cuMemCreate(CUmemGenericAllocationHandle *out, size_t size,
                     const CUmemAllocationProp *prop, unsigned long long flags) {
  API(ENTER_init);
  if (!out || !size || size % GRANULARITY || flags)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult r = prop_valid(prop);
  if (r)
    return r;
  struct device *d = &driver.m->dev[prop->location.id];
  if (size > d->memory - d->allocated)
    return CUDA_ERROR_OUT_OF_MEMORY;
  int fd = memfd_create("emulated device memory", MFD_CLOEXEC);
  if (fd < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  if (ftruncate(fd, (off_t)(2 * size + HEAD_BYTES))) {
    close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  struct allocation *a;
  r = allocation_new(&a, fd, size);
  if (r)
    return r;
  a->prop = *prop;
  d->allocated += size;
  memset(a->data, 0xa5, size);
  memset(a->undef, 0xff, size);
  if (getrandom(&a->number, sizeof a->number, 0) != sizeof a->number)
    a->number = (uint64_t)getpid() << 32 | (uint32_t)fd;
  struct head head = {HEAD_MAGIC, size, a->number, prop->location.id};
  memcpy(a->data + 2 * size, &head, sizeof head);
  *out = (uintptr_t)a;
  return CUDA_SUCCESS;
}

CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
  API(ENTER_init);
  struct allocation *a = allocation_of(handle);
  if (!a)
    return CUDA_ERROR_INVALID_VALUE;
  a->handles--;
  allocation_release(a);
  return CUDA_SUCCESS;
}

CUresult cuMemRetainAllocationHandle(CUmemGenericAllocationHandle *out, void *address) {
  API(ENTER_init);
  struct mapping *m = mapping_at((uintptr_t)address);
  if (!out || !m)
    return CUDA_ERROR_INVALID_VALUE;
  if (!m->of->handles && !handle_add(m->of, HANDLE_allocation))
    return CUDA_ERROR_OUT_OF_MEMORY;
  m->of->handles++;
  *out = (uintptr_t)m->of;
  return CUDA_SUCCESS;
}

CUresult cuMemGetAllocationGranularity(size_t *out, const CUmemAllocationProp *prop,
                                       CUmemAllocationGranularity_flags option) {
  API(ENTER_init);
  if (!out || (unsigned)option > CU_MEM_ALLOC_GRANULARITY_RECOMMENDED)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult r = prop_valid(prop);
  if (!r)
    *out = GRANULARITY;
  return r;
}

CUresult cuMemGetAllocationPropertiesFromHandle(CUmemAllocationProp *prop,
                                                CUmemGenericAllocationHandle handle) {
  API(ENTER_init);
  struct allocation *a = allocation_of(handle);
  if (!prop || !a || a->multicast)
    return CUDA_ERROR_INVALID_VALUE;
  *prop = a->prop;
  return CUDA_SUCCESS;
}

/* ---- sharing --------------------------------------------------------------------------------- */

CUresult cuMemExportToShareableHandle(void *out, CUmemGenericAllocationHandle handle,
                                      CUmemAllocationHandleType type, unsigned long long flags) {
  API(ENTER_init);
  struct allocation *a = allocation_of(handle);
  if (!out || !a || flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  unsigned long long allowed =
      a->multicast ? multicast_handle_types(a->multicast) : a->prop.requestedHandleTypes;
  if (!(allowed & (unsigned)type))
    return CUDA_ERROR_INVALID_VALUE;
  int fd = fcntl(a->fd, F_DUPFD_CLOEXEC, 0);
  if (fd < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  *(int *)out = fd;
  driver.shared = true;
  return CUDA_SUCCESS;
}

CUresult allocation_open(struct allocation **out, int fd) {
  struct stat st;
  struct head head = {0};
  size_t size = 0;
  if (!fstat(fd, &st) && st.st_size > HEAD_BYTES)
    size = ((size_t)st.st_size - HEAD_BYTES) / 2;
  if (!size || pread(fd, &head, sizeof head, (off_t)(2 * size)) != (ssize_t)sizeof head ||
      head.magic != HEAD_MAGIC || head.size != size || !ordinal_valid(head.ordinal)) {
    close(fd);
    return CUDA_ERROR_INVALID_VALUE;
  }
  struct allocation *a;
  CUresult r = allocation_new(&a, fd, size);
  if (r)
    return r;
  a->prop.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  a->prop.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  a->prop.location.id = head.ordinal;
  a->prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  a->number = head.number;
  driver.m->dev[head.ordinal].allocated += size;
  *out = a;
  return CUDA_SUCCESS;
}

/* The client's descriptor stays its own.  The memory belongs to the device of the same
 * number here: every process sees the same devices. */
CUresult cuMemImportFromShareableHandle(CUmemGenericAllocationHandle *out, void *os_handle,
                                        CUmemAllocationHandleType type) {
  API(ENTER_init);
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  if (type != CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  int fd = fcntl((int)(intptr_t)os_handle, F_DUPFD_CLOEXEC, 0);
  if (fd < 0)
    return CUDA_ERROR_INVALID_VALUE;
  driver.shared = true;
  CUresult r = multicast_import(out, fd);
  if (r != CUDA_ERROR_INVALID_VALUE)
    return r;
  struct allocation *a;
  r = allocation_open(&a, fd);
  if (!r)
    *out = (uintptr_t)a;
  return r;
}

/* ---- addresses ------------------------------------------------------------------------- */

uint64_t addresses_take(size_t size, size_t alignment) {
  size_t align = alignment > GRANULARITY ? alignment : GRANULARITY;
  uint64_t base = (next_address + align - 1) & ~(uint64_t)(align - 1);
  next_address = base + size + GRANULARITY;
  return base;
}

CUresult cuMemAddressReserve(CUdeviceptr *out, size_t size, size_t alignment, CUdeviceptr hint,
                             unsigned long long flags) {
  API(ENTER_init);
  (void)hint; /* it may be ignored, as documented */
  if (!out || !size || size % GRANULARITY || flags || alignment & (alignment - 1))
    return CUDA_ERROR_INVALID_VALUE;
  struct reservation *r = calloc(1, sizeof *r);
  if (!r)
    return CUDA_ERROR_OUT_OF_MEMORY;
  r->base = addresses_take(size, alignment);
  r->size = size;
  r->next = reservations;
  reservations = r;
  *out = r->base;
  return CUDA_SUCCESS;
}

static bool overlaps(const struct mapping *m, uint64_t base, size_t size) {
  return m->base < base + size && base < m->base + m->size;
}

CUresult cuMemAddressFree(CUdeviceptr base, size_t size) {
  API(ENTER_init);
  for (struct reservation **p = &reservations; *p; p = &(*p)->next) {
    struct reservation *r = *p;
    if (r->base != base || r->size != size)
      continue;
    for (struct mapping *m = mappings; m; m = m->next)
      if (overlaps(m, base, size))
        return CUDA_ERROR_INVALID_VALUE;
    *p = r->next;
    free(r);
    return CUDA_SUCCESS;
  }
  return CUDA_ERROR_INVALID_VALUE;
}

/* ---- mappings -------------------------------------------------------------------------------- */

struct mapping *mapping_at(uint64_t address) {
  for (struct mapping *m = mappings; m; m = m->next)
    if (address - m->base < m->size)
      return m;
  return NULL;
}

struct mapping *mapping_of(const struct allocation *a) {
  for (struct mapping *m = mappings; m; m = m->next)
    if (m->of == a && m->memory)
      return m;
  return NULL;
}

CUresult cuMemMap(CUdeviceptr base, size_t size, size_t offset, CUmemGenericAllocationHandle handle,
                  unsigned long long flags) {
  API(ENTER_init);
  struct allocation *a = allocation_of(handle);
  if (!a || !size || base % GRANULARITY || size % GRANULARITY || offset || flags || size > a->size)
    return CUDA_ERROR_INVALID_VALUE;
  bool reserved = false;
  for (struct reservation *r = reservations; r; r = r->next)
    reserved |= base >= r->base && base + size <= r->base + r->size;
  if (!reserved)
    return CUDA_ERROR_INVALID_VALUE;
  for (struct mapping *m = mappings; m; m = m->next)
    if (overlaps(m, base, size))
      return CUDA_ERROR_INVALID_VALUE;
  struct mapping *m = calloc(1, sizeof *m);
  if (!m)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *m = (struct mapping){.base = base, .size = size, .of = a, .next = mappings};
  mappings = m;
  a->uses++;
  return CUDA_SUCCESS;
}

/* Do mappings fill the range exactly?  Calls each, if given. */
static CUresult each_mapping(uint64_t base, size_t size, CUresult (*call)(struct mapping *, void *),
                             void *arg) {
  uint64_t at = base;
  while (at < base + size) {
    struct mapping *m = mapping_at(at);
    if (!m || m->base != at || m->base + m->size > base + size)
      return CUDA_ERROR_INVALID_VALUE;
    at += m->size;
    CUresult r = call ? call(m, arg) : CUDA_SUCCESS;
    if (r)
      return r;
  }
  return CUDA_SUCCESS;
}

static CUresult unmap(struct mapping *m, void *arg) {
  (void)arg;
  for (struct mapping **p = &mappings; *p; p = &(*p)->next)
    if (*p == m) {
      *p = m->next;
      break;
    }
  if (m->memory)
    memory_free(m->memory);
  if (m->view)
    global_unmap(m->view);
  m->of->uses--;
  allocation_release(m->of);
  free(m);
  return CUDA_SUCCESS;
}

CUresult cuMemUnmap(CUdeviceptr base, size_t size) {
  API(ENTER_init);
  CUresult r = size ? each_mapping(base, size, NULL, NULL) : CUDA_ERROR_INVALID_VALUE;
  return r ? r : each_mapping(base, size, unmap, NULL);
}

/* The engine must know a multicast address when it meets one. */
static void set_view(struct mapping *m) {
  if (m->access && !m->view) {
    static unsigned count;
    char what[64];
    snprintf(what, sizeof what, "a multicast object (cuMemMap of it #%u)", ++count);
    m->view = global_map(&driver.m->dev[0], m->base, m->size, NULL, NULL, what);
    m->view->multicast = true;
  } else if (!m->access && m->view) {
    global_unmap(m->view);
    m->view = NULL;
  }
}

static CUresult set_access(struct mapping *m, void *arg) {
  const CUmemAccessDesc *desc = arg;
  uint32_t bit = 1u << desc->location.id;
  m->access = desc->flags == CU_MEM_ACCESS_FLAGS_PROT_NONE ? m->access & ~bit : m->access | bit;
  if (m->of->multicast) {
    set_view(m);
    if (m->view)
      m->view->reach = m->access;
    return CUDA_SUCCESS;
  }
  if (!m->access && m->memory) {
    memory_free(m->memory);
    m->memory = NULL;
  } else if (m->access && !m->memory) {
    static unsigned count;
    char what[64];
    snprintf(what, sizeof what, "cuMemMap #%u", ++count);
    struct mem *mem =
        global_map(&driver.m->dev[m->of->prop.location.id], m->base, m->size, m->of->data,
                   check_on(driver.m, CHECK_undef) ? m->of->undef : NULL, what);
    global_map_of(mem, m->of->number, m->of->size);
    m->memory = memory_add(mem, NULL, MEMORY_mapped);
    if (!m->memory) {
      global_unmap(mem);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  if (m->memory)
    m->memory->mem->reach = m->access;
  return CUDA_SUCCESS;
}

CUresult cuMemSetAccess(CUdeviceptr base, size_t size, const CUmemAccessDesc *desc, size_t n) {
  API(ENTER_init);
  if (!size || !desc || !n)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult r = each_mapping(base, size, NULL, NULL);
  for (size_t i = 0; !r && i < n; i++) {
    if (desc[i].location.type != CU_MEM_LOCATION_TYPE_DEVICE)
      r = lacking("access to mapped memory from outside of a device");
    else if (!ordinal_valid(desc[i].location.id))
      r = CUDA_ERROR_INVALID_DEVICE;
    else if (desc[i].flags == CU_MEM_ACCESS_FLAGS_PROT_READ)
      r = CUDA_ERROR_NOT_SUPPORTED; /* devices have no read-only mappings, as documented */
    else if (desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_NONE &&
             desc[i].flags != CU_MEM_ACCESS_FLAGS_PROT_READWRITE)
      r = CUDA_ERROR_INVALID_VALUE;
  }
  for (size_t i = 0; !r && i < n; i++)
    r = each_mapping(base, size, set_access, (void *)(uintptr_t)&desc[i]);
  return r;
}

CUresult cuMemGetAccess(unsigned long long *flags, const CUmemLocation *location,
                        CUdeviceptr address) {
  API(ENTER_init);
  struct mapping *m = mapping_at(address);
  if (!flags || !location || location->type != CU_MEM_LOCATION_TYPE_DEVICE || !m)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(location->id))
    return CUDA_ERROR_INVALID_DEVICE;
  *flags = m->access >> location->id & 1 ? CU_MEM_ACCESS_FLAGS_PROT_READWRITE
                                         : CU_MEM_ACCESS_FLAGS_PROT_NONE;
  return CUDA_SUCCESS;
}
