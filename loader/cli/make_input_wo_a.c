/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp make-input wo_a`: random operands like those of a model: normally distributed
 * activations with a few channels that are far larger in every token, positions anywhere
 * in a long context, weights quantized with one scale for 32.
 */
#include "cli.h"
#include "cli/safetensors.h"
#include "harness/random.h"
#include "ref/formats.h"
#include "ref/wo_a_ref.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: barewarp make-input wo_a --output F.safetensors [--tokens N] [--groups N]\n"
    "           [--heads-per-group N] [--lora-rank N] [--context N] [--seed N]\n"
    "\n"
    "Defaults: 8 tokens, 2 groups of 8 heads, 1024 rows a group, a context of 16384, a new\n"
    "seed, which is printed.\n";

static const double outlier_gain = 24, pi = 3.14159265358979323846;
enum { OUTLIER_ONE_IN = 256 };

typedef struct sizes {
  uint64_t tokens, groups, heads, rank, context, seed;
} sizes;

typedef struct operands {
  uint16_t *x;
  int64_t *positions;
  float *rope;
  uint8_t *weight, *scales;
} operands;

static void fill_x(const sizes *s, uint16_t *x, int64_t *positions) {
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(s->seed, 1));
  const size_t channels = (size_t)(s->groups * s->heads) * REF_WO_A_HEAD;
  for (uint64_t t = 0; t < s->tokens; t++) {
    positions[t] = bwt_random_below(&r, (uint32_t)s->context);
    for (size_t c = 0; c < channels; c++) {
      const bool outlier = bwt_mix(s->seed, c) % OUTLIER_ONE_IN == 0;
      const double v = bwt_random_normal(&r) * (outlier ? outlier_gain : 1);
      x[t * channels + c] = ref_bf16_from_f32((float)v);
    }
  }
}

static void fill_rope(const sizes *s, float *rope) {
  for (uint64_t p = 0; p < s->context; p++) {
    for (uint64_t i = 0; i < 32; i++) {
      const double angle = fmod((double)p * pow(10000.0, -(double)i / 32), 2 * pi);
      rope[p * 64 + i] = (float)cos(angle);
      rope[p * 64 + 32 + i] = (float)sin(angle);
    }
  }
}

/* Per 32 weights the scale is the least power of two that brings the largest to 448. */
static void fill_weight(const sizes *s, uint8_t *weight, uint8_t *scales) {
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(s->seed, 2));
  const size_t k = (size_t)s->heads * REF_WO_A_HEAD;
  const size_t blocks = (size_t)(s->groups * s->rank) * k / REF_WO_A_BLOCK;
  const double deviation = 1 / sqrt((double)k);
  for (size_t b = 0; b < blocks; b++) {
    float v[REF_WO_A_BLOCK], largest = 0;
    for (unsigned i = 0; i < REF_WO_A_BLOCK; i++) {
      v[i] = (float)(bwt_random_normal(&r) * deviation);
      largest = fmaxf(largest, fabsf(v[i]));
    }
    scales[b] = ref_ue8m0_from_f32(largest / 448);
    const float inverse = ref_ue8m0_inverse(scales[b]);
    for (unsigned i = 0; i < REF_WO_A_BLOCK; i++)
      weight[b * REF_WO_A_BLOCK + i] = ref_e4m3_from_f32(v[i] * inverse);
  }
}

static bool write_operands(const sizes *s, const operands *o, const char *path) {
  const int64_t n = (int64_t)(s->groups * s->rank), k = (int64_t)s->heads * REF_WO_A_HEAD;
  const int64_t t = (int64_t)s->tokens, heads = (int64_t)(s->groups * s->heads);
  const int64_t context = (int64_t)s->context;
  const st_tensor tensors[] = {
      {"x", "BF16", 3, {t, heads, REF_WO_A_HEAD}, o->x, (size_t)(t * heads * REF_WO_A_HEAD * 2)},
      {"positions", "I64", 1, {t}, o->positions, (size_t)(t * 8)},
      {"rope", "F32", 2, {context, 64}, o->rope, (size_t)(context * 64 * 4)},
      {"weight", "F8_E4M3", 2, {n, k}, o->weight, (size_t)(n * k)},
      {"weight_scale", "U8", 2, {n, k / 32}, o->scales, (size_t)(n * k / 32)}};
  char why[512];
  if (st_write(path, tensors, sizeof tensors / sizeof *tensors, why, sizeof why))
    return true;
  cli_error("make-input", "%s", why);
  return false;
}

static int make(const sizes *s, const char *path) {
  const size_t k = (size_t)s->heads * REF_WO_A_HEAD;
  const size_t weights = (size_t)(s->groups * s->rank) * k;
  operands o = {
      .x = malloc((size_t)(s->tokens * s->groups) * k * sizeof *o.x + 1),
      .positions = malloc((size_t)s->tokens * sizeof *o.positions + 1),
      .rope = malloc((size_t)s->context * 64 * sizeof *o.rope),
      .weight = malloc(weights),
      .scales = malloc(weights / REF_WO_A_BLOCK),
  };
  int status = CLI_FAILED;
  if (o.x && o.positions && o.rope && o.weight && o.scales) {
    fill_x(s, o.x, o.positions);
    fill_rope(s, o.rope);
    fill_weight(s, o.weight, o.scales);
    if (write_operands(s, &o, path)) {
      printf("%s: %llu tokens, %llu groups of %llu heads, %llu rows a group, seed %llu\n", path,
             (unsigned long long)s->tokens, (unsigned long long)s->groups,
             (unsigned long long)s->heads, (unsigned long long)s->rank,
             (unsigned long long)s->seed);
      status = CLI_OK;
    }
  } else {
    cli_error("make-input", "out of memory");
  }
  free(o.x);
  free(o.positions);
  free(o.rope);
  free(o.weight);
  free(o.scales);
  return status;
}

static int run_command(int argc, char **argv) {
  const char *family = NULL, *path = NULL, *tokens = NULL, *groups = NULL, *heads = NULL,
             *rank = NULL, *context = NULL, *seed = NULL;
  const cli_option options[] = {
      {"--output", &path, NULL},    {"--tokens", &tokens, NULL},
      {"--groups", &groups, NULL},  {"--heads-per-group", &heads, NULL},
      {"--lora-rank", &rank, NULL}, {"--context", &context, NULL},
      {"--seed", &seed, NULL},
  };
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, &family, 1, usage))
    return CLI_USAGE;
  if (!path) {
    fprintf(stderr, "barewarp make-input: --output is needed\n%s", usage);
    return CLI_USAGE;
  }
  sizes s = {.tokens = 8, .groups = 2, .heads = 8, .rank = 1024, .context = 16384};
  if ((tokens && !cli_number("--tokens", tokens, 0, BW_WO_A_MAX_TOKENS, &s.tokens)) ||
      (groups && !cli_number("--groups", groups, 1, 1024, &s.groups)) ||
      (heads && !cli_number("--heads-per-group", heads, 1, 8, &s.heads)) ||
      (rank && !cli_number("--lora-rank", rank, 128, 65536, &s.rank)) ||
      (context && !cli_number("--context", context, 1, 1 << 24, &s.context)) ||
      (seed && !cli_number("--seed", seed, 0, UINT64_MAX, &s.seed)))
    return CLI_USAGE;
  if (s.rank % 128 != 0) {
    cli_error(argv[0], "--lora-rank is %llu, must be a multiple of 128",
              (unsigned long long)s.rank);
    return CLI_USAGE;
  }
  if (!seed)
    s.seed = bwt_run_seed();
  return make(&s, path);
}

const cli_family cli_make_input_wo_a = {"wo_a", usage, run_command};
