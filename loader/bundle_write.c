/* SPDX-License-Identifier: Apache-2.0
 *
 * Writing bundles: collects entries, then lays out the file of bundle_format.h.
 */
#include "bundle.h"
#include "bundle_format.h"
#include "bytes.h"
#include "error.h"
#include "hash.h"
#include "ptx_facts.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <zstd.h>

/* Measured on the 200 kernels of wo_a for sm_100f (16.7 MB of cubins, 11.2 MB of PTX):
 *
 *   level, exemplars in the dictionary    19, none  19, 1  19, 8  15, 16  19, 16
 *   cubins, dictionary included, KiB          3037   1416    894     799     722
 *   PTX, dictionary included, KiB             1424    234     48      41      41
 *   seconds of processor time                   16      8      8       5      11
 *
 * One exemplar in 12 is those 16. */
enum { COMPRESSION_LEVEL = 15, BLOBS_PER_EXEMPLAR = 12, MAX_EXEMPLARS = 32 };

typedef struct bytes {
  uint8_t *data;
  size_t size;
} bytes;

/* A copy of what was added; all memory is the writer's. */
typedef struct stored {
  bw_kernel_info info;
  uint32_t parameter_bytes;
  bwi_attribute *attributes; /* sorted by name */
  size_t attribute_count;
  bytes cubin, ptx;
  uint32_t cubin_blob, ptx_blob; /* set by finish */
} stored;

struct bwi_writer {
  stored *entries;
  size_t count, capacity;
};

/* ---- adding ---------------------------------------------------------------------- */

static void free_stored(stored *s) {
  free((char *)s->info.family);
  free((char *)s->info.arch);
  free((char *)s->info.key);
  free((char *)s->info.symbol);
  free((char *)s->info.ptxas);
  for (size_t i = 0; i < s->attribute_count; i++)
    free((char *)s->attributes[i].name);
  free(s->attributes);
  free(s->cubin.data);
  free(s->ptx.data);
}

static bw_status check_string(const char *what, const char *s) {
  if (!s || *s == '\0')
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "the entry's %s is empty", what);
  for (const char *c = s; *c; c++)
    if (*c < 0x20 || *c > 0x7E)
      return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "the entry's %s is not printable ASCII", what);
  return BW_OK;
}

static bw_status check_contents(const char *what, const bwi_entry *e, const void *data,
                                size_t size) {
  if (!data || size == 0 || size > BWF_MAX_RAW_SIZE)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "the %s of %s has %zu bytes, must have 1..%u", what,
                    e->info.key, data ? size : 0, BWF_MAX_RAW_SIZE);
  return BW_OK;
}

static bw_status check_entry(const bwi_entry *e) {
  bw_status status = check_string("family", e->info.family);
  if (status == BW_OK)
    status = check_string("arch", e->info.arch);
  if (status == BW_OK)
    status = check_string("key", e->info.key);
  if (status == BW_OK)
    status = check_string("symbol", e->info.symbol);
  if (status == BW_OK)
    status = check_string("ptxas version and flags", e->info.ptxas);
  for (size_t i = 0; status == BW_OK && i < e->attribute_count; i++)
    status = check_string("attribute name", e->attributes[i].name);
  if (status == BW_OK)
    status = check_contents("PTX", e, e->ptx, e->ptx_size);
  if (status == BW_OK)
    status = check_contents("cubin", e, e->cubin, e->cubin_size);
  if (status != BW_OK)
    return status;
  if (memchr(e->ptx, '\0', e->ptx_size))
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "the PTX of %s holds a NUL", e->info.key);
  if (e->info.threads == 0 || e->info.cluster == 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s has no threads or no cluster size", e->info.key);
  return BW_OK;
}

static bool copy_bytes(bytes *to, const void *data, size_t size) {
  to->data = malloc(size);
  if (!to->data)
    return false;
  memcpy(to->data, data, size);
  to->size = size;
  return true;
}

