/* SPDX-License-Identifier: Apache-2.0
 *
 * The PTX lexer.  See lexer.h.
 */
#include "lexer.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static bool ident_char(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '$';
}
static bool ident_start(char c) {
  return isalpha((unsigned char)c) || c == '_' || c == '$' || c == '%';
}

void lex_skip_line(struct lexer *x) {
  while (x->s < x->end && *x->s != '\n')
    x->s++;
}

static void skip_comment(struct lexer *x) {
  uint32_t start = x->line;
  for (x->s += 2; x->s + 1 < x->end; x->s++) {
    if (x->s[0] == '*' && x->s[1] == '/') {
      x->s += 2;
      return;
    }
    x->line += *x->s == '\n';
  }
  ptx_error(x->p, start, "comment is not closed");
}

void lex_space(struct lexer *x) {
  while (x->s < x->end) {
    if (*x->s == '\n') {
      x->line++;
      x->s++;
    } else if (isspace((unsigned char)*x->s)) {
      x->s++;
    } else if (*x->s == '#' || (*x->s == '/' && x->s + 1 < x->end && x->s[1] == '/')) {
      lex_skip_line(x);
    } else if (*x->s == '/' && x->s + 1 < x->end && x->s[1] == '*') {
      skip_comment(x);
    } else {
      return;
    }
  }
}

void lex_enter(struct lexer *x) {
  if (++x->depth > 256)
    ptx_error(x->p, x->line, "brackets nested more than 256 deep");
}

void lex_leave(struct lexer *x) {
  x->depth--;
}

bool lex_at(struct lexer *x, char c) {
  lex_space(x);
  return x->s < x->end && *x->s == c;
}

bool lex_accept(struct lexer *x, char c) {
  if (!lex_at(x, c))
    return false;
  x->s++;
  return true;
}

const char *lex_here(struct lexer *x) {
  lex_space(x);
  size_t n = 0;
  while (x->s + n < x->end && n < 40 && x->s[n] != '\n')
    n++;
  return n ? arena_dup(x->p->arena, x->s, n) : "end of text";
}

void lex_expect(struct lexer *x, char c, const char *where) {
  if (!lex_accept(x, c))
    ptx_error(x->p, x->line, "expected '%c' %s: %s", c, where, lex_here(x));
}

bool lex_word_at(struct lexer *x, const char *word) {
  lex_space(x);
  size_t n = strlen(word);
  if ((size_t)(x->end - x->s) < n || memcmp(x->s, word, n) != 0)
    return false;
  return x->s + n == x->end || !ident_char(x->s[n]);
}

bool lex_accept_word(struct lexer *x, const char *word) {
  if (!lex_word_at(x, word))
    return false;
  x->s += strlen(word);
  return true;
}

bool lex_ident_at(struct lexer *x) {
  lex_space(x);
  return x->s < x->end && ident_start(*x->s);
}

char *lex_ident(struct lexer *x, const char *what) {
  if (!lex_ident_at(x))
    ptx_error(x->p, x->line, "expected %s: %s", what, lex_here(x));
  const char *b = x->s++;
  while (x->s < x->end && ident_char(*x->s))
    x->s++;
  return arena_dup(x->p->arena, b, (size_t)(x->s - b));
}

char *lex_name(struct lexer *x, const char *what) {
  lex_space(x);
  const char *b = x->s;
  char *first = lex_ident(x, what);
  if (x->s + 1 >= x->end || *x->s != '.' || !ident_start(x->s[1]))
    return first;
  for (x->s++; x->s < x->end && ident_char(*x->s);)
    x->s++;
  return arena_dup(x->p->arena, b, (size_t)(x->s - b));
}

char *lex_directive(struct lexer *x) {
  lex_space(x);
  if (x->s + 1 >= x->end || *x->s != '.' || !ident_char(x->s[1]))
    ptx_error(x->p, x->line, "expected a directive: %s", lex_here(x));
  const char *b = ++x->s;
  while (x->s < x->end && ident_char(*x->s))
    x->s++;
  return arena_dup(x->p->arena, b, (size_t)(x->s - b));
}

