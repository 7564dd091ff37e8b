/* SPDX-License-Identifier: Apache-2.0
 *
 * The emulator's units, their pure parts against definitions written here from scratch:
 * tensor-core sums in long double and 128-bit integers, matrix layouts, instruction and
 * matrix descriptors, tensor maps, reductions.
 */
#include "emulator/units/idesc.h"
#include "emulator/units/layout.h"
#include "emulator/units/reduce.h"
#include "emulator/units/tcore.h"
#include "emulator/units/tensormap.h"
#include "harness/random.h"
#include "harness/suite.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* ---- numbers by definition ------------------------------------------------------ */

struct number {
  bool nan, inf, neg;
  long double sig; /* 0 <= sig < 2 */
  int exp;
};

/* A value with 1 sign, `e` exponent and `m` mantissa bits.  special: 0 none, 1 IEEE,
 * 2 only all ones is NaN. */
static struct number number_of(uint32_t bits, int e, int m, int special) {
  struct number x = {0};
  uint32_t man = bits & ((1u << m) - 1), exp = (bits >> m) & ((1u << e) - 1);
  int bias = e == 2 ? 1 : (1 << (e - 1)) - 1;
  x.neg = bits >> (e + m) & 1;
  if (special == 1 && exp == (1u << e) - 1) {
    x.nan = man != 0;
    x.inf = man == 0;
    return x;
  }
  if (special == 2 && (bits & ((1u << (e + m)) - 1)) == (1u << (e + m)) - 1) {
    x.nan = true;
    return x;
  }
  x.exp = exp ? (int)exp - bias : 1 - bias;
  x.sig = ldexpl((long double)man, -m) + (exp ? 1 : 0);
  return x;
}

static struct number element(enum tc_type t, uint32_t bits) {
  switch (t) {
  case TC_e4m3:
    return number_of(bits, 4, 3, 2);
  case TC_e5m2:
    return number_of(bits, 5, 2, 1);
  case TC_e2m3:
    return number_of(bits, 2, 3, 0);
  case TC_e3m2:
    return number_of(bits, 3, 2, 0);
  case TC_e2m1:
    return number_of(bits, 2, 1, 0);
  case TC_f16:
    return number_of(bits, 5, 10, 1);
  case TC_bf16:
    return number_of(bits, 8, 7, 1);
  default:
    return number_of(bits >> 13, 8, 10, 1);
  }
}

/* One element of D by the model's words; scales are exponents. */
static uint32_t naive(const uint32_t *a, enum tc_type ta, const uint32_t *b, enum tc_type tb, int k,
                      bool use_c, uint32_t c_bits, int scale, bool scale_nan, int fraction,
                      int mantissa, bool f16, int shrink) {
  struct number c = f16 ? number_of(c_bits & 0xffff, 5, 10, 1) : number_of(c_bits, 8, 23, 1);
  if (!use_c)
    c = number_of(0, 8, 23, 1);
  bool nan = scale_nan || c.nan, pos = c.inf && !c.neg, neg = c.inf && c.neg;
  int high = c.sig == 0 ? -133 /* an H200 says so */ : c.exp - shrink;
  for (int i = 0; i < k; i++) {
    struct number x = element(ta, a[i]), y = element(tb, b[i]);
    bool minus = x.neg != y.neg;
    if (x.nan || y.nan || (x.inf && !y.inf && y.sig == 0) || (y.inf && !x.inf && x.sig == 0))
      nan = true;
    else if (x.inf || y.inf)
      minus ? (neg = true) : (pos = true);
    else if (x.sig * y.sig != 0 && x.exp + y.exp + scale > high)
      high = x.exp + y.exp + scale;
  }
  if (nan || (pos && neg))
    return f16 ? 0x7fff : 0x7fffffff;
  if (pos || neg)
    return (f16 ? 0x7c00u : 0x7f800000u) | (neg ? f16 ? 0x8000u : 0x80000000u : 0);
  __int128 sum = 0;
  for (int i = -1; i < k; i++) {
    struct number x = c, y = {.sig = 1};
    int e = c.exp - shrink;
    if (i >= 0) {
      x = element(ta, a[i]);
      y = element(tb, b[i]);
      e = x.exp + y.exp + scale;
    }
    long double units = truncl(ldexpl(x.sig * y.sig, fraction + e - high));
    sum += (x.neg != y.neg) ? -(__int128)units : (__int128)units;
  }
  if (sum == 0)
    return 0;
  long double v = ldexpl((long double)sum, high - fraction);
  int e;
  frexpl(v, &e);
  e--;
  int least = f16 ? -14 : -126, bits = f16 ? 10 : mantissa;
  if (e < least)
    e = least;
  long double units = ldexpl(fabsl(v), bits - e);
  units = f16 ? rintl(units) : truncl(units);
  long double r = ldexpl(units, e - bits);
  uint32_t sign = v < 0 ? f16 ? 0x8000 : 0x80000000u : 0;
  if (r == 0)
    return 0; /* a sum cut to nothing is +0; f16 keeps the sign below */
  if (f16) {
    if (r >= 65536)
      return sign | 0x7c00;
    frexpl(r, &e);
    e = e - 1 < -14 ? -14 : e - 1;
    uint32_t sig = (uint32_t)ldexpl(r, 10 - e);
    return sign | (sig < 1024 ? sig : (uint32_t)(e + 15) << 10 | (sig - 1024));
  }
  float f = (float)r; /* exact, or too large */
  uint32_t out;
  memcpy(&out, &f, 4);
  return sign | out;
}

