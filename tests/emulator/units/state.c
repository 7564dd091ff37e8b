/* SPDX-License-Identifier: Apache-2.0
 *
 * What the units keep for a CTA, and the list of instructions left out on purpose.
 */
#include "bulk.h"
#include "tcgen05.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

void *unit_alloc(size_t size) {
  void *p = calloc(1, size ? size : 1);
  if (!p) {
    fprintf(stderr, "emulated driver: out of memory\n");
    abort();
  }
  return p;
}

void hard_fault(const struct access *who, enum check c, const char *rule, const char *fmt, ...) {
  struct report r = {.check = check_on(who->m, c) ? c : CHECK_progress, .rule = rule, .who = who};
  va_list ap;
  va_start(ap, fmt);
  (void)vsnprintf(r.text, sizeof r.text, fmt, ap);
  va_end(ap);
  (void)report(who->m, &r);
}

struct unit_cta *unit_cta(struct cta *c) {
  if (!c->tc) {
    struct unit_cta *u = unit_alloc(sizeof *u);
    u->bulk = unit_alloc((size_t)c->nwarp * WARP * sizeof *u->bulk);
    u->wgmma = unit_alloc(c->nwarp * sizeof(struct wgmma_warp *));
    c->tc = u;
  }
  return c->tc;
}

void tcgen05_cta_exit(struct cta *c) {
  struct unit_cta *u = c->tc;
  if (!u)
    return;
  if (u->queue)
    tc_queue_exit(c, u->queue);
  for (uint32_t i = 0; i < c->nwarp * WARP; i++) {
    if (u->bulk[i] && !c->killed)
      bulk_exit(u->bulk[i]);
    if (u->bulk[i])
      bulk_free(u->bulk[i]);
  }
  for (uint32_t i = 0; i < c->nwarp; i++)
    if (u->wgmma[i])
      wgmma_free(u->wgmma[i]);
  multimem_cta_exit(u->multimem);
  free(u->bulk);
  free(u->wgmma);
  free(u);
  c->tc = NULL;
}

bool units_registers_used(struct warp *w, const struct insn *I, uint32_t lanes) {
  const struct unit_cta *u = w->cta->tc;
  if (!u)
    return true;
  return u->wgmma[w->index] ? wgmma_registers_used(u->wgmma[w->index], w, I, lanes)
         : u->queue         ? tc_registers_used(u->queue->warp[w->index].first, w, I, lanes)
                            : true;
}

const char *units_pending_register(struct warp *w, uint32_t reg, const struct access **by) {
  const struct unit_cta *u = w->cta->tc;
  *by = NULL;
  if (u && u->wgmma[w->index] && wgmma_pending(u->wgmma[w->index], reg))
    return "wgmma.wait_group";
  const struct tc_load *l = u && u->queue ? u->queue->warp[w->index].first : NULL;
  for (; l; l = l->next_load) {
    const struct opd *v = &l->insn->opd[0];
    for (uint32_t i = 0; i < l->count; i++)
      if (v->elem[i].kind == OPD_reg && (uint32_t)v->elem[i].reg == reg) {
        *by = &l->op.a;
        return "tcgen05.wait::ld";
      }
  }
  return NULL;
}

void units_device_init(struct device *d) {
  /* TMEM is made when a CTA on the SM first allocates: most SMs never see one. */
  for (uint32_t i = 0; i < d->nsm; i++)
    d->sm[i].tmem = NULL;
}

const struct refused units_refused[] = {
    {"tcgen05", "cta_group::2", "pairs of CTAs (cta_group::2) are not emulated"},
    {"tcgen05", "kind::mxf4", "kind::mxf4 is not emulated"},
    {"tcgen05", "kind::mxf4nvf4", "kind::mxf4nvf4 is not emulated"},
    {"tcgen05", "kind::i8", "kind::i8 is not in sm_100f"},
    {"tcgen05", "sp", "sparse matrices are not emulated"},
    {"tcgen05", "ws", "the weight-stationary form is not emulated"},
    {"tcgen05", "scale_vec::1X", "sm_100f has no .scale_vec, write .block32"},
    {"tcgen05", "scale_vec::2X", "sm_100f has no .scale_vec, write .block32"},
    {"tcgen05", "scale_vec::4X", "sm_100f has no .scale_vec, write .block16"},
    {"tcgen05", "shift", "tcgen05.shift is not in sm_100f"},
    {"tcgen05", "red", "tcgen05.ld.red is not in sm_100f"},
    {"tcgen05", "b8x16", "decompressing tcgen05.cp is not emulated"},
    {"wgmma", "sp", "sparse matrices are not emulated"},
    {"wgmma", "b1", "one-bit matrices are not emulated"},
    {"mma", "sp", "sparse matrices are not emulated"},
    {"mma", "sp::ordered_metadata", "sparse matrices are not emulated"},
    {"mma", "block_scale", "block scales of mma.sync are not in sm_100f"},
    {"mma", "b1", "one-bit matrices are not emulated"},
    {"mma", "s4", "four-bit integer matrices are not emulated"},
    {"mma", "u4", "four-bit integer matrices are not emulated"},
    {"wmma", NULL, "wmma is not emulated, use mma.sync"},
    {"cp", "im2col", "the im2col modes are not emulated"},
    {"cp", "im2col::w", "the im2col modes are not emulated"},
    {"cp", "im2col::w::128", "the im2col modes are not emulated"},
    {"cp", "tile::gather4", "gather4 is not emulated"},
    {"cp", "tile::scatter4", "scatter4 is not emulated"},
    {"clusterlaunchcontrol", NULL, "cluster launch control is not emulated"},
    {NULL, NULL, NULL},
};
