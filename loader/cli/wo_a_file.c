/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of wo_a from a file; see wo_a_file.h.
 */
#include "cli/wo_a_file.h"

#include "cli.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void print_shape(char *text, size_t size, const st_tensor *t) {
  size_t at = (size_t)snprintf(text, size, "%s [", t->dtype);
  for (unsigned i = 0; i < t->rank && at < size; i++)
    at += (size_t)snprintf(text + at, size - at, "%s%lld", i ? ", " : "", (long long)t->shape[i]);
  if (at < size)
    snprintf(text + at, size - at, "]");
}

/* The tensor, if it has this dtype and rank; wanted says both in words. */
static const st_tensor *need(const wo_a_file *f, const char *command, const char *name,
                             const char *dtype, unsigned rank, const char *wanted) {
  const st_tensor *t = st_find(f->file, name);
  if (!t) {
    cli_error(command, "tensor '%s' is missing, must be %s", name, wanted);
    return NULL;
  }
  if (strcmp(t->dtype, dtype) != 0 || t->rank != rank) {
    char got[256];
    print_shape(got, sizeof got, t);
    cli_error(command, "tensor '%s' is %s, must be %s", name, got, wanted);
    return NULL;
  }
  return t;
}

static bool wrong_shape(const char *command, const st_tensor *t, const char *rule) {
  char got[256];
  print_shape(got, sizeof got, t);
  cli_error(command, "tensor '%s' is %s, but %s", t->name, got, rule);
  return false;
}

/* T, G, H and R from the shapes of x, weight and the scales. */
static bool read_shape(wo_a_file *f, const char *command) {
  const st_tensor *x = f->x, *w = f->weight, *s = f->weight_scale;
  if (x->shape[0] > BW_WO_A_MAX_TOKENS)
    return wrong_shape(command, x, "at most 128 tokens are possible");
  if (x->shape[2] != BW_WO_A_HEAD_DIM || x->shape[1] == 0)
    return wrong_shape(command, x, "heads have 512 elements, and there must be some");
  const int64_t heads = w->shape[1] / BW_WO_A_HEAD_DIM;
  if (w->shape[1] % BW_WO_A_HEAD_DIM != 0 || heads < 1 || heads > 8)
    return wrong_shape(command, w, "a row must be 512 inputs for each of 1 to 8 heads of a group");
  if (x->shape[1] % heads != 0)
    return wrong_shape(command, x,
                       "its heads must be a multiple of the heads that a row of "
                       "'weight' has (columns / 512)");
  const int64_t groups = x->shape[1] / heads;
  const int64_t rank = w->shape[0] / groups;
  if (w->shape[0] == 0 || w->shape[0] % groups != 0 || rank % 128 != 0 || w->shape[0] > UINT32_MAX)
    return wrong_shape(command, w,
                       "its rows must be groups (heads of 'x' / heads a group) times a "
                       "multiple of 128");
  f->tokens = (uint32_t)x->shape[0];
  f->shape = (bw_wo_a_shape){.groups = (uint32_t)groups,
                             .heads_per_group = (uint32_t)heads,
                             .lora_rank = (uint32_t)rank,
                             .max_tokens = f->tokens > 0 ? f->tokens : 1};
  if (f->positions->shape[0] != x->shape[0])
    return wrong_shape(command, f->positions, "there must be one for each token of 'x'");
  if (f->rope->shape[1] != BW_WO_A_ROPE_DIM || f->rope->shape[0] == 0)
    return wrong_shape(command, f->rope, "a row is 32 cosines and 32 sines");
  if (s->rank == 3 && (s->shape[0] != groups || s->shape[1] != 4 * heads || s->shape[2] != rank))
    return wrong_shape(command, s, "must be [groups, inputs / 128, rows a group]");
  if (s->rank == 2 && (s->shape[0] != w->shape[0] || s->shape[1] != w->shape[1] / 32))
    return wrong_shape(command, s, "must be [rows of 'weight', columns of 'weight' / 32]");
  f->rope_rows = (uint32_t)f->rope->shape[0];
  return true;
}

