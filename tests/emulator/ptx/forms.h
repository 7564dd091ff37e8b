/* SPDX-License-Identifier: Apache-2.0
 *
 * Compiled rows of the form tables, between forms.c, which makes them, and match.c,
 * which tries them against an instruction.
 */
#ifndef EMU_FORMS_H
#define EMU_FORMS_H

#include "parse.h"

#define FORM_ALTS      64 /* alternatives in one bracket */
#define FORM_ELEMENTS  24 /* modifiers of one pattern */
#define FORM_WORDS     24 /* operands of one row */
#define WORD_LAST_TYPE 9

struct element {
  bool optional, slot;
  uint8_t nalt;
  uint16_t alt[FORM_ALTS];
};

struct word {
  char kind;     /* w r i m t L B */
  char group;    /* 'v', 'x', or 0 */
  uint8_t count; /* of v, 0: by .vN */
  uint8_t bits;  /* 0: by type */
  uint8_t type;  /* 1, 2, 3 or WORD_LAST_TYPE */
  bool wider, optional, sink, pair, symbol;
};

struct row {
  const struct form *form;
  struct element *element;
  struct word *word;
  uint8_t opcode_len, nelement, nword;
  struct row *next;
};

/* The rows of an opcode in table order; NULL after the last. */
const struct row *form_row(const char *opcode, const struct row *after);

#endif
