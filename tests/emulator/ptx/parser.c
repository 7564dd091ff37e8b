/* SPDX-License-Identifier: Apache-2.0
 *
 * Statements and functions of a PTX module, as a tree.  Operands and constant
 * expressions are in operand.c, variables and their initial values in variable.c.
 */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parser.h"

/* The instruction as reports print it: one line, single blanks, no comments. */
static char *one_line(struct lexer *x, const char *b, const char *e) {
  char *out = arena_alloc(x->p->arena, (size_t)(e - b) + 1);
  size_t n = 0;
  while (b < e) {
    if (b + 1 < e && b[0] == '/' && b[1] == '/') {
      while (b < e && *b != '\n')
        b++;
    } else if (b + 1 < e && b[0] == '/' && b[1] == '*') {
      for (b += 2; b + 1 < e && !(b[0] == '*' && b[1] == '/');)
        b++;
      b += 2;
    } else if (isspace((unsigned char)*b)) {
      if (n && out[n - 1] != ' ')
        out[n++] = ' ';
      b++;
    } else {
      out[n++] = *b++;
    }
  }
  while (n && out[n - 1] == ' ')
    n--;
  out[n] = 0;
  return out;
}

static struct stmt *new_stmt(struct lexer *x, enum stmt_kind kind) {
  lex_space(x);
  struct stmt *s = arena_alloc(x->p->arena, sizeof *s);
  s->kind = (uint8_t)kind;
  s->line = x->line;
  return s;
}

/* "(a, b)" of a call as one operand. */
static struct raw call_list(struct lexer *x) {
  struct raw r = {.kind = RAW_list};
  struct raw *elem = NULL;
  uint32_t n = 0, cap = 0;
  lex_expect(x, '(', "before the arguments of call");
  if (!lex_accept(x, ')')) {
    do
      PUSH(x->p->arena, elem, n, cap) = parse_operand(x);
    while (lex_accept(x, ','));
    lex_expect(x, ')', "after the arguments of call");
  }
  r.elem = elem;
  r.n = (uint16_t)n;
  return r;
}

static struct stmt *parse_insn(struct lexer *x) {
  struct stmt *s = new_stmt(x, STMT_insn);
  const char *begin = x->s;
  if (lex_accept(x, '@')) {
    s->pred_invert = lex_accept(x, '!');
    s->pred = lex_ident(x, "a predicate after '@'");
  }
  s->name = lex_ident(x, "an instruction");
  uint32_t cap = 0;
  for (char *m; (m = lex_modifier(x));)
    PUSH(x->p->arena, s->mod, s->nmod, cap) = m;
  bool call = strcmp(s->name, "call") == 0;
  cap = 0;
  if (!lex_at(x, ';')) {
    do
      PUSH(x->p->arena, s->arg, s->narg, cap) =
          call && lex_at(x, '(') ? call_list(x) : parse_operand(x);
    while (lex_accept(x, ','));
  }
  if (!lex_at(x, ';'))
    ptx_error(x->p, s->line, "expected ';' after the instruction: %s",
              one_line(x, begin, begin + strcspn(begin, "\n")));
  s->text = one_line(x, begin, x->s);
  x->s++;
  return s;
}

/* What may follow "name:" besides a statement: tables for indirect branches. */
static struct stmt *parse_label(struct lexer *x) {
  struct stmt *s = new_stmt(x, STMT_label);
  s->name = lex_ident(x, "a label");
  lex_expect(x, ':', "after a label");
  if (lex_accept_word(x, ".branchtargets")) {
    s->kind = STMT_targets;
    uint32_t cap = 0;
    do
      PUSH(x->p->arena, s->mod, s->nmod, cap) = lex_ident(x, "a label");
    while (lex_accept(x, ','));
    lex_expect(x, ';', "after .branchtargets");
  } else if (lex_word_at(x, ".calltargets") || lex_word_at(x, ".callprototype")) {
    ptx_error(x->p, x->line, "indirect calls are not supported: %s", lex_here(x));
  }
  return s;
}

