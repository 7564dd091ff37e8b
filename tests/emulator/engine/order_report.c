/* SPDX-License-Identifier: Apache-2.0
 *
 * Reports of accesses that nothing orders: who, who else, and what was missing.
 */
#include "order_state.h"

#include <stdarg.h>

/* ---- the other side ------------------------------------------------------------------------- */

/* What a report needs of an access that is over: its grid and CTA may be gone. */
struct past {
  struct access a;
  struct grid grid;
  struct cluster cluster;
  struct cta cta;
  struct function unknown;
};

static void cta_of(const struct grid_record *g, uint32_t index, struct cta *c) {
  uint32_t id = index / g->cluster_size, r = index % g->cluster_size;
  const uint32_t *cd = g->cluster;
  uint32_t nx = g->dim[0] / cd[0], ny = g->dim[1] / cd[1];
  c->rank = r;
  c->ctaid[0] = id % nx * cd[0] + r % cd[0];
  c->ctaid[1] = id / nx % ny * cd[1] + r / cd[0] % cd[1];
  c->ctaid[2] = id / nx / ny * cd[2] + r / cd[0] / cd[1];
}

static const struct access *past_access(struct past *p, struct machine *m, const struct entry *e) {
  const struct grid_record *g = grid_record(e->grid);
  *p = (struct past){.a = {.m = m, .dev = g->dev}};
  if (!g->fn)
    return &p->a; /* the host */
  p->grid.fn = g->fn;
  p->grid.id = g->id;
  p->grid.dev = g->dev;
  memcpy(p->grid.block, g->block, sizeof p->grid.block);
  p->cluster.size = g->cluster_size;
  p->cta.cluster = &p->cluster;
  p->cta.grid = &p->grid;
  cta_of(g, e->cta, &p->cta);
  p->a.grid = &p->grid;
  p->a.cta = &p->cta;
  p->a.insn = &g->fn->insn[e->insn];
  p->a.warp = e->flags & ENTRY_slot ? e->lanes >> 5 : e->agent;
  p->a.lane = e->flags & ENTRY_slot ? e->lanes & 31 : (uint32_t)first_lane(e->lanes);
  p->a.engine = e->flags & ENTRY_slot;
  return &p->a;
}

/* ---- words --------------------------------------------------------------------- */

static bool after_start_of(const struct grid_record *g, const struct grid_record *before) {
  return world_knows(g->waited, before) && !world_knows(g->start, before);
}

static const char *verb(uint16_t flags) {
  return flags & ENTRY_atomic ? "update" : flags & ENTRY_write ? "write" : "read";
}

/* How an asynchronous operation is known to be over. */
static const char *completion(const struct access *a) {
  const char *p = a->insn ? a->insn->form->pattern : "";
  if (!strncmp(p, "wgmma", 5))
    return "wgmma.wait_group";
  if (!strncmp(p, "tcgen05", 7))
    return "its tcgen05.commit, and the mbarrier's phase waited for";
  if (!strncmp(p, "cp.async.bulk", 13) || !strncmp(p, "cp.reduce.async.bulk", 20))
    return strstr(p, "mbarrier") || !strstr(p, "bulk_group")
               ? "the phase of its mbarrier waited for"
               : "cp.async.bulk.wait_group";
  if (!strncmp(p, "cp.async", 8))
    return "cp.async.wait_group, or the phase of its mbarrier waited for";
  if (!strncmp(p, "st.async", 8) || !strncmp(p, "red.async", 9))
    return "the phase of its mbarrier waited for, with .acquire.cluster";
  return "its completion observed";
}

struct words {
  char *text;
  size_t size;
};

static void say(struct words *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct words *w, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(w->text, w->size, fmt, ap);
  va_end(ap);
  if (n > 0 && (size_t)n < w->size) {
    w->text += n;
    w->size -= (size_t)n;
  }
}

static const char *const scopes[] = {".cta", ".cluster", ".gpu", ".sys"};

/* Strong both, and no race if it were not for this; NULL: they are not. */
static const char *not_morally_strong(const struct observer *w, const struct entry *e) {
  if (!(w->entry.flags & e->flags & ENTRY_strong))
    return NULL;
  uint8_t r = order_relation(w, e);
  return (w->entry.flags >> ENTRY_scope & 3) < r || (e->flags >> ENTRY_scope & 3) < r
             ? "the scope of one of the two does not hold both threads"
             : "they are of different sizes, so that one may see half of the other";
}

