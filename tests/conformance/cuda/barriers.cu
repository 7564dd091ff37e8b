// SPDX-License-Identifier: Apache-2.0
// libcu++: cuda::barrier, cuda::atomic_ref of several scopes, cuda::pipeline with memcpy_async.
//@ family cuda
//@ inputs u32
//@ launch 2 128 1 0
//@ zero
//@ definition
//@ results 5
#include "common.cuh"
#include <cuda/atomic>
#include <cuda/barrier>

CONFORMANCE conformance(const word *in, word *out, word *scratch) {
  __shared__ cuda::barrier<cuda::thread_scope_block> bar;
  __shared__ uint32_t cells[128], count, most;
  __shared__ alignas(16) word copied[128];
  Io io(in, out);
  uint32_t a = uint32_t(io.get(0)), t = threadIdx.x;
  if (t == 0) {
    init(&bar, blockDim.x);
    count = 0;
    most = 0;
  }
  __syncthreads();
  cells[t] = a;
  cuda::atomic_ref<uint32_t, cuda::thread_scope_block>(count).fetch_add(a & 15, cuda::memory_order_relaxed);
  cuda::atomic_ref<uint32_t, cuda::thread_scope_device>(most).fetch_max(a);
  cuda::atomic_ref<word, cuda::thread_scope_system> far(scratch[blockIdx.x]);
  far.fetch_add(a, cuda::memory_order_acq_rel);
  bar.arrive_and_wait();
  io.put(cells[t ^ 64]);
  io.put(count);
  io.put(most);
  cuda::memcpy_async(&copied[t], &in[io.i], sizeof(word), bar);
  bar.arrive_and_wait();
  io.put(copied[t ^ 1]);
  io.put(far.load(cuda::memory_order_acquire));
}
