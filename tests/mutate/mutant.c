/* SPDX-License-Identifier: Apache-2.0
 *
 * Finds what can be broken in a PTX text; see mutant.h.
 */
#include "mutate/mutant.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_PARTS = 16, BYTES_UNIT = 16, WARP = 32 };

const char *bwm_kind_name(enum bwm_kind kind) {
  static const char *const names[] = {
#define X(name, text) #name,
      BWM_KINDS(X)
#undef X
  };
  return names[kind];
}

/* A statement: [guard] opcode operands; */
struct statement {
  uint32_t line;
  char guard[40]; /* "@here " */
  char opcode[120];
  char operands[200];
  char *part[MOST_PARTS]; /* of the opcode, between its dots */
  char parts[120];
  int count;
};

struct list {
  struct bwm_mutant *at;
  size_t count, room;
  bool failed;
  char step[96];
};

/* The first `what` in text[0..length-1]; NULL: none. */
const char *bwm_find(const char *text, size_t length, const char *what) {
  size_t size = strlen(what);
  for (; length >= size; text++, length--)
    if (memcmp(text, what, size) == 0)
      return text;
  return NULL;
}

/* ---- reading ------------------------------------------------------------------------- */

/* The line without comment and blanks around it. */
static void strip(const char *from, size_t length, char *to, size_t size) {
  const char *comment = bwm_find(from, length, "//");
  if (comment != NULL)
    length = (size_t)(comment - from);
  while (length > 0 && isspace((unsigned char)*from))
    from++, length--;
  while (length > 0 && isspace((unsigned char)from[length - 1]))
    length--;
  snprintf(to, size, "%.*s", (int)length, from);
}

static bool read_statement(const char *code, struct statement *s) {
  size_t length = strlen(code);
  if (length < 2 || code[length - 1] != ';' || code[0] == '.')
    return false;
  s->guard[0] = '\0';
  if (code[0] == '@') {
    size_t guard = strcspn(code, " ");
    snprintf(s->guard, sizeof s->guard, "%.*s ", (int)guard, code);
    code += guard + strspn(code + guard, " ");
  }
  size_t opcode = strcspn(code, " ;");
  snprintf(s->opcode, sizeof s->opcode, "%.*s", (int)opcode, code);
  code += opcode + strspn(code + opcode, " ");
  snprintf(s->operands, sizeof s->operands, "%.*s", (int)strcspn(code, ";"), code);
  snprintf(s->parts, sizeof s->parts, "%s", s->opcode);
  s->count = 0;
  char *save = NULL;
  for (char *p = strtok_r(s->parts, ".", &save); p != NULL && s->count < MOST_PARTS;
       p = strtok_r(NULL, ".", &save))
    s->part[s->count++] = p;
  return s->count > 0;
}

static bool starts(const struct statement *s, const char *opcode) {
  size_t length = strlen(opcode);
  return strncmp(s->opcode, opcode, length) == 0 &&
         (s->opcode[length] == '\0' || s->opcode[length] == '.');
}

static bool any_of(const struct statement *s, const char *const *opcodes) {
  for (; *opcodes != NULL; opcodes++)
    if (starts(s, *opcodes))
      return true;
  return false;
}

static int find_part(const struct statement *s, const char *name) {
  for (int i = 0; i < s->count; i++)
    if (strcmp(s->part[i], name) == 0)
      return i;
  return -1;
}

/* Where the last operand begins. */
static size_t last_operand(const struct statement *s) {
  const char *comma = strrchr(s->operands, ',');
  if (comma == NULL)
    return 0;
  size_t at = (size_t)(comma - s->operands) + 1;
  return at + strspn(s->operands + at, " ");
}

/* ---- writing ------------------------------------------------------------------------- */

