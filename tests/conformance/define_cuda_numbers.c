/* SPDX-License-Identifier: Apache-2.0
 *
 * Definitions in C of the CUDA C++ kernels that calculate: 64-bit and packed integers, directed
 * rounding, division and square root, half precision, functions of the device library.
 */
#include <fenv.h>
#include <math.h>
#include <string.h>

#include "conformance/define.h"
#include "conformance/define_formats.h"

#define OUT(v) out[(v) * n + i]
#define IN(a)  in[(a) * n + i]

/* What the hardware makes of any NaN. */
static uint64_t f32(float v) {
  return isnan(v) ? 0x7fffffff : bits_of_float(v);
}

/* ---- integers ------------------------------------------------------------------------------ */

static void int64_math(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint64_t a = IN(0), b = IN(1), reversed = 0;
    uint64_t low = (uint32_t)a, low_b = (uint32_t)b;
    int64_t sa = (int64_t)a, sb = (int64_t)b;
    uint64_t zeros = 64, first = 0;
    if (a) {
      zeros = (uint64_t)__builtin_clzll(a);
      first = (uint64_t)__builtin_ctzll(a) + 1;
    }
    for (int j = 0; j < 64; j++)
      reversed |= (a >> j & 1) << (63 - j);
    OUT(0) = a * b + (a ^ b);
    OUT(1) = (uint64_t)((unsigned __int128)a * b >> 64);
    OUT(2) = (uint64_t)((__int128)sa * sb >> 64);
    OUT(3) = a << (b & 63);
    OUT(4) = a >> (b & 63);
    OUT(5) = (uint64_t)(sa >> (b & 63));
    OUT(6) = (uint64_t)__builtin_popcountll(a) + 100 * zeros + 10000 * first;
    OUT(7) = reversed;
    OUT(8) = (uint32_t)((low_b << 32 | low) << (b >> 32 & 31) >> 32);
    uint32_t by = (uint32_t)(a >> 32);
    OUT(9) = (uint32_t)((low_b << 32 | low) >> (by < 32 ? by : 32));
    unsigned __int128 sum = (unsigned __int128)a * b + a;
    OUT(10) = (uint64_t)sum;
    OUT(11) = (uint64_t)(sum >> 64);
    OUT(12) = (uint64_t)(a < b) | (uint64_t)(sa < sb) << 1;
    OUT(13) = sa > sb ? a - b : b - a;
  }
}

static uint32_t part(uint32_t x, unsigned j, unsigned bits) {
  return x >> j * bits & ((1u << bits) - 1);
}

static void packed_math(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    uint32_t a = (uint32_t)IN(0), b = (uint32_t)IN(1), c = (uint32_t)IN(2);
    uint32_t add2 = 0, add4 = 0, sub4 = 0, max2 = 0, min4 = 0, dot4 = c, dot2 = c, bytes = 0;
    for (unsigned j = 0; j < 2; j++) {
      uint32_t x = part(a, j, 16), y = part(b, j, 16);
      add2 |= ((x + y) & 0xffff) << 16 * j;
      max2 |= ((int16_t)x > (int16_t)y ? x : y) << 16 * j;
      dot2 += x * part(b, j, 8);
    }
    for (unsigned j = 0; j < 4; j++) {
      uint32_t x = part(a, j, 8), y = part(b, j, 8), pick = part(c, j, 4) & 7;
      add4 |= ((x + y) & 255) << 8 * j;
      sub4 |= (x > y ? x - y : 0) << 8 * j;
      min4 |= (x < y ? x : y) << 8 * j;
      dot4 += (uint32_t)((int8_t)x * (int8_t)y);
      bytes |= part(pick < 4 ? a : b, pick & 3, 8) << 8 * j;
    }
    OUT(0) = add2;
    OUT(1) = add4;
    OUT(2) = sub4;
    OUT(3) = max2;
    OUT(4) = min4;
    OUT(5) = dot4;
    OUT(6) = dot2;
    OUT(7) = bytes;
    OUT(8) = format_round(&format_e4m3, (double)((float)(int32_t)a * 0.001f), 'n') |
             format_round(&format_e4m3, (double)((float)(int32_t)b * 1e-7f), 'n') << 8;
    OUT(9) = format_round(&format_f16, format_value(&format_e5m2, c & 255), 'n');
  }
}

