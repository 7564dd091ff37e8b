/* SPDX-License-Identifier: Apache-2.0
 *
 * Which specialization of up_proj serves M rows of S columns: pure functions of host
 * integers.  Block and vector decide the order of additions, so they are part of the
 * result and the same on all architectures.
 */
#include "error.h"
#include "up_proj.h"

#include <stdio.h>

/* The first match counts. */
static const struct choice {
  uint32_t rows_from, rows_to;
  uint32_t shards[2]; /* S; zeros: any */
  bw_up_proj_key key; /* without rows */
} choices[] = {
    {1, 5, {448, 896}, {.block = 224, .outputs = 2, .unroll = 1, .vector = 16}},
    {6, 8, {448, 448}, {.block = 224, .outputs = 2, .unroll = 1, .vector = 8}},
    {1, 1, {0, 0}, {.block = 224, .outputs = 8, .unroll = 1, .vector = 8}},
    {2, 8, {0, 0}, {.block = 224, .outputs = 4, .unroll = 2, .vector = 8}},
};

/* For latent_dim that no kernel above divides. */
static const bw_up_proj_key small = {.block = 32, .outputs = 2, .unroll = 1, .vector = 8};

static bw_up_proj_key choose(uint32_t rows, uint32_t shard) {
  size_t i = 0;
  while (i + 1 < sizeof choices / sizeof *choices &&
         (rows < choices[i].rows_from || rows > choices[i].rows_to ||
          (choices[i].shards[0] != 0 && shard != choices[i].shards[0] &&
           shard != choices[i].shards[1])))
    i++;
  bw_up_proj_key key = choices[i].key;
  key.rows = rows;
  return key;
}

uint32_t bwi_up_proj_k_tile(uint32_t rows, uint32_t shard) {
  bw_up_proj_key key = choose(rows, shard);
  return key.block * key.vector;
}

bw_status bw_up_proj_dispatch(uint32_t rows, uint32_t shard, uint32_t latent_dim,
                              bw_up_proj_key *out) {
  if (rows < 1 || rows > BW_UP_PROJ_MAX_ROWS)
    return bwi_fail_range("rows", rows, 1, BW_UP_PROJ_MAX_ROWS);
  if (shard == 0)
    return bwi_fail_range("shard", shard, 1, UINT32_MAX);
  if (latent_dim == 0 || latent_dim > BWI_UP_PROJ_MAX_LATENT)
    return bwi_fail_range("latent_dim", latent_dim, 1, BWI_UP_PROJ_MAX_LATENT);
  if (!out)
    return bwi_fail_null("out");
  bw_up_proj_key key = choose(rows, shard);
  uint32_t tile = key.block * key.vector;
  if (latent_dim % tile != 0) {
    if (latent_dim % (small.block * small.vector) != 0)
      return bwi_fail_multiple("latent_dim", latent_dim, tile);
    key = small;
    key.rows = rows;
  }
  if (shard % key.outputs != 0)
    return bwi_fail_multiple("hidden_dim / tp_size", shard, key.outputs);
  *out = key;
  return BW_OK;
}

bw_status bw_up_proj_keys(uint32_t max_rows, uint32_t shard, uint32_t latent_dim,
                          bw_up_proj_key *keys, size_t capacity, size_t *count) {
  if (max_rows < 1 || max_rows > BW_UP_PROJ_MAX_ROWS)
    return bwi_fail_range("max_rows", max_rows, 1, BW_UP_PROJ_MAX_ROWS);
  if (!keys && capacity > 0)
    return bwi_fail_null("keys");
  if (!count)
    return bwi_fail_null("count");
  for (uint32_t rows = 1; rows <= max_rows; rows++) {
    bw_up_proj_key key;
    bw_status status = bw_up_proj_dispatch(rows, shard, latent_dim, &key);
    if (status != BW_OK)
      return status;
    if (rows - 1 < capacity)
      keys[rows - 1] = key;
  }
  *count = max_rows;
  return BW_OK;
}

bw_status bw_up_proj_key_name(const bw_up_proj_key *key, bw_mailbox_mode mode,
                              char name[BW_UP_PROJ_KEY_NAME_SIZE]) {
  static const char *const modes[] = {NULL, "multicast", "peers", "local"};
  if (!key)
    return bwi_fail_null("key");
  if (!name)
    return bwi_fail_null("name");
  if (mode < BW_MAILBOX_MULTICAST || mode > BW_MAILBOX_LOCAL)
    return bwi_fail_range("mode", (uint32_t)mode, BW_MAILBOX_MULTICAST, BW_MAILBOX_LOCAL);
  if (key->rows < 1 || key->rows > BW_UP_PROJ_MAX_ROWS)
    return bwi_fail_range("key.rows", key->rows, 1, BW_UP_PROJ_MAX_ROWS);
  if (key->block < 32 || key->block > 1024)
    return bwi_fail_range("key.block", key->block, 32, 1024);
  if (key->outputs < 2 || key->outputs > 8)
    return bwi_fail_range("key.outputs", key->outputs, 2, 8);
  if (key->unroll < 1 || key->unroll > 4)
    return bwi_fail_range("key.unroll", key->unroll, 1, 4);
  if (key->vector < 8 || key->vector > 16)
    return bwi_fail_range("key.vector", key->vector, 8, 16);
  (void)snprintf(name, BW_UP_PROJ_KEY_NAME_SIZE, "m%u_b%uo%uu%uv%u_%s", key->rows, key->block,
                 key->outputs, key->unroll, key->vector, modes[mode]);
  return BW_OK;
}