static struct bwm_mutant *add(struct list *l, const struct statement *s, enum bwm_kind kind) {
  static struct bwm_mutant nowhere;
  if (l->count == l->room) {
    size_t room = l->room ? 2 * l->room : 128;
    struct bwm_mutant *more = realloc(l->at, room * sizeof *more);
    if (more == NULL) {
      l->failed = true;
      return &nowhere;
    }
    l->at = more;
    l->room = room;
  }
  struct bwm_mutant *m = &l->at[l->count++];
  memset(m, 0, sizeof *m);
  m->line = s->line;
  m->kind = kind;
  snprintf(m->instruction, sizeof m->instruction, "%s%s%s%s;", s->guard, s->opcode,
           s->operands[0] ? " " : "", s->operands);
  snprintf(m->step, sizeof m->step, "%s", l->step);
  return m;
}

/* Part i of the opcode replaced; to = "": left out. */
static void change_part(struct list *l, const struct statement *s, enum bwm_kind kind, int i,
                        const char *to) {
  struct bwm_mutant *m = add(l, s, kind);
  char opcode[160] = "";
  for (int k = 0; k < s->count; k++) {
    const char *part = k == i ? to : s->part[k];
    if (*part == '\0')
      continue;
    size_t used = strlen(opcode);
    snprintf(opcode + used, sizeof opcode - used, "%s%s", used ? "." : "", part);
  }
  snprintf(m->change, sizeof m->change, "%s -> %s", s->part[i], *to ? to : "weak");
  snprintf(m->replacement, sizeof m->replacement, "%s%s %s;", s->guard, opcode, s->operands);
}

/* The last operand, a number or a register, changed by `step`; step 0: its lowest bit is
 * flipped.  Registers are changed in a copy. */
static void change_number(struct list *l, const struct statement *s, enum bwm_kind kind,
                          long step) {
  size_t at = last_operand(s);
  const char *operand = s->operands + at;
  struct bwm_mutant *m = add(l, s, kind);
  if (isdigit((unsigned char)*operand)) {
    long value = strtol(operand, NULL, 0), to = step ? value + step : value ^ 1;
    snprintf(m->change, sizeof m->change, "%ld -> %ld", value, to);
    snprintf(m->replacement, sizeof m->replacement, "%s%s %.*s%ld;", s->guard, s->opcode, (int)at,
             s->operands, to);
    return;
  }
  snprintf(m->change, sizeof m->change, step ? "%.40s %+ld" : "%.40s ^ 1", operand, step);
  snprintf(m->replacement, sizeof m->replacement,
           "{ .reg .b32 mutated; %s.b32 mutated, %s, %ld; %s%s %.*smutated; }",
           step ? "add" : "xor", operand, step ? step : 1, s->guard, s->opcode, (int)at,
           s->operands);
  if (step)
    memcpy(strstr(m->replacement, "add.b32"), "add.u32", 7);
}

static bool least_number(const struct statement *s, long least) {
  const char *operand = s->operands + last_operand(s);
  return !isdigit((unsigned char)*operand) || strtol(operand, NULL, 0) >= least;
}

/* ---- what can be broken ---------------------------------------------------------------- */

static void delete(struct list *l, const struct statement *s) {
  static const char *const opcodes[] = {"mbarrier",
                                        "fence",
                                        "membar",
                                        "bar",
                                        "barrier",
                                        "griddepcontrol",
                                        "tcgen05.wait::ld",
                                        "tcgen05.wait::st",
                                        "tcgen05.fence::before_thread_sync",
                                        "tcgen05.fence::after_thread_sync",
                                        "tcgen05.commit",
                                        "tcgen05.dealloc",
                                        "tcgen05.relinquish_alloc_permit",
                                        "cp.async.commit_group",
                                        "cp.async.wait_group",
                                        "cp.async.wait_all",
                                        "cp.async.mbarrier",
                                        "cp.async.bulk.commit_group",
                                        "cp.async.bulk.wait_group",
                                        "wgmma.fence",
                                        "wgmma.commit_group",
                                        "wgmma.wait_group",
                                        NULL};
  if (!any_of(s, opcodes))
    return;
  struct bwm_mutant *m = add(l, s, BWM_delete);
  snprintf(m->change, sizeof m->change, "left out");
  if (starts(s, "mbarrier.try_wait") || starts(s, "mbarrier.test_wait")) /* leaves its predicate */
    snprintf(m->replacement, sizeof m->replacement, "%ssetp.eq.u32 %.*s, 0, 0;", s->guard,
             (int)strcspn(s->operands, ","), s->operands);
}

