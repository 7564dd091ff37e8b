/* SPDX-License-Identifier: Apache-2.0
 *
 * mma.sync, dense, m16n8 shapes (PTX ISA 9.7.14.5).  Synchronous: the result is there at
 * once.
 */
#include "fragment.h"
#include "reduce.h"

#include <math.h>
#include <string.h>

/* D = A*B + C on words (f32 or s32, or f16 in the low half), 16 x 8. */
struct tile {
  uint32_t word[16][8], undef[16][8];
};

static void read_c(struct warp *w, const struct opd *o, bool half, struct tile *t) {
  for (unsigned row = 0; row < 16; row++)
    for (unsigned column = 0; column < 8; column++) {
      struct fragment_place p = fragment_d(row, column, half);
      const struct opd *reg = fragment_element(o, p.reg);
      uint32_t mask = half ? 0xffff : 0xffffffffu;
      t->word[row][column] = (uint32_t)(opd_get(w, reg, (int)p.lane) >> p.shift) & mask;
      t->undef[row][column] = (uint32_t)(opd_get_undef(w, reg, (int)p.lane) >> p.shift) & mask;
    }
}

static void write_d(struct warp *w, const struct opd *o, bool half, const struct tile *t) {
  for (unsigned row = 0; row < 16; row++)
    for (unsigned column = 0; column < 8; column += half ? 2 : 1) {
      struct fragment_place p = fragment_d(row, column, half);
      uint64_t value = t->word[row][column], undef = t->undef[row][column];
      if (half) {
        value = (value & 0xffff) | (uint64_t)(t->word[row][column + 1] & 0xffff) << 16;
        undef = (undef & 0xffff) | (uint64_t)(t->undef[row][column + 1] & 0xffff) << 16;
      }
      opd_set(w, fragment_element(o, p.reg), (int)p.lane, value, undef);
    }
}

/* Half of a row of 8-bit floats as f16: of every four the two from `part` on.  A subnormal
 * e4m3 becomes a normal f16, whose smaller exponent counts in the sum. */
static void widen_half(const uint8_t *row, unsigned count, unsigned part, enum mod type,
                       uint8_t *f16) {
  for (unsigned i = 0; i < count; i++) {
    uint64_t h =
        reduce_narrow(MOD_f16, reduce_widen(type, row[i / 2 * 4 + i % 2 + 2 * (size_t)part]));
    f16[2 * i] = (uint8_t)h;
    f16[2 * i + 1] = (uint8_t)(h >> 8);
  }
}

static uint32_t add_rounded(uint32_t x, uint32_t y, bool half) {
  if (half) {
    double sum = reduce_widen(MOD_f16, x & 0xffff) + reduce_widen(MOD_f16, y & 0xffff);
    return (uint32_t)reduce_narrow(MOD_f16, sum);
  }
  float a, b;
  memcpy(&a, &x, 4);
  memcpy(&b, &y, 4);
  float sum = a + b;
  memcpy(&x, &sum, 4);
  return isnan(sum) ? 0x7fffffffu : x;
}

/* There is no such unit for 8-bit floats: ptxas (13.0, for sm_90a and sm_100f) widens them
 * to f16 and makes three instructions of one.  The two low elements of each register are
 * multiplied, D1 = A1*B1; then the two high ones onto that, D2 = A2*B2 + D1; C is added to
 * D2 at the end, rounded to nearest. */
static enum step exec_fp8(struct warp *w, const struct insn *I, uint32_t lanes) {
  static struct tc_a a;
  static struct tc_b b;
  (void)lanes;
  uint8_t raw_a[16 * 32], raw_b[8 * 32], half_row[32];
  bool undef_a[16], undef_b[16];
  struct tile c, t = {0};
  bool half = I->type[0] == MOD_f16;
  unsigned k = fragment_count(&I->opd[2]) * 16;
  fragment_a(w, &I->opd[1], raw_a, undef_a);
  fragment_b(w, &I->opd[2], raw_b, undef_b);
  read_c(w, &I->opd[3], half, &c);
  struct tc_spec spec = {25, 23, half, 0};
  for (unsigned part = 0; part < 2; part++) {
    tc_begin_a(&a, TC_f16, k / 2);
    tc_begin_b(&b, TC_f16, k / 2, 8);
    for (unsigned row = 0; row < 16; row++) {
      widen_half(raw_a + (size_t)row * k, k / 2, part, (enum mod)I->mod[1], half_row);
      tc_set_a(&a, row, half_row, false);
      a.undef[row] = undef_a[row];
    }
    for (unsigned column = 0; column < 8; column++) {
      widen_half(raw_b + (size_t)column * k, k / 2, part, (enum mod)I->mod[2], half_row);
      tc_set_b(&b, column, half_row, false);
      b.undef[column] = undef_b[column];
    }
    for (unsigned row = 0; row < 16; row++)
      tc_row(&a, row, &b, &spec, t.word[row], t.undef[row], t.word[row], t.undef[row], 0, NULL);
  }
  for (unsigned row = 0; row < 16; row++)
    for (unsigned column = 0; column < 8; column++) {
      t.word[row][column] = add_rounded(t.word[row][column], c.word[row][column], half);
      if (c.undef[row][column])
        t.undef[row][column] = 0xffffffffu;
    }
  write_d(w, &I->opd[0], half, &t);
  return STEP_next;
}

