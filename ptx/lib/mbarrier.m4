divert(-1)
m4_once(<|mbarrier.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// mbarriers in the shared memory of this CTA.  ADDRESS is a shared::cta address as it
// stands in brackets: a register, or register+offset.  PTX ISA, "mbarrier".

// Usage: mbarrier_create(ADDRESS, ARRIVALS)
// in: ARRIVALS a phase waits for.  clobbers: nothing
macro(<|mbarrier_create|>, 2, <|
mbarrier.init.shared::cta.b64 [$1], $2;|>)

// Usage: mbarrier_create_fence
// Makes the inits of this thread visible to the cluster and to the copy engines.
macro(<|mbarrier_create_fence|>, 0, <|
fence.mbarrier_init.release.cluster;|>)

// Usage: mbarrier_arrive(ADDRESS)
// One arrival, release at CTA scope.  clobbers: nothing
macro(<|mbarrier_arrive|>, 1, <|
mbarrier.arrive.shared::cta.b64 _, [$1];|>)

// Usage: mbarrier_arrive_expect(ADDRESS, BYTES)
// One arrival, and the phase now also waits for BYTES of asynchronous copies.
macro(<|mbarrier_arrive_expect|>, 2, <|
mbarrier.arrive.expect_tx.shared::cta.b64 _, [$1], $2;|>)

// Usage: mbarrier_wait(ADDRESS, PARITY)
// Until the phase of that parity is complete; acquire at CTA scope.  clobbers: nothing
macro(<|mbarrier_wait|>, 2, <|
{
  .reg .pred complete;
wait:
  mbarrier.try_wait.parity.shared::cta.b64 complete, [$1], $2;
  @!complete bra wait;
}|>)

// Usage: mbarrier_wait_cluster(ADDRESS, PARITY)
// The same for what other CTAs of the cluster did to shared memory: acquire at cluster scope, of
// shared memory alone.  An acquire of all memory would empty the L1 (CCTL.IVALL).
macro(<|mbarrier_wait_cluster|>, 2, <|
{
  .reg .pred complete;
wait:
  mbarrier.try_wait.parity.relaxed.cluster.shared::cta.b64 complete, [$1], $2;
  @!complete bra wait;
  fence.acquire.sync_restrict::shared::cluster.cluster;
}|>)

// Usage: mbarrier_arrive_peer(REGISTER)
// One arrival at a shared::cluster address: release at cluster scope, of shared memory alone; for other
// lanes, too, behind a bar.warp.sync.  A release of all memory waits until every store of the SM is
// performed (MEMBAR.ALL.GPU), which takes microseconds where memory is busy.
macro(<|mbarrier_arrive_peer|>, 1, <|
fence.release.sync_restrict::shared::cta.cluster;
mbarrier.arrive.relaxed.cluster.shared::cluster.b64 _, [$1];|>)

divert(0)dnl
