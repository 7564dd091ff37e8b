/* SPDX-License-Identifier: Apache-2.0
 *
 * The //@ lines of a conformance kernel; see kernel_file.h.
 */
#include "conformance/kernel_file.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static char problem[512];

static const char *wrong(const char *path, const char *line) {
  snprintf(problem, sizeof problem, "%s: cannot read \"%.200s\"", path, line);
  return problem;
}

void *kernel_grow(void *old, size_t size) {
  void *grown = realloc(old, size);
  if (!grown)
    abort();
  return grown;
}

static char *read_file(const char *path, size_t *size) {
  FILE *f = fopen(path, "rb");
  if (!f)
    return NULL;
  char *text = NULL;
  size_t n = 0, room = 0, got;
  do {
    if (room - n < 65536)
      text = kernel_grow(text, (room += 131072) + 1);
    got = fread(text + n, 1, room - n, f);
    n += got;
  } while (got > 0);
  fclose(f);
  text[n] = '\0';
  *size = n;
  return text;
}

/* "8" or "2,3,1": up to three sizes, the others 1. */
static void sizes(const char *s, unsigned v[3]) {
  v[0] = v[1] = v[2] = 1;
  sscanf(s, "%u,%u,%u", &v[0], &v[1], &v[2]);
}

static void numbers(const char *s, uint64_t *to, unsigned most) {
  for (unsigned i = 0; i < most && *s; i++) {
    char *end;
    to[i] = strtoull(s, &end, 0);
    s = *end == ',' ? end + 1 : "";
  }
}

/* at=scratch type=6 rank=2 dims=64,32 strides=128 box=8,8 steps=1,1 swizzle=3 fill=1 */
static bool read_tensor(char *line, struct tensor *t) {
  *t = (struct tensor){.rank = 1, .steps = {1, 1, 1, 1, 1}};
  char *save;
  for (char *w = strtok_r(line, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
    char *v = strchr(w, '=');
    if (!v)
      return false;
    *v++ = '\0';
    uint64_t n[5] = {0};
    numbers(v, n, 5);
    if (!strcmp(w, "at"))
      t->scratch = !strcmp(v, "scratch");
    else if (!strcmp(w, "type"))
      t->type = (unsigned)n[0];
    else if (!strcmp(w, "rank"))
      t->rank = (unsigned)n[0];
    else if (!strcmp(w, "offset"))
      t->offset = n[0];
    else if (!strcmp(w, "swizzle"))
      t->swizzle = (unsigned)n[0];
    else if (!strcmp(w, "interleave"))
      t->interleave = (unsigned)n[0];
    else if (!strcmp(w, "fill"))
      t->fill = (unsigned)n[0];
    else if (!strcmp(w, "dims"))
      memcpy(t->dims, n, sizeof n);
    else if (!strcmp(w, "strides"))
      memcpy(t->strides, n, sizeof n);
    else if (!strcmp(w, "box") || !strcmp(w, "steps"))
      for (int i = 0; i < 5; i++)
        (*w == 'b' ? t->box : t->steps)[i] = (uint32_t)n[i];
    else
      return false;
  }
  return true;
}

static bool directive(struct kernel_file *k, char *line) {
  char word[24] = "", a[48] = "", b[32] = "", c[32] = "";
  int at = 0;
  if (sscanf(line, "%23s %n", word, &at) < 1)
    return false;
  char *rest = line + at;
  if (!strcmp(word, "family"))
    return snprintf(k->family, sizeof k->family, "%s", rest) > 0;
  if (!strcmp(word, "inputs")) {
    char *save;
    for (char *w = strtok_r(rest, " ", &save); w; w = strtok_r(NULL, " ", &save)) {
      if (k->operands == KERNEL_OPERANDS)
        return false;
      snprintf(k->operand[k->operands++], sizeof *k->operand, "%s", w);
    }
    return true;
  }
  if (!strcmp(word, "launch")) {
    if (sscanf(rest, "%47s %31s %31s %u", a, b, c, &k->shared) != 4)
      return false;
    sizes(a, k->grid);
    sizes(b, k->block);
    sizes(c, k->cluster);
    return true;
  }
  if (!strcmp(word, "nvcc") || !strcmp(word, "only"))
    return true; /* for regen-ptx.sh */
  if (!strcmp(word, "approx"))
    return sscanf(rest, "%15s %lf", k->approx, &k->approx_bits) == 2;
  if (!strcmp(word, "results"))
    return sscanf(rest, "%u", &k->results) == 1;
  if (!strcmp(word, "tile"))
    return sscanf(rest, "%u", &k->tile) == 1;
  if (!strcmp(word, "sample"))
    return sscanf(rest, "%u", &k->sample) == 1;
  if (!strcmp(word, "fails"))
    return sscanf(rest, "%47s", k->fails) == 1;
  if (!strcmp(word, "zero"))
    return k->zero = true;
  if (!strcmp(word, "unrecorded"))
    return k->unrecorded = true;
  if (!strcmp(word, "varies"))
    return k->varies = true;
  if (!strcmp(word, "definition"))
    return k->definition = true;
  if (!strcmp(word, "tensor") && k->tensors < KERNEL_TENSORS)
    return read_tensor(rest, &k->tensor[k->tensors++]);
  return false;
}

const char *kernel_read(const char *ptx, const char *notes, struct kernel_file *k) {
  memset(k, 0, sizeof *k);
  k->text = read_file(ptx, &k->size);
  size_t size;
  k->notes = read_file(notes ? notes : ptx, &size);
  if (!k->text || !k->notes)
    return wrong(ptx, "the file");
  const char *base = strrchr(ptx, '/');
  snprintf(k->name, sizeof k->name, "%s", base ? base + 1 : ptx);
  char *dot = strrchr(k->name, '.');
  if (dot)
    *dot = '\0';
  const char *target = strstr(k->text, "\n.target ");
  if (!target || sscanf(target, " .target %15[a-z0-9_]", k->target) != 1)
    return wrong(ptx, ".target");
  for (const char *s = k->notes; (s = strstr(s, "//@ ")) != NULL;) {
    s += 4;
    char line[512];
    size_t n = strcspn(s, "\n");
    if (n >= sizeof line)
      return wrong(ptx, s);
    memcpy(line, s, n);
    line[n] = '\0';
    if (!directive(k, line))
      return wrong(ptx, line);
  }
  if (!k->results || !k->grid[0] || !k->block[0])
    return wrong(ptx, "no //@ launch or no //@ results");
  return NULL;
}

void kernel_free(struct kernel_file *k) {
  free(k->text);
  free(k->notes);
}

void kernel_note(const struct kernel_file *k, unsigned result, char *to, size_t size) {
  /* A note may stand for several results that follow it. */
  for (unsigned r = result + 1; r-- > 0;) {
    char head[24];
    snprintf(head, sizeof head, "// %u: ", r);
    const char *s = strstr(k->notes, head);
    if (s) {
      s += strlen(head);
      snprintf(to, size, "%.*s%s", (int)strcspn(s, "\n"), s,
               r == result ? "" : " (a later result)");
      return;
    }
  }
  *to = '\0';
}