static const char *const ordered[] = {"ld",       "st",    "atom",   "red", "multimem",
                                      "mbarrier", "fence", "membar", NULL};

/* Fences that PTX has at one scope only. */
static bool fixed_scope(const struct statement *s) {
  return starts(s, "fence.mbarrier_init") || strstr(s->opcode, ".sync_restrict::") != NULL;
}

static void weaken_scope(struct list *l, const struct statement *s) {
  static const char *const weaker[][2] = {{"sys", "gpu"}, {"gpu", "cta"}, {"cluster", "cta"}};
  if (!any_of(s, ordered) || fixed_scope(s))
    return;
  for (size_t i = 0; i < sizeof weaker / sizeof *weaker; i++) {
    int at = find_part(s, weaker[i][0]);
    if (at > 0)
      change_part(l, s, BWM_scope, at, weaker[i][1]);
  }
}

/* relaxed to weak: the scope goes, too. */
static void weaken_relaxed(struct list *l, const struct statement *s, int at) {
  struct statement weak = *s;
  if (starts(s, "multimem"))
    snprintf(weak.opcode, sizeof weak.opcode, "multimem.%s.weak", s->part[1]);
  else
    snprintf(weak.opcode, sizeof weak.opcode, "%s", s->part[0]);
  for (int i = at + 2; i < s->count; i++) { /* past ".relaxed.scope" */
    size_t used = strlen(weak.opcode);
    snprintf(weak.opcode + used, sizeof weak.opcode - used, ".%s", s->part[i]);
  }
  struct bwm_mutant *m = add(l, s, BWM_semantics);
  snprintf(m->change, sizeof m->change, "relaxed.%s -> weak", s->part[at + 1]);
  snprintf(m->replacement, sizeof m->replacement, "%s%s %s;", s->guard, weak.opcode, s->operands);
}

/* Of an mbarrier operation that names no semantics: release or acquire at CTA scope. */
static void weaken_default(struct list *l, const struct statement *s) {
  int space = find_part(s, "shared::cta");
  bool wait = starts(s, "mbarrier.try_wait") || starts(s, "mbarrier.test_wait");
  /* An arrival that only announces bytes has nothing to release. */
  bool arrival = starts(s, "mbarrier.arrive") && find_part(s, "expect_tx") < 0;
  if (space < 0 || !(wait || arrival) || find_part(s, "acquire") > 0 ||
      find_part(s, "release") > 0 || find_part(s, "relaxed") > 0)
    return;
  change_part(l, s, BWM_semantics, space, "relaxed.cta.shared::cta");
  struct bwm_mutant *m = &l->at[l->count - 1];
  snprintf(m->change, sizeof m->change, "%s -> relaxed", wait ? "acquire" : "release");
}

static void weaken_semantics(struct list *l, const struct statement *s) {
  bool cluster_arrive = starts(s, "barrier.cluster.arrive");
  if (!any_of(s, ordered) && !cluster_arrive)
    return;
  if (starts(s, "fence.mbarrier_init") || starts(s, "fence.proxy"))
    return; /* one form only */
  bool fence = starts(s, "fence");
  int at = find_part(s, "acq_rel");
  if (at > 0) {
    change_part(l, s, BWM_semantics, at, "acquire");
    change_part(l, s, BWM_semantics, at, "release");
    if (!fence)
      change_part(l, s, BWM_semantics, at, "relaxed");
  }
  for (int i = 0; i < 2 && !fence; i++)
    if ((at = find_part(s, i ? "acquire" : "release")) > 0)
      change_part(l, s, BWM_semantics, at, "relaxed");
  at = find_part(s, "relaxed");
  if (at > 0 && at + 1 < s->count &&
      (starts(s, "ld") || starts(s, "st") || starts(s, "multimem.st")))
    weaken_relaxed(l, s, at);
  weaken_default(l, s);
}

