/* SPDX-License-Identifier: Apache-2.0
 *
 * atom and red: read-modify-write of one element, or of each element of a vector, lane
 * after lane.  Floating-point adds round to nearest even; .f32 on global memory flushes
 * subnormal inputs and results to zero of their sign, on shared memory it does not; the
 * half-precision forms are all .noftz.
 */
#include "warp_memory.h"

#include <math.h>

/* ---- floating point ------------------------------------------------------------------- */

static float f32_of(uint64_t b) {
  uint32_t v = (uint32_t)b;
  float f;
  memcpy(&f, &v, sizeof f);
  return f;
}
static uint32_t f32_bits(float f) {
  uint32_t v;
  memcpy(&v, &f, sizeof v);
  return v;
}
static double f64_of(uint64_t b) {
  double d;
  memcpy(&d, &b, sizeof d);
  return d;
}
static uint64_t f64_bits(double d) {
  uint64_t v;
  memcpy(&v, &d, sizeof v);
  return v;
}

static uint64_t flush(uint64_t f32) {
  return f32 & 0x7f800000 ? f32 : f32 & 0x80000000;
}

static uint64_t add_f32(uint64_t a, uint64_t b, bool ftz) {
  if (ftz) {
    a = flush(a);
    b = flush(b);
  }
  float s = f32_of(a) + f32_of(b);
  uint64_t r = isnan(s) ? 0x7fffffff : f32_bits(s);
  return ftz ? flush(r) : r;
}

/* NaN: in global memory the operand before the old value, a signalling one as it is; in
 * shared memory the old value first, quietened. */
static uint64_t add_f64(uint64_t a, uint64_t b, bool global) {
  double s = f64_of(a) + f64_of(b);
  if (!isnan(s))
    return f64_bits(s);
  if (!isnan(f64_of(a)) && !isnan(f64_of(b)))
    return 0xfff8000000000000ull; /* infinities of both signs */
  if (global)
    return isnan(f64_of(b)) ? b : a;
  return (isnan(f64_of(a)) ? a : b) | 1ull << 51;
}

/* The two 16-bit formats: exponent bits, fraction bits. */
struct half {
  int ebits, fbits;
};
static const struct half half_f16 = {5, 10}, half_bf16 = {8, 7};

static double half_value(uint64_t v, struct half h) {
  int bias = (1 << (h.ebits - 1)) - 1, max = (1 << h.ebits) - 1;
  int e = (int)(v >> h.fbits) & max;
  double f = (double)(v & low_mask((unsigned)h.fbits));
  double r = e == max ? (f != 0 ? NAN : INFINITY)
             : e      ? ldexp(f + (double)(1 << h.fbits), e - bias - h.fbits)
                      : ldexp(f, 1 - bias - h.fbits);
  return v >> 15 & 1 ? -r : r;
}

/* Rounds to nearest even.  Sums of two such values are exact in double wherever rounding
 * could depend on it, so this is one rounding. */
static uint64_t half_bits(double d, struct half h) {
  int bias = (1 << (h.ebits - 1)) - 1, max = (1 << h.ebits) - 1;
  if (isnan(d))
    return 0x7fff;
  uint64_t sign = signbit(d) ? 0x8000 : 0;
  double x = fabs(d);
  uint64_t infinity = (uint64_t)max << h.fbits;
  if (isinf(x))
    return sign | infinity;
  int e = x > 0 ? ilogb(x) : 1 - bias;
  if (e < 1 - bias)
    e = 1 - bias;
  uint64_t units = (uint64_t)nearbyint(ldexp(x, h.fbits - e)); /* in [0, 2^(fbits+1)] */
  uint64_t r = ((uint64_t)(e + bias - 1) << h.fbits) + units;
  return sign | (r < infinity ? r : infinity);
}

static bool is_nan(uint64_t v, struct half h) {
  return isnan(half_value(v, h));
}

