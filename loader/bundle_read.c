/* SPDX-License-Identifier: Apache-2.0
 *
 * Opening, verifying and reading bundles.  Nothing in the file is trusted: each
 * number is checked against the file's size before it is used, and sizes are added
 * only where they cannot overflow.
 */
#include "bundle.h"
#include "bundle_format.h"
#include "bytes.h"
#include "embedded.h"
#include "error.h"
#include "hash.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

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

enum { DICTIONARY_CUBIN, DICTIONARY_PTX };

/* ---- records ------------------------------------------------------------------ */

static const uint8_t *entry_record(const bw_bundle *b, size_t index) {
  return b->entries + index * BWF_ENTRY_SIZE;
}

static const uint8_t *blob_record(const bw_bundle *b, size_t index) {
  return b->blobs + index * BWF_BLOB_SIZE;
}

static bool all_zero(const uint8_t *p, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (p[i] != 0)
      return false;
  return true;
}

/* ---- verification: header and sections ------------------------------------------ */

static bw_status check_header(const uint8_t *data, size_t size) {
  if (size < BWF_HEADER_SIZE)
    return bwi_fail(BW_ERROR_BUNDLE, "truncated bundle: %zu bytes, the header alone has %d", size,
                    BWF_HEADER_SIZE);
  if (memcmp(data + BWF_H_MAGIC, BWF_MAGIC, BWF_MAGIC_SIZE) != 0)
    return bwi_fail(BW_ERROR_BUNDLE, "not a barewarp bundle: it does not start with " BWF_MAGIC);
  uint32_t endian = bwi_get_u32(data + BWF_H_ENDIAN);
  if (endian == 0x0D0C0B0Au)
    return bwi_fail(BW_ERROR_BUNDLE, "the bundle has big-endian byte order, must be little-endian");
  if (endian != BWF_ENDIAN)
    return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: byte order mark 0x%08" PRIx32, endian);
  uint32_t version = bwi_get_u32(data + BWF_H_VERSION);
  if (version != BWF_VERSION)
    return bwi_fail(BW_ERROR_BUNDLE, "the bundle has format version %" PRIu32 ", must be %u",
                    version, BWF_VERSION);
  if (bwi_get_u64(data + BWF_H_HASH) != bwi_hash64(data, BWF_H_HASH))
    return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: the header's checksum does not match");
  uint64_t file_size = bwi_get_u64(data + BWF_H_FILE_SIZE);
  if (size > file_size)
    return bwi_fail(BW_ERROR_BUNDLE, "overlong bundle: %zu bytes, must be %" PRIu64, size,
                    file_size); /* a short one is told below, where the entry is known */
  if (!all_zero(data + BWF_H_RESERVED, BWF_H_HASH - BWF_H_RESERVED))
    return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: reserved header bytes are not 0");
  return BW_OK;
}

static bw_status fail_truncated(const bw_bundle *b, const char *where) {
  return bwi_fail(BW_ERROR_BUNDLE,
                  "truncated bundle: %zu bytes, must be %" PRIu64 ": it ends in %s", b->size,
                  bwi_get_u64(b->data + BWF_H_FILE_SIZE), where);
}

/* Finds the sections.  *payload is where the blobs begin. */
static bw_status find_sections(bw_bundle *b, uint64_t *payload) {
  const uint8_t *h = b->data;
  b->entry_count = bwi_get_u32(h + BWF_H_ENTRY_COUNT);
  b->attribute_count = bwi_get_u32(h + BWF_H_ATTRIBUTE_COUNT);
  b->blob_count = bwi_get_u32(h + BWF_H_BLOB_COUNT);
  b->string_bytes = bwi_get_u32(h + BWF_H_STRING_BYTES);
  /* 32-bit counts times small sizes: the sum stays far below 2^64. */
  uint64_t entries = BWF_HEADER_SIZE;
  uint64_t attributes = entries + (uint64_t)b->entry_count * BWF_ENTRY_SIZE;
  uint64_t blobs = attributes + (uint64_t)b->attribute_count * BWF_ATTRIBUTE_SIZE;
  uint64_t strings = blobs + (uint64_t)b->blob_count * BWF_BLOB_SIZE;
  uint64_t end = strings + b->string_bytes;
  if (end > b->size)
    return fail_truncated(b, "the index");
  if (bwi_get_u64(h + BWF_H_INDEX_HASH) != bwi_hash64(h + entries, (size_t)(end - entries)))
    return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: the index's checksum does not match");
  b->entries = h + entries;
  b->attributes = h + attributes;
  b->blobs = h + blobs;
  b->strings = (const char *)h + strings;
  *payload = end;
  return BW_OK;
}

static bw_status check_strings(const bw_bundle *b) {
  if (b->string_bytes == 0 || b->strings[b->string_bytes - 1] != '\0')
    return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: the string table has no end");
  for (uint32_t i = 0; i < b->string_bytes; i++) {
    char c = b->strings[i];
    if (c != '\0' && (c < 0x20 || c > 0x7E))
      return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: a string is not printable ASCII");
  }
  return BW_OK;
}

