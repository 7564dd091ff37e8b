/* SPDX-License-Identifier: Apache-2.0
 *
 * The form tables, compiled once: patterns to sequences of modifiers, operand words to
 * what they accept, rows chained by opcode.  ptx.h describes the pattern language.
 */
#include "forms.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const struct {
  const char *text;
  uint16_t bits;
  char kind;
} mods[MODS_END] = {
    {"", 0, 0},
#define MOD(id, text, bits, kind) {text, bits, kind},
#include "mods.def"
#undef MOD
};

char mod_kind(enum mod m) {
  return mods[m].kind;
}
unsigned mod_bits(enum mod m) {
  return mods[m].bits;
}
const char *mod_text(enum mod m) {
  return mods[m].text;
}

#define FAMILY(name, array) extern const struct form array[];
#include "families.def"
#undef FAMILY

const struct form_family form_families[] = {
#define FAMILY(name, array) {name, array},
#include "families.def"
#undef FAMILY
    {NULL, NULL},
};

#define BUCKETS 1024 /* a power of two, well above the number of modifiers */
static uint16_t mod_bucket[BUCKETS], mod_next[MODS_END];
static struct row *opcode_bucket[BUCKETS], *opcode_tail[BUCKETS];
static struct arena table_arena; /* lives as long as the process */
static pthread_once_t once = PTHREAD_ONCE_INIT;

static unsigned hash(const char *s, size_t n) {
  uint32_t h = 2166136261u;
  for (size_t i = 0; i < n; i++)
    h = (h ^ (unsigned char)s[i]) * 16777619u;
  return (h ^ h >> 15) & (BUCKETS - 1);
}

static void fill_mods(void) {
  for (unsigned m = 1; m < MODS_END; m++) {
    unsigned h = hash(mods[m].text, strlen(mods[m].text));
    mod_next[m] = mod_bucket[h];
    mod_bucket[h] = (uint16_t)m;
  }
}

static enum mod find_mod(const char *text, size_t n) {
  for (unsigned m = mod_bucket[hash(text, n)]; m; m = mod_next[m])
    if (strlen(mods[m].text) == n && memcmp(mods[m].text, text, n) == 0)
      return (enum mod)m;
  return MODS_END;
}

/* A mistake in a table is a bug of the emulator: it stops at the first load. */
static _Noreturn void bad_row(const struct form *f, const char *why) {
  fprintf(stderr, "emulated driver: form \"%s\" \"%s\": %s\n", f->pattern, f->operands, why);
  abort();
}

/* One modifier "a" or a group "[.a|.b]"; s stands behind "." or at the bracket. */
static const char *compile_element(const struct form *f, const char *s, struct element *e) {
  char close = *s == '[' ? ']' : *s == '{' ? '}' : 0;
  e->optional = close == ']';
  e->slot = close != 0;
  if (close)
    s++;
  do {
    if (*s == '.' || *s == '|')
      s++;
    if (*s == '.')
      s++;
    const char *b = s;
    while (isalnum((unsigned char)*s) || *s == '_' || *s == ':')
      s++;
    enum mod m = find_mod(b, (size_t)(s - b));
    if (m == MODS_END)
      bad_row(f, "names a modifier that mods.def lacks");
    if (e->nalt == FORM_ALTS)
      bad_row(f, "has too many alternatives");
    e->alt[e->nalt++] = (uint16_t)m;
  } while (close && *s == '|');
  if (close && *s++ != close)
    bad_row(f, "has a bracket that is not closed");
  return s;
}

static void compile_pattern(struct row *r) {
  const struct form *f = r->form;
  const char *s = f->pattern + strcspn(f->pattern, ".[{");
  r->opcode_len = (uint8_t)(s - f->pattern);
  unsigned slots = 0;
  struct element e[FORM_ELEMENTS];
  memset(e, 0, sizeof e);
  while (*s) {
    if (r->nelement == FORM_ELEMENTS)
      bad_row(f, "has too many modifiers");
    struct element *at = &e[r->nelement++];
    s = compile_element(f, *s == '.' ? s + 1 : s, at);
    if (*s && *s != '.' && *s != '[' && *s != '{')
      bad_row(f, "has text the pattern language does not know");
    slots += at->slot;
  }
  if (slots > INSN_MODS)
    bad_row(f, "has too many slots");
  r->element = arena_alloc(&table_arena, (r->nelement + 1u) * sizeof *r->element);
  memcpy(r->element, e, r->nelement * sizeof *e);
}

