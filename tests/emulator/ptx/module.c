/* SPDX-License-Identifier: Apache-2.0
 *
 * Loading a module: parse, build every function, lay out what it owns.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"

static void store_bits(uint8_t *at, uint64_t v, size_t n) {
  for (size_t i = 0; i < n; i++)
    at[i] = (uint8_t)(v >> 8 * i);
}

uint32_t add_module_var(struct builder *b, struct var_decl *v) {
  struct module *m = b->module;
  struct module_var *mv = &PUSH(b->arena, m->var, m->nvar, b->var_cap);
  *mv = (struct module_var){.name = v->name,
                            .space = v->space == VAR_const ? SPACE_const : SPACE_global,
                            .size = v->size,
                            .align = v->align};
  if (v->ninit) {
    size_t elem = mod_bits(v->type) / 8;
    mv->init = arena_alloc(b->arena, v->size);
    for (uint32_t i = 0; i < v->ninit; i++)
      store_bits(mv->init + v->init[i].offset, v->init[i].value, elem > 8 ? 8 : elem);
  }
  return m->nvar - 1;
}

/* After all variables are known: initial values that are addresses of others. */
static void note_relocs(struct builder *b, const struct var_decl *v) {
  for (uint32_t i = 0; i < v->ninit; i++) {
    const char *name = v->init[i].symbol;
    if (!name)
      continue;
    struct found f = scope_find(b, name);
    if (!f.symbol || f.symbol->kind != SYM_var || f.symbol->decl->module_var < 0)
      ptx_error(b->p, v->line, "initial value of %s: %s is no .global or .const variable", v->name,
                name);
    PUSH(b->arena, b->priv->reloc, b->priv->nreloc, b->priv->reloc_cap) = (struct reloc){
        (uint32_t)v->module_var, v->init[i].offset, (uint32_t)f.symbol->decl->module_var};
  }
}

static void layout_params(struct builder *b, struct func_decl *f) {
  struct function *fn = b->fn;
  uint32_t n = 0;
  uint64_t at = 0;
  for (struct var_decl *v = f->param; v; v = v->next)
    n++;
  fn->param = arena_alloc(b->arena, (n + 1) * sizeof *fn->param);
  for (struct var_decl *v = f->param; v; v = v->next) {
    struct symbol *s = scope_add(b, SYM_var, v->name, v->line);
    s->decl = v;
    if (v->space != VAR_param)
      ptx_error(b->p, v->line, "a kernel's parameters are .param: %s", v->name);
    at = (at + v->align - 1) & ~(v->align - 1);
    if (at + v->size > 32764)
      ptx_error(b->p, v->line, "parameters of %s take more than 32764 bytes", f->name);
    s->space = SPACE_param;
    s->place = at;
    fn->param[fn->nparam++] =
        (struct param){v->name, (uint32_t)at, (uint32_t)v->size, (uint32_t)v->align};
    at += v->size;
  }
  fn->param_bytes = (uint32_t)at;
}

/* A .func that no kernel calls is built alone, for its errors. */
static void declare_formals(struct builder *b, struct func_decl *f) {
  struct var_decl *lists[] = {f->result, f->param};
  for (int i = 0; i < 2; i++)
    declare_var(b, lists[i]);
}

static void resolve_operand(struct builder *b, struct opd *o) {
  if (o->kind == OPD_label)
    o->imm = b->label[o->imm];
  if (o->var == VAR_DYNAMIC) {
    o->imm += b->fn->dynamic_offset;
    o->var = -1;
  }
  if (o->kind == OPD_vec || o->kind == OPD_tensor)
    for (unsigned i = 0; i < o->n; i++)
      resolve_operand(b, &o->elem[i]);
}

/* Vectors that name labels share one array among all branches through them. */
static void unshare_labels(struct builder *b, struct insn *I) {
  for (unsigned i = 0; i < I->nopd; i++) {
    struct opd *o = &I->opd[i];
    if (o->kind != OPD_vec || !o->n || o->elem[0].kind != OPD_label)
      continue;
    struct opd *copy = arena_alloc(b->arena, o->n * sizeof *copy);
    memcpy(copy, o->elem, o->n * sizeof *copy);
    o->elem = copy;
  }
}

static void finish_function(struct builder *b, struct func_decl *f) {
  struct function *fn = b->fn;
  if (b->shared_bytes > 1u << 20 || b->local_bytes > 1u << 24)
    ptx_error(b->p, f->line, "%s needs %llu bytes of shared and %llu of local memory", f->name,
              (unsigned long long)b->shared_bytes, (unsigned long long)b->local_bytes);
  fn->shared_bytes = (uint32_t)b->shared_bytes;
  fn->local_bytes = (uint32_t)b->local_bytes;
  fn->dynamic_offset =
      (uint32_t)((b->shared_bytes + b->dynamic_align - 1) & ~(b->dynamic_align - 1));
  for (uint32_t i = 0; i < b->ninsn; i++) {
    unshare_labels(b, &b->insn[i]);
    for (unsigned k = 0; k < b->insn[i].nopd; k++)
      resolve_operand(b, &b->insn[i].opd[k]);
  }
  fn->insn = b->insn;
  fn->ninsn = b->ninsn;
  fn->nreg = b->nreg;
  fn->reg_name = b->reg_name;
  watch_registers(b->arena, fn);
}

