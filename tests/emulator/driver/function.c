/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernels' attributes and occupancy.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* Registers belong to machine code, which does not exist here: the PTX's own limit or the
 * number the machine places CTAs by. */
uint32_t function_registers(const struct function *fn) {
  uint32_t most = 65536;
  if (fn->reqntid[0])
    most /= fn->reqntid[0] * (fn->reqntid[1] ? fn->reqntid[1] : 1) *
            (fn->reqntid[2] ? fn->reqntid[2] : 1);
  uint32_t n = fn->maxnreg ? fn->maxnreg : 64;
  return n < most ? n : most;
}

static uint32_t product(const uint32_t d[3]) {
  return d[0] * (d[1] ? d[1] : 1) * (d[2] ? d[2] : 1);
}

static uint32_t max_threads(const struct function *fn) {
  uint32_t n = fn->reqntid[0] ? product(fn->reqntid) : fn->maxntid[0] ? product(fn->maxntid) : 1024;
  return n < 1024 ? n : 1024;
}

static uint32_t static_shared(const struct function *fn) {
  return fn->dynamic_shared && fn->dynamic_offset > fn->shared_bytes ? fn->dynamic_offset
                                                                     : fn->shared_bytes;
}

/* The part that depends on code alone. */
static CUresult code_attribute(const struct function *fn, CUfunction_attribute a, int *out) {
  switch (a) {
  case CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
    *out = (int)max_threads(fn);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES:
    *out = (int)static_shared(fn);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CONST_SIZE_BYTES: {
    uint64_t n = 0;
    for (uint32_t i = 0; i < fn->module->nvar; i++)
      if (fn->module->var[i].space == SPACE_const)
        n += fn->module->var[i].size;
    *out = (int)n;
    return CUDA_SUCCESS;
  }
  case CU_FUNC_ATTRIBUTE_LOCAL_SIZE_BYTES:
    *out = (int)fn->local_bytes;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NUM_REGS:
    *out = (int)function_registers(fn);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PTX_VERSION:
  case CU_FUNC_ATTRIBUTE_BINARY_VERSION:
    *out = atoi(fn->module->target + 3);
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CACHE_MODE_CA:
    *out = 0;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SIZE_MUST_BE_SET:
    *out = fn->explicit_cluster && !fn->reqcluster[0];
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    *out = (int)fn->reqcluster[a - CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH];
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult function_attribute(const struct CUfunc_st *f, CUfunction_attribute a, int *out) {
  switch (a) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES: {
    uint32_t fixed = static_shared(f->fn);
    *out = (int)(f->max_dynamic ? f->max_dynamic : fixed < 49152 ? 49152 - fixed : 0);
    return CUDA_SUCCESS;
  }
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    *out = f->carveout;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    *out = f->non_portable;
    return CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    *out = f->scheduling;
    return CUDA_SUCCESS;
  default:
    return code_attribute(f->fn, a, out);
  }
}

static CUresult check_setting(const struct function *fn, const struct device *d,
                              CUfunction_attribute a, int v) {
  switch (a) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    return v < 0 || (uint32_t)v + static_shared(fn) > d->shared_optin ? CUDA_ERROR_INVALID_VALUE
                                                                      : CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    return v < -1 || v > 100 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    return v < 0 || v > 1 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    return v < 0 || v > CU_CLUSTER_SCHEDULING_POLICY_LOAD_BALANCING ? CUDA_ERROR_INVALID_VALUE
                                                                    : CUDA_SUCCESS;
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_WIDTH:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_HEIGHT:
  case CU_FUNC_ATTRIBUTE_REQUIRED_CLUSTER_DEPTH:
    return lacking("setting a required cluster dimension after loading");
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

static void set(CUfunction_attribute a, int v, uint32_t *dynamic, int *carveout, bool *non_portable,
                int *scheduling) {
  switch (a) {
  case CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES:
    *dynamic = (uint32_t)v;
    break;
  case CU_FUNC_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    *carveout = v;
    break;
  case CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED:
    *non_portable = v != 0;
    break;
  default:
    *scheduling = v;
    break;
  }
}

#define FUNCTION(f)                                                                                \
  CUresult r = CUDA_SUCCESS;                                                                       \
  (f) = function_resolve(f, guard.ctx, &r);                                                        \
  if (!(f))                                                                                        \
  return r

CUresult cuFuncGetAttribute(int *out, CUfunction_attribute a, CUfunction f) {
  API(ENTER_context);
  FUNCTION(f);
  return out ? function_attribute(f, a, out) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuFuncSetAttribute(CUfunction f, CUfunction_attribute a, int v) {
  API(ENTER_context);
  FUNCTION(f);
  r = check_setting(f->fn, device_of(f->module->ctx), a, v);
  if (!r)
    set(a, v, &f->max_dynamic, &f->carveout, &f->non_portable, &f->scheduling);
  return r;
}

/* The kernel's entry in its library's own copy of the code. */
static struct function *kernel_code(CUkernel k) {
  return ptx_function(k->library->ptx, k->name);
}

CUresult cuKernelGetAttribute(int *out, CUfunction_attribute a, CUkernel k, CUdevice dev) {
  API(ENTER_init);
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(k, HANDLE_kernel))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  struct CUfunc_st f = {.fn = kernel_code(k),
                        .max_dynamic = k->set[dev].max_dynamic,
                        .carveout = k->set[dev].carveout,
                        .non_portable = k->set[dev].non_portable,
                        .scheduling = k->set[dev].scheduling};
  return function_attribute(&f, a, out);
}

CUresult cuKernelSetAttribute(CUfunction_attribute a, int v, CUkernel k, CUdevice dev) {
  API(ENTER_init);
  if (!handle_is(k, HANDLE_kernel))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  CUresult r = check_setting(kernel_code(k), &driver.m->dev[dev], a, v);
  if (r)
    return r;
  set(a, v, &k->set[dev].max_dynamic, &k->set[dev].carveout, &k->set[dev].non_portable,
      &k->set[dev].scheduling);
  for (struct CUctx_st *c = driver.contexts; c; c = c->next)
    for (struct CUmod_st *m = c->modules; c->ordinal == dev && m; m = m->next)
      if (m->library == k->library) {
        struct CUfunc_st *f = &m->fn[k->index];
        set(a, v, &f->max_dynamic, &f->carveout, &f->non_portable, &f->scheduling);
      }
  return CUDA_SUCCESS;
}

CUresult cuFuncSetCacheConfig(CUfunction f, CUfunc_cache config) {
  API(ENTER_context);
  FUNCTION(f);
  return (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuFuncSetSharedMemConfig(CUfunction f, CUsharedconfig config) {
  API(ENTER_context);
  FUNCTION(f);
  return (unsigned)config > CU_SHARED_MEM_CONFIG_EIGHT_BYTE_BANK_SIZE ? CUDA_ERROR_INVALID_VALUE
                                                                      : CUDA_SUCCESS;
}

CUresult cuKernelSetCacheConfig(CUkernel k, CUfunc_cache config, CUdevice dev) {
  API(ENTER_init);
  if (!handle_is(k, HANDLE_kernel))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  return (unsigned)config > CU_FUNC_CACHE_PREFER_EQUAL ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuFuncGetModule(CUmodule *out, CUfunction f) {
  API(ENTER_context);
  FUNCTION(f);
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  *out = f->module;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetName(const char **name, CUfunction f) {
  API(ENTER_context);
  FUNCTION(f);
  if (!name)
    return CUDA_ERROR_INVALID_VALUE;
  *name = f->fn->name;
  return CUDA_SUCCESS;
}

CUresult cuKernelGetName(const char **name, CUkernel k) {
  API(ENTER_init);
  if (!name)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(k, HANDLE_kernel))
    return CUDA_ERROR_INVALID_HANDLE;
  *name = k->name;
  return CUDA_SUCCESS;
}

static CUresult param_info(const struct function *fn, size_t i, size_t *offset, size_t *size) {
  if (!offset || i >= fn->nparam)
    return CUDA_ERROR_INVALID_VALUE;
  *offset = fn->param[i].offset;
  if (size)
    *size = fn->param[i].size;
  return CUDA_SUCCESS;
}

CUresult cuFuncGetParamInfo(CUfunction f, size_t i, size_t *offset, size_t *size) {
  API(ENTER_context);
  FUNCTION(f);
  return param_info(f->fn, i, offset, size);
}

CUresult cuKernelGetParamInfo(CUkernel k, size_t i, size_t *offset, size_t *size) {
  API(ENTER_init);
  if (!handle_is(k, HANDLE_kernel))
    return CUDA_ERROR_INVALID_HANDLE;
  return param_info(kernel_code(k), i, offset, size);
}

CUresult cuFuncIsLoaded(CUfunctionLoadingState *state, CUfunction f) {
  API(ENTER_context);
  FUNCTION(f);
  if (!state)
    return CUDA_ERROR_INVALID_VALUE;
  *state = CU_FUNCTION_LOADING_STATE_LOADED;
  return CUDA_SUCCESS;
}

CUresult cuFuncLoad(CUfunction f) {
  API(ENTER_context);
  FUNCTION(f);
  return CUDA_SUCCESS;
}

/* ---- occupancy ------------------------------------------------------------------------------- */

int blocks_per_sm(CUfunction f, uint32_t threads, size_t dynamic) {
  const struct device *d = device_of(f->module->ctx);
  int limit = 0;
  function_attribute(f, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &limit);
  if (!threads || threads > max_threads(f->fn) || dynamic > (size_t)limit)
    return 0;
  uint32_t warps = (threads + WARP - 1) / WARP;
  uint32_t shared = static_shared(f->fn) + (uint32_t)dynamic + 1024;
  uint32_t registers = function_registers(f->fn) * warps * WARP;
  uint32_t n = d->max_threads_sm / (warps * WARP);
  n = n < d->max_ctas_sm ? n : d->max_ctas_sm;
  n = n < d->shared_sm / shared ? n : d->shared_sm / shared;
  n = n < d->registers_sm / registers ? n : d->registers_sm / registers;
  return (int)n;
}

static CUresult max_blocks(int *out, CUfunction f, int threads, size_t dynamic) {
  if (!out || threads <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  *out = blocks_per_sm(f, (uint32_t)threads, dynamic);
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *out, CUfunction f, int threads,
                                                     size_t dynamic) {
  API(ENTER_context);
  FUNCTION(f);
  return max_blocks(out, f, threads, dynamic);
}

CUresult cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *out, CUfunction f, int threads,
                                                              size_t dynamic, unsigned int flags) {
  API(ENTER_context);
  FUNCTION(f);
  if (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  return max_blocks(out, f, threads, dynamic);
}

static CUresult best_block(int *grid, int *block, CUfunction f, CUoccupancyB2DSize dynamic_of,
                           size_t dynamic, int limit) {
  if (!grid || !block)
    return CUDA_ERROR_INVALID_VALUE;
  int most = (int)max_threads(f->fn), best = 0;
  if (limit > 0 && limit < most)
    most = limit;
  *block = 0;
  *grid = 0;
  for (int n = (most + WARP - 1) / WARP * WARP; n > 0; n -= WARP) {
    int threads = n < most ? n : most;
    int blocks = blocks_per_sm(f, (uint32_t)threads, dynamic_of ? dynamic_of(threads) : dynamic);
    if (blocks * threads > best) {
      best = blocks * threads;
      *block = threads;
      *grid = blocks * (int)device_of(f->module->ctx)->nsm;
    }
  }
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxPotentialBlockSize(int *grid, int *block, CUfunction f,
                                          CUoccupancyB2DSize dynamic_of, size_t dynamic,
                                          int limit) {
  API(ENTER_context);
  FUNCTION(f);
  return best_block(grid, block, f, dynamic_of, dynamic, limit);
}

CUresult cuOccupancyMaxPotentialBlockSizeWithFlags(int *grid, int *block, CUfunction f,
                                                   CUoccupancyB2DSize dynamic_of, size_t dynamic,
                                                   int limit, unsigned int flags) {
  API(ENTER_context);
  FUNCTION(f);
  if (flags & ~(unsigned)CU_OCCUPANCY_DISABLE_CACHING_OVERRIDE)
    return CUDA_ERROR_INVALID_VALUE;
  return best_block(grid, block, f, dynamic_of, dynamic, limit);
}

CUresult cuOccupancyAvailableDynamicSMemPerBlock(size_t *out, CUfunction f, int blocks,
                                                 int threads) {
  API(ENTER_context);
  FUNCTION(f);
  if (!out || blocks <= 0 || threads <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  const struct device *d = device_of(f->module->ctx);
  if (blocks > blocks_per_sm(f, (uint32_t)threads, 0))
    return CUDA_ERROR_INVALID_VALUE;
  uint32_t each = d->shared_sm / (uint32_t)blocks / 128 * 128;
  uint32_t used = static_shared(f->fn) + 1024;
  uint32_t room = each > used ? each - used : 0;
  uint32_t most = d->shared_optin - static_shared(f->fn);
  *out = room < most ? room : most;
  return CUDA_SUCCESS;
}

/* Clusters live inside a GPC: 8 of them, whose SMs the published counts divide into. */
#define GPCS 8

/* 0: neither the launch nor the kernel forms clusters. */
static uint32_t cluster_size(const CUlaunchConfig *c, const struct function *fn) {
  for (unsigned i = 0; i < c->numAttrs; i++)
    if (c->attrs[i].id == CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION)
      return c->attrs[i].value.clusterDim.x * c->attrs[i].value.clusterDim.y *
             c->attrs[i].value.clusterDim.z;
  return fn->reqcluster[0] ? product(fn->reqcluster) : 0;
}

static CUresult max_clusters(int *out, CUfunction f, const CUlaunchConfig *c, uint32_t size) {
  uint32_t threads = c->blockDimX * c->blockDimY * c->blockDimZ;
  if (!threads || !size)
    return CUDA_ERROR_INVALID_VALUE;
  if (size > 16 || (size > 8 && !f->non_portable))
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  int blocks = blocks_per_sm(f, threads, c->sharedMemBytes);
  uint32_t nsm = device_of(f->module->ctx)->nsm;
  uint32_t gpc = nsm >= 16 * GPCS ? nsm / GPCS : nsm;
  *out = (int)(nsm / gpc * (gpc * (uint32_t)blocks / size));
  return CUDA_SUCCESS;
}

CUresult cuOccupancyMaxActiveClusters(int *out, CUfunction f, const CUlaunchConfig *c) {
  API(ENTER_context);
  FUNCTION(f);
  if (!out || !c || (c->numAttrs && !c->attrs))
    return CUDA_ERROR_INVALID_VALUE;
  uint32_t size = cluster_size(c, f->fn);
  if (!size) {
    *out = 0; /* as an H200's driver answers */
    return CUDA_SUCCESS;
  }
  return max_clusters(out, f, c, size);
}

CUresult cuOccupancyMaxPotentialClusterSize(int *out, CUfunction f, const CUlaunchConfig *c) {
  API(ENTER_context);
  FUNCTION(f);
  if (!out || !c)
    return CUDA_ERROR_INVALID_VALUE;
  int n = 0;
  for (uint32_t size = f->non_portable ? 16 : 8; size; size /= 2) {
    r = max_clusters(&n, f, c, size);
    if (r)
      return r;
    if (n) {
      *out = (int)size;
      return CUDA_SUCCESS;
    }
  }
  *out = 0;
  return CUDA_SUCCESS;
}
