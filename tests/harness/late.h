/* SPDX-License-Identifier: Apache-2.0
 *
 * A predecessor that lets its dependents start at once and writes one of their operands
 * late (tests/kernels/late_writer.ptx): what reads it without waiting reads zeros.
 */
#ifndef BW_HARNESS_LATE_H
#define BW_HARNESS_LATE_H

#include "harness/buffer.h"
#include "harness/kernel.h"

struct bwt_late {
  struct bwt_kernel kernel;
  struct bwt_buffer staged;
};

/* Fills `to` with zeros and enqueues, on the default stream, the kernel that writes `data`
 * there; `to` then expects data.  Its size is a multiple of 4.  false: *why, nothing open. */
bool bwt_late_write(struct bwt_late *late, const struct bwt_session *s, struct bwt_buffer *to,
                    const void *data, struct bwt_text *why);
/* After the kernel has run. */
void bwt_late_close(struct bwt_late *late);

#endif
