/* SPDX-License-Identifier: Apache-2.0
 *
 * Small PTX kernels of the tests' own (tests/kernels), loaded and launched directly.
 */
#ifndef BW_HARNESS_KERNEL_H
#define BW_HARNESS_KERNEL_H

#include "harness/session.h"

struct bwt_kernel {
  const struct bwt_driver *driver;
  CUmodule module;
  CUfunction function;
};

/* Loads entry `name` of tests/kernels/<name>.ptx, found under BW_KERNELS or, from the
 * repository's root, at its place. */
bool bwt_kernel_open(struct bwt_kernel *k, const struct bwt_session *s, const char *name,
                     struct bwt_text *why);
void bwt_kernel_close(struct bwt_kernel *k);

/* Launches with the programmatic-stream-serialization attribute if pdl. */
CUresult bwt_kernel_launch(const struct bwt_kernel *k, unsigned blocks, unsigned threads,
                           CUstream stream, bool pdl, void **parameters);

/* A file of the build that this program belongs to, "test.bundle"; false if none. */
bool bwt_build_file(const char *name, char path[PATH_MAX]);
/* A whole text file in fresh memory, with a NUL; NULL if it cannot be read. */
char *bwt_read_text(const char *path);

#endif
