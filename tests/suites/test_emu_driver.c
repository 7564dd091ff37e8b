/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulated driver as a client of cuda.h alone sees it: devices, contexts, memory,
 * modules and libraries, streams, events, launches, and the answers to wrong calls.
 */
#include <cuda.h>

#include "emulator/driver/private.h"
#include "harness/suite.h"

#include <stdlib.h>
#include <string.h>

#define OK(call)           ck_assert_int_eq(call, CUDA_SUCCESS)
#define FAILS(call, error) ck_assert_int_eq(call, error)

#define HEAD(target) ".version 9.0\n.target " target "\n.address_size 64\n"

/* out[i] = a[i] + b[i]; ids past n do nothing */
#define ADD                                                                                        \
  ".visible .entry add(.param .u64 pa, .param .u64 pb, .param .u64 pc, .param .u32 pn) {\n"        \
  "  .reg .pred p; .reg .b32 i, n, t; .reg .f32 x, y; .reg .b64 a, b, c, o;\n"                     \
  "  ld.param.u64 a, [pa];\n  ld.param.u64 b, [pb];\n  ld.param.u64 c, [pc];\n"                    \
  "  ld.param.u32 n, [pn];\n"                                                                      \
  "  mov.u32 i, %ctaid.x;\n  mov.u32 t, %ntid.x;\n  mul.lo.u32 i, i, t;\n"                         \
  "  mov.u32 t, %tid.x;\n  add.u32 i, i, t;\n  setp.ge.u32 p, i, n;\n  @p ret;\n"                  \
  "  mul.wide.u32 o, i, 4;\n  add.u64 a, a, o;\n  add.u64 b, b, o;\n  add.u64 c, c, o;\n"          \
  "  ld.global.f32 x, [a];\n  ld.global.f32 y, [b];\n  add.rn.f32 x, x, y;\n"                      \
  "  st.global.f32 [c], x;\n  ret;\n}\n"

/* *word += 1, by one thread, not atomically: order shows */
#define INCREMENT                                                                                  \
  ".visible .entry increment(.param .u64 pw) {\n"                                                  \
  "  .reg .b32 v; .reg .b64 w;\n"                                                                  \
  "  ld.param.u64 w, [pw];\n  ld.global.u32 v, [w];\n  add.u32 v, v, 1;\n"                         \
  "  st.global.u32 [w], v;\n  ret;\n}\n"

/* writes to address 16, where nothing is */
#define WILD                                                                                       \
  ".visible .entry wild() {\n"                                                                     \
  "  .reg .b64 a;\n  mov.u64 a, 16;\n  st.global.u32 [a], 1;\n  ret;\n}\n"

#define CLUSTER                                                                                    \
  ".visible .entry cluster2() .reqnctapercluster 2 { ret; }\n"                                     \
  ".visible .entry block64() .reqntid 64 { ret; }\n"                                               \
  ".visible .entry shared(.param .u32 unused) {\n"                                                 \
  "  .shared .align 16 .b8 room[1024];\n  .reg .b32 r;\n  mov.u32 r, room;\n"                      \
  "  st.shared.u32 [r], r;\n  ret;\n}\n"

static const char *const code = HEAD("sm_90") ADD INCREMENT WILD CLUSTER
    ".visible .global .align 4 .u32 answer = 42;\n.visible .global .align 4 .b8 zeros[12];\n";

static CUcontext context;
static CUmodule module;

static CUfunction function(const char *name) {
  CUfunction f;
  OK(cuModuleGetFunction(&f, module, name));
  return f;
}

static void open_device(void) {
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&context, 0));
  OK(cuCtxSetCurrent(context));
  OK(cuModuleLoadData(&module, code));
}

static CUdeviceptr words(unsigned n) {
  CUdeviceptr p;
  OK(cuMemAlloc(&p, n * sizeof(uint32_t)));
  OK(cuMemsetD32(p, 0, n));
  OK(cuCtxSynchronize()); /* the fill is asynchronous, and streams may be non-blocking */
  return p;
}

static uint32_t word_at(CUdeviceptr p) {
  uint32_t v;
  OK(cuMemcpyDtoH(&v, p, sizeof v));
  return v;
}

