/* SPDX-License-Identifier: Apache-2.0
 *
 * What the files of up_proj share.
 */
#ifndef BW_LOADER_UP_PROJ_H
#define BW_LOADER_UP_PROJ_H

#include "barewarp.h"

/* Largest latent_dim: a row's bytes are then 2^30, so that kernels' 32-bit sizes hold it. */
#define BWI_UP_PROJ_MAX_LATENT (1u << 29)

/* What the product's kernels want latent_dim to be a multiple of, for rows and shard. */
uint32_t bwi_up_proj_k_tile(uint32_t rows, uint32_t shard);

#endif