static void count_arrivals(struct list *l, const struct statement *s) {
  if (starts(s, "mbarrier.init")) {
    change_number(l, s, BWM_arrivals, 1);
    if (least_number(s, 2))
      change_number(l, s, BWM_arrivals, -1);
  } else if (starts(s, "mbarrier.arrive") && find_part(s, "expect_tx") < 0) {
    struct statement counted = *s;
    if (s->operands[strcspn(s->operands, "]")] == ']' && strstr(s->operands, "],") == NULL) {
      struct bwm_mutant *m = add(l, s, BWM_arrivals);
      snprintf(m->change, sizeof m->change, "1 -> 2");
      snprintf(m->replacement, sizeof m->replacement, "%s%s %s, 2;", s->guard, s->opcode,
               s->operands);
    } else {
      change_number(l, &counted, BWM_arrivals, 1);
    }
  } else if ((starts(s, "bar.sync") || starts(s, "bar.arrive") || starts(s, "barrier.sync") ||
              starts(s, "barrier.arrive") || starts(s, "barrier.cta")) &&
             strchr(s->operands, ',') != NULL) {
    change_number(l, s, BWM_arrivals, WARP);
    if (least_number(s, 2L * WARP))
      change_number(l, s, BWM_arrivals, -WARP);
  } else if (find_part(s, "wait_group") > 0) {
    change_number(l, s, BWM_arrivals, 1);
  }
}

static void count_bytes(struct list *l, const struct statement *s) {
  if (!starts(s, "mbarrier") || find_part(s, "expect_tx") < 0)
    return;
  change_number(l, s, BWM_bytes, BYTES_UNIT);
  change_number(l, s, BWM_bytes, -BYTES_UNIT);
}

static void flip_parity(struct list *l, const struct statement *s) {
  if (starts(s, "mbarrier") && find_part(s, "parity") > 0)
    change_number(l, s, BWM_parity, 0);
}

/* Names of ptx/lib/mailbox.m4 and lamport_copy. */
static void change_generation(struct list *l, const struct statement *s) {
  if (strncmp(s->operands, "generation, ", 12) == 0 && starts(s, "and")) {
    change_number(l, s, BWM_generation, -1); /* one generation */
    change_number(l, s, BWM_generation, 2);  /* four */
  }
  if (strncmp(s->operands, "step, step, ", 12) == 0 && starts(s, "add")) {
    change_number(l, s, BWM_generation, -1); /* the count stands still */
    change_number(l, s, BWM_generation, 1);  /* or leaves one out */
  }
}

bool bwm_mutants(const char *ptx, struct bwm_mutant **list, size_t *count) {
  struct list l = {0};
  uint32_t line = 0;
  for (const char *at = ptx, *next; *at != '\0'; at = next) {
    size_t length = strcspn(at, "\n");
    next = at + length + (at[length] == '\n');
    line++;
    char code[400];
    struct statement s;
    const char *heading = bwm_find(at, length, "// ---- ");
    if (heading != NULL) {
      strip(heading + 8, (size_t)(at + length - heading) - 8, l.step, sizeof l.step);
      size_t end = strlen(l.step);
      while (end > 0 && strchr(" -", l.step[end - 1]) != NULL)
        l.step[--end] = '\0';
    }
    strip(at, length, code, sizeof code);
    if (!read_statement(code, &s))
      continue;
    s.line = line;
    delete (&l, &s);
    weaken_scope(&l, &s);
    weaken_semantics(&l, &s);
    count_arrivals(&l, &s);
    count_bytes(&l, &s);
    flip_parity(&l, &s);
    change_generation(&l, &s);
  }
  *list = l.at;
  *count = l.count;
  return !l.failed;
}

char *bwm_apply(const char *ptx, const struct bwm_mutant *m) {
  const char *at = ptx;
  for (uint32_t line = 1; line < m->line; line++)
    at = strchr(at, '\n') + 1;
  size_t before = (size_t)(at - ptx), length = strlen(m->replacement);
  const char *rest = at + strcspn(at, "\n");
  char *text = malloc(before + length + strlen(rest) + 1);
  if (text == NULL)
    return NULL;
  memcpy(text, ptx, before);
  memcpy(text + before, m->replacement, length);
  strcpy(text + before + length, rest);
  return text;
}
