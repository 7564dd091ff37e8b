/* SPDX-License-Identifier: Apache-2.0
 *
 * What the PTX front end hands to the engine: a module of functions whose
 * instructions are decoded once, against the table of instruction forms.
 *
 * A form is one row of a table: a pattern of modifiers, the operands, the function
 * that executes it.  Whatever no row matches is refused when the module is loaded,
 * with line and text; there is no default case at run time.
 *
 *   pattern   "cvt.rn.satfinite[.relu].e4m3x2.f32"
 *             [.a]      optional
 *             {.a|.b}   one of
 *             [.a|.b]   none or one of
 *             Every bracket and brace, and the opcode itself not, is a slot;
 *             insn.mod[i] is the token that slot i took (MOD_none: absent).
 *             Modifiers that stand bare in the pattern take no slot.
 *   operands  one word each, separated by blanks:
 *             wN  destination register, N bits (wp: predicate)
 *             rN  source register or constant, N bits (rp: predicate, also !p or 0/1)
 *             N may be T, the width of the last type modifier the instruction
 *             carries, or T1, T2, T3 for its first, second, third; with T the class
 *             is checked too (an integer register is no operand of a float type).
 *             A + after it lets the register be wider (ld, st, cvt); a ? after the
 *             word makes it optional at the end of the list.  "wT|p": d or d|p.
 *             wN_ : "_" may stand for it.  "w32_|p" has both.
 *             vw.. and vr..: {a,b,..}, its length that of .vN; without .vN one
 *             register or {..} of any length.  v4w32: {..} of exactly 4.
 *             xw.. and xr..: one register, or {..} whose widths sum to N (mov).
 *             i   constant   m  [address]   t  [tensor map, {coordinates}]
 *             L   label      B  branch table (a vector of labels)
 *             A "_" inside a vector is an OPD_sink.
 *             A $ after r lets a special register or a variable's address stand there
 *             (mov, cvta, mapa and the like: PTX takes them nowhere else).
 *   New modifiers go to mods.def, new tables to families.def.
 */
#ifndef EMU_PTX_H
#define EMU_PTX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Every modifier that any form names.  "shared::cta" is MOD_shared__cta. */
enum mod {
  MOD_none = 0,
#define MOD(id, text, bits, kind) MOD_##id,
#include "mods.def"
#undef MOD
  MODS_END
};
/* 'u' unsigned, 's' signed, 'f' float, 'b' untyped, 'p' predicate; 0: no type. */
char mod_kind(enum mod m);
unsigned mod_bits(enum mod m); /* width of a type modifier, 0 for others */
const char *mod_text(enum mod m);

enum space {
  SPACE_generic,
  SPACE_global,
  SPACE_shared,         /* .shared, .shared::cta */
  SPACE_shared_cluster, /* .shared::cluster */
  SPACE_local,
  SPACE_param,
  SPACE_const,
  SPACE_tmem
};

enum opd_kind {
  OPD_none,
  OPD_reg,    /* register slot `reg`; predicates are registers of value 0 or 1 */
  OPD_imm,    /* `imm`: integer bits, or float bits of the instruction's type */
  OPD_sreg,   /* special register, `imm` = enum sreg */
  OPD_vec,    /* `elem[0..n)` */
  OPD_addr,   /* [elem[0] + imm]: elem[0] is a register, or absent (n = 0) */
  OPD_tensor, /* elem[0] = the map's address (an OPD_addr), elem[1..n) = coordinates */
  OPD_label,  /* imm = instruction index */
  OPD_sink    /* "_" */
};

struct opd {
  uint8_t kind;  /* enum opd_kind */
  uint8_t bits;  /* of the register or constant */
  bool invert;   /* !p */
  uint8_t n;     /* of elem */
  uint8_t space; /* OPD_addr with a symbol: the symbol's space; else SPACE_generic */
  bool symbol;   /* OPD_addr or OPD_imm made from a variable's address: imm holds its
                    offset in `space`: in the CTA's shared memory (dynamic part included),
                    the lane's local memory, the parameters.  For .global and .const it
                    is the whole address once ptx_place has run.  The parameters of
                    inlined functions live in local memory (space says so). */
  int32_t reg;
  int32_t pair; /* second destination of d|p: register slot, -1 none */
  int32_t var;  /* the .global or .const variable's index in the module, -1 none */
  uint64_t imm;
  struct opd *elem;
};

struct warp;
struct insn;

/* What executing an instruction did to the lanes given. */
enum step {
  STEP_next, /* done: advance these lanes */
  STEP_jump, /* the function set the lanes' pc itself (branches, exit) */
  STEP_wait, /* not done: the function called warp_wait; it is called again, with
                warp.resumed set for these lanes, when the wait is over */
  STEP_fault /* a check fired and the launch must end */
};
typedef enum step (*exec_fn)(struct warp *w, const struct insn *I, uint32_t lanes);

