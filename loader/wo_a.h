/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of wo_a share.
 */
#ifndef BW_LOADER_WO_A_H
#define BW_LOADER_WO_A_H

#include "barewarp.h"

/* Most outputs N = G*R: qs then has 2^31 bytes, so that offsets into it fit the
 * kernels' 32-bit arithmetic.  (512-byte rows of that many weights are 256 GiB.) */
#define BWI_WO_A_MAX_OUTPUTS (1u << 29)

/* Ranges of groups, heads_per_group and lora_rank. */
bw_status bwi_wo_a_check_sizes(const bw_wo_a_shape *shape);
/* Those and max_tokens. */
bw_status bwi_wo_a_check_shape(const bw_wo_a_shape *shape);

#endif
