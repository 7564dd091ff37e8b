/* SPDX-License-Identifier: Apache-2.0
 *
 * The report when nothing can make progress: what every warp waits for, alike ones
 * together, with the line, so that a hang on hardware is a text here.
 */
#include "mbarrier.h"
#include "poll.h"
#include "polled.h"

#include <stdarg.h>

#define GROUPS 24 /* kinds of waiting that are listed; the rest is counted */

/* Warps that wait at one instruction for one kind of thing. */
struct stuck {
  const struct grid *grid;
  const struct insn *insn;
  const char *what;
  uint32_t warps, ctas;
  const struct cta *last_cta, *first_cta;
  uint32_t first_warp, lanes;
  bool polls; /* address */
  bool spins; /* in a loop that reads at insn */
  uint64_t address;
  struct warp *warp;
  struct polled polled;
};

struct text {
  char at[16384];
  size_t n;
};

static void add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(t->at + t->n, sizeof t->at - t->n, fmt, ap);
  va_end(ap);
  if (n > 0)
    t->n = t->n + (size_t)n < sizeof t->at ? t->n + (size_t)n : sizeof t->at - 1;
}

/* ---- what a warp waits for ------------------------------------------------------------------- */

static bool reads_memory(const struct insn *I) {
  static const char *const polls[] = {"ld", "atom", "mbarrier.t", "multimem.ld"};
  for (size_t i = 0; i < sizeof polls / sizeof polls[0]; i++)
    if (!strncmp(I->form->pattern, polls[i], strlen(polls[i])))
      return true;
  return false;
}

/* The instruction by which a spinning loop looks at the world: its last read. */
static const struct insn *polled(const struct warp *w, int lane) {
  uint32_t branch = (uint32_t)w->wait[lane].address, head = w->pc[lane];
  for (uint32_t pc = branch; pc + 1 > head; pc--) {
    if (reads_memory(&w->fn->insn[pc]))
      return &w->fn->insn[pc];
    if (!pc)
      break;
  }
  return &w->fn->insn[branch];
}

static bool spins(const struct warp *w, int lane) {
  return w->wait[lane].ready == spin_ready || poll_waits(&w->wait[lane]);
}

static void describe_poll(struct warp *w, int lane, const struct insn *read, struct stuck *s) {
  s->insn = read;
  s->spins = true;
  s->what = "memory to change: it polls";
  s->address = 0;
  for (unsigned i = 0; i < read->nopd; i++) {
    const struct opd *o = &read->opd[i];
    s->polls |= o->kind == OPD_addr;
    if (o->kind == OPD_addr)
      s->address = (o->n ? opd_get(w, &o->elem[0], lane) : 0) + o->imm;
  }
}

static void describe(struct warp *w, int lane, struct stuck *s) {
  s->grid = w->cta->grid;
  s->warp = w;
  s->insn = &w->fn->insn[w->pc[lane]];
  if (w->simt.held >> lane & 1) {
    s->what = s->insn->form->flags & FORM_aligned ? "the other lanes of its warp (.aligned)"
                                                  : "the other lanes of its membermask";
    s->address = 0;
    return;
  }
  s->what = w->wait[lane].what;
  s->address = w->wait[lane].address;
  if (spins(w, lane))
    describe_poll(w, lane, polled(w, lane), s);
}

static void collect_warp(struct warp *w, struct stuck *groups, uint32_t *n, uint32_t *more,
                         bool limit) {
  /* A warp out of the parked list still loops: its registers change. */
  uint32_t idle = w->waiting | w->simt.held, left = w->live;
  while (left) {
    int l = first_lane(left);
    static struct stuck s, t;
    s = (struct stuck){0};
    uint32_t same = 0;
    if (idle >> l & 1) {
      describe(w, l, &s);
    } else {
      const struct insn *read = limit ? NULL : poll_at(w, w->pc[l]);
      s.grid = w->cta->grid;
      s.warp = w;
      s.insn = &w->fn->insn[w->pc[l]];
      s.what = limit ? "nothing: it runs" : "nothing: it runs in a loop that writes nothing";
      if (read)
        describe_poll(w, l, read, &s);
    }
    FOR_LANES(k, left) {
      if ((idle >> k & 1) != (idle >> l & 1))
        continue;
      if (idle >> k & 1) {
        describe(w, (int)k, &t);
        same |= (uint32_t)(t.insn == s.insn && t.what == s.what) << k;
      } else {
        same |= (uint32_t)(w->pc[k] == w->pc[l]) << k;
      }
    }
    left &= ~same;
    uint32_t i = 0;
    while (i < *n && (groups[i].grid != s.grid || groups[i].insn != s.insn ||
                      strcmp(groups[i].what, s.what) != 0))
      i++;
    if (i == GROUPS) {
      ++*more;
      continue;
    }
    struct stuck *g = &groups[i];
    if (i == *n) {
      ++*n;
      *g = s;
      g->warp = w;
      g->first_cta = g->last_cta = w->cta;
      g->ctas = 1;
      g->first_warp = w->index;
      g->lanes = same;
    }
    g->warps++;
    if (s.spins && check_on(w->cta->grid->dev->m, CHECK_mailbox))
      polled_add(&g->polled, w, s.insn, same);
    if (g->last_cta != w->cta) {
      g->last_cta = w->cta;
      g->ctas++;
    }
  }
}

/* ---- the report ------------------------------------------------------------------------------ */

