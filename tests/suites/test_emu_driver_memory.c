/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulated driver: several devices, virtual memory management, sharing an allocation
 * with another process, multicast objects.
 */
#include <cuda.h>

#include "emulator/driver/private.h"
#include "harness/suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define OK(call)           ck_assert_int_eq(call, CUDA_SUCCESS)
#define FAILS(call, error) ck_assert_int_eq(call, error)
#define SIZE               ((size_t)2 << 20)

static const char *const code =
    ".version 9.0\n.target sm_90\n.address_size 64\n"
    ".visible .entry put(.param .u64 pw, .param .u32 pv) {\n"
    "  .reg .b32 v; .reg .b64 w;\n"
    "  ld.param.u64 w, [pw];\n  ld.param.u32 v, [pv];\n  st.global.u32 [w], v;\n  ret;\n}\n"
    ".visible .entry put_flag(.param .u64 pw, .param .u32 pv) {\n"
    "  .reg .b32 v; .reg .b64 w;\n"
    "  ld.param.u64 w, [pw];\n  ld.param.u32 v, [pv];\n"
    "  st.release.sys.global.u32 [w], v;\n  ret;\n}\n"
    ".visible .entry put_all(.param .u64 pw, .param .u32 pv) {\n"
    "  .reg .b32 v; .reg .b64 w;\n"
    "  ld.param.u64 w, [pw];\n  ld.param.u32 v, [pv];\n"
    "  multimem.st.relaxed.sys.global.u32 [w], v;\n  ret;\n}\n"
    ".visible .entry wait_flag(.param .u64 pf, .param .u32 pv) {\n"
    "  .reg .pred p; .reg .b32 v, x; .reg .b64 f;\n"
    "  ld.param.u64 f, [pf];\n  ld.param.u32 x, [pv];\n"
    "again:\n"
    "  ld.acquire.sys.global.u32 v, [f];\n  setp.ne.u32 p, v, x;\n  @p bra again;\n  ret;\n}\n"
    ".visible .entry wait_near(.param .u64 pf, .param .u32 pv) {\n"
    "  .reg .pred p; .reg .b32 v, x; .reg .b64 f;\n"
    "  ld.param.u64 f, [pf];\n  ld.param.u32 x, [pv];\n"
    "again:\n"
    "  ld.acquire.gpu.global.u32 v, [f];\n  setp.ne.u32 p, v, x;\n  @p bra again;\n  ret;\n}\n";

static CUcontext open_device(CUdevice dev) {
  CUcontext c;
  OK(cuInit(0));
  OK(cuDevicePrimaryCtxRetain(&c, dev));
  OK(cuCtxSetCurrent(c));
  return c;
}

static void run(const char *name, CUdeviceptr w, uint32_t v, CUstream s) {
  CUmodule m;
  CUfunction f;
  void *params[] = {&w, &v};
  OK(cuModuleLoadData(&m, code));
  OK(cuModuleGetFunction(&f, m, name));
  OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, s, params, NULL));
}

static uint32_t word_at(CUdeviceptr p) {
  uint32_t v;
  OK(cuMemcpyDtoH(&v, p, sizeof v));
  return v;
}

static CUmemAllocationProp on_device(int dev) {
  return (CUmemAllocationProp){.type = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR,
                               .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev}};
}

static CUmemGenericAllocationHandle create(int dev) {
  CUmemGenericAllocationHandle h;
  CUmemAllocationProp prop = on_device(dev);
  OK(cuMemCreate(&h, SIZE, &prop, 0));
  return h;
}

static CUdeviceptr map(CUmemGenericAllocationHandle h, int dev) {
  CUdeviceptr p;
  CUmemAccessDesc access = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = dev},
                            .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemAddressReserve(&p, SIZE, 0, 0, 0));
  OK(cuMemMap(p, SIZE, 0, h, 0));
  OK(cuMemSetAccess(p, SIZE, &access, 1));
  return p;
}

