/* SPDX-License-Identifier: Apache-2.0
 *
 * The mbarrier object, between mbarrier.c (its state) and mbarrier_ops.c (instructions).
 *
 * The state lives in the object's 8 bytes of shared memory, as on hardware, in an
 * encoding of our own; a table per CTA remembers which barriers were initialised and
 * what their bytes held last, so that other writes to them are noticed.
 *
 *   bits 0-19 pending   20-39 expected   40-60 tx-count, two's complement   61-63 phase
 */
#ifndef EMU_MBARRIER_H
#define EMU_MBARRIER_H

#include "warp_memory.h"

#define MBAR_MAX ((1 << 20) - 1)

struct mbar {
  uint32_t pending, expected;
  int32_t tx;
  uint8_t phase; /* modulo 8 */
};
uint64_t mbar_encode(const struct mbar *b);
struct mbar mbar_decode(uint64_t word);

/* A barrier found by address. */
struct mbar_ref {
  struct cta *cta;
  uint32_t offset;
  struct mbar_entry *entry; /* NULL: not initialised (and told to go on) */
  struct mbar state;
};
/* Finds and checks it; false: the launch ends. */
bool mbar_open(const struct access *a, uint64_t addr, const char *what, struct mbar_ref *r);
void mbar_close(const struct access *a, struct mbar_ref *r); /* writes the state back */
bool mbar_init(const struct access *a, uint64_t addr, uint32_t count);
bool mbar_inval(const struct access *a, uint64_t addr);
bool mbar_drop(const struct access *a, uint64_t addr, uint32_t count);
/* cp.async.mbarrier.arrive without .noinc: one more arrival is pending. */
bool mbar_raise(const struct access *a, uint64_t addr);

#endif
