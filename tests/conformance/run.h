/* SPDX-License-Identifier: Apache-2.0
 *
 * Runs one conformance kernel on a driver, real or emulated.
 */
#ifndef BW_CONFORMANCE_RUN_H
#define BW_CONFORMANCE_RUN_H

#include <cuda.h>

#include "conformance/kernel_file.h"
#include "harness/driver.h"

/* What a buffer of results holds before the launch: eight of these bytes a word. */
#define RUN_POISON 0xcd
/* Bytes of the scratch buffer. */
#define RUN_SCRATCH (1u << 20)

struct device {
  struct bwt_driver driver;
  CUdevice device;
  CUcontext context;
  int sm; /* 90: compute capability 9.0 */
  __typeof__(cuTensorMapEncodeTiled) *encode;
  __typeof__(cuFuncSetAttribute) *set_attribute;
  __typeof__(cuMemsetD8) *fill;
  __typeof__(cuDeviceGetName) *name;
  __typeof__(cuModuleLoadDataEx) *load;
  int (*configure)(const char *key, const char *value); /* the emulated driver's, or NULL */
};

/* which: as bwt_driver_open.  NULL on success, else a static text. */
const char *device_open(const char *which, struct device *d);

struct outcome {
  uint64_t threads;
  uint64_t *in;       /* operand a of thread i: in[a * threads + i] */
  uint64_t *out;      /* result v of thread i: out[v * threads + i] */
  char problem[1024]; /* "" if it ran */
};

/* cubins: a folder with name.cubin, or NULL: the driver takes the PTX.
 * ctas: at most so many (0: all).  outcome_free in any case. */
void run_kernel(struct device *d, const struct kernel_file *k, const char *cubins, unsigned ctas,
                struct outcome *o);
void outcome_free(struct outcome *o);

#endif
