/* SPDX-License-Identifier: Apache-2.0
 *
 * How warps hold matrices in registers, the same for wgmma (16 rows of each warp) and
 * mma.sync (PTX ISA 9.7.14.5, 9.7.15.5.1).  g = lane / 4, q = lane % 4.
 *   A, register i   row g + 8*(i&1), bytes 4q..4q+3 of 16-byte piece i>>1 of the row
 *   B, register i   column g, bytes 4q..4q+3 of piece i of the column
 *   D in words      register i: row g + 8*((i>>1)&1), column 8*(i>>2) + 2q + (i&1)
 *   D in halves     register i: row g + 8*(i&1), columns 8*(i>>1) + 2q and the next
 */
#ifndef EMU_UNITS_FRAGMENT_H
#define EMU_UNITS_FRAGMENT_H

#include "tcore.h"
#include "units.h"

/* The registers of vector (or single) operand o. */
static inline const struct opd *fragment_element(const struct opd *o, unsigned i) {
  return o->kind == OPD_vec ? &o->elem[i] : o;
}
static inline unsigned fragment_count(const struct opd *o) {
  return o->kind == OPD_vec ? o->n : 1;
}

/* A fragment of A: 16 rows of 16 bytes for each two registers.  undef[16]. */
void fragment_a(struct warp *w, const struct opd *o, uint8_t *raw, bool *undef);
/* A fragment of B: 8 columns of 16 bytes for each register.  undef[8]. */
void fragment_b(struct warp *w, const struct opd *o, uint8_t *raw, bool *undef);

/* Where element (row 0..15, column) of D is: the register, the lane, the shift. */
struct fragment_place {
  unsigned reg, lane, shift;
};
struct fragment_place fragment_d(unsigned row, unsigned column, bool half);

enum tc_type fragment_type(enum mod type); /* TC_types: none */

#endif
