/* SPDX-License-Identifier: Apache-2.0
 *
 * How an engine with one process a GPU sets up a mailbox and takes steps through it: the
 * blobs of the rounds are gathered over MPI, and after that no rank talks to another but
 * through the mailbox.
 *
 *   mpicc mailbox_mpi.c -lbarewarp -lzstd -l:libcuda.so.1 -o mailbox_mpi
 *   mpirun -n 8 ./mailbox_mpi [multicast|peers]
 *
 * Each rank has 32 columns of every row.  The numbers are chosen so that the result can be
 * checked by hand: latent is 1 and the weights are 1/256, so that the product is 7 with the
 * latent dimension of 1792; to this comes `shared`, another one for each rank and step.
 */
#include <barewarp.h>
#include <cuda.h>
#include <mpi.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LATENT = 1792, SHARD = 32, MAX_ROWS = 4, STEPS = 6 };

/* ---- errors ---------------------------------------------------------------------------- */

/* Ends the program on every rank: for failures that only this one knows of. */
static void give_up(const char *call, const char *why) {
  (void)fprintf(stderr, "%s: %s\n", call, why);
  MPI_Abort(MPI_COMM_WORLD, 1);
}

static void check_bw(bw_status status, const char *call) {
  if (status != BW_OK)
    give_up(call, bw_last_error());
}

static void check_cu(CUresult result, const char *call) {
  const char *name = "unknown";
  if (result == CUDA_SUCCESS)
    return;
  (void)cuGetErrorName(result, &name);
  give_up(call, name);
}

#define BW(call) check_bw(call, #call)
#define CU(call) check_cu(call, #call)

/* ---- device memory ----------------------------------------------------------------------- */

/* `count` bf16 of one value, given as its bits. */
static CUdeviceptr filled(uint16_t value, size_t count) {
  CUdeviceptr p;
  CU(cuMemAlloc(&p, count * 2));
  CU(cuMemsetD16(p, value, count));
  CU(cuCtxSynchronize()); /* a fill may be asynchronous, and streams do not wait for it */
  return p;
}

/* An integer of 0..255 as bf16, whose 8 significant bits hold it. */
static uint16_t bf16(unsigned value) {
  float as_float = (float)value;
  uint32_t bits;
  memcpy(&bits, &as_float, sizeof bits);
  return (uint16_t)(bits >> 16);
}

/* ---- set-up ---------------------------------------------------------------------------- */

/* The GPU of this process: its number among the processes of its node. */
static CUdevice own_device(void) {
  MPI_Comm node;
  CUdevice device;
  int number, count;
  MPI_Comm_split_type(MPI_COMM_WORLD, MPI_COMM_TYPE_SHARED, 0, MPI_INFO_NULL, &node);
  MPI_Comm_rank(node, &number);
  MPI_Comm_free(&node);
  CU(cuDeviceGetCount(&count));
  if (number >= count)
    give_up("device", "there are more processes on this node than GPUs");
  CU(cuDeviceGet(&device, number));
  return device;
}

/* The rounds.  Their number is the same on every rank, and a failure of one is the error of
 * all in the round after it: so all come out here, with the same status. */
static bw_status set_up(bw_mailbox *mailbox, int ranks) {
  unsigned char mine[BW_MAILBOX_BLOB_SIZE], all[BW_MAILBOX_MAX_RANKS][BW_MAILBOX_BLOB_SIZE];
  bw_status status = bw_mailbox_round(mailbox, NULL, 0, mine);
  while (status == BW_MORE) {
    MPI_Allgather(mine, sizeof mine, MPI_BYTE, all, sizeof mine, MPI_BYTE, MPI_COMM_WORLD);
    status = bw_mailbox_round(mailbox, all, (size_t)ranks, mine);
  }
  return status;
}

/* ---- steps ------------------------------------------------------------------------------- */

static unsigned shared_value(int rank, unsigned step) {
  return 8 * (unsigned)rank + step;
}

/* What the rank got in a step, compared word for word. */
static unsigned wrong_elements(CUdeviceptr out, int ranks, unsigned step, uint32_t rows) {
  static uint16_t got[MAX_ROWS * BW_MAILBOX_MAX_RANKS * SHARD];
  uint32_t hidden = (uint32_t)ranks * SHARD;
  unsigned wrong = 0;
  CU(cuMemcpyDtoH(got, out, (size_t)rows * hidden * 2));
  for (uint32_t i = 0; i < rows * hidden; i++)
    wrong += got[i] != bf16(7 + shared_value((int)(i % hidden / SHARD), step));
  return wrong;
}