/* An identifier and a single colon. */
static bool at_label(struct lexer *x) {
  if (!lex_ident_at(x))
    return false;
  const char *s = x->s;
  while (s < x->end && (isalnum((unsigned char)*s) || *s == '_' || *s == '$' || *s == '%'))
    s++;
  while (s < x->end && isspace((unsigned char)*s))
    s++;
  return s < x->end && *s == ':' && (s + 1 == x->end || s[1] != ':');
}

static struct stmt *parse_block(struct lexer *x);

/* A directive in a body; NULL: it means nothing to execution. */
static struct stmt *parse_body_directive(struct lexer *x) {
  static const struct {
    const char *word;
    enum var_space space;
  } var[] = {{".reg", VAR_reg},     {".shared", VAR_shared}, {".local", VAR_local},
             {".param", VAR_param}, {".global", VAR_global}, {".const", VAR_const}};
  if (lex_accept_word(x, ".loc") || lex_accept_word(x, ".file")) {
    lex_skip_line(x);
    return NULL;
  }
  if (lex_accept_word(x, ".pragma")) {
    do
      lex_skip_string(x);
    while (lex_accept(x, ','));
    lex_expect(x, ';', "after .pragma");
    return NULL;
  }
  struct stmt *s = new_stmt(x, STMT_var);
  bool external = lex_accept_word(x, ".extern");
  for (size_t i = 0; i < sizeof var / sizeof *var; i++)
    if (lex_accept_word(x, var[i].word)) {
      s->var = parse_vars(x, var[i].space, external);
      lex_expect(x, ';', "after a declaration");
      return s;
    }
  ptx_error(x->p, x->line, "directive is not supported in a function: %s", lex_here(x));
}

static struct stmt *parse_stmt(struct lexer *x) {
  if (lex_at(x, '{'))
    return parse_block(x);
  if (lex_at(x, '.'))
    return parse_body_directive(x);
  if (lex_accept(x, ';'))
    return NULL;
  return at_label(x) ? parse_label(x) : parse_insn(x);
}

static struct stmt *parse_block(struct lexer *x) {
  struct stmt *block = new_stmt(x, STMT_block), **tail = &block->body;
  lex_expect(x, '{', "before a body");
  lex_enter(x);
  while (!lex_accept(x, '}')) {
    if (x->s >= x->end)
      ptx_error(x->p, block->line, "'{' is not closed");
    struct stmt *s = parse_stmt(x);
    if (s) {
      *tail = s;
      tail = &s->next;
    }
  }
  lex_leave(x);
  return block;
}

static void parse_dims(struct lexer *x, uint32_t dim[3], const char *what) {
  dim[0] = dim[1] = dim[2] = 1;
  for (int i = 0; i < 3; i++) {
    uint64_t v = lex_uint(x, what);
    if (!v || v > UINT32_MAX)
      ptx_error(x->p, x->line, "%s: %llu is out of range", what, (unsigned long long)v);
    dim[i] = (uint32_t)v;
    if (!lex_accept(x, ','))
      return;
  }
}

static uint32_t parse_count(struct lexer *x, const char *what) {
  uint64_t v = lex_uint(x, what);
  if (!v || v > UINT32_MAX)
    ptx_error(x->p, x->line, "%s: %llu is out of range", what, (unsigned long long)v);
  return (uint32_t)v;
}