enum form_flags {
  FORM_aligned = 1 << 0,  /* every live lane of the warp executes it together */
  FORM_member = 1 << 1,   /* waits for the lanes of its membermask, the last r32 */
  FORM_sm100 = 1 << 2,    /* refused for targets below sm_100 */
  FORM_sm90a = 1 << 3,    /* refused for targets other than sm_90a */
  FORM_branch = 1 << 4,   /* ends a basic block */
  FORM_sm100f = 1 << 5,   /* refused for targets other than sm_10xf and sm_10xa */
  FORM_in_flight = 1 << 6 /* goes on using registers of operands 0 and 1 once it is issued */
};

struct form {
  const char *pattern;
  const char *operands;
  exec_fn exec;
  uint32_t flags;
  const char *tested; /* how the suite judges it: "H200", "definition" */
  /* Optional, at load: what neither pattern nor operands can say (ranges of
   * constants, vector lengths).  NULL: accepted; else what is wrong. */
  const char *(*check)(const struct insn *I);
};

#define INSN_MODS 14
struct insn {
  const struct form *form;
  uint16_t mod[INSN_MODS]; /* by slot of the pattern */
  uint16_t type[3];        /* the type modifiers in order: T1, T2, T3 */
  uint8_t types;
  uint8_t vec; /* 1, 2, 4, 8 from .vN */
  uint8_t nopd;
  uint16_t writes; /* a bit for each operand that is a destination */
  bool watched;    /* uses registers that an instruction of the function uses in flight */
  bool pred_invert;
  int32_t pred; /* register slot, -1: unconditional */
  struct opd *opd;
  uint32_t index;   /* in the function */
  uint32_t line;    /* of the module's text, 1-based */
  const char *text; /* the instruction as written, one line */
  uint16_t polls;   /* the engine's: of a branch back, what poll.c knows of its loop */
};

enum sreg {
  SREG_none = 0,
#define SREG(id, text, bits) SREG_##id,
#include "sregs.def"
#undef SREG
  SREGS_END
};

struct param {
  const char *name;
  uint32_t offset, size, align;
};

struct function {
  const char *name;
  bool entry;
  struct insn *insn;
  uint32_t ninsn;
  uint32_t nreg;         /* register slots; a 128-bit register takes two */
  const char **reg_name; /* by slot, for reports */
  struct param *param;
  uint32_t nparam, param_bytes;
  uint32_t shared_bytes; /* static: module variables the function uses, laid out */
  uint32_t local_bytes;  /* per lane */
  uint32_t reqntid[3], maxntid[3], reqcluster[3]; /* 0: not given */
  uint32_t maxnreg, minnctapersm;
  bool dynamic_shared;     /* refers to an extern .shared array */
  uint32_t dynamic_offset; /* where dynamic shared memory starts, >= shared_bytes */
  uint32_t maxclusterrank; /* 0: not given */
  bool explicit_cluster;
  struct module *module;
};

/* A .global or .const variable.  The driver layer gives each an address, calls
 * ptx_place, then copies init to that address. */
struct module_var {
  const char *name;
  uint8_t space;
  uint64_t size, align;
  uint8_t *init;    /* size bytes, or NULL: uninitialised (.global is zeroed) */
  uint64_t address; /* set when placed */
};

struct module {
  char *text; /* the source; line table into it */
  const char **line;
  uint32_t nline;
  char target[16];  /* "sm_100f" */
  unsigned version; /* 90 for 9.0 */
  struct function *fn;
  uint32_t nfn;
  struct module_var *var;
  uint32_t nvar;
  bool placed;
  void *arena;
};

/* Parses and decodes.  On failure NULL and a message "line N: ... : text" in err. */
struct module *ptx_load(const char *text, size_t size, char *err, size_t err_size);
/* What err has if, and only if, the PTX ISA version is one that is not known. */
#define PTX_UNSUPPORTED_VERSION "unsupported .version"
void ptx_free(struct module *m);
/* After every var[].address is set, once, before the first launch: completes the
 * operands and the initial values that hold addresses of variables. */
void ptx_place(struct module *m);
struct function *ptx_function(struct module *m, const char *name);

/* The table: every family's rows (families.def), in the order they are tried. */
struct form_family {
  const char *name;        /* "mbarrier" */
  const struct form *form; /* ends with pattern NULL */
};
extern const struct form_family form_families[]; /* ends with name NULL */

/* Instructions that exist and are left out on purpose, for the error at load. */
struct refused {
  const char *opcode; /* the instruction's */
  const char *part;   /* one of its modifiers; NULL: always */
  const char *reason; /* "pairs of CTAs (cta_group::2) are not emulated" */
};
extern const struct refused ptx_refused[], units_refused[]; /* end with opcode NULL */

#endif
