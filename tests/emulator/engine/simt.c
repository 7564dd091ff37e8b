/* SPDX-License-Identifier: Apache-2.0
 *
 * One warp: which of its lanes run next, and what stops them.
 *
 * Every lane has its own pc.  The group of lanes with the smallest pc that can run is
 * executed until it reaches the pc of others, so that code with structured branches
 * reconverges where its paths meet; that they may stay apart as well is apart.c's.  Three
 * things make lanes step back:
 *   - an instruction that needs other lanes of the warp (.aligned, membermask): the lanes
 *     there are held until the others have come;
 *   - a wait (warp_wait): parked until its condition holds or its deadline has passed;
 *   - a loop in which no register changes while nothing else in the machine happens: it
 *     can only end by someone else's doing, so its lanes are parked until something
 *     happens; one that polls a word (poll.h) until that changes.  A loop that goes on while
 * siblings could run yields to them for a while.
 */
#include "poll.h"

#define SIBLING_EDGES 128 /* back edges before siblings at a higher pc get their turn */
#define SIBLING_STEPS 64  /* and for how many instructions */

/* ---- waiting ------------------------------------------------------------------------------ */

void warp_wait(struct warp *w, uint32_t lanes, struct wait wait) {
  wait.timed_out = false;
  FOR_LANES(l, lanes) w->wait[l] = wait;
  w->simt.group[first_lane(lanes)] = lanes;
  w->waiting |= lanes;
  w->simt.seen = UINT64_MAX; /* look at it at least once */
  if (wait.deadline && (!w->simt.deadline || wait.deadline < w->simt.deadline))
    w->simt.deadline = wait.deadline;
}

bool warp_wake(struct machine *m, struct warp *w) {
  struct simt *s = &w->simt;
  bool late = s->deadline && m->now >= s->deadline;
  if (s->seen == m->activity && !late)
    return false;
  s->seen = m->activity;
  uint32_t woken = 0;
  uint64_t next = 0;
  for (uint32_t left = w->waiting; left;) {
    int l = first_lane(left);
    uint32_t group = s->group[l] & left;
    struct wait *wait = &w->wait[l];
    left &= ~group;
    bool over = wait->deadline && m->now >= wait->deadline;
    if (wait->ready(wait)) {
      woken |= group;
    } else if (over) {
      FOR_LANES(k, group) w->wait[k].timed_out = true;
      woken |= group;
    } else {
      s->group[l] = group;
      if (wait->deadline && (!next || wait->deadline < next))
        next = wait->deadline;
    }
  }
  s->deadline = next;
  w->waiting &= ~woken;
  FOR_LANES(l, woken) {
    if (w->wait[l].ready == spin_ready || poll_waits(&w->wait[l]))
      woken &= ~(1u << l); /* nobody called warp_wait: the loop simply goes on */
  }
  s->ended |= woken;
  if (woken)
    apart_wait(m, w, woken);
  return (w->live & ~w->waiting & ~s->held) != 0;
}

bool spin_ready(const struct wait *wait) {
  const struct warp *w = wait->object;
  return w->cta->grid->dev->m->activity != wait->arg;
}

/* ---- loops that only someone else can end -------------------------------------- */

static bool registers_equal(const struct warp *w, uint32_t lanes) {
  const uint64_t *now = w->r, *then = w->simt.spin_r;
  size_t n = w->fn->nreg;
  if (lanes == ALL_LANES)
    return !memcmp(now, then, n * WARP * sizeof *now);
  for (size_t s = 0; s < n; s++) {
    uint64_t differ = 0;
    FOR_LANES(l, lanes) differ |= now[s * WARP + l] ^ then[s * WARP + l];
    if (differ)
      return false;
  }
  return true;
}

/* The lanes jumped from pc back to head.  true: they were parked. */
static bool back_edge(struct machine *m, struct warp *w, uint32_t pc, uint32_t head,
                      uint32_t lanes) {
  struct simt *s = &w->simt;
  struct spin *p = &s->spin[pc & 3];
  size_t bytes = (size_t)w->fn->nreg * WARP * sizeof *w->r;
  if (p->pc != pc || p->lanes != lanes || p->activity != m->activity) {
    *p = (struct spin){
        .pc = pc, .head = head, .lanes = lanes, .count = 1, .next = 2, .activity = m->activity};
    return false;
  }
  p->count++;
  if (p->saved) {
    p->saved = false;
    if (registers_equal(w, lanes)) {
      p->count = 0;
      warp_wait(w, lanes,
                (struct wait){.ready = spin_ready,
                              .object = w,
                              .arg = m->activity,
                              .what = "a loop that changes nothing",
                              .address = pc});
      return true;
    }
    p->next = p->count < 2048 ? p->count * 2 : p->count + 4096;
  } else if (p->count >= p->next) {
    if (!s->spin_r)
      s->spin_r = emu_alloc(bytes);
    memcpy(s->spin_r, w->r, bytes);
    for (int i = 0; i < 4; i++)
      s->spin[i].saved = false; /* there is one copy */
    p->saved = true;
  }
  return false;
}

