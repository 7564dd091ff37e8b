/* SPDX-License-Identifier: Apache-2.0
 *
 * Instantiated graphs.  An executable graph is a private, flattened copy of the nodes
 * (child graphs spliced in); each launch makes an op of every node.  Programmatic edges
 * stay what they are, so kernels overlap inside a graph as on a stream.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

struct exec_edge {
  uint32_t on;
  bool programmatic;
};

struct exec_node {
  struct work work;
  struct exec_edge *edge;
  uint32_t nedge;
  CUgraphNode origin; /* only compared */
  bool disabled;
  uint32_t timeline; /* for the order of accesses; 0: none yet */
  bool continued;    /* a later node has this timeline, too */
};

struct CUgraphExec_st {
  struct exec_node *node;
  uint32_t n;
  unsigned long long flags;
  struct op *last; /* of the latest launch: launches of one exec do not overlap */
};

/* ---- instantiating ----------------------------------------------------------------------- */

static void exec_free(CUgraphExec e) {
  for (uint32_t i = 0; i < e->n; i++) {
    if (!e->node[i].continued)
      order_timeline_over(driver.m, e->node[i].timeline);
    work_clear(&e->node[i].work);
    free(e->node[i].edge);
  }
  op_unref(e->last);
  free(e->node);
  free(e);
}

static bool add_edge(struct exec_node *n, uint32_t on, bool programmatic) {
  struct exec_edge *e = realloc(n->edge, (n->nedge + 1) * sizeof *e);
  if (!e)
    return false;
  n->edge = e;
  n->edge[n->nedge++] = (struct exec_edge){on, programmatic};
  return true;
}

static struct exec_node *add_node(CUgraphExec e) {
  struct exec_node *n = realloc(e->node, (e->n + 1) * sizeof *n);
  if (!n)
    return NULL;
  e->node = n;
  n = &e->node[e->n++];
  memset(n, 0, sizeof *n);
  return n;
}

/* Appends the graph.  A child becomes an empty node before its nodes and one after; `end`
 * gets, by graph node, the exec node that dependents wait for. */
static CUresult flatten(CUgraphExec e, CUgraph g, const uint32_t *before) {
  CUgraphNode *order = graph_order(g);
  uint32_t *end = calloc(g->n + 1, sizeof *end);
  CUresult r = order && end ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  uint32_t n = g->n;
  for (uint32_t i = 0; !r && i < n; i++) {
    CUgraphNode from = order[i];
    struct exec_node *x = add_node(e);
    if (!x) {
      r = CUDA_ERROR_OUT_OF_MEMORY;
      break;
    }
    end[i] = e->n - 1;
    x->origin = from;
    if (before && !from->on.n && !add_edge(x, *before, false))
      r = CUDA_ERROR_OUT_OF_MEMORY;
    bool programmatic = false;
    for (size_t k = 0; !r && k < from->on.n; k++) {
      const struct dependence *d = &from->on.at[k];
      bool p = d->edge.type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC ||
               d->edge.from_port != CU_GRAPH_KERNEL_NODE_PORT_DEFAULT;
      programmatic |= p;
      if (!add_edge(x, end[d->node->index], p))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
    if (r)
      break;
    if (from->work.kind != WORK_child) {
      r = work_copy(&x->work, &from->work);
      if (x->work.kind == WORK_kernel)
        x->work.launch.programmatic = programmatic;
      continue;
    }
    x->work = (struct work){.kind = WORK_empty, .ctx = from->work.ctx};
    uint32_t head = e->n - 1, first = e->n;
    /* graph_order's scratch of this graph survives: a child is another graph. */
    if ((r = flatten(e, from->work.child, &head)))
      break;
    uint32_t last = e->n;
    struct exec_node *tail = add_node(e);
    if (!tail) {
      r = CUDA_ERROR_OUT_OF_MEMORY;
      break;
    }
    tail->work = (struct work){.kind = WORK_empty, .ctx = from->work.ctx};
    if (!add_edge(tail, head, false))
      r = CUDA_ERROR_OUT_OF_MEMORY;
    for (uint32_t k = first; !r && k < last; k++)
      if (!add_edge(tail, k, false))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    end[i] = last;
  }
  free(order);
  free(end);
  return r;
}

static CUresult instantiate(CUgraphExec *out, CUgraph g, unsigned long long flags) {
  const unsigned long long known = CUDA_GRAPH_INSTANTIATE_FLAG_AUTO_FREE_ON_LAUNCH |
                                   CUDA_GRAPH_INSTANTIATE_FLAG_UPLOAD |
                                   CUDA_GRAPH_INSTANTIATE_FLAG_USE_NODE_PRIORITY;
  if (flags & CUDA_GRAPH_INSTANTIATE_FLAG_DEVICE_LAUNCH)
    return lacking("a graph launched from the device");
  if (!out || !handle_is(g, HANDLE_graph) || g->capturing || flags & ~known)
    return CUDA_ERROR_INVALID_VALUE;
  struct CUgraphExec_st *e = calloc(1, sizeof *e);
  if (!e)
    return CUDA_ERROR_OUT_OF_MEMORY;
  e->flags = flags;
  CUresult r = flatten(e, g, NULL);
  if (!r && !handle_add(e, HANDLE_exec))
    r = CUDA_ERROR_OUT_OF_MEMORY;
  if (r)
    exec_free(e);
  else
    *out = e;
  return r;
}

CUresult cuGraphInstantiateWithFlags(CUgraphExec *out, CUgraph g, unsigned long long flags) {
  API(ENTER_init);
  return instantiate(out, g, flags);
}

CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log,
                               size_t size);
