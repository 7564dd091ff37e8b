/* SPDX-License-Identifier: Apache-2.0
 *
 * Choosing a driver library and filling its table.
 *
 * A driver library stays loaded once it was opened, and so does its table: drivers
 * start threads and leave exit handlers behind, and unloading one under them ends in
 * a crash.  The list of tables, guarded by a lock that no launch takes, is the only
 * mutable state of the library that is not in an object.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* dladdr */
#endif
#include "driver.h"
#include "error.h"

#include <dlfcn.h>
#include <limits.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char SYSTEM_LIBRARY[] = "libcuda.so.1";
static const char EMULATED_LIBRARY[] = "../emu/libcuda.so.1"; /* from our own folder */
/* Exported by the emulated driver alone: its version in words. */
static const char EMULATED_SYMBOL[] = "barewarp_emulated_driver";

typedef struct table {
  bwi_driver driver;
  char *path; /* as given to dlopen */
  void *library;
  struct table *next;
} table;

static pthread_mutex_t tables_lock = PTHREAD_MUTEX_INITIALIZER;
static table *tables;

/* ---- errors ---------------------------------------------------------------------- */

bw_status bwi_driver_check(const bwi_driver *driver, CUresult result, const char *call) {
  if (result == CUDA_SUCCESS)
    return BW_OK;
  const char *name = NULL, *text = NULL;
  if (driver->cuGetErrorName(result, &name) != CUDA_SUCCESS || !name)
    name = "unknown error";
  if (driver->cuGetErrorString(result, &text) != CUDA_SUCCESS || !text)
    text = "no description";
  return bwi_fail_cu(BW_ERROR_DRIVER, (int)result, "%s: %s (%d): %s", call, name, (int)result,
                     text);
}

/* ---- filling a table ----------------------------------------------------------------- */

/* The type of cuGetProcAddress since 12.0, under which name drivers export it. */
typedef CUresult (*get_address)(const char *, void **, int, cuuint64_t,
                                CUdriverProcAddressQueryResult *);

/* A function pointer from dlsym: ISO C has no conversion, POSIX promises the bits. */
static get_address find_get_address(void *library) {
  void *symbol = dlsym(library, "cuGetProcAddress_v2");
  get_address function = NULL;
  memcpy(&function, &symbol, sizeof function);
  return function;
}

static bool look_up(get_address get, const char *name, int version, void *member) {
  void *address = NULL;
  CUdriverProcAddressQueryResult found = CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND;
  if (get(name, &address, version, CU_GET_PROC_ADDRESS_DEFAULT, &found) != CUDA_SUCCESS ||
      found != CU_GET_PROC_ADDRESS_SUCCESS)
    address = NULL;
  memcpy(member, &address, sizeof address);
  return address != NULL;
}

