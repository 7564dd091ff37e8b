/* SPDX-License-Identifier: Apache-2.0
 *
 * A mailbox between processes, one device each: descriptors fetched with pidfd_getfd, or,
 * where the kernel refuses that, sent over sockets; and a rank that dies on the way.
 * What came about is proven by steps: every rank's columns arrive on every rank.
 *
 * Processes are forked before any of them opens the driver; blobs are gathered through
 * shared memory.
 */
#include "harness/driver.h"
#include "harness/kernel.h"
#include "harness/suite.h"
#include "mailbox.h"

#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#ifndef SYS_pidfd_getfd
#define SYS_pidfd_getfd 438
#endif

enum { RANKS = 3, SHARD = 32, HIDDEN = RANKS * SHARD, LATENT = 256, ROWS = 4, STEPS = 5 };

/* ---- processes --------------------------------------------------------------------- */

typedef unsigned char blob[BW_MAILBOX_BLOB_SIZE];

static struct common {
  pthread_barrier_t barrier;
  blob blobs[RANKS];
  char text[RANKS][512]; /* what a rank has to complain of */
} *common;

#define REQUIRE(condition, ...)                                                                    \
  do {                                                                                             \
    if (!(condition)) {                                                                            \
      snprintf(common->text[rank], sizeof common->text[rank], __VA_ARGS__);                        \
      _exit(1);                                                                                    \
    }                                                                                              \
  } while (0)

/* From now on pidfd_getfd is not permitted to this process. */
static void refuse_pidfd_getfd(int rank) {
  struct sock_filter code[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_pidfd_getfd, 0, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
  };
  struct sock_fprog program = {sizeof code / sizeof *code, code};
  REQUIRE(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
              prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0,
          "seccomp: error %d", errno);
  REQUIRE(syscall(SYS_pidfd_getfd, -1, 0, 0) == -1 && errno == EPERM, "pidfd_getfd is allowed");
}

/* Runs body(rank, argument) in a process for each rank; all must exit with 0, but for
 * `killed`. */
static void run_ranks(void (*body)(int rank, int argument), int argument, int killed) {
  common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  ck_assert(common != MAP_FAILED);
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&common->barrier, &shared, RANKS);
  bwt_emulate_devices(RANKS);
  bwt_allow_multicast();
  pid_t children[RANKS];
  for (int rank = 0; rank < RANKS; rank++) {
    children[rank] = fork();
    if (children[rank] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      body(rank, argument);
      _exit(0);
    }
    ck_assert_int_gt(children[rank], 0);
  }
  int failed = 0;
  for (int rank = 0; rank < RANKS; rank++) {
    int status;
    ck_assert_int_eq(waitpid(children[rank], &status, 0), children[rank]);
    if (rank != killed && !(WIFEXITED(status) && WEXITSTATUS(status) == 0))
      failed++;
  }
  ck_assert_msg(failed == 0, "%d ranks failed: %s | %s | %s", failed, common->text[0],
                common->text[1], common->text[2]);
}

/* ---- a rank ------------------------------------------------------------------------ */

struct rank {
  bw_bundle *bundle;
  bw_device *device;
  bw_mailbox *mailbox;
  struct bwt_driver driver;
};

static void open_rank(struct rank *r, int rank, bw_mailbox_mode mode) {
  char path[PATH_MAX];
  REQUIRE(bwt_build_file("test.bundle", path), "no test.bundle in the build");
  REQUIRE(bw_bundle_open(path, &r->bundle) == BW_OK, "%s", bw_last_error());
  const char *why = bwt_driver_open(NULL, &r->driver);
  REQUIRE(!why, "%s", why);
  REQUIRE(bw_device_open(r->bundle, r->driver.path,
                         bwt_device_of(r->driver.DeviceGetCount, (uint32_t)rank),
                         &r->device) == BW_OK,
          "%s", bw_last_error());
  bw_mailbox_config config = {
      .hidden = HIDDEN, .capacity = ROWS, .tp_size = RANKS, .rank = (uint32_t)rank, .mode = mode};
  REQUIRE(bw_mailbox_create(r->device, &config, &r->mailbox) == BW_OK, "%s", bw_last_error());
}

