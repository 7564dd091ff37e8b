/* SPDX-License-Identifier: Apache-2.0
 *
 * Host helpers for wo_a's operands: shapes, sizes, and the two layouts of scales.
 */
#include "error.h"
#include "wo_a.h"

#include <inttypes.h>
#include <string.h>

enum { SCALES_PER_WORD = 4, BLOCKS_PER_HEAD = BW_WO_A_HEAD_DIM / 32 };

/* ---- shapes and sizes ------------------------------------------------------------ */

bw_status bwi_wo_a_check_sizes(const bw_wo_a_shape *shape) {
  if (!shape)
    return bwi_fail_null("shape");
  if (shape->groups < 1)
    return bwi_fail_range("shape.groups", shape->groups, 1, BWI_WO_A_MAX_OUTPUTS / 128);
  if (shape->heads_per_group < 1 || shape->heads_per_group > 8)
    return bwi_fail_range("shape.heads_per_group", shape->heads_per_group, 1, 8);
  if (shape->lora_rank < 128)
    return bwi_fail_range("shape.lora_rank", shape->lora_rank, 128, BWI_WO_A_MAX_OUTPUTS);
  if (shape->lora_rank % 128 != 0)
    return bwi_fail_multiple("shape.lora_rank", shape->lora_rank, 128);
  uint64_t outputs = (uint64_t)shape->groups * shape->lora_rank;
  if (outputs > BWI_WO_A_MAX_OUTPUTS)
    return bwi_fail_range("shape.groups * shape.lora_rank", outputs, 128, BWI_WO_A_MAX_OUTPUTS);
  return BW_OK;
}

bw_status bwi_wo_a_check_shape(const bw_wo_a_shape *shape) {
  bw_status status = bwi_wo_a_check_sizes(shape);
  if (status == BW_OK && (shape->max_tokens < 1 || shape->max_tokens > BW_WO_A_MAX_TOKENS))
    return bwi_fail_range("shape.max_tokens", shape->max_tokens, 1, BW_WO_A_MAX_TOKENS);
  return status;
}

bw_status bw_wo_a_output_sizes(const bw_wo_a_shape *shape, uint32_t tokens, size_t *q_bytes,
                               size_t *qs_bytes) {
  bw_status status = bwi_wo_a_check_shape(shape);
  if (status != BW_OK)
    return status;
  if (tokens > shape->max_tokens)
    return bwi_fail_range("tokens", tokens, 0, shape->max_tokens);
  size_t outputs = (size_t)shape->groups * shape->lora_rank;
  if (q_bytes)
    *q_bytes = tokens * outputs;
  if (qs_bytes)
    *qs_bytes = BW_WO_A_MAX_TOKENS * (outputs / 32);
  return BW_OK;
}

static bw_status check_dimension(const char *name, int64_t got, int64_t want, const char *meaning) {
  if (got == want)
    return BW_OK;
  return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s is %" PRId64 ", must be %s = %" PRId64, name, got,
                  meaning, want);
}

bw_status bw_wo_a_check_weight(const bw_wo_a_shape *shape, const int64_t weight_shape[2],
                               const int64_t scale_shape[2]) {
  bw_status status = bwi_wo_a_check_sizes(shape);
  if (status != BW_OK)
    return status;
  if (!weight_shape)
    return bwi_fail_null("weight_shape");
  if (!scale_shape)
    return bwi_fail_null("scale_shape");
  int64_t rows = (int64_t)shape->groups * shape->lora_rank;
  int64_t columns = (int64_t)shape->heads_per_group * BW_WO_A_HEAD_DIM;
  int64_t scales = columns / 32;
  status = check_dimension("weight_shape[0]", weight_shape[0], rows, "groups * lora_rank");
  if (status == BW_OK)
    status = check_dimension("weight_shape[1]", weight_shape[1], columns, "heads_per_group * 512");
  if (status == BW_OK)
    status = check_dimension("scale_shape[0]", scale_shape[0], rows, "groups * lora_rank");
  if (status == BW_OK)
    status = check_dimension("scale_shape[1]", scale_shape[1], scales, "heads_per_group * 16");
  return status;
}

/* ---- weight scales: row-major bytes <-> words, rows fastest ------------------------- */