static bw_status fill(bwi_driver *driver, void *library, const char *path) {
  get_address get = find_get_address(library);
  if (!get)
    return bwi_fail(BW_ERROR_NO_DRIVER,
                    "%s has no cuGetProcAddress_v2: not a CUDA driver, or older than 12.0", path);
#define BWI_LOOK_UP(function, since, needed)                                                       \
  if (!look_up(get, #function, since, &driver->function) && (needed))                              \
    return bwi_fail(BW_ERROR_NO_DRIVER,                                                            \
                    "the driver %s has no %s (of CUDA %d.%d): at least 12.4 is needed", path,      \
                    #function, (since) / 1000, (since) % 1000 / 10);
  BWI_DRIVER_FUNCTIONS(BWI_LOOK_UP)
#undef BWI_LOOK_UP
  driver->emulated = dlsym(library, EMULATED_SYMBOL) != NULL;
  return BWI_CALL(driver, cuDriverGetVersion, (&driver->version));
}

/* ---- the list of tables ------------------------------------------------------------------ */

static table *find_table(const char *path) {
  for (table *t = tables; t; t = t->next)
    if (strcmp(t->path, path) == 0)
      return t;
  return NULL;
}

static bool opened_by_other_path(const void *library, const char *path) {
  for (const table *t = tables; t; t = t->next)
    if (t->library == library && strcmp(t->path, path) != 0)
      return true;
  return false;
}

/* dlopen("libcuda.so.1") is answered with an emulated driver that is already loaded,
 * for it goes by the same name.  The system's is then only found by a path. */
static void *open_system_beside_emulated(void) {
  static const char *const folders[] = {"/usr/lib/x86_64-linux-gnu", "/usr/lib/aarch64-linux-gnu",
                                        "/usr/lib64", "/usr/lib", "/usr/lib/wsl/lib"};
  for (size_t i = 0; i < sizeof folders / sizeof *folders; i++) {
    char path[64];
    (void)snprintf(path, sizeof path, "%s/%s", folders[i], SYSTEM_LIBRARY);
    void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (library)
      return library;
  }
  return NULL;
}

static void *open_library(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (library && strcmp(path, SYSTEM_LIBRARY) == 0 && opened_by_other_path(library, path)) {
    (void)dlclose(library); /* the other table keeps it loaded */
    library = open_system_beside_emulated();
  }
  return library;
}

static bw_status add_table(const char *path, table **out) {
  void *library = open_library(path);
  if (!library) {
    const char *reason = dlerror();
    return bwi_fail(BW_ERROR_NO_DRIVER, "cannot open the driver %s: %s", path,
                    reason ? reason : "not in the system's folders");
  }
  table *t = calloc(1, sizeof *t);
  char *copy = strdup(path);
  bw_status status = BW_OK;
  if (!t || !copy)
    status = bwi_fail_memory("the driver's table");
  else
    status = fill(&t->driver, library, path);
  if (status != BW_OK) {
    free(t);
    free(copy);
    (void)dlclose(library); /* nothing of it ever ran */
    return status;
  }
  t->path = copy;
  t->library = library;
  t->next = tables;
  tables = t;
  *out = t;
  return BW_OK;
}

static bw_status get_table(const char *path, table **out) {
  bw_status status = BW_OK;
  (void)pthread_mutex_lock(&tables_lock);
  *out = find_table(path);
  if (!*out)
    status = add_table(path, out);
  (void)pthread_mutex_unlock(&tables_lock);
  return status;
}

/* ---- choosing ---------------------------------------------------------------------------- */

/* The emulated driver next to the file `self`: folder(self)/../emu/libcuda.so.1. */
static bool emulated_beside(const char *self, char *path, size_t size) {
  const char *slash = strrchr(self, '/');
  if (!slash)
    return false;
  int n = snprintf(path, size, "%.*s/%s", (int)(slash - self), self, EMULATED_LIBRARY);
  return n > 0 && (size_t)n < size && access(path, R_OK) == 0;
}

/* Beside the library (which may be linked into the program), else the program. */
static bw_status find_emulated(char *path, size_t size) {
  const char *set = getenv("BAREWARP_EMU");
  if (set && *set) {
    int n = snprintf(path, size, "%s", set);
    return n > 0 && (size_t)n < size ? BW_OK
                                     : bwi_fail(BW_ERROR_NO_DRIVER, "BAREWARP_EMU is too long");
  }
  Dl_info info;
  if (dladdr(SYSTEM_LIBRARY, &info) != 0 && info.dli_fname &&
      emulated_beside(info.dli_fname, path, size))
    return BW_OK;
  char program[PATH_MAX];
  ssize_t length = readlink("/proc/self/exe", program, sizeof program - 1);
  if (length > 0) {
    program[length] = '\0';
    if (emulated_beside(program, path, size))
      return BW_OK;
  }
  return bwi_fail(BW_ERROR_NO_DRIVER,
                  "no emulated driver: BAREWARP_EMU is not set, and there is no %s beside the "
                  "library or the program",
                  EMULATED_LIBRARY);
}

bw_status bwi_driver_open(const char **choice, const bwi_driver **out) {
  const char *wanted = *choice ? *choice : getenv("BAREWARP_DRIVER");
  if (!wanted || !*wanted)
    wanted = "cuda";
  char buffer[PATH_MAX + sizeof EMULATED_LIBRARY];
  const char *path = wanted;
  if (strcmp(wanted, "cuda") == 0) {
    path = SYSTEM_LIBRARY;
  } else if (strcmp(wanted, "emu") == 0) {
    bw_status status = find_emulated(buffer, sizeof buffer);
    if (status != BW_OK)
      return status;
    path = buffer;
  } else if (!strchr(wanted, '/')) {
    return bwi_fail(BW_ERROR_NO_DRIVER, "the driver is '%s', must be cuda, emu, or a path with a /",
                    wanted);
  }
  table *t;
  bw_status status = get_table(path, &t);
  if (status != BW_OK)
    return status;
  /* Again for every opening: it costs nothing, and a failure is not for ever. */
  CUresult result = t->driver.cuInit(0);
  if (result != CUDA_SUCCESS) {
    status = bwi_driver_check(&t->driver, result, "cuInit");
    return result == CUDA_ERROR_NO_DEVICE
               ? bwi_fail_cu(BW_ERROR_NO_DEVICE, (int)result, "the driver %s sees no device", path)
               : status;
  }
  *choice = wanted;
  *out = &t->driver;
  return BW_OK;
}
