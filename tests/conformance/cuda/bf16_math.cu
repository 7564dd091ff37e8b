// SPDX-License-Identifier: Apache-2.0
// __nv_bfloat16 arithmetic, comparison, conversion.
//@ family cuda
//@ inputs bf16x2 bf16x2 bf16x2
//@ launch 8 256 1 0
//@ definition
//@ results 8
#include "common.cuh"
#include <cuda_bf16.h>

static __device__ __nv_bfloat162 as_pair(word w) {
  __nv_bfloat162_raw r;
  r.x = uint16_t(w);
  r.y = uint16_t(w >> 16);
  return r;
}
static __device__ uint32_t bits(__nv_bfloat162 h) {
  __nv_bfloat162_raw r = h;
  return r.x | uint32_t(r.y) << 16;
}

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  __nv_bfloat162 a = as_pair(io.get(0)), b = as_pair(io.get(1)), c = as_pair(io.get(2));
  io.put(bits(__hadd2(a, b)));
  io.put(bits(__hsub2(a, b)));
  io.put(bits(__hmul2(a, b)));
  io.put(bits(__hfma2(a, b, c)));
  io.put(bits(__hmax2(a, b)));
  io.put(bits(__hmin2_nan(a, b)));
  io.put(__bfloat162float(__low2bfloat16(a)));
  io.put(bits(__floats2bfloat162_rn(__low2float(a) * 1.01f, __high2float(b) + 0.33f)));
}
