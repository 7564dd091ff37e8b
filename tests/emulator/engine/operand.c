/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands: register values and their undefined bits, addresses, special registers.
 */
#include "internal.h"

static const uint64_t no_undef;

struct access access_of(struct warp *w, const struct insn *I, int lane) {
  struct grid *g = w->cta->grid;
  return (struct access){.m = g->dev->m,
                         .dev = g->dev,
                         .grid = g,
                         .cta = w->cta,
                         .warp = w->index,
                         .lane = (uint32_t)lane,
                         .insn = I};
}

/* ---- values ---------------------------------------------------------------------------- */

/* The constant, with a shared variable's address completed by the CTA's rank. */
static uint64_t constant(const struct warp *w, const struct opd *o) {
  if (o->symbol && (o->space == SPACE_shared || o->space == SPACE_shared_cluster))
    return o->imm + ((uint64_t)w->cta->rank << SHARED_RANK_SHIFT);
  return o->imm;
}

const uint64_t *opd_src(struct warp *w, const struct opd *o, int *stride) {
  if (o->kind == OPD_reg && !o->invert) {
    *stride = 1;
    return w->r + (size_t)o->reg * WARP;
  }
  *stride = 0;
  if (o->kind == OPD_imm && !o->symbol)
    return &o->imm;
  /* The rest is rare: values that depend on the lane fill a row of the scratch space. */
  struct simt *s = &w->simt;
  uint64_t *row = s->scratch[s->scratch_next++ % SCRATCH_ROWS];
  *stride = 1;
  for (int l = 0; l < WARP; l++)
    row[l] = opd_get(w, o, l);
  return row;
}

const uint64_t *opd_undef(struct warp *w, const struct opd *o, int *stride) {
  if (o->kind == OPD_reg) {
    *stride = 1;
    return w->u + (size_t)o->reg * WARP;
  }
  *stride = 0;
  return &no_undef;
}

uint64_t opd_get(struct warp *w, const struct opd *o, int lane) {
  switch (o->kind) {
  case OPD_reg:
    return w->r[(size_t)o->reg * WARP + (size_t)lane] ^ (o->invert ? 1 : 0);
  case OPD_imm:
    return constant(w, o);
  case OPD_sreg:
    return sreg_get(w, (enum sreg)o->imm, lane);
  default:
    return 0;
  }
}

uint64_t opd_get_undef(struct warp *w, const struct opd *o, int lane) {
  return o->kind == OPD_reg ? w->u[(size_t)o->reg * WARP + (size_t)lane] & low_mask(o->bits) : 0;
}

void opd_set(struct warp *w, const struct opd *o, int lane, uint64_t value, uint64_t undef) {
  if (o->kind != OPD_reg)
    return; /* "_" */
  size_t at = (size_t)o->reg * WARP + (size_t)lane;
  w->r[at] = value & low_mask(o->bits);
  if (check_on(w->cta->grid->dev->m, CHECK_undef))
    w->u[at] = undef & low_mask(o->bits);
}

/* ---- addresses and deciding values ---------------------------------------------------------- */

static const char *register_name(const struct warp *w, const struct opd *o) {
  return o->kind == OPD_reg && w->fn->reg_name ? w->fn->reg_name[o->reg] : "the operand";
}

bool opd_address(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                 uint64_t *addr) {
  if (!o->n) {
    *addr = constant(w, o);
    return true;
  }
  const struct opd *base = &o->elem[0];
  uint64_t v = opd_get(w, base, lane);
  if (opd_get_undef(w, base, lane)) {
    struct access a = access_of(w, I, lane);
    if (fault(&a, CHECK_undef, "undef-address", "the address in %s has undefined bits (0x%llx)",
              register_name(w, base), (unsigned long long)opd_get_undef(w, base, lane)))
      return false;
  }
  v += constant(w, o);
  *addr = base->bits == 32 ? (uint32_t)v : v;
  return true;
}

bool require_defined(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                     const char *what) {
  uint64_t u = opd_get_undef(w, o, lane);
  if (!u)
    return true;
  struct access a = access_of(w, I, lane);
  static const struct {
    const char *what, *rule;
  } rules[] = {
      {"branch", "undef-branch"}, {"predicate", "undef-predicate"},   {"count", "undef-count"},
      {"mask", "undef-mask"},     {"descriptor", "undef-descriptor"},
  };
  const char *rule = "undef-operand";
  for (size_t i = 0; i < sizeof rules / sizeof rules[0]; i++)
    if (!strcmp(rules[i].what, what))
      rule = rules[i].rule;
  return !fault(&a, CHECK_undef, rule, "the %s in %s has undefined bits (0x%llx)", what,
                register_name(w, o), (unsigned long long)u);
}

