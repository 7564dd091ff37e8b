/* SPDX-License-Identifier: Apache-2.0
 *
 * The safetensors format; see safetensors.h.
 */
#include "safetensors.h"

#include "bundle.h"

#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LENGTH_BYTES = 8, HEADER_MOST = 100 << 20 };

struct st_file {
  uint8_t *bytes;
  json_t *header; /* owns names and dtypes */
  st_tensor *tensors;
  size_t count;
};

size_t st_element(const char *dtype) {
  static const struct {
    const char *name;
    size_t bytes;
  } known[] = {{"BF16", 2}, {"F16", 2}, {"F32", 4},     {"F64", 8}, {"I8", 1},      {"U8", 1},
               {"I16", 2},  {"I32", 4}, {"U32", 4},     {"I64", 8}, {"F8_E4M3", 1}, {"F8_E8M0", 1},
               {"U16", 2},  {"U64", 8}, {"F8_E5M2", 1}, {"BOOL", 1}};
  for (size_t i = 0; i < sizeof known / sizeof *known; i++)
    if (strcmp(known[i].name, dtype) == 0)
      return known[i].bytes;
  return 0;
}

/* ---- reading -------------------------------------------------------------------------- */

/* Shape and extent of one tensor; NULL or what is wrong with it. */
static const char *read_tensor(const json_t *entry, const uint8_t *data, uint64_t data_size,
                               st_tensor *t) {
  const json_t *dtype = json_object_get(entry, "dtype"), *shape = json_object_get(entry, "shape"),
               *offsets = json_object_get(entry, "data_offsets");
  if (!json_is_string(dtype) || !json_is_array(shape) || !json_is_array(offsets) ||
      json_array_size(offsets) != 2)
    return "has no dtype, shape or data_offsets";
  t->dtype = json_string_value(dtype);
  uint64_t bytes = st_element(t->dtype);
  if (bytes == 0)
    return "has a dtype that is not known here";
  if (json_array_size(shape) > ST_RANK_MOST)
    return "has more than 8 dimensions";
  t->rank = (unsigned)json_array_size(shape);
  for (unsigned i = 0; i < t->rank; i++) {
    const json_t *extent = json_array_get(shape, i);
    t->shape[i] = json_integer_value(extent);
    if (!json_is_integer(extent) || t->shape[i] < 0 ||
        __builtin_mul_overflow(bytes, (uint64_t)t->shape[i], &bytes))
      return "has a shape that is not a list of sizes";
  }
  const json_t *first = json_array_get(offsets, 0), *last = json_array_get(offsets, 1);
  const json_int_t begin = json_integer_value(first), end = json_integer_value(last);
  if (!json_is_integer(first) || !json_is_integer(last))
    return "has data_offsets that are not two numbers";
  if (begin < 0 || end < begin || (uint64_t)end > data_size)
    return "has data_offsets outside the file";
  if ((uint64_t)(end - begin) != bytes)
    return "has data_offsets that do not fit dtype and shape";
  t->data = data + begin;
  t->size = (size_t)bytes;
  return NULL;
}

static int compare_places(const void *a, const void *b) {
  const st_tensor *const *x = a, *const *y = b;
  if ((*x)->data != (*y)->data)
    return (*x)->data < (*y)->data ? -1 : 1;
  return ((*x)->size > (*y)->size) - ((*x)->size < (*y)->size);
}

/* The name of a tensor that begins before the end of the one before it, or NULL.  Bytes of
 * no tensor do no harm. */
static const char *find_overlap(const st_file *f, const st_tensor **sorted) {
  const uint8_t *end = f->bytes;
  for (size_t i = 0; i < f->count; i++)
    sorted[i] = &f->tensors[i];
  qsort(sorted, f->count, sizeof(const st_tensor *), compare_places);
  for (size_t i = 0; i < f->count; i++) {
    const uint8_t *begin = sorted[i]->data;
    if (begin < end)
      return sorted[i]->name;
    end = begin + sorted[i]->size;
  }
  return NULL;
}

static bool read_tensors(st_file *f, const uint8_t *data, uint64_t data_size, const char *path,
                         char *why, size_t why_size) {
  f->tensors = calloc(json_object_size(f->header) + 1, sizeof *f->tensors);
  if (!f->tensors) {
    snprintf(why, why_size, "out of memory");
    return false;
  }
  const char *name;
  json_t *entry;
  json_object_foreach(f->header, name, entry) {
    if (strcmp(name, "__metadata__") == 0)
      continue;
    st_tensor *t = &f->tensors[f->count];
    t->name = name;
    const char *wrong = read_tensor(entry, data, data_size, t);
    if (wrong) {
      snprintf(why, why_size, "%s: tensor '%s' %s", path, name, wrong);
      return false;
    }
    f->count++;
  }
  const st_tensor **sorted = calloc(f->count + 1, sizeof *sorted);
  if (!sorted) {
    snprintf(why, why_size, "out of memory");
    return false;
  }
  const char *overlaps = find_overlap(f, sorted);
  free(sorted);
  if (overlaps)
    snprintf(why, why_size, "%s: tensor '%s' overlaps another", path, overlaps);
  return !overlaps;
}

