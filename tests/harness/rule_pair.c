/* SPDX-License-Identifier: Apache-2.0
 *
 * Reading of rule pairs; see rule_pair.h.
 */
#include "harness/rule_pair.h"

#include "harness/kernel.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MARK "//!"

/* ---- words ------------------------------------------------------------------------- */

/* The next blank-separated word of *at, ended with a NUL; NULL: none is left. */
static char *word(char **at) {
  char *start = *at + strspn(*at, " \t");
  if (*start == '\0')
    return NULL;
  char *end = start + strcspn(start, " \t");
  *at = *end != '\0' ? end + 1 : end;
  *end = '\0';
  return start;
}

static bool number(const char *text, uint64_t *value) {
  char *end;
  errno = 0;
  *value = strtoull(text, &end, 0);
  if (*end == 'K') {
    *value <<= 10;
    end++;
  } else if (*end == 'M') {
    *value <<= 20;
    end++;
  }
  return errno == 0 && *text >= '0' && *text <= '9' && *end == '\0';
}

static bool small(const char *text, unsigned *value) {
  uint64_t v;
  if (!number(text, &v) || v > UINT32_MAX)
    return false;
  *value = (unsigned)v;
  return true;
}

/* "a,b,c" */
static bool list(const char *text, unsigned *values, unsigned *count) {
  char copy[64], *rest = NULL;
  if (strlen(text) >= sizeof copy)
    return false;
  strcpy(copy, text);
  *count = 0;
  for (char *s = strtok_r(copy, ",", &rest); s != NULL; s = strtok_r(NULL, ",", &rest)) {
    if (*count == RULE_DIMS || !small(s, &values[*count]))
      return false;
    ++*count;
  }
  return *count > 0;
}

static bool fill_of(const char *text, enum rule_fill *fill) {
  static const char *const names[] = {"zero", "none", "index"};
  for (unsigned i = 0; i < 3; i++)
    if (strcmp(text, names[i]) == 0) {
      *fill = (enum rule_fill)i;
      return true;
    }
  return false;
}

/* ---- the head ------------------------------------------------------------------------ */

/* One key=value of a step. */
static bool setting(struct rule_step *s, const char *key, const char *value) {
  unsigned count;
  const struct {
    const char *key;
    unsigned *value;
  } numbers[] = {{"grid", &s->grid},       {"block", &s->block},        {"cluster", &s->cluster},
                 {"shared", &s->shared},   {"stream", &s->stream},      {"device", &s->device},
                 {"swizzle", &s->swizzle}, {"bytes", &s->element_bytes}};
  for (size_t i = 0; i < sizeof numbers / sizeof *numbers; i++)
    if (strcmp(key, numbers[i].key) == 0)
      return small(value, numbers[i].value);
  if (strcmp(key, "fill") == 0)
    return fill_of(value, &s->fill);
  if (strcmp(key, "stride") == 0)
    return number(value, &s->stride);
  if (strcmp(key, "size") == 0)
    return list(value, s->elements, &s->rank);
  if (strcmp(key, "box") == 0)
    return list(value, s->box, &count) && count == s->rank;
  if (strcmp(key, "args") == 0 && strlen(value) < sizeof s->args) {
    strcpy(s->args, value);
    return true;
  }
  return false;
}

static bool step_settings(struct rule_step *s, char *rest, struct bwt_text *why) {
  for (char *w = word(&rest); w != NULL; w = word(&rest)) {
    char *equals = strchr(w, '=');
    if (strcmp(w, "pdl") == 0 || strcmp(w, "host") == 0 || strcmp(w, "mapped") == 0) {
      s->pdl |= *w == 'p';
      s->where = *w == 'h' ? RULE_host : *w == 'm' ? RULE_mapped : s->where;
      continue;
    }
    if (equals != NULL)
      *equals = '\0';
    if (equals == NULL || !setting(s, w, equals + 1)) {
      bwt_say(why, "cannot read %s%s%s", w, equals ? "=" : "", equals ? equals + 1 : "");
      return false;
    }
  }
  return true;
}

