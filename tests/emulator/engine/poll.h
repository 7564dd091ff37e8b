/* SPDX-License-Identifier: Apache-2.0
 *
 * Loops that poll: their body loads once from global memory, strongly and from an address
 * that stays, and else computes in registers.  They go on by someone else's doing alone.
 */
#ifndef EMU_POLL_H
#define EMU_POLL_H

#include "internal.h"

/* The lanes have jumped from pc back to head.  true: that closes a loop that polls, what it
 * loaded is still there, and the lanes are parked until it changes, or for some time. */
bool poll_park(struct machine *m, struct warp *w, uint32_t pc, uint32_t head, uint32_t lanes);

/* Is the wait one of poll_park's?  Its address is the branch. */
bool poll_waits(const struct wait *wait);

/* The load of the innermost loop around pc if that polls, else NULL. */
const struct insn *poll_at(const struct warp *w, uint32_t pc);

#endif
