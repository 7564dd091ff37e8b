include(`prelude.m4')dnl
include(<|mbarrier.m4|>)dnl
include(<|tma.m4|>)dnl
include(<|pdl.m4|>)dnl
include(<|cluster.m4|>)dnl
include(<|quantize.m4|>)dnl
include(<|tcgen05.m4|>)dnl
include(<|wo_a_common.m4|>)dnl
include(<|wo_a_sm100_steps.m4|>)dnl
// SPDX-License-Identifier: Apache-2.0
//
// wo_a for Blackwell: inverse RoPE + MXFP8 quantization + grouped WO-A projection.
//
wo_a_facts
fact(<|attr.tmem_columns|>, TMEM_COLUMNS)
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
shared_field(<|S_X|>, STAGES * X_STAGE, 1024, <|activations: the same, a row a token|>)
shared_field(<|S_W_SCALES|>, STAGES * SCALE_STAGE, 128, <|scale words: as loaded, then rearranged in place|>)
shared_field(<|S_X_SCALES|>, STAGES * SCALE_STAGE, 128, <|scale bytes: stage, token (16 apart), block|>)
m4_if(HEADS > 1, <|shared_field(<|S_INBOX|>, HEADS * INBOX_PEER, 128, <|partial sums: sender, chunk, weight row, slot|>)
|>)dnl
shared_field(<|S_LOADED|>, STAGES * 8, 8, <|mbarrier a stage: operands are in|>)
shared_field(<|S_SCALES_LOADED|>, 8, 8, <|mbarrier: scale words are in|>)
shared_field(<|S_ACCUMULATED|>, 8, 8, <|mbarrier: the product is complete|>)
m4_if(HEADS > 1, <|shared_field(<|S_REDUCED|>, 8, 8, <|mbarrier: the inbox is full|>)
|>)dnl
shared_field(<|S_TMEM|>, 4, 4, <|address of the TMEM columns|>)
divert(0)dnl
fact(<|shared_dynamic|>, SHARED_BYTES)
undivert(1)dnl
//
// Barriers.  Every mbarrier completes one phase: its waiters ask for parity 0.
remark(<|  S_LOADED         1 arrival with the bytes of the weight box + |>eval(THREADS / 4)<|, the threads that|>)
//                    quantize these 128 columns; the mma thread waits
//   S_SCALES_LOADED  1 arrival with the bytes of the scale box; warp 0 waits
//   S_ACCUMULATED    1 arrival, by tcgen05.commit; warp 0 waits
m4_if(HEADS > 1, <|dnl
//   S_REDUCED        1 arrival with the bytes of all partial sums we own; warp 0 waits
//   bar 1  warps 0..3: the inbox is full
|>)dnl
//   bar 2  warps 0..3: the product is complete, the TMEM address is known
//   bar 3  warps 0..3 (1..3 only arrive): the accumulator has been read
m4_if(HEADS > 1, <|dnl
//   cluster barrier: S_REDUCED of every CTA is set up
|>)dnl
//
// Tensor memory, 64 columns:
remark(format(<|  %-9s accumulator: lane = weight row; column = token|>, <|0..|>eval(MMA_N - 1)))
//   32 + 8s   scales of the weights, stage s, 4 columns: row m at lane m % 32, column m / 32
//             (the same in all four lane quarters); byte = step of 32 within the stage
//   36 + 8s   scales of the activations, 4 columns, of which the first is used
//
// Registers that live throughout, by role:
//   smem              start of our shared memory (shared::cta address)
//   tid, lane, warp   thread in the CTA, in the warp; warp in the CTA
//   rank, n_tile      CTA in the cluster = head in the group; tile of 128 outputs
//   first_row         first token of our tile, in the call
//   flag_bits         parameter flags
//   leader            predicate: the one thread that drives copies and tensor core
//   warp0             predicate: its warp
//
// Instruction budget, in machine instructions of ptxas 13.0: quantizing the 4 elements of a
// thread and iteration takes 27 (rotary lanes 35), 6 of them for the maximum over 8 lanes; the
// product is 16 mma and 8 cp from one thread; an output takes about 20 a thread, plus one
// vector load and up to 4 adds a head for up to 4 tokens.
//
// Measured: ? (no Blackwell GPU was at hand)
//
// Rows of the activations and their scales from the tile size up to N of the mma are never
// written.  They reach only accumulator columns that nobody uses.

.version 9.0
.target sm_100f
.address_size 64

wo_a_entry
{
  .reg .pred leader, warp0;
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
  setp.eq.u32 warp0, warp, 0;
  elect.sync _|elected, 0xffffffff;
  and.pred leader, warp0, elected;

  .reg .b32 flag_bits;
  ld.param.u32 flag_bits, [flags];

  // ---- barriers, then the weights: nothing here depends on an earlier kernel ------------
  // One thread does both, so the copies need not wait for the other threads.
  only_begin(weights_requested, leader)
m4_for(<|STAGE|>, 0, STAGES - 1, <|
  mbarrier_create(LOADED(STAGE), eval(1 + THREADS / 4))  // weight box, threads
|>)dnl
  mbarrier_create(AT(S_SCALES_LOADED), 1)
  mbarrier_create(AT(S_ACCUMULATED), 1)
m4_if(HEADS > 1, <|dnl
  mbarrier_create(AT(S_REDUCED), 1)
|>)dnl
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

  bar.sync 0;  // the barriers are ready for our threads
m4_if(HEADS > 1, <|dnl
  cluster_arrive_relaxed  // S_REDUCED for the peers, once they waited
|>)dnl

  // ---- which thread holds what ----------------------------------------------------------
  // A thread holds 4 neighbouring elements ("quad") of one token an iteration.  Warps are
  // rotated by one: warp 0, which also drives the tensor core, takes columns 128..255.
  .reg .pred rotary, rotary_warp, plain_warp;
  .reg .b32 quad, quad_in_stage, stage, first_token, x_row;
  add.u32 quad, tid, 32;
  and.b32 quad, quad, eval(TOKEN_THREADS - 1);  // (tid + 32) % TOKEN_THREADS
  and.b32 quad_in_stage, quad, 31;
  shr.u32 stage, quad, 5;
  shr.u32 first_token, tid, m4_log2(TOKEN_THREADS);  // tid / TOKEN_THREADS
  add.u32 x_row, first_row, first_token;  // our first token, in the call
  setp.ge.u32 rotary, quad, FIRST_ROPE_QUAD;  // FIRST_ROPE_QUAD
  setp.eq.u32 rotary_warp, stage, eval(STAGES - 1);  // its lanes 16..31 are rotary
  not.pred plain_warp, rotary_warp;
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
    shl.b32 offset, quad, 3;  // bytes of a quad
    cvt.u64.u32 column, offset;
    add.u64 x_from, x_from, column;
    ld.param.u64 x_stride, [x_token_stride];

    ld.param.u64 position_from, [positions];
    cvta.to.global.u64 position_from, position_from;

    ld.param.u64 rope_from, [rope];
    cvta.to.global.u64 rope_from, rope_from;
    sub.u32 offset, offset, eval(8 * FIRST_ROPE_QUAD);  // 2 pairs of 4 bytes; used where rotary
    cvt.u64.u32 column, offset;
    add.u64 rope_from, rope_from, column;
  }

  // ---- x, positions and rope belong to earlier kernels until here ---------------------
  pdl_wait

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
    .reg .b32 row;
m4_for(<|I|>, 0, ITERATIONS - 1, <|
    existing_row(row, I)
    mad.wide.u32 address, row, 8, position_from;
    GUARD(I)ld.global.b64 position<||>I, [address];
|>)dnl
|>)dnl
  }
  only_end_apart

  .reg .b32 x_low<ITERATIONS>, x_high<ITERATIONS>;  // elements 0, 1 and 2, 3 of the quad
  {
    .reg .b64 address, row;
m4_if(FULL, <|dnl
    cvt.u64.u32 row, x_row;
    mad.lo.u64 address, row, x_stride, x_from;
m4_if(ITERATIONS > 1, <|dnl
    mul.lo.u64 x_stride, x_stride, TOKENS_PER_ITERATION;  // bytes an iteration
|>)dnl
m4_for(<|I|>, 0, ITERATIONS - 1, <|
    GUARD(I)ld.global.v2.b32 {x_low<||>I, x_high<||>I}, [address];
m4_if(I < ITERATIONS - 1, <|dnl
    add.u64 address, address, x_stride;
|>)dnl
|>)dnl
|>, <|dnl
    .reg .b32 row_low;
m4_for(<|I|>, 0, ITERATIONS - 1, <|
    existing_row(row_low, I)
    cvt.u64.u32 row, row_low;
    mad.lo.u64 address, row, x_stride, x_from;
    GUARD(I)ld.global.v2.b32 {x_low<||>I, x_high<||>I}, [address];
|>)dnl
|>)dnl
  }

  // Cosines and sines of the two pairs of the quad.
  .reg .f32 cos_a<ITERATIONS>, cos_b<ITERATIONS>, sin_a<ITERATIONS>, sin_b<ITERATIONS>;
  only_begin(rope_requested, rotary)
  {
    .reg .b64 address;
m4_for(<|I|>, 0, ITERATIONS - 1, <|
    shl.b64 address, position<||>I, m4_log2(4 * ROPE_DIM);  // position * bytes of a row
    add.u64 address, address, rope_from;
    GUARD(I)ld.global.v2.f32 {cos_a<||>I, cos_b<||>I}, [address];
    GUARD(I)ld.global.v2.f32 {sin_a<||>I, sin_b<||>I}, [address+eval(2 * ROPE_DIM)];
|>)dnl
  }
  only_end_apart

  // ---- tensor memory: while the loads are under way -------------------------------------
  // Not before the wait: an earlier kernel on this SM may hold TMEM until it ends.  And no
  // dependent starts before we have ours: it might take the columns and then wait for us.
  warps_begin(tmem_allocated, warp0)
  tmem_alloc(AT(S_TMEM), TMEM_COLUMNS)
  {
    .reg .pred trigger_early;
    .reg .b32 trigger;
    and.b32 trigger, flag_bits, FLAG_TRIGGER;  // FLAG_TRIGGER
    setp.ne.u32 trigger_early, trigger, 0;
    pdl_trigger_if(trigger_early)
  }
  warps_end

  // ---- rotate back, quantize, store where the tensor core reads -------------------------
  .reg .b32 x_to<||>m4_if(ITERATIONS > 1, <|, x_to_odd|>), scale_to;
  {
    .reg .b32 chunk, offset;
    shr.u32 chunk, quad_in_stage, 2;  // of 16 bytes
    xor.b32 chunk, chunk, first_token;  // swizzle: ^ token % 8
    and.b32 offset, quad_in_stage, 3;
    mad.lo.u32 x_to, stage, X_STAGE, smem;  // X_STAGE
    mad.lo.u32 x_to, first_token, STAGE_K, x_to;
    mad.lo.u32 x_to, chunk, 16, x_to;
    mad.lo.u32 x_to, offset, 4, x_to;
m4_if(ITERATIONS > 1, <|dnl
    xor.b32 x_to_odd, x_to, 64;  // odd iterations: token % 8 is larger by 4
|>)dnl
    shr.u32 offset, quad_in_stage, 3;  // block of 32
    mad.lo.u32 scale_to, stage, SCALE_STAGE, smem;  // SCALE_STAGE
    mad.lo.u32 scale_to, first_token, 16, scale_to;
    add.u32 scale_to, scale_to, offset;
  }
  .reg .pred first_of_8;  // stores the scale byte of its block
  {
    .reg .b32 low;
    and.b32 low, lane, 7;
    setp.eq.u32 first_of_8, low, 0;
  }

  // To f32; in the warp that has them, the rotary lanes rotate back.  v(4i) .. v(4i+3) are
  // the quad of iteration i.
  .reg .b32 v<eval(4 * ITERATIONS)>;
  warps_begin(rotated, rotary_warp)
m4_for(<|I|>, 0, ITERATIONS - 1, <|
  widen_bf16x2(V(I, 0), V(I, 1), x_low<||>I)
  widen_bf16x2(V(I, 2), V(I, 3), x_high<||>I)
  rotate_back(V(I, 0), V(I, 1), cos_a<||>I, sin_a<||>I)
  rotate_back(V(I, 2), V(I, 3), cos_b<||>I, sin_b<||>I)
|>)dnl
  warps_end
  warps_begin(widened, plain_warp)
m4_for(<|I|>, 0, ITERATIONS - 1, <|
  widen_bf16x2(V(I, 0), V(I, 1), x_low<||>I)
  widen_bf16x2(V(I, 2), V(I, 3), x_high<||>I)
|>)dnl
  warps_end
m4_for(<|I|>, 0, ITERATIONS - 1, <|

  remark(<|token first_token|>m4_if(I > 0, <| + eval(TOKENS_PER_ITERATION * I)|>))
m4_if(IS_LAST(I), <|dnl
  warps_begin(quantized, in_last)
|>)dnl
  {
    .reg .b32 scale, inverse, codes;
    .reg .f32 amax;
    max.abs.f32 amax, V(I, 0), V(I, 1), V(I, 2);
    max.abs.f32 amax, amax, V(I, 3), F32_AMAX_FLOOR;  // a NaN loses, here and below
    max_over_8_lanes(amax)
    ue8m0_of_amax(scale, inverse, amax)
m4_for(<|J|>, 0, 3, <|
    mul.rn.f32 V(I, J), V(I, J), inverse;
|>)dnl
    e4m3x4(codes, V(I, 0), V(I, 1), V(I, 2), V(I, 3))
    st.shared.b32 [m4_if(I % 2, <|x_to_odd|>, <|x_to|>)+eval(S_X + STAGE_K * TOKENS_PER_ITERATION * I)], codes;  // S_X
    @first_of_8 st.shared.b8 [scale_to+eval(S_X_SCALES + 16 * TOKENS_PER_ITERATION * I)], scale;  // S_X_SCALES
  }
m4_if(IS_LAST(I), <|dnl
  warps_end
|>)dnl
|>)dnl

  fence_shared_to_async
  {
    .reg .b32 loaded;
    mad.lo.u32 loaded, stage, 8, smem;
    mbarrier_arrive(loaded+S_LOADED)  // S_LOADED of these columns
  }

m4_if(TILE * TILES < QS_ROWS || !FULL, <|dnl
  // ---- scale bytes of rows that no token has are zero -----------------------------------
  // By warp 3, which has nothing to do until the product is complete.
  {
    .reg .pred mine;
    setp.eq.u32 mine, warp, 3;
    setp.eq.and.u32 mine, rank, 0, mine;
m4_if(TILES > 1, <|dnl
    setp.eq.and.u32 mine, first_row, 0, mine;
|>)dnl
    zero_missing_scales(mine, n_tile)
  }

|>)dnl
  // ---- the product: D[weight row][token], 4 stages of 4 steps ---------------------------
  warps_begin(product_done, warp0)
  mbarrier_wait(AT(S_SCALES_LOADED), 0)
m4_for(<|STAGE|>, 0, STAGES - 1, <|
  {
    .reg .b32 words;
    add.u32 words, smem, eval(S_W_SCALES + STAGE * SCALE_STAGE);  // S_W_SCALES, a stage
    scales_to_cp_order(words, lane)
  }
|>)dnl
  fence_shared_to_async
  bar.warp.sync 0xffffffff;

  only_begin(product_issued, leader)
  {
    .reg .b64 a, b, a_scales, b_scales;
    .reg .b32 tmem, start, at;
    ld.shared.b32 tmem, [AT(S_TMEM)];
    descriptor_start(start, smem)  // descriptors count in 16 bytes
m4_for(<|STAGE|>, 0, STAGES - 1, <|

    remark(<|stage |>STAGE)
    mbarrier_wait(LOADED(STAGE), 0)
    tcgen05_fence_after
m4_if(STAGE == STAGES - 1, <|dnl
    {
      .reg .pred trigger_late;
      .reg .b32 trigger;
      and.b32 trigger, flag_bits, FLAG_TRIGGER;  // FLAG_TRIGGER
      setp.eq.u32 trigger_late, trigger, 0;
      pdl_trigger_if(trigger_late)
    }
|>)dnl
    add.u32 at, start, eval((S_W_SCALES + STAGE * SCALE_STAGE) / 16);  // S_W_SCALES, this stage
    shared_descriptor(a_scales, at, m4_hex(DESCRIPTOR_SCALES))
    scale_copy(tmem+TMEM_SCALES_A(STAGE), a_scales)
    add.u32 at, start, eval((S_X_SCALES + STAGE * SCALE_STAGE) / 16);  // S_X_SCALES, this stage
    shared_descriptor(b_scales, at, m4_hex(DESCRIPTOR_SCALES))
    scale_copy(tmem+TMEM_SCALES_B(STAGE), b_scales)
m4_for(<|STEP|>, 0, MMA_STEPS - 1, <|
    add.u32 at, start, eval((S_W + STAGE * W_STAGE + STEP * MMA_K) / 16);  // S_W, this step
    shared_descriptor(a, at, m4_hex(DESCRIPTOR_K_MAJOR_128B))
    add.u32 at, start, eval((S_X + STAGE * X_STAGE + STEP * MMA_K) / 16);  // S_X, this step
    shared_descriptor(b, at, m4_hex(DESCRIPTOR_K_MAJOR_128B))
    mma_mxf8(tmem, a, b, m4_mxf8_instruction(TILE_N, MMA_N, STEP),
      tmem+TMEM_SCALES_A(STAGE), tmem+TMEM_SCALES_B(STAGE), eval(STAGE + STEP > 0))
|>)dnl
|>)dnl
    // ---- the product is complete --------------------------------------------------------
    tcgen05_commit(AT(S_ACCUMULATED))
  }
  only_end  // for ptxas, whose code is 35 instructions longer without it
  mbarrier_wait(AT(S_ACCUMULATED), 0)  // by all lanes
  // On to the other readers, by the pattern of two barriers that PTX ISA 9.7.16.6.4.4 has.
  tcgen05_fence_after
  tcgen05_fence_before
  warps_end
m4_if(HEADS > 1, <|dnl

  cluster_wait  // S_REDUCED of every peer is ready
|>)dnl
m4_if(THREADS > EPILOGUE_THREADS, <|dnl
  {
    .reg .pred done;
    setp.ge.u32 done, tid, EPILOGUE_THREADS;  // EPILOGUE_THREADS
    @done exit;
  }
|>)dnl
  bar.sync BARRIER_ACCUMULATED, EPILOGUE_THREADS;
  tcgen05_fence_after

  // ---- thread tid has weight row tid of the tile, all tokens ----------------------------
  .reg .b32 tmem, p<ACC_COLUMNS>;
  ld.shared.b32 tmem, [AT(S_TMEM)];
  {
    .reg .b32 lanes;
    shl.b32 lanes, warp, 21;  // lane 32 * warp, at bit 16
    add.u32 lanes, tmem, lanes;
    tmem_load(ACC_COLUMNS, p, lanes)
  }
  tcgen05_fence_before
m4_if(HEADS > 1, <|dnl

  // ---- every token of the tile to its owner, token t to rank t % HEADS --------------------
  .reg .b32 inbox;  // of this weight row, first sender, first chunk
  mad.lo.u32 inbox, tid, eval(CHUNK * 4), smem;
  {
    .reg .b32 ours, reduced, to, to_reduced;
    mad.lo.u32 ours, rank, INBOX_PEER, inbox;  // INBOX_PEER
    add.u32 reduced, smem, S_REDUCED;  // S_REDUCED
m4_for(<|PEER|>, 0, SENT_TO - 1, <|

    remark(<|to rank |>PEER)
    peer_address(to, ours, PEER)
    peer_address(to_reduced, reduced, PEER)
m4_for(<|PART|>, 0, CHUNKS - 1, <|
    send_part(PEER + PART * CHUNK * HEADS,
      m4_min(CHUNK, m4_ceil_div(TILE - PEER, HEADS) - PART * CHUNK),
      eval(S_INBOX + PART * INBOX_CHUNK))
|>)dnl
|>)dnl
  }
|>)dnl

  // Where the outputs go, computed while the peers are still at work.
  .reg .pred lane0;
  .reg .b32 out_row, n;
  .reg .b64 q_to, q_step, qs_tile;
  setp.eq.u32 lane0, lane, 0;
  add.u32 out_row, first_row, rank;  // token of slot 0
  {
    .reg .b64 address;
    .reg .b32 column;
    ld.param.u32 n, [n_total];
    ld.param.u64 address, [q];
    cvta.to.global.u64 address, address;
    mad.wide.u32 address, out_row, n, address;
    mad.lo.u32 column, n_tile, TILE_N, tid;
    cvt.u64.u32 q_to, column;
    add.u64 q_to, q_to, address;
    mul.wide.u32 q_step, n, HEADS;  // a slot further
    ld.param.u64 address, [qs];
    cvta.to.global.u64 address, address;
    mad.wide.u32 qs_tile, n_tile, QS_TILE, address;  // QS_TILE
  }
m4_if(!FULL, <|dnl
  .reg .b32 end;  // past the last token of this tile, in the call
  {
    .reg .b32 count;
    ld.param.u32 count, [tokens];
    add.u32 end, first_row, TILE;  // TILE
    min.u32 end, end, count;
  }
|>)dnl
  // ---- the columns go back as soon as all four warps have read them ---------------------
  {
    .reg .pred reader;
    setp.ne.u32 reader, warp, 0;
    @reader bar.arrive BARRIER_TMEM_READ, EPILOGUE_THREADS;
  }
  warps_begin(tmem_freed, warp0)
  bar.sync BARRIER_TMEM_READ, EPILOGUE_THREADS;
  tcgen05_fence_after
  tmem_free(tmem, TMEM_COLUMNS)
  warps_end
m4_if(HEADS > 1, <|dnl
m4_if(TILE < HEADS, <|dnl

  // A rank that owns no token is done.  Nobody sends to it.
  {
    .reg .pred idle;
    setp.ge.u32 idle, rank, TILE;  // TILE
    @idle exit;
  }
|>)dnl

  // ---- our inbox: one warp waits, the others hear of it -----------------------------------
  warps_begin(inbox_full, warp0)
  mbarrier_wait_cluster(AT(S_REDUCED), 0)
  warps_end
  bar.sync BARRIER_REDUCED, EPILOGUE_THREADS;
|>)dnl

  // ---- sum in the order of heads, round to bf16, quantize, store --------------------------
m4_for(<|PART|>, 0, CHUNKS - 1, <|
m4_if(HEADS > 1, <|dnl

  sum_part(PART, m4_min(CHUNK, SLOTS - PART * CHUNK))
|>)dnl
m4_for(<|SLOT|>, PART * CHUNK, m4_min(SLOTS, (PART + 1) * CHUNK) - 1, <|

  remark(<|token rank|>m4_if(SLOT > 0, <| + eval(SLOT * HEADS)|>))
m4_if(TILE > HEADS && (SLOT + 1) * HEADS > TILE, <|dnl
  {
    .reg .pred past;
    setp.ge.u32 past, rank, eval(TILE - SLOT * HEADS);
    @past exit;  // this rank has one token less
  }
|>)dnl
m4_if(HEADS > 1, <|dnl
  store_output(s<||>PART<||>_<||>eval(SLOT % CHUNK))
|>, <|dnl
  add.rn.f32 p<||>SLOT, F32_ZERO, p<||>SLOT;  // a sum starts at +0
  store_output(p<||>SLOT)
|>)dnl
m4_if(SLOT < SLOTS - 1, <|dnl
  add.u32 out_row, out_row, HEADS;  // HEADS
  add.u64 q_to, q_to, q_step;
|>)dnl
|>)dnl
|>)dnl
  exit;
}
