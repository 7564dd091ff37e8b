include(`prelude.m4')dnl
include(<|mbarrier.m4|>)dnl
include(<|tma.m4|>)dnl
include(<|pdl.m4|>)dnl
include(<|cluster.m4|>)dnl
include(<|quantize.m4|>)dnl
include(<|wo_a_common.m4|>)dnl
include(<|wo_a_sm90_common.m4|>)dnl
include(<|wo_a_sm90_stream_sizes.m4|>)dnl
include(<|wo_a_sm90_quantize.m4|>)dnl
include(<|wo_a_sm90_stream_steps.m4|>)dnl
// SPDX-License-Identifier: Apache-2.0
//
// wo_a for Hopper: inverse RoPE + MXFP8 quantization + grouped WO-A projection.
//
wo_a_facts
fact(<|attr.trigger|>, 2)
fact(<|attr.grid_y|>, GRID_Y)
fact(<|attr.any_clusters|>, 1)
divert(1)dnl
//
wo_a_prototype
//
remark(<|Launch: grid (|>HEADS<| * C, |>GRID_Y<|, 1), block (|>THREADS<|, 1, 1), cluster (|>HEADS<|, 1, 1); C of N/128 at most.|>)
// CTA (c, y): rank c % heads = the head of its group; cluster c / heads has
// N/128 / C neighbouring n tiles, the first (N/128) % C of the clusters one more,
remark(<|of the |>TOKENS<| tokens from y * |>TOKENS<| on.|>)
// x is read and quantized once a group of these n tiles.
wo_a_fullness
//
// Shared memory, dynamic, the start 1024-byte aligned:
//   offset   bytes  field
shared_field(<|S_W|>, STAGES * W_STAGE, 1024, <|weights: stage, row, 128 bytes of K; 128B swizzle|>)
shared_field(<|S_X|>, X_ATOMS * X_ATOM, 1024, <|activations: 64 of K, token; 128B swizzle|>)
shared_field(<|S_INBOX|>, HEADS * INBOX_SENDER, 128, <|partial sums: sender, class slot, vector, weight row, group|>)
shared_field(<|S_W_SCALES|>, STAGES * SCALE_STAGE, 128, <|scale words: stage, row|>)
shared_field(<|S_X_SCALES|>, COLUMNS * BLOCKS, 16, <|scales to apply: token, block|>)
shared_field(<|S_RANGE|>, COLUMNS * 8, 8, <|largest and least scale of a token|>)
shared_field(<|S_PLACE|>, 16, 16, <|n_tile, tiles, parity, rank at the start of a group|>)
shared_field(<|S_LOADED|>, STAGES * 8, 8, <|mbarrier a stage: weights are in|>)
shared_field(<|S_EMPTY|>, STAGES * 8, 8, <|mbarrier a stage: weights are used up|>)
shared_field(<|S_SCALES_LOADED|>, 8, 8, <|mbarrier: scale words are in|>)
shared_field(<|S_REDUCED|>, 8, 8, <|mbarrier: the inbox is full|>)
shared_field(<|S_FREE|>, 8, 8, <|mbarrier: all inboxes we send to are read|>)
divert(0)dnl
m4_assert(SHARED_BYTES <= MOST_SHARED_BYTES, <|more shared memory than a CTA can have|>)dnl
fact(<|shared_dynamic|>, SHARED_BYTES)
undivert(1)dnl
//
// Barriers.  An mbarrier completes a phase an n tile, but for S_FREE after the last, and
// S_REDUCED of a rank without tokens, which completes its first only; nobody waits there.
//   bar 0            all threads: the mbarriers and S_PLACE are set up; the ranges of all
//                    tokens are complete; the activations are in; a group is done
//   S_LOADED         1 arrival with the bytes of the weight box
remark(<|  S_EMPTY          |>PRODUCT_WARPS<| arrivals, one a warp that multiplies|>)
//   S_SCALES_LOADED  1 arrival with the bytes of the scale box
m4_if(HEADS > 1, <|dnl
//   S_REDUCED        1 arrival with the bytes of all partial sums we own
|>, <|dnl
remark(<|  S_REDUCED        |>PRODUCT_WARPS<| arrivals, one a warp that multiplies|>)
|>)dnl
remark(<|  S_FREE           |>OWNERS<| arrivals, one a rank that owns tokens|>)
//   bar 1, 2         a warpgroup of the product: does any row need the long way
remark(<|  bar |>BARRIER_WRITERS<|            the writers: the inbox is read|>)
m4_if(HEADS > 1, <|dnl
//   cluster barrier  S_REDUCED and S_FREE are set up
|>)dnl
//
// Registers that live throughout, by role:
//   smem              start of our shared memory (shared::cta address)
//   tid, lane, warp   thread in the CTA, in the warp; warp in the CTA
//   rank              CTA in the cluster = head in the group
//   n_tile, tiles     tile of 128 outputs; how many follow, this one included (not while
//                     quantizing: S_PLACE has them)
//   first_row         first token of our tile, in the call
//   leader            predicate: the one thread that drives copies and triggers
//   parity, later     of the phase of this n tile; predicate: it is not the first
//   group             of n_tile: the group whose x is quantized
//   row, in_four      lane 4g + q: weight row g of its warp's 16 (it has g + 8 too); q
//
// Measured on an H200, with H = 8 and R = 1024: TUNING.md.

.version 9.0
.target sm_90a
.address_size 64

wo_a_entry
{
  .reg .pred leader;
  .reg .b32 smem, tid, lane, warp, rank, n_tile, tiles, first_row;

  // ---- who and where we are ---------------------------------------------------------
  .reg .pred elected;
  mov.u32 smem, dynamic_shared;
  mov.u32 tid, %tid.x;
  and.b32 lane, tid, 31;
  shr.u32 warp, tid, 5;
  {
    .reg .b32 cta;
    mov.u32 cta, %ctaid.x;
    place_in_grid(cta)
  }
  elect.sync _|elected, 0xffffffff;
  setp.eq.and.u32 leader, warp, 0, elected;

  .reg .b32 flag_bits;
  .reg .pred trigger_entry, trigger_after_wait;
  ld.param.u32 flag_bits, [flags];
  {
    .reg .b32 trigger;
    and.b32 trigger, flag_bits, FLAG_TRIGGER;  // FLAG_TRIGGER
    setp.eq.and.u32 trigger_entry, trigger, 1, leader;
    setp.eq.and.u32 trigger_after_wait, trigger, 2, leader;
  }
  pdl_trigger_if(trigger_entry)

  // ---- barriers, then the weights: nothing here depends on an earlier kernel ------------
  // One thread does both, so the copies need not wait for the other threads.
  only_begin(weights_requested, leader)
m4_for(<|STAGE|>, 0, STAGES - 1, <|
  mbarrier_create(LOADED(STAGE), 1)
|>)dnl
  mbarrier_create(AT(S_SCALES_LOADED), 1)
m4_for(<|STAGE|>, 0, STAGES - 1, <|
  mbarrier_create(EMPTY(STAGE), PRODUCT_WARPS)
|>)dnl
  mbarrier_create(AT(S_REDUCED), m4_if(HEADS > 1, 1, PRODUCT_WARPS))
  mbarrier_create(AT(S_FREE), OWNERS)
  mbarrier_create_fence
  request_weights
  only_end_apart

  // The group needs a division: it follows the big copies.
  .reg .b32 group, tile_in_group;
  group_of_tile(group, tile_in_group)

  only_begin(scales_requested, leader)
  request_scales_of(tile_in_group)
m4_if(HEADS > 1, <|dnl
  expect_classes
|>)dnl
  only_end_apart

  .reg .pred later, same_group;  // n tiles went before; the next one's is the same
  .reg .b32 parity;
  setp.ne.u32 later, lane, lane;
  mov.u32 parity, 0;
  only_begin(place_stored, leader)
  st.shared.v4.b32 [smem+S_PLACE], {n_tile, tiles, parity, rank};  // S_PLACE
  only_end_apart
  clear_ranges
  bar.sync 0;  // the barriers, the ranges and S_PLACE are ready for our threads
m4_if(HEADS > 1, <|dnl
  cluster_arrive_relaxed  // S_REDUCED and S_FREE for the peers, once they waited
|>)dnl

  // ---- x, positions and rope belong to earlier kernels until here ---------------------
  pdl_wait
  pdl_trigger_if(trigger_after_wait)

  // From here on once a group: a cluster's n tiles may begin in one and end in the next.  What
  // follows from the thread number is computed anew each time, from a number that ptxas cannot
  // know to be the same (%ctaid.z and %nctaid.z - 1 are 0): it would keep registers for it.
next_group:
  {
    .reg .b32 nothing, also_nothing;
    mov.u32 nothing, %ctaid.z;
    mov.u32 also_nothing, %nctaid.z;
    sub.u32 also_nothing, also_nothing, 1;
    selp.b32 nothing, also_nothing, nothing, later;
    mov.u32 tid, %tid.x;
    add.u32 tid, tid, nothing;
  }
  and.b32 lane, tid, 31;
  shr.u32 warp, tid, 5;
  // ---- which thread holds what ----------------------------------------------------------
  // A lane of warp b: elements 8l .. 8l + 7 of block b, of token p of each group of 8.  Of the
  // lane number bits 1..0 are l; bits 2, 4, 3 are bits 0, 1, 2 of p: half a warp stores at once,
  // and the swizzle gives its tokens different banks then.
  .reg .pred rotary, upper_part;
  .reg .b32 place, part, half_shift, x_row, last_row;
  {
    .reg .b32 bit;
    bfe.u32 place, lane, 2, 1;
    bfe.u32 bit, lane, 3, 1;
    mad.lo.u32 place, bit, 4, place;
    bfe.u32 bit, lane, 4, 1;
    mad.lo.u32 place, bit, 2, place;
  }
  and.b32 part, lane, 3;
  setp.ge.u32 upper_part, part, 2;
  and.b32 half_shift, lane, 1;
  shl.b32 half_shift, half_shift, 4;
  add.u32 x_row, first_row, place;  // in the call, of the first group
  ld.param.u32 last_row, [tokens];
  sub.u32 last_row, last_row, 1;  // rows past the end repeat it
  setp.ge.u32 rotary, warp, FIRST_ROTARY_WARP;  // FIRST_ROTARY_WARP

  .reg .b64 x_from, x_stride, position_from, rope_from;
  .reg .b32 x_to, x_to_next, own<QUADS>, own_range<QUADS>, own_scale<QUADS>;
  {
    .reg .b64 column;
    .reg .b32 chunk, head, offset, slot, atom;
    mad.lo.u32 chunk, warp, 4, part;  // of the 64 of 8 elements in a head
    ld.param.u64 x_from, [x];
    cvta.to.global.u64 x_from, x_from;
    mad.lo.u32 head, group, HEADS, rank;  // of the token: group * HEADS + rank
    mad.wide.u32 x_from, head, eval(2 * HEAD_DIM), x_from;  // bytes of a head
    shl.b32 offset, chunk, 4;  // bytes of a chunk
    cvt.u64.u32 column, offset;
    add.u64 x_from, x_from, column;
    ld.param.u64 x_stride, [x_token_stride];

    ld.param.u64 position_from, [positions];
    cvta.to.global.u64 position_from, position_from;

    ld.param.u64 rope_from, [rope];
    cvta.to.global.u64 rope_from, rope_from;
    sub.u32 offset, offset, eval(2 * (HEAD_DIM - ROPE_DIM));  // 4 pairs of 4 bytes; where rotary
    cvt.u64.u32 column, offset;
    add.u64 rope_from, rope_from, column;

    and.b32 slot, chunk, 7;  // chunk of 8 elements in the row of 64
    shr.u32 slot, slot, 1;
    shl.b32 slot, slot, 1;  // first 16 bytes of its step of 16
    xor.b32 slot, slot, place;  // swizzle: ^ token % 8
    shr.u32 atom, chunk, 3;
    mad.lo.u32 x_to, atom, X_ATOM, smem;  // X_ATOM
    mad.lo.u32 x_to, place, X_ROW, x_to;  // X_ROW
    mad.lo.u32 x_to, slot, 16, x_to;
    and.b32 slot, chunk, 1;  // half of the step
    mad.lo.u32 x_to, slot, 8, x_to;
    xor.b32 x_to_next, x_to, 16;
    own_places
  }

  .reg .pred multiplies;
  setp.lt.u32 multiplies, warp, PRODUCT_WARPS;  // PRODUCT_WARPS

  .reg .b32 c<eval(4 * GROUPS)>;  // the chunks, two elements a register
  .reg .b32 scale<QUADS>;
  @rotary bra.uni encode_rotary;
m4_for(<|I|>, 0, GROUPS - 1, <|
  load_chunk(I)
|>)dnl
m4_for(<|Q|>, 0, QUADS - 1, <|
  encode_quad(Q)
|>)dnl
  bra.uni encoded;

encode_rotary:
  {
    .reg .b32 position<QUADS>;
m4_for(<|Q|>, 0, QUADS - 1, <|
    load_position(Q)
|>)dnl
m4_for(<|I|>, 0, GROUPS - 1, <|
    load_chunk(I)
|>)dnl
m4_for(<|Q|>, 0, QUADS - 1, <|
    {
      .reg .f32 cosine<eval(4 * QUAD_GROUPS(Q))>, sine<eval(4 * QUAD_GROUPS(Q))>, v<eval(8 * QUAD_GROUPS(Q))>;
m4_for(<|I|>, 4 * Q, QUAD_LAST(Q), <|
      load_rope(I)
|>)dnl
m4_for(<|I|>, 4 * Q, QUAD_LAST(Q), <|
      widen_chunk(I)
      rotate_chunk(I)
|>)dnl
      encode_rotated_quad(Q)
    }
m4_if(QUADS > 2 && Q == 0, <|dnl
    // Never: but without it ptxas moves so many loads ahead that it runs out of registers.
    @multiplies bra.uni encoded;
|>)dnl
|>)dnl
  }

encoded:
  bar.sync 0;  // the ranges of all tokens are complete
  // ---- fold, store as the tensor core wants it ---------------------------------------------
  .reg .b32 unfolded;  // 1: a token that cannot be folded
  mov.b32 unfolded, 0;
  {
    .reg .b32 top<QUADS>, bottom<QUADS>, fold<QUADS>;
m4_for(<|Q|>, 0, QUADS - 1, <|
    load_range(Q)
|>)dnl
m4_for(<|Q|>, 0, QUADS - 1, <|
    fold_quad(Q)
|>)dnl
m4_for(<|I|>, 0, GROUPS - 1, <|
    store_chunk(I)
|>)dnl
  }
  fence_shared_to_async
  ld.shared.v4.b32 {n_tile, tiles, parity, rank}, [smem+S_PLACE];  // S_PLACE
  .reg .pred long_tokens;
  setp.ne.u32 long_tokens, unfolded, 0;
  bar.red.or.pred long_tokens, 0, long_tokens;  // the activations are in

  // What follows from the thread number is computed anew, from a number that ptxas cannot know
  // to be the same (%ctaid.z is 0): it would keep registers for it.
  {
    .reg .b32 nothing;
    mov.u32 nothing, %ctaid.z;
    mov.u32 tid, %tid.x;
    add.u32 tid, tid, nothing;
  }
  and.b32 lane, tid, 31;
  shr.u32 warp, tid, 5;
  @!multiplies bra.uni writers;

  // ---- the product: a warp has 16 weight rows, all tokens, all of K ----------------------
m4_if(SHIFT_REGISTERS, <|dnl
  setmaxnreg.inc.sync.aligned.u32 PRODUCT_REGISTERS;
|>)dnl
  .reg .f32 acc<eval(4 * GROUPS)>;
  .reg .b32 a<eval(8 * BUFFERS)>;  // A operands; those of the stage before may be in flight
  .reg .b32 in_four, row, w_from, x_start, inbox, row_group;
  and.b32 in_four, lane, 3;  // lane 4g + q: q
  row_of_lane(row)
  .reg .b32 scales_a<STAGES>, scales_b<STAGES>;  // of weight rows g and g + 8
  .reg .pred more, lane0;  // more: n tiles follow
  setp.eq.u32 lane0, lane, 0;
  {
    .reg .b32 matrix, w_row, piece;
    shr.u32 matrix, lane, 3;  // of the four that ldmatrix reads
    and.b32 w_row, lane, 7;
    shr.u32 piece, matrix, 1;  // its 16 bytes of the block's 32
    xor.b32 piece, piece, w_row;  // swizzle
    and.b32 matrix, matrix, 1;
    mad.lo.u32 w_row, matrix, 8, w_row;
    mad.lo.u32 w_row, warp, WARP_ROWS, w_row;
    mad.lo.u32 w_from, w_row, STAGE_K, smem;
    mad.lo.u32 w_from, piece, 16, w_from;
  }
  add.u32 x_start, smem, S_X;  // S_X
  // A descriptor has 14 bits, of 16 bytes each; above them a shared::cta address has the rank.
  bfe.u32 x_start, x_start, 4, 14;
  mad.lo.u32 inbox, rank, INBOX_SENDER, smem;  // INBOX_SENDER
  mad.lo.u32 inbox, row, eval(VECTOR * 4), inbox;
  shr.u32 row_group, warp, 2;
  add.u32 row_group, row_group, 1;  // number of its barrier

next_tile:
  read_row_scales
  setp.gt.u32 more, tiles, 1;
  .reg .pred extreme;
  .reg .b32 top_a, top_b, fold_a, fold_b;
  mov.pred extreme, long_tokens;
  inspect_row(top_a, fold_a, extreme, scales_a)
  inspect_row(top_b, fold_b, extreme, scales_b)
  bar.red.or.pred extreme, row_group, WARPGROUP_THREADS, extreme;  // WARPGROUP_THREADS
  @extreme bra.uni long_way;

m4_for(<|STAGE|>, 0, STAGES - 1, <|
  remark(<|stage |>STAGE)
  {
    .reg .b32 fields_a, fields_b;
    add.u32 fields_a, scales_a<||>STAGE, fold_a;
    add.u32 fields_b, scales_b<||>STAGE, fold_b;
    shl.b32 fields_a, fields_a, 2;
    shl.b32 fields_b, fields_b, 2;
    mbarrier_wait(LOADED(STAGE), parity)
    .reg .b32 w<eval(4 * STAGE_BLOCKS)>;
m4_for(<|STEP|>, 0, STAGE_BLOCKS - 1, <|
m4_if(STEP % LOAD_BLOCKS == 0, <|dnl
m4_for(<|AHEAD|>, STEP, STEP + LOAD_BLOCKS - 1, <|
    {
      .reg .b32 at;
      xor.b32 at, w_from, eval(AHEAD * BLOCK);
      load_block(eval(4 * AHEAD), at, S_W + STAGE * W_STAGE)
    }
|>)dnl
|>)dnl
    fold_and_multiply(STAGE, STEP)
|>)dnl
  }
  release_stage(EMPTY(STAGE))
m4_if(STAGE > 0, <|dnl
  refill_stages(STAGE - 1, STAGE - 1)
|>)dnl
|>)dnl
  trigger_after_last_tile
  wgmma.wait_group.sync.aligned 0;
  refill_stages(STAGES - 1, STAGES - 1)

  // The two scales that were left out.
  {
    .reg .b32 at, row_a, row_b;
    f32_of_folded_top(row_a, top_a)
    f32_of_folded_top(row_b, top_b)
    mad.lo.u32 at, in_four, eval(2 * BLOCKS), smem;
m4_for(<|GROUP|>, 0, GROUPS - 1, <|
    {
      .reg .b32 token<2>;
m4_for(<|ODD|>, 0, 1, <|
      ld.shared.u8 token<||>ODD, [at+eval(S_X_SCALES + (8 * GROUP + ODD) * BLOCKS)];  // S_X_SCALES
      shl.b32 token<||>ODD, token<||>ODD, 23;
|>)dnl
m4_for(<|J|>, 0, 3, <|
      mul.rn.f32 ACC(GROUP, J), ACC(GROUP, J), token<||>eval(J % 2);
      mul.rn.f32 ACC(GROUP, J), ACC(GROUP, J), m4_if(J / 2, row_b, row_a);
|>)dnl
    }
|>)dnl
  }

multiplied:
  // ---- every token to its owner ----------------------------------------------------------
  @later bra.uni wait_for_inboxes;
m4_if(HEADS > 1, <|dnl
  cluster_wait  // every peer is ready to receive
|>)dnl
  bra.uni inboxes_free;
wait_for_inboxes:
  {
    .reg .b32 before;
    xor.b32 before, parity, 1;
    m4_if(HEADS > 1, <|mbarrier_wait_cluster|>, <|mbarrier_wait|>)(AT(S_FREE), before)
  }
inboxes_free:
  send_class(0)
  send_class(1)
m4_if(HEADS == 1, <|dnl
  bar.warp.sync 0xffffffff;
  @lane0 mbarrier.arrive.shared::cta.b64 _, [AT(S_REDUCED)];
|>)dnl
  @!more exit;

  // ---- the next n tile ---------------------------------------------------------------------
  following_tile
  @same_group bra.uni next_tile;
  {
    .reg .pred stores;
    setp.eq.u32 stores, tid, 0;
    @stores st.shared.v4.b32 [smem+S_PLACE], {n_tile, tiles, parity, rank};  // S_PLACE
  }
  clear_ranges
m4_if(SHIFT_REGISTERS, <|dnl
  setmaxnreg.dec.sync.aligned.u32 MAX_REGISTERS;
|>)dnl
  bar.sync 0;  // nobody multiplies; the ranges and S_PLACE are ready
  bra.uni next_group;

  // The long way, a block at a time: acc += (A * B) * scale of the row * scale of the token.
long_way:
  {
    .reg .pred nan_a, nan_b, again;
    .reg .f32 start_a, start_b;
    .reg .b32 number;
    setp.eq.u32 nan_a, top_a, UE8M0_NAN;  // a NaN among its scales: so are its sums
    setp.eq.u32 nan_b, top_b, UE8M0_NAN;  // UE8M0_NAN
    selp.f32 start_a, F32_NAN, F32_ZERO, nan_a;
    selp.f32 start_b, F32_NAN, F32_ZERO, nan_b;
m4_for(<|GROUP|>, 0, GROUPS - 1, <|
m4_for(<|J|>, 0, 3, <|
    mov.f32 ACC(GROUP, J), m4_if(J / 2, start_b, start_a);
|>)dnl
|>)dnl
    mov.u32 number, 0;  // of the block
next_block:
    .reg .b32 w<4>, a<8>, row_a, row_b, x_low, x_scales;
    {
      .reg .b32 at, of_stage, stage;
      and.b32 of_stage, number, eval(STAGE_BLOCKS - 1);
      shr.u32 stage, number, m4_log2(STAGE_BLOCKS);
      mad.lo.u32 at, stage, 8, smem;
      mbarrier_wait(at+S_LOADED, parity)
      mul.lo.u32 at, of_stage, BLOCK;  // BLOCK
      xor.b32 at, w_from, at;
      mad.lo.u32 at, stage, W_STAGE, at;  // W_STAGE
      load_block(0, at, S_W)
      shr.u32 at, number, 1;
      mad.lo.u32 x_low, at, eval(X_ATOM / 16), x_start;
      and.b32 at, number, 1;
      mad.lo.u32 x_low, at, eval(64 / 16), x_low;
    }
    widen_block(0, 0)
    // The next scale bytes; the 16 of a row are one long number.
    and.b32 row_a, scales_a0, 0xff;
    and.b32 row_b, scales_b0, 0xff;
m4_for(<|STAGE|>, 0, STAGES - 1, <|
    shf.r.wrap.b32 scales_a<||>STAGE, scales_a<||>STAGE, scales_a<||>m4_min(STAGE + 1, STAGES - 1), 8;
    shf.r.wrap.b32 scales_b<||>STAGE, scales_b<||>STAGE, scales_b<||>m4_min(STAGE + 1, STAGES - 1), 8;
|>)dnl
    mad.lo.u32 x_scales, in_four, eval(2 * BLOCKS), smem;
    add.u32 x_scales, x_scales, number;
m4_for(<|PIECE|>, 0, m4_ceil_div(GROUPS, 4) - 1, <|
    {
      .reg .f32 d<16>;
      .reg .b32 low;
      add.u32 low, x_low, eval(PIECE * 4 * X_GROUP / 16);
      wgmma.fence.sync.aligned;
      wgmma_f16(d, a, 0, m4_min(4, GROUPS - 4 * PIECE), low, 0)
      add.u32 low, low, 2;  // 32 bytes
      wgmma_f16(d, a, 4, m4_min(4, GROUPS - 4 * PIECE), low, 1)
      wgmma.commit_group.sync.aligned;
      wgmma.wait_group.sync.aligned 0;
m4_for(<|GROUP|>, 4 * PIECE, m4_min(GROUPS, 4 * PIECE + 4) - 1, <|
m4_for(<|ODD|>, 0, 1, <|
      {
        .reg .b32 token;
        ld.shared.u8 token, [x_scales+eval(S_X_SCALES + (8 * GROUP + ODD) * BLOCKS)];  // S_X_SCALES
        add_scaled_evenly(ACC(GROUP, ODD), d<||>eval(4 * (GROUP - 4 * PIECE) + ODD), row_a, token)
        add_scaled_evenly(ACC(GROUP, 2 + ODD), d<||>eval(4 * (GROUP - 4 * PIECE) + 2 + ODD), row_b, token)
      }
|>)dnl
|>)dnl
    }
|>)dnl
    add.u32 number, number, 1;
    {
      .reg .pred stage_done;
      .reg .b32 at;
      and.b32 at, number, eval(STAGE_BLOCKS - 1);
      setp.eq.u32 stage_done, at, 0;
      warps_begin(released, stage_done)
      shr.u32 at, number, m4_log2(STAGE_BLOCKS);
      mad.lo.u32 at, at, 8, smem;
      release_stage(at+eval(S_EMPTY - 8))
      warps_end
    }
    setp.lt.u32 again, number, BLOCKS;  // BLOCKS
    @again bra.uni next_block;
  }
  trigger_after_last_tile
  refill_stages(0, STAGES - 1)
  bra.uni multiplied;

writers:
m4_if(SHIFT_REGISTERS, <|dnl
  setmaxnreg.dec.sync.aligned.u32 WRITER_REGISTERS;
|>)dnl
  // ---- scale bytes of rows that no token has are zero --------------------------------------
m4_if(TILE * TILES < QS_ROWS || !FULL, <|dnl
  {
    .reg .pred mine, again;
    .reg .b32 first_tile, left;
    setp.eq.u32 mine, warp, eval(THREADS / 32 - 1);
    setp.eq.and.u32 mine, rank, eval(HEADS - 1), mine;
    setp.eq.and.u32 mine, first_row, 0, mine;
    not.pred again, later;  // once for all n tiles
    and.pred mine, mine, again;
    warps_begin(all_padded, mine)
    mov.u32 first_tile, n_tile;
    mov.u32 left, tiles;
pad_next:
    zero_missing_scales(mine)
    add.u32 n_tile, n_tile, 1;
    sub.u32 left, left, 1;
    setp.ne.u32 again, left, 0;
    @again bra.uni pad_next;
    mov.u32 n_tile, first_tile;
    warps_end
  }
|>)dnl

m4_if(HEADS > 1, <|dnl
  @later bra.uni waited;
  cluster_wait  // as every thread that arrived
waited:
|>)dnl
  // ---- who sums what: thread = one weight row, half of the words of a vector ---------------
m4_if(OWNERS < HEADS, <|dnl
  // A rank that owns no token is done.  Nobody sends to it.
  {
    .reg .pred idle;
    setp.ge.u32 idle, rank, OWNERS;  // OWNERS
    @idle bra.uni idle_writers;
  }
|>)dnl
m4_if(WRITER_HALVES == 1, <|dnl
  {
    .reg .pred idle;
    setp.ge.u32 idle, tid, eval(FIRST_WRITER + TILE_N);
    @idle bra.uni idle_writers;
  }
|>)dnl
  .reg .pred lane0_writes, follows;
  .reg .b32 n, n_row, quarter, end, inbox_row, first_out;
  .reg .b64 q_start, qs_start;
  and.b32 n_row, tid, eval(TILE_N - 1);
  shr.u32 quarter, n_row, 5;
  setp.eq.u32 lane0_writes, lane, 0;
  mad.lo.u32 inbox_row, n_row, eval(VECTOR * 4), smem;
  mov.u32 first_out, first_row;
m4_if(WRITER_HALVES == 2, <|dnl
  {
    .reg .b32 half;
    shr.u32 half, tid, m4_log2(TILE_N);
    and.b32 half, half, 1;
    mad.lo.u32 inbox_row, half, eval(WRITER_WORDS * 4), inbox_row;
    mad.lo.u32 first_out, half, eval(WRITER_WORDS * 8), first_out;  // a word is 8 tokens on
  }
|>)dnl
  add.u32 end, first_row, TOKENS;  // past the last token of the tile
  {
    .reg .b32 count;
    ld.param.u32 count, [tokens];
    min.u32 end, end, count;
  }
  ld.param.u32 n, [n_total];
  ld.param.u64 q_start, [q];
  cvta.to.global.u64 q_start, q_start;
  ld.param.u64 qs_start, [qs];
  cvta.to.global.u64 qs_start, qs_start;

next_outputs:
  setp.gt.u32 follows, tiles, 1;
  .reg .b64 q_to, qs_tile;
  {
    .reg .b32 column;
    mad.lo.u32 column, n_tile, TILE_N, n_row;
    cvt.u64.u32 q_to, column;
    add.u64 q_to, q_to, q_start;
    mad.wide.u32 qs_tile, n_tile, QS_TILE, qs_start;  // QS_TILE
  }
  m4_if(HEADS > 1, <|mbarrier_wait_cluster|>, <|mbarrier_wait|>)(AT(S_REDUCED), parity)

  // ---- sum in the order of heads, round to bf16, quantize, store --------------------------
m4_for(<|SLOT|>, 0, CLASS_SLOTS - 1, <|
  {
    .reg .b32 class, out_row;
    add.u32 class, rank, eval(SLOT * HEADS);
    add.u32 out_row, first_out, class;
m4_if((SLOT + 1) * HEADS > CLASSES && HEADS > 1 && SLOT > 0, <|dnl
    .reg .pred exists;
    setp.lt.u32 exists, class, CLASSES;  // CLASSES
    warps_begin(summed, exists)
|>)dnl
m4_for(<|PART|>, 0, VECTORS - 1, <|
    {
      .reg .f32 s<WRITER_WORDS>, w<WRITER_WORDS>;
m4_for(<|PEER|>, 0, HEADS - 1, <|
      ld.shared<||>m4_if(WRITER_WORDS > 1, <|.v|>WRITER_WORDS).f32 m4_if(WRITER_WORDS > 1, <|{w0, w1}|>, <|w0|>), [inbox_row+eval(S_INBOX + PEER * INBOX_SENDER + SLOT * INBOX_CLASS + PART * INBOX_VECTOR)];
m4_for(<|WORD|>, 0, WRITER_WORDS - 1, <|
      add.rn.f32 s<||>WORD, m4_if(PEER, <|s<||>WORD|>, F32_ZERO), w<||>WORD;
|>)dnl
|>)dnl
m4_for(<|WORD|>, 0, WRITER_WORDS - 1, <|
      store_output(s<||>WORD, eval(8 * (PART * VECTOR + WORD)), lane0_writes)
|>)dnl
    }
|>)dnl
m4_if((SLOT + 1) * HEADS > CLASSES && HEADS > 1 && SLOT > 0, <|dnl
    warps_end
|>)dnl
  }
|>)dnl
  @!follows exit;

  // ---- the senders may fill the inbox again -------------------------------------------------
  bar.sync BARRIER_WRITERS, eval(TILE_N * WRITER_HALVES);
  {
    .reg .pred tells;
    setp.eq.u32 tells, warp, eval(FIRST_WRITER / 32);
    warps_begin(told, tells)
m4_if(HEADS > 1, <|dnl
    only_begin(expected, lane0_writes)
    expect_classes
    only_end_apart
    // A peer that another lane frees may have sent before lane 0 expects the bytes: the count of
    // bytes goes below zero then, and the phase still waits for lane 0's arrival.
    {
      .reg .pred peer;
      .reg .b32 to;
      setp.lt.u32 peer, lane, HEADS;  // HEADS
      only_begin(freed, peer)
      add.u32 to, smem, S_FREE;  // S_FREE
      peer_address(to, to, lane)
      mbarrier.arrive.release.cluster.shared::cluster.b64 _, [to];
      only_end_apart
    }
|>, <|dnl
    @lane0_writes mbarrier.arrive.shared::cta.b64 _, [AT(S_FREE)];
|>)dnl
    warps_end
  }
  following_tile
  @same_group bra.uni next_outputs;
m4_if(SHIFT_REGISTERS, <|dnl
  setmaxnreg.inc.sync.aligned.u32 MAX_REGISTERS;
|>)dnl
  bar.sync 0;  // the same
  bra.uni next_group;
m4_if(OWNERS < HEADS || WRITER_HALVES == 1, <|dnl

idle_writers:
  // They are done, unless another group is to be quantized.
  {
    .reg .pred last_group;
    .reg .b32 per_group, left;
    ld.param.u32 per_group, [tiles_per_group];
    rem.u32 left, n_tile, per_group;
    sub.u32 left, per_group, left;  // n tiles of this group, if we had as many
    setp.le.u32 last_group, tiles, left;
    @last_group exit;
    sub.u32 tiles, tiles, left;
    add.u32 n_tile, n_tile, left;
    and.b32 left, left, 1;
    xor.b32 parity, parity, left;
  }
  setp.eq.u32 later, lane, lane;
  group_of_tile(group, tile_in_group)
  bar.sync 0;  // the same
  bra.uni next_group;
|>)dnl
}
