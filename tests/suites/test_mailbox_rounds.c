/* SPDX-License-Identifier: Apache-2.0
 *
 * Setting up mailboxes: all ranks come to the same verdict in the same round, whatever call
 * fails on whichever rank, fall back in the documented order, and leave nothing behind.
 *
 * The ranks are devices of the emulated driver in this process.  The library's table of driver
 * calls is replaced by one that counts, records, and fails a chosen call of a chosen rank.
 */
#include "device.h"
#include "harness/driver.h"
#include "harness/suite.h"
#include "mailbox.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 8, HIDDEN = 64 * MOST, CAPACITY = 3, ROUNDS = 8, MOST_CALLS = 128 };

/* ---- the driver under watch -------------------------------------------------------- */

static bwi_driver real, watched;
static int rank_now = -1; /* whose round it is; -1: nobody's, nothing is recorded or fails */
static int calls[MOST];
static char names[MOST][MOST_CALLS][40];
static int failing_rank, failing_call;
static CUresult failing_code;
static bool failing_for_good; /* the same function then always fails on that rank */
static int multicast_calls;

/* What is held, by kind. */
static struct held {
  int handles, addresses, mappings, bindings, streams, memory;
} held;

static bool fails(const char *name) {
  if (strncmp(name, "cuMulticast", 11) == 0)
    multicast_calls++;
  if (rank_now < 0)
    return false;
  int call = calls[rank_now]++;
  ck_assert_int_lt(call, MOST_CALLS);
  snprintf(names[rank_now][call], sizeof *names[0], "%s", name);
  if (rank_now != failing_rank || call < failing_call)
    return false;
  return call == failing_call ||
         (failing_for_good && strcmp(names[rank_now][failing_call], name) == 0);
}

/* WATCH(function, parameters, arguments, what a success adds to) */
#define WATCH(function, parameters, arguments, count)                                              \
  static CUresult watch_##function parameters {                                                    \
    if (fails(#function))                                                                          \
      return failing_code;                                                                         \
    CUresult result = real.function arguments;                                                     \
    if (result == CUDA_SUCCESS) {                                                                  \
      count;                                                                                       \
    }                                                                                              \
    return result;                                                                                 \
  }
/* Calls that release: counted, never failed. */
#define RELEASE(function, parameters, arguments, count)                                            \
  static CUresult watch_##function parameters {                                                    \
    CUresult result = real.function arguments;                                                     \
    if (result == CUDA_SUCCESS) {                                                                  \
      count;                                                                                       \
    }                                                                                              \
    return result;                                                                                 \
  }
typedef CUmemGenericAllocationHandle handle;
typedef unsigned long long ull;
WATCH(cuDeviceGetAttribute, (int *v, CUdevice_attribute a, CUdevice d), (v, a, d), (void)0)
WATCH(cuMemGetAllocationGranularity,
      (size_t * g, const CUmemAllocationProp *p, CUmemAllocationGranularity_flags o), (g, p, o),
      (void)0)
WATCH(cuMemCreate, (handle * h, size_t n, const CUmemAllocationProp *p, ull f), (h, n, p, f),
      held.handles++)
WATCH(cuMemAddressReserve, (CUdeviceptr * p, size_t n, size_t a, CUdeviceptr at, ull f),
      (p, n, a, at, f), held.addresses++)
WATCH(cuMemMap, (CUdeviceptr p, size_t n, size_t o, handle h, ull f), (p, n, o, h, f),
      held.mappings++)
WATCH(cuMemSetAccess, (CUdeviceptr p, size_t n, const CUmemAccessDesc *d, size_t c), (p, n, d, c),
      (void)0)
WATCH(cuMemExportToShareableHandle, (void *o, handle h, CUmemAllocationHandleType t, ull f),
      (o, h, t, f), (void)0)
WATCH(cuMemImportFromShareableHandle, (handle * h, void *o, CUmemAllocationHandleType t), (h, o, t),
      held.handles++)
WATCH(cuStreamCreate, (CUstream * s, unsigned f), (s, f), held.streams++)
WATCH(cuMemsetD32Async, (CUdeviceptr p, unsigned v, size_t n, CUstream s), (p, v, n, s), (void)0)
WATCH(cuStreamSynchronize, (CUstream s), (s), (void)0)
WATCH(cuMemAlloc, (CUdeviceptr * p, size_t n), (p, n), held.memory++)
WATCH(cuMulticastGetGranularity,
      (size_t * g, const CUmulticastObjectProp *p, CUmulticastGranularity_flags o), (g, p, o),
      (void)0)