static void parse_performance(struct lexer *x, struct func_decl *f) {
  while (lex_at(x, '.')) {
    if (lex_accept_word(x, ".reqntid"))
      parse_dims(x, f->reqntid, ".reqntid");
    else if (lex_accept_word(x, ".maxntid"))
      parse_dims(x, f->maxntid, ".maxntid");
    else if (lex_accept_word(x, ".reqnctapercluster"))
      parse_dims(x, f->reqcluster, ".reqnctapercluster");
    else if (lex_accept_word(x, ".maxnreg"))
      f->maxnreg = parse_count(x, ".maxnreg");
    else if (lex_accept_word(x, ".minnctapersm"))
      f->minnctapersm = parse_count(x, ".minnctapersm");
    else if (lex_accept_word(x, ".maxclusterrank"))
      f->maxclusterrank = parse_count(x, ".maxclusterrank");
    else if (lex_accept_word(x, ".explicitcluster"))
      f->explicit_cluster = true;
    else if (lex_accept_word(x, ".noreturn"))
      continue;
    else if (lex_accept_word(x, ".pragma")) {
      lex_skip_string(x);
      lex_expect(x, ';', "after .pragma");
    } else
      ptx_error(x->p, x->line, "directive is not supported on a function: %s", lex_here(x));
  }
}

static struct var_decl *parse_params(struct lexer *x) {
  struct var_decl *first = NULL, **tail = &first;
  lex_expect(x, '(', "before parameters");
  if (lex_accept(x, ')'))
    return NULL;
  do {
    enum var_space space = VAR_param;
    if (lex_accept_word(x, ".reg"))
      space = VAR_reg;
    else if (!lex_accept_word(x, ".param"))
      ptx_error(x->p, x->line, "expected .param: %s", lex_here(x));
    *tail = parse_var(x, space);
    tail = &(*tail)->next;
  } while (lex_accept(x, ','));
  lex_expect(x, ')', "after parameters");
  return first;
}

static struct func_decl *parse_function(struct lexer *x, bool entry, bool external) {
  struct func_decl *f = arena_alloc(x->p->arena, sizeof *f);
  f->entry = entry;
  f->external = external;
  if (lex_word_at(x, ".attribute"))
    ptx_error(x->p, x->line, "function attributes are not supported: %s", lex_here(x));
  if (!entry && lex_at(x, '('))
    f->result = parse_params(x);
  f->name = lex_ident(x, "the function's name");
  f->line = x->line;
  if (lex_at(x, '('))
    f->param = parse_params(x);
  parse_performance(x, f);
  if (!lex_accept(x, ';'))
    f->body = parse_block(x);
  return f;
}

/* Later text may define what earlier text declared; two bodies are an error. */
static void add_function(struct lexer *x, struct unit *u, struct func_decl *f) {
  struct func_decl **at = &u->func;
  for (; *at; at = &(*at)->next) {
    if (strcmp((*at)->name, f->name) != 0)
      continue;
    if ((*at)->body && f->body)
      ptx_error(x->p, f->line, "function %s is defined twice", f->name);
    if (!f->body)
      return;
    f->next = (*at)->next;
    *at = f;
    return;
  }
  *at = f;
}

/* The versions that ptxas of CUDA 13.0 knows: of each major version the last minor one. */
static const unsigned char last_minor[] = {[1] = 5, 3, 2, 3, 0, 5, 8, 8, 0};
enum { LAST_MAJOR = sizeof last_minor - 1 };

static void parse_version(struct lexer *x, struct unit *u) {
  lex_space(x);
  const char *text = lex_here(x);
  char *rest = NULL;
  unsigned long major = isdigit((unsigned char)*x->s) ? strtoul(x->s, &rest, 10) : 0, minor = 0;
  if (rest == NULL || *rest != '.' || !isdigit((unsigned char)rest[1]))
    ptx_error(x->p, x->line, ".version takes a number like %d.%d: %s", LAST_MAJOR,
              last_minor[LAST_MAJOR], text);
  minor = strtoul(rest + 1, &rest, 10);
  if (major < 1 || major > LAST_MAJOR || minor > last_minor[major])
    ptx_error(x->p, x->line, PTX_UNSUPPORTED_VERSION " %lu.%lu; the newest is %d.%d", major, minor,
              LAST_MAJOR, last_minor[LAST_MAJOR]);
  x->s = rest;
  u->version = (unsigned)(major * 10 + minor);
}

