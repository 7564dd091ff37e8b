/* SPDX-License-Identifier: Apache-2.0
 *
 * What kernels are held against on the same GPU: reading alone, a launch alone, and a grid
 * that only fetches its weights.  See tests/kernels/bench.ptx, which is part of this file.
 */
#include "cli/bench.h"

#include <stdlib.h>
#include <string.h>

__asm__(".pushsection .rodata\n"
        ".hidden cli_bench_ptx\n"
        ".globl cli_bench_ptx\n"
        "cli_bench_ptx:\n"
        ".incbin \"tests/kernels/bench.ptx\"\n"
        ".byte 0\n"
        ".popsection\n");
extern const char cli_bench_ptx[] __attribute__((visibility("hidden")));

enum {
  PIECE = 65536,       /* bytes read_all reads at a time */
  READ_THREADS = 512,  /* of read_all */
  FETCH_THREADS = 128, /* of fetch_block */
  STAGE = 16384,       /* bytes of a bulk copy at most, as in wo_a */
  NEVER = 0x2545f491,  /* what no random data are likely to give */
  COPIES = 32          /* the random bytes on the host are so much less than on the GPU */
};

#define DRIVER(call) bench_driver_ok(b, b->ranks.session.driver.call, #call)

bool bench_kernels_open(bench *b) {
  const uint32_t zero = 0;
  return DRIVER(ModuleLoadData(&b->kernels, cli_bench_ptx)) &&
         bench_memory(b, &b->sink, &zero, sizeof zero);
}

void bench_kernels_close(bench *b) {
  bench_release(b, &b->sink, 1);
  if (b->kernels)
    (void)b->ranks.session.driver.ModuleUnload(b->kernels);
  b->kernels = NULL;
}

/* Random bytes, made on the host for a part and repeated: repeats are further apart than any
 * cache reaches. */
static bool random_memory(bench *b, CUdeviceptr *address, size_t bytes, uint32_t copies) {
  const size_t part = bytes / copies;
  struct bwt_random random;
  bwt_random_seed(&random, bwt_mix(b->seed, 77));
  void *data = malloc(part);
  bool ok = data || bench_no_memory();
  if (ok) {
    bwt_random_bytes(&random, data, part);
    ok = bench_memory(b, address, NULL, bytes);
  }
  for (uint32_t i = 0; ok && i < copies; i++)
    ok = DRIVER(MemcpyHtoD(*address + i * part, data, part));
  free(data);
  return ok;
}

static CUresult launch(bench *b, CUfunction function, uint32_t ctas, uint32_t threads,
                       uint32_t cluster, uint32_t shared, bool pdl, CUstream stream,
                       void **parameters) {
  CUlaunchAttribute attributes[2];
  memset(attributes, 0, sizeof attributes);
  CUlaunchConfig config = {.gridDimX = ctas,
                           .gridDimY = 1,
                           .gridDimZ = 1,
                           .blockDimX = threads,
                           .blockDimY = 1,
                           .blockDimZ = 1,
                           .sharedMemBytes = shared,
                           .hStream = stream,
                           .attrs = attributes};
  if (pdl) {
    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION;
    attributes[config.numAttrs++].value.programmaticStreamSerializationAllowed = 1;
  }
  if (cluster > 1) {
    attributes[config.numAttrs].id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION;
    attributes[config.numAttrs].value.clusterDim.x = cluster;
    attributes[config.numAttrs].value.clusterDim.y = 1;
    attributes[config.numAttrs++].value.clusterDim.z = 1;
  }
  return b->ranks.session.driver.LaunchKernelEx(&config, function, parameters, NULL);
}

/* ---- reading ---------------------------------------------------------------------------- */

typedef struct read_job {
  CUfunction function;
  CUdeviceptr from;
  uint32_t pieces, ctas;
} read_job;

static bool enqueue_read(bench *b, void *job, uint32_t r, uint32_t number,
                         const struct bench_way *way, CUstream stream) {
  read_job *j = job;
  uint32_t never = NEVER;
  void *parameters[] = {&j->from, &j->pieces, &never, &b->sink};
  (void)r, (void)number, (void)way;
  return bench_driver_ok(
      b, launch(b, j->function, j->ctas, READ_THREADS, 1, 0, false, stream, parameters),
      "read_all");
}