static const char *compile_word(const struct form *f, const char *s, struct word *w) {
  if (*s == 'v' || *s == 'x') {
    w->group = *s++;
    if (isdigit((unsigned char)*s))
      w->count = (uint8_t)strtoul(s, (char **)&s, 10);
  }
  w->kind = *s++;
  if (!strchr("wrimtLB", w->kind))
    bad_row(f, "has an operand of unknown kind");
  if (w->kind == 'w' || w->kind == 'r') {
    if (*s == 'T') {
      s++;
      w->type = isdigit((unsigned char)*s) ? (uint8_t)(*s++ - '0') : WORD_LAST_TYPE;
    } else if (*s == 'p') {
      s++;
      w->bits = 1;
    } else if (isdigit((unsigned char)*s)) {
      w->bits = (uint8_t)strtoul(s, (char **)&s, 10);
    } else {
      bad_row(f, "has an operand without a width");
    }
  }
  for (; *s && *s != ' '; s++) {
    switch (*s) {
    case '+':
      w->wider = true;
      break;
    case '?':
      w->optional = true;
      break;
    case '_':
      w->sink = true;
      break;
    case '$':
      w->symbol = true;
      break;
    case '|':
      w->pair = true;
      if (*++s == 'p')
        break;
      /* fall through */
    default:
      bad_row(f, "has an operand with an unknown suffix");
    }
  }
  return s;
}

static void compile_operands(struct row *r) {
  const char *s = r->form->operands;
  struct word w[FORM_WORDS];
  memset(w, 0, sizeof w);
  while (*s) {
    if (*s == ' ') {
      s++;
      continue;
    }
    if (r->nword == FORM_WORDS)
      bad_row(r->form, "has too many operands");
    s = compile_word(r->form, s, &w[r->nword++]);
  }
  r->word = arena_alloc(&table_arena, (r->nword + 1u) * sizeof *r->word);
  memcpy(r->word, w, r->nword * sizeof *w);
}

static void compile_tables(void) {
  fill_mods();
  for (const struct form_family *fam = form_families; fam->name; fam++)
    for (const struct form *f = fam->form; f->pattern; f++) {
      struct row *r = arena_alloc(&table_arena, sizeof *r);
      r->form = f;
      compile_pattern(r);
      compile_operands(r);
      unsigned h = hash(f->pattern, r->opcode_len);
      if (opcode_tail[h])
        opcode_tail[h]->next = r;
      else
        opcode_bucket[h] = r;
      opcode_tail[h] = r;
    }
}

enum mod mod_find(const char *text, size_t n) {
  pthread_once(&once, compile_tables);
  return find_mod(text, n);
}

const struct row *form_row(const char *opcode, const struct row *after) {
  pthread_once(&once, compile_tables);
  size_t n = strlen(opcode);
  for (const struct row *r = after ? after->next : opcode_bucket[hash(opcode, n)]; r; r = r->next)
    if (r->opcode_len == n && memcmp(r->form->pattern, opcode, n) == 0)
      return r;
  return NULL;
}

const char *form_target(const struct form *f, const char *target) {
  char *suffix;
  unsigned long arch = strtoul(target + 3, &suffix, 10);
  bool family = *suffix == 'f' || *suffix == 'a';
  if ((f->flags & FORM_sm90a) && !(arch == 90 && *suffix == 'a'))
    return "needs target sm_90a";
  if ((f->flags & FORM_sm100f) && !(arch / 10 == 10 && family))
    return "needs target sm_100f or another sm_10x target with suffix f or a";
  if ((f->flags & FORM_sm100) && arch < 100)
    return "needs target sm_100 or later";
  return NULL;
}
