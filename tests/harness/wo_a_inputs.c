/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands for wo_a; see wo_a_inputs.h.
 */
#include "harness/wo_a_inputs.h"

#include "harness/random.h"
#include "ref/formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum {
  ROPE_ROWS = 97,
  BASE_SCALE = 114, /* ue8m0 of weights whose codes are spread over e4m3: 2^-13 */
  NORMAL_CODES = 4096
};

static const char *const kind_names[] = {
#define X(name, text) #name,
    BWT_WO_A_KINDS(X)
#undef X
};

const char *bwt_wo_a_kind_name(enum bwt_wo_a_kind kind) {
  return kind_names[kind];
}

enum bwt_wo_a_kind bwt_wo_a_kind_find(const char *name) {
  unsigned kind = 0;
  while (kind < BWT_WO_A_KIND_COUNT && strcmp(kind_names[kind], name) != 0)
    kind++;
  return (enum bwt_wo_a_kind)kind;
}

/* ---- x ---------------------------------------------------------------------- */

static float random_sign(struct bwt_random *r, float v) {
  return bwt_random_below(r, 2) ? -v : v;
}

/* A point halfway between two e4m3 codes, below 448. */
static float random_tie(struct bwt_random *r) {
  uint8_t code = (uint8_t)bwt_random_below(r, 0x7e);
  return (float)((ref_e4m3_value(code) + ref_e4m3_value((uint8_t)(code + 1))) / 2);
}

static void fill_normal(struct bwt_random *r, float *v, float scale) {
  for (int i = 0; i < 32; i++)
    v[i] = (float)bwt_random_normal(r) * scale;
}

/* The largest value at 448*2^k or one bf16 step above; the rest on ties. */
static void fill_edge(struct bwt_random *r, float *v) {
  float unit = ldexpf(1, (int)bwt_random_below(r, 40) - 24);
  for (int i = 0; i < 32; i++)
    v[i] = random_sign(r, random_tie(r) * unit);
  float top = bwt_random_below(r, 2) ? 448 : 450;
  v[bwt_random_below(r, 32)] = random_sign(r, top * unit);
}

static void fill_zero(struct bwt_random *r, float *v) {
  for (int i = 0; i < 32; i++)
    v[i] = random_sign(r, 0);
}

/* Around the smallest values of bf16, and around the floor of the quantization. */
static void fill_tiny(struct bwt_random *r, float *v) {
  static const float magnitudes[] = {5.7e-35f, 9e-40f, 1e-10f, 9.2e-41f, 4e-12f};
  float magnitude = magnitudes[bwt_random_below(r, 5)];
  for (int i = 0; i < 32; i++)
    v[i] = random_sign(r, magnitude * (float)bwt_random_unit(r));
}

static void fill_mixed(struct bwt_random *r, float *v) {
  switch (bwt_random_below(r, 16)) {
  case 0:
    fill_zero(r, v);
    break;
  case 1:
    fill_tiny(r, v);
    break;
  case 2:
  case 3:
    fill_edge(r, v);
    break;
  case 4:
    fill_normal(r, v, 1e4f);
    break;
  case 5:
    fill_normal(r, v, 1e-6f);
    break;
  default:
    fill_normal(r, v, 1);
  }
}

static void fill_block(struct bwt_random *r, enum bwt_wo_a_kind kind, uint32_t token, float *v) {
  switch (kind) {
  case BWT_WO_A_zero:
    fill_zero(r, v);
    break;
  case BWT_WO_A_huge:
    fill_normal(r, v, 5e35f);
    break;
  case BWT_WO_A_overflow:
    fill_normal(r, v, 6e37f);
    break;
  case BWT_WO_A_tiny: /* with the least weight scales: results from 2^-112 down to 2^-132 */
    fill_normal(r, v, ldexpf(1, -5 * (int)(token % 5)));
    break;
  case BWT_WO_A_row_tops: /* times the largest row scale still within f32 */
    fill_normal(r, v, 0x1p-24f);
    break;
  case BWT_WO_A_edges:
    memset(v, 0, 32 * sizeof *v);
    break;
  case BWT_WO_A_mixed:
    fill_mixed(r, v);
    break;
  default:
    fill_normal(r, v, 1);
  }
}

