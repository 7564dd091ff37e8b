/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp bench up_proj`, `bench lamport_copy` and `bench step`, which is both, one after
 * the other.
 */
#include "cli/bench_mailbox.h"
#include "harness/verify_up_proj.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

static const char up_proj_usage[] =
    "usage: barewarp bench up_proj [--rows LIST] [--tp LIST] [--latent L] [--hidden N]\n"
    "           [--mode local|peers]\n" BENCH_USAGE "\n"
    "up_proj alone, launched again and again, as `bench wo_a`.  Defaults: rows 1-8, tp 8,16, the\n"
    "model's L = 3584 and N = 7168, mode local.  Mode peers: every rank on a device of its own if\n"
    "there are tp of them, and the slowest counts; else rank 0 stores to tp mailboxes on one.\n";

static const char lamport_copy_usage[] =
    "usage: barewarp bench lamport_copy [--rows LIST] [--hidden N]\n" BENCH_USAGE "\n"
    "lamport_copy alone, from mailboxes that are full.  Defaults: rows 1-8, N = 7168.\n";

static const char step_usage[] =
    "usage: barewarp bench step [--rows LIST] [--tp LIST] [--latent L] [--hidden N]\n"
    "           [--mode local|peers]\n" BENCH_USAGE "\n"
    "up_proj and lamport_copy in turn: from the launch of a step to the next one's.  Defaults as\n"
    "of `bench up_proj`.  Mode local: one rank, into whose mailboxes the others' columns were put\n"
    "before.  Mode peers needs tp devices; the slowest rank counts.\n";

typedef struct kind {
  const char *name, *usage;
  bool producers, consumers;
} kind;

static const kind kinds[] = {{"up_proj", up_proj_usage, true, false},
                             {"lamport_copy", lamport_copy_usage, false, true},
                             {"step", step_usage, true, true}};

static bool enqueue(bench *b, void *job, uint32_t r, uint32_t number, const struct bench_way *way,
                    CUstream stream) {
  bench_mail *m = job;
  return (!m->c.producers || bench_mail_produce(b, m, r, number, way, stream)) &&
         (!m->c.consumers || bench_mail_consume(b, m, r, number, way, stream));
}

static bool prepare(bench *b, void *job, uint32_t r, CUstream stream) {
  return bench_mail_refill(b, job, r, stream);
}

/* A launch at entry needs readers that wait before they poll; the others are measured with
 * those that poll before. */
static bool measure(bench *b, const bench_mail_case *c, const cli_list *rows,
                    bench_time (*times)[BENCH_WAYS], uint32_t *launches, uint32_t *ranks) {
  static bench_mail m;
  bool ok = true;
  for (int early = 0; ok && early < 2; early++) {
    bench_mail_case one = *c;
    one.mailbox_flags = early ? BW_MAILBOX_COPY_WAITS_FIRST : 0;
    ok = bench_mail_open(b, &m, &one);
    *launches = m.launches;
    *ranks = m.ranks;
    const bench_chain chain = {.job = &m,
                               .ranks = m.ranks,
                               .launches = m.launches,
                               .enqueue = enqueue,
                               .prepare = prepare};
    for (size_t i = 0; ok && i < rows->count; i++)
      for (int w = 0; ok && w < BENCH_WAYS; w++) {
        m.rows = rows->numbers[i];
        if ((w == BENCH_ENTRY) == early)
          ok = bench_measure(b, &chain, &bench_ways[w], &times[i][w]);
      }
    bench_mail_close(b, &m);
  }
  return ok;
}

/* The CTAs of this row count, each only fetching its columns' weights; false where one would
 * not fit an SM. */
static bool has_floor(bench *b, const bench_mail_case *c, uint32_t rows, bool *ok,
                      bench_time floor[BENCH_WAYS]) {
  enum { MOST_SHARED = 200 * 1024 };
  static uint32_t known_columns, known_shard;
  static bench_time known[BENCH_WAYS];
  const uint32_t shard = c->hidden / c->tp_size;
  bw_up_proj_key key;
  *ok = bench_library_ok(bw_up_proj_dispatch(rows, shard, c->latent_dim, &key));
  const uint64_t bytes = *ok ? (uint64_t)key.outputs * c->latent_dim * 2 : 0;
  if (!*ok || key.outputs == 0 || bytes > MOST_SHARED || bytes % 16 != 0)
    return false;
  if (known_columns != key.outputs || known_shard != shard)
    *ok = bench_floor(b, shard / key.outputs, 1, (uint32_t)bytes, known);
  known_columns = *ok ? key.outputs : 0;
  known_shard = shard;
  memcpy(floor, known, sizeof known);
  return *ok;
}

static bool bench_case(bench *b, const kind *k, const bench_mail_case *c, const cli_list *rows) {
  static bench_time times[512][BENCH_WAYS];
  uint32_t launches = 0, ranks = 0;
  bool ok = measure(b, c, rows, times, &launches, &ranks);
  for (size_t i = 0; ok && i < rows->count; i++) {
    const uint32_t m = rows->numbers[i];
    bench_time floor[BENCH_WAYS];
    const bool floored = c->producers && !c->consumers && has_floor(b, c, m, &ok, floor);
    char label[64];
    snprintf(label, sizeof label, "%4u %4u %6u %6u %6s %5u", m, c->tp_size,
             c->producers ? c->latent_dim : 0, c->hidden, bwt_mode_name(c->mode), ranks);
    json_t *facts = json_pack("{s:s, s:i, s:i, s:i, s:i, s:s, s:i, s:i}", "family", k->name, "rows",
                              (int)m, "tp", (int)c->tp_size, "latent", (int)c->latent_dim, "hidden",
                              (int)c->hidden, "mode", bwt_mode_name(c->mode), "ranks_measured",
                              (int)ranks, "launches", (int)launches);
    ok = ok && bench_report_row(b, facts, label, bench_mail_bytes(c, m), times[i],
                                floored ? floor : NULL);
  }
  return ok;
}

/* ---- the command lines --------------------------------------------------------- */

typedef struct sizes {
  cli_list rows, tp;
  uint64_t latent, hidden;
  bw_mailbox_mode mode;
} sizes;

static bool read_sizes(const char *rows, const char *tp, const char *latent, const char *hidden,
                       const char *mode, const kind *k, sizes *s) {
  const uint32_t most = k->producers ? BW_UP_PROJ_MAX_ROWS : 1024;
  s->latent = 3584;
  s->hidden = 7168;
  s->mode = mode ? bwt_mode_find(mode) : BW_MAILBOX_LOCAL;
  if (!cli_numbers("--rows", rows ? rows : "1-8", 1, most, &s->rows) ||
      !cli_numbers("--tp",
                   tp             ? tp
                   : k->producers ? "8,16"
                                  : "8",
                   1, BW_MAILBOX_MAX_RANKS, &s->tp) ||
      (latent && !cli_number("--latent", latent, 1, 1 << 20, &s->latent)) ||
      (hidden && !cli_number("--hidden", hidden, 8, 1 << 20, &s->hidden)))
    return false;
  if (s->mode != BW_MAILBOX_LOCAL && s->mode != BW_MAILBOX_PEERS) {
    cli_error("bench", "--mode is '%s', must be local or peers", mode);
    return false;
  }
  for (size_t i = 0; i < s->tp.count; i++)
    if (s->hidden % s->tp.numbers[i] != 0) {
      cli_error("bench", "--hidden is %" PRIu64 ", must be a multiple of --tp, %u", s->hidden,
                s->tp.numbers[i]);
      return false;
    }
  return true;
}

static int run_command(int argc, char **argv) {
  bench_options o = {0};
  const char *rows = NULL, *hidden = NULL, *tp = NULL, *latent = NULL, *mode = NULL;
  const cli_option options[] = {BENCH_OPTIONS(&o),
                                {"--rows", &rows, NULL},
                                {"--hidden", &hidden, NULL},
                                /* not of lamport_copy */
                                {"--tp", &tp, NULL},
                                {"--latent", &latent, NULL},
                                {"--mode", &mode, NULL}};
  const kind *k = kinds;
  while (strcmp(k->name, argv[1]) != 0)
    k++;
  const size_t count = sizeof options / sizeof *options;
  static sizes s;
  if (!cli_parse(argc, argv, options, k->producers ? count : count - 3, &o.family, 1, k->usage) ||
      !read_sizes(rows, tp, latent, hidden, mode, k, &s))
    return CLI_USAGE;
  static bench b;
  const int status = bench_open(&b, &o);
  if (status != CLI_OK)
    return status;
  bench_report_columns(&b, "%4s %4s %6s %6s %6s %5s", "M", "tp", "L", "N", "mode", "ranks");
  bool ok = true;
  for (size_t i = 0; ok && i < s.tp.count; i++) {
    bench_mail_case c = {.tp_size = s.tp.numbers[i],
                         .latent_dim = (uint32_t)s.latent,
                         .hidden = (uint32_t)s.hidden,
                         .mode = s.mode,
                         .producers = k->producers,
                         .consumers = k->consumers};
    for (size_t m = 0; m < s.rows.count; m++)
      c.max_rows = s.rows.numbers[m] > c.max_rows ? s.rows.numbers[m] : c.max_rows;
    ok = bench_case(&b, k, &c, &s.rows);
  }
  return bench_close(&b, ok);
}

const cli_family cli_bench_up_proj = {"up_proj", up_proj_usage, run_command};
const cli_family cli_bench_lamport_copy = {"lamport_copy", lamport_copy_usage, run_command};
const cli_family cli_bench_step = {"step", step_usage, run_command};
