/* SPDX-License-Identifier: Apache-2.0
 *
 * Operands and constant expressions.  Integer expressions are computed in 64 bits,
 * signed unless an operand carries the suffix U or the cast (.u64); floating-point
 * constants take a sign and nothing else.
 */
#include <string.h>

#include "parser.h"

struct value {
  uint64_t v;
  uint8_t kind; /* RAW_int, RAW_f32, RAW_f64 */
  bool is_unsigned;
};

static struct value primary(struct lexer *x);
static struct value ternary(struct lexer *x);

static struct value integer(struct lexer *x, struct value a) {
  if (a.kind != RAW_int)
    ptx_error(x->p, x->line, "operator on a floating-point constant: %s", lex_here(x));
  return a;
}

static struct value unary(struct lexer *x) {
  if (lex_accept(x, '(')) {
    if (lex_at(x, '.')) {
      bool s = lex_accept_word(x, ".s64");
      if (!s && !lex_accept_word(x, ".u64"))
        ptx_error(x->p, x->line, "a cast is (.s64) or (.u64): %s", lex_here(x));
      lex_expect(x, ')', "after a cast");
      struct value v = integer(x, primary(x));
      v.is_unsigned = !s;
      return v;
    }
    struct value v = ternary(x);
    lex_expect(x, ')', "in a constant expression");
    return v;
  }
  if (lex_accept(x, '-')) {
    struct value v = primary(x);
    if (v.kind == RAW_f32)
      v.v ^= 1ull << 31;
    else if (v.kind == RAW_f64)
      v.v ^= 1ull << 63;
    else
      v.v = 0 - v.v;
    return v;
  }
  if (lex_accept(x, '+'))
    return primary(x);
  if (lex_accept(x, '~')) {
    struct value v = integer(x, primary(x));
    v.v = ~v.v;
    return v;
  }
  if (lex_accept(x, '!')) {
    struct value v = integer(x, primary(x));
    v.v = !v.v;
    return v;
  }
  if (lex_accept_word(x, "WARP_SZ"))
    return (struct value){32, RAW_int, false};
  enum raw_kind k;
  struct value v = {.v = lex_number(x, &k)};
  v.kind = (uint8_t)k;
  v.is_unsigned = k == RAW_int && (x->s[-1] == 'U' || v.v >> 63);
  return v;
}

static struct value primary(struct lexer *x) {
  lex_enter(x);
  struct value v = unary(x);
  lex_leave(x);
  return v;
}

/* Binary operators, loosest first; longer spellings before their prefixes. */
static const struct {
  const char *text;
  int level;
} binary_op[] = {{"||", 0}, {"&&", 1}, {"==", 5}, {"!=", 5}, {"<=", 6}, {">=", 6},
                 {"<<", 7}, {">>", 7}, {"|", 2},  {"^", 3},  {"&", 4},  {"<", 6},
                 {">", 6},  {"+", 8},  {"-", 8},  {"*", 9},  {"/", 9},  {"%", 9}};

static int binary_at(struct lexer *x, int level) {
  lex_space(x);
  for (int i = 0; i < (int)(sizeof binary_op / sizeof *binary_op); i++) {
    size_t n = strlen(binary_op[i].text);
    if ((size_t)(x->end - x->s) >= n && memcmp(x->s, binary_op[i].text, n) == 0)
      return binary_op[i].level >= level ? i : -1;
  }
  return -1;
}

static uint64_t binary(struct lexer *x, const char *op, uint64_t a, uint64_t b, bool u) {
  int64_t sa = (int64_t)a, sb = (int64_t)b;
  if ((*op == '/' || *op == '%') && (b == 0 || (!u && sb == -1 && sa == INT64_MIN)))
    ptx_error(x->p, x->line, "constant expression divides %lld by %lld", (long long)sa,
              (long long)sb);
  if ((op[0] == '<' || op[0] == '>') && op[0] == op[1]) {
    if (b > 63)
      return op[0] == '>' && !u && sa < 0 ? ~0ull : 0;
    return op[0] == '<' ? a << b : u ? a >> b : (uint64_t)(sa >> b);
  }
  if (op[1] == '=') {
    switch (op[0]) {
    case '=':
      return a == b;
    case '!':
      return a != b;
    case '<':
      return u ? a <= b : sa <= sb;
    default:
      return u ? a >= b : sa >= sb;
    }
  }
  switch (op[0]) {
  case '|':
    return op[1] ? a || b : a | b;
  case '&':
    return op[1] ? a && b : a & b;
  case '^':
    return a ^ b;
  case '<':
    return u ? a < b : sa < sb;
  case '>':
    return u ? a > b : sa > sb;
  case '+':
    return a + b;
  case '-':
    return a - b;
  case '*':
    return a * b;
  case '/':
    return u ? a / b : (uint64_t)(sa / sb);
  default:
    return u ? a % b : (uint64_t)(sa % sb);
  }
}

