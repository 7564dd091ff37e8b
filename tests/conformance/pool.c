/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of the scalar and warp kernels; tile.c has those of the matrix instructions.
 */
#include "conformance/pool.h"

#include <string.h>

#include "conformance/tile.h"

uint64_t pool_mix(uint64_t z) { /* splitmix64's finalizer */
  z += 0x9e3779b97f4a7c15u;
  z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9u;
  z = (z ^ z >> 27) * 0x94d049bb133111ebu;
  return z ^ z >> 31;
}

static uint64_t seed(void) {
  uint64_t h = 0xcbf29ce484222325u;
  for (const char *s = POOL_SEED; *s; s++)
    h = (h ^ (unsigned char)*s) * 0x100000001b3u;
  return h;
}

uint64_t pool_random(unsigned operand, uint64_t thread) {
  static uint64_t base;
  if (base == 0)
    base = seed();
  return pool_mix(pool_mix(base + operand) ^ thread);
}

/* ---- corner cases --------------------------------------------------------------- */

static const uint64_t corners_int[] = {0,
                                       1,
                                       2,
                                       3,
                                       7,
                                       31,
                                       32,
                                       33,
                                       63,
                                       64,
                                       127,
                                       128,
                                       255,
                                       256,
                                       0x7f80,
                                       0x7fff,
                                       0x8000,
                                       0x8001,
                                       0xffff,
                                       0x10000,
                                       0x10001,
                                       0xffffe,
                                       0x7fffff,
                                       0x800000,
                                       0xffffff,
                                       0x1000000,
                                       0x7fffffff,
                                       0x80000000,
                                       0x80000001,
                                       0xfffffffe,
                                       0xffffffff,
                                       0x100000000,
                                       0xaaaaaaaaaaaaaaaa,
                                       0x5555555555555555,
                                       0x7fffffffffffffff,
                                       0x8000000000000000,
                                       0x8000000000000001,
                                       0xfffffffffffffffe,
                                       ~0ull};
static const uint64_t corners_shift[] = {
    0,   1,   2,   7,      8,       15,         16,         17,         31,
    32,  33,  40,  63,     64,      65,         127,        128,        255,
    256, 257, 288, 0x1f00, 0x10001, 0x7fffffff, 0x80000000, 0xffffffe0, 0xffffffff};
static const uint64_t corners_f32[] = {
    0x00000000, 0x80000000, 0x00000001, 0x80000001, 0x00400000, 0x007fffff, 0x807fffff, 0x00800000,
    0x80800000, 0x00800001, 0x01000000, 0x3e800000, 0x3effffff, 0x3f000000, 0x3f000001, 0x3f7fffff,
    0x3f800000, 0xbf800000, 0x3f800001, 0x3fc00000, 0xbfc00000, 0x40000000, 0x40200000, 0x40490fdb,
    0x42fe0000, 0x43e00000, 0x43e80000, 0x47600000, 0x477fe000, 0x477ff000, 0x4b000000, 0x4b7fffff,
    0x4f000000, 0xcf000000, 0x5f000000, 0x7f000000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
    0x7fc00000, 0xffc00001, 0x7f800001, 0x7fffffff};
static const uint64_t corners_f64[] = {
    0x0000000000000000, 0x8000000000000000, 0x0000000000000001, 0x8000000000000001,
    0x000fffffffffffff, 0x0010000000000000, 0x8010000000000000, 0x0010000000000001,
    0x3690000000000000, 0x36a0000000000000, 0x380fffffffffffff, 0x3810000000000000,
    0x3fdfffffffffffff, 0x3fe0000000000000, 0x3fefffffffffffff, 0x3ff0000000000000,
    0xbff0000000000000, 0x3ff0000000000001, 0x3ff0000010000000, 0x3ff0000030000000,
    0x3ff8000000000000, 0x4000000000000000, 0x4004000000000000, 0x400921fb54442d18,
    0x40effc0000000000, 0x40effe0000000000, 0x41dfffffffc00000, 0x41e0000000000000,
    0x4330000000000000, 0x433fffffffffffff, 0x43e0000000000000, 0xc3e0000000000000,
    0x47efffffe0000000, 0x47effffff0000000, 0x7fefffffffffffff, 0xffefffffffffffff,
    0x7ff0000000000000, 0xfff0000000000000, 0x7ff8000000000000, 0xfff8000000000001,
    0x7ff0000000000001, 0x7fffffffffffffff};
