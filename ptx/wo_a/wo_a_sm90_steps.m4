divert(-1)
m4_once(<|wo_a_sm90_steps.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// wo_a on sm_90a for T <= 4: the sizes of wo_a_sm90.ptx.m4, and those of its steps that occur
// more than once.

// ---- sizes ----------------------------------------------------------------------------

constant(<|BLOCK|>, 32)                    // elements with one scale
constant(<|BLOCKS|>, HEAD_DIM / BLOCK)
constant(<|STAGE_BLOCKS|>, STAGE_K / BLOCK)
constant(<|MMA_N|>, 8)                     // token columns of one mma
m4_assert(TILE <= 4 && TILES == 1, <|more tokens: wo_a_sm90_stream.ptx.m4|>)

// Two ways to multiply, both by mma.sync:
//   SPREAD    1 or 2 tokens: the 8 columns of an mma are 8 / T blocks of K of each token, and a
//             block's product counts in its own columns alone.  So scales are applied once, at
//             the end, and B is loaded once a stage.  COLUMN_BLOCKS blocks share a B.
//   else      one column a token
constant(<|SPREAD|>, TILE <= 2)
constant(<|COLUMN_BLOCKS|>, MMA_N / TILE)

// Threads: of 64 that share a token, 8 elements each, 56 quantize what is not rotated; 8 of one
// warp more do what is: its cosines wait for the position, and nobody else waits for them until
// the last quarter of K is multiplied.  A warp multiplies 16 weight rows by all tokens over half
// of K: more warps hide the latencies better.
constant(<|CHUNK_ELEMENTS|>, 8)
constant(<|TOKEN_THREADS|>, HEAD_DIM / CHUNK_ELEMENTS)
constant(<|ROTARY_THREADS|>, ROPE_DIM / CHUNK_ELEMENTS)  // of a token
constant(<|MULTIPLY_THREADS|>, 512)
constant(<|ROTARY_WARP|>, MULTIPLY_THREADS / 32)
constant(<|THREADS|>, MULTIPLY_THREADS + 32)
m4_assert(TILE * ROTARY_THREADS <= 32, <|one warp rotates|>)
constant(<|WARP_ROWS|>, 16)
constant(<|ROW_WARPS|>, TILE_N / WARP_ROWS)
constant(<|K_PARTS|>, MULTIPLY_THREADS / 32 / ROW_WARPS)
constant(<|PART_STAGES|>, STAGES / K_PARTS)
constant(<|PART_BLOCKS|>, PART_STAGES * STAGE_BLOCKS)
m4_assert(K_PARTS == 2 && PART_BLOCKS == 8, <|two halves of K|>)
constant(<|LOAD_BLOCKS|>, m4_if(SPREAD, 2, STAGE_BLOCKS))  // blocks whose weights are loaded ahead
constant(<|SETS|>, m4_if(SPREAD, PART_BLOCKS / COLUMN_BLOCKS, 1))  // accumulators of 4 registers
constant(<|ROTARY_CHUNK|>, (HEAD_DIM - ROPE_DIM) / CHUNK_ELEMENTS)
constant(<|ROTARY_BLOCK|>, (HEAD_DIM - ROPE_DIM) / BLOCK)
m4_assert(ROTARY_BLOCK >= BLOCKS - STAGE_BLOCKS, <|only the last stage has rotated blocks|>)
// Default place of the trigger, after the wait: the fastest on an H200 (TUNING.md).
constant(<|TRIGGER|>, TRIGGER_AFTER_WAIT)
// Two CTAs of 17 warps fit on an SM with 56 registers a thread, three only with 32.  40 are what
// T = 1, 3 and 4 were measured with; one head a group needs more.
constant(<|MAX_REGISTERS|>, m4_if(TILE == 2 || HEADS == 1, 56, 40))

// Activations, f16, as B operands.  Each block keeps its order of K from ldmatrix, which gives
// lane 4g + q bytes 4q..4q+3 and 16+4q..16+4q+3 of the weights: of the two steps of 16 that
// make a block the first is elements 0..15, in the order 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, ..
// In memory: block, slot.  A slot is the 16 bytes of a lane.  Slot of token t and quarter q:
// (t ^ block % X_TOKENS) * 4 + q, so that stores of a warp spread over the banks.
constant(<|X_TOKENS|>, m4_power_of_2(TILE))
constant(<|X_BLOCK|>, X_TOKENS * BLOCK * 2)
constant(<|XS_BLOCK|>, MMA_N * 4)

// Split-K: the slots of a rank are one chunk.
m4_assert(CHUNKS == 1, <|several chunks|>)
constant(<|INBOX_TOTAL|>, HEADS * INBOX_PEER)
m4_assert(INBOX_TOTAL <= PART_STAGES * W_STAGE, <|the inbox does not fit in the weights|>)
// Each column of the product has a rank of its own, which it alone goes to.
constant(<|RANK_A_COLUMN|>, HEADS == MMA_N && !SPREAD)

// Named barriers; 0 is that of all threads, 1 + w that of the two warps of 16 weight rows.
constant(<|BARRIER_USED_UP|>, ROW_WARPS + 1)
constant(<|BARRIER_PLAIN|>, ROW_WARPS + 2)

// Summing: by the warps of the second half of K, one thread a weight row and half of the
// slots, while those of the first send.
constant(<|SUM_THREADS|>, 256)
constant(<|FIRST_SUM_THREAD|>, MULTIPLY_THREADS - SUM_THREADS)
constant(<|SUM_WORDS|>, m4_max(1, CHUNK / 2))
constant(<|SUM_HALVES|>, m4_if(CHUNK > 1, 2, 1))

// A sum of 32 products is below 2^23 and a multiple of 2^-18: times 2^(e - 127) it is exact in
// f32 for every scale byte e up to 231.  Warps with larger ones take the long way.
constant(<|LARGEST_PLAIN_SCALE|>, 231)

// Element J of the chunk; element J of accumulator I.
define(<|V|>, <|v<||>eval($1)|>)
define(<|ACC|>, <|acc<||>eval(4 * ($1) + $2)|>)

// ---- quantizing -----------------------------------------------------------------------

// Usage: quantize_chunk(PREDICATE)
// in: v, f32, our chunk.  Where PREDICATE holds stores it, as f16 of its e4m3 codes, and the scale.
macro(<|quantize_chunk|>, 1, <|
{
  .reg .b32 scale, inverse, codes, h<4>;
  .reg .f32 amax, size, other;
  abs.f32 amax, V(0);
  max.f32 amax, amax, F32_AMAX_FLOOR;  // a NaN loses, here and below
m4_for(<|J|>, 1, CHUNK_ELEMENTS - 1, <|
  abs.f32 size, V(J);
  max.f32 amax, amax, size;
|>)dnl
  shfl.sync.bfly.b32 other, amax, 1, 0x1f, 0xffffffff;
  max.f32 amax, amax, other;
  shfl.sync.bfly.b32 other, amax, 2, 0x1f, 0xffffffff;
  max.f32 amax, amax, other;
  ue8m0_of_normal(scale, amax)
  sub.u32 inverse, 254, scale;
  shl.b32 inverse, inverse, 23;
m4_for(<|J|>, 0, CHUNK_ELEMENTS - 1, <|
  mul.rn.f32 V(J), V(J), inverse;
|>)dnl
  e4m3x4(codes, V(0), V(1), V(2), V(3))
  f16x2_of_e4m3x4(h0, h1, codes)
  e4m3x4(codes, V(4), V(5), V(6), V(7))
  f16x2_of_e4m3x4(h2, h3, codes)
  @$1 st.shared.v2.b32 [x_to+S_X], {h0, h1};  // S_X
  @$1 st.shared.v2.b32 [x_to+eval(S_X + 16)], {h2, h3};
  shl.b32 scale, scale, 23;  // as f32
  and.pred first_of_4, first_of_4, $1;
  @first_of_4 st.shared.b32 [scale_to+S_X_SCALES], scale;  // S_X_SCALES
}|>)

// Usage: widen_chunk
// out: v, f32, of our chunk c
macro(<|widen_chunk|>, 0, <|
m4_for(<|J|>, 0, 3, <|
widen_bf16x2(V(2 * J), V(2 * J + 1), c<||>J)
|>)dnl|>)

// Usage: place_chunk
// out: x_from, what we load of token 0; x_to, scale_to, where our chunk and its scale go;
// first_of_4, predicate: we store the scale.  in: chunk, our_token, group, rank
macro(<|place_chunk|>, 0, <|
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
}
{
  .reg .b32 block, slot, part;
  shr.u32 block, chunk, 2;
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
  setp.eq.u32 first_of_4, part, 0;
}|>)