/* ---- verification: blobs ---------------------------------------------------------- */

/* What a message calls a blob: by the first entry that uses it. */
static void blob_name(const bw_bundle *b, uint32_t blob, char *text, size_t size) {
  for (uint32_t i = 0; i < b->entry_count; i++) {
    const uint8_t *e = entry_record(b, i);
    bool cubin = bwi_get_u32(e + BWF_E_CUBIN) == blob;
    if (cubin || bwi_get_u32(e + BWF_E_PTX) == blob) {
      const bw_kernel_info *k = &b->info[i];
      (void)snprintf(text, size, "the %s of %s %s %s", cubin ? "cubin" : "PTX", k->family, k->arch,
                     k->key);
      return;
    }
  }
  (void)snprintf(text, size, "the dictionary in blob %" PRIu32, blob);
}

static bw_status fail_blob(const bw_bundle *b, uint32_t blob, const char *what) {
  char name[256];
  blob_name(b, blob, name, sizeof name);
  return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: %s: %s", name, what);
}

/* Places, sizes and hashes: the blobs fill the payload without a gap. */
static bw_status check_blobs(const bw_bundle *b, uint64_t payload) {
  uint64_t file_size = bwi_get_u64(b->data + BWF_H_FILE_SIZE);
  uint64_t end = payload;
  for (uint32_t i = 0; i < b->blob_count; i++) {
    const uint8_t *r = blob_record(b, i);
    uint64_t offset = bwi_get_u64(r + BWF_B_OFFSET);
    uint64_t size = bwi_get_u64(r + BWF_B_SIZE);
    uint64_t raw_size = bwi_get_u64(r + BWF_B_RAW_SIZE);
    uint32_t kind = bwi_get_u32(r + BWF_B_KIND);
    if (offset != end || !bwi_within(offset, size, file_size))
      return fail_blob(b, i, "it is out of place");
    if (!bwi_within(offset, size, b->size)) {
      char name[256];
      blob_name(b, i, name, sizeof name);
      return fail_truncated(b, name);
    }
    if (kind < BWF_KIND_CUBIN || kind > BWF_KIND_DICTIONARY || bwi_get_u32(r + BWF_B_RESERVED) != 0)
      return fail_blob(b, i, "unknown kind of contents");
    if (raw_size == 0 || raw_size > BWF_MAX_RAW_SIZE)
      return fail_blob(b, i, "impossible size");
    if (bwi_hash64(b->data + offset, (size_t)size) != bwi_get_u64(r + BWF_B_HASH))
      return fail_blob(b, i, "the checksum does not match");
    end = offset + size;
  }
  if (end != file_size)
    return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: %" PRIu64 " bytes after the last entry",
                    file_size - end);
  return BW_OK;
}

static bool blob_is(const bw_bundle *b, uint32_t blob, uint32_t kind) {
  return blob < b->blob_count && bwi_get_u32(blob_record(b, blob) + BWF_B_KIND) == kind;
}

/* ---- verification: entries ---------------------------------------------------------- */

static bw_status fail_entry(size_t index, const char *what) {
  return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: entry %zu: %s", index, what);
}

/* The string at an offset kept in the index, or NULL. */
static const char *string_at(const bw_bundle *b, const uint8_t *field) {
  uint32_t offset = bwi_get_u32(field);
  return offset < b->string_bytes ? b->strings + offset : NULL;
}

static int compare_names(const bw_kernel_info *a, const char *family, const char *arch,
                         const char *key) {
  int order = strcmp(a->family, family);
  if (order == 0)
    order = strcmp(a->arch, arch);
  return order != 0 ? order : strcmp(a->key, key);
}

static bw_status check_attributes(const bw_bundle *b, size_t index) {
  const uint8_t *e = entry_record(b, index);
  uint32_t first = bwi_get_u32(e + BWF_E_FIRST_ATTRIBUTE);
  uint32_t count = bwi_get_u32(e + BWF_E_ATTRIBUTES);
  if (!bwi_within(first, count, b->attribute_count))
    return fail_entry(index, "its attributes are out of place");
  const char *last = "";
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t *a = b->attributes + ((size_t)first + i) * BWF_ATTRIBUTE_SIZE;
    const char *name = string_at(b, a + BWF_A_NAME);
    if (!name || strcmp(last, name) >= 0)
      return fail_entry(index, "its attributes are not sorted by name");
    last = name;
  }
  return BW_OK;
}

