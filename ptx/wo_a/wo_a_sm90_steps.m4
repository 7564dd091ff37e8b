divert(-1)
m4_once(<|wo_a_sm90_steps.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// wo_a on sm_90a: the sizes that are this architecture's own, and the steps of the kernel
// that occur more than once.

// ---- sizes ----------------------------------------------------------------------------

constant(<|BLOCK|>, 32)                    // elements with one scale
constant(<|BLOCKS|>, HEAD_DIM / BLOCK)
constant(<|STAGE_BLOCKS|>, STAGE_K / BLOCK)
constant(<|MMA_N|>, 8)                     // token columns of one mma
constant(<|N8|>, m4_ceil_div(TILE, MMA_N)) // groups of 8 tokens

// One or two tokens: the columns of an mma hold several blocks of K of each token, and its
// accumulators need no scaling before the end.  COLUMN_BLOCKS blocks share an accumulator.
constant(<|SPREAD|>, TILE <= 2)
constant(<|COLUMN_BLOCKS|>, MMA_N / m4_min(TILE, MMA_N))
constant(<|SETS|>, m4_if(SPREAD, BLOCKS / COLUMN_BLOCKS, N8))  // accumulators of 4 registers

// Threads: 64 quantize one token, 8 elements each; a warp multiplies 16 weight rows.
constant(<|CHUNK_ELEMENTS|>, 8)
constant(<|TOKEN_THREADS|>, HEAD_DIM / CHUNK_ELEMENTS)
constant(<|THREADS|>, 256)
constant(<|WARP_ROWS|>, 16)
m4_assert(THREADS / 32 * WARP_ROWS == TILE_N, <|a warp for every 16 rows|>)
constant(<|TOKENS_PER_ITERATION|>, THREADS / TOKEN_THREADS)
constant(<|ITERATIONS|>, m4_ceil_div(TILE, TOKENS_PER_ITERATION))
// Tokens of the last iteration when not all threads have one, else 0.
constant(<|LAST_TOKENS|>, TILE % TOKENS_PER_ITERATION)
constant(<|ROTARY_CHUNK|>, (HEAD_DIM - ROPE_DIM) / CHUNK_ELEMENTS)
constant(<|BATCH|>, 4)                     // iterations whose cosines are held at a time
// Default place of the trigger: 0 late, 1 entry, 2 after the wait.
constant(<|TRIGGER|>, ifdef(<|BW_TRIGGER|>, <|BW_TRIGGER|>, 1))
constant(<|MAX_REGISTERS|>, 128)           // an early successor fits beside us

// Activations, f16, as the B operands of the mma: block, group of 8 tokens, slot.  A slot is
// the 16 bytes of a lane, elements 4q..4q+3 and 16+4q..16+4q+3 of a block.  Slot of token g
// (of 8) and quarter q: (g ^ block % 8) * 4 + q, so that the stores of a warp spread over
// the banks.
constant(<|X_GROUP|>, 8 * 4 * 16)
constant(<|X_BLOCK|>, N8 * X_GROUP)
constant(<|XS_BLOCK|>, N8 * MMA_N * 4)

// The inbox takes the place of the first stages of the weights, which every CTA has done
// with long before the first peer sends: the cluster barrier says so.
constant(<|INBOX_TOTAL|>, HEADS * INBOX_PEER)
constant(<|FREED_STAGE|>, m4_ceil_div(INBOX_TOTAL, W_STAGE) - 1)
m4_assert(FREED_STAGE < STAGES, <|the inbox does not fit in the weights|>)
// With 8 heads a lane has all slots of a rank: one vector, as long for every owner.
constant(<|WHOLE_VECTORS|>, HEADS == MMA_N && !SPREAD)

// Summing: the two halves of the CTA share the words of a chunk.
constant(<|SUM_WORDS|>, m4_max(1, CHUNK / 2))
constant(<|SUM_HALVES|>, m4_if(CHUNK > 1, 2, 1))

// Scales below stand for 2^15 times less, so that a product of 32 with the scale of the
// activations alone stays within f32: at most 2^23 * 2^(126 - 15).  The last step undoes it.
constant(<|SCALE_SHIFT|>, 15)
constant_text(<|F32_2_POWER_15|>, 0f47000000)
constant_text(<|F32_NAN|>, 0f7FFFFFFF)

// Element J of the chunk of iteration I; the batch of iterations.
define(<|V|>, <|v<||>eval(CHUNK_ELEMENTS * ($1) + $2)|>)
define(<|ACC|>, <|acc<||>eval(4 * ($1) + $2)|>)

// ---- quantizing -----------------------------------------------------------------------

// Usage: ue8m0_by_integers(SCALE, AMAX)
// in: AMAX (f32) >= 0, or a NaN.  out: SCALE (u32) = AMAX / 448 rounded up to a power of two
// as ue8m0: the bits of cvt.rp.satfinite.ue8m0x2, which this architecture lacks.  NaN: 255
macro(<|ue8m0_by_integers|>, 2, <|
{
  .reg .pred tiny, not_a_number;
  .reg .b32 scaled;
  mul.rn.f32 scaled, $2, F32_ONE_448TH;
  setp.le.u32 tiny, scaled, 0x00400000;  // 2^-127 and less
  setp.nan.f32 not_a_number, scaled, scaled;
  add.u32 $1, scaled, 0x007fffff;
  shr.u32 $1, $1, 23;  // the exponent, one more if a fraction follows
  min.u32 $1, $1, 254;
  selp.b32 $1, 0, $1, tiny;
  selp.b32 $1, 255, $1, not_a_number;
}|>)

// Usage: ue8m0_of_normal(SCALE, AMAX)
// The same for an AMAX of at least 1e-10, not NaN.
macro(<|ue8m0_of_normal|>, 2, <|
{
  .reg .b32 scaled;
  mul.rn.f32 scaled, $2, F32_ONE_448TH;
  add.u32 $1, scaled, 0x007fffff;
  shr.u32 $1, $1, 23;
  min.u32 $1, $1, 254;
}|>)

// Usage: f16x2_of_e4m3x4(LOW, HIGH, WORD)
// out: LOW, HIGH = f16 of bytes 0, 1 and 2, 3 of WORD; exact, NaN stays NaN
macro(<|f16x2_of_e4m3x4|>, 3, <|
{
  .reg .b16 low, high;
  mov.b32 {low, high}, $3;
  cvt.rn.f16x2.e4m3x2 $1, low;
  cvt.rn.f16x2.e4m3x2 $2, high;
}|>)

// Usage: quantize_chunk(ITERATION)
// in: v of the iteration, f32.  Stores them, as f16 of their e4m3 codes, and the scale.
macro(<|quantize_chunk|>, 1, <|
{
  .reg .b32 scale, inverse, codes, h<4>;
  .reg .f32 amax, size, other;
  abs.f32 amax, V($1, 0);
  max.f32 amax, amax, F32_AMAX_FLOOR;  // a NaN loses, here and below
m4_for(<|J|>, 1, CHUNK_ELEMENTS - 1, <|
  abs.f32 size, V($1, J);
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
  mul.rn.f32 V($1, J), V($1, J), inverse;
|>)dnl
  e4m3x4(codes, V($1, 0), V($1, 1), V($1, 2), V($1, 3))
  f16x2_of_e4m3x4(h0, h1, codes)
  e4m3x4(codes, V($1, 4), V($1, 5), V($1, 6), V($1, 7))
  f16x2_of_e4m3x4(h2, h3, codes)
  st.shared.v2.b32 [m4_if($1 % 2, <|x_to_odd|>, <|x_to|>)+eval(S_X + X_GROUP * ($1 / 2))], {h0, h1};  // S_X
  st.shared.v2.b32 [m4_if($1 % 2, <|x_to_odd|>, <|x_to|>)+eval(S_X + X_GROUP * ($1 / 2) + 16)], {h2, h3};
m4_if(!SPREAD, <|dnl
  sub.u32 scale, scale, SCALE_SHIFT;  // SCALE_SHIFT
  shl.b32 scale, scale, 23;  // as f32
|>)dnl
  @first_of_4 st.shared.b32 [scale_to+eval(S_X_SCALES + 4 * TOKENS_PER_ITERATION * $1)], scale;  // S_X_SCALES
}|>)

// Usage: m4_quantize_batch(FIRST, LAST, NUMBER)
// Iterations FIRST .. LAST: loads their cosines, rotates and quantizes.
define(<|m4_quantize_batch|>, <|dnl
  {
    .reg .f32 cosine<eval(4 * ($2 - $1 + 1))>, sine<eval(4 * ($2 - $1 + 1))>;
    warps_begin(rope_requested$3, rotary_warp)
    {
      .reg .b64 address;
m4_for(<|I|>, $1, $2, <|
      shl.b64 address, position<||>I, m4_log2(4 * ROPE_DIM);  // position * bytes of a row
      add.u64 address, address, rope_from;
      .reg .pred loads<||>I;
      m4_if(IS_LAST(I), <|and.pred loads<||>I, rotary, in_last;|>, <|mov.pred loads<||>I, rotary;|>)
      @loads<||>I ld.global.v4.f32 {m4_list(<|J|>, 0, 3, <|cosine<||>eval(4 * (I - $1) + J)|>)}, [address];
      @loads<||>I ld.global.v4.f32 {m4_list(<|J|>, 0, 3, <|sine<||>eval(4 * (I - $1) + J)|>)}, [address+eval(2 * ROPE_DIM)];
|>)dnl
    }
    warps_end
m4_for(<|I|>, $1, $2, <|
m4_for(<|J|>, 0, 3, <|
    widen_bf16x2(V(I, 2 * J), V(I, 2 * J + 1), c<||>eval(4 * I + J))
|>)dnl
|>)dnl
    warps_begin(rotated$3, rotary_warp)
m4_for(<|I|>, $1, $2, <|
m4_for(<|J|>, 0, 3, <|
    rotate_back(V(I, 2 * J), V(I, 2 * J + 1), cosine<||>eval(4 * (I - $1) + J), sine<||>eval(4 * (I - $1) + J))
|>)dnl
|>)dnl
    warps_end
m4_for(<|I|>, $1, $2, <|

    remark(<|token first_token|>m4_if(I > 0, <| + eval(TOKENS_PER_ITERATION * I)|>))
m4_if(IS_LAST(I), <|dnl
    warps_begin(quantized, in_last)
|>)dnl
    quantize_chunk(I)
m4_if(IS_LAST(I), <|dnl
    warps_end
|>)dnl
|>)dnl
  }|>)

// ---- the product ----------------------------------------------------------------------

// Usage: load_block(STAGE, STEP)
// out: a0 .. a7, the A operands (f16) of block STEP of the stage for two mma
macro(<|load_block|>, 2, <|
{
  .reg .b32 w<4>;
  ldmatrix.sync.aligned.m8n8.x4.shared.b16 {w0, w1, w2, w3}, [w_from<||>$2+eval(S_W + W_STAGE * $1)];  // S_W
  f16x2_of_e4m3x4(a0, a2, w0)
  f16x2_of_e4m3x4(a1, a3, w1)
  f16x2_of_e4m3x4(a4, a6, w2)
  f16x2_of_e4m3x4(a5, a7, w3)
}|>)

// Usage: mma_f16(D, A, B, C)
// Names of registers without their numbers: D0..3 = A0..3 * B0..1 + C0..3
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

// Usage: multiply_scaled(STAGE, STEP)
// One block of K: acc += (A * B) * scale of the tokens * scale of the rows
macro(<|multiply_scaled|>, 2, <|
{
  .reg .b32 a<8>, x_at, row_a, row_b;
  load_block($1, $2)
  row_scale(row_a, scales_a<||>$1, $2)
  row_scale(row_b, scales_b<||>$1, $2)
  xor.b32 x_at, x_lane, eval((STAGE_BLOCKS * $1 + $2) % 8 << 6);  // slot ^ block % 8
m4_for(<|GROUP|>, 0, N8 - 1, <|
  {
    .reg .b32 b<4>;
    .reg .f32 d<4>, token_even, token_odd;
    ld.shared.v4.b32 {b0, b1, b2, b3}, [x_at+eval(S_X + (STAGE_BLOCKS * $1 + $2) * X_BLOCK + GROUP * X_GROUP)];  // S_X
    ld.shared.v2.f32 {token_even, token_odd}, [xs_lane+eval(S_X_SCALES + (STAGE_BLOCKS * $1 + $2) * XS_BLOCK + GROUP * 32)];  // S_X_SCALES
    mma_f16(d, 0, 0, b, 0, zero, 0)
    mma_f16(d, 0, 4, b, 2, d, 0)
    mul.rn.f32 d0, d0, token_even;
    mul.rn.f32 d1, d1, token_odd;
    mul.rn.f32 d2, d2, token_even;
    mul.rn.f32 d3, d3, token_odd;
    fma.rn.f32 ACC(GROUP, 0), d0, row_a, ACC(GROUP, 0);
    fma.rn.f32 ACC(GROUP, 1), d1, row_a, ACC(GROUP, 1);
    fma.rn.f32 ACC(GROUP, 2), d2, row_b, ACC(GROUP, 2);
    fma.rn.f32 ACC(GROUP, 3), d3, row_b, ACC(GROUP, 3);
  }
|>)dnl
}|>)

// Usage: multiply_spread(STAGE, STEP)
// One block of K: acc of its set += A * B, where B is zero but in the columns of the block
macro(<|multiply_spread|>, 2, <|
m4_multiply_spread($1, $2, eval(STAGE_BLOCKS * $1 + $2))|>)
define(<|m4_multiply_spread|>, <|dnl
{
  .reg .pred ours;
  .reg .b32 a<8>, b<4>, x_at;
  load_block($1, $2)
  setp.eq.u32 ours, column_block, eval($3 % COLUMN_BLOCKS);
  xor.b32 x_at, x_lane, eval($3 % 8 << 6);  // slot ^ block % 8
  add.u32 x_at, x_at, eval(S_X + $3 * X_BLOCK);  // S_X, this block
  selp.b32 x_at, x_at, zeros, ours;
  ld.shared.v4.b32 {b0, b1, b2, b3}, [x_at];
  mma_f16(acc, eval($3 / COLUMN_BLOCKS * 4), 0, b, 0, acc, eval($3 / COLUMN_BLOCKS * 4))
  mma_f16(acc, eval($3 / COLUMN_BLOCKS * 4), 4, b, 2, acc, eval($3 / COLUMN_BLOCKS * 4))
}|>)

// Usage: flag_nan_scales(NAN, WORDS)
// out: NAN (predicate): one of WORDS0 .. WORDS3 has a byte 255
macro(<|flag_nan_scales|>, 2, <|
{
  .reg .b32 any, low, word;
  mov.b32 any, 0;
m4_for(<|STAGE|>, 0, STAGES - 1, <|
  not.b32 word, $2<||>STAGE;  // a byte of 0 is what we look for
  sub.u32 low, word, 0x01010101;
  lop3.b32 low, low, word, 0x80808080, 0x20;  // low & ~word & 0x80808080
  or.b32 any, any, low;
|>)dnl
  setp.ne.u32 $1, any, 0;
}|>)

// Usage: apply_scales(VALUE, ROW_SCALE, TOKEN_SCALE)
// in: both ue8m0 (u32), TOKEN_SCALE not NaN and at least 85.
// in/out: VALUE (f32), times both scales; in two steps, for their product can leave f32
macro(<|apply_scales|>, 3, <|
{
  .reg .pred not_a_number;
  .reg .b32 exponent, half, factor;
  setp.eq.u32 not_a_number, $2, 255;
  add.u32 exponent, $2, $3;  // + 254
  shr.u32 half, exponent, 1;
  sub.u32 exponent, exponent, half;
  shl.b32 factor, half, 23;
  mul.rn.f32 $1, $1, factor;
  shl.b32 factor, exponent, 23;
  mul.rn.f32 $1, $1, factor;
  selp.f32 $1, F32_NAN, $1, not_a_number;
}|>)

// Usage: spread_scales(SET, ODD, ROW_AT, TOKEN_AT)
// in: row, in_four.  out: where the scales of column 2q + ODD of the set are: ROW_AT, of
// weight row `row`, byte addresses less S_W_SCALES; TOKEN_AT, of its token, less S_X_SCALES
macro(<|spread_scales|>, 4, <|
m4_if(TILE == 1, <|dnl
{
  .reg .b32 word, byte, number;  // block 8 * SET + 2q + ODD
  shr.u32 word, in_four, 1;
  and.b32 byte, in_four, 1;
  mad.lo.u32 $3, word, SCALE_STAGE, smem;
  mad.lo.u32 $3, row, 4, $3;
  mad.lo.u32 $3, byte, 2, $3;
  add.u32 $3, $3, eval(2 * $1 * SCALE_STAGE + $2);
  mad.lo.u32 number, in_four, 2, eval(8 * $1 + $2);
  mad.lo.u32 $4, number, XS_BLOCK, smem;
}
|>, <|dnl
mad.lo.u32 $3, row, 4, smem;  // block 4 * SET + q, token ODD
add.u32 $3, $3, in_four;
add.u32 $3, $3, eval($1 * SCALE_STAGE);
mad.lo.u32 $4, in_four, XS_BLOCK, smem;
add.u32 $4, $4, eval(4 * $1 * XS_BLOCK + 4 * $2);
|>)dnl|>)

// ---- split-K --------------------------------------------------------------------------

// Usage: inbox_slot(ADDRESS, INBOX, SLOT)
// in: INBOX (u32) = our inbox of a sender at its weight row, chunk 0, word 0; SLOT (u32).
// out: ADDRESS = INBOX at the slot
macro(<|inbox_slot|>, 3, <|
m4_if(CHUNKS > 1, <|{
  .reg .b32 part, word;
  shr.u32 part, $3, m4_log2(CHUNK);  // slot / CHUNK
  and.b32 word, $3, eval(CHUNK - 1);
  mad.lo.u32 $1, part, INBOX_CHUNK, $2;  // INBOX_CHUNK
  mad.lo.u32 $1, word, 4, $1;
}|>, <|mad.lo.u32 $1, $3, 4, $2;|>)|>)

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

// ---- outputs --------------------------------------------------------------------------

// Usage: store_output(SUM, SLOT)
// in: SUM (f32), output row n_row of the tile, of slot number SLOT (constant) + slot_offset.
// Quantizes the 32 outputs of a warp with one scale, if the token exists.
// in: q_to, qs_tile, out_row (token of slot_offset), end, n_step, quarter, lane0
macro(<|store_output|>, 2, <|
{
  .reg .pred live;
  .reg .b32 row;
  add.u32 row, out_row, eval(($2) * HEADS);
  setp.lt.u32 live, row, end;
  warps_begin(stored, live)
  .reg .pred not_a_number;
  .reg .b32 y, key, scale, inverse, qs_offset, qs_high;
  .reg .b16 code;
  .reg .b64 to, qs_to;
  round_to_bf16(y, $1)
  setp.nan.f32 not_a_number, y, y;
  and.b32 key, y, 0x7fffffff;
  selp.b32 key, 0xffffffff, key, not_a_number;  // -1: a NaN loses
  redux.sync.max.s32 key, key, 0xffffffff;  // of floats >= 0, as integers
  ue8m0_by_integers(scale, key)
  setp.eq.u32 not_a_number, scale, 0;
  sub.u32 inverse, 254, scale;
  shl.b32 inverse, inverse, 23;
  selp.b32 inverse, 0, inverse, not_a_number;
  mul.rn.f32 y, y, inverse;
  e4m3(code, y)
  mad.wide.u32 to, row, n, q_to;
  st.global.b8 [to], code;
  // scale of (token t, column n) at t % 32 * 16 + t / 32 * 4 + n % 128 / 32
  and.b32 qs_offset, row, 31;
  shr.u32 qs_high, row, 5;
  mad.lo.u32 qs_offset, qs_offset, 16, quarter;
  mad.lo.u32 qs_offset, qs_high, 4, qs_offset;
  cvt.u64.u32 qs_to, qs_offset;
  add.u64 qs_to, qs_to, qs_tile;
  @lane0 st.global.b8 [qs_to], scale;
  warps_end
}|>)

divert(0)dnl
