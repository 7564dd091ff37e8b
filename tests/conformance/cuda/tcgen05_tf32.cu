// SPDX-License-Identifier: Apache-2.0
// tcgen05.mma of kind tf32.
//@ family cuda
//@ only sm_100a
//@ inputs b64 b64 b64 b64 b64 b64 b64 b64 b64 b64
//@ launch 2 128 1 0
//@ results 32
//@ definition
#include "tcgen05.cuh"

CONFORMANCE conformance(const word *in, word *out, word *) {
  __shared__ alignas(1024) uint8_t a[128 * 128], b[32 * 128];
  __shared__ uint32_t place;
  __shared__ uint64_t bar;
  Io io(in, out);
  int t = threadIdx.x;
  constexpr int es = sizeof(float), k = 128 / es;
  for (int j = 0; j < k; j++)
    *(float *)&a[swizzled(t, j * es)] = float(nibble(io.get(j / 16), j % 16));
  for (int j = 0; j < k / 4; j++)
    *(float *)&b[swizzled(t / 4, (t % 4 * (k / 4) + j) * es)] = float(nibble(io.get(8 + j / 16), j % 16));
  if (t == 0) {
    mbar_init(&bar, 1);
    fence_init();
  }
  fence_async();
  uint32_t d = tmem_alloc(&place, 64);
  if (t == 0) {
    for (int s = 0; s < 4; s++)
      asm volatile("{\n.reg .pred p;\nsetp.ne.b32 p, %4, 0;\n"
                   "tcgen05.mma.cta_group::1.kind::tf32 [%0], %1, %2, %3, p;\n}" ::"r"(d),
                   "l"(tc_descriptor(a) + 2 * s), "l"(tc_descriptor(b) + 2 * s), "r"(1u << 4 | 2u << 7 | 2u << 10 | 4u << 17 | 8u << 24), "r"(s)
                   : "memory");
    asm volatile("tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%0];" ::"r"(
                     shared_address(&bar))
                 : "memory");
  }
  mbar_wait(&bar, 0);
  asm volatile("tcgen05.fence::after_thread_sync;" ::: "memory");
  uint32_t r[32];
  tmem_load_32(d + (t / 32 << 21), r);
  for (int n = 0; n < 32; n++)
    io.put(r[n]);
  tmem_free(d, 64);
}
