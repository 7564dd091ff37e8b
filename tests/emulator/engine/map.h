/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory that the driver layer owns, made visible to kernels.
 */
#ifndef EMU_MAP_H
#define EMU_MAP_H

#include "engine.h"

/* Makes [base, base + size) refer to the bytes at data (and to their masks of undefined
 * bits, NULL: always defined).  The range must not overlap live memory.  The bytes stay
 * the caller's and must outlive the mapping. */
struct mem *global_map(struct device *d, uint64_t base, uint64_t size, uint8_t *data,
                       uint8_t *undef, const char *what);
/* The bytes are those of physical allocation `number`, of `size` bytes from the start: they
 * may have other addresses, too, and an access through one is compared with those through
 * the others. */
void global_map_of(struct mem *m, uint64_t number, uint64_t size);
/* Later accesses are reported as accesses to freed memory until the addresses are mapped
 * again. */
void global_unmap(struct mem *m);

#endif
