/* SPDX-License-Identifier: Apache-2.0
 *
 * Graph nodes by kind: adding them, reading and changing their parameters.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

CUresult kernel_node_work(struct work *w, const CUDA_KERNEL_NODE_PARAMS *p, CUcontext current);
CUresult memset_node_work(struct work *w, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx);

/* ---- adding ------------------------------------------------------------------------------- */

static CUresult add(CUgraphNode *out, CUgraph g, const CUgraphNode *on, const CUgraphEdgeData *data,
                    size_t n, struct work *w) {
  CUresult r = CUDA_SUCCESS;
  struct dependences d = {0};
  if (!out || !handle_is(g, HANDLE_graph) || (n && !on))
    r = CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; !r && i < n; i++) {
    struct dependence x = {.node = on[i]};
    if (data)
      x.edge = data[i];
    if (!handle_is(on[i], HANDLE_node) || on[i]->graph != g)
      r = CUDA_ERROR_INVALID_VALUE;
    else if (!dependences_add(&d, x))
      r = CUDA_ERROR_OUT_OF_MEMORY;
  }
  if (!r)
    r = node_new(out, g, w, d.at, d.n);
  work_clear(w);
  dependences_clear(&d);
  return r;
}

CUresult kernel_node_work(struct work *w, const CUDA_KERNEL_NODE_PARAMS *p, CUcontext current) {
  CUlaunchConfig c = {p->gridDimX,  p->gridDimY,       p->gridDimZ, p->blockDimX, p->blockDimY,
                      p->blockDimZ, p->sharedMemBytes, NULL,        NULL,         0};
  CUfunction f = p->func ? p->func : (CUfunction)p->kern;
  if (p->ctx && !handle_is(p->ctx, HANDLE_context))
    return CUDA_ERROR_INVALID_CONTEXT;
  return launch_work(w, &c, f, p->kernelParams, p->extra, p->ctx ? p->ctx : current);
}

/* The older structure ends after `extra`. */
static CUDA_KERNEL_NODE_PARAMS from_v1(const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
  CUDA_KERNEL_NODE_PARAMS q = {0};
  memcpy(&q, p, sizeof *p);
  return q;
}

CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                              const CUDA_KERNEL_NODE_PARAMS *p) {
  API(ENTER_context);
  if (!p)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w;
  CUresult r = kernel_node_work(&w, p, guard.ctx);
  return r ? r : add(out, g, on, NULL, n, &w);
}

#undef cuGraphAddKernelNode
CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *p);
CUresult cuGraphAddKernelNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                              const CUDA_KERNEL_NODE_PARAMS_v1 *p) {
  API(ENTER_context);
  if (!p)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w;
  CUDA_KERNEL_NODE_PARAMS q = from_v1(p);
  CUresult r = kernel_node_work(&w, &q, guard.ctx);
  return r ? r : add(out, g, on, NULL, n, &w);
}

CUresult cuGraphAddMemcpyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                              const CUDA_MEMCPY3D *p, CUcontext ctx) {
  API(ENTER_init);
  if (!p || !handle_is(ctx, HANDLE_context))
    return CUDA_ERROR_INVALID_VALUE;
  struct work w;
  CUresult r = copy_from_3d(&w, p);
  w.ctx = ctx;
  return r ? r : add(out, g, on, NULL, n, &w);
}

CUresult memset_node_work(struct work *w, const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx) {
  if (p->elementSize != 1 && p->elementSize != 2 && p->elementSize != 4)
    return CUDA_ERROR_INVALID_VALUE;
  return set_work(w, ctx, p->dst, p->pitch, p->value, p->elementSize, p->width, p->height);
}

CUresult cuGraphAddMemsetNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                              const CUDA_MEMSET_NODE_PARAMS *p, CUcontext ctx) {
  API(ENTER_init);
  if (!p || !handle_is(ctx, HANDLE_context))
    return CUDA_ERROR_INVALID_VALUE;
  struct work w;
  CUresult r = memset_node_work(&w, p, ctx);
  return r ? r : add(out, g, on, NULL, n, &w);
}

CUresult cuGraphAddHostNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                            const CUDA_HOST_NODE_PARAMS *p) {
  API(ENTER_init);
  if (!p || !p->fn)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w = {.kind = WORK_host, .host = {.fn = p->fn, .data = p->userData}};
  return add(out, g, on, NULL, n, &w);
}

CUresult cuGraphAddEmptyNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n) {
  API(ENTER_init);
  struct work w = {.kind = WORK_empty};
  return add(out, g, on, NULL, n, &w);
}

