/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulated driver, order of work: streams and events, host functions, captures and
 * their errors, graphs, programmatic dependent launch; what the checks of accesses make of it.
 */
#include <cuda.h>

#include "emulator/driver/private.h"
#include "emulator/engine/order.h"
#include "harness/suite.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK(call)           ck_assert_int_eq(call, CUDA_SUCCESS)
#define FAILS(call, error) ck_assert_int_eq(call, error)

/* times_add: *w = *w * m + a, after `spin` rounds: the order of launches shows in *w.
 * early:     triggers its dependents, then waits for *flag, then *w = *w * m + a
 * late:      sets *flag, waits for its predecessor, then *w = *w * m + a
 * wait_flag: spins until *flag is not 0 */
static const char *const code =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry times_add(.param .u64 pw, .param .u32 pm, .param .u32 pa, .param .u32 ps) {\n"
    "  .reg .pred p; .reg .b32 v, m, a, s; .reg .b64 w;\n"
    "  ld.param.u64 w, [pw]; ld.param.u32 m, [pm]; ld.param.u32 a, [pa]; ld.param.u32 s, [ps];\n"
    "again:\n"
    "  setp.eq.u32 p, s, 0;\n  @p bra done;\n  sub.u32 s, s, 1;\n  bra again;\n"
    "done:\n"
    "  ld.global.u32 v, [w];\n  mad.lo.u32 v, v, m, a;\n  st.global.u32 [w], v;\n  ret;\n}\n"
    ".visible .entry early(.param .u64 pw, .param .u32 pm, .param .u32 pa, .param .u64 pf) {\n"
    "  .reg .pred p; .reg .b32 v, m, a; .reg .b64 w, f;\n"
    "  ld.param.u64 w, [pw]; ld.param.u32 m, [pm]; ld.param.u32 a, [pa]; ld.param.u64 f, [pf];\n"
    "  griddepcontrol.wait;\n  griddepcontrol.launch_dependents;\n"
    "again:\n"
    "  ld.acquire.gpu.global.u32 v, [f];\n  setp.eq.u32 p, v, 0;\n  @p bra again;\n"
    "  ld.global.u32 v, [w];\n  mad.lo.u32 v, v, m, a;\n  st.global.u32 [w], v;\n  ret;\n}\n"
    ".visible .entry late(.param .u64 pw, .param .u32 pm, .param .u32 pa, .param .u64 pf) {\n"
    "  .reg .b32 v, m, a; .reg .b64 w, f;\n"
    "  ld.param.u64 w, [pw]; ld.param.u32 m, [pm]; ld.param.u32 a, [pa]; ld.param.u64 f, [pf];\n"
    "  griddepcontrol.launch_dependents;\n"
    "  st.release.gpu.global.u32 [f], 1;\n  griddepcontrol.wait;\n"
    "  ld.global.u32 v, [w];\n  mad.lo.u32 v, v, m, a;\n  st.global.u32 [w], v;\n  ret;\n}\n"
    ".visible .entry wait_flag(.param .u64 pf) {\n"
    "  .reg .pred p; .reg .b32 v; .reg .b64 f;\n  ld.param.u64 f, [pf];\n"
    "again:\n"
    "  ld.acquire.sys.global.u32 v, [f];\n  setp.eq.u32 p, v, 0;\n  @p bra again;\n  ret;\n}\n";

static CUcontext context;
static CUfunction times_add, early, late, wait_flag;

static void open_device(void) {
  CUmodule m;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuModuleLoadData(&m, code));
  OK(cuModuleGetFunction(&times_add, m, "times_add"));
  OK(cuModuleGetFunction(&early, m, "early"));
  OK(cuModuleGetFunction(&late, m, "late"));
  OK(cuModuleGetFunction(&wait_flag, m, "wait_flag"));
}