static bw_status read_entry(const bw_bundle *b, size_t index, bw_kernel_info *k) {
  const uint8_t *e = entry_record(b, index);
  k->family = string_at(b, e + BWF_E_FAMILY);
  k->arch = string_at(b, e + BWF_E_ARCH);
  k->key = string_at(b, e + BWF_E_KEY);
  k->symbol = string_at(b, e + BWF_E_SYMBOL);
  k->ptxas = string_at(b, e + BWF_E_PTXAS);
  if (!k->family || !k->arch || !k->key || !k->symbol || !k->ptxas)
    return fail_entry(index, "a name is out of place");
  if (index > 0) {
    const bw_kernel_info *last = &b->info[index - 1];
    if (compare_names(last, k->family, k->arch, k->key) >= 0)
      return fail_entry(index, "the entries are not sorted by name");
  }
  if (!blob_is(b, bwi_get_u32(e + BWF_E_CUBIN), BWF_KIND_CUBIN) ||
      !blob_is(b, bwi_get_u32(e + BWF_E_PTX), BWF_KIND_PTX))
    return fail_entry(index, "its contents are out of place");
  uint32_t flags = bwi_get_u32(e + BWF_E_FLAGS);
  if ((flags & ~BWF_FLAG_WAITS) != 0 ||
      !all_zero(e + BWF_E_RESERVED, BWF_ENTRY_SIZE - BWF_E_RESERVED))
    return fail_entry(index, "unknown flags");
  k->registers = bwi_get_u32(e + BWF_E_REGISTERS);
  k->shared_static = bwi_get_u32(e + BWF_E_SHARED_STATIC);
  k->shared_dynamic = bwi_get_u32(e + BWF_E_SHARED_DYNAMIC);
  k->barriers = bwi_get_u32(e + BWF_E_BARRIERS);
  k->threads = bwi_get_u32(e + BWF_E_THREADS);
  k->cluster = bwi_get_u32(e + BWF_E_CLUSTER);
  k->code_bytes = bwi_get_u32(e + BWF_E_CODE_BYTES);
  k->waits = (flags & BWF_FLAG_WAITS) != 0;
  if (k->threads == 0 || k->cluster == 0)
    return fail_entry(index, "no threads or no cluster size");
  return check_attributes(b, index);
}

static bw_status read_entries(bw_bundle *b) {
  /* entry_count is bounded by the file's size: find_sections. */
  b->info = calloc(b->entry_count > 0 ? b->entry_count : 1, sizeof *b->info);
  if (!b->info)
    return bwi_fail_memory("the bundle's index");
  for (size_t i = 0; i < b->entry_count; i++) {
    bw_status status = read_entry(b, i, &b->info[i]);
    if (status != BW_OK)
      return status;
  }
  return BW_OK;
}

/* ---- contents -------------------------------------------------------------------------- */

/* Decompresses a blob into fresh memory, with a NUL behind it. */
static bw_status decompress(const bw_bundle *b, uint32_t blob, const void *dictionary,
                            size_t dictionary_size, void **data, size_t *size) {
  const uint8_t *r = blob_record(b, blob);
  const uint8_t *frame = b->data + bwi_get_u64(r + BWF_B_OFFSET);
  size_t frame_size = (size_t)bwi_get_u64(r + BWF_B_SIZE);
  size_t raw_size = (size_t)bwi_get_u64(r + BWF_B_RAW_SIZE);
  if (ZSTD_getFrameContentSize(frame, frame_size) != raw_size)
    return fail_blob(b, blob, "the frame's size is not the index's");
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
    return fail_blob(b, blob,
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
  if (!blob_is(b, blob, BWF_KIND_DICTIONARY))
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
  return decompress(bundle, bwi_get_u32(entry_record(bundle, index) + field),
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
    return fail_blob(bundle, bwi_get_u32(entry_record(bundle, index) + BWF_E_PTX),
                     "a NUL within the text");
  }
  *text = data;
  if (size)
    *size = length;
  return BW_OK;
}

/* ---- life -------------------------------------------------------------------------------- */

static bw_status verify(bw_bundle *b) {
  uint64_t payload = 0;
  bw_status status = check_header(b->data, b->size);
  if (status == BW_OK)
    status = find_sections(b, &payload);
  if (status == BW_OK)
    status = check_strings(b);
  if (status == BW_OK)
    status = read_entries(b);
  if (status == BW_OK)
    status = check_blobs(b, payload);
  if (status == BW_OK)
    status = open_dictionary(b, DICTIONARY_CUBIN, BWF_H_CUBIN_DICTIONARY);
  if (status == BW_OK)
    status = open_dictionary(b, DICTIONARY_PTX, BWF_H_PTX_DICTIONARY);
  return status;
}

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
  bw_status status = verify(b);
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
    int order = compare_names(&bundle->info[middle], family, arch, key);
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
  return bwi_get_u32(entry_record(bundle, index) + BWF_E_PARAMETER_BYTES);
}

size_t bwi_bundle_attribute_count(const bw_bundle *bundle, size_t index) {
  return bwi_get_u32(entry_record(bundle, index) + BWF_E_ATTRIBUTES);
}

const char *bwi_bundle_attribute_at(const bw_bundle *bundle, size_t index, size_t i,
                                    uint32_t *value) {
  size_t first = bwi_get_u32(entry_record(bundle, index) + BWF_E_FIRST_ATTRIBUTE);
  const uint8_t *a = bundle->attributes + (first + i) * BWF_ATTRIBUTE_SIZE;
  *value = bwi_get_u32(a + BWF_A_VALUE);
  return string_at(bundle, a + BWF_A_NAME);
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
