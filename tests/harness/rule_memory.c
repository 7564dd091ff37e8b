/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory and tensor maps of rule pairs; see rule_rig.h.
 */
#include "harness/rule_rig.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- memory -------------------------------------------------------------------------- */

static bool fill(struct rig *r, const struct named *n, enum rule_fill how) {
  if (how == RULE_none)
    return true;
  uint32_t *words = calloc(1, n->bytes + 4);
  if (words == NULL)
    return rig_wrong(r, "no memory", n->name);
  for (uint64_t i = 0; how == RULE_index && i * 4 < n->bytes; i++)
    words[i] = (uint32_t)i;
  /* A copy, for it is over when the call is: no stream waits for a fill. */
  CUresult result = r->d.MemcpyHtoD(n->address, words, n->bytes);
  free(words);
  return rig_prepare(r, n->name, result);
}

/* Maps it readable and writable by every device. */
static bool map_handle(struct rig *r, struct named *n, CUmemGenericAllocationHandle handle) {
  r->handle[r->handles++] = handle;
  CUmemAccessDesc access[DEVICES];
  memset(access, 0, sizeof access);
  for (unsigned i = 0; i < r->pair->devices; i++) {
    access[i].location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access[i].location.id = (int)i;
    access[i].flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
  }
  n->reserved = true;
  return rig_prepare(r, n->name, r->MemAddressReserve(&n->address, n->bytes, 0, 0, 0)) &&
         rig_prepare(r, n->name, r->MemMap(n->address, n->bytes, 0, handle, 0)) &&
         rig_prepare(r, n->name, r->MemSetAccess(n->address, n->bytes, access, r->pair->devices));
}

static CUmemAllocationProp memory_of(unsigned device) {
  CUmemAllocationProp where;
  memset(&where, 0, sizeof where);
  where.type = CU_MEM_ALLOCATION_TYPE_PINNED;
  where.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
  where.location.id = (int)device;
  return where;
}

/* NAME and NAME.again: two addresses of the same memory. */
static bool map_twice(struct rig *r, struct named *n, const struct rule_step *s) {
  const CUmemAllocationProp where = memory_of(s->device);
  CUmemGenericAllocationHandle handle;
  char name[48];
  snprintf(name, sizeof name, "%s.again", s->name);
  if (!rig_prepare(r, s->name, r->MemCreate(&handle, s->bytes, &where, 0)) ||
      !map_handle(r, n, handle) ||
      !rig_prepare(r, s->name, r->MemRetainAllocationHandle(&handle, (void *)n->address)))
    return false;
  struct named *again = rig_add(r, name);
  if (again == NULL)
    return false;
  again->bytes = s->bytes;
  return map_handle(r, again, handle);
}

static bool host_memory(struct rig *r, struct named *n) {
  void *p = NULL;
  if (!rig_prepare(r, n->name, r->MemHostAlloc(&p, n->bytes, CU_MEMHOSTALLOC_DEVICEMAP)))
    return false;
  n->address = (CUdeviceptr)p;
  n->host = true;
  return true;
}

bool rig_memory(struct rig *r, const struct rule_step *s) {
  struct named *n = rig_add(r, s->name);
  if (n == NULL || !rig_enter(r, s->device))
    return false;
  n->bytes = s->bytes;
  bool made = s->where == RULE_host ? host_memory(r, n)
              : s->where == RULE_mapped
                  ? map_twice(r, n, s)
                  : rig_prepare(r, s->name, r->d.MemAlloc(&n->address, s->bytes));
  return made && fill(r, n, s->fill);
}