static CUresult increment(CUdeviceptr word, CUstream s) {
  void *params[] = {&word};
  return cuLaunchKernel(function("increment"), 1, 1, 1, 1, 1, 1, 0, s, params, NULL);
}

/* ---- devices and contexts -------------------------------------------------------------- */

START_TEST(before_init) {
  int n;
  FAILS(cuDeviceGetCount(&n), CUDA_ERROR_NOT_INITIALIZED);
  OK(cuDriverGetVersion(&n));
  ck_assert_int_ge(n, 13000);
  FAILS(cuInit(1), CUDA_ERROR_INVALID_VALUE);
  OK(cuInit(0));
  OK(cuInit(0));
  FAILS(cuCtxSynchronize(), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

START_TEST(device_queries) {
  CUdevice d;
  char name[64];
  size_t bytes;
  int v;
  OK(cuInit(0));
  OK(cuDeviceGet(&d, 0));
  FAILS(cuDeviceGet(&d, 1), CUDA_ERROR_INVALID_DEVICE);
  OK(cuDeviceGetName(name, sizeof name, 0));
  ck_assert_str_eq(name, "barewarp emulated sm_100");
  OK(cuDeviceTotalMem(&bytes, 0));
  ck_assert_uint_gt(bytes, 1ull << 36);
  const struct {
    CUdevice_attribute attribute;
    int value;
  } known[] = {{CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, 10},
               {CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, 0},
               {CU_DEVICE_ATTRIBUTE_WARP_SIZE, 32},
               {CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN, 227 * 1024},
               {CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH, 1},
               {CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING, 1},
               {CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_FABRIC_SUPPORTED, 0},
               {CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID, -1}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++) {
    OK(cuDeviceGetAttribute(&v, known[i].attribute, 0));
    ck_assert_int_eq(v, known[i].value);
  }
  FAILS(cuDeviceGetAttribute(&v, (CUdevice_attribute)100000, 0), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

START_TEST(context_stack) {
  CUcontext a, b, c;
  unsigned flags;
  int active;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxGetState(0, &flags, &active));
  ck_assert_int_eq(active, 0);
  OK(cuCtxCreate(&a, NULL, 0, 0));
  OK(cuCtxCreate(&b, NULL, 0, 0));
  OK(cuCtxGetCurrent(&c));
  ck_assert_ptr_eq(c, b);
  OK(cuCtxPopCurrent(&c));
  ck_assert_ptr_eq(c, b);
  OK(cuCtxGetCurrent(&c));
  ck_assert_ptr_eq(c, a);
  OK(cuCtxDestroy(a));
  OK(cuCtxGetCurrent(&c));
  ck_assert_ptr_null(c);
  FAILS(cuCtxPushCurrent(a), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuCtxSetCurrent(b));
  OK(cuCtxDestroy(b));
  FAILS(cuDevicePrimaryCtxRelease(0), CUDA_ERROR_INVALID_CONTEXT);
}
END_TEST

/* ---- memory ------------------------------------------------------------------------------ */

START_TEST(memory_and_copies) {
  open_device();
  CUdeviceptr a, b, base;
  size_t size;
  unsigned char host[256], back[256];
  FAILS(cuMemAlloc(&a, 0), CUDA_ERROR_INVALID_VALUE);
  FAILS(cuMemAlloc(&a, (size_t)1 << 60), CUDA_ERROR_OUT_OF_MEMORY);
  OK(cuMemAlloc(&a, 256));
  OK(cuMemAlloc(&b, 256));
  OK(cuMemGetAddressRange(&base, &size, a + 100));
  ck_assert_uint_eq(base, a);
  ck_assert_uint_eq(size, 256);
  for (int i = 0; i < 256; i++)
    host[i] = (unsigned char)i;
  OK(cuMemcpyHtoD(a, host, 256));
  OK(cuMemcpyDtoD(b, a, 256));
  OK(cuMemsetD16(b + 2, 0xabcd, 3));
  OK(cuMemcpy((CUdeviceptr)(uintptr_t)back, b, 256)); /* unified */
  memcpy(host + 2, "\xcd\xab\xcd\xab\xcd\xab", 6);
  ck_assert_mem_eq(host, back, 256);
  FAILS(cuMemcpyHtoD(a + 1, host, 256), CUDA_ERROR_INVALID_VALUE);
  FAILS(cuMemcpyDtoH(back, a + 256, 1), CUDA_ERROR_INVALID_VALUE);
  FAILS(cuMemsetD32(a + 2, 0, 1), CUDA_ERROR_INVALID_VALUE);
  FAILS(cuMemFree(a + 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(a));
  FAILS(cuMemFree(a), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemFree(0));
}
END_TEST

START_TEST(copies_in_two_dimensions) {
  open_device();
  CUdeviceptr a;
  size_t pitch;
  unsigned char host[4 * 10], back[4 * 10];
  for (size_t i = 0; i < sizeof host; i++)
    host[i] = (unsigned char)(i * 7);
  OK(cuMemAllocPitch(&a, &pitch, 10, 4, 4));
  ck_assert_uint_ge(pitch, 10);
  CUDA_MEMCPY2D up = {.srcMemoryType = CU_MEMORYTYPE_HOST,
                      .srcHost = host,
                      .srcPitch = 10,
                      .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                      .dstDevice = a,
                      .dstPitch = pitch,
                      .WidthInBytes = 10,
                      .Height = 4};
  OK(cuMemcpy2D(&up));
  OK(cuMemsetD2D8(a + pitch + 1, pitch, 0x5a, 2, 2));
  CUDA_MEMCPY2D down = {.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                        .srcDevice = a,
                        .srcPitch = pitch,
                        .dstMemoryType = CU_MEMORYTYPE_HOST,
                        .dstHost = back,
                        .dstPitch = 10,
                        .WidthInBytes = 10,
                        .Height = 4};
  OK(cuMemcpy2D(&down));
  host[11] = host[12] = host[21] = host[22] = 0x5a;
  ck_assert_mem_eq(host, back, sizeof host);
}
END_TEST

/* An asynchronous copy from ordinary memory has read it when the call returns; pinned
 * memory is read later. */
START_TEST(pinned_memory) {
  open_device();
  CUdeviceptr seen, d = words(1);
  CUmemorytype type;
  uint32_t *pinned, local = 7;
  unsigned flags;
  CUstream s;
  OK(cuStreamCreate(&s, CU_STREAM_NON_BLOCKING));
  OK(cuMemHostAlloc((void **)&pinned, 64, CU_MEMHOSTALLOC_DEVICEMAP));
  OK(cuMemHostGetDevicePointer(&seen, pinned, 0));
  ck_assert_uint_eq(seen, (uintptr_t)pinned);
  OK(cuMemHostGetFlags(&flags, pinned));
  OK(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, seen));
  ck_assert_int_eq(type, CU_MEMORYTYPE_HOST);
  *pinned = 41;
  OK(increment(seen, s)); /* a kernel writes host memory */
  OK(cuMemcpyHtoDAsync(d, &local, 4, s));
  local = 8;
  OK(cuStreamSynchronize(s));
  ck_assert_uint_eq(*pinned, 42);
  ck_assert_uint_eq(word_at(d), 7);
  FAILS(cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE,
                              (CUdeviceptr)(uintptr_t)&local),
        CUDA_ERROR_INVALID_VALUE);
  OK(cuMemHostRegister(&local, 4, 0));
  FAILS(cuMemHostRegister(&local, 4, 0), CUDA_ERROR_HOST_MEMORY_ALREADY_REGISTERED);
  OK(increment((CUdeviceptr)(uintptr_t)&local, s));
  OK(cuStreamSynchronize(s));
  ck_assert_uint_eq(local, 9);
  OK(cuMemHostUnregister(&local));
  FAILS(cuMemHostUnregister(&local), CUDA_ERROR_HOST_MEMORY_NOT_REGISTERED);
  OK(cuMemFreeHost(pinned));
}
END_TEST

START_TEST(stream_ordered_memory) {
  open_device();
  CUstream s;
  CUdeviceptr p;
  uint32_t v = 1;
  OK(cuStreamCreate(&s, 0));
  OK(cuMemAllocAsync(&p, 4, s));
  OK(cuMemsetD32Async(p, 5, 1, s));
  OK(increment(p, s));
  OK(cuMemcpyDtoHAsync(&v, p, 4, s)); /* to ordinary memory: complete on return */
  ck_assert_uint_eq(v, 6);
  OK(cuMemFreeAsync(p, s));
  FAILS(cuMemFreeAsync(p, s), CUDA_ERROR_INVALID_VALUE);
  OK(cuStreamSynchronize(s));
  FAILS(cuMemcpyDtoH(&v, p, 4), CUDA_ERROR_INVALID_VALUE);
}
END_TEST

/* ---- modules and libraries ------------------------------------------------------------------ */

START_TEST(modules) {
  open_device();
  CUfunction f;
  CUdeviceptr p;
  size_t size;
  unsigned n;
  char log[512] = "";
  const char *name;
  OK(cuModuleGetFunctionCount(&n, module));
  ck_assert_uint_eq(n, 6);
  FAILS(cuModuleGetFunction(&f, module, "nothing"), CUDA_ERROR_NOT_FOUND);
  OK(cuFuncGetName(&name, function("add")));
  ck_assert_str_eq(name, "add");
  size_t offset;
  OK(cuFuncGetParamInfo(function("add"), 3, &offset, &size));
  ck_assert_uint_eq(offset, 24);
  ck_assert_uint_eq(size, 4);
  FAILS(cuFuncGetParamInfo(function("add"), 4, &offset, &size), CUDA_ERROR_INVALID_VALUE);
  OK(cuModuleGetGlobal(&p, &size, module, "answer"));
  ck_assert_uint_eq(size, 4);
  ck_assert_uint_eq(word_at(p), 42);
  OK(cuModuleGetGlobal(&p, &size, module, "zeros"));
  ck_assert_uint_eq(word_at(p + 8), 0);

  CUmodule other;
  CUjit_option option[] = {CU_JIT_ERROR_LOG_BUFFER, CU_JIT_ERROR_LOG_BUFFER_SIZE_BYTES};
  void *value[] = {log, (void *)sizeof log};
  FAILS(cuModuleLoadDataEx(&other, HEAD("sm_100f") ".entry f() {\n  frobnicate.b32 %r1;\n}\n", 2,
                           option, value),
        CUDA_ERROR_INVALID_PTX);
  ck_assert_msg(strstr(log, "frobnicate") != NULL && strstr(log, "5") != NULL, "log: %s", log);
  ck_assert_uint_eq((uintptr_t)value[1], strlen(log));
  OK(cuModuleUnload(module));
  FAILS(cuModuleUnload(module), CUDA_ERROR_INVALID_HANDLE);
  FAILS(cuModuleGetFunction(&f, module, "add"), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

START_TEST(targets) {
  open_device();
  static const struct {
    const char *code;
    CUresult result;
  } cases[] = {
      {".version 8.0\n.target sm_90\n.entry f() { ret; }", CUDA_SUCCESS},
      {".version 9.1\n.target sm_90\n.entry f() { ret; }", CUDA_ERROR_UNSUPPORTED_PTX_VERSION},
      {".target sm_90\n.entry f() { ret; }", CUDA_ERROR_INVALID_PTX},
      {".version 9.0\n.entry f() { ret; }", CUDA_ERROR_INVALID_PTX},
      {HEAD("sm_90") ".entry f() { ret; }", CUDA_SUCCESS},
      {HEAD("sm_100") ".entry f() { ret; }", CUDA_SUCCESS},
      {HEAD("sm_100a") ".entry f() { ret; }", CUDA_SUCCESS},
      {HEAD("sm_100f") ".entry f() { ret; }", CUDA_SUCCESS},
      {HEAD("sm_90a") ".entry f() { ret; }", CUDA_ERROR_NO_BINARY_FOR_GPU},
      {HEAD("sm_103a") ".entry f() { ret; }", CUDA_ERROR_NO_BINARY_FOR_GPU}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    CUmodule m;
    FAILS(cuModuleLoadData(&m, cases[i].code), cases[i].result);
  }
}
END_TEST

/* As a real driver was seen to answer about machine code of another device. */
START_TEST(binaries) {
  open_device();
  static const char elf[64] = "\x7f"
                              "ELF";
  CUmodule m;
  CUlibrary l;
  CUkernel k;
  FAILS(cuModuleLoadData(&m, elf), CUDA_ERROR_NO_BINARY_FOR_GPU);
  OK(cuLibraryLoadData(&l, elf, NULL, NULL, 0, NULL, NULL, 0));
  FAILS(cuLibraryGetKernel(&k, l, "f"), CUDA_ERROR_NO_BINARY_FOR_GPU);
  OK(cuLibraryUnload(l));
}
END_TEST

START_TEST(libraries) {
  open_device();
  CUlibrary l;
  CUkernel k;
  CUfunction f;
  unsigned n;
  int v;
  OK(cuLibraryLoadData(&l, code, NULL, NULL, 0, NULL, NULL, 0));
  OK(cuLibraryGetKernelCount(&n, l));
  ck_assert_uint_eq(n, 6);
  FAILS(cuLibraryGetKernel(&k, l, "nothing"), CUDA_ERROR_NOT_FOUND);
  OK(cuLibraryGetKernel(&k, l, "shared"));
  OK(cuKernelGetAttribute(&v, CU_FUNC_ATTRIBUTE_SHARED_SIZE_BYTES, k, 0));
  ck_assert_int_eq(v, 1024);
  OK(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 100000, k, 0));
  FAILS(cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 227 * 1024, k, 0),
        CUDA_ERROR_INVALID_VALUE);
  OK(cuKernelGetFunction(&f, k));
  OK(cuFuncGetAttribute(&v, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, f));
  ck_assert_int_eq(v, 100000);
  /* a kernel may be launched in a function's place */
  CUdeviceptr word = words(1);
  void *params[] = {&word};
  OK(cuLibraryGetKernel(&k, l, "increment"));
  OK(cuLaunchKernel((CUfunction)k, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
  ck_assert_uint_eq(word_at(word), 1);
  OK(cuLibraryUnload(l));
  FAILS(cuKernelGetFunction(&f, k), CUDA_ERROR_INVALID_HANDLE);
}
END_TEST

/* ---- launches ------------------------------------------------------------------ */

START_TEST(vector_add) {
  open_device();
  enum { N = 1000 };
  static float a[N], b[N], c[N];
  CUdeviceptr da = words(N), db = words(N), dc = words(N);
  unsigned n = N;
  for (int i = 0; i < N; i++) {
    a[i] = (float)i;
    b[i] = 0.25f * (float)i;
  }
  OK(cuMemcpyHtoD(da, a, sizeof a));
  OK(cuMemcpyHtoD(db, b, sizeof b));
  void *params[] = {&da, &db, &dc, &n};
  OK(cuLaunchKernel(function("add"), 8, 1, 1, 128, 1, 1, 0, NULL, params, NULL));
  OK(cuMemcpyDtoH(c, dc, sizeof c));
  for (int i = 0; i < N; i++)
    ck_assert(c[i] == 1.25f * (float)i);

  /* the same through a parameter buffer */
  struct {
    CUdeviceptr a, b, c;
    unsigned n;
  } buffer = {da, dc, dc, n};
  size_t size = 28;
  void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &buffer, CU_LAUNCH_PARAM_BUFFER_SIZE, &size,
                   CU_LAUNCH_PARAM_END};
  OK(cuLaunchKernel(function("add"), 8, 1, 1, 128, 1, 1, 0, NULL, NULL, extra));
  OK(cuMemcpyDtoH(c, dc, sizeof c));
  for (int i = 0; i < N; i++)
    ck_assert(c[i] == 2.25f * (float)i);
}
END_TEST

START_TEST(launch_checks) {
  open_device();
  CUfunction f = function("increment"), shared = function("shared");
  CUdeviceptr word = words(1);
  unsigned zero = 0;
  void *params[] = {&word}, *none[] = {&zero};
#define LAUNCH(f, g, b, s, p) cuLaunchKernel(f, g, 1, 1, b, 1, 1, s, NULL, p, NULL)
  FAILS(LAUNCH(f, 0, 1, 0, params), CUDA_ERROR_INVALID_VALUE);
  FAILS(LAUNCH(f, 1, 1025, 0, params), CUDA_ERROR_INVALID_VALUE);
  FAILS(LAUNCH(f, 1, 1, 0, NULL), CUDA_ERROR_INVALID_VALUE);
  FAILS(LAUNCH(f, 1, 1, 48 * 1024 + 1, params), CUDA_ERROR_INVALID_VALUE);
  FAILS(LAUNCH(shared, 1, 1, 48 * 1024 - 1023, none), CUDA_ERROR_INVALID_VALUE);
  OK(LAUNCH(shared, 1, 1, 48 * 1024 - 1024, none));
  FAILS(LAUNCH(function("block64"), 1, 32, 0, NULL), CUDA_ERROR_INVALID_VALUE);
  OK(LAUNCH(function("block64"), 1, 64, 0, NULL));
  FAILS(LAUNCH(function("cluster2"), 3, 32, 0, NULL), CUDA_ERROR_INVALID_VALUE);
  OK(LAUNCH(function("cluster2"), 4, 32, 0, NULL));
  FAILS(LAUNCH((CUfunction)(uintptr_t)0x1234, 1, 1, 0, params), CUDA_ERROR_INVALID_HANDLE);
#undef LAUNCH
  CUlaunchAttribute a = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION,
                         .value = {.clusterDim = {16, 1, 1}}};
  CUlaunchConfig c = {16, 1, 1, 1, 1, 1, 0, NULL, &a, 1};
  FAILS(cuLaunchKernelEx(&c, f, params, NULL), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  int clusters;
  FAILS(cuOccupancyMaxActiveClusters(&clusters, f, &c), CUDA_ERROR_INVALID_CLUSTER_SIZE);
  OK(cuFuncSetAttribute(f, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
  OK(cuOccupancyMaxActiveClusters(&clusters, f, &c));
  ck_assert_int_gt(clusters, 0);
  c.numAttrs = 0; /* CTAs that form no cluster, as an H200 counts them */
  OK(cuOccupancyMaxActiveClusters(&clusters, f, &c));
  ck_assert_int_eq(clusters, 0);
  c.numAttrs = 1;
  a.id = CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_EVENT;
  FAILS(cuLaunchKernelEx(&c, f, params, NULL), CUDA_ERROR_NOT_SUPPORTED);
  OK(cuCtxSynchronize());
  ck_assert_uint_eq(word_at(word), 0); /* none of the refused launches ran */
}
END_TEST

START_TEST(occupancy) {
  open_device();
  int n, grid, block;
  size_t room;
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, function("increment"), 1024, 0));
  ck_assert_int_eq(n, 1); /* 64 registers a thread */
  OK(cuOccupancyMaxActiveBlocksPerMultiprocessor(&n, function("increment"), 32, 48 * 1024));
  ck_assert_int_eq(n, 4); /* 228 KiB over 49 */
  OK(cuOccupancyMaxPotentialBlockSize(&grid, &block, function("increment"), NULL, 0, 0));
  ck_assert_int_ge(grid, 148);
  ck_assert_int_ge(block, 32);
  OK(cuOccupancyAvailableDynamicSMemPerBlock(&room, function("increment"), 2, 32));
  ck_assert_uint_eq(room, 113 * 1024);
}
END_TEST

/* A failed launch is for ever, until the context is made anew. */
START_TEST(sticky_error) {
  open_device();
  CUdeviceptr p = words(1);
  uint64_t before = barewarp_emulated_reports();
  OK(cuLaunchKernel(function("wild"), 1, 1, 1, 1, 1, 1, 0, NULL, NULL, NULL));
  FAILS(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
  ck_assert_uint_eq(barewarp_emulated_reports(), before + 1);
  ck_assert_str_eq(barewarp_emulated_report_rule(), "oob-global");
  ck_assert_ptr_nonnull(strstr(barewarp_emulated_last_report(), "wild"));
  FAILS(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
  FAILS(cuMemFree(p), CUDA_ERROR_LAUNCH_FAILED);
  FAILS(cuStreamQuery(NULL), CUDA_ERROR_LAUNCH_FAILED);
  OK(cuDevicePrimaryCtxReset(0));
  open_device();
  p = words(1);
  OK(increment(p, NULL));
  ck_assert_uint_eq(word_at(p), 1);
}
END_TEST

/* ---- names ----------------------------------------------------------------------------------- */

START_TEST(names) {
  const char *text;
  CUresult (*fn)(CUcontext *, unsigned, CUdevice);
  CUdriverProcAddressQueryResult found;
  OK(cuGetErrorName(CUDA_ERROR_LAUNCH_FAILED, &text));
  ck_assert_str_eq(text, "CUDA_ERROR_LAUNCH_FAILED");
  /* NOLINTNEXTLINE(clang-analyzer-optin.core.EnumCastOutOfRange): no code of the driver */
  FAILS(cuGetErrorName((CUresult)12345, &text), CUDA_ERROR_INVALID_VALUE);
  OK(cuGetProcAddress("cuMemAlloc", (void **)&fn, 13000, 0, &found));
  ck_assert_ptr_eq((void *)fn, (void *)cuMemAlloc);
  OK(cuGetProcAddress("cuCtxCreate", (void **)&fn, 12000, 0, &found));
  ck_assert_ptr_ne((void *)fn, (void *)cuCtxCreate); /* an earlier variant */
  OK(cuGetProcAddress("cuMulticastCreate", (void **)&fn, 12000, 0, &found));
  ck_assert_int_eq(found, CU_GET_PROC_ADDRESS_VERSION_NOT_SUFFICIENT);
  OK(cuGetProcAddress("cuNothing", (void **)&fn, 13000, 0, &found));
  ck_assert_int_eq(found, CU_GET_PROC_ADDRESS_SYMBOL_NOT_FOUND);
  FAILS(cuGetProcAddress("cuNothing", (void **)&fn, 13000, 0, NULL), CUDA_ERROR_NOT_FOUND);
  ck_assert_ptr_nonnull(strstr(barewarp_emulated_driver(), "barewarp"));
  /* what is lacking is there, and says so */
  CUarray array;
  FAILS(cuArrayCreate(&array, NULL), CUDA_ERROR_NOT_SUPPORTED);
}
END_TEST

START_TEST(settings) {
  ck_assert_int_eq(barewarp_emulated_configure("seed", "7"), 1);
  ck_assert_int_eq(barewarp_emulated_configure("seed", "x"), 0);
  ck_assert_int_eq(barewarp_emulated_configure("checks", "none"), 1);
  ck_assert_int_eq(barewarp_emulated_configure("checks", "bounds,undef"), 1);
  ck_assert_int_eq(barewarp_emulated_configure("checks", "bound"), 0);
  ck_assert_int_eq(barewarp_emulated_configure("nothing", "1"), 0);
}
END_TEST

/* A setting that is not understood leaves no device, and the process alive; put right, the
 * driver starts. */
START_TEST(bad_settings) {
  static const char *const bad[][2] = {
      {"EMU_SEED", "x"},          {"EMU_SEED", "-1"},
      {"EMU_DEVICES", "0"},       {"EMU_DEVICES", "17"},
      {"EMU_ARCH", "sm_80"},      {"EMU_CHECKS", "bounds,,undef"},
      {"EMU_CHECKS", "all,none"}, {"EMU_REPORT", "/nonexistent/r"}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *before = getenv(bad[i][0]);
    char *kept = before ? strdup(before) : NULL;
    ck_assert_int_eq(setenv(bad[i][0], bad[i][1], 1), 0);
    ck_assert_int_eq(cuInit(0), CUDA_ERROR_NO_DEVICE);
    ck_assert_int_eq(barewarp_emulated_configure("seed", "1"), 0);
    ck_assert_ptr_null(barewarp_emulated_last_report());
    if (kept)
      setenv(bad[i][0], kept, 1);
    else
      unsetenv(bad[i][0]);
    free(kept);
  }
  ck_assert_int_eq(cuInit(0), CUDA_SUCCESS);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("start", bad_settings, 10),
      BWT_TEST("device", before_init, 10),
      BWT_TEST("device", device_queries, 10),
      BWT_TEST("device", context_stack, 10),
      BWT_TEST("memory", memory_and_copies, 10),
      BWT_TEST("memory", copies_in_two_dimensions, 10),
      BWT_TEST("memory", pinned_memory, 10),
      BWT_TEST("memory", stream_ordered_memory, 10),
      BWT_TEST("module", modules, 10),
      BWT_TEST("module", targets, 10),
      BWT_TEST("module", binaries, 10),
      BWT_TEST("module", libraries, 10),
      BWT_TEST("launch", vector_add, 10),
      BWT_TEST("launch", launch_checks, 10),
      BWT_TEST("launch", occupancy, 10),
      BWT_TEST("launch", sticky_error, 10),
      BWT_TEST("names", names, 10),
      BWT_TEST("names", settings, 10),
  };
  return bwt_suite_main("emu_driver", tests, BWT_COUNT(tests));
}
