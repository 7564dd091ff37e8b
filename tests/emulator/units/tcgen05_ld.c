/* SPDX-License-Identifier: Apache-2.0
 *
 * tcgen05.ld and tcgen05.st: tensor memory to and from registers (PTX ISA 9.7.16.8).
 *
 * Where register j of thread t lies, relative to the address (lane, column):
 *   32x32b     lane t                         column j
 *   16x64b     lane t/4 + 8*(t&1)             column ((t>>1)&1) + 2*j
 *   16x128b    lane t/4 + 8*(j&1)             column t%4 + 4*(j>>1)
 *   16x256b    lane t/4 + 8*((j>>1)&1)        column 2*(t%4) + (j&1) + 8*(j>>2)
 *   16x32bx2   lane t%16                      column j, + the split for threads 16..31
 * With pack::16b and unpack::16b, "column c" is the low halves of columns 2c and 2c + 1.
 */
#include "tcgen05.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct place {
  uint32_t lane, column;
};

static struct place place_of(enum mod shape, uint32_t t, uint32_t j, uint32_t split) {
  switch ((int)shape) {
  case MOD_32x32b:
    return (struct place){t, j};
  case MOD_16x64b:
    return (struct place){t / 4 + 8 * (t & 1), (t >> 1 & 1) + 2 * j};
  case MOD_16x128b:
    return (struct place){t / 4 + 8 * (j & 1), t % 4 + 4 * (j >> 1)};
  case MOD_16x256b:
    return (struct place){t / 4 + 8 * (j >> 1 & 1), 2 * (t % 4) + (j & 1) + 8 * (j >> 2)};
  default:
    return (struct place){t % 16, j + (t >= 16 ? split : 0)};
  }
}

/* What both instructions take from their operands; the operand `split` says how far apart
 * .16x32bx2 has its halves, 0: there is none. */
struct transfer {
  enum mod shape;
  bool pack;
  uint32_t lane, column, split, count;
  uint32_t width; /* columns from `column` on that may be touched */
};

static bool decode(struct warp *w, const struct insn *I, uint32_t lanes, const struct opd *at,
                   const struct opd *regs, unsigned split, struct transfer *x) {
  int first = __builtin_ctz(lanes);
  struct access a = access_of(w, I, first);
  uint64_t addr, other;
  x->shape = (enum mod)I->mod[0];
  x->pack = I->mod[1] != MOD_none;
  x->count = regs->n;
  x->split = split ? (uint32_t)I->opd[split].imm : 0;
  uint32_t per_register = x->shape == MOD_32x32b || x->shape == MOD_16x32bx2 ? 1 : 2;
  x->width = x->shape == MOD_16x64b || x->shape == MOD_16x256b || x->shape == MOD_16x128b
                 ? x->count * per_register
                 : x->count + x->split;
  if (x->pack)
    x->width *= 2;
  if (!opd_address(w, I, at, first, &addr))
    return false;
  FOR_LANES(lane, lanes) {
    if (!opd_address(w, I, at, lane, &other))
      return false;
    if (other != addr && fault(&a, CHECK_tcgen05, "tmem-address-differs",
                               "thread %d has tensor memory address 0x%08x, thread %d 0x%08x: all "
                               "threads of the warp must pass the same",
                               first, (unsigned)addr, lane, (unsigned)other))
      return false;
  }
  if (!tmem_operand(w, I, at, first, 0xffffffffu, I->text, x->width, &x->lane, &x->column))
    return false;
  uint32_t quarter = w->index % 4 * 32;
  bool half = x->shape != MOD_32x32b && x->lane == quarter + 16;
  if (x->lane != quarter && !half) {
    if (fault(&a, CHECK_tcgen05, "tmem-lane-quarter",
              "warp %u may touch lanes %u..%u only, the address names lane %u", w->index, quarter,
              quarter + 31, x->lane))
      return false;
    x->lane = quarter; /* the hardware ignores these bits */
  }
  return true;
}

