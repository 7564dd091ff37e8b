/* SPDX-License-Identifier: Apache-2.0
 *
 * The recorded answers of a GPU; see record.h.
 */
#include "conformance/record.h"

#include <stdlib.h>
#include <string.h>

#include "conformance/kernel_file.h"
#include "conformance/pool.h"

static char problem[256];

uint64_t record_hash(const uint64_t *words, uint64_t threads) {
  uint64_t h = threads;
  for (uint64_t i = 0; i < threads; i++)
    h = pool_mix(h ^ words[i]);
  return h >> 16;
}

static struct entry *add(struct record *r) {
  if ((r->entries & (r->entries - 1)) == 0)
    r->entry = kernel_grow(r->entry, (r->entries ? 2 * r->entries : 1) * sizeof *r->entry);
  struct entry *e = &r->entry[r->entries++];
  memset(e, 0, sizeof *e);
  return e;
}

/* NAME THREADS RESULTS HASH...   or   NAME 0 0 fails ERROR */
static bool read_line(char *line, struct record *r) {
  struct entry e = {.threads = 0};
  int at = 0;
  if (sscanf(line, "%63s %llu %u %n", e.name, (unsigned long long *)&e.threads, &e.results, &at) <
      3)
    return false;
  char *s = line + at;
  if (e.threads == 0) {
    if (sscanf(s, "fails %47s", e.fails) != 1)
      return false;
  } else {
    e.hash = calloc(e.results, sizeof *e.hash);
    for (unsigned v = 0; v < e.results; v++) {
      char *end;
      e.hash[v] = strtoull(s, &end, 16);
      if (end == s) {
        free(e.hash);
        return false;
      }
      s = end;
    }
  }
  *add(r) = e;
  return true;
}

/* Each section: name (64 bytes), results (4), bytes of a word (4), threads (8), the words. */
static const char *read_bits(FILE *f, struct record *r) {
  char name[64];
  while (fread(name, sizeof name, 1, f) == 1) {
    uint32_t head[2];
    uint64_t threads;
    name[63] = '\0';
    if (fread(head, sizeof head, 1, f) != 1 || fread(&threads, 8, 1, f) != 1 || head[0] > 1 << 16 ||
        threads > 1 << 24 || (head[1] != 4 && head[1] != 8 && head[1] != 2 && head[1] != 1))
      return "a damaged file of recorded bits";
    uint64_t n = head[0] * threads, *words = calloc(n ? n : 1, 8);
    for (uint64_t i = 0; i < n; i++)
      if (fread(&words[i], head[1], 1, f) != 1) {
        free(words);
        return "a file of recorded bits that ends early";
      }
    struct entry *e = (struct entry *)record_find(r, name, threads);
    if (!e) { /* a dump: bits alone */
      e = add(r);
      memcpy(e->name, name, sizeof name);
      e->threads = threads;
      e->results = head[0];
    }
    if (e->results == head[0])
      e->bits = words;
    else
      free(words);
  }
  return NULL;
}

static void bits_path(const char *path, char to[1024]) {
  snprintf(to, 1016, "%s", path);
  char *dot = strrchr(to, '.'), *slash = strrchr(to, '/');
  strcpy(dot && dot > slash ? dot : to + strlen(to), ".bits");
}

const char *record_read(const char *path, struct record *r) {
  memset(r, 0, sizeof *r);
  const char *suffix = strrchr(path, '.');
  FILE *f = fopen(path, suffix && strcmp(suffix, ".dump") == 0 ? "rb" : "r");
  if (f && suffix && strcmp(suffix, ".dump") == 0) {
    const char *bad = read_bits(f, r);
    fclose(f);
    return bad;
  }
  if (!f) {
    snprintf(problem, sizeof problem, "no %.200s", path);
    return problem;
  }
  char *line = NULL;
  size_t room = 0;
  const char *bad = NULL;
  while (!bad && getline(&line, &room, f) > 0)
    if (*line != '#' && *line != '\n' && !read_line(line, r)) {
      snprintf(problem, sizeof problem, "%.150s: cannot read \"%.60s\"", path, line);
      bad = problem;
    }
  free(line);
  fclose(f);
  char other[1024];
  bits_path(path, other);
  FILE *g = bad ? NULL : fopen(other, "rb");
  if (g) {
    bad = read_bits(g, r);
    fclose(g);
  }
  return bad;
}

const struct entry *record_find(const struct record *r, const char *name, uint64_t threads) {
  for (size_t i = 0; i < r->entries; i++)
    if (r->entry[i].threads == threads && strcmp(r->entry[i].name, name) == 0)
      return &r->entry[i];
  return NULL;
}

const struct entry *record_dump(const struct record *r, const char *name) {
  for (size_t i = 0; i < r->entries; i++)
    if (!r->entry[i].hash && r->entry[i].bits && strcmp(r->entry[i].name, name) == 0)
      return &r->entry[i];
  return NULL;
}

void record_write(FILE *hashes, FILE *bits, const char *name, unsigned results, uint64_t threads,
                  const uint64_t *out) {
  fprintf(hashes, "%s %llu %u", name, (unsigned long long)threads, results);
  for (unsigned v = 0; v < results; v++)
    fprintf(hashes, " %012llx", (unsigned long long)record_hash(out + v * threads, threads));
  fputc('\n', hashes);
  if (!bits)
    return;
  uint64_t all = 0, n = results * threads;
  for (uint64_t i = 0; i < n; i++)
    all |= out[i];
  uint32_t head[2] = {results, all >> 32 ? 8 : all >> 16 ? 4 : all >> 8 ? 2 : 1};
  char padded[64] = {0};
  memcpy(padded, name, strnlen(name, sizeof padded - 1));
  fwrite(padded, sizeof padded, 1, bits);
  fwrite(head, sizeof head, 1, bits);
  fwrite(&threads, 8, 1, bits);
  for (uint64_t i = 0; i < n; i++)
    fwrite(&out[i], head[1], 1, bits);
}
