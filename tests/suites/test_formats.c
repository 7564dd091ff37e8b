/* SPDX-License-Identifier: Apache-2.0
 *
 * Number formats: the references against the definitions by brute force, and the
 * driver's conversion instructions against the references.
 *
 * Where a function of an f32 is tested "at every step", the inputs are all 65536 upper
 * halves with lower halves around 0 and 0x8000: every value at which a conversion to
 * e4m3, ue8m0 or bf16 can change, its neighbours on both sides, and all of bf16.
 */
#include "harness/kernel.h"
#include "harness/random.h"
#include "harness/suite.h"
#include "ref/formats.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t lower_halves[] = {0x0000, 0x0001, 0x7fff, 0x8000, 0x8001, 0xffff};
enum { LOWER = sizeof lower_halves / sizeof *lower_halves, STEPS = 65536 * LOWER };

static uint32_t step_bits(uint32_t i) {
  return (i / LOWER) << 16 | lower_halves[i % LOWER];
}

/* ---- e4m3 ------------------------------------------------------------------- */

START_TEST(e4m3_known_values) {
  static const struct {
    uint8_t code;
    double value;
  } known[] = {{0x00, 0},       {0x01, 0x1p-9}, {0x07, 0x7p-9}, {0x08, 0x1p-6},
               {0x38, 1},       {0x39, 1.125},  {0x40, 2},      {0x7e, 448},
               {0x81, -0x1p-9}, {0xb8, -1},     {0xfe, -448},   {0x78, 256}};
  for (size_t i = 0; i < BWT_COUNT(known); i++)
    ck_assert_double_eq(ref_e4m3_value(known[i].code), known[i].value);
  ck_assert(signbit(ref_e4m3_value(0x80)));
  ck_assert(isnan(ref_e4m3_value(0x7f)) && isnan(ref_e4m3_value(0xff)));
}
END_TEST

START_TEST(e4m3_round_trip) {
  for (unsigned code = 0; code < 256; code++) {
    uint8_t back = ref_e4m3_from_f32((float)ref_e4m3_value((uint8_t)code));
    ck_assert_uint_eq(back, code == 0xff ? 0x7f : code);
  }
}
END_TEST

/* Of all codes with v's sign none is nearer, and of two equally near the even one. */
START_TEST(e4m3_is_nearest) {
  double magnitudes[0x7f];
  for (unsigned code = 0; code < 0x7f; code++)
    magnitudes[code] = ref_e4m3_value((uint8_t)code);
  for (uint32_t i = 0; i < STEPS; i++) {
    float v = ref_f32_from_bits(step_bits(i));
    unsigned got = ref_e4m3_from_f32(v);
    if (isnan(v)) {
      BWT_SAME(got, REF_E4M3_NAN);
      continue;
    }
    BWT_SAME(got >> 7, signbit(v) != 0);
    got &= 0x7f;
    double magnitude = fabs((double)v);
    if (magnitude >= 448) {
      BWT_SAME(got, 0x7e);
      continue;
    }
    double distance = fabs(magnitudes[got] - magnitude);
    for (unsigned code = 0; code < 0x7f; code++) {
      double other = fabs(magnitudes[code] - magnitude);
      bool tie = other == distance && code != got;
      BWT_REQUIRE(!(other < distance) && !(tie && got % 2 == 1), "%a: 0x%02X, but 0x%02X is better",
                  (double)v, got, code);
    }
  }
}
END_TEST

/* ---- ue8m0 -------------------------------------------------------------------- */

START_TEST(ue8m0_known_values) {
  ck_assert_double_eq(ref_ue8m0_value(127), 1);
  ck_assert_double_eq(ref_ue8m0_value(0), 0x1p-127);
  ck_assert_double_eq(ref_ue8m0_value(254), 0x1p127);
  ck_assert(isnan(ref_ue8m0_value(255)));
  ck_assert_uint_eq(ref_ue8m0_from_f32(0), 0);
  ck_assert_uint_eq(ref_ue8m0_from_f32(-0.0f), 0);
  ck_assert_uint_eq(ref_ue8m0_from_f32(1), 127);
  ck_assert_uint_eq(ref_ue8m0_from_f32(nextafterf(1, 2)), 128);
  ck_assert_uint_eq(ref_ue8m0_from_f32(-3), 129);
  ck_assert_uint_eq(ref_ue8m0_from_f32(0x1p-149f), 0);
  ck_assert_uint_eq(ref_ue8m0_from_f32(0x1p-127f), 0);
  ck_assert_uint_eq(ref_ue8m0_from_f32(nextafterf(0x1p-127f, 1)), 1);
  ck_assert_uint_eq(ref_ue8m0_from_f32(0x1p127f), 254);
  ck_assert_uint_eq(ref_ue8m0_from_f32(0x1.fffffep127f), 254);
  ck_assert_uint_eq(ref_ue8m0_from_f32(INFINITY), 254);
  ck_assert_uint_eq(ref_ue8m0_from_f32(NAN), 255);
}
END_TEST

