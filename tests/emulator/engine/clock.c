/* SPDX-License-Identifier: Apache-2.0
 *
 * Clocks and how they join; see clock.h.  A join returns one of its arguments whenever that
 * one knows everything, so that pointers stay equal where knowledge is; and recent joins
 * are remembered, since all threads of a CTA ask for the same ones.
 */
#include "clock.h"

#include "internal.h"

/* ---- memos: recent joins ---------------------------------------------------------------- */

#define MEMOS 512

enum memo_kind { MEMO_world, MEMO_clock, MEMO_view, MEMO_home, MEMO_near, MEMO_kinds };

static struct memo {
  void *a, *b, *result; /* references */
} memos[MEMO_kinds][MEMOS];

static struct memo *memo_at(enum memo_kind kind, const void *a, const void *b) {
  uint64_t h =
      ((uintptr_t)a >> 4) * 0x9e3779b97f4a7c15ull ^ ((uintptr_t)b >> 4) * 0xbf58476d1ce4e5b9ull;
  return &memos[kind][h >> 40 & (MEMOS - 1)];
}

static void *ref_any(enum memo_kind kind, void *p) {
  return kind == MEMO_world   ? (void *)world_ref(p)
         : kind == MEMO_clock ? (void *)clock_ref(p)
                              : (void *)view_ref(p);
}
static void drop_any(enum memo_kind kind, void *p) {
  if (kind == MEMO_world)
    world_drop(p);
  else if (kind == MEMO_clock)
    clock_drop(p);
  else
    view_drop(p);
}

static void *memo_get(enum memo_kind kind, const void *a, const void *b) {
  struct memo *m = memo_at(kind, a, b);
  return m->a == a && m->b == b ? ref_any(kind, m->result) : NULL;
}

static void memo_put(enum memo_kind kind, void *a, void *b, void *result) {
  struct memo *m = memo_at(kind, a, b), old = *m;
  m->a = ref_any(kind, a);
  m->b = ref_any(kind, b);
  m->result = ref_any(kind, result);
  if (old.a) {
    drop_any(kind, old.a);
    drop_any(kind, old.b);
    drop_any(kind, old.result);
  }
}

void clock_forget_memos(void) {
  for (int kind = MEMO_kinds - 1; kind >= 0; kind--)
    for (int i = 0; i < MEMOS; i++) {
      struct memo *m = &memos[kind][i], old = *m;
      *m = (struct memo){0};
      if (old.a) {
        drop_any((enum memo_kind)kind, old.a);
        drop_any((enum memo_kind)kind, old.b);
        drop_any((enum memo_kind)kind, old.result);
      }
    }
}

/* ---- lanes ---------------------------------------------------------------------------------- */

static void lanes_drop(struct lanes *l) {
  if (l && !--l->refs)
    free(l);
}

static struct warp_clock warp_clock_ref(struct warp_clock w) {
  if (w.lane)
    w.lane->refs++;
  return w;
}

static uint32_t epoch_of(struct warp_clock w, uint32_t lane) {
  return w.lane ? w.lane->at[lane] : w.all;
}

enum { FIRST_ENOUGH = 1, SECOND_ENOUGH = 2 };

static int compared(uint32_t x, uint32_t y) {
  return x == y ? FIRST_ENOUGH | SECOND_ENOUGH : x > y ? FIRST_ENOUGH : SECOND_ENOUGH;
}

/* Which of them know everything that the other one does. */
static int warp_clock_compare(struct warp_clock a, struct warp_clock b) {
  if (!a.lane && !b.lane)
    return compared(a.all, b.all);
  int e = FIRST_ENOUGH | SECOND_ENOUGH;
  for (uint32_t l = 0; a.lane != b.lane && l < WARP && e; l++)
    e &= compared(epoch_of(a, l), epoch_of(b, l));
  return e;
}

static struct warp_clock warp_clock_join(struct warp_clock a, struct warp_clock b) {
  int e = warp_clock_compare(a, b);
  if (e)
    return warp_clock_ref(e & FIRST_ENOUGH ? a : b);
  struct lanes *r = emu_alloc(sizeof *r);
  r->refs = 1;
  for (uint32_t l = 0; l < WARP; l++) {
    uint32_t x = epoch_of(a, l), y = epoch_of(b, l);
    r->at[l] = x > y ? x : y;
  }
  return (struct warp_clock){0, r};
}

/* ---- CTAs ---------------------------------------------------------------------- */

