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
// Warps, by role:
//   0 .. 15  quantize what is not rotated, a token each two; multiply 16 weight rows by half of K:
//            those of the first half send the sums, those of the second add what all heads sent
remark(<|  |>ROTARY_WARP<|       the rotary warp: requests weights, rotates and quantizes the rest|>)
//
// Shared memory, dynamic, the start 1024-byte aligned:
//   offset   bytes  field
shared_field(<|S_W|>, STAGES * W_STAGE, 1024, <|weights: stage, row, 128 bytes of K; 128B swizzle|>)
shared_field(<|S_X|>, BLOCKS * X_BLOCK, 1024, <|activations: block, slot|>)
shared_field(<|S_W_SCALES|>, STAGES * SCALE_STAGE, 128, <|scale words: stage, row|>)
shared_field(<|S_X_SCALES|>, BLOCKS * XS_BLOCK, 16, <|scales: block, token|>)
shared_field(<|S_LOADED|>, STAGES * 8, 8, <|mbarrier a stage: weights are in|>)
shared_field(<|S_SCALES_LOADED|>, 8, 8, <|mbarrier: scale words are in|>)
shared_field(<|S_ROTATED|>, 8, 8, <|mbarrier: the rotated blocks are in|>)
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
//   S_ROTATED        32 arrivals, one a thread of the rotary warp
m4_if(HEADS > 1, <|dnl
//   S_REDUCED        1 arrival with the bytes of all partial sums we own
|>, <|dnl
remark(<|  S_REDUCED        |>eval(ROW_WARPS * 32)<| arrivals, one a thread of the first half|>)
|>)dnl
//   bar 0            all threads: the mbarriers are set up
//   bar 1 .. 8       the two warps of 16 weight rows: the sums of the second are in
remark(<|  bar |>BARRIER_PLAIN<|           all but the rotary warp: the blocks that are not rotated are in|>)
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
//   chunk, our_token  whose 8 neighbouring elements this thread quantizes
//   x_to, scale_to    where they and their scale go (shared::cta, to which S_X, S_X_SCALES are added)
//   row_warp, k_part  of the warp: 16 weight rows of 8, half of K; second_half: k_part is 1
//   in_eight, in_four lane 4g + q: g and q, its place in the fragments of an mma
//   leader            of the rotary warp, predicate: the one thread that drives copies and triggers
//
// Measured on an H200, with H = 8 and R = 1024: TUNING.md.

.version 9.0
.target sm_90a
.address_size 64

