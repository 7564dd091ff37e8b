/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp record`: what the kernels give for fixed operands, to a file; and `barewarp
 * replay`: the same cases once more, on whatever driver, compared with such a file.
 */
#include "harness/record.h"

#include "cli.h"
#include "cli/emulated.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char record_usage[] =
    "usage: barewarp record --output FILE [--driver cuda|emu|PATH] [--bundle FILE]\n"
    "           [--arch sm_100f|sm_90a] [--device SM] [--checks all|none|LIST]\n"
    "\n"
    "Runs fixed cases of wo_a and up_proj and writes for each the hash of its results and all\n"
    "their bits.  The last line printed is \"N passed, N failed\".\n";

static const char replay_usage[] =
    "usage: barewarp replay --input FILE [--output FILE] [--driver cuda|emu|PATH]\n"
    "           [--bundle FILE] [--arch sm_100f|sm_90a] [--device SM] [--checks all|none|LIST]\n"
    "\n"
    "Runs the cases of a record and compares.  Cases of wo_a whose machine code is another than\n"
    "the recorded are not compared: their bits may differ.  Those of up_proj always are.\n"
    "  --output FILE    the record again, with all bits of the cases that differ, and of every\n"
    "                   sixteenth, and with the other hash where there is one\n"
    "The last line printed is \"N passed, N failed\".\n";

enum { KEPT_ONE_IN = 16 };

typedef struct job {
  struct bwt_ranks ranks;
  bw_bundle *bundle;
  cli_choice choice;
  size_t passed, failed, skipped, line;
} job;

/* ---- opening ------------------------------------------------------------------------------- */

static bool open_job(job *j, const char *driver, const char *path, const char *command) {
  static struct bwt_text why;
  if (bw_bundle_open(path, &j->bundle) != BW_OK)
    return cli_library_error(command) == CLI_OK;
  cli_choose_driver(j->bundle, driver, &j->choice);
  if (bwt_ranks_open(&j->ranks, j->choice.driver, j->bundle, &why))
    return true;
  cli_error(command, "%s", why.chars);
  bw_bundle_close(j->bundle);
  return false;
}

static void close_job(job *j) {
  bwt_ranks_close(&j->ranks);
  bw_bundle_close(j->bundle);
}

static int finish(const job *j) {
  if (j->skipped > 0)
    printf("%zu skipped: the record is of another cubin\n", j->skipped);
  printf("%zu passed, %zu failed\n", j->passed, j->failed);
  return j->failed == 0 && j->passed > 0 ? CLI_OK : CLI_FAILED;
}

/* ---- record ---------------------------------------------------------------------------------- */

static void print_head(const job *j, FILE *file) {
  char date[32];
  const time_t now = time(NULL);
  struct tm utc;
  bw_device_info info;
  bw_kernel_info first = {.ptxas = ""};
  (void)bw_device_query(j->ranks.session.device, &info);
  (void)bw_bundle_kernel(j->bundle, 0, &first);
  strftime(date, sizeof date, "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&now, &utc));
  fprintf(file,
          "# record: 1\n# card: %s\n# arch: %s\n# driver: %d\n# ptxas: %s\n# date: %s\n"
          "# command: barewarp record --driver %s\n",
          info.name, info.arch, info.driver_version, first.ptxas, date, j->choice.driver);
}

static bool record_all(job *j, FILE *file) {
  const size_t count = bwt_record_cases(NULL);
  struct bwt_record *records = calloc(count, sizeof *records);
  if (!records)
    return cli_error("record", "out of memory") == CLI_OK;
  (void)bwt_record_cases(records);
  print_head(j, file);
  for (size_t i = 0; i < count; i++) {
    static struct bwt_text why;
    why.length = 0;
    if (bwt_record_identify(&j->ranks.session, &records[i], &why) &&
        bwt_record_run(&j->ranks, &records[i], &why)) {
      bwt_record_print(file, &records[i], true);
      j->passed++;
    } else {
      char name[160];
      bwt_record_name(&records[i], name, sizeof name);
      printf("%s: %s\n", name, why.chars);
      j->failed++;
    }
    free(records[i].bits);
  }
  free(records);
  return true;
}

int cli_record(int argc, char **argv) {
  const char *output = NULL, *driver = NULL, *path = NULL;
  cli_emulated emulated = {0};
  const cli_option options[] = {{"--output", &output, NULL},
                                {"--driver", &driver, NULL},
                                {"--bundle", &path, NULL},
                                {"--arch", &emulated.arch, NULL},
                                {"--device", &emulated.device, NULL},
                                {"--checks", &emulated.checks, NULL}};
  static job j;
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, NULL, 0, record_usage))
    return CLI_USAGE;
  if (!output) {
    fprintf(stderr, "barewarp record: --output is needed\n%s", record_usage);
    return CLI_USAGE;
  }
  if (!cli_emulated_configure(&emulated, argv[0]))
    return CLI_USAGE;
  if (!open_job(&j, driver, path, argv[0]))
    return CLI_FAILED;
  FILE *file = fopen(output, "w");
  if (!file)
    cli_error(argv[0], "cannot write %s", output);
  bool ok = file && record_all(&j, file);
  if (file && fclose(file) != 0)
    ok = cli_error(argv[0], "cannot write %s", output) == CLI_OK;
  close_job(&j);
  return ok ? finish(&j) : CLI_FAILED;
}

/* ---- replay -------------------------------------------------------------------- */

/* How many bytes differ, if the record has them all. */
static void print_difference(const struct bwt_record *was, const struct bwt_record *is) {
  char name[160];
  size_t count = 0, first = 0;
  bwt_record_name(was, name, sizeof name);
  for (size_t i = was->bits && was->size == is->size ? was->size : 0; i-- > 0;)
    if (was->bits[i] != is->bits[i]) {
      count++;
      first = i;
    }
  printf("%s: differs from the record", name);
  if (count > 0)
    printf(" in %zu of %zu bytes, first in byte %zu: 0x%02x, recorded 0x%02x", count, was->size,
           first, is->bits[first], was->bits[first]);
  putchar('\n');
}

/* One case; the record gets the other hash if it differs. */
static bool replay_case(job *j, struct bwt_record *was, bool *differs) {
  static struct bwt_text why;
  struct bwt_record is = *was;
  why.length = 0;
  *differs = false;
  if (!bwt_record_identify(&j->ranks.session, &is, &why)) {
    printf("%s\n", why.chars);
    return false;
  }
  if (was->wo_a && is.cubin != was->cubin) {
    j->skipped++;
    return true;
  }
  const bool ok = bwt_record_run(&j->ranks, &is, &why);
  if (!ok)
    printf("%s\n", why.chars);
  *differs = ok && is.hash != was->hash;
  if (*differs && is.hash != was->emulated)
    print_difference(was, &is);
  const bool known = *differs && is.hash == was->emulated;
  was->emulated = *differs ? is.hash : 0;
  j->passed += ok && (!*differs || known);
  j->failed += ok && *differs && !known;
  free(is.bits);
  return ok;
}

static bool replay_lines(job *j, FILE *in, FILE *out) {
  char *line = NULL;
  size_t room = 0, cases = 0;
  bool ok = true;
  while (ok && getline(&line, &room, in) > 0) {
    struct bwt_record record;
    bool differs = false;
    j->line++;
    if (line[0] == '#') {
      if (out)
        fputs(line, out);
      continue;
    }
    if (!bwt_record_parse(line, &record)) {
      ok = cli_error("replay", "line %zu is no case of a record", j->line) == CLI_OK;
    } else if (!replay_case(j, &record, &differs)) {
      j->failed++;
    }
    if (ok && out)
      bwt_record_print(out, &record, differs || cases++ % KEPT_ONE_IN == 0);
    free(record.bits);
  }
  free(line);
  return ok;
}

int cli_replay(int argc, char **argv) {
  const char *input = NULL, *output = NULL, *driver = NULL, *path = NULL;
  cli_emulated emulated = {0};
  const cli_option options[] = {
      {"--input", &input, NULL},           {"--output", &output, NULL},
      {"--driver", &driver, NULL},         {"--bundle", &path, NULL},
      {"--arch", &emulated.arch, NULL},    {"--device", &emulated.device, NULL},
      {"--checks", &emulated.checks, NULL}};
  static job j;
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, NULL, 0, replay_usage))
    return CLI_USAGE;
  if (!input) {
    fprintf(stderr, "barewarp replay: --input is needed\n%s", replay_usage);
    return CLI_USAGE;
  }
  if (!cli_emulated_configure(&emulated, argv[0]))
    return CLI_USAGE;
  FILE *in = fopen(input, "r"), *out = NULL;
  if (!in)
    return cli_error(argv[0], "cannot read %s", input);
  bool ok = open_job(&j, driver, path, argv[0]);
  if (ok) {
    out = output ? fopen(output, "w") : NULL;
    ok = !output || out || cli_error(argv[0], "cannot write %s", output) == CLI_OK;
    ok = ok && replay_lines(&j, in, out);
    if (out && fclose(out) != 0)
      ok = cli_error(argv[0], "cannot write %s", output) == CLI_OK;
    close_job(&j);
  }
  fclose(in);
  return ok ? finish(&j) : CLI_FAILED;
}
