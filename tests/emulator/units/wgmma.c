/* SPDX-License-Identifier: Apache-2.0
 *
 * wgmma.mma_async and its groups (PTX ISA 9.7.15), sm_90a.  Each warp computes its 16 rows
 * at a drawn time: shared operands, A fragments and accumulators are read then, results
 * land in the registers then.  Instructions on the same accumulator with the same shape
 * keep their order; others may pass.
 *
 * While results may be outstanding the accumulator registers count as undefined; their
 * real definedness waits in struct accumulator until wait_group.
 */
#include "fragment.h"
#include "layout.h"
#include "wgmma_registers.h"

#include <stdlib.h>
#include <string.h>

struct accumulator {
  const struct opd *d; /* the vector of registers */
  unsigned count, shape;
  uint32_t in_flight;
  uint64_t last_group;
  uint32_t *undef; /* count * 32 */
  struct accumulator *next;
};

struct wgmma_warp {
  uint64_t open;      /* number of the group that commit_group will close */
  uint64_t *in_group; /* operations in flight by group, from `first` on */
  uint64_t first;
  uint32_t room, in_flight;
  struct accumulator *acc;
  struct wgmma_registers *registers;
  bool dead;
  bool fenced; /* by wgmma.fence, since the warp started */
};

struct wgmma {
  struct event e;
  struct access a;
  struct warp *w;
  struct wgmma_warp *state;
  struct accumulator *acc;
  const struct insn *insn;
  uint64_t group;
  enum tc_type ta, tb;
  unsigned n;
  bool half, accumulate, negate_a, negate_b, mn_major_a, mn_major_b, a_in_registers;
  struct matrix_desc a_desc, b_desc;
};

static struct wgmma_warp *state_of(struct warp *w) {
  struct wgmma_warp **s = &unit_cta(w->cta)->wgmma[w->index];
  if (!*s) {
    *s = unit_alloc(sizeof **s);
    (*s)->room = 8;
    (*s)->in_group = unit_alloc(8 * sizeof(uint64_t));
    (*s)->registers = wgmma_registers_new(w->fn->nreg);
  }
  return *s;
}

static void state_drop(struct wgmma_warp *s) {
  while (s->acc) {
    struct accumulator *next = s->acc->next;
    free(s->acc->undef);
    free(s->acc);
    s->acc = next;
  }
  wgmma_registers_free(s->registers);
  free(s->in_group);
  free(s);
}

void wgmma_free(struct wgmma_warp *s) {
  s->dead = true;
  if (s->in_flight == 0)
    state_drop(s);
}

bool wgmma_pending(const struct wgmma_warp *s, uint32_t reg) {
  for (const struct accumulator *acc = s ? s->acc : NULL; acc; acc = acc->next)
    for (unsigned i = 0; i < acc->count; i++)
      if (acc->d->elem[i].kind == OPD_reg && (uint32_t)acc->d->elem[i].reg == reg)
        return true;
  return false;
}

bool wgmma_registers_used(struct wgmma_warp *s, struct warp *w, const struct insn *I,
                          uint32_t lanes) {
  return wgmma_registers_access(s->registers, w, I, lanes);
}

/* Makes room for the counter of the open group; finished groups at the front go. */
static void open_group(struct wgmma_warp *s) {
  uint64_t gone = 0;
  while (s->first + gone < s->open && s->in_group[gone] == 0)
    gone++;
  uint64_t used = s->open - s->first + 1 - gone;
  memmove(s->in_group, s->in_group + gone, used * sizeof *s->in_group);
  s->first += gone;
  if (used == s->room) {
    uint64_t *more = unit_alloc(2 * (size_t)s->room * sizeof *more);
    memcpy(more, s->in_group, used * sizeof *more);
    free(s->in_group);
    s->in_group = more;
    s->room *= 2;
  }
  s->in_group[used] = 0;
  s->open++;
}

/* ---- execution ---------------------------------------------------------------------------- */

struct work {
  struct tc_a a;
  struct tc_b b;
  uint8_t raw[TC_MAX_N * 32];
  bool undef[TC_MAX_N];
  uint32_t c[TC_MAX_N], c_undef[TC_MAX_N];
};
static struct work *work; /* one operation at a time: the machine is single-threaded */

