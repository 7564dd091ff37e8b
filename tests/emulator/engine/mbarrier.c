/* SPDX-License-Identifier: Apache-2.0
 *
 * The mbarrier object: phase, pending and expected arrivals, transaction count; and what
 * the asynchronous units do to it.
 */
#include "mbarrier.h"

#include <stdarg.h>

/* ---- encoding ---------------------------------------------------------------------------- */

uint64_t mbar_encode(const struct mbar *b) {
  return (uint64_t)(b->pending & MBAR_MAX) | (uint64_t)(b->expected & MBAR_MAX) << 20 |
         ((uint64_t)(uint32_t)b->tx & 0x1fffff) << 40 | (uint64_t)(b->phase & 7) << 61;
}

struct mbar mbar_decode(uint64_t word) {
  uint32_t tx = (uint32_t)(word >> 40) & 0x1fffff;
  return (struct mbar){.pending = (uint32_t)word & MBAR_MAX,
                       .expected = (uint32_t)(word >> 20) & MBAR_MAX,
                       .tx = (int32_t)(tx << 11) >> 11,
                       .phase = (uint8_t)(word >> 61)};
}

/* ---- the table of a CTA -------------------------------------------------------- */

static struct mbar_entry *probe(const struct mbar_table *t, uint32_t offset) {
  uint32_t i = (offset >> 3) * 0x9e3779b1u & (t->size - 1);
  while (t->at[i].used && t->at[i].offset != offset)
    i = (i + 1) & (t->size - 1);
  return &t->at[i];
}

struct mbar_entry *mbar_find(const struct cta *c, uint32_t offset) {
  const struct mbar_table *t = c->mbar;
  if (!t)
    return NULL;
  struct mbar_entry *e = probe(t, offset);
  return e->used && e->live ? e : NULL;
}

static struct mbar_entry *insert(struct cta *c, uint32_t offset) {
  if (!c->mbar)
    *(struct mbar_table *)(c->mbar = emu_alloc(sizeof(struct mbar_table))) =
        (struct mbar_table){.lo = UINT32_MAX};
  struct mbar_table *t = c->mbar;
  if (2 * t->n >= t->size) {
    struct mbar_table old = *t;
    t->size = old.size ? 2 * old.size : 32;
    t->at = emu_alloc(t->size * sizeof *t->at);
    for (uint32_t i = 0; i < old.size; i++)
      if (old.at[i].used)
        *probe(t, old.at[i].offset) = old.at[i];
    free(old.at);
  }
  struct mbar_entry *e = probe(t, offset);
  t->n += !e->used;
  peers_view_free(e->view);
  *e = (struct mbar_entry){.offset = offset, .used = true, .live = true};
  t->lo = offset < t->lo ? offset : t->lo;
  t->hi = offset + 8 > t->hi ? offset + 8 : t->hi;
  return e;
}

void mbar_cta_release(struct cta *c) {
  struct mbar_table *t = c->mbar;
  if (!t)
    return;
  for (uint32_t i = 0; i < t->size; i++)
    peers_view_free(t->at[i].view);
  free(t->at);
  free(t);
  c->mbar = NULL;
}

/* ---- access ---------------------------------------------------------------------------------- */

bool mbar_misuse(const struct access *a, const struct access *other, uint64_t addr,
                 const char *rule, const char *fmt, ...) {
  struct report r = {.check = CHECK_mbarrier,
                     .rule = rule,
                     .who = a,
                     .other = other && other->insn ? other : NULL,
                     .has_address = true,
                     .space = SPACE_shared_cluster,
                     .address = addr};
  va_list ap;
  va_start(ap, fmt);
  (void)vsnprintf(r.text, sizeof r.text, fmt, ap);
  va_end(ap);
  return report(a->m, &r);
}

static bool locate(const struct access *a, uint64_t addr, struct mbar_ref *r) {
  uint64_t at;
  struct mem *mem = mem_resolve(a, SPACE_shared_cluster, addr, 8, 8, true, &at);
  if (!mem)
    return false;
  r->cta = mem->cta;
  r->offset = (uint32_t)at;
  r->entry = mbar_find(r->cta, r->offset);
  return true;
}

bool mbar_open(const struct access *a, uint64_t addr, const char *what, struct mbar_ref *r) {
  if (!locate(a, addr, r))
    return false;
  uint64_t word;
  memcpy(&word, r->cta->shared.data + r->offset, 8);
  if (!r->entry) {
    if (mbar_misuse(a, NULL, addr, "mbarrier-uninitialised",
                    "%s on an mbarrier that is not initialised", what))
      return false;
    r->entry = insert(r->cta, r->offset); /* told to go on: with whatever is there */
    r->entry->init = *a;
  } else if (r->entry->word != word) {
    if (mbar_misuse(
            a, NULL, addr, "mbarrier-overwritten",
            "%s on an mbarrier whose bytes were written by something else since its last use",
            what))
      return false;
  }
  r->state = mbar_decode(word);
  return order_mbar_used(a, r->cta, r->offset);
}

void mbar_close(const struct access *a, struct mbar_ref *r) {
  uint64_t word = mbar_encode(&r->state);
  if (mbar_decode(r->entry->word).phase != r->state.phase)
    order_mbar_phase(r->cta, r->offset);
  memcpy(r->cta->shared.data + r->offset, &word, 8);
  if (r->cta->shared.undef)
    memset(r->cta->shared.undef + r->offset, 0, 8);
  r->entry->word = word;
  a->m->activity++;
}

