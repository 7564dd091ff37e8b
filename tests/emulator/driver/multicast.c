/* SPDX-License-Identifier: Apache-2.0
 *
 * Multicast objects: one address, a copy in each device's memory, within a process or
 * across processes (multicast_object.h).  The engine asks which copies lie behind an
 * address (multicast_targets).
 */
#include "multicast_object.h"

#include "../engine/map.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

/* What this process bound. */
struct binding {
  struct bound shared;
  struct allocation *memory;
  uint64_t address; /* bound by address: of the mapping; 0: by handle */
  struct binding *next;
};

/* Where stores to a piece of the object go: the memory as it is mapped here, or else a view
 * of it that no client of the driver sees. */
struct mc_copy {
  struct bound shared;
  const struct binding *own;    /* NULL: another process's, */
  struct allocation *elsewhere; /* then its memory; NULL: it cannot be reached */
  struct mem *view;
};

struct multicast {
  CUmulticastObjectProp prop;
  struct object_page *object;
  struct binding *bound;
  struct mc_copy *copies; /* in the order of devices */
  unsigned count;
  uint32_t version; /* of the object's bindings, that copies is of */
};

static CUresult prop_valid(const CUmulticastObjectProp *p) {
  if (!p || !p->numDevices || p->flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (p->handleTypes & ~(unsigned long long)CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR)
    return CUDA_ERROR_NOT_SUPPORTED;
  return CUDA_SUCCESS;
}

/* ---- copies -------------------------------------------------------------------------------- */

/* The memory that another process bound.  Its descriptor is open as long as the binding is;
 * one that is another's by now has another number in its head. */
static struct allocation *fetch(const struct bound *b) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", b->process, b->fd);
  struct allocation *a = NULL;
  int fd = open(path, O_RDWR | O_CLOEXEC);
  if (fd >= 0 && allocation_open(&a, fd) == CUDA_SUCCESS && a->number != b->memory) {
    a->handles--;
    allocation_release(a);
    a = NULL;
  }
  if (!a)
    complain("memory that process %d bound to a multicast object cannot be opened at %s: stores "
             "do not reach device %d",
             b->process, path, b->ordinal);
  return a;
}

static void view_open(struct mc_copy *c, struct allocation *a) {
  char what[80];
  snprintf(what, sizeof what, "memory of device %d behind a multicast object", c->shared.ordinal);
  c->view = global_map(&driver.m->dev[c->shared.ordinal], addresses_take(a->size, 0), a->size,
                       a->data, check_on(driver.m, CHECK_undef) ? a->undef : NULL, what);
  global_map_of(c->view, a->number, a->size);
}

static void copy_close(struct mc_copy *c) {
  if (c->view)
    global_unmap(c->view);
  if (c->elsewhere) {
    c->elsewhere->handles--;
    allocation_release(c->elsewhere);
  }
}

static const struct binding *own_binding(const struct multicast *mc, uint32_t serial) {
  const struct binding *b = mc->bound;
  while (b && b->shared.serial != serial)
    b = b->next;
  return b;
}

static void copy_open(const struct multicast *mc, struct mc_copy *c) {
  c->own = own_binding(mc, c->shared.serial);
  if (c->own)
    return;
  c->elsewhere = fetch(&c->shared);
  if (c->elsewhere)
    view_open(c, c->elsewhere);
}

static void copies_close(struct multicast *mc) {
  for (unsigned i = 0; i < mc->count; i++)
    copy_close(&mc->copies[i]);
  free(mc->copies);
  mc->copies = NULL;
  mc->count = 0;
}

/* After bindings were made or ended, here or elsewhere. */
static void copies_refresh(struct multicast *mc) {
  static struct bound now[OBJECT_BINDINGS];
  unsigned n = object_bindings(mc->object, now, &mc->version);
  struct mc_copy *copies = calloc(n + 1, sizeof *copies);
  if (!copies) {
    copies_close(mc); /* none rather than some that are gone */
    return;
  }
  for (unsigned i = 0; i < n; i++) {
    copies[i].shared = now[i];
    struct mc_copy *known = NULL;
    for (unsigned k = 0; k < mc->count; k++)
      if (mc->copies[k].shared.serial == now[i].serial)
        known = &mc->copies[k];
    if (known) {
      copies[i] = *known;
      *known = (struct mc_copy){0};
    } else {
      copy_open(mc, &copies[i]);
    }
  }
  copies_close(mc);
  mc->copies = copies;
  mc->count = n;
}

/* The address in its device's memory of byte `at` of the object; 0: not to be reached. */
static uint64_t copy_address(struct mc_copy *c, size_t at) {
  size_t in_memory = c->shared.offset + (at - c->shared.at);
  if (c->own && c->own->address)
    return c->own->address + (at - c->shared.at);
  struct mapping *m = c->own ? mapping_of(c->own->memory) : NULL;
  if (m && in_memory < m->size)
    return m->base + in_memory;
  if (c->own && !c->view)
    view_open(c, c->own->memory);
  return c->view ? c->view->base + in_memory : 0;
}

static unsigned targets(struct machine *m, uint64_t address, uint64_t size,
                        struct multicast_target *out, unsigned room) {
  struct mapping *map = mapping_at(address);
  unsigned n = 0;
  if (!map || !map->of->multicast)
    return 0;
  struct multicast *mc = map->of->multicast;
  if (mc->version != object_version(mc->object))
    copies_refresh(mc);
  size_t at = address - map->base;
  for (unsigned i = 0; i < mc->count && n < room; i++) {
    struct mc_copy *c = &mc->copies[i];
    if (at < c->shared.at || at + size > c->shared.at + c->shared.size)
      continue;
    uint64_t copy = copy_address(c, at);
    if (copy)
      out[n++] = (struct multicast_target){&m->dev[c->shared.ordinal], copy};
  }
  return n;
}