static uint64_t half_op(enum mod op, uint64_t a, uint64_t b, struct half h) {
  if (op == MOD_add)
    return half_bits(half_value(a, h) + half_value(b, h), h);
  if (is_nan(a, h))
    return is_nan(b, h) ? 0x7fff : b;
  if (is_nan(b, h))
    return a;
  double x = half_value(a, h), y = half_value(b, h);
  bool a_less = x < y || (x == y && a >> 15 & 1); /* -0 < +0 */
  return (op == MOD_min) == a_less ? a : b;
}

static uint64_t packed_op(enum mod op, uint64_t a, uint64_t b, struct half h) {
  return half_op(op, a & 0xffff, b & 0xffff, h) | half_op(op, a >> 16, b >> 16, h) << 16;
}

/* ---- one element --------------------------------------------------------------------------- */

static int64_t as_signed(uint64_t v, unsigned bits) {
  return (int64_t)(v << (64 - bits)) >> (64 - bits);
}

static bool less(uint64_t a, uint64_t b, enum mod type) {
  unsigned bits = mod_bits(type);
  return mod_kind(type) == 's' ? as_signed(a, bits) < as_signed(b, bits) : a < b;
}

/* The new value of a location that holds `old`. */
static uint64_t combine(enum mod op, enum mod type, uint64_t old, uint64_t b, bool global) {
  switch (type) {
  case MOD_f32:
    if (op == MOD_add)
      return add_f32(old, b, global);
    break;
  case MOD_f64:
    if (op == MOD_add)
      return add_f64(old, b, global);
    break;
  case MOD_f16:
    return half_op(op, old, b, half_f16);
  case MOD_bf16:
    return half_op(op, old, b, half_bf16);
  case MOD_f16x2:
    return packed_op(op, old, b, half_f16);
  case MOD_bf16x2:
    return packed_op(op, old, b, half_bf16);
  default:
    break;
  }
  switch (op) {
  case MOD_add:
    return old + b;
  case MOD_and:
    return old & b;
  case MOD_or:
    return old | b;
  case MOD_xor:
    return old ^ b;
  case MOD_min:
    return less(b, old, type) ? b : old;
  case MOD_max:
    return less(old, b, type) ? b : old;
  case MOD_inc:
    return old >= b ? 0 : old + 1;
  case MOD_dec:
    return old == 0 || old > b ? b : old - 1;
  default: /* exch */
    return b;
  }
}

/* ---- a warp's worth -------------------------------------------------------------------------- */

struct atomic {
  enum mod op, type;
  uint8_t sem, scope;
  enum space sp;
  const struct opd *dest, *addr, *value, *compare; /* dest NULL: red */
};

/* Element e of an operand: value and undefined bits, up to 128. */
struct wide {
  uint64_t v[2], u[2];
};

static struct wide wide_get(struct warp *w, const struct opd *o, unsigned e, int lane) {
  if (o->kind == OPD_vec)
    o = &o->elem[e];
  struct wide x = {{opd_get(w, o, lane), 0}, {opd_get_undef(w, o, lane), 0}};
  if (o->kind == OPD_reg && o->bits == 128) {
    size_t at = (size_t)o->reg * WARP + (size_t)lane;
    x.v[1] = w->r[at + WARP];
    x.u[0] = w->u[at];
    x.u[1] = w->u[at + WARP];
  }
  return x;
}

static void wide_set(struct warp *w, const struct opd *o, unsigned e, int lane,
                     const struct wide *x) {
  if (o->kind == OPD_vec)
    o = &o->elem[e];
  if (o->kind != OPD_reg)
    return;
  if (o->bits == 128) {
    size_t at = ((size_t)o->reg + 1) * WARP + (size_t)lane;
    w->r[at] = x->v[1];
    w->u[at] = check_on(w->cta->grid->dev->m, CHECK_undef) ? x->u[1] : 0;
  }
  opd_set(w, o, lane, x->v[0], x->u[0]);
}

