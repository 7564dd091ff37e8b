/* SPDX-License-Identifier: Apache-2.0
 *
 * Which kernels are mutated, and bundles with one of them replaced; see kernels.h.
 */
#include "mutate/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const archs[] = {"sm_100f", "sm_90a"};
static const char *const families[] = {"wo_a", "up_proj", "lamport_copy"};

enum { MOST_KERNELS = 64 };

/* The attribute of kernels that loop over n tiles: 1, or the most clusters to have at once. */
static const char ANY_CLUSTERS[] = "any_clusters";

/* One token, an odd number of them, a full tile, and two tiles of which the second is
 * ragged: T is what the last of them leaves. */
static const uint32_t wo_a_tokens[] = {1, 7, 32, 54};
static const uint32_t wo_a_heads[] = {1, 8};
/* Those of any S, with few and with many rows. */
static const char *const up_proj_keys[] = {"m1_b224o8u1v8", "m8_b224o4u2v8"};
static const char *const modes[] = {"multicast", "peers", "local"};

static void give_up(const char *what, const char *why) {
  (void)fprintf(stderr, "mutate: %s: %s\n", what, why);
  exit(2);
}

/* ---- which ------------------------------------------------------------------------------ */

static void read_kernel(const struct bwm_bundles *from, struct bwm_kernel *k) {
  size_t size, index = bwi_bundle_find(from->shipped, families[k->family], k->arch, k->key);
  snprintf(k->name, sizeof k->name, "%s/%s/%s", families[k->family], k->arch, k->key);
  if (index == BWI_NOT_FOUND)
    give_up(k->name, "the bundle has no such kernel");
  uint32_t any;
  k->loops = bwi_bundle_attribute(from->shipped, index, ANY_CLUSTERS, &any) && any != 0;
  char *ptx;
  if (bw_bundle_ptx(from->shipped, index, &ptx, &size) != BW_OK)
    give_up(k->name, bw_last_error());
  k->ptx = strndup(ptx, size);
  bw_free(ptx);
  if (k->ptx == NULL || !bwm_mutants(k->ptx, &k->mutants, &k->mutant_count))
    give_up(k->name, "no memory");
}

static void key_of_wo_a(struct bwm_kernel *k) {
  bw_wo_a_key key;
  if (bw_wo_a_dispatch(k->tokens, k->heads, &key) != BW_OK ||
      bw_wo_a_key_name(&key, k->key) != BW_OK)
    give_up("wo_a", bw_last_error());
}

size_t bwm_kernels(const struct bwm_bundles *from, struct bwm_kernel **out) {
  struct bwm_kernel *all = calloc(MOST_KERNELS, sizeof *all), *k = all;
  if (all == NULL)
    give_up("kernels", "no memory");
  for (size_t a = 0; a < sizeof archs / sizeof *archs; a++) {
    for (size_t i = 0; i < sizeof wo_a_tokens / sizeof *wo_a_tokens; i++)
      for (size_t h = 0; h < sizeof wo_a_heads / sizeof *wo_a_heads; h++, k++) {
        *k = (struct bwm_kernel){
            .family = BWM_WO_A, .arch = archs[a], .tokens = wo_a_tokens[i], .heads = wo_a_heads[h]};
        key_of_wo_a(k);
      }
    for (size_t i = 0; i < sizeof up_proj_keys / sizeof *up_proj_keys; i++)
      for (size_t m = 0; m < sizeof modes / sizeof *modes; m++, k++) {
        *k = (struct bwm_kernel){
            .family = BWM_UP_PROJ, .arch = archs[a], .rows = (uint32_t)atoi(up_proj_keys[i] + 1)};
        snprintf(k->key, sizeof k->key, "%s_%s", up_proj_keys[i], modes[m]);
      }
    *k = (struct bwm_kernel){.family = BWM_LAMPORT_COPY, .arch = archs[a], .key = "b128"};
    k++;
  }
  for (struct bwm_kernel *one = all; one < k; one++)
    read_kernel(from, one);
  *out = all;
  return (size_t)(k - all);
}

/* ---- bundles ----------------------------------------------------------------------------- */

static bool failed(bw_status status, struct bwt_text *why) {
  if (status != BW_OK)
    bwt_say(why, "%s: %s\n", bw_status_text(status), bw_last_error());
  return status != BW_OK;
}

/* Plans load every kernel that they may launch; those that no case launches do nothing. */
static void empty_body(char *ptx) {
  static const char body[] = "\n{\n", nothing[] = "  exit;\n}\n";
  char *at = strstr(ptx, body);
  if (at != NULL)
    strcpy(at + sizeof body - 1, nothing);
}

/* ptx: NULL: its own; "": its own with an empty body.  clusters: the most at once, 0: as many as
 * fit.  Emulated drivers read no cubin. */
