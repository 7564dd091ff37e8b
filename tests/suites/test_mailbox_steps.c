/* SPDX-License-Identifier: Apache-2.0
 *
 * The mailbox protocol: steps of eight ranks in chains, enqueued without waiting, so that
 * ranks run ahead of each other as far as the protocol lets them and grids of a stream
 * overlap.  Rows change from step to step; launches are eager or replayed from a graph of an
 * odd number of steps, on one stream or on another that an event orders.
 *
 * What is stored is known without arithmetic (up_proj's own is tested elsewhere): latent is
 * 0, so a rank's columns are its `shared`, and every word of every step is different.  In
 * the end every word of the mailbox is empty.
 */
#include "device.h"
#include "harness/driver.h"
#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/suite.h"
#include "mailbox.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 8, SHARD = 16, HIDDEN = RANKS * SHARD, LATENT = 256, ROWS = 8, CHAIN = 7 };

typedef uint16_t row[HIDDEN];

static bw_bundle *bundle;
static struct bwt_driver driver;
static CUresult (*event_create)(CUevent *, unsigned);
static CUresult (*event_record)(CUevent, CUstream);
static CUresult (*event_destroy)(CUevent);
static CUresult (*stream_wait)(CUstream, CUevent, unsigned);
static struct bwt_random dice;

static struct rank {
  bw_device *device;
  bw_mailbox *mailbox;
  bw_up_proj_plan *plan;
  CUstream streams[2];
  CUdeviceptr weight, latent;
  CUdeviceptr shared[CHAIN], out[CHAIN]; /* [ROWS][SHARD], [ROWS][HIDDEN] of each step */
} ranks[RANKS];

static uint32_t rows[CHAIN]; /* of each step of the chain */
static row expected[CHAIN][ROWS];

#define OK(call)                                                                                   \
  do {                                                                                             \
    CUresult result_ = driver.call;                                                                \
    ck_assert_msg(result_ == CUDA_SUCCESS, "%s: %s, EMU_SEED=%s", #call,                           \
                  bwt_driver_error(&driver, result_), getenv("EMU_SEED"));                         \
  } while (0)
#define BW(call) ck_assert_msg((call) == BW_OK, "%s: %s", #call, bw_last_error())

/* ---- set-up ------------------------------------------------------------------------ */

static void find_event_calls(void) {
  void *symbols[] = {dlsym(driver.library, "cuEventCreate"), dlsym(driver.library, "cuEventRecord"),
                     dlsym(driver.library, "cuEventDestroy_v2"),
                     dlsym(driver.library, "cuStreamWaitEvent")};
  memcpy(&event_create, &symbols[0], sizeof symbols[0]);
  memcpy(&event_record, &symbols[1], sizeof symbols[1]);
  memcpy(&event_destroy, &symbols[2], sizeof symbols[2]);
  memcpy(&stream_wait, &symbols[3], sizeof symbols[3]);
  ck_assert(event_create && event_record && event_destroy && stream_wait);
}

static void set_up_mailboxes(bw_mailbox_mode mode, uint32_t flags) {
  static unsigned char blobs[RANKS][BW_MAILBOX_BLOB_SIZE], next[RANKS][BW_MAILBOX_BLOB_SIZE];
  for (uint32_t r = 0; r < RANKS; r++) {
    bw_mailbox_config config = {.hidden = HIDDEN,
                                .capacity = ROWS,
                                .tp_size = RANKS,
                                .rank = r,
                                .mode = mode,
                                .flags = flags};
    BW(bw_mailbox_create(ranks[r].device, &config, &ranks[r].mailbox));
  }
  bw_status status = BW_MORE;
  for (int round = 0; status == BW_MORE; round++) {
    for (int r = 0; r < RANKS; r++) {
      status = bw_mailbox_round(ranks[r].mailbox, round ? blobs : NULL, round ? RANKS : 0, next[r]);
      ck_assert_msg(status == BW_OK || status == BW_MORE, "%s", bw_last_error());
    }
    memcpy(blobs, next, sizeof blobs);
  }
}

static CUdeviceptr zeros(size_t bytes) {
  void *data = calloc(1, bytes);
  CUdeviceptr address;
  OK(MemAlloc(&address, bytes));
  OK(MemcpyHtoD(address, data, bytes));
  free(data);
  return address;
}