START_TEST(ue8m0_is_least) {
  for (uint32_t i = 0; i < STEPS; i++) {
    float v = ref_f32_from_bits(step_bits(i));
    uint8_t got = ref_ue8m0_from_f32(v);
    if (isnan(v)) {
      BWT_SAME(got, REF_UE8M0_NAN);
      continue;
    }
    double magnitude = fabs((double)v);
    BWT_REQUIRE(got != REF_UE8M0_NAN, "NaN for %a", (double)v);
    BWT_REQUIRE(ref_ue8m0_value(got) >= magnitude || got == 0xfe, "%a: 0x%02X is less", magnitude,
                got);
    BWT_REQUIRE(got == 0 || ref_ue8m0_value(got - 1) < magnitude, "%a: 0x%02X is not the least",
                magnitude, got);
  }
}
END_TEST

/* The reciprocal is exact, but for the codes whose rule says otherwise. */
START_TEST(ue8m0_inverse) {
  for (unsigned code = 1; code < 254; code++)
    ck_assert_double_eq((double)ref_ue8m0_inverse((uint8_t)code) * ref_ue8m0_value((uint8_t)code),
                        1);
  ck_assert_uint_eq(ref_f32_bits(ref_ue8m0_inverse(0)), 0);
  ck_assert_uint_eq(ref_f32_bits(ref_ue8m0_inverse(254)), 0);
}
END_TEST

/* The scale of a block whose largest value is 448*2^k is 2^k, and one bf16 step above
 * that it is 2^(k+1): the f32 product with 1/448 rounds that way. */
START_TEST(ue8m0_of_amax) {
  for (int k = -130; k <= 119; k++) {
    float edge = ldexpf(448, k), above = ldexpf(450, k), factor = (float)(1.0 / 448.0);
    uint8_t want = (uint8_t)(k + 127 < 0 ? 0 : k + 127);
    ck_assert_uint_eq(ref_ue8m0_from_f32(edge * factor), want);
    if (k >= -127)
      ck_assert_uint_eq(ref_ue8m0_from_f32(above * factor), want + 1u);
  }
}
END_TEST

/* ---- bf16 ---------------------------------------------------------------------- */

/* The usual way with integers: add half a step, and what makes ties even. */
static uint16_t bf16_by_bits(uint32_t bits) {
  if ((bits & 0x7fffffff) > 0x7f800000)
    return REF_BF16_NAN;
  return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

START_TEST(bf16_at_every_step) {
  for (uint32_t i = 0; i < STEPS; i++) {
    uint32_t bits = step_bits(i);
    BWT_SAME(ref_bf16_from_f32(ref_f32_from_bits(bits)), bf16_by_bits(bits));
  }
}
END_TEST

START_TEST(bf16_random) {
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(bwt_run_seed(), 16));
  for (int i = 0; i < (bwt_full() ? 50000000 : 500000); i++) {
    uint32_t bits = (uint32_t)bwt_random_u64(&r);
    BWT_REQUIRE(ref_bf16_from_f32(ref_f32_from_bits(bits)) == bf16_by_bits(bits), "0x%08X", bits);
  }
}
END_TEST

/* ---- the driver's instructions ---------------------------------------------------- */

static CUdeviceptr device_array(struct bwt_session *s, size_t size) {
  CUdeviceptr p = 0;
  ck_assert_int_eq(s->driver.MemAlloc(&p, size), CUDA_SUCCESS);
  return p;
}

static uint32_t f16_bits_of_e4m3(uint8_t code) {
  double v = ref_e4m3_value(code);
  if (isnan(v))
    return 0x7fff;
  if (v == 0)
    return signbit(v) ? 0x8000 : 0;
  int exponent; /* every e4m3 value is a normal f16 */
  double fraction = frexp(fabs(v), &exponent);
  uint32_t bits = (uint32_t)((fraction * 2 - 1) * 1024) | (uint32_t)(exponent - 1 + 15) << 10;
  return signbit(v) ? bits | 0x8000 : bits;
}