static int by_attribute_name(const void *a, const void *b) {
  return strcmp(((const bwi_attribute *)a)->name, ((const bwi_attribute *)b)->name);
}

/* False when memory ran out; what was copied is then in `s` all the same. */
static bool copy_entry(stored *s, const bwi_entry *e) {
  *s = (stored){.info = e->info, .parameter_bytes = e->parameter_bytes};
  s->info.family = strdup(e->info.family);
  s->info.arch = strdup(e->info.arch);
  s->info.key = strdup(e->info.key);
  s->info.symbol = strdup(e->info.symbol);
  s->info.ptxas = strdup(e->info.ptxas);
  s->attributes = calloc(e->attribute_count + 1, sizeof *s->attributes);
  if (!s->info.family || !s->info.arch || !s->info.key || !s->info.symbol || !s->info.ptxas ||
      !s->attributes)
    return false;
  for (size_t i = 0; i < e->attribute_count; i++) {
    char *name = strdup(e->attributes[i].name);
    if (!name)
      return false;
    s->attributes[s->attribute_count++] = (bwi_attribute){name, e->attributes[i].value};
  }
  qsort(s->attributes, s->attribute_count, sizeof *s->attributes, by_attribute_name);
  return copy_bytes(&s->cubin, e->cubin, e->cubin_size) && copy_bytes(&s->ptx, e->ptx, e->ptx_size);
}

static bool grow(bwi_writer *w) {
  if (w->count < w->capacity)
    return true;
  size_t capacity = w->capacity ? 2 * w->capacity : 64;
  stored *entries = realloc(w->entries, capacity * sizeof *entries);
  if (!entries)
    return false;
  w->entries = entries;
  w->capacity = capacity;
  return true;
}

static int by_names(const void *a, const void *b) {
  const bw_kernel_info *x = &((const stored *)a)->info, *y = &((const stored *)b)->info;
  int order = strcmp(x->family, y->family);
  if (order == 0)
    order = strcmp(x->arch, y->arch);
  return order != 0 ? order : strcmp(x->key, y->key);
}

static bw_status check_duplicates(const bwi_writer *w, const stored *s) {
  for (size_t i = 0; i < w->count; i++)
    if (by_names(&w->entries[i], s) == 0)
      return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "entry %s %s %s is given twice", s->info.family,
                      s->info.arch, s->info.key);
  for (size_t i = 1; i < s->attribute_count; i++)
    if (strcmp(s->attributes[i - 1].name, s->attributes[i].name) == 0)
      return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "attribute %s of %s is given twice",
                      s->attributes[i].name, s->info.key);
  return BW_OK;
}

bw_status bwi_writer_new(bwi_writer **out) {
  *out = calloc(1, sizeof **out);
  return *out ? BW_OK : bwi_fail_memory("a bundle writer");
}

void bwi_writer_free(bwi_writer *writer) {
  if (!writer)
    return;
  for (size_t i = 0; i < writer->count; i++)
    free_stored(&writer->entries[i]);
  free(writer->entries);
  free(writer);
}

bw_status bwi_writer_add(bwi_writer *writer, const bwi_entry *entry) {
  bw_status status = check_entry(entry);
  if (status != BW_OK)
    return status;
  stored s;
  if (!copy_entry(&s, entry) || !grow(writer))
    status = bwi_fail_memory("a bundle entry");
  else
    status = check_duplicates(writer, &s);
  if (status == BW_OK)
    writer->entries[writer->count++] = s;
  else
    free_stored(&s);
  return status;
}