/* A few channels carry far larger values in every token, as in real activations. */
static bool is_outlier(uint64_t seed, uint32_t head, uint32_t d) {
  return bwt_mix(seed, (uint64_t)head << 16 | d) % 170 == 0;
}

static void place_odd_one(struct bwt_wo_a_inputs *in, enum bwt_wo_a_kind kind,
                          struct bwt_random *r) {
  uint16_t odd = kind == BWT_WO_A_nan ? 0x7fc1 : kind == BWT_WO_A_inf ? 0x7f80 : 0xff80;
  if (kind != BWT_WO_A_nan && kind != BWT_WO_A_inf && kind != BWT_WO_A_minus_inf)
    return;
  in->odd_token = bwt_random_below(r, in->ref.tokens);
  in->odd_group = bwt_random_below(r, in->ref.groups);
  uint32_t head = in->odd_group * in->ref.heads + bwt_random_below(r, in->ref.heads);
  uint32_t d = bwt_random_below(r, REF_WO_A_HEAD);
  in->x[in->odd_token * in->ref.token_stride + (uint64_t)head * REF_WO_A_HEAD + d] = odd;
}

/* Group g of the edges kind: two elements of x are 1, and so the outputs are sums of two
 * weights.  Which ones: in the first head, blocks 0 and 1, not rotated. */
static void place_edge_inputs(struct bwt_wo_a_inputs *in) {
  for (uint32_t t = 0; t < in->ref.tokens; t++) {
    for (uint32_t g = 0; g < in->ref.groups; g++) {
      uint16_t *x = in->x + t * in->ref.token_stride + (uint64_t)g * in->ref.heads * REF_WO_A_HEAD;
      x[t % 32] = x[32 + t % 32] = 0x3f80;
    }
  }
}

/* The cancel kind: head 0 of a group is 2^26 times what it was and head 2, which has the
 * same weights, its negative.  Their partial sums are each other's negatives to the last
 * bit; what is added between them loses its low bits, what comes after does not. */
static void place_cancelling_heads(struct bwt_wo_a_inputs *in) {
  if (in->ref.heads < 3)
    return;
  for (uint32_t t = 0; t < in->ref.tokens; t++) {
    for (uint32_t g = 0; g < in->ref.groups; g++) {
      uint16_t *first =
          in->x + t * in->ref.token_stride + (uint64_t)g * in->ref.heads * REF_WO_A_HEAD;
      uint16_t *third = first + 2 * REF_WO_A_HEAD;
      for (uint32_t d = 0; d < REF_WO_A_HEAD; d++) {
        first[d] = ref_bf16_from_f32(ref_bf16_value(first[d]) * 0x1p26f);
        third[d] = first[d] ^ 0x8000;
      }
    }
  }
}

static void copy_cancelling_weights(struct bwt_wo_a_inputs *in) {
  const struct ref_wo_a *c = &in->ref;
  if (c->heads < 3)
    return;
  size_t k_size = (size_t)c->heads * REF_WO_A_HEAD, words = k_size / 128;
  for (size_t n = 0; n < (size_t)c->groups * c->rank; n++) {
    uint8_t *row = in->weight + n * k_size;
    memcpy(row + 2 * (size_t)REF_WO_A_HEAD, row, REF_WO_A_HEAD);
    uint32_t *scales = in->weight_scale + n / c->rank * words * c->rank + n % c->rank;
    for (size_t word = 0; word < 4; word++)
      scales[(8 + word) * c->rank] = scales[word * c->rank];
  }
}

/* ---- scales at the bounds of what Hopper's kernel folds into its operands ---------- */

enum { HEAD_BLOCKS = REF_WO_A_HEAD / 32 };

/* Scales of the blocks of a token or row in one head: one is the top, one is span below it,
 * the rest lies between. */
static void random_scales(struct bwt_random *r, int top, int span, int scales[HEAD_BLOCKS]) {
  for (uint32_t b = 0; b < HEAD_BLOCKS; b++)
    scales[b] = top - (int)bwt_random_below(r, (uint32_t)span + 1);
  uint32_t first = bwt_random_below(r, HEAD_BLOCKS);
  scales[first] = top;
  scales[(first + 1 + bwt_random_below(r, HEAD_BLOCKS - 1)) % HEAD_BLOCKS] = top - span;
}

