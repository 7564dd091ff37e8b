/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats by their definition, for the definitions of conformance kernels: values in
 * double, rounding by looking for the neighbours of a value among the format's numbers.
 * Shares nothing with the emulated driver's conversions.
 */
#ifndef BW_CONFORMANCE_DEFINE_FORMATS_H
#define BW_CONFORMANCE_DEFINE_FORMATS_H

#include <stdbool.h>
#include <stdint.h>

struct number_format {
  unsigned ebits, mbits;
  bool infinity; /* the top exponent is infinity and NaN */
  bool nan;      /* without infinity: the code of all ones is NaN */
};
extern const struct number_format format_f16, format_bf16, format_tf32, format_f32, format_e4m3,
    format_e5m2, format_e2m3, format_e3m2, format_e2m1;

double format_value(const struct number_format *f, uint32_t code);
/* mode: 'n' nearest, ties to even; 'z' toward zero; 'm' down; 'p' up.  A finite value
 * beyond the largest number rounds to infinity or to it, as IEEE 754 says; formats without
 * infinity keep the largest number.  NaN: all ones but the sign, or the largest number
 * where there is no NaN. */
uint32_t format_round(const struct number_format *f, double v, char mode);

float float_of(uint64_t bits);
uint32_t bits_of_float(float v);
double double_of(uint64_t bits);
uint64_t bits_of_double(double v);

#endif
