/* SPDX-License-Identifier: Apache-2.0
 *
 * Kernel launches: every check that the hardware's driver makes before it accepts one,
 * and handing the grid to the machine.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- checks ------------------------------------------------------------------------------ */

static CUresult attributes(struct launch *l, const CUlaunchConfig *c) {
  if (c->numAttrs && !c->attrs)
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < c->numAttrs; i++) {
    const CUlaunchAttributeValue *v = &c->attrs[i].value;
    switch (c->attrs[i].id) {
    case CU_LAUNCH_ATTRIBUTE_IGNORE:
    case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW: /* hints; no cache, no balancing here */
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_SCHEDULING_POLICY_PREFERENCE:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_CLUSTER_DIMENSION:
    case CU_LAUNCH_ATTRIBUTE_PREFERRED_SHARED_MEMORY_CARVEOUT:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN: /* fences here always reach every domain */
    case CU_LAUNCH_ATTRIBUTE_NVLINK_UTIL_CENTRIC_SCHEDULING:
      break;
    case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
      l->cooperative = v->cooperative != 0;
      break;
    case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
      l->cluster[0] = v->clusterDim.x;
      l->cluster[1] = v->clusterDim.y;
      l->cluster[2] = v->clusterDim.z;
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION:
      l->programmatic = v->programmaticStreamSerializationAllowed != 0;
      break;
    case CU_LAUNCH_ATTRIBUTE_PRIORITY:
      l->priority = v->priority;
      break;
    case CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT:
      return lacking("launch attribute PROGRAMMATIC_EVENT");
    case CU_LAUNCH_ATTRIBUTE_LAUNCH_COMPLETION_EVENT:
      return lacking("launch attribute LAUNCH_COMPLETION_EVENT");
    case CU_LAUNCH_ATTRIBUTE_DEVICE_UPDATABLE_KERNEL_NODE:
      return lacking("launch attribute DEVICE_UPDATABLE_KERNEL_NODE");
    case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY: /* streams' alone */
      return CUDA_ERROR_INVALID_VALUE;
    default:
      return lacking("a launch attribute of a later CUDA version");
    }
  }
  return CUDA_SUCCESS;
}

static uint32_t or_one(uint32_t x) {
  return x ? x : 1;
}

