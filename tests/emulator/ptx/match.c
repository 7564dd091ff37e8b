/* SPDX-License-Identifier: Apache-2.0
 *
 * An instruction as written against the rows of its opcode: modifiers first, then
 * operands with their widths and classes.  The first row that takes both wins; else the
 * most telling reason among the rows is given.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "forms.h"

#define MODS_IN_ORDER 16 /* more modifiers than any atom or red has */

struct attempt {
  struct arena *arena;
  struct insn *insn;
  char why[256];
  unsigned depth; /* how far the best attempt came */
};

/* Keeps the reason of the attempt that came farthest. */
static bool refuse(struct attempt *t, unsigned depth, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));
static bool refuse(struct attempt *t, unsigned depth, const char *fmt, ...) {
  if (depth >= t->depth) {
    va_list ap;
    va_start(ap, fmt);
    vsnprintf(t->why, sizeof t->why, fmt, ap);
    va_end(ap);
    t->depth = depth;
  }
  return false;
}

/* ---- modifiers -------------------------------------------------------------- */

static bool match_mods(const struct row *r, unsigned e, unsigned slot, const enum mod *mods,
                       uint32_t n, uint32_t at, struct insn *I, uint32_t *reached) {
  if (at > *reached)
    *reached = at;
  if (e == r->nelement)
    return at == n;
  const struct element *el = &r->element[e];
  if (at < n)
    for (unsigned i = 0; i < el->nalt; i++)
      if (el->alt[i] == mods[at]) {
        if (el->slot)
          I->mod[slot] = (uint16_t)mods[at];
        if (match_mods(r, e + 1, slot + el->slot, mods, n, at + 1, I, reached))
          return true;
      }
  if (!el->optional)
    return false;
  I->mod[slot] = MOD_none;
  return match_mods(r, e + 1, slot + 1, mods, n, at, I, reached);
}

static void note_types(struct insn *I, const enum mod *mods, uint32_t n) {
  I->types = 0;
  I->vec = 1;
  for (uint32_t i = 0; i < n; i++) {
    if (mods[i] == MOD_v2 || mods[i] == MOD_v4 || mods[i] == MOD_v8)
      I->vec = mods[i] == MOD_v2 ? 2 : mods[i] == MOD_v4 ? 4 : 8;
    if (!mod_kind(mods[i]))
      continue;
    if (I->types < 3)
      I->type[I->types++] = (uint16_t)mods[i];
    else
      I->type[2] = (uint16_t)mods[i]; /* the last one counts for T */
  }
}

/* ---- operands ----------------------------------------------------------------- */

static enum mod word_type(const struct insn *I, const struct word *w) {
  if (!w->type)
    return MOD_none;
  unsigned i = w->type == WORD_LAST_TYPE ? I->types - 1u : w->type - 1u;
  return i < I->types ? (enum mod)I->type[i] : MOD_none;
}

static bool match_reg(struct attempt *t, unsigned pos, const struct arg *a, enum mod reg,
                      unsigned bits, enum mod type, bool wider) {
  char kr = mod_kind(reg), kt = type ? mod_kind(type) : 'b';
  unsigned have = mod_bits(reg);
  if ((bits == 1) != (kr == 'p'))
    return refuse(t, 100 + pos, "operand %u: %s is %sa predicate", pos, a->name,
                  kr == 'p' ? "" : "not ");
  if (wider ? have < bits : have != bits)
    return refuse(t, 100 + pos, "operand %u: %s has %u bits where %u are expected", pos, a->name,
                  have, bits);
  bool same = have == bits ? kr == 'b' || kt == 'b' || (kr != 'f' && kt != 'f') || reg == type
                           : kr != 'f' && kt != 'f';
  if (!same)
    return refuse(t, 100 + pos, "operand %u: %s is of type .%s where .%s is expected", pos, a->name,
                  mod_text(reg), mod_text(type ? type : reg));
  return true;
}