struct unit {
  const char *name;
  enum tc_type a, b;
  unsigned k, fraction, mantissa;
  bool f16, scaled;
};
static const struct unit units[] = {
    {"mxf8f6f4 e4m3", TC_e4m3, TC_e4m3, 32, 25, 23, false, true},
    {"mxf8f6f4 e5m2*e2m1", TC_e5m2, TC_e2m1, 32, 25, 23, false, true},
    {"mxf8f6f4 e3m2*e2m3", TC_e3m2, TC_e2m3, 32, 25, 23, false, true},
    {"f8f6f4 e5m2*e4m3", TC_e5m2, TC_e4m3, 32, 25, 23, false, false},
    {"f8f6f4 e4m3 to f16", TC_e4m3, TC_e4m3, 32, 25, 23, true, false},
    {"f16", TC_f16, TC_f16, 16, 25, 23, false, false},
    {"f16 to f16", TC_f16, TC_f16, 16, 25, 23, true, false},
    {"bf16", TC_bf16, TC_bf16, 16, 25, 23, false, false},
    {"tf32", TC_tf32, TC_tf32, 8, 25, 23, false, false},
    {"tf32 k4", TC_tf32, TC_tf32, 4, 25, 23, false, false},
    {"wgmma e4m3", TC_e4m3, TC_e4m3, 32, 13, 13, false, false},
    {"wgmma e5m2", TC_e5m2, TC_e5m2, 32, 13, 13, false, false},
};

/* Bits of an element: all patterns, but NaN and infinity rarely, or each product nearly
 * cancels its neighbour, or all are small. */
static uint32_t draw_element(struct bwt_random *r, enum tc_type t, unsigned flavour) {
  static const unsigned width[TC_types] = {8, 8, 6, 6, 4, 16, 16, 32};
  for (;;) {
    uint32_t bits = (uint32_t)bwt_random_u64(r);
    if (width[t] < 32)
      bits &= (1u << width[t]) - 1;
    if (flavour == 1) { /* exponents near one */
      struct number x = element(t, bits);
      if (!x.nan && !x.inf && (x.exp < -4 || x.exp > 3))
        continue;
    }
    if (flavour == 2 && bwt_random_below(r, 4) == 0)
      bits &= t == TC_tf32 ? 0x807fffff : (1u << (width[t] - 1)) | 3; /* subnormal or zero */
    struct number x = element(t, bits);
    if ((x.nan || x.inf) && bwt_random_below(r, 40))
      continue;
    return bits;
  }
}

