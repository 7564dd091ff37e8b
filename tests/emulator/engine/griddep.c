/* SPDX-License-Identifier: Apache-2.0
 *
 * Programmatic dependent launch: griddepcontrol, and the moment at which every CTA of a
 * grid has triggered or exited, so that its dependents may start.
 */
#include "internal.h"

/* ---- triggering ---------------------------------------------------------------------------- */

/* How long the hardware takes to start a dependent is its own affair: an event.  The
 * grid's completion does not wait for it; it comes first then, and disarms it. */
struct trigger {
  struct event event;
  struct grid *grid; /* NULL: called already */
};

static void call(struct grid *g) {
  struct trigger *t = g->run->trigger;
  if (t)
    t->grid = NULL;
  g->run->trigger = NULL;
  if (g->on_triggered)
    g->on_triggered(g, g->arg);
}

static void fire(struct machine *m, struct event *e) {
  struct trigger *t = (struct trigger *)e;
  (void)m;
  if (t->grid)
    call(t->grid);
  free(t);
}

/* The grid is about to be complete. */
void trigger_now(struct grid *g) {
  if (g->run->triggered && !g->run->trigger)
    return;
  g->run->triggered = true;
  call(g);
}

void cta_trigger(struct cta *c) {
  struct grid *g = c->grid;
  if (c->triggered)
    return;
  c->triggered = true;
  if (++g->ctas_triggered < g->ctas_total)
    return;
  struct trigger *t = emu_alloc(sizeof *t);
  t->event.fire = fire;
  t->event.what = "start of dependent grids";
  t->grid = g;
  g->run->triggered = true;
  g->run->trigger = t;
  event_post_unowned(g->dev->m, &t->event, LAT_grid_start, 0);
}

/* A grid launched to start early must wait before it ends: else its successor, which waits
 * for it alone, may run while its own predecessor still does. */
void griddep_check(struct grid *g) {
  if (!g->pdl || g->waited || g->run->failed)
    return;
  struct access a = {.m = g->dev->m, .dev = g->dev, .grid = g, .insn = &g->fn->insn[0]};
  (void)fault(&a, CHECK_pdl, "pdl-never-waits",
              "launched with programmatic stream serialization, the grid ends and no thread has "
              "executed griddepcontrol.wait");
}

/* ---- instructions -------------------------------------------------------------- */

static enum step exec_launch_dependents(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  order_triggered(w, lanes);
  cta_trigger(w->cta);
  return STEP_next;
}

static bool prerequisites_complete(const struct wait *wait) {
  const struct grid *g = wait->object;
  for (uint32_t i = 0; i < g->nprereq; i++)
    if (g->prereq[i]->state != GRID_complete && g->prereq[i]->state != GRID_failed)
      return false;
  return true;
}

static enum step exec_wait(struct warp *w, const struct insn *I, uint32_t lanes) {
  (void)I;
  struct grid *g = w->cta->grid;
  struct wait wait = {.ready = prerequisites_complete,
                      .object = g,
                      .what = "griddepcontrol.wait: completion of the grids before"};
  g->waited = true;
  if (w->resumed & lanes || prerequisites_complete(&wait)) {
    order_grid_waited(w, lanes);
    return STEP_next;
  }
  warp_wait(w, lanes, wait);
  return STEP_wait;
}

const struct form forms_griddep[] = {
    {"griddepcontrol.wait", "", exec_wait, 0, "definition", NULL},
    {"griddepcontrol.launch_dependents", "", exec_launch_dependents, 0, "definition", NULL},
    {NULL, NULL, NULL, 0, NULL, NULL},
};
