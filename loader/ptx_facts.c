/* SPDX-License-Identifier: Apache-2.0
 *
 * Reads a kernel's facts from its PTX.  Not a PTX parser: the little that is needed
 * of the code is found by its directives, after the comments have been blanked.
 */
#include "ptx_facts.h"
#include "error.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char MARK[] = "// @barewarp ";

/* ---- the fact lines ------------------------------------------------------------ */

typedef struct parser {
  const char *path;
  size_t line;
  bwi_ptx_facts *facts;
  bool shared_dynamic, waits; /* numbers whose 0 is a value */
} parser;

static bw_status fail_line(const parser *p, const char *what, const char *detail) {
  return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s:%zu: %s%s", p->path, p->line, what, detail);
}

static bool parse_u32(const char *text, uint32_t *value) {
  if (!isdigit((unsigned char)*text))
    return false;
  char *end;
  errno = 0;
  unsigned long long v = strtoull(text, &end, 10);
  if (errno != 0 || *end != '\0' || v > UINT32_MAX)
    return false;
  *value = (uint32_t)v;
  return true;
}

static bw_status set_string(const parser *p, const char **field, const char *name,
                            const char *value) {
  if (*field)
    return fail_line(p, "given twice: ", name);
  *field = value;
  return BW_OK;
}

static bw_status set_attribute(const parser *p, const char *name, uint32_t value) {
  bwi_ptx_facts *f = p->facts;
  if (*name == '\0')
    return fail_line(p, "an attribute without a name", "");
  for (size_t i = 0; i < f->attribute_count; i++)
    if (strcmp(f->attributes[i].name, name) == 0)
      return fail_line(p, "given twice: attr.", name);
  if (f->attribute_count == BWI_MAX_ATTRIBUTES)
    return fail_line(p, "too many attributes at attr.", name);
  f->attributes[f->attribute_count++] = (bwi_attribute){name, value};
  return BW_OK;
}

static bw_status set_number(parser *p, const char *name, uint32_t value) {
  bw_kernel_info *k = &p->facts->info;
  bool twice;
  if (strcmp(name, "threads") == 0) {
    twice = k->threads != 0;
    k->threads = value;
  } else if (strcmp(name, "cluster") == 0) {
    twice = k->cluster != 0;
    k->cluster = value;
  } else if (strcmp(name, "shared_dynamic") == 0) {
    twice = p->shared_dynamic;
    p->shared_dynamic = true;
    k->shared_dynamic = value;
  } else if (strcmp(name, "waits") == 0) {
    if (value > 1)
      return fail_line(p, "waits must be 0 or 1", "");
    twice = p->waits;
    p->waits = true;
    k->waits = value == 1;
  } else {
    return fail_line(p, "unknown fact ", name);
  }
  return twice ? fail_line(p, "given twice: ", name) : BW_OK;
}

static bw_status set_fact(parser *p, const char *name, const char *value) {
  bw_kernel_info *k = &p->facts->info;
  if (strcmp(name, "family") == 0)
    return set_string(p, &k->family, name, value);
  if (strcmp(name, "arch") == 0)
    return set_string(p, &k->arch, name, value);
  if (strcmp(name, "key") == 0)
    return set_string(p, &k->key, name, value);
  if (strcmp(name, "symbol") == 0)
    return set_string(p, &k->symbol, name, value);
  uint32_t number;
  if (!parse_u32(value, &number))
    return fail_line(p, "not a decimal number of 32 bits: ", value);
  if (strncmp(name, "attr.", 5) == 0)
    return set_attribute(p, name + 5, number);
  return set_number(p, name, number);
}

/* The next word of a line; *rest moves behind it.  NULL at the end. */
static char *next_word(char **rest) {
  char *word = *rest + strspn(*rest, " \t\r");
  if (*word == '\0')
    return NULL;
  char *end = word + strcspn(word, " \t\r");
  *rest = *end ? end + 1 : end;
  *end = '\0';
  return word;
}