WATCH(cuMulticastCreate, (handle * h, const CUmulticastObjectProp *p), (h, p), held.handles++)
WATCH(cuMulticastAddDevice, (handle h, CUdevice d), (h, d), (void)0)
WATCH(cuMulticastBindMem, (handle m, size_t at, handle h, size_t o, size_t n, ull f),
      (m, at, h, o, n, f), held.bindings++)
RELEASE(cuMemRelease, (handle h), (h), held.handles--)
RELEASE(cuMemAddressFree, (CUdeviceptr p, size_t n), (p, n), held.addresses--)
RELEASE(cuMemUnmap, (CUdeviceptr p, size_t n), (p, n), held.mappings--)
RELEASE(cuMulticastUnbind, (handle h, CUdevice d, size_t at, size_t n), (h, d, at, n),
        held.bindings--)
RELEASE(cuStreamDestroy, (CUstream s), (s), held.streams--)
RELEASE(cuMemFree, (CUdeviceptr p), (p), held.memory--)

static void watch_driver(const bwi_driver *driver) {
  real = watched = *driver;
#define PUT(function) watched.function = watch_##function
  PUT(cuDeviceGetAttribute);
  PUT(cuMemGetAllocationGranularity);
  PUT(cuMemCreate);
  PUT(cuMemAddressReserve);
  PUT(cuMemMap);
  PUT(cuMemSetAccess);
  PUT(cuMemExportToShareableHandle);
  PUT(cuMemImportFromShareableHandle);
  PUT(cuStreamCreate);
  PUT(cuMemsetD32Async);
  PUT(cuStreamSynchronize);
  PUT(cuMemAlloc);
  PUT(cuMulticastGetGranularity);
  PUT(cuMulticastCreate);
  PUT(cuMulticastAddDevice);
  PUT(cuMulticastBindMem);
  PUT(cuMemRelease);
  PUT(cuMemAddressFree);
  PUT(cuMemUnmap);
  PUT(cuMulticastUnbind);
  PUT(cuStreamDestroy);
  PUT(cuMemFree);
#undef PUT
}

/* ---- ranks ------------------------------------------------------------------------- */

static bw_bundle *bundle;
static bw_device *devices[MOST];
static struct bwt_driver driver; /* to look at memory */

static void open_devices(void) {
  char count[8];
  snprintf(count, sizeof count, "%d", MOST);
  setenv("EMU_DEVICES", count, 1);
  unsetenv("NCCL_NVLS_ENABLE");
  unsetenv("BAREWARP_MULTICAST");
  ck_assert_msg(bw_bundle_open(NULL, &bundle) == BW_OK, "%s", bw_last_error());
  const char *why = bwt_driver_open("emu", &driver);
  ck_assert_msg(!why, "%s", why);
  for (int r = 0; r < MOST; r++) {
    ck_assert_msg(bw_device_open(bundle, driver.path, r, &devices[r]) == BW_OK, "%s",
                  bw_last_error());
    if (r == 0)
      watch_driver(devices[0]->driver);
    devices[r]->driver = &watched;
  }
}

static void close_devices(void) {
  for (int r = 0; r < MOST; r++)
    bw_device_close(devices[r]);
  bw_bundle_close(bundle);
  bwt_driver_close(&driver);
}

typedef unsigned char blob[BW_MAILBOX_BLOB_SIZE];

struct ranks {
  int count;
  bw_mailbox *mailboxes[MOST];
  blob blobs[MOST], next[MOST]; /* of the round before; of this one */
  int rounds;
  bw_status status; /* of all ranks alike */
  char text[1024];
};

static bw_mailbox_config config_of(int ranks, int rank, bw_mailbox_mode mode) {
  return (bw_mailbox_config){.hidden = HIDDEN,
                             .capacity = CAPACITY,
                             .tp_size = (uint32_t)ranks,
                             .rank = (uint32_t)rank,
                             .mode = mode};
}