/* ---- guards -------------------------------------------------------------------- */

/* The lanes whose guard holds; *ok = false: an undefined guard ended the launch. */
static uint32_t guard(struct machine *m, struct warp *w, const struct insn *I, uint32_t lanes,
                      bool *ok) {
  if (I->pred < 0)
    return lanes;
  const uint64_t *r = w->r + (size_t)I->pred * WARP;
  const uint64_t *u = w->u + (size_t)I->pred * WARP;
  uint32_t set = 0;
  uint64_t undef = 0;
  for (int l = 0; l < WARP; l++) {
    set |= (uint32_t)(r[l] & 1) << l;
    undef |= u[l];
  }
  if (undef & 1 && check_on(m, CHECK_undef)) {
    FOR_LANES(l, lanes) {
      if (!(u[l] & 1))
        continue;
      struct access a = access_of(w, I, (int)l);
      bool branch = I->form->flags & FORM_branch;
      if (fault(&a, CHECK_undef, branch ? "undef-branch" : "undef-predicate",
                "the guard %s%s of %s is undefined", I->pred_invert ? "!" : "",
                w->fn->reg_name ? w->fn->reg_name[I->pred] : "",
                branch ? "a branch" : "an instruction")) {
        *ok = false;
        return 0;
      }
    }
  }
  return (I->pred_invert ? ~set : set) & lanes;
}

/* ---- instructions that need other lanes ------------------------------------------------------ */

static bool divergent(struct warp *w, const struct insn *I, uint32_t here, uint32_t missing,
                      const char *why) {
  struct access a = access_of(w, I, first_lane(here));
  bool aligned = I->form->flags & FORM_aligned;
  return fault(&a, CHECK_cluster, aligned ? "aligned-divergent" : "member-divergent",
               "%s: lanes 0x%08x are here, lanes 0x%08x of the warp are not: %s",
               aligned ? "an .aligned instruction needs all lanes of the warp"
                       : "the membermask names lanes that do not come",
               here, missing, why);
}

/* .uni promises that the lanes which execute the branch together all take it, or none.  Lanes
 * that were apart may stand here by chance, in different turns of a loop. */
static bool splits_uniform(struct warp *w, const struct insn *I, uint32_t taken, uint32_t past) {
  if (w->simt.parted)
    return false;
  struct access a = access_of(w, I, first_lane(past));
  return fault(&a, CHECK_cluster, "uni-divergent",
               ".uni promises that all lanes go one way: lanes 0x%08x do, lanes 0x%08x do not; "
               "leave .uni out",
               taken, past);
}

static uint32_t held_at(const struct warp *w, uint32_t pc) {
  uint32_t at = 0;
  FOR_LANES(l, w->simt.held) at |= (uint32_t)(w->pc[l] == pc) << l;
  return at;
}

/* The operand that holds the membermask: the last one. */
static const struct opd *membermask(const struct insn *I) {
  return &I->opd[I->nopd - 1];
}

enum gather { GATHER_go, GATHER_hold, GATHER_fault };

/* May the lanes at this FORM_member instruction (guard already applied) execute it?  On
 * GATHER_go *lanes is the set to execute: those that name the same mask. */
static enum gather gather_members(struct warp *w, const struct insn *I, uint32_t *lanes,
                                  bool force) {
  const struct opd *o = membermask(I);
  int leader = first_lane(*lanes);
  FOR_LANES(l, *lanes) {
    if (!require_defined(w, I, o, (int)l, "mask"))
      return GATHER_fault;
  }
  uint32_t mask = (uint32_t)opd_get(w, o, leader);
  uint32_t same = 0;
  FOR_LANES(l, *lanes) same |= (uint32_t)((uint32_t)opd_get(w, o, (int)l) == mask) << l;
  if (same & ~mask) {
    struct access a = access_of(w, I, first_lane(same & ~mask));
    if (fault(&a, CHECK_cluster, "member-mask",
              "the membermask 0x%08x does not name the executing lanes 0x%08x", mask, same & ~mask))
      return GATHER_fault;
    mask |= same;
  }
  uint32_t missing = mask & w->live & ~same;
  *lanes = same;
  if (!missing || force)
    return GATHER_go;
  return GATHER_hold;
}

/* ---- running a group ------------------------------------------------------------------------- */

static void set_pc(struct warp *w, uint32_t lanes, uint32_t pc) {
  if (lanes == ALL_LANES) {
    for (int l = 0; l < WARP; l++)
      w->pc[l] = pc;
    return;
  }
  FOR_LANES(l, lanes) w->pc[l] = pc;
}