static bool check_positions(const wo_a_file *f, const char *command) {
  const int64_t *positions = f->ref.positions;
  for (uint32_t t = 0; t < f->tokens; t++) {
    if (positions[t] < 0 || positions[t] >= f->rope->shape[0]) {
      cli_error(command, "positions[%u] is %lld, must be 0..%lld, the rows of 'rope'", t,
                (long long)positions[t], (long long)f->rope->shape[0] - 1);
      return false;
    }
  }
  return true;
}

static void *aligned_copy(const st_tensor *t) {
  void *copy = malloc(t->size + 1);
  if (copy)
    memcpy(copy, t->data, t->size);
  return copy;
}

static bool read_scales(wo_a_file *f, const char *command) {
  f->packed_scales = malloc(f->weight->size / 32);
  if (!f->packed_scales)
    return cli_error(command, "out of memory") == CLI_OK;
  if (f->weight_scale->rank == 3) {
    memcpy(f->packed_scales, f->weight_scale->data, f->weight_scale->size);
    return true;
  }
  if (bw_wo_a_pack_scales(&f->shape, f->weight_scale->data, f->packed_scales) != BW_OK)
    return cli_library_error(command) == CLI_OK;
  return true;
}

static bool find_tensors(wo_a_file *f, const char *command) {
  f->x = need(f, command, "x", "BF16", 3, "BF16 [tokens, groups * heads, 512]");
  f->positions = f->x ? need(f, command, "positions", "I64", 1, "I64 [tokens]") : NULL;
  f->rope = f->positions ? need(f, command, "rope", "F32", 2, "F32 [positions, 64]") : NULL;
  f->weight = f->rope
                  ? need(f, command, "weight", "F8_E4M3", 2, "F8_E4M3 [groups * rows, heads * 512]")
                  : NULL;
  if (!f->weight)
    return false;
  const st_tensor *s = st_find(f->file, "weight_scale");
  const bool one_a_byte = s && (strcmp(s->dtype, "U8") == 0 || strcmp(s->dtype, "F8_E8M0") == 0);
  f->weight_scale =
      need(f, command, "weight_scale", one_a_byte ? s->dtype : "I32", one_a_byte ? 2 : 3,
           "I32 [groups, inputs / 128, rows], or U8 or F8_E8M0 [groups * rows, "
           "inputs / 32]");
  return f->weight_scale != NULL;
}

bool wo_a_file_open(wo_a_file *f, const char *command, const char *path) {
  char why[512];
  memset(f, 0, sizeof *f);
  f->file = st_open(path, why, sizeof why);
  if (!f->file)
    return cli_error(command, "%s", why) == CLI_OK;
  if (!find_tensors(f, command) || !read_shape(f, command) || !read_scales(f, command)) {
    wo_a_file_close(f);
    return false;
  }
  const st_tensor *const copied[4] = {f->x, f->positions, f->rope, f->weight};
  for (int i = 0; i < 4; i++) {
    f->aligned[i] = aligned_copy(copied[i]);
    if (!f->aligned[i]) {
      wo_a_file_close(f);
      return cli_error(command, "out of memory") == CLI_OK;
    }
  }
  f->ref = (struct ref_wo_a){.tokens = f->tokens,
                             .groups = f->shape.groups,
                             .heads = f->shape.heads_per_group,
                             .rank = f->shape.lora_rank,
                             .token_stride = (uint64_t)f->x->shape[1] * BW_WO_A_HEAD_DIM,
                             .x = f->aligned[0],
                             .positions = f->aligned[1],
                             .rope = f->aligned[2],
                             .weight = f->aligned[3],
                             .weight_scale = f->packed_scales};
  if (!check_positions(f, command)) {
    wo_a_file_close(f);
    return false;
  }
  return true;
}

void wo_a_file_close(wo_a_file *f) {
  st_close(f->file);
  free(f->packed_scales);
  for (int i = 0; i < 4; i++)
    free(f->aligned[i]);
  memset(f, 0, sizeof *f);
}
