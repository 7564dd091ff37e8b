/* SPDX-License-Identifier: Apache-2.0
 *
 * Several devices of one driver in one process, as the ranks of a mailbox: a session on
 * device 0, the others opened when they are asked for, and the rounds of set-up.
 */
#ifndef BW_HARNESS_RANKS_H
#define BW_HARNESS_RANKS_H

#include "harness/session.h"

#include <stdint.h>

struct bwt_ranks {
  struct bwt_session session; /* device 0 */
  uint32_t opened;            /* devices 0..opened-1 */
  bw_device *device[BW_MAILBOX_MAX_RANKS];
  CUcontext context[BW_MAILBOX_MAX_RANKS]; /* primary contexts */
};

/* As bwt_session_open; an emulated driver gets 16 devices unless EMU_DEVICES is set. */
bool bwt_ranks_open(struct bwt_ranks *r, const char *which, bw_bundle *bundle,
                    struct bwt_text *why);
void bwt_ranks_close(struct bwt_ranks *r);

/* The number of devices there are. */
uint32_t bwt_ranks_devices(const struct bwt_ranks *r);
/* Opens devices 0..count-1; false: *why. */
bool bwt_ranks_need(struct bwt_ranks *r, uint32_t count, struct bwt_text *why);
/* Makes an opened device's context current. */
bool bwt_ranks_enter(const struct bwt_ranks *r, uint32_t device, struct bwt_text *why);

/* Takes all rounds of `count` mailboxes of this process, which are all there are.  false:
 * *why has the library's words. */
bool bwt_rounds(bw_mailbox *const *mailboxes, uint32_t count, struct bwt_text *why);

#endif
