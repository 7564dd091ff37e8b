divert(-1)
m4_once(<|wo_a_common.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// wo_a on any architecture: the sizes of a specialization, from its row of table.tsv, and the
// steps that the templates share.  Every template defines beside these THREADS and
// MAX_REGISTERS.  Slots (SLOTS to INBOX_BYTES, expect_inbox) are those of wo_a_sm100.ptx.m4 and
// wo_a_sm90.ptx.m4; wo_a_sm90_stream.ptx.m4 exchanges in another way.

// ---- the specialization: one row of table.tsv ---------------------------------------

m4_integer(<|BW_TILE|>, 1, 32)   // tokens of a tile
m4_integer(<|BW_TILES|>, 1, 4)   // tiles
m4_integer(<|BW_FULL|>, 0, 1)    // 1: T = tile * tiles; 0: the last tile is ragged
m4_integer(<|BW_HEADS|>, 1, 8)   // heads of a group = CTAs of a cluster
m4_assert(BW_TILES > 1 || BW_FULL, <|one tile is always full|>)
m4_assert(BW_TILES == 1 || BW_TILE % 4 == 0, <|several tiles are multiples of 4 tokens|>)

constant(<|TILE|>, BW_TILE)
constant(<|TILES|>, BW_TILES)
constant(<|FULL|>, BW_FULL)
constant(<|HEADS|>, BW_HEADS)
constant_text(<|KEY|>, <|t|>TILE<|x|>TILES<||>m4_if(FULL, <|f|>, <|r|>)<|_h|>HEADS)
ifelse(BW_KEY, KEY, <||>, <|m4_error(<|key |>BW_KEY<| where the columns say |>KEY)|>)

// The head and the tile of the product that a CTA computes.
constant(<|HEAD_DIM|>, 512)
constant(<|ROPE_DIM|>, 64)
constant(<|TILE_N|>, ifdef(<|WEIGHT_ROWS|>, <|WEIGHT_ROWS|>, 128))  // weight rows
constant(<|STAGE_K|>, 128)                 // bytes of K a stage: one swizzle atom
constant(<|STAGES|>, HEAD_DIM / STAGE_K)

// Shared memory, bytes.
constant(<|W_STAGE|>, TILE_N * STAGE_K)
constant(<|SCALE_STAGE|>, TILE_N * 4)      // one scale word a row

// Split-K: slot i of rank r is token r + i * HEADS.  Slots go in chunks of up to 4 words,
// the most that one st.async sends.
constant(<|SLOTS|>, m4_ceil_div(TILE, HEADS))
constant(<|CHUNK|>, m4_min(4, m4_power_of_2(SLOTS)))
constant(<|CHUNKS|>, m4_ceil_div(SLOTS, CHUNK))
constant(<|INBOX_CHUNK|>, TILE_N * CHUNK * 4)
constant(<|INBOX_PEER|>, CHUNKS * INBOX_CHUNK)
constant(<|INBOX_SLOT_BYTES|>, TILE_N * HEADS * 4)
constant(<|INBOX_BYTES|>, SLOTS * INBOX_SLOT_BYTES)  // of an owner with SLOTS tokens

// Parameter `flags`.
constant(<|FLAG_TRIGGER|>, 3)              // bits 0-1: the place of the trigger
constant(<|TRIGGER_LATE|>, 0)
constant(<|TRIGGER_ENTRY|>, 1)
constant(<|TRIGGER_AFTER_WAIT|>, 2)
constant(<|FLAG_WEIGHTS_AFTER_WAIT|>, 4)   // bit 2

// Weights leave L2 first, and x stays, where that was measured to pay.
constant(<|WEIGHTS_ONCE|>, ifelse(BW_ARCH, sm_90a, 1, 0))

// The scale tile of qs: 128 rows of 4 bytes, in 32 rows of 16.
constant(<|QS_TILE|>, 512)
constant(<|QS_ROWS|>, 128)
constant(<|QS_COLUMNS|>, 128)

// Addresses.
define(<|LOADED|>, <|smem+eval(S_LOADED + 8 * ($1))|>)
define(<|AT|>, <|smem+eval($1)|>)

// ---- the head comment, the parameters -------------------------------------------------

// Usage: wo_a_facts
// The facts that both architectures state alike.
macro(<|wo_a_facts|>, 0, <|
fact(<|family|>, <|wo_a|>)
fact(<|arch|>, BW_ARCH)
fact(<|key|>, KEY)
fact(<|symbol|>, <|bw_wo_a_|>KEY)
fact(<|threads|>, THREADS)
fact(<|cluster|>, HEADS)
fact(<|waits|>, 1)
fact(<|attr.tile|>, TILE)
fact(<|attr.tiles|>, TILES)
fact(<|attr.full|>, FULL)
fact(<|attr.heads|>, HEADS)
fact(<|attr.head_dim|>, HEAD_DIM)
fact(<|attr.rope_dim|>, ROPE_DIM)
fact(<|attr.tile_n|>, TILE_N)
fact(<|attr.box_k|>, STAGE_K)
fact(<|attr.scale_box|>, STAGES)|>)

// Usage: wo_a_prototype
// The parameters, as C would declare them.
macro(<|wo_a_prototype|>, 0, <|
// void bw_wo_a(CUtensorMap w_map,         weight, u8 [N, K]: box {box_k, tile_n}, 128B swizzle
//              CUtensorMap ws_map,        scales, s32 [G, K/128, R]: box {tile_n, 4, 1}
//              const bf16 *x,             token t at x + t * x_token_stride, heads of 512
//              const int64_t *positions,  [T]
//              const float *rope,         [P, 64]: 32 cosines, 32 sines
//              e4m3 *q,                   [T, N]
//              ue8m0 *qs,                 [N/128][512]
//              uint64_t x_token_stride,   bytes
//              uint32_t tokens,           T
//              uint32_t n_total,          N = G * R
//              uint32_t tiles_per_group,  R / tile_n
//              uint32_t flags)            bits 0-1: trigger late, at entry, after the wait;
//                                         bit 2: weights only after the wait; on sm_90a
//                                         most of them behind x and rope|>)

// Usage: wo_a_fullness
// What the specialization knows about T.
macro(<|wo_a_fullness|>, 0, <|
m4_if(FULL,
  <|remark(<|T = |>eval(TILE * TILES)<|: every tile is full.|>)|>,
  <|remark(<|T < |>eval(TILE * TILES)<|, not empty in any tile.  The last tile is ragged: its rows past the|>)
// end repeat token T - 1, are computed, exchanged, and not stored.|>)|>)

// Usage: wo_a_entry
// The declaration of the kernel up to its opening brace.
macro(<|wo_a_entry|>, 0, <|
.extern .shared .align 1024 .b8 dynamic_shared[];

.visible .entry bw_wo_a_<||>KEY<||>(
  .param .align 128 .b8 w_map[128],
  .param .align 128 .b8 ws_map[128],
  .param .u64 x,
  .param .u64 positions,
  .param .u64 rope,
  .param .u64 q,
  .param .u64 qs,
  .param .u64 x_token_stride,
  .param .u32 tokens,
  .param .u32 n_total,
  .param .u32 tiles_per_group,
  .param .u32 flags
)
.reqntid THREADS, 1, 1
.maxnreg MAX_REGISTERS
m4_if(HEADS > 1, <|.explicitcluster
.reqnctapercluster HEADS, 1, 1
|>)dnl|>)

// ---- steps ----------------------------------------------------------------------------

// Usage: place_in_cluster(CTA)
// in: CTA (u32) = %ctaid.x.  out: rank, n_tile
macro(<|place_in_cluster|>, 1, <|
m4_if(HEADS == 1, <|dnl
mov.u32 rank, 0;
mov.u32 n_tile, $1;
|>, (HEADS & (HEADS - 1)) == 0, <|dnl
and.b32 rank, $1, eval(HEADS - 1);  // cta % HEADS
shr.u32 n_tile, $1, m4_log2(HEADS);  // cta / HEADS
|>, <|dnl
rem.u32 rank, $1, HEADS;
div.u32 n_tile, $1, HEADS;
|>)dnl|>)

// Usage: request_weights                       thread
// One box a stage, on the mbarrier of the stage.  in: n_tile, rank, flag_bits
macro(<|request_weights|>, 0, <|
{
  .reg .pred weights_after_wait;
  .reg .b32 bit;
  and.b32 bit, flag_bits, FLAG_WEIGHTS_AFTER_WAIT;  // FLAG_WEIGHTS_AFTER_WAIT
  setp.ne.u32 weights_after_wait, bit, 0;
  pdl_wait_if(weights_after_wait)
}
request_stages(0, eval(STAGES - 1))|>)

// Usage: request_stages(FIRST, LAST)            thread
// The boxes of these stages.  in: n_tile, rank
macro(<|request_stages|>, 2, <|
{
  .reg .b64 map;
  .reg .b32 row, first_k, k;
  tensor_map_address(map, w_map)
  shl.b32 row, n_tile, m4_log2(TILE_N);  // n_tile * TILE_N
  shl.b32 first_k, rank, m4_log2(HEAD_DIM);  // rank * HEAD_DIM
m4_for(<|STAGE|>, $1, $2, <|
  add.u32 k, first_k, eval(STAGE * STAGE_K);
  mbarrier_arrive_expect(LOADED(STAGE), W_STAGE)
  m4_if(WEIGHTS_ONCE, <|tma_load_2d_once|>, <|tma_load_2d|>)(AT(S_W + STAGE * W_STAGE), map, k, row, LOADED(STAGE))
|>)dnl
}|>)

// Usage: group_of_tile(GROUP, TILE_IN_GROUP)
// out: both u32, of n_tile
macro(<|group_of_tile|>, 2, <|
{
  .reg .b32 per_group;
  ld.param.u32 per_group, [tiles_per_group];
  div.u32 $1, n_tile, per_group;
  mul.lo.u32 $2, $1, per_group;
  sub.u32 $2, n_tile, $2;  // n_tile % per_group
}|>)

// Usage: request_scales                        thread
// The scale words of our rows and head.  in: group, tile_in_group, rank
macro(<|request_scales|>, 0, <|
{
  .reg .b64 map;
  .reg .b32 row, word;
  tensor_map_address(map, ws_map)
  shl.b32 row, tile_in_group, m4_log2(TILE_N);  // tile_in_group * TILE_N
  shl.b32 word, rank, m4_log2(STAGES);  // rank * STAGES
  mbarrier_arrive_expect(AT(S_SCALES_LOADED), eval(STAGES * SCALE_STAGE))
  tma_load_3d(AT(S_W_SCALES), map, row, word, group, AT(S_SCALES_LOADED))
}|>)

// Usage: expect_inbox                          thread
// What the inbox will hold: our tokens rank, rank + HEADS, .. below TILE, from each head.
macro(<|expect_inbox|>, 0, <|
m4_if(TILE < HEADS, <|dnl
{
  .reg .pred owner;
  setp.lt.u32 owner, rank, TILE;
  @owner mbarrier.arrive.expect_tx.shared::cta.b64 _, [AT(S_REDUCED)], INBOX_SLOT_BYTES;
}
|>, TILE % HEADS == 0, <|dnl
mbarrier_arrive_expect(AT(S_REDUCED), INBOX_BYTES)
|>, <|dnl
{
  .reg .pred owns_one_more;
  .reg .b32 bytes;
  setp.lt.u32 owns_one_more, rank, eval(TILE % HEADS);  // TILE % HEADS
  selp.b32 bytes, INBOX_BYTES, eval(INBOX_BYTES - INBOX_SLOT_BYTES), owns_one_more;
  mbarrier_arrive_expect(AT(S_REDUCED), bytes)
}
|>)dnl|>)

// Usage: rotate_back(EVEN, ODD, COS, SIN)
// in/out: EVEN, ODD, f32, in rotary lanes (COS and SIN of the others hold nothing).  One
// rounding a product, one an fma: the order of operations is part of the contract.
macro(<|rotate_back|>, 4, <|
{
  .reg .f32 odd_sin, even_sin;
  mul.rn.f32 odd_sin, $2, $4;
  mul.rn.f32 even_sin, $1, $4;
  neg.f32 even_sin, even_sin;
  @rotary fma.rn.f32 $1, $1, $3, odd_sin;  // even * cos + odd * sin
  @rotary fma.rn.f32 $2, $2, $3, even_sin;  // odd * cos - even * sin
}|>)

// Usage: zero_missing_scales(MINE, SCALE_TILE)             warp
// Scale bytes of rows that no token has are zero.  By the warp whose MINE holds, of one rank
// and the first token tile.  Lane l has rows l + 32j, 4 bytes each, at l * 16 + j * 4 of the
// scale tile.
macro(<|zero_missing_scales|>, 2, <|
warps_begin(padded, $1)
{
  .reg .pred padding;
  .reg .b32 count, offset, row;
  .reg .b64 address, lane_offset;
  ld.param.u32 count, [tokens];
  ld.param.u64 address, [qs];
  cvta.to.global.u64 address, address;
  mad.wide.u32 address, $2, QS_TILE, address;  // QS_TILE
  shl.b32 offset, lane, 4;
  cvt.u64.u32 lane_offset, offset;
  add.u64 address, address, lane_offset;
m4_for(<|J|>, 0, QS_ROWS / 32 - 1, <|
  add.u32 row, lane, eval(32 * J);
  setp.ge.u32 padding, row, count;
  @padding st.global.b32 [address+eval(4 * J)], 0;
|>)dnl
}
warps_end|>)

divert(0)dnl