static void create(struct ranks *all, int count, bw_mailbox_mode mode) {
  *all = (struct ranks){.count = count, .status = BW_MORE};
  memset(calls, 0, sizeof calls);
  for (int r = 0; r < count; r++) {
    bw_mailbox_config config = config_of(count, r, mode);
    ck_assert_msg(bw_mailbox_create(devices[r], &config, &all->mailboxes[r]) == BW_OK, "%s",
                  bw_last_error());
  }
}

/* One round on all ranks, which must say the same. */
static bw_status take_round(struct ranks *all) {
  for (int r = 0; r < all->count; r++) {
    rank_now = r;
    bw_status status = bw_mailbox_round(all->mailboxes[r], all->rounds ? all->blobs : NULL,
                                        all->rounds ? (size_t)all->count : 0, all->next[r]);
    rank_now = -1;
    const char *text = status == BW_OK || status == BW_MORE ? "" : bw_last_error();
    if (r == 0) {
      all->status = status;
      snprintf(all->text, sizeof all->text, "%s", text);
    }
    ck_assert_msg(status == all->status && strcmp(text, all->text) == 0,
                  "round %d: rank 0 says %s (%s), rank %d %s (%s)", all->rounds,
                  bw_status_text(all->status), all->text, r, bw_status_text(status), text);
  }
  memcpy(all->blobs, all->next, sizeof all->blobs);
  all->rounds++;
  return all->status;
}

static bw_status finish_rounds(struct ranks *all) {
  while (all->status == BW_MORE)
    take_round(all);
  return all->status;
}

static void destroy(struct ranks *all) {
  for (int r = 0; r < all->count; r++)
    bw_mailbox_destroy(all->mailboxes[r]);
}

static int open_descriptors(void) {
  int count = 0;
  DIR *folder = opendir("/proc/self/fd");
  while (readdir(folder))
    count++;
  closedir(folder);
  return count;
}

/* Every word is empty and no step is counted. */
static void expect_armed(const struct ranks *all) {
  static uint32_t words[2 * CAPACITY * HIDDEN];
  for (int r = 0; r < all->count; r++) {
    bw_mailbox_info info;
    uint32_t counters[2] = {1, 1};
    ck_assert(bw_mailbox_query(all->mailboxes[r], &info) == BW_OK);
    ck_assert_uint_eq(info.ring_bytes, (size_t)info.generations * CAPACITY * HIDDEN * 2);
    ck_assert_uint_le(info.ring_bytes, sizeof words);
    ck_assert_int_eq(driver.CtxSetCurrent(devices[r]->context), CUDA_SUCCESS);
    ck_assert_int_eq(driver.MemcpyDtoH(words, info.ring, info.ring_bytes), CUDA_SUCCESS);
    ck_assert_int_eq(driver.MemcpyDtoH(counters, info.counters, sizeof counters), CUDA_SUCCESS);
    for (size_t i = 0; i < info.ring_bytes / 4; i++)
      BWT_SAME(words[i], BWI_EMPTY_WORD);
    ck_assert(counters[0] == 0 && counters[1] == 0);
  }
}

static void expect_mode(const struct ranks *all, bw_mailbox_mode mode) {
  for (int r = 0; r < all->count; r++) {
    bw_mailbox_info info;
    ck_assert(bw_mailbox_query(all->mailboxes[r], &info) == BW_OK);
    ck_assert_int_eq(info.mode, mode);
    ck_assert(info.ready);
  }
}

static void nobody_fails(void) {
  failing_rank = -1;
  failing_for_good = false;
}

/* ---- no failures ------------------------------------------------------------------- */

START_TEST(modes) {
  open_devices();
  static const int sizes[] = {1, 2, 8};
  static const bw_mailbox_mode asked[] = {BW_MAILBOX_AUTO, BW_MAILBOX_MULTICAST, BW_MAILBOX_PEERS};
  nobody_fails();
  for (size_t s = 0; s < BWT_COUNT(sizes); s++)
    for (size_t a = 0; a < BWT_COUNT(asked); a++) {
      if (asked[a] == BW_MAILBOX_MULTICAST && sizes[s] == 1)
        continue; /* refused: see wrong_configurations */
      struct ranks all;
      create(&all, sizes[s], asked[a]);
      ck_assert_msg(finish_rounds(&all) == BW_OK, "%s", all.text);
      ck_assert_int_eq(all.rounds, ROUNDS);
      bw_mailbox_mode expected = asked[a] != BW_MAILBOX_AUTO ? asked[a]
                                 : sizes[s] == 1             ? BW_MAILBOX_LOCAL
                                                             : BW_MAILBOX_MULTICAST;
      expect_mode(&all, expected);
      expect_armed(&all);
      destroy(&all);
    }
  close_devices();
}
END_TEST