/* ---- rounding ------------------------------------------------------------------ */

/* The processor's own operations, under a rounding mode; volatile keeps them between the two
 * changes of the mode. */
#define UNDER(mode, type, expression)                                                              \
  __extension__({                                                                                  \
    fesetround(mode);                                                                              \
    volatile type result_ = (expression);                                                          \
    fesetround(FE_TONEAREST);                                                                      \
    result_;                                                                                       \
  })

/* To an integer of [low, high]: beyond is the nearer end, NaN is `nan`. */
static uint64_t to_integer(double whole, double low, double high, uint64_t least, uint64_t most,
                           uint64_t nan) {
  if (isnan(whole))
    return nan;
  if (whole <= low)
    return least;
  if (whole >= high)
    return most;
  return (uint64_t)(int64_t)whole & (most | least);
}

static uint64_t to_s32(double whole, uint64_t nan) {
  return to_integer(whole, -0x1p31, 0x1p31, 0x80000000, 0x7fffffff, nan);
}

/* Doubles keep the NaN of an operand; of two, that of the second. */
static uint64_t f64(double x, double y, double result) {
  return bits_of_double(isnan(y) ? y : isnan(x) ? x : result);
}

static void rounding(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    volatile float a = float_of(IN(0)), b = float_of(IN(1));
    volatile double x = (double)a, y = (double)b;
    uint32_t word = (uint32_t)IN(1);
    OUT(0) = f32(UNDER(FE_TOWARDZERO, float, a + b));
    OUT(1) = f32(UNDER(FE_UPWARD, float, a + b));
    OUT(2) = f32(UNDER(FE_DOWNWARD, float, a *b));
    OUT(3) = f32(fmaf(a, b, 1.5f));
    OUT(4) = f32(UNDER(FE_UPWARD, float, fmaf(a, b, -a)));
    OUT(5) = f64(x, y, UNDER(FE_DOWNWARD, double, x + y));
    OUT(6) = f64(x, y, UNDER(FE_UPWARD, double, x *y));
    OUT(7) = to_s32(rint(x), 0);
    OUT(8) = to_integer(trunc(x), 0, 0x1p32, 0, 0xffffffff, 0);
    OUT(9) = to_integer(floor(x), -0x1p63, 0x1p63, 1ull << 63, (1ull << 63) - 1, 1ull << 63);
    OUT(10) = to_s32(ceil(y), 0x80000000); /* of a double's NaN */
    OUT(11) = f32(floorf(a));
    OUT(12) = f32(ceilf(a));
    OUT(13) = f32(rintf(a));
    OUT(14) = f32(truncf(a));
    OUT(15) = f32(UNDER(FE_TOWARDZERO, float, (float)*(volatile uint32_t *)&word));
  }
}

static void float_division(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    volatile float a = float_of(IN(0)), b = float_of(IN(1));
    volatile float sa = fabsf(a), sb = fabsf(b);
    volatile double x = (double)a * 1.2345678901234567, y = (double)b + 0.1;
    OUT(0) = f32(a / b);
    OUT(1) = f32(sqrtf(sa));
    OUT(2) = f32(1.0f / b);
    OUT(3) = f32(UNDER(FE_TOWARDZERO, float, a / b));
    OUT(4) = f32(UNDER(FE_UPWARD, float, sqrtf(sb)));
    OUT(5) = f64(y, x, x / y);         /* of two NaNs the dividend */
    OUT(6) = f64(x, x, sqrt(fabs(x))); /* of a NaN the sign, too */
    OUT(7) = f64(y, x, UNDER(FE_DOWNWARD, double, x / y));
    OUT(8) = bits_of_double(1.0 / y);
  }
}

/* ---- half precision ------------------------------------------------------------ */

/* a + b rounded to odd: rounded once more, to a narrow format, it is as if rounded once. */
static double add_odd(double a, double b) {
  double sum = a + b;
  if (!isfinite(sum))
    return sum;
  double from_b = sum - a, error = (a - (sum - from_b)) + (b - from_b);
  if (error != 0 && (bits_of_double(sum) & 1) == 0)
    sum = nextafter(sum, error > 0 ? (double)INFINITY : -(double)INFINITY);
  return sum;
}