/* ---- objects -------------------------------------------------------------------------------- */

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

/* Takes over page and descriptor. */
static CUresult object_new(CUmemGenericAllocationHandle *out, const CUmulticastObjectProp *prop,
                           struct object_page *page, int fd) {
  struct allocation *a = calloc(1, sizeof *a);
  struct multicast *mc = calloc(1, sizeof *mc);
  if (!a || !mc || !handle_add(a, HANDLE_allocation)) {
    free(a);
    free(mc);
    object_close(page);
    close(fd);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *mc = (struct multicast){.prop = *prop, .object = page};
  a->handles = 1;
  a->size = prop->size;
  a->fd = fd;
  a->multicast = mc;
  multicast_targets = targets;
  *out = (uintptr_t)a;
  return CUDA_SUCCESS;
}

CUresult cuMulticastCreate(CUmemGenericAllocationHandle *out, const CUmulticastObjectProp *prop) {
  API(ENTER_init);
  CUresult r = prop_valid(prop);
  if (r)
    return r;
  if (!out || !prop->size || prop->size % GRANULARITY)
    return CUDA_ERROR_INVALID_VALUE;
  struct object_page *page;
  int fd;
  r = object_create(prop, &page, &fd);
  return r ? r : object_new(out, prop, page, fd);
}

CUresult multicast_import(CUmemGenericAllocationHandle *out, int fd) {
  CUmulticastObjectProp prop;
  struct object_page *page = object_open(fd, &prop);
  return page ? object_new(out, &prop, page, fd) : CUDA_ERROR_INVALID_VALUE;
}

unsigned long long multicast_handle_types(const struct multicast *mc) {
  return mc->prop.handleTypes;
}

static struct allocation *object(CUmemGenericAllocationHandle handle) {
  struct allocation *a = allocation_of(handle);
  return a && a->multicast ? a : NULL;
}

CUresult cuMulticastAddDevice(CUmemGenericAllocationHandle handle, CUdevice dev) {
  API(ENTER_init);
  struct allocation *a = object(handle);
  if (!a)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  return object_add_device(a->multicast->object, dev) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

/* ---- bindings -------------------------------------------------------------------------------- */

static bool complete(void *object) {
  struct allocation *a = object;
  return !handle_is(a, HANDLE_allocation) || object_complete(a->multicast->object);
}

/* Binding waits until every device has been added, perhaps by another process, as on
 * hardware; not for ever here. */
static CUresult wait_complete(struct allocation *a, struct allocation *memory) {
  a->uses++; /* neither goes away meanwhile */
  memory->uses++;
  CUresult r = drive(complete, a) ? CUDA_ERROR_SYSTEM_NOT_READY : CUDA_SUCCESS;
  if (!r && !handle_is(a, HANDLE_allocation))
    r = CUDA_ERROR_INVALID_VALUE;
  a->uses--;
  memory->uses--;
  return r;
}

static CUresult bind(CUmemGenericAllocationHandle handle, size_t at, struct allocation *memory,
                     size_t offset, uint64_t address, size_t size, unsigned long long flags) {
  struct allocation *a = object(handle);
  if (!a || !memory || memory->multicast || !size || flags || at % GRANULARITY ||
      offset % GRANULARITY || size % GRANULARITY || at + size > a->size ||
      offset + size > memory->size)
    return CUDA_ERROR_INVALID_VALUE;
  struct multicast *mc = a->multicast;
  int ordinal = memory->prop.location.id;
  if (!object_has_device(mc->object, ordinal))
    return CUDA_ERROR_INVALID_DEVICE;
  struct binding *b = calloc(1, sizeof *b);
  if (!b)
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult r = wait_complete(a, memory);
  *b = (struct binding){.shared = {.ordinal = ordinal,
                                   .process = (int32_t)getpid(),
                                   .fd = memory->fd,
                                   .memory = memory->number,
                                   .at = at,
                                   .size = size,
                                   .offset = offset},
                        .memory = memory,
                        .address = address};
  if (!r && !object_bind(mc->object, &b->shared))
    r = CUDA_ERROR_INVALID_VALUE;
  if (r) {
    free(b);
    allocation_release(memory); /* if its last handle went meanwhile */
    allocation_release(a);
    return r;
  }
  memory->uses++;
  b->next = mc->bound;
  mc->bound = b;
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

/* Takes the binding out of the list at *p. */
static void unbind(struct multicast *mc, struct binding **p) {
  struct binding *b = *p;
  *p = b->next;
  object_unbind(mc->object, b->shared.serial);
  for (unsigned i = 0; i < mc->count; i++)
    if (mc->copies[i].own == b) { /* nothing may refer to it */
      copy_close(&mc->copies[i]);
      mc->copies[i] = (struct mc_copy){0};
    }
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
  struct multicast *mc = a->multicast;
  for (struct binding **p = &mc->bound; *p; p = &(*p)->next)
    if ((*p)->shared.ordinal == dev && (*p)->shared.at == at && (*p)->shared.size == size) {
      unbind(mc, p);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

void multicast_release(struct allocation *a) {
  struct multicast *mc = a->multicast;
  while (mc->bound)
    unbind(mc, &mc->bound);
  copies_close(mc);
  object_close(mc->object);
  free(mc);
}