// Usage: load_chunk(PREDICATE)
// out: c, our chunk, where PREDICATE holds.  in: x_from, our_token
macro(<|load_chunk|>, 1, <|
{
  .reg .b64 address, token, stride;
  ld.param.u64 stride, [x_token_stride];
  cvt.u64.u32 token, our_token;
  mad.lo.u64 address, token, stride, x_from;
  @$1 ld.global.v4.b32 {m4_list(<|J|>, 0, 3, <|c<||>J|>)}, [address];
}|>)

// ---- the product ----------------------------------------------------------------------

// Usage: load_row_scales
// Where B has several blocks: the scales that lane 4g + q needs, of columns 2q and 2q + 1 of rows g
// and g + 8.  out: row_scale_a, row_scale_b, as f32.  in: row, in_four, k_part
macro(<|load_row_scales|>, 0, <|
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
}|>)

// Usage: load_blocks(STAGE, FIRST, LAST)
// out: w(4 FIRST) .. w(4 LAST + 3), blocks FIRST .. LAST of the warp's stage number STAGE
macro(<|load_blocks|>, 3, <|
m4_for(<|I|>, $2, $3, <|
{
  .reg .b32 at;
  xor.b32 at, w_from, eval(I * BLOCK);
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {m4_list(<|J|>, 4 * I, 4 * I + 3, <|w<||>J|>)}, [at+eval(S_W + W_STAGE * $1)];  // S_W
}
|>)dnl|>)

