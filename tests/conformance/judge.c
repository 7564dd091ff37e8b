/* SPDX-License-Identifier: Apache-2.0
 *
 * Verdicts; see judge.h.
 */
#include "conformance/judge.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

unsigned judge_lines = 1, judge_most = 6;

struct why {
  char *text;
  size_t size, used;
  unsigned lines;
};

static void say(struct why *w, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void say(struct why *w, const char *fmt, ...) {
  if (w->lines++ >= judge_most || w->used >= w->size)
    return;
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(w->text + w->used, w->size - w->used, fmt, ap);
  va_end(ap);
  if (n > 0)
    w->used += (size_t)n;
}

static void say_word(struct why *w, const struct kernel_file *k, const struct outcome *o,
                     unsigned v, uint64_t i, uint64_t want, const char *by) {
  char note[128], operands[256] = "";
  size_t used = 0;
  kernel_note(k, v, note, sizeof note);
  for (unsigned a = 0; a < k->operands && a < 4 && used < sizeof operands; a++)
    used += (size_t)snprintf(operands + used, sizeof operands - used, " 0x%llx",
                             (unsigned long long)o->in[a * o->threads + i]);
  say(w, "    %s: result %u (%s), thread %llu, operands%s: 0x%llx, %s 0x%llx\n", k->name, v, note,
      (unsigned long long)i, operands, (unsigned long long)o->out[v * o->threads + i], by,
      (unsigned long long)want);
}

/* Word by word; approximate functions may differ within their bounds. */
static bool same_words(const struct kernel_file *k, const struct outcome *o, const uint64_t *want,
                       uint64_t want_threads, const char *by, struct why *w) {
  bool good = true;
  uint64_t n = want_threads < o->threads ? want_threads : o->threads;
  for (unsigned v = 0; v < k->results; v++) {
    uint64_t bad = 0;
    for (uint64_t i = 0; i < n; i++) {
      uint64_t got = o->out[v * o->threads + i], right = want[v * want_threads + i];
      if (got == right || (*k->approx && approx_agree(k, o->in, o->threads, i, got, right)))
        continue;
      if (bad++ < judge_lines)
        say_word(w, k, o, v, i, right, by);
    }
    if (bad > judge_lines)
      say(w, "      and in %llu more threads of %llu\n", (unsigned long long)bad - judge_lines,
          (unsigned long long)n);
    good &= bad == 0;
  }
  return good;
}

static bool same_hashes(const struct kernel_file *k, const struct outcome *o, const struct entry *e,
                        struct why *w) {
  bool good = e->results == k->results;
  if (!good)
    say(w, "    %s: %u results, the record has %u\n", k->name, k->results, e->results);
  for (unsigned v = 0; v < k->results && v < e->results; v++) {
    uint64_t h = record_hash(o->out + v * o->threads, o->threads);
    if (h == e->hash[v])
      continue;
    char note[128];
    kernel_note(k, v, note, sizeof note);
    say(w, "    %s: result %u (%s) is not what the GPU answered\n", k->name, v, note);
    good = false;
  }
  return good;
}

enum verdict judge(const struct kernel_file *k, const struct outcome *o, const struct record *r,
                   char *why, size_t size) {
  struct why w = {.text = why, .size = size};
  *why = '\0';
  const struct entry *failure = record_find(r, k->name, 0);
  if (*k->fails || failure) {
    const char *want = failure ? failure->fails : k->fails;
    /* Which error it is differs: the emulated driver reports what it found. */
    if (strstr(o->problem, want) || (failure && *o->problem))
      return VERDICT_passed;
    say(&w, "    %s: %s where %s was expected\n", k->name, *o->problem ? o->problem : "it ran",
        want);
    return VERDICT_failed;
  }
  if (k->varies && !*o->problem)
    return VERDICT_passed;
  if (*o->problem) {
    say(&w, "    %s: %s\n", k->name, o->problem);
    return VERDICT_failed;
  }
  bool judged = false, good = true;
  if (k->definition) {
    uint64_t *want = calloc(k->results * o->threads, 8);
    judged = define(k, o->in, o->threads, want);
    if (judged)
      good = same_words(k, o, want, o->threads, "the definition gives", &w);
    else
      say(&w, "    %s: there is no definition of that name\n", k->name);
    free(want);
    if (!judged)
      return VERDICT_failed;
  }
  const struct entry *e = record_find(r, k->name, o->threads);
  if (!e)
    e = record_dump(r, k->name);
  if (e && e->bits) {
    judged = true;
    good &= same_words(k, o, e->bits, e->threads, "the GPU answered", &w);
  } else if (e) {
    judged = true;
    good &= same_hashes(k, o, e, &w);
  }
  return !judged ? VERDICT_unjudged : good ? VERDICT_passed : VERDICT_failed;
}