static bool fetch(const struct wgmma *x) {
  unsigned k = 32 / tc_bytes(x->ta), row0 = x->w->index % 4 * 16;
  if (x->a_in_registers) {
    fragment_a(x->w, &x->insn->opd[1], work->raw, work->undef);
    row0 = 0;
  } else if (!matrix_gather(&x->a, &x->a_desc, 64, 32, tc_bytes(x->ta), x->mn_major_a, work->raw,
                            work->undef)) {
    return false;
  }
  tc_begin_a(&work->a, x->ta, k);
  for (unsigned r = 0; r < 16; r++) {
    tc_set_a(&work->a, r, work->raw + (size_t)(row0 + r) * 32, x->negate_a);
    work->a.undef[r] = work->undef[row0 + r];
  }
  if (!matrix_gather(&x->a, &x->b_desc, x->n, 32, tc_bytes(x->tb), x->mn_major_b, work->raw,
                     work->undef))
    return false;
  tc_begin_b(&work->b, x->tb, k, x->n);
  for (unsigned c = 0; c < x->n; c++) {
    tc_set_b(&work->b, c, work->raw + (size_t)c * 32, x->negate_b);
    work->b.undef[c] = work->undef[c];
  }
  return true;
}

static void compute(struct wgmma *x) {
  struct warp *w = x->w;
  bool fp8 = tc_bytes(x->ta) == 1;
  struct tc_spec spec = {fp8 ? 13 : 25, fp8 ? 13 : 23, x->half, 0};
  if (!work)
    work = unit_alloc(sizeof *work);
  if (!fetch(x))
    return;
  uint32_t mask = x->half ? 0xffff : 0xffffffffu;
  for (unsigned row = 0; row < 16; row++) {
    for (unsigned c = 0; c < x->n; c++) {
      struct fragment_place p = fragment_d(row, c, x->half);
      uint64_t reg = w->r[(size_t)x->acc->d->elem[p.reg].reg * WARP + p.lane];
      work->c[c] = (uint32_t)(reg >> p.shift) & mask;
      work->c_undef[c] = x->acc->undef[p.reg * WARP + p.lane] >> p.shift & mask;
    }
    tc_row(&work->a, row, &work->b, &spec, x->accumulate ? work->c : NULL, work->c_undef, work->c,
           work->c_undef, 0, NULL);
    for (unsigned c = 0; c < x->n; c++) {
      struct fragment_place p = fragment_d(row, c, x->half);
      uint64_t *reg = &w->r[(size_t)x->acc->d->elem[p.reg].reg * WARP + p.lane];
      uint32_t *undef = &x->acc->undef[p.reg * WARP + p.lane], at = mask << p.shift;
      *reg = (uint32_t)((*reg & ~at) | (work->c[c] << p.shift & at));
      *undef = (*undef & ~at) | (work->c_undef[c] << p.shift & at);
    }
  }
}

static void wgmma_fire(struct machine *m, struct event *e) {
  struct wgmma *x = (struct wgmma *)e;
  struct wgmma_warp *s = x->state;
  (void)m;
  if (!s->dead && x->w->r) /* else the warp has exited */
    compute(x);
  x->acc->in_flight--;
  s->in_group[x->group - s->first]--;
  s->in_flight--;
  if (s->dead && s->in_flight == 0)
    state_drop(s);
  order_issue_over(&x->a);
  free(x);
}

/* ---- issue ---------------------------------------------------------------------------------- */

static struct accumulator *accumulator_of(struct warp *w, struct wgmma_warp *s, const struct opd *d,
                                          unsigned shape) {
  bool track = check_on(w->cta->grid->dev->m, CHECK_undef);
  struct accumulator *acc = s->acc;
  while (acc &&
         !(acc->d->elem[0].reg == d->elem[0].reg && acc->count == d->n && acc->shape == shape))
    acc = acc->next;
  if (!acc) {
    acc = unit_alloc(sizeof *acc);
    acc->count = d->n;
    acc->shape = shape;
    acc->undef = unit_alloc((size_t)d->n * WARP * sizeof *acc->undef);
    for (unsigned i = 0; track && i < d->n; i++)
      for (unsigned lane = 0; lane < WARP; lane++)
        acc->undef[i * WARP + lane] = (uint32_t)w->u[(size_t)d->elem[i].reg * WARP + lane];
    acc->next = s->acc;
    s->acc = acc;
  }
  acc->d = d;
  for (unsigned i = 0; track && i < d->n; i++)
    for (unsigned lane = 0; lane < WARP; lane++) {
      uint64_t *u = &w->u[(size_t)d->elem[i].reg * WARP + lane];
      if ((uint32_t)*u != 0xffffffffu) /* written since the last wgmma on it */
        acc->undef[i * WARP + lane] = (uint32_t)*u;
      *u = 0xffffffffu;
    }
  return acc;
}

static bool descriptor(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                       const char *which, struct matrix_desc *d) {
  struct access a = access_of(w, I, lane);
  const char *why;
  if (!require_defined(w, I, o, lane, "descriptor"))
    return false;
  uint64_t bits = opd_get(w, o, lane);
  if (matrix_desc_wgmma(bits, d, &why))
    return true;
  hard_fault(&a, CHECK_bounds, "matrix-descriptor",
             "the matrix descriptor 0x%016llx of %s is invalid: %s", (unsigned long long)bits,
             which, why);
  return false;
}

