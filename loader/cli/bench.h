/* SPDX-License-Identifier: Apache-2.0
 *
 * What the families of `barewarp bench` share: options, the devices, a chain of launches
 * timed as a CUDA graph, what it is held against, and the output as a table or as JSON.
 *
 * A chain is the same kernel, or the same few, launched again and again by every rank over
 * operands that rotate through more memory than the L2 holds.  It is captured into a graph;
 * the graph is replayed, and the time of a replay by events around it is divided by the
 * launches.  With several ranks the slowest counts, replay by replay.
 */
#ifndef BW_CLI_BENCH_H
#define BW_CLI_BENCH_H

#include "cli.h"
#include "cli/emulated.h"
#include "harness/random.h"
#include "harness/ranks.h"

#include <jansson.h>

/* ---- options ------------------------------------------------------------------------- */

/* What every family takes; a family's table of options begins with BENCH_OPTIONS(o). */
typedef struct bench_options {
  const char *family; /* the word behind `bench` */
  const char *driver, *path, *seed, *launches, *replays;
  bool json;
  cli_emulated emulated;
} bench_options;

#define BENCH_OPTIONS(o)                                                                           \
  {"--driver", &(o)->driver, NULL}, {"--bundle", &(o)->path, NULL}, {"--seed", &(o)->seed, NULL},  \
      {"--launches", &(o)->launches, NULL}, {"--replays", &(o)->replays, NULL},                    \
      {"--json", NULL, &(o)->json}, {"--arch", &(o)->emulated.arch, NULL},                         \
      {"--device", &(o)->emulated.device, NULL}, {                                                 \
    "--checks", &(o)->emulated.checks, NULL                                                        \
  }

#define BENCH_USAGE                                                                                \
  "           [--launches N] [--replays N] [--seed N] [--json]\n"                                  \
  "           [--driver cuda|emu|PATH] [--bundle FILE] [--arch sm_100f|sm_90a]\n"                  \
  "           [--device sm_100|sm_103|sm_90] [--checks all|none|LIST]\n"

/* ---- a run ----------------------------------------------------------------------------- */

typedef struct bench {
  struct bwt_ranks ranks;
  bw_bundle *bundle;
  cli_choice choice;
  bw_device_info info; /* of device 0 */
  uint64_t seed;
  uint32_t launches; /* of a graph, at least; 0: as the family thinks */
  uint32_t replays;  /* timed */
  size_t cold_bytes; /* operands rotate through at least so many */
  double read_rate;  /* bytes a second, measured at the start */
  CUmodule kernels;  /* tests/kernels/bench.ptx, on device 0 */
  CUdeviceptr sink;  /* u32, where those kernels would leave what they found */
  bool json;
  json_t *report; /* NULL unless json */
} bench;

/* Opens bundle and devices as the options say, measures the rate of reading, starts the
 * output.  CLI_OK, else the exit status after a message; then nothing is left open. */
int bench_open(bench *b, const bench_options *options);
/* Ends the output and releases everything; returns the exit status. */
int bench_close(bench *b, bool ok);

/* What failed, in the driver's or the library's words; both return false for an error. */
bool bench_driver_ok(bench *b, CUresult result, const char *what);
bool bench_library_ok(bw_status status);
static inline bool bench_no_memory(void) {
  (void)cli_error("bench", "out of memory");
  return false;
}

/* Memory of the device whose context is current, filled with `data` if there is any. */
bool bench_memory(bench *b, CUdeviceptr *address, const void *data, size_t bytes);
/* Frees what is not 0. */
void bench_release(bench *b, CUdeviceptr *addresses, size_t count);
bool bench_enter(bench *b, uint32_t device);
/* How many operands of so many bytes to rotate through; 2 on the emulated driver. */
uint32_t bench_rotation(const bench *b, size_t bytes);
/* The launches of a graph: so many or a few more, a multiple of `multiple`. */
uint32_t bench_launches(const bench *b, uint32_t wanted, uint32_t multiple);

/* ---- timing (bench_time.c) ---------------------------------------------------------------- */

/* How launches follow each other. */
enum { BENCH_NO_PDL, BENCH_ENTRY, BENCH_AFTER_WAIT, BENCH_LATE, BENCH_WAYS };
extern const struct bench_way {
  const char *name; /* "none", "entry", "after_wait", "late": in the JSON */
  uint32_t flags;   /* BW_LAUNCH_* */
  uint32_t trigger; /* as the kernels of bench.ptx take it */
} bench_ways[BENCH_WAYS];

typedef struct bench_chain {
  void *job;
  uint32_t ranks;    /* rank r on device r; 0 stands for 1 */
  uint32_t launches; /* what a replay's time is divided by */
  /* Enqueues launch `number` of rank r, whose context is current. */
  bool (*enqueue)(bench *b, void *job, uint32_t r, uint32_t number, const struct bench_way *way,
                  CUstream stream);
  /* NULL, or what must be done before each replay, not timed. */
  bool (*prepare)(bench *b, void *job, uint32_t r, CUstream stream);
} bench_chain;

typedef struct bench_time {
  double median, low, high; /* microseconds a launch; low and high: a tenth and nine of ten */
} bench_time;

bool bench_measure(bench *b, const bench_chain *chain, const struct bench_way *way,
                   bench_time *time);

/* ---- what it is held against (bench_kernels.c) --------------------------------------------- */

bool bench_kernels_open(bench *b);
void bench_kernels_close(bench *b);
/* Bytes a second that a kernel which does nothing else reads. */
bool bench_read_rate(bench *b);
/* What a launch costs that does nothing. */
bool bench_empty(bench *b, bench_time times[BENCH_WAYS]);
/* What a launch of `ctas` CTAs in clusters costs that only fetch `bytes` bytes each. */
bool bench_floor(bench *b, uint32_t ctas, uint32_t cluster, uint32_t bytes,
                 bench_time times[BENCH_WAYS]);

/* ---- output (bench_report.c) ----------------------------------------------------------------- */

/* Starts it: what ran where. */
bool bench_report_open(bench *b, const bench_options *options);
bool bench_report_close(bench *b);
/* Names the columns in front of the times in a table; nothing for JSON. */
void bench_report_columns(const bench *b, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/* A row: `facts` (taken over) are the case in JSON, `label` the same for the table; bytes:
 * what one launch must read and write, each once; floor may be NULL. */
bool bench_report_row(bench *b, json_t *facts, const char *label, double bytes,
                      const bench_time times[BENCH_WAYS], const bench_time *floor);
/* The same for rows of one number, and such a row. */
void bench_report_heads(const bench *b, const char *label);
bool bench_report_number(bench *b, json_t *facts, const char *label, const bench_time *time);

#endif