START_TEST(map_and_unmap) {
  open_device(0);
  CUmemAllocationProp prop = on_device(0), back;
  CUmemGenericAllocationHandle h, again;
  CUdeviceptr p;
  size_t granularity;
  uint32_t v = 0;
  OK(cuMemGetAllocationGranularity(&granularity, &prop, CU_MEM_ALLOC_GRANULARITY_MINIMUM));
  ck_assert_uint_eq(granularity, SIZE);
  FAILS(cuMemCreate(&h, SIZE - 1, &prop, 0), CUDA_ERROR_INVALID_VALUE);
  prop.requestedHandleTypes = CU_MEM_HANDLE_TYPE_FABRIC;
  FAILS(cuMemCreate(&h, SIZE, &prop, 0), CUDA_ERROR_NOT_SUPPORTED);
  h = create(0);
  FAILS(cuMemMap(0x720000000000ull, SIZE, 0, h, 0), CUDA_ERROR_INVALID_VALUE); /* not reserved */
  OK(cuMemAddressReserve(&p, 2 * SIZE, 0, 0, 0));
  OK(cuMemMap(p, SIZE, 0, h, 0));
  FAILS(cuMemMap(p, SIZE, 0, h, 0), CUDA_ERROR_INVALID_VALUE);
  FAILS(cuMemcpyHtoD(p, &v, 4), CUDA_ERROR_INVALID_VALUE); /* no access yet */
  CUmemAccessDesc access = {.location = prop.location, .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemSetAccess(p, SIZE, &access, 1));
  OK(cuMemMap(p + SIZE, SIZE, 0, h, 0)); /* the same bytes once more */
  OK(cuMemSetAccess(p, 2 * SIZE, &access, 1));
  run("put", p + 16, 77, NULL);
  OK(cuCtxSynchronize());
  ck_assert_uint_eq(word_at(p + SIZE + 16), 77);
  OK(cuMemsetD8(p, 1, 2 * SIZE)); /* one range over two mappings */
  ck_assert_uint_eq(word_at(p + SIZE - 2), 0x01010101);
  OK(cuMemRetainAllocationHandle(&again, (void *)(uintptr_t)(p + 100)));
  ck_assert_uint_eq(again, h);
  OK(cuMemGetAllocationPropertiesFromHandle(&back, h));
  ck_assert_int_eq(back.location.id, 0);
  OK(cuMemRelease(h));
  OK(cuMemRelease(h));
  FAILS(cuMemRelease(h), CUDA_ERROR_INVALID_VALUE);
  ck_assert_uint_eq(word_at(p), 0x01010101); /* mapped memory stays */
  FAILS(cuMemAddressFree(p, 2 * SIZE), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemUnmap(p, 2 * SIZE));
  FAILS(cuMemcpyDtoH(&v, p, 4), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemAddressFree(p, 2 * SIZE));
}
END_TEST

START_TEST(share_with_a_process) {
  /* The child waits, before its first call, for the descriptor's number; the descriptor
   * itself it gets through /proc, as the two share no ancestor's. */
  int to_child[2], to_parent[2];
  ck_assert_int_eq(pipe(to_child) | pipe(to_parent), 0);
  pid_t parent = getpid(), child = fork();
  ck_assert_int_ge(child, 0);
  if (!child) {
    int fd = -1;
    char path[64], done = 1;
    CUmemGenericAllocationHandle h;
    if (read(to_child[0], &fd, sizeof fd) != sizeof fd)
      _exit(2);
    snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)parent, fd);
    FILE *f = fopen(path, "r+");
    if (!f)
      _exit(3);
    open_device(0);
    OK(cuMemImportFromShareableHandle(&h, (void *)(intptr_t)fileno(f),
                                      CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
    CUdeviceptr p = map(h, 0);
    ck_assert_uint_eq(word_at(p), 5);
    run("put", p + 4, 6, NULL);
    OK(cuCtxSynchronize());
    _exit(write(to_parent[1], &done, 1) == 1 ? 0 : 4);
  }
  open_device(0);
  CUmemGenericAllocationHandle h = create(0);
  CUdeviceptr p = map(h, 0);
  int fd, status;
  char done;
  OK(cuMemsetD32(p, 5, 2));
  OK(cuCtxSynchronize());
  FAILS(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_FABRIC, 0),
        CUDA_ERROR_NOT_SUPPORTED);
  OK(cuMemExportToShareableHandle(&fd, h, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  ck_assert_int_eq(write(to_child[1], &fd, sizeof fd), sizeof fd);
  run("wait_flag", p + 4, 6, NULL); /* spins until the other process has written */
  OK(cuCtxSynchronize());
  ck_assert_int_eq(read(to_parent[0], &done, 1), 1);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
}
END_TEST

START_TEST(two_devices) {
  ck_assert_int_eq(setenv("EMU_DEVICES", "2", 1), 0);
  CUcontext a = open_device(0), b = open_device(1);
  int n, can;
  OK(cuDeviceGetCount(&n));
  ck_assert_int_eq(n, 2);
  OK(cuDeviceCanAccessPeer(&can, 0, 1));
  ck_assert_int_eq(can, 1);
  CUdeviceptr p, q;
  OK(cuCtxSetCurrent(a));
  OK(cuCtxEnablePeerAccess(b, 0));
  FAILS(cuCtxEnablePeerAccess(b, 0), CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED);
  FAILS(cuCtxEnablePeerAccess(a, 0), CUDA_ERROR_INVALID_CONTEXT);
  OK(cuMemAlloc(&p, 4));
  OK(cuMemsetD32(p, 0, 1));
  OK(cuCtxSynchronize());
  run("wait_flag", p, 3, NULL); /* device 0 polls what device 1 writes */
  OK(cuCtxSetCurrent(b));
  OK(cuMemAlloc(&q, 4));
  OK(cuCtxEnablePeerAccess(a, 0));
  run("put_flag", p, 3, NULL);
  OK(cuCtxSynchronize());
  OK(cuCtxSetCurrent(a));
  OK(cuCtxSynchronize());
  OK(cuMemcpyPeer(q, b, p, a, 4));
  ck_assert_uint_eq(word_at(q), 3);
  int ordinal;
  OK(cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, q));
  ck_assert_int_eq(ordinal, 1);
}
END_TEST

