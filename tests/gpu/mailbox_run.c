/* SPDX-License-Identifier: Apache-2.0
 *
 * The mailbox at length: ranks on devices of their own (fewer devices: ranks share them), each
 * driven by a thread of one process or by a process of its own, step after step replayed from
 * CUDA graphs, M changing from step to step and from graph to graph.  Every row that a rank
 * gets is looked at on its device; in the end every mailbox must be empty again and every step
 * counted.  Values follow from step, row and column (tests/kernels/make_rows.ptx): latent is 0,
 * so a rank's columns are its `shared`.
 *
 *   mailbox_run [--ranks N] [--processes] [--steps N] [--shard S] [--latent L] [--rows M]
 *               [--seed N] [--bundle FILE]
 *
 * Defaults: a rank a device, one process, 100000 steps, S = 896, L = 3584, up to 8 rows.
 * The driver is BW_TEST_DRIVER's.  Prints one line a rank and "N passed, N failed" for ranks.
 */
#include "cli/cli.h"
#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/target.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
  MOST = BW_MAILBOX_MAX_RANKS,
  GRAPHS = 8,      /* different ones, replayed in an order drawn anew */
  CHAIN = 15,      /* steps of a graph: odd, so that it begins in either generation */
  IN_FLIGHT = 16,  /* replays enqueued before a rank waits for its own */
  POLLS = 1 << 25, /* of a word before a copy gives up: some seconds */
  SPINS = 3000,    /* of a delay at most */
  CHECK_CTAS = 32,
  CHECK_THREADS = 256
};

static const uint32_t empty_word = 0x80000000;

static struct settings {
  uint64_t ranks, steps, shard, latent, rows, seed;
  bool processes;
  const char *bundle;
} settings = {.steps = 100000, .shard = 896, .latent = 3584, .rows = 8};

/* What ranks share, in memory that all processes see. */
typedef unsigned char blob[BW_MAILBOX_BLOB_SIZE];
static struct common {
  pthread_barrier_t barrier;
  blob blobs[MOST];
  bool passed[MOST];
  bool gave_up; /* some rank could not go on: nobody waits any more */
} *common;

struct report {
  uint64_t looked_at;
  uint32_t wrong, step, row, column, got, unused;
};

struct rank {
  uint32_t number;
  bw_bundle *bundle;
  bw_device *device;
  bw_mailbox *mailbox;
  bw_up_proj_plan *plan;
  struct bwt_session session; /* its driver and context alone are used */
  CUstream stream;
  CUgraphExec graphs[GRAPHS];
  struct bwt_kernel make_rows, check_rows, delay;
  CUfunction count_steps;
  CUdeviceptr weight, latent, shared, out, steps, report;
  uint64_t words_due; /* that the checks must have looked at */
  uint64_t done;
};

static uint32_t hidden(void) {
  return (uint32_t)(settings.shard * settings.ranks);
}
static uint32_t stride(void) {
  return ((uint32_t)settings.shard + 15) / 16 * 16;
}

/* ---- complaints -------------------------------------------------------------------------- */

