/* SPDX-License-Identifier: Apache-2.0
 *
 * Libraries: code that belongs to no context; each context that uses it gets a module of
 * its own, on first use.
 */
#include "module.h"

#include <stdlib.h>
#include <string.h>

static void library_free(struct CUlib_st *lib) {
  for (struct CUctx_st *c = driver.contexts; c; c = c->next)
    for (struct CUmod_st *m = c->modules, *next; m; m = next) {
      next = m->next;
      if (m->library == lib)
        module_free(m);
    }
  for (uint32_t i = 0; i < lib->nkernel; i++)
    handle_remove(&lib->kernel[i]);
  if (lib->ptx)
    ptx_free(lib->ptx);
  handle_remove(lib);
  free(lib->kernel);
  free(lib->text);
  free(lib);
}

static CUresult library_load(CUlibrary *out, const void *code, unsigned n, CUjit_option *option,
                             void **value) {
  struct jit_log error, info;
  char err[1024] = "";
  if (!out || !code)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult r = jit_options(&error, &info, n, option, value);
  if (r)
    return r;
  enum image kind = image_kind(code);
  if (kind == IMAGE_unknown)
    return CUDA_ERROR_INVALID_IMAGE;
  struct CUlib_st *lib = calloc(1, sizeof *lib);
  if (!lib || !handle_add(lib, HANDLE_library)) {
    free(lib);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (kind == IMAGE_ptx) {
    lib->text = strdup(code);
    r = lib->text ? module_parse(&lib->ptx, code, NULL, err, sizeof err) : CUDA_ERROR_OUT_OF_MEMORY;
    if (!r)
      lib->kernel = calloc(lib->ptx->nfn + 1, sizeof *lib->kernel);
    if (!r && !lib->kernel)
      r = CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t i = 0; !r && i < lib->ptx->nfn; i++)
      if (lib->ptx->fn[i].entry) {
        struct CUkern_st *k = &lib->kernel[lib->nkernel];
        k->library = lib;
        k->name = lib->ptx->fn[i].name;
        k->index = lib->nkernel++;
        for (int d = 0; d < MAX_DEVICES; d++)
          k->set[d].carveout = -1;
        handle_add(k, HANDLE_kernel);
      }
  }
  if (r) {
    if (*err && !error.buffer)
      complain("library: %s", err);
    library_free(lib);
  } else {
    *out = lib;
  }
  jit_write(&error, err);
  jit_write(&info, "");
  return r;
}

/* NOLINTBEGIN(readability-non-const-parameter): the signatures are those of cuda.h */
CUresult cuLibraryLoadData(CUlibrary *out, const void *code, CUjit_option *jit, void **jit_value,
                           unsigned int njit, CUlibraryOption *option, void **value,
                           unsigned int n) {
  API(ENTER_init);
  if (n && (!option || !value))
    return CUDA_ERROR_INVALID_VALUE;
  return library_load(out, code, njit, jit, jit_value);
}

CUresult cuLibraryLoadFromFile(CUlibrary *out, const char *name, CUjit_option *jit,
                               void **jit_value, unsigned int njit, CUlibraryOption *option,
                               void **value, unsigned int n) {
  API(ENTER_init);
  if (n && (!option || !value))
    return CUDA_ERROR_INVALID_VALUE;
  char *text = NULL;
  CUresult r = image_read(&text, name);
  if (!r)
    r = library_load(out, text, njit, jit, jit_value);
  free(text);
  return r;
}
/* NOLINTEND(readability-non-const-parameter) */

static bool library_quiet(void *arg) {
  for (struct op *o = driver.ops; o; o = o->next)
    if (o->work.kind == WORK_kernel && o->work.launch.fn->module->library == arg)
      return false;
  return true;
}

CUresult cuLibraryUnload(CUlibrary lib) {
  API(ENTER_init);
  if (!handle_is(lib, HANDLE_library))
    return CUDA_ERROR_INVALID_HANDLE;
  CUresult r = drive(library_quiet, lib);
  if (r || !handle_is(lib, HANDLE_library))
    return r;
  library_free(lib);
  return CUDA_SUCCESS;
}

