/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements of a body to decoded instructions.
 */
#include <string.h>

#include "build.h"

static struct arg plain(enum arg_kind kind, enum opd_kind opd) {
  struct arg a = {.kind = (uint8_t)kind};
  a.o.kind = (uint8_t)opd;
  a.o.reg = a.o.pair = a.o.var = -1;
  return a;
}

static struct arg arg_label(uint32_t label) {
  struct arg a = plain(ARG_label, OPD_label);
  a.o.imm = label;
  return a;
}

static struct arg arg_targets(struct builder *b, const struct symbol *s) {
  struct arg a = plain(ARG_targets, OPD_vec);
  const struct stmt *t = s->stmt;
  a.o.n = (uint8_t)t->nmod;
  if (t->nmod > UINT8_MAX)
    ptx_error(b->p, t->line, "more than %u branch targets", UINT8_MAX);
  a.o.elem = arena_alloc(b->arena, t->nmod * sizeof *a.o.elem);
  for (uint32_t i = 0; i < t->nmod; i++) {
    struct symbol *l = scope_label(b, t->mod[i]);
    if (!l || l->kind != SYM_label)
      ptx_error(b->p, t->line, "unknown label: %s", t->mod[i]);
    a.o.elem[i] = arg_label(l->label).o;
  }
  return a;
}

static struct arg arg_var(struct builder *b, struct stmt *at, struct symbol *s, uint64_t add) {
  struct arg a = plain(ARG_symbol, OPD_imm);
  a.name = s->name;
  if (s->space == SPACE_shared)
    place_shared(b, s);
  a.o.symbol = true;
  a.o.space = s->space;
  a.o.imm = s->place + add;
  a.o.bits = 64;
  if (s->space == SPACE_shared && s->decl->external)
    a.o.var = VAR_DYNAMIC;
  if (s->space == SPACE_global || s->space == SPACE_const) {
    if (s->decl->external)
      ptx_error(b->p, at->line, "%s is declared .extern and never defined: %s", s->name, at->text);
    a.o.var = s->decl->module_var;
  }
  return a;
}

static struct arg arg_name(struct builder *b, struct stmt *at, const struct raw *r) {
  struct arg a;
  if (strcmp(r->name, "_") == 0)
    return plain(ARG_sink, OPD_sink);
  struct found f = scope_find(b, r->name);
  if (f.symbol && f.symbol->kind == SYM_var)
    return arg_var(b, at, f.symbol, r->value);
  if (r->value)
    ptx_error(b->p, at->line, "%s is no variable to add to: %s", r->name, at->text);
  if (f.symbol) {
    a = plain(ARG_reg, OPD_reg);
    a.name = r->name;
    a.type = f.symbol->decl->type;
    a.o.reg = reg_slot(b, f);
    a.o.bits = (uint8_t)mod_bits(a.type);
    a.o.invert = r->bang;
    return a;
  }
  unsigned bits;
  enum sreg s = *r->name == '%' ? sreg_find(r->name, &bits) : SREG_none;
  if (s != SREG_none) {
    a = plain(ARG_sreg, OPD_sreg);
    a.name = r->name;
    a.o.imm = s;
    a.o.bits = (uint8_t)bits;
    return a;
  }
  struct symbol *l = scope_label(b, r->name);
  if (!l)
    ptx_error(b->p, at->line, "%s is not declared: %s", r->name, at->text);
  return l->kind == SYM_label ? arg_label(l->label) : arg_targets(b, l);
}

static void add_pair(struct builder *b, struct stmt *at, const struct raw *r, struct arg *a) {
  if (a->kind != ARG_reg && a->kind != ARG_sink)
    ptx_error(b->p, at->line, "'|' stands between registers: %s", at->text);
  struct arg p = arg_name(b, at, r);
  if (p.kind == ARG_sink)
    return; /* "d|_" is d */
  if (p.kind != ARG_reg)
    ptx_error(b->p, at->line, "'|' stands between registers: %s", at->text);
  a->o.pair = p.o.reg;
  a->pair_type = p.type;
}