static struct cta_clock *cta_clock_new(uint32_t nwarp, uint32_t nslot) {
  struct cta_clock *k = emu_alloc(sizeof *k + nwarp * sizeof k->warp[0]);
  k->refs = 1;
  k->nwarp = (uint16_t)nwarp;
  k->nslot = (uint16_t)nslot;
  if (nslot)
    k->slot = emu_alloc(nslot * sizeof *k->slot);
  return k;
}

static struct cta_clock *cta_clock_ref(struct cta_clock *k) {
  if (k)
    k->refs++;
  return k;
}

static void cta_clock_drop(struct cta_clock *k) {
  if (!k || --k->refs)
    return;
  for (uint32_t i = 0; i < k->nwarp; i++)
    lanes_drop(k->warp[i].lane);
  free(k->slot);
  free(k);
}

static struct cta_clock *cta_clock_copy(const struct cta_clock *k, uint32_t nslot) {
  struct cta_clock *c = cta_clock_new(k->nwarp, nslot > k->nslot ? nslot : k->nslot);
  for (uint32_t i = 0; i < k->nwarp; i++)
    c->warp[i] = warp_clock_ref(k->warp[i]);
  if (k->nslot)
    memcpy(c->slot, k->slot, k->nslot * sizeof *k->slot);
  return c;
}

static uint32_t slot_of(const struct cta_clock *k, uint32_t i) {
  return i < k->nslot ? k->slot[i] : 0;
}

/* Which of them know everything that the other one does. */
static int cta_clock_compare(const struct cta_clock *a, const struct cta_clock *b) {
  int e = FIRST_ENOUGH | SECOND_ENOUGH;
  for (uint32_t i = 0; i < a->nwarp && e; i++)
    e &= warp_clock_compare(a->warp[i], b->warp[i]);
  uint32_t nslot = a->nslot > b->nslot ? a->nslot : b->nslot;
  for (uint32_t i = 0; i < nslot && e; i++)
    e &= compared(slot_of(a, i), slot_of(b, i));
  return e;
}

/* *enough loses the bits of the sides that do not know everything. */
static struct cta_clock *cta_clock_join(struct cta_clock *a, struct cta_clock *b, int *enough) {
  if (a == b)
    return cta_clock_ref(a);
  if (!a || !b) {
    *enough &= a ? ~SECOND_ENOUGH : ~FIRST_ENOUGH;
    return cta_clock_ref(a ? a : b);
  }
  int e = cta_clock_compare(a, b);
  *enough &= e;
  if (e)
    return cta_clock_ref(e & FIRST_ENOUGH ? a : b);
  uint32_t nslot = a->nslot > b->nslot ? a->nslot : b->nslot;
  struct cta_clock *r = cta_clock_new(a->nwarp, nslot);
  for (uint32_t i = 0; i < a->nwarp; i++)
    r->warp[i] = warp_clock_join(a->warp[i], b->warp[i]);
  for (uint32_t i = 0; i < nslot; i++) {
    uint32_t x = slot_of(a, i), y = slot_of(b, i);
    r->slot[i] = x > y ? x : y;
  }
  return r;
}

bool cta_clock_knows(const struct cta_clock *k, uint32_t warp, uint32_t lanes, uint32_t epoch) {
  const struct warp_clock *w = &k->warp[warp];
  if (!w->lane)
    return w->all >= epoch;
  FOR_LANES(l, lanes) {
    if (w->lane->at[l] < epoch)
      return false;
  }
  return true;
}

/* ---- worlds -------------------------------------------------------------------- */

static struct world_block *block_new(uint32_t grid, uint32_t place) {
  struct world_block *b = emu_alloc(sizeof *b);
  *b = (struct world_block){.refs = 1, .grid = grid, .place = place};
  return b;
}

static struct world_block *block_ref(struct world_block *b) {
  b->refs++;
  return b;
}

static void block_drop(struct world_block *b) {
  if (--b->refs)
    return;
  for (uint32_t i = 0; i < BLOCK_CTAS; i++)
    cta_clock_drop(b->k[i]);
  free(b);
}

/* Of the same CTAs. */
static struct world_block *block_join(struct world_block *a, struct world_block *b, int *enough) {
  if (a == b)
    return block_ref(a);
  int e = FIRST_ENOUGH | SECOND_ENOUGH;
  struct world_block *r = block_new(a->grid, a->place);
  for (uint32_t i = 0; i < BLOCK_CTAS; i++)
    r->k[i] = cta_clock_join(a->k[i], b->k[i], &e);
  *enough &= e;
  if (!e)
    return r;
  block_drop(r);
  return block_ref(e & FIRST_ENOUGH ? a : b);
}

