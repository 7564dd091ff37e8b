// SPDX-License-Identifier: Apache-2.0
// Compiled with line information: .file and .loc directives, functions inlined at.
//@ family cuda
//@ nvcc -lineinfo
//@ inputs u32 u32
//@ launch 2 128 1 0
//@ results 2
//@ definition
#include "common.cuh"

static __device__ __forceinline__ uint32_t mix(uint32_t a, uint32_t b) {
  a ^= b << 13;
  a ^= a >> 17;
  return a * 0x9e3779b1u + b;
}

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  uint32_t a = uint32_t(io.get(0)), b = uint32_t(io.get(1));
  for (int j = 0; j < 3; j++)
    a = mix(a, b + j);
  io.put(a);
  io.put(mix(b, a));
}