wo_a_entry
{
  .reg .pred rotates, first_of_4;
  .reg .b32 smem, tid, lane, warp, rank, n_tile, first_row, group, tile_in_group;
  .reg .b32 chunk, our_token, x_to, scale_to, c<4>;  // c: the chunk, two elements a register
  .reg .b64 x_from;
  .reg .f32 v<CHUNK_ELEMENTS>;  // the chunk, f32

  // ---- who and where we are ---------------------------------------------------------
  .reg .b32 cta;
  mov.u32 smem, dynamic_shared;
  mov.u32 tid, %tid.x;
  and.b32 lane, tid, 31;
  shr.u32 warp, tid, 5;
  mov.u32 cta, %ctaid.x;
  place_in_cluster(cta)
  mov.u32 first_row, 0;  // one tile has all tokens
  setp.eq.u32 rotates, warp, ROTARY_WARP;  // ROTARY_WARP
  @rotates bra.uni rotary_warp;

  group_of_tile(group, tile_in_group)

  // ---- which thread holds what ----------------------------------------------------------
  .reg .pred plain, has_token;  // there are threads for 8 tokens
  and.b32 chunk, tid, eval(TOKEN_THREADS - 1);  // tid % TOKEN_THREADS
  shr.u32 our_token, tid, m4_log2(TOKEN_THREADS);  // tid / TOKEN_THREADS
  setp.lt.u32 has_token, our_token, TILE;  // TILE
  setp.lt.and.u32 plain, chunk, ROTARY_CHUNK, has_token;  // ROTARY_CHUNK
  place_chunk

  // And as part of the product: lane 4g + q has weight rows g and g + 8 of its warp's 16.
  .reg .pred second_half;
  .reg .b32 row_warp, k_part, in_eight, in_four, row;
  and.b32 row_warp, warp, eval(ROW_WARPS - 1);
  shr.u32 k_part, warp, m4_log2(ROW_WARPS);
  setp.ne.u32 second_half, k_part, 0;
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

  // ---- x belongs to earlier kernels until here; quantize, store as the tensor core wants it ------
m4_for(<|J|>, 0, 3, <|
  mov.b32 c<||>J, 0;
|>)dnl
  pdl_wait
  load_chunk(plain)
  warps_begin(quantized, has_token)
  widen_chunk
  quantize_chunk(plain)
  warps_end

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
  bar.sync BARRIER_PLAIN, MULTIPLY_THREADS;  // the activations that are not rotated are in
m4_if(SPREAD, <|dnl

  // Where B of our column is, for all blocks that share one.
  .reg .b32 b<4>, x_at;
  .reg .b32 row_scale_a<2>, row_scale_b<2>;  // T = 1: of the two columns; T = 2: of the sets
m4_if(TILE == 1, <|dnl
  .reg .pred early;  // our column is of no rotated block
|>)dnl
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
m4_if(TILE == 1, <|dnl
    setp.lt.u32 early, part, ROTARY_BLOCK;  // ROTARY_BLOCK
m4_for(<|J|>, 0, 3, <|
    mov.b32 b<||>J, 0;
|>)dnl
|>)dnl
  }
|>)dnl
m4_for(<|STAGE|>, 0, PART_STAGES - 1, <|

  remark(<|stage |>STAGE<| of our half|>)
m4_if(STAGE == PART_STAGES - 1, <|dnl
  warps_begin(rotated_in, second_half)
  mbarrier_wait(AT(S_ROTATED), 0)
  warps_end
|>)dnl
  mbarrier_wait(loaded+eval(S_LOADED + 8 * STAGE), 0)
  {
    .reg .b32 w<eval(4 * STAGE_BLOCKS)>;
m4_if(!SPREAD, <|dnl
    .reg .b32 scales_a, scales_b;
    ld.shared.b32 scales_a, [scales_from+eval(S_W_SCALES + STAGE * SCALE_STAGE)];  // S_W_SCALES
    ld.shared.b32 scales_b, [scales_from+eval(S_W_SCALES + STAGE * SCALE_STAGE + 32)];
|>)dnl
m4_for(<|STEP|>, 0, STAGE_BLOCKS - 1, <|
m4_if(SPREAD && STEP == 0, <|dnl
    m4_if(TILE == 1 && STAGE == 0, <|@early |>)ld.shared.v4.b32 {b0, b1, b2, b3}, [x_at+eval(S_X + STAGE_BLOCKS * STAGE / COLUMN_BLOCKS * COLUMN_BLOCKS * X_BLOCK)];  // S_X
|>)dnl
m4_if(STEP % LOAD_BLOCKS == 0, <|dnl
    load_blocks(STAGE, STEP, STEP + LOAD_BLOCKS - 1)
|>)dnl
    m4_if(SPREAD, <|multiply_spread(STAGE, STEP)|>, <|multiply_by_column(STAGE, STEP)|>)
|>)dnl
  }
|>)dnl

  // ---- the partial sums -----------------------------------------------------------------
