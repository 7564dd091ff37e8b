/* SPDX-License-Identifier: Apache-2.0
 *
 * Decoding of instruction descriptors; see idesc.h.
 *   bit  0-1  sparsity selector   2  sparse   3  saturate (integers)
 *        4-5  D type, or with block scale the byte of B's scale words
 *        7-9  A type   10-12 B type   13, 14 negate A, B   15, 16 A, B MN-major
 *        17-22 N/8   23 scale type   24-28 M/16   29-30 byte of A's scale words, or (30-31)
 *        the maximum shift of .ws
 */
#include "idesc.h"

#include <stddef.h>

/* Types by their code in the descriptor; TC_types: no such type. */
static enum tc_type element_type(enum mma_kind kind, unsigned code) {
  static const enum tc_type small[8] = {TC_e4m3, TC_e5m2, TC_types, TC_e2m3,
                                        TC_e3m2, TC_e2m1, TC_types, TC_types};
  switch (kind) {
  case MMA_f16:
    return code == 0 ? TC_f16 : code == 1 ? TC_bf16 : TC_types;
  case MMA_tf32:
    return code == 2 ? TC_tf32 : TC_types;
  default:
    return small[code];
  }
}

bool idesc_decode(uint32_t bits, enum mma_kind kind, struct idesc *d, const char **why) {
  bool scaled = kind == MMA_mxf8f6f4;
  unsigned d_type = bits >> 4 & 3;
  *why = NULL;
  d->a = element_type(kind, bits >> 7 & 7);
  d->b = element_type(kind, bits >> 10 & 7);
  d->negate_a = bits >> 13 & 1;
  d->negate_b = bits >> 14 & 1;
  d->mn_major_a = bits >> 15 & 1;
  d->mn_major_b = bits >> 16 & 1;
  d->n = (bits >> 17 & 0x3f) * 8;
  d->m = (bits >> 24 & 0x1f) * 16;
  d->d_f16 = !scaled && d_type == 0;
  d->sfa_id = scaled ? bits >> 29 & 3 : 0;
  d->sfb_id = scaled ? d_type : 0;
  if (bits & 7)
    *why = "bits 0-2: sparse matrices are not emulated";
  else if (bits >> 3 & 1)
    *why = "bit 3: saturation is for integers";
  else if (bits >> 6 & 1)
    *why = "bit 6 must be 0";
  else if (!scaled && d_type > 1)
    *why = "bits 4-5: D must be F16 (0) or F32 (1)";
  else if (kind == MMA_tf32 && d_type != 1)
    *why = "bits 4-5: D must be F32 (1) for kind::tf32";
  else if (d->a == TC_types)
    *why = "bits 7-9: no A type of this kind";
  else if (d->b == TC_types)
    *why = "bits 10-12: no B type of this kind";
  else if (scaled ? bits >> 31 : bits >> 29)
    *why = scaled ? "bit 31 must be 0" : "bits 29-31 must be 0";
  else if (scaled && !(bits >> 23 & 1))
    *why = "bit 23: the scale type must be UE8M0 (1)";
  else if (!scaled && bits >> 23 & 1)
    *why = "bit 23 must be 0";
  else if (scaled ? d->m != 128 : d->m != 64 && d->m != 128)
    *why = scaled ? "bits 24-28: M must be 128" : "bits 24-28: M must be 64 or 128";
  else if (d->n < 8 || d->n > 256)
    *why = "bits 17-22: N must be 8..256";
  else {
    unsigned bytes_a = tc_bytes(d->a), bytes_b = tc_bytes(d->b);
    if ((d->mn_major_a && (bytes_a == 4 || (d->a > TC_e5m2 && d->a < TC_f16))) ||
        (d->mn_major_b && (bytes_b == 4 || (d->b > TC_e5m2 && d->b < TC_f16))))
      *why = "bits 15-16: MN-major is for 16-bit and 8-bit types";
    else if (d->mn_major_b && bytes_b == 1 && d->n % 16)
      *why = "bits 17-22: N must be a multiple of 16 with an 8-bit MN-major B";
    d->k = 32 / bytes_a;
  }
  return *why == NULL;
}