static bool compare_defined(const struct access *a, uint64_t addr) {
  struct report r = {.check = CHECK_undef,
                     .rule = "undef-compare",
                     .who = a,
                     .has_address = true,
                     .space = SPACE_generic,
                     .address = addr,
                     .text = "atom.cas compares undefined bits"};
  return !report(a->m, &r);
}

static bool atomic_element(struct warp *w, const struct atomic *t, struct access *a,
                           struct mem *mem, uint64_t at, uint64_t addr, unsigned e, int lane) {
  unsigned bytes = mod_bits(t->type) / 8;
  struct wide old = {{0, 0}, {0, 0}}, b = wide_get(w, t->value, e, lane), next = b;
  memcpy(old.v, mem->data + at, bytes);
  if (mem->undef)
    memcpy(old.u, mem->undef + at, bytes);
  bool write = true;
  uint64_t undef = old.u[0] | old.u[1];
  if (t->op == MOD_cas) {
    struct wide c = wide_get(w, t->compare, e, lane);
    if ((undef | c.u[0] | c.u[1]) && !compare_defined(a, addr))
      return false;
    write = old.v[0] == c.v[0] && old.v[1] == c.v[1];
  } else if (t->op != MOD_exch) {
    next.v[0] = combine(t->op, t->type, old.v[0], b.v[0], mem->space == SPACE_global);
    if (undef | b.u[0])
      next.u[0] = ~0ull;
  }
  if (write) {
    uint64_t low = low_mask(bytes * 8 > 64 ? 64 : bytes * 8);
    if (((next.u[0] & low) | (bytes == 16 ? next.u[1] : 0)) && check_on(a->m, CHECK_undef) &&
        !store_defined(a, mem, addr))
      return false;
    a->m->activity += memcmp(mem->data + at, next.v, bytes) != 0;
    memcpy(mem->data + at, next.v, bytes);
    if (mem->undef)
      memcpy(mem->undef + at, next.u, bytes);
  }
  if (t->dest)
    wide_set(w, t->dest, e, lane, &old);
  return true;
}

static enum step atomic(struct warp *w, const struct insn *I, uint32_t lanes,
                        const struct atomic *t) {
  uint64_t addr[WARP];
  if (!warp_addresses(w, I, t->addr, lanes, addr))
    return STEP_fault;
  struct access a = access_of(w, I, first_lane(lanes));
  a.sem = t->sem;
  a.scope = t->scope;
  a.atomic = true;
  unsigned bytes = mod_bits(t->type) / 8, total = bytes * I->vec;
  a.element = (uint8_t)bytes;
  FOR_LANES(l, lanes) {
    a.lane = l;
    uint64_t at;
    struct mem *mem = mem_resolve(&a, t->sp, addr[l], total, total, true, &at);
    if (!mem ||
        (mem->space == SPACE_shared && mem->cta->mbar && !mbar_guard(&a, mem, at, total, true)))
      return STEP_fault;
    for (unsigned e = 0; e < I->vec; e++) {
      if (!atomic_element(w, t, &a, mem, at + (uint64_t)e * bytes, addr[l] + (uint64_t)e * bytes, e,
                          (int)l))
        return STEP_fault;
    }
    shadow_note(&a, mem, at, total, true);
  }
  return STEP_next;
}

static enum space space_named(const struct insn *I, const struct opd *o) {
  return o->symbol && o->space != SPACE_generic ? (enum space)o->space
                                                : space_of((enum mod)I->mod[2]);
}

static struct atomic decode(const struct insn *I, bool dest) {
  const struct opd *o = I->opd;
  struct atomic t = {.op = (enum mod)I->mod[3],
                     .type = (enum mod)I->type[I->types - 1],
                     .sem = sem_of((enum mod)I->mod[0]),
                     .scope = scope_of((enum mod)I->mod[1], SCOPE_gpu),
                     .dest = dest ? o : NULL,
                     .addr = &o[dest],
                     .value = &o[dest + 1]};
  if (t.sem == SEM_weak)
    t.sem = SEM_relaxed;
  t.sp = space_named(I, t.addr);
  if (t.op == MOD_cas) {
    t.compare = t.value;
    t.value = &o[dest + 2];
  }
  return t;
}

