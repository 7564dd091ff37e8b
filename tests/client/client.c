/* SPDX-License-Identifier: Apache-2.0
 *
 * An ordinary client of a CUDA driver: a program written against cuda.h alone, which knows
 * nothing of barewarp nor of which driver it meets.
 *
 *   cc *.c -lcuda -lm -o client
 *   ./client FOLDER [SEED]
 *
 * FOLDER has vector_add.ptx, reduction.ptx and gemm.ptx.  The work is c = a + b, the sum of c
 * and d = c w, on every device: by calls on two streams that events order, by a graph captured
 * from these calls and launched on several sets of numbers, by a graph built of nodes whose
 * parameters change; and a product whose rows are shared out to all devices.  Results are
 * compared, bit for bit, with the same operations in C.  What is written to is poisoned
 * before, and lies between canaries.  Prints "N comparisons on D devices, 0 wrong" at the end;
 * exits with 1 at the first error.
 */
#include "support.h"

#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_DEVICES = 16, CTAS = 3, ADDERS = 128, REDUCERS = 256, TILE = 16 };
#define POISON 0xffffffffu /* a NaN */

/* ---- the same in C ------------------------------------------------------------------ */

/* 32 lanes, each with those 16, 8, 4, 2, 1 apart. */
static float sum_warp(float lane[32]) {
  for (unsigned apart = 16; apart > 0; apart /= 2) {
    float next[32];
    for (unsigned i = 0; i < 32; i++)
      next[i] = lane[i] + lane[i ^ apart];
    memcpy(lane, next, sizeof next);
  }
  return lane[0];
}

static void reduce(const float *x, unsigned n, unsigned ctas, float *sums) {
  for (unsigned cta = 0; cta < ctas; cta++) {
    float warps[32] = {0};
    for (unsigned warp = 0; warp < REDUCERS / 32; warp++) {
      float lane[32] = {0};
      for (unsigned t = 0; t < 32; t++)
        for (unsigned i = cta * REDUCERS + warp * 32 + t; i < n; i += ctas * REDUCERS)
          lane[t] += x[i];
      warps[warp] = sum_warp(lane);
    }
    sums[cta] = sum_warp(warps);
  }
}

static void multiply(const float *a, const float *b, float *d, unsigned m, unsigned n, unsigned k) {
  for (unsigned r = 0; r < m; r++)
    for (unsigned c = 0; c < n; c++) {
      float sum = 0;
      for (unsigned i = 0; i < k; i++)
        sum = fmaf(a[r * k + i], b[i * n + c], sum);
      d[r * n + c] = sum;
    }
}

/* ---- a device, the work ------------------------------------------------------------- */

struct gpu {
  int number;
  CUdevice device;
  CUcontext context;
  CUmodule modules[3];
  CUfunction vector_add, reduction, gemm;
  CUstream stream, side;
  CUevent started, added, multiplied, ended;
};

static char *read_text(const char *folder, const char *name) {
  char path[4096];
  (void)snprintf(path, sizeof path, "%s/%s.ptx", folder, name);
  FILE *file = fopen(path, "rb");
  char *text = calloc(1, 1 << 16);
  if (file == NULL || text == NULL || fread(text, 1, (1 << 16) - 1, file) == 0) {
    perror(path);
    exit(1);
  }
  (void)fclose(file);
  return text;
}

