/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading code; shared by modules and libraries.
 */
#ifndef EMU_DRIVER_MODULE_H
#define EMU_DRIVER_MODULE_H

#include "driver.h"

/* ---- images ---- */

enum image { IMAGE_ptx, IMAGE_binary, IMAGE_unknown };
enum image image_kind(const void *image);
/* The file as a string; its own NULs are kept, more follow.  Freed by the caller. */
CUresult image_read(char **out, const char *name);

/* May code for the target run on the device? */
bool target_runs(const char *target, const struct device *d);
/* Parses, and checks the target for the device (NULL: any). */
CUresult module_parse(struct module **out, const char *text, const struct device *d, char *err,
                      size_t err_size);
CUresult module_global(CUdeviceptr *address, size_t *size, CUmodule m, const char *name);

/* ---- just-in-time options ---- */

struct jit_log {
  char *buffer;
  size_t size;
  void **used; /* where the number of bytes written goes, or NULL */
};
CUresult jit_options(struct jit_log *error, struct jit_log *info, unsigned n,
                     const CUjit_option *option, void **value);
void jit_write(const struct jit_log *log, const char *text);

#endif
