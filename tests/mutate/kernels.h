/* SPDX-License-Identifier: Apache-2.0
 *
 * The shipped kernels that are mutated, and bundles in which one of them is replaced.
 */
#ifndef BW_MUTATE_KERNELS_H
#define BW_MUTATE_KERNELS_H

#include "harness/rebundle.h"
#include "mutate/mutant.h"

enum bwm_family { BWM_WO_A, BWM_UP_PROJ, BWM_LAMPORT_COPY };

struct bwm_kernel {
  enum bwm_family family;
  const char *arch; /* "sm_100f" */
  char key[64];
  char name[96];          /* "wo_a/sm_100f/t7x1f_h8" */
  uint32_t tokens, heads; /* wo_a: T of its cases */
  bool loops;             /* wo_a: over n tiles, if the device has room for fewer clusters */
  uint32_t rows;          /* up_proj */
  char *ptx;
  struct bwm_mutant *mutants;
  size_t mutant_count;
};

struct bwm_bundles {
  bw_bundle *shipped, *test; /* what is embedded, build/test.bundle */
};

/* All of them, with their mutants; ends the program with a message if one is missing. */
size_t bwm_kernels(const struct bwm_bundles *from, struct bwm_kernel **out);

/* A bundle of what the kernel's cases load, with `ptx` in its place.  clusters: the most that a
 * kernel that loops over n tiles gets at once; 0: as many as fit.  false: *why. */
bool bwm_plant(const struct bwm_bundles *from, const struct bwm_kernel *k, const char *ptx,
               uint32_t clusters, struct bwt_rebundled *out, struct bwt_text *why);

/* Where a line of the kernel's PTX comes from, as "ptx/wo_a/x.ptx.m4:12"; false: unknown. */
bool bwm_template_line(const struct bwm_kernel *k, uint32_t line, char *place, size_t size);
/* The first part of it, "ptx/wo_a/x.ptx.m4". */
const char *bwm_template(const struct bwm_kernel *k);

#endif
