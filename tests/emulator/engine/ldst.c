/* SPDX-License-Identifier: Apache-2.0
 *
 * ld, ldu and st in all spaces and widths.  A whole warp moves at once when all its
 * addresses lie in one memory; whatever is wrong or unusual goes lane by lane through
 * mem_load and mem_store, which say what.
 */
#include "warp_memory.h"

/* ---- moving a warp's elements -------------------------------------------------------------- */

static inline uint64_t extended(uint64_t v, unsigned bits, bool sign, unsigned wide) {
  if (sign && bits < wide && v >> (bits - 1) & 1)
    v |= ~low_mask(bits);
  return v & low_mask(wide);
}

/* Fetches `bytes` at p[at[l]] into row[l]; bytes is a constant where it is inlined. */
static inline __attribute__((always_inline)) void
fetch(uint64_t *row, const uint8_t *p, const uint64_t *at, uint32_t lanes, size_t bytes) {
  if (lanes == ALL_LANES) {
    for (int l = 0; l < WARP; l++) {
      uint64_t v = 0;
      memcpy(&v, p + at[l], bytes);
      row[l] = v;
    }
  } else {
    FOR_LANES(l, lanes) {
      uint64_t v = 0;
      memcpy(&v, p + at[l], bytes);
      row[l] = v;
    }
  }
}

static void fetch_row(uint64_t *row, const uint8_t *p, const uint64_t *at, uint32_t lanes,
                      unsigned bytes, bool sign, unsigned wide) {
  switch (bytes) {
  case 1:
    fetch(row, p, at, lanes, 1);
    break;
  case 2:
    fetch(row, p, at, lanes, 2);
    break;
  case 4:
    fetch(row, p, at, lanes, 4);
    break;
  default:
    fetch(row, p, at, lanes, 8);
    break;
  }
  if (sign && bytes * 8 < wide)
    FOR_LANES(l, lanes) row[l] = extended(row[l], bytes * 8, true, wide);
}

static inline __attribute__((always_inline)) uint64_t put_one(uint64_t v, uint8_t *p,
                                                              size_t bytes) {
  uint64_t old = 0;
  memcpy(&old, p, bytes);
  memcpy(p, &v, bytes);
  return (old ^ v) & low_mask((unsigned)bytes * 8);
}

static inline __attribute__((always_inline)) uint64_t put(const uint64_t *row, int stride,
                                                          uint8_t *p, const uint64_t *at,
                                                          uint32_t lanes, size_t bytes) {
  uint64_t changed = 0;
  if (lanes == ALL_LANES) {
    for (int l = 0; l < WARP; l++)
      changed |= put_one(row[l * stride], p + at[l], bytes);
  } else {
    FOR_LANES(l, lanes) changed |= put_one(row[l * (uint32_t)stride], p + at[l], bytes);
  }
  return changed;
}

/* true: some byte changed. */
static bool put_row(const uint64_t *row, int stride, uint8_t *p, const uint64_t *at, uint32_t lanes,
                    unsigned bytes) {
  switch (bytes) {
  case 1:
    return put(row, stride, p, at, lanes, 1) != 0;
  case 2:
    return put(row, stride, p, at, lanes, 2) != 0;
  case 4:
    return put(row, stride, p, at, lanes, 4) != 0;
  default:
    return put(row, stride, p, at, lanes, 8) != 0;
  }
}

/* ---- one load or store --------------------------------------------------------- */

struct request {
  enum space sp;
  uint8_t sem, scope;
};

/* The pieces of up to 8 bytes that the instruction moves per lane: a 128-bit register is
 * two pieces in consecutive slots. */
struct pieces {
  unsigned bytes, n, total;
  bool sign, wide128;
};

static struct pieces pieces_of(const struct insn *I) {
  enum mod type = (enum mod)I->type[I->types - 1];
  struct pieces p = {.bytes = mod_bits(type) / 8, .n = I->vec, .sign = mod_kind(type) == 's'};
  p.total = p.bytes * p.n;
  if (p.bytes == 16) {
    p.bytes = 8;
    p.n *= 2;
    p.wide128 = true;
  }
  return p;
}

/* Register operand of piece i; *high: its second slot. */
static const struct opd *piece(const struct opd *o, const struct pieces *p, unsigned i,
                               unsigned *high) {
  *high = p->wide128 ? i & 1 : 0;
  unsigned e = p->wide128 ? i / 2 : i;
  return o->kind == OPD_vec ? &o->elem[e] : o;
}

