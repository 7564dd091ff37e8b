/* SPDX-License-Identifier: Apache-2.0
 *
 * An open bundle, for its reader (bundle_read.c) and the verification that comes before
 * anything is read (bundle_verify.c).
 */
#ifndef BW_LOADER_BUNDLE_PRIVATE_H
#define BW_LOADER_BUNDLE_PRIVATE_H

#include "barewarp.h"
#include "bundle_format.h"
#include "bytes.h"

#include <stdatomic.h>

struct bw_bundle {
  atomic_size_t references;
  void *owned; /* the file's bytes, if the bundle read them itself */
  const uint8_t *data;
  size_t size;
  uint32_t entry_count, attribute_count, blob_count, string_bytes;
  const uint8_t *entries, *attributes, *blobs;
  const char *strings;
  void *dictionaries[2]; /* decompressed: of the cubins, of the PTX; or NULL */
  size_t dictionary_sizes[2];
  bw_kernel_info *info; /* entry_count */
};

/* ---- records of the index: offsets are those of bundle_format.h ------------------ */

static inline const uint8_t *bwi_entry_record(const bw_bundle *b, size_t index) {
  return b->entries + index * BWF_ENTRY_SIZE;
}

static inline const uint8_t *bwi_blob_record(const bw_bundle *b, size_t index) {
  return b->blobs + index * BWF_BLOB_SIZE;
}

/* The string at an offset kept in the index, or NULL. */
static inline const char *bwi_string_at(const bw_bundle *b, const uint8_t *field) {
  uint32_t offset = bwi_get_u32(field);
  return offset < b->string_bytes ? b->strings + offset : NULL;
}

/* Whether it is the number of a blob of that kind (BWF_KIND_...). */
static inline bool bwi_blob_is(const bw_bundle *b, uint32_t blob, uint32_t kind) {
  return blob < b->blob_count && bwi_get_u32(bwi_blob_record(b, blob) + BWF_B_KIND) == kind;
}

/* ---- bundle_verify.c --------------------------------------------------------------- */

/* Of data and size, the rest 0: checks every byte but what the frames hold, and fills in the
 * sections and b->info, which the caller frees, on an error too. */
bw_status bwi_bundle_verify(bw_bundle *b);

/* "corrupted bundle: the cubin of FAMILY ARCH KEY: WHAT"; a macro for the reason in error.h. */
#define bwi_fail_blob(b, blob, what) (bwi_record_blob((b), (blob), (what)), BW_ERROR_BUNDLE)
void bwi_record_blob(const bw_bundle *b, uint32_t blob, const char *what);

/* The order of entries. */
int bwi_compare_names(const bw_kernel_info *a, const char *family, const char *arch,
                      const char *key);

#endif
