// SPDX-License-Identifier: Apache-2.0
// __half and __half2 arithmetic, comparison, conversion.
//@ family cuda
//@ inputs f16x2 f16x2 f16x2
//@ launch 8 256 1 0
//@ definition
//@ results 10
#include "common.cuh"
#include <cuda_fp16.h>

static __device__ __half2 as_half2(word w) {
  __half2_raw r;
  r.x = uint16_t(w);
  r.y = uint16_t(w >> 16);
  return r;
}
static __device__ uint32_t bits(__half2 h) {
  __half2_raw r = h;
  return r.x | uint32_t(r.y) << 16;
}

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  __half2 a = as_half2(io.get(0)), b = as_half2(io.get(1)), c = as_half2(io.get(2));
  io.put(bits(__hadd2(a, b)));
  io.put(bits(__hsub2(a, b)));
  io.put(bits(__hmul2(a, b)));
  io.put(bits(__hfma2(a, b, c)));
  io.put(bits(__hmax2(a, b)));
  io.put(bits(__hmin2_nan(a, b)));
  io.put(uint32_t(__hlt(__low2half(a), __low2half(b))) | uint32_t(__hgeu(__high2half(a), __high2half(b))) << 1);
  io.put(__half2float(__low2half(a)));
  io.put(bits(__floats2half2_rn(__low2float(a) * 1.0009765f, __high2float(b) + 0.33f)));
  io.put(__half2int_rz(__high2half(c)));
}
