/* SPDX-License-Identifier: Apache-2.0
 *
 * What `barewarp bench` prints: a table for people, or one JSON object.
 */
#include "cli/bench.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

static json_t *time_json(const bench_time *t) {
  return json_pack("{s:f, s:f, s:f}", "median", t->median, "low", t->low, "high", t->high);
}

static json_t *ways_json(const bench_time times[BENCH_WAYS]) {
  json_t *all = json_object();
  for (int w = 0; w < BENCH_WAYS; w++)
    json_object_set_new(all, bench_ways[w].name, time_json(&times[w]));
  return all;
}

static int best_way(const bench_time times[BENCH_WAYS]) {
  int best = BENCH_NO_PDL;
  for (int w = 0; w < BENCH_WAYS; w++)
    if (times[w].median < times[best].median)
      best = w;
  return best;
}

/* ---- start and end --------------------------------------------------------------------------- */

static bool open_json(bench *b, const bench_options *options, const bench_time empty[BENCH_WAYS]) {
  char date[32];
  const time_t now = time(NULL);
  struct tm utc;
  bw_kernel_info first = {.ptxas = ""};
  if (bw_bundle_count(b->bundle) > 0)
    (void)bw_bundle_kernel(b->bundle, 0, &first);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  b->report = json_pack(
      "{s:s, s:s, s:s, s:b, s:s, s:i, s:s, s:s, s:I, s:I, s:I, s:f, s:o, s:[]}", "bench",
      options->family, "date", date, "device", b->info.name, "emulated", (int)b->info.emulated,
      "driver", b->choice.driver, "driver_version", b->info.driver_version, "arch", b->info.arch,
      "ptxas", first.ptxas, "seed", (json_int_t)(b->seed & INT64_MAX), "rotates_through_bytes",
      (json_int_t)b->cold_bytes, "replays", (json_int_t)b->replays, "read_rate_bytes_per_second",
      b->read_rate, "empty_us", ways_json(empty), "rows");
  return b->report != NULL || bench_no_memory();
}

static void open_table(const bench *b, const bench_time empty[BENCH_WAYS]) {
  printf("driver %s (%s)\ndevice %s, running %s\n", b->choice.driver, b->choice.why, b->info.name,
         b->info.arch);
  if (b->info.emulated)
    puts("these are times of an emulator on a CPU: they say nothing about a GPU");
  printf("seed   %llu\nreads  %.2f TB/s\n", (unsigned long long)b->seed, b->read_rate * 1e-12);
  printf("empty ");
  for (int w = 0; w < BENCH_WAYS; w++)
    printf(" %s %.2f", bench_ways[w].name, empty[w].median);
  puts("\n");
}

bool bench_report_open(bench *b, const bench_options *options) {
  bench_time empty[BENCH_WAYS];
  if (!bench_empty(b, empty))
    return false;
  if (b->json)
    return open_json(b, options, empty);
  open_table(b, empty);
  return true;
}

bool bench_report_close(bench *b) {
  if (!b->json)
    return true;
  const bool ok = json_dumpf(b->report, stdout, JSON_INDENT(1) | JSON_REAL_PRECISION(6)) == 0;
  putchar('\n');
  return ok || cli_error("bench", "the JSON could not be written") == CLI_OK;
}

/* ---- rows ---------------------------------------------------------------------- */

void bench_report_columns(const bench *b, const char *format, ...) {
  if (b->json)
    return;
  printf(
      "Median of %u replays, microseconds a launch: without PDL (none), and in a PDL chain whose\n"
      "kernels let dependents start at entry, after their wait, or late.  read: the share of the\n"
      "rate of reading that the best of them reaches.  floor: CTAs that only fetch their weights,\n"
      "without PDL and at best.\n\n",
      b->replays);
  va_list arguments;
  va_start(arguments, format);
  vprintf(format, arguments);
  va_end(arguments);
  printf(" %9s %8s %8s %8s %8s %6s %14s\n", "MB", "none", "entry", "wait", "late", "read", "floor");
}

bool bench_report_row(bench *b, json_t *facts, const char *label, double bytes,
                      const bench_time times[BENCH_WAYS], const bench_time *floor) {
  const int best = best_way(times);
  const double share = bytes / (times[best].median * 1e-6) / b->read_rate;
  if (b->json) {
    json_object_set_new(facts, "bytes", json_integer((json_int_t)bytes));
    json_object_set_new(facts, "us", ways_json(times));
    json_object_set_new(facts, "best", json_string(bench_ways[best].name));
    json_object_set_new(facts, "read_share", json_real(share));
    if (floor)
      json_object_set_new(facts, "floor_us", ways_json(floor));
    return json_array_append_new(json_object_get(b->report, "rows"), facts) == 0 ||
           bench_no_memory();
  }
  json_decref(facts);
  printf("%s %9.3f", label, bytes * 1e-6);
  for (int w = 0; w < BENCH_WAYS; w++)
    printf(" %8.2f", times[w].median);
  printf(" %5.0f%%", share * 100);
  if (floor)
    printf(" %6.2f /%6.2f", floor[BENCH_NO_PDL].median, floor[best_way(floor)].median);
  putchar('\n');
  fflush(stdout);
  return true;
}

void bench_report_heads(const bench *b, const char *label) {
  if (!b->json)
    printf("%-44s %10s %10s %10s\n", label, "median", "1/10", "9/10");
}

bool bench_report_number(bench *b, json_t *facts, const char *label, const bench_time *time) {
  if (b->json) {
    json_object_set_new(facts, "us", time_json(time));
    return json_array_append_new(json_object_get(b->report, "rows"), facts) == 0 ||
           bench_no_memory();
  }
  json_decref(facts);
  printf("%-44s %10.3f %10.3f %10.3f\n", label, time->median, time->low, time->high);
  fflush(stdout);
  return true;
}