CUresult cuGraphInstantiate_v2(CUgraphExec *out, CUgraph g, CUgraphNode *error, char *log,
                               size_t size) {
  API(ENTER_init);
  if (error)
    *error = NULL;
  if (log && size)
    *log = 0;
  return instantiate(out, g, 0);
}

CUresult cuGraphInstantiateWithParams(CUgraphExec *out, CUgraph g,
                                      CUDA_GRAPH_INSTANTIATE_PARAMS *p) {
  API(ENTER_init);
  if (!p)
    return CUDA_ERROR_INVALID_VALUE;
  CUresult r = instantiate(out, g, p->flags);
  p->hErrNode_out = NULL;
  p->result_out = r ? CUDA_GRAPH_INSTANTIATE_ERROR : CUDA_GRAPH_INSTANTIATE_SUCCESS;
  return r;
}

CUresult cuGraphExecGetFlags(CUgraphExec e, cuuint64_t *flags) {
  API(ENTER_init);
  if (!handle_is(e, HANDLE_exec) || !flags)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = e->flags;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecDestroy(CUgraphExec e) {
  API(ENTER_init);
  if (!handle_is(e, HANDLE_exec))
    return CUDA_ERROR_INVALID_VALUE;
  handle_remove(e);
  exec_free(e); /* launches in progress own their copies */
  return CUDA_SUCCESS;
}

/* ---- launching -------------------------------------------------------------------------- */

static struct op *marker(CUcontext ctx) {
  struct work w = {.kind = WORK_empty, .ctx = ctx};
  return op_new(&w);
}

/* Is what the node needs still there? */
static CUresult check_node(const struct work *w) {
  if (w->ctx && !handle_is(w->ctx, HANDLE_context))
    return CUDA_ERROR_CONTEXT_IS_DESTROYED;
  if (w->kind == WORK_kernel && !handle_is(w->launch.fn, HANDLE_function)) {
    complain("cuGraphLaunch: kernel %s has been unloaded", w->launch.fn->fn->name);
    return CUDA_ERROR_INVALID_HANDLE;
  }
  return CUDA_SUCCESS;
}

/* Nodes on one path come one after the other, in every launch, as on a stream. */
static uint32_t timeline_of(CUgraphExec e, const struct exec_node *x) {
  for (uint32_t k = 0; k < x->nedge; k++) {
    struct exec_node *on = &e->node[x->edge[k].on];
    if (!on->continued) {
      on->continued = true;
      return on->timeline;
    }
  }
  return order_timeline(driver.m);
}

static CUresult launch(CUgraphExec e, CUstream s) {
  for (uint32_t i = 0; i < e->n; i++) {
    CUresult r = check_node(&e->node[i].work);
    if (r)
      return r;
  }
  struct op **op = calloc(e->n + 2, sizeof(struct op *));
  if (!op)
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult r = CUDA_SUCCESS;
  struct op *begin = marker(s->ctx), *end = marker(s->ctx);
  if (!begin || !end)
    abort();
  for (uint32_t i = 0; i < e->n; i++) {
    struct work w = {.kind = WORK_empty};
    if (!e->node[i].disabled && work_copy(&w, &e->node[i].work))
      abort(); /* half a graph can be neither run nor taken back */
    if (!w.ctx)
      w.ctx = s->ctx;
    if (!(op[i] = op_new(&w)))
      abort();
  }
  stream_order(s, begin);
  op_depend(begin, e->last, false);
  order_point_next(driver.m, &end->point, s->timeline);
  for (uint32_t i = 0; i < e->n; i++) {
    struct exec_node *x = &e->node[i];
    if (!x->timeline)
      x->timeline = timeline_of(e, x);
    order_point_next(driver.m, &op[i]->point, x->timeline);
    if (!x->nedge)
      op_depend(op[i], begin, false);
    for (uint32_t k = 0; k < x->nedge; k++) {
      struct op *on = op[x->edge[k].on];
      op_depend(op[i], on,
                x->edge[k].programmatic && on->work.kind == WORK_kernel &&
                    op[i]->work.kind == WORK_kernel);
    }
    if (op[i]->work.kind == WORK_event_wait && op[i]->work.event &&
        handle_is(op[i]->work.event, HANDLE_event))
      op_depend(op[i], op[i]->work.event->op, false);
    op_depend(end, op[i], false);
  }
  op_depend(end, begin, false);
  for (uint32_t i = 0; i < e->n; i++) /* after the waits above, which mean earlier records */
    if (op[i]->work.kind == WORK_event_record && handle_is(op[i]->work.event, HANDLE_event)) {
      op_ref(op[i]);
      op_unref(op[i]->work.event->op);
      op[i]->work.event->op = op[i];
    }
  stream_push(s, end);
  op_ref(end);
  op_unref(e->last);
  e->last = end;
  op_submit(end);
  for (uint32_t i = e->n; i-- > 0;) {
    op_submit(op[i]);
    op_unref(op[i]);
  }
  op_submit(begin);
  op_unref(begin);
  op_unref(end);
  free(op);
  return r;
}

CUresult cuGraphLaunch(CUgraphExec e, CUstream s) {
  API(ENTER_context);
  CUresult r = CUDA_SUCCESS;
  if (!handle_is(e, HANDLE_exec))
    return CUDA_ERROR_INVALID_VALUE;
  s = stream_resolve(s, guard.ctx, &r);
  if (!s)
    return r;
  if (s->capture)
    return capture_refuse(s->ctx, s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  if (s->legacy && (r = capture_legacy_check(s->ctx)))
    return r;
  return launch(e, s);
}

CUresult cuGraphUpload(CUgraphExec e, CUstream s) {
  API(ENTER_context);
  CUresult r = CUDA_SUCCESS;
  if (!handle_is(e, HANDLE_exec))
    return CUDA_ERROR_INVALID_VALUE;
  return stream_resolve(s, guard.ctx, &r) ? CUDA_SUCCESS : r; /* there is nothing to upload */
}

/* ---- changing ------------------------------------------------------------------------------ */

static struct exec_node *exec_find(CUgraphExec e, CUgraphNode node) {
  if (!handle_is(e, HANDLE_exec) || !handle_is(node, HANDLE_node))
    return NULL;
  for (uint32_t i = 0; i < e->n; i++)
    if (e->node[i].origin == node)
      return &e->node[i];
  return NULL;
}

/* Puts other work of the same kind into a node; the work is taken over. */
static CUresult exec_replace(struct exec_node *x, struct work *w) {
  if (x->work.kind != w->kind) {
    work_clear(w);
    return CUDA_ERROR_INVALID_VALUE;
  }
  if (w->kind == WORK_kernel)
    w->launch.programmatic = x->work.launch.programmatic;
  if (!w->ctx)
    w->ctx = x->work.ctx;
  work_clear(&x->work);
  x->work = *w;
  memset(w, 0, sizeof *w);
  return CUDA_SUCCESS;
}

CUresult kernel_node_work(struct work *w, const CUDA_KERNEL_NODE_PARAMS *p, CUcontext current);
CUresult memset_node_work(struct work *w, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx);

CUresult cuGraphExecKernelNodeSetParams(CUgraphExec e, CUgraphNode node,
                                        const CUDA_KERNEL_NODE_PARAMS *p) {
  API(ENTER_context);
  struct exec_node *x = exec_find(e, node);
  if (!x || !p)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w = {0};
  CUresult r = kernel_node_work(&w, p, guard.ctx);
  if (r)
    return r;
  if (x->work.kind == WORK_kernel)
    memcpy(w.launch.cluster, x->work.launch.cluster, sizeof w.launch.cluster);
  return exec_replace(x, &w);
}

CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec e, CUgraphNode node, const CUDA_MEMCPY3D *p,
                                        CUcontext ctx) {
  API(ENTER_context);
  struct exec_node *x = exec_find(e, node);
  if (!x || !p || !handle_is(ctx, HANDLE_context))
    return CUDA_ERROR_INVALID_VALUE;
  struct work w = {0};
  CUresult r = copy_from_3d(&w, p);
  if (r)
    return r;
  w.ctx = ctx;
  return exec_replace(x, &w);
}

CUresult cuGraphExecMemsetNodeSetParams(CUgraphExec e, CUgraphNode node,
                                        const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx) {
  API(ENTER_context);
  struct exec_node *x = exec_find(e, node);
  if (!x || !p || !handle_is(ctx, HANDLE_context))
    return CUDA_ERROR_INVALID_VALUE;
  struct work w = {0};
  CUresult r = memset_node_work(&w, p, ctx);
  return r ? r : exec_replace(x, &w);
}

CUresult cuGraphExecHostNodeSetParams(CUgraphExec e, CUgraphNode node,
                                      const CUDA_HOST_NODE_PARAMS *p) {
  API(ENTER_init);
  struct exec_node *x = exec_find(e, node);
  if (!x || !p || !p->fn)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w = {.kind = WORK_host, .host = {.fn = p->fn, .data = p->userData}};
  return exec_replace(x, &w);
}

static CUresult set_event(CUgraphExec e, CUgraphNode node, CUevent event, enum work_kind kind) {
  struct exec_node *x = exec_find(e, node);
  if (!x || x->work.kind != kind || !handle_is(event, HANDLE_event))
    return CUDA_ERROR_INVALID_VALUE;
  x->work.event = event;
  return CUDA_SUCCESS;
}

CUresult cuGraphExecEventRecordNodeSetEvent(CUgraphExec e, CUgraphNode node, CUevent event) {
  API(ENTER_init);
  return set_event(e, node, event, WORK_event_record);
}

CUresult cuGraphExecEventWaitNodeSetEvent(CUgraphExec e, CUgraphNode node, CUevent event) {
  API(ENTER_init);
  return set_event(e, node, event, WORK_event_wait);
}

CUresult cuGraphNodeSetEnabled(CUgraphExec e, CUgraphNode node, unsigned int enabled) {
  API(ENTER_init);
  struct exec_node *x = exec_find(e, node);
  if (!x || (x->work.kind != WORK_kernel && x->work.kind != WORK_copy && x->work.kind != WORK_set))
    return CUDA_ERROR_INVALID_VALUE;
  x->disabled = !enabled;
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetEnabled(CUgraphExec e, CUgraphNode node, unsigned int *enabled) {
  API(ENTER_init);
  struct exec_node *x = exec_find(e, node);
  if (!x || !enabled)
    return CUDA_ERROR_INVALID_VALUE;
  *enabled = !x->disabled;
  return CUDA_SUCCESS;
}

static CUresult update(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *info) {
  CUgraphExecUpdateResultInfo nowhere;
  if (!info)
    info = &nowhere;
  *info = (CUgraphExecUpdateResultInfo){.result = CU_GRAPH_EXEC_UPDATE_SUCCESS};
  if (!handle_is(e, HANDLE_exec) || !handle_is(g, HANDLE_graph))
    return CUDA_ERROR_INVALID_VALUE;
  struct CUgraphExec_st fresh = {0};
  CUresult r = flatten(&fresh, g, NULL);
  if (!r && fresh.n != e->n)
    info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
  for (uint32_t i = 0; !r && info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS && i < e->n; i++) {
    struct exec_node *a = &e->node[i], *b = &fresh.node[i];
    if (a->work.kind != b->work.kind)
      info->result = CU_GRAPH_EXEC_UPDATE_ERROR_NODE_TYPE_CHANGED;
    else if (a->nedge != b->nedge)
      info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    for (uint32_t k = 0; k < a->nedge && info->result == CU_GRAPH_EXEC_UPDATE_SUCCESS; k++)
      if (a->edge[k].on != b->edge[k].on || a->edge[k].programmatic != b->edge[k].programmatic)
        info->result = CU_GRAPH_EXEC_UPDATE_ERROR_TOPOLOGY_CHANGED;
    if (info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
      info->errorNode = b->origin;
  }
  if (!r && info->result != CU_GRAPH_EXEC_UPDATE_SUCCESS)
    r = CUDA_ERROR_GRAPH_EXEC_UPDATE_FAILURE;
  if (!r)
    for (uint32_t i = 0; i < e->n; i++) {
      struct work old = e->node[i].work;
      e->node[i].work = fresh.node[i].work;
      fresh.node[i].work = old;
    }
  for (uint32_t i = 0; i < fresh.n; i++) {
    work_clear(&fresh.node[i].work);
    free(fresh.node[i].edge);
  }
  free(fresh.node);
  return r;
}

CUresult cuGraphExecUpdate(CUgraphExec e, CUgraph g, CUgraphExecUpdateResultInfo *info) {
  API(ENTER_init);
  return update(e, g, info);
}