static void put(uint8_t *raw, unsigned i, unsigned bytes, uint32_t v) {
  memcpy(raw + (size_t)i * bytes, &v, bytes);
}

START_TEST(sums_by_definition) {
  enum { M = 128, N = 104 };
  const struct unit *u = &units[_i];
  static struct tc_a a;
  static struct tc_b b;
  static uint32_t ea[M][32], eb[N][32], c[M][N], d[N], undef[N];
  static int16_t sb[N];
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(bwt_run_seed(), (uint64_t)_i));
  struct tc_spec spec = {u->fraction, u->mantissa, u->f16, 0};
  unsigned specials = 0, zeros = 0;
  for (unsigned round = 0; round < 2; round++) {
    uint8_t raw[128];
    bool use_c = round == 0 || bwt_random_below(&r, 2);
    spec.shrink_c = round && !u->scaled && !u->f16 ? bwt_random_below(&r, 16) : 0;
    tc_begin_a(&a, u->a, u->k);
    tc_begin_b(&b, u->b, u->k, N);
    for (unsigned m = 0; m < M; m++) {
      for (unsigned k = 0; k < u->k; k++) {
        ea[m][k] = draw_element(&r, u->a, m % 3);
        if (m % 8 == 7 && k & 1) /* cancels against the element before, on equal B */
          ea[m][k] = ea[m][k - 1] ^ 1u << (tc_bytes(u->a) * 8 - 1);
        if (m % 8 == 7 && u->a >= TC_e2m3 && u->a <= TC_e2m1)
          ea[m][k] &= 0x3f;
        put(raw, k, tc_bytes(u->a), ea[m][k]);
      }
      tc_set_a(&a, m, raw, false);
    }
    for (unsigned n = 0; n < N; n++) {
      for (unsigned k = 0; k < u->k; k++) {
        eb[n][k] = draw_element(&r, u->b, n % 3);
        if (n % 4 == 3 && k & 1)
          eb[n][k] = eb[n][k - 1];
        put(raw, k, tc_bytes(u->b), eb[n][k]);
      }
      tc_set_b(&b, n, raw, false);
      sb[n] = tc_ue8m0((uint8_t)(n % 50 == 49 ? 255
                                 : n % 5      ? 120 + bwt_random_below(&r, 16)
                                              : bwt_random_below(&r, 255)));
    }
    for (unsigned m = 0; m < M; m++) {
      int16_t sa =
          u->scaled ? tc_ue8m0((uint8_t)(m == 100 ? 255 : 100 + bwt_random_below(&r, 50))) : 0;
      for (unsigned n = 0; n < N; n++) {
        uint64_t bits = bwt_random_u64(&r);
        c[m][n] = (uint32_t)bits;
        if (!u->f16 && bits >> 32 & 1) /* of the size of the products */
          c[m][n] = (c[m][n] & 0x807fffff) | (120 + bwt_random_below(&r, 16)) << 23;
        if (u->f16)
          c[m][n] &= 0xffff;
      }
      tc_row(&a, m, &b, &spec, use_c ? c[m] : NULL, NULL, d, undef, sa, u->scaled ? sb : NULL);
      for (unsigned n = 0; n < N; n++) {
        bool scale_nan = u->scaled && (sa == TC_SCALE_NAN || sb[n] == TC_SCALE_NAN);
        int scale = u->scaled && !scale_nan ? sa + sb[n] : 0;
        uint32_t want = naive(ea[m], u->a, eb[n], u->b, (int)u->k, use_c, c[m][n], scale, scale_nan,
                              (int)u->fraction, (int)u->mantissa, u->f16, (int)spec.shrink_c);
        if (u->f16 && (want & 0x7fff) == 0 && (d[n] & 0x7fff) == 0)
          continue; /* the sign of a sum rounded to zero is no one's claim */
        BWT_REQUIRE(d[n] == want, "%s: row %u column %u is 0x%08x, not 0x%08x", u->name, m, n, d[n],
                    want);
        specials += (want & 0x7f800000) == 0x7f800000;
        zeros += want == 0;
        BWT_SAME(undef[n], 0);
      }
    }
  }
  ck_assert_msg(u->f16 || u->a == TC_e3m2 || specials > 0, "no NaN or infinity was tried");
  (void)zeros;
}
END_TEST

