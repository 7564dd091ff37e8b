// SPDX-License-Identifier: Apache-2.0
// A switch that becomes a branch table, loops that leave early, nested divergence.
//@ family cuda
//@ inputs u32 small
//@ launch 4 256 1 0
//@ results 3
//@ definition
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  uint32_t a = uint32_t(io.get(0)), k = uint32_t(io.get(1));
  uint32_t r = a;
  switch (k) {
  case 0: r = a + 1; break;
  case 1: r = a * 5; break;
  case 2: r = a ^ 0xff00ff; // falls through
  case 3: r = r - 9; break;
  case 4: r = a << 3 | a >> 29; break;
  case 5: r = ~a; break;
  case 7: r = a / 3; break;
  case 8: r = __popc(a); break;
  case 9: r = a & 0x12345678; break;
  case 12: r = a * a; break;
  default: r = k;
  }
  io.put(r);
  uint32_t n = 0, x = a;
  while (x != 1 && n < 60) {
    if (x == 0)
      break;
    x = x % 2 ? 3 * x + 1 : x / 2;
    if (x % 17 == 5 && n > k)
      continue;
    n++;
    if (x > 0xf0000000)
      goto out_;
  }
out_:
  io.put(n);
  uint32_t s = 0;
  for (uint32_t i = 0; i < k; i++)
    for (uint32_t j = i; j < (a & 7); j++)
      if ((i ^ j) & 1)
        s += i * j + 1;
  io.put(s);
}
