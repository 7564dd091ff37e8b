/* SPDX-License-Identifier: Apache-2.0
 *
 * Element arithmetic of the reductions that copy engines and multimem perform.
 */
#ifndef EMU_UNITS_REDUCE_H
#define EMU_UNITS_REDUCE_H

#include "../ptx/ptx.h"

/* a op b for one element of `type` (MOD_u32, MOD_bf16, MOD_f16x2, ...), op MOD_add,
 * MOD_min, MOD_max, MOD_and, MOD_or, MOD_xor, MOD_inc or MOD_dec.  Floats round to
 * nearest even and keep subnormals; min and max drop NaN. */
uint64_t reduce_element(enum mod op, enum mod type, uint64_t a, uint64_t b);

/* Conversions used by reductions with .acc::f32 as well. */
double reduce_widen(enum mod type, uint64_t bits);
uint64_t reduce_narrow(enum mod type, double value);

#endif
