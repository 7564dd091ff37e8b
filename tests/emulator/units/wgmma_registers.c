/* SPDX-License-Identifier: Apache-2.0
 *
 * See wgmma_registers.h.  All lanes of a warp issue a wgmma together, so a register is kept
 * account of for the warp, whichever lanes access it.
 */
#include "wgmma_registers.h"

#include <stdio.h>
#include <stdlib.h>

/* What a wgmma does with a register. */
enum role { ROLE_none, ROLE_a, ROLE_accumulator };

/* Times are counts of wgmma.fence: what happened at `fences` has none behind it. */
struct reg_use {
  /* the last wgmma */
  const struct insn *by;
  enum role role;
  uint32_t shape, place; /* of the accumulator, and the register's index in it */
  uint32_t fences;
  uint64_t group, due;
  /* the last other instruction that wrote it, and that accessed it at all */
  const struct insn *writer, *user;
  uint32_t written, used;
};

struct wgmma_registers {
  uint32_t fences; /* from 1: nothing has happened at 0 */
  uint64_t waited;
  uint32_t count;
  struct reg_use use[];
};

struct wgmma_registers *wgmma_registers_new(uint32_t count) {
  struct wgmma_registers *r = unit_alloc(sizeof *r + count * sizeof r->use[0]);
  r->fences = 1;
  r->count = count;
  return r;
}

void wgmma_registers_free(struct wgmma_registers *r) {
  free(r);
}

void wgmma_registers_fence(struct wgmma_registers *r) {
  r->fences++;
}

void wgmma_registers_waited(struct wgmma_registers *r, uint64_t group) {
  if (group > r->waited)
    r->waited = group;
}

static const char *name_of(const struct warp *w, int32_t reg) {
  return w->fn->reg_name ? w->fn->reg_name[reg] : "a register";
}

/* ---- other instructions ---------------------------------------------------------------------- */

static bool access_one(struct wgmma_registers *r, struct warp *w, const struct insn *I, int lane,
                       int32_t reg, bool write) {
  struct reg_use *u = &r->use[reg];
  if (u->role != ROLE_none && u->group >= r->waited) {
    struct access a = access_of(w, I, lane), other = access_of(w, u->by, lane);
    struct report p = {.check = CHECK_race, .rule = "wgmma-in-flight", .who = &a, .other = &other};
    (void)snprintf(p.text, sizeof p.text,
                   "%s %s, %s of the wgmma.mma_async at line %u, which no wgmma.wait_group has "
                   "waited for: the tensor core may still %s it",
                   write ? "writes" : "reads", name_of(w, reg),
                   u->role == ROLE_a ? "a fragment of A" : "an accumulator", u->by->line,
                   u->role == ROLE_a ? "read" : "write");
    if (report(a.m, &p))
      return false;
    u->role = ROLE_none; /* once is enough */
  }
  u->user = I;
  u->used = r->fences;
  if (write) {
    u->writer = I;
    u->written = r->fences;
  }
  return true;
}

static bool access_operand(struct wgmma_registers *r, struct warp *w, const struct insn *I,
                           int lane, const struct opd *o, bool write) {
  if (o->kind == OPD_reg)
    return access_one(r, w, I, lane, o->reg, write) &&
           (o->pair < 0 || access_one(r, w, I, lane, o->pair, write));
  for (unsigned i = 0; i < o->n; i++) /* a vector, or an address */
    if (!access_operand(r, w, I, lane, &o->elem[i], write))
      return false;
  return true;
}

bool wgmma_registers_access(struct wgmma_registers *r, struct warp *w, const struct insn *I,
                            uint32_t lanes) {
  int lane = __builtin_ctz(lanes);
  for (unsigned k = I->nopd; k-- > 0;) /* sources first */
    if (!access_operand(r, w, I, lane, &I->opd[k], I->writes >> k & 1))
      return false;
  return true;
}

/* ---- wgmma ----------------------------------------------------------------------------------- */

/* Two instructions on the register, and no wgmma.fence between them. */
static bool unfenced(const struct access *a, int32_t reg, enum role role, const struct insn *before,
                     const char *did) {
  const struct warp *w = &a->cta->warp[a->warp];
  struct access other = *a;
  other.insn = before;
  struct report p = {.check = CHECK_race, .rule = "wgmma-fence", .who = a, .other = &other};
  (void)snprintf(p.text, sizeof p.text,
                 "no wgmma.fence since line %u %s %s, %s of this: nothing orders that before the "
                 "tensor core's access",
                 before->line, did, name_of(w, reg),
                 role == ROLE_a ? "a fragment of A" : "an accumulator");
  return report(a->m, &p);
}

static bool issue_one(const struct wgmma_registers *r, const struct access *a, int32_t reg,
                      enum role role, uint32_t shape, uint32_t place, uint64_t *earliest) {
  const struct reg_use *u = &r->use[reg];
  if (u->written == r->fences && unfenced(a, reg, role, u->writer, "wrote"))
    return false;
  if (role == ROLE_accumulator && u->used == r->fences && u->written != r->fences &&
      unfenced(a, reg, role, u->user, "read"))
    return false;
  if (u->role == ROLE_none || (role == ROLE_a && u->role == ROLE_a))
    return true;
  bool same = role == u->role && shape == u->shape && place == u->place;
  if (!same && u->fences == r->fences && unfenced(a, reg, role, u->by, "used"))
    return false;
  if (u->due + 1 > *earliest)
    *earliest = u->due + 1;
  return true;
}

bool wgmma_registers_issue(struct wgmma_registers *r, const struct access *a, uint32_t shape,
                           uint64_t *earliest) {
  const struct opd *d = &a->insn->opd[0], *f = &a->insn->opd[1];
  *earliest = 0;
  for (uint32_t i = 0; f->kind == OPD_vec && i < f->n; i++)
    if (f->elem[i].kind == OPD_reg && !issue_one(r, a, f->elem[i].reg, ROLE_a, 0, 0, earliest))
      return false;
  for (uint32_t i = 0; i < d->n; i++)
    if (!issue_one(r, a, d->elem[i].reg, ROLE_accumulator, shape, i, earliest))
      return false;
  return true;
}

void wgmma_registers_issued(struct wgmma_registers *r, const struct access *a, uint32_t shape,
                            uint64_t group, uint64_t due) {
  const struct opd *d = &a->insn->opd[0], *f = &a->insn->opd[1];
  const struct reg_use now = {
      .by = a->insn, .shape = shape, .fences = r->fences, .group = group, .due = due};
  for (uint32_t k = 0; k < 2; k++) {
    const struct opd *o = k ? d : f; /* a register in both is an accumulator */
    for (uint32_t i = 0; o->kind == OPD_vec && i < o->n; i++) {
      if (o->elem[i].kind != OPD_reg)
        continue;
      struct reg_use *u = &r->use[o->elem[i].reg], was = *u;
      *u = now;
      u->role = k ? ROLE_accumulator : ROLE_a;
      u->place = i;
      u->writer = was.writer;
      u->user = was.user;
      u->written = was.written;
      u->used = was.used;
      if (was.role != ROLE_none && was.due > u->due)
        u->due = was.due;
    }
  }
}
