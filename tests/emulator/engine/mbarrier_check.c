/* SPDX-License-Identifier: Apache-2.0
 *
 * What a program may not do with mbarriers although each step of it can be executed:
 * phases that nobody looked at, bytes that do not add up, memory that is used for
 * something else, copies that outlive the CTA they write to.
 */
#include "mbarrier.h"

#define PHASE(n) ((unsigned long long)(n))

/* ---- phases ---------------------------------------------------------------------------- */

/* PTX ISA 9.7.13.15.4: of each phase at least one wait must have returned true before an
 * arrival of the next. */
bool mbar_check_arrival(const struct access *a, uint64_t addr, const struct mbar_ref *r) {
  struct mbar_entry *e = r->entry;
  if (e->seen >= e->phases)
    return true;
  if (mbar_misuse(a, &e->ended, addr, "mbarrier-unseen-phase",
                  "an arrival of phase %llu, and no wait has seen phase %llu complete: whoever "
                  "waits for that one may find it over and gone",
                  PHASE(e->phases), PHASE(e->phases - 1)))
    return false;
  e->seen = e->phases; /* told once a phase */
  return true;
}

bool mbar_check_waiter(const struct access *a, uint64_t addr, const struct mbar_ref *r,
                       uint64_t from) {
  struct mbar_entry *e = r->entry;
  return e->phases < from + 2 ||
         !mbar_misuse(a, &e->ended, addr, "mbarrier-overtaken",
                      "a thread suspended for phase %llu finds phase %llu: two phases completed "
                      "without it, and it cannot tell them apart",
                      PHASE(from), PHASE(e->phases));
}

/* ---- bytes ------------------------------------------------------------------------------- */

static void report_bytes(const struct cta *c, const struct mbar_entry *e, int32_t tx,
                         const char *when) {
  uint64_t addr = (uint64_t)c->rank << SHARED_RANK_SHIFT | e->offset;
  /* Garbage counts in what was never initialised (and told to go on) have no author. */
  const struct access *expects = e->expects.insn ? &e->expects : &e->init;
  const struct access *brings = e->brings.insn ? &e->brings : &e->init;
  if (tx > 0)
    (void)mbar_misuse(expects, &e->brings, addr, "mbarrier-tx-under",
                      "%s, %d of the bytes expected in phase %llu have not come", when, tx,
                      PHASE(e->phases));
  else
    (void)mbar_misuse(brings, &e->expects, addr, "mbarrier-tx-over",
                      "%s, %d bytes more than expected have come in phase %llu", when, -tx,
                      PHASE(e->phases));
}

static struct mbar state_of(const struct cta *c, const struct mbar_entry *e) {
  uint64_t word;
  memcpy(&word, c->shared.data + e->offset, 8);
  return mbar_decode(word);
}

void mbar_cluster_end(const struct cta *c) {
  const struct mbar_table *t = c->mbar;
  for (uint32_t i = 0; t && i < t->size; i++) {
    const struct mbar_entry *e = &t->at[i];
    if (!e->used || !e->live)
      continue;
    struct mbar b = state_of(c, e);
    if (b.tx && mbar_encode(&b) == e->word)
      report_bytes(c, e, b.tx, "at the end of the CTA");
  }
}

void mbar_report_stuck(const struct cta *c, uint32_t offset) {
  const struct mbar_entry *e = mbar_find(c, offset);
  if (!e)
    return;
  struct mbar b = state_of(c, e);
  if (b.tx && !b.pending)
    report_bytes(c, e, b.tx, "nothing is on its way any more");
}

void mbar_describe(const struct cta *c, uint32_t offset, char *text, size_t size) {
  const struct mbar_entry *e = mbar_find(c, offset);
  *text = 0;
  if (!e)
    return;
  struct mbar b = state_of(c, e);
  (void)snprintf(text, size, ": phase %llu, %u of %u arrivals pending, %d bytes outstanding",
                 PHASE(e->phases), b.pending, b.expected, b.tx);
}

/* ---- the object's memory -------------------------------------------------------------------- */

bool mbar_guard(const struct access *a, const struct mem *mem, uint64_t at, uint64_t size,
                bool write) {
  const struct cta *c = mem->cta;
  const struct mbar_table *t = c->mbar;
  uint64_t from = at & ~7ull, to = at + size;
  if (from < t->lo)
    from = t->lo;
  if (to > t->hi)
    to = t->hi;
  for (; from < to; from += 8) {
    const struct mbar_entry *e = mbar_find(c, (uint32_t)from);
    if (!e)
      continue;
    uint64_t addr = (uint64_t)c->rank << SHARED_RANK_SHIFT | from;
    return write ? !mbar_misuse(a, &e->init, addr, "mbarrier-overwritten",
                                "a write to the bytes of a live mbarrier: mbarrier.inval must "
                                "come before the memory is used for something else")
                 : !mbar_misuse(a, &e->init, addr, "mbarrier-read",
                                "a read of the bytes of a live mbarrier, which are opaque");
  }
  return true;
}

bool mbar_check_inval(const struct access *a, uint64_t addr, const struct mbar_ref *r) {
  const struct mbar_entry *e = r->entry;
  uint32_t waiting = mbar_waiting(r->cta, r->offset);
  const struct access *other = NULL;
  char why[96] = "";
  if (r->state.tx) {
    other = r->state.tx > 0 ? &e->expects : &e->brings;
    (void)snprintf(why, sizeof why, "%d bytes are outstanding", r->state.tx);
  } else if (e->copies_phase > e->seen) {
    other = &e->copies;
    (void)snprintf(why, sizeof why, "no wait has seen the phase that a copy signals");
  } else if (waiting) {
    (void)snprintf(why, sizeof why, "%u threads wait on it", waiting);
  } else {
    return true;
  }
  return !mbar_misuse(a, other, addr, "mbarrier-inval-busy", "mbarrier.inval while %s", why);
}

/* ---- copies that signal it ------------------------------------------------------------------- */

void mbar_issued(const struct access *a, uint64_t addr) {
  const struct cluster *k = a->cta->cluster;
  uint64_t rank = addr >> SHARED_RANK_SHIFT;
  struct mbar_entry *e =
      rank < k->size ? mbar_find(k->cta[rank], (uint32_t)(addr & low_mask(SHARED_RANK_SHIFT)))
                     : NULL;
  if (!e)
    return; /* reported when it is signalled */
  e->copies = *a;
  e->copies_phase = e->phases + 1;
}

/* The memory of a CTA that has exited belongs to another one soon. */
void mbar_cta_exit(const struct cta *c) {
  const struct mbar_table *t = c->mbar;
  for (uint32_t i = 0; t && i < t->size; i++) {
    const struct mbar_entry *e = &t->at[i];
    if (!e->used || !e->live || e->copies_phase <= e->seen)
      continue;
    bool own = e->copies.cta == c;
    struct report r = {.check = own ? CHECK_bounds : CHECK_cluster,
                       .rule = own ? "exit-before-copy" : "dsmem-exited",
                       .who = &e->copies,
                       .has_address = true,
                       .space = SPACE_shared_cluster,
                       .address = (uint64_t)c->rank << SHARED_RANK_SHIFT | e->offset};
    (void)snprintf(r.text, sizeof r.text,
                   "CTA (%u,%u,%u) has exited, and no wait of it has seen phase %llu of this "
                   "mbarrier complete, by which this operation says that it is done: its shared "
                   "memory may belong to another CTA by then",
                   c->ctaid[0], c->ctaid[1], c->ctaid[2], PHASE(e->copies_phase - 1));
    if (report(c->grid->dev->m, &r))
      return;
  }
}
