/* SPDX-License-Identifier: Apache-2.0
 *
 * Encoding, checking and decoding of tensor maps; see tensormap.h.  The rules are those
 * of the CUDA driver API's cuTensorMapEncodeTiled.
 */
#include "tensormap.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define MAGIC 0x50414d54u /* "TMAP" */

/* The stored form.  Multi-byte fields in host order: a map never leaves the machine. */
struct stored {
  uint32_t magic;
  uint8_t type, rank, interleave, swizzle, l2_promotion, oob_nan, pad[2];
  uint32_t check; /* FNV-1a of the rest, so that foreign bytes are known as such */
  uint64_t address;
  uint64_t stride[TENSORMAP_RANKS - 1];
  uint32_t dim_less_1[TENSORMAP_RANKS];
  uint16_t box[TENSORMAP_RANKS];
  uint8_t step[TENSORMAP_RANKS];
  uint8_t rest[33];
};
_Static_assert(sizeof(struct stored) == TENSORMAP_BYTES, "a tensor map has 128 bytes");

static const uint8_t element_bytes[TM_type_count] = {1, 2, 4, 4, 8, 8, 2, 4, 8, 2, 4, 4, 4};

unsigned tm_element_bytes(unsigned type) {
  return type < TM_type_count ? element_bytes[type] : 0;
}

bool tm_is_float(unsigned type) {
  return type >= TM_float16 && type <= TM_tf32_ftz;
}

static uint32_t checksum(const struct stored *s) {
  struct stored copy = *s;
  copy.check = 0;
  const uint8_t *p = (const uint8_t *)&copy;
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < sizeof copy; i++)
    h = (h ^ p[i]) * 16777619u;
  return h;
}

static int bad(char *why, size_t size, int argument, const char *fmt, ...)
    __attribute__((format(printf, 4, 5)));
static int bad(char *why, size_t size, int argument, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  if (why && size)
    vsnprintf(why, size, fmt, ap);
  va_end(ap);
  return argument;
}

static bool is_packed(unsigned type) {
  return type >= TM_16u4_align8;
}
static bool is_packed16(unsigned type) {
  return type >= TM_16u4_align16;
}

/* Bytes of a row of n elements: in global memory, where 16 packed ones take 8 or 12, or
 * in the box, where the align16 types take 16. */
static uint64_t box_row_bytes(unsigned type, uint64_t n) {
  if (type == TM_16u4_align8)
    return n / 2;
  return is_packed16(type) ? n : n * element_bytes[type];
}

int tensormap_check(const struct tensormap *t, char *why, size_t why_size) {
  if (t->type >= TM_type_count)
    return bad(why, why_size, 2, "tensorDataType is %u, must be 0..15", t->type);
  if (t->rank < 1 || t->rank > TENSORMAP_RANKS)
    return bad(why, why_size, 3, "tensorRank is %u, must be 1..5", t->rank);
  if (t->interleave > TM_interleave_32)
    return bad(why, why_size, 9, "interleave is %u, must be 0..2", t->interleave);
  if (t->interleave != TM_interleave_none && t->rank < 3)
    return bad(why, why_size, 3, "tensorRank is %u, must be 3..5 with interleave", t->rank);
  if (t->interleave != TM_interleave_none && is_packed(t->type))
    return bad(why, why_size, 9, "interleave must be NONE for packed 4- and 6-bit types");

  uint64_t align = t->interleave == TM_interleave_32 || is_packed16(t->type) ? 32 : 16;
  if (t->address == 0 || t->address % align)
    return bad(why, why_size, 4, "globalAddress is 0x%" PRIx64 ", must be a multiple of %" PRIu64,
               t->address, align);

  for (unsigned i = 0; i < t->rank; i++)
    if (t->dim[i] < 1 || t->dim[i] > (uint64_t)1 << 32)
      return bad(why, why_size, 5, "globalDim[%u] is %" PRIu64 ", must be 1..2^32", i, t->dim[i]);
  if (is_packed16(t->type) && t->dim[0] % 128)
    return bad(why, why_size, 5,
               "globalDim[0] is %" PRIu64 ", must be a multiple of 128 for this type", t->dim[0]);
  if (t->type == TM_16u4_align8 && t->dim[0] % 2)
    return bad(why, why_size, 5, "globalDim[0] is %" PRIu64 ", must be even for this type",
               t->dim[0]);

  for (unsigned i = 1; i < t->rank; i++)
    if (t->stride[i] % align || t->stride[i] == 0 || t->stride[i] >= (uint64_t)1 << 40)
      return bad(why, why_size, 6,
                 "globalStrides[%u] is %" PRIu64 ", must be a multiple of %" PRIu64 " below 2^40",
                 i - 1, t->stride[i], align);

  for (unsigned i = 0; i < t->rank; i++)
    if (t->box[i] < 1 || t->box[i] > 256)
      return bad(why, why_size, 7, "boxDim[%u] is %" PRIu32 ", must be 1..256", i, t->box[i]);
  uint64_t row = box_row_bytes(t->type, t->box[0]);
  if (is_packed16(t->type) && t->box[0] != 128)
    return bad(why, why_size, 7, "boxDim[0] is %" PRIu32 ", must be 128 for this type", t->box[0]);
  if (t->interleave == TM_interleave_none && row % 16)
    return bad(why, why_size, 7, "boxDim[0] is %" PRIu64 " bytes, must be a multiple of 16", row);

  for (unsigned i = 0; i < t->rank; i++)
    if (t->step[i] < 1 || t->step[i] > 8)
      return bad(why, why_size, 8, "elementStrides[%u] is %" PRIu32 ", must be 1..8", i,
                 t->step[i]);

  if (t->swizzle >= TM_swizzle_count)
    return bad(why, why_size, 10, "swizzle is %u, must be 0..6", t->swizzle);
  if (t->interleave == TM_interleave_32 && t->swizzle != TM_swizzle_32)
    return bad(why, why_size, 10, "swizzle is %u, must be 32B with interleave 32B", t->swizzle);
  if (is_packed16(t->type) && (t->swizzle == TM_swizzle_32 || t->swizzle == TM_swizzle_64))
    return bad(why, why_size, 10, "swizzle is %u, must be NONE or a 128B mode for this type",
               t->swizzle);
  if (t->interleave == TM_interleave_none && t->swizzle != TM_swizzle_none) {
    unsigned width = t->swizzle == TM_swizzle_32 ? 32 : t->swizzle == TM_swizzle_64 ? 64 : 128;
    if (row > width)
      return bad(why, why_size, 7,
                 "boxDim[0] is %" PRIu64 " bytes, must be at most the swizzle width %u", row,
                 width);
  }
  if (t->l2_promotion > 3)
    return bad(why, why_size, 11, "l2Promotion is %u, must be 0..3", t->l2_promotion);
  if (t->oob_nan > 1)
    return bad(why, why_size, 12, "oobFill is %u, must be 0 or 1", t->oob_nan);
  if (t->oob_nan && !tm_is_float(t->type))
    return bad(why, why_size, 12, "oobFill NaN needs a float type, tensorDataType is %u", t->type);
  return 0;
}