static struct value climb(struct lexer *x, int level) {
  struct value a = primary(x);
  for (int i; (i = binary_at(x, level)) >= 0;) {
    integer(x, a);
    x->s += strlen(binary_op[i].text);
    struct value b = integer(x, climb(x, binary_op[i].level + 1));
    a.is_unsigned |= b.is_unsigned;
    a.v = binary(x, binary_op[i].text, a.v, b.v, a.is_unsigned);
  }
  return a;
}

static struct value ternary(struct lexer *x) {
  struct value c = climb(x, 0);
  if (!lex_accept(x, '?'))
    return c;
  struct value a = ternary(x);
  lex_expect(x, ':', "in a constant expression");
  struct value b = ternary(x);
  return integer(x, c).v ? a : b;
}

uint64_t parse_constant(struct lexer *x, enum raw_kind *kind) {
  struct value v = ternary(x);
  *kind = (enum raw_kind)v.kind;
  return v.v;
}

uint64_t parse_int_constant(struct lexer *x, const char *what) {
  struct value v = ternary(x);
  if (v.kind != RAW_int)
    ptx_error(x->p, x->line, "%s must be an integer", what);
  return v.v;
}

/* name, name+constant (an address), name|name. */
static struct raw parse_named(struct lexer *x) {
  struct raw r = {.kind = RAW_name};
  r.bang = lex_accept(x, '!');
  r.name = lex_name(x, "an operand");
  if (lex_at(x, '+') || lex_at(x, '-'))
    r.value = parse_int_constant(x, "what is added to an address");
  if (lex_accept(x, '|')) {
    r.pair = arena_alloc(x->p->arena, sizeof *r.pair);
    *r.pair = (struct raw){.kind = RAW_name, .name = lex_name(x, "an operand after '|'")};
  }
  return r;
}

static struct raw parse_list(struct lexer *x) {
  struct raw r = {.kind = RAW_vec};
  uint32_t n = 0, cap = 0;
  lex_expect(x, '{', "before a vector");
  lex_enter(x);
  do
    PUSH(x->p->arena, r.elem, n, cap) = parse_operand(x);
  while (lex_accept(x, ','));
  lex_leave(x);
  lex_expect(x, '}', "after a vector");
  if (n > UINT8_MAX)
    ptx_error(x->p, x->line, "a vector of %u elements", n);
  r.n = (uint16_t)n;
  return r;
}

/* [base], [base+imm], [imm], [base, {coordinates}]. */
static struct raw parse_address(struct lexer *x) {
  struct raw a = {.kind = RAW_addr};
  lex_expect(x, '[', "before an address");
  if (lex_ident_at(x) && !lex_word_at(x, "WARP_SZ")) {
    a.elem = arena_alloc(x->p->arena, sizeof *a.elem);
    a.n = 1;
    a.elem[0] = (struct raw){.kind = RAW_name, .name = lex_name(x, "an address")};
    if (lex_at(x, '+') || lex_at(x, '-'))
      a.value = parse_int_constant(x, "an address offset");
  } else {
    a.value = parse_int_constant(x, "an address");
  }
  if (lex_accept(x, ',')) {
    struct raw list = parse_list(x), *elem;
    elem = arena_alloc(x->p->arena, (list.n + 1u) * sizeof *elem);
    elem[0] = a;
    memcpy(elem + 1, list.elem, list.n * sizeof *elem);
    a = (struct raw){.kind = RAW_tensor, .n = (uint16_t)(list.n + 1), .elem = elem};
  }
  lex_expect(x, ']', "after an address");
  return a;
}

struct raw parse_operand(struct lexer *x) {
  if (lex_at(x, '{'))
    return parse_list(x);
  if (lex_at(x, '['))
    return parse_address(x);
  bool name = lex_ident_at(x) && !lex_word_at(x, "WARP_SZ");
  if (!name && lex_at(x, '!')) {
    struct lexer ahead = *x;
    ahead.s++;
    name = lex_ident_at(&ahead);
  }
  if (name)
    return parse_named(x);
  enum raw_kind k;
  struct raw r = {.value = parse_constant(x, &k)};
  r.kind = (uint8_t)k;
  return r;
}