char *lex_modifier(struct lexer *x) {
  if (x->s + 1 >= x->end || *x->s != '.' || !ident_char(x->s[1]))
    return NULL;
  const char *b = ++x->s;
  while (x->s < x->end && (ident_char(*x->s) || (*x->s == ':' && x->s + 2 < x->end &&
                                                 x->s[1] == ':' && ident_char(x->s[2])))) {
    x->s += *x->s == ':' ? 2 : 1;
  }
  return arena_dup(x->p->arena, b, (size_t)(x->s - b));
}

/* "0f" and 8 digits, "0d" and 16: the bits of the value. */
static uint64_t hex_float(struct lexer *x, unsigned digits) {
  char buf[17] = {0};
  for (unsigned i = 0; i < digits; i++) {
    if (x->s + 2 + i >= x->end || !isxdigit((unsigned char)x->s[2 + i]))
      ptx_error(x->p, x->line, "a 0%c constant has %u hexadecimal digits: %s", x->s[1], digits,
                lex_here(x));
    buf[i] = x->s[2 + i];
  }
  x->s += 2 + digits;
  return strtoull(buf, NULL, 16);
}

uint64_t lex_number(struct lexer *x, enum raw_kind *kind) {
  lex_space(x);
  const char *b = x->s;
  if (x->s >= x->end || !(isdigit((unsigned char)*b) || *b == '.'))
    ptx_error(x->p, x->line, "expected a number: %s", lex_here(x));
  char c1 = x->end - b > 1 ? (char)tolower((unsigned char)b[1]) : 0;
  if (*b == '0' && (c1 == 'f' || c1 == 'd')) {
    *kind = c1 == 'f' ? RAW_f32 : RAW_f64;
    return hex_float(x, c1 == 'f' ? 8 : 16);
  }
  const char *e = b;
  while (e < x->end &&
         (ident_char(*e) || *e == '.' ||
          ((*e == '+' || *e == '-') && c1 != 'x' && tolower((unsigned char)e[-1]) == 'e')))
    e++;
  char *text = arena_dup(x->p->arena, b, (size_t)(e - b));
  char *rest = text;
  uint64_t value;
  bool real = strchr(text, '.') || (c1 != 'x' && c1 != 'b' && strpbrk(text, "eE"));
  errno = 0;
  if (real) {
    double d = strtod(text, &rest);
    memcpy(&value, &d, 8);
    *kind = RAW_f64;
  } else {
    bool binary = *text == '0' && c1 == 'b';
    value = strtoull(binary ? text + 2 : text, &rest, binary ? 2 : 0);
    if (*rest == 'U')
      rest++;
    *kind = RAW_int;
  }
  if (*rest || (!real && errno == ERANGE))
    ptx_error(x->p, x->line, "malformed number: %s", text);
  x->s = e;
  return value;
}

uint64_t lex_uint(struct lexer *x, const char *what) {
  enum raw_kind k;
  lex_space(x);
  if (x->s >= x->end || !isdigit((unsigned char)*x->s))
    ptx_error(x->p, x->line, "expected %s: %s", what, lex_here(x));
  uint64_t v = lex_number(x, &k);
  if (k != RAW_int)
    ptx_error(x->p, x->line, "expected %s, got a floating-point number", what);
  return v;
}

void lex_skip_string(struct lexer *x) {
  lex_expect(x, '"', "before a string");
  while (x->s < x->end && *x->s != '"' && *x->s != '\n')
    x->s++;
  lex_expect(x, '"', "after a string");
}

void lex_skip_braces(struct lexer *x) {
  uint32_t start = x->line;
  lex_expect(x, '{', "before a section");
  for (unsigned depth = 1; depth;) {
    lex_space(x);
    if (x->s >= x->end)
      ptx_error(x->p, start, "'{' is not closed");
    depth += *x->s == '{';
    depth -= *x->s == '}';
    x->s++;
  }
}
