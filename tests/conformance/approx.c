/* SPDX-License-Identifier: Apache-2.0
 *
 * Functions that the hardware approximates.  The ISA bounds the error; the emulated driver
 * rounds the true value.  The two agree if they are within the bound of each other, and a
 * unit in the last place for the emulated driver's own rounding.
 */
#include <math.h>
#include <string.h>

#include "conformance/judge.h"

static double from_f32(uint64_t bits) {
  uint32_t u = (uint32_t)bits;
  float f;
  memcpy(&f, &u, 4);
  return (double)f;
}

static double from_f64(uint64_t bits) {
  double d;
  memcpy(&d, &bits, 8);
  return d;
}

/* ebits, mbits of a 16-bit format. */
static double from_half(uint32_t bits, int ebits, int mbits) {
  int exp = (int)(bits >> mbits) & ((1 << ebits) - 1), bias = (1 << (ebits - 1)) - 1;
  double man = (double)(bits & ((1u << mbits) - 1)), v;
  if (exp == (1 << ebits) - 1)
    v = man != 0 ? NAN : INFINITY;
  else
    v = exp ? ldexp(1 + ldexp(man, -mbits), exp - bias) : ldexp(man, 1 - bias - mbits);
  return bits >> (ebits + mbits) & 1 ? -v : v;
}

/* Distance between the two numbers that are neighbours of v. */
static double unit_of(double v, int mbits, int least) {
  int exp;
  if (v == 0 || !isfinite(v))
    return ldexp(1, least - mbits);
  frexp(v, &exp);
  exp--;
  return ldexp(1, (exp < least ? least : exp) - mbits);
}

static bool close(const struct kernel_file *k, double x, double a, double b, int mbits, int least) {
  if (isnan(a) || isnan(b))
    return isnan(a) && isnan(b);
  if (isinf(a) || isinf(b) || (a == 0 && b == 0))
    return a == b && signbit(a) == signbit(b);
  double unit = unit_of(b, mbits, least), bits, bound;
  const char *how = k->approx;
  if (strcmp(how, "ulp") == 0 || strncmp(how, "div", 3) == 0) {
    bound = (k->approx_bits + 1) * unit;
  } else if (strcmp(how, "trig") == 0) {
    /* An absolute error of 2^-20.5 in one period around zero; beyond it the error grows
     * with the argument, and the ISA bounds nothing past 100 pi. */
    bound = ldexp(exp2(-k->approx_bits + floor(k->approx_bits)), -(int)floor(k->approx_bits));
    if (fabs(x) > 3.15)
      bound *= fabs(x);
    if (fabs(x) > 314)
      return fabs(a) <= 1 && fabs(b) <= 1;
    bound += unit;
  } else if (strcmp(how, "lg2") == 0) {
    /* Absolute near one, relative elsewhere. */
    bits = exp2(-k->approx_bits);
    bound = (fabs(b) > 1 ? fabs(b) : 1) * bits + unit;
  } else {
    bits = exp2(-k->approx_bits);
    bound = fabs(b) * bits + unit;
  }
  return fabs(a - b) <= bound;
}

bool approx_agree(const struct kernel_file *k, const uint64_t *in, uint64_t threads, uint64_t i,
                  uint64_t a, uint64_t b) {
  (void)threads;
  const char *t = k->operand[0];
  if (strcmp(t, "f32") == 0)
    return close(k, from_f32(in[i]), from_f32(a), from_f32(b), 23, -126);
  if (strcmp(t, "f64") == 0)
    return close(k, from_f64(in[i]), from_f64(a), from_f64(b), 52, -1022);
  int ebits = *t == 'b' ? 8 : 5, mbits = 15 - ebits, least = 2 - (1 << (ebits - 1));
  unsigned count = strstr(t, "x2") ? 2 : 1;
  for (unsigned j = 0; j < count; j++)
    if (!close(k, from_half((uint32_t)(in[i] >> 16 * j) & 0xffff, ebits, mbits),
               from_half((uint32_t)(a >> 16 * j) & 0xffff, ebits, mbits),
               from_half((uint32_t)(b >> 16 * j) & 0xffff, ebits, mbits), mbits, least))
      return false;
  return true;
}
