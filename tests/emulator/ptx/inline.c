/* SPDX-License-Identifier: Apache-2.0
 *
 * Calls are put in place when a module is loaded: the callee's body with registers,
 * labels and local variables of its own, its .param variables being those of the caller.
 * A function therefore runs without a stack, and recursion is refused by name.
 */
#include <assert.h>
#include <string.h>

#include "build.h"

static struct func_decl *find_function(struct builder *b, const char *name) {
  for (struct func_decl *f = b->unit->func; f; f = f->next)
    if (strcmp(f->name, name) == 0)
      return f;
  return NULL;
}

struct call {
  struct stmt *at;
  struct raw *result, *param;
  uint32_t nresult, nparam;
  struct func_decl *func;
};

/* call [(results),] function [, (parameters)] */
static struct call read_call(struct builder *b, struct stmt *s) {
  struct call c = {.at = s};
  uint32_t i = 0;
  if (i < s->narg && s->arg[i].kind == RAW_list) {
    c.result = s->arg[i].elem;
    c.nresult = s->arg[i++].n;
  }
  if (i == s->narg || s->arg[i].kind != RAW_name)
    ptx_error(b->p, s->line, "call names no function: %s", s->text);
  const char *name = s->arg[i++].name;
  if (i < s->narg && s->arg[i].kind == RAW_list) {
    c.param = s->arg[i].elem;
    c.nparam = s->arg[i++].n;
  }
  if (i != s->narg || scope_find(b, name).symbol)
    ptx_error(b->p, s->line, "indirect calls are not supported: %s", s->text);
  c.func = find_function(b, name);
  if (!c.func)
    ptx_error(b->p, s->line, "function %s is not declared: %s", name, s->text);
  if (c.func->entry)
    ptx_error(b->p, s->line, "%s is a kernel, kernels can't be called: %s", name, s->text);
  if (!c.func->body)
    ptx_error(b->p, s->line, "function %s has no body in this module: %s", name, s->text);
  if (c.func->building)
    ptx_error(b->p, s->line, "recursion is not supported: %s calls itself: %s", name, s->text);
  return c;
}

static struct arg reg_arg(struct builder *b, struct symbol *s) {
  struct arg a = {.kind = ARG_reg, .type = s->decl->type, .name = s->name};
  a.o = (struct opd){
      .kind = OPD_reg, .bits = (uint8_t)mod_bits(s->decl->type), .pair = -1, .var = -1};
  a.o.reg = reg_slot(b, (struct found){s, 0});
  return a;
}

static void move(struct builder *b, struct stmt *at, enum mod type, struct arg d, struct arg s) {
  char *mod = arena_dup(b->arena, mod_text(type), strlen(mod_text(type)));
  struct arg args[2] = {d, s};
  emit(b, at, "mov", &mod, 1, args, 2, -1, false);
}

/* st.param.T [formal], actual or ld.param.T actual, [formal]. */
static void transfer(struct builder *b, struct stmt *at, const struct var_decl *v, uint64_t place,
                     struct arg value, bool store) {
  char *mods[2] = {arena_dup(b->arena, "param", 5),
                   arena_dup(b->arena, mod_text(v->type), strlen(mod_text(v->type)))};
  struct arg args[2] = {value, {.kind = ARG_addr}};
  args[1].o = (struct opd){.kind = OPD_addr,
                           .bits = 64,
                           .space = SPACE_local,
                           .symbol = true,
                           .imm = place,
                           .reg = -1,
                           .pair = -1,
                           .var = -1};
  if (store) {
    args[0] = args[1];
    args[1] = value;
  }
  emit(b, at, store ? "st" : "ld", mods, 2, args, 2, -1, false);
}

struct formal {
  struct symbol *symbol;
  struct arg actual;
  bool copied; /* the formal has a place of its own */
};

