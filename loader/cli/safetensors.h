/* SPDX-License-Identifier: Apache-2.0
 *
 * Files of named tensors in the safetensors format: 8 bytes of little-endian header
 * length, a JSON header {"name": {"dtype", "shape", "data_offsets"}}, then the data, each
 * tensor dense and row-major.  https://github.com/huggingface/safetensors
 */
#ifndef BW_CLI_SAFETENSORS_H
#define BW_CLI_SAFETENSORS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define ST_RANK_MOST 8

typedef struct st_tensor {
  const char *name;
  const char *dtype; /* "BF16", "F32", "I64", "I32", "U8", "F8_E4M3", "F8_E8M0" */
  unsigned rank;
  int64_t shape[ST_RANK_MOST];
  const void *data; /* alignment: none */
  size_t size;      /* bytes */
} st_tensor;

typedef struct st_file st_file;

/* Reads and checks a file: every tensor's dtype, shape and extent agree, none overlaps
 * the end.  NULL: why says what is wrong, and with which tensor. */
st_file *st_open(const char *path, char *why, size_t why_size);
void st_close(st_file *file);

/* The tensor of that name, NULL if there is none. */
const st_tensor *st_find(const st_file *file, const char *name);
size_t st_count(const st_file *file);

/* Writes a file as a whole (to a temporary one beside it, then renamed). */
bool st_write(const char *path, const st_tensor *tensors, size_t count, char *why, size_t why_size);

/* Bytes an element of that dtype takes; 0: not a dtype known here. */
size_t st_element(const char *dtype);

#endif
