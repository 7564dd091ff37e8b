/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats by their definition: e4m3fn and ue8m0 (OCP Microscaling Formats 1.0),
 * bf16 (the upper half of IEEE binary32).  Slow and obvious on purpose: a value is
 * found by comparing with the values and midpoints of the format in double, where all
 * of them are exact.  The results for NaN, infinities and saturation are those of the
 * PTX conversions named at each function.  Pure functions, safe from any thread.
 */
#ifndef BW_REF_FORMATS_H
#define BW_REF_FORMATS_H

#include <stdint.h>

#define REF_E4M3_NAN  0x7fu
#define REF_UE8M0_NAN 0xffu
#define REF_BF16_NAN  0x7fffu
#define REF_F32_NAN   0x7fffffffu /* the NaN that PTX instructions return */

/* The value of an e4m3fn code; 0x7F and 0xFF are NaN, there is no infinity. */
double ref_e4m3_value(uint8_t code);
/* cvt.rn.satfinite.e4m3x2.f32: nearest, ties to the even code; beyond 448 and
 * infinities +-448; NaN 0x7F; -0 0x80. */
uint8_t ref_e4m3_from_f32(float v);
/* The same for an exact real number, for the truth in double. */
uint8_t ref_e4m3_from_f64(double v);

/* 2^(code-127); 0xFF is NaN.  No zero, no infinity, no sign. */
double ref_ue8m0_value(uint8_t code);
/* cvt.rp.satfinite.ue8m0x2.f32: the smallest power of two >= |v|; 0 and everything up
 * to 2^-127 gives 0; above 2^127 and infinities 0xFE; NaN 0xFF. */
uint8_t ref_ue8m0_from_f32(float v);
/* 2^(127-code) as f32, by the kernels' rule: bits (254 - code) << 23, and +0 for code
 * 0.  For 0xFF the bits are those the shift leaves (minus infinity). */
float ref_ue8m0_inverse(uint8_t code);

float ref_f32_from_bits(uint32_t bits);
uint32_t ref_f32_bits(float v);

float ref_bf16_value(uint16_t code);
/* cvt.rn.bf16x2.f32: nearest, ties to even, overflow to infinity, NaN 0x7FFF. */
uint16_t ref_bf16_from_f32(float v);
/* The same for an exact real number. */
uint16_t ref_bf16_from_f64(double v);

#endif