START_TEST(multicast) {
  ck_assert_int_eq(setenv("EMU_DEVICES", "2", 1), 0);
  open_device(1);
  open_device(0);
  CUmulticastObjectProp prop = {.numDevices = 2, .size = SIZE};
  CUmemGenericAllocationHandle mc, memory[2];
  CUdeviceptr copy[2], all;
  OK(cuMulticastCreate(&mc, &prop));
  for (int d = 0; d < 2; d++) {
    memory[d] = create(d);
    copy[d] = map(memory[d], d);
    OK(cuMemsetD32(copy[d], 0, 4));
  }
  OK(cuMulticastAddDevice(mc, 0));
  FAILS(cuMulticastBindMem(mc, 0, memory[1], 0, SIZE, 0), CUDA_ERROR_INVALID_DEVICE);
  OK(cuMulticastAddDevice(mc, 1));
  FAILS(cuMulticastAddDevice(mc, 1), CUDA_ERROR_INVALID_VALUE);
  OK(cuMulticastBindMem(mc, 0, memory[0], 0, SIZE, 0));
  OK(cuMulticastBindAddr(mc, 0, copy[1], SIZE, 0));
  FAILS(cuMulticastBindMem(mc, 0, memory[0], 0, SIZE, 0), CUDA_ERROR_INVALID_VALUE);
  all = map(mc, 0);
  OK(cuCtxSynchronize());
  run("put_all", all + 8, 9, NULL);
  OK(cuCtxSynchronize());
  for (int d = 0; d < 2; d++)
    ck_assert_uint_eq(word_at(copy[d] + 8), 9);
  OK(cuMemUnmap(all, SIZE));
  OK(cuMulticastUnbind(mc, 0, 0, SIZE));
  FAILS(cuMulticastUnbind(mc, 0, 0, SIZE), CUDA_ERROR_INVALID_VALUE);
  OK(cuMemRelease(mc));
}
END_TEST

/* ---- a multicast object of two processes ----------------------------------------------------- */

static int open_of(pid_t process, int fd) {
  char path[64];
  snprintf(path, sizeof path, "/proc/%d/fd/%d", (int)process, fd);
  FILE *f = fopen(path, "r+");
  ck_assert_ptr_nonnull(f);
  return fileno(f); /* stays open */
}

/* Device 1 joins and binds its memory, whose word 0 is set by the other process's kernel, and
 * then stores to both. */
