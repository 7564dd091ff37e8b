/* SPDX-License-Identifier: Apache-2.0
 *
 * Little-endian integers at any address, and arithmetic on sizes that come from a
 * file and so may be anything.
 */
#ifndef BW_LOADER_BYTES_H
#define BW_LOADER_BYTES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

static inline uint32_t bwi_get_u32(const uint8_t *p) {
  return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

static inline uint64_t bwi_get_u64(const uint8_t *p) {
  return (uint64_t)bwi_get_u32(p) | (uint64_t)bwi_get_u32(p + 4) << 32;
}

static inline void bwi_put_u32(uint8_t *p, uint32_t v) {
  for (int i = 0; i < 4; i++)
    p[i] = (uint8_t)(v >> 8 * i);
}

static inline void bwi_put_u64(uint8_t *p, uint64_t v) {
  bwi_put_u32(p, (uint32_t)v);
  bwi_put_u32(p + 4, (uint32_t)(v >> 32));
}

/* Whether [offset, offset + size) lies within `total` bytes. */
static inline bool bwi_within(uint64_t offset, uint64_t size, uint64_t total) {
  return offset <= total && size <= total - offset;
}

#endif
