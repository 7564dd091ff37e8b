/* SPDX-License-Identifier: Apache-2.0
 *
 * up_proj in C, on host memory: M rows of S columns, out = bf16(bf16(latent . weight^T) +
 * shared), with +0 for -0.  Two references:
 *
 *   model   the additions in the kernels' documented order, so the same bits: thread i of
 *           a block of B takes elements (j*B + i)*V .. + V of k tile j, j rising; then the
 *           lanes of a warp by the butterfly 16, 8, 4, 2, 1; then the warps in order.
 *   truth   the products summed in double: what the arithmetic means.
 *
 * Single-threaded; all functions may be called from any thread.
 */
#ifndef BW_REF_UP_PROJ_H
#define BW_REF_UP_PROJ_H

#include <stdbool.h>
#include <stdint.h>

/* Operands, all bf16: M rows, L = latent_dim, S = shard. */
struct ref_up_proj {
  uint32_t rows, latent_dim, shard;
  uint64_t shared_stride; /* elements of shared from one row to the next */
  const uint16_t *latent; /* [M, L] */
  const uint16_t *weight; /* [S, L] */
  const uint16_t *shared; /* [M, S] */
};

/* What decides the order of additions. */
struct ref_up_proj_order {
  uint32_t block;  /* B, threads: a multiple of 32, at most 1024 */
  uint32_t vector; /* V, elements a thread takes at a time */
};
/* By rows and shard; latent_dim that is a multiple of 256 but not of what the model's sizes
 * take at a time goes to blocks of one warp. */
struct ref_up_proj_order ref_up_proj_order(uint32_t rows, uint32_t shard, uint32_t latent_dim);

/* One sum of L products in that order; L a multiple of block * vector. */
float ref_up_proj_sum(const float *a, const float *w, uint32_t latent_dim,
                      struct ref_up_proj_order order);
/* The result of one column from its sum: rounded, shared added, rounded. */
uint16_t ref_up_proj_finish(float sum, uint16_t shared);
/* The same without the rule that makes +0 of -0. */
uint16_t ref_up_proj_finish_raw(float sum, uint16_t shared);

/* out [M, S] by the model.  false: no memory. */
bool ref_up_proj_model(const struct ref_up_proj *c, uint16_t *out);

/* The sums [M, S] in double, before rounding and shared; magnitude [M, S]: the sums of the
 * absolute products, to which errors of f32 sums are in proportion.  false: no memory. */
bool ref_up_proj_truth(const struct ref_up_proj *c, double *sum, double *magnitude);

#endif
