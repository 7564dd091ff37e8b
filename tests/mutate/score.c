/* SPDX-License-Identifier: Apache-2.0
 *
 * Prints what became of the mutants; see score.h.
 */
#include "mutate/score.h"

#include "harness/kernel.h"

#include <fnmatch.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_EQUIVALENTS = 256, MOST_RULES = 64, MOST_TEMPLATES = 8 };

/* ---- equivalent mutants ------------------------------------------------------------------ */

struct equivalent {
  const char *kernel, *step, *change, *instruction, *rule;
};
static struct equivalent equivalents[MOST_EQUIVALENTS];
static size_t equivalent_count;

void bwm_equivalents_read(const char *path) {
  char *text = bwt_read_text(path), *save = NULL; /* kept: the fields point into it */
  if (text == NULL) {
    (void)fprintf(stderr, "mutate: cannot read %s\n", path);
    exit(2);
  }
  for (char *line = strtok_r(text, "\n", &save); line != NULL; line = strtok_r(NULL, "\n", &save)) {
    char *field[5], *rest = NULL;
    int count = 0;
    if (*line == '#')
      continue;
    for (char *f = strtok_r(line, "\t", &rest); f != NULL && count < 5;
         f = strtok_r(NULL, "\t", &rest))
      field[count++] = f;
    if (count != 5 || equivalent_count == MOST_EQUIVALENTS) {
      (void)fprintf(stderr, "mutate: %s: %s: must have 5 fields\n", path, line);
      exit(2);
    }
    equivalents[equivalent_count++] =
        (struct equivalent){field[0], field[1], field[2], field[3], field[4]};
  }
}

/* [ ] in an instruction are no sets of characters. */
static bool matches(const char *glob, const char *text) {
  char plain[400];
  size_t used = 0;
  for (; *glob != '\0' && used + 3 < sizeof plain; glob++) {
    if (*glob == '[' || *glob == ']')
      plain[used++] = '\\';
    plain[used++] = *glob;
  }
  plain[used] = '\0';
  return fnmatch(plain, text, 0) == 0;
}

const char *bwm_equivalent(const struct bwm_kernel *k, const struct bwm_mutant *m) {
  for (size_t i = 0; i < equivalent_count; i++) {
    const struct equivalent *e = &equivalents[i];
    if (matches(e->kernel, k->name) && matches(e->step, m->step) && matches(e->change, m->change) &&
        matches(e->instruction, m->instruction))
      return e->rule;
  }
  return NULL;
}

/* ---- printing -------------------------------------------------------------------------------- */

void bwm_print_survivor(const struct bwm_result *r) {
  const struct bwm_mutant *m = r->mutant;
  const char *build = getenv("BUILD");
  char place[200];
  if (!bwm_template_line(r->kernel, m->line, place, sizeof place))
    snprintf(place, sizeof place, "(template line unknown)");
  printf("%s: %s: %s\n    %s/ptx/%s.ptx:%u, step \"%s\"\n    %s\n",
         r->verdict.outcome == BWM_NO_VERDICT ? "no verdict" : "survived", place, m->change,
         build != NULL ? build : "build", r->kernel->name, m->line, m->step, m->instruction);
  if (r->verdict.outcome == BWM_NO_VERDICT)
    printf("    case \"%s\": %s\n", bwm_case_name(r->kernel, r->next), r->verdict.why);
}

static unsigned killed(const struct bwm_result *r) {
  return r->verdict.outcome == BWM_KILLED;
}

static void print_rules(const struct bwm_result *results, size_t count) {
  struct {
    const char *by;
    unsigned count;
  } rules[MOST_RULES];
  size_t used = 0;
  for (size_t i = 0; i < count; i++) {
    if (!killed(&results[i]))
      continue;
    size_t at = 0;
    while (at < used && strcmp(rules[at].by, results[i].verdict.by) != 0)
      at++;
    if (at == MOST_RULES)
      continue;
    if (at == used) {
      rules[used].by = results[i].verdict.by;
      rules[used++].count = 0;
    }
    rules[at].count++;
  }
  printf("killed by\n");
  for (bool any = true; any;) {
    size_t best = 0;
    any = false;
    for (size_t i = 0; i < used; i++)
      if (rules[i].count > 0 && (!any || rules[i].count > rules[best].count))
        best = i, any = true;
    if (any)
      printf("  %6u  %s\n", rules[best].count, rules[best].by);
    if (any)
      rules[best].count = 0;
  }
}

void bwm_print_score(const struct bwm_result *results, size_t count) {
  const char *templates[MOST_TEMPLATES];
  size_t used = 0;
  for (size_t i = 0; i < count; i++) {
    const char *name = bwm_template(results[i].kernel);
    size_t at = 0;
    while (at < used && strcmp(templates[at], name) != 0)
      at++;
    if (at == used && used < MOST_TEMPLATES)
      templates[used++] = name;
  }
  print_rules(results, count);
  printf("killed of all, by template and kind (+ listed as equivalent)\n  %-14s", "");
  for (int kind = 0; kind <= BWM_KIND_COUNT; kind++)
    printf(" %12s", kind < BWM_KIND_COUNT ? bwm_kind_name((enum bwm_kind)kind) : "all");
  for (size_t t = 0; t <= used; t++) {
    printf("\n  %-14s", t < used ? templates[t] : "all");
    for (int kind = 0; kind <= BWM_KIND_COUNT; kind++) {
      unsigned all = 0, dead = 0, equal = 0;
      for (size_t i = 0; i < count; i++) {
        const struct bwm_result *r = &results[i];
        if ((t < used && strcmp(bwm_template(r->kernel), templates[t]) != 0) ||
            (kind < BWM_KIND_COUNT && (int)r->mutant->kind != kind))
          continue;
        all++;
        dead += killed(r);
        equal += !killed(r) && r->equivalent != NULL;
      }
      char cell[40];
      if (equal > 0)
        snprintf(cell, sizeof cell, "%u+%u/%u", dead, equal, all);
      else
        snprintf(cell, sizeof cell, "%u/%u", dead, all);
      printf(" %12s", all ? cell : "-");
    }
  }
  printf("\n");
}
