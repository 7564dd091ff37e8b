/* SPDX-License-Identifier: Apache-2.0
 *
 * Physical allocations and where they are mapped; shared by virtual memory management
 * and multicast objects.
 */
#ifndef EMU_DRIVER_VMM_H
#define EMU_DRIVER_VMM_H

#include "driver.h"

#define GRANULARITY ((size_t)2 << 20)

/* What a CUmemGenericAllocationHandle points at. */
struct allocation {
  unsigned handles, uses; /* handles given out; mappings and bindings */
  size_t size;
  int fd; /* a memfd, of memory: the bytes, their masks of undefined bits, a head page */
  /* memory */
  CUmemAllocationProp prop;
  uint64_t number; /* random: tells it from all others, in other processes too */
  uint8_t *data, *undef;
  struct multicast *multicast; /* this is no memory but a multicast object */
};

struct mapping {
  uint64_t base;
  size_t size;
  struct allocation *of;
  uint32_t access;       /* bit per device that may use it */
  struct memory *memory; /* while any may; not for multicast objects, */
  struct mem *view;      /* which the engine only knows as such */
  struct mapping *next;
};

struct allocation *allocation_of(CUmemGenericAllocationHandle handle); /* NULL: none */
void allocation_release(struct allocation *a); /* after handles or uses fell */
struct mapping *mapping_at(uint64_t address);
struct mapping *mapping_of(const struct allocation *a); /* accessible; NULL: none */
/* Behind a descriptor, which is taken over; CUDA_ERROR_INVALID_VALUE: no memory of a device.
 * It has one handle. */
CUresult allocation_open(struct allocation **out, int fd);
/* Addresses that were never given out; alignment: a power of two, or 0. */
uint64_t addresses_take(size_t size, size_t alignment);

/* multicast.c */
CUresult multicast_import(CUmemGenericAllocationHandle *out, int fd); /* takes fd over,
   unless it is CUDA_ERROR_INVALID_VALUE: no multicast object's */
unsigned long long multicast_handle_types(const struct multicast *mc);
void multicast_release(struct allocation *a);

#endif
