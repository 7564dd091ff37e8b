// SPDX-License-Identifier: Apache-2.0
//
// Small whole numbers as matrix elements: nibble j of a word is a number -8..7 (or, of
// fp8 wgmma, -4..3), so that every sum is exact in any order and C can say what it is.
#pragma once
#include "common.cuh"

__device__ inline int nibble(word w, int j) { return int(w >> (4 * j) & 15) - 8; }

__device__ inline uint16_t half_of(int v) {
  uint16_t h;
  asm("cvt.rn.f16.s32 %0, %1;" : "=h"(h) : "r"(v));
  return h;
}
__device__ inline uint16_t bf16_of(int v) {
  uint16_t h;
  asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(h) : "f"(float(v)));
  return h;
}
__device__ inline uint8_t e4m3_of(int v) {
  uint16_t h;
  asm("cvt.rn.satfinite.e4m3x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(float(v)));
  return uint8_t(h);
}
__device__ inline uint8_t e5m2_of(int v) {
  uint16_t h;
  asm("cvt.rn.satfinite.e5m2x2.f32 %0, %1, %2;" : "=h"(h) : "f"(0.0f), "f"(float(v)));
  return uint8_t(h);
}

// One warp's operands: A 16 rows and B 8 rows (its columns) of 32 bytes, by ldmatrix.
struct Fragments {
  uint32_t a[4], b[2];
  __device__ void load(const uint8_t *sa, const uint8_t *sb) {
    int lane = threadIdx.x % 32;
    uint32_t pa = shared_address(sa) + (lane % 16) * 32 + lane / 16 * 16;
    uint32_t pb = shared_address(sb) + (lane % 8) * 32 + lane / 8 % 2 * 16;
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
                 : "=r"(a[0]), "=r"(a[1]), "=r"(a[2]), "=r"(a[3])
                 : "r"(pa));
    asm volatile("ldmatrix.sync.aligned.m8n8.x2.shared.b16 {%0, %1}, [%2];" : "=r"(b[0]), "=r"(b[1]) : "r"(pb));
  }
};

// A matrix in shared memory in rows of 128 bytes, swizzled as the tensor core and TMA do.
__device__ inline uint32_t swizzled(uint32_t row, uint32_t byte) {
  uint32_t at = row * 128 + byte;
  return at ^ ((at >> 7 & 7) << 4);
}