struct world *world_ref(struct world *w) {
  if (w)
    w->refs++;
  return w;
}

void world_drop(struct world *w) {
  if (!w || --w->refs)
    return;
  for (uint32_t i = 0; i < w->nblock; i++)
    block_drop(w->block[i]);
  free(w->block);
  free(w->done);
  free(w);
}

struct world *world_new(uint32_t timelines) {
  struct world *w = emu_alloc(sizeof *w);
  w->refs = 1;
  w->n = timelines;
  w->done = emu_alloc(timelines * sizeof *w->done);
  return w;
}

static int compare(const struct world_block *a, uint32_t grid, uint32_t place) {
  if (a->grid != grid)
    return a->grid < grid ? -1 : 1;
  return a->place == place ? 0 : a->place < place ? -1 : 1;
}

const struct cta_clock *world_cta(const struct world *w, uint32_t grid, uint32_t cta) {
  uint32_t lo = 0, hi = w->nblock;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    int c = compare(w->block[mid], grid, cta / BLOCK_CTAS);
    if (!c)
      return w->block[mid]->k[cta % BLOCK_CTAS];
    if (c < 0)
      lo = mid + 1;
    else
      hi = mid;
  }
  return NULL;
}

/* Merges the CTAs of both into r, without those of grids that r knows. */
static void merge_ctas(struct world *r, struct world_block **a, uint32_t na, struct world_block **b,
                       uint32_t nb, int *enough) {
  if (!na && !nb)
    return;
  r->block = emu_alloc((na + nb) * sizeof *r->block);
  for (uint32_t i = 0, j = 0; i < na || j < nb;) {
    int c = i == na ? 1 : j == nb ? -1 : compare(a[i], b[j]->grid, b[j]->place);
    if (world_knows_grid(r, c <= 0 ? a[i]->grid : b[j]->grid)) {
      /* The side that still lists it knows no less: it does not count. */
    } else if (c) {
      *enough &= c < 0 ? ~SECOND_ENOUGH : ~FIRST_ENOUGH;
      r->block[r->nblock++] = block_ref(c < 0 ? a[i] : b[j]);
    } else {
      r->block[r->nblock++] = block_join(a[i], b[j], enough);
    }
    i += c <= 0;
    j += c >= 0;
  }
}

struct world *world_join(struct world *a, struct world *b) {
  if (a == b || !b)
    return world_ref(a);
  if (!a)
    return world_ref(b);
  struct world *r = memo_get(MEMO_world, a, b);
  if (r)
    return r;
  int e = FIRST_ENOUGH | SECOND_ENOUGH;
  r = world_new(a->n > b->n ? a->n : b->n);
  /* Timelines are many after replays of graphs: no branches, so that compilers use vectors. */
  uint32_t both = a->n < b->n ? a->n : b->n, behind = 0, ahead = 0;
  for (uint32_t i = 0; i < both; i++) {
    uint32_t x = a->done[i], y = b->done[i];
    r->done[i] = x > y ? x : y;
    behind |= x < y;
    ahead |= y < x;
  }
  for (uint32_t i = both; i < r->n; i++) {
    uint32_t x = i < a->n ? a->done[i] : 0, y = i < b->n ? b->done[i] : 0;
    r->done[i] = x | y; /* one of them is 0 */
    behind |= x < y;
    ahead |= y < x;
  }
  if (behind)
    e &= ~FIRST_ENOUGH;
  if (ahead)
    e &= ~SECOND_ENOUGH;
  merge_ctas(r, a->block, a->nblock, b->block, b->nblock, &e);
  if (e) {
    world_drop(r);
    r = world_ref(e & FIRST_ENOUGH ? a : b);
  }
  memo_put(MEMO_world, a, b, r);
  return r;
}

struct world *world_import(struct world *a, const struct clock *c) {
  struct world_block **of = emu_alloc((c->size ? c->size : 1) * sizeof(struct world_block *));
  uint32_t n = 0;
  for (uint32_t i = 0; i < c->size; i++) {
    uint32_t cta = c->first + i;
    if (!c->cta[i])
      continue;
    if (!n || of[n - 1]->place != cta / BLOCK_CTAS)
      of[n++] = block_new(c->grid, cta / BLOCK_CTAS);
    of[n - 1]->k[cta % BLOCK_CTAS] = cta_clock_ref(c->cta[i]);
  }
  struct world *r = NULL;
  if (n && !(a && world_knows_grid(a, c->grid))) {
    int e = FIRST_ENOUGH | SECOND_ENOUGH;
    r = world_new(a ? a->n : 0);
    if (a)
      memcpy(r->done, a->done, a->n * sizeof *r->done);
    merge_ctas(r, a ? a->block : NULL, a ? a->nblock : 0, of, n, &e);
    if (e & FIRST_ENOUGH && a) {
      world_drop(r);
      r = NULL;
    }
  }
  for (uint32_t i = 0; i < n; i++)
    block_drop(of[i]);
  free(of);
  return r ? r : world_ref(a);
}

