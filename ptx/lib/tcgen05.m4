divert(-1)
m4_once(<|tcgen05.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// The tensor core of sm_100f, for one CTA (cta_group::1), and its memory (TMEM: 128 lanes
// by 512 columns of 32 bits; an address is lane << 16 | column).
//
// A "warp" macro is run by one whole warp together, a "thread" macro by one thread: always
// the same one, since order and commit go by the issuing thread.

// Usage: tmem_alloc(ADDRESS, COLUMNS)          warp
// Blocks until the SM has COLUMNS (a power of two, 32..512) free and writes the address of
// the first to shared memory at ADDRESS; no allocation may follow.
macro(<|tmem_alloc|>, 2, <|
tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [$1], $2;
tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned;|>)

// Usage: tmem_free(TMEM, COLUMNS)              warp
// After the last access by any warp of the CTA, ordered by fences and a barrier.
macro(<|tmem_free|>, 2, <|
tcgen05.dealloc.cta_group::1.sync.aligned.b32 $1, $2;|>)

// Usage: tcgen05_fence_before, tcgen05_fence_after
// On the two sides of a barrier that hands TMEM or staged operands over.
macro(<|tcgen05_fence_before|>, 0, <|
tcgen05.fence::before_thread_sync;|>)
macro(<|tcgen05_fence_after|>, 0, <|
tcgen05.fence::after_thread_sync;|>)

// Shared-memory descriptors, upper word: stride in 16-byte units at bits 32..45, version 1
// at bits 46..48, swizzle at bits 61..63.  The lower word is address >> 4 (the byte offset
// of the leading dimension, at bits 16..29, means nothing for these two).
//   K-major tile with 128-byte swizzle: 8 rows are 1024 bytes apart; swizzle code 2
//   scale block, not swizzled: 8 rows of 16 bytes are 128 bytes apart
constant(<|DESCRIPTOR_K_MAJOR_128B|>, (1024 / 16) | (1 << 14) | (2 << 29))
constant(<|DESCRIPTOR_SCALES|>, (128 / 16) | (1 << 14))

// Usage: descriptor_start(REGISTER, ADDRESS)
// out: REGISTER (u32) = the shared address in units of 16 bytes, 14 bits of it.  The bits
// above may hold the rank of the CTA in its cluster; they have no place in a descriptor,
// where they would fall into the field of the leading dimension.
macro(<|descriptor_start|>, 2, <|
bfe.u32 $1, $2, 4, 14;|>)

// Usage: shared_descriptor(DESCRIPTOR, ADDRESS_16, UPPER)
// in: ADDRESS_16, of descriptor_start or further on.  out: DESCRIPTOR (64 bits)
macro(<|shared_descriptor|>, 3, <|
mov.b64 $1, {$2, $3};|>)

// Usage: scales_to_cp_order(ADDRESS, LANE)     warp
// in: 128 words at ADDRESS (16-byte aligned), the word of row r at r.  Rearranges them in
// place into the order that scale_copy reads: word r at (r % 32) * 4 + r / 32.
macro(<|scales_to_cp_order|>, 2, <|
{
  .reg .b32 source, target, row0, row32, row64, row96;
  mad.lo.u32 source, $2, 4, $1;
  mad.lo.u32 target, $2, 16, $1;
  ld.shared.b32 row0, [source];
  ld.shared.b32 row32, [source+128];
  ld.shared.b32 row64, [source+256];
  ld.shared.b32 row96, [source+384];
  bar.warp.sync 0xffffffff;  // all are read, now overwrite
  st.shared.v4.b32 [target], {row0, row32, row64, row96};
}|>)

// Usage: scale_copy(TMEM, DESCRIPTOR)          thread
// Starts copying 32 rows of 16 bytes to 4 columns of all four lane quarters, where
// mma_mxf8 finds the scales of rows 0..127 of an operand.  In order before later mma.
macro(<|scale_copy|>, 2, <|
tcgen05.cp.cta_group::1.32x128b.warpx4 [$1], $2;|>)

// m4_mxf8_instruction(M, N, BLOCK): instruction descriptor for e4m3 times e4m3, both
// K-major, ue8m0 scales; BLOCK (0..3) is the byte of the scale words that this K = 32 step
// uses.  N / 8 at bit 17, scale type at 23, M / 16 at 24, scale byte of B at 4, of A at 29.
define(<|m4_mxf8_instruction|>,
  <|m4_hex((($2) / 8 << 17) | (1 << 23) | (($1) / 16 << 24) | (($3) << 4) | (($3) << 29))|>)

// Usage: mma_mxf8(D, A, B, INSTRUCTION, SCALES_A, SCALES_B, ACCUMULATE)          thread
// Starts D[m][n] = sum over 32 k of A[m][k] * B[n][k], scaled, + D if ACCUMULATE (0, 1 or a
// predicate).  A, B: descriptors; D, SCALES_*: TMEM addresses
macro(<|mma_mxf8|>, 7, <|
tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale.block32 [$1], $2, $3, $4, [$5], [$6], $7;|>)

// Usage: tcgen05_commit(MBARRIER)              thread
// One arrival when every copy and mma that this thread started is complete.
macro(<|tcgen05_commit|>, 1, <|
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [$1];|>)

// Usage: tmem_load(COUNT, REGISTER, TMEM)      warp
// out: REGISTER0 .. = columns 0..COUNT-1 at TMEM of the lane that is the thread; COUNT is
// a power of two up to 128, the lane of TMEM 32 * (warp % 4).  Complete on return.
macro(<|tmem_load|>, 3, <|
tcgen05.ld.sync.aligned.32x32b.x$1.b32 {m4_list(<|m4_i|>, 0, $1 - 1, <|$2<||>m4_i|>)}, [$3];
tcgen05.wait::ld.sync.aligned;|>)

divert(0)dnl