/* A block whose scale is this one, rotated or not: its largest pair has the norm 330, of which
 * one element keeps 233 at least, and the others at most 317; 224 to 448 have one scale. */
static void fill_of_scale(struct bwt_random *r, int scale, float *v) {
  float unit = ldexpf(1, scale - 127);
  for (int i = 0; i < 32; i++)
    v[i] = random_sign(r, (float)(224 * bwt_random_unit(r)) * unit);
  uint32_t largest = bwt_random_below(r, 32);
  v[largest] = random_sign(r, 330 * unit);
  v[largest ^ 1] = 0;
}

static void place_token_scales(struct bwt_wo_a_inputs *in, enum bwt_wo_a_kind kind,
                               struct bwt_random *r) {
  int top = kind == BWT_WO_A_top_219 ? 219 : kind == BWT_WO_A_top_220 ? 220 : 140;
  int span = kind == BWT_WO_A_span_22 ? 22 : 21;
  for (uint32_t t = 0; t < in->ref.tokens; t++)
    for (uint32_t h = 0; h < in->ref.groups * in->ref.heads; h++) {
      uint16_t *x = in->x + t * in->ref.token_stride + (uint64_t)h * REF_WO_A_HEAD;
      int scales[HEAD_BLOCKS];
      random_scales(r, top, span, scales);
      for (uint32_t b = 0; b < HEAD_BLOCKS; b++) {
        float v[32];
        fill_of_scale(r, scales[b], v);
        for (uint32_t i = 0; i < 32; i++)
          x[32 * b + i] = ref_bf16_from_f32(v[i]);
      }
    }
}

static void place_row_scales(struct bwt_wo_a_inputs *in, enum bwt_wo_a_kind kind,
                             struct bwt_random *r) {
  static const int tops[] = {0, 7, 8, 254};
  const struct ref_wo_a *c = &in->ref;
  size_t words = (size_t)c->heads * REF_WO_A_HEAD / 128;
  uint32_t odd = bwt_random_below(r, 64);
  for (uint32_t n = 0; n < c->groups * c->rank; n++) {
    int top = kind == BWT_WO_A_row_tops ? tops[n % 4] : BASE_SCALE;
    int span = kind == BWT_WO_A_row_span_22 && n % 64 == odd ? 22 : 21;
    uint32_t *row = in->weight_scale + n / c->rank * words * c->rank + n % c->rank;
    for (uint32_t h = 0; h < c->heads; h++) {
      int scales[HEAD_BLOCKS];
      random_scales(r, top, top < span ? top : span, scales);
      for (uint32_t b = 0; b < HEAD_BLOCKS; b++) {
        uint8_t *word = (uint8_t *)(row + (size_t)(h * HEAD_BLOCKS + b) / 4 * c->rank);
        word[b % 4] = (uint8_t)scales[b];
      }
    }
  }
}

static bool has_token_scales(enum bwt_wo_a_kind kind) {
  return kind == BWT_WO_A_span_21 || kind == BWT_WO_A_span_22 || kind == BWT_WO_A_row_span_22 ||
         kind == BWT_WO_A_top_219 || kind == BWT_WO_A_top_220;
}

static bool has_row_scales(enum bwt_wo_a_kind kind) {
  return kind == BWT_WO_A_span_21 || kind == BWT_WO_A_span_22 || kind == BWT_WO_A_row_span_22 ||
         kind == BWT_WO_A_row_tops;
}

