/* SPDX-License-Identifier: Apache-2.0
 *
 * Mailboxes between the processes of an MPI program, one device each: the example that
 * engines are shown, and the protocol with delays, rows that change, chains of steps and
 * replayed graphs among eight processes.  Without MPI everything here is skipped.
 */
#include "harness/command.h"
#include "harness/kernel.h"
#include "harness/program.h"
#include "harness/random.h"
#include "harness/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 8 };

static char folder[PATH_MAX], output[1 << 16];

/* ---- MPI --------------------------------------------------------------------------------- */

/* Whether mpicc and mpirun were there when the build was configured. */
static bool find_mpi(char mpicc[PATH_MAX], char mpirun[PATH_MAX]) {
  bwt_build_setting("MPICC", mpicc);
  bwt_build_setting("MPIRUN", mpirun);
  return *mpicc != '\0' && *mpirun != '\0';
}

#define NEED_MPI                                                                                   \
  char mpicc[PATH_MAX], mpirun[PATH_MAX];                                                          \
  if (!find_mpi(mpicc, mpirun))                                                                    \
  BWT_SKIP("no mpicc or no mpirun: a mailbox between the processes of an MPI program")

/* As root, with more processes than processors, within this machine; by variables, which
 * other makes of MPI ignore. */
static void let_mpi_run(void) {
  static const char *const settings[][2] = {
      {"OMPI_ALLOW_RUN_AS_ROOT", "1"},
      {"OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1"},
      {"OMPI_MCA_rmaps_base_oversubscribe", "1"},
      {"PRTE_MCA_rmaps_default_mapping_policy", ":oversubscribe"},
      {"OMPI_MCA_mpi_yield_when_idle", "1"},
      {"OMPI_MCA_btl", "self,vader"},
      {"OMPI_MCA_pml", "ob1"},
      {"OMPI_MCA_btl_vader_single_copy_mechanism", "none"},
      {"OMPI_MCA_plm_rsh_agent", "false"}, /* no other machine is started, nor ssh looked for */
  };
  for (size_t i = 0; i < BWT_COUNT(settings); i++)
    setenv(settings[i][0], settings[i][1], 0);
  char count[8];
  snprintf(count, sizeof count, "%d", RANKS);
  setenv("EMU_DEVICES", count, 1);
  setenv("EMU_PATIENCE", "100", 1); /* processes that have no processor to run on look stuck */
  unsetenv("NCCL_NVLS_ENABLE");
  unsetenv("BAREWARP_MULTICAST");
}

/* The program, compiled. */
static void build(const char *mpicc, const char *source, int kind, char program[PATH_MAX + 16]) {
  bwt_folder_make(folder);
  let_mpi_run();
  snprintf(program, PATH_MAX + 16, "%s/program", folder);
  bwt_compile(output, sizeof output, mpicc, source, program, kind);
}

#define EXAMPLE "tests/examples/mailbox_mpi.c"

/* ---- the example --------------------------------------------------------------------------- */

static const struct {
  int ranks;
  const char *prefix, *mode, *prints;
} examples[] = {
    {8, "", "multicast", "8 ranks, mode multicast, 6 steps, 0 wrong elements"},
    {8, "", "peers", "8 ranks, mode peers, 6 steps, 0 wrong elements"},
    {3, "", "", "3 ranks, mode multicast, 6 steps, 0 wrong elements"},
    {2, "BAREWARP_MULTICAST=0 ", "", "2 ranks, mode peers, 6 steps, 0 wrong elements"},
    {1, "", "", "1 ranks, mode local, 6 steps, 0 wrong elements"},
};

START_TEST(example) {
  NEED_MPI;
  char program[PATH_MAX + 16];
  build(mpicc, EXAMPLE, BWT_PROGRAM_OF_USERS, program);
  int status = bwt_command(output, sizeof output, "%s'%s' -n %d '%s' %s", examples[_i].prefix,
                           mpirun, examples[_i].ranks, program, examples[_i].mode);
  ck_assert_msg(status == 0 && strstr(output, examples[_i].prints) != NULL,
                "exit status %d, not \"%s\":\n%s", status, examples[_i].prints, output);
  bwt_folder_remove(folder);
}
END_TEST

/* What one rank forbids is every rank's error, in the same words, and nobody is left waiting. */
START_TEST(example_with_a_rank_that_says_no) {
  NEED_MPI;
  char program[PATH_MAX + 16];
  build(mpicc, EXAMPLE, BWT_PROGRAM_OF_USERS, program);
  int status = bwt_command(output, sizeof output,
                           "'%s' -n 2 '%s' multicast : -n 1 env BAREWARP_MULTICAST=0 '%s' "
                           "multicast : -n 1 '%s' multicast",
                           mpirun, program, program, program);
  ck_assert_msg(status != 0 && strstr(output, "no mailbox: ") != NULL &&
                    strstr(output, "rank 2") != NULL &&
                    strstr(output, "BAREWARP_MULTICAST") != NULL,
                "exit status %d:\n%s", status, output);
  bwt_folder_remove(folder);
}
END_TEST

/* ---- the protocol ------------------------------------------------------------------------- */

static const struct {
  const char *mode, *launches;
  int steps;
} runs[] = {{"multicast", "eager", 35},
            {"peers", "graph", 14},
            {"multicast", "graph", 14},
            {"peers", "eager", 35}};

/* _i: which of the runs, and with BW_FULL also the seed. */
START_TEST(protocol) {
  NEED_MPI;
  char program[PATH_MAX + 16], bundle[PATH_MAX], says[64];
  const int run = _i % (int)BWT_COUNT(runs);
  ck_assert_msg(bwt_build_file("test.bundle", bundle), "no test.bundle in the build");
  build(mpicc, "tests/mpi/protocol.c", BWT_PROGRAM_OF_TESTS, program);
  unsigned long long seed = bwt_mix(bwt_run_seed(), 6000 + (unsigned)_i);
  int status =
      bwt_command(output, sizeof output, "'%s' -n %d '%s' '%s' %llu %d %s %s", mpirun, RANKS,
                  program, bundle, seed, runs[run].steps, runs[run].mode, runs[run].launches);
  snprintf(says, sizeof says, "on each of %d ranks, 0 of them wrong", RANKS);
  ck_assert_msg(status == 0 && strstr(output, says) != NULL, "seed %llu, exit status %d:\n%s", seed,
                status, output);
  printf("%s, %s: %s", runs[run].mode, runs[run].launches, output);
  bwt_folder_remove(folder);
}
END_TEST

int main(void) {
  const int seeds = bwt_full() ? 5 : 1;
  const struct bwt_test tests[] = {
      BWT_LOOP("example", example, 0, (int)BWT_COUNT(examples), 200),
      BWT_TEST("example", example_with_a_rank_that_says_no, 200),
      BWT_LOOP("protocol", protocol, 0, seeds * (int)BWT_COUNT(runs), 300),
  };
  return bwt_suite_main("mailbox_mpi", tests, BWT_COUNT(tests));
}