static void join(int object_fd, int to_parent) {
  CUmemGenericAllocationHandle mc, h;
  char done = 1;
  open_device(1);
  OK(cuMemImportFromShareableHandle(&mc, (void *)(intptr_t)object_fd,
                                    CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR));
  FAILS(cuMulticastAddDevice(mc, 0), CUDA_ERROR_INVALID_VALUE); /* the parent has */
  h = create(1);
  CUdeviceptr copy = map(h, 1), all = map(mc, 1);
  OK(cuMemsetD32(copy, 0, 4));
  FAILS(cuMulticastBindMem(mc, 0, h, 0, SIZE, 0), CUDA_ERROR_INVALID_DEVICE);
  usleep(300000); /* the parent is binding, and waits */
  OK(cuMulticastAddDevice(mc, 1));
  OK(cuMulticastBindMem(mc, 0, h, 0, SIZE, 0));
  ck_assert_int_eq(write(to_parent, &done, 1), 1);
  run("wait_flag", copy, 8, NULL); /* spins until the parent's store has arrived */
  OK(cuCtxSynchronize());
  run("put_all", all + 4, 9, NULL);
  OK(cuCtxSynchronize());
  ck_assert_uint_eq(word_at(copy + 4), 9);
  OK(cuMulticastUnbind(mc, 1, 0, SIZE));
  ck_assert_int_eq(write(to_parent, &done, 1), 1);
}

START_TEST(multicast_between_processes) {
  ck_assert_int_eq(setenv("EMU_DEVICES", "2", 1), 0);
  int to_child[2], to_parent[2], fd = -1, status;
  char done;
  ck_assert_int_eq(pipe(to_child) | pipe(to_parent), 0);
  pid_t parent = getpid(), child = fork();
  ck_assert_int_ge(child, 0);
  if (!child) {
    ck_assert_int_eq(read(to_child[0], &fd, sizeof fd), sizeof fd);
    join(open_of(parent, fd), to_parent[1]);
    _exit(0);
  }
  open_device(0);
  CUmulticastObjectProp prop = {.numDevices = 2, .size = SIZE};
  CUmemGenericAllocationHandle mc, closed, h = create(0);
  OK(cuMulticastCreate(&closed, &prop)); /* without a handle type it is not for others */
  FAILS(cuMemExportToShareableHandle(&fd, closed, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0),
        CUDA_ERROR_INVALID_VALUE);
  OK(cuMemRelease(closed));
  prop.handleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
  OK(cuMulticastCreate(&mc, &prop));
  OK(cuMemExportToShareableHandle(&fd, mc, CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR, 0));
  CUdeviceptr copy = map(h, 0), all = map(mc, 0);
  OK(cuMemsetD32(copy, 0, 4));
  OK(cuMulticastAddDevice(mc, 0));
  ck_assert_int_eq(write(to_child[1], &fd, sizeof fd), sizeof fd);
  OK(cuMulticastBindMem(mc, 0, h, 0, SIZE, 0)); /* waits for device 1 */
  ck_assert_int_eq(read(to_parent[0], &done, 1), 1);
  run("put_all", all, 8, NULL);
  run("wait_flag", copy + 4, 9, NULL);
  OK(cuCtxSynchronize());
  ck_assert_uint_eq(word_at(copy), 8);
  ck_assert_int_eq(read(to_parent[0], &done, 1), 1); /* device 1 is out */
  run("put_all", all + 8, 5, NULL);
  OK(cuCtxSynchronize());
  ck_assert_uint_eq(word_at(copy + 8), 5);
  ck_assert_int_eq(waitpid(child, &status, 0), child);
  ck_assert_int_eq(status, 0);
  OK(cuMemUnmap(all, SIZE));
  OK(cuMemRelease(mc));
}
END_TEST

/* Nobody adds device 1: binding gives up, after the time that it is told. */
START_TEST(multicast_never_complete) {
  ck_assert_int_eq(setenv("EMU_DEVICES", "2", 1) | setenv("EMU_PATIENCE", "1", 1), 0);
  open_device(0);
  CUmulticastObjectProp prop = {.numDevices = 2, .size = SIZE};
  CUmemGenericAllocationHandle mc, h = create(0);
  OK(cuMulticastCreate(&mc, &prop));
  OK(cuMulticastAddDevice(mc, 0));
  FAILS(cuMulticastBindMem(mc, 0, h, 0, SIZE, 0), CUDA_ERROR_SYSTEM_NOT_READY);
  OK(cuMemRelease(mc));
  OK(cuMemRelease(h));
}
END_TEST

