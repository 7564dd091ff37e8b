/* SPDX-License-Identifier: Apache-2.0
 *
 * What a token count dispatches to, from the formula alone: at most 32 tokens a tile,
 * several tiles evenly filled in steps of 4.
 */
#include "ref/wo_a_ref.h"

struct ref_wo_a_key ref_wo_a_dispatch(uint32_t tokens) {
  struct ref_wo_a_key key;
  key.tiles = (tokens + 31) / 32;
  if (key.tiles == 1)
    key.tile = tokens;
  else
    key.tile = (tokens + 4 * key.tiles - 1) / (4 * key.tiles) * 4;
  key.full = tokens % key.tile == 0;
  return key;
}

size_t ref_wo_a_keys(uint32_t max_tokens, struct ref_wo_a_key *keys) {
  size_t count = 0;
  for (uint32_t t = 1; t <= max_tokens; t++) {
    struct ref_wo_a_key key = ref_wo_a_dispatch(t);
    size_t i = 0;
    while (i < count &&
           (keys[i].tile != key.tile || keys[i].tiles != key.tiles || keys[i].full != key.full))
      i++;
    if (i == count)
      keys[count++] = key;
  }
  return count;
}
