/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening and reading bundles; verifying them is in bundle_verify.c.
 */
#include "bundle.h"
#include "bundle_private.h"
#include "embedded.h"
#include "error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

enum { DICTIONARY_CUBIN, DICTIONARY_PTX };

/* ---- contents -------------------------------------------------------------------------- */

/* Decompresses a blob into fresh memory, with a NUL behind it. */
static bw_status decompress(const bw_bundle *b, uint32_t blob, const void *dictionary,
                            size_t dictionary_size, void **data, size_t *size) {
  const uint8_t *r = bwi_blob_record(b, blob);
  const uint8_t *frame = b->data + bwi_get_u64(r + BWF_B_OFFSET);
  size_t frame_size = (size_t)bwi_get_u64(r + BWF_B_SIZE);
  size_t raw_size = (size_t)bwi_get_u64(r + BWF_B_RAW_SIZE);
  if (ZSTD_getFrameContentSize(frame, frame_size) != raw_size)
    return bwi_fail_blob(b, blob, "the frame's size is not the index's");
  char *raw = malloc(raw_size + 1);
  ZSTD_DCtx *context = ZSTD_createDCtx();
  if (!raw || !context) {
    free(raw);
    ZSTD_freeDCtx(context);
    return bwi_fail_memory("a bundle's contents");
  }
  size_t got = ZSTD_decompress_usingDict(context, raw, raw_size, frame, frame_size, dictionary,
                                         dictionary_size);
  ZSTD_freeDCtx(context);
  if (ZSTD_isError(got) || got != raw_size) {
    free(raw);
    return bwi_fail_blob(b, blob,
                         ZSTD_isError(got) ? ZSTD_getErrorName(got) : "the frame is too short");
  }
  raw[raw_size] = '\0';
  *data = raw;
  *size = raw_size;
  return BW_OK;
}

static bw_status open_dictionary(bw_bundle *b, int which, size_t header_field) {
  uint32_t blob = bwi_get_u32(b->data + header_field);
  if (blob == BWF_NONE)
    return BW_OK;
  if (!bwi_blob_is(b, blob, BWF_KIND_DICTIONARY))
    return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: its dictionary is out of place");
  return decompress(b, blob, NULL, 0, &b->dictionaries[which], &b->dictionary_sizes[which]);
}

static bw_status get_contents(const bw_bundle *bundle, size_t index, size_t field, int dictionary,
                              void **data, size_t *size) {
  if (!bundle)
    return bwi_fail_null("bundle");
  if (!data)
    return bwi_fail_null("the output pointer");
  if (index >= bundle->entry_count)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "index is %zu, must be below %" PRIu32, index,
                    bundle->entry_count);
  size_t unused;
  return decompress(bundle, bwi_get_u32(bwi_entry_record(bundle, index) + field),
                    bundle->dictionaries[dictionary], bundle->dictionary_sizes[dictionary], data,
                    size ? size : &unused);
}

bw_status bw_bundle_cubin(const bw_bundle *bundle, size_t index, void **cubin, size_t *size) {
  return get_contents(bundle, index, BWF_E_CUBIN, DICTIONARY_CUBIN, cubin, size);
}

bw_status bw_bundle_ptx(const bw_bundle *bundle, size_t index, char **text, size_t *size) {
  void *data = NULL;
  size_t length = 0;
  bw_status status = text ? get_contents(bundle, index, BWF_E_PTX, DICTIONARY_PTX, &data, &length)
                          : bwi_fail_null("text");
  if (status != BW_OK)
    return status;
  if (memchr(data, '\0', length)) {
    free(data);
    return bwi_fail_blob(bundle, bwi_get_u32(bwi_entry_record(bundle, index) + BWF_E_PTX),
                         "a NUL within the text");
  }
  *text = data;
  if (size)
    *size = length;
  return BW_OK;
}

/* ---- life -------------------------------------------------------------------------------- */

/* Takes over `owned` (may be NULL), also when it fails. */
static bw_status open_bytes(void *owned, const void *data, size_t size, bw_bundle **out) {
  bw_bundle *b = calloc(1, sizeof *b);
  if (!b) {
    free(owned);
    return bwi_fail_memory("a bundle");
  }
  atomic_init(&b->references, 1);
  b->owned = owned;
  b->data = data;
  b->size = size;
  bw_status status = bwi_bundle_verify(b);
  if (status == BW_OK)
    status = open_dictionary(b, DICTIONARY_CUBIN, BWF_H_CUBIN_DICTIONARY);
  if (status == BW_OK)
    status = open_dictionary(b, DICTIONARY_PTX, BWF_H_PTX_DICTIONARY);
  if (status != BW_OK) {
    bw_bundle_close(b);
    return status;
  }
  *out = b;
  return BW_OK;
}