static uint64_t to_f64(uint64_t f32) {
  uint32_t b = (uint32_t)f32;
  float f;
  memcpy(&f, &b, 4);
  double d = (double)f;
  uint64_t v;
  memcpy(&v, &d, 8);
  return v;
}

static uint64_t to_f32(uint64_t f64) {
  double d;
  memcpy(&d, &f64, 8);
  float f = (float)d;
  uint32_t b;
  memcpy(&b, &f, 4);
  return b;
}

static bool match_constant(struct attempt *t, unsigned pos, const struct arg *a, unsigned bits,
                           enum mod type, struct opd *o) {
  char kind = type ? mod_kind(type) : 'b';
  bool real = a->kind != ARG_int;
  if (bits == 1) {
    if (real)
      return refuse(t, 100 + pos, "operand %u: floating-point constant for a predicate", pos);
    o->imm = o->imm != 0;
  } else if (real ? kind == 'u' || kind == 's' || (bits != 32 && bits != 64) : kind == 'f') {
    return refuse(t, 100 + pos, "operand %u: %s constant where .%s is expected", pos,
                  real ? "floating-point" : "integer", type ? mod_text(type) : "b16");
  } else if (kind == 'f' && type != MOD_f32 && type != MOD_f64 && type != MOD_tf32) {
    return refuse(t, 100 + pos, "operand %u: type .%s has no constants", pos, mod_text(type));
  } else if (a->kind == ARG_f32 && bits == 64) {
    o->imm = to_f64(o->imm);
  } else if (a->kind == ARG_f64 && bits == 32) {
    o->imm = to_f32(o->imm);
  } else if (bits < 64) {
    o->imm &= (1ull << bits) - 1;
  }
  o->bits = (uint8_t)bits;
  return true;
}

static bool match_operand(struct attempt *t, unsigned pos, const struct word *w,
                          const struct arg *a, struct opd *o);

static bool match_elements(struct attempt *t, unsigned pos, const struct word *w,
                           const struct arg *a, struct opd *o) {
  struct word e = *w;
  e.group = 0;
  o->elem = arena_alloc(t->arena, a->o.n * sizeof *o->elem);
  for (unsigned i = 0; i < a->o.n; i++) {
    e.sink = true;
    if (!match_operand(t, pos, &e, &a->elem[i], &o->elem[i]))
      return false;
  }
  return true;
}

/* {a,b}: registers of equal width that together make one of `bits`. */
static bool match_packed(struct attempt *t, unsigned pos, const struct word *w, const struct arg *a,
                         unsigned bits, struct opd *o) {
  struct word e = {.kind = w->kind, .sink = w->kind == 'w'};
  if (!a->o.n || bits % a->o.n || (a->o.n != 2 && a->o.n != 4 && a->o.n != 8))
    return refuse(t, 100 + pos, "operand %u: %u elements for %u bits", pos, a->o.n, bits);
  e.bits = (uint8_t)(bits / a->o.n);
  if (e.bits < 8)
    return refuse(t, 100 + pos, "operand %u: elements of %u bits", pos, e.bits);
  o->elem = arena_alloc(t->arena, a->o.n * sizeof *o->elem);
  for (unsigned i = 0; i < a->o.n; i++) {
    if (!match_operand(t, pos, &e, &a->elem[i], &o->elem[i]))
      return false;
    o->elem[i].bits = e.bits;
  }
  o->bits = (uint8_t)bits;
  return true;
}

static bool match_tensor(struct attempt *t, unsigned pos, const struct arg *a, struct opd *o) {
  o->elem = arena_alloc(t->arena, a->o.n * sizeof *o->elem);
  o->elem[0] = a->elem[0].o;
  struct word c = {.kind = 'r', .bits = 32};
  for (unsigned i = 1; i < a->o.n; i++)
    if (!match_operand(t, pos, &c, &a->elem[i], &o->elem[i]))
      return false;
  return true;
}