static const uint64_t corners_f16[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x0200, 0x03ff, 0x83ff, 0x0400, 0x8400, 0x0401,
    0x0800, 0x1000, 0x3555, 0x37ff, 0x3800, 0x3801, 0x3bff, 0x3c00, 0xbc00, 0x3c01,
    0x3e00, 0xbe00, 0x4000, 0x4248, 0x57f0, 0x5bf8, 0x5c00, 0x5f00, 0x63ff, 0x6400,
    0x67ff, 0x7800, 0x7bff, 0xfbff, 0x7c00, 0xfc00, 0x7e00, 0xfe01, 0x7c01, 0x7fff};
static const uint64_t corners_bf16[] = {
    0x0000, 0x8000, 0x0001, 0x8001, 0x0040, 0x007f, 0x807f, 0x0080, 0x8080, 0x0081, 0x0100,
    0x0800, 0x3eab, 0x3eff, 0x3f00, 0x3f01, 0x3f7f, 0x3f80, 0xbf80, 0x3f81, 0x3fc0, 0xbfc0,
    0x4000, 0x4049, 0x42fe, 0x43e0, 0x43e8, 0x4760, 0x4780, 0x4b00, 0x4f00, 0xcf00, 0x5f00,
    0x7f00, 0x7f7f, 0xff7f, 0x7f80, 0xff80, 0x7fc0, 0xffc1, 0x7f81, 0x7fff};

struct pool {
  const char *name;
  unsigned bits;  /* of one element */
  unsigned ebits; /* exponent bits; 0: an integer */
  const uint64_t *corner;
  unsigned corners;
  bool two;      /* two elements of `bits` side by side */
  uint64_t mask; /* of the random ones, 0: all bits */
};
#define C(a) corners_##a, sizeof corners_##a / sizeof *corners_##a
static const struct pool pools[] = {
    {"u8", 8, 0, C(int), false, 0},          {"s8", 8, 0, C(int), false, 0},
    {"u16", 16, 0, C(int), false, 0},        {"s16", 16, 0, C(int), false, 0},
    {"b16", 16, 0, C(int), false, 0},        {"x8", 16, 0, C(int), false, 0},
    {"u32", 32, 0, C(int), false, 0},        {"s32", 32, 0, C(int), false, 0},
    {"b32", 32, 0, C(int), false, 0},        {"u8x4", 32, 0, C(int), false, 0},
    {"u64", 64, 0, C(int), false, 0},        {"s64", 64, 0, C(int), false, 0},
    {"b64", 64, 0, C(int), false, 0},        {"u16x2", 16, 0, C(int), true, 0},
    {"s16x2", 16, 0, C(int), true, 0},       {"f32", 32, 8, C(f32), false, 0},
    {"f64", 64, 11, C(f64), false, 0},       {"f16", 16, 5, C(f16), false, 0},
    {"bf16", 16, 8, C(bf16), false, 0},      {"f16x2", 16, 5, C(f16), true, 0},
    {"bf16x2", 16, 8, C(bf16), true, 0},     {"f32x2", 32, 8, C(f32), true, 0},
    {"shift", 32, 0, C(shift), false, 0x3f}, {"small", 32, 0, NULL, 0, false, 0x1f},
    {"lane", 32, 0, NULL, 0, false, 0x1f},   {"p", 1, 0, NULL, 0, false, 1},
    {"e4m3x2", 16, 0, NULL, 0, false, 0},    {"e5m2x2", 16, 0, NULL, 0, false, 0},
};
#undef C

/* ---- random values ---------------------------------------------------------------- */

