divert(-1)
m4_once(<|wo_a_sm90_common.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// wo_a on sm_90a: the steps that both of its templates have: formats that this architecture has
// no instruction for, and the quantization of the outputs.

constant_text(<|F32_NAN|>, 0f7FFFFFFF)
constant_text(<|F32_SIGN|>, 0x80000000)

// Where weights wait for x and rope, these stages do not: memory has something to do meanwhile.
constant(<|FIRST_STAGES|>, 1)

// Usage: ue8m0_by_integers(SCALE, AMAX)
// in: AMAX (f32) >= 0, or a NaN.  out: SCALE (u32) = AMAX / 448 rounded up to a power of two
// as ue8m0: the bits of cvt.rp.satfinite.ue8m0x2, which this architecture lacks.  NaN: UE8M0_NAN
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
  selp.b32 $1, UE8M0_NAN, $1, not_a_number;
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

// Usage: scale_offset(OFFSET, ROW)
// out: OFFSET (u32), of the scale of (token t = ROW, column n) in its scale tile:
// t % 32 * 16 + t / 32 * 4 + n % 128 / 32.  in: quarter
macro(<|scale_offset|>, 2, <|
{
  .reg .b32 high;
  and.b32 $1, $2, 31;
  shr.u32 high, $2, 5;
  mad.lo.u32 $1, $1, 16, quarter;
  mad.lo.u32 $1, high, 4, $1;
}|>)

// Usage: store_output(SUM, OFFSET, LANE0)
// in: SUM (f32), output row n_row of the tile, of token out_row + OFFSET (constant).  Quantizes
// the 32 outputs of a warp with one scale, and stores them if the token exists: no branch, so that
// those of several tokens overlap.
// in: q_to, qs_tile, out_row, end, n, quarter; LANE0, the predicate of lane 0
macro(<|store_output|>, 3, <|
{
  .reg .pred live, live_scale, not_a_number;
  .reg .b32 row, y, key, scale, inverse, qs_offset;
  .reg .b16 code;
  .reg .b64 to, qs_to;
  add.u32 row, out_row, $2;
  setp.lt.u32 live, row, end;
  and.pred live_scale, live, $3;
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
  @live st.global.b8 [to], code;
  scale_offset(qs_offset, row)
  cvt.u64.u32 qs_to, qs_offset;
  add.u64 qs_to, qs_to, qs_tile;
  @live_scale st.global.b8 [qs_to], scale;
}|>)

divert(0)dnl