/* The library's module in the context, loaded on first use. */
static CUresult library_module(CUmodule *out, CUlibrary lib, CUcontext ctx) {
  if (!lib->text)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  for (CUmodule m = ctx->modules; m; m = m->next)
    if (m->library == lib) {
      *out = m;
      return CUDA_SUCCESS;
    }
  char err[1024] = "";
  CUresult r = module_new(out, ctx, lib->text, lib, err, sizeof err);
  if (r) {
    complain("library: %s", err);
    return r;
  }
  for (uint32_t i = 0; i < (*out)->nfn; i++) {
    struct CUfunc_st *f = &(*out)->fn[i];
    f->kernel = &lib->kernel[i]; /* the same entries in the same order */
    f->max_dynamic = f->kernel->set[ctx->ordinal].max_dynamic;
    f->carveout = f->kernel->set[ctx->ordinal].carveout;
    f->non_portable = f->kernel->set[ctx->ordinal].non_portable;
    f->scheduling = f->kernel->set[ctx->ordinal].scheduling;
  }
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetModule(CUmodule *out, CUlibrary lib) {
  API(ENTER_context);
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(lib, HANDLE_library))
    return CUDA_ERROR_INVALID_HANDLE;
  return library_module(out, lib, guard.ctx);
}

CUresult cuLibraryGetKernel(CUkernel *out, CUlibrary lib, const char *name) {
  API(ENTER_init);
  if (!out || !name)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(lib, HANDLE_library))
    return CUDA_ERROR_INVALID_HANDLE;
  if (!lib->text)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  /* Here is where a target that fits no device shows, as for machine code. */
  bool runs = false;
  for (uint32_t d = 0; d < driver.m->ndev; d++)
    runs |= target_runs(lib->ptx->target, &driver.m->dev[d]);
  if (!runs)
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  for (uint32_t i = 0; i < lib->nkernel; i++)
    if (!strcmp(lib->kernel[i].name, name)) {
      *out = &lib->kernel[i];
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuLibraryGetKernelCount(unsigned int *count, CUlibrary lib) {
  API(ENTER_init);
  if (!count)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(lib, HANDLE_library))
    return CUDA_ERROR_INVALID_HANDLE;
  *count = lib->nkernel;
  return CUDA_SUCCESS;
}

CUresult cuLibraryEnumerateKernels(CUkernel *kernels, unsigned int n, CUlibrary lib) {
  API(ENTER_init);
  if (!kernels || !n)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(lib, HANDLE_library))
    return CUDA_ERROR_INVALID_HANDLE;
  for (uint32_t i = 0; i < n && i < lib->nkernel; i++)
    kernels[i] = &lib->kernel[i];
  return CUDA_SUCCESS;
}

CUresult cuLibraryGetGlobal(CUdeviceptr *address, size_t *size, CUlibrary lib, const char *name) {
  API(ENTER_context);
  if (!handle_is(lib, HANDLE_library))
    return CUDA_ERROR_INVALID_HANDLE;
  CUmodule m;
  CUresult r = library_module(&m, lib, guard.ctx);
  return r ? r : module_global(address, size, m, name);
}

CUresult cuKernelGetLibrary(CUlibrary *out, CUkernel k) {
  API(ENTER_init);
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(k, HANDLE_kernel))
    return CUDA_ERROR_INVALID_HANDLE;
  *out = k->library;
  return CUDA_SUCCESS;
}

static CUresult kernel_function(CUfunction *out, CUkernel k, CUcontext ctx) {
  CUmodule m;
  CUresult r = library_module(&m, k->library, ctx);
  if (!r)
    *out = &m->fn[k->index];
  return r;
}

CUresult cuKernelGetFunction(CUfunction *out, CUkernel k) {
  API(ENTER_context);
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(k, HANDLE_kernel))
    return CUDA_ERROR_INVALID_HANDLE;
  return kernel_function(out, k, guard.ctx);
}

CUfunction function_resolve(CUfunction f, CUcontext ctx, CUresult *r) {
  if (handle_is(f, HANDLE_function))
    return f;
  *r = CUDA_ERROR_INVALID_HANDLE;
  if (!handle_is(f, HANDLE_kernel))
    return NULL;
  if (!ctx) {
    *r = CUDA_ERROR_INVALID_CONTEXT;
    return NULL;
  }
  CUfunction out = NULL;
  *r = kernel_function(&out, (CUkernel)f, ctx);
  return *r ? NULL : out;
}