static CUresult child_work(struct work *w, CUgraph child) {
  *w = (struct work){.kind = WORK_child};
  if (!handle_is(child, HANDLE_graph))
    return CUDA_ERROR_INVALID_VALUE;
  CUresult r = graph_clone(&w->child, child);
  if (!r)
    w->child->child = true;
  return r;
}

CUresult cuGraphAddChildGraphNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                                  CUgraph child) {
  API(ENTER_init);
  struct work w;
  CUresult r = child_work(&w, child);
  return r ? r : add(out, g, on, NULL, n, &w);
}

static CUresult add_event(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                          CUevent event, enum work_kind kind) {
  if (!handle_is(event, HANDLE_event))
    return CUDA_ERROR_INVALID_VALUE;
  struct work w = {.kind = kind, .ctx = event->ctx, .event = event};
  return add(out, g, on, NULL, n, &w);
}

CUresult cuGraphAddEventRecordNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                                   CUevent event) {
  API(ENTER_init);
  return add_event(out, g, on, n, event, WORK_event_record);
}

CUresult cuGraphAddEventWaitNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                                 CUevent event) {
  API(ENTER_init);
  return add_event(out, g, on, n, event, WORK_event_wait);
}

/* Work from the parameters that serve all kinds of node. */
static CUresult general_work(struct work *w, CUgraphNodeParams *p, CUcontext current) {
  *w = (struct work){.kind = WORK_empty};
  switch (p->type) {
  case CU_GRAPH_NODE_TYPE_KERNEL: {
    CUDA_KERNEL_NODE_PARAMS q;
    memcpy(&q, &p->kernel, sizeof q); /* v2 and v3 have the same fields */
    return kernel_node_work(w, &q, current);
  }
  case CU_GRAPH_NODE_TYPE_MEMCPY: {
    CUresult r = copy_from_3d(w, &p->memcpy.copyParams);
    w->ctx = p->memcpy.copyCtx ? p->memcpy.copyCtx : current;
    return r;
  }
  case CU_GRAPH_NODE_TYPE_MEMSET: {
    CUDA_MEMSET_NODE_PARAMS q = {p->memset.dst,         p->memset.pitch, p->memset.value,
                                 p->memset.elementSize, p->memset.width, p->memset.height};
    return memset_node_work(w, &q, p->memset.ctx ? p->memset.ctx : current);
  }
  case CU_GRAPH_NODE_TYPE_HOST:
    if (!p->host.fn)
      return CUDA_ERROR_INVALID_VALUE;
    w->kind = WORK_host;
    w->host.fn = p->host.fn;
    w->host.data = p->host.userData;
    return CUDA_SUCCESS;
  case CU_GRAPH_NODE_TYPE_GRAPH:
    return child_work(w, p->graph.graph);
  case CU_GRAPH_NODE_TYPE_EMPTY:
    return CUDA_SUCCESS;
  case CU_GRAPH_NODE_TYPE_WAIT_EVENT:
  case CU_GRAPH_NODE_TYPE_EVENT_RECORD: {
    bool wait = p->type == CU_GRAPH_NODE_TYPE_WAIT_EVENT;
    CUevent e = wait ? p->eventWait.event : p->eventRecord.event;
    if (!handle_is(e, HANDLE_event))
      return CUDA_ERROR_INVALID_VALUE;
    *w = (struct work){
        .kind = wait ? WORK_event_wait : WORK_event_record, .ctx = e->ctx, .event = e};
    return CUDA_SUCCESS;
  }
  default:
    return lacking("a graph node of this type");
  }
}

CUresult cuGraphAddNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on,
                        const CUgraphEdgeData *data, size_t n, CUgraphNodeParams *p) {
  API(ENTER_context);
  if (!p)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w;
  CUresult r = general_work(&w, p, guard.ctx);
  return r ? r : add(out, g, on, data, n, &w);
}

#undef cuGraphAddNode
CUresult cuGraphAddNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                        CUgraphNodeParams *p);
CUresult cuGraphAddNode(CUgraphNode *out, CUgraph g, const CUgraphNode *on, size_t n,
                        CUgraphNodeParams *p) {
  API(ENTER_context);
  if (!p)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w;
  CUresult r = general_work(&w, p, guard.ctx);
  return r ? r : add(out, g, on, NULL, n, &w);
}

/* ---- parameters ------------------------------------------------------------------------------ */

static bool is(CUgraphNode node, enum work_kind kind) {
  return handle_is(node, HANDLE_node) && node->work.kind == kind;
}