m4_if(SPREAD, <|dnl
  load_row_scales
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
    .reg .b32 sums, pair;
    mad.lo.u32 sums, row_warp, eval(WARP_ROWS * STAGE_K), smem;
    mad.lo.u32 sums, lane, 16, sums;
    add.u32 sums, sums, eval(S_W + PART_STAGES * W_STAGE);  // S_W, first stage of the half
    add.u32 pair, row_warp, 1;
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
  // ---- the rotary warp: asks for the weights; rotates back and quantizes the last elements --------
rotary_warp:
  .reg .pred leader;
  elect.sync _|leader, 0xffffffff;
  
  .reg .b32 flag_bits;
  .reg .pred trigger_late, trigger_entry, trigger_after_wait, weights_wait;
  ld.param.u32 flag_bits, [flags];
  {
    .reg .b32 trigger;
    and.b32 trigger, flag_bits, FLAG_TRIGGER;  // FLAG_TRIGGER
    setp.eq.and.u32 trigger_late, trigger, TRIGGER_LATE, leader;  // TRIGGER_LATE
    setp.eq.and.u32 trigger_entry, trigger, TRIGGER_ENTRY, leader;  // TRIGGER_ENTRY
    setp.eq.and.u32 trigger_after_wait, trigger, TRIGGER_AFTER_WAIT, leader;  // TRIGGER_AFTER_WAIT
    and.b32 trigger, flag_bits, FLAG_WEIGHTS_AFTER_WAIT;  // FLAG_WEIGHTS_AFTER_WAIT
    setp.ne.u32 weights_wait, trigger, 0;
  }
  pdl_trigger_if(trigger_entry)

  // ---- barriers, then the weights: nothing here depends on an earlier kernel ------------
  // One thread does both, so the copies need not wait for the other threads.
  only_begin(weights_requested, leader)
m4_for(<|STAGE|>, 0, STAGES - 1, <|
  mbarrier_create(LOADED(STAGE), 1)
|>)dnl
  mbarrier_create(AT(S_SCALES_LOADED), 1)
  mbarrier_create(AT(S_ROTATED), 32)
  mbarrier_create(AT(S_REDUCED), m4_if(HEADS > 1, 1, eval(ROW_WARPS * 32)))
  mbarrier_create_fence
  pdl_wait_if(weights_wait)
  request_stages(0, eval(FIRST_STAGES - 1))
  @weights_wait bra weights_requested;  // the other stages behind x and rope
  request_stages(FIRST_STAGES, eval(STAGES - 1))
  only_end_apart

  // The group needs a division: it follows the big copies.
  group_of_tile(group, tile_in_group)

  only_begin(scales_requested, leader)
  request_scales
m4_if(HEADS > 1, <|dnl
  // What the inbox will hold: our tokens rank, rank + HEADS, .. below TILE, from each head.
  expect_inbox
|>)dnl
  only_end  // bar.sync asks for the whole warp

  // Lane 8t + c has chunk c of the rotated ones of token t.
  .reg .pred rotary;
  .reg .b64 position_from, rope_from, position;
  .reg .f32 cosine<4>, sine<4>;
  shr.u32 our_token, lane, m4_log2(ROTARY_THREADS);  // lane / ROTARY_THREADS
  and.b32 chunk, lane, eval(ROTARY_THREADS - 1);  // lane % ROTARY_THREADS
  {
    .reg .b64 column;
    .reg .b32 offset;
    shl.b32 offset, chunk, 4;  // 4 pairs of 4 bytes
    cvt.u64.u32 column, offset;
    ld.param.u64 rope_from, [rope];
    cvta.to.global.u64 rope_from, rope_from;
    add.u64 rope_from, rope_from, column;
    ld.param.u64 position_from, [positions];
    cvta.to.global.u64 position_from, position_from;
    mad.wide.u32 position_from, our_token, 8, position_from;
  }
  add.u32 chunk, chunk, ROTARY_CHUNK;  // ROTARY_CHUNK
  setp.lt.u32 rotary, our_token, TILE;  // TILE
  place_chunk

  bar.sync 0;  // the barriers are ready
m4_if(HEADS > 1, <|dnl
  cluster_arrive_relaxed
|>)dnl
  pdl_wait  // x, positions, rope and the outputs belong to earlier kernels until here
  pdl_trigger_if(trigger_after_wait)
  @rotary ld.global.b64 position, [position_from];
  load_chunk(rotary)
  shl.b64 position, position, m4_log2(4 * ROPE_DIM);  // bytes of a row
  add.u64 rope_from, rope_from, position;
  @rotary ld.global.v4.f32 {m4_list(<|J|>, 0, 3, <|cosine<||>J|>)}, [rope_from];
  @rotary ld.global.v4.f32 {m4_list(<|J|>, 0, 3, <|sine<||>J|>)}, [rope_from+eval(2 * ROPE_DIM)];
  {
    .reg .pred requests;
    and.pred requests, leader, weights_wait;
    only_begin(rest_requested, requests)
    request_stages(FIRST_STAGES, eval(STAGES - 1))
    only_end_apart
  }
  widen_chunk
m4_for(<|J|>, 0, 3, <|
  rotate_back(V(2 * J), V(2 * J + 1), cosine<||>J, sine<||>J)
|>)dnl
  quantize_chunk(rotary)
  mbarrier_arrive(AT(S_ROTATED))
  {
    // Scale bytes of rows that no token has are zero.
    .reg .pred mine;
    setp.eq.u32 mine, rank, eval(HEADS - 1);
    zero_missing_scales(mine, n_tile)
  }
  only_begin(triggered, trigger_late)
  mbarrier_wait(LOADED(eval(STAGES - 1)), 0)
  pdl_trigger_if(trigger_late)
  only_end_apart
m4_if(HEADS > 1, <|dnl
  cluster_wait  // every thread that arrived waits
|>)dnl
  exit;
}
