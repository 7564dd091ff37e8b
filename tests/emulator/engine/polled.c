/* SPDX-License-Identifier: Apache-2.0
 *
 * The words that threads poll for ever; see polled.h.
 */
#include "polled.h"

#include "internal.h"
#include "order.h"

#include <stdarg.h>

#define LINES 12 /* of a group; the rest is counted */

/* The address operand of a load or an atomic. */
static const struct opd *address_operand(const struct insn *I) {
  for (unsigned i = 0; i < I->nopd; i++)
    if (I->opd[i].kind == OPD_addr)
      return &I->opd[i];
  return NULL;
}

static void add_word(struct polled *p, uint64_t word) {
  for (uint32_t i = 0; i < p->n; i++)
    if (p->word[i] == word)
      return;
  if (p->n == POLLED_WORDS)
    p->more++;
  else
    p->word[p->n++] = word;
}

void polled_add(struct polled *p, struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct opd *o = address_operand(I);
  uint32_t bytes = I->types ? mod_bits((enum mod)I->type[I->types - 1]) / 8 : 0;
  if (!o || !bytes || bytes > 8 || (p->n && bytes != p->bytes))
    return;
  p->bytes = bytes;
  FOR_LANES(l, lanes) {
    uint64_t first = (o->n ? opd_get(w, &o->elem[0], (int)l) : 0) + o->imm;
    for (uint32_t e = 0; e < (I->vec ? I->vec : 1u); e++) {
      const struct mem *mem = global_find(w->cta->grid->dev->m, first + (uint64_t)e * bytes);
      if (mem && mem->data && !mem->freed)
        add_word(p, first + (uint64_t)e * bytes);
    }
  }
}

/* ---- text -------------------------------------------------------------------------------- */

struct seen {
  uint64_t value;
  bool known;
  struct order_site by;
};

static int by_address(const void *a, const void *b) {
  uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
  return (x > y) - (x < y);
}

static struct seen look(struct machine *m, uint64_t word, uint32_t bytes) {
  struct seen s = {0};
  const struct mem *mem = global_find(m, word);
  memcpy(&s.value, mem->data + (word - mem->base), bytes);
  s.known = order_last_writer(m, word, bytes, &s.by);
  return s;
}

static bool alike(const struct seen *a, const struct seen *b) {
  if (a->value != b->value || a->known != b->known)
    return false;
  if (!a->known || a->by.host || b->by.host)
    return a->by.host == b->by.host;
  return a->by.device == b->by.device && a->by.launch == b->by.launch && a->by.line == b->by.line;
}

struct text {
  char *at;
  size_t n, room;
};

static void add(struct text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static void add(struct text *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  int n = vsnprintf(t->at + t->n, t->room - t->n, fmt, ap);
  va_end(ap);
  if (n > 0)
    t->n = t->n + (size_t)n < t->room ? t->n + (size_t)n : t->room - 1;
}

static void add_writer(struct text *t, const struct seen *s) {
  if (!s->known)
    add(t, "nobody in this process has written there, as far as is known");
  else if (s->by.host)
    add(t, "last written by the host");
  else
    add(t, "last written by %s line %u (device %d, launch %llu): %s", s->by.kernel, s->by.line,
        s->by.device, (unsigned long long)s->by.launch, s->by.text);
}

size_t polled_write(struct polled *p, struct machine *m, char *to, size_t room) {
  struct text t = {.at = to, .room = room};
  uint32_t lines = 0, left = p->more;
  qsort(p->word, p->n, sizeof *p->word, by_address);
  for (uint32_t i = 0, end; i < p->n; i = end) {
    const struct seen s = look(m, p->word[i], p->bytes);
    for (end = i + 1; end < p->n && p->word[end] == p->word[end - 1] + p->bytes; end++) {
      const struct seen next = look(m, p->word[end], p->bytes);
      if (!alike(&s, &next))
        break;
    }
    if (++lines > LINES) {
      left += end - i;
      continue;
    }
    add(&t, "      0x%llx", (unsigned long long)p->word[i]);
    if (end - i > 1)
      add(&t, " and %u words behind it", end - i - 1);
    add(&t, " = 0x%0*llx, ", (int)(2 * p->bytes), (unsigned long long)s.value);
    add_writer(&t, &s);
    add(&t, "\n");
  }
  if (left)
    add(&t, "      and %u words more\n", left);
  return t.n;
}
