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
  bool is_multicast;
  size_t size;
  /* memory */
  CUmemAllocationProp prop;
  int fd; /* a memfd: the bytes, their masks of undefined bits, a head page */
  uint8_t *data, *undef;
  /* a multicast object */
  CUmulticastObjectProp multicast;
  uint32_t devices; /* bit per device added */
  struct binding *bound;
};

struct mapping {
  uint64_t base;
  size_t size;
  struct allocation *of;
  uint32_t access;       /* bit per device that may use it */
  struct memory *memory; /* while any may; not for multicast objects */
  struct mapping *next;
};

struct allocation *allocation_of(CUmemGenericAllocationHandle handle); /* NULL: none */
void allocation_release(struct allocation *a); /* after handles or uses fell */
struct mapping *mapping_at(uint64_t address);
struct mapping *mapping_of(const struct allocation *a); /* accessible; NULL: none */
void multicast_release(struct allocation *a);

#endif
