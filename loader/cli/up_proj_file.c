/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands of an up_proj step from a file; see up_proj_file.h.
 */
#include "cli/up_proj_file.h"

#include "cli.h"

#include <stdlib.h>
#include <string.h>

/* The matrix of that name; wanted: its shape in words. */
static const st_tensor *need(const up_proj_file *f, const char *command, const char *name,
                             const char *wanted) {
  const st_tensor *t = st_find(f->file, name);
  if (!t)
    cli_error(command, "tensor '%s' is missing, must be BF16 %s", name, wanted);
  else if (strcmp(t->dtype, "BF16") != 0 || t->rank != 2)
    cli_error(command, "tensor '%s' is %s with %u dimensions, must be BF16 %s", name, t->dtype,
              t->rank, wanted);
  else
    return t;
  return NULL;
}

static bool has_shape(const char *command, const st_tensor *t, int64_t rows, int64_t columns,
                      const char *rule) {
  if (t->shape[0] == rows && t->shape[1] == columns)
    return true;
  cli_error(command, "tensor '%s' is [%lld, %lld], must be [%lld, %lld], %s", t->name,
            (long long)t->shape[0], (long long)t->shape[1], (long long)rows, (long long)columns,
            rule);
  return false;
}

static uint16_t *aligned_copy(const st_tensor *t) {
  uint16_t *copy = malloc(t->size + 1);
  if (copy)
    memcpy(copy, t->data, t->size);
  return copy;
}

static bool read_tensors(up_proj_file *f, const char *command) {
  const st_tensor *latent = need(f, command, "latent", "[rows, L]");
  const st_tensor *weight = latent ? need(f, command, "weight", "[hidden, L]") : NULL;
  const st_tensor *shared = weight ? need(f, command, "shared", "[rows, hidden]") : NULL;
  if (!shared)
    return false;
  const int64_t rows = latent->shape[0], columns = latent->shape[1], hidden = weight->shape[0];
  if (rows < 1 || rows > BW_UP_PROJ_MAX_ROWS || columns < 1 || columns > 1 << 24 || hidden < 1 ||
      hidden > 1 << 24)
    return cli_error(command,
                     "'latent' [%lld, %lld] and 'weight' [%lld, ...] must be of 1..8 rows and of "
                     "sizes up to 2^24",
                     (long long)rows, (long long)columns, (long long)hidden) == CLI_OK;
  if (!has_shape(command, weight, hidden, columns, "columns as 'latent'") ||
      !has_shape(command, shared, rows, hidden, "rows as 'latent', columns as rows of 'weight'"))
    return false;
  f->rows = (uint32_t)rows;
  f->latent_dim = (uint32_t)columns;
  f->hidden = (uint32_t)hidden;
  f->latent = aligned_copy(latent);
  f->weight = aligned_copy(weight);
  f->shared = aligned_copy(shared);
  return (f->latent && f->weight && f->shared) || cli_error(command, "out of memory") == CLI_OK;
}

bool up_proj_file_open(up_proj_file *f, const char *command, const char *path) {
  char why[512];
  memset(f, 0, sizeof *f);
  f->file = st_open(path, why, sizeof why);
  if (!f->file)
    return cli_error(command, "%s", why) == CLI_OK;
  if (read_tensors(f, command))
    return true;
  up_proj_file_close(f);
  return false;
}

void up_proj_file_close(up_proj_file *f) {
  if (f->file)
    st_close(f->file);
  free(f->latent);
  free(f->weight);
  free(f->shared);
  memset(f, 0, sizeof *f);
}

void up_proj_file_shared(const up_proj_file *f, uint32_t tp_size, uint32_t rank, uint64_t stride,
                         uint16_t *slice) {
  const size_t shard = f->hidden / tp_size;
  for (size_t m = 0; m < f->rows; m++)
    memcpy(slice + m * stride, f->shared + m * f->hidden + rank * shard, shard * sizeof *slice);
}