static bool add_step(struct rule_pair *p, enum rule_step_kind kind, char *rest,
                     struct bwt_text *why) {
  if (p->steps == RULE_STEPS) {
    bwt_say(why, "more than %d steps", RULE_STEPS);
    return false;
  }
  struct rule_step *s = &p->step[p->steps++];
  *s = (struct rule_step){.kind = kind, .grid = 1, .block = 32, .cluster = 1, .element_bytes = 1};
  char *name = word(&rest), *second = NULL;
  if (name != NULL && strlen(name) < sizeof s->name)
    strcpy(s->name, name);
  if (kind == RULE_memory || kind == RULE_multicast || kind == RULE_map)
    second = word(&rest);
  bool well = kind == RULE_wait || s->name[0] != '\0';
  if (kind == RULE_map && second != NULL && strlen(second) < sizeof s->args)
    strcpy(s->args, second);
  else if (kind == RULE_map)
    well = false;
  else if (kind == RULE_memory || kind == RULE_multicast)
    well = well && second != NULL && number(second, &s->bytes) && s->bytes > 0;
  if (!well) {
    bwt_say(why, "a name, or what comes after it, is missing or too long");
    return false;
  }
  return step_settings(s, rest, why);
}

/* key: value, after the mark. */
static bool head_line(struct rule_pair *p, char *text, struct bwt_text *why) {
  static const struct {
    const char *key;
    enum rule_step_kind kind;
  } kinds[] = {{"memory", RULE_memory}, {"multicast", RULE_multicast}, {"map", RULE_map},
               {"launch", RULE_launch}, {"free", RULE_free},           {"wait", RULE_wait}};
  char *colon = strchr(text, ':');
  if (colon == NULL) {
    bwt_say(why, "no \"key:\" after " MARK);
    return false;
  }
  *colon = '\0';
  char *rest = colon + 1, *key = word(&text), *value;
  for (size_t i = 0; key != NULL && i < sizeof kinds / sizeof *kinds; i++)
    if (strcmp(key, kinds[i].key) == 0)
      return add_step(p, kinds[i].kind, rest, why);
  value = word(&rest);
  if (key == NULL || value == NULL || word(&rest) != NULL) {
    bwt_say(why, "%s: one word must follow", key ? key : "?");
    return false;
  }
  if (strcmp(key, "rule") == 0 && strlen(value) < sizeof p->rule) {
    strcpy(p->rule, value);
    return true;
  }
  if (strcmp(key, "seeds") == 0 && strcmp(value, "some") == 0)
    return p->some_seeds = true;
  if (strcmp(key, "peers") == 0 && strcmp(value, "none") == 0)
    return p->strangers = true;
  if (strcmp(key, "devices") == 0 && small(value, &p->devices) && p->devices >= 1 &&
      p->devices <= 16)
    return true;
  bwt_say(why, "unknown key or value: %s: %s", key, value);
  return false;
}

/* ---- the program --------------------------------------------------------------------- */

static bool add_mark(unsigned *lines, unsigned *count, unsigned line) {
  if (*count == RULE_MARKS)
    return false;
  lines[(*count)++] = line;
  return true;
}

/* The clauses after the PTX of a line; *bad: what stands there in the bad twin. */
static bool clauses(struct rule_pair *p, char *text, unsigned line, const char **bad,
                    struct bwt_text *why) {
  while (text != NULL) {
    char *next = strstr(text, MARK);
    if (next != NULL) {
      *next = '\0';
      next += strlen(MARK);
    }
    text += strspn(text, " \t");
    if (strncmp(text, "bad:", 4) == 0) {
      *bad = text + 4;
    } else {
      char *rest = text, *w = word(&rest);
      bool ok = w != NULL && word(&rest) == NULL &&
                ((strcmp(w, "here") == 0 && add_mark(p->here, &p->heres, line)) ||
                 (strcmp(w, "other") == 0 && add_mark(p->other, &p->others, line)));
      if (!ok) {
        bwt_say(why, "after " MARK " must come \"bad: TEXT\", \"here\" or \"other\"");
        return false;
      }
    }
    text = next;
  }
  return true;
}

