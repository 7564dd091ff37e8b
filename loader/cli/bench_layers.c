/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp bench layers`: the kernels of a whole decode step of one rank, in one graph: in
 * each layer wo_a, up_proj and lamport_copy, one after the other, all weights cold.
 */
#include "cli/bench_mailbox.h"
#include "cli/bench_wo_a.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char usage[] =
    "usage: barewarp bench layers [--rows LIST] [--layers N] [--groups G]\n"
    "           [--lora-rank R] [--tp N] [--latent L] [--hidden N]\n" BENCH_USAGE "\n"
    "wo_a of as many tokens as rows (G groups of 8 heads, R rows each), up_proj and\n"
    "lamport_copy of one rank in mode local, N layers in a graph; microseconds a graph.\n"
    "Defaults: rows 1,4,8, 61 layers (2 on the emulated driver), 2 groups, R = 1024, tp 8,\n"
    "L = 3584, N = 7168.\n";

typedef struct job {
  bench_wo_a wo_a;
  bench_mail mail;
  uint32_t layers;
} job;

/* One launch here is a whole step. */
static bool enqueue(bench *b, void *data, uint32_t r, uint32_t number, const struct bench_way *way,
                    CUstream stream) {
  job *j = data;
  (void)number;
  for (uint32_t i = 0; i < j->layers; i++)
    if (!bench_wo_a_launch(b, &j->wo_a, r, i, way, stream) ||
        !bench_mail_produce(b, &j->mail, r, i, way, stream) ||
        !bench_mail_consume(b, &j->mail, r, i, way, stream))
      return false;
  return true;
}

static bool prepare(bench *b, void *data, uint32_t r, CUstream stream) {
  return bench_mail_refill(b, &((job *)data)->mail, r, stream);
}

/* As in `bench step`: readers that wait first for launches at entry, the others for the rest. */
static bool measure(bench *b, job *j, const bench_mail_case *c, const cli_list *rows,
                    bench_time (*times)[BENCH_WAYS]) {
  const bench_chain chain = {.job = j, .launches = 1, .enqueue = enqueue, .prepare = prepare};
  bool ok = true;
  for (int early = 0; ok && early < 2; early++) {
    bench_mail_case one = *c;
    one.mailbox_flags = early ? BW_MAILBOX_COPY_WAITS_FIRST : 0;
    ok = bench_mail_open(b, &j->mail, &one);
    for (size_t i = 0; ok && i < rows->count; i++)
      for (int w = 0; ok && w < BENCH_WAYS; w++) {
        j->mail.rows = j->wo_a.tokens = rows->numbers[i];
        if ((w == BENCH_ENTRY) == early)
          ok = bench_measure(b, &chain, &bench_ways[w], &times[i][w]);
      }
    bench_mail_close(b, &j->mail);
  }
  return ok;
}

static bool report(bench *b, const job *j, const bench_mail_case *c, uint32_t rows,
                   const bench_time times[BENCH_WAYS]) {
  bench_wo_a wo_a = j->wo_a;
  char label[64];
  wo_a.tokens = rows;
  const double bytes = j->layers * (bench_wo_a_bytes(&wo_a) + bench_mail_bytes(c, rows));
  snprintf(label, sizeof label, "%4u %6u %4u %4u %6u %6u", rows, j->layers, wo_a.shape.groups,
           c->tp_size, c->latent_dim, c->hidden);
  json_t *facts = json_pack("{s:s, s:i, s:i, s:i, s:i, s:i, s:i, s:i}", "family", "layers", "rows",
                            (int)rows, "layers", (int)j->layers, "groups", (int)wo_a.shape.groups,
                            "lora_rank", (int)wo_a.shape.lora_rank, "tp", (int)c->tp_size, "latent",
                            (int)c->latent_dim, "hidden", (int)c->hidden);
  return bench_report_row(b, facts, label, bytes, times, NULL);
}

static bool run(bench *b, const bench_mail_case *c, uint64_t layers, const bw_wo_a_shape *shape,
                const cli_list *rows) {
  static bench_time times[BW_UP_PROJ_MAX_ROWS][BENCH_WAYS];
  static job j;
  j.layers = layers ? (uint32_t)layers : b->info.emulated ? 2 : 61;
  j.wo_a.layers = j.layers;
  j.wo_a.shape = *shape;
  bench_mail_case one = *c;
  one.steps = j.layers;
  bool ok = bench_wo_a_open(b, &j.wo_a) && measure(b, &j, &one, rows, times);
  for (size_t i = 0; ok && i < rows->count; i++)
    ok = report(b, &j, c, rows->numbers[i], times[i]);
  bench_wo_a_close(b, &j.wo_a);
  return ok;
}

static int run_command(int argc, char **argv) {
  bench_options o = {0};
  const char *m = NULL, *n = NULL, *g = NULL, *t = NULL, *l = NULL, *h = NULL, *k = NULL;
  const cli_option options[] = {BENCH_OPTIONS(&o),      {"--rows", &m, NULL},
                                {"--layers", &n, NULL}, {"--groups", &g, NULL},
                                {"--tp", &t, NULL},     {"--latent", &l, NULL},
                                {"--hidden", &h, NULL}, {"--lora-rank", &k, NULL}};
  uint64_t layers = 0, groups = 2, tp = 8, latent = 3584, hidden = 7168, rank = 1024;
  static cli_list rows;
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, &o.family, 1, usage) ||
      !cli_numbers("--rows", m ? m : "1,4,8", 1, BW_UP_PROJ_MAX_ROWS, &rows) ||
      (n && !cli_number("--layers", n, 1, 1000, &layers)) ||
      (g && !cli_number("--groups", g, 1, 1024, &groups)) ||
      (k && !cli_number("--lora-rank", k, 1, 65536, &rank)) ||
      (t && !cli_number("--tp", t, 1, BW_MAILBOX_MAX_RANKS, &tp)) ||
      (l && !cli_number("--latent", l, 1, 1 << 20, &latent)) ||
      (h && !cli_number("--hidden", h, 8, 1 << 20, &hidden)))
    return CLI_USAGE;
  if (rows.count > BW_UP_PROJ_MAX_ROWS || hidden % tp != 0) {
    cli_error("bench",
              "--rows has %zu numbers, must be at most %u; --hidden is %" PRIu64
              ", must be a multiple of --tp, %" PRIu64,
              rows.count, BW_UP_PROJ_MAX_ROWS, hidden, tp);
    return CLI_USAGE;
  }
  bench_mail_case c = {.tp_size = (uint32_t)tp,
                       .latent_dim = (uint32_t)latent,
                       .hidden = (uint32_t)hidden,
                       .mode = BW_MAILBOX_LOCAL,
                       .producers = true,
                       .consumers = true};
  for (size_t i = 0; i < rows.count; i++)
    c.max_rows = rows.numbers[i] > c.max_rows ? rows.numbers[i] : c.max_rows;
  static bench b;
  const int status = bench_open(&b, &o);
  if (status != CLI_OK)
    return status;
  bench_report_columns(&b, "%4s %6s %4s %4s %6s %6s", "M", "layers", "G", "tp", "L", "N");
  const bw_wo_a_shape shape = {.groups = (uint32_t)groups,
                               .heads_per_group = 8,
                               .lora_rank = (uint32_t)rank,
                               .max_tokens = c.max_rows};
  return bench_close(&b, run(&b, &c, layers, &shape, &rows));
}

const cli_family cli_bench_layers = {"layers", usage, run_command};