/* The best of a few grids: how many CTAs an SM are best is not the question. */
bool bench_read_rate(bench *b) {
  static const uint32_t ctas_per_sm[] = {2, 4, 8, 16};
  const size_t bytes = b->info.emulated ? (size_t)8 * PIECE : (size_t)2 << 30;
  read_job j = {.pieces = (uint32_t)(bytes / PIECE)};
  bool ok = DRIVER(ModuleGetFunction(&j.function, b->kernels, "read_all")) &&
            random_memory(b, &j.from, bytes, b->info.emulated ? 1 : COPIES);
  const bench_chain chain = {.job = &j, .launches = 1, .enqueue = enqueue_read};
  const size_t grids = b->info.emulated ? 1 : sizeof ctas_per_sm / sizeof *ctas_per_sm;
  for (size_t i = 0; ok && i < grids; i++) {
    bench_time time;
    j.ctas = b->info.emulated ? 2 : ctas_per_sm[i] * (uint32_t)b->info.multiprocessors;
    ok = bench_measure(b, &chain, &bench_ways[BENCH_NO_PDL], &time);
    const double rate = ok ? (double)bytes / time.median * 1e6 : 0;
    b->read_rate = rate > b->read_rate ? rate : b->read_rate;
  }
  bench_release(b, &j.from, 1);
  return ok;
}

/* ---- an empty kernel --------------------------------------------------------------------- */

static bool enqueue_empty(bench *b, void *job, uint32_t r, uint32_t number,
                          const struct bench_way *way, CUstream stream) {
  uint32_t trigger = way->trigger;
  void *parameters[] = {&trigger};
  (void)r, (void)number;
  return bench_driver_ok(
      b, launch(b, job, 1, 32, 1, 0, !(way->flags & BW_LAUNCH_NO_PDL), stream, parameters),
      "empty");
}

bool bench_empty(bench *b, bench_time times[BENCH_WAYS]) {
  CUfunction function;
  bool ok = DRIVER(ModuleGetFunction(&function, b->kernels, "empty"));
  const bench_chain chain = {
      .job = function, .launches = bench_launches(b, 200, 1), .enqueue = enqueue_empty};
  for (int w = 0; ok && w < BENCH_WAYS; w++)
    ok = bench_measure(b, &chain, &bench_ways[w], &times[w]);
  return ok;
}

/* ---- fetching alone ------------------------------------------------------------------------ */

typedef struct floor_job {
  CUfunction function;
  CUdeviceptr from;
  uint32_t ctas, cluster, bytes, stages, rotation;
} floor_job;

static bool enqueue_floor(bench *b, void *job, uint32_t r, uint32_t number,
                          const struct bench_way *way, CUstream stream) {
  floor_job *j = job;
  uint32_t trigger = way->trigger, never = NEVER;
  CUdeviceptr from = j->from + (uint64_t)(number % j->rotation) * j->ctas * j->bytes;
  void *parameters[] = {&from, &j->bytes, &j->stages, &trigger, &never, &b->sink};
  (void)r;
  return bench_driver_ok(b,
                         launch(b, j->function, j->ctas, FETCH_THREADS, j->cluster, j->bytes,
                                !(way->flags & BW_LAUNCH_NO_PDL), stream, parameters),
                         "fetch_block");
}

bool bench_floor(bench *b, uint32_t ctas, uint32_t cluster, uint32_t bytes,
                 bench_time times[BENCH_WAYS]) {
  floor_job j = {.ctas = ctas, .cluster = cluster, .bytes = bytes};
  const size_t one = (size_t)ctas * bytes;
  j.rotation = bench_rotation(b, one);
  /* Stages of equal size, each a multiple of what a bulk copy moves. */
  for (j.stages = (bytes + STAGE - 1) / STAGE; bytes % (16 * j.stages) != 0; j.stages++) {
  }
  bool ok = DRIVER(ModuleGetFunction(&j.function, b->kernels, "fetch_block")) &&
            DRIVER(FuncSetAttribute(j.function, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES,
                                    (int)bytes)) &&
            random_memory(b, &j.from, one * j.rotation, j.rotation);
  const bench_chain chain = {
      .job = &j, .launches = bench_launches(b, 192, j.rotation), .enqueue = enqueue_floor};
  for (int w = 0; ok && w < BENCH_WAYS; w++)
    ok = bench_measure(b, &chain, &bench_ways[w], &times[w]);
  bench_release(b, &j.from, 1);
  return ok;
}
