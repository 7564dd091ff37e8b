/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of matrix instructions; see tile.h.
 */
#include "conformance/tile.h"

#include <string.h>

#include "conformance/pool.h"

struct element {
  const char *name;
  unsigned ebits, mbits; /* ebits 0: an integer of mbits bits */
  unsigned bits;         /* the element takes */
  unsigned count;        /* in a register */
  bool has_inf;          /* the top exponent is infinity and NaN; else all ones is NaN */
  bool has_nan;
};
static const struct element elements[] = {
    {"f16x2", 5, 10, 16, 2, true, true},  {"bf16x2", 8, 7, 16, 2, true, true},
    {"tf32", 8, 23, 32, 1, true, true},   {"e4m3x4", 4, 3, 8, 4, false, true},
    {"e5m2x4", 5, 2, 8, 4, true, true},   {"e2m3x4", 2, 3, 8, 4, false, false},
    {"e3m2x4", 3, 2, 8, 4, false, false}, {"e2m1x4", 2, 1, 8, 4, false, false},
    {"i8x4", 0, 8, 8, 4, false, false},   {"cf32", 8, 23, 32, 1, true, true},
    {"cf16x2", 5, 10, 16, 2, true, true}, {"cs32", 0, 32, 32, 1, false, false},
};

static uint64_t draw_exponent(const struct element *e, enum pool_mode mode, uint64_t h) {
  uint64_t top = (1u << e->ebits) - 1, bias = top >> 1, last = e->has_inf ? top - 1 : top;
  uint64_t v;
  switch (mode) {
  case TILE_wide:
  case TILE_zeros:
    return h % (last + 1);
  case TILE_cancelling:
    v = bias + h % 2;
    break;
  case TILE_subnormal:
    return h % 8 == 0 ? 1 + (h >> 8) % 2 : 0;
  default:
    v = bias + h % 5 - (bias < 2 ? bias : 2);
  }
  return v > last ? last : v;
}

static uint32_t draw(const struct element *e, enum pool_mode mode, uint64_t h, bool c) {
  uint64_t g = pool_mix(h);
  uint32_t all = e->bits == 32 ? 0xffffffffu : (1u << e->bits) - 1;
  if (e->ebits == 0) { /* integers: extremes in some tiles, any value in the others */
    if (mode == TILE_wide)
      return (c ? (g & 1 ? 0x7fffff00u : 0x80000100u) : (g & 1 ? 0x7fu : 0x80u)) & all;
    return (uint32_t)h & all;
  }
  uint32_t used = (uint32_t)((1ull << (e->ebits + e->mbits + 1)) - 1);
  if (mode == TILE_raw)
    return (uint32_t)h & used;
  uint32_t sign = (uint32_t)(g >> 63) << (e->ebits + e->mbits);
  uint32_t top = ((1u << e->ebits) - 1) << e->mbits, man = (uint32_t)h & ((1u << e->mbits) - 1);
  if (mode == TILE_zeros && g % 2)
    return sign;
  if (mode == TILE_infinite && g % 97 == 0 && e->has_inf)
    return sign | top;
  if (mode == TILE_nan && g % 149 == 0 && e->has_nan)
    return sign | top | (e->has_inf ? man | 1 : (1u << e->mbits) - 1);
  if (mode == TILE_nan && g % 149 == 1 && e->has_inf)
    return sign | top;
  if (mode == TILE_cancelling)
    man &= 3u << (e->mbits - 2);
  uint32_t v = sign | (uint32_t)draw_exponent(e, mode, g >> 8) << e->mbits | man;
  /* All ones means NaN in formats without infinity: not in tiles of finite numbers. */
  return !e->has_inf && e->has_nan && (v & ~sign) == (top | ((1u << e->mbits) - 1)) ? v - 1 : v;
}

bool tile_fill(const char *kind, unsigned operand, uint64_t threads, unsigned tile,
               uint64_t *values) {
  const struct element *e = NULL;
  for (size_t k = 0; k < sizeof elements / sizeof *elements && !e; k++)
    if (strcmp(kind, elements[k].name) == 0)
      e = &elements[k];
  if (!e)
    return false;
  for (uint64_t i = 0; i < threads; i++) {
    enum pool_mode mode = (enum pool_mode)(i / (tile ? tile : 32) % TILE_modes);
    uint64_t word = 0;
    for (unsigned j = 0; j < e->count; j++)
      word |= (uint64_t)draw(e, mode, pool_random(64 + operand * 4 + j, i), *kind == 'c')
              << (j * e->bits & 63);
    values[i] = word;
  }
  return true;
}