/* _i: which of the two variables. */
START_TEST(barred_by_environment) {
  open_devices();
  static const char *const variables[] = {"NCCL_NVLS_ENABLE", "BAREWARP_MULTICAST"};
  nobody_fails();
  setenv(variables[_i], "0", 1);
  struct ranks all;
  multicast_calls = 0;
  create(&all, 2, BW_MAILBOX_AUTO);
  ck_assert_msg(finish_rounds(&all) == BW_OK, "%s", all.text);
  expect_mode(&all, BW_MAILBOX_PEERS);
  destroy(&all);
  create(&all, 2, BW_MAILBOX_MULTICAST);
  ck_assert_int_eq(finish_rounds(&all), BW_ERROR_UNSUPPORTED);
  ck_assert_int_eq(all.rounds, 2);
  ck_assert_msg(strstr(all.text, variables[_i]) != NULL, "%s", all.text);
  destroy(&all);
  ck_assert_int_eq(multicast_calls, 0);
  close_devices();
}
END_TEST

START_TEST(reset_empties_it) {
  open_devices();
  nobody_fails();
  struct ranks all;
  create(&all, 2, BW_MAILBOX_PEERS);
  ck_assert_int_eq(bw_mailbox_reset(all.mailboxes[0]), BW_ERROR_STATE);
  ck_assert_int_eq(finish_rounds(&all), BW_OK);
  for (int r = 0; r < all.count; r++) {
    static const uint32_t rubbish[4] = {1, 2, 3, 4};
    bw_mailbox_info info;
    ck_assert(bw_mailbox_query(all.mailboxes[r], &info) == BW_OK);
    ck_assert_int_eq(driver.CtxSetCurrent(devices[r]->context), CUDA_SUCCESS);
    ck_assert_int_eq(driver.MemcpyHtoD(info.ring + 64, rubbish, sizeof rubbish), CUDA_SUCCESS);
    ck_assert_int_eq(driver.MemcpyHtoD(info.counters, rubbish, 8), CUDA_SUCCESS);
    ck_assert_int_eq(bw_mailbox_reset(all.mailboxes[r]), BW_OK);
  }
  bw_lamport_copy_args args = {.out = 1024, .rows = 1};
  ck_assert_int_eq(bw_lamport_copy_launch(all.mailboxes[0], &args, NULL), BW_ERROR_STATE);
  all.rounds = 0;
  all.status = BW_MORE;
  ck_assert_int_eq(finish_rounds(&all), BW_OK);
  expect_armed(&all);
  expect_mode(&all, BW_MAILBOX_PEERS);
  destroy(&all);
  close_devices();
}
END_TEST

/* The six orders of three mailboxes, of eight ranks whose others go last. */
START_TEST(destroyed_in_any_order) {
  open_devices();
  static const int orders[6][3] = {{0, 1, 2}, {0, 2, 1}, {1, 0, 2},
                                   {1, 2, 0}, {2, 0, 1}, {2, 1, 0}};
  nobody_fails();
  struct held before = held;
  for (int mode = BW_MAILBOX_MULTICAST; mode <= BW_MAILBOX_PEERS; mode++) {
    struct ranks all;
    create(&all, 4, (bw_mailbox_mode)mode);
    ck_assert_int_eq(finish_rounds(&all), BW_OK);
    for (int i = 0; i < 3; i++)
      bw_mailbox_destroy(all.mailboxes[orders[_i][i]]);
    bw_mailbox_destroy(all.mailboxes[3]);
    ck_assert(memcmp(&before, &held, sizeof held) == 0);
  }
  close_devices();
}
END_TEST

