/* SPDX-License-Identifier: Apache-2.0
 *
 * form_table: what the emulated driver supports, as Markdown, from its form tables and from
 * the conformance kernels that use each form.
 *
 *   form_table summary|forms|missing RECORD KERNEL.ptx...
 *
 * summary: a line for each family; forms: a line for each form; missing: the forms and
 * modifiers that no kernel uses, one a line.  RECORD: the recorded answers, whose kernels
 * count as tested on the GPU; a kernel that is not in it is judged by a definition.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/ptx/forms.h"

struct use {
  const struct form *form;
  const struct row *row;
  unsigned recorded, defined; /* instructions in kernels of either kind */
  bool seen[FORM_ELEMENTS][FORM_ALTS + 1];
};

static struct use *uses;
static size_t nuses;
static char *record;

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  if (!f) {
    perror(path);
    exit(2);
  }
  char *text = calloc(1, 1 << 24);
  size_t n = fread(text, 1, (1 << 24) - 1, f);
  fclose(f);
  text[n] = '\0';
  return text;
}

static void collect(void) {
  for (const struct form_family *fam = form_families; fam->name; fam++)
    for (const struct form *f = fam->form; f->pattern; f++)
      nuses++;
  uses = calloc(nuses, sizeof *uses);
  size_t n = 0;
  for (const struct form_family *fam = form_families; fam->name; fam++)
    for (const struct form *f = fam->form; f->pattern; f++) {
      struct use *u = &uses[n++];
      char opcode[64];
      snprintf(opcode, sizeof opcode, "%.*s", (int)strcspn(f->pattern, ".[{"), f->pattern);
      u->form = f;
      for (const struct row *r = form_row(opcode, NULL); r; r = form_row(opcode, r))
        if (r->form == f)
          u->row = r;
    }
}

static struct use *use_of(const struct form *f) {
  for (size_t i = 0; i < nuses; i++)
    if (uses[i].form == f)
      return &uses[i];
  return NULL;
}

static void note(const struct insn *I, bool recorded) {
  struct use *u = use_of(I->form);
  if (!u)
    return;
  u->recorded += recorded;
  u->defined += !recorded;
  unsigned slot = 0;
  for (unsigned e = 0; e < u->row->nelement; e++) {
    const struct element *el = &u->row->element[e];
    if (!el->slot)
      continue;
    uint16_t m = I->mod[slot++];
    if (m == MOD_none)
      u->seen[e][FORM_ALTS] = true;
    for (unsigned a = 0; a < el->nalt; a++)
      u->seen[e][a] |= el->alt[a] == m;
  }
}

/* The record's lines begin with the kernel's name. */
static bool is_recorded(const char *name) {
  size_t n = strlen(name);
  for (const char *s = record; (s = strstr(s, name)) != NULL; s += n)
    if ((s == record || s[-1] == '\n') && s[n] == ' ')
      return true;
  return false;
}

static void take(const char *path) {
  char *text = read_file(path), err[512], name[128];
  const char *base = strrchr(path, '/');
  snprintf(name, sizeof name, "%s", base ? base + 1 : path);
  *strrchr(name, '.') = '\0';
  struct module *m = ptx_load(text, strlen(text), err, sizeof err);
  if (!m) {
    fprintf(stderr, "%s: %s\n", path, err);
    exit(1);
  }
  bool hopper = strncmp(m->target, "sm_90", 5) == 0;
  for (uint32_t f = 0; f < m->nfn; f++)
    for (uint32_t i = 0; i < m->fn[f].ninsn; i++)
      note(&m->fn[f].insn[i], hopper && is_recorded(name));
  ptx_free(m);
  free(text);
}

/* Modifiers of a form that some kernel uses, and all there are; an optional slot counts its
 * absence. */
static void count(const struct use *u, unsigned *used, unsigned *all) {
  for (unsigned e = 0; u->row && e < u->row->nelement; e++) {
    const struct element *el = &u->row->element[e];
    if (!el->slot)
      continue;
    *all += el->nalt + (el->optional ? 1 : 0);
    *used += el->optional && u->seen[e][FORM_ALTS];
    for (unsigned a = 0; a < el->nalt; a++)
      *used += u->seen[e][a];
  }
}

