/* SPDX-License-Identifier: Apache-2.0
 *
 * Floating-point formats.  See fp.h.
 */
#include "fp.h"

const struct fp_format FP_f16 = {5, 10, true, true}, FP_bf16 = {8, 7, true, true},
                       FP_tf32 = {8, 10, true, true}, FP_f32 = {8, 23, true, true},
                       FP_e4m3 = {4, 3, false, true}, FP_e5m2 = {5, 2, true, true},
                       FP_e2m3 = {2, 3, false, false}, FP_e3m2 = {3, 2, false, false},
                       FP_e2m1 = {2, 1, false, false};

static uint32_t low(unsigned bits) {
  return (uint32_t)((1ull << bits) - 1);
}

uint32_t fp_nan(const struct fp_format *f) {
  return low((unsigned)f->exponent + f->mantissa);
}

uint32_t fp_max_finite(const struct fp_format *f) {
  uint32_t all = low((unsigned)f->exponent + f->mantissa);
  if (f->infinity)
    return all - (1u << f->mantissa);
  return f->nan ? all - 1 : all;
}

double fp_decode(uint32_t bits, const struct fp_format *f) {
  const int bias = (1 << (f->exponent - 1)) - 1;
  uint32_t m = bits & low(f->mantissa), e = bits >> f->mantissa & low(f->exponent);
  const uint64_t sign = (uint64_t)(bits >> (f->exponent + f->mantissa) & 1) << 63;
  if (f->infinity && e == low(f->exponent))
    return f64_of(sign | 0x7ff0000000000000ull | (uint64_t)(m != 0) << 51);
  if (!f->infinity && f->nan && (bits & low((unsigned)f->exponent + f->mantissa)) == fp_nan(f))
    return (double)NAN;
  if (e)
    return f64_of(sign | (uint64_t)((int)e - bias + 1023) << 52 |
                  (uint64_t)m << (52 - f->mantissa));
  /* subnormal: m units of the least exponent, which is far from a double's limits */
  const double unit = f64_of((uint64_t)(1 - bias - f->mantissa + 1023) << 52);
  return f64_of(bits_of64((double)m * unit) | sign);
}

/* Whether a remainder (against half) makes the magnitude one larger. */
static bool round_up(enum fp_round r, bool negative, bool odd, uint64_t rest, uint64_t half) {
  switch (r) {
  case ROUND_rz:
    return false;
  case ROUND_rm:
    return negative && rest;
  case ROUND_rp:
    return !negative && rest;
  case ROUND_rna:
    return rest >= half;
  default:
    return rest > half || (rest == half && odd);
  }
}

uint32_t fp_encode(double v, const struct fp_format *f, enum fp_round r) {
  const uint64_t b = bits_of64(v);
  const bool negative = b >> 63;
  const uint32_t sign = (uint32_t)negative << (f->exponent + f->mantissa);
  const int bias = (1 << (f->exponent - 1)) - 1, least = 1 - bias; /* exponent of subnormals */
  int e = (int)(b >> 52 & 2047);
  uint64_t m = b & ((1ull << 52) - 1);
  if (e == 2047) {
    if (m)
      return fp_nan(f);
    return sign | (f->infinity ? low(f->exponent) << f->mantissa : fp_max_finite(f));
  }
  if (e == 0 && m == 0)
    return sign;
  if (e)
    m |= 1ull << 52;
  else
    e = 1;
  /* value = m * 2^(e - 1075); make m have its leading bit at 52 */
  while (!(m >> 52)) {
    m <<= 1;
    e--;
  }
  int exp = e - 1023, drop = 52 - f->mantissa;
  if (exp < least) {
    drop += least - exp;
    exp = least;
  }
  uint64_t kept = drop > 63 ? 0 : m >> drop;
  uint64_t rest = drop > 63 ? 1 : m & ((1ull << drop) - 1);
  uint64_t half = drop > 63 ? 2 : 1ull << (drop - 1);
  kept += round_up(r, negative, kept & 1, rest, half);
  /* kept's leading bit adds one to the exponent field below it */
  uint64_t out = kept + ((uint64_t)(exp - least) << f->mantissa);
  if (out > fp_max_finite(f)) {
    bool to_inf = r == ROUND_rn || r == ROUND_rna || (r == ROUND_rm && negative) ||
                  (r == ROUND_rp && !negative);
    out = f->infinity && to_inf ? low(f->exponent) << f->mantissa : fp_max_finite(f);
  }
  return sign | (uint32_t)out;
}

double fp_odd_add(double a, double b) {
  volatile double s = a + b; /* volatile: no wider registers, no reassociation */
  if (!isfinite(s))
    return s;
  volatile double bb = s - a;
  volatile double ea = s - bb;
  volatile double err = (a - ea) + (b - bb);
  uint64_t v = bits_of64(s);
  if (err == 0 || (v & 1))
    return s;
  /* the exact sum lies between s and a neighbour: the odd one of the two */
  bool outward = (err > 0) == (s > 0);
  return f64_of(outward ? v + 1 : v - 1);
}

enum fp_round fp_round_of(enum mod m) {
  switch (m) {
  case MOD_rz:
  case MOD_rzi:
    return ROUND_rz;
  case MOD_rm:
  case MOD_rmi:
    return ROUND_rm;
  case MOD_rp:
  case MOD_rpi:
    return ROUND_rp;
  case MOD_rna:
    return ROUND_rna;
  default:
    return ROUND_rn;
  }
}
