/* SPDX-License-Identifier: Apache-2.0
 *
 * Names: errors in words, and finding functions by name and version.
 */
#include "driver.h"

#include <string.h>

static const struct {
  CUresult code;
  const char *name, *text;
} errors[] = {
#define ERROR(name, text) {name, #name, text},
#include "errors.def"
#undef ERROR
};

static int error_index(CUresult e) {
  for (unsigned i = 0; i < sizeof errors / sizeof *errors; i++)
    if (errors[i].code == e)
      return (int)i;
  return -1;
}

/* These two take no lock: they are called from anywhere, error handlers included. */
CUresult cuGetErrorName(CUresult error, const char **out) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  int i = error_index(error);
  *out = i < 0 ? NULL : errors[i].name;
  return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

CUresult cuGetErrorString(CUresult error, const char **out) {
  if (!out)
    return CUDA_ERROR_INVALID_VALUE;
  int i = error_index(error);
  *out = i < 0 ? NULL : errors[i].text;
  return i < 0 ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS;
}

/* ---- functions ------------------------------------------------------------------------------ */

typedef void (*any_function)(void);
struct entry {
  const char *symbol, *base; /* exported name, and the name to ask by */
  int version;               /* CUDA version that brought it */
  int per_thread;            /* its streams 0 are per-thread ones */
  any_function fn;
};
extern const struct entry api_table[]; /* stubs.c */

static CUresult find(const char *name, void **out, int version, cuuint64_t flags,
                     CUdriverProcAddressQueryResult *status) {
  if (!name || !out || !*name)
    return CUDA_ERROR_INVALID_VALUE;
  *out = NULL;
  bool want = (flags & CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM) != 0, known = false;
  const struct entry *best = NULL;
  for (const struct entry *e = api_table; e->symbol; e++) {
    if (strcmp(e->base, name) != 0)
      continue;
    known = true;
    if (e->version > version || (e->per_thread && !want))
      continue;
    if (!best || e->per_thread > best->per_thread ||
        (e->per_thread == best->per_thread && e->version > best->version))
      best = e;
  }
  if (status)
    *status = best    ? CU_GET_PROC_ADDRESS_SUCCESS
              : known ? CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT
                      : CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (!best)
    return status ? CUDA_SUCCESS : CUDA_ERROR_NOT_FOUND;
  memcpy(out, &best->fn, sizeof best->fn);
  return CUDA_SUCCESS;
}

CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags,
                          CUdriverProcAddressQueryResult *status) {
  return find(name, out, version, flags, status);
}

#undef cuGetProcAddress
CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags);
CUresult cuGetProcAddress(const char *name, void **out, int version, cuuint64_t flags) {
  return find(name, out, version, flags, NULL);
}

/* The tables behind this call are undocumented; none is known here. */
CUresult cuGetExportTable(const void **table, const CUuuid *id) {
  if (!table || !id)
    return CUDA_ERROR_INVALID_VALUE;
  *table = NULL;
  return CUDA_ERROR_NOT_FOUND;
}
