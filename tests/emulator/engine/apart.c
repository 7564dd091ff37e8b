/* SPDX-License-Identifier: Apache-2.0
 *
 * Lanes that do not come together again.
 *
 * Machine code of ptxas lets the lanes of a warp meet where a branch ends, and so does
 * simt.c.  PTX promises nothing of the kind: threads go on independently until an
 * instruction waits for others of the warp.  So where lanes part, at a branch or because a
 * wait ends, the schedule now and then leaves some of them behind: the others go on without
 * them, past the place where they would have met, for a drawn number of instructions, or
 * until all of those wait or stand at an instruction that needs the lanes left behind.
 */
#include "internal.h"

#define ONE_IN      4 /* places where lanes part, of which one leaves some behind */
#define STEPS_SHORT 64
#define STEPS_LONG  4096 /* mostly to the next instruction that needs the others */

static void leave(struct simt *s, uint32_t lanes, uint64_t r) {
  s->late = lanes;
  s->parted = true;
  s->late_steps = 1 + (uint32_t)(r % (r >> 32 & 3 ? STEPS_SHORT : STEPS_LONG));
}

void apart_branch(struct machine *m, struct warp *w, uint32_t taken, uint32_t past) {
  struct simt *s = &w->simt;
  uint64_t r = draw_stream(m, STREAM_apart);
  if (s->late || r % ONE_IN)
    return;
  r /= ONE_IN;
  leave(s, r & 1 ? taken : past, r >> 1);
}

void apart_wait(struct machine *m, struct warp *w, uint32_t woken) {
  struct simt *s = &w->simt;
  uint32_t flags = w->fn->insn[w->pc[first_lane(woken)]].form->flags;
  if (s->late || !(woken & (woken - 1)) || flags & (FORM_aligned | FORM_member))
    return; /* what needs all lanes lets all of them go */
  uint64_t r = draw_stream(m, STREAM_apart);
  uint32_t some = (uint32_t)(r >> 32) & woken;
  if (r % ONE_IN == 0 && some && some != woken)
    leave(s, some, draw_stream(m, STREAM_apart));
}

/* Of the lanes that can run those to choose from. */
uint32_t apart_choose(struct simt *s, uint32_t can) {
  if (s->late_steps && can & ~s->late)
    return can & ~s->late;
  s->late = 0;
  return can;
}
