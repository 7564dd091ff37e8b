/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands for up_proj; see up_proj_inputs.h.
 */
#include "harness/up_proj_inputs.h"

#include "harness/random.h"
#include "ref/formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { SPECIAL_ONE_IN = 4, OUTLIER_ONE_IN = 256, TINY_AT = 5 /* the k of special columns */ };

static const char *const kind_names[] = {
#define X(name, text) #name,
    BWT_UP_PROJ_KINDS(X)
#undef X
};

const char *bwt_up_proj_kind_name(enum bwt_up_proj_kind kind) {
  return kind_names[kind];
}

enum bwt_up_proj_kind bwt_up_proj_kind_find(const char *name) {
  unsigned kind = 0;
  while (kind < BWT_UP_PROJ_KIND_COUNT && strcmp(kind_names[kind], name) != 0)
    kind++;
  return (enum bwt_up_proj_kind)kind;
}

/* ---- special pairs --------------------------------------------------------------- */

bool bwt_up_proj_special(uint64_t seed, enum bwt_up_proj_kind kind, uint32_t pair) {
  return kind != BWT_UP_PROJ_normal && kind != BWT_UP_PROJ_cancel &&
         bwt_mix(seed ^ 0x5bec1a1, pair) % SPECIAL_ONE_IN == 0;
}

/* `shared` of the two columns. */
static const uint16_t special_words[][2] = {
    {0x8000, 0x8000}, /* -0 in both halves before the rule */
    {0x8000, 0x3f80}, /* in the low one */
    {0x3f80, 0x8000}, /* in the high one */
    {0x0000, 0x8000}, /* the empty word itself, but for the rule */
    {0x8000, 0x0000}, {0x8000, 0x8001}, {0x8001, 0x8000}, {0x0000, 0x0000},
    {0x0001, 0x8000}, /* the empty word and the lowest bit, before the rule */
    {0x0000, 0x8001}, {0x0000, 0x8002}, {0x0000, 0xc000}, {0x0000, 0x0001},
    {0x0001, 0x0000}, {0x0001, 0x8001}, {0x8001, 0x0001}, {0x8001, 0x8001},
    {0x007f, 0x807f}, {0x807f, 0x007f}, /* the largest subnormals */
    {0x0000, 0x8080}, {0x0080, 0x8080}, /* the smallest normal numbers */
    {0x8000, 0xff80}, {0x7f80, 0xff80}, {0xffc1, 0x8000}, {0x7fc1, 0x0000},
    {0x7f7f, 0xff7f},
};
enum { SPECIAL_WORDS = sizeof special_words / sizeof *special_words };

/* All weights but one are 0, and with it the sum is -2^-140. */
static void place_special_weights(struct bwt_up_proj_inputs *in, enum bwt_up_proj_kind kind,
                                  uint64_t seed) {
  size_t length = in->ref.latent_dim;
  for (uint32_t n = 0; n < in->ref.shard; n++) {
    if (!bwt_up_proj_special(seed, kind, n / 2))
      continue;
    uint16_t *row = in->weight + n * length;
    memset(row, 0, length * sizeof *row);
    row[TINY_AT] = ref_bf16_from_f32(-0x1p-70f);
  }
  for (uint32_t m = 0; m < in->ref.rows; m++)
    in->latent[m * length + TINY_AT] = ref_bf16_from_f32(0x1p-70f);
}

static void place_special_shared(struct bwt_up_proj_inputs *in, enum bwt_up_proj_kind kind,
                                 uint64_t seed) {
  for (uint32_t m = 0; m < in->ref.rows; m++)
    for (uint32_t n = 0; n < in->ref.shard; n++)
      if (bwt_up_proj_special(seed, kind, n / 2)) {
        size_t which = bwt_mix(seed, (uint64_t)m << 32 | n / 2) % SPECIAL_WORDS;
        in->shared[m * in->ref.shared_stride + n] = special_words[which][n % 2];
      }
}

/* ---- everything else --------------------------------------------------------------- */

static void fill_latent(struct bwt_up_proj_inputs *in, enum bwt_up_proj_kind kind, uint64_t seed) {
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(seed, 1));
  float scale = kind == BWT_UP_PROJ_tiny ? 0x1p-70f : kind == BWT_UP_PROJ_huge ? 0x1p61f : 1;
  size_t length = in->ref.latent_dim;
  for (uint32_t m = 0; m < in->ref.rows; m++)
    for (size_t k = 0; k < length; k++) {
      /* A few channels carry far larger values in every token, as in real activations. */
      float gain = bwt_mix(seed, k) % OUTLIER_ONE_IN == 0 ? 24 : 1;
      in->latent[m * length + k] = ref_bf16_from_f32((float)bwt_random_normal(&r) * scale * gain);
    }
}

