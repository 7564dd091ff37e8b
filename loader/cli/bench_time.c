/* SPDX-License-Identifier: Apache-2.0
 *
 * A chain of launches timed as a graph; see bench.h.
 */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>

const struct bench_way bench_ways[BENCH_WAYS] = {
    {"none", BW_LAUNCH_NO_PDL, 0},
    {"entry", BW_LAUNCH_TRIGGER_ENTRY, 1},
    {"after_wait", BW_LAUNCH_TRIGGER_AFTER_WAIT, 2},
    {"late", BW_LAUNCH_TRIGGER_LATE, 0},
};

typedef struct timed_rank {
  CUstream stream;
  CUevent start, end;
  CUgraphExec graph;
} timed_rank;

typedef struct timed {
  const bench_chain *chain;
  const struct bench_way *way;
  uint32_t ranks;
  timed_rank rank[BW_MAILBOX_MAX_RANKS];
} timed;

#define DRIVER(call) bench_driver_ok(b, b->ranks.session.driver.call, #call)

static bool capture(bench *b, const timed *t, uint32_t r, timed_rank *k) {
  CUgraph graph;
  if (!DRIVER(StreamBeginCapture(k->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)))
    return false;
  bool ok = true;
  for (uint32_t i = 0; ok && i < t->chain->launches; i++)
    ok = t->chain->enqueue(b, t->chain->job, r, i, t->way, k->stream);
  const bool ended = DRIVER(StreamEndCapture(k->stream, &graph));
  if (!ended)
    return false;
  ok = ok && DRIVER(GraphInstantiateWithFlags(&k->graph, graph, 0));
  return DRIVER(GraphDestroy(graph)) && ok;
}

static bool open_rank(bench *b, timed *t, uint32_t r) {
  timed_rank *k = &t->rank[r];
  return bench_enter(b, r) && DRIVER(StreamCreate(&k->stream, CU_STREAM_NON_BLOCKING)) &&
         DRIVER(EventCreate(&k->start, CU_EVENT_DEFAULT)) &&
         DRIVER(EventCreate(&k->end, CU_EVENT_DEFAULT)) && capture(b, t, r, k);
}

static void close_rank(bench *b, timed *t, uint32_t r) {
  const struct bwt_driver *d = &b->ranks.session.driver;
  timed_rank *k = &t->rank[r];
  if (!bench_enter(b, r))
    return;
  if (k->graph)
    (void)d->GraphExecDestroy(k->graph);
  if (k->start)
    (void)d->EventDestroy(k->start);
  if (k->end)
    (void)d->EventDestroy(k->end);
  if (k->stream)
    (void)d->StreamDestroy(k->stream);
}

/* Everything ready on all ranks, then all of them started, then the slowest's time. */
static bool replay(bench *b, timed *t, double *microseconds) {
  for (uint32_t r = 0; r < t->ranks; r++)
    if (!bench_enter(b, r) ||
        (t->chain->prepare && !t->chain->prepare(b, t->chain->job, r, t->rank[r].stream)) ||
        !DRIVER(StreamSynchronize(t->rank[r].stream)))
      return false;
  for (uint32_t r = 0; r < t->ranks; r++) {
    const timed_rank *k = &t->rank[r];
    if (!bench_enter(b, r) || !DRIVER(EventRecord(k->start, k->stream)) ||
        !DRIVER(GraphLaunch(k->graph, k->stream)) || !DRIVER(EventRecord(k->end, k->stream)))
      return false;
  }
  *microseconds = 0;
  for (uint32_t r = 0; r < t->ranks; r++) {
    float milliseconds = 0;
    if (!DRIVER(EventSynchronize(t->rank[r].end)) ||
        !DRIVER(EventElapsedTime(&milliseconds, t->rank[r].start, t->rank[r].end)))
      return false;
    const double each = (double)milliseconds * 1e3 / t->chain->launches;
    *microseconds = each > *microseconds ? each : *microseconds;
  }
  return true;
}

static int ascending(const void *a, const void *b) {
  const double x = *(const double *)a, y = *(const double *)b;
  return (x > y) - (x < y);
}

static bool replays(bench *b, timed *t, bench_time *time) {
  enum { WARM_UP = 3 };
  const uint32_t warm_up = b->info.emulated ? 0 : WARM_UP;
  double *each = calloc(b->replays, sizeof *each), ignored;
  bool ok = each || bench_no_memory();
  for (uint32_t i = 0; ok && i < warm_up; i++)
    ok = replay(b, t, &ignored);
  for (uint32_t i = 0; ok && i < b->replays; i++)
    ok = replay(b, t, &each[i]);
  if (ok) {
    qsort(each, b->replays, sizeof *each, ascending);
    time->median = each[b->replays / 2];
    time->low = each[b->replays / 10];
    time->high = each[b->replays - 1 - b->replays / 10];
  }
  free(each);
  return ok;
}

bool bench_measure(bench *b, const bench_chain *chain, const struct bench_way *way,
                   bench_time *time) {
  timed t = {.chain = chain, .way = way, .ranks = chain->ranks ? chain->ranks : 1};
  bool ok = true;
  for (uint32_t r = 0; ok && r < t.ranks; r++)
    ok = open_rank(b, &t, r);
  ok = ok && replays(b, &t, time);
  for (uint32_t r = 0; r < t.ranks; r++)
    close_rank(b, &t, r);
  return bench_enter(b, 0) && ok;
}
