include(`prelude.m4')dnl
include(<|mbarrier.m4|>)dnl
include(<|tma.m4|>)dnl
include(<|pdl.m4|>)dnl
include(<|cluster.m4|>)dnl
include(<|quantize.m4|>)dnl
include(<|wo_a_common.m4|>)dnl
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
remark(<|Launch: grid (|>HEADS<| * N/128, |>TILES<|, 1), block (|>THREADS<|, 1, 1), cluster (|>HEADS<|, 1, 1).|>)
// CTA (c, y): token tile y; rank c % heads = the head of its group; n tile c / heads.
wo_a_fullness
//
// Shared memory, dynamic, the start 1024-byte aligned:
//   offset   bytes  field
shared_field(<|S_W|>, STAGES * W_STAGE, 1024, <|weights: stage, row, 128 bytes of K; 128B swizzle|>)
shared_field(<|S_X|>, BLOCKS * X_BLOCK, 512, <|activations: block, 8 tokens, slot|>)
shared_field(<|S_W_SCALES|>, STAGES * SCALE_STAGE, 128, <|scale words: stage, row|>)
shared_field(<|S_X_SCALES|>, BLOCKS * XS_BLOCK, 16, <|scales: block, token|>)
m4_if(SPREAD, <|shared_field(<|S_ZEROS|>, 16, 16, <|the slot of a column that is not the block|>)
|>)dnl
shared_field(<|S_LOADED|>, STAGES * 8, 8, <|mbarrier a stage: weights are in|>)
shared_field(<|S_SCALES_LOADED|>, 8, 8, <|mbarrier: scale words are in|>)
m4_if(HEADS > 1, <|shared_field(<|S_REDUCED|>, 8, 8, <|mbarrier: the inbox is full|>)
|>)dnl
divert(0)dnl
constant(<|S_INBOX|>, S_W)
fact(<|shared_dynamic|>, SHARED_BYTES)
undivert(1)dnl
//
remark(<|The inbox (sender, chunk, weight row, slot: |>INBOX_TOTAL<| bytes) takes the place of the|>)
remark(<|first |>eval(FREED_STAGE + 1)<| stage(s) of the weights.|>)
//
// Barriers.  Every mbarrier completes one phase: its waiters ask for parity 0.
//   S_LOADED         1 arrival with the bytes of the weight box
//   S_SCALES_LOADED  1 arrival with the bytes of the scale box
m4_if(HEADS > 1, <|dnl
//   S_REDUCED        1 arrival with the bytes of all partial sums we own
//   cluster barrier: S_REDUCED is set up, and the weights under the inbox are used up
|>)dnl
//
// Registers that live throughout, by role:
//   smem              start of our shared memory (shared::cta address)
//   tid, lane, warp   thread in the CTA, in the warp; warp in the CTA
//   rank, n_tile      CTA in the cluster = head in the group; tile of 128 outputs
//   first_row         first token of our tile, in the call
//   leader            predicate: the one thread that drives copies and triggers

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
m4_if(TILES > 1, <|dnl
  mov.u32 first_row, %ctaid.y;
  mul.lo.u32 first_row, first_row, TILE;  // TILE
|>, <|dnl
  mov.u32 first_row, 0;
|>)dnl
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
m4_if(HEADS > 1, <|dnl
  mbarrier_create(AT(S_REDUCED), 1)
|>)dnl
  mbarrier_create_fence
  request_weights
  only_end

  // The group needs a division: it follows the big copies.
  .reg .b32 group, tile_in_group;
  group_of_tile(group, tile_in_group)

  only_begin(scales_requested, leader)
  request_scales
m4_if(HEADS > 1, <|dnl
m4_if(WHOLE_VECTORS && TILE > HEADS, <|dnl
  // What the inbox will hold: as many words for every rank, those of missing tokens too.
  mbarrier_arrive_expect(AT(S_REDUCED), INBOX_BYTES)
|>, <|dnl
  expect_inbox
|>)dnl
|>)dnl
  only_end

  // ---- which thread holds what ----------------------------------------------------------
  // A thread holds 8 neighbouring elements ("chunk") of one token an iteration.
  .reg .pred rotary, rotary_warp, first_of_4;
  .reg .b32 chunk, block, first_token, x_row;
  and.b32 chunk, tid, eval(TOKEN_THREADS - 1);  // tid % TOKEN_THREADS
  shr.u32 first_token, tid, m4_log2(TOKEN_THREADS);  // tid / TOKEN_THREADS
  shr.u32 block, chunk, 2;
  add.u32 x_row, first_row, first_token;  // our first token, in the call
  setp.ge.u32 rotary, chunk, ROTARY_CHUNK;  // ROTARY_CHUNK
  setp.ge.u32 rotary_warp, chunk, eval(TOKEN_THREADS - 32);  // its lanes 24..31 are rotary
m4_if(LAST_TOKENS, <|dnl
  .reg .pred in_last;  // of the last iteration only the first tokens exist
  setp.lt.u32 in_last, first_token, LAST_TOKENS;  // LAST_TOKENS
|>)dnl
m4_if(!FULL, <|dnl
  .reg .b32 last_row;  // rows past the end repeat it
  ld.param.u32 last_row, [tokens];
  sub.u32 last_row, last_row, 1;
|>)dnl

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

  .reg .b32 x_to<||>m4_if(ITERATIONS > 1, <|, x_to_odd|>), scale_to;
  {
    .reg .b32 slot, part;
    and.b32 slot, chunk, 1;
    shl.b32 slot, slot, 1;  // first quarter
    and.b32 part, block, 7;
    xor.b32 part, part, first_token;
    mad.lo.u32 slot, part, 4, slot;  // (token ^ block % 8) * 4 + quarter
    shr.u32 part, chunk, 1;
    and.b32 part, part, 1;  // half of the block
    mad.lo.u32 x_to, block, X_BLOCK, smem;  // X_BLOCK
    mad.lo.u32 x_to, slot, 16, x_to;
    mad.lo.u32 x_to, part, 8, x_to;
m4_if(ITERATIONS > 1, <|dnl
    xor.b32 x_to_odd, x_to, 256;  // odd iterations: token % 8 is larger by 4
|>)dnl
    mad.lo.u32 scale_to, block, XS_BLOCK, smem;  // XS_BLOCK
    mad.lo.u32 scale_to, first_token, 4, scale_to;
    and.b32 part, chunk, 3;
    setp.eq.u32 first_of_4, part, 0;  // stores the scale of its block
  }

  // And as part of the product: lane 4g + q has weight rows g and g + 8 of its warp's 16.
  .reg .b32 in_eight, in_four, row;
  shr.u32 in_eight, lane, 2;  // g
  and.b32 in_four, lane, 3;  // q
  mad.lo.u32 row, warp, WARP_ROWS, in_eight;

  .reg .b32 w_from<STAGE_BLOCKS>;
  {
    .reg .b32 matrix, w_row, piece;
    shr.u32 matrix, lane, 3;  // of the four that ldmatrix reads
    and.b32 w_row, lane, 7;
    shr.u32 piece, matrix, 1;  // its 16 bytes of the block's 32
    xor.b32 piece, piece, w_row;  // swizzle
    and.b32 matrix, matrix, 1;
    mad.lo.u32 w_row, matrix, 8, w_row;
    mad.lo.u32 w_row, warp, WARP_ROWS, w_row;
    mad.lo.u32 w_from0, w_row, STAGE_K, smem;
    mad.lo.u32 w_from0, piece, 16, w_from0;
m4_for(<|STEP|>, 1, STAGE_BLOCKS - 1, <|
    xor.b32 w_from<||>STEP, w_from0, eval(STEP * BLOCK);
|>)dnl
  }

  bar.sync 0;  // the barriers are ready for our threads

  // ---- x, positions and rope belong to earlier kernels until here ---------------------
  pdl_wait
  pdl_trigger_if(trigger_after_wait)

  // Every load is issued before any arithmetic: positions, x, then rope.
  .reg .b64 position<ITERATIONS>;
  only_begin(positions_requested, rotary)
  {
    .reg .b64 address;
m4_if(FULL, <|dnl
    mad.wide.u32 address, x_row, 8, position_from;
m4_for(<|I|>, 0, ITERATIONS - 1, <|
    GUARD(I)ld.global.b64 position<||>I, [address+eval(8 * TOKENS_PER_ITERATION * I)];
|>)dnl
|>, <|dnl
    .reg .b32 token;
m4_for(<|I|>, 0, ITERATIONS - 1, <|
    existing_row(token, I)
    mad.wide.u32 address, token, 8, position_from;
    GUARD(I)ld.global.b64 position<||>I, [address];
|>)dnl
|>)dnl
  }
  only_end

  .reg .b32 c<eval(4 * ITERATIONS)>;  // the chunks, two elements a register
  {
    .reg .b64 address, token_wide;
m4_if(FULL, <|dnl
    cvt.u64.u32 token_wide, x_row;
    mad.lo.u64 address, token_wide, x_stride, x_from;
m4_if(ITERATIONS > 1, <|dnl
    mul.lo.u64 x_stride, x_stride, TOKENS_PER_ITERATION;  // bytes an iteration
|>)dnl
m4_for(<|I|>, 0, ITERATIONS - 1, <|
    GUARD(I)ld.global.v4.b32 {m4_list(<|J|>, 4 * I, 4 * I + 3, <|c<||>J|>)}, [address];
m4_if(I < ITERATIONS - 1, <|dnl
    add.u64 address, address, x_stride;
|>)dnl
|>)dnl
|>, <|dnl
    .reg .b32 token;
m4_for(<|I|>, 0, ITERATIONS - 1, <|
    existing_row(token, I)
    cvt.u64.u32 token_wide, token;
    mad.lo.u64 address, token_wide, x_stride, x_from;
    GUARD(I)ld.global.v4.b32 {m4_list(<|J|>, 4 * I, 4 * I + 3, <|c<||>J|>)}, [address];
|>)dnl
|>)dnl
  }

  // ---- rotate back, quantize, store as the tensor core wants it -------------------------
  .reg .f32 v<eval(CHUNK_ELEMENTS * ITERATIONS)>;
m4_for(<|FIRST|>, 0, m4_ceil_div(ITERATIONS, BATCH) - 1, <|
m4_quantize_batch(eval(FIRST * BATCH), eval(m4_min(ITERATIONS, (FIRST + 1) * BATCH) - 1), FIRST)
|>)dnl
m4_if(SPREAD, <|dnl
  {
    .reg .pred first;
    setp.eq.u32 first, tid, 0;
    @first st.shared.v4.b32 [AT(S_ZEROS)], {0, 0, 0, 0};
  }
|>)dnl

  // ---- scale bytes of rows that no token has are zero -----------------------------------
m4_if(TILE * TILES < QS_ROWS || !FULL, <|dnl
  {
    .reg .pred mine;
    setp.eq.u32 mine, warp, 7;
    setp.eq.and.u32 mine, rank, eval(HEADS - 1), mine;
m4_if(TILES > 1, <|dnl
    setp.eq.and.u32 mine, first_row, 0, mine;
|>)dnl
    zero_missing_scales(mine)
  }
|>)dnl

  // ---- the product: a warp has 16 weight rows, all tokens -------------------------------
  .reg .f32 zero, acc<eval(4 * SETS)>;
  .reg .b32 x_lane;
  mov.f32 zero, F32_ZERO;
  mbarrier_wait(AT(S_SCALES_LOADED), 0)
m4_if(SPREAD, <|dnl
  .reg .b32 column_block, column_token, zeros;
  shr.u32 column_block, in_eight, m4_log2(TILE);  // in_eight / TILE
  and.b32 column_token, in_eight, eval(TILE - 1);  // in_eight % TILE
  add.u32 zeros, smem, S_ZEROS;  // S_ZEROS
  mad.lo.u32 x_lane, column_token, 64, smem;
  mad.lo.u32 x_lane, in_four, 16, x_lane;
m4_for(<|J|>, 0, 4 * SETS - 1, <|
  mov.f32 acc<||>J, F32_ZERO;
|>)dnl
|>, <|dnl
  .reg .b32 xs_lane, scales_a<STAGES>, scales_b<STAGES>;
  mad.lo.u32 x_lane, lane, 16, smem;
  mad.lo.u32 xs_lane, in_four, 8, smem;
  {
    // A NaN among the scales of a row makes its sums NaN from the start.
    .reg .pred nan_a, nan_b;
    .reg .f32 start_a, start_b;
    .reg .b32 words;
    mad.lo.u32 words, row, 4, smem;
m4_for(<|STAGE|>, 0, STAGES - 1, <|
    ld.shared.b32 scales_a<||>STAGE, [words+eval(S_W_SCALES + STAGE * SCALE_STAGE)];  // S_W_SCALES
    ld.shared.b32 scales_b<||>STAGE, [words+eval(S_W_SCALES + STAGE * SCALE_STAGE + 32)];
|>)dnl
    flag_nan_scales(nan_a, scales_a)
    flag_nan_scales(nan_b, scales_b)
    selp.f32 start_a, F32_NAN, F32_ZERO, nan_a;
    selp.f32 start_b, F32_NAN, F32_ZERO, nan_b;
m4_for(<|J|>, 0, SETS - 1, <|
    mov.f32 ACC(J, 0), start_a;
    mov.f32 ACC(J, 1), start_a;
    mov.f32 ACC(J, 2), start_b;
    mov.f32 ACC(J, 3), start_b;
|>)dnl
  }
|>)dnl
  bar.sync 0;  // the activations are in
m4_for(<|STAGE|>, 0, STAGES - 1, <|

  remark(<|stage |>STAGE)
  mbarrier_wait(LOADED(STAGE), 0)
m4_if(STAGE == STAGES - 1, <|dnl
  pdl_trigger_if(trigger_late)
|>)dnl
m4_for(<|STEP|>, 0, STAGE_BLOCKS - 1, <|
  m4_if(SPREAD, <|multiply_spread(STAGE, STEP)|>, <|multiply_scaled(STAGE, STEP)|>)
|>)dnl
m4_if(HEADS > 1 && STAGE == FREED_STAGE, <|dnl
  cluster_arrive
|>)dnl
|>)dnl

  // ---- the partial sums -----------------------------------------------------------------
m4_if(SPREAD, <|dnl
  // Lane 4g + q has columns 2q and 2q + 1 of rows g and g + 8.
m4_for(<|SET|>, 0, SETS - 1, <|
m4_for(<|ODD|>, 0, 1, <|
  {
    .reg .b32 ws_at, xs_at, ws_a, ws_b, xs;
    spread_scales(SET, ODD, ws_at, xs_at)
    ld.shared.u8 ws_a, [ws_at+S_W_SCALES];  // S_W_SCALES
    ld.shared.u8 ws_b, [ws_at+eval(S_W_SCALES + 32)];
    ld.shared.u32 xs, [xs_at+S_X_SCALES];  // S_X_SCALES
    apply_scales(ACC(SET, ODD), ws_a, xs)
    apply_scales(ACC(SET, 2 + ODD), ws_b, xs)
  }
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
|>, <|dnl
m4_for(<|J|>, 0, 4 * SETS - 1, <|
  mul.rn.f32 acc<||>J, acc<||>J, F32_2_POWER_15;
|>)dnl
|>)dnl

  // ---- every token of the tile to its owner, token t to rank t % heads -------------------
m4_if(HEADS > 1, <|dnl
  cluster_wait  // of every peer, S_REDUCED is ready and the inbox is free
|>, <|dnl
  bar.sync 0;  // the weights under the inbox are used up
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
    only_end
|>, WHOLE_VECTORS, <|dnl
    // Column 2q + i of every group of 8 tokens belongs to rank 2q + i.
    mad.lo.u32 inbox, row, eval(CHUNK * 4), inbox;
m4_for(<|ODD|>, 0, 1, <|
    {
      .reg .b32 owner, to, to_reduced;
      mad.lo.u32 owner, in_four, 2, ODD;
m4_if(TILE < HEADS, <|dnl
      .reg .pred sends;
      setp.lt.u32 sends, owner, TILE;  // TILE
      only_begin(sent, sends)
|>)dnl
      peer_address(to, inbox, owner)
      add.u32 to_reduced, smem, S_REDUCED;  // S_REDUCED
      peer_address(to_reduced, to_reduced, owner)
      send_words(to, S_INBOX, to_reduced, m4_list(<|J|>, 0, N8 - 1, <|ACC(J, ODD)|>))
      send_words(to, eval(S_INBOX + 8 * CHUNK * 4), to_reduced, m4_list(<|J|>, 0, N8 - 1, <|ACC(J, 2 + ODD)|>))
m4_if(TILE < HEADS, <|dnl
      only_end
|>)dnl
    }
|>)dnl
|>, <|dnl
    mad.lo.u32 inbox, row, eval(CHUNK * 4), inbox;
    add.u32 inbox, inbox, S_INBOX;  // S_INBOX
    .reg .b32 inbox_b;
    add.u32 inbox_b, inbox, eval(8 * CHUNK * 4);
m4_for(<|GROUP|>, 0, N8 - 1, <|
m4_for(<|ODD|>, 0, 1, <|
    {
      .reg .b32 token;
      mad.lo.u32 token, in_four, 2, eval(MMA_N * GROUP + ODD);
m4_if(MMA_N * (GROUP + 1) > TILE, <|dnl
      .reg .pred sends;
      setp.lt.u32 sends, token, TILE;  // TILE
      only_begin(sent, sends)
|>)dnl
      send_value(ACC(GROUP, ODD), token, inbox)
      send_value(ACC(GROUP, 2 + ODD), token, inbox_b)
m4_if(MMA_N * (GROUP + 1) > TILE, <|dnl
      only_end
|>)dnl
    }
|>)dnl
|>)dnl
|>)dnl
  }

  // ---- who sums what: thread = one weight row, half of the words of a chunk --------------
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
    setp.ge.u32 idle, tid, TILE_N;  // TILE_N
    @idle exit;
  }
|>)dnl
  and.b32 n_row, tid, eval(TILE_N - 1);
  shr.u32 part, tid, m4_log2(TILE_N);
  shr.u32 quarter, n_row, 5;
  setp.eq.u32 lane0, lane, 0;
  mad.lo.u32 inbox_row, n_row, eval(CHUNK * 4), smem;
m4_if(SUM_HALVES == 2, <|dnl
  mad.lo.u32 inbox_row, part, eval(SUM_WORDS * 4), inbox_row;
|>)dnl
  add.u32 out_row, first_row, rank;  // token of our first slot
m4_if(SUM_HALVES == 2, <|dnl
  mad.lo.u32 out_row, part, eval(SUM_WORDS * HEADS), out_row;
|>)dnl
  add.u32 end, first_row, TILE;  // past the last token of the tile
m4_if(!FULL, <|dnl
  {
    .reg .b32 count;
    ld.param.u32 count, [tokens];
    min.u32 end, end, count;
  }
|>)dnl
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
  bar.warp.sync 0xffffffff;
|>, <|dnl
  bar.sync 0;  // the inbox is full
m4_if(SUM_HALVES == 1, <|dnl
  {
    .reg .pred idle;
    setp.ge.u32 idle, tid, TILE_N;  // TILE_N
    @idle exit;
  }
|>)dnl
|>)dnl

  // ---- sum in the order of heads, round to bf16, quantize, store --------------------------
m4_for(<|PART|>, 0, CHUNKS - 1, <|
  {
    .reg .f32 s<SUM_WORDS>, w<SUM_WORDS>;
m4_for(<|PEER|>, 0, HEADS - 1, <|
    ld.shared<||>m4_if(SUM_WORDS > 1, <|.v|>SUM_WORDS).f32 m4_if(SUM_WORDS > 1, <|{w0, w1}|>, <|w0|>), [inbox_row+eval(S_INBOX + PEER * INBOX_PEER + PART * INBOX_CHUNK)];
m4_for(<|WORD|>, 0, SUM_WORDS - 1, <|
    add.rn.f32 s<||>WORD, m4_if(PEER, <|s<||>WORD|>, F32_ZERO), w<||>WORD;
|>)dnl
|>)dnl
m4_for(<|WORD|>, 0, SUM_WORDS - 1, <|
    store_output(s<||>WORD, eval(PART * CHUNK + WORD))
|>)dnl
  }
|>)dnl
  exit;
}