START_TEST(destroyed_between_rounds) {
  open_devices();
  nobody_fails();
  struct held before = held;
  int descriptors = open_descriptors();
  for (int stop = 0; stop < ROUNDS; stop++) {
    struct ranks all;
    create(&all, 4, BW_MAILBOX_AUTO);
    for (int i = 0; i < stop; i++)
      take_round(&all);
    destroy(&all);
    ck_assert(memcmp(&before, &held, sizeof held) == 0);
    ck_assert_int_eq(open_descriptors(), descriptors);
  }
  close_devices();
}
END_TEST

/* ---- one call fails ---------------------------------------------------------------- */

static bool is_multicast_step(const char names_of_rank[][40], int call) {
  /* Binding is followed by the three calls that map the object. */
  for (int back = 0; back <= 3 && back <= call; back++)
    if (strcmp(names_of_rank[call - back], "cuMulticastBindMem") == 0)
      return true;
  return strncmp(names_of_rank[call], "cuMulticast", 11) == 0;
}

/* _i: the mode asked for. */
START_TEST(one_call_fails) {
  open_devices();
  static const CUresult codes[] = {CUDA_ERROR_INVALID_VALUE, CUDA_ERROR_NOT_PERMITTED,
                                   CUDA_ERROR_SYSTEM_NOT_READY};
  static char recorded[MOST_CALLS][40];
  bw_mailbox_mode mode = (bw_mailbox_mode)_i;
  int tried = 0;
  for (int rank = 0; rank < 2; rank++) {
    struct ranks all;
    nobody_fails();
    for (int i = 0; i < 2; i++) { /* the first loads the kernel, too */
      create(&all, 4, mode);
      ck_assert_int_eq(finish_rounds(&all), BW_OK);
      destroy(&all);
    }
    int count = calls[rank];
    memcpy(recorded, names[rank], sizeof recorded);
    ck_assert_int_gt(count, 0);
    struct held before = held;
    int descriptors = open_descriptors();
    for (int call = 0; call < count; call++)
      for (int good = 0; good < 2; good++) {
        failing_rank = rank;
        failing_call = call;
        failing_code = codes[call % 3];
        failing_for_good = good;
        create(&all, 4, mode);
        bw_status status = finish_rounds(&all);
        bool is_attribute = strcmp(recorded[call], "cuDeviceGetAttribute") == 0;
        bool multicast = is_multicast_step((const char(*)[40])recorded, call);
        if (multicast && mode == BW_MAILBOX_AUTO) {
          if (!good || strncmp(recorded[call], "cuMulticast", 11) == 0) {
            ck_assert_msg(status == BW_OK, "%s: %s", recorded[call], all.text);
            expect_mode(&all, BW_MAILBOX_PEERS);
            expect_armed(&all);
          }
        } else if (!is_attribute) {
          ck_assert_msg(status != BW_OK, "rank %d's call %d, %s, failed and nobody cared", rank,
                        call, recorded[call]);
          ck_assert_msg(strstr(all.text, recorded[call]) != NULL, "%s: %s", recorded[call],
                        all.text);
        }
        destroy(&all);
        ck_assert_msg(memcmp(&before, &held, sizeof held) == 0,
                      "after the failure of rank %d's call %d, %s: %d handles, %d addresses, %d "
                      "mappings, %d bindings, %d streams are left",
                      rank, call, recorded[call], held.handles - before.handles,
                      held.addresses - before.addresses, held.mappings - before.mappings,
                      held.bindings - before.bindings, held.streams - before.streams);
        ck_assert_int_eq(open_descriptors(), descriptors);
        tried++;
      }
  }
  nobody_fails();
  printf("  mode %d: %d failures\n", _i, tried);
  ck_assert_int_gt(tried, 0);
  close_devices();
}
END_TEST

/* ---- bad blobs --------------------------------------------------------------------- */

/* What is done to the blobs that all ranks get. */
static void spoil(struct ranks *all, int how) {
  bwi_blob b;
  memcpy(&b, all->blobs[1], sizeof b);
  switch (how) {
  case 0:
    b.head.version++;
    break;
  case 1:
    b.head.size -= 8;
    break;
  case 2:
    b.head.magic ^= 1;
    break;
  case 3:
    b.rank = 0;
    break;
  case 4:
    b.rank = 7;
    break;
  case 5:
    b.round++;
    break;
  case 6:
    b.hidden *= 2;
    break;
  case 7:
    b.capacity++;
    break;
  case 8:
    b.mode = BW_MAILBOX_MULTICAST;
    break;
  default:
    b.generations++;
    break;
  }
  memcpy(all->blobs[1], &b, sizeof b);
}

