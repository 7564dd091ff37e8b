/* SPDX-License-Identifier: Apache-2.0
 *
 * The tests' table of driver calls; see driver.h.
 */
#include "harness/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static char problem[PATH_MAX + 256];

/* <folder of the build>/emu/libcuda.so.1, for a program in a folder of the build. */
static bool emulated_path(char path[PATH_MAX]) {
  const char *set = getenv("BAREWARP_EMU");
  if (set != NULL && *set != '\0')
    return realpath(set, path) != NULL;
  char self[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 32);
  if (n <= 0)
    return false;
  self[n] = '\0';
  char *slash = strrchr(self, '/');
  if (slash == NULL)
    return false;
  strcpy(slash, "/../emu/libcuda.so.1");
  return realpath(self, path) != NULL;
}

const char *bwt_driver_open(const char *which, struct bwt_driver *driver) {
  memset(driver, 0, sizeof *driver);
  if (which == NULL)
    which = getenv("BW_TEST_DRIVER");
  if (which == NULL || *which == '\0')
    which = "emu";
  const char *file = driver->path;
  if (strcmp(which, "cuda") == 0) {
    strcpy(driver->path, "cuda");
    file = "libcuda.so.1";
  } else if (strcmp(which, "emu") == 0) {
    if (!emulated_path(driver->path))
      return "no emulated driver: neither at BAREWARP_EMU nor in the build";
  } else if (realpath(which, driver->path) == NULL) {
    snprintf(problem, sizeof problem, "no driver library at %s", which);
    return problem;
  }

  driver->library = dlopen(file, RTLD_NOW | RTLD_LOCAL);
  if (driver->library == NULL) {
    snprintf(problem, sizeof problem, "%s", dlerror());
    return problem;
  }
  driver->emulated = dlsym(driver->library, "barewarp_emulated_driver") != NULL;
#define X(name, symbol)                                                                            \
  driver->name = (__typeof__(driver->name))dlsym(driver->library, #symbol);                        \
  if (driver->name == NULL) {                                                                      \
    snprintf(problem, sizeof problem, "%s lacks " #symbol, file);                                  \
    return problem;                                                                                \
  }
  BWT_DRIVER_CALLS(X)
#undef X
  CUresult result = driver->Init(0);
  if (result != CUDA_SUCCESS) {
    snprintf(problem, sizeof problem, "cuInit of %s: %s", file, bwt_driver_error(driver, result));
    return problem;
  }
  return NULL;
}

void bwt_driver_close(struct bwt_driver *driver) {
  /* The library stays loaded: drivers keep threads and state that are not made to be
   * unloaded, and leak checkers lose sight of what they still hold. */
  driver->library = NULL;
}

const char *bwt_driver_error(const struct bwt_driver *driver, CUresult result) {
  const char *name = NULL;
  if (driver->GetErrorName(result, &name) != CUDA_SUCCESS || name == NULL)
    return "an unknown CUDA error";
  return name;
}
