/* SPDX-License-Identifier: Apache-2.0
 *
 * Between the parser and the module builder: the syntax tree of a PTX module, the
 * arena it lives in, and the table lookups of the decoder.  Private to this directory.
 *
 * The parser knows PTX's grammar and nothing about instructions; names are resolved by
 * the builder, because a function's body is built once for every place it is called.
 */
#ifndef EMU_PARSE_H
#define EMU_PARSE_H

#include <setjmp.h>

#include "ptx.h"

/* ---- memory and errors ------------------------------------------------------ */

struct arena_block;
struct arena {
  struct arena_block *head;
};
void *arena_alloc(struct arena *a, size_t size); /* zeroed; aborts when memory is out */
char *arena_dup(struct arena *a, const char *s, size_t n);
void arena_free(struct arena *a);

/* Grows an arena array by doubling; the old copy stays in the arena. */
void *arena_grow(struct arena *a, void *old, uint32_t used, uint32_t *cap, size_t elem);
#define PUSH(a, array, used, cap)                                                                  \
  (*((array) =                                                                                     \
         (used) < (cap) ? (array) : arena_grow((a), (array), (used), &(cap), sizeof *(array)),     \
     &(array)[(used)++]))

struct ptx_parse {
  struct arena *arena;
  jmp_buf fail;
  char *err;
  size_t err_size;
};
/* Writes "line N: ..." and leaves through p->fail. */
_Noreturn void ptx_error(struct ptx_parse *p, uint32_t line, const char *fmt, ...)
    __attribute__((format(printf, 3, 4)));

/* ---- tree -------------------------------------------------------------------- */

enum raw_kind { RAW_name, RAW_int, RAW_f32, RAW_f64, RAW_vec, RAW_addr, RAW_tensor, RAW_list };

struct raw {
  uint8_t kind;     /* enum raw_kind */
  bool bang;        /* !name */
  uint16_t n;       /* of elem */
  char *name;       /* RAW_name: "%r1", "%tid.x", "_" */
  uint64_t value;   /* RAW_int: the integer; RAW_f32/f64: the bits; RAW_name: added constant */
  struct raw *elem; /* vec: the elements; addr: none or the base; tensor: address, coords;
                       list: the arguments in ( ) of a call */
  struct raw *pair; /* the part after "|" */
};

enum var_space { VAR_reg, VAR_shared, VAR_local, VAR_param, VAR_global, VAR_const };

struct init_item {
  uint64_t offset; /* in the variable */
  uint64_t value;  /* bits, or the constant added to the symbol */
  char *symbol;    /* address of it, or NULL */
};

struct var_decl {
  char *name;
  uint8_t space; /* enum var_space */
  bool external, array;
  enum mod type;
  uint8_t vec;   /* 1, 2, 4 */
  int32_t range; /* name<range>, -1: a single name */
  uint64_t size, align;
  struct init_item *init;
  uint32_t ninit, init_cap;
  uint32_t line;
  int32_t module_var; /* index among the module's, -1 */
  uint32_t place_tag; /* builder: the entry it was laid out for */
  uint64_t place;
  struct var_decl *next;
};

enum stmt_kind { STMT_insn, STMT_label, STMT_block, STMT_var, STMT_targets };

struct stmt {
  uint8_t kind;
  bool pred_invert;
  uint32_t line;
  char *text; /* insn */
  char *name; /* insn: opcode; label, targets: its name */
  char *pred; /* insn: guard register or NULL */
  char **mod; /* insn: modifiers; targets: the labels */
  uint32_t nmod;
  struct raw *arg;
  uint32_t narg;
  struct stmt *body;    /* block */
  struct var_decl *var; /* var */
  struct stmt *next;
};

struct func_decl {
  char *name;
  bool entry, external;
  uint32_t line;
  struct var_decl *result, *param; /* lists */
  struct stmt *body;               /* NULL: a declaration */
  uint32_t reqntid[3], maxntid[3], reqcluster[3], maxnreg, minnctapersm, maxclusterrank;
  bool explicit_cluster;
  bool building, built; /* builder: recursion, reached from an entry */
  struct func_decl *next;
};

struct unit {
  unsigned version;
  char target[16];
  struct func_decl *func;
  struct var_decl *var;
};

void ptx_parse_unit(struct ptx_parse *p, const char *text, struct unit *u);

/* ---- decoding ------------------------------------------------------------------- */

/* MODS_END if there is no such modifier. */
enum mod mod_find(const char *text, size_t n);

/* An operand before its row is known: the register's declared type beside it. */
struct arg {
  struct opd o;
  uint8_t kind;       /* enum arg_kind */
  enum mod type;      /* ARG_reg: as declared */
  struct arg *elem;   /* of vectors, tensors, addresses */
  enum mod pair_type; /* of o.pair */
  const char *name;   /* as written, for messages; NULL for constants */
};
enum arg_kind {
  ARG_reg,
  ARG_sreg,
  ARG_int,
  ARG_f32,
  ARG_f64,
  ARG_symbol,
  ARG_vec,
  ARG_addr,
  ARG_tensor,
  ARG_label,
  ARG_targets,
  ARG_sink
};

/* Finds the row for opcode and modifiers, fills I->form, mod, type, vec, opd.
 * false: why is filled.  Constants become bits of the operand's type. */
bool form_match(struct arena *a, struct insn *I, const char *opcode, const enum mod *mods,
                uint32_t nmod, const struct arg *args, uint32_t nargs, char *why, size_t size);
bool form_opcode_exists(const char *opcode);
/* The target's number and suffix against FORM_sm100 and the like: NULL or what is asked. */
const char *form_target(const struct form *f, const char *target);

/* ---- building --------------------------------------------------------------------- */

void ptx_build(struct ptx_parse *p, struct unit *u, struct module *m);

struct reloc {
  uint32_t var; /* the variable whose initial value holds an address */
  uint64_t offset;
  uint32_t target; /* the variable it is the address of; addend is already stored */
};

/* What ptx_free frees and ptx_place needs: module.arena points to it. */
struct module_private {
  struct arena arena;
  struct reloc *reloc;
  uint32_t nreloc, reloc_cap;
};

#endif
