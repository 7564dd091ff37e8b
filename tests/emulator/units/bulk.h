/* SPDX-License-Identifier: Apache-2.0
 *
 * Bulk copies in flight: jobs in parts that fire at drawn times, and the bulk groups
 * that threads wait on.
 */
#ifndef EMU_UNITS_BULK_H
#define EMU_UNITS_BULK_H

#include "units.h"

/* ---- bulk groups --------------------------------------------------------------- */

struct bulk_thread *bulk_thread(struct warp *w, int lane);
/* Enters a copy in the thread's open group; the group's number. */
uint64_t bulk_enter(struct bulk_thread *t, const struct access *a);
/* The thread's CTA has exited: its copies must have read their sources, and it must have
 * waited for that. */
void bulk_exit(const struct bulk_thread *t);
/* The copy's source has been read; its writes are done (this also lets go of t). */
void bulk_read_done(struct bulk_thread *t, uint64_t group);
void bulk_write_done(struct bulk_thread *t, uint64_t group);

/* ---- jobs ------------------------------------------------------------------------ */

/* A copy of `size` bytes in parts.  Each part reads its source into data/undef and, at
 * once or (deferred_write) some time later, writes its destination; when the last part is
 * written, done runs.  read and write return false when a report ended the launch. */
struct job {
  struct access a;
  enum latency latency;
  const char *what;
  bool (*read)(struct job *j, unsigned part);
  bool (*write)(struct job *j, unsigned part);
  void (*done)(struct job *j);    /* may be NULL */
  void (*release)(struct job *j); /* frees what it holds besides data; may be NULL */
  bool deferred_write;
  struct bulk_thread *thread; /* NULL: signals by done */
  uint64_t group;
  uint8_t *data, *undef; /* size bytes each, owned */
  uint32_t size;
  unsigned parts, unread, unwritten;
  bool failed;
};
/* Makes the buffers, draws the part times.  limit: most parts that make sense. */
void job_start(struct job *j, uint32_t size, unsigned limit);
/* Part p of `total` units: [*from, *to). */
void job_range(const struct job *j, unsigned part, uint32_t total, uint32_t *from, uint32_t *to);

/* ---- operands ---------------------------------------------------------------------- */

/* A shared-memory operand as a shared::cluster address; false: reported. */
bool shared_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                    enum space sp, uint64_t *addr);
/* An mbarrier operand likewise, 8-byte aligned. */
bool mbar_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                  enum space sp, uint64_t *addr);
/* A global operand (global or generic address of global memory). */
bool global_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                    uint64_t *addr);
/* The same offset in the CTA of another rank. */
static inline uint64_t in_rank(uint64_t addr, uint32_t rank) {
  return (addr & ((1u << SHARED_RANK_SHIFT) - 1)) | (uint64_t)rank << SHARED_RANK_SHIFT;
}
/* A multicast mask: at least one CTA, none outside the cluster. */
bool mask_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                  uint32_t *mask);

#endif
