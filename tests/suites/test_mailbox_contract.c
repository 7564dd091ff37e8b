/* SPDX-License-Identifier: Apache-2.0
 *
 * up_proj and lamport_copy as a caller may misuse them: arguments outside their range, what
 * BAREWARP_DEBUG=1 tells of steps out of order, a copy that gives up polling.  Also which
 * kernel a row count gets, and adopted memory.
 *
 * One emulated device and mailboxes of mode local are enough for all of it.
 */
#include "device.h"
#include "harness/driver.h"
#include "harness/kernel.h"
#include "harness/suite.h"
#include "mailbox.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { HIDDEN = 64, LATENT = 256, CAPACITY = 4 };

static struct bwt_driver driver;
static bw_bundle *bundle;
static bw_device *device;
static CUdeviceptr weight, latent, shared, out;
static CUstream streams[2];

#define OK(call)                                                                                   \
  do {                                                                                             \
    CUresult result_ = driver.call;                                                                \
    ck_assert_msg(result_ == CUDA_SUCCESS, "%s: %s", #call, bwt_driver_error(&driver, result_));   \
  } while (0)
#define BW(call) ck_assert_msg((call) == BW_OK, "%s: %s", #call, bw_last_error())
/* The call fails so, and its message has these words. */
#define FAILS(call, wanted, words)                                                                 \
  do {                                                                                             \
    bw_status status_ = (call);                                                                    \
    ck_assert_msg(status_ == (wanted) && strstr(bw_last_error(), words), "%s: %s: %s", #call,      \
                  bw_status_text(status_), bw_last_error());                                       \
  } while (0)
#define INVALID(call, words) FAILS(call, BW_ERROR_INVALID_ARGUMENT, words)

static CUdeviceptr filled(unsigned char byte, size_t bytes) {
  void *data = malloc(bytes);
  CUdeviceptr address;
  memset(data, byte, bytes);
  OK(MemAlloc(&address, bytes));
  OK(MemcpyHtoD(address, data, bytes));
  free(data);
  return address;
}

static void open_device(bool debug) {
  char path[PATH_MAX];
  bwt_emulate_devices(1);
  setenv("BAREWARP_DEBUG", debug ? "1" : "0", 1);
  const char *why = bwt_driver_open(NULL, &driver);
  ck_assert_msg(!why, "%s", why);
  ck_assert_msg(bwt_build_file("test.bundle", path), "no test.bundle in the build");
  BW(bw_bundle_open(path, &bundle));
  BW(bw_device_open(bundle, driver.path, 0, &device));
  OK(CtxSetCurrent(device->context));
  weight = filled(0, 2 * HIDDEN * LATENT);
  latent = filled(0, 2 * CAPACITY * LATENT);
  shared = filled(0x3f, 2 * CAPACITY * HIDDEN);
  out = filled(0xff, 2 * CAPACITY * HIDDEN);
  for (int i = 0; i < 2; i++)
    OK(StreamCreate(&streams[i], CU_STREAM_NON_BLOCKING));
}

static void close_device(void) {
  for (int i = 0; i < 2; i++)
    OK(StreamDestroy(streams[i]));
  bw_device_close(device);
  bw_bundle_close(bundle);
  bwt_driver_close(&driver);
}

static int finish_rounds(bw_mailbox *m) {
  unsigned char blob[BW_MAILBOX_BLOB_SIZE];
  int calls = 1;
  bw_status status = bw_mailbox_round(m, NULL, 0, blob);
  for (; status == BW_MORE; calls++)
    status = bw_mailbox_round(m, blob, 1, blob);
  BW(status);
  return calls;
}

static const bw_mailbox_config alone = {.hidden = HIDDEN, .capacity = CAPACITY, .tp_size = 1};

static bw_mailbox *new_mailbox(const bw_mailbox_config *config) {
  bw_mailbox *m;
  BW(bw_mailbox_create(device, config, &m));
  finish_rounds(m);
  return m;
}

static bw_up_proj_config plan_config(bw_mailbox *m, uint32_t tp_size, uint32_t rank) {
  return (bw_up_proj_config){
      .shape = {LATENT, HIDDEN, tp_size, rank, CAPACITY}, .weight = weight, .mailbox = m};
}

static bw_up_proj_plan *new_plan(bw_mailbox *m) {
  bw_up_proj_config config = plan_config(m, m->config.tp_size, m->config.rank);
  bw_up_proj_plan *plan;
  BW(bw_up_proj_plan_create(device, &config, &plan));
  return plan;
}

static bw_up_proj_args produce_args(uint32_t rows) {
  return (bw_up_proj_args){
      .latent = latent, .shared = shared, .shared_row_stride = HIDDEN, .rows = rows};
}
static bw_status produce(const bw_up_proj_plan *plan, uint32_t rows, int stream) {
  bw_up_proj_args args = produce_args(rows);
  return bw_up_proj_launch(plan, &args, streams[stream]);
}
static bw_status consume(bw_mailbox *m, uint32_t rows, int stream) {
  bw_lamport_copy_args args = {.out = out, .rows = rows};
  return bw_lamport_copy_launch(m, &args, streams[stream]);
}

/* ---- dispatch --------------------------------------------------------------------------- */

START_TEST(dispatch) {
  static const struct {
    uint32_t rows, shard, latent;
    const char *name;
  } wanted[] = {
      {1, 896, 3584, "m1_b224o2u1v16_peers"}, {5, 896, 3584, "m5_b224o2u1v16_peers"},
      {6, 896, 3584, "m6_b224o4u2v8_peers"},  {5, 448, 3584, "m5_b224o2u1v16_peers"},
      {6, 448, 3584, "m6_b224o2u1v8_peers"},  {8, 448, 3584, "m8_b224o2u1v8_peers"},
      {1, 7168, 3584, "m1_b224o8u1v8_peers"}, {2, 7168, 1792, "m2_b224o4u2v8_peers"},
      {8, 512, 3584, "m8_b224o4u2v8_peers"},  {3, 32, 256, "m3_b32o2u1v8_peers"},
      {3, 448, 1792, "m3_b32o2u1v8_peers"},
  };
  for (size_t i = 0; i < BWT_COUNT(wanted); i++) {
    bw_up_proj_key key;
    char name[BW_UP_PROJ_KEY_NAME_SIZE];
    BW(bw_up_proj_dispatch(wanted[i].rows, wanted[i].shard, wanted[i].latent, &key));
    BW(bw_up_proj_key_name(&key, BW_MAILBOX_PEERS, name));
    ck_assert_str_eq(name, wanted[i].name);
  }
  bw_up_proj_key key;
  INVALID(bw_up_proj_dispatch(0, 896, 3584, &key), "rows is 0, must be 1..8");
  INVALID(bw_up_proj_dispatch(9, 896, 3584, &key), "rows is 9, must be 1..8");
  INVALID(bw_up_proj_dispatch(1, 896, 100, &key), "latent_dim is 100, must be a multiple of 3584");
  INVALID(bw_up_proj_dispatch(1, 12, 1792, &key), "tp_size is 12, must be a multiple of 8");
}
END_TEST

/* ---- arguments ------------------------------------------------------------------------------ */

START_TEST(plan_arguments) {
  open_device(false);
  bw_mailbox *unfinished, *m = new_mailbox(&alone);
  BW(bw_mailbox_create(device, &alone, &unfinished));
  bw_up_proj_plan *plan;
  bw_up_proj_config good = plan_config(m, 1, 0), c = good;
  c.mailbox = unfinished;
  FAILS(bw_up_proj_plan_create(device, &c, &plan), BW_ERROR_STATE, "rounds are not done");
#define WITH(change, words)                                                                        \
  do {                                                                                             \
    c = good;                                                                                      \
    change;                                                                                        \
    INVALID(bw_up_proj_plan_create(device, &c, &plan), words);                                     \
  } while (0)
  WITH(c.mailbox = NULL, "config.mailbox is NULL");
  WITH(c.shape.hidden_dim = 128, "shape.hidden_dim is 128, the mailbox's is 64");
  WITH(c.shape.tp_size = 2, "shape.tp_size is 2, the mailbox's is 1");
  WITH(c.shape.tp_size = 17, "shape.tp_size is 17, must be 1..16");
  WITH(c.shape.rank = 1, "shape.rank is 1, must be 0..0");
  WITH(c.shape.max_rows = 5, "shape.max_rows is 5, must be 1..4");
  WITH(c.shape.max_rows = 9, "shape.max_rows is 9, must be 1..8");
  WITH(c.shape.latent_dim = 300, "latent_dim is 300, must be a multiple of");
  WITH(c.weight += 16, "must be 32-byte aligned");
  WITH(c.weight = 0, "weight is NULL");
  WITH(c.shape.latent_dim = 512, "weight needs 65536 bytes");
  WITH(c.flags = 2, "config.flags is 0x2");
#undef WITH
  bw_mailbox_destroy(unfinished);
  bw_mailbox_destroy(m);
  close_device();
}
END_TEST

START_TEST(launch_arguments) {
  open_device(false);
  bw_mailbox *m = new_mailbox(&alone);
  bw_up_proj_plan *plan = new_plan(m);
#define WITH(change, words)                                                                        \
  do {                                                                                             \
    bw_up_proj_args a = produce_args(2);                                                           \
    change;                                                                                        \
    INVALID(bw_up_proj_launch(plan, &a, streams[0]), words);                                       \
  } while (0)
  WITH(a.latent += 16, "args.latent");
  WITH(a.shared += 16, "args.shared");
  WITH(a.shared = 0, "args.shared is NULL");
  WITH(a.shared_row_stride = 48, "args.shared_row_stride is 48, must be 64..");
  WITH(a.shared_row_stride = 72, "args.shared_row_stride is 72, must be a multiple of 16");
  WITH(a.rows = 5, "args.rows is 5, must be 0..4");
  WITH(a.flags = 64, "args.flags is 0x40");
  WITH(a.flags = BW_LAUNCH_TRIGGER_LATE | BW_LAUNCH_TRIGGER_ENTRY, "at most one");
  WITH(a.flags = BW_LAUNCH_TRIGGER_ENTRY, "BW_MAILBOX_COPY_WAITS_FIRST");
#undef WITH
  bw_lamport_copy_args a = {.out = out, .rows = 5};
  INVALID(bw_lamport_copy_launch(m, &a, streams[0]), "args.rows is 5, must be 0..4");
  a = (bw_lamport_copy_args){.out = out + 8, .rows = 1};
  INVALID(bw_lamport_copy_launch(m, &a, streams[0]), "must be 16-byte aligned");
  /* No rows are no step, and need no operands. */
  bw_up_proj_args nothing = {0};
  a = (bw_lamport_copy_args){0};
  BW(bw_up_proj_launch(plan, &nothing, streams[0]));
  BW(bw_lamport_copy_launch(m, &a, streams[0]));
  bw_mailbox_destroy(m); /* the plan keeps it */
  BW(produce(plan, 1, 0));
  OK(StreamSynchronize(streams[0]));
  bw_up_proj_plan_destroy(plan);
  close_device();
}
END_TEST

/* ---- BAREWARP_DEBUG=1 ------------------------------------------------------------------------ */

START_TEST(steps_out_of_order) {
  open_device(true);
  bw_mailbox *m = new_mailbox(&alone);
  bw_up_proj_plan *plan = new_plan(m);
  FAILS(consume(m, 2, 0), BW_ERROR_STATE, "without an up_proj");
  BW(produce(plan, 2, 0));
  FAILS(produce(plan, 2, 0), BW_ERROR_STATE, "two up_proj of one mailbox in a row");
  FAILS(consume(m, 3, 0), BW_ERROR_STATE, "asked for 3 rows, but the step's up_proj made 2");
  if (!bwt_on_gpu()) /* where the step may have ended by now: then it is ordered */
    FAILS(consume(m, 2, 1), BW_ERROR_STATE, "no event orders it");
  BW(consume(m, 2, 0)); /* what was refused did not count */
  OK(StreamSynchronize(streams[0]));
  BW(produce(plan, 1, 1)); /* synchronized: another stream is fine */
  BW(consume(m, 1, 1));
  OK(StreamSynchronize(streams[1]));
  bw_up_proj_args args = produce_args(4);
  args.shared_row_stride = 128;
  INVALID(bw_up_proj_launch(plan, &args, streams[1]), "args.shared needs");
  bw_up_proj_plan_destroy(plan);
  bw_mailbox_destroy(m);
  close_device();
}
END_TEST

/* Rank 1 of two, whose partner does not exist. */
START_TEST(gives_up_polling) {
  open_device(false);
  bw_mailbox_config config = alone;
  config.tp_size = 2;
  config.rank = 1;
  config.mode = BW_MAILBOX_LOCAL;
  config.poll_limit = 30;
  bw_mailbox *m = new_mailbox(&config);
  bw_up_proj_plan *plan = new_plan(m);
  BW(bw_mailbox_check(m));
  BW(produce(plan, 2, 0));
  BW(consume(m, 2, 0));
  OK(StreamSynchronize(streams[0]));
  FAILS(bw_mailbox_check(m), BW_ERROR_STATE, "never came from rank 0");
  BW(bw_mailbox_reset(m));
  FAILS(produce(plan, 2, 0), BW_ERROR_STATE, "the rounds are not done");
  ck_assert_int_eq(finish_rounds(m), 3);
  BW(bw_mailbox_check(m));
  bw_up_proj_plan_destroy(plan);
  bw_mailbox_destroy(m);
  close_device();
}
END_TEST

/* ---- adopted memory ------------------------------------------------------------ */

START_TEST(adopted) {
  open_device(false);
  size_t bytes;
  BW(bw_mailbox_ring_size(device, HIDDEN, CAPACITY, &bytes));
  bw_mailbox_memory memory = {.ring = filled(0x11, bytes)}, bad = memory;
  bw_mailbox *m;
  bad.ring += 8;
  INVALID(bw_mailbox_adopt(device, &alone, &bad, &m), "memory.ring");
  bad = memory;
  bad.counters = memory.ring + 4;
  INVALID(bw_mailbox_adopt(device, &alone, &bad, &m), "memory.counters");
  bw_mailbox_config two = alone;
  two.tp_size = 2;
  INVALID(bw_mailbox_adopt(device, &two, &memory, &m), "config.mode is auto");
  two.mode = BW_MAILBOX_PEERS;
  memory.peers[0] = memory.ring;
  INVALID(bw_mailbox_adopt(device, &two, &memory, &m), "memory.peers[1] is NULL");
  two.mode = BW_MAILBOX_MULTICAST;
  INVALID(bw_mailbox_adopt(device, &two, &memory, &m), "memory.multicast is NULL");

  BW(bw_mailbox_adopt(device, &alone, &memory, &m));
  ck_assert_int_eq(finish_rounds(m), 2);
  bw_up_proj_plan *plan = new_plan(m);
  for (uint32_t rows = 1; rows <= CAPACITY; rows++) {
    uint16_t got[CAPACITY * HIDDEN];
    BW(produce(plan, rows, 0));
    BW(consume(m, rows, 0));
    OK(StreamSynchronize(streams[0]));
    OK(MemcpyDtoH(got, out, sizeof got));
    for (uint32_t i = 0; i < CAPACITY * HIDDEN; i++)
      BWT_SAME(got[i], i < rows * HIDDEN ? 0x3f3f : 0xffff);
  }
  bw_up_proj_plan_destroy(plan);
  bw_mailbox_destroy(m);
  OK(MemFree(memory.ring)); /* still the caller's */
  close_device();
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("dispatch", dispatch, 30),          BWT_TEST("arguments", plan_arguments, 30),
      BWT_TEST("arguments", launch_arguments, 30), BWT_TEST("debug", steps_out_of_order, 30),
      BWT_TEST("debug", gives_up_polling, 30),     BWT_TEST("adopt", adopted, 30),
  };
  return bwt_suite_main("mailbox_contract", tests, BWT_COUNT(tests));
}