bw_status bw_wo_a_pack_scales(const bw_wo_a_shape *shape, const uint8_t *row_major,
                              uint32_t *packed) {
  bw_status status = bwi_wo_a_check_sizes(shape);
  if (status != BW_OK)
    return status;
  if (!row_major)
    return bwi_fail_null("row_major");
  if (!packed)
    return bwi_fail_null("packed");
  size_t rank = shape->lora_rank;
  size_t row_bytes = (size_t)shape->heads_per_group * BLOCKS_PER_HEAD;
  size_t words = row_bytes / SCALES_PER_WORD;
  for (size_t group = 0; group < shape->groups; group++)
    for (size_t word = 0; word < words; word++)
      for (size_t row = 0; row < rank; row++) {
        const uint8_t *s = row_major + (group * rank + row) * row_bytes + word * SCALES_PER_WORD;
        /* Byte j of the word in memory, whatever this machine's byte order. */
        memcpy(packed + (group * words + word) * rank + row, s, SCALES_PER_WORD);
      }
  return BW_OK;
}

bw_status bw_wo_a_unpack_scales(const bw_wo_a_shape *shape, const uint32_t *packed,
                                uint8_t *row_major) {
  bw_status status = bwi_wo_a_check_sizes(shape);
  if (status != BW_OK)
    return status;
  if (!packed)
    return bwi_fail_null("packed");
  if (!row_major)
    return bwi_fail_null("row_major");
  size_t rank = shape->lora_rank;
  size_t row_bytes = (size_t)shape->heads_per_group * BLOCKS_PER_HEAD;
  size_t words = row_bytes / SCALES_PER_WORD;
  for (size_t group = 0; group < shape->groups; group++)
    for (size_t word = 0; word < words; word++)
      for (size_t row = 0; row < rank; row++)
        memcpy(row_major + (group * rank + row) * row_bytes + word * SCALES_PER_WORD,
               packed + (group * words + word) * rank + row, SCALES_PER_WORD);
  return BW_OK;
}

/* ---- F8_128x4 -------------------------------------------------------------------------
 *
 * One tile holds the scales of 128 rows x 128 columns (4 scales a row) in 512 bytes;
 * the scale of row r, column block b of the tile is at (r%32)*16 + (r/32)*4 + b.
 * (cuBLAS documentation, "1D Block Scaling Factors Layout".) */

enum { TILE_ROWS = 128, TILE_COLUMNS = 4, TILE_BYTES = 512 };

static size_t tile_offset(uint32_t row, uint32_t column) {
  return (size_t)(column / TILE_COLUMNS) * TILE_BYTES + row % 32 * 16 + row / 32 * 4 +
         column % TILE_COLUMNS;
}

static bw_status check_tile_sizes(uint32_t rows, uint32_t cols) {
  if (rows < 1 || rows > TILE_ROWS)
    return bwi_fail_range("rows", rows, 1, TILE_ROWS);
  if (cols < TILE_COLUMNS)
    return bwi_fail_range("cols", cols, TILE_COLUMNS, UINT32_MAX);
  if (cols % TILE_COLUMNS != 0)
    return bwi_fail_multiple("cols", cols, TILE_COLUMNS);
  return BW_OK;
}

bw_status bw_f8_128x4_swizzle(const uint8_t *row_major, uint32_t rows, uint32_t cols,
                              uint8_t *tiles) {
  bw_status status = check_tile_sizes(rows, cols);
  if (status != BW_OK)
    return status;
  if (!row_major)
    return bwi_fail_null("row_major");
  if (!tiles)
    return bwi_fail_null("tiles");
  memset(tiles, 0, (size_t)(cols / TILE_COLUMNS) * TILE_BYTES);
  for (uint32_t row = 0; row < rows; row++)
    for (uint32_t column = 0; column < cols; column++)
      tiles[tile_offset(row, column)] = row_major[(size_t)row * cols + column];
  return BW_OK;
}

bw_status bw_f8_128x4_unswizzle(const uint8_t *tiles, uint32_t rows, uint32_t cols,
                                uint8_t *row_major) {
  bw_status status = check_tile_sizes(rows, cols);
  if (status != BW_OK)
    return status;
  if (!tiles)
    return bwi_fail_null("tiles");
  if (!row_major)
    return bwi_fail_null("row_major");
  for (uint32_t row = 0; row < rows; row++)
    for (uint32_t column = 0; column < cols; column++)
      row_major[(size_t)row * cols + column] = tiles[tile_offset(row, column)];
  return BW_OK;
}