/* NAME: the multicast address; NAME.0, NAME.1, ...: each device's own. */
bool rig_multicast(struct rig *r, const struct rule_step *s) {
  CUmulticastObjectProp prop;
  CUmemGenericAllocationHandle object, own;
  memset(&prop, 0, sizeof prop);
  prop.numDevices = r->pair->devices;
  prop.size = s->bytes;
  if (!rig_prepare(r, s->name, r->MulticastCreate(&object, &prop)))
    return false;
  for (unsigned i = 0; i < r->pair->devices; i++)
    if (!rig_prepare(r, s->name, r->MulticastAddDevice(object, (CUdevice)i)))
      return false;
  for (unsigned i = 0; i < r->pair->devices; i++) {
    const CUmemAllocationProp where = memory_of(i);
    char name[48];
    snprintf(name, sizeof name, "%s.%u", s->name, i);
    struct named *n = rig_add(r, name);
    if (n == NULL || !rig_enter(r, i))
      return false;
    n->bytes = s->bytes;
    if (!rig_prepare(r, name, r->MemCreate(&own, s->bytes, &where, 0)) || !map_handle(r, n, own) ||
        !rig_prepare(r, name, r->MulticastBindMem(object, 0, own, 0, s->bytes, 0)) ||
        !fill(r, n, s->fill))
      return false;
  }
  struct named *n = rig_add(r, s->name);
  if (n == NULL || !rig_enter(r, 0))
    return false;
  n->bytes = s->bytes;
  return map_handle(r, n, object);
}

/* ---- tensor maps --------------------------------------------------------------------- */

bool rig_map(struct rig *r, const struct rule_step *s) {
  const struct named *over = rig_find(r, s->args);
  static const CUtensorMapDataType types[] = {
      [1] = CU_TENSOR_MAP_DATA_TYPE_UINT8,
      [2] = CU_TENSOR_MAP_DATA_TYPE_UINT16,
      [4] = CU_TENSOR_MAP_DATA_TYPE_UINT32,
  };
  if (over == NULL)
    return rig_wrong(r, "no memory of that name", s->args);
  if (s->element_bytes > 4 || s->element_bytes == 3 || s->element_bytes == 0)
    return rig_wrong(r, "bytes= must be 1, 2 or 4", s->name);
  struct named *n = rig_add(r, s->name);
  if (n == NULL)
    return false;
  cuuint64_t sizes[RULE_DIMS], strides[RULE_DIMS];
  cuuint32_t box[RULE_DIMS], ones[RULE_DIMS] = {1, 1, 1};
  uint64_t stride = s->stride ? s->stride : (uint64_t)s->elements[0] * s->element_bytes;
  for (unsigned i = 0; i < s->rank; i++) {
    sizes[i] = s->elements[i];
    box[i] = s->box[i];
    strides[i] = i == 0 ? stride : stride * s->elements[1];
  }
  CUtensorMapSwizzle swizzle = s->swizzle == 128  ? CU_TENSOR_MAP_SWIZZLE_128B
                               : s->swizzle == 64 ? CU_TENSOR_MAP_SWIZZLE_64B
                               : s->swizzle == 32 ? CU_TENSOR_MAP_SWIZZLE_32B
                                                  : CU_TENSOR_MAP_SWIZZLE_NONE;
  return rig_prepare(
      r, s->name,
      r->TensorMapEncodeTiled(&n->map, types[s->element_bytes], s->rank, (void *)over->address,
                              sizes, strides, box, ones, CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle,
                              CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

/* ---- the end of it ------------------------------------------------------------------- */

bool rig_free(struct rig *r, const struct rule_step *s) {
  struct named *n = rig_find(r, s->name);
  if (n == NULL || n->reserved || n->host)
    return rig_wrong(r, "no memory of that name", s->name);
  return rig_call(r, r->d.MemFree(n->address));
}

/* Releases what the last run made; every run has memory of its own. */
void rig_clean_up(struct rig *r) {
  for (unsigned i = 0; i < r->names; i++) {
    struct named *n = &r->name[i];
    if (n->reserved) {
      (void)r->MemUnmap(n->address, n->bytes);
      (void)r->MemAddressFree(n->address, n->bytes);
    } else if (n->host) {
      (void)r->MemFreeHost((void *)n->address);
    } else if (n->address != 0) {
      (void)r->d.MemFree(n->address); /* fails if the pair freed it */
    }
  }
  for (unsigned i = 0; i < r->handles; i++)
    (void)r->MemRelease(r->handle[i]);
  r->names = r->handles = 0;
}
