/* SPDX-License-Identifier: Apache-2.0
 *
 * ldmatrix, stmatrix, movmatrix on 8 x 8 matrices of 16-bit elements (PTX ISA 9.7.14.5.15,
 * .16, .17).  Lane 8*i + r holds the address of row r of matrix i; lane t owns elements
 * 2*(t%4) and 2*(t%4)+1 of row t/4, or with .trans of column t/4.
 */
#include "bulk.h"
#include "fragment.h"

#include <string.h>

struct matrix8 {
  uint16_t e[8][8], undef[8][8];
};

static bool row_address(struct warp *w, const struct insn *I, const struct opd *o, int lane,
                        uint64_t *addr) {
  if (!shared_operand(w, I, o, lane, I->mod[2] == MOD_none ? SPACE_generic : SPACE_shared, addr))
    return false;
  return true;
}

static void element_of(int lane, unsigned half, bool trans, unsigned *row, unsigned *column) {
  unsigned major = (unsigned)lane / 4, minor = 2 * ((unsigned)lane % 4) + half;
  *row = trans ? minor : major;
  *column = trans ? major : minor;
}

static unsigned matrices(const struct insn *I) {
  return I->mod[0] == MOD_x1 ? 1 : I->mod[0] == MOD_x2 ? 2 : 4;
}

static enum step exec_ldmatrix(struct warp *w, const struct insn *I, uint32_t lanes) {
  bool trans = I->mod[1] == MOD_trans;
  (void)lanes;
  for (unsigned i = 0; i < matrices(I); i++) {
    struct matrix8 x;
    memset(&x, 0, sizeof x);
    for (unsigned r = 0; r < 8; r++) {
      int lane = (int)(8 * i + r);
      struct access a = access_of(w, I, lane);
      uint64_t addr;
      if (!row_address(w, I, &I->opd[1], lane, &addr) ||
          !mem_load(&a, SPACE_shared_cluster, addr, 16, 16, x.e[r],
                    check_on(a.m, CHECK_undef) ? x.undef[r] : NULL))
        return STEP_fault;
    }
    for (int lane = 0; lane < WARP; lane++) {
      uint64_t value = 0, undef = 0;
      for (unsigned half = 0; half < 2; half++) {
        unsigned row, column;
        element_of(lane, half, trans, &row, &column);
        value |= (uint64_t)x.e[row][column] << 16 * half;
        undef |= (uint64_t)x.undef[row][column] << 16 * half;
      }
      opd_set(w, fragment_element(&I->opd[0], i), lane, value, undef);
    }
  }
  return STEP_next;
}

static void collect(struct warp *w, const struct opd *o, bool trans, struct matrix8 *x) {
  for (int lane = 0; lane < WARP; lane++) {
    uint64_t value = opd_get(w, o, lane), undef = opd_get_undef(w, o, lane);
    for (unsigned half = 0; half < 2; half++) {
      unsigned row, column;
      element_of(lane, half, trans, &row, &column);
      x->e[row][column] = (uint16_t)(value >> 16 * half);
      x->undef[row][column] = (uint16_t)(undef >> 16 * half);
    }
  }
}

static enum step exec_stmatrix(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)lanes;
  for (unsigned i = 0; i < matrices(I); i++) {
    struct matrix8 x;
    collect(w, fragment_element(&I->opd[1], i), I->mod[1] == MOD_trans, &x);
    for (unsigned r = 0; r < 8; r++) {
      int lane = (int)(8 * i + r);
      struct access a = access_of(w, I, lane);
      uint64_t addr;
      if (!row_address(w, I, &I->opd[0], lane, &addr) ||
          !mem_store(&a, SPACE_shared_cluster, addr, 16, 16, x.e[r],
                     check_on(a.m, CHECK_undef) ? x.undef[r] : NULL))
        return STEP_fault;
    }
  }
  return STEP_next;
}

static enum step exec_movmatrix(struct warp *w, const struct insn *I, uint32_t lanes) {
  struct matrix8 x;
  (void)lanes;
  collect(w, &I->opd[1], false, &x);
  for (int lane = 0; lane < WARP; lane++) {
    uint64_t value = 0, undef = 0;
    for (unsigned half = 0; half < 2; half++) {
      unsigned row, column;
      element_of(lane, half, true, &row, &column);
      value |= (uint64_t)x.e[row][column] << 16 * half;
      undef |= (uint64_t)x.undef[row][column] << 16 * half;
    }
    opd_set(w, &I->opd[0], lane, value, undef);
  }
  return STEP_next;
}

static const char *check_load(const struct insn *I) {
  return fragment_count(&I->opd[0]) == matrices(I) ? NULL : "needs one register per matrix";
}
static const char *check_store(const struct insn *I) {
  return fragment_count(&I->opd[1]) == matrices(I) ? NULL : "needs one register per matrix";
}

#define COMMON .flags = FORM_aligned, .tested = "H200"

const struct form forms_matrix[] = {
    {.pattern = "ldmatrix.sync.aligned.m8n8{.x1|.x2|.x4}[.trans][.shared|.shared::cta].b16",
     .operands = "vw32 m",
     .exec = exec_ldmatrix,
     COMMON,
     .check = check_load},
    {.pattern = "stmatrix.sync.aligned.m8n8{.x1|.x2|.x4}[.trans][.shared|.shared::cta].b16",
     .operands = "m vr32",
     .exec = exec_stmatrix,
     COMMON,
     .check = check_store},
    {.pattern = "movmatrix.sync.aligned.m8n8.trans.b16",
     .operands = "w32 r32",
     .exec = exec_movmatrix,
     COMMON},
    {.pattern = NULL},
};