/* ---- clocks ---------------------------------------------------------------------------------- */

struct clock *clock_new(uint32_t grid, uint32_t first, uint32_t size, struct world *w) {
  struct clock *c = emu_alloc(sizeof *c + size * sizeof(struct cta_clock *));
  c->refs = 1;
  c->grid = grid;
  c->first = first;
  c->size = size;
  c->world = world_ref(w);
  return c;
}

struct clock *clock_ref(struct clock *c) {
  c->refs++;
  return c;
}

void clock_drop(struct clock *c) {
  if (!c || --c->refs)
    return;
  for (uint32_t i = 0; i < c->size; i++)
    cta_clock_drop(c->cta[i]);
  world_drop(c->world); /* NOLINT(clang-analyzer-unix.Malloc): every clock has its own reference */
  free(c);
}

struct clock *clock_join(struct clock *a, struct clock *b) {
  if (a == b)
    return clock_ref(a);
  struct clock *r = memo_get(MEMO_clock, a, b);
  if (r)
    return r;
  int e = FIRST_ENOUGH | SECOND_ENOUGH;
  struct world *w = world_join(a->world, b->world);
  if (w != a->world)
    e &= ~FIRST_ENOUGH;
  if (w != b->world)
    e &= ~SECOND_ENOUGH;
  r = clock_new(a->grid, a->first, a->size, w);
  world_drop(w);
  for (uint32_t i = 0; i < a->size; i++)
    r->cta[i] = cta_clock_join(a->cta[i], b->cta[i], &e);
  if (e) {
    clock_drop(r);
    r = clock_ref(e & FIRST_ENOUGH ? a : b);
  }
  memo_put(MEMO_clock, a, b, r);
  return r;
}

static struct clock *clock_copy(const struct clock *c, struct world *w) {
  struct clock *r = clock_new(c->grid, c->first, c->size, w);
  for (uint32_t i = 0; i < c->size; i++)
    r->cta[i] = cta_clock_ref(c->cta[i]);
  return r;
}

struct clock *clock_in_world(struct clock *c, struct world *w) {
  struct world *joined = world_join(c->world, w);
  struct clock *r = joined == c->world ? clock_ref(c) : clock_copy(c, joined);
  world_drop(joined);
  return r;
}

struct clock *clock_at_home(struct clock *c, const struct clock *home) {
  if (c->grid == home->grid && c->first == home->first)
    return clock_ref(c);
  struct world *w = world_import(c->world, c);
  /* What others know of our own cluster is in their world: back to its place. */
  struct clock *r = clock_new(home->grid, home->first, home->size, w);
  for (uint32_t i = 0; w && i < home->size; i++) {
    const struct cta_clock *k = world_cta(w, home->grid, home->first + i);
    if (k)
      r->cta[i] = cta_clock_copy(k, 0);
  }
  world_drop(w);
  return r;
}

/* The CTA's part, for changing. */
static struct cta_clock *own_cta(struct clock **c, uint32_t rank, uint32_t nwarp, uint32_t nslot) {
  if ((*c)->refs > 1) {
    struct clock *copy = clock_copy(*c, (*c)->world);
    clock_drop(*c);
    *c = copy;
  }
  struct cta_clock **k = &(*c)->cta[rank];
  if (!*k) {
    *k = cta_clock_new(nwarp, nslot);
  } else if ((*k)->refs > 1 || (*k)->nslot < nslot) {
    struct cta_clock *copy = cta_clock_copy(*k, nslot);
    cta_clock_drop(*k);
    *k = copy;
  }
  return *k;
}

