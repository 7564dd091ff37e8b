/* SPDX-License-Identifier: Apache-2.0
 *
 * tcgen05.mma, cta_group::1, dense (PTX ISA 9.7.16.10): kinds f16, tf32, f8f6f4 and
 * mxf8f6f4 with block scale.  Everything is read when the operation completes: operands
 * from shared memory (async proxy), scale factors and the accumulator from TMEM.
 *
 * TMEM layouts.  M = 128: row m of D or A is lane m.  M = 64: lane m%16 + 32*(m/16), from
 * lane 0 or 16 on.  Column n of D is column d + n; 4 bytes of a row of A to a column.
 * Scale of row m of A: byte SFA-id of the word at lane m%32 of every quarter, column
 * sfa + m/32; of column n of B alike, with sfb and SFB-id.
 */
#include "idesc.h"
#include "layout.h"
#include "tcgen05.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define KBYTES 32 /* of a row of A or B, one instruction */

struct mma {
  struct tc_op op;
  enum mma_kind kind;
  struct idesc i;
  bool a_in_tmem;
  struct matrix_desc a, b;
  uint32_t a_lane, a_column, d_lane, sfa, sfb;
  bool accumulate;
  uint32_t shrink_c;
  uint32_t disabled[4]; /* lanes not written */
};

/* Working space, one mma at a time: the machine is single-threaded. */
struct work {
  struct tc_a a;
  struct tc_b b;
  uint8_t raw[TC_MAX_N * KBYTES];
  bool undef[TC_MAX_N];
  int16_t scale_a[TC_MAX_M], scale_b[TC_MAX_N];
};
static struct work *work;

/* Sub-byte elements lie in groups of 16 at the front of each 16-byte chunk. */
static void unpack(enum tc_type t, uint8_t *raw, unsigned rows) {
  unsigned bits = t == TC_e2m1 ? 4 : 6;
  for (unsigned chunk = 0; chunk < rows * KBYTES / 16; chunk++) {
    uint8_t *p = raw + (size_t)chunk * 16, out[16];
    for (unsigned i = 0; i < 16; i++) {
      unsigned at = i * bits;
      unsigned two = p[at / 8] | (unsigned)(at / 8 + 1 < 16 ? p[at / 8 + 1] : 0) << 8;
      out[i] = (uint8_t)(two >> at % 8 & ((1u << bits) - 1));
    }
    memcpy(p, out, 16);
  }
}

static bool sub_byte(enum tc_type t) {
  return t == TC_e2m3 || t == TC_e3m2 || t == TC_e2m1;
}

static uint32_t lane_of(unsigned m_size, uint32_t first, unsigned m) {
  return m_size == 128 ? m : first + m % 16 + 32 * (m / 16);
}

static bool fetch_a(const struct mma *x, const struct tmem *t) {
  const struct idesc *i = &x->i;
  if (!x->a_in_tmem) {
    if (!matrix_gather(&x->op.a, &x->a, i->m, KBYTES, tc_bytes(i->a), i->mn_major_a, work->raw,
                       work->undef))
      return false;
    if (sub_byte(i->a))
      unpack(i->a, work->raw, i->m);
  } else {
    for (unsigned m = 0; m < i->m; m++) {
      uint32_t lane = lane_of(i->m, x->a_lane, m);
      uint32_t undef = 0;
      memcpy(work->raw + (size_t)m * KBYTES, &t->word[lane][x->a_column], KBYTES);
      for (unsigned c = 0; c < KBYTES / 4; c++)
        undef |= t->undef[lane][x->a_column + c];
      work->undef[m] = undef != 0;
    }
  }
  tc_begin_a(&work->a, i->a, i->k);
  for (unsigned m = 0; m < i->m; m++) {
    tc_set_a(&work->a, m, work->raw + (size_t)m * KBYTES, i->negate_a);
    work->a.undef[m] = work->undef[m];
  }
  return true;
}

static bool fetch_b(const struct mma *x) {
  const struct idesc *i = &x->i;
  if (!matrix_gather(&x->op.a, &x->b, i->n, KBYTES, tc_bytes(i->b), i->mn_major_b, work->raw,
                     work->undef))
    return false;
  if (sub_byte(i->b))
    unpack(i->b, work->raw, i->n);
  tc_begin_b(&work->b, i->b, i->k, i->n);
  for (unsigned n = 0; n < i->n; n++) {
    tc_set_b(&work->b, n, work->raw + (size_t)n * KBYTES, i->negate_b);
    work->b.undef[n] = work->undef[n];
  }
  return true;
}