/* The scope's newest symbol is the formal; ties it to what the caller gave. */
static struct formal bind_formal(struct builder *b, struct call *c, struct var_decl *v,
                                 const struct raw *raw, struct scope *inner, struct scope *outer,
                                 bool result) {
  assert(raw); /* as many are given as declared */
  struct formal f = {0};
  b->scope = outer;
  f.actual = make_arg(b, c->at, raw);
  b->scope = inner;
  struct symbol *s = f.symbol =
      scope_add(b, v->space == VAR_reg ? SYM_reg : SYM_var, v->name, v->line);
  s->decl = v;
  if (v->space == VAR_reg) {
    s->slot = arena_alloc(b->arena, sizeof *s->slot);
    *s->slot = -1;
    if (f.actual.kind == ARG_symbol)
      ptx_error(b->p, c->at->line, "%s of %s is a register: %s", v->name, c->func->name,
                c->at->text);
    f.copied = true;
    if (!result)
      move(b, c->at, v->type, reg_arg(b, s), f.actual);
    return f;
  }
  s->space = SPACE_local;
  if (f.actual.kind == ARG_symbol && f.actual.o.space == SPACE_local) {
    b->scope = outer;
    struct found actual = scope_find(b, raw->name);
    b->scope = inner;
    if (actual.symbol->decl->size < v->size)
      ptx_error(b->p, c->at->line, "%s has %llu bytes where %s of %s has %llu: %s", raw->name,
                (unsigned long long)actual.symbol->decl->size, v->name, c->func->name,
                (unsigned long long)v->size, c->at->text);
    s->place = f.actual.o.imm;
    return f;
  }
  if (f.actual.kind == ARG_symbol || v->array)
    ptx_error(b->p, c->at->line, "%s of %s needs a .param variable: %s", v->name, c->func->name,
              c->at->text);
  s->place = local_place(b, v->size, v->align);
  f.copied = true;
  if (!result)
    transfer(b, c->at, v, s->place, f.actual, true);
  return f;
}

static uint32_t count(const struct var_decl *v) {
  uint32_t n = 0;
  for (; v; v = v->next)
    n++;
  return n;
}

void inline_call(struct builder *b, struct stmt *at) {
  struct call c = read_call(b, at);
  uint32_t nresult = count(c.func->result), nparam = count(c.func->param), i = 0;
  if (c.nresult != nresult || c.nparam != nparam)
    ptx_error(b->p, at->line, "%s takes %u parameters and returns %u: %s", c.func->name, nparam,
              nresult, at->text);
  uint32_t after = new_label(b);
  int32_t pred = guard(b, at);
  if (pred >= 0)
    emit_bra(b, at, after, pred, !at->pred_invert);

  struct scope *outer = b->scope;
  struct scope *inner = arena_alloc(b->arena, sizeof *inner);
  inner->parent = b->module_scope;
  struct formal *result = arena_alloc(b->arena, (nresult + 1) * sizeof *result);
  for (struct var_decl *v = c.func->param; v; v = v->next)
    (void)bind_formal(b, &c, v, &c.param[i++], inner, outer, false);
  i = 0;
  for (struct var_decl *v = c.func->result; v; v = v->next, i++)
    result[i] = bind_formal(b, &c, v, &c.result[i], inner, outer, true);

  struct frame frame = {.func = c.func, .return_label = new_label(b), .caller = b->frame};
  b->frame = &frame;
  b->scope = inner;
  c.func->building = true;
  build_body(b, c.func->body->body);
  c.func->building = false;
  c.func->built = true;
  b->frame = frame.caller;
  b->scope = outer;

  b->label[frame.return_label] = b->ninsn;
  for (i = 0; i < nresult; i++) {
    struct var_decl *v = result[i].symbol->decl;
    if (!result[i].copied)
      continue;
    if (v->space == VAR_reg)
      move(b, at, v->type, result[i].actual, reg_arg(b, result[i].symbol));
    else
      transfer(b, at, v, result[i].symbol->place, result[i].actual, false);
  }
  b->label[after] = b->ninsn;
}
