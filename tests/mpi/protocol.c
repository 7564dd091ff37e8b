/* SPDX-License-Identifier: Apache-2.0
 *
 * One of the processes among which tests/suites/test_mailbox_mpi.c has mpirun spread the
 * mailbox protocol: each drives one device, and they meet in the rounds of set-up and, for
 * the verdict, in the end.
 *
 *   mpirun -n RANKS protocol BUNDLE SEED STEPS multicast|peers eager|graph
 *
 * Ranks whose step is wrong, or that were told of no progress, say so; the exit status is 0
 * when all are right.
 */
#include "harness/protocol.h"
#include "harness/random.h"
#include "harness/verify_up_proj.h"

#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SHARD = 16, LATENT = 256, ROWS = 8, CHAIN = 7 };

static bool gather(const void *mine, void *all) {
  return MPI_Allgather(mine, BW_MAILBOX_BLOB_SIZE, MPI_BYTE, all, BW_MAILBOX_BLOB_SIZE, MPI_BYTE,
                       MPI_COMM_WORLD) == MPI_SUCCESS;
}

int main(int argc, char **argv) {
  static struct bwt_protocol_result result;
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (argc != 6) {
    (void)fprintf(stderr, "usage: protocol BUNDLE SEED STEPS multicast|peers eager|graph\n");
    MPI_Abort(MPI_COMM_WORLD, 2);
  }
  struct bwt_protocol p = {.ranks = (uint32_t)ranks,
                           .hidden = (uint32_t)ranks * SHARD,
                           .latent_dim = LATENT,
                           .rows = ROWS,
                           .mode = bwt_mode_find(argv[4]),
                           .chain = CHAIN,
                           .delays = 4,
                           .seed = strtoull(argv[2], NULL, 10),
                           .steps = (uint32_t)strtoul(argv[3], NULL, 10),
                           .graph = strcmp(argv[5], "graph") == 0,
                           .own_rank = (uint32_t)rank,
                           .gather = gather};
  char seed[24]; /* another schedule on each rank */
  (void)snprintf(seed, sizeof seed, "%u", (unsigned)(bwt_mix(p.seed, 100 + p.own_rank) >> 40));
  (void)setenv("EMU_SEED", seed, 1);

  int wrong = bw_bundle_open(argv[1], &p.bundle) != BW_OK || !bwt_protocol_run(&p, &result);
  if (wrong)
    (void)fprintf(stderr, "rank %d: %s%s\n", rank, result.why.chars,
                  p.bundle == NULL ? bw_last_error() : "");
  int all_wrong = 0;
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_INT, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%u steps on each of %d ranks, %d of them wrong\n", result.steps, ranks, all_wrong);
  bw_bundle_close(p.bundle);
  MPI_Finalize();
  return all_wrong != 0;
}