/* Slots: 0 the shape, 1 and 2 the types of A and B. */
static enum step exec_float(struct warp *w, const struct insn *I, uint32_t lanes) {
  static struct tc_a a;
  static struct tc_b b;
  (void)lanes;
  uint8_t raw[16 * 32];
  bool undef[16];
  struct tile t;
  enum tc_type ta = fragment_type((enum mod)I->mod[1]), tb = fragment_type((enum mod)I->mod[2]);
  bool half = I->type[0] == MOD_f16;
  unsigned k_bytes = fragment_count(&I->opd[2]) * 16, k = k_bytes / tc_bytes(ta);
  fragment_a(w, &I->opd[1], raw, undef);
  tc_begin_a(&a, ta, k);
  for (unsigned row = 0; row < 16; row++) {
    tc_set_a(&a, row, raw + (size_t)row * k_bytes, false);
    a.undef[row] = undef[row];
  }
  fragment_b(w, &I->opd[2], raw, undef);
  tc_begin_b(&b, tb, k, 8);
  for (unsigned column = 0; column < 8; column++) {
    tc_set_b(&b, column, raw + (size_t)column * k_bytes, false);
    b.undef[column] = undef[column];
  }
  read_c(w, &I->opd[3], half, &t);
  struct tc_spec spec = {25, 23, half, 0};
  for (unsigned row = 0; row < 16; row++)
    tc_row(&a, row, &b, &spec, t.word[row], t.undef[row], t.word[row], t.undef[row], 0, NULL);
  write_d(w, &I->opd[0], half, &t);
  return STEP_next;
}

static int64_t byte_value(uint8_t raw, enum mod type) {
  return type == MOD_s8 ? (int64_t)(int8_t)raw : (int64_t)raw;
}

/* Slots: 0 the shape, 1 .satfinite, 2 and 3 the types of A and B. */
static enum step exec_int(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)lanes;
  uint8_t a[16 * 32], b[8 * 32];
  bool undef_a[16], undef_b[8];
  struct tile t;
  unsigned k = fragment_count(&I->opd[2]) * 16;
  fragment_a(w, &I->opd[1], a, undef_a);
  fragment_b(w, &I->opd[2], b, undef_b);
  read_c(w, &I->opd[3], false, &t);
  for (unsigned row = 0; row < 16; row++)
    for (unsigned column = 0; column < 8; column++) {
      int64_t sum = (int32_t)t.word[row][column];
      for (unsigned i = 0; i < k; i++)
        sum += byte_value(a[row * k + i], (enum mod)I->mod[2]) *
               byte_value(b[column * k + i], (enum mod)I->mod[3]);
      if (I->mod[1] == MOD_satfinite)
        sum = sum > INT32_MAX ? INT32_MAX : sum < INT32_MIN ? INT32_MIN : sum;
      t.word[row][column] = (uint32_t)sum;
      if (undef_a[row] || undef_b[column] || t.undef[row][column])
        t.undef[row][column] = 0xffffffffu;
    }
  write_d(w, &I->opd[0], false, &t);
  return STEP_next;
}

#define COMMON .flags = FORM_aligned, .tested = "H200"
#define WORDS(pattern_, a, b, run)                                                                 \
  {.pattern = "mma.sync.aligned" pattern_,                                                         \
   .operands = "v4w32 v" a "r32 v" b "r32 v4r32",                                                  \
   .exec = run,                                                                                    \
   COMMON}
#define HALVES(pattern_, a, b, run)                                                                \
  {.pattern = "mma.sync.aligned" pattern_,                                                         \
   .operands = "v2w32 v" a "r32 v" b "r32 v2r32",                                                  \
   .exec = run,                                                                                    \
   COMMON}
#define BYTES(shape, a, b)                                                                         \
  {.pattern = "mma.sync.aligned{." shape "}.row.col[.satfinite].s32{.s8|.u8}{.s8|.u8}.s32",        \
   .operands = "v4w32 v" a "r32 v" b "r32 v4r32",                                                  \
   .exec = exec_int,                                                                               \
   COMMON}
#define FP8 "{.e4m3|.e5m2}{.e4m3|.e5m2}"

const struct form forms_mma_sync[] = {
    WORDS("{.m16n8k16}.row.col.f32{.f16}{.f16}.f32", "4", "2", exec_float),
    WORDS("{.m16n8k16}.row.col.f32{.bf16}{.bf16}.f32", "4", "2", exec_float),
    WORDS("{.m16n8k8}.row.col.f32{.f16}{.f16}.f32", "2", "1", exec_float),
    WORDS("{.m16n8k8}.row.col.f32{.bf16}{.bf16}.f32", "2", "1", exec_float),
    WORDS("{.m16n8k8}.row.col.f32{.tf32}{.tf32}.f32", "4", "2", exec_float),
    WORDS("{.m16n8k4}.row.col.f32{.tf32}{.tf32}.f32", "2", "1", exec_float),
    WORDS("{.m16n8k32}.row.col.f32" FP8 ".f32", "4", "2", exec_fp8),
    WORDS("{.m16n8k16}.row.col.f32" FP8 ".f32", "2", "1", exec_fp8),
    HALVES("{.m16n8k16}.row.col.f16{.f16}{.f16}.f16", "4", "2", exec_float),
    HALVES("{.m16n8k8}.row.col.f16{.f16}{.f16}.f16", "2", "1", exec_float),
    HALVES("{.m16n8k32}.row.col.f16" FP8 ".f16", "4", "2", exec_fp8),
    HALVES("{.m16n8k16}.row.col.f16" FP8 ".f16", "2", "1", exec_fp8),
    BYTES("m16n8k32", "4", "2"),
    BYTES("m16n8k16", "2", "1"),
    {.pattern = NULL},
};
