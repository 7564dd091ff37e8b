/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp bench host`: what the library's calls cost on the CPU.
 */
#include "cli/bench_mailbox.h"
#include "harness/verify_up_proj.h"
#include "harness/wo_a_inputs.h"

#include <stdlib.h>
#include <string.h>

static const char usage[] =
    "usage: barewarp bench host\n" BENCH_USAGE "\n"
    "Microseconds of CPU time that calls take: opening the embedded bundle, making plans (the\n"
    "first of a shape, which loads its kernels, and those after it), and launching, of which N\n"
    "(--launches, default 256) follow each other while the stream has room; median, a tenth and\n"
    "nine tenths of N samples (--replays, default 31).\n";

enum { MOST_SAMPLES = 100000 };

#define DRIVER(call) bench_driver_ok(b, b->ranks.session.driver.call, #call)

typedef struct job {
  CUstream stream;
  bench_mail mail;
  CUdeviceptr memory[7]; /* of wo_a: weight, scale, x, positions, rope, q, qs */
  bw_wo_a_config config;
  bw_wo_a_plan *plan;
} job;

/* One sample of something: microseconds in *time. */
typedef bool sample(bench *b, job *j, double *time);

static double now(void) {
  return bwt_mail_now() * 1e6;
}

/* ---- the samples ------------------------------------------------------------------------- */

static bool open_bundle(bench *b, job *j, double *time) {
  bw_bundle *bundle = NULL;
  (void)b, (void)j;
  const double start = now();
  const bool ok = bench_library_ok(bw_bundle_open(NULL, &bundle));
  *time = now() - start;
  bw_bundle_close(bundle);
  return ok;
}

/* On a device opened anew nothing is loaded yet. */
static bool first_wo_a_plan(bench *b, job *j, double *time) {
  bw_device *device = NULL;
  bw_wo_a_plan *plan = NULL;
  if (!bench_library_ok(bw_device_open(b->bundle, b->ranks.session.driver.path, 0, &device)))
    return false;
  const double start = now();
  const bool ok = bench_library_ok(bw_wo_a_plan_create(device, &j->config, &plan));
  *time = now() - start;
  bw_wo_a_plan_destroy(plan);
  bw_device_close(device);
  return ok;
}

static bool next_wo_a_plan(bench *b, job *j, double *time) {
  bw_wo_a_plan *plan = NULL;
  const double start = now();
  const bool ok = bench_library_ok(bw_wo_a_plan_create(b->ranks.device[0], &j->config, &plan));
  *time = now() - start;
  bw_wo_a_plan_destroy(plan);
  return ok;
}

static bool next_up_proj_plan(bench *b, job *j, double *time) {
  bw_up_proj_plan *plan = NULL;
  const bench_mail *m = &j->mail;
  const bw_up_proj_config config = {
      .shape = {m->c.latent_dim, m->c.hidden, m->c.tp_size, 0, m->c.max_rows},
      .weight = m->rank[0].weight[0],
      .mailbox = m->rank[0].mailbox[0]};
  const double start = now();
  const bool ok = bench_library_ok(bw_up_proj_plan_create(b->ranks.device[0], &config, &plan));
  *time = now() - start;
  bw_up_proj_plan_destroy(plan);
  return ok;
}

static bool launch_wo_a(bench *b, job *j, double *time) {
  const uint32_t launches = bench_launches(b, 256, 1);
  const bw_wo_a_args args = {.x = j->memory[2],
                             .x_token_stride = (uint64_t)2 * 8 * BW_WO_A_HEAD_DIM,
                             .positions = j->memory[3],
                             .rope = j->memory[4],
                             .q = j->memory[5],
                             .qs = j->memory[6],
                             .tokens = 1};
  const double start = now();
  for (uint32_t i = 0; i < launches; i++)
    if (!bench_library_ok(bw_wo_a_launch(j->plan, &args, j->stream)))
      return false;
  *time = (now() - start) / launches;
  return DRIVER(StreamSynchronize(j->stream));
}

/* The two halves of a step cost about the same; a stream has room for so many steps. */
static bool launch_step(bench *b, job *j, double *time) {
  const uint32_t steps = bench_launches(b, 256, 2) / 2;
  const double start = now();
  for (uint32_t i = 0; i < steps; i++)
    if (!bench_mail_produce(b, &j->mail, 0, 0, &bench_ways[BENCH_AFTER_WAIT], j->stream) ||
        !bench_mail_consume(b, &j->mail, 0, 0, &bench_ways[BENCH_AFTER_WAIT], j->stream))
      return false;
  *time = (now() - start) / steps;
  return DRIVER(StreamSynchronize(j->stream));
}

/* ---- the job ------------------------------------------------------------------------------- */

static bool open_wo_a(bench *b, job *j) {
  static const bw_wo_a_shape shape = {
      .groups = 2, .heads_per_group = 8, .lora_rank = 1024, .max_tokens = 96};
  struct bwt_wo_a_inputs in;
  size_t q = 0, qs = 0;
  if (!bench_library_ok(bw_wo_a_output_sizes(&shape, shape.max_tokens, &q, &qs)))
    return false;
  if (!bwt_wo_a_inputs_make(&in, BWT_WO_A_normal, 1, 2, 8, 1024, 0, b->seed))
    return bench_no_memory();
  const struct {
    const void *data;
    size_t size;
  } parts[] = {{in.weight, in.weight_size},
               {in.weight_scale, in.weight_scale_size},
               {in.x, in.x_size},
               {in.positions, in.positions_size},
               {in.rope, in.rope_size},
               {NULL, q},
               {NULL, qs}};
  bool ok = true;
  for (size_t i = 0; ok && i < sizeof parts / sizeof *parts; i++)
    ok = bench_memory(b, &j->memory[i], parts[i].data, parts[i].size);
  bwt_wo_a_inputs_free(&in);
  j->config =
      (bw_wo_a_config){.shape = shape, .weight = j->memory[0], .weight_scale = j->memory[1]};
  return ok && bench_library_ok(bw_wo_a_plan_create(b->ranks.device[0], &j->config, &j->plan));
}

/* One rank that is all of a step: its columns are every column. */
static bool open_job(bench *b, job *j) {
  const bench_mail_case alone = {.tp_size = 1,
                                 .latent_dim = 3584,
                                 .hidden = 896,
                                 .max_rows = 8,
                                 .mode = BW_MAILBOX_LOCAL,
                                 .producers = true};
  if (!bench_mail_open(b, &j->mail, &alone))
    return false;
  j->mail.rows = 1;
  return DRIVER(StreamCreate(&j->stream, CU_STREAM_NON_BLOCKING)) && open_wo_a(b, j);
}

static void close_job(bench *b, job *j) {
  if (j->stream)
    (void)b->ranks.session.driver.StreamDestroy(j->stream);
  bw_wo_a_plan_destroy(j->plan);
  bench_release(b, j->memory, sizeof j->memory / sizeof *j->memory);
  bench_mail_close(b, &j->mail);
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static bool run_sample(bench *b, job *j, const char *name, sample *take) {
  double *each = calloc(b->replays, sizeof *each), ignored = 0;
  bool ok = each || bench_no_memory();
  ok = ok && take(b, j, &ignored); /* warm */
  for (uint32_t i = 0; ok && i < b->replays; i++)
    ok = take(b, j, &each[i]);
  if (ok) {
    qsort(each, b->replays, sizeof *each, ascending);
    const bench_time time = {each[b->replays / 2], each[b->replays / 10],
                             each[b->replays - 1 - b->replays / 10]};
    ok = bench_report_number(b, json_pack("{s:s, s:s}", "family", "host", "what", name), name,
                             &time);
  }
  free(each);
  return ok;
}

static int run_command(int argc, char **argv) {
  static const struct {
    const char *name;
    sample *take;
  } samples[] = {{"bundle open and verify, embedded", open_bundle},
                 {"wo_a plan of 96 tokens, kernels loaded", first_wo_a_plan},
                 {"wo_a plan of 96 tokens, kernels there", next_wo_a_plan},
                 {"up_proj plan of 8 rows, kernels there", next_up_proj_plan},
                 {"wo_a launch", launch_wo_a},
                 {"up_proj and lamport_copy launch", launch_step}};
  bench_options o = {0};
  const cli_option options[] = {BENCH_OPTIONS(&o)};
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, &o.family, 1, usage))
    return CLI_USAGE;
  static bench b;
  static job j;
  const int status = bench_open(&b, &o);
  if (status != CLI_OK)
    return status;
  bench_report_heads(&b, "call");
  bool ok = open_job(&b, &j);
  for (size_t i = 0; ok && i < sizeof samples / sizeof *samples; i++)
    ok = run_sample(&b, &j, samples[i].name, samples[i].take);
  close_job(&b, &j);
  return bench_close(&b, ok);
}

const cli_family cli_bench_host = {"host", usage, run_command};
