/* SPDX-License-Identifier: Apache-2.0
 *
 * Names of a function in the making: registers get slots when first used, variables
 * their place, labels a number that becomes an instruction index at the end.
 */
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "build.h"

static const struct {
  const char *text;
  unsigned bits;
} sregs[] = {
    {"", 0},
#define SREG(id, text, bits) {text, bits},
#include "sregs.def"
#undef SREG
};

enum sreg sreg_find(const char *name, unsigned *bits) {
  for (unsigned i = 1; i < SREGS_END; i++)
    if (strcmp(sregs[i].text, name) == 0) {
      *bits = sregs[i].bits;
      return (enum sreg)i;
    }
  return SREG_none;
}

void scope_push(struct builder *b) {
  struct scope *s = arena_alloc(b->arena, sizeof *s);
  s->parent = b->scope;
  b->scope = s;
}

void scope_pop(struct builder *b) {
  b->scope = b->scope->parent;
}

struct symbol *scope_add(struct builder *b, enum symbol_kind kind, const char *name,
                         uint32_t line) {
  bool label = kind == SYM_label || kind == SYM_targets;
  struct symbol **list = label ? &b->scope->label : &b->scope->symbol;
  for (struct symbol *s = *list; s; s = s->next)
    if (strcmp(s->name, name) == 0)
      ptx_error(b->p, line, "%s is declared twice", name);
  struct symbol *s = arena_alloc(b->arena, sizeof *s);
  s->kind = (uint8_t)kind;
  s->name = name;
  s->next = *list;
  *list = s;
  return s;
}

/* The number n of "prefix<n>" if name is one of a range's registers. */
static bool in_range(const struct symbol *s, const char *name, uint32_t *number) {
  size_t n = strlen(s->name);
  if (strncmp(name, s->name, n) != 0 || !isdigit((unsigned char)name[n]) ||
      (name[n] == '0' && name[n + 1]))
    return false;
  char *rest;
  unsigned long v = strtoul(name + n, &rest, 10);
  *number = (uint32_t)v;
  return !*rest && v < (unsigned long)s->decl->range;
}

struct found scope_find(struct builder *b, const char *name) {
  for (struct scope *sc = b->scope; sc; sc = sc->parent)
    for (struct symbol *s = sc->symbol; s; s = s->next) {
      uint32_t number = 0;
      bool range = s->kind == SYM_reg && s->decl->range >= 0;
      if (range ? in_range(s, name, &number) : strcmp(s->name, name) == 0)
        return (struct found){s, number};
    }
  return (struct found){NULL, 0};
}

struct symbol *scope_label(struct builder *b, const char *name) {
  for (struct scope *sc = b->scope; sc; sc = sc->parent)
    for (struct symbol *s = sc->label; s; s = s->next)
      if (strcmp(s->name, name) == 0)
        return s;
  return NULL;
}

uint32_t new_label(struct builder *b) {
  PUSH(b->arena, b->label, b->nlabel, b->label_cap) = NO_LABEL;
  return b->nlabel - 1;
}

static const char *reg_text(struct builder *b, struct found f) {
  const struct symbol *s = f.symbol;
  if (s->decl->range < 0)
    return s->name;
  char digits[12];
  size_t n = strlen(s->name), at = sizeof digits;
  uint32_t v = f.number;
  do
    digits[--at] = (char)('0' + v % 10);
  while (v /= 10);
  char *text = arena_alloc(b->arena, n + sizeof digits);
  memcpy(text, s->name, n);
  memcpy(text + n, digits + at, sizeof digits - at);
  return text;
}

int32_t reg_slot(struct builder *b, struct found f) {
  int32_t *slot = &f.symbol->slot[f.number];
  if (*slot >= 0)
    return *slot;
  *slot = (int32_t)b->nreg;
  const char *text = reg_text(b, f);
  for (unsigned i = 0; i < (mod_bits(f.symbol->decl->type) > 64 ? 2u : 1u); i++)
    PUSH(b->arena, b->reg_name, b->nreg, b->reg_cap) = text;
  return *slot;
}

uint64_t local_place(struct builder *b, uint64_t size, uint64_t align) {
  b->local_bytes = (b->local_bytes + align - 1) & ~(align - 1);
  uint64_t at = b->local_bytes;
  b->local_bytes += size;
  return at;
}

/* One place per entry, however many inlined bodies name the variable. */
void place_shared(struct builder *b, struct symbol *s) {
  struct var_decl *v = s->decl;
  if (v->external) {
    if (v->align > b->dynamic_align)
      b->dynamic_align = v->align;
    b->fn->dynamic_shared = true;
    return;
  }
  if (v->place_tag != b->entry_tag) {
    b->shared_bytes = (b->shared_bytes + v->align - 1) & ~(v->align - 1);
    v->place_tag = b->entry_tag;
    v->place = b->shared_bytes;
    b->shared_bytes += v->size;
  }
  s->place = v->place;
}

static void declare_reg(struct builder *b, struct symbol *s, struct var_decl *v) {
  uint32_t n = v->range < 0 ? 1 : (uint32_t)v->range;
  s->slot = arena_alloc(b->arena, n * sizeof *s->slot);
  for (uint32_t i = 0; i < n; i++)
    s->slot[i] = -1;
}

void declare_var(struct builder *b, struct var_decl *list) {
  for (struct var_decl *v = list; v; v = v->next) {
    struct symbol *s = scope_add(b, v->space == VAR_reg ? SYM_reg : SYM_var, v->name, v->line);
    s->decl = v;
    switch (v->space) {
    case VAR_reg:
      declare_reg(b, s, v);
      break;
    case VAR_local:
    case VAR_param: /* between a call and its callee */
      s->space = SPACE_local;
      s->place = local_place(b, v->size, v->align);
      break;
    case VAR_shared:
      s->space = SPACE_shared;
      break;
    default:
      s->space = v->space == VAR_const ? SPACE_const : SPACE_global;
      if (!v->external && v->module_var < 0)
        v->module_var = (int32_t)add_module_var(b, v);
    }
  }
}

/* A branch may go forward: the labels of a block are known before its statements. */
void declare_labels(struct builder *b, struct stmt *body) {
  for (struct stmt *s = body; s; s = s->next) {
    if (s->kind == STMT_label)
      scope_add(b, SYM_label, s->name, s->line)->label = new_label(b);
    else if (s->kind == STMT_targets)
      scope_add(b, SYM_targets, s->name, s->line)->stmt = s;
  }
}