/* The phase is over when nothing is pending and the transaction count is zero. */
static void settle(const struct access *a, struct mbar_ref *r) {
  struct mbar *b = &r->state;
  if (b->pending || b->tx)
    return;
  b->phase = (uint8_t)((b->phase + 1) & 7);
  b->pending = b->expected;
  r->entry->phases++;
  r->entry->ended = *a;
  peers_phase_over(r->entry->view);
}

/* ---- operations ------------------------------------------------------------------------------ */

bool mbar_init(const struct access *a, uint64_t addr, uint32_t count) {
  struct mbar_ref r;
  if (!locate(a, addr, &r))
    return false;
  if ((count < 1 || count > MBAR_MAX) &&
      mbar_misuse(a, NULL, addr, "mbarrier-count", "mbarrier.init with count %u, allowed: 1 to %d",
                  count, MBAR_MAX))
    return false;
  if (r.entry && mbar_misuse(a, &r.entry->init, addr, "mbarrier-reinit",
                             "mbarrier.init on a live mbarrier: mbarrier.inval must come before"))
    return false;
  r.entry = insert(r.cta, r.offset);
  r.entry->init = *a;
  r.state = (struct mbar){.pending = count & MBAR_MAX, .expected = count & MBAR_MAX};
  mbar_close(a, &r);
  return order_mbar_init(a, r.cta, r.offset);
}

bool mbar_inval(const struct access *a, uint64_t addr) {
  struct mbar_ref r;
  if (!mbar_open(a, addr, "mbarrier.inval", &r) || !mbar_check_inval(a, addr, &r))
    return false;
  r.entry->live = false;
  (void)order_mbar_inval(a, r.cta, r.offset);
  if (r.cta->shared.undef)
    memset(r.cta->shared.undef + r.offset, 0xff, 8);
  a->m->activity++;
  return true;
}

static bool take(const struct access *a, uint64_t addr, struct mbar_ref *r, uint32_t count) {
  struct mbar *b = &r->state;
  if (!mbar_check_arrival(a, addr, r))
    return false;
  if (count < 1 || count > MBAR_MAX) {
    if (mbar_misuse(a, NULL, addr, "mbarrier-count", "an arrival with count %u, allowed: 1 to %d",
                    count, MBAR_MAX))
      return false;
  }
  if (count > b->pending) {
    if (mbar_misuse(a, NULL, addr, "mbarrier-overflow",
                    "%u arrivals where %u are pending in this phase (expected %u)", count,
                    b->pending, b->expected))
      return false;
    count = b->pending;
  }
  b->pending -= count;
  peers_release(a, r->cta, &r->entry->view);
  return true;
}

static bool add_tx(const struct access *a, uint64_t addr, struct mbar_ref *r, int64_t bytes) {
  struct mbar *b = &r->state;
  int64_t tx = b->tx + bytes;
  if (tx < -MBAR_MAX || tx > MBAR_MAX) {
    if (mbar_misuse(a, NULL, addr, "mbarrier-tx-range",
                    "the transaction count becomes %lld, allowed: -%d to %d", (long long)tx,
                    MBAR_MAX, MBAR_MAX))
      return false;
    tx = tx < 0 ? -MBAR_MAX : MBAR_MAX;
  }
  b->tx = (int32_t)tx;
  *(bytes < 0 ? &r->entry->brings : &r->entry->expects) = *a;
  return true;
}

bool mbar_arrive(const struct access *a, uint64_t addr, uint32_t count) {
  struct mbar_ref r;
  if (!mbar_open(a, addr, "an arrival", &r) || !take(a, addr, &r, count))
    return false;
  order_mbar_arrived(a, r.cta, r.offset);
  settle(a, &r);
  mbar_close(a, &r);
  return true;
}

bool mbar_drop(const struct access *a, uint64_t addr, uint32_t count) {
  struct mbar_ref r;
  if (!mbar_open(a, addr, "mbarrier.arrive_drop", &r))
    return false;
  if (count > r.state.expected) {
    if (mbar_misuse(a, NULL, addr, "mbarrier-overflow", "%u arrivals dropped where %u are expected",
                    count, r.state.expected))
      return false;
    count = r.state.expected;
  }
  r.state.expected -= count;
  if (!take(a, addr, &r, count))
    return false;
  order_mbar_arrived(a, r.cta, r.offset);
  settle(a, &r);
  mbar_close(a, &r);
  return true;
}

/* The ISA names only arrivals and complete_tx as completing a phase; an H200 completes it
 * here too, where a negative count comes to zero with nothing pending. */
bool mbar_expect_tx(const struct access *a, uint64_t addr, uint32_t bytes) {
  struct mbar_ref r;
  if (!mbar_open(a, addr, "expect_tx", &r) || !add_tx(a, addr, &r, bytes))
    return false;
  settle(a, &r);
  mbar_close(a, &r);
  return true;
}

bool mbar_complete_tx(const struct access *a, uint64_t addr, uint32_t bytes) {
  struct mbar_ref r;
  if (!mbar_open(a, addr, "complete_tx", &r) || !add_tx(a, addr, &r, -(int64_t)bytes))
    return false;
  order_mbar_arrived(a, r.cta, r.offset);
  settle(a, &r);
  mbar_close(a, &r);
  return true;
}

void mbar_observed(struct cta *c, struct mbar_entry *e) {
  e->seen = e->phases;
  peers_acquire(c, e->view);
}

bool mbar_raise(const struct access *a, uint64_t addr) {
  struct mbar_ref r;
  if (!mbar_open(a, addr, "cp.async.mbarrier.arrive", &r))
    return false;
  if (r.state.pending == MBAR_MAX &&
      mbar_misuse(a, NULL, addr, "mbarrier-overflow", "more than %d arrivals would be pending",
                  MBAR_MAX))
    return false;
  r.state.pending++;
  mbar_close(a, &r);
  return true;
}
