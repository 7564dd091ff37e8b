/* SPDX-License-Identifier: Apache-2.0
 *
 * Ops and their dependences.
 *
 * An op starts when nothing holds it back any more.  A full dependence ends when its
 * prerequisite has retired: it is done, and so is everything it depended on only
 * programmatically, so that stream order stays transitive across programmatic
 * launches.  A programmatic one ends as soon as every CTA of the prerequisite has
 * triggered or exited.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

struct op *op_new(struct work *w) {
  struct op *o = calloc(1, sizeof *o);
  if (!o)
    return NULL;
  o->refs = 1;
  o->work = *w;
  memset(w, 0, sizeof *w);
  o->unmet = 1; /* until op_submit */
  o->next = driver.ops;
  o->prev = &driver.ops;
  if (o->next)
    o->next->prev = &o->next;
  driver.ops = o;
  return o;
}

void op_ref(struct op *o) {
  o->refs++;
}

void grids_free(void) {
  while (driver.grids_over) {
    struct grid *g = driver.grids_over;
    driver.grids_over = g->arg;
    free(g->prereq);
    free(g);
  }
}

void op_unref(struct op *o) {
  if (!o || --o->refs)
    return;
  for (uint32_t i = 0; i < o->npre; i++)
    op_unref(o->pre[i]);
  if (o->grid) { /* perhaps the machine is just returning from its completion */
    o->grid->arg = driver.grids_over;
    driver.grids_over = o->grid;
  }
  free(o->pre);
  free(o->out);
  order_point_drop(&o->point);
  work_clear(&o->work);
  free(o);
}

void op_waited(const struct op *o) {
  if (o)
    order_host_waited(driver.m, &o->point);
}

void op_depend(struct op *o, struct op *on, bool programmatic) {
  if (on && (on->retired || (programmatic && (on->triggered || on->state == OP_done))))
    order_point_after(&o->point, &on->point, programmatic); /* else when it is released */
  if (!on || on->retired)
    return;
  if (programmatic) {
    struct op **pre = realloc(o->pre, (o->npre + 1) * sizeof(struct op *));
    if (!pre)
      abort();
    o->pre = pre;
    o->pre[o->npre++] = on;
    op_ref(on);
  }
  struct edge *out = realloc(on->out, (on->nout + 1) * sizeof *out);
  if (!out)
    abort();
  on->out = out;
  on->out[on->nout++] = (struct edge){o, programmatic};
  op_ref(o);
  if (!programmatic || !(on->triggered || on->state == OP_done))
    o->unmet++;
}

static void start(struct op *o);

static void release(struct op *o) {
  if (--o->unmet == 0)
    start(o);
}

static void trigger(struct op *o) {
  if (o->triggered)
    return;
  o->triggered = true;
  for (uint32_t i = 0; i < o->nout; i++)
    if (o->out[i].programmatic) {
      order_point_after(&o->out[i].to->point, &o->point, true);
      release(o->out[i].to);
    }
}

static void retire(struct op *o) {
  if (o->retired || o->state != OP_done)
    return;
  for (uint32_t i = 0; i < o->npre; i++)
    if (!o->pre[i]->retired)
      return;
  o->retired = true;
  *o->prev = o->next;
  if (o->next)
    o->next->prev = o->prev;
  for (uint32_t i = 0; i < o->npre; i++)
    op_unref(o->pre[i]);
  o->npre = 0;
  struct edge *out = o->out;
  uint32_t n = o->nout;
  o->out = NULL;
  o->nout = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (out[i].programmatic) {
      retire(out[i].to);
    } else {
      order_point_after(&out[i].to->point, &o->point, false);
      release(out[i].to);
    }
    op_unref(out[i].to);
  }
  free(out);
  op_unref(o); /* the machine's reference, held since op_submit */
}

void op_done(struct op *o) {
  op_ref(o);
  o->state = OP_done;
  o->time = driver.m->now;
  trigger(o);
  retire(o);
  op_unref(o); /* NOLINT(clang-analyzer-unix.Malloc): the reference taken above */
}

