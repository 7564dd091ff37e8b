divert(-1)
m4_once(<|quantize.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// bf16, e4m3 and ue8m0.  Formats: OCP Microscaling Formats (MX) 1.0; a scale byte e
// means 2^(e - 127), 255 is NaN.

constant(<|UE8M0_NAN|>, 255)
constant_text(<|F32_ONE_448TH|>, 0f3B124925)   // f32(1/448); 448 is the largest e4m3
constant_text(<|F32_AMAX_FLOOR|>, 0f2EDBE6FF)  // f32(1e-10)
constant_text(<|F32_ZERO|>, 0f00000000)

// Usage: widen_bf16x2(LOW, HIGH, WORD)
// in: WORD, two bf16.  out: LOW, HIGH = the same numbers as f32 (32-bit registers)
macro(<|widen_bf16x2|>, 3, <|
shl.b32 $1, $3, 16;
and.b32 $2, $3, 0xffff0000;|>)

// Usage: round_to_bf16(REGISTER, VALUE)
// out: REGISTER (32 bits) = f32(bf16(VALUE)), to nearest even: the bf16 is the upper half
macro(<|round_to_bf16|>, 2, <|
cvt.rn.bf16x2.f32 $1, $2, F32_ZERO;|>)

// Usage: ue8m0_of_amax(SCALE, INVERSE, AMAX)
// in: AMAX (f32) > 448 * 2^-127.  out: SCALE (u32) = ue8m0(AMAX / 448), rounded up, 254 at
// most; INVERSE (b32) = the f32 with bits (254 - SCALE) << 23, which is 1 / 2^(SCALE - 127)
macro(<|ue8m0_of_amax|>, 3, <|
{
  .reg .f32 scaled;
  .reg .b16 pair;
  mul.rn.f32 scaled, $3, F32_ONE_448TH;
  cvt.rp.satfinite.ue8m0x2.f32 pair, F32_ZERO, scaled;  // low byte: of scaled
  cvt.u32.u16 $1, pair;
  sub.u32 $2, 254, $1;
  shl.b32 $2, $2, 23;
}|>)

// Usage: ue8m0_of_any_amax(SCALE, INVERSE, AMAX)
// The same for an AMAX that may be zero, tiny (SCALE = 0: INVERSE = +0) or NaN (255: -Inf)
macro(<|ue8m0_of_any_amax|>, 3, <|
{
  .reg .pred is_zero;
  ue8m0_of_amax($1, $2, $3)
  setp.eq.u32 is_zero, $1, 0;
  selp.b32 $2, 0, $2, is_zero;
}|>)

// Usage: e4m3x4(WORD, V0, V1, V2, V3)
// in: f32.  out: WORD (b32) = four e4m3, V0 in the low byte; to nearest even, saturating
macro(<|e4m3x4|>, 5, <|
{
  .reg .b16 low, high;
  cvt.rn.satfinite.e4m3x2.f32 low, $3, $2;
  cvt.rn.satfinite.e4m3x2.f32 high, $5, $4;
  mov.b32 $1, {low, high};
}|>)

// Usage: e4m3(BYTE, VALUE)
// in: f32.  out: BYTE (b16) = e4m3(VALUE), upper byte 0; to nearest even, saturating
macro(<|e4m3|>, 2, <|
cvt.rn.satfinite.e4m3x2.f32 $1, F32_ZERO, $2;|>)

// Usage: max_over_8_lanes(VALUE)
// in/out: VALUE (f32, no NaN) = the largest among the 8 lanes that share lane / 8
macro(<|max_over_8_lanes|>, 1, <|
{
  .reg .f32 other;
  shfl.sync.bfly.b32 other, $1, 4, 0x1f, 0xffffffff;
  max.f32 $1, $1, other;
  shfl.sync.bfly.b32 other, $1, 2, 0x1f, 0xffffffff;
  max.f32 $1, $1, other;
  shfl.sync.bfly.b32 other, $1, 1, 0x1f, 0xffffffff;
  max.f32 $1, $1, other;
}|>)

divert(0)dnl