static bool plant_entry(bwi_writer *writer, const bw_bundle *from, const char *family,
                        const char *arch, const char *key, const char *ptx, uint32_t clusters,
                        struct bwt_text *why) {
  size_t index = bwi_bundle_find(from, family, arch, key);
  if (index == BWI_NOT_FOUND) {
    bwt_say(why, "no %s %s %s in the bundle\n", family, arch, key);
    return false;
  }
  bwi_entry e = {.info = *bwi_bundle_entry(from, index),
                 .parameter_bytes = bwi_bundle_parameter_bytes(from, index),
                 .attribute_count = bwi_bundle_attribute_count(from, index),
                 .cubin = "-",
                 .cubin_size = 1};
  bwi_attribute *attributes = calloc(e.attribute_count + 1, sizeof *attributes);
  char *own = NULL;
  size_t size = 0;
  bool ok = attributes != NULL && !failed(bw_bundle_ptx(from, index, &own, &size), why);
  char *text = ok ? strndup(own, size) : NULL;
  bw_free(own);
  ok = ok && text != NULL;
  for (size_t i = 0; ok && i < e.attribute_count; i++) {
    attributes[i].name = bwi_bundle_attribute_at(from, index, i, &attributes[i].value);
    if (clusters != 0 && strcmp(attributes[i].name, ANY_CLUSTERS) == 0)
      attributes[i].value = clusters;
  }
  if (ok) {
    if (ptx != NULL && *ptx == '\0')
      empty_body(text);
    e.attributes = attributes;
    e.ptx = ptx != NULL && *ptx != '\0' ? ptx : text;
    e.ptx_size = strlen(e.ptx);
    ok = !failed(bwi_writer_add(writer, &e), why);
  }
  free(text);
  free(attributes);
  return ok;
}

static bool plant_wo_a(bwi_writer *writer, const struct bwm_bundles *from,
                       const struct bwm_kernel *k, const char *ptx, uint32_t clusters,
                       struct bwt_text *why) {
  bw_wo_a_key keys[BW_WO_A_MAX_TOKENS];
  size_t count;
  bool ok = !failed(bw_wo_a_keys(k->tokens, k->heads, keys, BW_WO_A_MAX_TOKENS, &count), why);
  for (size_t i = 0; ok && i < count; i++) {
    char name[BW_WO_A_KEY_NAME_SIZE];
    ok = !failed(bw_wo_a_key_name(&keys[i], name), why) &&
         plant_entry(writer, from->shipped, "wo_a", k->arch, name,
                     strcmp(name, k->key) == 0 ? ptx : "", clusters, why);
  }
  return ok;
}

/* up_proj's kernels of M = 1..8 with any S, where `ptx` replaces the one named `key`: the
 * shipped ones, or those of one warp, which are the tests' own. */
static bool plant_up_proj(bwi_writer *writer, const bw_bundle *from, const char *arch,
                          const char *mode, const char *key, const char *ptx,
                          struct bwt_text *why) {
  bool ok = true;
  for (int rows = 1; ok && rows <= (int)BW_UP_PROJ_MAX_ROWS; rows++) {
    char name[64];
    snprintf(name, sizeof name,
             key == NULL ? "m%d_b32o2u1v8_%s"
             : rows == 1 ? "m%d_b224o8u1v8_%s"
                         : "m%d_b224o4u2v8_%s",
             rows, mode);
    const char *body = key == NULL ? NULL : strcmp(name, key) == 0 ? ptx : "";
    ok = plant_entry(writer, from, "up_proj", arch, name, body, 0, why);
  }
  return ok;
}

bool bwm_plant(const struct bwm_bundles *from, const struct bwm_kernel *k, const char *ptx,
               uint32_t clusters, struct bwt_rebundled *out, struct bwt_text *why) {
  bwi_writer *writer = NULL;
  size_t size = 0;
  memset(out, 0, sizeof *out);
  bool ok = !failed(bwi_writer_new(&writer), why);
  switch (ok ? k->family : MOST_KERNELS) {
  case BWM_WO_A:
    ok = plant_wo_a(writer, from, k, ptx, clusters, why);
    break;
  case BWM_UP_PROJ:
    ok =
        plant_up_proj(writer, from->shipped, k->arch, strrchr(k->key, '_') + 1, k->key, ptx, why) &&
        plant_entry(writer, from->shipped, "lamport_copy", k->arch, "b128", NULL, 0, why);
    break;
  case BWM_LAMPORT_COPY:
    ok = plant_entry(writer, from->shipped, "lamport_copy", k->arch, k->key, ptx, 0, why);
    for (size_t m = 0; ok && m < sizeof modes / sizeof *modes; m++)
      ok = plant_up_proj(writer, from->test, k->arch, modes[m], NULL, NULL, why);
    break;
  default:
    break;
  }
  ok = ok && !failed(bwi_writer_finish(writer, &out->memory, &size), why);
  bwi_writer_free(writer);
  if (ok && !failed(bw_bundle_open_memory(out->memory, size, &out->bundle), why))
    return true;
  free(out->memory);
  out->memory = NULL;
  return false;
}