static void fire(struct machine *m, struct event *e) {
  struct op *o = (struct op *)e;
  if (!o->dropped && !o->work.ctx->error) {
    order_host_begin(m, &o->point, device_of(o->work.ctx), o->event.what);
    switch (o->work.kind) {
    case WORK_copy:
      copy_run(o);
      break;
    case WORK_set:
      set_run(o);
      break;
    case WORK_write_value: {
      struct access a = host_access(o->work.ctx);
      a.sem = SEM_release;
      a.scope = SCOPE_sys;
      mem_store(&a, SPACE_global, o->work.value.address, o->work.value.bytes, o->work.value.bytes,
                &o->work.value.value, NULL);
      break;
    }
    case WORK_free: {
      struct memory *mem = memory_find(o->work.address);
      if (mem)
        memory_free(mem);
      break;
    }
    default:
      break;
    }
    order_host_end(m);
  }
  if (o->state != OP_done)
    op_done(o);
  op_unref(o);
}

static void host_queue(struct op *o) {
  op_ref(o);
  o->queue = NULL;
  if (driver.host_last)
    driver.host_last->queue = o;
  else
    driver.host_first = o;
  driver.host_last = o;
}

static void start(struct op *o) {
  if (o->state != OP_blocked)
    return;
  o->state = OP_running;
  o->point.unknown |= o->work.kind == WORK_wait_value; /* its writer's releases are not followed */
  order_point_placed(&o->point);
  if (o->dropped || o->work.ctx->error) {
    o->dropped = true;
    if (o->work.kind == WORK_host && o->work.host.callback)
      host_queue(o);
    op_done(o);
    return;
  }
  switch (o->work.kind) {
  case WORK_kernel:
    if (launch_submit(o) != CUDA_SUCCESS) {
      o->dropped = true;
      context_fail(o->work.ctx, CUDA_ERROR_LAUNCH_FAILED);
      if (o->state != OP_done)
        op_done(o);
    }
    break;
  case WORK_copy:
  case WORK_set:
  case WORK_write_value:
  case WORK_free:
    op_ref(o);
    o->event.fire = fire;
    o->event.what = o->work.kind == WORK_copy  ? "memory copy"
                    : o->work.kind == WORK_set ? "memory set"
                                               : "stream memory operation";
    event_post_unowned(driver.m, &o->event, LAT_grid_start, 0);
    break;
  case WORK_host:
    host_queue(o);
    break;
  case WORK_wait_value:
    op_ref(o);
    o->queue = driver.values;
    driver.values = o;
    break;
  default:
    op_done(o);
    break;
  }
}

/* Called back by the machine for kernels. */
void op_triggered(struct grid *g, void *arg) {
  (void)g;
  trigger(arg);
}

void op_complete(struct grid *g, void *arg) {
  struct op *o = arg;
  if (g->state == GRID_failed) {
    CUcontext ctx = o->work.ctx;
    o->dropped = true;
    context_fail(ctx, CUDA_ERROR_LAUNCH_FAILED); /* before its dependents are released */
  }
  if (o->state != OP_done)
    op_done(o);
}

CUresult op_submit(struct op *o) {
  op_ref(o); /* released when it retires */
  release(o);
  return CUDA_SUCCESS;
}

bool op_idle(void *op) {
  return !op || ((struct op *)op)->retired;
}

/* A context fails as a whole: what has not started never will, and its other grids end. */
void context_fail(CUcontext ctx, CUresult error) {
  if (ctx->error)
    return;
  ctx->error = error;
  for (struct op *o = driver.ops; o;) {
    struct grid *g = o->work.ctx == ctx && o->state != OP_done && !o->dropped ? o->grid : NULL;
    if (o->work.ctx == ctx && o->state != OP_done)
      o->dropped = true;
    bool runs = g && (g->state == GRID_queued || g->state == GRID_running);
    if (runs)
      grid_abort(g);
    o = runs ? driver.ops : o->next; /* its completion may have changed the list */
  }
}

/* ---- work ---------------------------------------------------------------------------- */

CUresult work_copy(struct work *to, const struct work *from) {
  *to = *from;
  if (from->kind == WORK_kernel && from->launch.params) {
    size_t n = from->launch.fn->fn->param_bytes;
    to->launch.params = malloc(n ? n : 1);
    if (!to->launch.params)
      return CUDA_ERROR_OUT_OF_MEMORY;
    memcpy(to->launch.params, from->launch.params, n);
  }
  if (from->kind == WORK_child)
    return graph_clone(&to->child, from->child);
  return CUDA_SUCCESS;
}

void work_clear(struct work *w) {
  if (w->kind == WORK_kernel)
    free(w->launch.params);
  if (w->kind == WORK_copy)
    free(w->copy.staged);
  if (w->kind == WORK_child && w->child)
    graph_free(w->child);
  memset(w, 0, sizeof *w);
}
