/* SPDX-License-Identifier: Apache-2.0
 *
 * Declarations of variables, registers and parameters, with initial values.
 */
#include <string.h>

#include "parser.h"

static uint64_t parse_align(struct lexer *x) {
  uint64_t a = lex_uint(x, "an alignment");
  if (!a || (a & (a - 1)) || a > 1u << 20)
    ptx_error(x->p, x->line, ".align %llu is not a power of two", (unsigned long long)a);
  return a;
}

/* What stands between the state space and the name. */
static void parse_type(struct lexer *x, struct var_decl *v) {
  while (lex_at(x, '.')) {
    if (lex_accept_word(x, ".align")) {
      v->align = parse_align(x);
      continue;
    }
    if (lex_accept_word(x, ".attribute")) { /* .managed is memory like any other here */
      lex_expect(x, '(', "after .attribute");
      if (!lex_accept_word(x, ".managed"))
        ptx_error(x->p, x->line, "attribute is not supported: %s", lex_here(x));
      lex_expect(x, ')', "after .attribute");
      continue;
    }
    if (lex_accept_word(x, ".ptr")) { /* a promise about what the parameter points to */
      while (lex_at(x, '.'))
        if (lex_accept_word(x, ".align"))
          parse_align(x);
        else
          lex_directive(x);
      continue;
    }
    char *d = lex_directive(x);
    enum mod m = mod_find(d, strlen(d));
    if (m == MOD_v2 || m == MOD_v4)
      v->vec = m == MOD_v2 ? 2 : 4;
    else if (m != MODS_END && mod_kind(m) && v->type == MOD_none)
      v->type = m;
    else
      ptx_error(x->p, x->line, "not a type: .%s", d);
  }
  if (v->type == MOD_none)
    ptx_error(x->p, x->line, "declaration without a type: %s", lex_here(x));
  if (mod_kind(v->type) == 'p' ? v->space != VAR_reg : mod_bits(v->type) < 8)
    ptx_error(x->p, x->line, "no variable can have type .%s", mod_text(v->type));
}

static void add_init(struct lexer *x, struct var_decl *v, uint64_t index) {
  uint64_t elem = mod_bits(v->type) / 8;
  struct init_item it = {.offset = index * elem};
  if (lex_ident_at(x) && !lex_word_at(x, "WARP_SZ")) {
    bool generic = lex_accept_word(x, "generic");
    if (generic)
      lex_expect(x, '(', "after generic");
    it.symbol = lex_ident(x, "a variable");
    if (generic)
      lex_expect(x, ')', "after generic");
    if (lex_at(x, '+') || lex_at(x, '-'))
      it.value = parse_int_constant(x, "what is added to an address");
    if (elem != 8)
      ptx_error(x->p, x->line, "the address of %s needs a 64-bit variable", it.symbol);
  } else {
    enum raw_kind k;
    it.value = parse_constant(x, &k);
    char kind = mod_kind(v->type);
    if (k != RAW_int && kind != 'f' && kind != 'b')
      ptx_error(x->p, x->line, "floating-point value for type .%s", mod_text(v->type));
    if (k == RAW_int && kind == 'f')
      ptx_error(x->p, x->line, "integer value for type .%s", mod_text(v->type));
    if (k == RAW_f64 && elem == 4) {
      double d;
      memcpy(&d, &it.value, 8);
      float f = (float)d;
      uint32_t b;
      memcpy(&b, &f, 4);
      it.value = b;
    } else if (k == RAW_f32 && elem == 8) {
      uint32_t b = (uint32_t)it.value;
      float f;
      memcpy(&f, &b, 4);
      double d = (double)f;
      memcpy(&it.value, &d, 8);
    }
  }
  PUSH(x->p->arena, v->init, v->ninit, v->init_cap) = it;
}

