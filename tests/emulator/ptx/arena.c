/* SPDX-License-Identifier: Apache-2.0
 *
 * The arena a module lives in: everything the loader makes is freed at once.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse.h"

struct arena_block {
  struct arena_block *next;
  size_t used, size;
  _Alignas(16) unsigned char data[];
};

void *arena_alloc(struct arena *a, size_t size) {
  size = (size + 15) & ~(size_t)15;
  if (!a->head || a->head->size - a->head->used < size) {
    size_t room = size > 65536 ? size : 65536;
    struct arena_block *b = calloc(1, sizeof *b + room);
    if (!b) {
      fputs("emulated driver: out of memory while loading a module\n", stderr);
      abort();
    }
    b->size = room;
    b->next = a->head;
    a->head = b;
  }
  void *p = a->head->data + a->head->used;
  a->head->used += size;
  return p;
}

char *arena_dup(struct arena *a, const char *s, size_t n) {
  char *p = arena_alloc(a, n + 1);
  memcpy(p, s, n);
  return p;
}

void *arena_grow(struct arena *a, void *old, uint32_t used, uint32_t *cap, size_t elem) {
  *cap = *cap ? *cap * 2 : 8;
  void *p = arena_alloc(a, *cap * elem);
  if (used)
    memcpy(p, old, used * elem);
  return p;
}

void arena_free(struct arena *a) {
  for (struct arena_block *b = a->head, *next; b; b = next) {
    next = b->next;
    free(b);
  }
  a->head = NULL;
}

void ptx_error(struct ptx_parse *p, uint32_t line, const char *fmt, ...) {
  if (p->err_size) {
    int n = snprintf(p->err, p->err_size, "line %u: ", line);
    if (n > 0 && (size_t)n < p->err_size) {
      va_list ap;
      va_start(ap, fmt);
      vsnprintf(p->err + n, p->err_size - (size_t)n, fmt, ap);
      va_end(ap);
    }
  }
  longjmp(p->fail, 1);
}