static uint64_t low(unsigned bits) {
  return bits == 64 ? ~0ull : (1ull << bits) - 1;
}

static uint64_t random_float(const struct pool *p, unsigned operand, uint64_t thread) {
  uint64_t h = pool_random(operand, thread), g = pool_mix(h);
  unsigned mbits = p->bits - p->ebits - 1;
  uint64_t bias = (1ull << (p->ebits - 1)) - 1, sign = (g >> 63) << ((p->bits - 1) & 63);
  uint64_t man = h & low(mbits);
  switch (g & 3) {
  case 0: /* any bits */
    return h & low(p->bits);
  case 1: /* near one */
    return sign | (bias + (g >> 8) % 17 - 8) << (mbits & 63) | man;
  case 2: { /* a tie of a narrower format, or just beside it */
    unsigned cut = (unsigned)((g >> 8) % mbits);
    uint64_t half = 1ull << cut;
    man = (man & ~low(cut + 1)) | half;
    man += (g >> 16) % 3 - 1;
    return sign | (bias + (g >> 24) % 41 - 20) << (mbits & 63) | (man & low(mbits));
  }
  default: /* close to the first operand's magnitude */
    if (operand > 0) {
      uint64_t first = pool_random(0, thread), f = pool_mix(first);
      if ((f & 3) == 1)
        return sign | (bias + (f >> 8) % 17 - 8) << (mbits & 63) |
               ((first ^ (g >> 40 & 7)) & low(mbits));
    }
    return sign | (bias + (g >> 8) % 5) << (mbits & 63) | (man & ~low(mbits / 2));
  }
}

static uint64_t random_value(const struct pool *p, unsigned operand, uint64_t thread) {
  if (p->ebits)
    return random_float(p, operand, thread);
  uint64_t h = pool_random(operand, thread);
  if (p->mask)
    return h & p->mask;
  /* All magnitudes, not only large ones. */
  return (pool_mix(h) & 1 ? h : h >> (pool_mix(h) >> 8) % p->bits) & low(p->bits);
}

static uint64_t corner_value(const struct pool *p, uint64_t index) {
  uint64_t v = p->corner[index % p->corners] & low(p->bits);
  if (p->two)
    v |= (p->corner[(index * 7 + 3) % p->corners] & low(p->bits)) << (p->bits & 63);
  return v;
}

static uint64_t value(const struct pool *p, unsigned operand, unsigned operands, uint64_t thread) {
  if (p->corner && operands == 1 && thread < p->corners)
    return corner_value(p, thread);
  /* A fixed number of values per pass, so that the pairs are the same for every pool. */
  if (p->corner && operands == 2 && thread < 44 * 44)
    return corner_value(p, operand == 0 ? thread / 44 : thread % 44);
  if (p->corner && operands > 2 && thread % 2 == 0)
    return corner_value(p, pool_random(operand + 16, thread) >> 20);
  uint64_t v = random_value(p, operand, thread);
  if (p->two)
    v |= random_value(p, operand + 32, thread) << (p->bits & 63);
  return v & low(p->two ? 2 * p->bits : p->bits);
}

/* Pairs of 8-bit floats: every one of them in turn. */
static uint64_t every_pair(unsigned operand, uint64_t thread) {
  return (thread * (operand ? 257 : 1)) & 0xffff;
}

bool pool_fill(const char *kind, unsigned operand, unsigned operands, uint64_t threads,
               unsigned tile, uint64_t *values) {
  if (strncmp(kind, "tile:", 5) == 0)
    return tile_fill(kind + 5, operand, threads, tile, values);
  for (size_t k = 0; k < sizeof pools / sizeof *pools; k++) {
    const struct pool *p = &pools[k];
    if (strcmp(kind, p->name) != 0)
      continue;
    bool bytes = strcmp(kind, "e4m3x2") == 0 || strcmp(kind, "e5m2x2") == 0;
    for (uint64_t i = 0; i < threads; i++)
      values[i] = bytes ? every_pair(operand, i) : value(p, operand, operands, i);
    return true;
  }
  return false;
}