static bool match_vector(struct attempt *t, unsigned pos, const struct word *w, const struct arg *a,
                         struct opd *o) {
  unsigned want = w->count ? w->count : t->insn->vec > 1 ? t->insn->vec : 0;
  if (a->kind == ARG_vec) {
    if (want && a->o.n != want)
      return refuse(t, 100 + pos, "operand %u: %u elements where %u are expected", pos, a->o.n,
                    want);
    return match_elements(t, pos, w, a, o);
  }
  if (want)
    return refuse(t, 100 + pos, "operand %u: expected a vector of %u", pos, want);
  struct word single = *w;
  single.group = 0;
  return match_operand(t, pos, &single, a, o);
}

static bool match_value(struct attempt *t, unsigned pos, const struct word *w, const struct arg *a,
                        struct opd *o) {
  enum mod type = word_type(t->insn, w);
  unsigned bits = w->bits ? w->bits : mod_bits(type);
  if (w->group == 'x' && a->kind == ARG_vec)
    return match_packed(t, pos, w, a, bits, o);
  switch (a->kind) {
  case ARG_reg:
    if (a->o.invert && (w->kind == 'w' || bits != 1))
      return refuse(t, 100 + pos, "operand %u: '!' is for predicates that are read", pos);
    if (a->o.pair != -1 && !w->pair)
      return refuse(t, 100 + pos, "operand %u: no '|' here", pos);
    if (a->o.pair != -1 && mod_kind(a->pair_type) != 'p')
      return refuse(t, 100 + pos, "operand %u: a predicate is expected after '|'", pos);
    return match_reg(t, pos, a, a->type, bits, type, w->wider);
  case ARG_sink:
    if (a->o.pair != -1 ? w->pair : w->sink)
      return true;
    return refuse(t, 100 + pos, "operand %u: '_' is not allowed here", pos);
  case ARG_int:
  case ARG_f32:
  case ARG_f64:
    if (w->kind == 'r')
      return match_constant(t, pos, a, bits, type, o);
    return refuse(t, 100 + pos, "operand %u: a constant as destination", pos);
  case ARG_sreg:
    if (!w->symbol)
      return refuse(t, 100 + pos, "operand %u: special register %s can only be moved", pos,
                    a->name);
    /* PTX truncates to 16 bits, and %gridid to its width of old; it never widens. */
    if (!(a->o.bits == bits || (a->o.bits == 32 && bits == 16) ||
          (a->o.imm == SREG_gridid && bits == 32)) ||
        (type && mod_kind(type) == 'f'))
      return refuse(t, 100 + pos, "operand %u: %s has %u bits where %u are expected", pos, a->name,
                    a->o.bits, bits);
    return true;
  case ARG_symbol:
    if (!w->symbol)
      return refuse(t, 100 + pos, "operand %u: the address of %s can only be moved", pos, a->name);
    if (bits < 32 || (type && mod_kind(type) == 'f'))
      return refuse(t, 100 + pos, "operand %u: the address of %s needs 32 or 64 bits", pos,
                    a->name);
    o->bits = (uint8_t)bits;
    return true;
  default:
    return refuse(t, 100 + pos, "operand %u: expected a register%s", pos,
                  w->kind == 'r' ? " or constant" : "");
  }
}

static bool match_operand(struct attempt *t, unsigned pos, const struct word *w,
                          const struct arg *a, struct opd *o) {
  static const struct {
    char kind;
    uint8_t arg;
    const char *what;
  } plain[] = {{'m', ARG_addr, "an address"},
               {'t', ARG_tensor, "[tensor map, {coordinates}]"},
               {'i', ARG_int, "an integer constant"},
               {'L', ARG_label, "a label"},
               {'B', ARG_targets, "a table of branch targets"}};
  *o = a->o;
  for (size_t i = 0; i < sizeof plain / sizeof *plain; i++) {
    if (w->kind != plain[i].kind)
      continue;
    if (a->kind != plain[i].arg)
      return refuse(t, 100 + pos, "operand %u: expected %s", pos, plain[i].what);
    return w->kind != 't' || match_tensor(t, pos, a, o);
  }
  return w->group == 'v' ? match_vector(t, pos, w, a, o) : match_value(t, pos, w, a, o);
}