/* ---- special registers --------------------------------------------------------- */

static uint32_t tid_of(const struct warp *w, int lane, int axis) {
  const uint32_t *block = w->cta->grid->block;
  uint32_t linear = w->index * WARP + (uint32_t)lane;
  switch (axis) {
  case 0:
    return linear % block[0];
  case 1:
    return linear / block[0] % block[1];
  default:
    return linear / block[0] / block[1];
  }
}

static uint64_t thread_sreg(const struct warp *w, enum sreg s, int lane) {
  const uint32_t bit = 1u << lane;
  switch (s) {
  case SREG_tid_x:
  case SREG_tid_y:
  case SREG_tid_z:
    return tid_of(w, lane, (int)(s - SREG_tid_x));
  case SREG_laneid:
    return (uint32_t)lane;
  case SREG_lanemask_eq:
    return bit;
  case SREG_lanemask_lt:
    return bit - 1;
  case SREG_lanemask_le:
    return bit | (bit - 1);
  case SREG_lanemask_gt:
    return ~(bit | (bit - 1));
  case SREG_lanemask_ge:
    return ~(bit - 1);
  case SREG_warpid:
    return w->index;
  default:
    return 0;
  }
}

/* Virtual time stands for both the SM's clock and, in nanoseconds, the global timer. */
static uint64_t time_sreg(const struct machine *m, enum sreg s) {
  switch (s) {
  case SREG_clock:
  case SREG_globaltimer_lo:
    return (uint32_t)m->now;
  case SREG_clock_hi:
  case SREG_globaltimer_hi:
    return (uint32_t)(m->now >> 32);
  default:
    return m->now;
  }
}

uint64_t sreg_get(struct warp *w, enum sreg s, int lane) {
  const struct cta *c = w->cta;
  const struct grid *g = c->grid;
  const uint32_t *cd = g->cluster_dim;
  switch (s) {
  case SREG_ntid_x:
  case SREG_ntid_y:
  case SREG_ntid_z:
    return g->block[s - SREG_ntid_x];
  case SREG_ctaid_x:
  case SREG_ctaid_y:
  case SREG_ctaid_z:
    return c->ctaid[s - SREG_ctaid_x];
  case SREG_nctaid_x:
  case SREG_nctaid_y:
  case SREG_nctaid_z:
    return g->dim[s - SREG_nctaid_x];
  case SREG_nwarpid:
    return g->dev->max_threads_sm / WARP;
  case SREG_smid:
    return c->sm;
  case SREG_nsmid:
    return g->dev->nsm;
  case SREG_gridid:
    return g->id;
  case SREG_is_explicit_cluster:
    return cd[0] * cd[1] * cd[2] > 1 || g->fn->explicit_cluster;
  case SREG_clusterid_x:
  case SREG_clusterid_y:
  case SREG_clusterid_z:
    return c->ctaid[s - SREG_clusterid_x] / cd[s - SREG_clusterid_x];
  case SREG_nclusterid_x:
  case SREG_nclusterid_y:
  case SREG_nclusterid_z:
    return g->dim[s - SREG_nclusterid_x] / cd[s - SREG_nclusterid_x];
  case SREG_cluster_ctaid_x:
  case SREG_cluster_ctaid_y:
  case SREG_cluster_ctaid_z:
    return c->ctaid[s - SREG_cluster_ctaid_x] % cd[s - SREG_cluster_ctaid_x];
  case SREG_cluster_nctaid_x:
  case SREG_cluster_nctaid_y:
  case SREG_cluster_nctaid_z:
    return cd[s - SREG_cluster_nctaid_x];
  case SREG_cluster_ctarank:
    return c->rank;
  case SREG_cluster_nctarank:
    return c->cluster->size;
  case SREG_clock:
  case SREG_clock_hi:
  case SREG_clock64:
  case SREG_globaltimer:
  case SREG_globaltimer_lo:
  case SREG_globaltimer_hi:
    return time_sreg(g->dev->m, s);
  case SREG_total_smem_size:
  case SREG_aggr_smem_size:
    return c->shared.size;
  case SREG_dynamic_smem_size:
    return g->dynamic_shared;
  default:
    return thread_sreg(w, s, lane); /* the performance counters read 0 */
  }
}