static void fill_weight(struct bwt_up_proj_inputs *in, enum bwt_up_proj_kind kind, uint64_t seed) {
  enum { CODES = 4096 };
  struct bwt_random r;
  uint16_t codes[CODES]; /* a table: there are millions of weights */
  bwt_random_seed(&r, bwt_mix(seed, 2));
  float scale = kind == BWT_UP_PROJ_tiny ? 0x1p-62f : kind == BWT_UP_PROJ_huge ? 0x1p64f : 1;
  scale /= sqrtf((float)in->ref.latent_dim);
  for (int i = 0; i < CODES; i++)
    codes[i] = ref_bf16_from_f32((float)bwt_random_normal(&r) * scale);
  codes[0] = 0x8000;
  codes[1] = 0x0000;
  size_t count = in->weight_size / sizeof *in->weight;
  for (size_t i = 0; i < count; i += 4) {
    uint64_t word = bwt_random_u64(&r);
    for (size_t j = 0; j < 4 && i + j < count; j++, word >>= 12)
      in->weight[i + j] = codes[word % CODES];
  }
}

static void fill_shared(struct bwt_up_proj_inputs *in, enum bwt_up_proj_kind kind, uint64_t seed) {
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(seed, 3));
  memset(in->shared, 0xff, in->shared_size);
  for (uint32_t m = 0; m < in->ref.rows; m++)
    for (uint32_t n = 0; n < in->ref.shard; n++) {
      uint16_t value = ref_bf16_from_f32((float)bwt_random_normal(&r));
      if (kind == BWT_UP_PROJ_tiny) /* zeros and the smallest subnormals, both signs */
        value = (uint16_t)(bwt_random_below(&r, 2) << 15 | bwt_random_below(&r, 3));
      else if (kind == BWT_UP_PROJ_cancel)
        value = 0x8000;
      in->shared[m * in->ref.shared_stride + n] = value;
    }
}

/* Element L-1-k times its weight is the negative of element k times its own. */
static void mirror(struct bwt_up_proj_inputs *in) {
  size_t length = in->ref.latent_dim;
  for (uint32_t m = 0; m < in->ref.rows; m++)
    for (size_t k = 0; k < length / 2; k++)
      in->latent[(m + 1) * length - 1 - k] = in->latent[m * length + k] ^ 0x8000;
  for (uint32_t n = 0; n < in->ref.shard; n++)
    for (size_t k = 0; k < length / 2; k++)
      in->weight[(n + 1) * length - 1 - k] = in->weight[n * length + k];
}

static void place_odd_one(struct bwt_up_proj_inputs *in, enum bwt_up_proj_kind kind,
                          uint64_t seed) {
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(seed, 4));
  uint32_t k = bwt_random_below(&r, in->ref.latent_dim);
  size_t in_latent = (size_t)bwt_random_below(&r, in->ref.rows) * in->ref.latent_dim + k;
  size_t in_weight = (size_t)bwt_random_below(&r, in->ref.shard) * in->ref.latent_dim + k;
  if (kind == BWT_UP_PROJ_nan)
    in->latent[in_latent] = 0xffc1;
  if (kind == BWT_UP_PROJ_inf)
    in->latent[in_latent] = 0x7f80;
  if (kind == BWT_UP_PROJ_minus_inf)
    in->latent[in_latent] = 0xff80;
  if (kind == BWT_UP_PROJ_weight_nan)
    in->weight[in_weight] = 0x7f81;
}

bool bwt_up_proj_inputs_make(struct bwt_up_proj_inputs *in, enum bwt_up_proj_kind kind,
                             uint32_t rows, uint32_t latent_dim, uint32_t shard,
                             uint64_t shared_stride, uint64_t seed) {
  memset(in, 0, sizeof *in);
  in->latent_size = (size_t)rows * latent_dim * sizeof *in->latent;
  in->weight_size = (size_t)shard * latent_dim * sizeof *in->weight;
  /* The last row has nothing behind it. */
  in->shared_size = rows == 0 ? 0 : ((rows - 1) * shared_stride + shard) * sizeof *in->shared;
  in->latent = malloc(in->latent_size + 1);
  in->weight = malloc(in->weight_size + 1);
  in->shared = malloc(in->shared_size + 1);
  if (in->latent == NULL || in->weight == NULL || in->shared == NULL) {
    bwt_up_proj_inputs_free(in);
    return false;
  }
  in->ref = (struct ref_up_proj){.rows = rows,
                                 .latent_dim = latent_dim,
                                 .shard = shard,
                                 .shared_stride = shared_stride,
                                 .latent = in->latent,
                                 .weight = in->weight,
                                 .shared = in->shared};
  fill_weight(in, kind, seed);
  if (rows == 0)
    return true;
  fill_latent(in, kind, seed);
  fill_shared(in, kind, seed);
  if (kind == BWT_UP_PROJ_cancel)
    mirror(in);
  if (kind != BWT_UP_PROJ_normal && kind != BWT_UP_PROJ_cancel) {
    place_special_weights(in, kind, seed);
    place_special_shared(in, kind, seed);
  }
  place_odd_one(in, kind, seed);
  return true;
}

void bwt_up_proj_inputs_free(struct bwt_up_proj_inputs *in) {
  free(in->latent);
  free(in->weight);
  free(in->shared);
  memset(in, 0, sizeof *in);
}
