/* SPDX-License-Identifier: Apache-2.0
 *
 * Modules: PTX text, loaded into a context.  A binary is what a real driver calls one
 * without code for the device.
 */
#include "module.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- may this PTX run on the device? -------------------------------------------------- */

/* sm_XX runs on XX and everything later, sm_XXa on XX alone, sm_XXf on the family of XX:
 * the same major version, XX or later. */
bool target_runs(const char *target, const struct device *d) {
  if (strncmp(target, "sm_", 3) != 0)
    return false;
  char *end;
  long number = strtol(target + 3, &end, 10);
  int major = (int)(number / 10), minor = (int)(number % 10);
  bool later = d->cc_major > major || (d->cc_major == major && d->cc_minor >= minor);
  switch (*end) {
  case 0:
    return later;
  case 'a':
    return d->cc_major == major && d->cc_minor == minor;
  case 'f':
    return later && d->cc_major == major;
  default:
    return false;
  }
}

/* ELF, and the two magic numbers of fat binaries. */
enum image image_kind(const void *image) {
  const unsigned char *p = image;
  const char *text = image; /* which may be shorter than a magic number */
  if (!strncmp(text, "\x7f\x45LF", 4) || !strncmp(text, "\x50\xed\x55\xba", 4) ||
      !strncmp(text, "\xb1\x43\x62\x46", 4))
    return IMAGE_binary;
  for (int i = 0; i < 4 && p[i]; i++)
    if (!isspace(p[i]) && (p[i] < 32 || p[i] > 126))
      return IMAGE_unknown;
  return IMAGE_ptx;
}

/* ---- just-in-time options ----------------------------------------------------------------- */

CUresult jit_options(struct jit_log *error, struct jit_log *info, unsigned n,
                     const CUjit_option *option, void **value) {
  *error = *info = (struct jit_log){NULL, 0, NULL};
  if (n && (!option || !value))
    return CUDA_ERROR_INVALID_VALUE;
  for (unsigned i = 0; i < n; i++)
    switch (option[i]) {
    case CU_JIT_ERROR_LOG_BUFFER:
      error->buffer = value[i];
      break;
    case CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES:
      error->size = (size_t)(uintptr_t)value[i] & 0xffffffff;
      error->used = &value[i];
      break;
    case CU_JIT_INFO_LOG_BUFFER:
      info->buffer = value[i];
      break;
    case CU_JIT_INFO_LOG_BUFFER_SIZE_BYTES:
      info->size = (size_t)(uintptr_t)value[i] & 0xffffffff;
      info->used = &value[i];
      break;
    case CU_JIT_WALL_TIME:
      value[i] = NULL; /* a float in the low bits: 0 ms */
      break;
    default:
      if ((unsigned)option[i] >= CU_JIT_NUM_OPTIONS)
        return CUDA_ERROR_INVALID_VALUE;
      break; /* about machine code, of which there is none */
    }
  return CUDA_SUCCESS;
}

void jit_write(const struct jit_log *log, const char *text) {
  size_t n = 0;
  if (log->buffer && log->size) {
    n = strlen(text);
    n = n < log->size ? n : log->size - 1;
    memcpy(log->buffer, text, n);
    log->buffer[n] = 0;
  }
  if (log->used)
    *log->used = (void *)(uintptr_t)n;
}

/* ---- modules ----------------------------------------------------------------------------- */

/* Unloaded modules are never given back: the machine may still name their instructions in
 * a report, and a graph that outlived them their functions. */
static struct CUmod_st *unloaded;

/* Parses, and checks the target for the device (NULL: any). */
CUresult module_parse(struct module **out, const char *text, const struct device *d, char *err,
                      size_t err_size) {
  struct module *ptx = ptx_load(text, strlen(text), err, err_size);
  if (!ptx)
    return strstr(err, PTX_UNSUPPORTED_VERSION) ? CUDA_ERROR_UNSUPPORTED_PTX_VERSION
                                                : CUDA_ERROR_INVALID_PTX;
  if (d && !target_runs(ptx->target, d)) {
    snprintf(err, err_size, ".target %s does not run on a device of compute capability %d.%d",
             ptx->target, d->cc_major, d->cc_minor);
    ptx_free(ptx);
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  }
  *out = ptx;
  return CUDA_SUCCESS;
}