bw_status bwi_writer_add_build(bwi_writer *writer, const char *ptx_path, const char *cubin_path,
                               const char *log_path, const char *ptxas) {
  void *ptx = NULL, *cubin = NULL, *log = NULL;
  size_t ptx_size, cubin_size, log_size;
  bwi_ptx_facts facts = {0};
  bw_status status = bwi_read_file(ptx_path, &ptx, &ptx_size);
  if (status == BW_OK)
    status = bwi_read_file(cubin_path, &cubin, &cubin_size);
  if (status == BW_OK)
    status = bwi_read_file(log_path, &log, &log_size);
  if (status == BW_OK)
    status = bwi_ptx_facts_read(ptx_path, ptx, ptx_size, &facts);
  if (status == BW_OK)
    status = bwi_ptxas_log_read(log_path, log, &facts.info);
  if (status == BW_OK)
    status = bwi_cubin_read(cubin_path, cubin, cubin_size, &facts.info);
  if (status == BW_OK) {
    facts.info.ptxas = ptxas;
    bwi_entry entry = {.info = facts.info,
                       .parameter_bytes = facts.parameter_bytes,
                       .attributes = facts.attributes,
                       .attribute_count = facts.attribute_count,
                       .ptx = ptx,
                       .ptx_size = ptx_size,
                       .cubin = cubin,
                       .cubin_size = cubin_size};
    status = bwi_writer_add(writer, &entry);
  }
  bwi_ptx_facts_free(&facts);
  free(ptx);
  free(cubin);
  free(log);
  return status;
}

/* ---- finishing: blobs --------------------------------------------------------------- */

typedef struct blob {
  uint32_t kind;
  const bytes *raw;
  uint64_t raw_hash;
  bytes frame;
} blob;

/* All that finish makes on its way to the file. */
typedef struct layout {
  blob *blobs;
  size_t blob_count;
  uint32_t dictionaries[BWF_KIND_PTX + 1]; /* their blobs, by kind of what they serve */
  bytes dictionary_contents[BWF_KIND_PTX + 1];
  char *strings;
  size_t string_bytes;
} layout;

static void free_layout(layout *l) {
  for (size_t i = 0; i < l->blob_count; i++)
    free(l->blobs[i].frame.data);
  for (size_t i = 0; i <= BWF_KIND_PTX; i++)
    free(l->dictionary_contents[i].data);
  free(l->blobs);
  free(l->strings);
}

/* The blob with these contents, new or not. */
static uint32_t intern_blob(layout *l, uint32_t kind, const bytes *raw) {
  uint64_t hash = bwi_hash64(raw->data, raw->size);
  for (size_t i = 0; i < l->blob_count; i++) {
    const blob *b = &l->blobs[i];
    if (b->kind == kind && b->raw_hash == hash && b->raw->size == raw->size &&
        memcmp(b->raw->data, raw->data, raw->size) == 0)
      return (uint32_t)i;
  }
  l->blobs[l->blob_count] = (blob){.kind = kind, .raw = raw, .raw_hash = hash};
  return (uint32_t)l->blob_count++;
}

/* Compresses with a dictionary that was prepared for it, or none. */
static bool compress(ZSTD_CCtx *context, const ZSTD_CDict *dictionary, const bytes *raw,
                     bytes *frame) {
  size_t bound = ZSTD_compressBound(raw->size);
  uint8_t *data = malloc(bound);
  if (!data)
    return false;
  (void)ZSTD_CCtx_reset(context, ZSTD_reset_session_and_parameters);
  (void)ZSTD_CCtx_setParameter(context, ZSTD_c_compressionLevel, COMPRESSION_LEVEL);
  (void)ZSTD_CCtx_setParameter(context, ZSTD_c_checksumFlag, 1);
  size_t size = ZSTD_CCtx_refCDict(context, dictionary);
  if (!ZSTD_isError(size))
    size = ZSTD_compress2(context, data, bound, raw->data, raw->size);
  if (ZSTD_isError(size)) {
    free(data);
    return false;
  }
  frame->data = data;
  frame->size = size;
  return true;
}

static size_t count_kind(const layout *l, uint32_t kind) {
  size_t count = 0;
  for (size_t i = 0; i < l->blob_count; i++)
    count += l->blobs[i].kind == kind;
  return count;
}

