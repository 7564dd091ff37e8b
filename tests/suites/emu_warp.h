/* SPDX-License-Identifier: Apache-2.0
 *
 * One warp without an engine: straight-line PTX is loaded, its registers are filled and
 * read by name, its instructions executed in order on the lanes given.  For tests of
 * what single instructions compute.
 */
#ifndef BW_SUITES_EMU_WARP_H
#define BW_SUITES_EMU_WARP_H

#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "emulator/engine/engine.h"

struct tiny {
  struct module *module;
  const struct function *fn;
  struct machine machine;
  struct device device;
  struct grid grid;
  struct cluster cluster;
  struct cta cta;
  struct warp warp;
};

/* body: declarations and instructions of an entry. */
static inline struct tiny *tiny_new(const char *target, const char *body) {
  char err[512], text[8192];
  int n =
      snprintf(text, sizeof text,
               ".version 9.0\n.target %s\n.address_size 64\n.entry k() {\n%s\n}\n", target, body);
  ck_assert_int_lt(n, (int)sizeof text);
  struct tiny *t = calloc(1, sizeof *t);
  t->module = ptx_load(text, (size_t)n, err, sizeof err);
  ck_assert_msg(t->module != NULL, "%s", err);
  t->fn = ptx_function(t->module, "k");
  t->machine.checks = 1u << CHECK_undef;
  t->device.m = &t->machine;
  t->grid.dev = &t->device;
  t->grid.fn = t->fn;
  t->cta.grid = &t->grid;
  t->cta.cluster = &t->cluster;
  t->cluster.size = 4;
  t->cta.rank = 2;
  t->warp.cta = &t->cta;
  t->warp.fn = t->fn;
  t->warp.live = ~0u;
  t->warp.r = calloc((size_t)t->fn->nreg * WARP + 1, sizeof(uint64_t));
  t->warp.u = calloc((size_t)t->fn->nreg * WARP + 1, sizeof(uint64_t));
  return t;
}

static inline void tiny_free(struct tiny *t) {
  ptx_free(t->module);
  free(t->warp.r);
  free(t->warp.u);
  free(t);
}

static inline size_t tiny_slot(const struct tiny *t, const char *name) {
  for (uint32_t s = 0; s < t->fn->nreg; s++)
    if (strcmp(t->fn->reg_name[s], name) == 0)
      return (size_t)s * WARP;
  ck_abort_msg("no register %s", name);
}
/* The register's values, and its undefined bits, by lane. */
static inline uint64_t *tiny_reg(struct tiny *t, const char *name) {
  return t->warp.r + tiny_slot(t, name);
}
static inline uint64_t *tiny_undef(struct tiny *t, const char *name) {
  return t->warp.u + tiny_slot(t, name);
}

/* Executes all but the final exit. */
static inline void tiny_run(struct tiny *t, uint32_t lanes) {
  for (uint32_t i = 0; i + 1 < t->fn->ninsn; i++) {
    const struct insn *I = &t->fn->insn[i];
    ck_assert_msg(I->form->exec(&t->warp, I, lanes) == STEP_next, "%s", I->text);
  }
}

#endif
