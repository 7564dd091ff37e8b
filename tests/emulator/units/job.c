/* SPDX-License-Identifier: Apache-2.0
 *
 * Jobs, bulk groups and operand checks shared by the copy engines; see bulk.h.
 */
#include "../engine/peers.h"
#include "bulk.h"

#include <stdlib.h>

/* ---- bulk groups --------------------------------------------------------------- */

struct group {
  uint32_t reads, writes; /* copies whose source is unread, whose writes are not done */
};

/* Groups [first, first + count) of the thread; the last is open, the others committed. */
struct bulk_thread {
  struct group *group;
  uint64_t first;
  uint32_t count, room;
  uint64_t waited;    /* the thread knows that groups below have read their sources */
  uint64_t entered;   /* number of the last group with a copy, from 1 */
  struct access last; /* that copy */
  uint32_t in_flight; /* copies that still point here */
  bool dead;          /* the CTA is gone */
};

struct bulk_thread *bulk_thread(struct warp *w, int lane) {
  struct unit_cta *u = unit_cta(w->cta);
  struct bulk_thread **slot = &u->bulk[w->index * WARP + (uint32_t)lane];
  if (!*slot) {
    *slot = unit_alloc(sizeof **slot);
    (*slot)->room = 4;
    (*slot)->count = 1;
    (*slot)->group = unit_alloc(4 * sizeof(struct group));
  }
  return *slot;
}

static void bulk_drop(struct bulk_thread *t) {
  free(t->group);
  free(t);
}

void bulk_free(struct bulk_thread *t) {
  t->dead = true;
  if (t->in_flight == 0)
    bulk_drop(t);
}

uint64_t bulk_enter(struct bulk_thread *t, const struct access *a) {
  struct group *open = &t->group[t->count - 1];
  t->entered = t->first + t->count;
  t->last = *a;
  open->reads++;
  open->writes++;
  t->in_flight++;
  return t->first + t->count - 1;
}

void bulk_exit(const struct bulk_thread *t) {
  if (t->entered > t->waited)
    (void)fault(&t->last, CHECK_bounds, "exit-before-copy",
                "the CTA has exited, and the thread has not waited until this copy had read its "
                "source: the shared memory may belong to another CTA by then "
                "(cp.async.bulk.wait_group.read must come before)");
}

void bulk_read_done(struct bulk_thread *t, uint64_t group) {
  t->group[group - t->first].reads--;
}

void bulk_write_done(struct bulk_thread *t, uint64_t group) {
  t->group[group - t->first].writes--;
  t->in_flight--;
  /* Finished groups at the front go; the open one stays. */
  uint32_t gone = 0;
  while (gone + 1 < t->count && t->group[gone].writes == 0)
    gone++;
  for (uint32_t i = gone; i < t->count; i++)
    t->group[i - gone] = t->group[i];
  t->first += gone;
  t->count -= gone;
  if (t->dead && t->in_flight == 0)
    bulk_drop(t);
}

static enum step exec_commit(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  FOR_LANES(lane, lanes) {
    struct bulk_thread *t = bulk_thread(w, lane);
    if (t->count == t->room) {
      t->room *= 2;
      struct group *more = unit_alloc(t->room * sizeof *more);
      for (uint32_t i = 0; i < t->count; i++)
        more[i] = t->group[i];
      free(t->group);
      t->group = more;
    }
    t->group[t->count++] = (struct group){0, 0};
  }
  return STEP_next;
}

#define WAIT_READ ((uint64_t)1 << 63)

static bool groups_done(const struct wait *wait) {
  const struct bulk_thread *t = wait->object;
  uint64_t newest = wait->arg & ~WAIT_READ;
  uint32_t committed = t->count - 1;
  for (uint32_t i = 0; i < committed && committed - i > newest; i++)
    if (wait->arg & WAIT_READ ? t->group[i].reads : t->group[i].writes)
      return false;
  return true;
}

/* Groups are numbered from 1 for the order of accesses. */
static void groups_known(struct warp *w, int lane, const struct bulk_thread *t, uint64_t newest,
                         bool read) {
  uint64_t committed = t->first + t->count - 1, n = committed > newest ? committed - newest : 0;
  order_pipe_known(w, 1u << lane, PIPE_bulk_read, n);
  if (!read)
    order_pipe_known(w, 1u << lane, PIPE_bulk_write, n);
}

static enum step exec_wait_group(struct warp *w, const struct insn *I, uint32_t lanes) {
  bool waiting = false;
  FOR_LANES(lane, lanes) {
    struct wait wait = {.ready = groups_done,
                        .object = bulk_thread(w, lane),
                        .arg = I->opd[0].imm | (I->mod[0] == MOD_read ? WAIT_READ : 0),
                        .what = I->mod[0] == MOD_read ? "bulk group (source read)" : "bulk group"};
    struct bulk_thread *t = bulk_thread(w, lane);
    uint64_t closed = t->first + t->count - 1, newest = I->opd[0].imm;
    if (closed > newest && closed - newest > t->waited)
      t->waited = closed - newest;
    if (groups_done(&wait)) {
      groups_known(w, lane, wait.object, I->opd[0].imm, I->mod[0] == MOD_read);
      continue;
    }
    warp_wait(w, 1u << lane, wait);
    waiting = true;
  }
  return waiting ? STEP_wait : STEP_next;
}