static enum space space_at(const struct request *q, const struct opd *address) {
  return address->symbol && address->space != SPACE_generic ? (enum space)address->space : q->sp;
}

static struct access access_for(struct warp *w, const struct insn *I, uint32_t lanes,
                                const struct request *q) {
  struct access a = access_of(w, I, first_lane(lanes));
  a.sem = q->sem;
  a.scope = q->scope;
  a.element = (uint8_t)(mod_bits((enum mod)I->type[I->types - 1]) / 8);
  return a;
}

static bool load_slow(struct warp *w, const struct insn *I, uint32_t lanes, struct access *a,
                      enum space sp, const uint64_t *addr, const struct pieces *p) {
  FOR_LANES(l, lanes) {
    uint8_t data[32], undef[32];
    a->lane = l;
    if (!mem_load(a, sp, addr[l], p->total, p->total, data, undef))
      return false;
    for (unsigned i = 0; i < p->n; i++) {
      unsigned high;
      const struct opd *d = piece(&I->opd[0], p, i, &high);
      if (d->kind != OPD_reg)
        continue;
      uint64_t v = 0, u = 0;
      memcpy(&v, data + (size_t)i * p->bytes, p->bytes);
      memcpy(&u, undef + (size_t)i * p->bytes, p->bytes);
      size_t at = ((size_t)d->reg + high) * WARP + l;
      w->r[at] = extended(v, p->bytes * 8, p->sign, p->wide128 ? 64 : d->bits);
      w->u[at] = check_on(a->m, CHECK_undef)
                     ? extended(u, p->bytes * 8, p->sign, p->wide128 ? 64 : d->bits)
                     : 0;
    }
  }
  return true;
}

static enum step load(struct warp *w, const struct insn *I, uint32_t lanes,
                      const struct request *q) {
  const struct pieces p = pieces_of(I);
  enum space sp = space_at(q, &I->opd[1]);
  uint64_t addr[WARP];
  if (!warp_addresses(w, I, &I->opd[1], lanes, addr))
    return STEP_fault;
  struct access a = access_for(w, I, lanes, q);
  struct mem *mem = warp_resolve(w, sp, lanes, addr, p.total, false);
  if (!mem)
    return load_slow(w, I, lanes, &a, sp, addr, &p) ? STEP_next : STEP_fault;
  bool undef = check_on(a.m, CHECK_undef);
  for (unsigned i = 0; i < p.n; i++) {
    unsigned high;
    const struct opd *d = piece(&I->opd[0], &p, i, &high);
    if (d->kind != OPD_reg)
      continue;
    size_t row = ((size_t)d->reg + high) * WARP;
    unsigned wide = p.wide128 ? 64 : d->bits;
    size_t at = (size_t)i * p.bytes;
    fetch_row(w->r + row, mem->data + at, addr, lanes, p.bytes, p.sign, wide);
    if (undef && mem->undef)
      fetch_row(w->u + row, mem->undef + at, addr, lanes, p.bytes, p.sign, wide);
    else if (undef)
      FOR_LANES(l, lanes) w->u[row + l] = 0;
  }
  warp_note(&a, mem, lanes, addr, p.total, false);
  return STEP_next;
}

static bool store_slow(struct warp *w, const struct insn *I, uint32_t lanes, struct access *a,
                       enum space sp, const uint64_t *addr, const struct pieces *p) {
  FOR_LANES(l, lanes) {
    uint8_t data[32], undef[32];
    for (unsigned i = 0; i < p->n; i++) {
      unsigned high;
      const struct opd *s = piece(&I->opd[1], p, i, &high);
      uint64_t v = 0, u = 0;
      if (s->kind == OPD_reg) {
        v = w->r[((size_t)s->reg + high) * WARP + l];
        u = w->u[((size_t)s->reg + high) * WARP + l];
      } else if (!high) {
        v = opd_get(w, s, (int)l);
      }
      memcpy(data + (size_t)i * p->bytes, &v, p->bytes);
      memcpy(undef + (size_t)i * p->bytes, &u, p->bytes);
    }
    a->lane = l;
    if (!mem_store(a, sp, addr[l], p->total, p->total, data, undef))
      return false;
  }
  return true;
}

