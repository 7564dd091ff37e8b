/* SPDX-License-Identifier: Apache-2.0
 *
 * How a serving engine calls wo_a: two layers of a model in one stream, first launched
 * directly, then captured into a CUDA graph and replayed.
 *
 *   cc wo_a_engine.c -lbarewarp -lzstd -l:libcuda.so.1 -o wo_a_engine
 *   ./wo_a_engine [bundle]
 *
 * The engine owns the driver, the context, the memory and the stream, as engines do;
 * barewarp uses the context that is current.  The numbers are chosen so that the result
 * can be checked by hand: all inputs are 1, no rotation (position 0), the weights of
 * layer 0 are 1 and those of layer 1 are 1/2.
 */
#include <barewarp.h>
#include <cuda.h>

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LAYERS = 2, GROUPS = 2, HEADS = 8, RANK = 256, MAX_TOKENS = 32, TOKENS = 5, POSITIONS = 16 };
enum { N = GROUPS * RANK, K = HEADS * (int)BW_WO_A_HEAD_DIM, X_ROW = GROUPS * K };

/* ---- errors: an example stops at the first ------------------------------------------- */

static void check_bw(bw_status status, const char *call) {
  if (status == BW_OK)
    return;
  (void)fprintf(stderr, "%s: %s: %s\n", call, bw_status_text(status), bw_last_error());
  exit(1);
}

static void check_cu(CUresult result, const char *call) {
  if (result == CUDA_SUCCESS)
    return;
  const char *name = "unknown";
  (void)cuGetErrorName(result, &name);
  (void)fprintf(stderr, "%s: %s\n", call, name);
  exit(1);
}

#define BW(call) check_bw(call, #call)
#define CU(call) check_cu(call, #call)

/* ---- device memory ----------------------------------------------------------------------- */

static CUdeviceptr upload(const void *data, size_t bytes) {
  CUdeviceptr p;
  CU(cuMemAlloc(&p, bytes));
  CU(cuMemcpyHtoD(p, data, bytes));
  return p;
}

static CUdeviceptr upload_bytes(unsigned char value, size_t bytes) {
  CUdeviceptr p;
  CU(cuMemAlloc(&p, bytes));
  CU(cuMemsetD8(p, value, bytes));
  return p;
}

/* ---- the model ------------------------------------------------------------------------------ */

typedef struct layer {
  CUdeviceptr weight, weight_scale; /* e4m3 [N, K]; packed ue8m0 */
  CUdeviceptr q, qs;                /* its output */
  bw_wo_a_plan *plan;
} layer;

/* Weights all 2^exponent: the code 1.0 with that scale, for every 32 columns. */
static void load_layer(bw_device *device, int exponent, layer *l) {
  const bw_wo_a_shape shape = {GROUPS, HEADS, RANK, MAX_TOKENS};
  static uint8_t scales[N * (K / 32)];   /* row-major, as a checkpoint has them */
  static uint32_t packed[N * (K / 128)]; /* as the kernel wants them */
  memset(scales, 127 + exponent, sizeof scales);
  BW(bw_wo_a_pack_scales(&shape, scales, packed));
  l->weight = upload_bytes(0x38 /* 1.0 in e4m3 */, (size_t)N * K);
  l->weight_scale = upload(packed, sizeof packed);

  size_t q_bytes, qs_bytes;
  BW(bw_wo_a_output_sizes(&shape, MAX_TOKENS, &q_bytes, &qs_bytes));
  l->q = upload_bytes(0xFF, q_bytes);
  l->qs = upload_bytes(0xFF, qs_bytes);

  bw_wo_a_config config = {.shape = shape, .weight = l->weight, .weight_scale = l->weight_scale};
  BW(bw_wo_a_plan_create(device, &config, &l->plan));
}

static void free_layer(layer *l) {
  bw_wo_a_plan_destroy(l->plan);
  CU(cuMemFree(l->weight));
  CU(cuMemFree(l->weight_scale));
  CU(cuMemFree(l->q));
  CU(cuMemFree(l->qs));
}

/* One decode step: attention's output x of each layer goes through its projection.  (Here
 * both layers read the same x; in a model attention runs in between.) */
static void step(const layer layers[LAYERS], bw_wo_a_args args, CUstream stream) {
  for (int i = 0; i < LAYERS; i++) {
    args.q = layers[i].q;
    args.qs = layers[i].qs;
    BW(bw_wo_a_launch(layers[i].plan, &args, stream));
  }
}

/* ---- checking ------------------------------------------------------------------ */