static void build_function(struct builder *b, struct func_decl *f) {
  struct function *fn = b->fn = arena_alloc(b->arena, sizeof *fn);
  *fn = (struct function){.name = f->name,
                          .entry = f->entry,
                          .module = b->module,
                          .maxnreg = f->maxnreg,
                          .minnctapersm = f->minnctapersm,
                          .maxclusterrank = f->maxclusterrank,
                          .explicit_cluster = f->explicit_cluster};
  memcpy(fn->reqntid, f->reqntid, sizeof fn->reqntid);
  memcpy(fn->maxntid, f->maxntid, sizeof fn->maxntid);
  memcpy(fn->reqcluster, f->reqcluster, sizeof fn->reqcluster);

  struct frame frame = {.func = f, .return_label = NO_LABEL};
  b->frame = &frame;
  b->scope = b->module_scope;
  b->insn = NULL;
  b->label = NULL;
  b->reg_name = NULL;
  b->ninsn = b->insn_cap = b->nlabel = b->label_cap = b->nreg = b->reg_cap = 0;
  b->shared_bytes = b->local_bytes = 0;
  b->dynamic_align = 16;
  b->carry_slot = -1;
  b->entry_tag++;
  scope_push(b);
  if (f->entry)
    layout_params(b, f);
  else
    declare_formals(b, f);
  f->building = true;
  build_body(b, f->body->body);
  f->building = false;
  f->built = true;
  /* A thread that runs past the end returns. */
  struct stmt end = {.line = b->ninsn ? b->insn[b->ninsn - 1].line : f->line};
  end.text = arena_dup(b->arena, "exit", 4);
  emit(b, &end, "exit", NULL, 0, NULL, 0, -1, false);
  finish_function(b, f);
}

void ptx_build(struct ptx_parse *p, struct unit *u, struct module *m) {
  struct builder b = {.p = p, .arena = p->arena, .unit = u, .module = m, .priv = m->arena};
  scope_push(&b);
  b.module_scope = b.scope;
  declare_var(&b, u->var);
  for (struct var_decl *v = u->var; v; v = v->next)
    note_relocs(&b, v);
  for (struct func_decl *f = u->func; f; f = f->next)
    if (f->entry && f->body) {
      build_function(&b, f);
      PUSH(b.arena, m->fn, m->nfn, b.fn_cap) = *b.fn;
    }
  for (struct func_decl *f = u->func; f; f = f->next)
    if (!f->entry && f->body && !f->built)
      build_function(&b, f);
}

static void index_lines(struct module *m, struct arena *a) {
  uint32_t cap = 0;
  for (char *s = m->text; s;) {
    char *end = strchr(s, '\n');
    size_t n = end ? (size_t)(end - s) : strlen(s);
    PUSH(a, m->line, m->nline, cap) = arena_dup(a, s, n);
    s = end ? end + 1 : NULL;
  }
}

static bool load(struct ptx_parse *p, struct module *m, const char *text, size_t size) {
  struct unit u = {0};
  if (setjmp(p->fail))
    return false;
  const char *nul = memchr(text, 0, size);
  m->text = arena_dup(p->arena, text, nul ? (size_t)(nul - text) : size);
  index_lines(m, p->arena);
  ptx_parse_unit(p, m->text, &u);
  memcpy(m->target, u.target, sizeof m->target);
  m->version = u.version;
  ptx_build(p, &u, m);
  return true;
}

struct module *ptx_load(const char *text, size_t size, char *err, size_t err_size) {
  struct module *m = calloc(1, sizeof *m);
  struct module_private *priv = calloc(1, sizeof *priv);
  if (!m || !priv) {
    free(m);
    free(priv);
    snprintf(err, err_size, "line 0: out of memory");
    return NULL;
  }
  struct ptx_parse p = {.arena = &priv->arena, .err = err, .err_size = err_size};
  m->arena = priv;
  if (err_size)
    *err = 0;
  if (load(&p, m, text, size))
    return m;
  ptx_free(m);
  return NULL;
}

void ptx_free(struct module *m) {
  if (!m)
    return;
  struct module_private *priv = m->arena;
  arena_free(&priv->arena);
  free(priv);
  free(m);
}

static void place_operand(const struct module *m, struct opd *o) {
  if (o->symbol && o->var >= 0)
    o->imm += m->var[o->var].address;
  if (o->kind == OPD_vec || o->kind == OPD_tensor)
    for (unsigned i = 0; i < o->n; i++)
      place_operand(m, &o->elem[i]);
}

void ptx_place(struct module *m) {
  const struct module_private *priv = m->arena;
  if (m->placed)
    return;
  m->placed = true;
  for (uint32_t f = 0; f < m->nfn; f++)
    for (uint32_t i = 0; i < m->fn[f].ninsn; i++)
      for (unsigned k = 0; k < m->fn[f].insn[i].nopd; k++)
        place_operand(m, &m->fn[f].insn[i].opd[k]);
  for (uint32_t i = 0; i < priv->nreloc; i++) {
    uint8_t *at = m->var[priv->reloc[i].var].init + priv->reloc[i].offset;
    uint64_t v = 0;
    for (int k = 7; k >= 0; k--)
      v = v << 8 | at[k];
    store_bits(at, v + m->var[priv->reloc[i].target].address, 8);
  }
}

struct function *ptx_function(struct module *m, const char *name) {
  for (uint32_t i = 0; i < m->nfn; i++)
    if (strcmp(m->fn[i].name, name) == 0)
      return &m->fn[i];
  return NULL;
}