static uint8_t clip8(unsigned v) {
  return v > 255 ? 255 : (uint8_t)v;
}

int tensormap_encode(void *map, unsigned type, unsigned rank, uint64_t address, const uint64_t *dim,
                     const uint64_t *strides, const uint32_t *box, const uint32_t *element_strides,
                     unsigned interleave, unsigned swizzle, unsigned l2_promotion,
                     unsigned oob_fill, char *why, size_t why_size) {
  if (map && (uintptr_t)map % 64)
    return bad(why, why_size, 1, "tensorMap is at %p, must be a multiple of 64", map);
  struct tensormap t = {.type = clip8(type),
                        .rank = clip8(rank),
                        .interleave = clip8(interleave),
                        .swizzle = clip8(swizzle),
                        .l2_promotion = clip8(l2_promotion),
                        .oob_nan = clip8(oob_fill),
                        .address = address,
                        .dim = {1, 1, 1, 1, 1}};
  if (!dim)
    return bad(why, why_size, 5, "globalDim is NULL");
  if (!strides && rank > 1)
    return bad(why, why_size, 6, "globalStrides is NULL");
  if (!box)
    return bad(why, why_size, 7, "boxDim is NULL");
  if (!element_strides)
    return bad(why, why_size, 8, "elementStrides is NULL");
  for (unsigned i = 0; i < rank && i < TENSORMAP_RANKS; i++) {
    t.dim[i] = dim[i];
    t.stride[i] = i ? strides[i - 1] : tm_element_bytes(type);
    t.box[i] = box[i];
    /* Without interleave the API ignores the first entry; zero is an error all the same. */
    t.step[i] = i == 0 && interleave == 0 && element_strides[0] ? 1 : element_strides[i];
  }
  int wrong = tensormap_check(&t, why, why_size);
  if (wrong == 0 && map)
    tensormap_store(&t, map);
  return wrong;
}

void tensormap_store(const struct tensormap *t, void *bytes) {
  struct stored s = {.magic = MAGIC,
                     .type = t->type,
                     .rank = t->rank,
                     .interleave = t->interleave,
                     .swizzle = t->swizzle,
                     .l2_promotion = t->l2_promotion,
                     .oob_nan = t->oob_nan,
                     .address = t->address};
  for (unsigned i = 0; i < TENSORMAP_RANKS; i++) { /* all: the rank may be replaced later */
    s.dim_less_1[i] = (uint32_t)(t->dim[i] - 1);
    if (i)
      s.stride[i - 1] = t->stride[i];
    s.box[i] = (uint16_t)t->box[i];
    s.step[i] = (uint8_t)t->step[i];
  }
  s.check = checksum(&s);
  memcpy(bytes, &s, sizeof s);
}

bool tensormap_decode(const void *bytes, struct tensormap *t) {
  struct stored s;
  memcpy(&s, bytes, sizeof s);
  if (s.magic != MAGIC || s.check != checksum(&s) || s.rank < 1 || s.rank > TENSORMAP_RANKS)
    return false;
  *t = (struct tensormap){.type = s.type,
                          .rank = s.rank,
                          .interleave = s.interleave,
                          .swizzle = s.swizzle,
                          .l2_promotion = s.l2_promotion,
                          .oob_nan = s.oob_nan,
                          .address = s.address};
  for (unsigned i = 0; i < TENSORMAP_RANKS; i++) {
    t->dim[i] = (uint64_t)s.dim_less_1[i] + 1;
    t->stride[i] = i ? s.stride[i - 1] : tm_element_bytes(s.type);
    t->box[i] = s.box[i];
    t->step[i] = s.step[i];
  }
  return true;
}