/* The scales of `count` rows or columns; undefined ones are marked in undef. */
static bool fetch_scales(const struct mma *x, const struct tmem *t, const char *which,
                         uint32_t column, unsigned id, unsigned count, int16_t *scale,
                         bool *undef) {
  for (unsigned r = 0; r < count; r++) {
    uint32_t lane = r % 32, c = column + r / 32, word = t->word[lane][c];
    uint8_t byte = (uint8_t)(word >> 8 * id);
    bool first_bad = t->undef[lane][c] >> 8 * id & 0xff;
    for (unsigned quarter = 1; quarter < 4; quarter++) {
      uint32_t other = t->word[lane + 32 * quarter][c];
      bool bad = t->undef[lane + 32 * quarter][c] >> 8 * id & 0xff;
      undef[r] |= bad;
      if (!bad && !first_bad && (uint8_t)(other >> 8 * id) != byte &&
          fault(&x->op.a, CHECK_tcgen05, "scale-not-duplicated",
                "scale %s of %u at column %u is 0x%02x in lane %u but 0x%02x in lane %u: every "
                "quarter of the lanes must hold it",
                which, r, c, byte, lane, (unsigned)(other >> 8 * id & 0xff), lane + 32 * quarter))
        return false;
    }
    undef[r] |= first_bad;
    scale[r] = tc_ue8m0(byte);
  }
  return true;
}

static void mma_run(struct tc_op *op) {
  struct mma *x = (struct mma *)op;
  if (op->queue->dead)
    return;
  struct tmem *t = tmem_of(op->cta);
  const struct idesc *i = &x->i;
  bool scaled = x->kind == MMA_mxf8f6f4, track = check_on(op->a.m, CHECK_undef);
  if (!work)
    work = unit_alloc(sizeof *work);
  if (!fetch_a(x, t) || !fetch_b(x))
    return;
  if (scaled && (!fetch_scales(x, t, "A", x->sfa, i->sfa_id, i->m, work->scale_a, work->a.undef) ||
                 !fetch_scales(x, t, "B", x->sfb, i->sfb_id, i->n, work->scale_b, work->b.undef)))
    return;
  struct tc_spec spec = {25, 23, i->d_f16, x->shrink_c};
  for (unsigned m = 0; m < i->m; m++) {
    uint32_t lane = lane_of(i->m, x->d_lane, m);
    if (x->disabled[lane / 32] >> lane % 32 & 1)
      continue;
    uint32_t *d = &t->word[lane][op->column], *undef = &t->undef[lane][op->column];
    tc_row(&work->a, m, &work->b, &spec, x->accumulate ? d : NULL, track ? undef : NULL, d,
           track ? undef : NULL, scaled ? work->scale_a[m] : 0, scaled ? work->scale_b : NULL);
  }
}

/* ---- issue -------------------------------------------------------------------------------- */

static bool descriptor(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                       const char *which, struct matrix_desc *d) {
  struct access a = access_of(w, I, lane);
  const char *why;
  if (!require_defined(w, I, o, lane, "descriptor"))
    return false;
  uint64_t bits = opd_get(w, o, lane);
  if (matrix_desc_tcgen05(bits, d, &why))
    return true;
  hard_fault(&a, CHECK_tcgen05, "matrix-descriptor",
             "the matrix descriptor 0x%016llx of %s is invalid: %s", (unsigned long long)bits,
             which, why);
  return false;
}

static bool lane_is_zero(struct warp *w, const struct insn *I, int lane, const char *what,
                         uint32_t tmem_lane) {
  struct access a = access_of(w, I, lane);
  return tmem_lane == 0 || !fault(&a, CHECK_tcgen05, "tmem-lane",
                                  "the address of %s names lane %u, must be 0", what, tmem_lane);
}