void bwt_wo_a_inputs_next_x(struct bwt_wo_a_inputs *in, enum bwt_wo_a_kind kind, uint64_t seed) {
  struct bwt_random r;
  bwt_random_seed(&r, seed);
  uint32_t heads = in->ref.groups * in->ref.heads;
  memset(in->x, 0xff, in->x_size);
  for (uint32_t t = 0; t < in->ref.tokens; t++) {
    /* Position 0 leaves x as it is, so that its hard values reach the quantization. */
    in->positions[t] = bwt_random_below(&r, 3) ? bwt_random_below(&r, in->rope_rows) : 0;
    for (uint32_t h = 0; h < heads; h++) {
      uint16_t *x = in->x + t * in->ref.token_stride + (uint64_t)h * REF_WO_A_HEAD;
      for (uint32_t d = 0; d < REF_WO_A_HEAD; d += 32) {
        float v[32];
        fill_block(&r, kind, t, v);
        for (uint32_t i = 0; i < 32; i++) {
          bool large = kind == BWT_WO_A_huge || kind == BWT_WO_A_overflow;
          bool outlier = !large && is_outlier(seed, h, d + i);
          x[d + i] = ref_bf16_from_f32(outlier ? v[i] * 24 : v[i]);
        }
      }
    }
  }
  if (kind == BWT_WO_A_edges)
    place_edge_inputs(in);
  if (kind == BWT_WO_A_cancel)
    place_cancelling_heads(in);
  if (has_token_scales(kind))
    place_token_scales(in, kind, &r);
  place_odd_one(in, kind, &r);
}

/* ---- weights ---------------------------------------------------------------- */

static void fill_weights(struct bwt_wo_a_inputs *in, struct bwt_random *r) {
  uint8_t codes[NORMAL_CODES];
  for (int i = 0; i < NORMAL_CODES; i++)
    codes[i] = ref_e4m3_from_f32((float)(bwt_random_normal(r) * 130));
  codes[0] = 0x80; /* -0, zero and the denormals are too rare otherwise */
  codes[1] = 0x00;
  codes[2] = 0x01;
  codes[3] = 0x87;
  for (size_t i = 0; i < in->weight_size; i += 4) {
    uint64_t word = bwt_random_u64(r);
    for (size_t j = 0; j < 4 && i + j < in->weight_size; j++, word >>= 12)
      in->weight[i + j] = codes[word % NORMAL_CODES];
  }
}

static void fill_scales(struct bwt_wo_a_inputs *in, struct bwt_random *r, int base) {
  uint8_t *scale = (uint8_t *)in->weight_scale;
  for (size_t i = 0; i < in->weight_scale_size; i++) {
    int e = base + (int)bwt_random_below(r, 7) - 3;
    scale[i] = (uint8_t)(e < 0 ? 0 : e);
  }
}

/* Rows whose two contributing weights sum to ties of e4m3, to 448 or just above it; per
 * 32 rows one scale, so that these are ties in the output block too. */
static void fill_edge_weights(struct bwt_wo_a_inputs *in, struct bwt_random *r) {
  const struct ref_wo_a *c = &in->ref;
  uint32_t outputs = c->groups * c->rank;
  size_t k_size = (size_t)c->heads * REF_WO_A_HEAD;
  uint8_t *scale = (uint8_t *)in->weight_scale;
  uint64_t scale_seed = bwt_random_u64(r), top_seed = bwt_random_u64(r);
  for (uint32_t n = 0; n < outputs; n++) {
    uint32_t g = n / c->rank, row = n % c->rank;
    int e = 127 + (int)(bwt_mix(scale_seed, n / 32) % 41) - 20;
    size_t words_per_group = c->rank * k_size / 128;
    for (uint32_t block = 0; block < 2; block++)
      scale[(g * words_per_group + row) * 4 + block] = (uint8_t)e;
    bool top = row % 32 == bwt_mix(top_seed, n / 32) % 32;
    for (uint32_t i = 0; i < 32; i++) {
      /* Neighbouring codes sum to twice the point halfway between them. */
      uint8_t code = (uint8_t)bwt_random_below(r, 0x76);
      uint8_t sign = bwt_random_below(r, 2) ? 0x80 : 0;
      uint8_t first = code | sign, second = (uint8_t)(code + 1) | sign;
      if (top) {
        first = 0x7e | sign;                     /* 448 */
        second = (i % 2 == 0 ? 0 : 0x40) | sign; /* and 2: one bf16 step above */
      }
      in->weight[n * k_size + i] = first;
      in->weight[n * k_size + 32 + i] = second;
    }
  }
}