START_TEST(undefined_bits_spread) {
  static struct tc_a a;
  static struct tc_b b;
  uint8_t raw[32] = {0};
  uint32_t c[16] = {0}, cu[16] = {0}, d[16], du[16];
  struct tc_spec spec = {25, 23, false, 0};
  tc_begin_a(&a, TC_e4m3, 32);
  tc_begin_b(&b, TC_e4m3, 32, 16);
  for (unsigned i = 0; i < 16; i++) {
    tc_set_a(&a, i, raw, false);
    tc_set_b(&b, i, raw, false);
  }
  a.undef[1] = true;
  b.undef[3] = true;
  cu[5] = 1;
  tc_row(&a, 0, &b, &spec, c, cu, d, du, 0, NULL);
  for (unsigned n = 0; n < 16; n++)
    BWT_SAME(du[n], n == 3 || n == 5 ? 0xffffffffu : 0);
  tc_row(&a, 0, &b, &spec, NULL, cu, d, du, 0, NULL); /* C is not read */
  for (unsigned n = 0; n < 16; n++)
    BWT_SAME(du[n], n == 3 ? 0xffffffffu : 0);
  tc_row(&a, 1, &b, &spec, c, cu, d, du, 0, NULL);
  for (unsigned n = 0; n < 16; n++)
    BWT_SAME(du[n], 0xffffffffu);
}
END_TEST

/* ---- layouts ----------------------------------------------------------------------- */

/* The swizzle as a table of chunk numbers: line l of a pattern holds chunk c at c ^ f(l). */
START_TEST(swizzle_patterns) {
  static const struct {
    unsigned width, lines, shift;
  } modes[] = {{32, 2, 2}, {64, 4, 1}, {128, 8, 0}};
  for (unsigned i = 0; i < BWT_COUNT(modes); i++)
    for (uint32_t at = 0; at < 4096; at += 16) {
      uint32_t line = at / 128 % modes[i].lines, chunk = at / 16 % 8;
      uint32_t want = at / 128 * 128 + (chunk ^ line) * 16;
      BWT_SAME(swizzle_address(at, modes[i].width), want);
    }
  for (uint32_t at = 0; at < 4096; at += 16)
    BWT_SAME(swizzle_address(at, 0), at);
}
END_TEST

START_TEST(descriptors) {
  struct matrix_desc d;
  const char *why;
  uint64_t good = 0x2000 >> 4 | (uint64_t)(128 >> 4) << 16 | (uint64_t)(1024 >> 4) << 32 |
                  (uint64_t)1 << 46 | (uint64_t)2 << 61;
  ck_assert(matrix_desc_tcgen05(good, &d, &why));
  BWT_SAME(d.start, 0x2000);
  BWT_SAME(d.lbo, 128);
  BWT_SAME(d.sbo, 1024);
  BWT_SAME(d.swizzle, 128);
  /* row 9, byte 16..31: group 1, line 1, chunk 1 -> 0 */
  BWT_SAME(chunk_k_major(&d, 9, 1), 0x2000 + 1024 + 128 + 0);
  BWT_SAME(chunk_k_major(&d, 9, 0), 0x2000 + 1024 + 128 + 16);
  static const uint64_t wrong[] = {0,
                                   (uint64_t)1 << 46,
                                   (uint64_t)3 << 46,
                                   (uint64_t)1 << 49,
                                   (uint64_t)1 << 52,
                                   (uint64_t)1 << 53,
                                   (uint64_t)1 << 61,
                                   (uint64_t)1 << 14};
  for (unsigned i = 1; i < BWT_COUNT(wrong); i++)
    if (i != 1)
      ck_assert_msg(
          !matrix_desc_tcgen05(good ^ wrong[i] ^ (i == 2 ? (uint64_t)1 << 46 : 0), &d, &why),
          "descriptor %u passes", i);
  ck_assert(!matrix_desc_tcgen05(good & ~((uint64_t)1 << 46), &d, &why));
  ck_assert_ptr_nonnull(strstr(why, "0b001"));
  ck_assert(matrix_desc_wgmma((uint64_t)1 << 62 | 0x100, &d, &why) && d.swizzle == 128);
  ck_assert(matrix_desc_wgmma((uint64_t)3 << 62 | 0x100, &d, &why) && d.swizzle == 32);
  /* wgmma's base offset of 3: line 3 of the pattern is where the swizzle begins */
  ck_assert(matrix_desc_wgmma((uint64_t)1 << 62 | (uint64_t)3 << 49 | 3 * 8, &d, &why));
  BWT_SAME(chunk_k_major(&d, 0, 1), 3 * 128 + 16);
  BWT_SAME(chunk_k_major(&d, 2, 1), 5 * 128 + (1 ^ 2) * 16);
  /* core matrices without swizzle: 8 rows of 16 bytes; LBO between the halves of a row */
  ck_assert(matrix_desc_tcgen05(
      (uint64_t)1 << 46 | (uint64_t)(256 >> 4) << 16 | (uint64_t)(512 >> 4) << 32, &d, &why));
  BWT_SAME(chunk_k_major(&d, 21, 1), 2 * 512 + 5 * 16 + 256);
  BWT_SAME(chunk_mn_major(&d, 3, 9), 3 * 512 + 16 + 256);
}
END_TEST