static const char *const spoiled[] = {"version",   "bytes",      "no blob", "twice",
                                      "of rank 7", "round",      "hidden",  "config.capacity",
                                      "mode",      "generations"};

START_TEST(bad_blobs) {
  open_devices();
  nobody_fails();
  struct held before = held;
  for (int round = 1; round < ROUNDS; round++) {
    struct ranks all;
    create(&all, 4, BW_MAILBOX_PEERS);
    for (int i = 0; i < round; i++)
      ck_assert_int_eq(take_round(&all), BW_MORE);
    spoil(&all, _i);
    ck_assert_int_eq(take_round(&all), BW_ERROR_INVALID_ARGUMENT);
    ck_assert_msg(strstr(all.text, spoiled[_i]) != NULL, "%s", all.text);
    ck_assert(memcmp(&before, &held, sizeof held) == 0); /* before they are destroyed */
    /* It stays so. */
    blob out;
    ck_assert_int_eq(bw_mailbox_round(all.mailboxes[2], all.blobs, 4, out), BW_ERROR_STATE);
    destroy(&all);
  }
  close_devices();
}
END_TEST

START_TEST(missing_blobs) {
  open_devices();
  nobody_fails();
  struct ranks all;
  blob out;
  create(&all, 4, BW_MAILBOX_PEERS);
  ck_assert_int_eq(bw_mailbox_round(all.mailboxes[0], all.blobs, 1, out),
                   BW_ERROR_INVALID_ARGUMENT); /* the first has no blobs; nothing is lost */
  take_round(&all);
  take_round(&all);
  memmove(all.blobs[1], all.blobs[2], 2 * sizeof *all.blobs);
  for (int r = 0; r < 4; r++) {
    if (r == 1)
      continue; /* it was killed */
    ck_assert_int_eq(bw_mailbox_round(all.mailboxes[r], all.blobs, 3, out),
                     BW_ERROR_INVALID_ARGUMENT);
    ck_assert_msg(strstr(bw_last_error(), "no blob of rank 1") != NULL, "%s", bw_last_error());
  }
  destroy(&all);
  close_devices();
}
END_TEST

/* A rank whose set of blobs alone is bad tells the others in the round after. */
START_TEST(bad_on_one_rank) {
  open_devices();
  nobody_fails();
  struct ranks all;
  create(&all, 4, BW_MAILBOX_PEERS);
  take_round(&all);
  ck_assert_int_eq(bw_mailbox_round(all.mailboxes[2], all.blobs, 3, all.next[2]),
                   BW_ERROR_INVALID_ARGUMENT);
  for (int r = 0; r < 4; r++)
    if (r != 2)
      ck_assert_int_eq(bw_mailbox_round(all.mailboxes[r], all.blobs, 4, all.next[r]), BW_MORE);
  blob out;
  for (int r = 0; r < 4; r++)
    if (r != 2) {
      ck_assert_int_eq(bw_mailbox_round(all.mailboxes[r], all.next, 4, out),
                       BW_ERROR_INVALID_ARGUMENT);
      ck_assert_msg(strstr(bw_last_error(), "rank 2: n is 3") != NULL, "%s", bw_last_error());
    }
  destroy(&all);
  close_devices();
}
END_TEST

