/* SPDX-License-Identifier: Apache-2.0
 *
 * What the processes that hold a multicast object share: the devices added, and what is
 * bound.  It lies behind a memfd, as memory does; the descriptor is what is exported.
 *
 * A binding tells where the memory is to be had: the binding process and its descriptor of
 * the memfd, which others open through /proc.  So they must see each other's processes (one
 * PID namespace) and have one user.
 */
#ifndef EMU_DRIVER_MULTICAST_OBJECT_H
#define EMU_DRIVER_MULTICAST_OBJECT_H

#include "vmm.h"

/* One piece of the object bound to one device's memory. */
struct bound {
  uint32_t serial; /* of the object: never 0, never used again */
  int32_t ordinal;
  int32_t process, fd;
  uint64_t memory; /* the allocation's random number */
  uint64_t at, size, offset;
};

struct object_page;

/* A fresh object, and its descriptor; or the one behind a descriptor (NULL: it is none). */
CUresult object_create(const CUmulticastObjectProp *prop, struct object_page **out, int *fd);
struct object_page *object_open(int fd, CUmulticastObjectProp *prop);
void object_close(struct object_page *o);

/* false: the device is there already, or their number is complete. */
bool object_add_device(struct object_page *o, int ordinal);
bool object_has_device(const struct object_page *o, int ordinal);
bool object_complete(const struct object_page *o);

/* Fills in serial; false: another binding of the device overlaps, or there are too many. */
bool object_bind(struct object_page *o, struct bound *b);
void object_unbind(struct object_page *o, uint32_t serial);

/* Changes with every binding made or ended. */
uint32_t object_version(const struct object_page *o);
/* The bindings in the order of devices; the version they are of. */
#define OBJECT_BINDINGS 128
unsigned object_bindings(struct object_page *o, struct bound out[OBJECT_BINDINGS],
                         uint32_t *version);

#endif
