/* SPDX-License-Identifier: Apache-2.0
 *
 * wo_a's dispatch: one formula, four places that must agree on it: the reference, the
 * library, the table that the build expands, the bundle that ships.
 */
#include "barewarp.h"
#include "harness/kernel.h"
#include "harness/suite.h"
#include "ref/wo_a_ref.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const uint32_t shipped_heads[] = {1, 2, 4, 8};

START_TEST(formula_has_46_and_50_keys) {
  struct ref_wo_a_key keys[128];
  ck_assert_uint_eq(ref_wo_a_keys(96, keys), 46);
  ck_assert_uint_eq(ref_wo_a_keys(128, keys), 50);
  ck_assert_uint_eq(ref_wo_a_keys(1, keys), 1);
  ck_assert_uint_eq(ref_wo_a_keys(32, keys), 32);
}
END_TEST

/* What any key must do: cover the tokens, leave no tile empty, keep tiles small. */
START_TEST(keys_cover_the_tokens) {
  uint32_t t = (uint32_t)_i;
  struct ref_wo_a_key key = ref_wo_a_dispatch(t);
  ck_assert_uint_le(key.tile, 32);
  ck_assert_uint_ge(key.tile * key.tiles, t);
  ck_assert_uint_lt(key.tile * (key.tiles - 1), t);
  ck_assert_uint_eq(key.full, t == key.tile * key.tiles);
  ck_assert(key.tiles == 1 || key.tile % 4 == 0);
}
END_TEST

START_TEST(library_dispatches_by_the_formula) {
  uint32_t t = (uint32_t)_i;
  struct ref_wo_a_key want = ref_wo_a_dispatch(t);
  for (uint32_t heads = 1; heads <= 8; heads++) {
    bw_wo_a_key got;
    ck_assert_int_eq(bw_wo_a_dispatch(t, heads, &got), BW_OK);
    ck_assert_uint_eq(got.tile, want.tile);
    ck_assert_uint_eq(got.tiles, want.tiles);
    ck_assert_uint_eq(got.full, want.full);
    ck_assert_uint_eq(got.heads_per_group, heads);
  }
}
END_TEST

START_TEST(library_lists_the_keys) {
  for (uint32_t max = 1; max <= 128; max++) {
    struct ref_wo_a_key want[128];
    bw_wo_a_key got[128];
    size_t count = 0, wanted = ref_wo_a_keys(max, want);
    ck_assert_int_eq(bw_wo_a_keys(max, 4, got, 128, &count), BW_OK);
    ck_assert_uint_eq(count, wanted);
    for (size_t i = 0; i < count; i++)
      ck_assert_msg(got[i].tile == want[i].tile && got[i].tiles == want[i].tiles &&
                        got[i].full == want[i].full && got[i].heads_per_group == 4,
                    "key %zu of %u", i, max);
  }
}
END_TEST

/* A short array is filled, not overrun, and the full number told. */
START_TEST(library_lists_into_short_arrays) {
  bw_wo_a_key got[4];
  memset(got, 0xa5, sizeof got);
  size_t count = 0;
  ck_assert_int_eq(bw_wo_a_keys(128, 1, got, 3, &count), BW_OK);
  ck_assert_uint_eq(count, 50);
  ck_assert_uint_eq(got[2].tile, 3);
  ck_assert_uint_eq(got[3].tile, 0xa5a5a5a5);
  ck_assert_int_eq(bw_wo_a_keys(96, 1, NULL, 0, &count), BW_OK);
  ck_assert_uint_eq(count, 46);
}
END_TEST

static void name_of(struct ref_wo_a_key key, uint32_t heads, char *name) {
  snprintf(name, BW_WO_A_KEY_NAME_SIZE, "t%ux%u%s_h%u", key.tile, key.tiles, key.full ? "f" : "r",
           heads);
}

START_TEST(library_names_the_keys) {
  struct ref_wo_a_key keys[128];
  size_t count = ref_wo_a_keys(128, keys);
  for (size_t i = 0; i < count; i++) {
    char want[BW_WO_A_KEY_NAME_SIZE], got[BW_WO_A_KEY_NAME_SIZE];
    bw_wo_a_key key = {keys[i].tile, keys[i].tiles, keys[i].full, 8};
    name_of(keys[i], 8, want);
    ck_assert_int_eq(bw_wo_a_key_name(&key, got), BW_OK);
    ck_assert_str_eq(got, want);
  }
}
END_TEST

/* ---- the table ------------------------------------------------------------------ */

struct row {
  char key[32], ship[8];
  uint32_t tile, tiles, full, heads;
};

/* Rows of ptx/wo_a/table.tsv for sm_100f, in the file's order.  Columns by their names
 * in the first line that is no comment. */