/* The larger (of = 1) or smaller (of = -1) of two codes: -0 is below +0; a NaN loses, or wins. */
static uint32_t extreme(const struct number_format *f, uint32_t a, uint32_t b, int of,
                        bool nan_wins) {
  double x = format_value(f, a), y = format_value(f, b);
  uint32_t nan = format_round(f, (double)NAN, 'n');
  if (isnan(x) || isnan(y))
    return nan_wins || (isnan(x) && isnan(y)) ? nan : isnan(x) ? b : a;
  if (x == y)
    return (signbit(x) != 0) == (of < 0) ? a : b;
  return (x > y) == (of > 0) ? a : b;
}

/* The results that kernels of the two formats have in common. */
static void half_arithmetic(const struct number_format *f, const uint64_t *in, uint64_t n,
                            uint64_t i, uint64_t *out) {
  for (unsigned v = 0; v < 6; v++)
    OUT(v) = 0;
  for (unsigned j = 0; j < 2; j++) {
    uint32_t a = IN(0) >> 16 * j & 0xffff, b = IN(1) >> 16 * j & 0xffff;
    double x = format_value(f, a), y = format_value(f, b);
    double z = format_value(f, IN(2) >> 16 * j & 0xffff);
    const uint32_t results[6] = {
        format_round(f, add_odd(x, y), 'n'), format_round(f, add_odd(x, -y), 'n'),
        format_round(f, x * y, 'n'),         format_round(f, add_odd(x * y, z), 'n'),
        extreme(f, a, b, 1, false),          extreme(f, a, b, -1, true)};
    for (unsigned v = 0; v < 6; v++)
      OUT(v) |= (uint64_t)results[v] << 16 * j;
  }
}

/* Two floats, to the two halves of a word. */
static uint64_t pair(const struct number_format *f, float low, float high) {
  return format_round(f, (double)low, 'n') | (uint64_t)format_round(f, (double)high, 'n') << 16;
}

static void half_math(const uint64_t *in, uint64_t n, uint64_t *out) {
  const struct number_format *f = &format_f16;
  for (uint64_t i = 0; i < n; i++) {
    half_arithmetic(f, in, n, i, out);
    float low_a = (float)format_value(f, IN(0) & 0xffff);
    float high_a = (float)format_value(f, IN(0) >> 16 & 0xffff);
    float low_b = (float)format_value(f, IN(1) & 0xffff);
    float high_b = (float)format_value(f, IN(1) >> 16 & 0xffff);
    OUT(6) = (uint64_t)(low_a < low_b) | (uint64_t) !(high_a < high_b) << 1;
    OUT(7) = f32(low_a);
    OUT(8) = pair(f, low_a * 1.0009765f, high_b + 0.33f);
    OUT(9) = to_s32(trunc(format_value(f, IN(2) >> 16 & 0xffff)), 0);
  }
}

static void bf16_math(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    half_arithmetic(&format_bf16, in, n, i, out);
    uint64_t low = (IN(0) & 0xffff) << 16, high = IN(1) & 0xffff0000;
    OUT(6) = low; /* a bf16 is the upper half of a float: NaNs keep their payload */
    OUT(7) = pair(&format_bf16, float_of(low) * 1.01f, float_of(high) + 0.33f);
  }
}

/* ---- the device library -------------------------------------------------------- */

static void math_functions(const uint64_t *in, uint64_t n, uint64_t *out) {
  for (uint64_t i = 0; i < n; i++) {
    double a = (double)float_of(IN(0)), x = fabs(a) < 50 ? a : 1.25;
    OUT(0) = f32((float)exp(x));
    OUT(1) = f32((float)log(fabs(a)));
    OUT(2) = f32((float)sin(x));
    OUT(3) = f32((float)cbrt(a));
    OUT(4) = f32((float)atan(a));
    OUT(5) = f32((float)exp2(x));
  }
}

const struct definition definitions_cuda_numbers[] = {
    {"int64_math", int64_math},
    {"packed_math", packed_math},
    {"rounding", rounding},
    {"float_division", float_division},
    {"half_math", half_math},
    {"bf16_math", bf16_math},
    {"math_functions", math_functions},
    {NULL, NULL},
};
