/* SPDX-License-Identifier: Apache-2.0
 *
 * Verifying bundles.  Nothing in the file is trusted: each number is checked against the
 * file's size before it is used, and sizes are added only where they cannot overflow.
 */
#include "bundle_private.h"
#include "error.h"
#include "hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool all_zero(const uint8_t *p, size_t size) {
  for (size_t i = 0; i < size; i++)
    if (p[i] != 0)
      return false;
  return true;
}

/* ---- header and sections --------------------------------------------------------- */

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

/* ---- blobs ------------------------------------------------------------------------ */

/* What a message calls a blob: by the first entry that uses it. */
static void blob_name(const bw_bundle *b, uint32_t blob, char *text, size_t size) {
  for (uint32_t i = 0; i < b->entry_count; i++) {
    const uint8_t *e = bwi_entry_record(b, i);
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

void bwi_record_blob(const bw_bundle *b, uint32_t blob, const char *what) {
  char name[256];
  blob_name(b, blob, name, sizeof name);
  bwi_record(0, "corrupted bundle: %s: %s", name, what);
}

/* Places, sizes and hashes: the blobs fill the payload without a gap. */
static bw_status check_blobs(const bw_bundle *b, uint64_t payload) {
  uint64_t file_size = bwi_get_u64(b->data + BWF_H_FILE_SIZE);
  uint64_t end = payload;
  for (uint32_t i = 0; i < b->blob_count; i++) {
    const uint8_t *r = bwi_blob_record(b, i);
    uint64_t offset = bwi_get_u64(r + BWF_B_OFFSET);
    uint64_t size = bwi_get_u64(r + BWF_B_SIZE);
    uint64_t raw_size = bwi_get_u64(r + BWF_B_RAW_SIZE);
    uint32_t kind = bwi_get_u32(r + BWF_B_KIND);
    if (offset != end || !bwi_within(offset, size, file_size))
      return bwi_fail_blob(b, i, "it is out of place");
    if (!bwi_within(offset, size, b->size)) {
      char name[256];
      blob_name(b, i, name, sizeof name);
      return fail_truncated(b, name);
    }
    if (kind < BWF_KIND_CUBIN || kind > BWF_KIND_DICTIONARY || bwi_get_u32(r + BWF_B_RESERVED) != 0)
      return bwi_fail_blob(b, i, "unknown kind of contents");
    if (raw_size == 0 || raw_size > BWF_MAX_RAW_SIZE)
      return bwi_fail_blob(b, i, "impossible size");
    if (bwi_hash64(b->data + offset, (size_t)size) != bwi_get_u64(r + BWF_B_HASH))
      return bwi_fail_blob(b, i, "the checksum does not match");
    end = offset + size;
  }
  if (end != file_size)
    return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: %" PRIu64 " bytes after the last entry",
                    file_size - end);
  return BW_OK;
}

/* ---- entries ---------------------------------------------------------------------- */

static bw_status fail_entry(size_t index, const char *what) {
  return bwi_fail(BW_ERROR_BUNDLE, "corrupted bundle: entry %zu: %s", index, what);
}

int bwi_compare_names(const bw_kernel_info *a, const char *family, const char *arch,
                      const char *key) {
  int order = strcmp(a->family, family);
  if (order == 0)
    order = strcmp(a->arch, arch);
  return order != 0 ? order : strcmp(a->key, key);
}

static bw_status check_attributes(const bw_bundle *b, size_t index) {
  const uint8_t *e = bwi_entry_record(b, index);
  uint32_t first = bwi_get_u32(e + BWF_E_FIRST_ATTRIBUTE);
  uint32_t count = bwi_get_u32(e + BWF_E_ATTRIBUTES);
  if (!bwi_within(first, count, b->attribute_count))
    return fail_entry(index, "its attributes are out of place");
  const char *last = "";
  for (uint32_t i = 0; i < count; i++) {
    const uint8_t *a = b->attributes + ((size_t)first + i) * BWF_ATTRIBUTE_SIZE;
    const char *name = bwi_string_at(b, a + BWF_A_NAME);
    if (!name || strcmp(last, name) >= 0)
      return fail_entry(index, "its attributes are not sorted by name");
    last = name;
  }
  return BW_OK;
}

static bw_status read_entry(const bw_bundle *b, size_t index, bw_kernel_info *k) {
  const uint8_t *e = bwi_entry_record(b, index);
  k->family = bwi_string_at(b, e + BWF_E_FAMILY);
  k->arch = bwi_string_at(b, e + BWF_E_ARCH);
  k->key = bwi_string_at(b, e + BWF_E_KEY);
  k->symbol = bwi_string_at(b, e + BWF_E_SYMBOL);
  k->ptxas = bwi_string_at(b, e + BWF_E_PTXAS);
  if (!k->family || !k->arch || !k->key || !k->symbol || !k->ptxas)
    return fail_entry(index, "a name is out of place");
  if (index > 0) {
    const bw_kernel_info *last = &b->info[index - 1];
    if (bwi_compare_names(last, k->family, k->arch, k->key) >= 0)
      return fail_entry(index, "the entries are not sorted by name");
  }
  if (!bwi_blob_is(b, bwi_get_u32(e + BWF_E_CUBIN), BWF_KIND_CUBIN) ||
      !bwi_blob_is(b, bwi_get_u32(e + BWF_E_PTX), BWF_KIND_PTX))
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

/* ---- the whole ---------------------------------------------------------------------- */

bw_status bwi_bundle_verify(bw_bundle *b) {
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
  return status;
}