START_TEST(instructions_at_every_step) {
  struct bwt_session s;
  struct bwt_text why = {0};
  ck_assert_msg(bwt_session_open(&s, NULL, NULL, &why), "%s", why.chars);
  struct bwt_kernel k;
  ck_assert_msg(bwt_kernel_open(&k, &s, "convert", &why), "%s", why.chars);

  uint32_t count = STEPS;
  uint32_t *input = malloc(count * 4), *bf16 = malloc(count * 4), *back = malloc(count * 4);
  uint16_t *e4m3 = malloc(count * 2), *ue8m0 = malloc(count * 2);
  for (uint32_t i = 0; i < count; i++)
    input[i] = step_bits(i);
  CUdeviceptr d_input = device_array(&s, count * 4), d_e4m3 = device_array(&s, count * 2),
              d_ue8m0 = device_array(&s, count * 2), d_bf16 = device_array(&s, count * 4),
              d_back = device_array(&s, count * 4);
  ck_assert_int_eq(s.driver.MemcpyHtoD(d_input, input, count * 4), CUDA_SUCCESS);
  void *parameters[] = {&d_input, &d_e4m3, &d_ue8m0, &d_bf16, &d_back, &count};
  ck_assert_int_eq(bwt_kernel_launch(&k, (count + 127) / 128, 128, NULL, false, parameters),
                   CUDA_SUCCESS);
  CUresult error = s.driver.CtxSynchronize();
  if (error != CUDA_SUCCESS)
    bwt_session_report(&s, &why);
  ck_assert_msg(error == CUDA_SUCCESS, "%s\n%s", bwt_driver_error(&s.driver, error), why.chars);
  ck_assert_int_eq(s.driver.MemcpyDtoH(e4m3, d_e4m3, count * 2), CUDA_SUCCESS);
  ck_assert_int_eq(s.driver.MemcpyDtoH(ue8m0, d_ue8m0, count * 2), CUDA_SUCCESS);
  ck_assert_int_eq(s.driver.MemcpyDtoH(bf16, d_bf16, count * 4), CUDA_SUCCESS);
  ck_assert_int_eq(s.driver.MemcpyDtoH(back, d_back, count * 4), CUDA_SUCCESS);

  for (uint32_t i = 0; i < count; i++) {
    float v = ref_f32_from_bits(input[i]);
    uint32_t e = ref_e4m3_from_f32(v), u = ref_ue8m0_from_f32(v), b = ref_bf16_from_f32(v);
    uint32_t f = f16_bits_of_e4m3((uint8_t)e);
    BWT_REQUIRE(e4m3[i] == e * 0x0101, "e4m3 of 0x%08X: 0x%04X, not 0x%02X", input[i], e4m3[i], e);
    BWT_REQUIRE(ue8m0[i] == u * 0x0101, "ue8m0 of 0x%08X: 0x%04X, not 0x%02X", input[i], ue8m0[i],
                u);
    BWT_REQUIRE(bf16[i] == b * 0x00010001, "bf16 of 0x%08X: 0x%08X, not 0x%04X", input[i], bf16[i],
                b);
    BWT_REQUIRE(back[i] == f * 0x00010001, "f16 of e4m3 0x%02X: 0x%08X, not 0x%04X", e, back[i], f);
  }
  CUdeviceptr all[] = {d_input, d_e4m3, d_ue8m0, d_bf16, d_back};
  for (size_t i = 0; i < BWT_COUNT(all); i++)
    ck_assert_int_eq(s.driver.MemFree(all[i]), CUDA_SUCCESS);
  free(input);
  free(e4m3);
  free(ue8m0);
  free(bf16);
  free(back);
  bwt_kernel_close(&k);
  bwt_session_close(&s);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("e4m3", e4m3_known_values, 10),
      BWT_TEST("e4m3", e4m3_round_trip, 10),
      BWT_TEST("e4m3", e4m3_is_nearest, 60),
      BWT_TEST("ue8m0", ue8m0_known_values, 10),
      BWT_TEST("ue8m0", ue8m0_is_least, 10),
      BWT_TEST("ue8m0", ue8m0_inverse, 10),
      BWT_TEST("ue8m0", ue8m0_of_amax, 10),
      BWT_TEST("bf16", bf16_at_every_step, 10),
      BWT_TEST("bf16", bf16_random, 120),
      BWT_TEST("instructions", instructions_at_every_step, 120),
  };
  return bwt_suite_main("formats", tests, BWT_COUNT(tests));
}