const struct form forms_bulk_group[] = {
    {.pattern = "cp.async.bulk.commit_group",
     .operands = "",
     .exec = exec_commit,
     .tested = "definition"},
    {.pattern = "cp.async.bulk.wait_group[.read]",
     .operands = "i",
     .exec = exec_wait_group,
     .tested = "definition"},
    {.pattern = NULL},
};

/* ---- jobs ------------------------------------------------------------------------ */

struct part_event {
  struct event e;
  struct job *job;
  unsigned part;
  bool writing;
};

static void job_finish(struct job *j) {
  if (!j->failed && j->done)
    j->done(j);
  if (j->thread)
    bulk_write_done(j->thread, j->group);
  order_issue_over(&j->a);
  if (j->release)
    j->release(j);
  free(j->data);
  free(j->undef);
  free(j);
}

static void part_fire(struct machine *m, struct event *e) {
  struct part_event *p = (struct part_event *)e;
  struct job *j = p->job;
  if (!p->writing) {
    j->failed |= !j->failed && !j->read(j, p->part);
    if (--j->unread == 0 && j->thread)
      bulk_read_done(j->thread, j->group);
    if (j->deferred_write) {
      p->writing = true;
      event_post(m, &p->e, j->latency);
      return;
    }
  }
  j->failed |= !j->failed && !j->write(j, p->part);
  free(p);
  if (--j->unwritten == 0)
    job_finish(j);
}

void job_start(struct job *j, uint32_t size, unsigned limit) {
  struct machine *m = j->a.m;
  j->size = size;
  j->data = unit_alloc(size);
  j->undef = check_on(m, CHECK_undef) ? unit_alloc(size) : NULL;
  /* Mostly whole, at times in up to four parts that arrive in any order. */
  uint64_t dice = draw(m, j->latency);
  j->parts = dice % 4 == 0 ? 1 + (unsigned)(dice >> 8) % 4 : 1;
  if (j->parts > limit)
    j->parts = limit ? limit : 1;
  j->unread = j->unwritten = j->parts;
  for (unsigned i = 0; i < j->parts; i++) {
    struct part_event *p = unit_alloc(sizeof *p);
    p->e.fire = part_fire;
    p->e.what = j->what;
    p->job = j;
    p->part = i;
    event_post(m, &p->e, j->latency);
  }
}

void job_range(const struct job *j, unsigned part, uint32_t total, uint32_t *from, uint32_t *to) {
  *from = (uint32_t)((uint64_t)total * part / j->parts);
  *to = (uint32_t)((uint64_t)total * (part + 1) / j->parts);
}

/* ---- operands ---------------------------------------------------------------------- */

bool shared_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                    enum space sp, uint64_t *addr) {
  struct access a = access_of(w, I, lane);
  uint64_t raw;
  return opd_address(w, I, o, lane, &raw) &&
         shared_cluster_address(&a, o->symbol ? (enum space)o->space : sp, raw, addr);
}

bool mbar_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                  enum space sp, uint64_t *addr) {
  if (!shared_operand(w, I, o, lane, sp, addr))
    return false;
  if (*addr % 8) {
    struct access a = access_of(w, I, lane);
    if (fault(&a, CHECK_bounds, "misaligned-mbarrier",
              "the mbarrier address 0x%llx is not a multiple of 8", (unsigned long long)*addr))
      return false;
    *addr &= ~(uint64_t)7;
  }
  return true;
}

bool global_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                    uint64_t *addr) {
  if (!opd_address(w, I, o, lane, addr))
    return false;
  uint64_t inner;
  enum space sp = o->symbol ? (enum space)o->space : generic_space(*addr, &inner);
  if (sp == SPACE_global || sp == SPACE_const)
    return true;
  struct access a = access_of(w, I, lane);
  hard_fault(&a, CHECK_bounds, "wrong-space", "0x%llx is not an address in global memory",
             (unsigned long long)*addr);
  return false;
}

bool mask_operand(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                  uint32_t *mask) {
  if (!require_defined(w, I, o, lane, "mask"))
    return false;
  *mask = (uint32_t)opd_get(w, o, lane) & 0xffff;
  uint32_t size = w->cta->cluster->size, all = (uint32_t)(((uint64_t)1 << size) - 1);
  struct access a = access_of(w, I, lane);
  if (*mask && !(*mask & ~all)) {
    for (uint32_t rank = 0; rank < size; rank++)
      if (*mask >> rank & 1 && !peers_started(&a, rank, (uint64_t)rank << SHARED_RANK_SHIFT))
        return false;
    return true;
  }
  hard_fault(&a, CHECK_cluster, "multicast-mask",
             "the CTA mask 0x%x must name at least one and only CTAs of the cluster of %u",
             (unsigned)*mask, (unsigned)size);
  return false;
}
