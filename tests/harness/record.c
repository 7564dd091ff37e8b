/* SPDX-License-Identifier: Apache-2.0
 *
 * Which cases are recorded, and the text of a record; see record.h.
 */
#include "harness/record.h"

#include "bundle.h"
#include "harness/random.h"
#include "hash.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

enum { SEED = 20261130 };

/* ---- cases ----------------------------------------------------------------------------- */

/* Each way through the kernel: every tile up to 32 tokens, ragged and full tiles above. */
static const uint8_t tokens_of[] = {1,  2,  3,  4,  5,  6,  7,  8,  9,  10, 12, 13, 15, 16, 17,
                                    20, 23, 24, 25, 28, 31, 32, 33, 40, 48, 64, 65, 96, 97, 128};
static const uint8_t heads_of[] = {1, 2, 4, 8};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static size_t add(struct bwt_record *records, size_t at, struct bwt_record one) {
  one.seed = bwt_mix(SEED, at) >> 32;
  if (records != NULL)
    records[at] = one;
  return at + 1;
}

static size_t wo_a_cases(struct bwt_record *records, size_t n) {
  struct bwt_record one = {.wo_a = true, .groups = 1, .rank = 128};
  for (size_t t = 0; t < COUNT(tokens_of); t++)
    for (size_t h = 0; h < COUNT(heads_of); h++) {
      one.tokens = tokens_of[t];
      one.heads = heads_of[h];
      n = add(records, n, one);
    }
  one.heads = 2;
  for (one.kind = 1; one.kind < BWT_WO_A_KIND_COUNT; one.kind++)
    for (one.tokens = 1; one.tokens < 40; one.tokens = 4 * one.tokens + 1)
      n = add(records, n, one);
  one = (struct bwt_record){
      .wo_a = true, .tokens = 3, .groups = 3, .heads = 8, .rank = 256, .kind = BWT_WO_A_normal};
  return add(records, n, one);
}

static size_t up_proj_cases(struct bwt_record *records, size_t n) {
  struct bwt_record one = {.latent = 3584};
  for (one.tp_size = 8; one.tp_size <= 16; one.tp_size *= 2)
    for (one.rows = 1; one.rows <= BW_UP_PROJ_MAX_ROWS; one.rows++) {
      one.hidden = 448 * one.tp_size;
      n = add(records, n, one);
    }
  one.rows = 2; /* S = 896 and the kernels for any S */
  one.tp_size = 8;
  for (one.hidden = 7168; one.hidden >= 512; one.hidden /= 14)
    n = add(records, n, one);
  one.hidden = 128;
  one.tp_size = 2;
  for (one.kind = 1; one.kind < BWT_UP_PROJ_KIND_COUNT; one.kind++)
    for (one.rows = 1; one.rows <= BW_UP_PROJ_MAX_ROWS; one.rows += 3)
      n = add(records, n, one);
  return n;
}

size_t bwt_record_cases(struct bwt_record *records) {
  return up_proj_cases(records, wo_a_cases(records, 0));
}

/* ---- the code that runs -------------------------------------------------------------------- */

static bool find_key(struct bwt_record *r) {
  if (r->wo_a) {
    bw_wo_a_key key;
    return bw_wo_a_dispatch(r->tokens, r->heads, &key) == BW_OK &&
           bw_wo_a_key_name(&key, r->key) == BW_OK;
  }
  bw_up_proj_key key;
  return bw_up_proj_dispatch(r->rows, r->hidden / r->tp_size, r->latent, &key) == BW_OK &&
         bw_up_proj_key_name(&key, BW_MAILBOX_LOCAL, r->key) == BW_OK;
}

bool bwt_record_identify(const struct bwt_session *s, struct bwt_record *r, struct bwt_text *why) {
  bw_device_info info;
  void *cubin = NULL;
  size_t size = 0;
  if (bw_device_query(s->device, &info) != BW_OK || !find_key(r)) {
    bwt_say(why, "%s", bw_last_error());
    return false;
  }
  const size_t entry = bwi_bundle_find(s->bundle, r->wo_a ? "wo_a" : "up_proj", info.arch, r->key);
  if (entry >= bw_bundle_count(s->bundle) ||
      bw_bundle_cubin(s->bundle, entry, &cubin, &size) != BW_OK) {
    bwt_say(why, "the bundle has no %s for %s", r->key, info.arch);
    return false;
  }
  r->cubin = bwi_hash64(cubin, size);
  bw_free(cubin);
  return true;
}

