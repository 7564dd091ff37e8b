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
constant(<|N8|>, m4_ceil_div(TILE, MMA_N)) // groups of 8 tokens

// Three ways to multiply:
//   SPREAD    1 or 2 tokens: the 8 columns of an mma.sync are 8 / T blocks of K of each token,
//             and of each product only the columns of its own block are kept.  So B is loaded
//             once and scales are applied once, at the end.  COLUMN_BLOCKS blocks share a B.
//   WIDE      more than 8 tokens: wgmma, which reads B from shared memory for 64 rows at once
//   else      mma.sync, one column a token
constant(<|SPREAD|>, TILE <= 2)
constant(<|WIDE|>, N8 >= 2)
constant(<|COLUMN_BLOCKS|>, MMA_N / m4_min(TILE, MMA_N))

// Threads: 64 quantize one token, 8 elements each.  A warp multiplies 16 weight rows by all
// tokens over half of K: more warps hide the latencies better.
constant(<|CHUNK_ELEMENTS|>, 8)
constant(<|TOKEN_THREADS|>, HEAD_DIM / CHUNK_ELEMENTS)
constant(<|THREADS|>, 512)
constant(<|WARP_ROWS|>, 16)
constant(<|ROW_WARPS|>, TILE_N / WARP_ROWS)
constant(<|K_PARTS|>, THREADS / 32 / ROW_WARPS)
constant(<|PART_STAGES|>, STAGES / K_PARTS)
constant(<|PART_BLOCKS|>, PART_STAGES * STAGE_BLOCKS)
m4_assert(K_PARTS == 2 && PART_BLOCKS == 8, <|two halves of K|>)
constant(<|LOAD_BLOCKS|>, m4_if(SPREAD, 2, STAGE_BLOCKS))  // blocks whose weights are loaded ahead
constant(<|TURN_BLOCKS|>, 2)               // WIDE: blocks a turn of the loop
constant(<|BOTH_AT_ONCE|>, N8 == 2)        // more tokens: no faster, or out of registers
constant(<|SETS|>, m4_if(SPREAD, PART_BLOCKS / COLUMN_BLOCKS, N8))  // accumulators of 4 registers
constant(<|TOKENS_PER_ITERATION|>, THREADS / TOKEN_THREADS)
constant(<|ITERATIONS|>, m4_ceil_div(TILE, TOKENS_PER_ITERATION))
// Tokens of the last iteration when not all threads have one, else 0.
constant(<|LAST_TOKENS|>, TILE % TOKENS_PER_ITERATION)
constant(<|ROTARY_CHUNK|>, (HEAD_DIM - ROPE_DIM) / CHUNK_ELEMENTS)
constant(<|BATCH|>, 2)                     // iterations whose cosines are held at a time
// Default place of the trigger, after the wait: the fastest on an H200 (TUNING.md).
constant(<|TRIGGER|>, 2)
// Two CTAs fit on an SM with 64 registers a thread; three, where shared memory allows, with 40.
constant(<|MAX_REGISTERS|>, m4_if(TILE == 2 || TILE > 4, 64, 40))

// Activations, f16, as B operands.  Each block keeps its order of K from ldmatrix, which gives
// lane 4g + q bytes 4q..4q+3 and 16+4q..16+4q+3 of the weights: of the two steps of 16 that
// make a block the first is elements 0..15, in the order 0, 1, 4, 5, 8, 9, 12, 13, 2, 3, ..
//   WIDE   for wgmma: K-major, 128B swizzle; two blocks a row of 128 bytes
//   else   for mma.sync: block, slot.  A slot is the 16 bytes of a lane.  Slot of token t and
//          quarter q: (t ^ block % X_TOKENS) * 4 + q, so that stores of a warp spread over
//          the banks
constant(<|X_TOKENS|>, m4_if(WIDE, N8 * MMA_N, m4_power_of_2(TILE)))
constant(<|X_BLOCK|>, X_TOKENS * BLOCK * 2)
constant(<|X_ROW|>, 128)
constant(<|X_ATOM|>, N8 * 8 * X_ROW)
constant(<|XS_BLOCK|>, N8 * MMA_N * 4)
// Upper word of a descriptor: 1024 bytes from 8 rows to the next, 128B swizzle.
constant_text(<|DESCRIPTOR_K_MAJOR_128B|>, 0x40000040)

constant(<|INBOX_TOTAL|>, HEADS * INBOX_PEER)
// Where shared memory would not hold two CTAs otherwise, the inbox takes the place of the
// first stage of the weights, which every CTA has done with long before the first peer
// sends: the cluster barrier says so.
constant(<|INBOX_IN_WEIGHTS|>, HEADS > 1 && N8 == 4)
m4_assert(INBOX_TOTAL <= PART_STAGES * W_STAGE, <|the inbox does not fit in the weights|>)
constant(<|FREED_STAGE|>, m4_ceil_div(INBOX_TOTAL, W_STAGE) - 1)
// With 8 heads a lane has all slots of a rank: one vector, as long for every owner.
constant(<|WHOLE_VECTORS|>, HEADS == MMA_N && !SPREAD)

// Named barriers; 0 is that of all threads, 1 + w that of the two warps of 16 weight rows.
constant(<|BARRIER_SUMS|>, ROW_WARPS + 1)
constant(<|BARRIER_USED_UP|>, ROW_WARPS + 2)

// Summing: by the warps of the second half of K, one thread a weight row and half of the
// words of a chunk, while those of the first send.
constant(<|SUM_THREADS|>, 256)
constant(<|FIRST_SUM_THREAD|>, THREADS - SUM_THREADS)
constant(<|SUM_WORDS|>, m4_max(1, CHUNK / 2))
constant(<|SUM_HALVES|>, m4_if(CHUNK > 1, 2, 1))