void clock_set_lanes(struct clock **c, uint32_t rank, uint32_t nwarp, uint32_t warp, uint32_t lanes,
                     const uint32_t *epoch, bool same) {
  struct warp_clock *w = &own_cta(c, rank, nwarp, 0)->warp[warp];
  if (same && lanes == ALL_LANES) {
    lanes_drop(w->lane);
    *w = (struct warp_clock){epoch[0], NULL};
    return;
  }
  struct lanes *l = w->lane;
  if (!l || l->refs > 1) {
    l = emu_alloc(sizeof *l);
    l->refs = 1;
    for (uint32_t i = 0; i < WARP; i++)
      l->at[i] = epoch_of(*w, i);
    lanes_drop(w->lane);
    *w = (struct warp_clock){0, l};
  }
  FOR_LANES(i, lanes) {
    uint32_t e = epoch[same ? 0 : i];
    l->at[i] = e > l->at[i] ? e : l->at[i];
  }
}

void clock_even(struct clock *c) {
  for (uint32_t r = 0; r < c->size; r++)
    for (uint32_t i = 0; c->cta[r] && i < c->cta[r]->nwarp; i++) {
      struct warp_clock *w = &c->cta[r]->warp[i];
      uint32_t l = 1;
      while (w->lane && l < WARP && w->lane->at[l] == w->lane->at[0])
        l++;
      if (!w->lane || l < WARP)
        continue;
      uint32_t all = w->lane->at[0];
      lanes_drop(w->lane);
      *w = (struct warp_clock){all, NULL};
    }
}

void clock_set_slot(struct clock **c, uint32_t rank, uint32_t nwarp, uint32_t slot, uint32_t n) {
  struct cta_clock *k = own_cta(c, rank, nwarp, slot + 1);
  if (k->slot[slot] < n)
    k->slot[slot] = n;
}

/* ---- views --------------------------------------------------------------------- */

struct view *view_ref(struct view *v) {
  if (v)
    v->refs++;
  return v;
}

void view_drop(struct view *v) {
  if (!v || --v->refs)
    return;
  for (int i = 0; i < KINDS; i++)
    clock_drop(v->k[i]);
  free(v);
}

struct view *view_of(struct clock *every) {
  struct view *v = emu_alloc(sizeof *v);
  v->refs = 1;
  for (int i = 0; i < KINDS; i++)
    v->k[i] = clock_ref(every);
  return v;
}

struct view *view_own(struct view *v) {
  if (v->refs == 1)
    return v;
  struct view *c = emu_alloc(sizeof *c);
  *c = *v;
  c->refs = 1;
  for (int i = 0; i < KINDS; i++)
    clock_ref(c->k[i]);
  v->refs--;
  return c;
}

struct view *view_with(struct view *v, enum kind kind, struct clock *c) {
  if (v->k[kind] == c) {
    clock_drop(c);
    return view_ref(v);
  }
  struct view *r = view_own(view_ref(v));
  clock_drop(r->k[kind]);
  r->k[kind] = c;
  return r;
}

struct view *view_join(struct view *a, struct view *b) {
  if (a == b || !b)
    return view_ref(a);
  if (!a)
    return view_ref(b);
  struct view *r = memo_get(MEMO_view, a, b);
  if (r)
    return r;
  r = emu_alloc(sizeof *r);
  r->refs = 1;
  bool first = true, second = true;
  for (int i = 0; i < KINDS; i++) {
    r->k[i] = clock_join(a->k[i], b->k[i]);
    first &= r->k[i] == a->k[i];
    second &= r->k[i] == b->k[i];
  }
  if (first || second) {
    view_drop(r);
    r = view_ref(first ? a : b);
  }
  memo_put(MEMO_view, a, b, r);
  return r;
}

struct view *view_at_home(struct view *v, struct view *home) {
  const struct clock *h = home->k[KIND_generic], *g = v->k[KIND_generic];
  if (g->grid == h->grid && g->first == h->first)
    return view_ref(v);
  struct view *r = memo_get(MEMO_home, v, home);
  if (r)
    return r;
  r = emu_alloc(sizeof *r);
  r->refs = 1;
  for (int i = 0; i < KINDS; i++)
    r->k[i] = clock_at_home(v->k[i], h);
  memo_put(MEMO_home, v, home, r);
  return r;
}

struct view *view_near(struct view *v, struct view *start) {
  struct view *r = memo_get(MEMO_near, v, start);
  if (r)
    return r;
  r = view_own(view_with(start, KIND_near, clock_join(v->k[KIND_generic], v->k[KIND_near])));
  static const enum kind kept[] = {KIND_shared, KIND_init};
  for (size_t i = 0; i < sizeof kept / sizeof *kept; i++) {
    clock_drop(r->k[kept[i]]);
    r->k[kept[i]] = clock_ref(v->k[kept[i]]);
  }
  memo_put(MEMO_near, v, start, r);
  return r;
}
