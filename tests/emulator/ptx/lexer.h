/* SPDX-License-Identifier: Apache-2.0
 *
 * Characters of a PTX module to tokens, on demand: the grammar decides what it expects
 * next, so that "cvt.rn.f16x2" is one opcode with modifiers where an instruction starts
 * and "%tid.x" one name where an operand does.
 */
#ifndef EMU_LEXER_H
#define EMU_LEXER_H

#include "parse.h"

struct lexer {
  struct ptx_parse *p;
  const char *s, *end;
  uint32_t line;
  uint32_t depth; /* of brackets: bounds the parser's recursion */
};

void lex_space(struct lexer *x);      /* blanks, comments, #line */
bool lex_at(struct lexer *x, char c); /* the next token starts with c */
bool lex_accept(struct lexer *x, char c);
void lex_expect(struct lexer *x, char c, const char *where);
bool lex_word_at(struct lexer *x, const char *word); /* whole word, dots included */
bool lex_accept_word(struct lexer *x, const char *word);
bool lex_ident_at(struct lexer *x);
char *lex_ident(struct lexer *x, const char *what); /* letters, digits, _ $ % */
char *lex_name(struct lexer *x, const char *what);  /* ident with ".x" parts */
char *lex_directive(struct lexer *x);               /* ".align" as "align" */
char *lex_modifier(struct lexer *x);                /* "shared::cta"; NULL: no "." here */
uint64_t lex_uint(struct lexer *x, const char *what);
/* Number with its kind: RAW_int, RAW_f32, RAW_f64. */
uint64_t lex_number(struct lexer *x, enum raw_kind *kind);
/* Around whatever may nest. */
void lex_enter(struct lexer *x);
void lex_leave(struct lexer *x);
void lex_skip_line(struct lexer *x);
void lex_skip_string(struct lexer *x);
void lex_skip_braces(struct lexer *x); /* from "{" to its "}" */
/* For messages: up to 40 characters of what stands here. */
const char *lex_here(struct lexer *x);

#endif
