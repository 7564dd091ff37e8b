/* SPDX-License-Identifier: Apache-2.0
 *
 * Start-up, and what a device says about itself.  Limits are those of the silicon that
 * the device stands in for; what the emulator cannot do is answered "no".
 */
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

CUresult cuInit(unsigned int flags) {
  API(ENTER_any);
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (driver.initialized && driver.pid != (long)getpid())
    return CUDA_ERROR_NOT_INITIALIZED; /* a fork after cuInit */
  if (!driver.initialized) {
    driver.m = machine_get();
    if (!driver.m || !driver.m->ndev)
      return CUDA_ERROR_NO_DEVICE;
    driver.pid = (long)getpid();
    driver.initialized = true;
  }
  return CUDA_SUCCESS;
}

CUresult cuDriverGetVersion(int *version) {
  API(ENTER_any);
  if (!version)
    return CUDA_ERROR_INVALID_VALUE;
  *version = EMU_DRIVER_VERSION;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  API(ENTER_init);
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(ordinal))
    return CUDA_ERROR_INVALID_DEVICE;
  *device = ordinal;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetCount(int *count) {
  API(ENTER_init);
  if (!count)
    return CUDA_ERROR_INVALID_VALUE;
  *count = (int)driver.m->ndev;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetName(char *name, int len, CUdevice dev) {
  API(ENTER_init);
  if (!name || len <= 0)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  struct device *d = &driver.m->dev[dev];
  snprintf(name, (size_t)len, "barewarp emulated sm_%d%d", d->cc_major, d->cc_minor);
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetUuid(CUuuid *uuid, CUdevice dev) {
  API(ENTER_init);
  if (!uuid)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  /* The same in every process: ranks compare these to tell devices apart. */
  struct device *d = &driver.m->dev[dev];
  memcpy(uuid->bytes, "barewarp-emu", 12);
  uuid->bytes[12] = (char)d->cc_major;
  uuid->bytes[13] = (char)d->cc_minor;
  uuid->bytes[14] = 0;
  uuid->bytes[15] = (char)dev;
  return CUDA_SUCCESS;
}

CUresult cuDeviceTotalMem(size_t *bytes, CUdevice dev) {
  API(ENTER_init);
  if (!bytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  *bytes = driver.m->dev[dev].memory;
  return CUDA_SUCCESS;
}

#define PCI_BUS(dev) (0x10 + (dev))

CUresult cuDeviceGetPCIBusId(char *id, int len, CUdevice dev) {
  API(ENTER_init);
  if (!id || len < 13)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  snprintf(id, (size_t)len, "0000:%02X:00.0", (unsigned)PCI_BUS(dev));
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetByPCIBusId(CUdevice *dev, const char *id) {
  API(ENTER_init);
  if (!dev || !id)
    return CUDA_ERROR_INVALID_VALUE;
  unsigned domain = 0, bus = 0, slot = 0, fn = 0;
  if (sscanf(id, "%x:%x:%x.%x", &domain, &bus, &slot, &fn) < 3) {
    domain = 0;
    if (sscanf(id, "%x:%x.%x", &bus, &slot, &fn) < 2)
      return CUDA_ERROR_INVALID_VALUE;
  }
  if (domain || slot || fn || bus < PCI_BUS(0) || !ordinal_valid((int)bus - PCI_BUS(0)))
    return CUDA_ERROR_INVALID_DEVICE;
  *dev = (int)bus - PCI_BUS(0);
  return CUDA_SUCCESS;
}

CUresult cuDeviceComputeCapability(int *major, int *minor, CUdevice dev) {
  API(ENTER_init);
  if (!major || !minor)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  *major = driver.m->dev[dev].cc_major;
  *minor = driver.m->dev[dev].cc_minor;
  return CUDA_SUCCESS;
}

/* -1: no such attribute. */
static int attribute(const struct device *d, CUdevice dev, CUdevice_attribute a) {
  bool blackwell = d->cc_major >= 10;
  switch (a) {
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_BLOCK:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_X:
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Y:
    return 1024;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCK_DIM_Z:
    return 64;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_X:
    return 0x7fffffff;
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Y:
  case CU_DEVICE_ATTRIBUTE_MAX_GRID_DIM_Z:
    return 65535;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK:
    return 48 << 10;
  case CU_DEVICE_ATTRIBUTE_TOTAL_CONSTANT_MEMORY:
    return 64 << 10;
  case CU_DEVICE_ATTRIBUTE_WARP_SIZE:
    return WARP;
  case CU_DEVICE_ATTRIBUTE_MAX_PITCH:
    return 0x7fffffff;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_BLOCK:
    return 65536;
  case CU_DEVICE_ATTRIBUTE_CLOCK_RATE:
    return 1000000; /* kHz: one step of virtual time is a nanosecond */
  case CU_DEVICE_ATTRIBUTE_TEXTURE_ALIGNMENT:
  case CU_DEVICE_ATTRIBUTE_SURFACE_ALIGNMENT:
    return 512;
  case CU_DEVICE_ATTRIBUTE_TEXTURE_PITCH_ALIGNMENT:
    return 32;
  case CU_DEVICE_ATTRIBUTE_GPU_OVERLAP:
  case CU_DEVICE_ATTRIBUTE_CAN_MAP_HOST_MEMORY:
  case CU_DEVICE_ATTRIBUTE_CONCURRENT_KERNELS:
  case CU_DEVICE_ATTRIBUTE_UNIFIED_ADDRESSING:
  case CU_DEVICE_ATTRIBUTE_STREAM_PRIORITIES_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_GLOBAL_L1_CACHE_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_LOCAL_L1_CACHE_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_COMPUTE_PREEMPTION_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_CAN_USE_HOST_POINTER_FOR_REGISTERED_MEM:
  case CU_DEVICE_ATTRIBUTE_CAN_USE_64_BIT_STREAM_MEM_OPS:
  case CU_DEVICE_ATTRIBUTE_CAN_USE_STREAM_WAIT_VALUE_NOR:
  case CU_DEVICE_ATTRIBUTE_COOPERATIVE_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_HOST_REGISTER_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_VIRTUAL_MEMORY_MANAGEMENT_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_MEMORY_POOLS_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_CLUSTER_LAUNCH:
  case CU_DEVICE_ATTRIBUTE_TENSOR_MAP_ACCESS_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED:
  case CU_DEVICE_ATTRIBUTE_MANAGED_MEMORY:
    return 1;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT:
    return (int)d->nsm;
  case CU_DEVICE_ATTRIBUTE_PCI_BUS_ID:
    return PCI_BUS(dev);
  case CU_DEVICE_ATTRIBUTE_MEMORY_CLOCK_RATE:
    return blackwell ? 3996000 : 3201000;
  case CU_DEVICE_ATTRIBUTE_GLOBAL_MEMORY_BUS_WIDTH:
    return blackwell ? 8192 : 6144;
  case CU_DEVICE_ATTRIBUTE_L2_CACHE_SIZE:
    return blackwell ? 126 << 20 : 60 << 20;
  case CU_DEVICE_ATTRIBUTE_MAX_PERSISTING_L2_CACHE_SIZE:
  case CU_DEVICE_ATTRIBUTE_MAX_ACCESS_POLICY_WINDOW_SIZE:
    return 0; /* no cache is modelled */
  case CU_DEVICE_ATTRIBUTE_MAX_THREADS_PER_MULTIPROCESSOR:
    return (int)d->max_threads_sm;
  case CU_DEVICE_ATTRIBUTE_ASYNC_ENGINE_COUNT:
    return 3;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR:
    return d->cc_major;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR:
    return d->cc_minor;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_MULTIPROCESSOR:
    return (int)d->shared_sm;
  case CU_DEVICE_ATTRIBUTE_MAX_REGISTERS_PER_MULTIPROCESSOR:
    return (int)d->registers_sm;
  case CU_DEVICE_ATTRIBUTE_SINGLE_TO_DOUBLE_PRECISION_PERF_RATIO:
    return 2;
  case CU_DEVICE_ATTRIBUTE_MAX_SHARED_MEMORY_PER_BLOCK_OPTIN:
    return (int)d->shared_optin;
  case CU_DEVICE_ATTRIBUTE_MAX_BLOCKS_PER_MULTIPROCESSOR:
    return (int)d->max_ctas_sm;
  case CU_DEVICE_ATTRIBUTE_RESERVED_SHARED_MEMORY_PER_BLOCK:
    return 1024;
  case CU_DEVICE_ATTRIBUTE_MEMPOOL_SUPPORTED_HANDLE_TYPES:
    return CU_MEM_HANDLE_TYPE_NONE;
  case CU_DEVICE_ATTRIBUTE_MEM_SYNC_DOMAIN_COUNT:
    return 4;
  case CU_DEVICE_ATTRIBUTE_NUMA_ID:
  case CU_DEVICE_ATTRIBUTE_HOST_NUMA_ID:
    return -2; /* see below: -1, "none" */
  default:
    /* Texture limits and every capability not named above. */
    return a > 0 && a < CU_DEVICE_ATTRIBUTE_MAX ? 0 : -1;
  }
}

CUresult cuDeviceGetAttribute(int *value, CUdevice_attribute attrib, CUdevice dev) {
  API(ENTER_init);
  if (!value)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  int v = attribute(&driver.m->dev[dev], dev, attrib);
  if (v == -1)
    return CUDA_ERROR_INVALID_VALUE;
  *value = v == -2 ? -1 : v;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetProperties(CUdevprop *prop, CUdevice dev) {
  API(ENTER_init);
  if (!prop)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  *prop = (CUdevprop){.maxThreadsPerBlock = 1024,
                      .maxThreadsDim = {1024, 1024, 64},
                      .maxGridSize = {0x7fffffff, 65535, 65535},
                      .sharedMemPerBlock = 48 << 10,
                      .totalConstantMemory = 64 << 10,
                      .SIMDWidth = WARP,
                      .memPitch = 0x7fffffff,
                      .regsPerBlock = 65536,
                      .clockRate = 1000000,
                      .textureAlign = 512};
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetExecAffinitySupport(int *value, CUexecAffinityType type, CUdevice dev) {
  API(ENTER_init);
  if (!value || (unsigned)type >= CU_EXEC_AFFINITY_TYPE_MAX)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev))
    return CUDA_ERROR_INVALID_DEVICE;
  *value = 0;
  return CUDA_SUCCESS;
}

/* ---- peers --------------------------------------------------------------------------- */

CUresult cuDeviceCanAccessPeer(int *can, CUdevice dev, CUdevice peer) {
  API(ENTER_init);
  if (!can)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(dev) || !ordinal_valid(peer))
    return CUDA_ERROR_INVALID_DEVICE;
  *can = dev != peer;
  return CUDA_SUCCESS;
}

CUresult cuDeviceGetP2PAttribute(int *value, CUdevice_P2PAttribute attrib, CUdevice src,
                                 CUdevice dst) {
  API(ENTER_init);
  if (!value)
    return CUDA_ERROR_INVALID_VALUE;
  if (!ordinal_valid(src) || !ordinal_valid(dst) || src == dst)
    return CUDA_ERROR_INVALID_DEVICE;
  switch (attrib) {
  case CU_DEVICE_P2P_ATTRIBUTE_PERFORMANCE_RANK:
  case CU_DEVICE_P2P_ATTRIBUTE_CUDA_ARRAY_ACCESS_SUPPORTED:
  case CU_DEVICE_P2P_ATTRIBUTE_ONLY_PARTIAL_NATIVE_ATOMIC_SUPPORTED:
    *value = 0;
    return CUDA_SUCCESS;
  case CU_DEVICE_P2P_ATTRIBUTE_ACCESS_SUPPORTED:
  case CU_DEVICE_P2P_ATTRIBUTE_NATIVE_ATOMIC_SUPPORTED:
    *value = 1;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuCtxEnablePeerAccess(CUcontext peer, unsigned int flags) {
  API(ENTER_context);
  if (flags)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(peer, HANDLE_context) || peer->ordinal == guard.ctx->ordinal)
    return CUDA_ERROR_INVALID_CONTEXT;
  uint32_t bit = 1u << peer->ordinal;
  if (guard.ctx->peers & bit)
    return CUDA_ERROR_PEER_ACCESS_ALREADY_ENABLED;
  guard.ctx->peers |= bit;
  device_of(guard.ctx)->peers |= bit;
  return CUDA_SUCCESS;
}

CUresult cuCtxDisablePeerAccess(CUcontext peer) {
  API(ENTER_context);
  if (!handle_is(peer, HANDLE_context) || peer->ordinal == guard.ctx->ordinal)
    return CUDA_ERROR_INVALID_CONTEXT;
  uint32_t bit = 1u << peer->ordinal;
  if (!(guard.ctx->peers & bit))
    return CUDA_ERROR_PEER_ACCESS_NOT_ENABLED;
  guard.ctx->peers &= ~bit;
  device_of(guard.ctx)->peers &= ~bit;
  return CUDA_SUCCESS;
}
