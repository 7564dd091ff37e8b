include(`prelude.m4')dnl
include(<|pdl.m4|>)dnl
include(<|mailbox.m4|>)dnl
include(<|reduce.m4|>)dnl
divert(-1)
// ---- the specialization: one row of table.tsv ---------------------------------------

m4_integer(<|BW_ROWS|>, 1, 8)       // M
m4_integer(<|BW_BLOCK|>, 32, 1024)  // threads
m4_integer(<|BW_OUTPUTS|>, 2, 8)    // columns of the result a CTA computes
m4_integer(<|BW_UNROLL|>, 1, 4)     // k tiles whose loads are under way together
m4_integer(<|BW_VECTOR|>, 8, 16)    // elements a thread takes of a k tile
m4_assert_power_of_2(<|BW_OUTPUTS|>)
m4_assert_power_of_2(<|BW_VECTOR|>)
m4_assert(BW_BLOCK % 32 == 0, <|BW_BLOCK is no number of warps|>)

constant(<|ROWS|>, BW_ROWS)
constant(<|BLOCK|>, BW_BLOCK)
constant(<|OUTPUTS|>, BW_OUTPUTS)
constant(<|UNROLL|>, BW_UNROLL)
constant(<|VECTOR|>, BW_VECTOR)

constant(<|BLACKWELL|>, ifelse(BW_ARCH, sm_100f, 1, 0))
ifelse(BW_ARCH, sm_100f, <||>, BW_ARCH, sm_90a, <||>, <|m4_error(<|no such architecture: |>BW_ARCH)|>)
constant(<|TO_MULTICAST|>, ifelse(BW_MODE, multicast, 1, 0))
constant(<|TO_PEERS|>, ifelse(BW_MODE, peers, 1, 0))
ifelse(BW_MODE, multicast, <||>, BW_MODE, peers, <||>, BW_MODE, local, <||>,
  <|m4_error(<|no such store mode: |>BW_MODE)|>)
constant(<|TO_OTHERS|>, TO_MULTICAST || TO_PEERS)
// Who reads the words: other devices, or this one alone.
constant_text(<|READERS|>, ifelse(TO_OTHERS, 1, sys, gpu))
constant_text(<|KEY|>, <|m|>ROWS<|_b|>BLOCK<|o|>OUTPUTS<|u|>UNROLL<|v|>VECTOR<|_|>BW_MODE)
ifelse(BW_KEY, KEY, <||>, <|m4_error(<|key |>BW_KEY<| where the columns say |>KEY)|>)

constant(<|WARPS|>, BLOCK / 32)
constant(<|VALUES|>, ROWS * OUTPUTS)    // results of the CTA: value = row * OUTPUTS + output
m4_assert(VALUES <= 32, <|a warp finishes at most 32 results, not |>VALUES)
constant(<|VALUE_LANES|>, 32 / m4_power_of_2(VALUES)) // lanes that hold one warp sum
constant(<|WORDS|>, VECTOR / 2)         // 32-bit registers of a vector
constant(<|TILE_BYTES|>, BLOCK * VECTOR * 2) // of one row, a k tile
constant(<|PEERS_MOST|>, 16)
// A quarter of an SM has registers for four warps of 128: with 7 warps a CTA that is two CTAs an
// SM, so that the 224 of S = 896 run at once; one register more would make it one.  ptxas is held
// to it where it would take more; elsewhere it takes fewer when it is told nothing.
constant(<|MAX_REGISTERS|>, 128)
constant(<|HOLD_REGISTERS|>, !BLACKWELL && VALUES >= 28)
// Eight rows of latent of two tiles, widened, would need more: the second tile's follow the
// products of the first.
constant(<|LATENT_APART|>, !BLACKWELL && ROWS == 8 && UNROLL > 1)

// Parameter `flags`.
constant(<|FLAG_TRIGGER|>, 3)            // bits 0-1: 0 late, 1 entry, 2 after the wait
constant(<|TRIGGER_LATE|>, 0)
constant(<|TRIGGER_ENTRY|>, 1)
constant(<|TRIGGER_AFTER_WAIT|>, 2)
constant(<|FLAG_WEIGHTS_AFTER_WAIT|>, 4) // bit 2

// Registers by tile in flight: words of latent row m, of weight row o.
define(<|A|>, <|a$1_$2_|>)
define(<|B|>, <|b$1_$2_|>)

// Usage: load_vector(INSTRUCTION, NAME, ADDRESS, OFFSET)
// out: NAME0 .. = the VECTOR elements at ADDRESS + OFFSET, 32-byte aligned for 16 elements
// on Blackwell (one load of 256 bits), else two or one of 128.
macro(<|load_vector|>, 4, <|
m4_if(BLACKWELL && WORDS == 8, <|dnl
$1.v8.b32 {m4_list(<|m4_w|>, 0, 7, <|$2<||>m4_w|>)}, [$3+eval($4)];|>, <|dnl
$1.v4.b32 {m4_list(<|m4_w|>, 0, 3, <|$2<||>m4_w|>)}, [$3+eval($4)];
m4_if(WORDS == 8, <|dnl
$1.v4.b32 {m4_list(<|m4_w|>, 4, 7, <|$2<||>m4_w|>)}, [$3+eval($4 + 16)];|>)|>)|>)

// Products.  Both architectures form the exact product of two bf16 and add it with one
// rounding; Blackwell multiplies bf16 registers, Hopper needs them widened to f32 first.
// Usage: split(LOW, HIGH, WORD)         the two elements of a word
// Usage: multiply_add(SUM, X, Y)        SUM = X * Y + SUM
m4_if(BLACKWELL, <|
constant_text(<|ELEMENT|>, <|.b16|>)
macro(<|split|>, 3, <|
mov.b32 {$1, $2}, $3;|>)
macro(<|multiply_add|>, 3, <|
fma.rn.f32.bf16 $1, $2, $3, $1;|>)
|>, <|
constant_text(<|ELEMENT|>, <|.b32|>)
macro(<|split|>, 3, <|
shl.b32 $1, $3, 16;
and.b32 $2, $3, 0xffff0000;|>)
macro(<|multiply_add|>, 3, <|
fma.rn.f32 $1, $2, $3, $1;|>)
|>)

// Usage: load_weights(TILE) / load_latent(TILE)
// in: weight_from / latent_from at the first tile in flight; strides row_bytes
macro(<|load_weights|>, 1, <|
{
  .reg .b64 from;
  add.u64 from, weight_from, eval($1 * TILE_BYTES);
m4_for(<|O|>, 0, OUTPUTS - 1, <|
  load_vector(<|ld.global.nc.L1::no_allocate|>, B($1, O), from, 0)
m4_if(O < OUTPUTS - 1, <|dnl
  add.u64 from, from, row_bytes;
|>)dnl
|>)dnl
}|>)
macro(<|load_latent|>, 1, <|
{
  .reg .b64 from;
  add.u64 from, latent_from, eval($1 * TILE_BYTES);
m4_for(<|M|>, 0, ROWS - 1, <|
  load_vector(<|ld.global|>, A($1, M), from, 0)
m4_if(M < ROWS - 1, <|dnl
  add.u64 from, from, row_bytes;
|>)dnl
|>)dnl
}|>)

// Usage: tile_begin(LABEL, TILE) ... tile_end(TILE)
// Around what concerns a tile in flight: all but the first may be past the end.  in: tiles_left
macro(<|tile_begin|>, 2, <|
m4_if($2 > 0, <|dnl
{
  .reg .pred exists;
  setp.gt.u32 exists, tiles_left, $2;
  warps_begin($1_<||>$2, exists)
|>)dnl|>)
macro(<|tile_end|>, 1, <|
m4_if($1 > 0, <|dnl
  warps_end
}
|>)dnl|>)

// Usage: accumulate(TILE)
// sum(value) += products of the tile, in rising order of k: the order is the contract.
macro(<|accumulate|>, 1, <|
m4_for(<|W|>, 0, WORDS - 1, <|
{
  .reg ELEMENT x_low<ROWS>, x_high<ROWS>, y_low<OUTPUTS>, y_high<OUTPUTS>;
m4_for(<|M|>, 0, ROWS - 1, <|
  split(x_low<||>M, x_high<||>M, A($1, M)<||>W)
|>)dnl
m4_for(<|O|>, 0, OUTPUTS - 1, <|
  split(y_low<||>O, y_high<||>O, B($1, O)<||>W)
|>)dnl
m4_for(<|M|>, 0, ROWS - 1, <|
m4_for(<|O|>, 0, OUTPUTS - 1, <|
  multiply_add(sum<||>eval(M * OUTPUTS + O), x_low<||>M, y_low<||>O)
|>)dnl
|>)dnl
m4_for(<|M|>, 0, ROWS - 1, <|
m4_for(<|O|>, 0, OUTPUTS - 1, <|
  multiply_add(sum<||>eval(M * OUTPUTS + O), x_high<||>M, y_high<||>O)
|>)dnl
|>)dnl
}
|>)|>)

// Usage: store_words(INSTRUCTION, ADDRESS)
// in: word0 .. of the OUTPUTS columns.  INSTRUCTION: st or multimem.st
macro(<|store_words|>, 2, <|
m4_if(OUTPUTS == 2, <|$1.relaxed.READERS.global.b32 [$2], word0;|>,
  OUTPUTS == 4, <|$1.relaxed.READERS.global.v2<||>m4_vector_type(<|$1|>) [$2], {word0, word1};|>,
  <|$1.relaxed.READERS.global.v4<||>m4_vector_type(<|$1|>) [$2], {word0, word1, word2, word3};|>)|>)
// multimem.st knows vectors of float types only; the bits pass as they are.
define(<|m4_vector_type|>, <|ifelse(<|$1|>, st, <|.b32|>, <|.f32|>)|>)

// Usage: trigger_at(PLACE)     one thread a CTA
macro(<|trigger_at|>, 1, <|
{
  .reg .pred here;
  setp.eq.and.u32 here, trigger, $1, first_thread;  // $1
  pdl_trigger_if(here)
}|>)
divert(0)dnl
// SPDX-License-Identifier: Apache-2.0
//
// up_proj: skinny bf16 GEMM + shared add, stored into the mailbox of every rank.
//
fact(<|family|>, <|up_proj|>)
fact(<|arch|>, BW_ARCH)
fact(<|key|>, KEY)
fact(<|symbol|>, <|bw_up_proj_|>KEY)
fact(<|threads|>, BLOCK)
fact(<|cluster|>, 1)
fact(<|shared_dynamic|>, 0)
fact(<|waits|>, 1)
fact(<|attr.rows|>, ROWS)
fact(<|attr.outputs|>, OUTPUTS)
fact(<|attr.unroll|>, UNROLL)
fact(<|attr.vector|>, VECTOR)
fact(<|attr.generations|>, GENERATIONS)
//
// void bw_up_proj(const bf16 *latent,         [M, L], 32-byte aligned
//                 const bf16 *weight,         [S, L], 32-byte aligned: this rank's rows
//                 const bf16 *shared,         row m at shared + m * shared_stride
//                 uint32_t *steps,            this rank's count of completed steps
//                 uint64_t targets[16],       where this rank's columns of row 0 go, in
//                                             generation 0 of every rank's mailbox
//                 uint64_t shared_stride,     bytes
//                 uint32_t target_count,      used of targets
//                 uint32_t row_bytes_latent,  2 L
//                 uint32_t row_bytes_mailbox, 2 hidden
//                 uint32_t generation_bytes,  2 hidden * capacity
//                 uint32_t k_tiles,           L / (threads * vector)
//                 uint32_t flags)             bits 0-1: trigger late, at entry, after the
//                                             wait; bit 2: weights only after the wait
//
remark(<|Launch: grid (S / |>OUTPUTS<|, 1, 1), block (|>BLOCK<|, 1, 1).  M = |>ROWS<|.|>)
ifelse(BW_MODE, multicast, <|dnl
// targets[0] is a multicast address: one multimem.st reaches every rank.
|>, BW_MODE, peers, <|dnl
// targets[r] is this process' mapping of the mailbox of rank r.
|>, <|dnl
// targets[0] is the mailbox of the only rank.
|>)dnl
//
// Order of additions, which is the contract (same bits on every architecture): thread i
// takes elements (j * threads + i) * vector .. + vector of k tile j, j rising; then the
// lanes of a warp by the butterfly 16, 8, 4, 2, 1; then the warps from 0 on.
//
// Shared memory: warp_sums[value][warp], value = row * outputs + output.
//   bar 0  all threads: warp_sums is written
//
// Registers that live throughout, by role:
//   tid, lane, warp    thread in the CTA, in the warp; warp in the CTA
//   first_thread       predicate: thread 0
//   first_output       first column of the CTA, in this rank's S
//   trigger            where dependents may start
//   latent_from, weight_from   this thread's elements of row 0 in the first tile in flight
//   row_bytes          of latent and weight
//   sum0 ..            accumulators: value = row * outputs + output

.version 9.0
.target BW_ARCH
.address_size 64

.visible .entry bw_up_proj_<||>KEY<||>(
  .param .u64 latent,
  .param .u64 weight,
  .param .u64 shared,
  .param .u64 steps,
  .param .align 8 .b8 targets[eval(8 * PEERS_MOST)],
  .param .u64 shared_stride,
  .param .u32 target_count,
  .param .u32 row_bytes_latent,
  .param .u32 row_bytes_mailbox,
  .param .u32 generation_bytes,
  .param .u32 k_tiles,
  .param .u32 flags
)
.reqntid BLOCK, 1, 1
m4_if(HOLD_REGISTERS, <|dnl
.maxnreg MAX_REGISTERS
|>)dnl
{
  .shared .align 16 .f32 warp_sums[eval(VALUES * WARPS)];

  .reg .pred first_thread, first_warp;
  .reg .b32 tid, lane, warp, first_output, trigger, tiles_left;
  .reg .b64 latent_from, weight_from, row_bytes;
  .reg .f32 sum<VALUES>;
m4_for(<|U|>, 0, UNROLL - 1, <|
m4_for(<|M|>, 0, ROWS - 1, <|
  .reg .b32 A(U, M)<WORDS>;
|>)dnl
m4_for(<|O|>, 0, OUTPUTS - 1, <|
  .reg .b32 B(U, O)<WORDS>;
|>)dnl
|>)dnl

  // ---- who and where we are -----------------------------------------------------------
  .reg .pred weights_late;
  mov.u32 tid, %tid.x;
  and.b32 lane, tid, 31;
  shr.u32 warp, tid, 5;
  setp.eq.u32 first_thread, tid, 0;
  setp.eq.u32 first_warp, warp, 0;
  mov.u32 first_output, %ctaid.x;
  mul.lo.u32 first_output, first_output, OUTPUTS;  // OUTPUTS
  {
    .reg .b32 flag_bits, late, length;
    .reg .b64 offset;
    ld.param.u32 flag_bits, [flags];
    and.b32 trigger, flag_bits, FLAG_TRIGGER;  // FLAG_TRIGGER
    and.b32 late, flag_bits, FLAG_WEIGHTS_AFTER_WAIT;  // FLAG_WEIGHTS_AFTER_WAIT
    setp.ne.u32 weights_late, late, 0;
    ld.param.u32 length, [row_bytes_latent];
    cvt.u64.u32 row_bytes, length;
    ld.param.u32 tiles_left, [k_tiles];
    mul.wide.u32 offset, tid, eval(2 * VECTOR);  // bytes of a vector
    ld.param.u64 latent_from, [latent];
    cvta.to.global.u64 latent_from, latent_from;
    add.u64 latent_from, latent_from, offset;
    ld.param.u64 weight_from, [weight];
    cvta.to.global.u64 weight_from, weight_from;
    add.u64 weight_from, weight_from, offset;
    mad.wide.u32 weight_from, first_output, length, weight_from;
  }
  trigger_at(TRIGGER_ENTRY)

  // ---- the first weights: static, so they need not wait for earlier kernels ------------
  pdl_wait_if(weights_late)
m4_for(<|U|>, 0, UNROLL - 1, <|
  tile_begin(first_weights, U)
  load_weights(U)
  tile_end(U)
|>)dnl

  // ---- latent, shared and the generation belong to earlier kernels until here ----------
  pdl_wait

  // Of the threads that will store a result: the word of `shared` for it, and the step.
  .reg .b32 value, row, output;
  .reg .b16 addend;
  min.u32 value, lane, eval(VALUES - 1);  // further lanes repeat the last result
  shr.u32 row, value, m4_log2(OUTPUTS);  // value / OUTPUTS
  and.b32 output, value, eval(OUTPUTS - 1);  // value % OUTPUTS
  .reg .b32 step;
  warps_begin(shared_requested, first_warp)
  {
    .reg .b64 address, stride, offset;
    .reg .b32 column;
    ld.param.u64 address, [shared];
    cvta.to.global.u64 address, address;
    ld.param.u64 stride, [shared_stride];
    cvt.u64.u32 offset, row;
    mad.lo.u64 address, offset, stride, address;
    add.u32 column, first_output, output;
    mad.wide.u32 address, column, 2, address;
    ld.global.b16 addend, [address];
    ld.param.u64 address, [steps];
    cvta.to.global.u64 address, address;
    ld.global.u32 step, [address];
  }
  warps_end

  // A reader that starts early must find the step count that the last reader advanced: this
  // fence and the trigger synchronize with its start (PTX ISA 9.2, griddepcontrol).
  // Where dependents started at the entry no reader is early.
  .reg .pred early_reader;
  setp.ne.and.u32 early_reader, trigger, TRIGGER_ENTRY, first_thread;  // TRIGGER_ENTRY
  only_begin(fenced, early_reader)
  fence.release.gpu;
  only_end_apart
  trigger_at(TRIGGER_AFTER_WAIT)

  // ---- products -------------------------------------------------------------------------
m4_for(<|V|>, 0, VALUES - 1, <|
  mov.b32 sum<||>V, 0;  // +0
|>)dnl
next_tiles:
m4_for(<|U|>, 0, m4_if(LATENT_APART, 0, UNROLL) - 1, <|
  tile_begin(latent, U)
  load_latent(U)
  tile_end(U)
|>)dnl
m4_for(<|U|>, 0, UNROLL - 1, <|
  tile_begin(accumulated, U)
m4_if(LATENT_APART, <|dnl
  load_latent(U)
|>)dnl
  accumulate(U)
  tile_end(U)
|>)dnl
  {
    .reg .pred more;
    setp.gt.u32 more, tiles_left, UNROLL;
    @!more bra.uni products_done;
  }
  sub.u32 tiles_left, tiles_left, UNROLL;
  add.u64 latent_from, latent_from, eval(UNROLL * TILE_BYTES);
  add.u64 weight_from, weight_from, eval(UNROLL * TILE_BYTES);
m4_for(<|U|>, 0, UNROLL - 1, <|
  tile_begin(weights, U)
  load_weights(U)
  tile_end(U)
|>)dnl
  bra.uni next_tiles;
products_done:

  // ---- sums over lanes, then over warps -----------------------------------------------
  transposing_sum(sum, VALUES, lane)
  {
    .reg .pred holder;
    .reg .b32 which, at, rest;
    and.b32 rest, lane, eval(VALUE_LANES - 1);
    shr.u32 which, lane, m4_log2(VALUE_LANES);
    setp.eq.u32 holder, rest, 0;
    setp.lt.and.u32 holder, which, VALUES, holder;  // one lane a value
    mov.u32 at, warp_sums;
    mad.lo.u32 at, which, eval(4 * WARPS), at;
    mad.lo.u32 at, warp, 4, at;
    @holder st.shared.f32 [at], sum0;
  }
  bar.sync 0;
  {
    .reg .pred done;
    not.pred done, first_warp;
    @done exit;  // the first warp finishes
  }

  // ---- lane = result: total, bf16, + shared, bf16, never -0 ------------------------------
  .reg .b32 word0;
  {
    .reg .b32 from;
    .reg .f32 total, part;
    mov.u32 from, warp_sums;
    mad.lo.u32 from, value, eval(4 * WARPS), from;
    mov.b32 total, 0;  // +0
m4_for(<|W|>, 0, WARPS - 1, <|
    ld.shared.f32 part, [from+eval(4 * W)];
    add.rn.f32 total, total, part;
|>)dnl
    .reg .b16 bits;
    .reg .b32 wide, other, mine;
    .reg .f32 g, s;
    .reg .pred minus_zero, odd;
    cvt.rn.bf16.f32 bits, total;
    mov.b32 g, {0, bits};
    mov.b32 s, {0, addend};
    add.rn.f32 g, g, s;
    cvt.rn.bf16.f32 bits, g;
    setp.eq.u16 minus_zero, bits, 0x8000;
    selp.b16 bits, 0, bits, minus_zero;
    // Two neighbouring columns are one word; both their lanes have it.
    cvt.u32.u16 mine, bits;
    shfl.sync.bfly.b32 other, mine, 1, 0x1f, 0xffffffff;
    and.b32 wide, output, 1;
    setp.ne.u32 odd, wide, 0;
    selp.b32 wide, other, mine, odd;
    selp.b32 other, mine, other, odd;
    shl.b32 other, other, 16;
    or.b32 word0, wide, other;
  }
m4_if(OUTPUTS >= 4, <|dnl
  .reg .b32 word1;
  {
    .reg .pred upper;
    .reg .b32 bit, other;
    shfl.sync.bfly.b32 other, word0, 2, 0x1f, 0xffffffff;
    and.b32 bit, output, 2;
    setp.ne.u32 upper, bit, 0;
    selp.b32 word1, word0, other, upper;
    selp.b32 word0, other, word0, upper;
  }
|>)dnl
m4_if(OUTPUTS >= 8, <|dnl
  .reg .b32 word2, word3;
  {
    .reg .pred upper;
    .reg .b32 bit, other0, other1;
    shfl.sync.bfly.b32 other0, word0, 4, 0x1f, 0xffffffff;
    shfl.sync.bfly.b32 other1, word1, 4, 0x1f, 0xffffffff;
    and.b32 bit, output, 4;
    setp.ne.u32 upper, bit, 0;
    selp.b32 word2, word0, other0, upper;
    selp.b32 word3, word1, other1, upper;
    selp.b32 word0, other0, word0, upper;
    selp.b32 word1, other1, word1, upper;
  }
|>)dnl

  // ---- the row's words to every mailbox -----------------------------------------------
  // As 32-bit elements: only those arrive whole, and half a word would pass for data.
  .reg .b64 in_target;
  {
    .reg .b32 bytes;
    ld.param.u32 bytes, [row_bytes_mailbox];
    mul.wide.u32 in_target, row, bytes;
    mad.wide.u32 in_target, first_output, 2, in_target;
    ld.param.u32 bytes, [generation_bytes];
    generation_start(in_target, in_target, step, bytes)
  }
  {
    .reg .pred past;
    setp.ge.u32 past, lane, VALUES;
    @past exit;
  }
m4_if(TO_OTHERS, <|dnl
  // The edge from all this rank did before, its re-arms above all, to the stores below: they
  // are seen by whoever reads those words and then fences.  (A single rank's are ordered by
  // its stream, in which each grid waits for the one before it.)
  fence.release.sys;
|>)dnl
  {
    .reg .b64 target;
m4_if(TO_PEERS, <|dnl
    // The lanes of a row share its targets: lane `output` takes every OUTPUTS-th.
    .reg .b32 count, peer;
    .reg .pred none;
    .reg .b64 slot;
    ld.param.u32 count, [target_count];
    mov.u32 peer, output;
next_peer:
    setp.ge.u32 none, peer, count;
    @none bra peers_done;
    mov.b64 slot, targets;
    mad.wide.u32 slot, peer, 8, slot;
    ld.param.u64 target, [slot];
    add.u64 target, target, in_target;
    store_words(<|st|>, target)
    add.u32 peer, peer, OUTPUTS;  // OUTPUTS
    bra next_peer;
peers_done:
|>, <|dnl
    .reg .pred first;
    setp.eq.u32 first, output, 0;
    ld.param.u64 target, [targets];
    add.u64 target, target, in_target;
    @first store_words(m4_if(TO_MULTICAST, <|multimem.st|>, <|st|>), target)
|>)dnl
  }
  trigger_at(TRIGGER_LATE)
  exit;
}
