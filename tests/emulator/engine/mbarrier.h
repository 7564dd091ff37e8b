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

#include "peers.h"
#include "warp_memory.h"

#define MBAR_MAX ((1 << 20) - 1)

struct mbar {
  uint32_t pending, expected;
  int32_t tx;
  uint8_t phase; /* modulo 8 */
};
uint64_t mbar_encode(const struct mbar *b);
struct mbar mbar_decode(uint64_t word);

/* What the table of a CTA knows of a barrier; mbarrier_check.c uses what is beyond the
 * state.  An access without instruction: there was none yet. */
struct mbar_entry {
  uint32_t offset;
  bool used, live;
  uint64_t word;          /* what the bytes hold unless someone else wrote them */
  uint64_t phases, seen;  /* completed since init; the last that a wait saw complete */
  struct access init;     /* who initialised it */
  struct access ended;    /* whose arrival or bytes completed the last phase */
  struct access expects;  /* the last expect_tx */
  struct access brings;   /* the last complete_tx */
  struct access copies;   /* the last asynchronous operation issued that will signal it, */
  uint64_t copies_phase;  /* in this phase (from 1), 0: none */
  struct peer_view *view; /* peers.c: what its arrivals pass on; NULL: nothing */
};

struct mbar_table {
  struct mbar_entry *at; /* open addressing */
  uint32_t n, size;      /* size: a power of two, at most half full */
  uint32_t lo, hi;       /* all of them lie in [lo, hi) */
};
struct mbar_entry *mbar_find(const struct cta *c, uint32_t offset); /* live, or NULL */

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
/* A wait of the CTA's own was told that the phase is complete. */
void mbar_observed(struct cta *c, struct mbar_entry *e);
/* A report of group 6 at an address; true: the launch ends.  other may be NULL. */
bool mbar_misuse(const struct access *a, const struct access *other, uint64_t addr,
                 const char *rule, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

/* mbarrier_ops.c: threads suspended on it. */
uint32_t mbar_waiting(const struct cta *c, uint32_t offset);

/* ---- mbarrier_check.c ------------------------------------------------------------------- */

/* An arrival, before it counts: some wait must have seen the phase before it. */
bool mbar_check_arrival(const struct access *a, uint64_t addr, const struct mbar_ref *r);
/* A wait that began in phase `from` goes on: it must not have been overtaken. */
bool mbar_check_waiter(const struct access *a, uint64_t addr, const struct mbar_ref *r,
                       uint64_t from);
bool mbar_check_inval(const struct access *a, uint64_t addr, const struct mbar_ref *r);
/* Nothing can run any more, and lanes wait for this barrier of the CTA. */
void mbar_report_stuck(const struct cta *c, uint32_t offset);
/* For the no-progress report: phase, arrivals and bytes outstanding. */
void mbar_describe(const struct cta *c, uint32_t offset, char *text, size_t size);

#endif
