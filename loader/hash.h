/* SPDX-License-Identifier: Apache-2.0
 *
 * The hash that bundles are checked with.
 */
#ifndef BW_HASH_H
#define BW_HASH_H

#include <stddef.h>
#include <stdint.h>

/* XXH64 of `size` bytes with seed 0; data may be NULL if size is 0. */
uint64_t bwi_hash64(const void *data, size_t size);

#endif