static size_t read_table(struct row *rows, size_t room) {
  const char *path = "ptx/wo_a/table.tsv";
  char *text = bwt_read_text(path), *rest = text, *line;
  ck_assert_msg(text != NULL, "cannot read %s from the current folder", path);
  int arch = -1, key = -1, ship = -1, tile = -1, tiles = -1, full = -1, heads = -1;
  size_t count = 0;
  while ((line = strsep(&rest, "\n")) != NULL) {
    char *fields[32] = {0}, *save = NULL;
    int n = 0;
    if (line[0] == '#')
      continue;
    for (char *f = strtok_r(line, " \t", &save); f != NULL && n < 32;
         f = strtok_r(NULL, " \t", &save))
      fields[n++] = f;
    if (n == 0)
      continue;
    if (key < 0) {
      for (int i = 0; i < n; i++) {
        if (strcmp(fields[i], "arch") == 0)
          arch = i;
        if (strcmp(fields[i], "key") == 0)
          key = i;
        if (strcmp(fields[i], "ship") == 0)
          ship = i;
        if (strcmp(fields[i], "tile") == 0)
          tile = i;
        if (strcmp(fields[i], "tiles") == 0)
          tiles = i;
        if (strcmp(fields[i], "full") == 0)
          full = i;
        if (strcmp(fields[i], "heads") == 0)
          heads = i;
      }
      ck_assert_msg(arch >= 0 && key >= 0 && ship >= 0 && tile >= 0 && tiles >= 0 && full >= 0 &&
                        heads >= 0,
                    "%s lacks a column", path);
      continue;
    }
    if (strcmp(fields[arch], "sm_100f") != 0)
      continue;
    ck_assert_uint_lt(count, room);
    struct row *r = &rows[count++];
    snprintf(r->key, sizeof r->key, "%s", fields[key]);
    snprintf(r->ship, sizeof r->ship, "%s", fields[ship]);
    r->tile = (uint32_t)atoi(fields[tile]);
    r->tiles = (uint32_t)atoi(fields[tiles]);
    r->full = (uint32_t)atoi(fields[full]);
    r->heads = (uint32_t)atoi(fields[heads]);
  }
  free(text);
  return count;
}

START_TEST(table_ships_the_keys) {
  static struct row rows[1024];
  size_t count = read_table(rows, BWT_COUNT(rows));
  struct ref_wo_a_key keys[128];
  size_t wanted = ref_wo_a_keys(128, keys);
  uint32_t heads = shipped_heads[_i];
  size_t found = 0;
  for (size_t i = 0; i < count; i++) {
    if (rows[i].heads != heads)
      continue;
    ck_assert_str_eq(rows[i].ship, "yes");
    ck_assert_uint_lt(found, wanted);
    char name[BW_WO_A_KEY_NAME_SIZE];
    name_of(keys[found], heads, name);
    ck_assert_str_eq(rows[i].key, name);
    ck_assert_uint_eq(rows[i].tile, keys[found].tile);
    ck_assert_uint_eq(rows[i].tiles, keys[found].tiles);
    ck_assert_uint_eq(rows[i].full, keys[found].full);
    found++;
  }
  ck_assert_uint_eq(found, wanted);
}
END_TEST

/* Three keys each of the cluster sizes that do not ship: one token, a tile that is no
 * power of two, a ragged one. */
START_TEST(table_has_test_rows) {
  static struct row rows[1024];
  size_t count = read_table(rows, BWT_COUNT(rows));
  for (uint32_t heads = 3; heads <= 7; heads += heads == 3 ? 2 : 1) {
    int found = 0, ragged = 0;
    for (size_t i = 0; i < count; i++) {
      if (rows[i].heads != heads)
        continue;
      ck_assert_str_eq(rows[i].ship, "test");
      found++;
      ragged += !rows[i].full;
    }
    ck_assert_int_eq(found, 3);
    ck_assert_int_eq(ragged, 1);
  }
}
END_TEST

START_TEST(bundle_ships_the_keys) {
  bw_bundle *bundle;
  ck_assert_msg(bw_bundle_open(NULL, &bundle) == BW_OK, "%s", bw_last_error());
  struct ref_wo_a_key keys[128];
  size_t wanted = ref_wo_a_keys(128, keys), entries = bw_bundle_count(bundle), wo_a = 0;
  bool seen[4][128] = {{false}};
  for (size_t i = 0; i < entries; i++) {
    bw_kernel_info k;
    ck_assert_int_eq(bw_bundle_kernel(bundle, i, &k), BW_OK);
    if (strcmp(k.family, "wo_a") != 0 || strcmp(k.arch, "sm_100f") != 0)
      continue;
    wo_a++;
    bool known = false;
    for (size_t h = 0; h < BWT_COUNT(shipped_heads); h++)
      for (size_t j = 0; j < wanted; j++) {
        char name[BW_WO_A_KEY_NAME_SIZE];
        name_of(keys[j], shipped_heads[h], name);
        if (strcmp(name, k.key) == 0 && k.cluster == shipped_heads[h])
          known = seen[h][j] = true;
      }
    ck_assert_msg(known, "the bundle has %s with clusters of %u", k.key, k.cluster);
  }
  ck_assert_uint_eq(wo_a, wanted * BWT_COUNT(shipped_heads));
  for (size_t h = 0; h < BWT_COUNT(shipped_heads); h++)
    for (size_t j = 0; j < wanted; j++)
      ck_assert(seen[h][j]);
  bw_bundle_close(bundle);
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_TEST("formula", formula_has_46_and_50_keys, 10),
      BWT_LOOP("formula", keys_cover_the_tokens, 1, 129, 10),
      BWT_LOOP("library", library_dispatches_by_the_formula, 1, 129, 10),
      BWT_TEST("library", library_lists_the_keys, 10),
      BWT_TEST("library", library_lists_into_short_arrays, 10),
      BWT_TEST("library", library_names_the_keys, 10),
      BWT_LOOP("table", table_ships_the_keys, 0, 4, 10),
      BWT_TEST("table", table_has_test_rows, 10),
      BWT_TEST("bundle", bundle_ships_the_keys, 10),
  };
  return bwt_suite_main("wo_a_keys", tests, BWT_COUNT(tests));
}
