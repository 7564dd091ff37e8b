/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp compare up_proj`: every rank's rows in a file against the reference, computed
 * anew.
 */
#include "harness/compare_up_proj.h"
#include "cli.h"
#include "cli/up_proj_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: barewarp compare up_proj --input F.safetensors --output G.safetensors\n"
    "\n"
    "Computes the reference from the operands in F and compares the rows that each rank has in\n"
    "G with it: with the bit-exact model, and with sums in double.  Exit status 0 when all have\n"
    "the model's bits and are within what rounding explains.\n";

typedef struct totals {
  uint64_t compared, differ, out_of_bounds;
  double worst_error;
} totals;

/* The columns that `rank` computed, as every rank received them. */
static bool judge_columns(const up_proj_file *in, const uint16_t *out, uint32_t tp, uint32_t rank,
                          totals *t) {
  static struct bwt_text why;
  const uint32_t shard = in->hidden / tp;
  uint16_t *shared = malloc((size_t)in->rows * shard * 2),
           *want = malloc((size_t)in->rows * shard * 2);
  const struct ref_up_proj ref = {.rows = in->rows,
                                  .latent_dim = in->latent_dim,
                                  .shard = shard,
                                  .shared_stride = shard,
                                  .latent = in->latent,
                                  .weight = in->weight + (size_t)rank * shard * in->latent_dim,
                                  .shared = shared};
  bool ok = shared && want;
  if (ok) {
    up_proj_file_shared(in, tp, rank, shard, shared);
    ok = ref_up_proj_model(&ref, want);
  }
  for (uint32_t reader = 0; ok && reader < tp; reader++) {
    const uint16_t *got = out + (size_t)reader * in->rows * in->hidden + (size_t)rank * shard;
    struct bwt_up_proj_difference difference;
    why.length = 0;
    bwt_up_proj_compare(&ref, got, in->hidden, want, &difference, &why);
    if (difference.differ > 0)
      fprintf(stderr, "rank %u's columns at rank %u: %s", rank, reader, why.chars);
    t->compared += difference.compared;
    t->differ += difference.differ;
  }
  struct bwt_up_proj_judgement judgement;
  why.length = 0;
  ok = ok && bwt_up_proj_judge(&ref, out + (size_t)rank * shard, in->hidden, &judgement, &why);
  if (ok) {
    t->out_of_bounds += judgement.out_of_bounds;
    if (judgement.worst_error > t->worst_error)
      t->worst_error = judgement.worst_error;
    fputs(judgement.out_of_bounds > 0 ? why.chars : "", stderr);
  }
  free(shared);
  free(want);
  return ok || cli_error("compare", "out of memory") == CLI_OK;
}

static int judge(const up_proj_file *in, const uint16_t *out, uint32_t tp) {
  totals t = {0};
  for (uint32_t rank = 0; rank < tp; rank++)
    if (!judge_columns(in, out, tp, rank, &t))
      return CLI_FAILED;
  printf("M = %u L = %u hidden = %u, %u ranks  %s the model (%llu of %llu elements differ), worst "
         "error %.3f steps of bf16\n",
         in->rows, in->latent_dim, in->hidden, tp, t.differ == 0 ? "equal to" : "differs from",
         (unsigned long long)t.differ, (unsigned long long)t.compared, t.worst_error);
  return t.differ == 0 && t.out_of_bounds == 0 ? CLI_OK : CLI_FAILED;
}

static int compare_file(const up_proj_file *in, const st_file *file) {
  const st_tensor *t = st_find(file, "out");
  if (!t || strcmp(t->dtype, "BF16") != 0 || t->rank != 3 || t->shape[1] != in->rows ||
      t->shape[2] != in->hidden || t->shape[0] < 1 || t->shape[0] > BW_MAILBOX_MAX_RANKS ||
      in->hidden % t->shape[0] != 0)
    return cli_error("compare", "tensor 'out' must be BF16 [ranks, %u, %u]", in->rows, in->hidden);
  const uint32_t tp = (uint32_t)t->shape[0];
  const struct ref_up_proj_order order =
      ref_up_proj_order(in->rows, in->hidden / tp, in->latent_dim);
  if (in->latent_dim % (order.block * order.vector) != 0)
    return cli_error("compare", "tensor 'latent' has %u columns, must be a multiple of %u",
                     in->latent_dim, order.block * order.vector);
  uint16_t *out = malloc(t->size + 1); /* aligned */
  if (!out)
    return cli_error("compare", "out of memory");
  memcpy(out, t->data, t->size);
  const int status = judge(in, out, tp);
  free(out);
  return status;
}

static int run_command(int argc, char **argv) {
  const char *family = NULL, *input = NULL, *result = NULL;
  const cli_option options[] = {{"--input", &input, NULL}, {"--output", &result, NULL}};
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, &family, 1, usage))
    return CLI_USAGE;
  if (!input || !result) {
    fprintf(stderr, "barewarp compare: --input and --output are needed\n%s", usage);
    return CLI_USAGE;
  }
  up_proj_file in;
  if (!up_proj_file_open(&in, argv[0], input))
    return CLI_FAILED;
  char why[512];
  st_file *file = st_open(result, why, sizeof why);
  int status = CLI_FAILED;
  if (!file) {
    cli_error(argv[0], "%s", why);
  } else {
    status = compare_file(&in, file);
    st_close(file);
  }
  up_proj_file_close(&in);
  return status;
}

const cli_family cli_compare_up_proj = {"up_proj", usage, run_command};