// Usage: widen_block(STEP, A)
// out: A0 .. A7, the A operands (f16) of block STEP of those loaded, for two mma
macro(<|widen_block|>, 2, <|
f16x2_of_e4m3x4($2<||>0, $2<||>2, w<||>eval(4 * $1))
f16x2_of_e4m3x4($2<||>1, $2<||>3, w<||>eval(4 * $1 + 1))
f16x2_of_e4m3x4($2<||>4, $2<||>6, w<||>eval(4 * $1 + 2))
f16x2_of_e4m3x4($2<||>5, $2<||>7, w<||>eval(4 * $1 + 3))|>)

// Usage: mma_f16(D, D0, A0, B, B0, C, C0)
// D, B, C: names of registers without their numbers, of which the first are D0, B0 and C0; A is
// a.  Four of D = four of A * two of B + four of C; or + zero, where C is zero
macro(<|mma_f16|>, 7, <|
mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {m4_list(<|J|>, 0, 3, <|$1<||>eval($2 + J)|>)},
  {m4_list(<|J|>, 0, 3, <|a<||>eval($3 + J)|>)}, {m4_list(<|J|>, 0, 1, <|$4<||>eval($5 + J)|>)},
  {m4_list(<|J|>, 0, 3, <|ifelse(<|$6|>, zero, zero, <|$6<||>eval($7 + J)|>)|>)};|>)

