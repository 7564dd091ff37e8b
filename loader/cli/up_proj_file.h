/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands of an up_proj step of all ranks as tensors of a file, checked.
 *
 *   latent  BF16  [M, L]       M = 1..8
 *   weight  BF16  [hidden, L]  the ranks' rows one after the other
 *   shared  BF16  [M, hidden]
 */
#ifndef BW_CLI_UP_PROJ_FILE_H
#define BW_CLI_UP_PROJ_FILE_H

#include "cli/safetensors.h"

typedef struct up_proj_file {
  st_file *file;
  uint32_t rows, latent_dim, hidden;
  uint16_t *latent, *weight, *shared; /* owned copies */
} up_proj_file;

/* Opens and checks path; false after a message on stderr that names the tensor. */
bool up_proj_file_open(up_proj_file *f, const char *command, const char *path);
void up_proj_file_close(up_proj_file *f);

/* This rank's slice [M, hidden / tp_size] of shared, its rows `stride` elements apart. */
void up_proj_file_shared(const up_proj_file *f, uint32_t tp_size, uint32_t rank, uint64_t stride,
                         uint16_t *slice);

#endif