/* No causality: which would do? */
static void missing_order(struct words *t, const struct observer *w, const struct entry *e,
                          const struct access *other) {
  if (!w->cta) {
    say(t, "the host's operation is not ordered behind the other: no event, no wait");
  } else if (!grid_record(e->grid)->fn) {
    say(t, "the grid is not ordered behind the host's operation: no event, no wait");
  } else if (e->flags & ENTRY_slot) {
    say(t, "that is asynchronous and not known to be complete: %s is missing", completion(other));
  } else if (w->entry.flags & ENTRY_slot) {
    say(t, "the operation is asynchronous and was not known to be complete then: %s is missing",
        completion(w->a));
  } else if (e->grid == w->cta->grid && e->cta == cta_index(w->cta) && e->agent == w->a->warp) {
    say(t, "threads of one warp: no bar.warp.sync or other barrier between them");
  } else if (e->grid == w->cta->grid && e->cta == cta_index(w->cta)) {
    say(t, "threads of one CTA: no barrier, mbarrier or release and acquire between them");
  } else if (w->mem->space == SPACE_shared) {
    say(t, "threads of two CTAs of a cluster: no barrier.cluster or mbarrier of cluster scope, "
           "released and acquired, between them");
  } else {
    say(t, "no release and acquire of scope %s or wider lead from one to the other",
        scopes[order_relation(w, e)]);
  }
}

/* ---- the report ---------------------------------------------------------------- */

static void publish_address(struct report *r, const struct observer *w, uint64_t at) {
  r->has_address = true;
  r->space = w->mem->space;
  r->address = w->mem->base + at;
  if (w->mem->space == SPACE_shared) {
    r->space = SPACE_shared_cluster;
    r->address = (uint64_t)w->mem->cta->rank << SHARED_RANK_SHIFT | at;
  }
}

/* Only programmatic launch lets the two overlap: the dependent grid is at fault. */
static bool early(struct report *r, const struct observer *w, const struct entry *e) {
  if (!w->cta)
    return false;
  const struct grid_record *mine = grid_record(w->cta->grid), *other = grid_record(e->grid);
  bool me = w->entry.flags & ENTRY_early && after_start_of(mine, other);
  bool you = e->flags & ENTRY_early && other->fn && after_start_of(other, mine);
  if (!me && !you)
    return false;
  /* A poll may come early. */
  const uint16_t by = me ? w->entry.flags : e->flags;
  if (!(by & ENTRY_write) && by & ENTRY_strong && (by >> ENTRY_scope & 3) >= SCOPE_gpu &&
      order_in_loop(me ? mine->fn : other->fn, me ? w->entry.insn : e->insn))
    return false;
  r->check = CHECK_pdl;
  uint16_t flags = me ? w->entry.flags : e->flags, others = me ? e->flags : w->entry.flags;
  r->rule = flags & ENTRY_write ? "pdl-write-before-wait" : "pdl-read-before-wait";
  (void)snprintf(r->text, sizeof r->text,
                 "%s of memory that an earlier grid of the stream, which may still run, %ss: "
                 "griddepcontrol.wait is missing before it",
                 verb(flags), verb(others));
  if (you) {
    const struct access *t = r->who;
    r->who = r->other;
    r->other = t;
  }
  return true;
}

static void race(struct report *r, const struct observer *w, const struct entry *e) {
  static const char *const rules[2][2] = {{"race", "race-read-write"},
                                          {"race-read-write", "race-write-write"}};
  r->check = CHECK_race;
  r->rule = rules[e->flags & ENTRY_write ? 1 : 0][w->entry.flags & ENTRY_write ? 1 : 0];
  struct words t = {r->text, sizeof r->text};
  say(&t, "%s of %s which another %s may meet: ", verb(w->entry.flags), w->mem->what,
      verb(e->flags));
  const char *why = not_morally_strong(w, e);
  if (why && !(e->flags & ENTRY_slot))
    say(&t, "both are strong, but %s; and ", why);
  missing_order(&t, w, e, r->other);
}

