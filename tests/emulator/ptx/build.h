/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the module builder: scopes of names (scope.c), instructions from statements
 * (build.c), calls put in place (inline.c), the module around them (module.c).
 */
#ifndef EMU_BUILD_H
#define EMU_BUILD_H

#include "parse.h"

enum symbol_kind { SYM_reg, SYM_var, SYM_label, SYM_targets };

struct symbol {
  const char *name;
  uint8_t kind;
  uint8_t space; /* SYM_var: enum space */
  struct var_decl *decl;
  int32_t *slot;     /* SYM_reg: by number in the range; -1 until first used */
  uint64_t place;    /* SYM_var: offset in its space */
  uint32_t label;    /* SYM_label: index in builder.label */
  struct stmt *stmt; /* SYM_targets */
  struct symbol *next;
};

struct scope {
  struct scope *parent;
  struct symbol *symbol, *label;
};

/* The function whose body is being put down: the entry, or one inlined into it. */
struct frame {
  struct func_decl *func;
  uint32_t return_label; /* NO_LABEL: ret ends the thread */
  struct frame *caller;
};
#define NO_LABEL    UINT32_MAX
#define VAR_DYNAMIC (-2) /* opd.var until the function's shared memory is laid out */

struct builder {
  struct ptx_parse *p;
  struct arena *arena;
  struct unit *unit;
  struct module *module;
  struct module_private *priv;
  struct scope *module_scope;
  uint32_t entry_tag;
  uint32_t var_cap, fn_cap;

  /* of the function in the making */
  struct function *fn;
  struct scope *scope;
  struct frame *frame;
  struct insn *insn;
  uint32_t ninsn, insn_cap;
  uint32_t *label; /* instruction index, by label */
  uint32_t nlabel, label_cap;
  const char **reg_name;
  uint32_t nreg, reg_cap;
  int32_t carry_slot; /* -1: no instruction has needed it */
  uint64_t shared_bytes, local_bytes, dynamic_align;
};

struct found {
  struct symbol *symbol;
  uint32_t number; /* in a register range */
};

/* scope.c */
void scope_push(struct builder *b);
void scope_pop(struct builder *b);
struct symbol *scope_add(struct builder *b, enum symbol_kind kind, const char *name, uint32_t line);
struct found scope_find(struct builder *b, const char *name);
struct symbol *scope_label(struct builder *b, const char *name);
uint32_t new_label(struct builder *b);
int32_t reg_slot(struct builder *b, struct found f);
void declare_var(struct builder *b, struct var_decl *list);
void declare_labels(struct builder *b, struct stmt *body);
uint64_t local_place(struct builder *b, uint64_t size, uint64_t align);
void place_shared(struct builder *b, struct symbol *s);
enum sreg sreg_find(const char *name, unsigned *bits);

/* build.c */
void build_body(struct builder *b, struct stmt *body);
/* Decodes one instruction at the end of the function. */
void emit(struct builder *b, struct stmt *at, const char *opcode, char *const *mods, uint32_t nmod,
          struct arg *args, uint32_t nargs, int32_t pred, bool invert);
void emit_bra(struct builder *b, struct stmt *at, uint32_t label, int32_t pred, bool invert);
struct arg make_arg(struct builder *b, struct stmt *at, const struct raw *r);
int32_t guard(struct builder *b, struct stmt *at);

/* inline.c */
void inline_call(struct builder *b, struct stmt *call);

/* watch.c: sets insn.watched of a function whose instructions are complete. */
void watch_registers(struct arena *a, struct function *fn);

/* module.c */
uint32_t add_module_var(struct builder *b, struct var_decl *v);

#endif