static void word_at(const struct transfer *x, uint32_t t, uint32_t j, uint32_t *lane,
                    uint32_t *column) {
  struct place p = place_of(x->shape, t, j, x->split);
  *lane = x->lane + p.lane;
  *column = x->column + (x->pack ? 2 * p.column : p.column);
}

/* ---- ld -------------------------------------------------------------------------------- */

struct load {
  struct tc_load load;
  struct transfer x;
};

static void load_run(struct tc_op *op) {
  struct load *l = (struct load *)op;
  const struct transfer *x = &l->x;
  struct tc_warp *tw = &op->queue->warp[op->a.warp];
  l->load.arrived = true;
  tw->loads--;
  const struct warp *w = &op->cta->warp[op->a.warp];
  if (op->queue->dead || !w->r) /* the warp has exited */
    return;
  const struct tmem *t = tmem_of(op->cta);
  const struct opd *v = &l->load.insn->opd[0];
  for (uint32_t j = 0; j < x->count; j++) {
    if (v->elem[j].kind != OPD_reg)
      continue;
    uint64_t *r = &w->r[(size_t)v->elem[j].reg * WARP];
    const uint64_t *u = &w->u[(size_t)v->elem[j].reg * WARP];
    for (uint32_t lane = 0; lane < WARP; lane++) {
      uint32_t tl, tc;
      word_at(x, lane, j, &tl, &tc);
      uint32_t value = t->word[tl][tc], undef = t->undef[tl][tc];
      if (x->pack) {
        value = (value & 0xffff) | t->word[tl][tc + 1] << 16;
        undef = (undef & 0xffff) | t->undef[tl][tc + 1] << 16;
      }
      if (l->load.undef) {
        l->load.undef[j * WARP + lane] = undef;
        if ((uint32_t)u[lane] != 0xffffffffu)
          continue; /* the register has been given another value since */
      }
      r[lane] = value;
    }
  }
}

static enum step load(struct warp *w, const struct insn *I, uint32_t lanes, unsigned split) {
  struct transfer x;
  if (!decode(w, I, lanes, &I->opd[1], &I->opd[0], split, &x))
    return STEP_fault;
  int first = __builtin_ctz(lanes);
  struct tc_queue *q = tc_queue(w->cta);
  struct access a = async_access(w, I, first, PROXY_async);
  order_issue_tcgen05(&a, PIPE_tcgen05_ld);
  if (!order_tmem(&a, TMEM_ld, x.lane / 16, x.shape == MOD_32x32b ? 2 : 1, x.column, x.width, false,
                  0)) {
    order_issue_over(&a);
    return STEP_fault;
  }
  const struct tc_op *p = tc_in_flight(q, 1u << TC_OP_mma | 1u << TC_OP_cp, x.column, x.width);
  if (p) {
    struct report r = {.check = CHECK_tcgen05,
                       .rule = "tmem-read-in-flight",
                       .who = &a,
                       .other = &p->a,
                       .text = "reads columns that an operation not known to be complete writes: "
                               "wait for its tcgen05.commit first"};
    if (report(a.m, &r)) {
      order_issue_over(&a);
      return STEP_fault;
    }
  }
  struct load *l = unit_alloc(sizeof *l);
  bool track = check_on(a.m, CHECK_undef);
  l->x = x;
  l->load.insn = I;
  l->load.count = x.count;
  if (track)
    l->load.undef = unit_alloc(x.count * WARP * sizeof *l->load.undef);
  for (uint32_t j = 0; track && j < x.count; j++)
    if (I->opd[0].elem[j].kind == OPD_reg) /* not to be used before wait::ld */
      for (int lane = 0; lane < WARP; lane++)
        w->u[(size_t)I->opd[0].elem[j].reg * WARP + (size_t)lane] = 0xffffffffu;
  struct tc_warp *tw = &q->warp[w->index];
  tw->loads++;
  *tw->last = &l->load;
  tw->last = &l->load.next_load;
  l->load.op.a = a;
  l->load.op.cta = w->cta;
  l->load.op.kind = TC_OP_ld;
  l->load.op.column = x.column;
  l->load.op.columns = x.width;
  l->load.op.run = load_run;
  tc_post(&l->load.op, "tcgen05.ld");
  return STEP_next;
}