/* Other work of the same kind; launch settings that the parameters do not carry stay. */
static CUresult replace(CUgraphNode node, struct work *w) {
  if (w->kind == WORK_kernel) {
    w->launch.programmatic = node->work.launch.programmatic;
    w->launch.cooperative = node->work.launch.cooperative;
    w->launch.priority = node->work.launch.priority;
    if (w->launch.fn == node->work.launch.fn)
      memcpy(w->launch.cluster, node->work.launch.cluster, sizeof w->launch.cluster);
  }
  if (!w->ctx)
    w->ctx = node->work.ctx;
  work_clear(&node->work);
  node->work = *w;
  memset(w, 0, sizeof *w);
  return CUDA_SUCCESS;
}

/* The parameter pointers are valid until the node's parameters change. */
CUresult cuGraphKernelNodeGetParams(CUgraphNode node, CUDA_KERNEL_NODE_PARAMS *p) {
  static __thread void **pointers;
  API(ENTER_init);
  if (!is(node, WORK_kernel) || !p)
    return CUDA_ERROR_INVALID_VALUE;
  const struct launch *l = &node->work.launch;
  const struct function *fn = l->fn->fn;
  void **v = realloc(pointers, (fn->nparam + 1) * sizeof *v);
  if (!v)
    return CUDA_ERROR_OUT_OF_MEMORY;
  pointers = v;
  for (uint32_t i = 0; i < fn->nparam; i++)
    v[i] = l->params + fn->param[i].offset;
  *p = (CUDA_KERNEL_NODE_PARAMS){.func = l->fn,
                                 .gridDimX = l->grid[0],
                                 .gridDimY = l->grid[1],
                                 .gridDimZ = l->grid[2],
                                 .blockDimX = l->block[0],
                                 .blockDimY = l->block[1],
                                 .blockDimZ = l->block[2],
                                 .sharedMemBytes = l->shared,
                                 .kernelParams = v,
                                 .ctx = node->work.ctx};
  return CUDA_SUCCESS;
}

CUresult cuGraphKernelNodeSetParams(CUgraphNode node, const CUDA_KERNEL_NODE_PARAMS *p) {
  API(ENTER_context);
  if (!is(node, WORK_kernel) || !p)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w;
  CUresult r = kernel_node_work(&w, p, node->work.ctx);
  return r ? r : replace(node, &w);
}

CUresult cuGraphMemcpyNodeGetParams(CUgraphNode node, CUDA_MEMCPY3D *p) {
  API(ENTER_init);
  if (!is(node, WORK_copy) || !p)
    return CUDA_ERROR_INVALID_VALUE;
  *p = node->work.copy.asked;
  return CUDA_SUCCESS;
}

CUresult cuGraphMemcpyNodeSetParams(CUgraphNode node, const CUDA_MEMCPY3D *p) {
  API(ENTER_init);
  if (!is(node, WORK_copy) || !p)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w;
  CUresult r = copy_from_3d(&w, p);
  return r ? r : replace(node, &w);
}

CUresult cuGraphMemsetNodeGetParams(CUgraphNode node, CUDA_MEMSET_NODE_PARAMS *p) {
  API(ENTER_init);
  if (!is(node, WORK_set) || !p)
    return CUDA_ERROR_INVALID_VALUE;
  const struct set *s = &node->work.set;
  *p = (CUDA_MEMSET_NODE_PARAMS){s->dst, s->pitch, s->value, s->element, s->width, s->height};
  return CUDA_SUCCESS;
}

CUresult cuGraphMemsetNodeSetParams(CUgraphNode node, const CUDA_MEMSET_NODE_PARAMS *p) {
  API(ENTER_init);
  if (!is(node, WORK_set) || !p)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w;
  CUresult r = memset_node_work(&w, p, node->work.ctx);
  return r ? r : replace(node, &w);
}

CUresult cuGraphHostNodeGetParams(CUgraphNode node, CUDA_HOST_NODE_PARAMS *p) {
  API(ENTER_init);
  if (!is(node, WORK_host) || !p)
    return CUDA_ERROR_INVALID_VALUE;
  p->fn = node->work.host.fn;
  p->userData = node->work.host.data;
  return CUDA_SUCCESS;
}

CUresult cuGraphHostNodeSetParams(CUgraphNode node, const CUDA_HOST_NODE_PARAMS *p) {
  API(ENTER_init);
  if (!is(node, WORK_host) || !p || !p->fn)
    return CUDA_ERROR_INVALID_VALUE;
  node->work.host.fn = p->fn;
  node->work.host.data = p->userData;
  return CUDA_SUCCESS;
}

