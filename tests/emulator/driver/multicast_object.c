/* SPDX-License-Identifier: Apache-2.0
 *
 * The shared part of a multicast object; see multicast_object.h.
 */
#define _GNU_SOURCE /* memfd_create */
#include "multicast_object.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#define OBJECT_MAGIC 0x3130636d756d6575ull

struct object_page {
  uint64_t magic, size;
  uint32_t devices_wanted;
  uint64_t handle_types;
  pthread_mutex_t lock;                /* robust: a process may be killed while it holds it */
  atomic_uint devices;                 /* bit per device added */
  atomic_uint version;                 /* of the bindings */
  uint32_t serials;                    /* given out */
  struct bound bound[OBJECT_BINDINGS]; /* serial 0: free */
};

/* Less than any memory's file, so that none passes for an object. */
_Static_assert(sizeof(struct object_page) < 64 * 1024, "an object is a small file");

static void lock_object(struct object_page *o) {
  if (pthread_mutex_lock(&o->lock) == EOWNERDEAD)
    (void)pthread_mutex_consistent(&o->lock); /* each change is one store, made last */
}
static void unlock_object(struct object_page *o) {
  (void)pthread_mutex_unlock(&o->lock);
}

static struct object_page *map_object(int fd) {
  void *p = mmap(NULL, sizeof(struct object_page), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  return p == MAP_FAILED ? NULL : p;
}

CUresult object_create(const CUmulticastObjectProp *prop, struct object_page **out, int *fd) {
  int file = memfd_create("emulated multicast object", MFD_CLOEXEC);
  if (file < 0)
    return CUDA_ERROR_OPERATING_SYSTEM;
  struct object_page *o = ftruncate(file, sizeof *o) ? NULL : map_object(file);
  pthread_mutexattr_t shared;
  if (!o || pthread_mutexattr_init(&shared)) {
    close(file);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  (void)pthread_mutexattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  (void)pthread_mutexattr_setrobust(&shared, PTHREAD_MUTEX_ROBUST);
  (void)pthread_mutex_init(&o->lock, &shared);
  (void)pthread_mutexattr_destroy(&shared);
  o->size = prop->size;
  o->devices_wanted = prop->numDevices;
  o->handle_types = prop->handleTypes;
  o->magic = OBJECT_MAGIC;
  *out = o;
  *fd = file;
  return CUDA_SUCCESS;
}

struct object_page *object_open(int fd, CUmulticastObjectProp *prop) {
  struct stat st;
  if (fstat(fd, &st) || st.st_size != (off_t)sizeof(struct object_page))
    return NULL;
  struct object_page *o = map_object(fd);
  if (!o)
    return NULL;
  if (o->magic != OBJECT_MAGIC) {
    object_close(o);
    return NULL;
  }
  *prop = (CUmulticastObjectProp){
      .numDevices = o->devices_wanted, .size = o->size, .handleTypes = o->handle_types};
  return o;
}

void object_close(struct object_page *o) {
  munmap(o, sizeof *o);
}

bool object_complete(const struct object_page *o) {
  return (unsigned)__builtin_popcount(atomic_load(&o->devices)) == o->devices_wanted;
}

bool object_has_device(const struct object_page *o, int ordinal) {
  return atomic_load(&o->devices) >> ordinal & 1;
}

bool object_add_device(struct object_page *o, int ordinal) {
  lock_object(o);
  bool ok = !object_has_device(o, ordinal) && !object_complete(o);
  if (ok)
    atomic_fetch_or(&o->devices, 1u << ordinal);
  unlock_object(o);
  return ok;
}

static bool overlap(const struct bound *a, const struct bound *b) {
  return a->serial && a->ordinal == b->ordinal && a->at < b->at + b->size &&
         b->at < a->at + a->size;
}

bool object_bind(struct object_page *o, struct bound *b) {
  struct bound *to = NULL;
  bool free_place = true;
  lock_object(o);
  for (unsigned i = 0; i < OBJECT_BINDINGS; i++) {
    free_place = free_place && !overlap(&o->bound[i], b);
    if (!o->bound[i].serial)
      to = &o->bound[i];
  }
  bool ok = free_place && to;
  if (ok) {
    b->serial = ++o->serials;
    struct bound unseen = *b;
    unseen.serial = 0;
    *to = unseen;
    to->serial = b->serial;
    atomic_fetch_add(&o->version, 1);
  }
  unlock_object(o);
  return ok;
}

void object_unbind(struct object_page *o, uint32_t serial) {
  lock_object(o);
  for (unsigned i = 0; i < OBJECT_BINDINGS; i++)
    if (o->bound[i].serial == serial)
      o->bound[i].serial = 0;
  atomic_fetch_add(&o->version, 1);
  unlock_object(o);
}

uint32_t object_version(const struct object_page *o) {
  return atomic_load(&o->version);
}

unsigned object_bindings(struct object_page *o, struct bound out[OBJECT_BINDINGS],
                         uint32_t *version) {
  unsigned n = 0;
  lock_object(o);
  for (int ordinal = 0; ordinal < MAX_DEVICES; ordinal++)
    for (unsigned i = 0; i < OBJECT_BINDINGS; i++)
      if (o->bound[i].serial && o->bound[i].ordinal == ordinal)
        out[n++] = o->bound[i];
  *version = atomic_load(&o->version);
  unlock_object(o);
  return n;
}
