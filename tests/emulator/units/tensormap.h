/* SPDX-License-Identifier: Apache-2.0
 *
 * The 128-byte tensor map, in a format of the emulator's own.  The driver layer encodes
 * (cuTensorMapEncodeTiled), TMA instructions decode, tensormap.replace changes fields.
 */
#ifndef EMU_UNITS_TENSORMAP_H
#define EMU_UNITS_TENSORMAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TENSORMAP_BYTES 128
#define TENSORMAP_RANKS 5

/* Values as in cuda.h (CUtensorMapDataType and friends). */
enum tm_type {
  TM_uint8,
  TM_uint16,
  TM_uint32,
  TM_int32,
  TM_uint64,
  TM_int64,
  TM_float16,
  TM_float32,
  TM_float64,
  TM_bfloat16,
  TM_float32_ftz,
  TM_tf32,
  TM_tf32_ftz,
  TM_16u4_align8,
  TM_16u4_align16,
  TM_16u6_align16,
  TM_type_count
};
enum tm_interleave { TM_interleave_none, TM_interleave_16, TM_interleave_32 };
enum tm_swizzle {
  TM_swizzle_none,
  TM_swizzle_32,
  TM_swizzle_64,
  TM_swizzle_128,
  TM_swizzle_128_atom_32,
  TM_swizzle_128_atom_32_flip_8,
  TM_swizzle_128_atom_64,
  TM_swizzle_count
};

/* Plain fields; dimension 0 is the contiguous one. */
struct tensormap {
  uint8_t type, rank, interleave, swizzle, l2_promotion, oob_nan;
  uint64_t address;
  uint64_t dim[TENSORMAP_RANKS];    /* elements, 1..2^32 */
  uint64_t stride[TENSORMAP_RANKS]; /* bytes; stride[0] is the element size */
  uint32_t box[TENSORMAP_RANKS];    /* elements, 1..256 */
  uint32_t step[TENSORMAP_RANKS];   /* element strides, 1..8 */
};

/* Bytes of an element; 0 for the packed 4- and 6-bit types. */
unsigned tm_element_bytes(unsigned type);
bool tm_is_float(unsigned type);

/* Checks every argument of cuTensorMapEncodeTiled as its documentation asks and, when all
 * are good, writes the 128 bytes at map (may be NULL: check only).
 * Returns 0, or the 1-based position of the offending argument in the API's order
 * (1 tensorMap, 2 tensorDataType, 3 tensorRank, 4 globalAddress, 5 globalDim,
 * 6 globalStrides, 7 boxDim, 8 elementStrides, 9 interleave, 10 swizzle,
 * 11 l2Promotion, 12 oobFill) with a sentence in why. */
int tensormap_encode(void *map, unsigned type, unsigned rank, uint64_t address, const uint64_t *dim,
                     const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                     unsigned interleave, unsigned swizzle, unsigned l2_promotion,
                     unsigned oob_fill, char *why, size_t why_size);

/* false: these bytes are no tensor map that tensormap_encode wrote. */
bool tensormap_decode(const void *bytes, struct tensormap *t);
/* Writes fields without checking them (tensormap.replace changes one at a time). */
void tensormap_store(const struct tensormap *t, void *bytes);
/* Checks fields as tensormap_encode does. */
int tensormap_check(const struct tensormap *t, char *why, size_t why_size);

#endif