/* The columns it reads and writes, for the order of tensor-core operations. */
static bool mma_order(const struct mma *x, bool scaled) {
  const struct access *a = &x->op.a;
  const uint32_t all = TMEM_LANES / 16;
  return (!x->a_in_tmem || order_tmem(a, TMEM_mma, 0, all, x->a_column, KBYTES / 4, false, 0)) &&
         (!scaled || (order_tmem(a, TMEM_mma, 0, all, x->sfa, x->i.m / 32, false, 0) &&
                      order_tmem(a, TMEM_mma, 0, all, x->sfb, (x->i.n + 31) / 32, false, 0))) &&
         order_tmem(a, TMEM_mma, 0, all, x->op.column, x->op.columns, true,
                    x->op.shape << 16 | (x->op.column + 1));
}

/* Operands: [d], adesc | [a], bdesc, idesc, then by form. */
struct operands {
  const struct opd *sfa, *sfb, *mask, *enable, *shrink;
};

static enum step issue(struct warp *w, const struct insn *I, uint32_t lanes, enum mma_kind kind,
                       struct operands o) {
  int lane = __builtin_ctz(lanes);
  struct access a = async_access(w, I, lane, PROXY_async);
  struct mma p = {.kind = kind, .a_in_tmem = I->opd[1].kind == OPD_addr};
  const char *why;
  uint32_t unused, column;
  if (!tc_single_thread(w, I, lanes) || !require_defined(w, I, &I->opd[3], lane, "descriptor") ||
      !require_defined(w, I, o.enable, lane, "predicate"))
    return STEP_fault;
  uint32_t bits = (uint32_t)opd_get(w, &I->opd[3], lane);
  if (!idesc_decode(bits, kind, &p.i, &why)) {
    hard_fault(&a, CHECK_tcgen05, "instruction-descriptor",
               "the instruction descriptor 0x%08x is invalid: %s", bits, why);
    return STEP_fault;
  }
  if (!tmem_operand(w, I, &I->opd[0], lane, 0xffffffffu, "the accumulator", p.i.n, &p.d_lane,
                    &column) ||
      !descriptor(w, I, &I->opd[2], lane, "B", &p.b))
    return STEP_fault;
  if (p.i.m == 64 ? p.d_lane != 0 && p.d_lane != 16 : p.d_lane != 0) {
    hard_fault(&a, CHECK_tcgen05, "tmem-lane",
               "the accumulator's address names lane %u, must be 0%s", p.d_lane,
               p.i.m == 64 ? " or 16" : "");
    return STEP_fault;
  }
  if (p.a_in_tmem) {
    if (sub_byte(p.i.a) || p.i.mn_major_a) {
      hard_fault(&a, CHECK_tcgen05, "instruction-descriptor",
                 "A in tensor memory must be K-major and of an 8-, 16- or 32-bit type");
      return STEP_fault;
    }
    if (!tmem_operand(w, I, &I->opd[1], lane, 0xffffffffu, "A", KBYTES / 4, &p.a_lane,
                      &p.a_column) ||
        (p.i.m == 128 && !lane_is_zero(w, I, lane, "A", p.a_lane)))
      return STEP_fault;
    if (p.i.m == 64 && p.a_lane != 0 && p.a_lane != 16) {
      hard_fault(&a, CHECK_tcgen05, "tmem-lane", "the address of A names lane %u, must be 0 or 16",
                 p.a_lane);
      return STEP_fault;
    }
  } else if (!descriptor(w, I, &I->opd[1], lane, "A", &p.a)) {
    return STEP_fault;
  }
  /* Bits 30-31 of scale addresses carry a byte index for software; the hardware takes the
   * index from the instruction descriptor. */
  if (o.sfa && (!tmem_operand(w, I, o.sfa, lane, 0x3fffffffu, "the scales of A", p.i.m / 32,
                              &unused, &p.sfa) ||
                !lane_is_zero(w, I, lane, "the scales of A", unused) ||
                !tmem_operand(w, I, o.sfb, lane, 0x3fffffffu, "the scales of B", (p.i.n + 31) / 32,
                              &unused, &p.sfb) ||
                !lane_is_zero(w, I, lane, "the scales of B", unused)))
    return STEP_fault;
  for (unsigned q = 0; o.mask && q < 4; q++) {
    if (!require_defined(w, I, &o.mask->elem[q], lane, "mask"))
      return STEP_fault;
    p.disabled[q] = (uint32_t)opd_get(w, &o.mask->elem[q], lane);
  }
  p.accumulate = opd_get(w, o.enable, lane) & 1;
  p.shrink_c = o.shrink ? (uint32_t)o.shrink->imm : 0;
  struct mma *x = unit_alloc(sizeof *x);
  *x = p;
  x->op.a = a;
  x->op.cta = w->cta;
  x->op.kind = TC_OP_mma;
  x->op.column = column;
  x->op.columns = p.i.n;
  x->op.shape =
      (uint64_t)p.i.m << 32 | p.i.n << 16 | p.d_lane << 8 | (uint64_t)kind << 1 | p.i.d_f16;
  x->op.run = mma_run;
  order_issue_tcgen05(&x->op.a, PIPE_tcgen05);
  if (!mma_order(x, o.sfa != NULL)) {
    order_issue_over(&x->op.a);
    free(x);
    return STEP_fault;
  }
  tc_post(&x->op, "tcgen05.mma");
  return STEP_next;
}