// Usage: row_scale(SCALE, WORD, STEP)
// in: WORD, ue8m0 of 4 steps.  out: SCALE (b32) = the f32 of byte STEP; infinity for 255
macro(<|row_scale|>, 3, <|
m4_if($3 < 3, <|shl.b32 $1, $2, eval(23 - 8 * $3);|>, <|shr.u32 $1, $2, 1;|>)
and.b32 $1, $1, 0x7f800000;
max.u32 $1, $1, 0x00400000;  // byte 0 is 2^-127|>)

// Usage: add_scaled(STEP, D)
// Of block STEP from xs_lane, with the products D0 ..: acc += D * scale of the row * scale of
// the token.  in: scales_a, scales_b, extreme, xs_lane
macro(<|add_scaled|>, 2, <|
{
  .reg .b32 row_a, row_b, token<2>;
  row_scale(row_a, scales_a, eval($1 % STAGE_BLOCKS))
  row_scale(row_b, scales_b, eval($1 % STAGE_BLOCKS))
  ld.shared.v2.b32 {token0, token1}, [xs_lane+eval(S_X_SCALES + $1 * XS_BLOCK)];  // S_X_SCALES
  @extreme bra.uni long_way;
m4_for(<|J|>, 0, 3, <|
  mul.rn.f32 $2<||>J, $2<||>J, m4_if(J / 2 % 2, row_b, row_a);
|>)dnl
m4_for(<|J|>, 0, 3, <|
  fma.rn.f32 acc<||>J, $2<||>J, TOKEN(J), acc<||>J;
|>)dnl
  bra.uni added;
long_way:
m4_for(<|J|>, 0, 3, <|
  add_scaled_evenly(acc<||>J, $2<||>J, m4_if(J / 2 % 2, row_b, row_a), TOKEN(J))
|>)dnl
added:
}|>)
// The scale of the token of element J of a product.
define(<|TOKEN|>, <|token<||>eval(($1) % 2)|>)

// Usage: add_scaled_evenly(SUM, VALUE, ROW_SCALE, TOKEN_SCALE)
// SUM += VALUE * ROW_SCALE * TOKEN_SCALE, for all scales: as two factors that share the
// exponent evenly, so that neither step leaves f32 unless the result does.
macro(<|add_scaled_evenly|>, 4, <|
{
  .reg .b32 exponent, factor;
  .reg .f32 value;
  shr.u32 exponent, $3, 23;
  shr.u32 factor, $4, 23;
  add.u32 exponent, exponent, factor;  // + 254; a token has at least 85
  shr.u32 factor, exponent, 1;
  sub.u32 exponent, exponent, factor;
  shl.b32 factor, factor, 23;
  shl.b32 exponent, exponent, 23;
  mul.rn.f32 value, $2, factor;
  fma.rn.f32 $1, value, exponent, $1;
}|>)

// Usage: multiply_by_column(STAGE, STEP)
// Block STEP of the warp's stage STAGE: acc += (A * B) * scales
macro(<|multiply_by_column|>, 2, <|
{
  .reg .b32 a<8>, b<4>, x_at;
  .reg .f32 d<4>;
  widen_block($2, a)
  xor.b32 x_at, x_lane, eval((STAGE_BLOCKS * $1 + $2) % X_TOKENS << 6);  // slot ^ block % X_TOKENS
  ld.shared.v4.b32 {b0, b1, b2, b3}, [x_at+eval(S_X + (STAGE_BLOCKS * $1 + $2) * X_BLOCK)];  // S_X
  mma_f16(d, 0, 0, b, 0, zero, 0)
  mma_f16(d, 0, 4, b, 2, d, 0)
  add_scaled(eval(STAGE_BLOCKS * $1 + $2), d)
}|>)

// Usage: multiply_spread(STAGE, STEP)
// Block STEP of the warp's stage STAGE: the columns of the block become acc of their set
macro(<|multiply_spread|>, 2, <|
m4_multiply_spread($1, $2, eval(STAGE_BLOCKS * $1 + $2))|>)
define(<|m4_multiply_spread|>, <|dnl
m4_if(TILE == 1, <|dnl
{
  // The columns of other blocks are zero: one accumulator keeps all of them apart.
  .reg .pred ours;
  .reg .b32 a<8>, of_block<4>;
  widen_block($2, a)
  setp.eq.u32 ours, in_eight, eval($3 % COLUMN_BLOCKS);
m4_for(<|J|>, 0, 3, <|
  selp.b32 of_block<||>J, b<||>J, 0, ours;
|>)dnl
  mma_f16(acc, 0, 0, of_block, 0, acc, 0)
  mma_f16(acc, 0, 4, of_block, 2, acc, 0)
}
|>, <|dnl
{
  .reg .pred ours;
  .reg .b32 a<8>;
  .reg .f32 d<4>;
  widen_block($2, a)
  mma_f16(d, 0, 0, b, 0, zero, 0)
  mma_f16(d, 0, 4, b, 2, d, 0)
  setp.eq.u32 ours, in_four, eval($3 % COLUMN_BLOCKS * TILE / 2);
m4_for(<|J|>, 0, 3, <|
  selp.f32 ACC(eval($3 / COLUMN_BLOCKS), J), d<||>J, ACC(eval($3 / COLUMN_BLOCKS), J), ours;
|>)dnl
}|>)|>)

// Usage: inspect_scales(START, EXTREME, WORDS)
// in: WORDS0 .., ue8m0.  out: START (f32) = NaN if one of their bytes is, else 0; EXTREME
// (predicate, or-ed to): a byte is above LARGEST_PLAIN_SCALE
macro(<|inspect_scales|>, 3, <|
{
  .reg .pred found;
  .reg .b32 nan, large, word, sum;
  mov.b32 nan, 0;
  mov.b32 large, 0;
m4_for(<|STAGE|>, 0, PART_STAGES - 1, <|
  and.b32 word, $3<||>STAGE, 0x7f7f7f7f;
  add.u32 sum, word, 0x01010101;  // bit 7: the low seven bits are all 1
  and.b32 sum, sum, $3<||>STAGE;
  or.b32 nan, nan, sum;
  add.u32 sum, word, m4_hex((255 - LARGEST_PLAIN_SCALE) % 128 * 0x01010101);  // 128 + 7 bits > 231
  and.b32 sum, sum, $3<||>STAGE;
  or.b32 large, large, sum;
|>)dnl
  and.b32 nan, nan, 0x80808080;
  and.b32 large, large, 0x80808080;
  setp.ne.u32 found, nan, 0;
  selp.f32 $1, F32_NAN, F32_ZERO, found;
  setp.ne.or.u32 $2, large, 0, $2;
}|>)

// Usage: start_of_scale(START, SCALE)
// in: SCALE, a ue8m0 byte at the exponent of an f32.  out: START (f32) = NaN for 255, else 0
macro(<|start_of_scale|>, 2, <|
{
  .reg .pred not_a_number;
  setp.eq.u32 not_a_number, $2, 0x7f800000;
  selp.f32 $1, F32_NAN, F32_ZERO, not_a_number;
}|>)

// ---- split-K --------------------------------------------------------------------------

// Usage: inbox_slot(ADDRESS, INBOX, SLOT)
// in: INBOX (u32) = our inbox of a sender at its weight row, slot 0; SLOT (u32).
// out: ADDRESS = INBOX at the slot
macro(<|inbox_slot|>, 3, <|
mad.lo.u32 $1, $3, 4, $2;|>)

// Usage: owner_of(RANK, SLOT, TOKEN)
// in: TOKEN (u32) of the tile.  out: the rank that owns it, its slot there
macro(<|owner_of|>, 3, <|
m4_if((HEADS & (HEADS - 1)) == 0, <|and.b32 $1, $3, eval(HEADS - 1);  // token % HEADS
shr.u32 $2, $3, m4_log2(HEADS);  // token / HEADS|>, <|rem.u32 $1, $3, HEADS;
div.u32 $2, $3, HEADS;|>)|>)

// Usage: send_value(VALUE, TOKEN, INBOX)
// in: TOKEN (u32) of the tile, INBOX as for inbox_slot.  Sends one word to its owner, or
// stores it if there is only one rank.  in: smem
macro(<|send_value|>, 3, <|
{
  .reg .b32 owner, slot, to, to_reduced;
  owner_of(owner, slot, $2)
  inbox_slot(to, $3, slot)
m4_if(HEADS > 1, <|dnl
  peer_address(to, to, owner)
  add.u32 to_reduced, smem, S_REDUCED;  // S_REDUCED
  peer_address(to_reduced, to_reduced, owner)
  send_words(to, 0, to_reduced, $1)
|>, <|dnl
  st.shared.f32 [to], $1;
|>)dnl
}|>)

divert(0)dnl
