/* SPDX-License-Identifier: Apache-2.0
 *
 * What the build's files say about a kernel, for the bundle's index: the expanded
 * PTX, the log of `ptxas -v`, the cubin.
 *
 * The PTX states its facts in comment lines of their own, each at most once:
 *
 *     // @barewarp family wo_a
 *     // @barewarp arch sm_100f
 *     // @barewarp key t28x2r_h8
 *     // @barewarp symbol bw_wo_a_t28x2r_h8
 *     // @barewarp threads 512
 *     // @barewarp cluster 8
 *     // @barewarp shared_dynamic 98304
 *     // @barewarp waits 1                executes griddepcontrol.wait
 *     // @barewarp attr.NAME VALUE        any number of them, decimal, 32 bits
 *
 * Text after the value is a remark.  What can be seen in the code itself (.entry,
 * .target, .reqntid, .reqnctapercluster, griddepcontrol.wait) must agree.
 */
#ifndef BW_LOADER_PTX_FACTS_H
#define BW_LOADER_PTX_FACTS_H

#include "bundle.h"

enum { BWI_MAX_ATTRIBUTES = 64 };

typedef struct bwi_ptx_facts {
  bw_kernel_info info; /* without what ptxas decides: registers, barriers, ... */
  uint32_t parameter_bytes;
  bwi_attribute attributes[BWI_MAX_ATTRIBUTES];
  size_t attribute_count;
  char *strings; /* what the names point into */
} bwi_ptx_facts;

/* Reads the facts of a PTX text; `path` is for messages.  On success the caller
 * releases with bwi_ptx_facts_free.  BW_ERROR_INVALID_ARGUMENT with path and line. */
bw_status bwi_ptx_facts_read(const char *path, const char *text, size_t size, bwi_ptx_facts *facts);
void bwi_ptx_facts_free(bwi_ptx_facts *facts);

/* Fills registers, barriers and shared_static from the log of `ptxas -v`, which must
 * be about info->symbol and info->arch and show neither stack nor spills. */
bw_status bwi_ptxas_log_read(const char *path, const char *text, bw_kernel_info *info);

/* Fills code_bytes from a cubin, which must hold info->symbol as its only function and
 * use no local memory. */
bw_status bwi_cubin_read(const char *path, const void *cubin, size_t size, bw_kernel_info *info);

#endif
