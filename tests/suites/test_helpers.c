/* SPDX-License-Identifier: Apache-2.0
 *
 * The library's host helpers: both layouts of scales there and back, against their
 * definitions, what is out of range, and the sizes of outputs.
 */
#include "barewarp.h"
#include "harness/random.h"
#include "harness/suite.h"
#include "ref/wo_a_ref.h"

#include <stdlib.h>
#include <string.h>

static struct bwt_random seeded(uint64_t number) {
  struct bwt_random r;
  bwt_random_seed(&r, bwt_mix(bwt_run_seed(), number));
  return r;
}

static void assert_fails(bw_status got, bw_status want, const char *words) {
  ck_assert_int_eq(got, want);
  ck_assert_msg(strstr(bw_last_error(), words) != NULL, "\"%s\" does not say \"%s\"",
                bw_last_error(), words);
}

/* ---- weight scales ------------------------------------------------------------- */

START_TEST(pack_scales) {
  static const bw_wo_a_shape shapes[] = {
      {1, 1, 128, 1}, {2, 8, 256, 1}, {3, 2, 128, 1}, {1, 3, 1024, 1}};
  const bw_wo_a_shape *shape = &shapes[_i];
  struct bwt_random r = seeded((uint64_t)_i);
  size_t rows = (size_t)shape->groups * shape->lora_rank, columns = shape->heads_per_group * 16u;
  uint8_t *plain = malloc(rows * columns), *back = malloc(rows * columns);
  uint32_t *packed = malloc(rows * columns);
  bwt_random_bytes(&r, plain, rows * columns);
  ck_assert_int_eq(bw_wo_a_pack_scales(shape, plain, packed), BW_OK);
  struct ref_wo_a ref = {.groups = shape->groups,
                         .heads = shape->heads_per_group,
                         .rank = shape->lora_rank,
                         .weight_scale = packed};
  for (uint32_t n = 0; n < rows; n++)
    for (uint32_t block = 0; block < columns; block++)
      BWT_SAME(ref_wo_a_weight_scale(&ref, n, block), plain[n * columns + block]);
  ck_assert_int_eq(bw_wo_a_unpack_scales(shape, packed, back), BW_OK);
  ck_assert_mem_eq(back, plain, rows * columns);
  free(plain);
  free(back);
  free(packed);
}
END_TEST

START_TEST(pack_scales_refuses) {
  uint8_t bytes[1] = {0};
  uint32_t words[1] = {0};
  bw_wo_a_shape s = {1, 1, 128, 1};
  assert_fails(bw_wo_a_pack_scales(NULL, bytes, words), BW_ERROR_INVALID_ARGUMENT, "shape");
  assert_fails(bw_wo_a_pack_scales(&s, NULL, words), BW_ERROR_INVALID_ARGUMENT, "row_major");
  assert_fails(bw_wo_a_pack_scales(&s, bytes, NULL), BW_ERROR_INVALID_ARGUMENT, "packed");
  assert_fails(bw_wo_a_unpack_scales(NULL, words, bytes), BW_ERROR_INVALID_ARGUMENT, "shape");
  assert_fails(bw_wo_a_unpack_scales(&s, NULL, bytes), BW_ERROR_INVALID_ARGUMENT, "packed");
  assert_fails(bw_wo_a_unpack_scales(&s, words, NULL), BW_ERROR_INVALID_ARGUMENT, "row_major");
  s.lora_rank = 100;
  assert_fails(bw_wo_a_pack_scales(&s, bytes, words), BW_ERROR_INVALID_ARGUMENT,
               "lora_rank is 100");
}
END_TEST

/* ---- F8_128x4 -------------------------------------------------------------------- */