static CUdeviceptr word(void) {
  CUdeviceptr p;
  OK(cuMemAlloc(&p, 4));
  OK(cuMemsetD32(p, 0, 1));
  OK(cuCtxSynchronize());
  return p;
}

static uint32_t word_at(CUdeviceptr p) {
  uint32_t v;
  OK(cuMemcpyDtoH(&v, p, sizeof v));
  return v;
}

/* *w = *w * 10 + digit */
static CUresult push_digit(CUdeviceptr w, uint32_t digit, uint32_t spin, CUstream s) {
  uint32_t ten = 10;
  void *params[] = {&w, &ten, &digit, &spin};
  return cuLaunchKernel(times_add, 1, 1, 1, 1, 1, 1, 0, s, params, NULL);
}

static CUresult push_programmatic(CUfunction f, CUdeviceptr w, uint32_t digit, CUdeviceptr flag,
                                  CUstream s) {
  uint32_t ten = 10;
  void *params[] = {&w, &ten, &digit, &flag};
  CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION,
                         .value = {.programmaticStreamSerializationAllowed = 1}};
  CUlaunchConfig c = {1, 1, 1, 1, 1, 1, 0, s, &a, 1};
  return cuLaunchKernelEx(&c, f, params, NULL);
}

/* ---- streams and events -------------------------------------------------------- */

