/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream-ordered memory.  An allocation is usable at once (it depends on nothing) and is
 * freed when the stream comes to its free; nothing is kept in a pool, so every reuse that
 * the program does not order is seen as a use of freed memory.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

struct CUmemPoolHandle_st {
  int ordinal;
  bool builtin;
  uint64_t threshold;
  int reuse[4];
  uint64_t used, used_high;
};

static CUmemoryPool defaults[MAX_DEVICES], current[MAX_DEVICES];

static CUmemoryPool pool_new(int ordinal, bool builtin) {
  struct CUmemPoolHandle_st *p = calloc(1, sizeof *p);
  if (!p || !handle_add(p, HANDLE_pool)) {
    free(p);
    return NULL;
  }
  p->ordinal = ordinal;
  p->builtin = builtin;
  p->reuse[1] = p->reuse[2] = p->reuse[3] = 1;
  return p;
}

static CUmemoryPool pool_default(int ordinal) {
  if (!defaults[ordinal])
    defaults[ordinal] = pool_new(ordinal, true);
  return defaults[ordinal];
}

static CUresult get(CUmemoryPool *out, CUdevice dev, bool set_one) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  *out = set_one && current[dev] ? current[dev] : pool_default(dev);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuDeviceGetDefaultMemPool(CUmemoryPool *out, CUdevice dev) {
  API(ENTER_init);
  return get(out, dev, false);
}

CUresult cuDeviceGetMemPool(CUmemoryPool *out, CUdevice dev) {
  API(ENTER_init);
  return get(out, dev, true);
}

CUresult cuDeviceSetMemPool(CUdevice dev, CUmemoryPool pool) {
  API(ENTER_init);
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!handle_is(pool, HANDLE_pool) || pool->ordinal != dev)
    return CUDA_ERROR_INVALID_VALUE;
  current[dev] = pool;
  return CUDA_SUCCESS;
}

CUresult cuMemPoolCreate(CUmemoryPool *out, const CUmemPoolProps *props) {
  API(ENTER_init);
  if (!out || !props || props->allocType != CU_MEM_ALLOCATION_TYPE_PINNED)
    return CUDA_ERROR_INVALID_VALUE;
  if (props->location.type != CU_MEM_LOCATION_TYPE_DEVICE)
    return lacking("a memory pool outside of a device");
  if (!ordinal_valid(props->location.id))
    return CUDA_ERROR_INVALID_DEVICE;
  if (props->handleTypes != CU_MEM_HANDLE_TYPE_NONE)
    return lacking("a memory pool with shareable handles");
  *out = pool_new(props->location.id, false);
  return *out ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuMemPoolDestroy(CUmemoryPool pool) {
  API(ENTER_init);
  if (!handle_is(pool, HANDLE_pool) || pool->builtin)
    return CUDA_ERROR_INVALID_VALUE;
  if (current[pool->ordinal] == pool)
    current[pool->ordinal] = NULL;
  handle_remove(pool); /* its allocations live on, as on hardware */
  free(pool);
  return CUDA_SUCCESS;
}

CUresult cuMemPoolTrimTo(CUmemoryPool pool, size_t keep) {
  API(ENTER_init);
  (void)keep;
  return handle_is(pool, HANDLE_pool) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemPoolSetAttribute(CUmemoryPool pool, CUmemPool_attribute a, void *v) {
  API(ENTER_init);
  if (!handle_is(pool, HANDLE_pool) || !v)
    return CUDA_ERROR_INVALID_VALUE;
  switch (a) {
  case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
    pool->reuse[a] = *(int *)v;
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    pool->threshold = *(cuuint64_t *)v;
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    if (*(cuuint64_t *)v)
      return CUDA_ERROR_INVALID_VALUE;
    pool->used_high = pool->used;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuMemPoolGetAttribute(CUmemoryPool pool, CUmemPool_attribute a, void *v) {
  API(ENTER_init);
  if (!handle_is(pool, HANDLE_pool) || !v)
    return CUDA_ERROR_INVALID_VALUE;
  switch (a) {
  case CU_MEMPOOL_ATTR_REUSE_FOLLOW_EVENT_DEPENDENCIES:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_OPPORTUNISTIC:
  case CU_MEMPOOL_ATTR_REUSE_ALLOW_INTERNAL_DEPENDENCIES:
    *(int *)v = pool->reuse[a];
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RELEASE_THRESHOLD:
    *(cuuint64_t *)v = pool->threshold;
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_CURRENT:
  case CU_MEMPOOL_ATTR_USED_MEM_CURRENT:
    *(cuuint64_t *)v = pool->used;
    return CUDA_SUCCESS;
  case CU_MEMPOOL_ATTR_RESERVED_MEM_HIGH:
  case CU_MEMPOOL_ATTR_USED_MEM_HIGH:
    *(cuuint64_t *)v = pool->used_high;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

static CUresult alloc(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream s, CUcontext ctx) {
  CUresult r = CUDA_SUCCESS;
  if (!out || !size)
    return CUDA_ERROR_INVALID_VALUE;
  s = stream_resolve(s, ctx, &r);
  if (!s)
    return r;
  if (s->capture)
    return lacking("memory allocation nodes in graphs");
  if (!pool && (r = get(&pool, s->ctx->ordinal, true)))
    return r;
  if (!handle_is(pool, HANDLE_pool))
    return CUDA_ERROR_INVALID_VALUE;
  if (pool->ordinal != s->ctx->ordinal)
    return lacking("allocating from another device's memory pool");
  struct memory *m = memory_alloc(s->ctx, size, MEMORY_pool, "cuMemAllocAsync");
  if (!m)
    return CUDA_ERROR_OUT_OF_MEMORY;
  m->pool = pool;
  pool->used += size;
  if (pool->used > pool->used_high)
    pool->used_high = pool->used;
  *out = m->mem->base;
  return CUDA_SUCCESS;
}

CUresult cuMemAllocAsync(CUdeviceptr *out, size_t size, CUstream s) {
  API(ENTER_context);
  return alloc(out, size, NULL, s, guard.ctx);
}

CUresult cuMemAllocFromPoolAsync(CUdeviceptr *out, size_t size, CUmemoryPool pool, CUstream s) {
  API(ENTER_context);
  return pool ? alloc(out, size, pool, s, guard.ctx) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemFreeAsync(CUdeviceptr address, CUstream s) {
  API(ENTER_context);
  CUresult r = CUDA_SUCCESS;
  s = stream_resolve(s, guard.ctx, &r);
  if (!s)
    return r;
  if (!address)
    return CUDA_SUCCESS;
  struct memory *m = memory_find(address);
  if (!m || m->mem->base != address || m->freeing ||
      (m->kind != MEMORY_device && m->kind != MEMORY_pool))
    return CUDA_ERROR_INVALID_VALUE;
  if (s->capture)
    return lacking("memory free nodes in graphs");
  struct work w = {.kind = WORK_free, .address = address};
  r = enqueue(s, &w);
  if (!r) {
    m->freeing = true;
    if (m->pool && handle_is(m->pool, HANDLE_pool))
      m->pool->used -= m->mem->size;
  }
  return r;
}