static uint32_t at_first_target(const struct warp *w, uint32_t lanes) {
  uint32_t pc = w->pc[first_lane(lanes)], same = 0;
  FOR_LANES(l, lanes) same |= (uint32_t)(w->pc[l] == pc) << l;
  return same;
}

struct group {
  uint32_t lanes, pc;
  uint32_t limit;   /* where other lanes stand: regroup there */
  uint32_t resumed; /* all of lanes, or none */
  bool force;       /* execute although lanes are missing */
};

/* What ended a run of a group. */
enum ended { ENDED_regroup, ENDED_budget, ENDED_fault };

/* Lanes left the warp while others stand at an instruction that needs all of them. */
static bool check_held_after_exit(struct warp *w, uint32_t gone) {
  struct simt *s = &w->simt;
  FOR_LANES(l, s->held) {
    const struct insn *I = &w->fn->insn[w->pc[l]];
    if (!(I->form->flags & FORM_aligned))
      continue;
    if (divergent(w, I, held_at(w, w->pc[l]), gone, "they have exited"))
      return false;
    break;
  }
  s->held = 0; /* looked at again: fewer lanes are needed now */
  return true;
}

/* Before an instruction that needs other lanes; may shrink or grow g->lanes. */
static enum gather gather(struct machine *m, struct warp *w, const struct insn *I, struct group *g,
                          uint32_t *active) {
  struct simt *s = &w->simt;
  bool ok = true;
  uint32_t at = g->lanes | held_at(w, g->pc);
  if (I->form->flags & FORM_aligned) {
    if (at != w->live && !g->force) {
      s->held |= g->lanes;
      return GATHER_hold;
    }
    s->held &= ~at;
    s->parted = false;
    g->lanes = at;
    *active = guard(m, w, I, at, &ok);
    if (ok && *active && *active != at)
      ok = !divergent(w, I, *active, at & ~*active, "their guard is false");
    return ok ? GATHER_go : GATHER_fault;
  }
  *active = guard(m, w, I, at, &ok);
  if (!ok)
    return GATHER_fault;
  uint32_t past = at & ~*active;
  s->held &= ~at;
  if (past)
    set_pc(w, past, g->pc + 1);
  g->lanes = *active;
  if (!*active)
    return GATHER_hold; /* nobody executes it; regroup */
  enum gather r = gather_members(w, I, active, g->force);
  /* Lanes with other masks stay where they are, for the next choice of a group. */
  if (r == GATHER_hold)
    s->held |= *active;
  else if (*active == w->live)
    s->parted = false;
  g->lanes = *active;
  return r;
}

static enum ended run_group(struct machine *m, struct warp *w, struct group g, uint32_t *budget) {
  struct simt *s = &w->simt;
  const struct insn *code = w->fn->insn;
  uint32_t pc = g.pc;
  for (;;) {
    const struct insn *I = &code[pc];
    uint32_t flags = I->form->flags, lanes = g.lanes, active = lanes;
    bool ok = true;
    g.pc = pc;
    if (flags & (FORM_aligned | FORM_member) && !g.resumed) {
      set_pc(w, lanes, pc);
      enum gather r = gather(m, w, I, &g, &active);
      if (r != GATHER_go)
        return r == GATHER_hold ? ENDED_regroup : ENDED_fault;
      lanes = g.lanes;
      g.force = false;
    } else if (!g.resumed) {
      active = guard(m, w, I, lanes, &ok);
      if (!ok) {
        set_pc(w, lanes, pc);
        return ENDED_fault;
      }
    }
    enum step step = STEP_next;
    if (active != lanes && active && flags & FORM_branch && I->mod[0] == MOD_uni &&
        splits_uniform(w, I, active, lanes & ~active)) {
      set_pc(w, lanes, pc);
      return ENDED_fault;
    }
    if (active) {
      w->resumed = g.resumed;
      s->ended &= ~lanes;
      m->now++;
      m->s->steps++;
      step = I->watched && !units_registers_used(w, I, active) ? STEP_fault
                                                               : I->form->exec(w, I, active);
      w->resumed = 0;
      g.resumed = 0;
      if (*budget)
        --*budget;
      if (m->now >= m->s->next_due)
        *budget = 0; /* asynchronous work is due */
    }
    switch (step) {
    case STEP_next:
      pc++;
      if (pc >= g.limit || !*budget || flags & (FORM_aligned | FORM_member)) {
        set_pc(w, lanes, pc);
        if (!*budget)
          return ENDED_budget;
        if (pc >= g.limit || lanes != (w->live & ~w->waiting))
          return ENDED_regroup;
      }
      continue;
    case STEP_jump: {
      set_pc(w, lanes & ~active, pc + 1);
      uint32_t gone = active & ~w->live, back = active & w->live;
      if (gone && !check_held_after_exit(w, gone))
        return ENDED_fault;
      if (!back)
        return ENDED_regroup;
      uint32_t part = I->nopd > 1 ? at_first_target(w, back) : back; /* a branch by a table */
      if (part != lanes)
        apart_branch(m, w, part, lanes & w->live & ~part);
      uint32_t head = w->pc[first_lane(back)];
      if (head <= pc) {
        if (back_edge(m, w, pc, head, back) || poll_park(m, w, pc, head, back))
          return ENDED_regroup;
        if (w->live & ~w->waiting & ~s->held & ~back && ++s->sibling_edges >= SIBLING_EDGES) {
          s->sibling_edges = 0;
          s->avoid |= back;
          s->avoid_steps = SIBLING_STEPS;
        }
      }
      /* The usual case: everybody jumped to one place, ahead of nobody else. */
      if (!*budget)
        return ENDED_budget;
      if (active != lanes || g.limit != UINT32_MAX || gone || s->avoid)
        return ENDED_regroup;
      FOR_LANES(l, back) {
        if (w->pc[l] != head)
          return ENDED_regroup;
      }
      pc = head;
      continue;
    }
    case STEP_wait: {
      uint32_t done = lanes & ~w->waiting;
      set_pc(w, lanes & w->waiting, pc);
      set_pc(w, done, pc + 1);
      return ENDED_regroup;
    }
    case STEP_fault:
    default:
      set_pc(w, lanes, pc);
      grid_fail(w->cta->grid);
      return ENDED_fault;
    }
  }
}