/* Lanes held for good at an instruction that needs all of them: the cause, rather than
 * one of the effects. */
static void report_divergence(struct machine *m, const struct stuck *s) {
  const struct warp *w = s->warp;
  if (!(s->insn->form->flags & FORM_aligned) || !strstr(s->what, ".aligned"))
    return;
  struct access a = access_of(s->warp, s->insn, first_lane(s->lanes));
  struct report r = {.check = CHECK_cluster, .rule = "aligned-divergent", .who = &a};
  (void)snprintf(r.text, sizeof r.text,
                 "an .aligned instruction needs all lanes of the warp: lanes 0x%08x are here, "
                 "lanes 0x%08x wait elsewhere for ever",
                 s->lanes, w->live & ~s->lanes);
  (void)report(m, &r);
}

/* Lanes stand at an instruction that needs the others of their warp, and one of those polls
 * for what now never comes. */
static void report_poll_holds(struct machine *m, const struct stuck *s) {
  struct warp *w = s->warp;
  const int held = first_lane(s->lanes);
  if (!(w->simt.held >> held & 1))
    return;
  FOR_LANES(l, w->live & w->waiting) {
    if (!spins(w, (int)l))
      continue;
    struct access here = access_of(w, s->insn, held);
    struct access there = access_of(w, polled(w, (int)l), (int)l);
    struct report r = {
        .check = CHECK_mailbox, .rule = "poll-holds-warp", .who = &here, .other = &there};
    (void)snprintf(r.text, sizeof r.text,
                   "lanes 0x%08x of the warp stand at an instruction that needs lane %d too, which "
                   "polls: only what polls without the lanes of its warp may go on by itself",
                   s->lanes, (int)l);
    (void)report(m, &r);
    return;
  }
}

/* Suspended there, or polling with a limit. */
static bool waits_on_mbarrier(const struct stuck *s) {
  return !strncmp(s->what, "mbarrier", 8) ||
         (s->polls && !strncmp(s->insn->form->pattern, "mbarrier.t", 10));
}

/* What those who wait there know of the cause. */
static void report_cause(struct machine *m, const struct stuck *s) {
  report_divergence(m, s);
  report_poll_holds(m, s);
  if (waits_on_mbarrier(s))
    mbar_report_stuck(s->warp->cta, (uint32_t)(s->address & low_mask(SHARED_RANK_SHIFT)));
  int lane = first_lane(s->lanes);
  const struct wait *wait = &s->warp->wait[lane];
  if (!(s->warp->waiting >> lane & 1) || !wait->stuck)
    return;
  struct access a = access_of(s->warp, s->insn, lane);
  wait->stuck(wait, &a);
}

void report_no_progress(struct machine *m, bool limit) {
  static struct stuck groups[GROUPS];
  uint32_t n = 0, more = 0;
  static struct text t;
  t.n = 0;
  t.at[0] = 0;
  for (struct grid *g = m->s->grids; g; g = g->run->next) {
    for (struct cluster *k = g->run->clusters; k; k = k->next)
      for (uint32_t r = 0; r < k->size; r++)
        for (uint32_t i = 0; i < k->cta[r]->nwarp; i++)
          collect_warp(&k->cta[r]->warp[i], groups, &n, &more, limit);
    uint64_t waiting = g->ctas_total - g->ctas_started;
    if (waiting)
      add(&t, "  %s (launch %llu, device %d): %llu CTAs wait for room on an SM\n", g->fn->name,
          (unsigned long long)g->id, g->dev->ordinal, (unsigned long long)waiting);
  }
  for (uint32_t i = 0; i < n; i++) {
    const struct stuck *s = &groups[i];
    add(&t, "  %s line %u: %s\n", s->grid->fn->name, s->insn->line, s->insn->text);
    add(&t, "      launch %llu: %u warps of %u CTAs wait for %s", (unsigned long long)s->grid->id,
        s->warps, s->ctas, s->what);
    if (s->address || s->polls) /* an mbarrier may be at 0 of shared memory */
      add(&t, " (0x%llx)", (unsigned long long)s->address);
    if (waits_on_mbarrier(s)) {
      char state[128];
      mbar_describe(s->warp->cta, (uint32_t)(s->address & low_mask(SHARED_RANK_SHIFT)), state,
                    sizeof state);
      add(&t, "%s", state);
    }
    add(&t, "; first: CTA (%u,%u,%u) warp %u lanes 0x%08x\n", s->first_cta->ctaid[0],
        s->first_cta->ctaid[1], s->first_cta->ctaid[2], s->first_warp, s->lanes);
    t.n += polled_write(&groups[i].polled, m, t.at + t.n, sizeof t.at - t.n);
  }
  if (more)
    add(&t, "  and %u more\n", more);
  for (uint32_t i = 0; i < n && !limit; i++)
    report_cause(m, &groups[i]);
  struct access a;
  struct report r = {.check = CHECK_progress, .rule = "no-progress"};
  if (n) {
    a = access_of(groups[0].warp, groups[0].insn, first_lane(groups[0].lanes));
    r.who = &a;
  }
  if (limit)
    (void)snprintf(r.text, sizeof r.text,
                   "no CTA has ended for %llu warp instructions (EMU_LIMIT)\n%s",
                   (unsigned long long)m->limit, t.at);
  else
    (void)snprintf(r.text, sizeof r.text, "no progress is possible\n%s", t.at);
  (void)report(m, &r);
}