/* ---- text ---------------------------------------------------------------------- */

void bwt_record_name(const struct bwt_record *r, char *name, size_t size) {
  if (r->wo_a)
    snprintf(name, size, "wo_a t=%u g=%u h=%u r=%u kind=%s seed=%" PRIu64, r->tokens, r->groups,
             r->heads, r->rank, bwt_wo_a_kind_name((enum bwt_wo_a_kind)r->kind), r->seed);
  else
    snprintf(name, size, "up_proj m=%u tp=%u l=%u n=%u kind=%s seed=%" PRIu64, r->rows, r->tp_size,
             r->latent, r->hidden, bwt_up_proj_kind_name((enum bwt_up_proj_kind)r->kind), r->seed);
}

void bwt_record_print(FILE *file, const struct bwt_record *r, bool with_bits) {
  char name[160];
  bwt_record_name(r, name, sizeof name);
  fprintf(file, "%s key=%s cubin=%016" PRIx64 " hash=%016" PRIx64 " size=%zu", name, r->key,
          r->cubin, r->hash, r->size);
  if (r->emulated != 0)
    fprintf(file, " emu=%016" PRIx64, r->emulated);
  if (with_bits && r->bits != NULL) {
    fputs(" bits=", file);
    for (size_t i = 0; i < r->size; i++)
      fprintf(file, "%02x", r->bits[i]);
  }
  fputc('\n', file);
}

static bool parse_bits(struct bwt_record *r, const char *hex) {
  const size_t size = strlen(hex) / 2;
  r->bits = malloc(size + 1);
  for (size_t i = 0; r->bits != NULL && i < size; i++) {
    const char digits[3] = {hex[2 * i], hex[2 * i + 1], '\0'};
    char *end;
    r->bits[i] = (uint8_t)strtoul(digits, &end, 16);
    if (*end != '\0')
      return false;
  }
  return r->bits != NULL;
}

static bool parse_field(struct bwt_record *r, const char *name, const char *value) {
  const struct {
    const char *name;
    uint32_t *number;
  } numbers[] = {{"t", &r->tokens}, {"g", &r->groups},   {"h", &r->heads},  {"r", &r->rank},
                 {"m", &r->rows},   {"tp", &r->tp_size}, {"l", &r->latent}, {"n", &r->hidden}};
  const struct {
    const char *name;
    uint64_t *number;
  } hashes[] = {{"cubin", &r->cubin}, {"hash", &r->hash}, {"emu", &r->emulated}};
  for (size_t i = 0; i < COUNT(numbers); i++)
    if (strcmp(name, numbers[i].name) == 0)
      return (*numbers[i].number = (uint32_t)strtoul(value, NULL, 10)), true;
  for (size_t i = 0; i < COUNT(hashes); i++)
    if (strcmp(name, hashes[i].name) == 0)
      return (*hashes[i].number = strtoull(value, NULL, 16)), true;
  if (strcmp(name, "seed") == 0)
    return (r->seed = strtoull(value, NULL, 10)), true;
  if (strcmp(name, "size") == 0)
    return (r->size = (size_t)strtoull(value, NULL, 10)), true;
  if (strcmp(name, "key") == 0)
    return snprintf(r->key, sizeof r->key, "%s", value) < (int)sizeof r->key;
  if (strcmp(name, "bits") == 0)
    return parse_bits(r, value);
  if (strcmp(name, "kind") != 0)
    return false;
  r->kind = r->wo_a ? (uint32_t)bwt_wo_a_kind_find(value) : (uint32_t)bwt_up_proj_kind_find(value);
  return r->kind < (r->wo_a ? (uint32_t)BWT_WO_A_KIND_COUNT : (uint32_t)BWT_UP_PROJ_KIND_COUNT);
}

bool bwt_record_parse(char *line, struct bwt_record *r) {
  char *rest = line, *field = strsep(&rest, " ");
  *r = (struct bwt_record){.wo_a = strcmp(field, "wo_a") == 0};
  if (!r->wo_a && strcmp(field, "up_proj") != 0)
    return false;
  while ((field = strsep(&rest, " \n")) != NULL) {
    char *value = strchr(field, '=');
    if (*field == '\0')
      continue;
    if (value == NULL)
      return false;
    *value++ = '\0';
    if (!parse_field(r, field, value))
      return false;
  }
  return r->size > 0 && (r->wo_a ? r->tokens > 0 && r->heads > 0 : r->rows > 0 && r->tp_size > 0);
}
