/* SPDX-License-Identifier: Apache-2.0
 *
 * Element arithmetic of reductions; see reduce.h.  Small floats are added in double,
 * which holds every sum of two f16 exactly, and every sum of two bf16 closely enough that
 * the second rounding cannot change the result (a bit lost below 2^-45 of the larger
 * operand never decides a tie, since the larger operand has 8 bits).
 */
#include "reduce.h"

#include <math.h>
#include <string.h>

static double small_widen(uint64_t bits, unsigned ebits, unsigned mbits) {
  uint64_t man = bits & (((uint64_t)1 << mbits) - 1);
  int top = (1 << ebits) - 1, bias = top >> 1;
  int exp = (int)(bits >> mbits) & top;
  double sign = bits >> (ebits + mbits) & 1 ? -1.0 : 1.0;
  if (exp == top)
    return man ? (double)NAN : sign * (double)INFINITY;
  if (exp == 0)
    return sign * ldexp((double)man, 1 - bias - (int)mbits);
  return sign * ldexp((double)(man | (uint64_t)1 << mbits), exp - bias - (int)mbits);
}

static uint64_t small_narrow(double v, unsigned ebits, unsigned mbits) {
  int top = (1 << ebits) - 1, bias = top >> 1;
  uint64_t sign = signbit(v) ? (uint64_t)1 << (ebits + mbits) : 0;
  if (isnan(v))
    return ((uint64_t)1 << (ebits + mbits)) - 1; /* canonical: all ones, no sign */
  if (isinf(v))
    return sign | (uint64_t)top << mbits;
  if (v == 0)
    return sign;
  int exp;
  frexp(v, &exp);
  exp--;
  if (exp < 1 - bias)
    exp = 1 - bias;
  double units = nearbyint(ldexp(fabs(v), (int)mbits - exp)); /* to nearest even */
  uint64_t sig = (uint64_t)units, one = (uint64_t)1 << mbits;
  if (sig < one)
    return sign | sig;
  /* A carry out of the significand moves on into the exponent, up to infinity. */
  uint64_t bits = ((uint64_t)(exp + bias) << mbits) + (sig - one);
  uint64_t inf = (uint64_t)top << mbits;
  return sign | (bits > inf ? inf : bits);
}

double reduce_widen(enum mod type, uint64_t bits) {
  switch ((int)type) {
  case MOD_f16:
    return small_widen(bits & 0xffff, 5, 10);
  case MOD_bf16:
    return small_widen(bits & 0xffff, 8, 7);
  case MOD_e4m3:
    if ((bits & 0x7f) == 0x7f)
      return (double)NAN;
    if ((bits & 0x78) == 0x78) /* no infinity: the top exponent holds numbers */
      return (bits & 0x80 ? -1.0 : 1.0) * (double)(8 + (bits & 7)) * 32.0;
    return small_widen(bits & 0xff, 4, 3);
  case MOD_e5m2:
    return small_widen(bits & 0xff, 5, 2);
  case MOD_f32: {
    uint32_t word = (uint32_t)bits;
    float f;
    memcpy(&f, &word, 4);
    return (double)f;
  }
  default: {
    double d;
    memcpy(&d, &bits, 8);
    return d;
  }
  }
}

uint64_t reduce_narrow(enum mod type, double value) {
  switch ((int)type) {
  case MOD_f16:
    return small_narrow(value, 5, 10);
  case MOD_bf16:
    return small_narrow(value, 8, 7);
  case MOD_e5m2: {
    uint64_t code = small_narrow(value, 5, 2);
    return (code & 0x7f) == 0x7c ? (code & 0x80) | 0x7b : code; /* saturates */
  }
  case MOD_e4m3: {
    if (isnan(value))
      return 0x7f;
    double mag = fabs(value) > 448.0 ? 448.0 : fabs(value);
    uint64_t sign = signbit(value) ? 0x80 : 0;
    if (mag < 256.0)
      return sign | small_narrow(mag, 4, 3);
    uint64_t sig = (uint64_t)nearbyint(mag / 32.0); /* 8..14, in the top binade */
    return sign | 0x78u | ((sig < 8 ? 8 : sig) - 8);
  }
  case MOD_f32: {
    float f = (float)value;
    uint32_t word;
    memcpy(&word, &f, 4);
    return isnan(value) ? 0x7fffffffu : word;
  }
  default: {
    uint64_t bits;
    memcpy(&bits, &value, 8);
    return bits;
  }
  }
}

static uint64_t float_op(enum mod op, enum mod type, uint64_t a, uint64_t b) {
  double x = reduce_widen(type, a), y = reduce_widen(type, b);
  if (op == MOD_add) {
    if (type == MOD_f32) /* one rounding: in f32 itself */
      return reduce_narrow(type, (double)((float)x + (float)y));
    if (type == MOD_f64 && (isnan(x) || isnan(y)))
      return isnan(y) ? b : a; /* as it is, signalling too */
    return reduce_narrow(type, x + y);
  }
  if (isnan(x) || isnan(y))
    return isnan(x) && isnan(y) ? reduce_narrow(type, (double)NAN) : isnan(x) ? b : a;
  bool first = x == y ? signbit(x) != 0 : x < y; /* -0 below +0 */
  return (op == MOD_min) == first ? a : b;
}

static uint64_t int_op(enum mod op, enum mod type, uint64_t a, uint64_t b) {
  unsigned bits = mod_bits(type);
  uint64_t mask = bits == 64 ? UINT64_MAX : ((uint64_t)1 << bits) - 1;
  a &= mask;
  b &= mask;
  bool is_signed = mod_kind(type) == 's';
  uint64_t flip = is_signed ? (uint64_t)1 << (bits - 1) : 0;
  switch ((int)op) {
  case MOD_add:
    return (a + b) & mask;
  case MOD_min:
    return (a ^ flip) < (b ^ flip) ? a : b;
  case MOD_max:
    return (a ^ flip) > (b ^ flip) ? a : b;
  case MOD_and:
    return a & b;
  case MOD_or:
    return a | b;
  case MOD_xor:
    return a ^ b;
  case MOD_inc:
    return a >= b ? 0 : a + 1;
  default: /* dec */
    return a == 0 || a > b ? b : a - 1;
  }
}

uint64_t reduce_element(enum mod op, enum mod type, uint64_t a, uint64_t b) {
  if (type == MOD_f16x2 || type == MOD_bf16x2) {
    enum mod half = type == MOD_f16x2 ? MOD_f16 : MOD_bf16;
    return float_op(op, half, a & 0xffff, b & 0xffff) |
           float_op(op, half, a >> 16 & 0xffff, b >> 16 & 0xffff) << 16;
  }
  if (mod_kind(type) == 'f')
    return float_op(op, type, a, b);
  return int_op(op, type, a, b);
}
