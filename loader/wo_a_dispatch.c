/* SPDX-License-Identifier: Apache-2.0
 *
 * Which specialization of wo_a serves a token count: pure functions of host
 * integers.
 *
 *   tiles = ceil(T / 32)
 *   tile  = T when tiles = 1, else ceil(T / (4 * tiles)) * 4
 *   full  = (T mod tile = 0)
 */
#include "error.h"

#include <stdio.h>
#include <string.h>

enum { MAX_TILE = 32, MAX_HEADS = 8, MAX_TILES = BW_WO_A_MAX_TOKENS / MAX_TILE };

static uint32_t ceil_div(uint32_t a, uint32_t b) {
  return (a + b - 1) / b;
}

static bw_wo_a_key dispatch(uint32_t tokens, uint32_t heads_per_group) {
  uint32_t tiles = ceil_div(tokens, MAX_TILE);
  uint32_t tile = tiles == 1 ? tokens : ceil_div(tokens, 4 * tiles) * 4;
  return (bw_wo_a_key){
      .tile = tile, .tiles = tiles, .full = tokens % tile == 0, .heads_per_group = heads_per_group};
}

bw_status bw_wo_a_dispatch(uint32_t tokens, uint32_t heads_per_group, bw_wo_a_key *out) {
  if (tokens < 1 || tokens > BW_WO_A_MAX_TOKENS)
    return bwi_fail_range("tokens", tokens, 1, BW_WO_A_MAX_TOKENS);
  if (heads_per_group < 1 || heads_per_group > MAX_HEADS)
    return bwi_fail_range("heads_per_group", heads_per_group, 1, MAX_HEADS);
  if (!out)
    return bwi_fail_null("out");
  *out = dispatch(tokens, heads_per_group);
  return BW_OK;
}

bw_status bw_wo_a_keys(uint32_t max_tokens, uint32_t heads_per_group, bw_wo_a_key *keys,
                       size_t capacity, size_t *count) {
  if (max_tokens < 1 || max_tokens > BW_WO_A_MAX_TOKENS)
    return bwi_fail_range("max_tokens", max_tokens, 1, BW_WO_A_MAX_TOKENS);
  if (heads_per_group < 1 || heads_per_group > MAX_HEADS)
    return bwi_fail_range("heads_per_group", heads_per_group, 1, MAX_HEADS);
  if (!keys && capacity > 0)
    return bwi_fail_null("keys");
  if (!count)
    return bwi_fail_null("count");
  bool seen[MAX_TILES + 1][MAX_TILE + 1][2] = {{{false}}};
  size_t found = 0;
  for (uint32_t tokens = 1; tokens <= max_tokens; tokens++) {
    bw_wo_a_key key = dispatch(tokens, heads_per_group);
    bool *known = &seen[key.tiles][key.tile][key.full];
    if (*known)
      continue;
    *known = true;
    if (found < capacity)
      keys[found] = key;
    found++;
  }
  *count = found;
  return BW_OK;
}

bw_status bw_wo_a_key_name(const bw_wo_a_key *key, char name[BW_WO_A_KEY_NAME_SIZE]) {
  if (!key)
    return bwi_fail_null("key");
  if (!name)
    return bwi_fail_null("name");
  if (key->tile < 1 || key->tile > MAX_TILE)
    return bwi_fail_range("key.tile", key->tile, 1, MAX_TILE);
  if (key->tiles < 1 || key->tiles > MAX_TILES)
    return bwi_fail_range("key.tiles", key->tiles, 1, MAX_TILES);
  if (key->full > 1)
    return bwi_fail_range("key.full", key->full, 0, 1);
  if (key->heads_per_group < 1 || key->heads_per_group > MAX_HEADS)
    return bwi_fail_range("key.heads_per_group", key->heads_per_group, 1, MAX_HEADS);
  (void)snprintf(name, BW_WO_A_KEY_NAME_SIZE, "t%ux%u%c_h%u", key->tile, key->tiles,
                 key->full ? 'f' : 'r', key->heads_per_group);
  return BW_OK;
}
