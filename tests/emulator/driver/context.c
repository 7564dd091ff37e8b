/* SPDX-License-Identifier: Apache-2.0
 *
 * Contexts: primary and created ones, each thread's stack of current contexts, limits.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

struct device *device_of(CUcontext ctx) {
  return &driver.m->dev[ctx->ordinal];
}

bool ordinal_valid(CUdevice dev) {
  return dev >= 0 && (uint32_t)dev < driver.m->ndev;
}

/* ---- life --------------------------------------------------------------------------- */

CUresult context_new(CUcontext *out, int ordinal, unsigned flags, bool primary) {
  struct CUctx_st *c = calloc(1, sizeof *c);
  if (!c)
    return CUDA_ERROR_OUT_OF_MEMORY;
  c->ordinal = ordinal;
  c->flags = flags;
  c->primary = primary;
  c->id = ++driver.next_id;
  c->limit[CU_LIMIT_STACK_SIZE] = 1024;
  c->limit[CU_LIMIT_PRINTF_FIFO_SIZE] = 1 << 20;
  c->limit[CU_LIMIT_MALLOC_HEAP_SIZE] = 8 << 20;
  c->limit[CU_LIMIT_DEV_RUNTIME_SYNC_DEPTH] = 2;
  c->limit[CU_LIMIT_DEV_RUNTIME_PENDING_LAUNCH_COUNT] = 2048;
  c->limit[CU_LIMIT_MAX_L2_FETCH_GRANULARITY] = 128;
  c->legacy = stream_new(c, CU_STREAM_DEFAULT, 0);
  if (!c->legacy || !handle_add(c, HANDLE_context)) {
    free(c);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  c->legacy->legacy = true;
  c->next = driver.contexts;
  driver.contexts = c;
  *out = c;
  return CUDA_SUCCESS;
}

static bool context_quiet(void *arg) {
  for (struct op *o = driver.ops; o; o = o->next)
    if (o->work.ctx == arg)
      return false;
  return true;
}

bool context_idle(void *arg) {
  CUcontext ctx = arg;
  return ctx->error || context_quiet(ctx);
}

CUresult context_error(CUcontext ctx) {
  return ctx->error;
}

CUresult context_sync(CUcontext ctx) {
  CUresult r = drive(context_idle, ctx);
  for (CUstream s = ctx->streams; s; s = s->next)
    op_waited(s->tail);
  return ctx->error ? ctx->error : r;
}

/* Destroying waits for what runs, then takes everything made in the context along. */
void context_free(CUcontext ctx) {
  drive(context_quiet, ctx);
  while (ctx->modules)
    module_free(ctx->modules);
  memory_free_context(ctx);
  while (ctx->streams)
    stream_free(ctx->streams);
  for (struct CUevent_st *e = driver.events; e; e = e->next)
    if (e->ctx == ctx)
      capture_forget_event(e);
  for (struct CUctx_st **p = &driver.contexts; *p; p = &(*p)->next)
    if (*p == ctx) {
      *p = ctx->next;
      break;
    }
  handle_remove(ctx);
  free(ctx);
}

CUresult cuDevicePrimaryCtxRetain(CUcontext *pctx, CUdevice dev) {
  API(ENTER_init);
  if (!pctx)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  CUcontext c = driver.primary[dev];
  if (!c) {
    CUresult r = context_new(&c, dev, driver.primary_flags[dev], true);
    if (r)
      return r;
    driver.primary[dev] = c;
  }
  c->retained++;
  *pctx = c;
  return CUDA_SUCCESS;
}

static void primary_drop(CUdevice dev) {
  context_free(driver.primary[dev]);
  driver.m->dev[dev].peers = 0;
  driver.primary[dev] = NULL;
}

CUresult cuDevicePrimaryCtxRelease(CUdevice dev) {
  API(ENTER_init);
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (!driver.primary[dev])
    return CUDA_ERROR_INVALID_CONTEXT;
  if (--driver.primary[dev]->retained == 0)
    primary_drop(dev);
  return CUDA_SUCCESS;
}

/* Also the way out of a sticky error.  As on hardware, handles of the context are void
 * afterwards, and the context comes back with the next retain. */
CUresult cuDevicePrimaryCtxReset(CUdevice dev) {
  API(ENTER_init);
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (driver.primary[dev])
    primary_drop(dev);
  return CUDA_SUCCESS;
}

#define CONTEXT_FLAGS                                                                              \
  (CU_CTX_SCHED_MASK | CU_CTX_MAP_HOST | CU_CTX_LMEM_RESIZE_TO_MAX | CU_CTX_COREDUMP_ENABLE |      \
   CU_CTX_USER_COREDUMP_ENABLE | CU_CTX_SYNC_MEMOPS)

CUresult cuDevicePrimaryCtxSetFlags(CUdevice dev, unsigned int flags) {
  API(ENTER_init);
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  if (flags & ~(unsigned)CONTEXT_FLAGS)
    return CUDA_ERROR_INVALID_VALUE;
  driver.primary_flags[dev] = flags;
  if (driver.primary[dev])
    driver.primary[dev]->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuDevicePrimaryCtxGetState(CUdevice dev, unsigned int *flags, int *active) {
  API(ENTER_init);
  if (!flags || !active)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  *flags = driver.primary_flags[dev];
  *active = driver.primary[dev] != NULL;
  return CUDA_SUCCESS;
}

/* ---- current contexts ------------------------------------------------------------------ */

static CUresult push(CUcontext ctx) {
  struct thread *t = thread_get();
  if (t->depth == sizeof t->stack / sizeof *t->stack)
    return CUDA_ERROR_OUT_OF_MEMORY;
  t->stack[t->depth++] = ctx;
  return CUDA_SUCCESS;
}

static CUresult create(CUcontext *pctx, unsigned flags, CUdevice dev) {
  if (!pctx || flags & ~(unsigned)CONTEXT_FLAGS)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  CUresult r = context_new(pctx, dev, flags, false);
  return r ? r : push(*pctx);
}

CUresult cuCtxCreate(CUcontext *pctx, CUctxCreateParams *params, unsigned int flags, CUdevice dev) {
  API(ENTER_init);
  if (params && (params->numExecAffinityParams || params->cigParams))
    return lacking("cuCtxCreate with execution affinity or CIG parameters");
  return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev);
CUresult cuCtxCreate_v2(CUcontext *pctx, unsigned int flags, CUdevice dev) {
  API(ENTER_init);
  return create(pctx, flags, dev);
}

CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *params, int n, unsigned int flags,
                        CUdevice dev);
CUresult cuCtxCreate_v3(CUcontext *pctx, CUexecAffinityParam *params, int n, unsigned int flags,
                        CUdevice dev) {
  API(ENTER_init);
  if (params && n)
    return lacking("cuCtxCreate with execution affinity parameters");
  return create(pctx, flags, dev);
}

CUresult cuCtxDestroy(CUcontext ctx) {
  API(ENTER_init);
  if (!ctx)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(ctx, HANDLE_context) || ctx->primary)
    return CUDA_ERROR_INVALID_CONTEXT;
  struct thread *t = thread_get();
  if (t->depth && t->stack[t->depth - 1] == ctx)
    t->depth--;
  context_free(ctx);
  return CUDA_SUCCESS;
}

