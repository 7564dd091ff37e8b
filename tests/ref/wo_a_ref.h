/* SPDX-License-Identifier: Apache-2.0
 *
 * wo_a in C, on host memory: inverse RoPE, MXFP8 quantization and the grouped WO-A
 * projection with its MXFP8 output.  Two references:
 *
 *   model   what the hardware is published to compute, to the last bit: the tensor core
 *           as one aligned and truncated sum per instruction (25 fraction bits, after
 *           Microsoft's MMA-Sim, arXiv 2511.10909), chained over a head's 16 blocks,
 *           then the heads' partial sums in order.
 *   truth   the same operands summed in double: what the arithmetic means.
 *
 * Both start from the same quantized x (steps 1 and 2 are exact by definition).
 * Single-threaded; all functions may be called from any thread.
 */
#ifndef BW_REF_WO_A_H
#define BW_REF_WO_A_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REF_WO_A_HEAD   512u /* elements of a head */
#define REF_WO_A_PLAIN  448u /* of them not rotated */
#define REF_WO_A_BLOCK  32u  /* elements sharing one scale */
#define REF_WO_A_BLOCKS 16u  /* blocks of a head */

/* Operands.  T tokens, G groups, H heads per group, R rows per group; N = G*R,
 * K = H*512. */
struct ref_wo_a {
  uint32_t tokens, groups, heads, rank;
  uint64_t token_stride;        /* elements of x from one token to the next */
  const uint16_t *x;            /* bf16 [T, G*H, 512] */
  const int64_t *positions;     /* [T] */
  const float *rope;            /* [P, 64]: 32 cosines, 32 sines */
  const uint8_t *weight;        /* e4m3fn [N, K] */
  const uint32_t *weight_scale; /* 4 ue8m0 a word, [G, R, K/128], rows fastest */
};

/* Bytes of q and qs. */
size_t ref_wo_a_q_size(const struct ref_wo_a *c);
size_t ref_wo_a_qs_size(const struct ref_wo_a *c);
/* Where in qs the scale of (token, column) lies: F8_128x4 tiles of 512 bytes. */
size_t ref_wo_a_qs_offset(uint32_t token, uint32_t column);
/* Scale of weight row n for the 32 inputs [32*block, 32*block+32). */
uint8_t ref_wo_a_weight_scale(const struct ref_wo_a *c, uint32_t n, uint32_t block);

/* x after steps 1 and 2: codes [T, G*H, 512] and one ue8m0 per block [T, G*H, 16]. */
void ref_wo_a_quantize(const struct ref_wo_a *c, uint8_t *codes, uint8_t *scales);

/* One 32-wide step of the tensor core with block scales, by the model: products of
 * e4m3 codes a and b under the ue8m0 scales sa and sb, plus the f32 c. */
uint32_t ref_mma_mxf8_k32(const uint8_t a[32], const uint8_t b[32], uint8_t sa, uint8_t sb,
                          uint32_t c);

/* y [T, N] after step 4's rounding, as bf16 bits, by the model.  false: no memory. */
bool ref_wo_a_model_y(const struct ref_wo_a *c, uint16_t *y);
/* y [T, N] in double, not rounded; magnitude [T, N]: the sum of the |32-wide sums|
 * behind each, to which rounding errors are in proportion.  false: no memory. */
bool ref_wo_a_truth_y(const struct ref_wo_a *c, double *y, double *magnitude);

/* Step 5: q [T, N] and the whole of qs, rows t >= T included, from bf16 y [T, N]. */
void ref_wo_a_quantize_y(const struct ref_wo_a *c, const uint16_t *y, uint8_t *q, uint8_t *qs);

/* All of it by the model; q and qs of the sizes above.  false: no memory. */
bool ref_wo_a_model(const struct ref_wo_a *c, uint8_t *q, uint8_t *qs);

/* ---- dispatch -------------------------------------------------------------- */

struct ref_wo_a_key {
  uint32_t tile, tiles, full;
};
struct ref_wo_a_key ref_wo_a_dispatch(uint32_t tokens); /* 1..128 */
/* The keys of 1..max_tokens in order of first use; keys has room for max_tokens. */
size_t ref_wo_a_keys(uint32_t max_tokens, struct ref_wo_a_key *keys);

#endif
