// SPDX-License-Identifier: Apache-2.0
// Compiled for the debugger (-G): every variable in local memory, .file and .loc lines.
//@ family cuda
//@ nvcc -G
//@ inputs u64 f32
//@ launch 2 128 1 0
//@ results 5
//@ definition
#include "common.cuh"

struct Debugged {
  uint8_t kind;
  uint16_t count;
  float scale;
  double wide;
  uint64_t rest[2];
};
struct Three {
  uint8_t b[3];
};

static __device__ __noinline__ Debugged change(Debugged m, Three t) {
  m.count = uint16_t(m.count + t.b[2]);
  m.kind = uint8_t(m.kind ^ t.b[0]);
  m.scale *= 2;
  m.wide += t.b[1];
  m.rest[1] -= m.rest[0];
  return m;
}

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  word a = io.get(0);
  Debugged m = {uint8_t(a), uint16_t(a >> 8), io.f32(1), double(int(a >> 32)), {a, ~a}};
  Three t = {{uint8_t(a >> 24), uint8_t(a >> 32), uint8_t(a >> 40)}};
  Debugged r = change(m, t);
  io.put(uint32_t(r.kind) | uint32_t(r.count) << 8);
  io.put(r.scale);
  io.put(r.wide);
  io.put(r.rest[0]);
  io.put(r.rest[1]);
}