/* Specializations of one template differ little, so a few of them, spread evenly over the
 * kind's `count` blobs, serve as the dictionary of all: their contents end to end.  Empty
 * when there are too few blobs for one.  False when memory ran out. */
static bool make_dictionary(const layout *l, uint32_t kind, size_t count, bytes *dictionary) {
  size_t exemplars = count / BLOBS_PER_EXEMPLAR;
  if (exemplars > MAX_EXEMPLARS)
    exemplars = MAX_EXEMPLARS;
  *dictionary = (bytes){0};
  for (size_t i = 0, seen = 0, taken = 0; i < l->blob_count && taken < exemplars; i++) {
    if (l->blobs[i].kind != kind || seen++ != (taken * count + count / 2) / exemplars)
      continue;
    const bytes *raw = l->blobs[i].raw;
    uint8_t *data = realloc(dictionary->data, dictionary->size + raw->size);
    if (!data)
      return false;
    memcpy(data + dictionary->size, raw->data, raw->size);
    dictionary->data = data;
    dictionary->size += raw->size;
    taken++;
  }
  return true;
}

/* Compresses all blobs of a kind, and its dictionary into a blob of its own. */
static bool compress_kind(layout *l, uint32_t kind, ZSTD_CCtx *context) {
  bytes *dictionary = &l->dictionary_contents[kind];
  ZSTD_CDict *prepared = NULL;
  bool good = make_dictionary(l, kind, count_kind(l, kind), dictionary);
  if (good && dictionary->size > 0) {
    prepared = ZSTD_createCDict(dictionary->data, dictionary->size, COMPRESSION_LEVEL);
    good = prepared != NULL;
  }
  size_t blob_count = l->blob_count;
  for (size_t i = 0; good && i < blob_count; i++)
    if (l->blobs[i].kind == kind)
      good = compress(context, prepared, l->blobs[i].raw, &l->blobs[i].frame);
  l->dictionaries[kind] = BWF_NONE;
  if (good && prepared) {
    blob b = {.kind = BWF_KIND_DICTIONARY, .raw = dictionary};
    good = compress(context, NULL, dictionary, &b.frame);
    l->dictionaries[kind] = (uint32_t)blob_count;
    l->blobs[l->blob_count++] = b;
  }
  ZSTD_freeCDict(prepared);
  return good;
}

static bool make_blobs(layout *l, bwi_writer *w) {
  l->blobs = calloc(2 * w->count + 2, sizeof *l->blobs); /* 2: the dictionaries */
  ZSTD_CCtx *context = ZSTD_createCCtx();
  bool good = l->blobs && context;
  for (size_t i = 0; good && i < w->count; i++) {
    w->entries[i].cubin_blob = intern_blob(l, BWF_KIND_CUBIN, &w->entries[i].cubin);
    w->entries[i].ptx_blob = intern_blob(l, BWF_KIND_PTX, &w->entries[i].ptx);
  }
  good =
      good && compress_kind(l, BWF_KIND_CUBIN, context) && compress_kind(l, BWF_KIND_PTX, context);
  ZSTD_freeCCtx(context);
  return good;
}

/* ---- finishing: strings ---------------------------------------------------------------- */

/* Offset of s in the string table, appended if new.  The table is large enough. */
static uint32_t intern_string(layout *l, const char *s) {
  size_t size = strlen(s) + 1;
  for (size_t at = 0; at < l->string_bytes; at += strlen(l->strings + at) + 1)
    if (strcmp(l->strings + at, s) == 0)
      return (uint32_t)at;
  memcpy(l->strings + l->string_bytes, s, size);
  l->string_bytes += size;
  return (uint32_t)(l->string_bytes - size);
}