/* The first version that has a target, by ptxas of CUDA 13.0. */
static const struct {
  char target[9];
  unsigned char version;
} first_version[] = {{"sm_75", 63},   {"sm_80", 70},   {"sm_86", 71},   {"sm_87", 74},
                     {"sm_89", 78},   {"sm_90", 78},   {"sm_90a", 80},  {"sm_100", 86},
                     {"sm_100a", 86}, {"sm_100f", 88}, {"sm_103", 88},  {"sm_103a", 88},
                     {"sm_103f", 88}, {"sm_110", 90},  {"sm_110a", 90}, {"sm_110f", 90},
                     {"sm_120", 87},  {"sm_120a", 87}, {"sm_120f", 88}, {"sm_121", 88},
                     {"sm_121a", 88}, {"sm_121f", 88}};

static void parse_target(struct lexer *x, struct unit *u) {
  char *t = lex_ident(x, "a target");
  if (strncmp(t, "sm_", 3) != 0 || strlen(t) >= sizeof u->target)
    ptx_error(x->p, x->line, "target is not supported: %s", t);
  memcpy(u->target, t, strlen(t) + 1);
  for (size_t i = 0; i < sizeof first_version / sizeof *first_version; i++)
    if (strcmp(t, first_version[i].target) == 0 && u->version < first_version[i].version)
      ptx_error(x->p, x->line, "target %s needs PTX ISA %d.%d or later, this module is of %u.%u", t,
                first_version[i].version / 10, first_version[i].version % 10, u->version / 10,
                u->version % 10);
  while (lex_accept(x, ','))
    lex_ident(x, "a target option");
}

static void parse_module_directive(struct lexer *x, struct unit *u) {
  bool external = false;
  if (!lex_at(x, '.'))
    ptx_error(x->p, x->line, "expected a directive: %s", lex_here(x));
  if (lex_accept_word(x, ".file")) {
    lex_skip_line(x);
    return;
  }
  if (lex_accept_word(x, ".section")) {
    while (!lex_at(x, '{') && x->s < x->end)
      x->s++;
    lex_skip_braces(x);
    return;
  }
  if (lex_accept_word(x, ".pragma")) {
    lex_skip_string(x);
    lex_expect(x, ';', "after .pragma");
    return;
  }
  for (;;) {
    if (lex_accept_word(x, ".extern"))
      external = true;
    else if (!lex_accept_word(x, ".visible") && !lex_accept_word(x, ".weak") &&
             !lex_accept_word(x, ".common"))
      break;
  }
  bool entry = lex_accept_word(x, ".entry");
  if (entry || lex_accept_word(x, ".func")) {
    add_function(x, u, parse_function(x, entry, external));
    return;
  }
  static const struct {
    const char *word;
    enum var_space space;
  } var[] = {{".global", VAR_global}, {".const", VAR_const}, {".shared", VAR_shared}};
  for (size_t i = 0; i < sizeof var / sizeof *var; i++)
    if (lex_accept_word(x, var[i].word)) {
      struct var_decl **at = &u->var;
      while (*at)
        at = &(*at)->next;
      *at = parse_vars(x, var[i].space, external);
      lex_expect(x, ';', "after a declaration");
      return;
    }
  ptx_error(x->p, x->line, "directive is not supported: %s", lex_here(x));
}

void ptx_parse_unit(struct ptx_parse *p, const char *text, struct unit *u) {
  struct lexer x = {.p = p, .s = text, .end = text + strlen(text), .line = 1};
  lex_space(&x);
  if (!lex_accept_word(&x, ".version"))
    ptx_error(p, x.line, "a module starts with .version: %s", lex_here(&x));
  parse_version(&x, u);
  if (!lex_accept_word(&x, ".target"))
    ptx_error(p, x.line, "expected .target after .version: %s", lex_here(&x));
  parse_target(&x, u);
  if (lex_accept_word(&x, ".address_size") && lex_uint(&x, "an address size") != 64)
    ptx_error(p, x.line, ".address_size must be 64");
  for (lex_space(&x); x.s < x.end; lex_space(&x))
    parse_module_directive(&x, u);
}
