// SPDX-License-Identifier: Apache-2.0
// Bulk copies: global to shared, shared to global, and a bulk reduction.
//@ family cuda
//@ inputs u32
//@ launch 2 128 1 0
//@ results 2
//@ definition
#include "common.cuh"

CONFORMANCE conformance(const word *in, word *out, word *scratch) {
  __shared__ alignas(16) word rows[128];
  __shared__ uint64_t bar;
  Io io(in, out);
  uint32_t t = threadIdx.x;
  word *mine = scratch + 128 * blockIdx.x;
  if (t == 0) {
    mbar_init(&bar, 1);
    fence_init();
  }
  __syncthreads();
  if (t == 0) {
    mbar_expect(&bar, sizeof rows);
    asm volatile(
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], %2, [%3];" ::"r"(
            shared_address(rows)),
        "l"(in + 128 * blockIdx.x), "r"(uint32_t(sizeof rows)), "r"(shared_address(&bar))
        : "memory");
  }
  mbar_wait(&bar, 0);
  word v = rows[127 - t];
  io.put(v);
  __syncthreads();
  rows[t] = v * 3;
  fence_async();
  __syncthreads();
  if (t == 0) {
    asm volatile("cp.async.bulk.global.shared::cta.bulk_group [%0], [%1], %2;" ::"l"(mine),
                 "r"(shared_address(rows)), "r"(uint32_t(sizeof rows))
                 : "memory");
    bulk_commit();
    bulk_wait<0>();
    asm volatile("cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u64 [%0], [%1], %2;" ::"l"(mine),
                 "r"(shared_address(rows)), "r"(512)
                 : "memory");
    bulk_commit();
    bulk_wait<0>();
    asm volatile("fence.proxy.async.global;" ::: "memory");
  }
  __syncthreads();
  io.put(((volatile word *)mine)[t]);
}
