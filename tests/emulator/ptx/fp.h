/* SPDX-License-Identifier: Apache-2.0
 *
 * Floating-point formats by their definition: any binary format with a sign bit and at
 * most 53 significant bits, to and from double, in any rounding mode.
 *
 * Results that PTX computes in one rounding from an exact value wider than a double get
 * there by rounding to odd first (fp_odd_*): a value rounded to odd in 53 bits rounds
 * to a format of at most 51 bits as the exact value would.
 */
#ifndef EMU_FP_H
#define EMU_FP_H

#include <math.h>
#include <stdint.h>
#include <string.h>

#include "ptx.h"

enum fp_round {
  ROUND_rn, /* nearest, ties to even */
  ROUND_rz,
  ROUND_rm,
  ROUND_rp,
  ROUND_rna, /* nearest, ties away from zero */
  ROUND_rs   /* unused by the forms supported */
};

struct fp_format {
  uint8_t exponent, mantissa; /* bits */
  bool infinity;              /* all exponent bits one: Inf and NaN, as IEEE 754 */
  bool nan;                   /* else: S.11..1 alone is NaN (e4m3), or there is none */
};
extern const struct fp_format FP_f16, FP_bf16, FP_tf32, FP_f32, FP_e4m3, FP_e5m2, FP_e2m3, FP_e3m2,
    FP_e2m1;

double fp_decode(uint32_t bits, const struct fp_format *f);
/* Overflow gives infinity, or the largest finite number where the rounding mode says so
 * or the format has no infinity.  NaN gives the format's canonical NaN, sign 0. */
uint32_t fp_encode(double v, const struct fp_format *f, enum fp_round r);
uint32_t fp_max_finite(const struct fp_format *f);
uint32_t fp_nan(const struct fp_format *f);

/* a + b, a * b + c rounded to odd; a * b must be exact in a double. */
double fp_odd_add(double a, double b);

enum fp_round fp_round_of(enum mod m); /* MOD_none is rn; integer modes too */

static inline float f32_of(uint64_t v) {
  uint32_t b = (uint32_t)v;
  float f;
  memcpy(&f, &b, 4);
  return f;
}
static inline uint32_t bits_of(float f) {
  uint32_t b;
  memcpy(&b, &f, 4);
  return b;
}
static inline double f64_of(uint64_t v) {
  double d;
  memcpy(&d, &v, 8);
  return d;
}
static inline uint64_t bits_of64(double d) {
  uint64_t v;
  memcpy(&v, &d, 8);
  return v;
}

#define NAN_F32 0x7fffffffu
static inline bool is_nan32(uint32_t b) {
  return (b & 0x7fffffff) > 0x7f800000;
}
static inline uint32_t ftz32(uint32_t b) {
  return b & 0x7f800000 ? b : b & 0x80000000;
}
/* [0, 1], NaN to +0. */
static inline uint32_t sat32f(uint32_t b) {
  if (is_nan32(b) || b >> 31)
    return 0;
  return b > 0x3f800000 ? 0x3f800000 : b;
}

#endif
