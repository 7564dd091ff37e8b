/* SPDX-License-Identifier: Apache-2.0
 *
 * Inside the parser: operands, constants and variables.
 */
#ifndef EMU_PARSER_H
#define EMU_PARSER_H

#include "lexer.h"

struct raw parse_operand(struct lexer *x);
/* A constant expression; *kind tells what the bits are. */
uint64_t parse_constant(struct lexer *x, enum raw_kind *kind);
uint64_t parse_int_constant(struct lexer *x, const char *what);

/* What follows ".reg", ".shared", ...: one variable, or a list with commas. */
struct var_decl *parse_var(struct lexer *x, enum var_space space);
struct var_decl *parse_vars(struct lexer *x, enum var_space space, bool external);

#endif