static void gather(int rank, const blob mine, blob *all) {
  memcpy(common->blobs[rank], mine, sizeof(blob));
  pthread_barrier_wait(&common->barrier);
  memcpy(all, common->blobs, sizeof common->blobs);
  pthread_barrier_wait(&common->barrier);
}

static bool wanted_letters(const blob mine) {
  bwi_blob b;
  memcpy(&b, mine, sizeof b);
  return b.memory_wanted != 0;
}

/* Returns whether descriptors had to be sent to this rank. */
static bool finish_rounds(struct rank *r, int rank) {
  blob mine, all[RANKS];
  bool letters = false;
  bw_status status = bw_mailbox_round(r->mailbox, NULL, 0, mine);
  while (status == BW_MORE) {
    letters |= wanted_letters(mine);
    gather(rank, mine, all);
    status = bw_mailbox_round(r->mailbox, all, RANKS, mine);
  }
  REQUIRE(status == BW_OK, "%s", bw_last_error());
  for (int i = 0; i < RANKS; i++)
    REQUIRE(r->mailbox->mail.sockets[i] < 0 && r->mailbox->mail.taken[i] < 0,
            "a descriptor is still open");
  return letters;
}

/* ---- steps ------------------------------------------------------------------------- */

static bw_devptr filled(struct rank *r, int rank, uint16_t value, size_t elements) {
  uint16_t *data = malloc(elements * 2);
  for (size_t i = 0; data && i < elements; i++)
    data[i] = value;
  CUdeviceptr address = 0;
  REQUIRE(data && r->driver.MemAlloc(&address, elements * 2) == CUDA_SUCCESS &&
              r->driver.MemcpyHtoD(address, data, elements * 2) == CUDA_SUCCESS,
          "no device memory");
  free(data);
  return address;
}

/* Latent 0: a rank's columns are its `shared`, 1.0 times a power of two. */
static uint16_t value_of(int rank, int step) {
  return (uint16_t)(0x3f80 + 0x80 * (rank + RANKS * (step % 8)));
}

static void take_steps(struct rank *r, int rank) {
  REQUIRE(r->driver.CtxSetCurrent(r->device->context) == CUDA_SUCCESS, "no context");
  bw_up_proj_config config = {.shape = {LATENT, HIDDEN, RANKS, (uint32_t)rank, ROWS},
                              .weight = filled(r, rank, 0x3f80, SHARD * LATENT),
                              .mailbox = r->mailbox};
  bw_up_proj_plan *plan;
  REQUIRE(bw_up_proj_plan_create(r->device, &config, &plan) == BW_OK, "%s", bw_last_error());
  bw_devptr latent = filled(r, rank, 0, ROWS * LATENT),
            out = filled(r, rank, 0xffff, ROWS * HIDDEN);
  for (int step = 0; step < STEPS; step++) {
    uint32_t rows = 1 + (uint32_t)step % ROWS;
    bw_devptr shared = filled(r, rank, value_of(rank, step), ROWS * SHARD);
    bw_up_proj_args produce = {
        .latent = latent, .shared = shared, .shared_row_stride = SHARD, .rows = rows};
    bw_lamport_copy_args consume = {.out = out, .rows = rows};
    REQUIRE(bw_up_proj_launch(plan, &produce, NULL) == BW_OK, "%s", bw_last_error());
    REQUIRE(bw_lamport_copy_launch(r->mailbox, &consume, NULL) == BW_OK, "%s", bw_last_error());
    uint16_t got[ROWS * HIDDEN];
    CUresult result = r->driver.MemcpyDtoH(got, out, (size_t)rows * HIDDEN * 2);
    REQUIRE(result == CUDA_SUCCESS, "step %d: %s", step, bwt_driver_error(&r->driver, result));
    for (uint32_t i = 0; i < rows * HIDDEN; i++)
      REQUIRE(got[i] == value_of((int)(i % HIDDEN / SHARD), step),
              "step %d, row %u, column %u is 0x%04x", step, i / HIDDEN, i % HIDDEN, got[i]);
  }
  bw_up_proj_plan_destroy(plan);
}