START_TEST(instruction_descriptors) {
  struct idesc d;
  const char *why;
  ck_assert(idesc_decode(0x08A00000, MMA_mxf8f6f4, &d, &why));
  ck_assert(d.m == 128 && d.n == 128 && d.a == TC_e4m3 && d.b == TC_e4m3 && d.k == 32);
  ck_assert(idesc_decode(0x08A00000 | 2u << 4 | 3u << 29, MMA_mxf8f6f4, &d, &why));
  ck_assert(d.sfb_id == 2 && d.sfa_id == 3);
  ck_assert(idesc_decode(0x08200490, MMA_f16, &d, &why));
  ck_assert(d.m == 128 && d.n == 128 && d.a == TC_bf16 && d.b == TC_bf16 && !d.d_f16 && d.k == 16);
  static const struct {
    uint32_t bits;
    enum mma_kind kind;
  } wrong[] = {
      {0x08A00000 & ~(1u << 23), MMA_mxf8f6f4},                 /* scale type */
      {(0x08A00000 & ~(0x1fu << 24)) | 4u << 24, MMA_mxf8f6f4}, /* M = 64 */
      {0x08A00000 | 2u << 7, MMA_mxf8f6f4},                     /* A type */
      {0x08A00000 | 4, MMA_mxf8f6f4},                           /* sparse */
      {0x08A00000 & ~(0x3fu << 17), MMA_mxf8f6f4},              /* N = 0 */
      {0x08200490 | 3u << 4, MMA_f16},                          /* D type */
      {0x08200490 | 1u << 29, MMA_f16},                         /* max shift */
      {0x08200490, MMA_tf32},                                   /* element types */
      {0x08200490 & ~(0x1fu << 24), MMA_f16},                   /* M = 0 */
  };
  for (unsigned i = 0; i < BWT_COUNT(wrong); i++)
    ck_assert_msg(!idesc_decode(wrong[i].bits, wrong[i].kind, &d, &why) && why,
                  "instruction descriptor %u passes", i);
}
END_TEST

/* ---- tensor maps -------------------------------------------------------------------- */

struct encode {
  unsigned type, rank;
  uint64_t address, dim[5], stride[4];
  uint32_t box[5], step[5];
  unsigned interleave, swizzle, l2, oob;
};
static const struct encode good_map = {
    TM_uint8,       3, 0x10000, {4096, 1024, 2}, {4096, 4096 * 1024}, {128, 128, 1}, {1, 1, 1}, 0,
    TM_swizzle_128, 0, 0};