static struct arg arg_address(struct builder *b, struct stmt *at, const struct raw *r) {
  struct arg a = plain(ARG_addr, OPD_addr);
  a.o.imm = r->value;
  a.o.bits = 64;
  if (!r->n)
    return a;
  struct arg base = arg_name(b, at, &r->elem[0]);
  if (base.kind == ARG_symbol) {
    a.o.symbol = true;
    a.o.space = base.o.space;
    a.o.imm += base.o.imm;
    a.o.var = base.o.var;
  } else if (base.kind == ARG_reg && (base.o.bits == 32 || base.o.bits == 64) &&
             mod_kind(base.type) != 'f') {
    a.o.elem = arena_alloc(b->arena, sizeof *a.o.elem);
    a.o.elem[0] = base.o;
    a.o.n = 1;
    a.o.bits = base.o.bits;
  } else {
    ptx_error(b->p, at->line, "%s can't be an address: %s", r->elem[0].name, at->text);
  }
  return a;
}

struct arg make_arg(struct builder *b, struct stmt *at, const struct raw *r) {
  struct arg a;
  switch (r->kind) {
  case RAW_name:
    a = arg_name(b, at, r);
    if (r->pair)
      add_pair(b, at, r->pair, &a);
    return a;
  case RAW_int:
  case RAW_f32:
  case RAW_f64:
    a = plain(r->kind == RAW_int ? ARG_int : r->kind == RAW_f32 ? ARG_f32 : ARG_f64, OPD_imm);
    a.o.imm = r->value;
    return a;
  case RAW_addr:
    return arg_address(b, at, r);
  case RAW_vec:
  case RAW_tensor: {
    bool vec = r->kind == RAW_vec;
    a = plain(vec ? ARG_vec : ARG_tensor, vec ? OPD_vec : OPD_tensor);
    a.o.n = (uint8_t)r->n;
    a.elem = arena_alloc(b->arena, r->n * sizeof *a.elem);
    for (unsigned i = 0; i < r->n; i++) {
      a.elem[i] = make_arg(b, at, &r->elem[i]);
      uint8_t k = a.elem[i].kind;
      if (k == ARG_vec || k == ARG_tensor || k == ARG_label || k == ARG_targets ||
          (k == ARG_addr && (vec || i)))
        ptx_error(b->p, at->line, "no element of a vector: %s", at->text);
    }
    return a;
  }
  default:
    ptx_error(b->p, at->line, "'(' is for calls: %s", at->text);
  }
}

static bool uses_carry(const char *opcode, const enum mod *m, uint32_t nmod) {
  for (uint32_t i = 0; i < nmod; i++)
    if (m[i] == MOD_cc)
      return true;
  return strcmp(opcode, "addc") == 0 || strcmp(opcode, "subc") == 0 || strcmp(opcode, "madc") == 0;
}

/* The thread's carry flag is a predicate register that no name reaches. */
static struct arg carry_flag(struct builder *b) {
  if (b->carry_slot < 0) {
    b->carry_slot = (int32_t)b->nreg;
    PUSH(b->arena, b->reg_name, b->nreg, b->reg_cap) = "the carry flag";
  }
  struct arg a = plain(ARG_reg, OPD_reg);
  a.type = MOD_pred;
  a.name = "the carry flag";
  a.o.reg = b->carry_slot;
  a.o.bits = 1;
  return a;
}

/* Compilers also write atom.global.sys.add, the scope behind the space; the tables have
 * the manual's order. */
static void order_scope(const char *opcode, enum mod *m, uint32_t n) {
  if (strcmp(opcode, "atom") != 0 && strcmp(opcode, "red") != 0)
    return;
  for (uint32_t i = 0; i + 1 < n; i++) {
    const enum mod a = m[i], b = m[i + 1];
    if ((a == MOD_global || a == MOD_shared || a == MOD_shared__cta || a == MOD_shared__cluster) &&
        (b == MOD_cta || b == MOD_cluster || b == MOD_gpu || b == MOD_sys)) {
      m[i] = b;
      m[i + 1] = a;
    }
  }
}

static const char *left_out(const struct refused *table, const struct stmt *s) {
  for (const struct refused *r = table; r->opcode; r++) {
    if (strcmp(r->opcode, s->name) != 0)
      continue;
    if (!r->part)
      return r->reason;
    for (uint32_t i = 0; i < s->nmod; i++)
      if (strcmp(r->part, s->mod[i]) == 0)
        return r->reason;
  }
  return NULL;
}

