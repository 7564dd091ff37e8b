/* SPDX-License-Identifier: Apache-2.0
 *
 * One conformance kernel on a driver; see run.h.
 */
#include "conformance/run.h"

#include <dlfcn.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "conformance/pool.h"

const char *device_open(const char *which, struct device *d) {
  memset(d, 0, sizeof *d);
  const char *problem = bwt_driver_open(which, &d->driver);
  if (problem)
    return problem;
  d->encode = (__typeof__(d->encode))dlsym(d->driver.library, "cuTensorMapEncodeTiled");
  d->set_attribute = (__typeof__(d->set_attribute))dlsym(d->driver.library, "cuFuncSetAttribute");
  d->fill = (__typeof__(d->fill))dlsym(d->driver.library, "cuMemsetD8_v2");
  d->name = (__typeof__(d->name))dlsym(d->driver.library, "cuDeviceGetName");
  d->load = (__typeof__(d->load))dlsym(d->driver.library, "cuModuleLoadDataEx");
  d->configure =
      (int (*)(const char *, const char *))dlsym(d->driver.library, "barewarp_emulated_configure");
  if (!d->encode || !d->set_attribute || !d->fill || !d->name || !d->load)
    return "the driver lacks a function";
  int major = 0, minor = 0;
  CUresult r = d->driver.DeviceGet(&d->device, 0);
  if (!r)
    r = d->driver.DeviceGetAttribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR,
                                     d->device);
  if (!r)
    r = d->driver.DeviceGetAttribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR,
                                     d->device);
  d->sm = 10 * major + minor;
  if (!r)
    r = d->driver.DevicePrimaryCtxRetain(&d->context, d->device);
  if (!r)
    r = d->driver.CtxSetCurrent(d->context);
  return r ? bwt_driver_error(&d->driver, r) : NULL;
}

struct launch {
  struct device *d;
  const struct kernel_file *k;
  struct outcome *o;
  CUmodule module;
  CUfunction function;
  CUdeviceptr in, out, scratch;
  CUtensorMap map[KERNEL_TENSORS] __attribute__((aligned(128)));
  uint64_t in_bytes, out_bytes;
  unsigned grid[3];
};