static enum step store(struct warp *w, const struct insn *I, uint32_t lanes,
                       const struct request *q) {
  const struct pieces p = pieces_of(I);
  enum space sp = space_at(q, &I->opd[0]);
  uint64_t addr[WARP];
  if (!warp_addresses(w, I, &I->opd[0], lanes, addr))
    return STEP_fault;
  struct access a = access_for(w, I, lanes, q);
  struct mem *mem = warp_resolve(w, sp, lanes, addr, p.total, true);
  if (!mem)
    return store_slow(w, I, lanes, &a, sp, addr, &p) ? STEP_next : STEP_fault;
  static const uint64_t zero;
  bool changed = false, undef = check_on(a.m, CHECK_undef);
  for (unsigned i = 0; i < p.n; i++) {
    unsigned high;
    const struct opd *s = piece(&I->opd[1], &p, i, &high);
    int rs, us;
    const uint64_t *r = opd_src(w, s, &rs), *u = opd_undef(w, s, &us);
    if (high && s->kind == OPD_reg) {
      r += WARP;
      u += WARP;
    } else if (high) {
      r = &zero;
      rs = 0;
    }
    size_t at = (size_t)i * p.bytes;
    if (undef) {
      uint64_t any = 0;
      FOR_LANES(l, lanes) any |= u[l * (uint32_t)us];
      if (any & low_mask(p.bytes * 8)) {
        FOR_LANES(l, lanes) {
          a.lane = l;
          if (u[l * (uint32_t)us] & low_mask(p.bytes * 8) &&
              !store_defined(&a, mem, mem->base + addr[l] + at))
            return STEP_fault;
        }
      }
      if (mem->undef)
        (void)put_row(u, us, mem->undef + at, addr, lanes, p.bytes);
    }
    changed |= put_row(r, rs, mem->data + at, addr, lanes, p.bytes);
  }
  a.m->activity += changed;
  warp_note(&a, mem, lanes, addr, p.total, true);
  return STEP_next;
}

/* ---- forms ----------------------------------------------------------------------------------- */

#define SLOT(i) ((enum mod)I->mod[i])

static enum step exec_ld_weak(struct warp *w, const struct insn *I, uint32_t lanes) {
  return load(w, I, lanes, &(struct request){.sp = space_of(SLOT(1)), .sem = SEM_weak});
}
static enum step exec_ld_volatile(struct warp *w, const struct insn *I, uint32_t lanes) {
  return load(w, I, lanes,
              &(struct request){.sp = space_of(SLOT(0)), .sem = SEM_volatile, .scope = SCOPE_sys});
}
static enum step exec_ld_scoped(struct warp *w, const struct insn *I, uint32_t lanes) {
  return load(w, I, lanes,
              &(struct request){.sp = space_of(SLOT(2)),
                                .sem = sem_of(SLOT(0)),
                                .scope = scope_of(SLOT(1), SCOPE_gpu)});
}
static enum step exec_ld_mmio(struct warp *w, const struct insn *I, uint32_t lanes) {
  return load(w, I, lanes,
              &(struct request){.sp = space_of(SLOT(0)), .sem = SEM_relaxed, .scope = SCOPE_sys});
}
static enum step exec_ldu(struct warp *w, const struct insn *I, uint32_t lanes) {
  return load(w, I, lanes, &(struct request){.sp = space_of(SLOT(0)), .sem = SEM_weak});
}
static enum step exec_st_weak(struct warp *w, const struct insn *I, uint32_t lanes) {
  return store(w, I, lanes, &(struct request){.sp = space_of(SLOT(1)), .sem = SEM_weak});
}
static enum step exec_st_volatile(struct warp *w, const struct insn *I, uint32_t lanes) {
  return store(w, I, lanes,
               &(struct request){.sp = space_of(SLOT(0)), .sem = SEM_volatile, .scope = SCOPE_sys});
}
static enum step exec_st_scoped(struct warp *w, const struct insn *I, uint32_t lanes) {
  return store(w, I, lanes,
               &(struct request){.sp = space_of(SLOT(2)),
                                 .sem = sem_of(SLOT(0)),
                                 .scope = scope_of(SLOT(1), SCOPE_gpu)});
}
static enum step exec_st_mmio(struct warp *w, const struct insn *I, uint32_t lanes) {
  return store(w, I, lanes,
               &(struct request){.sp = space_of(SLOT(0)), .sem = SEM_relaxed, .scope = SCOPE_sys});
}

/* A cache policy is given exactly when .L2::cache_hint is, as the last operand. */
static const char *check_hint(const struct insn *I, unsigned plain) {
  bool hint = insn_has(I, MOD_L2__cache_hint);
  if (hint != (I->nopd > plain))
    return hint ? ".L2::cache_hint needs a cache policy operand"
                : "a cache policy operand needs .L2::cache_hint";
  return NULL;
}
static const char *check_ldst(const struct insn *I) {
  return check_hint(I, 2);
}

