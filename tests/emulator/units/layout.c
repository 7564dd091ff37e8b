/* SPDX-License-Identifier: Apache-2.0
 *
 * Matrix descriptors and the gathering of operands from shared memory; see layout.h.
 */
#include "layout.h"

#include <string.h>

static uint32_t field(uint64_t bits, unsigned at) {
  return (uint32_t)(bits >> at & 0x3fff) << 4;
}

bool matrix_desc_tcgen05(uint64_t bits, struct matrix_desc *d, const char **why) {
  d->start = field(bits, 0);
  d->lbo = field(bits, 16);
  d->sbo = field(bits, 32);
  d->base = 0;
  unsigned mode = (unsigned)(bits >> 61);
  d->swizzle = mode == 2 ? 128 : mode == 4 ? 64 : mode == 6 ? 32 : 0;
  *why = NULL;
  if ((bits >> 46 & 7) != 1)
    *why = "bits 46-48 must be 0b001";
  else if (bits >> 49 & 7)
    *why = "the base offset (bits 49-51) must be 0: align the tile to its swizzle pattern";
  else if (bits >> 52 & 1)
    *why = "the absolute leading-dimension mode (bit 52) exists on sm_103a only";
  else if (bits >> 53 & 0xff)
    *why = "bits 53-60 must be 0";
  else if (bits >> 14 & 3 || bits >> 30 & 3)
    *why = "bits 14-15 and 30-31 must be 0";
  else if (mode == 1)
    *why = "the 128B swizzle with 32B atoms (mode 1) is not supported";
  else if (mode & 1)
    *why = "the swizzle mode (bits 61-63) must be 0, 2, 4 or 6";
  return *why == NULL;
}

bool matrix_desc_wgmma(uint64_t bits, struct matrix_desc *d, const char **why) {
  static const unsigned width[4] = {0, 128, 64, 32};
  d->start = field(bits, 0);
  d->lbo = field(bits, 16);
  d->sbo = field(bits, 32);
  d->swizzle = width[bits >> 62];
  d->base = (unsigned)(bits >> 49 & 7);
  *why = NULL;
  if (bits >> 46 & 7 || bits >> 52 & 0x3ff || bits >> 14 & 3 || bits >> 30 & 3)
    *why = "reserved bits (14-15, 30-31, 46-48, 52-61) must be 0";
  return *why == NULL;
}

/* The swizzle of a descriptor: its base offset is taken off the line number that is XORed
 * in (H200: tests/conformance, question.base_offset). */
static uint32_t swizzled(const struct matrix_desc *d, uint32_t linear) {
  uint32_t shift = 128 * d->base;
  return linear ^ (uint32_t)(swizzle_address(linear - shift, d->swizzle) ^ (linear - shift));
}

uint32_t chunk_k_major(const struct matrix_desc *d, unsigned r, unsigned q) {
  if (d->swizzle == 0)
    return d->start + r / 8 * d->sbo + r % 8 * 16 + q * d->lbo;
  return swizzled(d, d->start + r / 8 * d->sbo + r % 8 * d->swizzle + q * 16);
}

uint32_t chunk_mn_major(const struct matrix_desc *d, unsigned j, unsigned k) {
  if (d->swizzle == 0)
    return d->start + j * d->sbo + k % 8 * 16 + k / 8 * d->lbo;
  unsigned chunks = d->swizzle / 16;
  return swizzled(d, d->start + j % chunks * 16 + j / chunks * d->lbo + k % 8 * d->swizzle +
                         k / 8 * d->sbo);
}

static bool any_bit(const uint8_t *undef, unsigned size) {
  if (!undef)
    return false;
  uint64_t all = 0, word;
  for (unsigned i = 0; i < size; i += 8) {
    memcpy(&word, undef + i, 8);
    all |= word;
  }
  return all != 0;
}

/* The base of the issuer's shared memory as a shared::cluster address. */
static uint64_t own(const struct access *a) {
  return (uint64_t)a->cta->rank << SHARED_RANK_SHIFT;
}

bool matrix_gather(const struct access *a, const struct matrix_desc *d, unsigned rows,
                   unsigned kbytes, unsigned element_bytes, bool mn_major, uint8_t *raw,
                   bool *row_undef) {
  uint8_t *undef = NULL;
  if (!mn_major) {
    for (unsigned r = 0; r < rows; r++) {
      row_undef[r] = false;
      for (unsigned q = 0; q < kbytes / 16; q++) {
        uint32_t at = chunk_k_major(d, r, q);
        /* A row of 32 bytes mostly is one aligned block whose halves the swizzle may
         * swap: one look-up then. */
        bool pair = q + 1 < kbytes / 16 && (chunk_k_major(d, r, q + 1) ^ at) == 16;
        uint32_t from = pair ? at & ~16u : at;
        unsigned size = pair ? 32 : 16;
        const uint8_t *p = mem_span(a, SPACE_shared_cluster, own(a) + from, size, false, &undef);
        if (!p)
          return false;
        memcpy(raw + (size_t)r * kbytes + q * 16, p + (at - from), 16);
        if (pair) {
          memcpy(raw + (size_t)r * kbytes + q * 16 + 16, p + (16 - (at - from)), 16);
          q++;
        }
        row_undef[r] |= any_bit(undef, size);
      }
    }
    return true;
  }
  unsigned per = 16 / element_bytes, k_count = kbytes / element_bytes;
  memset(row_undef, 0, rows * sizeof *row_undef);
  for (unsigned j = 0; j < rows / per; j++)
    for (unsigned k = 0; k < k_count; k++) {
      const uint8_t *p =
          mem_span(a, SPACE_shared_cluster, own(a) + chunk_mn_major(d, j, k), 16, false, &undef);
      if (!p)
        return false;
      for (unsigned t = 0; t < per; t++) {
        unsigned r = j * per + t;
        memcpy(raw + (size_t)r * kbytes + k * element_bytes, p + t * element_bytes, element_bytes);
        for (unsigned i = 0; undef && i < element_bytes; i++)
          row_undef[r] |= undef[t * element_bytes + i] != 0;
      }
    }
  return true;
}