/* dim[level..n): how many elements each brace spans.  Returns the next index. */
static uint64_t parse_init(struct lexer *x, struct var_decl *v, const uint64_t *dim, unsigned n,
                           unsigned level, uint64_t index) {
  if (!lex_accept(x, '{')) {
    add_init(x, v, index);
    return index + 1;
  }
  uint64_t inner = 1, start = index;
  lex_enter(x);
  for (unsigned i = level + 1; i < n; i++)
    inner *= dim[i];
  if (!lex_at(x, '}')) {
    do {
      bool braces = lex_at(x, '{');
      uint64_t next = parse_init(x, v, dim, n, level + 1, index);
      index = braces ? index + inner : next;
    } while (lex_accept(x, ','));
  }
  lex_leave(x);
  lex_expect(x, '}', "after initial values");
  if (level < n && dim[level] && index - start > dim[level] * inner)
    ptx_error(x->p, x->line, "too many initial values for %s", v->name);
  return index;
}

static void parse_shape_and_init(struct lexer *x, struct var_decl *v) {
  uint64_t dim[8], count = 1;
  unsigned n = 0;
  bool open = false;
  while (lex_accept(x, '[')) {
    if (n == 8)
      ptx_error(x->p, x->line, "more than 8 dimensions: %s", v->name);
    v->array = true;
    if (n == 0 && lex_at(x, ']')) {
      open = true;
      dim[n++] = 0;
    } else {
      dim[n] = parse_int_constant(x, "an array's size");
      if (dim[n] > 1ull << 40 || count * dim[n] > 1ull << 40)
        ptx_error(x->p, x->line, "array %s is too large", v->name);
      count *= dim[n++];
    }
    lex_expect(x, ']', "after an array's size");
  }
  uint64_t elem = mod_bits(v->type) / 8 * v->vec;
  if (!v->align)
    v->align = elem;
  if (lex_accept(x, '=')) {
    if (v->space != VAR_global && v->space != VAR_const)
      ptx_error(x->p, x->line, "only .global and .const variables have initial values: %s",
                v->name);
    uint64_t end = parse_init(x, v, dim, v->vec > 1 || n ? n : 0, 0, 0);
    if (open)
      count *= end;
    else if (end > count * v->vec)
      ptx_error(x->p, x->line, "too many initial values for %s", v->name);
  } else if (open) {
    count = 0;
    if (!v->external && v->space != VAR_param)
      ptx_error(x->p, x->line, "array %s has no size", v->name);
  }
  v->size = count * elem;
}

static void parse_declarator(struct lexer *x, struct var_decl *v) {
  v->name = lex_ident(x, "a variable's name");
  v->line = x->line;
  v->range = -1;
  v->module_var = -1;
  if (v->space != VAR_reg) {
    parse_shape_and_init(x, v);
    return;
  }
  if (lex_accept(x, '<')) {
    uint64_t n = lex_uint(x, "a number of registers");
    if (!n || n > 1u << 20)
      ptx_error(x->p, x->line, "%s<%llu>: out of range", v->name, (unsigned long long)n);
    v->range = (int32_t)n;
    lex_expect(x, '>', "after a number of registers");
  }
  if (v->vec > 1)
    ptx_error(x->p, x->line, "vector registers are not supported: %s", v->name);
}

struct var_decl *parse_var(struct lexer *x, enum var_space space) {
  struct var_decl *v = arena_alloc(x->p->arena, sizeof *v);
  v->space = (uint8_t)space;
  v->vec = 1;
  parse_type(x, v);
  parse_declarator(x, v);
  return v;
}

struct var_decl *parse_vars(struct lexer *x, enum var_space space, bool external) {
  struct var_decl type = {.space = (uint8_t)space, .vec = 1, .external = external};
  struct var_decl *first = NULL, **tail = &first;
  parse_type(x, &type);
  do {
    *tail = arena_alloc(x->p->arena, sizeof **tail);
    **tail = type;
    parse_declarator(x, *tail);
    tail = &(*tail)->next;
  } while (lex_accept(x, ','));
  return first;
}
