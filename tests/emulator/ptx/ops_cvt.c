/* SPDX-License-Identifier: Apache-2.0
 *
 * Conversions of one value: integers, f16, bf16, tf32, f32, f64.  A float goes through a
 * double, which holds every source exactly; 64-bit integers are rounded to odd first.
 * Packed conversions are in ops_cvt_pack.c.
 */
#include <fenv.h>
#include <math.h>

#include "cvt.h"

struct cvt_op cvt_op_of(const struct insn *I) {
  struct cvt_op c = {.round = ROUND_rn};
  for (int i = 0; i < INSN_MODS; i++) {
    const enum mod m = (enum mod)I->mod[i];
    switch (m) {
    case MOD_ftz:
      c.ftz = true;
      break;
    case MOD_sat:
      c.sat = true;
      break;
    case MOD_relu:
      c.relu = true;
      break;
    case MOD_satfinite:
      c.satfinite = true;
      break;
    case MOD_rni:
    case MOD_rzi:
    case MOD_rmi:
    case MOD_rpi:
      c.integral = true; /* fall through */
    case MOD_rn:
    case MOD_rz:
    case MOD_rm:
    case MOD_rp:
    case MOD_rna:
      c.round = fp_round_of(m);
      break;
    default:
      break;
    }
  }
  return c;
}

static const struct fp_format *format_of(enum mod type) {
  switch (type) {
  case MOD_f16:
    return &FP_f16;
  case MOD_bf16:
    return &FP_bf16;
  case MOD_tf32:
    return &FP_tf32;
  default:
    return &FP_f32;
  }
}

uint32_t cvt_encode(double v, const struct fp_format *f, const struct cvt_op *c) {
  if (c->sat)
    v = isnan(v) || !(v > 0) ? 0 : v > 1 ? 1 : v;
  if (c->relu && !isnan(v) && !(v > 0))
    v = 0;
  uint32_t b = fp_encode(v, f, c->round);
  uint32_t magnitude = b & ~(1u << (f->exponent + f->mantissa));
  if (c->satfinite && f->infinity && magnitude == fp_max_finite(f) + 1)
    b--; /* infinity: the largest finite number is just below it */
  return b;
}