void emit(struct builder *b, struct stmt *at, const char *opcode, char *const *mods, uint32_t nmod,
          struct arg *args, uint32_t nargs, int32_t pred, bool invert) {
  enum mod m[32] = {0};
  char why[320];
  if (nmod > sizeof m / sizeof *m)
    ptx_error(b->p, at->line, "%u modifiers: %s", nmod, at->text);
  for (uint32_t i = 0; i < nmod; i++) {
    m[i] = mod_find(mods[i], strlen(mods[i]));
    if (m[i] == MODS_END)
      ptx_error(b->p, at->line, "unknown modifier .%s: %s", mods[i], at->text);
  }
  order_scope(opcode, m, nmod);
  if (uses_carry(opcode, m, nmod)) {
    struct arg *more = arena_alloc(b->arena, (nargs + 1u) * sizeof *more);
    if (nargs)
      memcpy(more, args, nargs * sizeof *more);
    more[nargs++] = carry_flag(b);
    args = more;
  }
  struct insn I = {.pred = pred, .pred_invert = invert, .line = at->line, .text = at->text};
  if (!form_match(b->arena, &I, opcode, m, nmod, args, nargs, why, sizeof why))
    ptx_error(b->p, at->line, "%s: %s", why, at->text);
  const char *target = form_target(I.form, b->unit->target);
  if (target)
    ptx_error(b->p, at->line, "%s %s, this module is for %s: %s", opcode, target, b->unit->target,
              at->text);
  I.index = b->ninsn;
  PUSH(b->arena, b->insn, b->ninsn, b->insn_cap) = I;
}

/* Of a call.uni or ret.uni: bra.uni. */
void emit_bra(struct builder *b, struct stmt *at, uint32_t label, int32_t pred, bool invert) {
  struct arg a = arg_label(label);
  emit(b, at, "bra", at->mod, at->nmod, &a, 1, pred, invert);
}

int32_t guard(struct builder *b, struct stmt *at) {
  if (!at->pred)
    return -1;
  struct found f = scope_find(b, at->pred);
  if (!f.symbol || f.symbol->kind != SYM_reg || mod_kind(f.symbol->decl->type) != 'p')
    ptx_error(b->p, at->line, "%s is no predicate: %s", at->pred, at->text);
  return reg_slot(b, f);
}

static void build_insn(struct builder *b, struct stmt *s) {
  if (strcmp(s->name, "call") == 0) {
    inline_call(b, s);
    return;
  }
  /* before the operands: their complaints would hide this one */
  const char *reason = left_out(ptx_refused, s);
  if (!reason)
    reason = left_out(units_refused, s);
  if (reason)
    ptx_error(b->p, s->line, "%s: %s", reason, s->text);
  if (!form_opcode_exists(s->name))
    ptx_error(b->p, s->line, "unknown instruction %s: %s", s->name, s->text);
  int32_t pred = guard(b, s);
  if (strcmp(s->name, "ret") == 0 && b->frame->return_label != NO_LABEL) {
    emit_bra(b, s, b->frame->return_label, pred, s->pred_invert);
    return;
  }
  struct arg *args = arena_alloc(b->arena, s->narg * sizeof *args);
  for (uint32_t i = 0; i < s->narg; i++)
    args[i] = make_arg(b, s, &s->arg[i]);
  emit(b, s, s->name, s->mod, s->nmod, args, s->narg, pred, s->pred_invert);
}

void build_body(struct builder *b, struct stmt *body) {
  scope_push(b);
  declare_labels(b, body);
  for (struct stmt *s = body; s; s = s->next) {
    switch (s->kind) {
    case STMT_insn:
      build_insn(b, s);
      break;
    case STMT_label:
      b->label[scope_label(b, s->name)->label] = b->ninsn;
      break;
    case STMT_block:
      build_body(b, s->body);
      break;
    case STMT_var:
      declare_var(b, s->var);
      break;
    default:
      break;
    }
  }
  scope_pop(b);
}