static bool is_16_bit(const struct insn *I) {
  return tc_bytes(fragment_type((enum mod)I->type[1])) == 2;
}

/* N from slot 0: mods.def lists the shapes of one K in order of N. */
static unsigned shape_n(const struct insn *I) {
  unsigned first = is_16_bit(I)             ? MOD_m64n8k16
                   : I->type[1] == MOD_tf32 ? MOD_m64n8k8
                                            : MOD_m64n8k32;
  return 8 * (1 + (unsigned)I->mod[0] - first);
}

static enum step exec_wgmma(struct warp *w, const struct insn *I, uint32_t lanes) {
  int lane = __builtin_ctz(lanes);
  struct wgmma_warp *s = state_of(w);
  struct wgmma p = {.w = w, .state = s, .insn = I, .group = s->open};
  const struct opd *o = I->opd;
  p.a = async_access(w, I, lane, PROXY_async);
  p.ta = fragment_type((enum mod)I->type[1]);
  p.tb = fragment_type((enum mod)I->type[2]);
  p.n = shape_n(I);
  p.half = I->type[0] == MOD_f16;
  p.a_in_registers = o[1].kind == OPD_vec;
  p.negate_a = o[4].imm != 1; /* 1 or -1 */
  p.negate_b = o[5].imm != 1;
  if (is_16_bit(I)) {
    p.mn_major_a = !p.a_in_registers && o[6].imm;
    p.mn_major_b = o[p.a_in_registers ? 6 : 7].imm;
  }
  if ((!p.a_in_registers && !descriptor(w, I, &o[1], lane, "A", &p.a_desc)) ||
      !descriptor(w, I, &o[2], lane, "B", &p.b_desc) ||
      !require_defined(w, I, &o[3], lane, "predicate"))
    return STEP_fault;
  p.accumulate = opd_get(w, &o[3], lane) & 1;
  if (!s->fenced && fault(&p.a, CHECK_race, "wgmma-fence",
                          "no wgmma.fence since the warp started: one is required before the "
                          "first wgmma.mma_async"))
    return STEP_fault;
  const uint32_t shape = (uint32_t)I->mod[0] << 16 | I->type[0];
  uint64_t earliest;
  if (!wgmma_registers_issue(s->registers, &p.a, shape, &earliest))
    return STEP_fault;
  s->fenced = true; /* once is enough */
  p.acc = accumulator_of(w, s, &o[0], shape);
  struct wgmma *x = unit_alloc(sizeof *x);
  *x = p;
  order_issue_pipe(&x->a, PIPE_wgmma, s->open + 1);
  x->e.fire = wgmma_fire;
  x->e.what = "wgmma.mma_async";
  s->in_group[s->open - s->first]++;
  s->in_flight++;
  p.acc->in_flight++;
  p.acc->last_group = s->open;
  event_post_after(x->a.m, &x->e, LAT_wgmma, earliest);
  wgmma_registers_issued(s->registers, &x->a, shape, s->open, x->e.due);
  return STEP_next;
}

/* ---- groups -------------------------------------------------------------------- */

static enum step exec_fence(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I, (void)lanes;
  struct wgmma_warp *s = state_of(w);
  s->fenced = true;
  wgmma_registers_fence(s->registers);
  return STEP_next;
}

static enum step exec_commit(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I, (void)lanes;
  open_group(state_of(w));
  return STEP_next;
}

static bool groups_done(const struct wait *wait) {
  const struct wgmma_warp *s = wait->object;
  for (uint64_t g = s->first; g < s->open && s->open - g > wait->arg; g++)
    if (s->in_group[g - s->first])
      return false;
  return true;
}

/* Accumulators whose last operation is in a finished group may be used again. */
static void deliver(struct warp *w, struct wgmma_warp *s, uint64_t pending) {
  bool track = check_on(w->cta->grid->dev->m, CHECK_undef);
  for (struct accumulator **link = &s->acc; *link;) {
    struct accumulator *acc = *link;
    if (acc->in_flight || acc->last_group + pending >= s->open) {
      link = &acc->next;
      continue;
    }
    for (unsigned i = 0; track && i < acc->count; i++)
      for (unsigned lane = 0; lane < WARP; lane++) {
        uint64_t *u = &w->u[(size_t)acc->d->elem[i].reg * WARP + lane];
        if ((uint32_t)*u == 0xffffffffu)
          *u = acc->undef[i * WARP + lane];
      }
    *link = acc->next;
    free(acc->undef);
    free(acc);
  }
}

