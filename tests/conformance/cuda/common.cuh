// SPDX-License-Identifier: Apache-2.0
//
// What the CUDA C++ conformance kernels share.  Thread i of n reads operand a at in[a * n + i]
// and writes result v to out[v * n + i], as the PTX kernels do.
#pragma once
#include <cstdint>

#define CONFORMANCE extern "C" __global__ void

using word = unsigned long long;

struct Io {
  const word *in;
  word *out;
  uint32_t i, n, next;

  __device__ Io(const word *in_, word *out_) : in(in_), out(out_), next(0) {
    i = blockIdx.x * blockDim.x + threadIdx.x;
    n = gridDim.x * blockDim.x;
  }
  __device__ word get(int a) const { return in[uint64_t(a) * n + i]; }
  __device__ float f32(int a) const { return __uint_as_float(uint32_t(get(a))); }
  __device__ double f64(int a) const { return __longlong_as_double((long long)get(a)); }
  __device__ void put(word v) { out[uint64_t(next++) * n + i] = v; }
  __device__ void put(unsigned v) { put(word(v)); }
  __device__ void put(int v) { put(word(unsigned(v))); }
  __device__ void put(unsigned long v) { put(word(v)); }
  __device__ void put(long long v) { put(word(v)); }
  __device__ void put(float v) { put(word(__float_as_uint(v))); }
  __device__ void put(double v) { put(word(__double_as_longlong(v))); }
};

__device__ inline uint32_t shared_address(const void *p) {
  return uint32_t(__cvta_generic_to_shared(p));
}

// ---- mbarrier ------------------------------------------------------------------

__device__ inline void mbar_init(uint64_t *bar, uint32_t count) {
  asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;" ::"r"(shared_address(bar)), "r"(count)
               : "memory");
}
__device__ inline void mbar_expect(uint64_t *bar, uint32_t bytes) {
  asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;" ::"r"(shared_address(bar)),
               "r"(bytes)
               : "memory");
}
__device__ inline void mbar_arrive(uint64_t *bar) {
  asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];" ::"r"(shared_address(bar)) : "memory");
}
__device__ inline void mbar_wait(uint64_t *bar, uint32_t parity) {
  asm volatile(
      "{\n"
      ".reg .pred done;\n"
      "again:\n"
      "mbarrier.try_wait.parity.shared::cta.b64 done, [%0], %1;\n"
      "@!done bra again;\n"
      "}" ::"r"(shared_address(bar)),
      "r"(parity)
      : "memory");
}
__device__ inline void fence_async() {
  asm volatile("fence.proxy.async.shared::cta;" ::: "memory");
}
__device__ inline void fence_init() {
  asm volatile("fence.mbarrier_init.release.cluster;" ::: "memory");
}

// ---- bulk and tensor copies ------------------------------------------------------

__device__ inline void tma_load_2d(void *to, const void *map, int x, int y, uint64_t *bar) {
  asm volatile(
      "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
      "[%0], [%1, {%2, %3}], [%4];" ::"r"(shared_address(to)),
      "l"(map), "r"(x), "r"(y), "r"(shared_address(bar))
      : "memory");
}
__device__ inline void bulk_commit() { asm volatile("cp.async.bulk.commit_group;" ::: "memory"); }
template <int N> __device__ void bulk_wait() {
  asm volatile("cp.async.bulk.wait_group %0;" ::"n"(N) : "memory");
}
