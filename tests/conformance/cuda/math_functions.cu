// SPDX-License-Identifier: Apache-2.0
// Math functions of the device library, float: within a few units of the C library's.
//@ family cuda
//@ inputs f32
//@ launch 4 256 1 0
//@ definition
//@ results 6
//@ approx ulp 4
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  float a = io.f32(0);
  float x = fabsf(a) < 50 ? a : 1.25f;
  io.put(expf(x));
  io.put(logf(fabsf(a)));
  io.put(sinf(x));
  io.put(cbrtf(a));
  io.put(atanf(a));
  io.put(exp2f(x));
}