static int64_t sign_extend(uint64_t v, unsigned bits) {
  return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

/* ---- integer to integer -------------------------------------------------------------- */

static uint64_t int_to_int(uint64_t v, enum mod from, enum mod to, bool sat) {
  const unsigned fb = mod_bits(from), tb = mod_bits(to);
  const bool fs = mod_kind(from) == 's', ts = mod_kind(to) == 's';
  uint64_t r = fs ? (uint64_t)sign_extend(v, fb) : v & ones(fb);
  if (sat) {
    if (fs) {
      int64_t x = (int64_t)r, low = ts ? sign_extend(1ull << (tb - 1), tb) : 0;
      if (x < low)
        r = (uint64_t)low;
      else if (x > 0 && (uint64_t)x > ones(ts ? tb - 1 : tb))
        r = ones(ts ? tb - 1 : tb);
    } else if (r > ones(ts ? tb - 1 : tb)) {
      r = ones(ts ? tb - 1 : tb);
    }
  }
  return ts ? (uint64_t)sign_extend(r, tb) : r & ones(tb);
}

static enum step cvt_int(struct warp *w, const struct insn *I, uint32_t lanes) {
  const enum mod to = (enum mod)I->type[0], from = (enum mod)I->type[1];
  const bool sat = I->mod[0] == MOD_sat;
  const struct col ca = col_of(w, &I->opd[1]);
  const uint64_t mask = ones(I->opd[0].bits);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  if (sat) {
    done_any(w, I, lanes);
  } else if (undef_on(w)) {
    struct col ua;
    ua.v = opd_undef(w, &I->opd[1], &ua.s);
    uint64_t *u = undef_of(w, I->opd[0].reg);
    EACH_LANE(l, lanes, u[l] = int_to_int(AT(ua, l), from, to, false) & mask;);
  }
  EACH_LANE(l, lanes, d[l] = int_to_int(AT(ca, l), from, to, sat) & mask;);
  return STEP_next;
}

/* ---- from and to floats ------------------------------------------------------------------ */

static double read_float(uint64_t v, enum mod type, bool ftz) {
  switch (type) {
  case MOD_f64:
    return f64_of(v);
  case MOD_f32:
    return (double)f32_of(ftz ? ftz32((uint32_t)v) : v);
  default:
    return fp_decode((uint32_t)v & 0xffff, format_of(type));
  }
}

static double to_integral(double v, enum fp_round r) {
  switch (r) {
  case ROUND_rz:
    return trunc(v);
  case ROUND_rm:
    return floor(v);
  case ROUND_rp:
    return ceil(v);
  default:
    return nearbyint(v);
  }
}

/* Out of range: the nearest integer of the type.  NaN: 0, but the top bit alone where 64
 * bits take part (an H200 answers so: tests/conformance). */
static uint64_t float_to_int(double v, enum mod to, enum mod from, enum fp_round round) {
  const unsigned bits = mod_bits(to);
  if (isnan(v))
    return bits != 64 && from != MOD_f64 ? 0
           : mod_kind(to) == 's'         ? -(1ull << (bits - 1))
                                         : 1ull << (bits - 1);
  v = to_integral(v, round);
  if (mod_kind(to) == 's') {
    const double limit = ldexp(1, (int)bits - 1);
    if (v >= limit)
      return ones(bits - 1);
    return (uint64_t)(v < -limit ? -(int64_t)ones(bits - 1) - 1 : (int64_t)v);
  }
  if (v <= 0)
    return 0;
  return v >= ldexp(1, (int)bits) ? ones(bits) : (uint64_t)v;
}

static enum step cvt_float_int(struct warp *w, const struct insn *I, uint32_t lanes) {
  const enum mod to = (enum mod)I->type[0], from = (enum mod)I->type[1];
  const struct cvt_op c = cvt_op_of(I);
  const struct col ca = col_of(w, &I->opd[1]);
  const uint64_t mask = ones(I->opd[0].bits);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  EACH_LANE(l, lanes,
            d[l] = float_to_int(read_float(AT(ca, l), from, c.ftz), to, from, c.round) & mask;);
  done_any(w, I, lanes);
  return STEP_next;
}

/* An integer rounded to odd in 53 bits. */
static double int_to_double(uint64_t v, enum mod from) {
  const unsigned bits = mod_bits(from);
  const double low = (double)(uint32_t)v, two32 = 4294967296.0;
  if (mod_kind(from) == 's') {
    int64_t x = sign_extend(v, bits);
    return fp_odd_add((double)(x >> 32) * two32, (double)(uint32_t)x);
  }
  v &= ones(bits);
  return bits <= 32 ? low : fp_odd_add((double)(v >> 32) * two32, low);
}

/* Under the host's present rounding mode. */
static uint64_t int_to_f64(uint64_t v, enum mod from) {
  volatile int64_t s = sign_extend(v, mod_bits(from));
  volatile uint64_t u = v & ones(mod_bits(from));
  volatile double r = mod_kind(from) == 's' ? (double)s : (double)u;
  return bits_of64(r);
}

static int host_round(enum fp_round r) {
  return r == ROUND_rz   ? FE_TOWARDZERO
         : r == ROUND_rm ? FE_DOWNWARD
         : r == ROUND_rp ? FE_UPWARD
                         : FE_TONEAREST;
}

static uint64_t write_float(double v, enum mod to, const struct cvt_op *c) {
  uint32_t b;
  switch (to) {
  case MOD_f64:
    if (c->sat)
      v = isnan(v) || !(v > 0) ? 0 : v > 1 ? 1 : v;
    return bits_of64(v);
  case MOD_f32:
    b = cvt_encode(v, &FP_f32, c);
    return c->ftz ? ftz32(b) : b;
  case MOD_tf32:
    return (uint64_t)cvt_encode(v, &FP_tf32, c) << 13;
  default:
    return cvt_encode(v, format_of(to), c);
  }
}

static enum step cvt_int_float(struct warp *w, const struct insn *I, uint32_t lanes) {
  const enum mod to = (enum mod)I->type[0], from = (enum mod)I->type[1];
  const struct cvt_op c = cvt_op_of(I);
  const struct col ca = col_of(w, &I->opd[1]);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  if (to == MOD_f64 && !c.sat) {
    fesetround(host_round(c.round));
    EACH_LANE(l, lanes, d[l] = int_to_f64(AT(ca, l), from););
    fesetround(FE_TONEAREST);
  } else {
    EACH_LANE(l, lanes, d[l] = write_float(int_to_double(AT(ca, l), from), to, &c););
  }
  done_any(w, I, lanes);
  return STEP_next;
}

/* A NaN's way from one format to another, as an H200 goes it: most become the canonical
 * NaN; from and to f64 the sign and the leading bits of the payload stay. */
static uint64_t cvt_nan(uint64_t bits, enum mod from, enum mod to, const struct cvt_op *c) {
  if (c->sat)
    return 0;
  if (to == MOD_tf32) {
    uint64_t cut = bits & 0xffffe000;
    return c->round != ROUND_rna ? 0x7fffe000 : c->satfinite ? cut - 0x2000 : cut;
  }
  if (from == MOD_bf16 && to == MOD_f32 && !c->ftz)
    return bits << 16;
  if (to == MOD_f64) {
    const unsigned mbits = from == MOD_f64 ? 52 : from == MOD_f32 ? 23 : from == MOD_f16 ? 10 : 7;
    if (from == MOD_f32 && c->ftz)
      bits = NAN_F32;
    const uint64_t sign = bits >> (mod_bits(from) - 1) & 1, man = bits & ((1ull << mbits) - 1);
    return sign << 63 | 0x7ff8000000000000ull | man << (52 - mbits);
  }
  if (from == MOD_f64) {
    const struct fp_format *f = format_of(to);
    const uint64_t man = (bits & ((1ull << 52) - 1)) >> (52 - f->mantissa);
    const uint64_t infinity = (uint64_t)fp_max_finite(f) + 1;
    return bits >> 63 << (mod_bits(to) - 1) | infinity | 1ull << (f->mantissa - 1) | man;
  }
  return fp_nan(format_of(to));
}

static enum step cvt_float(struct warp *w, const struct insn *I, uint32_t lanes) {
  const enum mod to = (enum mod)I->type[0], from = (enum mod)I->type[1];
  const struct cvt_op c = cvt_op_of(I);
  const struct col ca = col_of(w, &I->opd[1]);
  uint64_t *d = reg_of(w, I->opd[0].reg);
  /* f16 takes no notice of .ftz: every subnormal f32 is far below its own. */
  const bool ftz = c.ftz && to != MOD_f16;
  EACH_LANE(l, lanes, double v = read_float(AT(ca, l), from, ftz);
            if (c.integral) v = to_integral(v, c.round);
            d[l] = isnan(v) ? cvt_nan(AT(ca, l), from, to, &c) : write_float(v, to, &c););
  done_any(w, I, lanes);
  return STEP_next;
}

/* Narrowing needs a rounding mode, widening takes none; between equal widths only
 * roundings to an integral value of the same type. */
static const char *check_float(const struct insn *I) {
  const enum mod to = (enum mod)I->type[0], from = (enum mod)I->type[1], r = (enum mod)I->mod[0];
  const bool integral = r == MOD_rni || r == MOD_rzi || r == MOD_rmi || r == MOD_rpi;
  if (mod_bits(to) > mod_bits(from) && r != MOD_none)
    return "a widening conversion takes no rounding modifier";
  if (mod_bits(to) < mod_bits(from) && (r == MOD_none || integral))
    return "a narrowing conversion needs .rn, .rz, .rm or .rp";
  if (to == from && r != MOD_none && !integral)
    return "a conversion to the same type takes .rni, .rzi, .rmi or .rpi";
  return NULL;
}

#define D   "definition"
#define INT "{.u8|.s8|.u16|.s16|.u32|.s32|.u64|.s64}"
#define FLT "{.f16|.f32|.f64}"
#define RND "{.rn|.rz|.rm|.rp}"

const struct form forms_cvt[] = {
    {"cvt[.sat]" INT INT, "wT1+ rT2+$", cvt_int, 0, D, 0},
    {"cvt{.rni|.rzi|.rmi|.rpi}[.ftz][.sat]" INT "{.f16|.bf16|.f32|.f64}", "wT1+ rT2", cvt_float_int,
     0, D, 0},
    {"cvt" RND "[.ftz][.sat]" FLT INT, "wT1 rT2+", cvt_int_float, 0, D, 0},
    {"cvt" RND ".bf16" INT, "wT1 rT2+", cvt_int_float, 0, D, 0},
    {"cvt[.rn|.rz|.rm|.rp|.rni|.rzi|.rmi|.rpi][.ftz][.sat]" FLT FLT, "wT1 rT2", cvt_float, 0, D,
     check_float},
    {"cvt{.rn|.rz}[.relu][.satfinite]{.f16|.bf16}.f32", "wT1 rT2", cvt_float, 0, D, 0},
    {"cvt{.rn|.rz}[.relu].tf32.f32", "wT1 rT2", cvt_float, 0, D, 0},
    {"cvt{.rn|.rz}[.relu]{.satfinite}.tf32.f32", "wT1 rT2", cvt_float, FORM_sm100, D, 0},
    {"cvt{.rna}[.satfinite].tf32.f32", "wT1 rT2", cvt_float, 0, D, 0},
    {"cvt" RND ".bf16{.f16|.f32|.f64}", "wT1 rT2", cvt_float, 0, D, 0},
    {"cvt[.ftz][.sat]{.f32|.f64}.bf16", "wT1 rT2", cvt_float, 0, D, 0},
    {"cvt" RND "[.sat].f16.bf16", "wT1 rT2", cvt_float, 0, D, 0},
    {"cvt{.rni|.rzi|.rmi|.rpi}.bf16.bf16", "wT1 rT2", cvt_float, 0, D, 0},
    {0},
};
