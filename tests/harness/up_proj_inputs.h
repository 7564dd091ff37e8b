/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands for up_proj: random, but with the results that the mailbox is about in them.
 * A kind, the sizes and a seed fix every byte.
 *
 * In most kinds one pair of columns in four (a 32-bit word of the mailbox) is special: its
 * sums are about -2^-140, which is -0 in bf16, so that its results are its `shared`, to the
 * bit, and -0 before the rule where `shared` is -0.  Those are drawn from a list: -0 in the
 * low half, the high half and both; subnormals of both signs; words that differ from the
 * empty one (0x80000000) in a bit or two; NaN; infinities.
 */
#ifndef BW_HARNESS_UP_PROJ_INPUTS_H
#define BW_HARNESS_UP_PROJ_INPUTS_H

#include "ref/up_proj_ref.h"

#include <stddef.h>

/* name, what it is for */
#define BWT_UP_PROJ_KINDS(X)                                                                       \
  X(mixed, "normal values, outlier channels, special pairs")                                       \
  X(normal, "normal values and outlier channels only")                                             \
  X(cancel, "the second half of every sum cancels the first: only the order's rounding is left")   \
  X(tiny, "sums around the subnormals of bf16")                                                    \
  X(huge, "sums around the largest numbers and beyond")                                            \
  X(nan, "one NaN in latent")                                                                      \
  X(weight_nan, "one NaN in the weight")                                                           \
  X(inf, "one +Inf in latent")                                                                     \
  X(minus_inf, "one -Inf in latent")

enum bwt_up_proj_kind {
#define X(name, text) BWT_UP_PROJ_##name,
  BWT_UP_PROJ_KINDS(X)
#undef X
      BWT_UP_PROJ_KIND_COUNT
};
const char *bwt_up_proj_kind_name(enum bwt_up_proj_kind kind);
/* BWT_UP_PROJ_KIND_COUNT if there is none of that name. */
enum bwt_up_proj_kind bwt_up_proj_kind_find(const char *name);

struct bwt_up_proj_inputs {
  struct ref_up_proj ref; /* points into the arrays below */
  uint16_t *latent, *weight, *shared;
  size_t latent_size, weight_size, shared_size; /* bytes */
};

/* shared_stride: elements, at least shard; what lies between rows is NaN.  false: no memory. */
bool bwt_up_proj_inputs_make(struct bwt_up_proj_inputs *in, enum bwt_up_proj_kind kind,
                             uint32_t rows, uint32_t latent_dim, uint32_t shard,
                             uint64_t shared_stride, uint64_t seed);
void bwt_up_proj_inputs_free(struct bwt_up_proj_inputs *in);

/* Whether the results of this pair of columns are their `shared`. */
bool bwt_up_proj_special(uint64_t seed, enum bwt_up_proj_kind kind, uint32_t pair);

#endif