static int encode(const struct encode *e, void *map, char why[256]) {
  return tensormap_encode(map, e->type, e->rank, e->address, e->dim, e->stride, e->box, e->step,
                          e->interleave, e->swizzle, e->l2, e->oob, why, 256);
}

START_TEST(tensor_map_arguments) {
  _Alignas(128) uint8_t map[128];
  char why[256];
  struct encode e = good_map;
  ck_assert_int_eq(encode(&e, map, why), 0);
  struct tensormap t;
  ck_assert(tensormap_decode(map, &t));
  ck_assert(t.rank == 3 && t.dim[0] == 4096 && t.dim[2] == 2 && t.stride[2] == 4096 * 1024 &&
            t.box[1] == 128 && t.swizzle == TM_swizzle_128);
  for (unsigned bit = 0; bit < 1024; bit++) { /* no changed map passes for one */
    map[bit / 8] ^= (uint8_t)(1u << bit % 8);
    ck_assert(!tensormap_decode(map, &t));
    map[bit / 8] ^= (uint8_t)(1u << bit % 8);
  }
  ck_assert_int_eq(encode(&e, map + 16, why), 1);
#define REFUSED(argument, change)                                                                  \
  do {                                                                                             \
    e = good_map;                                                                                  \
    change;                                                                                        \
    ck_assert_msg(encode(&e, map, why) == (argument), "%s: %d (%s)", #change,                      \
                  encode(&e, map, why), why);                                                      \
  } while (0)
  REFUSED(2, e.type = 16);
  REFUSED(3, e.rank = 0);
  REFUSED(3, e.rank = 6);
  REFUSED(3, (e.rank = 2, e.interleave = TM_interleave_16));
  REFUSED(4, e.address = 0x10008);
  REFUSED(4, e.address = 0);
  REFUSED(4, (e.interleave = TM_interleave_32, e.address = 0x10010));
  REFUSED(5, e.dim[1] = 0);
  REFUSED(5, e.dim[0] = ((uint64_t)1 << 32) + 1);
  REFUSED(6, e.stride[0] = 4104);
  REFUSED(6, e.stride[1] = (uint64_t)1 << 40);
  REFUSED(7, e.box[1] = 0);
  REFUSED(7, e.box[1] = 257);
  REFUSED(7, e.box[0] = 120);
  REFUSED(7, e.box[0] = 144); /* over the swizzle width */
  REFUSED(7, e.swizzle = TM_swizzle_64);
  REFUSED(8, e.step[1] = 0);
  REFUSED(8, e.step[2] = 9);
  REFUSED(8, e.step[0] = 0);
  REFUSED(9, e.interleave = 3);
  REFUSED(10, e.swizzle = 7);
  REFUSED(10, e.interleave = TM_interleave_32);
  REFUSED(11, e.l2 = 4);
  REFUSED(12, e.oob = 2);
  REFUSED(12, e.oob = 1); /* NaN in an integer map */
  REFUSED(5, e.type = TM_16u4_align16; e.dim[0] = 4160);
#undef REFUSED
  e = good_map;
  e.dim[0] = (uint64_t)1 << 32;
  ck_assert_int_eq(encode(&e, map, why), 0);
  ck_assert(tensormap_decode(map, &t) && t.dim[0] == (uint64_t)1 << 32);
}
END_TEST

/* ---- reductions ------------------------------------------------------------------------ */