static const char *judged_by(const struct use *u) {
  if (u->recorded)
    return "H200";
  return u->defined ? "definition" : "suites";
}

static void print_pattern(const char *s) {
  for (; *s; s++)
    if (*s == '|')
      fputs("\\|", stdout);
    else
      putchar(*s);
}

static void summary(void) {
  printf(
      "| family | forms | on an H200 | by definition | in the suites alone | modifiers in use |\n"
      "|---|---|---|---|---|---|\n");
  size_t n = 0;
  unsigned total[4] = {0}, total_used = 0, total_all = 0;
  for (const struct form_family *fam = form_families; fam->name; fam++) {
    unsigned forms = 0, by[3] = {0}, used = 0, all = 0;
    for (const struct form *f = fam->form; f->pattern; f++, n++) {
      const char *how = judged_by(&uses[n]);
      forms++;
      by[*how == 'H' ? 0 : *how == 'd' ? 1 : 2]++;
      count(&uses[n], &used, &all);
    }
    printf("| %s | %u | %u | %u | %u | %u of %u |\n", fam->name, forms, by[0], by[1], by[2], used,
           all);
    total[0] += forms;
    for (int i = 0; i < 3; i++)
      total[1 + i] += by[i];
    total_used += used;
    total_all += all;
  }
  printf("| all | %u | %u | %u | %u | %u of %u |\n\nRefused when a module is loaded, by name:\n\n"
         "| instruction | with | why |\n|---|---|---|\n",
         total[0], total[1], total[2], total[3], total_used, total_all);
  const struct refused *tables[] = {ptx_refused, units_refused};
  for (size_t t = 0; t < 2; t++)
    for (const struct refused *r = tables[t]; r->opcode; r++)
      printf("| `%s` | %s%s%s | %s |\n", r->opcode, r->part ? "`." : "", r->part ? r->part : "any",
             r->part ? "`" : "", r->reason);
}

static void forms(void) {
  size_t n = 0;
  for (const struct form_family *fam = form_families; fam->name; fam++) {
    printf("\n## %s\n\n| form | operands | target | tested | modifiers in use "
           "|\n|---|---|---|---|---|\n",
           fam->name);
    for (const struct form *f = fam->form; f->pattern; f++, n++) {
      unsigned used = 0, all = 0;
      count(&uses[n], &used, &all);
      printf("| `");
      print_pattern(f->pattern);
      printf("` | `");
      print_pattern(f->operands);
      printf("` | %s | %s | %u of %u |\n",
             f->flags & FORM_sm90a    ? "sm_90a"
             : f->flags & FORM_sm100f ? "sm_100f"
             : f->flags & FORM_sm100  ? "sm_100"
                                      : "any",
             judged_by(&uses[n]), used, all);
    }
  }
}

static void missing(void) {
  for (size_t n = 0; n < nuses; n++) {
    const struct use *u = &uses[n];
    if (!u->recorded && !u->defined) {
      printf("form      %s  %s\n", u->form->pattern, u->form->operands);
      continue;
    }
    for (unsigned e = 0; e < u->row->nelement; e++) {
      const struct element *el = &u->row->element[e];
      if (el->slot && el->optional && !u->seen[e][FORM_ALTS])
        printf("modifier  none of slot %u  %s\n", e, u->form->pattern);
      for (unsigned a = 0; el->slot && a < el->nalt; a++)
        if (!u->seen[e][a])
          printf("modifier  .%s  %.100s  %s\n", mod_text((enum mod)el->alt[a]), u->form->pattern,
                 u->form->operands);
    }
  }
}

int main(int argc, char **argv) {
  if (argc < 4) {
    fprintf(stderr, "form_table: summary|forms|missing RECORD KERNEL.ptx...\n");
    return 2;
  }
  record = read_file(argv[2]);
  collect();
  for (int i = 3; i < argc; i++)
    take(argv[i]);
  if (strcmp(argv[1], "summary") == 0)
    summary();
  else if (strcmp(argv[1], "forms") == 0)
    forms();
  else
    missing();
  return 0;
}
