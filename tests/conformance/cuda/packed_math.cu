// SPDX-License-Identifier: Apache-2.0
// Packed integers and 8-bit floats: the SIMD intrinsics, dot products, byte permutes, fp8.
//@ family cuda
//@ inputs u32 u32 u32
//@ launch 8 256 1 0
//@ definition
//@ results 10
#include "common.cuh"
#include <cuda_fp8.h>

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  uint32_t a = uint32_t(io.get(0)), b = uint32_t(io.get(1)), c = uint32_t(io.get(2));
  io.put(__vadd2(a, b));
  io.put(__vadd4(a, b));
  io.put(__vsubus4(a, b));
  io.put(__vmaxs2(a, b));
  io.put(__vminu4(a, b));
  io.put(__dp4a(int(a), int(b), int(c)));
  io.put(__dp2a_lo(a, b, c));
  io.put(__byte_perm(a, b, c & 0x7777));
  io.put(uint32_t(__nv_cvt_float2_to_fp8x2(make_float2(int(a) * 0.001f, int(b) * 1e-7f), __NV_SATFINITE,
                                           __NV_E4M3)));
  io.put(uint32_t(__half2_raw(__nv_cvt_fp8x2_to_halfraw2(uint16_t(c), __NV_E5M2)).x));
}