CUresult cuCtxPushCurrent(CUcontext ctx) {
  API(ENTER_init);
  if (!handle_is(ctx, HANDLE_context))
    return CUDA_ERROR_INVALID_CONTEXT;
  return push(ctx);
}

CUresult cuCtxPopCurrent(CUcontext *pctx) {
  API(ENTER_init);
  struct thread *t = thread_get();
  if (!t->depth)
    return CUDA_ERROR_INVALID_CONTEXT;
  CUcontext ctx = t->stack[--t->depth];
  if (pctx)
    *pctx = ctx;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCurrent(CUcontext ctx) {
  API(ENTER_init);
  struct thread *t = thread_get();
  if (ctx && !handle_is(ctx, HANDLE_context))
    return CUDA_ERROR_INVALID_CONTEXT;
  if (t->depth)
    t->depth--;
  return ctx ? push(ctx) : CUDA_SUCCESS;
}

CUresult cuCtxGetCurrent(CUcontext *pctx) {
  API(ENTER_init);
  if (!pctx)
    return CUDA_ERROR_INVALID_VALUE;
  *pctx = guard.ctx;
  return CUDA_SUCCESS;
}

/* The context meant by a nullable argument; NULL and *r if it is none. */
static CUcontext context_arg(CUcontext ctx, CUcontext current, CUresult *r) {
  if (!ctx)
    ctx = current;
  if (handle_is(ctx, HANDLE_context))
    return ctx;
  *r = CUDA_ERROR_INVALID_CONTEXT;
  return NULL;
}

CUresult cuCtxGetDevice(CUdevice *device) {
  API(ENTER_init);
  CUresult r = CUDA_SUCCESS;
  CUcontext ctx = context_arg(NULL, guard.ctx, &r);
  if (!ctx)
    return r;
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  *device = ctx->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetDevice_v2(CUdevice *device, CUcontext ctx) {
  API(ENTER_init);
  CUresult r = CUDA_SUCCESS;
  ctx = context_arg(ctx, guard.ctx, &r);
  if (!ctx)
    return r;
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  *device = ctx->ordinal;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetFlags(unsigned int *flags) {
  API(ENTER_context);
  if (!flags)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = guard.ctx->flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetFlags(unsigned int flags) {
  API(ENTER_context);
  if (flags & ~(unsigned)CONTEXT_FLAGS)
    return CUDA_ERROR_INVALID_VALUE;
  guard.ctx->flags = flags;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetId(CUcontext ctx, unsigned long long *id) {
  API(ENTER_init);
  CUresult r = CUDA_SUCCESS;
  ctx = context_arg(ctx, guard.ctx, &r);
  if (!ctx)
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (!id)
    return CUDA_ERROR_INVALID_VALUE;
  *id = ctx->id;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetApiVersion(CUcontext ctx, unsigned int *version) {
  API(ENTER_init);
  CUresult r = CUDA_SUCCESS;
  if (!context_arg(ctx, guard.ctx, &r))
    return r;
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = 3020; /* what every driver since 4.0 answers */
  return CUDA_SUCCESS;
}

static CUresult synchronize(CUcontext ctx) {
  CUresult r = capture_refuse(ctx, NULL, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  return r ? r : context_sync(ctx);
}

CUresult cuCtxSynchronize(void) {
  API(ENTER_context);
  return synchronize(guard.ctx);
}

CUresult cuCtxSynchronize_v2(CUcontext ctx) {
  API(ENTER_init);
  CUresult r = CUDA_SUCCESS;
  ctx = context_arg(ctx, guard.ctx, &r);
  return ctx ? synchronize(ctx) : r;
}

/* ---- settings ------------------------------------------------------------------------------ */

CUresult cuCtxSetLimit(CUlimit limit, size_t value) {
  API(ENTER_context);
  switch (limit) {
  case CU_LIMIT_STACK_SIZE:
  case CU_LIMIT_PRINTF_FIFO_SIZE:
  case CU_LIMIT_MALLOC_HEAP_SIZE:
  case CU_LIMIT_PERSISTING_L2_CACHE_SIZE:
    guard.ctx->limit[limit] = value;
    return CUDA_SUCCESS;
  case CU_LIMIT_MAX_L2_FETCH_GRANULARITY:
    if (value > 128)
      return CUDA_ERROR_INVALID_VALUE;
    guard.ctx->limit[limit] = value;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  }
}

CUresult cuCtxGetLimit(size_t *value, CUlimit limit) {
  API(ENTER_context);
  if (!value)
    return CUDA_ERROR_INVALID_VALUE;
  if ((unsigned)limit > CU_LIMIT_PERSISTING_L2_CACHE_SIZE)
    return CUDA_ERROR_UNSUPPORTED_LIMIT;
  *value = guard.ctx->limit[limit];
  return CUDA_SUCCESS;
}

CUresult cuCtxGetCacheConfig(CUfunc_cache *config) {
  API(ENTER_context);
  if (!config)
    return CUDA_ERROR_INVALID_VALUE;
  *config = guard.ctx->cache;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetCacheConfig(CUfunc_cache config) {
  API(ENTER_context);
  if ((unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL)
    return CUDA_ERROR_INVALID_VALUE;
  guard.ctx->cache = config;
  return CUDA_SUCCESS;
}

CUresult cuCtxGetSharedMemConfig(CUsharedconfig *config) {
  API(ENTER_context);
  if (!config)
    return CUDA_ERROR_INVALID_VALUE;
  *config = CU_SHARED_MEM_CONFIG_FOUR_BYTE_BANK_SIZE;
  return CUDA_SUCCESS;
}

CUresult cuCtxSetSharedMemConfig(CUsharedconfig config) {
  API(ENTER_context);
  return (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                                      : CUDA_SUCCESS;
}

CUresult cuCtxGetStreamPriorityRange(int *least, int *greatest) {
  API(ENTER_context);
  if (least)
    *least = 0;
  if (greatest)
    *greatest = -5;
  return CUDA_SUCCESS;
}

CUresult cuCtxResetPersistingL2Cache(void) {
  API(ENTER_context);
  return CUDA_SUCCESS; /* no cache is modelled */
}