START_TEST(swizzle) {
  static const uint32_t sizes[][2] = {{1, 4}, {128, 4}, {7, 32}, {33, 64}, {96, 12}, {127, 8}};
  uint32_t rows = sizes[_i][0], cols = sizes[_i][1];
  struct bwt_random r = seeded(100 + (uint64_t)_i);
  size_t size = (size_t)cols / 4 * 512;
  uint8_t *plain = malloc((size_t)rows * cols), *back = malloc((size_t)rows * cols);
  uint8_t *tiles = malloc(size);
  bwt_random_bytes(&r, plain, (size_t)rows * cols);
  memset(tiles, 0xa5, size);
  ck_assert_int_eq(bw_f8_128x4_swizzle(plain, rows, cols, tiles), BW_OK);
  for (uint32_t t = 0; t < 128; t++)
    for (uint32_t c = 0; c < cols; c++)
      BWT_SAME(tiles[ref_wo_a_qs_offset(t, c * 32)], t < rows ? plain[(size_t)t * cols + c] : 0);
  ck_assert_int_eq(bw_f8_128x4_unswizzle(tiles, rows, cols, back), BW_OK);
  ck_assert_mem_eq(back, plain, (size_t)rows * cols);
  free(plain);
  free(back);
  free(tiles);
}
END_TEST

START_TEST(swizzle_refuses) {
  uint8_t a[512] = {0}, b[512] = {0};
  assert_fails(bw_f8_128x4_swizzle(a, 0, 4, b), BW_ERROR_INVALID_ARGUMENT, "rows is 0");
  assert_fails(bw_f8_128x4_swizzle(a, 129, 4, b), BW_ERROR_INVALID_ARGUMENT, "rows is 129");
  assert_fails(bw_f8_128x4_swizzle(a, 1, 6, b), BW_ERROR_INVALID_ARGUMENT, "cols is 6");
  assert_fails(bw_f8_128x4_swizzle(a, 1, 0, b), BW_ERROR_INVALID_ARGUMENT, "cols is 0");
  assert_fails(bw_f8_128x4_swizzle(NULL, 1, 4, b), BW_ERROR_INVALID_ARGUMENT, "row_major");
  assert_fails(bw_f8_128x4_swizzle(a, 1, 4, NULL), BW_ERROR_INVALID_ARGUMENT, "tiles");
  assert_fails(bw_f8_128x4_unswizzle(a, 200, 4, b), BW_ERROR_INVALID_ARGUMENT, "rows is 200");
  assert_fails(bw_f8_128x4_unswizzle(a, 1, 5, b), BW_ERROR_INVALID_ARGUMENT, "cols is 5");
  assert_fails(bw_f8_128x4_unswizzle(NULL, 1, 4, b), BW_ERROR_INVALID_ARGUMENT, "tiles");
  assert_fails(bw_f8_128x4_unswizzle(a, 1, 4, NULL), BW_ERROR_INVALID_ARGUMENT, "row_major");
}
END_TEST

/* ---- shapes ------------------------------------------------------------------------ */

START_TEST(check_weight) {
  bw_wo_a_shape s = {2, 8, 1024, 96};
  int64_t weight[2] = {2048, 4096}, scale[2] = {2048, 128};
  ck_assert_int_eq(bw_wo_a_check_weight(&s, weight, scale), BW_OK);
  assert_fails(bw_wo_a_check_weight(NULL, weight, scale), BW_ERROR_INVALID_ARGUMENT, "shape");
  assert_fails(bw_wo_a_check_weight(&s, NULL, scale), BW_ERROR_INVALID_ARGUMENT, "weight_shape");
  assert_fails(bw_wo_a_check_weight(&s, weight, NULL), BW_ERROR_INVALID_ARGUMENT, "scale_shape");
  for (int i = 0; i < 2; i++) {
    static const char *const names[2][2] = {{"weight_shape[0]", "weight_shape[1]"},
                                            {"scale_shape[0]", "scale_shape[1]"}};
    weight[i] += 1;
    assert_fails(bw_wo_a_check_weight(&s, weight, scale), BW_ERROR_INVALID_ARGUMENT, names[0][i]);
    weight[i] -= 1;
    scale[i] = -scale[i];
    assert_fails(bw_wo_a_check_weight(&s, weight, scale), BW_ERROR_INVALID_ARGUMENT, names[1][i]);
    scale[i] = -scale[i];
  }
}
END_TEST