static void fence(struct report *r, const struct observer *w, const struct entry *e) {
  r->check = CHECK_proxy;
  r->rule = "proxy-async";
  (void)snprintf(r->text, sizeof r->text,
                 "the %s goes through the async proxy, the %s before it at line %u through the "
                 "generic one: no fence.proxy.async%s between them",
                 verb(w->entry.flags), verb(e->flags), r->other->insn ? r->other->insn->line : 0,
                 w->mem->space == SPACE_shared ? "" : " (.global)");
}

static void coherence(struct report *r, const struct observer *w, const struct entry *e) {
  bool both = w->entry.flags & e->flags & ENTRY_write;
  r->check = CHECK_mailbox; /* no race by the memory model */
  r->rule = both ? "unordered-stores" : "unordered-load";
  struct words t = {r->text, sizeof r->text};
  say(&t,
      both ? "a store to a word of %s after another one, and which of the two stays is a matter "
             "of timing: "
           : "a load and a store of a word of %s, and which comes first is a matter of timing "
             "(the load is not in a loop, so it is no poll): ",
      w->mem->what);
  missing_order(&t, w, e, r->other);
}

bool order_report_entry(struct report *r, const struct entry *other) {
  static struct past past;
  r->other = past_access(&past, r->who->m, other);
  return report(r->who->m, r);
}

bool order_report(const struct observer *w, const struct entry *e, uint64_t line, uint64_t bytes,
                  enum lack lack) {
  static struct past past;
  struct report r = {.who = w->a, .other = past_access(&past, w->a->m, e)};
  publish_address(&r, w, line + (uint64_t)__builtin_ctzll(bytes));
  switch (lack) {
  case LACK_fence:
    fence(&r, w, e);
    break;
  case LACK_map:
    r.check = CHECK_proxy;
    r.rule = "proxy-tensormap";
    (void)snprintf(
        r.text, sizeof r.text,
        "the tensor map was changed at line %u: fence.proxy.tensormap::generic, .release "
        "by the writer and .acquire by this thread, is missing",
        r.other->insn ? r.other->insn->line : 0);
    break;
  case LACK_wait:
    r.check = CHECK_pdl;
    r.rule = "pdl-read-before-wait";
    (void)snprintf(r.text, sizeof r.text,
                   "read of what an earlier grid of the stream wrote, known only by way of the "
                   "trigger of the grid between them: without griddepcontrol.wait before it the "
                   "read must be strong, at scope .gpu or wider, or it may find an older copy in "
                   "a cache of the SM");
    break;
  case LACK_after:
    r.check = CHECK_tcgen05;
    r.rule = "tcgen05-fence-after";
    (void)snprintf(r.text, sizeof r.text,
                   "%s of shared memory by a tcgen05 operation that no "
                   "tcgen05.fence::after_thread_sync orders behind the synchronisation with the %s",
                   verb(w->entry.flags), verb(e->flags));
    break;
  case LACK_coherence:
    if (!early(&r, w, e))
      coherence(&r, w, e);
    break;
  default:
    if (!early(&r, w, e))
      race(&r, w, e);
  }
  if (!report(w->a->m, &r))
    return false;
  struct grid *culprit = w->a->grid;
  if (r.who != w->a || !culprit) { /* the other side, if it still runs */
    grid_record(e->grid)->failed = true;
    for (struct grid *g = w->a->m->s->grids; g; g = g->run->next)
      culprit = g->record == e->grid ? g : culprit;
  }
  if (culprit)
    grid_fail(culprit);
  return true;
}

/* ---- the last writer ----------------------------------------------------------- */

bool order_last_writer(struct machine *m, uint64_t addr, uint32_t bytes, struct order_site *s) {
  struct mem *mem = global_find(m, addr);
  if (!mem || mem->freed)
    return false;
  for (uint32_t i = 0; i < bytes && addr - mem->base + i < mem->size; i++) {
    const struct entry *e = shadow_writer(mem->shadow, addr - mem->base + i);
    if (!e)
      continue;
    static struct past past;
    const struct access *a = past_access(&past, m, e);
    *s = (struct order_site){.host = !a->insn, .device = a->dev ? a->dev->ordinal : 0};
    if (s->host)
      return true;
    s->kernel = a->grid->fn->name;
    s->line = a->insn->line;
    s->text = a->insn->text;
    s->launch = a->grid->id;
    memcpy(s->cta, a->cta->ctaid, sizeof s->cta);
    access_thread(a, s->thread);
    return true;
  }
  return false;
}
