divert(-1)
m4_once(<|reduce.m4|>)
// SPDX-License-Identifier: Apache-2.0
//
// Sums over the lanes of a warp.

// Usage: transposing_sum(NAME, COUNT, LANE)
// in: f32 registers NAME0 .. NAME(COUNT - 1), COUNT <= 32; LANE = lane number (u32).
// out: NAME0 of lane l = sum over the warp of register number l / (32 / P), where P is
//      COUNT rounded up to a power of two; lanes whose number is COUNT or more: anything.
// clobbers: NAME1 ..
//
// The sums are those of the butterfly 16, 8, 4, 2, 1 (x = x + x of lane ^ 16; ...), to the
// bit.  But where a plain butterfly leaves every sum in every lane, at the cost of 5 shuffles
// each, here a step sends each lane only the half of the registers that it will keep: lanes
// whose bit is 0 keep the lower half.  After log2(P) steps one register is left.
macro(<|transposing_sum|>, 3, <|
m4_transposing_sum(<|$1|>, $2, <|$3|>, m4_power_of_2($2))|>)
define(<|m4_transposing_sum|>, <|dnl
{
  .reg .pred upper;
  .reg .b32 bit, sent, got;
m4_sum_step(<|$1|>, $2, <|$3|>, eval($4 / 2), 16)dnl
}|>)
// One step: registers that are left, lower half of their padded number, lane distance.
define(<|m4_sum_step|>, <|dnl
m4_if($5 > 0, <|dnl
m4_if($4 > 0 && $2 > $4, <|dnl
  and.b32 bit, $3, $5;
  setp.ne.u32 upper, bit, 0;
|>)dnl
m4_for(<|m4_low|>, 0, m4_max(1, m4_min($2, $4)) - 1, <|
m4_if($4 > 0 && m4_low + $4 < $2, <|dnl
  selp.b32 sent, $1<||>m4_low, $1<||>eval(m4_low + $4), upper;
  selp.b32 $1<||>m4_low, $1<||>eval(m4_low + $4), $1<||>m4_low, upper;
  shfl.sync.bfly.b32 got, sent, $5, 0x1f, 0xffffffff;
|>, <|dnl
  shfl.sync.bfly.b32 got, $1<||>m4_low, $5, 0x1f, 0xffffffff;
|>)dnl
  add.rn.f32 $1<||>m4_low, $1<||>m4_low, got;
|>)dnl
m4_sum_step(<|$1|>, m4_max(1, m4_min($2, $4)), <|$3|>, eval($4 / 2), eval($5 / 2))|>)|>)

divert(0)dnl
