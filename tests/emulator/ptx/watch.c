/* SPDX-License-Identifier: Apache-2.0
 *
 * Which instructions touch registers that another one of the function goes on using after
 * it was issued: the engine asks the units before it executes them, and no other.
 */
#include "build.h"

static void collect(const struct opd *o, bool *in_flight) {
  for (unsigned i = 0; o->kind == OPD_vec && i < o->n; i++)
    if (o->elem[i].kind == OPD_reg)
      in_flight[o->elem[i].reg] = true;
}

static bool names(const struct opd *o, const bool *in_flight) {
  if (o->kind == OPD_reg)
    return in_flight[o->reg] || (o->pair >= 0 && in_flight[o->pair]);
  for (unsigned i = 0; i < o->n; i++)
    if (names(&o->elem[i], in_flight))
      return true;
  return false;
}

void watch_registers(struct arena *a, struct function *fn) {
  bool *in_flight = NULL;
  for (uint32_t i = 0; i < fn->ninsn; i++) {
    const struct insn *I = &fn->insn[i];
    if (!(I->form->flags & FORM_in_flight))
      continue;
    if (!in_flight)
      in_flight = arena_alloc(a, fn->nreg * sizeof *in_flight);
    collect(&I->opd[0], in_flight);
    collect(&I->opd[1], in_flight);
  }
  for (uint32_t i = 0; in_flight && i < fn->ninsn; i++) {
    struct insn *I = &fn->insn[i];
    for (unsigned k = 0; k < I->nopd && !(I->form->flags & FORM_in_flight); k++)
      I->watched |= names(&I->opd[k], in_flight);
  }
}
