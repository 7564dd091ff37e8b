include(`prelude.m4')dnl
include(<|mbarrier.m4|>)dnl
include(<|tma.m4|>)dnl
include(<|pdl.m4|>)dnl
include(<|cluster.m4|>)dnl
include(<|quantize.m4|>)dnl
include(<|wo_a_common.m4|>)dnl
include(<|wo_a_sm90_common.m4|>)dnl
include(<|wo_a_sm90_steps.m4|>)dnl
// SPDX-License-Identifier: Apache-2.0
//
// wo_a for Hopper: inverse RoPE + MXFP8 quantization + grouped WO-A projection.
//
wo_a_facts
fact(<|attr.trigger|>, TRIGGER)
divert(1)dnl
//
wo_a_prototype
//
remark(<|Launch: grid (|>HEADS<| * N/128, 1, 1), block (|>THREADS<|, 1, 1), cluster (|>HEADS<|, 1, 1).|>)
// CTA c: rank c % heads = the head of its group; n tile c / heads.  All tokens are one tile.
wo_a_fullness
//
// Shared memory, dynamic, the start 1024-byte aligned:
//   offset   bytes  field
shared_field(<|S_W|>, STAGES * W_STAGE, 1024, <|weights: stage, row, 128 bytes of K; 128B swizzle|>)
shared_field(<|S_X|>, BLOCKS * X_BLOCK, 1024, <|activations: block, slot|>)
shared_field(<|S_W_SCALES|>, STAGES * SCALE_STAGE, 128, <|scale words: stage, row|>)
shared_field(<|S_X_SCALES|>, BLOCKS * XS_BLOCK, 16, <|scales: block, token|>)
shared_field(<|S_LOADED|>, STAGES * 8, 8, <|mbarrier a stage: weights are in|>)
shared_field(<|S_SCALES_LOADED|>, 8, 8, <|mbarrier: scale words are in|>)
shared_field(<|S_REDUCED|>, 8, 8, <|mbarrier: the inbox is full|>)
m4_if(HEADS > 1, <|shared_field(<|S_INBOX|>, INBOX_TOTAL, 16, <|partial sums: sender, weight row, slot|>)
|>, <|constant(<|S_INBOX|>, S_W)|>)dnl
divert(0)dnl
fact(<|shared_dynamic|>, SHARED_BYTES)
undivert(1)dnl
//
// The sums of the second half of K take the place of the weights that their warp has read.
m4_if(HEADS == 1, <|dnl
remark(<|The partial sums (sender, weight row, slot: |>INBOX_TOTAL<| bytes) take the place of weights|>)
// that are used up.
|>)dnl
//
// Barriers.  Every mbarrier completes one phase: its waiters ask for parity 0.
//   S_LOADED         1 arrival with the bytes of the weight box
//   S_SCALES_LOADED  1 arrival with the bytes of the scale box
m4_if(HEADS > 1, <|dnl
//   S_REDUCED        1 arrival with the bytes of all partial sums we own
|>, <|dnl
remark(<|  S_REDUCED        |>eval(ROW_WARPS * 32)<| arrivals, one a thread of the first half|>)
|>)dnl
//   bar 1 .. 8       the two warps of 16 weight rows: the sums of the second are in
m4_if(HEADS == 1, <|dnl
remark(<|  bar |>BARRIER_USED_UP<|           first half of K: the weights under the sums are used up|>)
|>, <|dnl
//   cluster barrier  S_REDUCED is set up
|>)dnl
//
// Registers that live throughout, by role:
//   smem              start of our shared memory (shared::cta address)
//   tid, lane, warp   thread in the CTA, in the warp; warp in the CTA
//   rank, n_tile      CTA in the cluster = head in the group; tile of 128 outputs
//   first_row         first token of our tile, in the call
//   row_warp, k_part  of the warp: 16 weight rows of 8, half of K
//   leader            predicate: the one thread that drives copies and triggers
//   flag_bits         parameter flags
//   in_eight, in_four lane 4g + q: g and q, its place in the fragments of an mma
//
// Measured on an H200, with H = 8 and R = 1024: TUNING.md.

.version 9.0
.target sm_90a
.address_size 64

wo_a_entry
{
  .reg .pred leader;
  .reg .b32 smem, tid, lane, warp, rank, n_tile, first_row;

  // ---- who and where we are ---------------------------------------------------------
  .reg .pred elected;
  .reg .b32 cta;
  mov.u32 smem, dynamic_shared;
  mov.u32 tid, %tid.x;
  and.b32 lane, tid, 31;
  shr.u32 warp, tid, 5;
  mov.u32 cta, %ctaid.x;
  place_in_cluster(cta)
  mov.u32 first_row, 0;  // one tile has all tokens
  elect.sync _|elected, 0xffffffff;
  setp.eq.and.u32 leader, warp, 0, elected;

  .reg .b32 flag_bits;
  .reg .pred trigger_late, trigger_entry, trigger_after_wait;
  ld.param.u32 flag_bits, [flags];
  {
    .reg .b32 trigger;
    and.b32 trigger, flag_bits, FLAG_TRIGGER;  // FLAG_TRIGGER
    setp.eq.and.u32 trigger_late, trigger, 0, leader;
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
  mbarrier_create(AT(S_REDUCED), m4_if(HEADS > 1, 1, eval(ROW_WARPS * 32)))
  mbarrier_create_fence
  request_weights
  only_end_apart

  // The group needs a division: it follows the big copies.
  .reg .b32 group, tile_in_group;
  group_of_tile(group, tile_in_group)

  only_begin(scales_requested, leader)
  request_scales
m4_if(HEADS > 1, <|dnl
  // What the inbox will hold: our tokens rank, rank + HEADS, .. below TILE, from each head.
  expect_inbox
|>)dnl
  only_end_apart

  // ---- which thread holds what ----------------------------------------------------------
  // A thread holds 8 neighbouring elements ("chunk") of one token.
  .reg .pred rotary, rotary_warp, first_of_4;
  .reg .b32 chunk, block, our_token, x_row;
  and.b32 chunk, tid, eval(TOKEN_THREADS - 1);  // tid % TOKEN_THREADS
  shr.u32 our_token, tid, m4_log2(TOKEN_THREADS);  // tid / TOKEN_THREADS
  shr.u32 block, chunk, 2;
  add.u32 x_row, first_row, our_token;  // our token, in the call
  setp.ge.u32 rotary, chunk, ROTARY_CHUNK;  // ROTARY_CHUNK
  setp.ge.u32 rotary_warp, chunk, eval(TOKEN_THREADS - 32);  // its lanes 24..31 are rotary
  .reg .pred has_token;  // there are threads for 8
  setp.lt.u32 has_token, our_token, TILE;  // TILE

  .reg .b64 x_from, x_stride, position_from, rope_from;
  {
    .reg .b64 column;
    .reg .b32 head, offset;
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
    sub.u32 offset, offset, eval(16 * ROTARY_CHUNK);  // 4 pairs of 4 bytes; used where rotary
    cvt.u64.u32 column, offset;
    add.u64 rope_from, rope_from, column;
  }

  .reg .b32 x_to, scale_to;
  {
    .reg .b32 slot, part;
    and.b32 slot, chunk, 1;
    shl.b32 slot, slot, 1;  // first quarter
    and.b32 part, block, eval(X_TOKENS - 1);
    xor.b32 part, part, our_token;
    mad.lo.u32 slot, part, 4, slot;  // (token ^ block % X_TOKENS) * 4 + quarter
    shr.u32 part, chunk, 1;
    and.b32 part, part, 1;  // half of the block
    mad.lo.u32 x_to, block, X_BLOCK, smem;  // X_BLOCK
    mad.lo.u32 x_to, slot, 16, x_to;
    mad.lo.u32 x_to, part, 8, x_to;
    mad.lo.u32 scale_to, block, XS_BLOCK, smem;  // XS_BLOCK
    mad.lo.u32 scale_to, our_token, 4, scale_to;
    and.b32 part, chunk, 3;
    setp.eq.u32 first_of_4, part, 0;  // stores the scale of its block
  }

  // And as part of the product: lane 4g + q has weight rows g and g + 8 of its warp's 16.
  .reg .b32 row_warp, k_part, in_eight, in_four, row;
  and.b32 row_warp, warp, eval(ROW_WARPS - 1);
  shr.u32 k_part, warp, m4_log2(ROW_WARPS);
  shr.u32 in_eight, lane, 2;  // g
  and.b32 in_four, lane, 3;  // q
  mad.lo.u32 row, row_warp, WARP_ROWS, in_eight;

  .reg .b32 w_from, loaded;
  mad.lo.u32 loaded, k_part, eval(8 * PART_STAGES), smem;
  {
    .reg .b32 matrix, w_row, piece;
    shr.u32 matrix, lane, 3;  // of the four that ldmatrix reads
    and.b32 w_row, lane, 7;
    shr.u32 piece, matrix, 1;  // its 16 bytes of the block's 32
    xor.b32 piece, piece, w_row;  // swizzle
    and.b32 matrix, matrix, 1;
    mad.lo.u32 w_row, matrix, 8, w_row;
    mad.lo.u32 w_row, row_warp, WARP_ROWS, w_row;
    mad.lo.u32 w_from, w_row, STAGE_K, smem;
    mad.lo.u32 w_from, k_part, eval(PART_STAGES * W_STAGE), w_from;
    mad.lo.u32 w_from, piece, 16, w_from;
  }

  bar.sync 0;  // the barriers are ready for our threads
m4_if(HEADS > 1, <|dnl
  cluster_arrive_relaxed  // S_REDUCED for the peers, once they waited
|>)dnl

  // ---- x, positions and rope belong to earlier kernels until here ---------------------
  pdl_wait
  pdl_trigger_if(trigger_after_wait)

  // Every load is issued before any arithmetic: positions, x, then rope.
  .reg .b64 position;
  only_begin(positions_requested, rotary)
  {
    .reg .b64 address;
    mad.wide.u32 address, x_row, 8, position_from;
    @has_token ld.global.b64 position, [address];
  }
  only_end_apart

  .reg .b32 c<4>;  // the chunk, two elements a register
  {
    .reg .b64 address, token_wide;
    cvt.u64.u32 token_wide, x_row;
    mad.lo.u64 address, token_wide, x_stride, x_from;
    @has_token ld.global.v4.b32 {m4_list(<|J|>, 0, 3, <|c<||>J|>)}, [address];
  }

m4_if(SPREAD, <|dnl
  // ---- scales of the rows, while the loads are under way --------------------------------
  // Lane 4g + q will have columns 2q and 2q + 1 of rows g and g + 8.
  .reg .b32 row_scale_a<2>, row_scale_b<2>;  // T = 1: of the two columns; T = 2: of the sets
  mbarrier_wait(AT(S_SCALES_LOADED), 0)
  {
    .reg .b32 at, offset, byte;
    mad.lo.u32 at, row, 4, smem;
    mad.lo.u32 at, k_part, eval(PART_STAGES * SCALE_STAGE), at;
m4_if(TILE == 1, <|dnl
    shr.u32 offset, in_four, 1;  // block 2q + i: word of q / 2
    mad.lo.u32 at, offset, SCALE_STAGE, at;
    and.b32 offset, in_four, 1;
    mad.lo.u32 at, offset, 2, at;
|>, <|dnl
    add.u32 at, at, in_four;  // block 4 * set + q
|>)dnl
m4_for(<|J|>, 0, 1, <|
    ld.shared.u8 byte, [at+eval(S_W_SCALES + J * m4_if(TILE == 1, 1, SCALE_STAGE))];  // S_W_SCALES
    shl.b32 row_scale_a<||>J, byte, 23;
    ld.shared.u8 byte, [at+eval(S_W_SCALES + J * m4_if(TILE == 1, 1, SCALE_STAGE) + 32)];
    shl.b32 row_scale_b<||>J, byte, 23;
|>)dnl
  }

|>)dnl
  // ---- rotate back, quantize, store as the tensor core wants it -------------------------
  .reg .f32 v<CHUNK_ELEMENTS>;
  rotate_and_quantize

  // ---- scale bytes of rows that no token has are zero -----------------------------------
  {
    .reg .pred mine;
    setp.eq.u32 mine, warp, eval(THREADS / 32 - 1);
    setp.eq.and.u32 mine, rank, eval(HEADS - 1), mine;
    zero_missing_scales(mine, n_tile)
  }

  // ---- the product: a warp has 16 weight rows, all tokens, half of K ----------------------
  .reg .f32 zero, acc<eval(4 * SETS)>;
  mov.f32 zero, F32_ZERO;
m4_if(SPREAD, <|dnl
m4_for(<|J|>, 0, 4 * SETS - 1, <|
  mov.f32 acc<||>J, F32_ZERO;
|>)dnl
|>, <|dnl
  .reg .b32 xs_lane, x_lane, scales_from;
  .reg .pred extreme;  // the long way to apply scales
  and.b32 x_lane, lane, eval(4 * X_TOKENS - 1);  // slot; columns past the tokens repeat them
  mad.lo.u32 x_lane, x_lane, 16, smem;
  mad.lo.u32 x_lane, k_part, eval(PART_BLOCKS * X_BLOCK), x_lane;
  mad.lo.u32 xs_lane, in_four, 8, smem;
  mad.lo.u32 xs_lane, k_part, eval(PART_BLOCKS * XS_BLOCK), xs_lane;
  mbarrier_wait(AT(S_SCALES_LOADED), 0)
  {
    // A NaN among the scales of a row makes its sums NaN from the start.
    .reg .f32 start_a, start_b;
    .reg .b32 scales_a<PART_STAGES>, scales_b<PART_STAGES>;
    mad.lo.u32 scales_from, row, 4, smem;
    mad.lo.u32 scales_from, k_part, eval(PART_STAGES * SCALE_STAGE), scales_from;
m4_for(<|STAGE|>, 0, PART_STAGES - 1, <|
    ld.shared.b32 scales_a<||>STAGE, [scales_from+eval(S_W_SCALES + STAGE * SCALE_STAGE)];  // S_W_SCALES
    ld.shared.b32 scales_b<||>STAGE, [scales_from+eval(S_W_SCALES + STAGE * SCALE_STAGE + 32)];
|>)dnl
    setp.ne.u32 extreme, lane, lane;
    inspect_scales(start_a, extreme, scales_a)
    inspect_scales(start_b, extreme, scales_b)
    vote.sync.any.pred extreme, extreme, 0xffffffff;
m4_for(<|J|>, 0, SETS - 1, <|
    mov.f32 ACC(J, 0), start_a;
    mov.f32 ACC(J, 1), start_a;
    mov.f32 ACC(J, 2), start_b;
    mov.f32 ACC(J, 3), start_b;
|>)dnl
  }
|>)dnl
  bar.sync 0;  // the activations are in
m4_if(SPREAD, <|dnl

  // Where B of our column is, for all blocks that share one.
  .reg .b32 b<4>, x_at;
  {
    .reg .b32 column_block, token, part;
    shr.u32 column_block, in_eight, m4_log2(TILE);  // column = block * T + token
    and.b32 token, in_eight, eval(TILE - 1);
    and.b32 part, column_block, eval(X_TOKENS - 1);
    xor.b32 part, part, token;
    mad.lo.u32 x_at, part, 64, smem;
    mad.lo.u32 x_at, in_four, 16, x_at;  // slot ^ block % X_TOKENS
    mad.lo.u32 part, k_part, PART_BLOCKS, column_block;
    mad.lo.u32 x_at, part, X_BLOCK, x_at;  // X_BLOCK
  }
|>)dnl
m4_for(<|STAGE|>, 0, PART_STAGES - 1, <|

  remark(<|stage |>STAGE<| of our half|>)
  mbarrier_wait(loaded+eval(S_LOADED + 8 * STAGE), 0)
m4_if(STAGE == PART_STAGES - 1, <|dnl
  pdl_trigger_if(trigger_late)
|>)dnl
  {
    .reg .b32 w<eval(4 * STAGE_BLOCKS)>;
m4_if(!SPREAD, <|dnl
    .reg .b32 scales_a, scales_b;
    ld.shared.b32 scales_a, [scales_from+eval(S_W_SCALES + STAGE * SCALE_STAGE)];  // S_W_SCALES
    ld.shared.b32 scales_b, [scales_from+eval(S_W_SCALES + STAGE * SCALE_STAGE + 32)];
|>)dnl
m4_for(<|STEP|>, 0, STAGE_BLOCKS - 1, <|
m4_if(SPREAD, <|m4_if((STAGE_BLOCKS * STAGE + STEP) % COLUMN_BLOCKS == 0, <|dnl
    ld.shared.v4.b32 {b0, b1, b2, b3}, [x_at+eval(S_X + (STAGE_BLOCKS * STAGE + STEP) * X_BLOCK)];  // S_X
|>)|>)dnl
m4_if(STEP % LOAD_BLOCKS == 0, <|dnl
    load_blocks(STAGE, STEP, STEP + LOAD_BLOCKS - 1)
|>)dnl
    m4_if(SPREAD, <|multiply_spread(STAGE, STEP)|>, <|multiply_by_column(STAGE, STEP)|>)
|>)dnl
  }
|>)dnl

  // ---- the partial sums -----------------------------------------------------------------
m4_if(SPREAD, <|dnl
  .reg .b32 token_scale<4>;
  {
    .reg .b32 at;
    mad.lo.u32 at, k_part, eval(PART_BLOCKS * XS_BLOCK), smem;
    mad.lo.u32 at, in_four, eval(COLUMN_BLOCKS / 4 * XS_BLOCK), at;
m4_for(<|SET|>, 0, SETS - 1, <|
m4_for(<|J|>, 0, 1, <|
    ld.shared.b32 token_scale<||>eval(2 * SET + J), [at+eval(S_X_SCALES + m4_if(TILE == 1, J * XS_BLOCK, SET * COLUMN_BLOCKS * XS_BLOCK + 4 * J))];  // S_X_SCALES
|>)dnl
|>)dnl
  }
  .reg .f32 total<eval(4 * SETS)>;
m4_for(<|SET|>, 0, SETS - 1, <|
m4_for(<|J|>, 0, 3, <|
  start_of_scale(total<||>eval(4 * SET + J), m4_if(J / 2, row_scale_b, row_scale_a)<||>m4_if(TILE == 1, eval(J % 2), SET))
  add_scaled_evenly(total<||>eval(4 * SET + J), ACC(SET, J), m4_if(J / 2, row_scale_b, row_scale_a)<||>m4_if(TILE == 1, eval(J % 2), SET), token_scale<||>eval(2 * SET + J % 2))
  mov.f32 ACC(SET, J), total<||>eval(4 * SET + J);
|>)dnl
|>)dnl
m4_for(<|SET|>, 1, SETS - 1, <|
m4_for(<|J|>, 0, 3, <|
  add.rn.f32 acc<||>J, acc<||>J, ACC(SET, J);
|>)dnl
|>)dnl
m4_if(TILE == 1, <|dnl
  add.rn.f32 acc0, acc0, acc1;
  add.rn.f32 acc2, acc2, acc3;
|>)dnl
  {
    .reg .f32 other;
m4_for(<|J|>, 0, 1, <|
m4_for(<|K|>, 0, 3, <|
m4_if(K % 2 == 0 || TILE == 2, <|dnl
    shfl.sync.bfly.b32 other, acc<||>K, eval(1 << J), 0x1f, 0xffffffff;
    add.rn.f32 acc<||>K, acc<||>K, other;
|>)dnl
|>)dnl
|>)dnl
  }
|>)dnl

  // The second half of K to the first, over the weights that this warp alone has read.
  {
    .reg .pred second_half;
    .reg .b32 sums, pair;
    mad.lo.u32 sums, row_warp, eval(WARP_ROWS * STAGE_K), smem;
    mad.lo.u32 sums, lane, 16, sums;
    add.u32 sums, sums, eval(S_W + PART_STAGES * W_STAGE);  // S_W, first stage of the half
    add.u32 pair, row_warp, 1;
    setp.ne.u32 second_half, k_part, 0;
    warps_begin(second_half_sent, second_half)
    bar.warp.sync 0xffffffff;  // all lanes have read
    st.shared.v4.f32 [sums], {m4_list(<|J|>, 0, 3, <|acc<||>J|>)};
    bar.arrive pair, 64;
    bra.uni send_done;
    warps_end
    bar.sync pair, 64;
    {
      .reg .f32 other<4>;
      ld.shared.v4.f32 {m4_list(<|J|>, 0, 3, <|other<||>J|>)}, [sums];
m4_for(<|J|>, 0, 3, <|
      add.rn.f32 acc<||>J, acc<||>J, other<||>J;
|>)dnl
    }
  }

  // ---- every token of the tile to its owner, token t to rank t % heads -------------------
m4_if(HEADS > 1, <|dnl
  cluster_wait  // every peer is ready to receive
|>, <|dnl
  bar.sync BARRIER_USED_UP, eval(ROW_WARPS * 32);  // the weights under the sums
|>)dnl
  {
    .reg .b32 inbox;  // of our rows, as a sender
    mad.lo.u32 inbox, rank, INBOX_PEER, smem;  // INBOX_PEER
m4_if(SPREAD, <|dnl
    // Every lane of the four has every sum: lane q sends one.
    .reg .pred odd_quarter, sends;
    .reg .f32 value;
    .reg .b32 token, half, bit;
    and.b32 bit, in_four, 1;
    setp.ne.u32 odd_quarter, bit, 0;
    selp.f32 value, acc2, acc0, odd_quarter;  // row g + 8, row g
    shr.u32 token, in_four, 1;
m4_if(TILE == 2, <|dnl
    .reg .pred second;
    .reg .f32 value1;
    selp.f32 value1, acc3, acc1, odd_quarter;
    setp.ne.u32 second, token, 0;
    selp.f32 value, value1, value, second;
|>)dnl
    mad.lo.u32 half, bit, 8, row;
    mad.lo.u32 inbox, half, eval(CHUNK * 4), inbox;
    add.u32 inbox, inbox, S_INBOX;  // S_INBOX
    setp.lt.u32 sends, token, TILE;  // TILE
    only_begin(sent, sends)
    send_value(value, token, inbox)
    only_end_apart
|>, RANK_A_COLUMN, <|dnl
    // Column 2q + i belongs to rank 2q + i.
    mad.lo.u32 inbox, row, eval(CHUNK * 4), inbox;
m4_for(<|ODD|>, 0, 1, <|
    {
      .reg .b32 owner, to, to_reduced;
      mad.lo.u32 owner, in_four, 2, ODD;
      .reg .pred sends;
      setp.lt.u32 sends, owner, TILE;  // TILE
      only_begin(sent, sends)
      peer_address(to, inbox, owner)
      add.u32 to_reduced, smem, S_REDUCED;  // S_REDUCED
      peer_address(to_reduced, to_reduced, owner)
      send_words(to, S_INBOX, to_reduced, acc<||>ODD)
      send_words(to, eval(S_INBOX + 8 * CHUNK * 4), to_reduced, acc<||>eval(2 + ODD))
      only_end_apart
    }
|>)dnl
|>, <|dnl
    mad.lo.u32 inbox, row, eval(CHUNK * 4), inbox;
    add.u32 inbox, inbox, S_INBOX;  // S_INBOX
    .reg .b32 inbox_b;
    add.u32 inbox_b, inbox, eval(8 * CHUNK * 4);
m4_for(<|ODD|>, 0, 1, <|
    {
      .reg .b32 token;
      mad.lo.u32 token, in_four, 2, ODD;
      .reg .pred sends;
      setp.lt.u32 sends, token, TILE;  // TILE
      only_begin(sent, sends)
      send_value(acc<||>ODD, token, inbox)
      send_value(acc<||>eval(2 + ODD), token, inbox_b)
      only_end_apart
    }
|>)dnl
|>)dnl
  }

m4_if(HEADS > 1, <|dnl
  exit;  // st.async takes registers along: nothing of ours is needed any more

send_done:
  cluster_wait  // every thread that arrived waits
|>, <|dnl
  mbarrier_arrive(AT(S_REDUCED))
  exit;

send_done:
|>)dnl

  // ---- who sums what: thread = one weight row, half of the slots -------------------------
  .reg .pred lane0;
  .reg .b32 n, n_row, quarter, part, out_row, end, inbox_row;
m4_if(HEADS > 1 && TILE < HEADS, <|dnl
  // A rank that owns no token is done.  Nobody sends to it.
  {
    .reg .pred idle;
    setp.ge.u32 idle, rank, TILE;  // TILE
    @idle exit;
  }
|>)dnl
m4_if(SUM_HALVES == 1 && HEADS > 1, <|dnl
  {
    .reg .pred idle;
    setp.ge.u32 idle, tid, eval(FIRST_SUM_THREAD + TILE_N);
    @idle exit;
  }
|>)dnl
  and.b32 n_row, tid, eval(TILE_N - 1);
  shr.u32 part, tid, m4_log2(TILE_N);
  and.b32 part, part, 1;
  shr.u32 quarter, n_row, 5;
  setp.eq.u32 lane0, lane, 0;
  mad.lo.u32 inbox_row, n_row, eval(CHUNK * 4), smem;
  add.u32 out_row, first_row, rank;  // token of our first slot
m4_if(SUM_HALVES == 2, <|dnl
  mad.lo.u32 inbox_row, part, eval(SUM_WORDS * 4), inbox_row;
  mad.lo.u32 out_row, part, eval(SUM_WORDS * HEADS), out_row;
|>)dnl
  add.u32 end, first_row, TILE;  // TILE: past the last token
  .reg .b64 q_to, qs_tile;
  {
    .reg .b64 address;
    .reg .b32 column;
    ld.param.u32 n, [n_total];
    ld.param.u64 address, [q];
    cvta.to.global.u64 address, address;
    mad.lo.u32 column, n_tile, TILE_N, n_row;
    cvt.u64.u32 q_to, column;
    add.u64 q_to, q_to, address;
    ld.param.u64 address, [qs];
    cvta.to.global.u64 address, address;
    mad.wide.u32 qs_tile, n_tile, QS_TILE, address;  // QS_TILE
  }
m4_if(HEADS > 1, <|dnl
  mbarrier_wait_cluster(AT(S_REDUCED), 0)
|>, <|dnl
  mbarrier_wait(AT(S_REDUCED), 0)
m4_if(SUM_HALVES == 1, <|dnl
  {
    .reg .pred idle;
    setp.ge.u32 idle, tid, eval(FIRST_SUM_THREAD + TILE_N);
    @idle exit;
  }
|>)dnl
|>)dnl

  // ---- sum in the order of heads, round to bf16, quantize, store --------------------------
  {
    .reg .f32 s<SUM_WORDS>, w<SUM_WORDS>;
m4_for(<|PEER|>, 0, HEADS - 1, <|
    ld.shared<||>m4_if(SUM_WORDS > 1, <|.v|>SUM_WORDS).f32 m4_if(SUM_WORDS > 1, <|{w0, w1}|>, <|w0|>), [inbox_row+eval(S_INBOX + PEER * INBOX_PEER)];
m4_for(<|WORD|>, 0, SUM_WORDS - 1, <|
    add.rn.f32 s<||>WORD, m4_if(PEER, <|s<||>WORD|>, F32_ZERO), w<||>WORD;
|>)dnl
|>)dnl
m4_for(<|WORD|>, 0, SUM_WORDS - 1, <|
    store_output(s<||>WORD, eval(WORD * HEADS), lane0)
|>)dnl
  }
  exit;
}