START_TEST(reductions) {
  struct bwt_random r;
  bwt_random_seed(&r, bwt_run_seed());
  for (unsigned i = 0; i < 20000; i++) {
    uint32_t x = (uint32_t)bwt_random_u64(&r), y = (uint32_t)bwt_random_u64(&r);
    BWT_SAME(reduce_element(MOD_add, MOD_u32, x, y), x + y);
    BWT_SAME(reduce_element(MOD_min, MOD_s32, x, y), (int32_t)x < (int32_t)y ? x : y);
    BWT_SAME(reduce_element(MOD_max, MOD_u32, x, y), x > y ? x : y);
    BWT_SAME(reduce_element(MOD_xor, MOD_b32, x, y), x ^ y);
    BWT_SAME(reduce_element(MOD_inc, MOD_u32, x, y), x >= y ? 0 : x + 1);
    BWT_SAME(reduce_element(MOD_dec, MOD_u32, x, y), x == 0 || x > y ? y : x - 1);
    /* bf16: the sum's neighbours are no nearer */
    struct number p = number_of(x & 0xffff, 8, 7, 1), q = number_of(y & 0xffff, 8, 7, 1);
    if (p.nan || p.inf || q.nan || q.inf)
      continue;
    long double sum = ldexpl(p.neg ? -p.sig : p.sig, p.exp) + ldexpl(q.neg ? -q.sig : q.sig, q.exp);
    uint32_t got = (uint32_t)reduce_element(MOD_add, MOD_bf16, x & 0xffff, y & 0xffff);
    struct number g = number_of(got, 8, 7, 1);
    if (g.inf) {
      ck_assert(fabsl(sum) > 3.3e38L);
      continue;
    }
    long double error = fabsl(ldexpl(g.neg ? -g.sig : g.sig, g.exp) - sum);
    BWT_REQUIRE(error <= ldexpl(0.5L, g.exp - 7), "bf16 0x%04x + 0x%04x gives 0x%04x", x & 0xffff,
                y & 0xffff, got);
  }
  BWT_SAME(reduce_element(MOD_min, MOD_f32, 0x7fc00000, 0x3f800000), 0x3f800000);
  BWT_SAME(reduce_element(MOD_max, MOD_f16, 0x8000, 0x0000), 0x0000);
  BWT_SAME(reduce_element(MOD_add, MOD_f16x2, 0x3c003c00, 0x3c00bc00), 0x40000000);
}
END_TEST

/* ---- speed ------------------------------------------------------------------------------- */

START_TEST(mma_speed) {
  static struct tc_a a;
  static struct tc_b b;
  static uint32_t c[128][32], undef[128][32];
  static int16_t sb[32];
  uint8_t raw[32];
  struct bwt_random r;
  bwt_random_seed(&r, 1);
  struct tc_spec spec = {25, 23, false, 0};
  double best = 1e9;
  for (unsigned round = 0; round < 20; round++) {
    struct timespec from, to;
    bwt_random_bytes(&r, raw, sizeof raw);
    for (unsigned i = 0; i < 32; i++)
      raw[i] &= 0xf7;
    clock_gettime(CLOCK_MONOTONIC, &from);
    tc_begin_a(&a, TC_e4m3, 32);
    tc_begin_b(&b, TC_e4m3, 32, 32);
    for (unsigned i = 0; i < 128; i++)
      tc_set_a(&a, i, raw, false);
    for (unsigned i = 0; i < 32; i++)
      tc_set_b(&b, i, raw, false);
    for (unsigned i = 0; i < 128; i++)
      tc_row(&a, i, &b, &spec, c[i], undef[i], c[i], undef[i], 0, sb);
    clock_gettime(CLOCK_MONOTONIC, &to);
    double ms = (double)(to.tv_sec - from.tv_sec) * 1e3 + (double)(to.tv_nsec - from.tv_nsec) / 1e6;
    best = ms < best ? ms : best;
  }
  printf("mxf8f6f4 128x32x32: %.3f ms\n", best);
  /* Sanitizers and debug builds run slower; a hundredfold is a mistake in any. */
  ck_assert_msg(best < 30, "128x32x32 takes %.1f ms", best);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("sums", sums_by_definition, 0, (int)BWT_COUNT(units), 60),
      BWT_TEST("sums", undefined_bits_spread, 10),
      BWT_TEST("sums", mma_speed, 30),
      BWT_TEST("layouts", swizzle_patterns, 10),
      BWT_TEST("layouts", descriptors, 10),
      BWT_TEST("layouts", instruction_descriptors, 10),
      BWT_TEST("tensor maps", tensor_map_arguments, 10),
      BWT_TEST("reductions", reductions, 10),
  };
  return bwt_suite_main("emu_units_math", tests, BWT_COUNT(tests));
}