st_file *st_open(const char *path, char *why, size_t why_size) {
  st_file *f = calloc(1, sizeof *f);
  void *bytes = NULL;
  size_t size = 0;
  if (!f) {
    snprintf(why, why_size, "out of memory");
    return NULL;
  }
  if (bwi_read_file(path, &bytes, &size) != BW_OK) {
    snprintf(why, why_size, "%s", bw_last_error());
    st_close(f);
    return NULL;
  }
  f->bytes = bytes;
  uint64_t length = 0;
  for (int i = LENGTH_BYTES - 1; size >= LENGTH_BYTES && i >= 0; i--)
    length = length << 8 | f->bytes[i];
  if (size < LENGTH_BYTES || length > size - LENGTH_BYTES || length > HEADER_MOST) {
    snprintf(why, why_size, "%s: not a safetensors file: its header does not fit", path);
    st_close(f);
    return NULL;
  }
  json_error_t error;
  f->header = json_loadb((const char *)f->bytes + LENGTH_BYTES, (size_t)length,
                         JSON_REJECT_DUPLICATES, &error);
  if (!json_is_object(f->header)) {
    snprintf(why, why_size, "%s: not a safetensors file: header: %s", path,
             f->header ? "not an object" : error.text);
    st_close(f);
    return NULL;
  }
  if (!read_tensors(f, f->bytes + LENGTH_BYTES + length, size - LENGTH_BYTES - length, path, why,
                    why_size)) {
    st_close(f);
    return NULL;
  }
  return f;
}

void st_close(st_file *f) {
  if (!f)
    return;
  json_decref(f->header);
  free(f->tensors);
  free(f->bytes);
  free(f);
}

const st_tensor *st_find(const st_file *f, const char *name) {
  for (size_t i = 0; i < f->count; i++)
    if (strcmp(f->tensors[i].name, name) == 0)
      return &f->tensors[i];
  return NULL;
}

size_t st_count(const st_file *f) {
  return f->count;
}

/* ---- writing --------------------------------------------------------------------------- */

static json_t *header_of(const st_tensor *tensors, size_t count) {
  json_t *header = json_object();
  json_int_t offset = 0;
  for (size_t i = 0; i < count; i++) {
    const json_int_t end = offset + (json_int_t)tensors[i].size;
    json_t *shape = json_array();
    for (unsigned d = 0; d < tensors[i].rank; d++)
      json_array_append_new(shape, json_integer(tensors[i].shape[d]));
    json_object_set_new(header, tensors[i].name,
                        json_pack("{s:s, s:o, s:[I, I]}", "dtype", tensors[i].dtype, "shape", shape,
                                  "data_offsets", offset, end));
    offset = end;
  }
  return header;
}

bool st_write(const char *path, const st_tensor *tensors, size_t count, char *why,
              size_t why_size) {
  json_t *header = header_of(tensors, count);
  char *text = json_dumps(header, JSON_COMPACT);
  json_decref(header);
  if (!text) {
    snprintf(why, why_size, "out of memory");
    return false;
  }
  /* Padded with blanks, so that the data start at a multiple of 8. */
  const size_t length = strlen(text), padded = (length + 7) / 8 * 8;
  size_t size = LENGTH_BYTES + padded;
  for (size_t i = 0; i < count; i++)
    size += tensors[i].size;
  uint8_t *bytes = malloc(size);
  bool ok = bytes != NULL;
  if (ok) {
    uint8_t *at = bytes;
    for (int i = 0; i < LENGTH_BYTES; i++)
      *at++ = (uint8_t)((uint64_t)padded >> (8 * i));
    memset(at, ' ', padded);
    memcpy(at, text, length);
    at += padded;
    for (size_t i = 0; i < count; i++) {
      memcpy(at, tensors[i].data, tensors[i].size);
      at += tensors[i].size;
    }
    ok = bwi_write_file(path, bytes, size) == BW_OK;
  }
  snprintf(why, why_size, "%s", !bytes ? "out of memory" : ok ? "" : bw_last_error());
  free(bytes);
  free(text);
  return ok;
}
