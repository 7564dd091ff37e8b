// SPDX-License-Identifier: Apache-2.0
// Rounding: directed arithmetic, float to integer and back, floor, ceil, rint, trunc.
//@ family cuda
//@ inputs f32 f32
//@ launch 8 256 1 0
//@ definition
//@ results 16
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  float a = io.f32(0), b = io.f32(1);
  io.put(__fadd_rz(a, b));
  io.put(__fadd_ru(a, b));
  io.put(__fmul_rd(a, b));
  io.put(__fmaf_rn(a, b, 1.5f));
  io.put(__fmaf_ru(a, b, -a));
  io.put(__dadd_rd(double(a), double(b)));
  io.put(__dmul_ru(double(a), double(b)));
  io.put(__float2int_rn(a));
  io.put(__float2uint_rz(a));
  io.put(__float2ll_rd(a));
  io.put(__double2int_ru(double(b)));
  io.put(floorf(a));
  io.put(ceilf(a));
  io.put(rintf(a));
  io.put(truncf(a));
  io.put(__uint2float_rz(__float_as_uint(b)));
}