static bool fail(struct outcome *o, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static bool fail(struct outcome *o, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  vsnprintf(o->problem, sizeof o->problem, fmt, ap);
  va_end(ap);
  return false;
}

static bool ok(struct launch *l, CUresult r, const char *what) {
  return r == CUDA_SUCCESS || fail(l->o, "%s: %s", what, bwt_driver_error(&l->d->driver, r));
}

static bool load(struct launch *l, const char *cubins) {
  if (!cubins) {
    char log[4096] = "";
    CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
    void *value[] = {log, (void *)(uintptr_t)sizeof log};
    CUresult r = l->d->load(&l->module, l->k->text, 2, option, value);
    if (r)
      return fail(l->o, "loading: %s %.700s", bwt_driver_error(&l->d->driver, r), log);
  } else {
    char path[1024];
    snprintf(path, sizeof path, "%s/%s.cubin", cubins, l->k->name);
    FILE *f = fopen(path, "rb");
    if (!f)
      return fail(l->o, "no %s", path);
    char *cubin = malloc(16 << 20);
    size_t n = fread(cubin, 1, 16 << 20, f);
    fclose(f);
    CUresult r = n > 0 ? l->d->driver.ModuleLoadData(&l->module, cubin) : CUDA_ERROR_INVALID_IMAGE;
    free(cubin);
    if (!ok(l, r, "loading the cubin"))
      return false;
  }
  return ok(l, l->d->driver.ModuleGetFunction(&l->function, l->module, "conformance"),
            "the entry conformance");
}

static bool buffers(struct launch *l) {
  const struct kernel_file *k = l->k;
  struct bwt_driver *cu = &l->d->driver;
  uint64_t n = l->o->threads;
  l->in_bytes = 8 * n * (k->operands ? k->operands : 1);
  l->out_bytes = 8 * n * k->results;
  l->o->in = calloc(1, l->in_bytes);
  l->o->out = malloc(l->out_bytes);
  for (unsigned a = 0; a < k->operands; a++)
    if (!pool_fill(k->operand[a], a, k->operands, n, k->tile, l->o->in + a * n))
      return fail(l->o, "no pool of values is called %s", k->operand[a]);
  uint32_t *scratch = calloc(1, RUN_SCRATCH);
  for (uint64_t i = 0; i < RUN_SCRATCH / 4 && !k->zero; i++)
    scratch[i] = (uint32_t)pool_mix(i);
  bool good = ok(l, cu->MemAlloc(&l->in, l->in_bytes), "memory for the operands") &&
              ok(l, cu->MemAlloc(&l->out, l->out_bytes), "memory for the results") &&
              ok(l, cu->MemAlloc(&l->scratch, RUN_SCRATCH), "memory for scratch") &&
              ok(l, cu->MemcpyHtoD(l->in, l->o->in, l->in_bytes), "copying the operands") &&
              ok(l, cu->MemcpyHtoD(l->scratch, scratch, RUN_SCRATCH), "copying scratch") &&
              ok(l, l->d->fill(l->out, RUN_POISON, l->out_bytes), "poisoning the results");
  free(scratch);
  return good;
}

static bool encode(struct launch *l) {
  for (unsigned i = 0; i < l->k->tensors; i++) {
    const struct tensor *t = &l->k->tensor[i];
    cuuint64_t dims[5], strides[5];
    cuuint32_t box[5], steps[5];
    for (int d = 0; d < 5; d++) {
      dims[d] = t->dims[d];
      strides[d] = t->strides[d];
      box[d] = t->box[d];
      steps[d] = t->steps[d];
    }
    CUdeviceptr at = (t->scratch ? l->scratch : l->in) + t->offset;
    if (!ok(l,
            l->d->encode(&l->map[i], (CUtensorMapDataType)t->type, t->rank, (void *)at, dims,
                         strides, box, steps, (CUtensorMapInterleave)t->interleave,
                         (CUtensorMapSwizzle)t->swizzle, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                         (CUtensorMapFloatOOBfill)t->fill),
            "cuTensorMapEncodeTiled"))
      return false;
  }
  return true;
}

static bool launch(struct launch *l) {
  const struct kernel_file *k = l->k;
  CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
  cluster.value.clusterDim.x = k->cluster[0];
  cluster.value.clusterDim.y = k->cluster[1];
  cluster.value.clusterDim.z = k->cluster[2];
  CUlaunchConfig config = {.gridDimX = l->grid[0],
                           .gridDimY = l->grid[1],
                           .gridDimZ = l->grid[2],
                           .blockDimX = k->block[0],
                           .blockDimY = k->block[1],
                           .blockDimZ = k->block[2],
                           .sharedMemBytes = k->shared};
  if (k->cluster[0] * k->cluster[1] * k->cluster[2] > 1) {
    config.attrs = &cluster;
    config.numAttrs = 1;
  }
  if (k->shared > 48 * 1024 &&
      !ok(l,
          l->d->set_attribute(l->function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                              (int)k->shared),
          "the limit of shared memory"))
    return false;
  void *args[3 + KERNEL_TENSORS] = {&l->in, &l->out, &l->scratch};
  for (unsigned i = 0; i < KERNEL_TENSORS; i++)
    args[3 + i] = &l->map[i];
  return ok(l, l->d->driver.LaunchKernelEx(&config, l->function, args, NULL), "the launch") &&
         ok(l, l->d->driver.CtxSynchronize(), "the kernel") &&
         ok(l, l->d->driver.MemcpyDtoH(l->o->out, l->out, l->out_bytes), "copying the results");
}

void run_kernel(struct device *d, const struct kernel_file *k, const char *cubins, unsigned ctas,
                struct outcome *o) {
  struct launch l = {.d = d, .k = k, .o = o};
  memset(o, 0, sizeof *o);
  if (d->configure)
    d->configure("checks", "all");
  memcpy(l.grid, k->grid, sizeof l.grid);
  if (ctas && ctas < l.grid[0])
    l.grid[0] = ctas;
  o->threads =
      (uint64_t)l.grid[0] * l.grid[1] * l.grid[2] * k->block[0] * k->block[1] * k->block[2];
  if (load(&l, cubins) && buffers(&l) && encode(&l))
    launch(&l);
  if (l.in)
    d->driver.MemFree(l.in);
  if (l.out)
    d->driver.MemFree(l.out);
  if (l.scratch)
    d->driver.MemFree(l.scratch);
  if (l.module)
    d->driver.ModuleUnload(l.module);
}

void outcome_free(struct outcome *o) {
  free(o->in);
  free(o->out);
  o->in = o->out = NULL;
}
