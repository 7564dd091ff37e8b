// SPDX-License-Identifier: Apache-2.0
// Cooperative groups: tiles of a warp, a coalesced group, the block.
//@ family cuda
//@ inputs u32
//@ launch 2 256 1 0
//@ definition
//@ results 5
#include "common.cuh"
#include <cooperative_groups.h>
#include <cooperative_groups/reduce.h>
namespace cg = cooperative_groups;

CONFORMANCE conformance(const word *in, word *out, word *) {
  Io io(in, out);
  uint32_t a = uint32_t(io.get(0));
  auto block = cg::this_thread_block();
  auto tile = cg::tiled_partition<8>(block);
  io.put(cg::reduce(tile, a, cg::plus<uint32_t>()));
  io.put(tile.shfl(a, 3) ^ tile.meta_group_rank());
  io.put(tile.ballot(a & 1));
  uint32_t r = 0;
  if (a & 1) {
    auto some = cg::coalesced_threads();
    r = some.size() * 100 + some.thread_rank();
  }
  io.put(r);
  block.sync();
  io.put(block.thread_rank() + block.size());
}