static CUresult check_block(const struct launch *l) {
  const struct function *fn = l->fn->fn;
  const uint32_t *b = l->block, *g = l->grid;
  if (!b[0] || !b[1] || !b[2] || b[0] > 1024 || b[1] > 1024 || b[2] > 64 ||
      (uint64_t)b[0] * b[1] * b[2] > 1024)
    return CUDA_ERROR_INVALID_VALUE;
  if (!g[0] || !g[1] || !g[2] || g[0] > 0x7fffffff || g[1] > 65535 || g[2] > 65535)
    return CUDA_ERROR_INVALID_VALUE;
  if (fn->reqntid[0])
    for (int i = 0; i < 3; i++)
      if (b[i] != or_one(fn->reqntid[i]))
        return CUDA_ERROR_INVALID_VALUE;
  if (fn->maxntid[0] &&
      b[0] * b[1] * b[2] > fn->maxntid[0] * or_one(fn->maxntid[1]) * or_one(fn->maxntid[2]))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static CUresult check_cluster(struct launch *l) {
  const struct function *fn = l->fn->fn;
  uint32_t *c = l->cluster;
  bool given = c[0] || c[1] || c[2];
  if (given && (!c[0] || !c[1] || !c[2]))
    return CUDA_ERROR_INVALID_VALUE;
  if (fn->reqcluster[0])
    for (int i = 0; i < 3; i++) {
      uint32_t want = or_one(fn->reqcluster[i]);
      if (given && c[i] != want)
        return CUDA_ERROR_INVALID_CLUSTER_SIZE;
      c[i] = want;
    }
  else if (!given) {
    if (fn->explicit_cluster)
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    c[0] = c[1] = c[2] = 1;
  }
  uint64_t size = (uint64_t)c[0] * c[1] * c[2];
  uint32_t most = l->fn->non_portable ? 16 : 8;
  if (fn->maxclusterrank && fn->maxclusterrank < most)
    most = fn->maxclusterrank;
  if (size > most)
    return CUDA_ERROR_INVALID_CLUSTER_SIZE;
  for (int i = 0; i < 3; i++)
    if (l->grid[i] % c[i])
      return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static CUresult check_resources(const struct launch *l) {
  int limit = 0;
  CUresult r = function_attribute(l->fn, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, &limit);
  if (r)
    return r;
  if (l->shared > (uint32_t)limit)
    return CUDA_ERROR_INVALID_VALUE;
  int blocks = blocks_per_sm(l->fn, l->block[0] * l->block[1] * l->block[2], l->shared);
  if (blocks < 1)
    return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
  uint64_t all = (uint64_t)l->grid[0] * l->grid[1] * l->grid[2];
  if (l->cooperative && all > (uint64_t)blocks * device_of(l->fn->module->ctx)->nsm)
    return CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE;
  return CUDA_SUCCESS;
}

/* Copies the parameters now: the caller's are gone when the kernel runs. */
static CUresult parameters(struct launch *l, void **params, void **extra) {
  const struct function *fn = l->fn->fn;
  if (params && extra)
    return CUDA_ERROR_INVALID_VALUE;
  if (fn->nparam && !params && !extra)
    return CUDA_ERROR_INVALID_VALUE;
  const void *buffer = NULL;
  size_t size = 0;
  for (size_t i = 0; extra && extra[i] != CU_LAUNCH_PARAM_END; i += 2) {
    if (extra[i] == CU_LAUNCH_PARAM_BUFFER_POINTER)
      buffer = extra[i + 1];
    else if (extra[i] == CU_LAUNCH_PARAM_BUFFER_SIZE && extra[i + 1])
      size = *(size_t *)extra[i + 1];
    else
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (extra && fn->nparam && (!buffer || size < fn->param_bytes))
    return CUDA_ERROR_INVALID_VALUE;
  l->params = calloc(fn->param_bytes + 1, 1);
  if (!l->params)
    return CUDA_ERROR_OUT_OF_MEMORY;
  if (buffer)
    memcpy(l->params, buffer, fn->param_bytes);
  else
    for (uint32_t i = 0; i < fn->nparam; i++) {
      if (!params[i]) {
        free(l->params);
        l->params = NULL;
        return CUDA_ERROR_INVALID_VALUE;
      }
      memcpy(l->params + fn->param[i].offset, params[i], fn->param[i].size);
    }
  return CUDA_SUCCESS;
}

CUresult launch_work(struct work *w, const CUlaunchConfig *c, CUfunction f, void **params,
                     void **extra, CUcontext ctx) {
  CUresult r = CUDA_SUCCESS;
  *w = (struct work){.kind = WORK_kernel};
  struct launch *l = &w->launch;
  l->fn = function_resolve(f, ctx, &r);
  if (!l->fn)
    return r;
  w->ctx = l->fn->module->ctx;
  memcpy(l->grid, (uint32_t[]){c->gridDimX, c->gridDimY, c->gridDimZ}, sizeof l->grid);
  memcpy(l->block, (uint32_t[]){c->blockDimX, c->blockDimY, c->blockDimZ}, sizeof l->block);
  l->shared = c->sharedMemBytes;
  if ((r = attributes(l, c)) || (r = check_block(l)) || (r = check_cluster(l)) ||
      (r = check_resources(l)))
    return r;
  return parameters(l, params, extra);
}

/* ---- the calls ----------------------------------------------------------------- */

static CUresult launch(const CUlaunchConfig *c, CUfunction f, void **params, void **extra,
                       CUcontext current) {
  CUresult r = CUDA_SUCCESS;
  CUstream s = stream_resolve(c->hStream, current, &r);
  if (!s)
    return r;
  struct work w;
  r = launch_work(&w, c, f, params, extra, s->ctx);
  if (r)
    return r;
  if (w.ctx != s->ctx) { /* the kernel is of another context than the stream */
    work_clear(&w);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return enqueue(s, &w);
}

CUresult cuLaunchKernelEx(const CUlaunchConfig *c, CUfunction f, void **params, void **extra) {
  API(ENTER_context);
  return c ? launch(c, f, params, extra, guard.ctx) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuLaunchKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                        unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
                        CUstream s, void **params, void **extra) {
  API(ENTER_context);
  CUlaunchConfig c = {gx, gy, gz, bx, by, bz, shared, s, NULL, 0};
  return launch(&c, f, params, extra, guard.ctx);
}

CUresult cuLaunchCooperativeKernel(CUfunction f, unsigned int gx, unsigned int gy, unsigned int gz,
                                   unsigned int bx, unsigned int by, unsigned int bz,
                                   unsigned int shared, CUstream s, void **params) {
  API(ENTER_context);
  CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_COOPERATIVE, .value = {.cooperative = 1}};
  CUlaunchConfig c = {gx, gy, gz, bx, by, bz, shared, s, &a, 1};
  return launch(&c, f, params, NULL, guard.ctx);
}

/* ---- to the machine -------------------------------------------------------------------------- */

CUresult launch_submit(struct op *o) {
  static uint64_t launches;
  const struct launch *l = &o->work.launch;
  struct grid *g = calloc(1, sizeof *g);
  if (!g)
    return CUDA_ERROR_OUT_OF_MEMORY;
  g->dev = device_of(o->work.ctx);
  g->fn = l->fn->fn;
  g->id = ++launches;
  memcpy(g->dim, l->grid, sizeof g->dim);
  memcpy(g->block, l->block, sizeof g->block);
  memcpy(g->cluster_dim, l->cluster, sizeof g->cluster_dim);
  g->dynamic_shared = l->shared;
  g->param = l->params;
  g->pdl = l->programmatic;
  g->prereq = calloc(o->npre + 1, sizeof(struct grid *));
  if (!g->prereq) {
    free(g);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (uint32_t i = 0; i < o->npre; i++)
    if (o->pre[i]->grid)
      g->prereq[g->nprereq++] = o->pre[i]->grid;
  g->on_triggered = op_triggered;
  g->on_complete = op_complete;
  g->arg = o;
  g->point = &o->point;
  o->grid = g;
  if (grid_submit(g))
    return CUDA_SUCCESS;
  o->grid = NULL;
  free(g->prereq);
  free(g);
  return CUDA_ERROR_LAUNCH_OUT_OF_RESOURCES;
}