/* All inputs 1: each output is K * 2^exponent = 2^(12 + exponent).  Divided by 448 and
 * rounded up to a power of two that is a scale of 2^(4 + exponent); the code is 256, 0x78. */
static int check_layer(const layer *l, int exponent) {
  static uint8_t q[TOKENS * N], qs[BW_WO_A_MAX_TOKENS * (N / 32)], rows[BW_WO_A_MAX_TOKENS][N / 32];
  CU(cuMemcpyDtoH(q, l->q, sizeof q));
  CU(cuMemcpyDtoH(qs, l->qs, sizeof qs));
  BW(bw_f8_128x4_unswizzle(qs, BW_WO_A_MAX_TOKENS, N / 32, rows[0]));
  int wrong = 0;
  for (int i = 0; i < TOKENS * N; i++)
    wrong += q[i] != 0x78;
  for (int t = 0; t < (int)BW_WO_A_MAX_TOKENS; t++)
    for (int b = 0; b < N / 32; b++)
      wrong += rows[t][b] != (t < TOKENS ? 127 + 4 + exponent : 0);
  return wrong;
}

int main(int argc, char **argv) {
  /* What an engine has already: a context, a stream, attention's output. */
  CUdevice cu_device;
  CUcontext context;
  CUstream stream;
  CU(cuInit(0));
  CU(cuDeviceGet(&cu_device, 0));
  CU(cuDevicePrimaryCtxRetain(&context, cu_device));
  CU(cuCtxSetCurrent(context));
  CU(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));

  static uint16_t x[TOKENS * X_ROW];
  static int64_t positions[TOKENS]; /* all 0 */
  static float rope[POSITIONS][BW_WO_A_ROPE_DIM];
  for (int i = 0; i < TOKENS * X_ROW; i++)
    x[i] = 0x3F80; /* 1.0 in bf16 */
  for (int p = 0; p < POSITIONS; p++)
    for (int i = 0; i < (int)BW_WO_A_ROPE_DIM / 2; i++)
      rope[p][i] = 1.0F; /* cosines 1, sines 0 */

  /* barewarp: once for the process, then once for each layer. */
  bw_bundle *bundle;
  bw_device *device;
  bw_device_info info;
  layer layers[LAYERS];
  BW(bw_bundle_open(argc > 1 ? argv[1] : NULL, &bundle));
  BW(bw_device_open(bundle, NULL, BW_DEVICE_CURRENT, &device));
  BW(bw_device_query(device, &info));
  for (int i = 0; i < LAYERS; i++)
    load_layer(device, -i, &layers[i]);

  bw_wo_a_args args = {.x = upload(x, sizeof x),
                       .x_token_stride = X_ROW,
                       .positions = upload(positions, sizeof positions),
                       .rope = upload(rope, sizeof rope),
                       .tokens = TOKENS};

  CU(cuCtxSynchronize()); /* cuMemsetD8 waits for nothing, and our stream not for it */

  /* A step launched directly, then one captured and replayed. */
  step(layers, args, stream);
  CU(cuStreamSynchronize(stream));
  int wrong = check_layer(&layers[0], 0) + check_layer(&layers[1], -1);

  CUgraph graph;
  CUgraphExec replay;
  CU(cuStreamBeginCapture(stream, CU_STREAM_CAPTURE_MODE_GLOBAL));
  step(layers, args, stream);
  CU(cuStreamEndCapture(stream, &graph));
  CU(cuGraphInstantiate(&replay, graph, 0));
  for (int i = 0; i < LAYERS; i++)
    CU(cuMemsetD8Async(layers[i].q, 0xFF, (size_t)TOKENS * N, stream));
  CU(cuGraphLaunch(replay, stream));
  CU(cuStreamSynchronize(stream));
  wrong += check_layer(&layers[0], 0) + check_layer(&layers[1], -1);

  (void)printf("%s (%s): %d layers, %d tokens, launched and replayed: %d wrong bytes\n", info.name,
               info.arch, LAYERS, TOKENS, wrong);

  CU(cuGraphExecDestroy(replay));
  CU(cuGraphDestroy(graph));
  for (int i = 0; i < LAYERS; i++)
    free_layer(&layers[i]);
  bw_device_close(device);
  bw_bundle_close(bundle);
  CU(cuMemFree(args.x));
  CU(cuMemFree(args.positions));
  CU(cuMemFree(args.rope));
  CU(cuStreamDestroy(stream));
  CU(cuDevicePrimaryCtxRelease(cu_device));
  return wrong == 0 ? 0 : 1;
}