static void open_ranks(bw_mailbox_mode mode, uint32_t flags, int seed) {
  char text[24], path[PATH_MAX];
  bwt_emulate_devices(RANKS);
  uint64_t mixed = bwt_mix(bwt_run_seed(), (uint64_t)seed);
  snprintf(text, sizeof text, "%u", (unsigned)(mixed >> 40));
  setenv("EMU_SEED", text, 1);
  bwt_allow_multicast();
  bwt_random_seed(&dice, mixed);
  const char *why = bwt_driver_open(NULL, &driver);
  ck_assert_msg(!why, "%s", why);
  find_event_calls();
  ck_assert_msg(bwt_build_file("test.bundle", path), "no test.bundle in the build");
  BW(bw_bundle_open(path, &bundle));
  for (int r = 0; r < RANKS; r++)
    BW(bw_device_open(bundle, driver.path, bwt_device_of(driver.DeviceGetCount, (uint32_t)r),
                      &ranks[r].device));
  set_up_mailboxes(mode, flags);
  for (uint32_t r = 0; r < RANKS; r++) {
    struct rank *k = &ranks[r];
    OK(CtxSetCurrent(k->device->context));
    k->weight = zeros(2 * SHARD * LATENT);
    k->latent = zeros(2 * ROWS * LATENT);
    for (int s = 0; s < CHAIN; s++) {
      k->shared[s] = zeros(2 * ROWS * SHARD);
      k->out[s] = zeros(2 * ROWS * HIDDEN);
    }
    for (int s = 0; s < 2; s++)
      OK(StreamCreate(&k->streams[s], CU_STREAM_NON_BLOCKING));
    bw_up_proj_config config = {
        .shape = {LATENT, HIDDEN, RANKS, r, ROWS}, .weight = k->weight, .mailbox = k->mailbox};
    BW(bw_up_proj_plan_create(k->device, &config, &k->plan));
  }
}

static void close_ranks(void) {
  for (int r = 0; r < RANKS; r++) {
    struct rank *k = &ranks[r];
    OK(CtxSetCurrent(k->device->context));
    OK(MemFree(k->weight));
    OK(MemFree(k->latent));
    for (int s = 0; s < CHAIN; s++) {
      OK(MemFree(k->shared[s]));
      OK(MemFree(k->out[s]));
    }
    for (int s = 0; s < 2; s++)
      OK(StreamDestroy(k->streams[s]));
    bw_up_proj_plan_destroy(k->plan);
    bw_mailbox_destroy(k->mailbox);
    bw_device_close(k->device);
  }
  bw_bundle_close(bundle);
  bwt_driver_close(&driver);
}

/* ---- one chain --------------------------------------------------------------------- */

/* A bf16 that arrives as it is: no -0, no NaN. */
static uint16_t draw_value(void) {
  uint16_t value = (uint16_t)bwt_random_u64(&dice);
  return (value & 0x7fff) == 0 || (value & 0x7fff) > 0x7f80 ? 0x0001 : value;
}

/* New rows for the chain, and outs that nobody could mistake for them. */
static void draw_chain(void) {
  for (int s = 0; s < CHAIN; s++) {
    rows[s] = 1 + (uint32_t)(bwt_random_u64(&dice) % ROWS);
    for (int m = 0; m < ROWS; m++)
      for (int c = 0; c < HIDDEN; c++)
        expected[s][m][c] = draw_value();
    for (int r = 0; r < RANKS; r++) {
      uint16_t part[ROWS][SHARD];
      for (int m = 0; m < ROWS; m++)
        memcpy(part[m], &expected[s][m][r * SHARD], sizeof part[m]);
      OK(CtxSetCurrent(ranks[r].device->context));
      OK(MemcpyHtoD(ranks[r].shared[s], part, sizeof part));
    }
  }
}

static void clear_outs(void) {
  static row none[ROWS];
  memset(none, 0xff, sizeof none);
  for (int r = 0; r < RANKS; r++) {
    OK(CtxSetCurrent(ranks[r].device->context));
    for (int s = 0; s < CHAIN; s++)
      OK(MemcpyHtoD(ranks[r].out[s], none, sizeof none));
  }
}

static uint32_t draw_flags(bool may_trigger_at_entry) {
  static const uint32_t flags[] = {0,
                                   0,
                                   BW_LAUNCH_NO_PDL,
                                   BW_LAUNCH_TRIGGER_AFTER_WAIT,
                                   BW_LAUNCH_TRIGGER_LATE,
                                   BW_LAUNCH_TRIGGER_ENTRY,
                                   BW_LAUNCH_TRIGGER_ENTRY};
  return flags[bwt_random_u64(&dice) % (may_trigger_at_entry ? 7 : 5)];
}

static void enqueue(int r, CUstream stream) {
  struct rank *k = &ranks[r];
  bool waits_first = k->mailbox->config.flags & BW_MAILBOX_COPY_WAITS_FIRST;
  for (int s = 0; s < CHAIN; s++) {
    bw_up_proj_args produce = {.latent = k->latent,
                               .shared = k->shared[s],
                               .shared_row_stride = SHARD,
                               .rows = rows[s],
                               .flags = draw_flags(waits_first)};
    bw_lamport_copy_args consume = {.out = k->out[s], .rows = rows[s], .flags = draw_flags(true)};
    BW(bw_up_proj_launch(k->plan, &produce, stream));
    BW(bw_lamport_copy_launch(k->mailbox, &consume, stream));
  }
}

static void finish(int stream) {
  for (int r = 0; r < RANKS; r++) {
    OK(CtxSetCurrent(ranks[r].device->context));
    OK(StreamSynchronize(ranks[r].streams[stream]));
  }
}

