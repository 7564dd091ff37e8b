/* SPDX-License-Identifier: Apache-2.0
 *
 * Control flow: the executors set the lanes' pc; which lanes run next and where they
 * come together again is the engine's.  Calls are not here: the loader inlines them.
 */
#include "ops.h"

static enum step bra(struct warp *w, const struct insn *I, uint32_t lanes) {
  const uint32_t target = (uint32_t)I->opd[0].imm;
  EACH_LANE(l, lanes, w->pc[l] = target;);
  return STEP_jump;
}

static enum step brx(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *table = &I->opd[1];
  const uint32_t first = (uint32_t)opd_get(w, &I->opd[0], __builtin_ctz(lanes));
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    if (!require_defined(w, I, &I->opd[0], l, "branch"))
      return STEP_fault;
    uint32_t i = (uint32_t)opd_get(w, &I->opd[0], l);
    if (i >= table->n) {
      struct access a = access_of(w, I, l);
      fault(&a, CHECK_progress, "brx-index", "index %u of a table of %u branch targets", i,
            table->n);
      return STEP_fault;
    }
    if (i != first && I->mod[0] == MOD_uni && !w->simt.parted) {
      struct access a = access_of(w, I, l);
      if (fault(&a, CHECK_cluster, "uni-divergent",
                ".uni promises that all lanes go one way: the index is %u in lane %d, %u in "
                "lane %d; leave .uni out",
                first, __builtin_ctz(lanes), i, l))
        return STEP_fault;
    }
    w->pc[l] = (uint32_t)table->elem[i].imm;
  }
  return STEP_jump;
}

static enum step leave(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  warp_exit(w, lanes);
  return STEP_jump;
}

static enum step trap(struct warp *w, const struct insn *I, uint32_t lanes) {
  struct access a = access_of(w, I, __builtin_ctz(lanes));
  fault(&a, CHECK_progress, "trap", "%s executed", I->form->pattern);
  return STEP_fault;
}

static enum step nothing(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)w, (void)I, (void)lanes;
  return STEP_next;
}

static bool never(const struct wait *w) {
  (void)w;
  return false;
}

/* Sleeps in virtual time, whose unit stands for a nanosecond. */
static enum step nanosleep_(struct warp *w, const struct insn *I, uint32_t lanes) {
  if (w->resumed & lanes)
    return STEP_next;
  for (uint32_t left = lanes; left; left &= left - 1) {
    const int l = __builtin_ctz(left);
    if (!require_defined(w, I, &I->opd[0], l, "count"))
      return STEP_fault;
    uint64_t ns = opd_get(w, &I->opd[0], l);
    warp_wait(
        w, 1u << l,
        (struct wait){.ready = never,
                      .deadline = w->cta->grid->dev->m->now + (ns > 1000000 ? 1000000 : ns) + 1,
                      .what = "nanosleep"});
  }
  return STEP_wait;
}

static const char *check_nreg(const struct insn *I) {
  const uint64_t n = I->opd[0].imm;
  return n < 24 || n > 256 || n % 8 ? "the register count is a multiple of 8 in 24 .. 256" : NULL;
}

const struct form forms_ctrl[] = {
    {"bra[.uni]", "L", bra, FORM_branch, "definition", 0},
    {"brx.idx[.uni]", "r32 B", brx, FORM_branch, "definition", 0},
    {"ret[.uni]", "", leave, FORM_branch, "definition", 0},
    {"exit", "", leave, FORM_branch, "definition", 0},
    {"trap", "", trap, 0, "definition", 0},
    {"brkpt", "", trap, 0, "definition", 0},
    {"pmevent", "i", nothing, 0, "definition", 0},
    {"pmevent.mask", "i", nothing, 0, "definition", 0},
    {"setmaxnreg{.inc|.dec}.sync.aligned.u32", "i", nothing, FORM_aligned, "definition",
     check_nreg},
    {"nanosleep.u32", "rT", nanosleep_, 0, "definition", 0},
    {0},
};