START_TEST(output_sizes) {
  bw_wo_a_shape s = {3, 4, 256, 96};
  size_t q = 1, qs = 1;
  ck_assert_int_eq(bw_wo_a_output_sizes(&s, 7, &q, &qs), BW_OK);
  ck_assert_uint_eq(q, 7 * 768);
  ck_assert_uint_eq(qs, 128 * 768 / 32);
  ck_assert_int_eq(bw_wo_a_output_sizes(&s, 0, &q, &qs), BW_OK);
  ck_assert_uint_eq(q, 0);
  assert_fails(bw_wo_a_output_sizes(&s, 97, &q, &qs), BW_ERROR_INVALID_ARGUMENT, "tokens is 97");
  assert_fails(bw_wo_a_output_sizes(NULL, 1, &q, &qs), BW_ERROR_INVALID_ARGUMENT, "shape");
}
END_TEST

START_TEST(dispatch_refuses) {
  bw_wo_a_key key;
  size_t count;
  char name[BW_WO_A_KEY_NAME_SIZE];
  assert_fails(bw_wo_a_dispatch(0, 1, &key), BW_ERROR_INVALID_ARGUMENT, "tokens is 0");
  assert_fails(bw_wo_a_dispatch(129, 1, &key), BW_ERROR_INVALID_ARGUMENT, "tokens is 129");
  assert_fails(bw_wo_a_dispatch(1, 0, &key), BW_ERROR_INVALID_ARGUMENT, "heads_per_group is 0");
  assert_fails(bw_wo_a_dispatch(1, 9, &key), BW_ERROR_INVALID_ARGUMENT, "heads_per_group is 9");
  assert_fails(bw_wo_a_dispatch(1, 1, NULL), BW_ERROR_INVALID_ARGUMENT, "out");
  assert_fails(bw_wo_a_keys(0, 1, NULL, 0, &count), BW_ERROR_INVALID_ARGUMENT, "max_tokens is 0");
  assert_fails(bw_wo_a_keys(129, 1, NULL, 0, &count), BW_ERROR_INVALID_ARGUMENT, "max_tokens");
  assert_fails(bw_wo_a_keys(1, 9, NULL, 0, &count), BW_ERROR_INVALID_ARGUMENT, "heads_per_group");
  assert_fails(bw_wo_a_keys(1, 1, NULL, 4, &count), BW_ERROR_INVALID_ARGUMENT, "keys");
  assert_fails(bw_wo_a_keys(1, 1, NULL, 0, NULL), BW_ERROR_INVALID_ARGUMENT, "count");
  ck_assert_int_eq(bw_wo_a_dispatch(1, 1, &key), BW_OK);
  assert_fails(bw_wo_a_key_name(NULL, name), BW_ERROR_INVALID_ARGUMENT, "key");
  assert_fails(bw_wo_a_key_name(&key, NULL), BW_ERROR_INVALID_ARGUMENT, "name");
  key.tile = 33;
  assert_fails(bw_wo_a_key_name(&key, name), BW_ERROR_INVALID_ARGUMENT, "tile is 33");
}
END_TEST

START_TEST(status_texts) {
  for (int s = BW_OK; s <= BW_ERROR_STATE; s++) {
    ck_assert_str_ne(bw_status_text((bw_status)s), "");
    for (int other = BW_OK; other < s; other++)
      ck_assert_str_ne(bw_status_text((bw_status)s), bw_status_text((bw_status)other));
  }
  ck_assert_ptr_nonnull(bw_status_text((bw_status)1000));
  ck_assert_str_eq(bw_version(), "0.1.0");
}
END_TEST

int main(void) {
  const struct bwt_test tests[] = {
      BWT_LOOP("scales", pack_scales, 0, 4, 10), BWT_TEST("scales", pack_scales_refuses, 10),
      BWT_LOOP("tiles", swizzle, 0, 6, 10),      BWT_TEST("tiles", swizzle_refuses, 10),
      BWT_TEST("shapes", check_weight, 10),      BWT_TEST("shapes", output_sizes, 10),
      BWT_TEST("shapes", dispatch_refuses, 10),  BWT_TEST("words", status_texts, 10),
  };
  return bwt_suite_main("helpers", tests, BWT_COUNT(tests));
}
