/* SPDX-License-Identifier: Apache-2.0
 *
 * A bundle made from entries of another; see rebundle.h.
 */
#include "harness/rebundle.h"

#include <stdlib.h>
#include <string.h>

static bool failed(bw_status status, struct bwt_text *why) {
  if (status != BW_OK)
    bwt_say(why, "%s: %s\n", bw_status_text(status), bw_last_error());
  return status != BW_OK;
}

/* Under its own key, or under each of `names`. */
static bool write_bundle(bwi_entry *entry, char (*names)[BW_WO_A_KEY_NAME_SIZE], size_t count,
                         struct bwt_rebundled *out, struct bwt_text *why) {
  bwi_writer *writer = NULL;
  size_t size = 0;
  bool ok = !failed(bwi_writer_new(&writer), why);
  if (names == NULL)
    ok = ok && !failed(bwi_writer_add(writer, entry), why);
  for (size_t i = 0; ok && names != NULL && i < count; i++) {
    entry->info.key = names[i];
    ok = !failed(bwi_writer_add(writer, entry), why);
  }
  ok = ok && !failed(bwi_writer_finish(writer, &out->memory, &size), why);
  bwi_writer_free(writer);
  if (!ok)
    return false;
  if (!failed(bw_bundle_open_memory(out->memory, size, &out->bundle), why))
    return true;
  free(out->memory);
  return false;
}

bool bwt_rebundle(const bw_bundle *from, const char *family, const char *arch, const char *key,
                  bwt_edit edit, void *arg, struct bwt_rebundled *out, struct bwt_text *why) {
  return bwt_rebundle_as(from, family, arch, key, NULL, 0, edit, arg, out, why);
}

bool bwt_rebundle_as(const bw_bundle *from, const char *family, const char *arch, const char *key,
                     char (*names)[BW_WO_A_KEY_NAME_SIZE], size_t count, bwt_edit edit, void *arg,
                     struct bwt_rebundled *out, struct bwt_text *why) {
  memset(out, 0, sizeof *out);
  size_t index = bwi_bundle_find(from, family, arch, key);
  if (index == BWI_NOT_FOUND) {
    bwt_say(why, "the bundle has no %s %s %s\n", family, arch, key);
    return false;
  }
  bwi_entry e = {.info = *bwi_bundle_entry(from, index),
                 .parameter_bytes = bwi_bundle_parameter_bytes(from, index),
                 .attribute_count = bwi_bundle_attribute_count(from, index)};
  bwi_attribute *attributes = calloc(e.attribute_count + 1, sizeof *attributes);
  char *ptx = NULL;
  void *cubin = NULL;
  bool ok = attributes != NULL && !failed(bw_bundle_ptx(from, index, &ptx, &e.ptx_size), why) &&
            !failed(bw_bundle_cubin(from, index, &cubin, &e.cubin_size), why);
  if (ok) {
    for (size_t i = 0; i < e.attribute_count; i++)
      attributes[i].name = bwi_bundle_attribute_at(from, index, i, &attributes[i].value);
    e.attributes = attributes;
    e.ptx = ptx;
    e.cubin = cubin;
    if (edit != NULL)
      edit(&e, attributes, arg);
    ok = write_bundle(&e, names, count, out, why);
  }
  bw_free(cubin);
  bw_free(ptx);
  free(attributes);
  return ok;
}

static bool add_edited(const bw_bundle *from, size_t index, bwt_edit_all edit, void *arg,
                       bwi_writer *writer, struct bwt_text *why) {
  bwi_entry e = {.info = *bwi_bundle_entry(from, index),
                 .parameter_bytes = bwi_bundle_parameter_bytes(from, index),
                 .attribute_count = bwi_bundle_attribute_count(from, index)};
  bwi_attribute *attributes = calloc(e.attribute_count + 1, sizeof *attributes);
  char *ptx = NULL;
  void *cubin = NULL;
  bool ok = attributes != NULL && !failed(bw_bundle_ptx(from, index, &ptx, &e.ptx_size), why) &&
            !failed(bw_bundle_cubin(from, index, &cubin, &e.cubin_size), why);
  if (ok) {
    for (size_t i = 0; i < e.attribute_count; i++)
      attributes[i].name = bwi_bundle_attribute_at(from, index, i, &attributes[i].value);
    e.attributes = attributes;
    e.ptx = ptx;
    e.cubin = cubin;
    if (edit(&e, arg))
      ok = !failed(bwi_writer_add(writer, &e), why);
  }
  bw_free(cubin);
  bw_free(ptx);
  free(attributes);
  return ok;
}

bool bwt_rebundle_all(const bw_bundle *from, const char *arch, bwt_edit_all edit, void *arg,
                      struct bwt_rebundled *out, struct bwt_text *why) {
  bwi_writer *writer = NULL;
  size_t size = 0;
  memset(out, 0, sizeof *out);
  bool ok = !failed(bwi_writer_new(&writer), why);
  for (size_t i = 0; ok && i < bw_bundle_count(from); i++)
    if (strcmp(bwi_bundle_entry(from, i)->arch, arch) == 0)
      ok = add_edited(from, i, edit, arg, writer, why);
  ok = ok && !failed(bwi_writer_finish(writer, &out->memory, &size), why);
  bwi_writer_free(writer);
  if (ok && !failed(bw_bundle_open_memory(out->memory, size, &out->bundle), why))
    return true;
  if (ok)
    free(out->memory);
  return false;
}

void bwt_rebundle_close(struct bwt_rebundled *r) {
  bw_bundle_close(r->bundle);
  free(r->memory);
  memset(r, 0, sizeof *r);
}