/* A plain store reaches all copies where the check is off; a plain load never means anything. */
START_TEST(multicast_without_multimem) {
  ck_assert_int_eq(setenv("EMU_DEVICES", "2", 1), 0);
  open_device(1);
  open_device(0);
  CUmulticastObjectProp prop = {.numDevices = 2, .size = SIZE};
  CUmemGenericAllocationHandle mc, memory[2];
  CUdeviceptr copy[2], all;
  OK(cuMulticastCreate(&mc, &prop));
  for (int d = 0; d < 2; d++) {
    memory[d] = create(d);
    copy[d] = map(memory[d], d);
    OK(cuMemsetD32(copy[d], 0, 4));
    OK(cuMulticastAddDevice(mc, d));
  }
  for (int d = 0; d < 2; d++)
    OK(cuMulticastBindMem(mc, 0, memory[d], 0, SIZE, 0));
  all = map(mc, 0);
  const CUmemAccessDesc other = {.location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 1},
                                 .flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE};
  OK(cuMemSetAccess(all, SIZE, &other, 1));
  OK(cuCtxSynchronize());
  ck_assert_int_eq(barewarp_emulated_configure("checks", "none"), 1);
  run("put", all + 12, 6, NULL);
  OK(cuCtxSynchronize());
  ck_assert_uint_eq(barewarp_emulated_reports(), 0);
  ck_assert_uint_eq(word_at(copy[0] + 12), 6);
  ck_assert_uint_eq(word_at(copy[1] + 12), 6);
  const struct {
    const char *checks, *kernel, *rule, *line;
  } bad[] = {{"mailbox", "put", "multicast-write", "line 8: st.global.u32 [w], v"},
             {"none", "wait_flag", "multicast-read", ": ld.acquire.sys.global.u32 v, [f]"}};
  for (int i = 0; i < 2; i++) {
    ck_assert_int_eq(barewarp_emulated_configure("checks", bad[i].checks), 1);
    run(bad[i].kernel, all + 12, 7, NULL);
    FAILS(cuCtxSynchronize(), CUDA_ERROR_LAUNCH_FAILED);
    ck_assert_str_eq(barewarp_emulated_report_rule(), bad[i].rule);
    ck_assert_ptr_nonnull(strstr(barewarp_emulated_last_report(), bad[i].line));
    open_device(1); /* the other's context is lost */
  }
}
END_TEST

/* A kernel polls what the host's fill will change: at .sys scope, or it is a race, whichever
 * of the two comes first. */
START_TEST(fill_beside_a_poll) {
  static const char *const kernels[] = {"wait_flag", "wait_near"};
  open_device(0);
  for (int i = 0; i < 4; i++) {
    CUstream reader, writer;
    CUdeviceptr w;
    OK(cuStreamCreate(&reader, CU_STREAM_NON_BLOCKING));
    OK(cuStreamCreate(&writer, CU_STREAM_NON_BLOCKING));
    OK(cuMemAlloc(&w, 4));
    OK(cuMemsetD32(w, 0, 1));
    OK(cuCtxSynchronize());
    run(kernels[i % 2], w, 3, reader);
    if (i < 2)
      (void)cuStreamQuery(reader); /* it polls */
    OK(cuMemsetD32Async(w, 3, 1, writer));
    CUresult written = cuStreamSynchronize(writer), read = cuStreamSynchronize(reader);
    if (i % 2 == 0) {
      OK(written);
      OK(read);
      OK(cuMemFree(w));
      continue;
    }
    ck_assert(written == CUDA_ERROR_LAUNCH_FAILED || read == CUDA_ERROR_LAUNCH_FAILED);
    ck_assert_str_eq(barewarp_emulated_report_rule(), "race-read-write");
    OK(cuDevicePrimaryCtxReset(0));
    open_device(0);
  }
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("vmm", map_and_unmap, 20),
      BWT_TEST("vmm", share_with_a_process, 60),
      BWT_TEST("devices", two_devices, 20),
      BWT_TEST("devices", fill_beside_a_poll, 20),
      BWT_TEST("devices", multicast, 20),
      BWT_TEST("devices", multicast_without_multimem, 20),
      BWT_TEST("devices", multicast_never_complete, 20),
      BWT_TEST("devices", multicast_between_processes, 60),
  };
  return bwt_suite_main("emu_driver_memory", tests, BWT_COUNT(tests));
}