static void intern_strings(layout *l, const stored *s) {
  const char *names[] = {s->info.family, s->info.arch, s->info.key, s->info.symbol, s->info.ptxas};
  for (size_t i = 0; i < sizeof names / sizeof *names; i++)
    (void)intern_string(l, names[i]);
  for (size_t i = 0; i < s->attribute_count; i++)
    (void)intern_string(l, s->attributes[i].name);
}

static bool make_strings(layout *l, const bwi_writer *w) {
  size_t bound = 1;
  for (size_t i = 0; i < w->count; i++) {
    const stored *s = &w->entries[i];
    bound += strlen(s->info.family) + strlen(s->info.arch) + strlen(s->info.key) +
             strlen(s->info.symbol) + strlen(s->info.ptxas) + 5;
    for (size_t k = 0; k < s->attribute_count; k++)
      bound += strlen(s->attributes[k].name) + 1;
  }
  l->strings = malloc(bound);
  if (!l->strings)
    return false;
  l->strings[0] = '\0'; /* "" at 0: a table is never empty */
  l->string_bytes = 1;
  for (size_t i = 0; i < w->count; i++)
    intern_strings(l, &w->entries[i]);
  return true;
}

/* ---- finishing: the file ------------------------------------------------------------------ */

static void put_entry(uint8_t *r, layout *l, const stored *s, uint32_t first_attribute) {
  const bw_kernel_info *k = &s->info;
  bwi_put_u32(r + BWF_E_FAMILY, intern_string(l, k->family));
  bwi_put_u32(r + BWF_E_ARCH, intern_string(l, k->arch));
  bwi_put_u32(r + BWF_E_KEY, intern_string(l, k->key));
  bwi_put_u32(r + BWF_E_SYMBOL, intern_string(l, k->symbol));
  bwi_put_u32(r + BWF_E_PTXAS, intern_string(l, k->ptxas));
  bwi_put_u32(r + BWF_E_CUBIN, s->cubin_blob);
  bwi_put_u32(r + BWF_E_PTX, s->ptx_blob);
  bwi_put_u32(r + BWF_E_REGISTERS, k->registers);
  bwi_put_u32(r + BWF_E_SHARED_STATIC, k->shared_static);
  bwi_put_u32(r + BWF_E_SHARED_DYNAMIC, k->shared_dynamic);
  bwi_put_u32(r + BWF_E_BARRIERS, k->barriers);
  bwi_put_u32(r + BWF_E_THREADS, k->threads);
  bwi_put_u32(r + BWF_E_CLUSTER, k->cluster);
  bwi_put_u32(r + BWF_E_CODE_BYTES, k->code_bytes);
  bwi_put_u32(r + BWF_E_PARAMETER_BYTES, s->parameter_bytes);
  bwi_put_u32(r + BWF_E_FLAGS, k->waits ? BWF_FLAG_WAITS : 0);
  bwi_put_u32(r + BWF_E_FIRST_ATTRIBUTE, first_attribute);
  bwi_put_u32(r + BWF_E_ATTRIBUTES, (uint32_t)s->attribute_count);
}

static void put_blob(uint8_t *r, const blob *b, uint64_t offset) {
  bwi_put_u64(r + BWF_B_OFFSET, offset);
  bwi_put_u64(r + BWF_B_SIZE, b->frame.size);
  bwi_put_u64(r + BWF_B_RAW_SIZE, b->raw->size);
  bwi_put_u64(r + BWF_B_HASH, bwi_hash64(b->frame.data, b->frame.size));
  bwi_put_u32(r + BWF_B_KIND, b->kind);
}

static size_t count_attributes(const bwi_writer *w) {
  size_t count = 0;
  for (size_t i = 0; i < w->count; i++)
    count += w->entries[i].attribute_count;
  return count;
}