CUresult cuGraphChildGraphNodeGetGraph(CUgraphNode node, CUgraph *out) {
  API(ENTER_init);
  if (!is(node, WORK_child) || !out)
    return CUDA_ERROR_INVALID_VALUE;
  *out = node->work.child;
  return CUDA_SUCCESS;
}

static CUresult get_event(CUgraphNode node, enum work_kind kind, CUevent *out) {
  if (!is(node, kind) || !out)
    return CUDA_ERROR_INVALID_VALUE;
  *out = node->work.event;
  return CUDA_SUCCESS;
}

static CUresult set_event(CUgraphNode node, enum work_kind kind, CUevent e) {
  if (!is(node, kind) || !handle_is(e, HANDLE_event))
    return CUDA_ERROR_INVALID_VALUE;
  node->work.event = e;
  node->work.ctx = e->ctx;
  return CUDA_SUCCESS;
}

CUresult cuGraphEventRecordNodeGetEvent(CUgraphNode node, CUevent *out) {
  API(ENTER_init);
  return get_event(node, WORK_event_record, out);
}

CUresult cuGraphEventRecordNodeSetEvent(CUgraphNode node, CUevent e) {
  API(ENTER_init);
  return set_event(node, WORK_event_record, e);
}

CUresult cuGraphEventWaitNodeGetEvent(CUgraphNode node, CUevent *out) {
  API(ENTER_init);
  return get_event(node, WORK_event_wait, out);
}

CUresult cuGraphEventWaitNodeSetEvent(CUgraphNode node, CUevent e) {
  API(ENTER_init);
  return set_event(node, WORK_event_wait, e);
}

CUresult cuGraphNodeSetParams(CUgraphNode node, CUgraphNodeParams *p) {
  API(ENTER_context);
  if (!handle_is(node, HANDLE_node) || !p || p->type != node_type(&node->work))
    return CUDA_ERROR_INVALID_VALUE;
  struct work w;
  CUresult r = general_work(&w, p, node->work.ctx ? node->work.ctx : guard.ctx);
  return r ? r : replace(node, &w);
}

/* ---- kernel attributes ----------------------------------------------------------------------- */

CUresult cuGraphKernelNodeGetAttribute(CUgraphNode node, CUkernelNodeAttrID attr,
                                       CUkernelNodeAttrValue *v) {
  API(ENTER_init);
  if (!is(node, WORK_kernel) || !v)
    return CUDA_ERROR_INVALID_VALUE;
  const struct launch *l = &node->work.launch;
  memset(v, 0, sizeof *v);
  switch (attr) {
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION:
    v->clusterDim.x = l->cluster[0];
    v->clusterDim.y = l->cluster[1];
    v->clusterDim.z = l->cluster[2];
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    v->cooperative = l->cooperative;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    v->priority = l->priority;
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuGraphKernelNodeSetAttribute(CUgraphNode node, CUkernelNodeAttrID attr,
                                       const CUkernelNodeAttrValue *v) {
  API(ENTER_init);
  if (!is(node, WORK_kernel) || !v)
    return CUDA_ERROR_INVALID_VALUE;
  struct launch *l = &node->work.launch;
  switch (attr) {
  case CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION: {
    const uint32_t c[3] = {v->clusterDim.x, v->clusterDim.y, v->clusterDim.z};
    for (int i = 0; i < 3; i++)
      if (!c[i] || l->grid[i] % c[i])
        return CUDA_ERROR_INVALID_VALUE;
    if (c[0] * c[1] * c[2] > (l->fn->non_portable ? 16u : 8u))
      return CUDA_ERROR_INVALID_CLUSTER_SIZE;
    memcpy(l->cluster, c, sizeof c);
    return CUDA_SUCCESS;
  }
  case CU_LAUNCH_ATTRIBUTE_COOPERATIVE:
    l->cooperative = v->cooperative != 0;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
    l->priority = v->priority;
    return CUDA_SUCCESS;
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
    return CUDA_SUCCESS;
  default:
    return CUDA_ERROR_INVALID_VALUE;
  }
}

CUresult cuGraphKernelNodeCopyAttributes(CUgraphNode dst, CUgraphNode src) {
  API(ENTER_init);
  if (!is(dst, WORK_kernel) || !is(src, WORK_kernel))
    return CUDA_ERROR_INVALID_VALUE;
  struct launch *d = &dst->work.launch, *s = &src->work.launch;
  for (int i = 0; i < 3; i++)
    if (d->grid[i] % s->cluster[i])
      return CUDA_ERROR_INVALID_VALUE;
  memcpy(d->cluster, s->cluster, sizeof d->cluster);
  d->cooperative = s->cooperative;
  d->priority = s->priority;
  return CUDA_SUCCESS;
}