static enum step exec_atom(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct atomic t = decode(I, true);
  return atomic(w, I, lanes, &t);
}
static enum step exec_red(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct atomic t = decode(I, false);
  return atomic(w, I, lanes, &t);
}

/* ---- forms ----------------------------------------------------------------------------------- */

static const char *check_policy(const struct insn *I, unsigned plain) {
  return insn_has(I, MOD_L2__cache_hint) == (I->nopd > plain)
             ? NULL
             : ".L2::cache_hint and the cache policy operand go together";
}
static const char *check_atom(const struct insn *I) {
  return check_policy(I, 3);
}
static const char *check_cas(const struct insn *I) {
  return check_policy(I, 4);
}
static const char *check_red(const struct insn *I) {
  return check_policy(I, 2);
}

/* Vectors hold at most 16 bytes, in global memory. */
static const char *check_vector(const struct insn *I, unsigned plain) {
  enum space sp = space_of((enum mod)I->mod[2]);
  if (sp != SPACE_generic && sp != SPACE_global)
    return "vector atomics need .global";
  if (mod_bits((enum mod)I->type[I->types - 1]) * I->vec > 128)
    return "a vector atomic has at most 16 bytes";
  return check_policy(I, plain);
}
static const char *check_vector_atom(const struct insn *I) {
  return check_vector(I, 3);
}
static const char *check_vector_red(const struct insn *I) {
  return check_vector(I, 2);
}

#define SPACES "[.global|.shared|.shared::cta|.shared::cluster]"
#define ATOM   "atom[.relaxed|.acquire|.release|.acq_rel][.cta|.cluster|.gpu|.sys]" SPACES
#define RED    "red[.relaxed|.release][.cta|.cluster|.gpu|.sys]" SPACES
#define HINT   "[.L2::cache_hint]"
#define HALVES "{.f16|.f16x2|.bf16|.bf16x2}"

/* What both have; `ops` are the operands of the scalar, `vops` of the vector forms. */
#define BOTH(head, ops, vops, exec, check, vcheck)                                                 \
  {head "{.and|.or|.xor}" HINT "{.b32|.b64}", ops, exec, 0, "definition", check},                  \
      {head "{.add}" HINT "{.u32|.s32|.u64|.s64|.f32|.f64}", ops, exec, 0, "definition", check},   \
      {head "{.min|.max}" HINT "{.u32|.s32|.u64|.s64}", ops, exec, 0, "definition", check},        \
      {head "{.inc|.dec}" HINT "{.u32}", ops, exec, 0, "definition", check},                       \
      {head "{.add}.noftz" HINT HALVES, ops, exec, 0, "definition", check},                        \
      {head "{.add}" HINT "{.v2|.v4}.f32", vops, exec, 0, "definition", vcheck}, {                 \
    head "{.add|.min|.max}.noftz" HINT "{.v2|.v4|.v8}" HALVES, vops, exec, 0, "definition", vcheck \
  }

const struct form forms_atomic[] = {
    BOTH(ATOM, "wT_ m rT r64?", "vwT_ m vrT r64?", exec_atom, check_atom, check_vector_atom),
    {ATOM "{.exch}" HINT "{.b32|.b64|.b128}", "wT_ m rT r64?", exec_atom, 0, "definition",
     check_atom},
    {ATOM "{.cas}"
          "{.b16|.b32|.b64|.b128}",
     "wT_ m rT rT", exec_atom, 0, "definition", check_cas},
    BOTH(RED, "m rT r64?", "m vrT r64?", exec_red, check_red, check_vector_red),
    {NULL, NULL, NULL, 0, NULL, NULL},
};
