/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands for wo_a: random, but with every hard value of the formats in them.  A kind,
 * the sizes and a seed fix every byte.
 */
#ifndef BW_HARNESS_WO_A_INPUTS_H
#define BW_HARNESS_WO_A_INPUTS_H

#include "ref/wo_a_ref.h"

/* name, what it is for */
#define BWT_WO_A_KINDS(X)                                                                          \
  X(mixed, "normal values and outlier channels, among them blocks of all finite kinds")            \
  X(normal, "normal values and outlier channels only")                                             \
  X(zero, "x all zero, of both signs")                                                             \
  X(tiny, "results down to 5.7e-35 and below, bf16 denormals included")                            \
  X(huge, "values near the top of bf16")                                                           \
  X(overflow, "sums beyond f32")                                                                   \
  X(cancel, "heads 0 and 2 of a group cancel: the order of the heads' sum shows")                  \
  X(edges, "outputs on ties of e4m3 and largest values at and just above 448*2^k")                 \
  X(nan, "one NaN in x")                                                                           \
  X(inf, "one +Inf in x")                                                                          \
  X(minus_inf, "one -Inf in x")                                                                    \
  X(weight_nan, "one NaN in the weights")                                                          \
  X(scale_nan, "one NaN among the weight scales")                                                  \
  X(span_21, "scales of each token and row exactly 2^21 apart, the most that Hopper folds")        \
  X(span_22, "scales of each token 2^22 apart, of rows 2^21")                                      \
  X(row_span_22, "scales of one row in 64 2^22 apart, of the rest and of tokens 2^21")             \
  X(top_219, "largest scale of each token 2^92, the most that Hopper folds")                       \
  X(top_220, "largest scale of each token 2^93")                                                   \
  X(row_tops, "largest scale of a row 0, 7, 8 or 254, as bytes")

enum bwt_wo_a_kind {
#define X(name, text) BWT_WO_A_##name,
  BWT_WO_A_KINDS(X)
#undef X
      BWT_WO_A_KIND_COUNT
};
const char *bwt_wo_a_kind_name(enum bwt_wo_a_kind kind);
/* BWT_WO_A_KIND_COUNT if there is none of that name. */
enum bwt_wo_a_kind bwt_wo_a_kind_find(const char *name);

struct bwt_wo_a_inputs {
  struct ref_wo_a ref; /* points into the arrays below */
  uint16_t *x;
  int64_t *positions;
  float *rope;
  uint8_t *weight;
  uint32_t *weight_scale;
  size_t x_size, positions_size, rope_size, weight_size, weight_scale_size; /* bytes */
  uint32_t rope_rows;
  /* Where the odd one is, for the kinds that have one: token and group (nan, inf,
   * minus_inf), or row n of the weights. */
  uint32_t odd_token, odd_group, odd_row;
};

/* stride_extra: elements between the end of one token and the next, a multiple of 8;
 * they hold NaN.  false: no memory. */
bool bwt_wo_a_inputs_make(struct bwt_wo_a_inputs *in, enum bwt_wo_a_kind kind, uint32_t tokens,
                          uint32_t groups, uint32_t heads, uint32_t rank, uint64_t stride_extra,
                          uint64_t seed);
/* Fresh x and positions, the weights kept: the next step of the same layer. */
void bwt_wo_a_inputs_next_x(struct bwt_wo_a_inputs *in, enum bwt_wo_a_kind kind, uint64_t seed);
void bwt_wo_a_inputs_free(struct bwt_wo_a_inputs *in);

#endif
