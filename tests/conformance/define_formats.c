/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats by their definition; see define_formats.h.
 */
#include "conformance/define_formats.h"

#include <math.h>
#include <string.h>

const struct number_format format_f16 = {5, 10, true, true}, format_bf16 = {8, 7, true, true},
                           format_tf32 = {8, 10, true, true}, format_f32 = {8, 23, true, true},
                           format_e4m3 = {4, 3, false, true}, format_e5m2 = {5, 2, true, true},
                           format_e2m3 = {2, 3, false, false}, format_e3m2 = {3, 2, false, false},
                           format_e2m1 = {2, 1, false, false};

float float_of(uint64_t bits) {
  uint32_t word = (uint32_t)bits;
  float v;
  memcpy(&v, &word, 4);
  return v;
}

uint32_t bits_of_float(float v) {
  uint32_t bits;
  memcpy(&bits, &v, 4);
  return bits;
}

double double_of(uint64_t bits) {
  double v;
  memcpy(&v, &bits, 8);
  return v;
}

uint64_t bits_of_double(double v) {
  uint64_t bits;
  memcpy(&bits, &v, 8);
  return bits;
}

/* A magnitude code's value, the top exponent read as one more binade. */
static double plain_value(const struct number_format *f, uint32_t code) {
  int exponent = (int)(code >> f->mbits), bias = (1 << (f->ebits - 1)) - 1;
  double man = (double)(code & ((1u << f->mbits) - 1)), one = (double)(1u << f->mbits);
  return exponent ? ldexp(one + man, exponent - bias - (int)f->mbits)
                  : ldexp(man, 1 - bias - (int)f->mbits);
}

static uint32_t top_code(const struct number_format *f) { /* the largest finite number */
  uint32_t all = (1u << (f->ebits + f->mbits)) - 1;
  return f->infinity ? all - (1u << f->mbits) : f->nan ? all - 1 : all;
}

double format_value(const struct number_format *f, uint32_t code) {
  uint32_t sign = code >> (f->ebits + f->mbits) & 1;
  uint32_t magnitude = code & ((1u << (f->ebits + f->mbits)) - 1), top = top_code(f);
  double v = magnitude <= top                      ? plain_value(f, magnitude)
             : f->infinity && magnitude == top + 1 ? (double)INFINITY
                                                   : (double)NAN;
  return sign ? -v : v;
}

uint32_t format_round(const struct number_format *f, double v, char mode) {
  uint32_t top = top_code(f), all = (1u << (f->ebits + f->mbits)) - 1;
  if (isnan(v))
    return f->nan || f->infinity ? all : top;
  uint32_t sign = signbit(v) ? all + 1 : 0;
  double m = fabs(v);
  bool away = mode == 'p' ? !sign : mode == 'm' && sign;
  if (isinf(m))
    return sign | (f->infinity ? top + 1 : top);
  /* The largest code whose value is not above m. */
  uint32_t low = 0, high = top;
  while (low < high) {
    uint32_t middle = low + (high - low + 1) / 2;
    if (plain_value(f, middle) <= m)
      low = middle;
    else
      high = middle - 1;
  }
  double below = plain_value(f, low), above = plain_value(f, low + 1);
  if (m == below)
    return sign | low;
  bool up = mode == 'n' ? m - below > above - m || (m - below == above - m && low % 2) : away;
  if (low == top && up)
    return sign | (f->infinity ? top + 1 : top);
  return sign | (up ? low + 1 : low);
}
