/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrices in registers; see fragment.h.
 */
#include "fragment.h"

#include <string.h>

void fragment_a(struct warp *w, const struct opd *o, uint8_t *raw, bool *undef) {
  unsigned n = fragment_count(o), row_bytes = n / 2 * 16;
  memset(undef, 0, 16 * sizeof *undef);
  for (unsigned i = 0; i < n; i++)
    for (int lane = 0; lane < WARP; lane++) {
      unsigned row = (unsigned)lane / 4 + 8 * (i & 1), at = 4 * ((unsigned)lane % 4) + 16 * (i / 2);
      uint32_t word = (uint32_t)opd_get(w, fragment_element(o, i), lane);
      memcpy(raw + row * row_bytes + at, &word, 4);
      undef[row] |= opd_get_undef(w, fragment_element(o, i), lane) != 0;
    }
}

void fragment_b(struct warp *w, const struct opd *o, uint8_t *raw, bool *undef) {
  unsigned n = fragment_count(o), row_bytes = n * 16;
  memset(undef, 0, 8 * sizeof *undef);
  for (unsigned i = 0; i < n; i++)
    for (int lane = 0; lane < WARP; lane++) {
      unsigned column = (unsigned)lane / 4, at = 4 * ((unsigned)lane % 4) + 16 * i;
      uint32_t word = (uint32_t)opd_get(w, fragment_element(o, i), lane);
      memcpy(raw + column * row_bytes + at, &word, 4);
      undef[column] |= opd_get_undef(w, fragment_element(o, i), lane) != 0;
    }
}

struct fragment_place fragment_d(unsigned row, unsigned column, bool half) {
  unsigned g = row % 8, upper = row / 8, q = column % 8 / 2, odd = column & 1;
  if (half)
    return (struct fragment_place){2 * (column / 8) + upper, 4 * g + q, 16 * odd};
  return (struct fragment_place){4 * (column / 8) + 2 * upper + odd, 4 * g + q, 0};
}

enum tc_type fragment_type(enum mod type) {
  switch ((int)type) {
  case MOD_f16:
    return TC_f16;
  case MOD_bf16:
    return TC_bf16;
  case MOD_tf32:
    return TC_tf32;
  case MOD_e4m3:
    return TC_e4m3;
  case MOD_e5m2:
    return TC_e5m2;
  default:
    return TC_types;
  }
}
