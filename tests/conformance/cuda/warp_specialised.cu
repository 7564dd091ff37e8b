// SPDX-License-Identifier: Apache-2.0
// A warpgroup that loads and one that computes, registers moved between them (setmaxnreg).
//@ family cuda
//@ inputs u32
//@ launch 1 256 1 0
//@ results 1
//@ definition
#include "common.cuh"

extern "C" __global__ void __launch_bounds__(256, 1)
    conformance(const word *in, word *out, word *) {
  constexpr int stages = 2, chunks = 8;
  __shared__ alignas(16) word stage[stages][32];
  __shared__ uint64_t full[stages], empty[stages];
  Io io(in, out);
  uint32_t t = threadIdx.x;
  if (t == 0) {
    for (int s = 0; s < stages; s++) {
      mbar_init(&full[s], 1);
      mbar_init(&empty[s], 128);
    }
    fence_init();
  }
  __syncthreads();
  if (t < 128) {
    asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (t == 0)
      for (int c = 0; c < chunks; c++) {
        int s = c % stages;
        mbar_wait(&empty[s], (c / stages & 1) ^ 1);
        mbar_expect(&full[s], 256);
        asm volatile(
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 256, [%2];" ::"r"(
                shared_address(stage[s])),
            "l"(in + 32 * c), "r"(shared_address(&full[s]))
            : "memory");
      }
    io.put(t);
  } else {
    asm volatile("setmaxnreg.inc.sync.aligned.u32 232;");
    word r = t;
    for (int c = 0; c < chunks; c++) {
      int s = c % stages;
      mbar_wait(&full[s], c / stages & 1);
      r = r * 33 + stage[s][(t + c) % 32];
      mbar_arrive(&empty[s]);
    }
    io.put(r);
  }
}
