/* SPDX-License-Identifier: Apache-2.0
 *
 * The registers of one warp that wgmma uses: accumulators and fragments of A (PTX ISA
 * 9.7.15, wgmma.fence and wgmma.wait_group).
 *
 * From its issue until a wgmma.wait_group has waited for its group they are its own: any
 * other instruction that accesses one is reported (wgmma-in-flight).  Between accesses of
 * others and a wgmma that uses the same register there must be a wgmma.fence, also between
 * two wgmma, unless both have it at the same place of an accumulator of one shape
 * (wgmma-fence).  Two that read a register do not conflict.
 */
#ifndef EMU_UNITS_WGMMA_REGISTERS_H
#define EMU_UNITS_WGMMA_REGISTERS_H

#include "units.h"

struct wgmma_registers;

struct wgmma_registers *wgmma_registers_new(uint32_t count);
void wgmma_registers_free(struct wgmma_registers *r);
void wgmma_registers_fence(struct wgmma_registers *r);
/* Groups before this one have been waited for. */
void wgmma_registers_waited(struct wgmma_registers *r, uint64_t group);
/* An instruction that is no wgmma; false: a report ends the launch. */
bool wgmma_registers_access(struct wgmma_registers *r, struct warp *w, const struct insn *I,
                            uint32_t lanes);
/* A wgmma (access a, accumulator shape) of the open group is issued; false: a report ends the
 * launch.  *earliest: when it may complete, because of those before it; then its own time. */
bool wgmma_registers_issue(struct wgmma_registers *r, const struct access *a, uint32_t shape,
                           uint64_t *earliest);
void wgmma_registers_issued(struct wgmma_registers *r, const struct access *a, uint32_t shape,
                            uint64_t group, uint64_t due);

#endif