static enum step exec_ld(struct warp *w, const struct insn *I, uint32_t lanes) {
  return load(w, I, lanes, 0);
}
static enum step exec_ld_split(struct warp *w, const struct insn *I, uint32_t lanes) {
  return load(w, I, lanes, 2);
}

/* ---- st -------------------------------------------------------------------------------- */

struct store {
  struct tc_op op;
  struct transfer x;
  uint32_t *word, *undef; /* count * 32 each */
};

static void store_run(struct tc_op *op) {
  struct store *s = (struct store *)op;
  struct tmem *t = tmem_of(op->cta);
  op->queue->warp[op->a.warp].stores--;
  for (uint32_t j = 0; !op->queue->dead && j < s->x.count; j++)
    for (uint32_t lane = 0; lane < WARP; lane++) {
      uint32_t tl, tc, value = s->word[j * WARP + lane], undef = s->undef[j * WARP + lane];
      word_at(&s->x, lane, j, &tl, &tc);
      if (s->x.pack) {
        t->word[tl][tc + 1] = value >> 16;
        t->undef[tl][tc + 1] = undef >> 16;
        value &= 0xffff;
        undef &= 0xffff;
      }
      t->word[tl][tc] = value;
      t->undef[tl][tc] = undef;
    }
  free(s->word);
  free(s->undef);
}

static enum step store(struct warp *w, const struct insn *I, uint32_t lanes, unsigned split) {
  struct transfer x;
  const struct opd *v = &I->opd[split + 1];
  if (!decode(w, I, lanes, &I->opd[0], v, split, &x))
    return STEP_fault;
  struct tc_queue *q = tc_queue(w->cta);
  struct store *s = unit_alloc(sizeof *s);
  s->x = x;
  s->word = unit_alloc(x.count * WARP * sizeof *s->word);
  s->undef = unit_alloc(x.count * WARP * sizeof *s->undef);
  for (uint32_t j = 0; j < x.count; j++)
    for (int lane = 0; lane < WARP; lane++) {
      s->word[j * WARP + (uint32_t)lane] = (uint32_t)opd_get(w, &v->elem[j], lane);
      s->undef[j * WARP + (uint32_t)lane] = (uint32_t)opd_get_undef(w, &v->elem[j], lane);
    }
  s->op.a = async_access(w, I, __builtin_ctz(lanes), PROXY_async);
  order_issue_tcgen05(&s->op.a, PIPE_tcgen05_st);
  if (!order_tmem(&s->op.a, TMEM_st, x.lane / 16, x.shape == MOD_32x32b ? 2 : 1, x.column, x.width,
                  true, 0)) {
    order_issue_over(&s->op.a);
    free(s->word);
    free(s->undef);
    free(s);
    return STEP_fault;
  }
  q->warp[w->index].stores++;
  s->op.cta = w->cta;
  s->op.kind = TC_OP_st;
  s->op.column = x.column;
  s->op.columns = x.width;
  s->op.run = store_run;
  tc_post(&s->op, "tcgen05.st");
  return STEP_next;
}

static enum step exec_st(struct warp *w, const struct insn *I, uint32_t lanes) {
  return store(w, I, lanes, 0);
}
static enum step exec_st_split(struct warp *w, const struct insn *I, uint32_t lanes) {
  return store(w, I, lanes, 1);
}

/* ---- registers of loads in flight ---------------------------------------------------------- */

static const struct tc_load *loads_to(const struct tc_load *l, int32_t reg) {
  for (; l; l = l->next_load)
    for (uint32_t i = 0; i < l->count; i++)
      if (l->insn->opd[0].elem[i].kind == OPD_reg && l->insn->opd[0].elem[i].reg == reg)
        return l;
  return NULL;
}

