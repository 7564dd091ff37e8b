// SPDX-License-Identifier: Apache-2.0
// 64-bit integers: products, high halves, shifts, funnel shifts, bit counting, carries.
//@ family cuda
//@ inputs u64 u64
//@ launch 8 256 1 0
//@ definition
//@ results 14
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  word a = io.get(0), b = io.get(1);
  io.put(a * b + (a ^ b));
  io.put(__umul64hi(a, b));
  io.put(__mul64hi((long long)a, (long long)b));
  io.put(a << (b & 63));
  io.put(a >> (b & 63));
  io.put((long long)a >> (b & 63));
  io.put(word(__popcll(a) + 100 * __clzll(a) + 10000 * __ffsll(a)));
  io.put(__brevll(a));
  io.put(__funnelshift_l(uint32_t(a), uint32_t(b), uint32_t(b >> 32)));
  io.put(__funnelshift_rc(uint32_t(a), uint32_t(b), uint32_t(a >> 32)));
  unsigned __int128 sum = (unsigned __int128)a * b + a;
  io.put(word(sum));
  io.put(word(sum >> 64));
  io.put(word(a < b) | word((long long)a < (long long)b) << 1);
  io.put((long long)a > (long long)b ? a - b : b - a);
}