/* 256-bit accesses exist in global memory alone (or through a generic address). */
static const char *check_wide(const struct insn *I) {
  for (int i = 0; i < INSN_MODS; i++) {
    enum space sp = space_of((enum mod)I->mod[i]);
    if (sp != SPACE_generic && sp != SPACE_global)
      return "256-bit accesses need .global";
  }
  return check_hint(I, 2);
}

#define LD_SPACE                                                                                   \
  "[.const|.global|.local|.param|.param::entry|.param::func|.shared|.shared::cta|"                 \
  ".shared::cluster]"
#define ST_SPACE "[.global|.local|.param|.param::func|.shared|.shared::cta|.shared::cluster]"
#define L1_HINT                                                                                    \
  "[.L1::evict_normal|.L1::evict_unchanged|.L1::evict_first|.L1::evict_last|.L1::no_allocate]"
#define L2_EVICT "[.L2::evict_normal|.L2::evict_first|.L2::evict_last]"
#define L2_HINT  "[.L2::cache_hint]"
#define L2_FETCH "[.L2::64B|.L2::128B|.L2::256B]"
#define SCOPE    "{.cta|.cluster|.gpu|.sys}"
#define NARROW   "[.v2|.v4]{.b8|.u8|.s8|.b16|.u16|.s16|.b32|.u32|.s32|.f32}"
#define DOUBLE   "[.v2]{.b64|.u64|.s64|.f64}"
#define WIDE32   ".v8{.b32|.u32|.s32|.f32}"
#define WIDE64   ".v4{.b64|.u64|.s64|.f64}"

/* Every width of one kind of access; the L2 eviction hints go with 256 bits alone. */
#define ROWS(head, tail, operands, exec)                                                           \
  {head tail NARROW, operands, exec, 0, "definition", check_ldst},                                 \
      {head tail DOUBLE, operands, exec, 0, "definition", check_ldst},                             \
      {head tail "{.b128}", operands, exec, 0, "definition", check_ldst},                          \
      {head L2_EVICT tail WIDE32, operands, exec, FORM_sm100, "definition", check_wide}, {         \
    head L2_EVICT tail WIDE64, operands, exec, FORM_sm100, "definition", check_wide                \
  }

const struct form forms_ldst[] = {
    ROWS("ld[.weak]" LD_SPACE "[.ca|.cg|.cs|.lu|.cv][.nc]" L1_HINT, L2_HINT L2_FETCH, "vwT+ m r64?",
         exec_ld_weak),
    ROWS("ld.volatile" LD_SPACE, L2_HINT L2_FETCH, "vwT+ m r64?", exec_ld_volatile),
    ROWS("ld{.relaxed|.acquire}" SCOPE LD_SPACE L1_HINT, L2_HINT L2_FETCH, "vwT+ m r64?",
         exec_ld_scoped),
    {"ld.mmio.relaxed.sys[.global]" NARROW, "vwT+ m", exec_ld_mmio, 0, "definition", NULL},
    {"ld.mmio.relaxed.sys[.global]" DOUBLE, "vwT+ m", exec_ld_mmio, 0, "definition", NULL},
    {"ldu[.global]" NARROW, "vwT+ m", exec_ldu, 0, "definition", NULL},
    {"ldu[.global]" DOUBLE, "vwT+ m", exec_ldu, 0, "definition", NULL},
    {"ldu[.global]{.b128}", "vwT+ m", exec_ldu, 0, "definition", NULL},
    ROWS("st[.weak]" ST_SPACE "[.wb|.cg|.cs|.wt]" L1_HINT, L2_HINT, "m vrT+ r64?", exec_st_weak),
    ROWS("st.volatile" ST_SPACE, "", "m vrT+ r64?", exec_st_volatile),
    ROWS("st{.relaxed|.release}" SCOPE ST_SPACE L1_HINT, L2_HINT, "m vrT+ r64?", exec_st_scoped),
    {"st.mmio.relaxed.sys[.global]" NARROW, "m vrT+", exec_st_mmio, 0, "definition", NULL},
    {"st.mmio.relaxed.sys[.global]" DOUBLE, "m vrT+", exec_st_mmio, 0, "definition", NULL},
    {NULL, NULL, NULL, 0, NULL, NULL},
};