static CUresult load(CUmodule *module, const char *text, char *log, size_t size) {
  CUjit_option options[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *values[] = {log, (void *)(uintptr_t)size};
  log[0] = '\0';
  return cuModuleLoadDataEx(module, text, 2, options, values);
}

static CUfunction load_kernel(CUmodule *module, const char *folder, const char *name) {
  char log[4096], *text = read_text(folder, name);
  CUresult result = load(module, text, log, sizeof log);
  if (result != CUDA_SUCCESS)
    (void)fprintf(stderr, "%s.ptx:\n%s\n", name, log);
  check(result, name);
  free(text);
  CUfunction function;
  CU(cuModuleGetFunction(&function, *module, name));
  return function;
}

static void open_gpu(struct gpu *g, int number, const char *folder) {
  memset(g, 0, sizeof *g);
  g->number = number;
  CU(cuDeviceGet(&g->device, number));
  CU(cuDevicePrimaryCtxRetain(&g->context, g->device));
  CU(cuCtxSetCurrent(g->context));
  g->vector_add = load_kernel(&g->modules[0], folder, "vector_add");
  g->reduction = load_kernel(&g->modules[1], folder, "reduction");
  g->gemm = load_kernel(&g->modules[2], folder, "gemm");
  CU(cuStreamCreate(&g->stream, CU_STREAM_NON_BLOCKING));
  CU(cuStreamCreate(&g->side, CU_STREAM_NON_BLOCKING));
  CU(cuEventCreate(&g->started, CU_EVENT_DEFAULT));
  CU(cuEventCreate(&g->added, CU_EVENT_DISABLE_TIMING));
  CU(cuEventCreate(&g->multiplied, CU_EVENT_DISABLE_TIMING));
  CU(cuEventCreate(&g->ended, CU_EVENT_DEFAULT));

  int threads = 0;
  CUfunction none;
  CU(cuFuncGetAttribute(&threads, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, g->gemm));
  require(threads == TILE * TILE, "threads that .reqntid of gemm allows");
  require(cuModuleGetFunction(&none, g->modules[0], "gemm") == CUDA_ERROR_NOT_FOUND,
          "a function of another module");
  char log[4096], *text = read_text(folder, "gemm");
  CUmodule broken;
  memcpy(strstr(text, ".reg .pred"), ".reg .prod", 10);
  require(load(&broken, text, log, sizeof log) == CUDA_ERROR_INVALID_PTX && log[0] != '\0',
          "PTX with an unknown type, and its error log");
  free(text);
}

static void close_gpu(struct gpu *g) {
  CU(cuCtxSetCurrent(g->context));
  CU(cuEventDestroy(g->started));
  CU(cuEventDestroy(g->added));
  CU(cuEventDestroy(g->multiplied));
  CU(cuEventDestroy(g->ended));
  CU(cuStreamDestroy(g->stream));
  CU(cuStreamDestroy(g->side));
  for (int i = 0; i < 3; i++)
    CU(cuModuleUnload(g->modules[i]));
  CU(cuCtxSetCurrent(NULL));
  CU(cuDevicePrimaryCtxRelease(g->device));
}

static void launch_add(const struct gpu *g, CUdeviceptr a, CUdeviceptr b, CUdeviceptr c, unsigned n,
                       CUstream stream) {
  void *arguments[] = {&a, &b, &c, &n};
  CU(cuLaunchKernel(g->vector_add, CTAS, 1, 1, ADDERS, 1, 1, 0, stream, arguments, NULL));
}

static void launch_reduction(const struct gpu *g, CUdeviceptr x, CUdeviceptr sums, unsigned n,
                             unsigned ctas, CUstream stream) {
  void *arguments[] = {&x, &sums, &n};
  CU(cuLaunchKernel(g->reduction, ctas, 1, 1, REDUCERS, 1, 1, 0, stream, arguments, NULL));
}

static void launch_gemm(const struct gpu *g, CUdeviceptr a, CUdeviceptr b, CUdeviceptr d,
                        unsigned m, unsigned n, unsigned k, CUstream stream) {
  void *arguments[] = {&a, &b, &d, &m, &n, &k};
  CU(cuLaunchKernel(g->gemm, (n + TILE - 1) / TILE, (m + TILE - 1) / TILE, 1, TILE, TILE, 1, 0,
                    stream, arguments, NULL));
}

/* c = a + b, m x k; sums of its CTAs and then of all; d = c w, w k x n. */
struct work {
  unsigned m, n, k;
  struct buffer a, b, w, c, sums, d;
};

/* Up to four tiles, mostly not whole ones. */
static unsigned draw_size(void) {
  return 17 + (unsigned)(draw() % 48);
}

static struct work make_work(void) {
  struct work w = {.m = draw_size(), .n = draw_size(), .k = draw_size()};
  w.a = make_buffer(w.m * w.k);
  w.b = make_buffer(w.m * w.k);
  w.w = make_buffer(w.k * w.n);
  w.c = make_buffer(w.m * w.k);
  w.sums = make_buffer(CTAS + 1);
  w.d = make_buffer(w.m * w.n);
  return w;
}

static void free_work(struct work *w) {
  struct buffer *all[] = {&w->a, &w->b, &w->w, &w->c, &w->sums, &w->d};
  for (unsigned i = 0; i < sizeof all / sizeof *all; i++)
    free_buffer(all[i]);
}

static void draw_work(struct work *w) {
  draw_floats(w->a.host, w->a.count);
  draw_floats(w->b.host, w->b.count);
  draw_floats(w->w.host, w->w.count);
  poison_host(&w->c);
  poison_host(&w->sums);
  poison_host(&w->d);
}

static void poison_device(const struct buffer *b, CUstream stream) {
  CU(cuMemsetD32Async(b->device, POISON, b->count, stream));
}
static void upload(const struct buffer *b, CUstream stream) {
  CU(cuMemcpyHtoDAsync(b->device, b->host, 4 * (size_t)b->count, stream));
}
static void download(const struct buffer *b, CUstream stream) {
  CU(cuMemcpyDtoHAsync(b->host, b->device, 4 * (size_t)b->count, stream));
}

/* On g's stream; the product and what only it needs go to the side stream. */
static void enqueue(const struct gpu *g, const struct work *w) {
  poison_device(&w->c, g->stream);
  poison_device(&w->sums, g->stream);
  CU(cuEventRecord(g->multiplied, g->stream)); /* here: the fork */
  CU(cuStreamWaitEvent(g->side, g->multiplied, 0));
  poison_device(&w->d, g->side);
  upload(&w->w, g->side);

  upload(&w->a, g->stream);
  upload(&w->b, g->stream);
  launch_add(g, w->a.device, w->b.device, w->c.device, w->c.count, g->stream);
  CU(cuEventRecord(g->added, g->stream));
  CU(cuStreamWaitEvent(g->side, g->added, 0));
  launch_gemm(g, w->c.device, w->w.device, w->d.device, w->m, w->n, w->k, g->side);
  download(&w->d, g->side);
  CU(cuEventRecord(g->multiplied, g->side));

  launch_reduction(g, w->c.device, w->sums.device, w->c.count, CTAS, g->stream);
  launch_reduction(g, w->sums.device, w->sums.device + 4 * CTAS, CTAS, 1, g->stream);
  download(&w->c, g->stream);
  download(&w->sums, g->stream);
  CU(cuStreamWaitEvent(g->stream, g->multiplied, 0));
}

static void judge(const struct gpu *g, const struct work *w) {
  float *c = malloc(4 * (size_t)w->c.count), *d = malloc(4 * (size_t)w->d.count), sums[CTAS + 1];
  for (unsigned i = 0; i < w->c.count; i++)
    c[i] = w->a.host[i] + w->b.host[i];
  same("c", g->number, w->c.host, c, w->c.count);
  reduce(c, w->c.count, CTAS, sums);
  reduce(sums, CTAS, 1, sums + CTAS);
  same("sums", g->number, w->sums.host, sums, CTAS + 1);
  multiply(c, w->w.host, d, w->m, w->n, w->k);
  same("d", g->number, w->d.host, d, w->d.count);
  /* And in an order of nobody's making: to the rounding of so many additions. */
  double sum = 0, size = 0;
  for (unsigned i = 0; i < w->c.count; i++) {
    sum += (double)c[i];
    size += fabs((double)c[i]);
  }
  require(fabs((double)w->sums.host[CTAS] - sum) <= size * w->c.count * 0x1p-24, "the sum of c");
  free(c);
  free(d);
}

/* ---- the ways to do it --------------------------------------------------------- */

static void by_calls(const struct gpu *g) {
  struct work w = make_work();
  draw_work(&w);
  float ms = -1;
  CU(cuEventRecord(g->started, g->stream));
  enqueue(g, &w);
  CU(cuEventRecord(g->ended, g->stream));
  CU(cuEventSynchronize(g->ended));
  require(cuEventQuery(g->ended) == CUDA_SUCCESS && cuStreamQuery(g->stream) == CUDA_SUCCESS,
          "an event that was waited for has happened");
  CU(cuEventElapsedTime(&ms, g->started, g->ended));
  require(ms >= 0, "the time between two events");
  judge(g, &w);
  free_work(&w);
}

static void by_captured_graph(const struct gpu *g) {
  struct work w = make_work();
  CUgraph graph;
  CUgraphExec ready;
  size_t nodes = 0;
  CU(cuStreamBeginCapture(g->stream, CU_STREAM_CAPTURE_MODE_THREAD_LOCAL));
  enqueue(g, &w);
  CU(cuStreamEndCapture(g->stream, &graph));
  CU(cuGraphGetNodes(graph, NULL, &nodes));
  require(nodes == 13, "nodes of the captured graph: 3 memsets, 6 copies, 4 kernels");
  CU(cuGraphInstantiate(&ready, graph, 0));
  CU(cuGraphDestroy(graph));
  for (int launch = 0; launch < 3; launch++) {
    draw_work(&w);
    CU(cuGraphLaunch(ready, g->stream));
    CU(cuStreamSynchronize(g->stream));
    judge(g, &w);
  }
  CU(cuGraphExecDestroy(ready));
  free_work(&w);
}

/* a + b by a kernel node; then, its parameters changed, b + b of the first half alone. */
static void by_nodes(const struct gpu *g) {
  struct work w = make_work();
  unsigned n = w.c.count, half = n / 2;
  draw_work(&w);
  upload(&w.a, g->stream);
  upload(&w.b, g->stream);
  CU(cuStreamSynchronize(g->stream));

  CUgraph graph;
  CUgraphExec ready;
  CUgraphNode memset_node, add_node;
  CUDA_MEMSET_NODE_PARAMS fill = {
      .dst = w.c.device, .value = POISON, .elementSize = 4, .width = n, .height = 1};
  void *arguments[] = {&w.a.device, &w.b.device, &w.c.device, &n};
  CUDA_KERNEL_NODE_PARAMS add = {.func = g->vector_add,
                                 .gridDimX = CTAS,
                                 .gridDimY = 1,
                                 .gridDimZ = 1,
                                 .blockDimX = ADDERS,
                                 .blockDimY = 1,
                                 .blockDimZ = 1,
                                 .kernelParams = arguments};
  CU(cuGraphCreate(&graph, 0));
  CU(cuGraphAddMemsetNode(&memset_node, graph, NULL, 0, &fill, g->context));
  CU(cuGraphAddKernelNode(&add_node, graph, &memset_node, 1, &add));
  CU(cuGraphInstantiate(&ready, graph, 0));
  CU(cuGraphLaunch(ready, g->stream));
  download(&w.c, g->stream);
  CU(cuStreamSynchronize(g->stream));
  float *want = malloc(4 * (size_t)n);
  for (unsigned i = 0; i < n; i++)
    want[i] = w.a.host[i] + w.b.host[i];
  same("c of nodes", g->number, w.c.host, want, n);

  arguments[0] = &w.b.device;
  arguments[3] = &half;
  CU(cuGraphExecKernelNodeSetParams(ready, add_node, &add));
  CU(cuGraphLaunch(ready, g->stream));
  download(&w.c, g->stream);
  CU(cuStreamSynchronize(g->stream));
  memset(want, 0xff, 4 * (size_t)n);
  for (unsigned i = 0; i < half; i++)
    want[i] = w.b.host[i] + w.b.host[i];
  same("c of changed nodes", g->number, w.c.host, want, n);

  CU(cuGraphExecDestroy(ready));
  CU(cuGraphDestroy(graph));
  free(want);
  free_work(&w);
}

/* The first device adds; each, also the first, multiplies its rows of the sum. */
static void by_all_devices(const struct gpu *gpus, unsigned count) {
  const struct gpu *first = &gpus[0];
  CU(cuCtxSetCurrent(first->context));
  struct work w = make_work();
  draw_work(&w);
  upload(&w.a, first->stream);
  upload(&w.b, first->stream);
  poison_device(&w.c, first->stream);
  launch_add(first, w.a.device, w.b.device, w.c.device, w.c.count, first->stream);
  download(&w.c, first->stream);
  CU(cuEventRecord(first->added, first->stream));
  CU(cuStreamSynchronize(first->stream)); /* for judging c; the others wait by the event */

  float *want = malloc(4 * (size_t)w.d.count);
  multiply(w.c.host, w.w.host, want, w.m, w.n, w.k);
  struct buffer rows[MOST_DEVICES], weights[MOST_DEVICES], products[MOST_DEVICES];
  for (unsigned i = 0; i < count; i++) {
    const struct gpu *g = &gpus[i];
    unsigned from = w.m * i / count, m = w.m * (i + 1) / count - from;
    CU(cuCtxSetCurrent(g->context));
    rows[i] = make_buffer(m * w.k);
    weights[i] = make_buffer(w.w.count);
    products[i] = make_buffer(m * w.n);
    poison_host(&products[i]);
    memcpy(weights[i].host, w.w.host, 4 * (size_t)w.w.count);
    poison_device(&products[i], g->stream);
    upload(&weights[i], g->stream);
    CU(cuStreamWaitEvent(g->stream, first->added, 0));
    CU(cuMemcpyPeerAsync(rows[i].device, g->context, w.c.device + 4 * (size_t)(from * w.k),
                         first->context, 4 * (size_t)rows[i].count, g->stream));
    launch_gemm(g, rows[i].device, weights[i].device, products[i].device, m, w.n, w.k, g->stream);
    download(&products[i], g->stream);
  }
  for (unsigned i = 0; i < count; i++) {
    CU(cuCtxSetCurrent(gpus[i].context));
    CU(cuStreamSynchronize(gpus[i].stream));
    same("rows of d", (int)i, products[i].host, want + (size_t)(w.m * i / count) * w.n,
         products[i].count);
    free_buffer(&rows[i]);
    free_buffer(&weights[i]);
    free_buffer(&products[i]);
  }
  CU(cuCtxSetCurrent(first->context));
  free(want);
  free_work(&w);
}

int main(int argc, char **argv) {
  if (argc < 2 || argc > 3) {
    (void)fprintf(stderr, "usage: client FOLDER [SEED]\n");
    return 2;
  }
  client_seed = argc == 3 ? strtoull(argv[2], NULL, 0) : 1;
  static struct gpu gpus[MOST_DEVICES];
  int count = 0;
  CU(cuInit(0));
  CU(cuDeviceGetCount(&count));
  count = count < MOST_DEVICES ? count : MOST_DEVICES;
  require(count > 0, "the number of devices");
  for (int i = 0; i < count; i++) {
    open_gpu(&gpus[i], i, argv[1]);
    by_calls(&gpus[i]);
    by_captured_graph(&gpus[i]);
    by_nodes(&gpus[i]);
  }
  by_all_devices(gpus, (unsigned)count);
  for (int i = 0; i < count; i++)
    close_gpu(&gpus[i]);
  printf("seed %llu: %u comparisons on %d devices, 0 wrong\n", client_seed, comparisons, count);
  return 0;
}