/* An engine's layers, in a stream: nothing between the ranks but what the kernels store. */
static unsigned take_steps(bw_device *device, bw_mailbox *mailbox, int rank, int ranks) {
  const uint32_t hidden = (uint32_t)ranks * SHARD;
  bw_up_proj_plan *plan;
  CUstream stream;
  CUdeviceptr latent = filled(bf16(1), (size_t)MAX_ROWS * LATENT);
  CUdeviceptr weight = filled(0x3b80, (size_t)SHARD * LATENT); /* 2^-8 */
  CUdeviceptr shared[STEPS], out[STEPS];
  const bw_up_proj_config config = {
      .shape = {LATENT, hidden, (uint32_t)ranks, (uint32_t)rank, MAX_ROWS},
      .weight = weight,
      .mailbox = mailbox};
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
  BW(bw_up_proj_plan_create(device, &config, &plan));
  for (unsigned i = 0; i < STEPS; i++) {
    shared[i] = filled(bf16(shared_value(rank, i)), (size_t)MAX_ROWS * SHARD);
    out[i] = filled(0xffff, (size_t)MAX_ROWS * hidden);
  }
  for (unsigned i = 0; i < STEPS; i++) {
    const uint32_t rows = 1 + i % MAX_ROWS; /* the same on every rank */
    const bw_up_proj_args produce = {
        .latent = latent, .shared = shared[i], .shared_row_stride = SHARD, .rows = rows};
    const bw_lamport_copy_args consume = {.out = out[i], .rows = rows};
    BW(bw_up_proj_launch(plan, &produce, stream));
    BW(bw_lamport_copy_launch(mailbox, &consume, stream));
  }
  CU(cuStreamSynchronize(stream));
  unsigned wrong = 0;
  for (unsigned i = 0; i < STEPS; i++)
    wrong += wrong_elements(out[i], ranks, i, 1 + i % MAX_ROWS);
  bw_up_proj_plan_destroy(plan);
  return wrong;
}

static bw_mailbox_mode mode_of(const char *name) {
  if (name && strcmp(name, "multicast") == 0)
    return BW_MAILBOX_MULTICAST;
  if (name && strcmp(name, "peers") == 0)
    return BW_MAILBOX_PEERS;
  return BW_MAILBOX_AUTO; /* multicast where that is allowed and possible, else peers */
}

int main(int argc, char **argv) {
  int rank, ranks;
  MPI_Init(&argc, &argv);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  if (ranks > (int)BW_MAILBOX_MAX_RANKS)
    give_up("ranks", "a mailbox has 16 at most");

  /* What the engine has: a context on this process's GPU. */
  CUcontext context;
  CU(cuInit(0));
  CU(cuDevicePrimaryCtxRetain(&context, own_device()));
  CU(cuCtxSetCurrent(context));

  bw_bundle *bundle;
  bw_device *device;
  bw_mailbox *mailbox;
  const bw_mailbox_config config = {.hidden = (uint32_t)ranks * SHARD,
                                    .capacity = MAX_ROWS,
                                    .tp_size = (uint32_t)ranks,
                                    .rank = (uint32_t)rank,
                                    .mode = mode_of(argv[argc > 1 ? 1 : 0])};
  BW(bw_bundle_open(NULL, &bundle));
  BW(bw_device_open(bundle, NULL, BW_DEVICE_CURRENT, &device));
  BW(bw_mailbox_create(device, &config, &mailbox));
  if (set_up(mailbox, ranks) != BW_OK) {
    if (rank == 0) /* in the same words on all */
      (void)fprintf(stderr, "no mailbox: %s\n", bw_last_error());
    MPI_Finalize();
    return 1;
  }
  bw_mailbox_info info;
  BW(bw_mailbox_query(mailbox, &info));
  unsigned wrong = take_steps(device, mailbox, rank, ranks), all_wrong = 0;

  /* This gathers the verdict; it also makes sure that no rank leaves while another still
   * uses its memory. */
  MPI_Allreduce(&wrong, &all_wrong, 1, MPI_UNSIGNED, MPI_SUM, MPI_COMM_WORLD);
  if (rank == 0)
    printf("%d ranks, mode %s, %d steps, %u wrong elements\n", ranks,
           info.mode == BW_MAILBOX_MULTICAST ? "multicast"
           : info.mode == BW_MAILBOX_PEERS   ? "peers"
                                             : "local",
           STEPS, all_wrong);
  bw_mailbox_destroy(mailbox);
  bw_device_close(device);
  bw_bundle_close(bundle);
  MPI_Finalize();
  return all_wrong != 0;
}