static CUresult place(struct CUmod_st *m) {
  struct module *ptx = m->ptx;
  if (!ptx->nvar)
    return CUDA_SUCCESS;
  m->var = calloc(ptx->nvar, sizeof(struct mem *));
  if (!m->var)
    return CUDA_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; i < ptx->nvar; i++) {
    char what[96];
    snprintf(what, sizeof what, "variable %s", ptx->var[i].name);
    struct memory *at =
        memory_alloc(m->ctx, ptx->var[i].size ? ptx->var[i].size : 1, MEMORY_module, what);
    if (!at)
      return CUDA_ERROR_OUT_OF_MEMORY;
    m->var[i] = at->mem;
    at->mem->constant = ptx->var[i].space == SPACE_const;
    ptx->var[i].address = at->mem->base;
  }
  ptx_place(ptx);
  struct access a = host_access(m->ctx);
  for (uint32_t i = 0; i < ptx->nvar; i++) {
    const struct module_var *v = &ptx->var[i];
    static const uint8_t zero[4096];
    for (uint64_t done = 0; done < v->size; done += sizeof zero) {
      uint64_t n = v->size - done < sizeof zero ? v->size - done : sizeof zero;
      mem_store(&a, SPACE_global, v->address + done, (uint32_t)n, 1,
                v->init ? v->init + done : zero, NULL);
    }
  }
  return CUDA_SUCCESS;
}

CUresult module_new(CUmodule *out, CUcontext ctx, const char *text, struct CUlib_st *lib, char *err,
                    size_t err_size) {
  struct CUmod_st *m = calloc(1, sizeof *m);
  if (!m)
    return CUDA_ERROR_OUT_OF_MEMORY;
  m->ctx = ctx;
  m->library = lib;
  m->next = ctx->modules;
  ctx->modules = m;
  handle_add(m, HANDLE_module);
  CUresult r = module_parse(&m->ptx, text, device_of(ctx), err, err_size);
  if (!r)
    r = place(m);
  if (!r) {
    m->fn = calloc(m->ptx->nfn + 1, sizeof *m->fn);
    r = m->fn ? CUDA_SUCCESS : CUDA_ERROR_OUT_OF_MEMORY;
  }
  for (uint32_t i = 0; !r && i < m->ptx->nfn; i++) {
    if (!m->ptx->fn[i].entry)
      continue;
    struct CUfunc_st *f = &m->fn[m->nfn++];
    f->module = m;
    f->fn = &m->ptx->fn[i];
    f->carveout = -1;
    handle_add(f, HANDLE_function);
  }
  if (r) {
    module_free(m);
    return r;
  }
  *out = m;
  return CUDA_SUCCESS;
}

void module_free(CUmodule m) {
  for (struct CUmod_st **p = &m->ctx->modules; *p; p = &(*p)->next)
    if (*p == m) {
      *p = m->next;
      break;
    }
  for (uint32_t i = 0; m->var && i < m->ptx->nvar; i++) {
    struct memory *at = m->var[i] ? memory_find(m->var[i]->base) : NULL;
    if (at)
      memory_free(at);
  }
  for (uint32_t i = 0; i < m->nfn; i++)
    handle_remove(&m->fn[i]);
  handle_remove(m);
  free(m->var);
  m->var = NULL;
  if (!m->ptx) {
    free(m->fn);
    free(m);
    return;
  }
  m->next = unloaded;
  unloaded = m;
}

static CUresult load(CUmodule *out, CUcontext ctx, const void *image, unsigned n,
                     CUjit_option *option, void **value) {
  struct jit_log error, info;
  char err[1024] = "";
  if (!out || !image)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult r = jit_options(&error, &info, n, option, value);
  if (r)
    return r;
  switch (image_kind(image)) {
  case IMAGE_binary:
    return CUDA_ERROR_NO_BINARY_FOR_GPU;
  case IMAGE_unknown:
    return CUDA_ERROR_INVALID_IMAGE;
  case IMAGE_ptx:
    break;
  }
  r = module_new(out, ctx, image, NULL, err, sizeof err);
  if (r && *err && !error.buffer)
    complain("module: %s", err);
  jit_write(&error, err);
  jit_write(&info, "");
  return r;
}

CUresult cuModuleLoadData(CUmodule *out, const void *image) {
  API(ENTER_unsafe);
  return load(out, guard.ctx, image, 0, NULL, NULL);
}

