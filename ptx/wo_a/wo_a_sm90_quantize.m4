divert(-1)
m4_once(<|wo_a_sm90_quantize.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// wo_a on sm_90a for T >= 5: the activations, from bf16 to the f16 that the product multiplies.
//
// Four lanes have a block of 32, 8 elements each: part l of the four has elements 8l .. 8l + 7,
// in c(4I) .. c(4I + 3) for the token of octet I.  What belongs to a whole block is worked out
// once, not four times: of the blocks of up to four octets lane l owns that of octet l, and hands
// the others what they need.  Where there are fewer octets, lanes own the same.
//
// Largest magnitudes are bf16 patterns without a sign, two to a register: as f16 they would not
// fit, as f32 they cost twice as much.  That of a rotated block is an f32 rounded up to bf16:
// neither its scale nor whether it is zero or an infinity changes by that.
//
// The scale of a largest magnitude 1.m * 2^(E - 127) is ue8m0(it * f32(1/448), rounded up).
// f32(1/448) is 1/448 * (1 + 2^-24.4): the product of 448 * 2^k = 1.75 * 2^(k + 8) is rounded
// to 2^k, that of the next f32 is not.  So the scale is E - 8 for 1.m <= 1.75, else E - 7, for
// every f32 of at least 1e-10 (all were tried).  bf16 has 7 bits of m, and .75 is 0x60 of them:
// (pattern + 0x1f) >> 7, less 8.  What is below 1e-10 has its scale, 85, and scales grow with
// the largest magnitude.

constant(<|SCALE_BIAS|>, (8 << 7) - 0x1f)  // pattern - SCALE_BIAS has the scale from bit 7 on
constant(<|LEAST_SCALED|>, LEAST_TOKEN_SCALE << 7)
constant(<|FINITE_PATTERNS|>, 0x7f7f)      // bf16 patterns of finite numbers above zero
constant_text(<|F32_MOST_FINITE|>, 0x7f7fffff)

// Codes without a conversion.  A block's elements times 2^(15 - scale) are what is to be rounded
// to codes, times 2^-112: bf16 and f16 then have the same exponent fields.  The product is exact
// but below 2^-126, which is 2^-14 of a code; there it stays below 2^-10, half of the least code,
// and so becomes zero either way.  With e the power of two in an element (2^-6 at least: below
// it codes are evenly spaced), 24 e + element lies in [22 e, 26 e], where bf16 numbers are e / 8
// apart, as codes are: one addition rounds as e4m3 does, to nearest even (24 e is an even
// multiple).  Taking 24 e away is exact.  No code is above 448: the scale sees to that.  An
// infinity or a NaN comes out NaN: 24 e is one, too, and is taken away.
//
// What results has 3 fraction bits and an exponent field below 32: shifted by 3, a half is the
// f16 but for its sign.  Its bits 3..0 were zero, so those and the sign are taken from before
// the shift, which also cuts off what went from the lower half to the upper.
constant_text(<|BF16X2_EXPONENTS|>, 0x7f807f80)
constant(<|CODE_FIELD|>, 15 + 127)         // less the scale: field of the factor
constant_text(<|BF16X2_LEAST_POWER|>, 0x04800480)  // 2^-6 * 2^-112
constant_text(<|BF16X2_24|>, 0x41c041c0)
constant_text(<|BF16X2_MINUS_24|>, 0xc1c0c1c0)
constant_text(<|F16_AFTER_SHIFT|>, 0x7ff07ff0)
// The factor is a normal bf16 up to this scale.  Blocks above are made smaller first: what that
// rounds is below 2^-20, and their least code above 2^5.
constant(<|MOST_DIRECT_SCALE|>, CODE_FIELD - 1)
constant(<|SHRINK|>, 106)
constant_text(<|BF16X2_SHRINK|>, 0x0a800a80)  // 2^-106
constant_text(<|BF16X2_ONE|>, 0x3f803f80)
m4_assert(((FINITE_PATTERNS - SCALE_BIAS) >> 7) - SHRINK <= MOST_DIRECT_SCALE, <|SHRINK is too little|>)dnl

// Lane j of our four: `shfl.idx` with this.
constant_text(<|OF_FOUR|>, 0x1c1f)

// Names of registers.  Pass P, octet I: the chunk; element J of it, widened; cosine and sine of
// pair J.  Only the last pass has the latter three.
define(<|PAIR|>, <|c<||>eval(4 * (BATCH_OCTETS * ($1) + $2) + $3)|>)
define(<|V|>, <|v<||>eval(8 * ($1) + $2)|>)
define(<|COSINE|>, <|cosine<||>eval(4 * ($1) + $2)|>)
define(<|SINE|>, <|sine<||>eval(4 * ($1) + $2)|>)

// ---- loads ----------------------------------------------------------------------------

// Usage: load_position(POSITION)
// in: first_row, own.  out: POSITION (b32), of the token whose block we own
macro(<|load_position|>, 1, <|
{
  .reg .b32 token;
  .reg .b64 address;
  add.u32 token, own, first_row;
  min.u32 token, token, last_row;
  mad.wide.u32 address, token, 8, position_from;
  ld.global.b32 $1, [address];  // the low word: 2^32 rows of rope would be 1 TB
}|>)

// Usage: load_chunks(C, I)
// in: x_row.  out: C0 .., in place of c: our 8 elements of octet I, in every pass
macro(<|load_chunks|>, 2, <|
{
  .reg .b32 token;
  .reg .b64 address;
  add.u32 token, x_row, eval(8 * ($2));
  min.u32 token, token, last_row;
  cvt.u64.u32 address, token;
  mad.lo.u64 address, address, x_stride, x_from;
m4_for(<|PASS|>, 0, LAST_PASS, <|
  ld.global.v4.b32 {m4_list(<|J|>, 0, 3, <|$1<||>eval(4 * (BATCH_OCTETS * PASS + $2) + J)|>)}, [address+eval(PASS * WARPS * BLOCK * 2)];
|>)dnl
}|>)

// Usage: load_rope(I)
// in: position.  out: cosines and sines of our four pairs of octet I
macro(<|load_rope|>, 1, <|
{
  .reg .b32 row;
  .reg .b64 address;
  of_owner(row, $1, position)
  mad.wide.u32 address, row, eval(4 * ROPE_DIM), rope_from;  // bytes of a row
  ld.global.v4.f32 {m4_list(<|J|>, 0, 3, <|COSINE($1, J)|>)}, [address];
  ld.global.v4.f32 {m4_list(<|J|>, 0, 3, <|SINE($1, J)|>)}, [address+eval(2 * ROPE_DIM)];
}|>)

// Usage: request_rope
// The cosines and sines of a batch.  in: position.  The first ones done, couriers that wait for this
// may request weights: behind these, rope would be long in coming.  in: weights_wait, quantized_before
macro(<|request_rope|>, 0, <|
m4_for(<|I|>, 0, BATCH_OCTETS - 1, <|
load_rope(I)
|>)dnl
{
  .reg .pred first;
  not.pred first, quantized_before;
  and.pred first, first, weights_wait;
  @first bar.arrive BARRIER_ROPE, ROPE_THREADS;  // rope is under way
m4_if(BATCHES > 1, <|dnl
  @first setp.ne.u32 weights_wait, lane, lane;  // once, not in every batch
|>)dnl
}|>)

// ---- who owns what --------------------------------------------------------------------

// Usage: own_places
// out: own, the token whose blocks this lane owns; own_range, own_scale: start of our memory
// plus where its range and its scales are.  in: place, part, warp
macro(<|own_places|>, 0, <|
m4_if(BATCH_OCTETS == 1, <|dnl
mov.u32 own, place;
|>, <|dnl
m4_if(BATCH_OCTETS == 3, <|min.u32 own, part, 2|>, <|and.b32 own, part, eval(BATCH_OCTETS - 1)|>);
mad.lo.u32 own, own, 8, place;
|>)dnl
mad.lo.u32 own_range, own, 8, smem;
mad.lo.u32 own_scale, own, BLOCKS, smem;  // BLOCKS
add.u32 own_scale, own_scale, warp;|>)

// Usage: amax_of_blocks
// in: pair0, pair1: of octets 0 and 1, 2 and 3, lower half first, the largest magnitudes of our
// elements, any sign.  out: amax (b32), of the whole block that we own
macro(<|amax_of_blocks|>, 0, <|
{
  .reg .b32 other;
m4_if(BATCH_OCTETS > 2, <|dnl
  selp.b32 other, pair0, pair1, upper_part;
  selp.b32 pair0, pair1, pair0, upper_part;  // what we keep
|>, <|dnl
  mov.b32 other, pair0;
|>)dnl
  shfl.sync.bfly.b32 other, other, 2, 0x1f, 0xffffffff;
  max.NaN.xorsign.abs.bf16x2 pair0, pair0, other;
  shfl.sync.bfly.b32 other, pair0, 1, 0x1f, 0xffffffff;
  max.NaN.xorsign.abs.bf16x2 pair0, pair0, other;
m4_if(BATCH_OCTETS > 1, <|dnl
  shr.u32 pair0, pair0, half_shift;
|>)dnl
  and.b32 amax, pair0, 0x7fff;
}|>)

// Usage: scale_of_block(P)
// in: amax.  out: scale(P), ue8m0 of the block that we own; counts (predicate): it is neither
// zero nor has it a NaN or an infinity.  Adds the scale to the range of its token if so.
macro(<|scale_of_block|>, 1, <|
{
  .reg .b32 high, low;
  sub.s32 scale$1, amax, SCALE_BIAS;  // SCALE_BIAS
  max.s32 scale$1, scale$1, LEAST_SCALED;  // LEAST_SCALED
  shr.u32 scale$1, scale$1, 7;
  sub.u32 low, amax, 1;
  setp.lt.u32 counts, low, FINITE_PATTERNS;  // FINITE_PATTERNS
  selp.b32 high, scale$1, LEAST_TOKEN_SCALE, counts;  // LEAST_TOKEN_SCALE
  selp.b32 low, scale$1, NO_SCALE_YET, counts;  // NO_SCALE_YET
  red.shared.max.u32 [own_range+S_RANGE], high;  // S_RANGE
  red.shared.min.u32 [own_range+eval(S_RANGE + 4)], low;
}|>)

// Usage: of_owner(VALUE, I, MINE)
// out: VALUE (b32), the MINE of the lane that owns the block of octet I
macro(<|of_owner|>, 3, <|
m4_if(BATCH_OCTETS == 1, <|dnl
mov.b32 $1, $3;  // all lanes own it
|>, <|dnl
shfl.sync.idx.b32 $1, $3, $2, OF_FOUR, 0xffffffff;
|>)dnl|>)

// ---- blocks that are not rotated --------------------------------------------------------

// Usage: measure_chunk(AMAX, P, I)
// out: AMAX (b32), two candidates for the largest magnitude of the chunk, any sign; a NaN stays
macro(<|measure_chunk|>, 3, <|
{
  .reg .b32 other;
  max.NaN.xorsign.abs.bf16x2 $1, PAIR($2, $3, 0), PAIR($2, $3, 1);
  max.NaN.xorsign.abs.bf16x2 other, PAIR($2, $3, 2), PAIR($2, $3, 3);
  max.NaN.xorsign.abs.bf16x2 $1, $1, other;
}|>)

// Usage: measure_pair(PAIR, P, I)
// out: PAIR (b32), the largest magnitudes of chunks I (lower half) and I + 1, any sign; of I twice
// if it is the last
macro(<|measure_pair|>, 3, <|
{
  .reg .b32 even, odd, other;
  measure_chunk(even, $2, $3)
m4_if($3 == BATCH_OCTETS - 1, <|dnl
  prmt.b32 other, even, 0, 0x1032;  // halves exchanged
  max.NaN.xorsign.abs.bf16x2 $1, even, other;
|>, <|dnl
  measure_chunk(odd, $2, eval($3 + 1))
  prmt.b32 other, even, odd, 0x5410;  // lower halves
  prmt.b32 even, even, odd, 0x7632;  // upper halves
  max.NaN.xorsign.abs.bf16x2 $1, even, other;
|>)dnl
}|>)

// Usage: encode_word(WORD, FACTOR)
// in/out: WORD (b32): two elements; their codes as f16.  in: FACTOR, 2^(15 - scale) twice;
// the constants least_power, plus_24, minus_24
macro(<|encode_word|>, 2, <|
{
  .reg .b32 power, rounded;
  mul.rn.bf16x2 $1, $1, $2;
  and.b32 power, $1, BF16X2_EXPONENTS;
  max.u16x2 power, power, least_power;
  fma.rn.bf16x2 rounded, power, plus_24, $1;
  fma.rn.bf16x2 rounded, power, minus_24, rounded;
  shl.b32 power, rounded, 3;
  lop3.b32 $1, power, rounded, F16_AFTER_SHIFT, 0xe4;  // power there, else rounded
}|>)

// Usage: encode_blocks(P)
// in/out: the chunks of pass P; their codes as f16.  out: scale(P).  A block with a NaN or an
// infinity has a NaN among its codes.
macro(<|encode_blocks|>, 1, <|
{
  .reg .pred counts, large, any_large;
  .reg .b32 pair0, pair1, amax, factor, least_power, plus_24, minus_24;
  mov.b32 least_power, BF16X2_LEAST_POWER;
  mov.b32 plus_24, BF16X2_24;
  mov.b32 minus_24, BF16X2_MINUS_24;
  measure_pair(pair0, $1, 0)
m4_if(BATCH_OCTETS > 2, <|dnl
  measure_pair(pair1, $1, 2)
|>)dnl
  amax_of_blocks
  scale_of_block($1)
  sub.u32 factor, CODE_FIELD, scale$1;  // CODE_FIELD
  setp.gt.u32 large, scale$1, MOST_DIRECT_SCALE;  // MOST_DIRECT_SCALE
  vote.sync.any.pred any_large, large, 0xffffffff;
  warps_begin(small_enough, any_large)
  {
    .reg .b32 smaller, of_octet;
    @large add.u32 factor, factor, SHRINK;  // SHRINK
    selp.b32 smaller, BF16X2_SHRINK, BF16X2_ONE, large;
m4_for(<|I|>, 0, BATCH_OCTETS - 1, <|
    of_owner(of_octet, I, smaller)
m4_for(<|J|>, 0, 3, <|
    mul.rn.bf16x2 PAIR($1, I, J), PAIR($1, I, J), of_octet;
|>)dnl
|>)dnl
  }
  warps_end
  mul.lo.u32 factor, factor, 0x00800080;  // both exponent fields
m4_for(<|I|>, 0, BATCH_OCTETS - 1, <|
  {
    .reg .b32 of_octet;
    of_owner(of_octet, I, factor)
m4_for(<|J|>, 0, 3, <|
    encode_word(PAIR($1, I, J), of_octet)
|>)dnl
  }
|>)dnl
}|>)

// ---- rotated blocks, of the last pass --------------------------------------------------------

// Usage: widen_chunk(I)
// out: V(I, 0) .. V(I, 7), f32
macro(<|widen_chunk|>, 1, <|
m4_for(<|J|>, 0, 3, <|
widen_bf16x2(V($1, 2 * J), V($1, 2 * J + 1), PAIR(LAST_PASS, $1, J))
|>)dnl|>)

// Usage: rotate_chunk(I)
// in/out: V(I, 0) .. V(I, 7).  in: its cosines and sines
macro(<|rotate_chunk|>, 1, <|
m4_for(<|J|>, 0, 3, <|
rotate_back(V($1, 2 * J), V($1, 2 * J + 1), COSINE($1, J), SINE($1, J))
|>)dnl|>)

// Usage: measure_rotated(AMAX, I)
// out: AMAX (b32), the largest magnitude of V(I, 0) .. V(I, 7), rounded up to bf16, in its upper
// half; a NaN is 0x7fff
macro(<|measure_rotated|>, 2, <|
{
  .reg .f32 size;
  .reg .b32 largest;
  abs.f32 largest, V($2, 0);
m4_for(<|J|>, 1, 7, <|
  abs.f32 size, V($2, J);
  max.NaN.f32 largest, largest, size;
|>)dnl
  add.u32 $1, largest, 0xffff;
  min.u32 $1, $1, F32_MOST_FINITE;  // a finite number stays one,
  max.u32 $1, $1, largest;  // and the others stay
}|>)

// Usage: measure_rotated_pair(PAIR, I)
// out: PAIR (b32), the largest magnitudes of I (lower half) and I + 1; of I twice if it is the last
macro(<|measure_rotated_pair|>, 2, <|
{
  .reg .b32 even, odd;
  measure_rotated(even, $2)
m4_if($2 == BATCH_OCTETS - 1, <|dnl
  prmt.b32 $1, even, even, 0x7632;
|>, <|dnl
  measure_rotated(odd, eval($2 + 1))
  prmt.b32 $1, even, odd, 0x7632;  // upper halves
|>)dnl
}|>)

// Usage: encode_rotated_blocks
// in: V(I, J).  out: their codes as f16 in the chunks of the last pass; its scale.  As
// encode_blocks.
macro(<|encode_rotated_blocks|>, 0, <|
{
  .reg .pred counts;
  .reg .b32 pair0, pair1, amax, inverse;
  measure_rotated_pair(pair0, 0)
m4_if(BATCH_OCTETS > 2, <|dnl
  measure_rotated_pair(pair1, 2)
|>)dnl
  amax_of_blocks
  scale_of_block(LAST_PASS)
  sub.u32 inverse, 254, scale<||>LAST_PASS;
  shl.b32 inverse, inverse, 23;
  selp.b32 inverse, inverse, 0, counts;  // makes a NaN of an infinity, too
m4_for(<|I|>, 0, BATCH_OCTETS - 1, <|
  {
    .reg .b32 of_octet, code0, code1;
    of_owner(of_octet, I, inverse)
m4_for(<|J|>, 0, 7, <|
    mul.rn.f32 V(I, J), V(I, J), of_octet;
|>)dnl
    e4m3x4(code0, V(I, 0), V(I, 1), V(I, 2), V(I, 3))
    e4m3x4(code1, V(I, 4), V(I, 5), V(I, 6), V(I, 7))
    f16x2_of_e4m3x4(PAIR(LAST_PASS, I, 0), PAIR(LAST_PASS, I, 1), code0)
    f16x2_of_e4m3x4(PAIR(LAST_PASS, I, 2), PAIR(LAST_PASS, I, 3), code1)
  }
|>)dnl
}|>)

// ---- folding --------------------------------------------------------------------------

// Usage: fold_block(P)
// in: scale(P); top, bottom, the range of its token.  out: fold(P), what to multiply the codes
// of the block by that we own; unfolded = 1 if its token does not allow it.  Stores what the
// product is to be multiplied by for this block.
macro(<|fold_block|>, 1, <|
{
  .reg .pred folds;
  .reg .b32 span, applied;
  sub.s32 span, top, bottom;
  setp.le.s32 folds, span, FOLD_SPAN;  // FOLD_SPAN
  setp.le.and.u32 folds, top, FOLD_TOKEN_MAX, folds;  // FOLD_TOKEN_MAX
  sub.s32 fold$1, scale$1, top;
  add.s32 fold$1, fold$1, FOLD_FIELD;  // FOLD_FIELD
  max.s32 fold$1, fold$1, 1;  // blocks without a say: any normal factor will do
  min.s32 fold$1, fold$1, FOLD_FIELD;  // FOLD_FIELD
  mul.lo.u32 fold$1, fold$1, 0x04000400;  // both exponent fields
  selp.b32 fold$1, fold$1, F16X2_ONE, folds;
  sub.u32 applied, top, FOLD_TOP;  // FOLD_TOP
  selp.b32 applied, applied, scale$1, folds;
  @!folds mov.b32 unfolded, 1;
m4_if($1 == 0, <|dnl
  {
    .reg .pred first;  // one warp stores that of the token
    .reg .b32 at, factor;
    setp.eq.u32 first, warp, 0;
    mad.lo.u32 at, own, 4, smem;
    shl.b32 factor, applied, 23;
    @first st.shared.b32 [at+S_X_FACTORS], factor;  // S_X_FACTORS
  }
|>)dnl
m4_if(BATCH_OCTETS < 4, <|dnl
  {
    .reg .pred owns;
    setp.lt.u32 owns, part, BATCH_OCTETS;  // BATCH_OCTETS
    @owns st.shared.b8 [own_scale+eval(S_X_SCALES + $1 * WARPS)], applied;  // S_X_SCALES
  }
|>, <|dnl
  st.shared.b8 [own_scale+eval(S_X_SCALES + $1 * WARPS)], applied;  // S_X_SCALES
|>)dnl
}|>)

// Usage: store_chunk(P, I)
// in: the chunk, codes; fold(P).  Stores the codes, folded.
macro(<|store_chunk|>, 2, <|
{
  .reg .b32 factor;
  of_owner(factor, $2, fold$1)
m4_for(<|J|>, 0, 3, <|
  mul.rn.f16x2 PAIR($1, $2, J), PAIR($1, $2, J), factor;
|>)dnl
  st.shared.v2.b32 [x_to+eval(S_X + $1 * X_PASS + $2 * X_OCTET)], {PAIR($1, $2, 0), PAIR($1, $2, 2)};  // S_X
  st.shared.v2.b32 [x_to_next+eval(S_X + $1 * X_PASS + $2 * X_OCTET)], {PAIR($1, $2, 1), PAIR($1, $2, 3)};
}|>)

divert(0)dnl
