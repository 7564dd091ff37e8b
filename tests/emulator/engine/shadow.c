/* SPDX-License-Identifier: Apache-2.0
 *
 * Cells: for every byte of memory its last write and the reads since.
 *
 * Memory is pages of lines of 64 bytes; a line lists its accesses, each with a mask of the
 * bytes.  An access that covers whole lines, as copy engines make them, is one entry; only
 * what threads access by bytes splits them.  A page that the host wrote as a whole has no
 * lines until something else accesses them.
 */
#include "order_state.h"

#define FEW_READERS 8 /* CTAs whose reads of a line are told apart */

struct shadow *shadow_new(uint64_t bytes) {
  uint64_t each = (uint64_t)LINE_BYTES * PAGE_LINES, pages = (bytes + each - 1) / each;
  struct shadow *s = emu_alloc(sizeof *s + pages * sizeof(struct page *));
  s->refs = 1;
  s->pages = pages;
  return s;
}

struct shadow *shadow_ref(struct shadow *s) {
  s->refs++;
  return s;
}

static void line_free(struct line *l) {
  if (l)
    sync_free(l->sync);
  free(l);
}

static void page_free(struct page *p) {
  for (int i = 0; p && i < PAGE_LINES; i++)
    line_free(p->line[i]);
  free(p);
}

void shadow_free(struct shadow *s) {
  if (!s || --s->refs)
    return;
  for (uint64_t i = 0; i < s->pages; i++)
    page_free(s->page[i]);
  free(s);
}

/* ---- lines -------------------------------------------------------------------------------- */

static struct line *line_new(uint16_t room) {
  struct line *l = emu_alloc(sizeof *l + room * sizeof l->at[0]);
  l->room = room;
  return l;
}

static struct entry *line_add(struct line **l) {
  if ((*l)->n == (*l)->room) {
    uint16_t room = (uint16_t)(2 * (*l)->room);
    struct line *more = realloc(*l, sizeof *more + room * sizeof more->at[0]);
    if (!more)
      abort();
    more->room = room;
    *l = more;
  }
  return &(*l)->at[(*l)->n++];
}

static bool same_agent(const struct entry *a, const struct entry *b) {
  return a->agent == b->agent && a->cta == b->cta && a->grid == b->grid &&
         !((a->flags ^ b->flags) & ENTRY_slot);
}

/* Reads of a line by many CTAs become one entry of the grid: told apart no more. */
static void merge_readers(struct line *l, uint32_t grid) {
  uint32_t distinct = 0, last = 0;
  for (uint32_t i = 0; i < l->n; i++)
    if (!(l->at[i].flags & ENTRY_write) && l->at[i].grid == grid)
      distinct += !distinct || l->at[i].cta != last, last = l->at[i].cta;
  if (distinct <= FEW_READERS)
    return;
  struct entry all = {0};
  uint16_t n = 0;
  for (uint32_t i = 0; i < l->n; i++) {
    struct entry *e = &l->at[i];
    if (e->flags & ENTRY_write || e->grid != grid) {
      l->at[n++] = *e;
      continue;
    }
    uint64_t mask = all.mask | e->mask;
    if (!all.mask || e->flags & ENTRY_early)
      all = *e;
    all.mask = mask;
  }
  all.flags |= ENTRY_grid;
  l->at[n++] = all;
  l->n = n;
}

/* What the new access makes of an old entry; false: the entry goes. */
static bool outlives(const struct observer *w, struct entry *old, const struct entry *e) {
  uint64_t common = old->mask & e->mask;
  if (!common)
    return true;
  if (e->flags & ENTRY_write) {
    old->mask &= ~e->mask; /* who knows the new one knows the old one */
    return old->mask != 0;
  }
  if (old->flags & ENTRY_write)
    return true;
  /* A read of a grid that this reader knows as a whole: who knows this read knows that one. */
  const struct world *known = w->view ? w->view->k[KIND_generic]->world : w->world;
  if (old->grid != e->grid && world_knows(known, grid_record(old->grid))) {
    old->mask &= ~e->mask;
    return old->mask != 0;
  }
  if (!same_agent(old, e) || (e->flags ^ old->flags) & ~ENTRY_early)
    return true;
  if (e->flags & ENTRY_slot) {
    if (old->epoch <= e->epoch)
      old->mask &= ~e->mask;
    return old->mask != 0;
  }
  /* The same threads read again. */
  if (!(old->mask & ~e->mask))
    old->lanes &= ~e->lanes;
  else if (!(old->lanes & ~e->lanes))
    old->mask &= ~e->mask;
  return old->mask && old->lanes;
}

static bool merges(struct entry *old, const struct entry *e) {
  if (!same_agent(old, e) || old->epoch != e->epoch || old->insn != e->insn ||
      old->flags != e->flags)
    return false;
  if (old->lanes == e->lanes) {
    old->mask |= e->mask;
    return true;
  }
  if (old->mask == e->mask && !(e->flags & (ENTRY_slot | ENTRY_write))) {
    old->lanes |= e->lanes;
    return true;
  }
  return false;
}

/* The same read, and nothing was written since: a poll that goes round.  There is nothing to
 * be learned from it that was not learned the first time. */
