// SPDX-License-Identifier: Apache-2.0
// Division and square root as IEEE 754 rounds them, float and double.
//@ family cuda
//@ inputs f32 f32
//@ launch 8 256 1 0
//@ definition
//@ results 9
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  float a = io.f32(0), b = io.f32(1);
  io.put(a / b);
  io.put(sqrtf(fabsf(a)));
  io.put(1.0f / b);
  io.put(__fdiv_rz(a, b));
  io.put(__fsqrt_ru(fabsf(b)));
  double x = double(a) * 1.2345678901234567, y = double(b) + 0.1;
  io.put(x / y);
  io.put(sqrt(fabs(x)));
  io.put(__ddiv_rd(x, y));
  io.put(__drcp_rn(y));
}
