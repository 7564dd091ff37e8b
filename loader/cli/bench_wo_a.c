/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp bench wo_a`: layers of one shape, one after the other, each with its own weights.
 */
#include "cli/bench_wo_a.h"

#include "harness/wo_a_inputs.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: barewarp bench wo_a [--tokens LIST] [--groups LIST] [--heads-per-group LIST]\n"
    "           [--lora-rank LIST]\n" BENCH_USAGE "\n"
    "Every combination is a row.  A CUDA graph of N launches or a few more (default 192) over\n"
    "weights that rotate through three times the L2, random data; the median of N replays\n"
    "(default 31).  Defaults: tokens 1,2,4,8,16,32,64,96, groups 2,16, 8 heads a group, 1024 "
    "rows.\n"
    "On the emulated driver 2 launches and 1 replay, and times that say nothing about a GPU.\n";

static uint64_t token_stride(const bench_wo_a *j) {
  return (uint64_t)j->shape.groups * j->shape.heads_per_group * BW_WO_A_HEAD_DIM;
}

static size_t weight_bytes(const bw_wo_a_shape *s) {
  return (size_t)s->groups * s->lora_rank * s->heads_per_group * BW_WO_A_HEAD_DIM;
}

bool bench_wo_a_launch(bench *b, void *data, uint32_t r, uint32_t number,
                       const struct bench_way *way, CUstream stream) {
  const bench_wo_a *j = data;
  const bw_wo_a_args args = {.x = j->memory[0],
                             .x_token_stride = token_stride(j),
                             .positions = j->memory[1],
                             .rope = j->memory[2],
                             .q = j->memory[3],
                             .qs = j->memory[4],
                             .tokens = j->tokens,
                             .flags = way->flags};
  (void)b, (void)r;
  return bench_library_ok(bw_wo_a_launch(j->layer[number % j->layers].plan, &args, stream));
}

/* Weights of its own for each layer, from a seed of its own; x once. */
static bool make_layer(bench *b, bench_wo_a *j, uint32_t i) {
  const bw_wo_a_shape *s = &j->shape;
  struct bwt_wo_a_inputs in;
  if (!bwt_wo_a_inputs_make(&in, BWT_WO_A_normal, i == 0 ? s->max_tokens : 0, s->groups,
                            s->heads_per_group, s->lora_rank, 0, bwt_mix(b->seed, i)))
    return bench_no_memory();
  bench_wo_a_layer *l = &j->layer[i];
  bool ok = bench_memory(b, &l->weight, in.weight, in.weight_size) &&
            bench_memory(b, &l->scale, in.weight_scale, in.weight_scale_size);
  if (i == 0)
    ok = ok && bench_memory(b, &j->memory[0], in.x, in.x_size) &&
         bench_memory(b, &j->memory[1], in.positions, in.positions_size) &&
         bench_memory(b, &j->memory[2], in.rope, in.rope_size) &&
         bench_memory(b, &j->memory[3], NULL, j->q_bytes) &&
         bench_memory(b, &j->memory[4], NULL, j->qs_bytes);
  bwt_wo_a_inputs_free(&in);
  const bw_wo_a_config config = {.shape = *s, .weight = l->weight, .weight_scale = l->scale};
  return ok && bench_library_ok(bw_wo_a_plan_create(b->ranks.device[0], &config, &l->plan));
}

bool bench_wo_a_open(bench *b, bench_wo_a *j) {
  if (!bench_library_ok(bw_wo_a_supported(b->ranks.device[0], &j->shape)) ||
      !bench_library_ok(
          bw_wo_a_output_sizes(&j->shape, j->shape.max_tokens, &j->q_bytes, &j->qs_bytes)))
    return false;
  if (j->layers == 0)
    j->layers = bench_rotation(b, weight_bytes(&j->shape));
  j->layer = calloc(j->layers, sizeof *j->layer);
  bool ok = j->layer || bench_no_memory();
  for (uint32_t i = 0; ok && i < j->layers; i++)
    ok = make_layer(b, j, i);
  return ok;
}

void bench_wo_a_close(bench *b, bench_wo_a *j) {
  for (uint32_t i = 0; j->layer && i < j->layers; i++) {
    CUdeviceptr memory[] = {j->layer[i].weight, j->layer[i].scale};
    bw_wo_a_plan_destroy(j->layer[i].plan);
    bench_release(b, memory, 2);
  }
  bench_release(b, j->memory, sizeof j->memory / sizeof *j->memory);
  free(j->layer);
}

double bench_wo_a_bytes(const bench_wo_a *j) {
  const bw_wo_a_shape *s = &j->shape;
  /* Weights, scales and x in, q and qs out. */
  const double outputs = (double)s->groups * s->lora_rank;
  return (double)weight_bytes(s) * 33 / 32 + (double)token_stride(j) * 2 * j->tokens +
         outputs * j->tokens + outputs * 4;
}

static bool bench_row(bench *b, bench_wo_a *j, const bench_time *floor) {
  const bw_wo_a_shape *s = &j->shape;
  const bench_chain chain = {
      .job = j, .launches = bench_launches(b, 192, j->layers), .enqueue = bench_wo_a_launch};
  bench_time times[BENCH_WAYS];
  for (int w = 0; w < BENCH_WAYS; w++)
    if (!bench_measure(b, &chain, &bench_ways[w], &times[w]))
      return false;
  const double bytes = bench_wo_a_bytes(j);
  char label[64];
  snprintf(label, sizeof label, "%4u %4u %2u %5u", j->tokens, s->groups, s->heads_per_group,
           s->lora_rank);
  json_t *facts =
      json_pack("{s:s, s:i, s:i, s:i, s:i, s:i}", "family", "wo_a", "tokens", (int)j->tokens,
                "groups", (int)s->groups, "heads_per_group", (int)s->heads_per_group, "lora_rank",
                (int)s->lora_rank, "launches", (int)chain.launches);
  return bench_report_row(b, facts, label, bytes, times, floor);
}

static bool bench_shape(bench *b, const cli_list *tokens, bench_wo_a *j) {
  for (size_t t = 0; t < tokens->count; t++)
    if (tokens->numbers[t] > j->shape.max_tokens)
      j->shape.max_tokens = tokens->numbers[t];
  bench_time floor[BENCH_WAYS];
  const bw_wo_a_shape *s = &j->shape;
  bool ok = bench_wo_a_open(b, j);
  ok = ok && bench_floor(b, s->groups * s->lora_rank / 128 * s->heads_per_group, s->heads_per_group,
                         128 * BW_WO_A_HEAD_DIM, floor);
  for (size_t t = 0; ok && t < tokens->count; t++) {
    j->tokens = tokens->numbers[t];
    ok = bench_row(b, j, floor);
  }
  bench_wo_a_close(b, j);
  return ok;
}

static int run_command(int argc, char **argv) {
  bench_options o = {0};
  const char *t = NULL, *g = NULL, *h = NULL, *r = NULL;
  const cli_option options[] = {BENCH_OPTIONS(&o),
                                {"--tokens", &t, NULL},
                                {"--groups", &g, NULL},
                                {"--heads-per-group", &h, NULL},
                                {"--lora-rank", &r, NULL}};
  static cli_list tokens, groups, heads, rank;
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, &o.family, 1, usage) ||
      !cli_numbers("--tokens", t ? t : "1,2,4,8,16,32,64,96", 1, BW_WO_A_MAX_TOKENS, &tokens) ||
      !cli_numbers("--groups", g ? g : "2,16", 1, 1024, &groups) ||
      !cli_numbers("--heads-per-group", h ? h : "8", 1, 8, &heads) ||
      !cli_numbers("--lora-rank", r ? r : "1024", 1, 65536, &rank))
    return CLI_USAGE;
  static bench b;
  const int status = bench_open(&b, &o);
  if (status != CLI_OK)
    return status;
  bench_report_columns(&b, "%4s %4s %2s %5s", "T", "G", "H", "R");
  bool ok = true;
  for (size_t i = 0; ok && i < rank.count * heads.count * groups.count; i++) {
    bench_wo_a j = {.shape = {.groups = groups.numbers[i % groups.count],
                              .heads_per_group = heads.numbers[i / groups.count % heads.count],
                              .lora_rank = rank.numbers[i / groups.count / heads.count]}};
    ok = bench_shape(&b, &tokens, &j);
  }
  return bench_close(&b, ok);
}

const cli_family cli_bench_wo_a = {"wo_a", usage, run_command};