static bool overwrites(const struct tc_load *first, struct warp *w, const struct insn *I, int lane,
                       const struct opd *o) {
  const struct tc_load *l = o->kind == OPD_reg ? loads_to(first, o->reg) : NULL;
  for (unsigned i = 0; o->kind == OPD_vec && i < o->n; i++)
    if (overwrites(first, w, I, lane, &o->elem[i]))
      return true;
  if (!l)
    return false;
  struct access a = access_of(w, I, lane);
  struct report r = {
      .check = CHECK_tcgen05, .rule = "tmem-load-overwrites", .who = &a, .other = &l->op.a};
  (void)snprintf(r.text, sizeof r.text,
                 "writes %s, which the tcgen05.ld at line %u writes, too, at any time until "
                 "tcgen05.wait::ld",
                 w->fn->reg_name ? w->fn->reg_name[o->reg] : "a register", l->insn->line);
  return report(a.m, &r);
}

/* What reads one finds it undefined (ld): only writes are looked at. */
bool tc_registers_used(const struct tc_load *first, struct warp *w, const struct insn *I,
                       uint32_t lanes) {
  for (unsigned k = 0; first && k < I->nopd; k++)
    if (I->writes >> k & 1 && overwrites(first, w, I, __builtin_ctz(lanes), &I->opd[k]))
      return false;
  return true;
}

/* ---- forms ------------------------------------------------------------------------------- */

#define LOAD_FORM .flags = FORM_sm100f | FORM_aligned | FORM_in_flight, .tested = "definition"
#define WARP_FORM .flags = FORM_sm100f | FORM_aligned, .tested = "definition"
/* One shape, xN, with `regs` registers. */
#define PAIR(shape, x, regs)                                                                       \
  {.pattern = "tcgen05.ld.sync.aligned{." shape "}.x" x "[.pack::16b].b32",                        \
   .operands = "v" regs "w32_ m",                                                                  \
   .exec = exec_ld,                                                                                \
   LOAD_FORM},                                                                                     \
  {                                                                                                \
    .pattern = "tcgen05.st.sync.aligned{." shape "}.x" x "[.unpack::16b].b32",                     \
    .operands = "m v" regs "r32", .exec = exec_st, WARP_FORM                                       \
  }
#define SPLIT(x)                                                                                   \
  {.pattern = "tcgen05.ld.sync.aligned{.16x32bx2}.x" x "[.pack::16b].b32",                         \
   .operands = "v" x "w32_ m i",                                                                   \
   .exec = exec_ld_split,                                                                          \
   LOAD_FORM},                                                                                     \
  {                                                                                                \
    .pattern = "tcgen05.st.sync.aligned{.16x32bx2}.x" x "[.unpack::16b].b32",                      \
    .operands = "m i v" x "r32", .exec = exec_st_split, WARP_FORM                                  \
  }
#define ONE_PER(x) PAIR("32x32b", x, x), PAIR("16x64b", x, x), SPLIT(x)

const struct form forms_tcgen05_ld[] = {
    ONE_PER("1"),
    ONE_PER("2"),
    ONE_PER("4"),
    ONE_PER("8"),
    ONE_PER("16"),
    ONE_PER("32"),
    ONE_PER("64"),
    ONE_PER("128"),
    PAIR("16x128b", "1", "2"),
    PAIR("16x128b", "2", "4"),
    PAIR("16x128b", "4", "8"),
    PAIR("16x128b", "8", "16"),
    PAIR("16x128b", "16", "32"),
    PAIR("16x128b", "32", "64"),
    PAIR("16x128b", "64", "128"),
    PAIR("16x256b", "1", "4"),
    PAIR("16x256b", "2", "8"),
    PAIR("16x256b", "4", "16"),
    PAIR("16x256b", "8", "32"),
    PAIR("16x256b", "16", "64"),
    PAIR("16x256b", "32", "128"),
    {.pattern = NULL},
};
