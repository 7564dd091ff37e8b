// SPDX-License-Identifier: Apache-2.0
// Integer division and remainder, 32 and 64 bits, by variables and by constants.
//@ family cuda
//@ inputs u64 u64
//@ launch 8 256 1 0
//@ results 14
//@ definition
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  word a = io.get(0), b = io.get(1) | 1;
  uint32_t x = uint32_t(a), y = uint32_t(b);
  io.put(x / y);
  io.put(x % y);
  int sx = int(x), sy = int(y) == -1 ? 3 : int(y);
  io.put(sx / sy);
  io.put(sx % sy);
  io.put(a / b);
  io.put(a % b);
  long long sa = (long long)a, sb = (long long)b == -1 ? 3 : (long long)b;
  io.put(sa / sb);
  io.put(sa % sb);
  io.put(x / 7);
  io.put(sx % 10);
  io.put(a / 1000000007);
  io.put(sa / 12345);
  io.put(uint32_t(uint16_t(x) / uint16_t(y | 1)));
  io.put(uint32_t(int8_t(x) % 11));
}