/* Slot 0 of the unscaled forms. */
static enum mma_kind kind_of(const struct insn *I) {
  return I->mod[0] == MOD_kind__f16 ? MMA_f16 : I->mod[0] == MOD_kind__tf32 ? MMA_tf32 : MMA_f8f6f4;
}

static enum step exec_mma(struct warp *w, const struct insn *I, uint32_t lanes) {
  return issue(w, I, lanes, kind_of(I), (struct operands){.enable = &I->opd[4]});
}
static enum step exec_shrink(struct warp *w, const struct insn *I, uint32_t lanes) {
  return issue(w, I, lanes, kind_of(I),
               (struct operands){.enable = &I->opd[4], .shrink = &I->opd[5]});
}
static enum step exec_masked(struct warp *w, const struct insn *I, uint32_t lanes) {
  return issue(w, I, lanes, kind_of(I),
               (struct operands){.mask = &I->opd[4], .enable = &I->opd[5]});
}
static enum step exec_masked_shrink(struct warp *w, const struct insn *I, uint32_t lanes) {
  return issue(w, I, lanes, kind_of(I),
               (struct operands){.mask = &I->opd[4], .enable = &I->opd[5], .shrink = &I->opd[6]});
}
static enum step exec_scaled(struct warp *w, const struct insn *I, uint32_t lanes) {
  return issue(w, I, lanes, MMA_mxf8f6f4,
               (struct operands){.sfa = &I->opd[4], .sfb = &I->opd[5], .enable = &I->opd[6]});
}

static const char *check_shrink(const struct insn *I) {
  if (I->mod[0] == MOD_kind__f8f6f4)
    return "scale-input-d is for kind::f16 and kind::tf32";
  return I->opd[I->nopd - 1].imm <= 15 ? NULL : "scale-input-d must be 0..15";
}

#define COMMON .flags = FORM_sm100f, .tested = "definition"
#define COLLECTOR                                                                                  \
  "[.collector::a::fill|.collector::a::use|.collector::a::lastuse|.collector::a::discard]"
#define PLAIN  "tcgen05.mma.cta_group::1{.kind::f16|.kind::tf32|.kind::f8f6f4}" COLLECTOR
#define SCALED "tcgen05.mma.cta_group::1.kind::mxf8f6f4.block_scale[.block32]" COLLECTOR
#define ROWS(a)                                                                                    \
  {.pattern = PLAIN, .operands = "m " a " r64 r32 rp", .exec = exec_mma, COMMON},                  \
      {.pattern = PLAIN,                                                                           \
       .operands = "m " a " r64 r32 rp i",                                                         \
       .exec = exec_shrink,                                                                        \
       COMMON,                                                                                     \
       .check = check_shrink},                                                                     \
      {.pattern = PLAIN, .operands = "m " a " r64 r32 v4r32 rp", .exec = exec_masked, COMMON},     \
      {.pattern = PLAIN,                                                                           \
       .operands = "m " a " r64 r32 v4r32 rp i",                                                   \
       .exec = exec_masked_shrink,                                                                 \
       COMMON,                                                                                     \
       .check = check_shrink},                                                                     \
  {                                                                                                \
    .pattern = SCALED, .operands = "m " a " r64 r32 m m rp", .exec = exec_scaled, COMMON           \
  }

const struct form forms_tcgen05_mma[] = {
    ROWS("r64"),
    ROWS("m"),
    {.pattern = NULL},
};