bw_status bw_bundle_open(const char *path, bw_bundle **out) {
  if (!out)
    return bwi_fail_null("out");
  if (!path) {
    size_t size;
    const void *data = bwi_embedded_bundle(&size);
    if (!data)
      return bwi_fail(BW_ERROR_BUNDLE,
                      "no bundle is embedded in this build of the library: give a path");
    return open_bytes(NULL, data, size, out);
  }
  void *data;
  size_t size;
  bw_status status = bwi_read_file(path, &data, &size);
  if (status != BW_OK)
    return status;
  status = open_bytes(data, data, size, out);
  if (status != BW_OK) { /* say which file; the message itself is kept */
    char reason[512];
    (void)snprintf(reason, sizeof reason, "%s", bw_last_error());
    return bwi_fail(status, "%s: %s", path, reason);
  }
  return BW_OK;
}

bw_status bw_bundle_open_memory(const void *data, size_t size, bw_bundle **out) {
  if (!out)
    return bwi_fail_null("out");
  if (!data)
    return bwi_fail_null("data");
  return open_bytes(NULL, data, size, out);
}

bw_bundle *bwi_bundle_retain(bw_bundle *bundle) {
  atomic_fetch_add_explicit(&bundle->references, 1, memory_order_relaxed);
  return bundle;
}

void bw_bundle_close(bw_bundle *bundle) {
  if (!bundle || atomic_fetch_sub_explicit(&bundle->references, 1, memory_order_acq_rel) != 1)
    return;
  free(bundle->dictionaries[DICTIONARY_CUBIN]);
  free(bundle->dictionaries[DICTIONARY_PTX]);
  free(bundle->info);
  free(bundle->owned);
  free(bundle);
}

/* ---- queries ------------------------------------------------------------------------------- */

size_t bw_bundle_count(const bw_bundle *bundle) {
  return bundle ? bundle->entry_count : 0;
}

bw_status bw_bundle_kernel(const bw_bundle *bundle, size_t index, bw_kernel_info *out) {
  if (!bundle)
    return bwi_fail_null("bundle");
  if (!out)
    return bwi_fail_null("out");
  if (index >= bundle->entry_count)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "index is %zu, must be below %" PRIu32, index,
                    bundle->entry_count);
  *out = bundle->info[index];
  return BW_OK;
}

const bw_kernel_info *bwi_bundle_entry(const bw_bundle *bundle, size_t index) {
  return &bundle->info[index];
}

size_t bwi_bundle_find(const bw_bundle *bundle, const char *family, const char *arch,
                       const char *key) {
  size_t low = 0, high = bundle->entry_count;
  while (low < high) {
    size_t middle = low + (high - low) / 2;
    int order = bwi_compare_names(&bundle->info[middle], family, arch, key);
    if (order == 0)
      return middle;
    if (order < 0)
      low = middle + 1;
    else
      high = middle;
  }
  return BWI_NOT_FOUND;
}

uint32_t bwi_bundle_parameter_bytes(const bw_bundle *bundle, size_t index) {
  return bwi_get_u32(bwi_entry_record(bundle, index) + BWF_E_PARAMETER_BYTES);
}

size_t bwi_bundle_attribute_count(const bw_bundle *bundle, size_t index) {
  return bwi_get_u32(bwi_entry_record(bundle, index) + BWF_E_ATTRIBUTES);
}

const char *bwi_bundle_attribute_at(const bw_bundle *bundle, size_t index, size_t i,
                                    uint32_t *value) {
  size_t first = bwi_get_u32(bwi_entry_record(bundle, index) + BWF_E_FIRST_ATTRIBUTE);
  const uint8_t *a = bundle->attributes + (first + i) * BWF_ATTRIBUTE_SIZE;
  *value = bwi_get_u32(a + BWF_A_VALUE);
  return bwi_string_at(bundle, a + BWF_A_NAME);
}

bool bwi_bundle_attribute(const bw_bundle *bundle, size_t index, const char *name,
                          uint32_t *value) {
  size_t count = bwi_bundle_attribute_count(bundle, index);
  for (size_t i = 0; i < count; i++) {
    uint32_t found;
    if (strcmp(bwi_bundle_attribute_at(bundle, index, i, &found), name) == 0) {
      *value = found;
      return true;
    }
  }
  return false;
}

bw_status bwi_bundle_need_attribute(const bw_bundle *bundle, size_t index, const char *name,
                                    uint32_t *value) {
  if (bwi_bundle_attribute(bundle, index, name, value))
    return BW_OK;
  const bw_kernel_info *k = &bundle->info[index];
  return bwi_fail(BW_ERROR_BUNDLE, "the bundle's entry %s %s %s has no attribute '%s'", k->family,
                  k->arch, k->key, name);
}

void bwi_bundle_targets(const bw_bundle *bundle, char *text, size_t size) {
  size_t used = 0;
  text[0] = '\0';
  for (size_t i = 0; i < bundle->entry_count; i++) {
    const char *arch = bundle->info[i].arch;
    size_t before = 0;
    while (before < i && strcmp(bundle->info[before].arch, arch) != 0)
      before++;
    if (before < i || used + strlen(arch) + 3 > size)
      continue;
    used += (size_t)snprintf(text + used, size - used, "%s%s", used > 0 ? ", " : "", arch);
  }
  if (used == 0)
    (void)snprintf(text, size, "none");
}
