/* SPDX-License-Identifier: Apache-2.0
 *
 * Bundles inside the library: what the reader offers beyond barewarp.h, and the
 * writer behind `barewarp pack`.  The file format is defined in bundle_format.h.
 */
#ifndef BW_LOADER_BUNDLE_H
#define BW_LOADER_BUNDLE_H

#include "barewarp.h"

/* ---- reading (bundle_read.c; bundle_verify.c) -------------------------------- */

/* A bundle is immutable once open; only its reference count changes. */
bw_bundle *bwi_bundle_retain(bw_bundle *bundle);

#define BWI_NOT_FOUND SIZE_MAX

/* Index of the entry with these names, or BWI_NOT_FOUND. */
size_t bwi_bundle_find(const bw_bundle *bundle, const char *family, const char *arch,
                       const char *key);

/* The entry at an index below bw_bundle_count(). */
const bw_kernel_info *bwi_bundle_entry(const bw_bundle *bundle, size_t index);

/* Bytes of the entry's kernel parameters. */
uint32_t bwi_bundle_parameter_bytes(const bw_bundle *bundle, size_t index);

/* The entry's attribute of that name; false if it has none. */
bool bwi_bundle_attribute(const bw_bundle *bundle, size_t index, const char *name, uint32_t *value);
/* The same, for attributes the launcher cannot do without: BW_ERROR_BUNDLE. */
bw_status bwi_bundle_need_attribute(const bw_bundle *bundle, size_t index, const char *name,
                                    uint32_t *value);

size_t bwi_bundle_attribute_count(const bw_bundle *bundle, size_t index);
/* The i-th attribute's name (in order of names) and value. */
const char *bwi_bundle_attribute_at(const bw_bundle *bundle, size_t index, size_t i,
                                    uint32_t *value);

/* The architectures in the bundle, without duplicates, as "sm_100f, sm_90a". */
void bwi_bundle_targets(const bw_bundle *bundle, char *text, size_t size);

/* ---- writing (bundle_write.c) --------------------------------------------- */

typedef struct bwi_attribute {
  const char *name;
  uint32_t value;
} bwi_attribute;

/* One entry to write.  add copies all of it. */
typedef struct bwi_entry {
  bw_kernel_info info;
  uint32_t parameter_bytes;
  const bwi_attribute *attributes; /* any order */
  size_t attribute_count;
  const char *ptx; /* text without its NUL */
  size_t ptx_size;
  const void *cubin;
  size_t cubin_size;
} bwi_entry;

typedef struct bwi_writer bwi_writer;

bw_status bwi_writer_new(bwi_writer **out);
void bwi_writer_free(bwi_writer *writer);

/* Adds an entry.  BW_ERROR_INVALID_ARGUMENT: an empty or unprintable string, an
 * entry or attribute given twice, empty or oversized contents. */
bw_status bwi_writer_add(bwi_writer *writer, const bwi_entry *entry);

/* Adds the entry of one kernel as the build leaves it: the expanded PTX with its
 * facts (see ptx_facts.h), its cubin, and the log of `ptxas -v`, and checks them
 * against each other.  ptxas: version and flags, for the record. */
bw_status bwi_writer_add_build(bwi_writer *writer, const char *ptx_path, const char *cubin_path,
                               const char *log_path, const char *ptxas);

/* The finished bundle in fresh memory (free()).  The same entries give the same bytes
 * in whatever order they were added (and with the same libzstd). */
bw_status bwi_writer_finish(bwi_writer *writer, void **data, size_t *size);

/* ---- files (file.c) -------------------------------------------------------- */

/* A whole file in fresh memory (free()), with a NUL behind it that size leaves out. */
bw_status bwi_read_file(const char *path, void **data, size_t *size);

/* Writes to a temporary file beside path, then renames: readers see the old file or
 * the whole new one.  Of a link it replaces the file that it leads to.  What is there and
 * is no file, /dev/stdout say, is written into. */
bw_status bwi_write_file(const char *path, const void *data, size_t size);

#endif
