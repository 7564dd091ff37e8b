/* SPDX-License-Identifier: Apache-2.0
 *
 * Tensor memory of an SM: which columns belong to whom.
 */
#include "tcgen05.h"

#include <stdio.h>

struct tmem *tmem_of(struct cta *c) {
  struct sm *sm = &c->grid->dev->sm[c->sm];
  if (!sm->tmem)
    sm->tmem = unit_alloc(sizeof *sm->tmem);
  return sm->tmem;
}

bool tmem_owned(const struct access *a, struct cta *c, const char *what, uint32_t column,
                uint32_t columns) {
  const struct tmem *t = tmem_of(c);
  for (uint32_t i = column; i < column + columns; i++) {
    if (i < TMEM_COLUMNS && t->owner[i] == c)
      continue;
    return !fault(a, CHECK_tcgen05, "tmem-not-owned",
                  "%s uses tensor memory columns %u..%u; column %u is %s", what, column,
                  column + columns - 1, i,
                  i >= TMEM_COLUMNS ? "past the last (511)"
                  : t->owner[i]     ? "another CTA's"
                                    : "not allocated") &&
           column + columns <= TMEM_COLUMNS;
  }
  return true;
}

/* First fit on multiples of 32. */
uint32_t tmem_room(const struct tmem *t, uint32_t n) {
  for (uint32_t at = 0; at + n <= TMEM_COLUMNS; at += 32) {
    uint32_t i = 0;
    while (i < n && !t->owner[at + i])
      i++;
    if (i == n)
      return at;
  }
  return TMEM_COLUMNS;
}

bool tmem_holders(const struct tmem *t, const struct cta *self, char *text, size_t size) {
  bool others = false;
  int used = snprintf(text, size, "tensor memory columns, held by");
  for (uint32_t i = 0; i < TMEM_COLUMNS; i += 32) {
    const struct cta *c = t->owner[i];
    if (!c || (i && t->owner[i - 32] == c))
      continue;
    others |= c != self;
    if (used > 0 && (size_t)used < size)
      used += snprintf(text + used, size - (size_t)used, " CTA (%u,%u,%u) of grid %llu%s",
                       c->ctaid[0], c->ctaid[1], c->ctaid[2], (unsigned long long)c->grid->id,
                       c == self ? " (itself)" : "");
  }
  return others;
}

void tmem_take(struct tmem *t, const struct access *a, uint32_t at, uint32_t n) {
  struct cta *c = a->cta;
  uint64_t junk = draw(c->grid->dev->m, LAT_tcgen05) | 1;
  bool track = check_on(c->grid->dev->m, CHECK_undef);
  for (uint32_t i = at; i < at + n; i++) {
    t->owner[i] = c;
    t->taken[i] = (struct taken){a->insn, a->warp, a->lane, at, n};
  }
  for (uint32_t lane = 0; lane < TMEM_LANES; lane++)
    for (uint32_t i = at; i < at + n; i++) {
      junk = junk * 6364136223846793005ull + 1442695040888963407ull;
      t->word[lane][i] = (uint32_t)(junk >> 32); /* as left by whoever had it before */
      t->undef[lane][i] = track ? 0xffffffffu : 0;
    }
}
