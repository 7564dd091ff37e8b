/* SPDX-License-Identifier: Apache-2.0
 *
 * What the executors of scalar instructions share: columns of operand values (one per
 * lane), loops over the active lanes, and how undefined bits spread.
 *
 * An executor computes the values of all active lanes first and then, if check 2 is on,
 * the undefined bits.  Destinations may be sources, so each lane is read before it is
 * written; the masks of sources are read before those of destinations are.
 */
#ifndef EMU_OPS_H
#define EMU_OPS_H

#include "../engine/engine.h"

struct col {
  const uint64_t *v;
  int s;
};

static inline struct col col_of(struct warp *w, const struct opd *o) {
  struct col c;
  c.v = opd_src(w, o, &c.s);
  return c;
}
#define AT(col, l) ((col).v[(l) * (col).s])

static inline uint64_t *reg_of(struct warp *w, int32_t slot) {
  return w->r + (size_t)slot * WARP;
}
static inline uint64_t *undef_of(struct warp *w, int32_t slot) {
  return w->u + (size_t)slot * WARP;
}

static inline uint64_t ones(unsigned bits) {
  return bits >= 64 ? ~0ull : (1ull << bits) - 1;
}

/* The common case, a whole warp, is a loop the compiler can unroll and vectorise. */
#define EACH_LANE(l, lanes, ...)                                                                   \
  do {                                                                                             \
    if ((lanes) == ~0u) {                                                                          \
      for (int l = 0; l < WARP; l++) {                                                             \
        __VA_ARGS__                                                                                \
      }                                                                                            \
    } else {                                                                                       \
      for (uint32_t left_ = (lanes); left_; left_ &= left_ - 1) {                                  \
        const int l = __builtin_ctz(left_);                                                        \
        __VA_ARGS__                                                                                \
      }                                                                                            \
    }                                                                                              \
  } while (0)

static inline bool undef_on(const struct warp *w) {
  return w->cta->grid->dev->m->checks >> CHECK_undef & 1;
}

/* Spreading of undefined bits from operands 1.. to operand 0 (and its pair). */
enum spread {
  SPREAD_any, /* one undefined bit makes the result undefined */
  SPREAD_up   /* bits from the lowest undefined one upward: add, sub, mul.lo */
};
void spread_undef(struct warp *w, const struct insn *I, uint32_t lanes, enum spread how);
/* For packed values: each part of `bits` bits on its own. */
void spread_parts(struct warp *w, const struct insn *I, uint32_t lanes, unsigned bits);
/* Of the operands first .. I->nopd-1: the undefined bits of each lane, or-ed. */
bool gather_undef(struct warp *w, const struct insn *I, unsigned first, uint64_t out[WARP]);

static inline void done_any(struct warp *w, const struct insn *I, uint32_t lanes) {
  if (undef_on(w))
    spread_undef(w, I, lanes, SPREAD_any);
}
static inline void done_up(struct warp *w, const struct insn *I, uint32_t lanes) {
  if (undef_on(w))
    spread_undef(w, I, lanes, SPREAD_up);
}

/* Executors of one, two, three sources: T is the C type of a, b, c; U the unsigned type
 * that zero-extends the result.  E may use a, b, c, I and l. */
#define EXEC1(name, U, T, done, E)                                                                 \
  static enum step name(struct warp *w, const struct insn *I, uint32_t lanes) {                    \
    const struct col ca = col_of(w, &I->opd[1]);                                                   \
    uint64_t *d = reg_of(w, I->opd[0].reg);                                                        \
    EACH_LANE(l, lanes, const T a = (T)AT(ca, l); d[l] = (U)(E););                                 \
    done(w, I, lanes);                                                                             \
    return STEP_next;                                                                              \
  }
#define EXEC2(name, U, T, done, E)                                                                 \
  static enum step name(struct warp *w, const struct insn *I, uint32_t lanes) {                    \
    const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[2]);                       \
    uint64_t *d = reg_of(w, I->opd[0].reg);                                                        \
    EACH_LANE(l, lanes, const T a = (T)AT(ca, l); const T b = (T)AT(cb, l); d[l] = (U)(E););       \
    done(w, I, lanes);                                                                             \
    return STEP_next;                                                                              \
  }
#define EXEC3(name, U, T, done, E)                                                                 \
  static enum step name(struct warp *w, const struct insn *I, uint32_t lanes) {                    \
    const struct col ca = col_of(w, &I->opd[1]), cb = col_of(w, &I->opd[2]),                       \
                     cc = col_of(w, &I->opd[3]);                                                   \
    uint64_t *d = reg_of(w, I->opd[0].reg);                                                        \
    EACH_LANE(l, lanes, const T a = (T)AT(ca, l); const T b = (T)AT(cb, l);                        \
              const T c = (T)AT(cc, l); d[l] = (U)(E););                                           \
    done(w, I, lanes);                                                                             \
    return STEP_next;                                                                              \
  }

#endif
