/* SPDX-License-Identifier: Apache-2.0
 *
 * The 32-bit instruction descriptor of tcgen05.mma (PTX ISA 9.7.16.4.2).
 */
#ifndef EMU_UNITS_IDESC_H
#define EMU_UNITS_IDESC_H

#include "tcore.h"

enum mma_kind { MMA_f16, MMA_tf32, MMA_f8f6f4, MMA_mxf8f6f4 };

struct idesc {
  enum tc_type a, b;
  unsigned m, n, k;
  bool d_f16, negate_a, negate_b, mn_major_a, mn_major_b;
  unsigned sfa_id, sfb_id;
};

/* Decodes and checks for legality; false: *why names the field. */
bool idesc_decode(uint32_t bits, enum mma_kind kind, struct idesc *d, const char **why);

#endif