CUresult cuModuleLoadDataEx(CUmodule *out, const void *image, unsigned int n, CUjit_option *option,
                            void **value) {
  API(ENTER_unsafe);
  return load(out, guard.ctx, image, n, option, value);
}

CUresult cuModuleLoadFatBinary(CUmodule *out, const void *image) {
  API(ENTER_unsafe);
  return load(out, guard.ctx, image, 0, NULL, NULL);
}

/* The file as a string; its own NULs are kept, one more follows. */
CUresult image_read(char **out, const char *name) {
  if (!name)
    return CUDA_ERROR_INVALID_VALUE;
  FILE *f = fopen(name, "rb");
  if (!f)
    return CUDA_ERROR_FILE_NOT_FOUND;
  char *text = NULL;
  size_t n = 0, room = 0;
  for (;;) {
    if (room - n < 65536) {
      room = room ? room * 2 : 1 << 17;
      char *more = realloc(text, room);
      if (!more)
        break;
      text = more;
    }
    size_t got = fread(text + n, 1, room - n - 8, f);
    n += got;
    if (!got) {
      memset(text + n, 0, 8);
      bool bad = ferror(f) != 0;
      fclose(f);
      if (bad) {
        free(text);
        return CUDA_ERROR_OPERATING_SYSTEM;
      }
      *out = text;
      return CUDA_SUCCESS;
    }
  }
  fclose(f);
  free(text);
  return CUDA_ERROR_OUT_OF_MEMORY;
}

CUresult cuModuleLoad(CUmodule *out, const char *name) {
  API(ENTER_unsafe);
  char *text = NULL;
  CUresult r = image_read(&text, name);
  if (!r)
    r = load(out, guard.ctx, text, 0, NULL, NULL);
  free(text);
  return r;
}

CUresult cuModuleUnload(CUmodule m) {
  API(ENTER_unsafe);
  if (!handle_is(m, HANDLE_module) || m->library)
    return CUDA_ERROR_INVALID_HANDLE;
  CUresult r = context_sync(m->ctx); /* a kernel of it may run */
  if (r)
    return r;
  module_free(m);
  return CUDA_SUCCESS;
}

CUresult cuModuleGetLoadingMode(CUmoduleLoadingMode *mode) {
  API(ENTER_init);
  if (!mode)
    return CUDA_ERROR_INVALID_VALUE;
  *mode = CU_MODULE_EAGER_LOADING;
  return CUDA_SUCCESS;
}

CUresult cuModuleGetFunction(CUfunction *out, CUmodule m, const char *name) {
  API(ENTER_context);
  if (!out || !name || !*name)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(m, HANDLE_module))
    return CUDA_ERROR_INVALID_HANDLE;
  for (uint32_t i = 0; i < m->nfn; i++)
    if (!strcmp(m->fn[i].fn->name, name)) {
      *out = &m->fn[i];
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetFunctionCount(unsigned int *count, CUmodule m) {
  API(ENTER_context);
  if (!count)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(m, HANDLE_module))
    return CUDA_ERROR_INVALID_HANDLE;
  *count = m->nfn;
  return CUDA_SUCCESS;
}

CUresult cuModuleEnumerateFunctions(CUfunction *functions, unsigned int n, CUmodule m) {
  API(ENTER_context);
  if (!functions || !n)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(m, HANDLE_module))
    return CUDA_ERROR_INVALID_HANDLE;
  for (uint32_t i = 0; i < n && i < m->nfn; i++)
    functions[i] = &m->fn[i];
  return CUDA_SUCCESS;
}

CUresult module_global(CUdeviceptr *address, size_t *size, CUmodule m, const char *name) {
  if (!name)
    return CUDA_ERROR_INVALID_VALUE;
  for (uint32_t i = 0; i < m->ptx->nvar; i++)
    if (!strcmp(m->ptx->var[i].name, name)) {
      if (address)
        *address = m->ptx->var[i].address;
      if (size)
        *size = m->ptx->var[i].size;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_NOT_FOUND;
}

CUresult cuModuleGetGlobal(CUdeviceptr *address, size_t *size, CUmodule m, const char *name) {
  API(ENTER_context);
  if (!handle_is(m, HANDLE_module))
    return CUDA_ERROR_INVALID_HANDLE;
  return module_global(address, size, m, name);
}