/* ---- choosing the group ---------------------------------------------------------------------- */

static bool choose(struct warp *w, struct group *g) {
  struct simt *s = &w->simt;
  uint32_t can = w->live & ~w->waiting & ~s->held;
  *g = (struct group){.limit = UINT32_MAX};
  if (s->late)
    can = apart_choose(s, can);
  if (!can) {
    /* Held lanes run when nobody is left who could join them. */
    if (!s->held || w->waiting)
      return false;
    g->force = true;
    can = s->held;
  }
  uint32_t pick = can;
  if (s->avoid) {
    if (s->avoid_steps && can & ~s->avoid) {
      pick = can & ~s->avoid;
      s->avoid_steps--;
    } else {
      s->avoid = 0;
    }
  }
  uint32_t pc = UINT32_MAX;
  FOR_LANES(l, pick) pc = w->pc[l] < pc ? w->pc[l] : pc;
  FOR_LANES(l, can) {
    if (w->pc[l] == pc)
      g->lanes |= 1u << l;
    else if (w->pc[l] > pc && w->pc[l] < g->limit)
      g->limit = w->pc[l];
  }
  g->pc = pc;
  /* Resumed and new lanes never mix; one instruction, then they meet again. */
  if (s->ended & g->lanes) {
    if (g->lanes & ~s->ended)
      g->limit = pc + 1;
    g->lanes &= s->ended;
    g->resumed = g->lanes;
  }
  if (s->avoid && g->limit > pc + 1)
    g->limit = pc + 1; /* counts steps */
  return true;
}

enum quantum warp_run(struct machine *m, struct warp *w, uint32_t budget) {
  struct group g;
  m->s->current = w;
  enum quantum q = QUANTUM_more;
  while (budget) {
    if (!w->live) {
      q = QUANTUM_over;
      break;
    }
    if (!choose(w, &g)) {
      q = QUANTUM_parked;
      break;
    }
    if (g.force) {
      const struct insn *I = &w->fn->insn[g.pc];
      if (divergent(w, I, g.lanes, w->live & ~g.lanes, "they wait at another such instruction")) {
        q = QUANTUM_fault;
        break;
      }
    }
    uint64_t steps = m->s->steps;
    enum ended ended = run_group(m, w, g, &budget);
    if (w->simt.late)
      apart_ran(&w->simt, m->s->steps - steps);
    if (ended == ENDED_fault) {
      q = QUANTUM_fault;
      break;
    }
  }
  if (q == QUANTUM_more && !w->live)
    q = QUANTUM_over;
  m->s->current = NULL;
  return q;
}

void warp_exit(struct warp *w, uint32_t lanes) {
  lanes &= w->live;
  order_lanes_exited(w, lanes);
  w->live &= ~lanes;
  struct cta *c = w->cta;
  uint32_t n = (uint32_t)__builtin_popcount(lanes);
  c->nthread -= n;
  c->cluster->nthread -= n;
  c->grid->dev->m->activity++;
  barrier_lanes_exited(w, lanes);
  cluster_lanes_exited(w, lanes);
}
