/* SPDX-License-Identifier: Apache-2.0
 *
 * XXH64, in a file of its own: xxhash.h is all inline here, so that the library needs no
 * other at run time.
 */
#include "hash.h"

#define XXH_INLINE_ALL
#include <xxhash.h>

uint64_t bwi_hash64(const void *data, size_t size) {
  return XXH64(data ? data : "", data ? size : 0, 0);
}
