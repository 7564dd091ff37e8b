include(`prelude.m4')dnl
include(<|pdl.m4|>)dnl
include(<|mailbox.m4|>)dnl
include(<|reduce.m4|>)dnl
divert(-1)
// ---- the specialization: one row of table.tsv ---------------------------------------

m4_integer(<|BW_ROWS|>, 1, 8)       // M
m4_integer(<|BW_BLOCK|>, 32, 992)   // threads that multiply
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

constant(<|WARPS|>, BLOCK / 32)         // that multiply
// One more warp, the finisher, takes all that is not the products: it triggers, fences, fetches
// `shared` and the step, and adds up and stores the results.
constant(<|FINISHER|>, WARPS)           // its number in the CTA
constant(<|THREADS|>, BLOCK + 32)
constant(<|BAR_SUMS|>, 0)
constant(<|VALUES|>, ROWS * OUTPUTS)    // results of the CTA: value = row * OUTPUTS + output
m4_assert(VALUES <= 32, <|a warp finishes at most 32 results, not |>VALUES)
constant(<|VALUE_LANES|>, 32 / m4_power_of_2(VALUES)) // lanes that hold one warp sum
constant(<|SUM_STRIDE|>, 4 * m4_ceil_div(WARPS, 4)) // warp sums of a value, padded to vectors of 4
constant(<|WORDS|>, VECTOR / 2)         // 32-bit registers of a vector
constant(<|TILE_BYTES|>, BLOCK * VECTOR * 2) // of one row, a k tile
constant(<|PEERS_MOST|>, 16)
// Registers a thread.  Told nothing, ptxas saves them by requesting some of the latent late, or
// takes so many that too few CTAs fit an SM.  With 8 warps a CTA, 128 are two CTAs an SM (the 224
// of S = 896 and 4 outputs run at once), 64 four (the 448 of 2 outputs), 48 five, 40 six (those of
// the next launch fetch their weights beside ours).
constant(<|HOLD_REGISTERS|>, !BLACKWELL)
constant(<|MAX_REGISTERS|>, m4_if(OUTPUTS > 2, 128, ROWS == 1, 40, ROWS == 2, 48, 64))
// Tiles in flight whose latent is requested with their weights.  Seven rows of latent of two
// tiles would need more registers: the second tile's follows the products of the first.
constant(<|LATENT_AHEAD|>, m4_if(!BLACKWELL && ROWS >= 7, 1, UNROLL))

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
// in: weight_from / latent_from at the first tile in flight; stride row_bytes
// Weights are static, but no .nc: ptxas moves those loads behind a griddepcontrol.wait, where
// nothing but latent should be waited for.
// Of 16 elements Hopper's two loads take half of each 32-byte sector: past L1 both would fetch it.
define(<|m4_weight_load|>,
  <|m4_if(BLACKWELL || VECTOR == 8, <|ld.global.L1::no_allocate|>, <|ld.global|>)|>)
macro(<|load_weights|>, 1, <|
{
  .reg .b64 from;
  add.u64 from, weight_from, eval($1 * TILE_BYTES);
m4_for(<|O|>, 0, OUTPUTS - 1, <|
  load_vector(m4_weight_load, B($1, O), from, 0)
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

// Usage: addresses_of_tile
// in: tiles_left.  out: latent_from, weight_from, row_bytes
macro(<|addresses_of_tile|>, 0, <|
{
  .reg .b32 length, index, row;
  .reg .b64 offset;
  ld.param.u32 length, [row_bytes_latent];
  cvt.u64.u32 row_bytes, length;
  ld.param.u32 index, [k_tiles];
  sub.u32 index, index, tiles_left;  // of the first tile in flight
  mov.u32 row, %tid.x;
  mad.lo.u32 index, index, BLOCK, row;  // BLOCK
  mul.wide.u32 offset, index, eval(2 * VECTOR);  // bytes of a vector
  ld.param.u64 latent_from, [latent];
  cvta.to.global.u64 latent_from, latent_from;
  add.u64 latent_from, latent_from, offset;
  ld.param.u64 weight_from, [weight];
  cvta.to.global.u64 weight_from, weight_from;
  add.u64 weight_from, weight_from, offset;
  mov.u32 row, %ctaid.x;
  mul.lo.u32 row, row, OUTPUTS;  // OUTPUTS
  mad.wide.u32 weight_from, row, length, weight_from;
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

// Usage: total_of_warps(TOTAL, ADDRESS)
// TOTAL = ((0 + s[0]) + s[1]) + ... of the warp sums at ADDRESS: the order is the contract.
macro(<|total_of_warps|>, 2, <|
{
  .reg .f32 part<WARPS>;
m4_load_parts(<|$2|>, 0)dnl
  mov.b32 $1, 0;  // +0
m4_for(<|W|>, 0, WARPS - 1, <|
  add.rn.f32 $1, $1, part<||>W;
|>)dnl
}|>)
// Those from number $2 on, by as few loads as alignment allows.
define(<|m4_load_parts|>, <|dnl
m4_if(WARPS - $2 >= 4, <|dnl
  ld.shared.v4.f32 {m4_list(<|m4_w|>, $2, $2 + 3, <|part<||>m4_w|>)}, [$1+eval(4 * ($2))];
m4_load_parts(<|$1|>, eval($2 + 4))|>, WARPS - $2 >= 2, <|dnl
  ld.shared.v2.f32 {m4_list(<|m4_w|>, $2, $2 + 1, <|part<||>m4_w|>)}, [$1+eval(4 * ($2))];
m4_load_parts(<|$1|>, eval($2 + 2))|>, WARPS - $2 >= 1, <|dnl
  ld.shared.f32 part<||>eval($2), [$1+eval(4 * ($2))];
|>)|>)

// Usage: store_words(INSTRUCTION, ADDRESS)
// in: word0 .. of the OUTPUTS columns.  INSTRUCTION: st or multimem.st
macro(<|store_words|>, 2, <|
m4_if(OUTPUTS == 2, <|$1.relaxed.READERS.global.b32 [$2], word0;|>,
  OUTPUTS == 4, <|$1.relaxed.READERS.global.v2<||>m4_vector_type(<|$1|>) [$2], {word0, word1};|>,
  <|$1.relaxed.READERS.global.v4<||>m4_vector_type(<|$1|>) [$2], {word0, word1, word2, word3};|>)|>)
// multimem.st knows vectors of float types only; the bits pass as they are.
define(<|m4_vector_type|>, <|ifelse(<|$1|>, st, <|.b32|>, <|.f32|>)|>)

// Usage: trigger_at(PLACE)     in the finisher; one thread of it does
macro(<|trigger_at|>, 1, <|
{
  .reg .pred here;
  setp.eq.and.u32 here, trigger, $1, first_lane;  // $1
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
fact(<|threads|>, THREADS)
fact(<|cluster|>, 1)
fact(<|shared_dynamic|>, 0)
fact(<|waits|>, 1)
fact(<|attr.rows|>, ROWS)
fact(<|attr.block|>, BLOCK)
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
//                 uint32_t k_tiles,           L / (block * vector)
//                 uint32_t flags)             bits 0-1: trigger late, at entry, after the
//                                             wait; bit 2: weights only after the wait
//
remark(<|Launch: grid (S / |>OUTPUTS<|, 1, 1), block (|>THREADS<|, 1, 1).  M = |>ROWS<|.|>)
ifelse(BW_MODE, multicast, <|dnl
// targets[0] is a multicast address: one multimem.st reaches every rank.
|>, BW_MODE, peers, <|dnl
// targets[r] is this process' mapping of the mailbox of rank r.
|>, <|dnl
// targets[0] is the mailbox of the only rank.
|>)dnl
//
// Order of additions, which is the contract (same bits on every architecture): thread i of the
// block takes elements (j * block + i) * vector .. + vector of k tile j, j rising; then the
// lanes of a warp by the butterfly 16, 8, 4, 2, 1; then the warps from 0 on.
//
remark(<|Warps, by role: the first |>WARPS<| (the block) multiply; the last one, the finisher,|>)
// triggers, fences, fetches `shared` and the step, and finishes and stores the results.
//
remark(<|Shared memory: warp_sums[value][|>SUM_STRIDE<|], of which a warp's is at its number;|>)
// value = row * outputs + output.
//   bar 0  warp_sums is written: the block arrives and leaves, the finisher waits
//
// Registers, by role.  Of all warps:
//   tid, lane, warp    thread in the CTA, in the warp; warp in the CTA
//   first_output       first column of the CTA, in this rank's S
//   flag_bits          parameter `flags`
// of those that multiply:
//   latent_from, weight_from   this thread's elements of row 0 in the first tile in flight
//   row_bytes          of latent and weight
//   tiles_left         k tiles from the first in flight on
//   sum0 ..            accumulators: value = row * outputs + output
// of the finisher:
//   first_lane         predicate: lane 0
//   trigger            where dependents may start
//   value, row, output the lane's result, which it forms with its neighbour in the word
//   addends, step      the word of `shared` for both; steps completed
//   in_target          offset of the row's columns in a mailbox
//   word0 ..           what the lane stores, 32 bits each

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
.reqntid THREADS, 1, 1
m4_if(HOLD_REGISTERS, <|dnl
.maxnreg MAX_REGISTERS
|>)dnl
{
  .shared .align 16 .f32 warp_sums[eval(VALUES * SUM_STRIDE)];

  .reg .b32 tid, lane, warp, first_output, flag_bits;

  // ---- who and where we are -----------------------------------------------------------
  mov.u32 tid, %tid.x;
  and.b32 lane, tid, 31;
  shr.u32 warp, tid, 5;
  mov.u32 first_output, %ctaid.x;
  mul.lo.u32 first_output, first_output, OUTPUTS;  // OUTPUTS
  ld.param.u32 flag_bits, [flags];
  {
    .reg .pred finishes;
    setp.eq.u32 finishes, warp, FINISHER;  // FINISHER
    @finishes bra.uni finisher;
  }

  // ---- the first weights: static, so they need not wait for earlier kernels ------------
  .reg .b32 tiles_left;
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
  {
    .reg .pred weights_late;
    .reg .b32 late;
    and.b32 late, flag_bits, FLAG_WEIGHTS_AFTER_WAIT;  // FLAG_WEIGHTS_AFTER_WAIT
    setp.ne.u32 weights_late, late, 0;
    ld.param.u32 tiles_left, [k_tiles];
    addresses_of_tile
    pdl_wait_if(weights_late)
  }
m4_for(<|U|>, 0, UNROLL - 1, <|
  tile_begin(first_weights, U)
  load_weights(U)
  tile_end(U)
|>)dnl

  // ---- latent belongs to earlier kernels until here -------------------------------------
  pdl_wait

  // ---- products -------------------------------------------------------------------------
m4_for(<|V|>, 0, VALUES - 1, <|
  mov.b32 sum<||>V, 0;  // +0
|>)dnl
  // The first tiles' latent is requested ahead of the loop, further tiles' at its end: ptxas
  // sinks no load into a loop, where it would wait for the first ones before it requests the
  // last.  A peeled loop is none.
m4_for(<|U|>, 0, LATENT_AHEAD - 1, <|
  tile_begin(first_latent, U)
  load_latent(U)
  tile_end(U)
|>)dnl
next_tiles:
  .pragma "nounroll";
m4_for(<|U|>, 0, UNROLL - 1, <|
  tile_begin(accumulated, U)
m4_if(U >= LATENT_AHEAD, <|dnl
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
  // Addresses anew: kept, they would be four registers too many for M = 5.
  sub.u32 tiles_left, tiles_left, UNROLL;
  addresses_of_tile
m4_for(<|U|>, 0, UNROLL - 1, <|
  tile_begin(weights, U)
  load_weights(U)
m4_if(U < LATENT_AHEAD, <|dnl
  load_latent(U)
|>)dnl
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
    mad.lo.u32 at, which, eval(4 * SUM_STRIDE), at;
    mad.lo.u32 at, warp, 4, at;
    @holder st.shared.f32 [at], sum0;
  }
  bar.arrive BAR_SUMS, THREADS;  // BAR_SUMS
  exit;

  // ---- the finisher: first what it can do while the others multiply --------------------
finisher:
  .reg .pred first_lane;
  .reg .b32 trigger, value, row, output, addends, step;
  .reg .b64 in_target;
  setp.eq.u32 first_lane, lane, 0;
  and.b32 trigger, flag_bits, FLAG_TRIGGER;  // FLAG_TRIGGER
  trigger_at(TRIGGER_ENTRY)

  // `shared` and the generation belong to earlier kernels until here, the mailbox above all.
  pdl_wait

  // The lane's result, the word of `shared` for it and its neighbour, and the step.
  min.u32 value, lane, eval(VALUES - 1);  // further lanes repeat the last result
  shr.u32 row, value, m4_log2(OUTPUTS);  // value / OUTPUTS
  and.b32 output, value, eval(OUTPUTS - 1);  // value % OUTPUTS
  {
    .reg .b64 address, stride, offset;
    .reg .b32 column;
    ld.param.u64 address, [shared];
    cvta.to.global.u64 address, address;
    ld.param.u64 stride, [shared_stride];
    cvt.u64.u32 offset, row;
    mad.lo.u64 address, offset, stride, address;
    and.b32 column, output, eval(OUTPUTS - 2);  // of its word
    add.u32 column, first_output, column;
    mad.wide.u32 address, column, 2, address;
    ld.global.b32 addends, [address];
    ld.param.u64 address, [steps];
    cvta.to.global.u64 address, address;
    ld.global.u32 step, [address];
  }

  // A reader that starts early must find the step count that the last reader advanced: this
  // fence and the trigger synchronize with its start (PTX ISA 9.2, griddepcontrol).
  // Where dependents started at the entry no reader is early.
  .reg .pred fences;
  setp.ne.and.u32 fences, trigger, TRIGGER_ENTRY, first_lane;  // TRIGGER_ENTRY
  only_begin(fenced, fences)
  fence.release.gpu;
  only_end_apart
  trigger_at(TRIGGER_AFTER_WAIT)
  {
    .reg .b32 bytes;
    ld.param.u32 bytes, [row_bytes_mailbox];
    mul.wide.u32 in_target, row, bytes;
    mad.wide.u32 in_target, first_output, 2, in_target;
    ld.param.u32 bytes, [generation_bytes];
    generation_start(in_target, in_target, step, bytes)
  }
  bar.sync BAR_SUMS, THREADS;  // BAR_SUMS

  // ---- both columns of a word: total, bf16, + shared, never -0, bf16 ---------------------
  // Both lanes of the two form the word: so none waits for the other.
  .reg .b32 word0;
  {
    .reg .b32 from, bits;
    .reg .f32 low, high, s;
    and.b32 from, value, -2;
    mul.lo.u32 from, from, eval(4 * SUM_STRIDE);
    mov.u32 bits, warp_sums;
    add.u32 from, from, bits;
    total_of_warps(low, from)
    add.u32 from, from, eval(4 * SUM_STRIDE);
    total_of_warps(high, from)
    cvt.rn.bf16x2.f32 bits, high, low;
    shl.b32 low, bits, 16;
    and.b32 high, bits, 0xffff0000;
    shl.b32 s, addends, 16;
    add.rn.f32 low, low, s;
    and.b32 s, addends, 0xffff0000;
    add.rn.f32 high, high, s;
    // The sum of two bf16 is -0 or rounds to it only where it is -0; + 0 makes it +0.
    add.rn.f32 low, low, 0f00000000;
    add.rn.f32 high, high, 0f00000000;
    cvt.rn.bf16x2.f32 word0, high, low;
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