START_TEST(order_in_a_stream) {
  open_device();
  CUstream s;
  CUdeviceptr w = word();
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  for (uint32_t i = 1; i <= 5; i++)
    OK(push_digit(w, i, (6 - i) * 100, s));
  OK(cuStreamSynchronize(s));
  OK(cuStreamQuery(s));
  ck_assert_uint_eq(word_at(w), 12345);
  OK(cuStreamDestroy(s));
  FAILS(cuStreamQuery(s), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

/* The legacy stream stands between what came before and after it on blocking streams. */
START_TEST(legacy_stream) {
  open_device();
  CUstream a, b;
  CUdeviceptr w = word();
  OK(cuStreamCreate(&a, CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&b, CU_STREAM_DEFAULT));
  OK(push_digit(w, 1, 500, a));
  OK(push_digit(w, 2, 200, NULL));
  OK(push_digit(w, 3, 0, b));
  OK(push_digit(w, 4, 0, CU_STREAM_LEGACY));
  ck_assert_uint_eq(word_at(w), 1234);
}
END_TEST

START_TEST(events) {
  open_device();
  CUstream a, b;
  CUevent e, f;
  CUdeviceptr w = word();
  float ms;
  OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&e, CU_EVENT_DEFAULT));
  OK(cuEventCreate(&f, CU_EVENT_DEFAULT));
  OK(cuEventQuery(e)); /* never recorded: complete */
  FAILS(cuEventElapsedTime(&ms, e, f), CUDA_ERROR_INVALID_HANDLE);
  OK(cuEventRecord(e, a));
  OK(push_digit(w, 1, 1000, a));
  OK(cuEventRecord(f, a));
  OK(cuStreamWaitEvent(b, f, 0));
  OK(push_digit(w, 2, 0, b));
  FAILS(cuEventQuery(f), CUDA_ERROR_NOT_READY);
  OK(cuEventSynchronize(f));
  OK(cuEventElapsedTime(&ms, e, f));
  ck_assert(ms > 0);
  OK(cuStreamSynchronize(b));
  ck_assert_uint_eq(word_at(w), 12);
  OK(cuEventDestroy(e));
  FAILS(cuEventRecord(e, a), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

struct host_seen {
  CUdeviceptr word;
  int calls, order;
};

static void on_host(void *data) {
  struct host_seen *h = data;
  h->order = h->order * 10 + ++h->calls;
}

static void on_callback(CUstream s, CUresult r, void *data) {
  (void)s;
  if (r == CUDA_SUCCESS)
    on_host(data);
}

START_TEST(host_functions) {
  open_device();
  CUstream s;
  CUdeviceptr w = word();
  struct host_seen seen = {0};
  OK(cuStreamCreate(&s, 0));
  OK(push_digit(w, 1, 300, s));
  OK(cuLaunchHostFunc(s, on_host, &seen));
  OK(cuStreamAddCallback(s, on_callback, &seen, 0));
  OK(push_digit(w, 2, 0, s));
  OK(cuStreamSynchronize(s));
  ck_assert_int_eq(seen.order, 12);
  ck_assert_uint_eq(word_at(w), 12);
}
END_TEST

START_TEST(stream_values) {
  open_device();
  CUstream a, b;
  CUdeviceptr w = word(), flag = word();
  OK(cuStreamCreate(&a, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&b, CU_STREAM_NON_BLOCKING));
  OK(cuStreamWaitValue32(a, flag, 3, CU_STREAM_WAIT_VALUE_GEQ));
  OK(push_digit(w, 2, 0, a));
  OK(push_digit(w, 1, 200, b));
  OK(cuStreamWriteValue32(b, flag, 4, 0));
  OK(cuStreamSynchronize(a));
  ck_assert_uint_eq(word_at(w), 12);
  FAILS(cuStreamWaitValue32(a, flag + 1, 3, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

static void *sets_flag(void *flag) {
  uint32_t one = 1;
  CUstream s;
  OK(cuCtxSetCurrent(context));
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemsetD32Async(*(CUdeviceptr *)flag, one, 1, s));
  OK(cuStreamSynchronize(s));
  return NULL;
}

/* A kernel that spins until another thread's work: that thread gets in. */
START_TEST(two_threads) {
  open_device();
  CUstream s;
  CUdeviceptr flag = word();
  pthread_t t;
  void *params[] = {&flag};
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuLaunchKernel(wait_flag, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
  ck_assert_int_eq(pthread_create(&t, NULL, sets_flag, &flag), 0);
  OK(cuStreamSynchronize(s));
  ck_assert_int_eq(pthread_join(t, NULL), 0);
  OK(cuCtxSynchronize());
}
END_TEST

static void *waits_for_context(void *unused) {
  OK(cuCtxSetCurrent(context));
  OK(cuCtxSynchronize());
  return unused;
}

/* A fork while another thread is inside the driver: calls of the child are errors, and
 * return. */
START_TEST(fork_beside_a_thread) {
  open_device();
  CUdeviceptr w = word();
  pthread_t t;
  uint32_t times = 1, digit = 1, spin = 300000;
  void *params[] = {&w, &times, &digit, &spin};
  OK(cuLaunchKernel(times_add, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
  ck_assert_int_eq(pthread_create(&t, NULL, waits_for_context, NULL), 0);
  for (int i = 0; i < 10; i++) {
    pid_t child = fork();
    ck_assert_int_ge(child, 0);
    if (child == 0) {
      int count = 0;
      alarm(5); /* what a hang ends with */
      _exit(cuInit(0) == CUDA_ERROR_NOT_INITIALIZED &&
                    cuDeviceGetCount(&count) == CUDA_ERROR_NOT_INITIALIZED
                ? 0
                : 1);
    }
    int status = -1;
    ck_assert_int_eq(waitpid(child, &status, 0), child);
    ck_assert_int_eq(status, 0);
  }
  ck_assert_int_eq(pthread_join(t, NULL), 0);
  ck_assert_uint_eq(word_at(w), 1);
}
END_TEST

/* A kernel that waits for nobody ends with a report, not with a hang. */
START_TEST(no_progress) {
  open_device();
  CUdeviceptr flag = word();
  void *params[] = {&flag};
  OK(cuLaunchKernel(wait_flag, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
  FAILS(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
  ck_assert_ptr_nonnull(strstr(barewarp_emulated_last_report(), "wait_flag"));
}
END_TEST

/* ---- programmatic dependent launch --------------------------------------------- */

/* `early` ends only when its dependent has begun: without overlap this would hang. */
START_TEST(programmatic_launch) {
  open_device();
  char seed[8];
  snprintf(seed, sizeof seed, "%d", _i);
  ck_assert_int_eq(barewarp_emulated_configure("seed", seed), 1);
  CUstream s;
  CUdeviceptr w = word(), flag = word();
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(push_programmatic(early, w, 1, flag, s));
  OK(push_programmatic(late, w, 2, flag, s));
  OK(push_programmatic(late, w, 3, flag, s)); /* several deep */
  OK(push_digit(w, 4, 0, s));                 /* without the attribute: after all of them */
  OK(cuStreamSynchronize(s));
  ck_assert_uint_eq(word_at(w), 1234);
}
END_TEST

/* A memory operation between the two kernels makes the dependence a full one. */
START_TEST(programmatic_launch_interrupted) {
  open_device();
  CUstream s;
  CUdeviceptr w = word(), flag = word(), other = word();
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(push_programmatic(early, w, 1, flag, s));
  OK(cuMemsetD32Async(other, 0, 1, s));
  OK(push_programmatic(late, w, 2, flag, s));
  FAILS(cuStreamSynchronize(s), CUDA_ERROR_LAUNCH_FAILED); /* no progress, reported */
}
END_TEST

/* ---- captures and graphs --------------------------------------------------------------------- */

static CUgraphExec instantiate(CUgraph g) {
  CUgraphExec e;
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphDestroy(g));
  return e;
}

START_TEST(graph_replay) {
  open_device();
  CUstream s, t;
  CUevent fork, join;
  CUgraph g;
  CUdeviceptr w = word(), v = word();
  struct host_seen seen = {0};
  size_t nodes = 0;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
  OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  OK(cuMemsetD32Async(w, 0, 1, s));
  OK(cuEventRecord(fork, s));
  OK(cuStreamWaitEvent(t, fork, 0));
  OK(push_digit(v, 1, 50, t));
  OK(cuEventRecord(join, t));
  OK(push_digit(w, 1, 200, s));
  OK(cuStreamWaitEvent(s, join, 0));
  OK(push_digit(w, 2, 0, s));
  OK(cuLaunchHostFunc(s, on_host, &seen));
  OK(cuStreamEndCapture(s, &g));
  OK(cuGraphGetNodes(g, NULL, &nodes));
  ck_assert_uint_eq(nodes, 5);
  ck_assert_uint_eq(word_at(w), 0); /* capturing runs nothing */
  CUgraphExec e = instantiate(g);
  for (int i = 0; i < 10; i++)
    OK(cuGraphLaunch(e, i % 2 ? s : t));
  OK(cuStreamSynchronize(s));
  OK(cuStreamSynchronize(t));
  ck_assert_uint_eq(word_at(w), 12);
  ck_assert_uint_eq(word_at(v), 1111111111u);
  ck_assert_int_eq(seen.calls, 10);
  OK(cuGraphExecDestroy(e));
}
END_TEST

START_TEST(graph_keeps_programmatic_edges) {
  open_device();
  CUstream s;
  CUgraph g;
  CUdeviceptr w = word(), flag = word();
  CUgraphNode from[8], to[8];
  CUgraphEdgeData data[8];
  size_t n = 8;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(push_programmatic(early, w, 1, flag, s));
  OK(push_programmatic(late, w, 2, flag, s));
  OK(push_digit(w, 3, 0, s));
  OK(cuMemsetD32Async(flag, 0, 1, s));
  OK(cuStreamEndCapture(s, &g));
  OK(cuGraphGetEdges(g, from, to, data, &n));
  ck_assert_uint_eq(n, 3);
  ck_assert_int_eq(data[0].type, CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC);
  ck_assert_int_eq(data[1].type, CU_GRAPH_DEPENDENCY_TYPE_DEFAULT);
  CUgraphExec e = instantiate(g);
  for (int i = 0; i < 3; i++)
    OK(cuGraphLaunch(e, s));
  OK(cuStreamSynchronize(s));
  ck_assert_uint_eq(word_at(w), 123123123);
}
END_TEST

START_TEST(graph_by_hand) {
  open_device();
  CUgraph g, child;
  CUgraphNode set, add, copy, inner, last;
  CUdeviceptr w = word(), v = word();
  uint32_t ten = 10, digit = 7, zero = 0;
  void *params[] = {&w, &ten, &digit, &zero};
  CUDA_KERNEL_NODE_PARAMS k = {.func = times_add,
                               .gridDimX = 1,
                               .gridDimY = 1,
                               .gridDimZ = 1,
                               .blockDimX = 1,
                               .blockDimY = 1,
                               .blockDimZ = 1,
                               .kernelParams = params};
  CUDA_MEMSET_NODE_PARAMS m = {.dst = w, .value = 4, .elementSize = 4, .width = 1, .height = 1};
  CUDA_MEMCPY3D c = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                     .srcDevice = w,
                     .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                     .dstDevice = v,
                     .WidthInBytes = 4,
                     .Height = 1,
                     .Depth = 1};
  OK(cuGraphCreate(&child, 0));
  OK(cuGraphAddKernelNode(&inner, child, NULL, 0, &k));
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddMemsetNode(&set, g, NULL, 0, &m, context));
  OK(cuGraphAddChildGraphNode(&add, g, &set, 1, child));
  OK(cuGraphAddMemcpyNode(&copy, g, &add, 1, &c, context));
  digit = 8;
  OK(cuGraphAddKernelNode(&last, g, &copy, 1, &k));
  FAILS(cuGraphAddEmptyNode(&inner, g, &inner, 1), CUDA_ERROR_INVALID_VALUE); /* another graph's */
  CUgraphExec e;
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphLaunch(e, NULL));
  ck_assert_uint_eq(word_at(v), 47);
  ck_assert_uint_eq(word_at(w), 478);
  digit = 9;
  OK(cuGraphExecKernelNodeSetParams(e, last, &k));
  OK(cuGraphLaunch(e, NULL));
  ck_assert_uint_eq(word_at(w), 479);
  OK(cuGraphKernelNodeSetParams(last, &k));
  OK(cuGraphDestroyNode(set));
  CUgraphExecUpdateResultInfo info;
  FAILS(cuGraphExecUpdate(e, g, &info), CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE);
  ck_assert_int_eq(info.result, CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphDestroy(g));
  OK(cuGraphDestroy(child));
}
END_TEST

/* Code that a graph uses is unloaded: launching it is an error, whatever else is done with
 * the graph works, and its memory is not given to other code. */
START_TEST(graph_outlives_its_code) {
  open_device();
  CUdeviceptr w = word();
  CUmodule m;
  CUfunction f;
  CUgraph g, copy;
  CUgraphExec e, of_copy;
  OK(cuModuleLoadData(&m, code));
  OK(cuModuleGetFunction(&f, m, "times_add"));
  uint32_t times = 10, digit = 1, spin = 0;
  void *params[] = {&w, &times, &digit, &spin};
  CUDA_KERNEL_NODE_PARAMS k = {.func = f,
                               .gridDimX = 1,
                               .gridDimY = 1,
                               .gridDimZ = 1,
                               .blockDimX = 1,
                               .blockDimY = 1,
                               .blockDimZ = 1,
                               .kernelParams = params};
  CUgraphNode n;
  OK(cuGraphCreate(&g, 0));
  OK(cuGraphAddKernelNode(&n, g, NULL, 0, &k));
  OK(cuGraphInstantiate(&e, g, 0));
  OK(cuGraphLaunch(e, NULL));
  OK(cuModuleUnload(m));
  OK(cuModuleLoadData(&m, code)); /* perhaps where the old one was */
  FAILS(cuGraphLaunch(e, NULL), CUDA_ERROR_INVALID_HANDLE);
  OK(cuGraphClone(&copy, g));
  OK(cuGraphInstantiate(&of_copy, copy, 0));
  FAILS(cuGraphLaunch(of_copy, NULL), CUDA_ERROR_INVALID_HANDLE);
  ck_assert_uint_eq(word_at(w), 1);
  OK(cuModuleGetFunction(&k.func, m, "times_add"));
  OK(cuGraphExecKernelNodeSetParams(e, n, &k));
  OK(cuGraphLaunch(e, NULL));
  ck_assert_uint_eq(word_at(w), 11);
  OK(cuGraphExecDestroy(e));
  OK(cuGraphExecDestroy(of_copy));
  OK(cuGraphDestroy(copy));
  OK(cuGraphDestroy(g));
  OK(cuModuleUnload(m));
}
END_TEST

START_TEST(capture_errors) {
  open_device();
  CUstream s, t, other;
  CUgraph g;
  CUevent e;
  CUdeviceptr w = word(), p;
  CUstreamCaptureStatus status;
  OK(cuStreamCreate(&s, CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&t, CU_STREAM_DEFAULT));
  OK(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING));
  OK(cuEventCreate(&e, 0));
  FAILS(cuStreamBeginCapture(NULL, CU_STREAM_CAPTURE_MODE_GLOBAL),
        CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  FAILS(cuStreamEndCapture(s, &g), CUDA_ERROR_ILLEGAL_STATE);

  /* waiting for a capturing stream */
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  FAILS(cuStreamSynchronize(s), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  OK(cuStreamIsCapturing(s, &status));
  ck_assert_int_eq(status, CU_STREAM_CAPTURE_STATUS_INVALIDATED);
  FAILS(push_digit(w, 1, 0, s), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  FAILS(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  ck_assert_ptr_null(g);

  /* a call that may not happen meanwhile, unless the capture is relaxed */
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_GLOBAL));
  FAILS(cuMemAlloc(&p, 4), CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  FAILS(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(cuMemAlloc(&p, 4));
  OK(cuStreamEndCapture(s, &g));
  OK(cuGraphDestroy(g));

  /* the legacy stream would wait for it */
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  FAILS(push_digit(w, 1, 0, NULL), CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
  FAILS(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);

  /* an event from outside, a fork that never joins, another's capture */
  OK(cuEventRecord(e, other));
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  FAILS(cuStreamWaitEvent(s, e, 0), CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  FAILS(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  OK(cuEventRecord(e, s));
  FAILS(cuEventQuery(e), CUDA_ERROR_CAPTURED_EVENT);
  OK(cuStreamWaitEvent(other, e, 0));
  OK(push_digit(w, 1, 0, other));
  FAILS(cuStreamEndCapture(other, &g), CUDA_ERROR_STREAM_CAPTURE_UNMATCHED);
  OK(cuStreamBeginCapture(t, CU_STREAM_CAPTURE_MODE_RELAXED));
  FAILS(cuStreamWaitEvent(t, e, 0), CUDA_ERROR_STREAM_CAPTURE_MERGE);
  FAILS(cuStreamEndCapture(t, &g), CUDA_ERROR_STREAM_CAPTURE_INVALIDATED);
  FAILS(cuStreamEndCapture(s, &g), CUDA_ERROR_STREAM_CAPTURE_UNJOINED);
  OK(push_digit(w, 1, 0, s));
  ck_assert_uint_eq(word_at(w), 1); /* all is as if nothing had been captured */
}
END_TEST

/* ---- the order that accesses are checked by ---------------------------------------------- */

/* Two digits onto one word, a third one late onto another. */
static void push_three(CUdeviceptr two, CUdeviceptr third, CUstream s) {
  OK(push_digit(two, 1, 0, s));
  OK(push_digit(two, 2, 0, s));
  OK(push_digit(third, 3, 500, s));
}

static CUgraphExec graph_of_three(CUdeviceptr two, CUdeviceptr third, CUstream s) {
  CUgraph g;
  OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
  push_three(two, third, s);
  OK(cuStreamEndCapture(s, &g));
  return instantiate(g);
}

/* Streams and graphs that come and go, each after the host has waited for the one before it:
 * no report, and what the emulator keeps of them is used again. */
START_TEST(timelines_are_few) {
  open_device();
  CUdeviceptr w = word();
  for (int i = 0; i < 50; i++) {
    CUstream s;
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    CUgraphExec e = graph_of_three(w, w, s);
    OK(cuMemsetD32Async(w, 0, 1, s));
    OK(cuGraphLaunch(e, s));
    OK(cuStreamSynchronize(s));
    OK(cuStreamDestroy(s));
    OK(cuGraphExecDestroy(e));
    ck_assert_uint_eq(word_at(w), 123);
  }
  ck_assert_uint_le(order_timeline(NULL), 10);
}
END_TEST

/* What comes in place of a stream or a graph that nobody waited for is not ordered behind it, and
 * neither are two paths of one graph: so what is behind the one knows nothing of the other.
 * _i: which. */
START_TEST(races_are_seen) {
  open_device();
  CUdeviceptr u = word(), v = word(), w = word();
  CUstream s, t;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuStreamCreate(&t, CU_STREAM_NON_BLOCKING));
  if (_i == 0) {
    OK(push_digit(w, 1, 0, s));
    OK(cuStreamDestroy(s));
    OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
    push_three(v, w, s);
  } else if (_i == 1) {
    CUgraphExec first = graph_of_three(w, u, s);
    OK(cuGraphLaunch(first, s));
    OK(cuGraphExecDestroy(first));
    OK(cuGraphLaunch(graph_of_three(v, w, t), t));
  } else {
    CUgraph g;
    CUevent fork, join;
    OK(cuEventCreate(&fork, CU_EVENT_DISABLE_TIMING));
    OK(cuEventCreate(&join, CU_EVENT_DISABLE_TIMING));
    OK(cuStreamBeginCapture(s, CU_STREAM_CAPTURE_MODE_RELAXED));
    OK(push_digit(w, 1, 0, s));
    OK(cuEventRecord(fork, s));
    OK(cuStreamWaitEvent(t, fork, 0));
    OK(push_digit(w, 2, 0, s));
    push_three(v, w, t);
    OK(cuEventRecord(join, t));
    OK(cuStreamWaitEvent(s, join, 0));
    OK(cuStreamEndCapture(s, &g));
    OK(cuGraphLaunch(instantiate(g), s));
  }
  FAILS(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
  ck_assert_int_eq(strncmp(barewarp_emulated_report_rule(), "race-", 5), 0);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("stream", order_in_a_stream, 10),
      BWT_TEST("stream", legacy_stream, 10),
      BWT_TEST("stream", events, 10),
      BWT_TEST("stream", host_functions, 10),
      BWT_TEST("stream", stream_values, 20),
      BWT_TEST("stream", two_threads, 30),
      BWT_TEST("stream", fork_beside_a_thread, 60),
      BWT_TEST("stream", no_progress, 30),
      BWT_LOOP("pdl", programmatic_launch, 0, 10, 20),
      BWT_TEST("pdl", programmatic_launch_interrupted, 20),
      BWT_TEST("graph", graph_replay, 20),
      BWT_TEST("graph", graph_keeps_programmatic_edges, 20),
      BWT_TEST("graph", graph_by_hand, 20),
      BWT_TEST("graph", graph_outlives_its_code, 20),
      BWT_TEST("graph", capture_errors, 20),
      BWT_TEST("accesses", timelines_are_few, 20),
      BWT_LOOP("accesses", races_are_seen, 0, 3, 20),
  };
  return bwt_suite_main("emu_driver_order", tests, BWT_COUNT(tests));
}
