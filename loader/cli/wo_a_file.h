/* SPDX-License-Identifier: Apache-2.0
 *
 * The operands of wo_a as tensors of a file, checked.
 *
 *   x             BF16     [T, G*H, 512]
 *   positions     I64      [T]
 *   rope          F32      [P, 64]      32 cosines, 32 sines
 *   weight        F8_E4M3  [G*R, H*512]
 *   weight_scale  I32      [G, K/128, R]  four ue8m0 a word, as the kernel reads them: the
 *                                         dense form of shape [G, R, K/128] with strides
 *                                         (R*K/128, 1, R)
 *            or   U8, F8_E8M0  [G*R, K/32]  one ue8m0 for 32 columns, as checkpoints have it
 *
 * The shapes give T, G, H and R.
 */
#ifndef BW_CLI_WO_A_FILE_H
#define BW_CLI_WO_A_FILE_H

#include "barewarp.h"
#include "cli/safetensors.h"
#include "ref/wo_a_ref.h"

typedef struct wo_a_file {
  st_file *file;
  bw_wo_a_shape shape; /* max_tokens = T */
  uint32_t tokens;
  uint32_t rope_rows;
  const st_tensor *x, *positions, *rope, *weight, *weight_scale;
  uint32_t *packed_scales; /* owned: weight_scale as the kernel reads it */
  struct ref_wo_a ref;     /* the same operands, for the reference; x etc. are owned copies */
  void *aligned[4];
} wo_a_file;

/* Opens and checks path; false after a message on stderr that names the tensor. */
bool wo_a_file_open(wo_a_file *f, const char *command, const char *path);
void wo_a_file_close(wo_a_file *f);

#endif