static void fill_layer(struct bwt_wo_a_inputs *in, enum bwt_wo_a_kind kind, struct bwt_random *r) {
  const struct ref_wo_a *c = &in->ref;
  fill_weights(in, r);
  fill_scales(in, r, kind == BWT_WO_A_tiny ? 3 : BASE_SCALE);
  if (kind == BWT_WO_A_overflow)
    fill_scales(in, r, BASE_SCALE + 6);
  if (kind == BWT_WO_A_edges)
    fill_edge_weights(in, r);
  if (kind == BWT_WO_A_cancel)
    copy_cancelling_weights(in);
  if (has_row_scales(kind))
    place_row_scales(in, kind, r);
  in->odd_row = bwt_random_below(r, c->groups * c->rank);
  uint32_t k_size = c->heads * REF_WO_A_HEAD, k = bwt_random_below(r, k_size);
  if (kind == BWT_WO_A_weight_nan)
    in->weight[(size_t)in->odd_row * k_size + k] = bwt_random_below(r, 2) ? 0x7f : 0xff;
  if (kind == BWT_WO_A_scale_nan) {
    size_t words_per_group = (size_t)c->rank * k_size / 128;
    size_t word = in->odd_row / c->rank * words_per_group + (size_t)(k / 128) * c->rank +
                  in->odd_row % c->rank;
    in->weight_scale[word] |= 0xffu << k / 32 % 4 * 8;
  }
}

static void fill_rope(struct bwt_wo_a_inputs *in, struct bwt_random *r) {
  for (uint32_t p = 0; p < in->rope_rows; p++) {
    /* Row 0 is position 0; the others lie anywhere in a context of a million. */
    double position = p == 0 ? 0 : bwt_random_below(r, 1u << 20);
    for (uint32_t i = 0; i < 32; i++) {
      double angle = position * pow(10000.0, -(double)i / 32);
      in->rope[p * 64 + i] = (float)cos(angle);
      in->rope[p * 64 + 32 + i] = (float)sin(angle);
    }
  }
}

bool bwt_wo_a_inputs_make(struct bwt_wo_a_inputs *in, enum bwt_wo_a_kind kind, uint32_t tokens,
                          uint32_t groups, uint32_t heads, uint32_t rank, uint64_t stride_extra,
                          uint64_t seed) {
  memset(in, 0, sizeof *in);
  size_t row = (size_t)groups * heads * REF_WO_A_HEAD, k_size = (size_t)heads * REF_WO_A_HEAD;
  in->ref.tokens = tokens;
  in->ref.groups = groups;
  in->ref.heads = heads;
  in->ref.rank = rank;
  in->ref.token_stride = row + stride_extra;
  in->rope_rows = ROPE_ROWS;
  /* The last token has nothing behind it. */
  in->x_size = tokens == 0 ? 0 : ((tokens - 1) * in->ref.token_stride + row) * sizeof *in->x;
  in->positions_size = tokens * sizeof *in->positions;
  in->rope_size = in->rope_rows * 64 * sizeof *in->rope;
  in->weight_size = groups * rank * k_size;
  in->weight_scale_size = in->weight_size / 32;
  in->x = malloc(in->x_size + 1);
  in->positions = malloc(in->positions_size + 1);
  in->rope = malloc(in->rope_size);
  in->weight = malloc(in->weight_size);
  in->weight_scale = malloc(in->weight_scale_size);
  in->ref.x = in->x;
  in->ref.positions = in->positions;
  in->ref.rope = in->rope;
  in->ref.weight = in->weight;
  in->ref.weight_scale = in->weight_scale;
  if (in->x == NULL || in->positions == NULL || in->rope == NULL || in->weight == NULL ||
      in->weight_scale == NULL) {
    bwt_wo_a_inputs_free(in);
    return false;
  }
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(seed, 1));
  fill_rope(in, &r);
  fill_layer(in, kind, &r);
  if (tokens > 0)
    bwt_wo_a_inputs_next_x(in, kind, bwt_mix(seed, 2));
  return true;
}

void bwt_wo_a_inputs_free(struct bwt_wo_a_inputs *in) {
  free(in->x);
  free(in->positions);
  free(in->rope);
  free(in->weight);
  free(in->weight_scale);
  memset(in, 0, sizeof *in);
}
