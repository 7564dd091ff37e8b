/* SPDX-License-Identifier: Apache-2.0
 *
 * `barewarp bench` as a user meets it.  Its numbers mean something on a GPU only; here every
 * family must run its chains to the end, report each case asked for, and say what it is.
 */
#include "harness/command.h"
#include "harness/kernel.h"
#include "harness/suite.h"

#include <stdlib.h>
#include <string.h>

static char program[PATH_MAX], output[1 << 20];

static void setup(void) {
  ck_assert_msg(bwt_build_file("bin/barewarp", program), "no command line in the build");
  setenv("EMU_CHECKS", "bounds", 1);
}

#define RUN(...) bwt_command(output, sizeof output, __VA_ARGS__)

static void assert_says(int status, int want, const char *words) {
  ck_assert_msg(status == want, "exit status %d, not %d:\n%s", status, want, output);
  ck_assert_msg(strstr(output, words) != NULL, "\"%s\" is not in:\n%s", words, output);
}

/* What the JSON of a run must say: for each row the facts that are asked for, and times that
 * are numbers above 0 in their order. */
static const char checker[] =
    "import json, sys\n"
    "r = json.load(sys.stdin)\n"
    "assert r['emulated'] is True and r['read_rate_bytes_per_second'] > 0, r\n"
    "ways = ['none', 'entry', 'after_wait', 'late']\n"
    "def times(t):\n"
    "    assert 0 < t['low'] <= t['median'] <= t['high'], t\n"
    "for row in r['rows']:\n"
    "    if row['family'] == 'host':\n"
    "        times(row['us'])\n"
    "        continue\n"
    "    assert sorted(row['us']) == sorted(ways) and row['bytes'] > 0, row\n"
    "    for w in ways: times(row['us'][w])\n"
    "    assert row['us'][row['best']]['median'] == min(row['us'][w]['median'] for w in ways)\n"
    "    for w in ways if 'floor_us' in row else []: times(row['floor_us'][w])\n"
    "names = sys.argv[1].split(',')\n"
    "print([[row[n] for n in names] for row in r['rows']])\n";

static const struct {
  const char *arguments, *facts, *says;
} runs[] = {
    {"wo_a --tokens 1,3 --groups 1,2 --lora-rank 128 --heads-per-group 2 --device sm_90",
     "groups,tokens,heads_per_group,bytes",
     "[[1, 1, 2, 137856], [1, 3, 2, 142208], [2, 1, 2, 275712], [2, 3, 2, 284416]]"},
    {"wo_a --tokens 2 --groups 1 --lora-rank 128 --heads-per-group 1", "groups,tokens", "[[1, 2]]"},
    {"up_proj --rows 1,6 --tp 2 --latent 3584 --hidden 32", "rows,mode,ranks_measured",
     "[[1, 'local', 1], [6, 'local', 1]]"},
    {"up_proj --rows 2 --tp 2 --latent 3584 --hidden 32 --mode peers", "rows,mode,ranks_measured",
     "[[2, 'peers', 2]]"},
    {"lamport_copy --rows 1,9 --hidden 64", "rows,hidden", "[[1, 64], [9, 64]]"},
    {"step --rows 1,3 --tp 2 --latent 3584 --hidden 32 --launches 5", "rows,ranks_measured",
     "[[1, 1], [3, 1]]"},
    {"step --rows 1 --tp 4 --latent 3584 --hidden 32 --mode peers --replays 2",
     "rows,ranks_measured,mode", "[[1, 4, 'peers']]"},
    {"layers --rows 1,2 --groups 1 --tp 2 --latent 3584 --hidden 32 --layers 1 --lora-rank 128 "
     "--device sm_90",
     "rows,layers,groups", "[[1, 1, 1], [2, 1, 1]]"},
    {"host --launches 2 --replays 1", "what",
     "[['bundle open and verify, embedded'], ['wo_a plan of 96 tokens, kernels loaded'], "
     "['wo_a plan of 96 tokens, kernels there'], ['up_proj plan of 8 rows, kernels there'], "
     "['wo_a launch'], ['up_proj and lamport_copy launch']]"},
};

START_TEST(reports_every_case) {
  setup();
  setenv("CHECKER", checker, 1);
  assert_says(RUN("'%s' bench %s --json | python3 -c \"$CHECKER\" %s", program, runs[_i].arguments,
                  runs[_i].facts),
              0, runs[_i].says);
}
END_TEST

START_TEST(says_what_it_is) {
  setup();
  assert_says(RUN("'%s' bench --help", program), 0, "usage: barewarp bench lamport_copy");
  assert_says(RUN("'%s' bench lamport_copy --rows 1 --hidden 64", program), 0,
              "they say nothing about a GPU");
  /* One device holds the rings of all ranks. */
  assert_says(RUN("EMU_DEVICES=1 '%s' bench up_proj --rows 1 --tp 2 --latent 3584 --hidden 32 "
                  "--mode peers --json | grep ranks_measured",
                  program),
              0, ": 1,");
}
END_TEST

START_TEST(refuses) {
  setup();
  static const struct {
    int status;
    const char *arguments, *says;
  } bad[] = {
      {2, "", "a family is needed: wo_a up_proj lamport_copy step layers host"},
      {2, "wo_b", "a family is needed"},
      {2, "wo_a --tokens 0", "--tokens is '0'"},
      {2, "wo_a --replays 0", "--replays is '0'"},
      {2, "wo_a --launches x", "--launches is 'x'"},
      {2, "up_proj --mode multicast", "--mode is 'multicast', must be local or peers"},
      {2, "up_proj --tp 3", "--hidden is 7168, must be a multiple of --tp, 3"},
      {2, "lamport_copy --tp 2", "unknown option '--tp'"},
      {2, "layers --layers 0", "--layers is '0'"},
      {2, "layers --tp 3", "--hidden is 7168, must be a multiple of --tp, 3"},
      {2, "host --tokens 3", "unknown option '--tokens'"},
      {1, "wo_a --lora-rank 100", "shape.lora_rank is 100"},
      {1, "wo_a --heads-per-group 3", "heads_per_group"},
      {2, "step --mode peers --tp 32", "--tp is '32'"},
      {1, "wo_a --driver /nonexistent.so", "no driver library at /nonexistent.so"},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const int status = RUN("EMU_DEVICES=1 '%s' bench %s", program, bad[i].arguments);
    assert_says(status, bad[i].status, bad[i].says);
  }
  assert_says(RUN("EMU_DEVICES=1 '%s' bench step --mode peers --tp 2", program), 1,
              "--mode peers needs a device for each of --tp, 2; there are 1");
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("runs", reports_every_case, 0, (int)BWT_COUNT(runs), 120),
      BWT_TEST("runs", says_what_it_is, 120),
      BWT_TEST("refuses", refuses, 120),
  };
  return bwt_suite_main("cli_bench", tests, BWT_COUNT(tests));
}
