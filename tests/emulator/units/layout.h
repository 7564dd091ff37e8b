/* SPDX-License-Identifier: Apache-2.0
 *
 * Where matrices lie in shared memory: the swizzle, and the canonical layouts that
 * matrix descriptors describe (PTX ISA 5.5.7, 9.7.15.5.1, 9.7.16.3).
 */
#ifndef EMU_UNITS_LAYOUT_H
#define EMU_UNITS_LAYOUT_H

#include "../engine/engine.h"

/* Swizzle width in bytes: 0 (none), 32, 64 or 128.  16-byte chunks stay whole; the bits
 * of the 128-byte line number are XORed into the chunk number. */
static inline uint64_t swizzle_address(uint64_t linear, unsigned width) {
  uint64_t mask = width == 128 ? 7 : width == 64 ? 3 : width == 32 ? 1 : 0;
  return linear ^ ((linear >> 7 & mask) << 4);
}

struct matrix_desc {
  uint32_t start, lbo, sbo; /* bytes */
  unsigned swizzle;         /* width in bytes */
  unsigned base;            /* base offset: 128-byte lines by which the pattern is shifted */
};

/* Decodes a descriptor; false: *why names what is wrong with it. */
bool matrix_desc_tcgen05(uint64_t bits, struct matrix_desc *d, const char **why);
bool matrix_desc_wgmma(uint64_t bits, struct matrix_desc *d, const char **why);

/* Address, in the CTA's shared memory, of the 16-byte chunk that holds byte 16*q of row
 * r, K-major. */
uint32_t chunk_k_major(const struct matrix_desc *d, unsigned r, unsigned q);
/* The chunk that holds elements [per*j, per*(j+1)) along M or N at index k, MN-major,
 * per = 16 / element bytes. */
uint32_t chunk_mn_major(const struct matrix_desc *d, unsigned j, unsigned k);

/* Reads a matrix of `rows` (M or N) by `kbytes` (K times element bytes, a multiple of 16)
 * from the issuer's shared memory into raw, row after row, `kbytes` each.
 * row_undef[r]: the row holds an undefined bit.  false: a report ended the launch. */
bool matrix_gather(const struct access *a, const struct matrix_desc *d, unsigned rows,
                   unsigned kbytes, unsigned element_bytes, bool mn_major, uint8_t *raw,
                   bool *row_undef);

#endif