static bool match_operands(struct attempt *t, const struct row *r, const struct arg *args,
                           uint32_t n) {
  struct insn *I = t->insn;
  unsigned least = 0;
  while (least < r->nword && !r->word[least].optional)
    least++;
  if (n < least || n > r->nword)
    return refuse(t, 100, "%u operands where %u are expected", n, n < least ? least : r->nword);
  I->opd = arena_alloc(t->arena, r->nword * sizeof *I->opd);
  I->nopd = (uint8_t)n;
  I->writes = 0;
  for (unsigned i = 0; i < n; i++)
    I->writes |= (uint16_t)((r->word[i].kind == 'w') << i);
  for (unsigned i = 0; i < n; i++)
    if (!match_operand(t, i + 1, &r->word[i], &args[i], &I->opd[i]))
      return false;
  for (unsigned i = n; i < r->nword; i++)
    I->opd[i] = (struct opd){.kind = OPD_none, .reg = -1, .pair = -1, .var = -1};
  return true;
}

/* ptxas also takes the operation of atom and red before order, scope and space, and
 * libcu++ writes it there (atom.add.relaxed.gpu.u32): put where the tables have it. */
static const enum mod *in_order(const char *opcode, const enum mod *mods, uint32_t n,
                                enum mod *to) {
  static const enum mod later[] = {MOD_relaxed, MOD_acquire, MOD_release,     MOD_acq_rel,
                                   MOD_cta,     MOD_cluster, MOD_gpu,         MOD_sys,
                                   MOD_global,  MOD_shared,  MOD_shared__cta, MOD_shared__cluster};
  if (n < 2 || n > MODS_IN_ORDER || (strcmp(opcode, "atom") != 0 && strcmp(opcode, "red") != 0))
    return mods;
  uint32_t moved = 0;
  for (bool more = true; more && moved + 1 < n; moved += more) {
    more = false;
    for (size_t i = 0; i < sizeof later / sizeof *later; i++)
      more |= mods[moved + 1] == later[i];
  }
  for (size_t i = 0; i < sizeof later / sizeof *later; i++)
    if (mods[0] == later[i] || mods[0] == MOD_async)
      return mods;
  memcpy(to, mods + 1, moved * sizeof *to);
  to[moved] = mods[0];
  memcpy(to + moved + 1, mods + moved + 1, (n - moved - 1) * sizeof *to);
  return to;
}

bool form_opcode_exists(const char *opcode) {
  return form_row(opcode, NULL) != NULL;
}

bool form_match(struct arena *arena, struct insn *I, const char *opcode, const enum mod *mods,
                uint32_t nmod, const struct arg *args, uint32_t nargs, char *why, size_t size) {
  struct attempt t = {.arena = arena, .insn = I};
  if (!form_opcode_exists(opcode)) {
    snprintf(why, size, "unknown instruction %s", opcode);
    return false;
  }
  enum mod moved[MODS_IN_ORDER];
  mods = in_order(opcode, mods, nmod, moved);
  note_types(I, mods, nmod);
  uint32_t reached = 0;
  for (const struct row *r = form_row(opcode, NULL); r; r = form_row(opcode, r)) {
    memset(I->mod, 0, sizeof I->mod);
    if (!match_mods(r, 0, 0, mods, nmod, 0, I, &reached))
      continue;
    if (!match_operands(&t, r, args, nargs))
      continue;
    const char *wrong = r->form->check ? r->form->check(I) : NULL;
    if (wrong) {
      refuse(&t, 200, "%s", wrong);
      continue;
    }
    I->form = r->form;
    return true;
  }
  if (*t.why)
    snprintf(why, size, "%s", t.why);
  else if (reached < nmod)
    snprintf(why, size, "%s does not take .%s here", opcode, mod_text(mods[reached]));
  else
    snprintf(why, size, "%s lacks a modifier after what is written", opcode);
  return false;
}
