/* SPDX-License-Identifier: Apache-2.0
 *
 * A bundle in memory made from entries of another, edited on the way: how tests get
 * kernels and index entries that no build would make.
 */
#ifndef BW_HARNESS_REBUNDLE_H
#define BW_HARNESS_REBUNDLE_H

#include "bundle.h"
#include "harness/text.h"

struct bwt_rebundled {
  bw_bundle *bundle;
  void *memory; /* of the bundle: to be freed after all that came from it */
};

/* Changes an entry of the new bundle; what it points to must live until bwt_rebundle
 * returns.  The attributes are a copy: values may be changed, attribute_count lowered. */
typedef void (*bwt_edit)(bwi_entry *entry, bwi_attribute *attributes, void *arg);

/* The entry (family, arch, key) of `from`, edited (edit may be NULL), as a bundle. */
bool bwt_rebundle(const bw_bundle *from, const char *family, const char *arch, const char *key,
                  bwt_edit edit, void *arg, struct bwt_rebundled *out, struct bwt_text *why);
/* The same under the keys `names`, all of them that one kernel: for plans that load more
 * kernels than the test launches. */
bool bwt_rebundle_as(const bw_bundle *from, const char *family, const char *arch, const char *key,
                     char (*names)[BW_WO_A_KEY_NAME_SIZE], size_t count, bwt_edit edit, void *arg,
                     struct bwt_rebundled *out, struct bwt_text *why);
/* All entries of `from` for arch that edit leaves (it returns false for those that are to be
 * left out), edited. */
typedef bool (*bwt_edit_all)(bwi_entry *entry, void *arg);
bool bwt_rebundle_all(const bw_bundle *from, const char *arch, bwt_edit_all edit, void *arg,
                      struct bwt_rebundled *out, struct bwt_text *why);
/* After every device opened from it is closed. */
void bwt_rebundle_close(struct bwt_rebundled *r);

#endif