/* Fills everything but the header; p is where the index begins. */
static void put_index(uint8_t *p, layout *l, const bwi_writer *w, uint64_t payload) {
  uint8_t *attribute = p + w->count * BWF_ENTRY_SIZE;
  uint8_t *record = attribute + count_attributes(w) * BWF_ATTRIBUTE_SIZE;
  uint32_t first = 0;
  for (size_t i = 0; i < w->count; i++) {
    const stored *s = &w->entries[i];
    put_entry(p + i * BWF_ENTRY_SIZE, l, s, first);
    first += (uint32_t)s->attribute_count;
    for (size_t k = 0; k < s->attribute_count; k++, attribute += BWF_ATTRIBUTE_SIZE) {
      bwi_put_u32(attribute + BWF_A_NAME, intern_string(l, s->attributes[k].name));
      bwi_put_u32(attribute + BWF_A_VALUE, s->attributes[k].value);
    }
  }
  for (size_t i = 0; i < l->blob_count; i++, record += BWF_BLOB_SIZE) {
    put_blob(record, &l->blobs[i], payload);
    payload += l->blobs[i].frame.size;
  }
  memcpy(record, l->strings, l->string_bytes);
}

static bw_status put_file(layout *l, const bwi_writer *w, void **data, size_t *size) {
  size_t attributes = count_attributes(w);
  size_t index_size = w->count * BWF_ENTRY_SIZE + attributes * BWF_ATTRIBUTE_SIZE +
                      l->blob_count * BWF_BLOB_SIZE + l->string_bytes;
  size_t total = BWF_HEADER_SIZE + index_size;
  for (size_t i = 0; i < l->blob_count; i++)
    total += l->blobs[i].frame.size;
  uint8_t *h = calloc(1, total);
  if (!h)
    return bwi_fail_memory("the bundle");
  put_index(h + BWF_HEADER_SIZE, l, w, BWF_HEADER_SIZE + index_size);
  uint8_t *payload = h + BWF_HEADER_SIZE + index_size;
  for (size_t i = 0; i < l->blob_count; i++) {
    memcpy(payload, l->blobs[i].frame.data, l->blobs[i].frame.size);
    payload += l->blobs[i].frame.size;
  }
  memcpy(h + BWF_H_MAGIC, BWF_MAGIC, BWF_MAGIC_SIZE);
  bwi_put_u32(h + BWF_H_ENDIAN, BWF_ENDIAN);
  bwi_put_u32(h + BWF_H_VERSION, BWF_VERSION);
  bwi_put_u64(h + BWF_H_FILE_SIZE, total);
  bwi_put_u64(h + BWF_H_INDEX_HASH, bwi_hash64(h + BWF_HEADER_SIZE, index_size));
  bwi_put_u32(h + BWF_H_ENTRY_COUNT, (uint32_t)w->count);
  bwi_put_u32(h + BWF_H_ATTRIBUTE_COUNT, (uint32_t)attributes);
  bwi_put_u32(h + BWF_H_BLOB_COUNT, (uint32_t)l->blob_count);
  bwi_put_u32(h + BWF_H_STRING_BYTES, (uint32_t)l->string_bytes);
  bwi_put_u32(h + BWF_H_CUBIN_DICTIONARY, l->dictionaries[BWF_KIND_CUBIN]);
  bwi_put_u32(h + BWF_H_PTX_DICTIONARY, l->dictionaries[BWF_KIND_PTX]);
  bwi_put_u64(h + BWF_H_HASH, bwi_hash64(h, BWF_H_HASH));
  *data = h;
  *size = total;
  return BW_OK;
}

bw_status bwi_writer_finish(bwi_writer *writer, void **data, size_t *size) {
  if (writer->count == 0)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "a bundle needs at least one entry");
  qsort(writer->entries, writer->count, sizeof *writer->entries, by_names);
  layout l = {0};
  bw_status status = make_blobs(&l, writer) && make_strings(&l, writer)
                         ? put_file(&l, writer, data, size)
                         : bwi_fail_memory("the bundle");
  free_layout(&l);
  return status;
}