// A sum of 32 products is below 2^23 and a multiple of 2^-18: times 2^(e - 127) it is exact in
// f32 for every scale byte e up to 231.  Warps with larger ones take the long way.
constant(<|LARGEST_PLAIN_SCALE|>, 231)
constant_text(<|F32_NAN|>, 0f7FFFFFFF)

// Element J of the chunk of iteration I; element J of accumulator I.
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
m4_if(WIDE, <|dnl
  st.shared.v2.b32 [x_to+eval(S_X + $1 * 8 * X_ROW)], {h0, h2};  // S_X
  st.shared.v2.b32 [x_to_next+eval(S_X + $1 * 8 * X_ROW)], {h1, h3};
|>, <|dnl
  st.shared.v2.b32 [x_to+S_X], {h0, h1};  // S_X
  st.shared.v2.b32 [x_to+eval(S_X + 16)], {h2, h3};
|>)dnl
  shl.b32 scale, scale, 23;  // as f32
  @first_of_4 st.shared.b32 [scale_to+eval(S_X_SCALES + 4 * TOKENS_PER_ITERATION * $1)], scale;  // S_X_SCALES
}|>)

// Usage: quantize_batch(FIRST, LAST, NUMBER)
// Iterations FIRST .. LAST, the batch of that NUMBER: loads their cosines, rotates, quantizes.
macro(<|quantize_batch|>, 3, <|
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

// Usage: add_scaled(STEP, D)
// Of block STEP from xs_lane, with the products D0 ..: acc += D * scale of the rows * scale of the tokens.  in: scales_a, scales_b, extreme, xs_lane
macro(<|add_scaled|>, 2, <|
{
  .reg .b32 row_a, row_b, token<eval(2 * N8)>;
  row_scale(row_a, scales_a, eval($1 % STAGE_BLOCKS))
  row_scale(row_b, scales_b, eval($1 % STAGE_BLOCKS))
m4_for(<|GROUP|>, 0, N8 - 1, <|
  ld.shared.v2.b32 {token<||>eval(2 * GROUP), token<||>eval(2 * GROUP + 1)}, [xs_lane+eval(S_X_SCALES + $1 * XS_BLOCK + GROUP * 32)];  // S_X_SCALES
|>)dnl
  @extreme bra.uni long_way;
m4_for(<|J|>, 0, 4 * N8 - 1, <|
  mul.rn.f32 $2<||>J, $2<||>J, m4_if(J / 2 % 2, row_b, row_a);
|>)dnl
m4_for(<|J|>, 0, 4 * N8 - 1, <|
  fma.rn.f32 acc<||>J, $2<||>J, TOKEN(J), acc<||>J;
|>)dnl
  bra.uni added;
long_way:
m4_for(<|J|>, 0, 4 * N8 - 1, <|
  add_scaled_evenly(acc<||>J, $2<||>J, m4_if(J / 2 % 2, row_b, row_a), TOKEN(J))
|>)dnl
added:
}|>)
// The scale of the token of element J of a product.
define(<|TOKEN|>, <|token<||>eval(($1) / 4 * 2 + ($1) % 2)|>)

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

// Usage: multiply_narrow(STAGE, STEP)
// Block STEP of the warp's stage STAGE: acc += (A * B) * scales, by mma.sync
macro(<|multiply_narrow|>, 2, <|
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

// Usage: start_wide(STEP, D, A)
// The same by wgmma: starts D0 .. = the products of block STEP of a turn's two, a group of
// their own.  A0 .. A7: registers for it.  in: x_start, the low word of the descriptor of the
// first
macro(<|start_wide|>, 3, <|
{
  .reg .b32 start;
  .reg .b64 b;
  widen_block($1, $3)
  wgmma.fence.sync.aligned;
  add.u32 start, x_start, eval($1 * 64 / 16);
  mov.b64 b, {start, DESCRIPTOR_K_MAJOR_128B};
  wgmma_f16($2, $3, 0, 0)
  add.u32 start, start, 2;  // 32 bytes
  mov.b64 b, {start, DESCRIPTOR_K_MAJOR_128B};
  wgmma_f16($2, $3, 4, 1)
  wgmma.commit_group.sync.aligned;
}|>)
// Usage: wgmma_f16(D, A, FIRST, ACCUMULATE)
macro(<|wgmma_f16|>, 4, <|
wgmma.mma_async.sync.aligned.m64n<||>eval(8 * N8)k16.f32.f16.f16 {m4_list(<|J|>, 0, 4 * N8 - 1, <|$1<||>J|>)}, {m4_list(<|J|>, $3, $3 + 3, <|$2<||>J|>)}, b, $4, 1, 1, 0;|>)

// Usage: multiply_spread(STAGE, STEP)
// Block STEP of the warp's stage STAGE: the columns of the block become acc of their set
macro(<|multiply_spread|>, 2, <|
m4_multiply_spread($1, $2, eval(STAGE_BLOCKS * $1 + $2))|>)
define(<|m4_multiply_spread|>, <|dnl
{
  .reg .pred ours;
  .reg .b32 a<8>;
  .reg .f32 d<4>;
  widen_block($2, a)
  mma_f16(d, 0, 0, b, 0, zero, 0)
  mma_f16(d, 0, 4, b, 2, d, 0)
  setp.eq.u32 ours, in_four, eval($3 % COLUMN_BLOCKS * TILE / 2);
m4_for(<|J|>, 0, 3, <|
m4_if(TILE == 2 || J % 2 == $3 % 2, <|dnl
  selp.f32 ACC(eval($3 / COLUMN_BLOCKS), J), d<||>J, ACC(eval($3 / COLUMN_BLOCKS), J), ours;
|>)dnl
|>)dnl
}|>)

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