static enum step exec_wait(struct warp *w, const struct insn *I, uint32_t lanes) {
  struct wgmma_warp *s = state_of(w);
  struct wait wait = {
      .ready = groups_done, .object = s, .arg = I->opd[0].imm, .what = "wgmma group"};
  if (!groups_done(&wait)) {
    warp_wait(w, lanes, wait);
    return STEP_wait;
  }
  order_pipe_known(w, lanes, PIPE_wgmma, s->open > wait.arg ? s->open - wait.arg : 0);
  wgmma_registers_waited(s->registers, s->open > wait.arg ? s->open - wait.arg : 0);
  deliver(w, s, wait.arg);
  return STEP_next;
}

/* ---- forms ----------------------------------------------------------------------------------- */

static const char *check_shape(const struct insn *I) {
  unsigned want = shape_n(I) / (I->type[0] == MOD_f16 ? 4 : 2);
  if (I->opd[0].n != want)
    return "the accumulator must have N/2 registers for f32, N/4 for f16";
  for (unsigned i = 0; i < want; i++)
    if (I->opd[0].elem[i].kind != OPD_reg)
      return "the accumulator must be all registers";
  for (unsigned i = 4; i < 6; i++)
    if (I->opd[i].imm != 1 && (uint32_t)I->opd[i].imm != 0xffffffffu)
      return "imm-scale-a and imm-scale-b must be 1 or -1";
  for (unsigned i = 6; i < I->nopd; i++)
    if (I->opd[i].imm > 1)
      return "imm-trans must be 0 or 1";
  return NULL;
}

#define N(n, k) ".m64n" #n "k" #k
#define SHAPES(k)                                                                                                                                                                 \
  "{" N(8, k) "|" N(16, k) "|" N(24, k) "|" N(32, k) "|" N(40, k) "|" N(48, k) "|" N(56, k) "|" N(64, k) "|" N(72, k) "|" N(80, k) "|" N(88, k) "|" N(96, k) "|" N(104, k) "|" N( \
      112,                                                                                                                                                                        \
      k) "|" N(120,                                                                                                                                                               \
               k) "|" N(128,                                                                                                                                                      \
                        k) "|" N(136,                                                                                                                                             \
                                 k) "|" N(144,                                                                                                                                    \
                                          k) "|" N(152,                                                                                                                           \
                                                   k) "|" N(160,                                                                                                                  \
                                                            k) "|" N(168,                                                                                                         \
                                                                     k) "|" N(176,                                                                                                \
                                                                              k) "|" N(184,                                                                                       \
                                                                                       k) "|" N(192,                                                                              \
                                                                                                k) "|" N(200,                                                                     \
                                                                                                         k) "|" N(208,                                                            \
                                                                                                                  k) "|" N(216,                                                   \
                                                                                                                           k) "|" N(224,                                          \
                                                                                                                                    k) "|" N(232,                                 \
                                                                                                                                             k) "|" N(240,                        \
                                                                                                                                                      k) "|" N(248,               \
                                                                                                                                                               k) "|" N(256,      \
                                                                                                                                                                        k) "}"
#define COMMON .flags = FORM_sm90a | FORM_aligned, .tested = "H200"
#define MMA    .flags = FORM_sm90a | FORM_aligned | FORM_in_flight, .tested = "H200"
#define FROM_SHARED(k, types, tail)                                                                \
  {.pattern = "wgmma.mma_async.sync.aligned" SHAPES(k) types,                                      \
   .operands = "vw32 r64 r64 rp i i" tail,                                                         \
   .exec = exec_wgmma,                                                                             \
   MMA,                                                                                            \
   .check = check_shape}
#define FROM_REGISTERS(k, types, tail)                                                             \
  {.pattern = "wgmma.mma_async.sync.aligned" SHAPES(k) types,                                      \
   .operands = "vw32 v4r32 r64 rp i i" tail,                                                       \
   .exec = exec_wgmma,                                                                             \
   MMA,                                                                                            \
   .check = check_shape}
#define FP8 "{.f32|.f16}{.e4m3|.e5m2}{.e4m3|.e5m2}"

const struct form forms_wgmma[] = {
    FROM_SHARED(16, "{.f32|.f16}.f16.f16", " i i"),
    FROM_REGISTERS(16, "{.f32|.f16}.f16.f16", " i"),
    FROM_SHARED(16, ".f32.bf16.bf16", " i i"),
    FROM_REGISTERS(16, ".f32.bf16.bf16", " i"),
    FROM_SHARED(8, ".f32.tf32.tf32", ""),
    FROM_REGISTERS(8, ".f32.tf32.tf32", ""),
    FROM_SHARED(32, FP8, ""),
    FROM_REGISTERS(32, FP8, ""),
    {.pattern = "wgmma.fence.sync.aligned", .operands = "", .exec = exec_fence, COMMON},
    {.pattern = "wgmma.commit_group.sync.aligned", .operands = "", .exec = exec_commit, COMMON},
    {.pattern = "wgmma.wait_group.sync.aligned", .operands = "i", .exec = exec_wait, COMMON},
    {.pattern = NULL},
};
