/* SPDX-License-Identifier: Apache-2.0
 *
 * For the report when nothing can make progress: the words of global memory that threads
 * poll, what is in them, and who last wrote each.
 */
#ifndef EMU_POLLED_H
#define EMU_POLLED_H

#include "engine.h"

#define POLLED_WORDS 256 /* of a group of alike warps; the rest is counted */

struct polled {
  uint64_t word[POLLED_WORDS]; /* addresses */
  uint32_t n, more;
  uint32_t bytes; /* of a word */
};

/* The lanes of the warp stand in a loop whose read is I: the words that it reads there. */
void polled_add(struct polled *p, struct warp *w, const struct insn *I, uint32_t lanes);

/* Writes lines of text, one for neighbours that are alike: addresses, value, last writer.
 * Returns the number of characters. */
size_t polled_write(struct polled *p, struct machine *m, char *to, size_t room);

#endif