/* Reads all fact lines of p->facts->strings, which it cuts into words. */
static bw_status read_lines(parser *p) {
  char *next = p->facts->strings;
  while (next) {
    char *line = next + strspn(next, " \t");
    char *end = strchr(line, '\n');
    next = end ? end + 1 : NULL;
    if (end)
      *end = '\0';
    p->line++;
    if (strncmp(line, MARK, sizeof MARK - 1) != 0)
      continue;
    char *rest = line + sizeof MARK - 1;
    const char *name = next_word(&rest);
    const char *value = name ? next_word(&rest) : NULL;
    if (!value)
      return fail_line(p, "a fact needs a name and a value", "");
    bw_status status = set_fact(p, name, value);
    if (status != BW_OK)
      return status;
  }
  return BW_OK;
}

static bw_status check_complete(const parser *p) {
  const bw_kernel_info *k = &p->facts->info;
  const char *missing = !k->family           ? "family"
                        : !k->arch           ? "arch"
                        : !k->key            ? "key"
                        : !k->symbol         ? "symbol"
                        : !k->threads        ? "threads"
                        : !k->cluster        ? "cluster"
                        : !p->shared_dynamic ? "shared_dynamic"
                        : !p->waits          ? "waits"
                                             : NULL;
  if (missing)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: no line '%s%s ...'", p->path, MARK, missing);
  return BW_OK;
}

/* ---- the code ---------------------------------------------------------------------- */

/* Overwrites comments with blanks, newlines kept. */
static void blank_comments(char *s) {
  while (*s) {
    if (s[0] == '/' && s[1] == '/') {
      while (*s && *s != '\n')
        *s++ = ' ';
    } else if (s[0] == '/' && s[1] == '*') {
      s[0] = s[1] = ' ';
      for (s += 2; *s && !(s[0] == '*' && s[1] == '/'); s++)
        if (*s != '\n')
          *s = ' ';
      if (*s)
        s[0] = s[1] = ' ';
    } else {
      s++;
    }
  }
}

static bool is_name_char(char c) {
  return isalnum((unsigned char)c) || c == '_' || c == '$' || c == '.' || c == '%';
}

/* Where `word` stands as a whole word at or after s, or NULL; the result is behind it. */
static const char *find_word(const char *s, const char *start, const char *word) {
  size_t length = strlen(word);
  for (const char *at = s; (at = strstr(at, word)) != NULL; at += length)
    if ((at == start || !is_name_char(at[-1])) && !is_name_char(at[length]))
      return at + length;
  return NULL;
}

static const char *skip_space(const char *s) {
  return s + strspn(s, " \t\r\n");
}

/* Whether the name at s is exactly `name`. */
static bool name_is(const char *s, const char *name) {
  size_t length = strlen(name);
  s = skip_space(s);
  return strncmp(s, name, length) == 0 && !is_name_char(s[length]);
}

/* Bytes of a fundamental type such as ".u32", 0 if it is none. */
static uint32_t type_size(const char *word) {
  static const char *const bits[] = {"8", "16", "32", "64"};
  if (word[0] != '.' || !strchr("busf", word[1]) || word[1] == '\0')
    return 0;
  for (uint32_t i = 0; i < 4; i++)
    if (strcmp(word + 2, bits[i]) == 0)
      return 1u << i;
  return 0;
}

