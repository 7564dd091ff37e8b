/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats by their definition; see formats.h.
 */
#include "ref/formats.h"

#include <math.h>
#include <stdbool.h>
#include <string.h>

float ref_f32_from_bits(uint32_t bits) {
  float v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

uint32_t ref_f32_bits(float v) {
  uint32_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

/* ---- e4m3fn: sign, 4 exponent bits (bias 7), 3 fraction bits -------------- */

double ref_e4m3_value(uint8_t code) {
  int exponent = code >> 3 & 15, fraction = code & 7;
  double magnitude;
  if (exponent == 15 && fraction == 7)
    return NAN;
  if (exponent == 0)
    magnitude = ldexp(fraction, -6 - 3);
  else
    magnitude = ldexp(8 + fraction, exponent - 7 - 3);
  return code & 0x80 ? -magnitude : magnitude;
}

uint8_t ref_e4m3_from_f64(double v) {
  if (isnan(v))
    return REF_E4M3_NAN;
  uint8_t sign = signbit(v) ? 0x80 : 0x00;
  double magnitude = fabs(v);
  /* Positive codes ascend with their values.  Find the lowest code whose upper midpoint
   * is not below the magnitude; on the midpoint itself the even code wins. */
  unsigned low = 0, high = 0x7e; /* 0x7E = 448 */
  while (low < high) {
    unsigned code = (low + high) / 2;
    double middle = (ref_e4m3_value((uint8_t)code) + ref_e4m3_value((uint8_t)(code + 1))) / 2;
    bool beyond = code % 2 == 0 ? magnitude > middle : magnitude >= middle;
    if (beyond)
      low = code + 1;
    else
      high = code;
  }
  return (uint8_t)(sign | low);
}

uint8_t ref_e4m3_from_f32(float v) {
  return ref_e4m3_from_f64(v);
}

/* ---- ue8m0: 8 exponent bits (bias 127) ------------------------------------ */

double ref_ue8m0_value(uint8_t code) {
  return code == REF_UE8M0_NAN ? NAN : ldexp(1, code - 127);
}

uint8_t ref_ue8m0_from_f32(float v) {
  if (isnan(v))
    return REF_UE8M0_NAN;
  double magnitude = fabs((double)v);
  unsigned low = 0, high = 0xfe; /* saturates */
  while (low < high) {
    unsigned code = (low + high) / 2;
    if (ref_ue8m0_value((uint8_t)code) >= magnitude)
      high = code;
    else
      low = code + 1;
  }
  return (uint8_t)low;
}

float ref_ue8m0_inverse(uint8_t code) {
  if (code == 0)
    return 0;
  return ref_f32_from_bits((254u - code) << 23);
}

/* ---- bf16 ------------------------------------------------------------------ */

float ref_bf16_value(uint16_t code) {
  return ref_f32_from_bits((uint32_t)code << 16);
}

/* The value that a magnitude code stands for when infinity is read as the next power of
 * two: rounding overflows exactly when it would round up to that. */
static double magnitude_of(unsigned code) {
  return code == 0x7f80 ? ldexp(1, 128) : (double)ref_bf16_value((uint16_t)code);
}

uint16_t ref_bf16_from_f64(double v) {
  if (isnan(v))
    return REF_BF16_NAN;
  uint16_t sign = signbit(v) ? 0x8000 : 0;
  double magnitude = fabs(v);
  unsigned low = 0, high = 0x7f80;
  while (low < high) {
    unsigned code = (low + high) / 2;
    double middle = (magnitude_of(code) + magnitude_of(code + 1)) / 2;
    bool beyond = code % 2 == 0 ? magnitude > middle : magnitude >= middle;
    if (beyond)
      low = code + 1;
    else
      high = code;
  }
  return (uint16_t)(sign | low);
}

uint16_t ref_bf16_from_f32(float v) {
  return ref_bf16_from_f64(v);
}
