/* SPDX-License-Identifier: Apache-2.0
 *
 * tcgen05.cp: shared memory to tensor memory (PTX ISA 9.7.16.9).  The source is a K-major
 * matrix behind a descriptor; its row i goes to these lanes, 4 bytes a column:
 *   128x256b, 128x128b    i
 *   4x256b                32*i (+ the address's lane): one lane of each quarter
 *   64x128b.warpx2::02_13 i, i + 64
 *   64x128b.warpx2::01_23 64*(i/32) + i%32, and that + 32
 *   32x128b.warpx4        i, i + 32, i + 64, i + 96
 */
#include "layout.h"
#include "tcgen05.h"

#include <stdlib.h>
#include <string.h>

enum copies { COPY_once, COPY_02_13, COPY_01_23, COPY_all, COPY_quarters };

struct cp {
  struct tc_op op;
  struct matrix_desc desc;
  enum copies copies;
  uint32_t rows, bytes, lane;
};

static uint32_t lane_of(const struct cp *c, uint32_t row, uint32_t copy) {
  switch (c->copies) {
  case COPY_02_13:
    return row + 64 * copy;
  case COPY_01_23:
    return row / 32 * 64 + row % 32 + 32 * copy;
  case COPY_all:
    return row + 32 * copy;
  case COPY_quarters:
    return c->lane + 32 * row;
  default:
    return row;
  }
}

static void cp_run(struct tc_op *op) {
  struct cp *c = (struct cp *)op;
  if (op->queue->dead)
    return;
  struct tmem *t = tmem_of(op->cta);
  uint64_t own = (uint64_t)op->cta->rank << SHARED_RANK_SHIFT;
  uint32_t copies = c->copies == COPY_all                                ? 4
                    : c->copies == COPY_02_13 || c->copies == COPY_01_23 ? 2
                                                                         : 1;
  for (uint32_t row = 0; row < c->rows; row++)
    for (uint32_t q = 0; q < c->bytes / 16; q++) {
      uint8_t *undef = NULL;
      const uint8_t *p = mem_span(&op->a, SPACE_shared_cluster,
                                  own + chunk_k_major(&c->desc, row, q), 16, false, &undef);
      if (!p)
        return;
      for (uint32_t copy = 0; copy < copies; copy++) {
        uint32_t lane = lane_of(c, row, copy), column = op->column + q * 4;
        memcpy(&t->word[lane][column], p, 16);
        if (undef)
          memcpy(&t->undef[lane][column], undef, 16);
        else
          memset(&t->undef[lane][column], 0, 16);
      }
    }
}

static enum step issue(struct warp *w, const struct insn *I, uint32_t lanes, enum copies copies,
                       uint32_t rows, uint32_t bytes) {
  int lane = __builtin_ctz(lanes);
  struct access a = async_access(w, I, lane, PROXY_async);
  struct matrix_desc desc;
  const char *why;
  uint32_t tmem_lane, column;
  if (!tc_single_thread(w, I, lanes) || !require_defined(w, I, &I->opd[1], lane, "descriptor") ||
      !tmem_operand(w, I, &I->opd[0], lane, 0xffffffffu, "tcgen05.cp", bytes / 4, &tmem_lane,
                    &column))
    return STEP_fault;
  uint64_t bits = opd_get(w, &I->opd[1], lane);
  if (!matrix_desc_tcgen05(bits, &desc, &why)) {
    hard_fault(&a, CHECK_tcgen05, "matrix-descriptor",
               "the matrix descriptor 0x%016llx is invalid: %s", (unsigned long long)bits, why);
    return STEP_fault;
  }
  if (tmem_lane != 0 && (copies != COPY_quarters || tmem_lane > 31)) {
    hard_fault(&a, CHECK_tcgen05, "tmem-lane",
               "the destination of tcgen05.cp names lane %u, must be 0", tmem_lane);
    return STEP_fault;
  }
  struct cp *c = unit_alloc(sizeof *c);
  c->op.a = a;
  c->op.cta = w->cta;
  c->op.kind = TC_OP_cp;
  c->op.column = column;
  c->op.columns = bytes / 4;
  c->op.run = cp_run;
  c->desc = desc;
  c->copies = copies;
  c->rows = rows;
  c->bytes = bytes;
  c->lane = tmem_lane;
  order_issue_tcgen05(&c->op.a, PIPE_tcgen05);
  if (!order_tmem(&c->op.a, TMEM_cp, 0, TMEM_LANES / 16, column, bytes / 4, true, 0)) {
    order_issue_over(&c->op.a);
    free(c);
    return STEP_fault;
  }
  tc_post(&c->op, "tcgen05.cp");
  return STEP_next;
}

static enum step exec_wide(struct warp *w, const struct insn *I, uint32_t lanes) {
  return issue(w, I, lanes, COPY_once, 128, I->mod[0] == MOD_128x256b ? 32 : 16);
}
static enum step exec_quarters(struct warp *w, const struct insn *I, uint32_t lanes) {
  return issue(w, I, lanes, COPY_quarters, 4, 32);
}
static enum step exec_twice(struct warp *w, const struct insn *I, uint32_t lanes) {
  return issue(w, I, lanes, I->mod[0] == MOD_warpx2__02_13 ? COPY_02_13 : COPY_01_23, 64, 16);
}
static enum step exec_all(struct warp *w, const struct insn *I, uint32_t lanes) {
  return issue(w, I, lanes, COPY_all, 32, 16);
}

#define COMMON .operands = "m r64", .flags = FORM_sm100f, .tested = "definition"

const struct form forms_tcgen05_cp[] = {
    {.pattern = "tcgen05.cp.cta_group::1{.128x256b|.128x128b}", .exec = exec_wide, COMMON},
    {.pattern = "tcgen05.cp.cta_group::1.4x256b", .exec = exec_quarters, COMMON},
    {.pattern = "tcgen05.cp.cta_group::1.64x128b{.warpx2::02_13|.warpx2::01_23}",
     .exec = exec_twice,
     COMMON},
    {.pattern = "tcgen05.cp.cta_group::1.32x128b.warpx4", .exec = exec_all, COMMON},
    {.pattern = NULL},
};