static uint32_t round_up(uint32_t value, uint32_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

/* Adds one parameter, ".param [.align N] TYPE [...] NAME[[COUNT]]", to *bytes. */
static bool add_parameter(char *text, uint32_t *bytes) {
  uint32_t size = 0, alignment = 0, count = 1;
  char *bracket = strchr(text, '[');
  if (bracket) {
    *bracket++ = '\0';
    char *close = strchr(bracket, ']');
    if (!close)
      return false;
    *close = '\0';
    char *rest = bracket;
    const char *number = next_word(&rest);
    if (!number || !parse_u32(number, &count))
      return false;
  }
  for (char *c = text; *c; c++)
    if (*c == '\n')
      *c = ' ';
  char *rest = text;
  bool param = false;
  for (char *word; (word = next_word(&rest)) != NULL;) {
    if (strcmp(word, ".param") == 0) {
      param = true;
    } else if (strcmp(word, ".align") == 0 && size == 0) { /* a later one is of a .ptr */
      const char *number = next_word(&rest);
      if (!number || !parse_u32(number, &alignment))
        return false;
    } else if (size == 0) {
      size = type_size(word);
    }
  }
  if (alignment == 0)
    alignment = size;
  if (!param || size == 0 || alignment > 4096 || count > 65536)
    return false;
  *bytes = round_up(*bytes, alignment) + size * count;
  return *bytes <= 65536;
}

/* The size of the parameter list that starts at s. */
static bool parameter_bytes(const char *s, uint32_t *bytes) {
  *bytes = 0;
  s = skip_space(s);
  if (*s != '(')
    return true; /* no parameters */
  const char *end = strchr(++s, ')');
  if (!end)
    return false;
  if (skip_space(s) == end)
    return true;
  while (s < end) {
    size_t length = strcspn(s, ",)");
    char *one = strndup(s, length);
    bool good = one && add_parameter(one, bytes);
    free(one);
    if (!good)
      return false;
    s += length + 1;
  }
  return true;
}

/* A directive's number, such as .reqntid 512: absent or equal to `fact`. */
static bw_status check_directive(const char *path, const char *code, const char *directive,
                                 uint32_t fact) {
  const char *at = find_word(code, code, directive);
  if (!at)
    return BW_OK;
  unsigned long value = strtoul(skip_space(at), NULL, 10);
  if (value == fact)
    return BW_OK;
  return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: %s is %lu, its fact line says %" PRIu32, path,
                  directive, value, fact);
}

static bw_status check_code(const char *path, const char *code, bwi_ptx_facts *facts) {
  const bw_kernel_info *k = &facts->info;
  const char *entry = find_word(code, code, ".entry");
  if (!entry || find_word(entry, code, ".entry"))
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: must have exactly one .entry", path);
  if (!name_is(entry, k->symbol))
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: the .entry is not '%s'", path, k->symbol);
  if (!parameter_bytes(skip_space(entry) + strlen(k->symbol), &facts->parameter_bytes))
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: cannot read the parameters of '%s'", path,
                    k->symbol);
  const char *target = find_word(code, code, ".target");
  if (!target || !name_is(target, k->arch))
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: the .target is not '%s'", path, k->arch);
  bool waits = find_word(code, code, "griddepcontrol.wait") != NULL;
  if (waits != k->waits)
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT,
                    "%s: it %s griddepcontrol.wait, its fact line says waits %d", path,
                    waits ? "executes" : "does not execute", k->waits);
  bw_status status = check_directive(path, code, ".reqntid", k->threads);
  if (status == BW_OK)
    status = check_directive(path, code, ".reqnctapercluster", k->cluster);
  return status;
}

/* ---- both -------------------------------------------------------------------------- */

void bwi_ptx_facts_free(bwi_ptx_facts *facts) {
  free(facts->strings);
  *facts = (bwi_ptx_facts){0};
}

bw_status bwi_ptx_facts_read(const char *path, const char *text, size_t size,
                             bwi_ptx_facts *facts) {
  *facts = (bwi_ptx_facts){0};
  if (memchr(text, '\0', size))
    return bwi_fail(BW_ERROR_INVALID_ARGUMENT, "%s: not a text: it holds a NUL", path);
  facts->strings = strndup(text, size);
  char *code = strndup(text, size);
  if (!facts->strings || !code) {
    free(code);
    bwi_ptx_facts_free(facts);
    return bwi_fail_memory(path);
  }
  parser p = {.path = path, .facts = facts};
  bw_status status = read_lines(&p);
  if (status == BW_OK)
    status = check_complete(&p);
  if (status == BW_OK) {
    blank_comments(code);
    status = check_code(path, code, facts);
  }
  free(code);
  if (status != BW_OK)
    bwi_ptx_facts_free(facts);
  return status;
}