START_TEST(wrong_configurations) {
  open_devices();
  static const struct {
    uint32_t hidden, capacity, tp_size, rank, mode, flags;
    const char *text;
  } wrong[] = {
      {0, 1, 1, 0, 0, 0, "config.hidden is 0"},
      {12, 1, 1, 0, 0, 0, "config.hidden is 12, must be a multiple of 8"},
      {64, 0, 1, 0, 0, 0, "config.capacity is 0"},
      {64, 1u << 25, 1, 0, 0, 0, "config.capacity"},
      {64, 1, 0, 0, 0, 0, "config.tp_size is 0"},
      {64, 1, 17, 0, 0, 0, "config.tp_size is 17, must be 1..16"},
      {64, 1, 4, 4, 0, 0, "config.rank is 4, must be 0..3"},
      {64, 1, 3, 0, 0, 0, "config.hidden is 64, must be a multiple of 3"},
      {8, 1, 8, 0, 0, 0, "must be even"},
      {64, 1, 2, 0, 4, 0, "config.mode is 4"},
      {64, 1, 1, 0, BW_MAILBOX_MULTICAST, 0, "config.tp_size 1"},
      {64, 1, 1, 0, 0, 2, "config.flags is 0x2"},
  };
  for (size_t i = 0; i < BWT_COUNT(wrong); i++) {
    bw_mailbox_config config = {.hidden = wrong[i].hidden,
                                .capacity = wrong[i].capacity,
                                .tp_size = wrong[i].tp_size,
                                .rank = wrong[i].rank,
                                .mode = (bw_mailbox_mode)wrong[i].mode,
                                .flags = wrong[i].flags};
    bw_mailbox *mailbox = NULL;
    ck_assert_int_eq(bw_mailbox_create(devices[0], &config, &mailbox), BW_ERROR_INVALID_ARGUMENT);
    ck_assert_msg(strstr(bw_last_error(), wrong[i].text) != NULL, "%s", bw_last_error());
    ck_assert(mailbox == NULL);
  }
  close_devices();
}
END_TEST

/* ---- descriptors between processes ------------------------------------------------- */

/* The sender's blob said it sent, but nothing comes. */
START_TEST(letter_lost) {
  bwi_mail mail;
  bwi_mail_init(&mail);
  ck_assert_int_eq(bwi_mail_open(&mail, 2), BW_OK);
  int memory = -1;
  int64_t start = bwi_milliseconds();
  ck_assert_int_eq(bwi_descriptor_receive(&mail, 1, 5, &memory, NULL, start + 60), BW_ERROR_IO);
  int64_t took = bwi_milliseconds() - start;
  ck_assert_msg(took >= 60 && took < 5000, "%lld ms", (long long)took);
  ck_assert_msg(strstr(bw_last_error(), "rank 1 within 30 s") != NULL, "%s", bw_last_error());
  bwi_mail_close(&mail);
}
END_TEST

/* Letters of others, and for other mailboxes, are thrown away and their descriptors closed. */
START_TEST(letters_of_strangers) {
  bwi_mail mail;
  bwi_mail_init(&mail);
  ck_assert_int_eq(bwi_mail_open(&mail, 2), BW_OK);
  int offered = open("/dev/null", O_RDONLY), before = open_descriptors();
  ck_assert_int_eq(bwi_descriptor_send(mail.address, 1, 6, BWI_MAIL_MEMORY, offered), BW_OK);
  ck_assert_int_eq(bwi_descriptor_send(mail.address, 1, 5, BWI_MAIL_MULTICAST, offered), BW_OK);
  ck_assert_int_eq(bwi_descriptor_send(mail.address, 1, 5, BWI_MAIL_MEMORY, offered), BW_OK);
  int memory = -1;
  ck_assert_int_eq(bwi_descriptor_receive(&mail, 1, 5, &memory, NULL, bwi_milliseconds() + 1000),
                   BW_OK);
  ck_assert_int_ge(memory, 0);
  ck_assert_int_eq(open_descriptors(), before + 1);
  close(memory);
  close(offered);
  bwi_mail_close(&mail);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("rounds", modes, 60),
      BWT_LOOP("rounds", barred_by_environment, 0, 2, 60),
      BWT_TEST("rounds", reset_empties_it, 60),
      BWT_LOOP("rounds", destroyed_in_any_order, 0, 6, 60),
      BWT_TEST("rounds", destroyed_between_rounds, 60),
      BWT_LOOP("failures", one_call_fails, BW_MAILBOX_AUTO, BW_MAILBOX_PEERS + 1, 120),
      BWT_LOOP("blobs", bad_blobs, 0, (int)BWT_COUNT(spoiled), 60),
      BWT_TEST("blobs", missing_blobs, 60),
      BWT_TEST("blobs", bad_on_one_rank, 60),
      BWT_TEST("blobs", wrong_configurations, 60),
      BWT_TEST("descriptors", letter_lost, 60),
      BWT_TEST("descriptors", letters_of_strangers, 60),
  };
  return bwt_suite_main("mailbox_rounds", tests, BWT_COUNT(tests));
}