static void append(char *to, const char *line) {
  strcat(to, line);
  strcat(to, "\n");
}

static bool read_lines(struct rule_pair *p, char *text, unsigned *line, struct bwt_text *why) {
  bool head = true;
  unsigned changed = 0;
  *line = 0;
  for (char *next, *at = text; at != NULL; at = next) {
    next = strchr(at, '\n');
    if (next != NULL)
      *next++ = '\0';
    ++*line;
    char *mark = strstr(at, MARK), *target = strstr(at, ".target");
    if (target == at)
      strcpy(p->arch, strstr(at, "sm_90a") != NULL ? "sm_90" : "sm_100");
    head = head && strncmp(at, "//", 2) == 0;
    if (head) {
      if (mark == at && !head_line(p, at + strlen(MARK), why))
        return false;
      append(p->good, "");
      append(p->bad, "");
      continue;
    }
    const char *bad = NULL;
    if (mark != NULL) {
      *mark = '\0';
      if (!clauses(p, mark + strlen(MARK), *line, &bad, why))
        return false;
    }
    changed += bad != NULL;
    append(p->good, at);
    append(p->bad, bad != NULL ? bad : at);
  }
  if (changed == 1)
    return true;
  bwt_say(why, "%u lines have \"bad:\", must be one", changed);
  return false;
}

static bool complete(const struct rule_pair *p, struct bwt_text *why) {
  bool launches = false;
  for (unsigned i = 0; i < p->steps; i++)
    launches |= p->step[i].kind == RULE_launch;
  const char *missing = p->rule[0] == '\0'   ? "\"rule:\""
                        : p->arch[0] == '\0' ? ".target"
                        : p->heres == 0      ? "the mark \"here\""
                        : !launches          ? "\"launch:\""
                                             : NULL;
  if (missing != NULL)
    bwt_say(why, "%s is missing", missing);
  return missing == NULL;
}

bool bwt_rule_pair_read(struct rule_pair *p, const char *path, struct bwt_text *why) {
  *p = (struct rule_pair){.devices = 1};
  snprintf(p->path, sizeof p->path, "%s", path);
  const char *end = strrchr(path, '/'), *group = end != NULL ? end : path;
  while (group > path && group[-1] != '/')
    group--;
  size_t length = end != NULL ? (size_t)(end - group) : 0;
  if (length == 0 || length >= sizeof p->group) {
    bwt_say(why, "%s: the folder must be a group of checks", path);
    return false;
  }
  memcpy(p->group, group, length);
  char *text = bwt_read_text(path);
  if (text == NULL) {
    bwt_say(why, "cannot read %s", path);
    return false;
  }
  size_t size = strlen(text) + 2;
  p->good = calloc(1, size);
  p->bad = calloc(1, size);
  unsigned line = 0;
  bool ok = p->good != NULL && p->bad != NULL && read_lines(p, text, &line, why);
  if (ok)
    ok = complete(p, why);
  if (!ok)
    bwt_say(why, " (%s:%u)", path, line);
  free(text);
  return ok;
}

bool bwt_rule_pair_expects(const struct rule_pair *p, const char *rule) {
  size_t n = strlen(rule);
  for (const char *at = p->rule; at != NULL; at = strchr(at, '|')) {
    at += *at == '|';
    if (strncmp(at, rule, n) == 0 && (at[n] == '|' || at[n] == '\0'))
      return n > 0;
  }
  return false;
}

void bwt_rule_pair_free(struct rule_pair *p) {
  free(p->good);
  free(p->bad);
}
