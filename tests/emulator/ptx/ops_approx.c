/* SPDX-License-Identifier: Apache-2.0
 *
 * The approximate functions.  The hardware's results are within documented bounds of the
 * exact value; these are the exact value rounded to nearest (computed in double), the
 * special cases as PTX tabulates them.
 */
#include <math.h>

#include "fp.h"
#include "ops.h"

static uint32_t round32(double v, bool ftz) {
  uint32_t b = bits_of((float)v);
  if (is_nan32(b))
    return NAN_F32;
  return ftz ? ftz32(b) : b;
}

/* Slot 0 .ftz. */
#define APPROX(name, E)                                                                            \
  static enum step name(struct warp *w, const struct insn *I, uint32_t lanes) {                    \
    const struct col ca = col_of(w, &I->opd[1]);                                                   \
    uint64_t *d = reg_of(w, I->opd[0].reg);                                                        \
    const bool ftz = I->mod[0] == MOD_ftz;                                                         \
    EACH_LANE(l, lanes, uint32_t bits = (uint32_t)AT(ca, l);                                       \
              const double a = (double)f32_of(ftz ? ftz32(bits) : bits); d[l] = round32(E, ftz);); \
    done_any(w, I, lanes);                                                                         \
    return STEP_next;                                                                              \
  }
APPROX(rsqrt_f32, 1 / sqrt(a))
APPROX(sin_f32, sin(a))
APPROX(cos_f32, cos(a))
APPROX(ex2_f32, exp2(a))
APPROX(lg2_f32, log2(a))
APPROX(tanh_f32, tanh(a))

/* rcp.approx.ftz.f64 and rsqrt.approx.ftz.f64 look at the upper half of the operand, and
 * of the result the lower half is zero. */
static uint64_t upper(double v) {
  uint64_t b = bits_of64(v);
  if (isnan(v))
    return 0x7fffffff00000000ull;
  b &= 0xffffffff00000000ull;
  return b >> 52 & 2047 ? b : b & 1ull << 63;
}
static double upper_in(uint64_t b) {
  b &= 0xffffffff00000000ull;
  return f64_of(b >> 52 & 2047 ? b : b & 1ull << 63);
}
EXEC1(rcp_ftz_f64, uint64_t, uint64_t, done_any, upper(1 / upper_in(a)))
EXEC1(rsqrt_ftz_f64, uint64_t, uint64_t, done_any, upper(1 / sqrt(upper_in(a))))
EXEC1(rsqrt_f64, uint64_t, uint64_t, done_any, bits_of64(1 / sqrt(f64_of(a))))

#define A "definition, accurately rounded"

const struct form forms_approx[] = {
    {"rsqrt.approx[.ftz].f32", "wT rT", rsqrt_f32, 0, A, 0},
    {"sin.approx[.ftz].f32", "wT rT", sin_f32, 0, A, 0},
    {"cos.approx[.ftz].f32", "wT rT", cos_f32, 0, A, 0},
    {"ex2.approx[.ftz].f32", "wT rT", ex2_f32, 0, A, 0},
    {"lg2.approx[.ftz].f32", "wT rT", lg2_f32, 0, A, 0},
    {"tanh.approx.f32", "wT rT", tanh_f32, 0, A, 0},
    {"rcp.approx.ftz.f64", "wT rT", rcp_ftz_f64, 0, A, 0},
    {"rsqrt.approx.ftz.f64", "wT rT", rsqrt_ftz_f64, 0, A, 0},
    {"rsqrt.approx.f64", "wT rT", rsqrt_f64, 0, A, 0},
    {0},
};
