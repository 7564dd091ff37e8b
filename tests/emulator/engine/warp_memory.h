/* SPDX-License-Identifier: Apache-2.0
 *
 * Memory accesses of a whole warp: what ld/st, atomics, cp.async and mbarrier share.
 */
#ifndef EMU_WARP_MEMORY_H
#define EMU_WARP_MEMORY_H

#include "internal.h"

enum space space_of(enum mod m); /* SPACE_generic: none */
uint8_t sem_of(enum mod m);      /* SEM_weak: none */
uint8_t scope_of(enum mod m, uint8_t missing);
bool insn_has(const struct insn *I, enum mod m);

/* The addresses of all lanes; false: an undefined one ended the launch. */
bool warp_addresses(struct warp *w, const struct insn *I, const struct opd *o, uint32_t lanes,
                    uint64_t addr[WARP]);

/* The one memory in which all lanes' accesses of `size` bytes (a power of two) lie,
 * aligned and in bounds; addr becomes offsets.  NULL: they do not; nothing is reported. */
struct mem *warp_resolve(struct warp *w, enum space sp, uint32_t lanes, uint64_t addr[WARP],
                         uint32_t size, bool write);

static inline void warp_note(struct access *a, struct mem *mem, uint32_t lanes,
                             const uint64_t *offset, uint32_t size, bool write) {
  if (!order_on(a->m))
    return;
  FOR_LANES(l, lanes) {
    a->lane = l;
    shadow_note(a, mem, offset[l], size, write);
  }
}

#endif