static bool read_again(const struct line *l, const struct entry *e) {
  if (e->flags & (ENTRY_write | ENTRY_atomic))
    return false;
  for (uint32_t i = 0; i < l->n; i++) {
    const struct entry *old = &l->at[i];
    if (same_agent(old, e) && old->epoch == e->epoch && old->insn == e->insn &&
        old->flags == e->flags && !(e->mask & ~old->mask) &&
        (e->flags & ENTRY_slot ? e->lanes == old->lanes : !(e->lanes & ~old->lanes)))
      return true;
  }
  return false;
}

static bool line_access(struct line **l, struct observer *w, const struct entry *e, uint64_t at,
                        conflict_fn conflict) {
  bool write = e->flags & ENTRY_write;
  for (uint32_t i = 0; conflict && i < (*l)->n; i++) {
    const struct entry *old = &(*l)->at[i];
    uint64_t common = old->mask & e->mask;
    if (common && (write || old->flags & ENTRY_write) && !conflict(w, old, at, common))
      return false;
  }
  uint16_t n = 0;
  for (uint32_t i = 0; i < (*l)->n; i++) {
    if (!outlives(w, &(*l)->at[i], e))
      continue;
    if (n != i)
      (*l)->at[n] = (*l)->at[i];
    n++;
  }
  (*l)->n = n;
  for (uint32_t i = 0; i < n; i++)
    if (merges(&(*l)->at[i], e))
      return true;
  *line_add(l) = *e;
  if (!write && (*l)->n > FEW_READERS)
    merge_readers(*l, e->grid);
  return true;
}

/* ---- memories ------------------------------------------------------------------------------- */

static struct page *page_at(struct shadow *s, uint64_t i) {
  if (!s->page[i])
    s->page[i] = emu_alloc(sizeof *s->page[i]);
  return s->page[i];
}

static struct line **line_of(struct page *p, uint32_t i) {
  if (!p->line[i]) {
    p->line[i] = line_new(p->whole.mask ? 2 : 1);
    if (p->whole.mask)
      p->line[i]->at[p->line[i]->n++] = p->whole;
  }
  return &p->line[i];
}

/* A whole page that nobody but the host has accessed. */
static bool whole_page(struct shadow *s, const struct observer *w, uint64_t page) {
  struct page *p = s->page[page];
  for (int i = 0; p && i < PAGE_LINES; i++)
    if (p->line[i])
      return false;
  if (p && p->whole.mask && p->whole.grid) /* ordered or not: the lines will tell */
    return false;
  page_at(s, page)->whole = w->entry;
  s->page[page]->whole.mask = UINT64_MAX;
  return true;
}

bool shadow_access(struct shadow *s, struct observer *w, uint64_t offset, uint64_t size,
                   conflict_fn conflict) {
  const uint64_t page_bytes = (uint64_t)LINE_BYTES * PAGE_LINES;
  bool strong = w->a && w->a->sem != SEM_weak;
  for (uint64_t at = offset, end = offset + size; at < end;) {
    uint64_t page = at / page_bytes;
    if (!w->cta && w->entry.flags & ENTRY_write && at % page_bytes == 0 && end - at >= page_bytes &&
        whole_page(s, w, page)) {
      at += page_bytes;
      continue;
    }
    uint32_t first = (uint32_t)(at % LINE_BYTES);
    uint32_t n = end - at < LINE_BYTES - first ? (uint32_t)(end - at) : LINE_BYTES - first;
    struct line **l = line_of(page_at(s, page), (uint32_t)(at / LINE_BYTES % PAGE_LINES));
    struct entry e = w->entry;
    e.mask = low_mask(n) << first;
    if (read_again(*l, &e)) {
      at += n;
      continue;
    }
    if (!line_access(l, w, &e, at - first, conflict))
      return false;
    if (strong || ((*l)->sync && e.flags & ENTRY_write))
      sync_access(*l, w, first, n);
    at += n;
  }
  return true;
}

void shadow_clear(struct shadow *s, uint64_t column, uint64_t columns, uint64_t row,
                  uint64_t groups) {
  for (uint64_t g = 0; g < groups; g++)
    for (uint64_t at = g * row + column; at < g * row + column + columns; at++) {
      struct page *p = s->page[at / LINE_BYTES / PAGE_LINES];
      struct line *l = p ? p->line[at / LINE_BYTES % PAGE_LINES] : NULL;
      uint16_t n = 0;
      for (uint32_t i = 0; l && i < l->n; i++) {
        l->at[i].mask &= ~(1ull << at % LINE_BYTES);
        if (l->at[i].mask)
          l->at[n++] = l->at[i];
      }
      if (l)
        l->n = n;
    }
}

const struct entry *shadow_writer(const struct shadow *s, uint64_t offset) {
  uint64_t line = offset / LINE_BYTES;
  const struct page *p = s && line / PAGE_LINES < s->pages ? s->page[line / PAGE_LINES] : NULL;
  if (!p)
    return NULL;
  const struct line *l = p->line[line % PAGE_LINES];
  if (!l)
    return p->whole.mask ? &p->whole : NULL;
  for (uint32_t i = 0; i < l->n; i++)
    if (l->at[i].flags & ENTRY_write && l->at[i].mask >> offset % LINE_BYTES & 1)
      return &l->at[i];
  return NULL;
}
