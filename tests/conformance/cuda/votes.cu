// SPDX-License-Identifier: Apache-2.0
// Votes and matches, under divergence too.
//@ family cuda
//@ inputs u32
//@ launch 2 256 1 0
//@ definition
//@ results 7
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  uint32_t a = uint32_t(io.get(0)), lane = threadIdx.x % 32;
  io.put(__ballot_sync(~0u, a & 1));
  io.put(__any_sync(~0u, a == 0x8000) | __all_sync(~0u, a != 0x8000) << 1);
  io.put(__match_any_sync(~0u, a & 3));
  int all;
  unsigned same = __match_all_sync(~0u, a & 0, &all);
  io.put(same + all);
  unsigned r = 0;
  if (lane % 3 == 0)
    r = __ballot_sync(0x49249249, a & 2);
  else
    r = __popc(__ballot_sync(~0x49249249, a & 4));
  io.put(r);
  unsigned below, at;
  asm("mov.u32 %0, %%lanemask_lt;" : "=r"(below));
  at = __popc(__ballot_sync(~0u, a & 1) & below);
  io.put(at);
  io.put(__ffs(a) + __clz(a) * 64);
}
