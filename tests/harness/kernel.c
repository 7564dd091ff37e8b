/* SPDX-License-Identifier: Apache-2.0
 *
 * Small PTX kernels of the tests' own; see kernel.h.
 */
#include "harness/kernel.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

bool bwt_build_file(const char *name, char path[PATH_MAX]) {
  char self[PATH_MAX];
  ssize_t n = readlink("/proc/self/exe", self, sizeof self - 1);
  if (n <= 0)
    return false;
  self[n] = '\0';
  /* <build>/tests/program, or <build>/asan/tests/program. */
  for (int up = 0; up < 3; up++) {
    char *slash = strrchr(self, '/');
    if (slash == NULL)
      return false;
    *slash = '\0';
    if (up > 0 && snprintf(path, PATH_MAX, "%s/%s", self, name) < PATH_MAX &&
        access(path, R_OK) == 0)
      return true;
  }
  return false;
}

char *bwt_read_text(const char *path) {
  FILE *file = fopen(path, "rb");
  if (file == NULL)
    return NULL;
  size_t size = 0, room = 1 << 16;
  char *text = malloc(room);
  while (text != NULL) {
    size += fread(text + size, 1, room - size - 1, file);
    if (size < room - 1)
      break;
    room *= 2;
    char *more = realloc(text, room);
    if (more == NULL)
      free(text);
    text = more;
  }
  fclose(file);
  if (text != NULL)
    text[size] = '\0';
  return text;
}

bool bwt_kernel_open(struct bwt_kernel *k, const struct bwt_session *s, const char *name,
                     struct bwt_text *why) {
  memset(k, 0, sizeof *k);
  k->driver = &s->driver;
  const char *folder = getenv("BW_KERNELS");
  char path[PATH_MAX];
  snprintf(path, sizeof path, "%s/%s.ptx", folder != NULL ? folder : "tests/kernels", name);
  char *text = bwt_read_text(path);
  if (text == NULL) {
    bwt_say(why, "cannot read %s\n", path);
    return false;
  }
  CUresult result = k->driver->ModuleLoadData(&k->module, text);
  free(text);
  if (result == CUDA_SUCCESS) {
    result = k->driver->ModuleGetFunction(&k->function, k->module, name);
    if (result != CUDA_SUCCESS)
      k->driver->ModuleUnload(k->module);
  }
  if (result != CUDA_SUCCESS)
    bwt_say(why, "%s: %s\n", path, bwt_driver_error(k->driver, result));
  return result == CUDA_SUCCESS;
}

void bwt_kernel_close(struct bwt_kernel *k) {
  if (k->module != NULL)
    k->driver->ModuleUnload(k->module);
  k->module = NULL;
}

CUresult bwt_kernel_launch(const struct bwt_kernel *k, unsigned blocks, unsigned threads,
                           CUstream stream, bool pdl, void **parameters) {
  CUlaunchAttribute attribute = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION};
  attribute.value.programmaticStreamSerializationAllowed = 1;
  CUlaunchConfig config = {.gridDimX = blocks,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = threads,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .hStream = stream,
                           .attrs = &attribute,
                           .numAttrs = pdl};
  return k->driver->LaunchKernelEx(&config, k->function, parameters, NULL);
}