static void check_outs(void) {
  static row got[ROWS];
  for (int r = 0; r < RANKS; r++) {
    OK(CtxSetCurrent(ranks[r].device->context));
    for (int s = 0; s < CHAIN; s++) {
      OK(MemcpyDtoH(got, ranks[r].out[s], sizeof got));
      for (uint32_t m = 0; m < ROWS; m++)
        for (int c = 0; c < HIDDEN; c++)
          BWT_REQUIRE(
              got[m][c] == (m < rows[s] ? expected[s][m][c] : 0xffff),
              "rank %d, step %d, row %u of %u, column %d is 0x%04x, not 0x%04x; EMU_SEED=%s", r, s,
              m, rows[s], c, got[m][c], expected[s][m][c], getenv("EMU_SEED"));
    }
  }
}

static void check_empty(unsigned steps) {
  static uint32_t words[2 * ROWS * HIDDEN / 2];
  for (int r = 0; r < RANKS; r++) {
    bw_mailbox_info info;
    uint32_t counters[2];
    BW(bw_mailbox_query(ranks[r].mailbox, &info));
    ck_assert_uint_eq(info.ring_bytes, sizeof words);
    OK(CtxSetCurrent(ranks[r].device->context));
    OK(MemcpyDtoH(words, info.ring, sizeof words));
    OK(MemcpyDtoH(counters, info.counters, sizeof counters));
    for (size_t i = 0; i < sizeof words / 4; i++)
      BWT_SAME(words[i], BWI_EMPTY_WORD);
    BWT_SAME(counters[0], steps);
    BWT_SAME(counters[1], 0);
  }
}

/* ---- tests ------------------------------------------------------------------------- */

/* _i: mode, whether the copy waits first, and the seed. */
static bw_mailbox_mode mode_of(int i) {
  return i & 1 && !bwt_on_gpu() ? BW_MAILBOX_MULTICAST : BW_MAILBOX_PEERS;
}
static uint32_t flags_of(int i) {
  return i & 2 ? BW_MAILBOX_COPY_WAITS_FIRST : 0;
}

START_TEST(eager) {
  unsigned chains = bwt_full() ? 30 : 3;
  open_ranks(mode_of(_i), flags_of(_i), _i);
  for (unsigned i = 0; i < chains; i++) {
    draw_chain();
    clear_outs();
    for (int r = 0; r < RANKS; r++) /* another rank first each time */
      enqueue((r + (int)i) % RANKS, ranks[(r + (int)i) % RANKS].streams[0]);
    finish(0);
    check_outs();
  }
  check_empty(chains * CHAIN);
  close_ranks();
}
END_TEST

/* Each replay is ordered after the last by an event when it takes the other stream. */
static void replay(CUgraphExec *graphs, CUevent *events, int times) {
  for (int t = 0; t < times; t++)
    for (int r = 0; r < RANKS; r++) {
      struct rank *k = &ranks[r];
      OK(CtxSetCurrent(k->device->context));
      if (t > 0)
        ck_assert_int_eq(stream_wait(k->streams[t % 2], events[r], 0), CUDA_SUCCESS);
      OK(GraphLaunch(graphs[r], k->streams[t % 2]));
      ck_assert_int_eq(event_record(events[r], k->streams[t % 2]), CUDA_SUCCESS);
    }
}

START_TEST(replayed) {
  CUgraphExec graphs[RANKS];
  CUevent events[RANKS];
  unsigned times = bwt_full() ? 12 : 2;
  open_ranks(mode_of(_i), flags_of(_i), 100 + _i);
  draw_chain();
  for (int r = 0; r < RANKS; r++) {
    CUstream stream = ranks[r].streams[0];
    CUgraph graph;
    OK(CtxSetCurrent(ranks[r].device->context));
    OK(StreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
    enqueue(r, stream);
    OK(StreamEndCapture(stream, &graph));
    OK(GraphInstantiateWithFlags(&graphs[r], graph, 0));
    OK(GraphDestroy(graph));
    ck_assert_int_eq(event_create(&events[r], CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
  }
  for (unsigned i = 0; i < times; i++) {
    clear_outs();
    replay(graphs, events, 1 + (int)i % 2);
    finish(0);
    finish(1);
    check_outs();
  }
  check_empty(CHAIN * (times + times / 2));
  for (int r = 0; r < RANKS; r++) {
    OK(GraphExecDestroy(graphs[r]));
    ck_assert_int_eq(event_destroy(events[r]), CUDA_SUCCESS);
  }
  close_ranks();
}
END_TEST

int main(void) {
  int seeds = bwt_full() ? 20 : 4;
  const struct bwt_test tests[] = {
      BWT_LOOP("steps", eager, 0, seeds, 900),
      BWT_LOOP("steps", replayed, 0, seeds, 900),
  };
  return bwt_suite_main("mailbox_steps", tests, BWT_COUNT(tests));
}
