// SPDX-License-Identifier: Apache-2.0
// Distributed shared memory of a cluster of four: reads, atomics, a barrier.
//@ family cuda
//@ inputs u32
//@ launch 8 128 4 0
//@ results 4
//@ definition
#include "common.cuh"
#include <cooperative_groups.h>
namespace cg = cooperative_groups;

CONFORMANCE conformance(const word *in, word *out, word *) {
  __shared__ uint32_t mine[128], total;
  Io io(in, out);
  auto cluster = cg::this_cluster();
  uint32_t a = uint32_t(io.get(0)), rank = cluster.block_rank();
  mine[threadIdx.x] = a;
  if (threadIdx.x == 0)
    total = rank;
  cluster.sync();
  uint32_t *next = cluster.map_shared_rank(mine, (rank + 1) % 4);
  io.put(next[threadIdx.x]);
  atomicAdd(cluster.map_shared_rank(&total, (rank + 3) % 4), a & 0xffff);
  cluster.sync();
  io.put(total);
  io.put(rank * 16 + cluster.num_blocks());
  io.put(*cluster.map_shared_rank(&mine[5], 2));
  cluster.sync();
}
