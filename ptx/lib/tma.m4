divert(-1)
m4_once(<|tma.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// Tensor copies from global to shared memory (TMA).  One thread issues them; the box
// announces its bytes, all of them even where it reaches out of bounds, to an mbarrier.

// Usage: tensor_map_address(REGISTER, PARAMETER)
// out: REGISTER (64 bits) = generic address of the tensor map in a kernel parameter
macro(<|tensor_map_address|>, 2, <|
mov.b64 $1, $2;
cvta.param.u64 $1, $1;|>)

// Usage: tma_load_2d(DESTINATION, MAP, C0, C1, MBARRIER)
// in: shared addresses, MAP (64-bit register), coordinates in elements, fastest first
macro(<|tma_load_2d|>, 5, <|
cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$1], [$2, {$3, $4}], [$5];|>)

// Usage: tma_load_2d_once(TO, MAP, C0, C1, MBARRIER)
// The same for what is not worth keeping in L2: it is the first to leave.
macro(<|tma_load_2d_once|>, 5, <|
{
  .reg .b64 policy;
  createpolicy.fractional.L2::evict_first.b64 policy, 1.0;
  cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes.L2::cache_hint [$1], [$2, {$3, $4}], [$5], policy;
}|>)

// Usage: tma_load_3d(DESTINATION, MAP, C0, C1, C2, MBARRIER)
// in: as tma_load_2d
macro(<|tma_load_3d|>, 6, <|
cp.async.bulk.tensor.3d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [$1], [$2, {$3, $4, $5}], [$6];|>)

// Usage: fence_shared_to_async
// Run by each thread that stored to shared memory what TMA or the tensor core will read,
// before it signals the thread that issues the read.
macro(<|fence_shared_to_async|>, 0, <|
fence.proxy.async.shared::cta;|>)

divert(0)dnl