/* refused: one bit for each rank that may not use pidfd_getfd; PEERS: without multicast. */
enum { PEERS = 1 << RANKS };
static void set_up_and_step(int rank, int refused) {
  struct rank r;
  if (refused >> rank & 1)
    refuse_pidfd_getfd(rank);
  open_rank(&r, rank, refused & PEERS ? BW_MAILBOX_PEERS : BW_MAILBOX_AUTO);
  bool letters = finish_rounds(&r, rank);
  bw_mailbox_info info;
  REQUIRE(bw_mailbox_query(r.mailbox, &info) == BW_OK &&
              info.mode == (refused & PEERS ? BW_MAILBOX_PEERS : BW_MAILBOX_MULTICAST),
          "the mode is %d", (int)info.mode);
  REQUIRE(letters || !(refused >> rank & 1), "pidfd_getfd is refused, but there was no letter");
  if (letters && !(refused >> rank & 1))
    printf("  pidfd_getfd is not permitted on this machine\n");
  take_steps(&r, rank);
  bw_mailbox_destroy(r.mailbox);
  bw_device_close(r.device);
  bw_bundle_close(r.bundle);
}

/* ---- tests ------------------------------------------------------------------------- */

static const int refusals[] = {0, PEERS, 1, PEERS + 1, 6, PEERS + 6, 7, PEERS + 7};

START_TEST(descriptors_reach_all) {
  if (bwt_on_gpu() && !(refusals[_i] & PEERS))
    BWT_SKIP("multicast");
  run_ranks(set_up_and_step, refusals[_i], -1);
}
END_TEST

/* Rank 1 dies before it gives its blob of round `round`; the others are told by whoever
 * gathers that only theirs are there. */
static void die_in_round(int rank, int round) {
  struct rank r;
  open_rank(&r, rank, BW_MAILBOX_AUTO);
  blob mine, all[RANKS];
  bw_status status = bw_mailbox_round(r.mailbox, NULL, 0, mine);
  for (int i = 0; i < round; i++) {
    gather(rank, mine, all);
    status = bw_mailbox_round(r.mailbox, all, RANKS, mine);
  }
  REQUIRE(status == BW_MORE, "%s", bw_last_error());
  if (rank == 1) {
    memset(common->blobs[1], 0, sizeof(blob));
    pthread_barrier_wait(&common->barrier);
    (void)raise(SIGKILL);
  }
  memcpy(common->blobs[rank], mine, sizeof mine);
  pthread_barrier_wait(&common->barrier);
  memcpy(all[0], common->blobs[0], sizeof(blob));
  memcpy(all[1], common->blobs[2], sizeof(blob));
  status = bw_mailbox_round(r.mailbox, all, 2, mine);
  REQUIRE(status == BW_ERROR_INVALID_ARGUMENT && strstr(bw_last_error(), "no blob of rank 1"), "%s",
          bw_last_error());
  bw_mailbox_destroy(r.mailbox);
  bw_device_close(r.device);
  bw_bundle_close(r.bundle);
}

START_TEST(a_rank_dies) {
  run_ranks(die_in_round, _i, 1);
}
END_TEST

int main(void) {
  unsetenv("BW_FORK"); /* these tests fork, and that must come before any driver is open */
  const struct bwt_test tests[] = {
      BWT_LOOP("descriptors", descriptors_reach_all, 0, (int)BWT_COUNT(refusals), 60),
      BWT_LOOP("death", a_rank_dies, 0, 6, 60),
  };
  return bwt_suite_main("mailbox_processes", tests, BWT_COUNT(tests));
}