static bool complain(const struct rank *k, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
static bool complain(const struct rank *k, const char *format, ...) {
  char text[1024];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  printf("rank %u: %s\n", k->number, text);
  return false;
}

static bool driver_ok(const struct rank *k, CUresult result, const char *what) {
  return result == CUDA_SUCCESS ||
         complain(k, "%s: %s", what, bwt_driver_error(&k->session.driver, result));
}
#define OK(call) driver_ok(k, k->session.driver.call, #call)

static bool library_ok(const struct rank *k, bw_status status, const char *what) {
  return status == BW_OK || complain(k, "%s: %s", what, bw_last_error());
}
#define BW(call) library_ok(k, call, #call)

/* ---- set-up -------------------------------------------------------------------------------- */

static bool memory(struct rank *k, CUdeviceptr *address, int byte, size_t bytes) {
  void *data = malloc(bytes);
  if (data == NULL)
    return complain(k, "out of memory");
  memset(data, byte, bytes);
  bool ok = OK(MemAlloc(address, bytes)) && OK(MemcpyHtoD(*address, data, bytes));
  free(data);
  return ok;
}

/* Weights need only be finite. */
static bool weights(struct rank *k) {
  const size_t count = settings.shard * settings.latent;
  struct bwt_random random;
  bwt_random_seed(&random, bwt_mix(settings.seed, k->number));
  uint16_t *data = malloc(count * 2);
  if (data == NULL)
    return complain(k, "out of memory");
  for (size_t i = 0; i < count; i++)
    data[i] = (uint16_t)((bwt_random_u64(&random) & 0x87ff) | 0x3800);
  bool ok = OK(MemAlloc(&k->weight, count * 2)) && OK(MemcpyHtoD(k->weight, data, count * 2));
  free(data);
  return ok;
}

/* All ranks' blobs; every rank comes here as often as the others. */
static void gather(const struct rank *k, const blob mine, blob *all) {
  memcpy(common->blobs[k->number], mine, sizeof(blob));
  pthread_barrier_wait(&common->barrier);
  memcpy(all, common->blobs, settings.ranks * sizeof(blob));
  pthread_barrier_wait(&common->barrier);
}

static bool rounds(struct rank *k) {
  static const blob nothing;
  blob mine, all[MOST];
  const bw_mailbox_config config = {.hidden = hidden(),
                                    .capacity = (uint32_t)settings.rows,
                                    .tp_size = (uint32_t)settings.ranks,
                                    .rank = k->number,
                                    .mode =
                                        settings.ranks > 1 ? BW_MAILBOX_PEERS : BW_MAILBOX_LOCAL,
                                    .flags = BW_MAILBOX_COPY_WAITS_FIRST * (settings.seed & 1),
                                    .poll_limit = POLLS};
  /* A rank that has no mailbox goes round with the others all the same: they then say so. */
  bool ok = k->device != NULL && BW(bw_mailbox_create(k->device, &config, &k->mailbox));
  memcpy(mine, nothing, sizeof mine);
  bw_status status = ok ? bw_mailbox_round(k->mailbox, NULL, 0, mine) : BW_ERROR_STATE;
  for (int i = 0; i < 8; i++) {
    gather(k, mine, all);
    if (status == BW_MORE)
      status = bw_mailbox_round(k->mailbox, all, settings.ranks, mine);
  }
  return ok && library_ok(k, status, "bw_mailbox_round");
}

static bool open_device(struct rank *k) {
  const char *why = bwt_driver_open(NULL, &k->session.driver);
  if (why != NULL)
    return complain(k, "%s", why);
  const int ordinal = bwt_device_of(k->session.driver.DeviceGetCount, k->number);
  return BW(bw_bundle_open(settings.bundle, &k->bundle)) &&
         BW(bw_device_open(k->bundle, k->session.driver.path, ordinal, &k->device)) &&
         OK(DevicePrimaryCtxRetain(&k->session.context, ordinal)) &&
         OK(CtxSetCurrent(k->session.context));
}

static bool open_kernels(struct rank *k) {
  struct bwt_text why = {0};
  if (!bwt_kernel_open(&k->make_rows, &k->session, "make_rows", &why) ||
      !bwt_kernel_open(&k->check_rows, &k->session, "check_rows", &why) ||
      !bwt_kernel_open(&k->delay, &k->session, "delay", &why))
    return complain(k, "%s", why.chars);
  return OK(ModuleGetFunction(&k->count_steps, k->check_rows.module, "count_steps"));
}

static bool open_rank(struct rank *k) {
  const size_t out = (size_t)CHAIN * settings.rows * hidden() * 2;
  const size_t shared = (size_t)CHAIN * settings.rows * stride() * 2;
  if (!memory(k, &k->latent, 0, settings.rows * settings.latent * 2) || !weights(k) ||
      !memory(k, &k->shared, 0, shared) || !memory(k, &k->out, 0xff, out) ||
      !memory(k, &k->steps, 0, 4) || !memory(k, &k->report, 0, sizeof(struct report)) ||
      !OK(StreamCreate(&k->stream, CU_STREAM_NON_BLOCKING)) || !open_kernels(k))
    return false;
  const bw_up_proj_config config = {.shape = {(uint32_t)settings.latent, hidden(),
                                              (uint32_t)settings.ranks, k->number,
                                              (uint32_t)settings.rows},
                                    .weight = k->weight,
                                    .mailbox = k->mailbox};
  return BW(bw_up_proj_plan_create(k->device, &config, &k->plan));
}

/* ---- a graph ------------------------------------------------------------------- */

/* The same on all ranks: how many rows step s of graph g has. */
static uint32_t rows_of(uint32_t g, uint32_t s) {
  return 1 + (uint32_t)(bwt_mix(settings.seed, 1000 + (uint64_t)g * CHAIN + s) % settings.rows);
}

static CUresult launch(const struct rank *k, CUfunction function, unsigned ctas, unsigned threads,
                       void **parameters) {
  const struct bwt_kernel kernel = {.driver = &k->session.driver, .function = function};
  return bwt_kernel_launch(&kernel, ctas, threads, k->stream, true, parameters);
}

static CUdeviceptr shared_of(const struct rank *k, uint32_t s) {
  return k->shared + (CUdeviceptr)s * settings.rows * stride() * 2;
}
static CUdeviceptr out_of(const struct rank *k, uint32_t s) {
  return k->out + (CUdeviceptr)s * settings.rows * hidden() * 2;
}

static bool enqueue_makers(struct rank *k) {
  uint32_t shard = (uint32_t)settings.shard, first = k->number * shard, width = stride(),
           capacity = (uint32_t)settings.rows, columns = hidden();
  for (uint32_t s = 0; s < CHAIN; s++) {
    CUdeviceptr shared = shared_of(k, s);
    void *parameters[] = {&shared, &k->steps, &s, &first, &shard, &width, &capacity, &columns};
    if (!driver_ok(k, launch(k, k->make_rows.function, CHECK_CTAS, CHECK_THREADS, parameters),
                   "make_rows"))
      return false;
  }
  return true;
}

static bool enqueue_checks(struct rank *k, uint32_t g) {
  uint32_t capacity = (uint32_t)settings.rows, columns = hidden(), chain = CHAIN;
  for (uint32_t s = 0; s < CHAIN; s++) {
    CUdeviceptr out = out_of(k, s);
    uint32_t rows = rows_of(g, s);
    void *parameters[] = {&out, &k->steps, &s, &rows, &capacity, &columns, &k->report};
    if (!driver_ok(k, launch(k, k->check_rows.function, CHECK_CTAS, CHECK_THREADS, parameters),
                   "check_rows"))
      return false;
  }
  void *parameters[] = {&k->steps, &chain};
  return driver_ok(k, launch(k, k->count_steps, 1, 1, parameters), "count_steps");
}

/* Ranks and graphs differ in where they trigger, which launches go without PDL, and where
 * something else takes time. */
static bool enqueue_steps(struct rank *k, uint32_t g, struct bwt_random *dice) {
  static const uint32_t flags[] = {0,
                                   0,
                                   0,
                                   BW_LAUNCH_TRIGGER_AFTER_WAIT,
                                   BW_LAUNCH_TRIGGER_LATE,
                                   BW_LAUNCH_NO_PDL,
                                   BW_LAUNCH_TRIGGER_ENTRY};
  const uint32_t ways = settings.seed & 1 ? 7 : 6; /* entry: if readers wait first */
  for (uint32_t s = 0; s < CHAIN; s++) {
    const bw_up_proj_args produce = {.latent = k->latent,
                                     .shared = shared_of(k, s),
                                     .shared_row_stride = stride(),
                                     .rows = rows_of(g, s),
                                     .flags = flags[bwt_random_below(dice, ways)]};
    const bw_lamport_copy_args consume = {
        .out = out_of(k, s), .rows = rows_of(g, s), .flags = flags[bwt_random_below(dice, 7)]};
    uint32_t spins = 1 + bwt_random_below(dice, SPINS);
    void *parameters[] = {&spins};
    if ((bwt_random_below(dice, 12) == 0 &&
         !driver_ok(k, launch(k, k->delay.function, 1, 32, parameters), "delay")) ||
        !BW(bw_up_proj_launch(k->plan, &produce, k->stream)) ||
        !BW(bw_lamport_copy_launch(k->mailbox, &consume, k->stream)))
      return false;
  }
  return true;
}

static bool make_graph(struct rank *k, uint32_t g) {
  struct bwt_random dice;
  CUgraph graph;
  bwt_random_seed(&dice, bwt_mix(settings.seed, 5000 + k->number * GRAPHS + g));
  return OK(StreamBeginCapture(k->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL)) &&
         enqueue_makers(k) && enqueue_steps(k, g, &dice) && enqueue_checks(k, g) &&
         OK(StreamEndCapture(k->stream, &graph)) &&
         OK(GraphInstantiateWithFlags(&k->graphs[g], graph, 0)) && OK(GraphDestroy(graph));
}

/* ---- the run ------------------------------------------------------------------- */

static bool replay_all(struct rank *k) {
  struct bwt_random order; /* the same on all ranks */
  bwt_random_seed(&order, bwt_mix(settings.seed, 9));
  for (uint32_t n = 0; k->done < settings.steps; n++) {
    const uint32_t g = bwt_random_below(&order, GRAPHS);
    if (!OK(GraphLaunch(k->graphs[g], k->stream)) ||
        (n % IN_FLIGHT == IN_FLIGHT - 1 && !OK(StreamSynchronize(k->stream))))
      return false;
    k->done += CHAIN;
    k->words_due += (uint64_t)CHAIN * settings.rows * hidden();
  }
  return OK(StreamSynchronize(k->stream));
}

static bool check_report(struct rank *k) {
  struct report r;
  if (!OK(MemcpyDtoH(&r, k->report, sizeof r)))
    return false;
  if (r.looked_at != k->words_due)
    return complain(k, "the checks looked at %llu words, not %llu", (unsigned long long)r.looked_at,
                    (unsigned long long)k->words_due);
  return r.wrong == 0 ||
         complain(k,
                  "%u words are wrong; one of them: step %u, row %u, column %u "
                  "(of rank %u) is 0x%04x",
                  r.wrong, r.step, r.row, r.column, r.column / (uint32_t)settings.shard, r.got);
}

static bool check_mailbox(struct rank *k) {
  bw_mailbox_info info;
  uint32_t counters[2] = {0, 0};
  if (!BW(bw_mailbox_check(k->mailbox)) || !BW(bw_mailbox_query(k->mailbox, &info)) ||
      !OK(MemcpyDtoH(counters, info.counters, sizeof counters)))
    return false;
  if (counters[0] != (uint32_t)k->done || counters[1] != 0)
    return complain(k, "counts %u steps and %u tickets, not %llu and 0", counters[0], counters[1],
                    (unsigned long long)k->done);
  uint32_t *words = malloc(info.ring_bytes);
  bool ok = words != NULL && OK(MemcpyDtoH(words, info.ring, info.ring_bytes));
  for (size_t i = 0; ok && i < info.ring_bytes / 4; i++)
    if (words[i] != empty_word)
      ok = complain(k, "word %zu of the ring is 0x%08x, not empty", i, words[i]);
  free(words);
  return ok;
}

static double now(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static bool run(struct rank *k) {
  bool ok = open_device(k);
  ok = rounds(k) && ok && open_rank(k);
  for (uint32_t g = 0; ok && g < GRAPHS; g++)
    ok = make_graph(k, g);
  /* From here each rank needs all others: none starts if one cannot. */
  if (!ok)
    common->gave_up = true;
  pthread_barrier_wait(&common->barrier);
  const double start = now();
  if (common->gave_up)
    return ok && complain(k, "another rank could not start");
  ok = replay_all(k);
  const double seconds = now() - start;
  ok = check_report(k) && check_mailbox(k) && ok;
  if (ok)
    printf("rank %u: %llu steps, %llu words right, mailbox empty again; %.2f us a step with "
           "making and checking rows\n",
           k->number, (unsigned long long)k->done, (unsigned long long)k->words_due,
           seconds * 1e6 / (double)k->done);
  return ok;
}

static void close_rank(struct rank *k) {
  const struct bwt_driver *d = &k->session.driver;
  for (uint32_t g = 0; g < GRAPHS; g++)
    if (k->graphs[g] != NULL)
      (void)d->GraphExecDestroy(k->graphs[g]);
  const CUdeviceptr all[] = {k->weight, k->latent, k->shared, k->out, k->steps, k->report};
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (all[i] != 0)
      (void)d->MemFree(all[i]);
  if (k->stream != NULL)
    (void)d->StreamDestroy(k->stream);
  bw_up_proj_plan_destroy(k->plan);
  bw_mailbox_destroy(k->mailbox);
  bw_device_close(k->device);
  bw_bundle_close(k->bundle);
}

static void *whole_rank(void *arg) {
  struct rank *k = arg;
  common->passed[k->number] = run(k);
  fflush(stdout);
  /* Its memory stays until nobody stores there any more. */
  pthread_barrier_wait(&common->barrier);
  close_rank(k);
  return NULL;
}

/* ---- threads, or processes ----------------------------------------------------- */

static void run_threads(struct rank *ranks) {
  pthread_t threads[MOST];
  for (uint32_t r = 0; r < settings.ranks; r++)
    if (pthread_create(&threads[r], NULL, whole_rank, &ranks[r]) != 0)
      exit(CLI_FAILED);
  for (uint32_t r = 0; r < settings.ranks; r++)
    (void)pthread_join(threads[r], NULL);
}

/* Forked before any of them opens the driver.  If one dies, the others are ended: they would
 * wait for it. */
static void run_processes(struct rank *ranks) {
  pid_t children[MOST];
  uint32_t left = (uint32_t)settings.ranks;
  fflush(stdout);
  for (uint32_t r = 0; r < settings.ranks; r++) {
    children[r] = fork();
    if (children[r] == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      (void)whole_rank(&ranks[r]);
      _exit(0);
    }
  }
  for (int status = 0; left > 0 && waitpid(-1, &status, 0) > 0; left--)
    if (!(WIFEXITED(status) && WEXITSTATUS(status) == 0)) {
      printf("a rank died (status 0x%x)\n", (unsigned)status);
      common->gave_up = true;
      for (uint32_t r = 0; r < settings.ranks; r++)
        (void)kill(children[r], SIGKILL);
    }
}

static bool default_ranks(void) {
  /* Asked in a process of its own: a driver that is open is not forked. */
  int count = 0, ends[2];
  if (settings.ranks != 0)
    return true;
  if (pipe(ends) != 0)
    return false;
  const pid_t child = fork();
  if (child == 0) {
    struct bwt_driver driver;
    if (bwt_driver_open(NULL, &driver) == NULL)
      (void)driver.DeviceGetCount(&count);
    _exit(write(ends[1], &count, sizeof count) == sizeof count ? 0 : 1);
  }
  close(ends[1]);
  if (child < 0 || read(ends[0], &count, sizeof count) != sizeof count)
    count = 0;
  close(ends[0]);
  (void)waitpid(child, NULL, 0);
  settings.ranks = (uint64_t)(count < MOST ? count : MOST);
  return count > 0;
}

static bool read_settings(int argc, char **argv) {
  static const char usage[] =
      "usage: mailbox_run [--ranks N] [--processes] [--steps N] [--shard S] [--latent L]\n"
      "           [--rows M] [--seed N] [--bundle FILE]\n";
  const char *ranks = NULL, *steps = NULL, *shard = NULL, *latent = NULL, *rows = NULL,
             *seed = NULL;
  struct settings *s = &settings;
  const cli_option options[] = {
      {"--ranks", &ranks, NULL},      {"--processes", NULL, &s->processes},
      {"--steps", &steps, NULL},      {"--shard", &shard, NULL},
      {"--latent", &latent, NULL},    {"--rows", &rows, NULL},
      {"--bundle", &s->bundle, NULL}, {"--seed", &seed, NULL},
  };
  if (!cli_parse(argc, argv, options, sizeof options / sizeof *options, NULL, 0, usage) ||
      (ranks && !cli_number("--ranks", ranks, 1, MOST, &s->ranks)) ||
      (steps && !cli_number("--steps", steps, 1, 1u << 31, &s->steps)) ||
      (shard && !cli_number("--shard", shard, 8, 1 << 16, &s->shard)) ||
      (latent && !cli_number("--latent", latent, 1, 1 << 20, &s->latent)) ||
      (rows && !cli_number("--rows", rows, 1, BW_UP_PROJ_MAX_ROWS, &s->rows)) ||
      (seed && !cli_number("--seed", seed, 0, UINT64_MAX, &s->seed)))
    return false;
  if (!seed)
    s->seed = bwt_run_seed();
  return true;
}

int main(int argc, char **argv) {
  static struct rank ranks[MOST];
  if (!read_settings(argc, argv))
    return CLI_USAGE;
  if (!default_ranks()) {
    fprintf(stderr, "mailbox_run: the driver has no device\n");
    return CLI_FAILED;
  }
  common = mmap(NULL, sizeof *common, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  if (common == MAP_FAILED)
    return CLI_FAILED;
  pthread_barrierattr_t shared;
  pthread_barrierattr_init(&shared);
  pthread_barrierattr_setpshared(&shared, PTHREAD_PROCESS_SHARED);
  pthread_barrier_init(&common->barrier, &shared, (unsigned)settings.ranks);
  bwt_emulate_devices((uint32_t)settings.ranks);
  setvbuf(stdout, NULL, _IOLBF, 0);
  printf(
      "%llu ranks in %s, %llu steps or a few more, S = %llu, L = %llu, 1..%llu rows, seed %llu\n",
      (unsigned long long)settings.ranks, settings.processes ? "a process each" : "one process",
      (unsigned long long)settings.steps, (unsigned long long)settings.shard,
      (unsigned long long)settings.latent, (unsigned long long)settings.rows,
      (unsigned long long)settings.seed);
  for (uint32_t r = 0; r < settings.ranks; r++)
    ranks[r].number = r;
  if (settings.processes)
    run_processes(ranks);
  else
    run_threads(ranks);
  unsigned passed = 0;
  for (uint32_t r = 0; r < settings.ranks; r++)
    passed += common->passed[r];
  printf("%u passed, %u failed\n", passed, (unsigned)settings.ranks - passed);
  return passed == settings.ranks ? CLI_OK : CLI_FAILED;
}
