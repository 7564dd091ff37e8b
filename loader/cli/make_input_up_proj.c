/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp make-input up_proj`: random operands of a step of all ranks, like those of a
 * model: normally distributed, a few channels of latent far larger in every token.
 */
#include "cli.h"
#include "cli/safetensors.h"
#include "harness/random.h"
#include "ref/formats.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

static const char usage[] =
    "usage: barewarp make-input up_proj --output F.safetensors [--rows N] [--latent L]\n"
    "           [--hidden N] [--seed N]\n"
    "\n"
    "Defaults: 8 rows, the model's L = 3584 and N = 7168, a new seed, which is printed.\n";

enum { OUTLIER_ONE_IN = 256, CODES = 1 << 16 };

typedef struct sizes {
  uint64_t rows, latent, hidden, seed;
} sizes;

static void fill_latent(const sizes *s, uint16_t *latent) {
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(s->seed, 1));
  for (uint64_t m = 0; m < s->rows; m++)
    for (uint64_t k = 0; k < s->latent; k++) {
      const double gain = bwt_mix(s->seed, k) % OUTLIER_ONE_IN == 0 ? 24 : 1;
      latent[m * s->latent + k] = ref_bf16_from_f32((float)(bwt_random_normal(&r) * gain));
    }
}

/* Normal numbers from a table: a layer has millions of weights. */
static void fill_normal(uint64_t seed, double deviation, uint16_t *values, size_t count) {
  static uint16_t codes[CODES];
  struct bwt_random r;
  bwt_random_seed(&r, seed);
  for (size_t i = 0; i < CODES; i++)
    codes[i] = ref_bf16_from_f32((float)(bwt_random_normal(&r) * deviation));
  for (size_t i = 0; i < count; i++)
    values[i] = codes[bwt_random_below(&r, CODES)];
}

static int make(const sizes *s, const char *path) {
  const size_t latents = (size_t)(s->rows * s->latent), weights = (size_t)(s->hidden * s->latent),
               shareds = (size_t)(s->rows * s->hidden);
  uint16_t *latent = malloc(latents * 2), *weight = malloc(weights * 2),
           *shared = malloc(shareds * 2);
  int status = CLI_FAILED;
  if (latent && weight && shared) {
    fill_latent(s, latent);
    fill_normal(bwt_mix(s->seed, 2), 1 / sqrt((double)s->latent), weight, weights);
    fill_normal(bwt_mix(s->seed, 3), 1, shared, shareds);
    const int64_t rows = (int64_t)s->rows, hidden = (int64_t)s->hidden, l = (int64_t)s->latent;
    const st_tensor tensors[] = {{"latent", "BF16", 2, {rows, l}, latent, latents * 2},
                                 {"weight", "BF16", 2, {hidden, l}, weight, weights * 2},
                                 {"shared", "BF16", 2, {rows, hidden}, shared, shareds * 2}};
    char why[512];
    if (st_write(path, tensors, sizeof tensors / sizeof *tensors, why, sizeof why)) {
      printf("%s: %lld rows, latent %lld, hidden %lld, seed %llu\n", path, (long long)rows,
             (long long)l, (long long)hidden, (unsigned long long)s->seed);
      status = CLI_OK;
    } else {
      cli_error("make-input", "%s", why);
    }
  } else {
    cli_error("make-input", "out of memory");
  }
  free(latent);
  free(weight);
  free(shared);
  return status;
}

static int run_command(int argc, char **argv) {
  const char *family = NULL, *path = NULL, *rows = NULL, *latent = NULL, *hidden = NULL,
             *seed = NULL;
  const cli_option options[] = {{"--output", &path, NULL},
                                {"--rows", &rows, NULL},
                                {"--latent", &latent, NULL},
                                {"--hidden", &hidden, NULL},
                                {"--seed", &seed, NULL}};
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, &family, 1, usage))
    return CLI_USAGE;
  if (!path) {
    fprintf(stderr, "barewarp make-input: --output is needed\n%s", usage);
    return CLI_USAGE;
  }
  sizes s = {.rows = 8, .latent = 3584, .hidden = 7168};
  if ((rows && !cli_number("--rows", rows, 1, BW_UP_PROJ_MAX_ROWS, &s.rows)) ||
      (latent && !cli_number("--latent", latent, 1, 1 << 20, &s.latent)) ||
      (hidden && !cli_number("--hidden", hidden, 1, 1 << 20, &s.hidden)) ||
      (seed && !cli_number("--seed", seed, 0, UINT64_MAX, &s.seed)))
    return CLI_USAGE;
  if (!seed)
    s.seed = bwt_run_seed();
  return make(&s, path);
}

const cli_family cli_make_input_up_proj = {"up_proj", usage, run_command};
