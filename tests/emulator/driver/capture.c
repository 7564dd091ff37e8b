/* SPDX-License-Identifier: Apache-2.0
 *
 * Stream capture: work put on a capturing stream becomes graph nodes, and events carry
 * a capture to other streams and back.  A call that a capture forbids invalidates it.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- dependences ---------------------------------------------------------------------- */

bool dependences_add(struct dependences *d, struct dependence x) {
  for (size_t i = 0; i < d->n; i++)
    if (d->at[i].node == x.node)
      return true;
  struct dependence *at = realloc(d->at, (d->n + 1) * sizeof *at);
  if (!at)
    return false;
  d->at = at;
  d->at[d->n++] = x;
  return true;
}

void dependences_clear(struct dependences *d) {
  free(d->at);
  d->at = NULL;
  d->n = 0;
}

/* ---- adding nodes ----------------------------------------------------------------------- */

CUresult capture_add(CUstream s, struct work *w) {
  struct capture *c = s->capture;
  if (c->invalid)
    return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  bool programmatic = w->kind == WORK_kernel && w->launch.programmatic;
  struct dependences on = {0};
  for (size_t i = 0; i < s->captured.n; i++) {
    struct dependence x = s->captured.at[i];
    if (programmatic && x.node->work.kind == WORK_kernel) {
      x.edge.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC;
      x.edge.type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    }
    if (!dependences_add(&on, x))
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  CUgraphNode node;
  CUresult r = node_new(&node, c->graph, w, on.at, on.n);
  dependences_clear(&on);
  if (r)
    return r;
  dependences_clear(&s->captured);
  return dependences_add(&s->captured, (struct dependence){.node = node})
             ? CUDA_SUCCESS
             : CUDA_ERROR_OUT_OF_MEMORY;
}

/* ---- what a capture forbids --------------------------------------------------------------- */

CUresult capture_unsafe(void) {
  struct thread *t = thread_get();
  if (t->capture_mode == CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_SUCCESS;
  CUresult r = CUDA_SUCCESS;
  for (struct capture *c = driver.captures; c; c = c->next) {
    bool mine = c->thread == t->id && c->mode != CU_STREAM_CAPTURE_MODE_RELAXED;
    bool anyone = t->capture_mode == CU_STREAM_CAPTURE_MODE_GLOBAL &&
                  c->mode == CU_STREAM_CAPTURE_MODE_GLOBAL;
    if (mine || anyone) {
      c->invalid = true;
      r = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    }
  }
  return r;
}

CUresult capture_refuse(CUcontext ctx, CUstream s, CUresult error) {
  bool any = false;
  for (struct capture *c = driver.captures; c; c = c->next)
    if (s ? s->capture == c : c->ctx == ctx) {
      c->invalid = true;
      any = true;
    }
  return any ? error : CUDA_SUCCESS;
}

/* The legacy stream would wait for a blocking stream that is being captured. */
CUresult capture_legacy_check(CUcontext ctx) {
  CUresult r = CUDA_SUCCESS;
  for (CUstream s = ctx->streams; s; s = s->next)
    if (s->capture && !(s->flags & CU_STREAM_NON_BLOCKING)) {
      s->capture->invalid = true;
      r = CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
    }
  return r;
}

/* ---- life ------------------------------------------------------------------------------- */

void capture_forget_event(CUevent e) {
  e->capture = NULL;
  dependences_clear(&e->captured);
}

static void capture_end(struct capture *c) {
  for (struct CUctx_st *ctx = driver.contexts; ctx; ctx = ctx->next)
    for (CUstream s = ctx->streams; s; s = s->next)
      if (s->capture == c) {
        s->capture = NULL;
        dependences_clear(&s->captured);
      }
  for (struct CUevent_st *e = driver.events; e; e = e->next)
    if (e->capture == c)
      capture_forget_event(e);
  for (struct capture **p = &driver.captures; *p; p = &(*p)->next)
    if (*p == c) {
      *p = c->next;
      break;
    }
  c->graph->capturing = false;
  free(c);
}

void capture_forget_stream(CUstream s) {
  struct capture *c = s->capture;
  if (!c)
    return;
  if (c->origin == s) { /* destroying the origin abandons the capture */
    CUgraph g = c->own_graph ? c->graph : NULL;
    capture_end(c);
    if (g)
      graph_free(g);
  } else {
    c->invalid = true;
    s->capture = NULL;
  }
}

static CUresult begin(CUstream s, CUcontext current, CUgraph graph, const CUgraphNode *on,
                      const CUgraphEdgeData *edges, size_t n, CUstreamCaptureMode mode) {
  CUresult r = CUDA_SUCCESS;
  if ((unsigned)mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  s = stream_resolve(s, current, &r);
  if (!s)
    return r;
  if (s->legacy)
    return CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  if (s->capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  struct capture *c = calloc(1, sizeof *c);
  if (!c)
    return CUDA_ERROR_OUT_OF_MEMORY;
  c->own_graph = !graph;
  if (!graph && (r = graph_new(&graph))) {
    free(c);
    return r;
  }
  c->graph = graph;
  graph->capturing = true;
  c->origin = s;
  c->ctx = s->ctx;
  c->mode = mode;
  c->thread = thread_get()->id;
  c->id = ++driver.next_id;
  c->next = driver.captures;
  driver.captures = c;
  s->capture = c;
  dependences_clear(&s->captured);
  for (size_t i = 0; i < n; i++) {
    struct dependence x = {.node = on[i]};
    if (edges)
      x.edge = edges[i];
    if (!dependences_add(&s->captured, x))
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

CUresult cuStreamBeginCapture(CUstream s, CUstreamCaptureMode mode) {
  API(ENTER_context);
  return begin(s, guard.ctx, NULL, NULL, NULL, 0, mode);
}

CUresult cuStreamBeginCaptureToGraph(CUstream s, CUgraph graph, const CUgraphNode *dependencies,
                                     const CUgraphEdgeData *data, size_t n,
                                     CUstreamCaptureMode mode) {
  API(ENTER_context);
  if (!handle_is(graph, HANDLE_graph) || (n && !dependencies))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; i++)
    if (!handle_is(dependencies[i], HANDLE_node) || dependencies[i]->graph != graph)
      return CUDA_ERROR_INVALID_VALUE;
  return begin(s, guard.ctx, graph, dependencies, data, n, mode);
}

CUresult cuThreadExchangeStreamCaptureMode(CUstreamCaptureMode *mode) {
  API(ENTER_init);
  if (!mode || (unsigned)*mode > CU_STREAM_CAPTURE_MODE_RELAXED)
    return CUDA_ERROR_INVALID_VALUE;
  struct thread *t = thread_get();
  CUstreamCaptureMode old = t->capture_mode;
  t->capture_mode = *mode;
  *mode = old;
  return CUDA_SUCCESS;
}

/* Is there a leaf of the graph that the origin stream has not joined? */
static bool unjoined(const struct capture *c) {
  for (CUgraphNode n = c->graph->first; n; n = n->next)
    n->index = 0;
  for (CUgraphNode n = c->graph->first; n; n = n->next)
    for (size_t i = 0; i < n->on.n; i++)
      n->on.at[i].node->index = 1;
  for (size_t i = 0; i < c->origin->captured.n; i++)
    c->origin->captured.at[i].node->index = 1;
  for (struct CUctx_st *ctx = driver.contexts; ctx; ctx = ctx->next)
    for (CUstream s = ctx->streams; s; s = s->next)
      for (size_t i = 0; s->capture == c && s != c->origin && i < s->captured.n; i++)
        if (!s->captured.at[i].node->index)
          return true;
  return false;
}

CUresult cuStreamEndCapture(CUstream s, CUgraph *graph) {
  API(ENTER_context);
  CUresult r = CUDA_SUCCESS;
  if (!graph)
    return CUDA_ERROR_INVALID_VALUE;
  *graph = NULL;
  s = stream_resolve(s, guard.ctx, &r);
  if (!s)
    return r;
  struct capture *c = s->capture;
  if (!c)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (c->origin != s)
    return CUDA_ERROR_STREAM_CAPTURE_UNMATCHED;
  if (c->mode != CU_STREAM_CAPTURE_MODE_RELAXED && c->thread != thread_get()->id)
    return CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD;
  if (c->invalid)
    r = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
  else if (unjoined(c))
    r = CUDA_ERROR_STREAM_CAPTURE_UNJOINED;
  CUgraph g = c->graph;
  bool own = c->own_graph;
  capture_end(c);
  if (!r)
    *graph = g;
  else if (own)
    graph_free(g);
  return r;
}

/* ---- asking ------------------------------------------------------------------------------- */

static CUstreamCaptureStatus status_of(CUstream s) {
  if (!s->capture)
    return CU_STREAM_CAPTURE_STATUS_NONE;
  return s->capture->invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                             : CU_STREAM_CAPTURE_STATUS_ACTIVE;
}

CUresult cuStreamIsCapturing(CUstream s, CUstreamCaptureStatus *status) {
  API(ENTER_context);
  CUresult r = CUDA_SUCCESS;
  s = stream_resolve(s, guard.ctx, &r);
  if (!s)
    return r;
  if (!status)
    return CUDA_ERROR_INVALID_VALUE;
  if (s->legacy) /* asking must not disturb a capture that the legacy stream would wait for */
    for (CUstream t = s->ctx->streams; t; t = t->next)
      if (t->capture && !(t->flags & CU_STREAM_NON_BLOCKING))
        return CUDA_ERROR_STREAM_CAPTURE_IMPLICIT;
  *status = status_of(s);
  return CUDA_SUCCESS;
}

static CUresult info(CUstream s, CUcontext current, CUstreamCaptureStatus *status, cuuint64_t *id,
                     CUgraph *graph, const CUgraphNode **dependencies,
                     const CUgraphEdgeData **edges, size_t *n) {
  /* Valid until the next call that touches the stream's capture, as on hardware. */
  static __thread CUgraphNode *nodes;
  static __thread CUgraphEdgeData *data;
  CUresult r = CUDA_SUCCESS;
  s = stream_resolve(s, current, &r);
  if (!s)
    return r;
  if (!status)
    return CUDA_ERROR_INVALID_VALUE;
  *status = status_of(s);
  if (*status != CU_STREAM_CAPTURE_STATUS_ACTIVE)
    return CUDA_SUCCESS;
  size_t count = s->captured.n;
  if (dependencies || edges) {
    CUgraphNode *a = realloc(nodes, (count + 1) * sizeof *a);
    if (!a)
      return CUDA_ERROR_OUT_OF_MEMORY;
    nodes = a;
    CUgraphEdgeData *b = realloc(data, (count + 1) * sizeof *b);
    if (!b)
      return CUDA_ERROR_OUT_OF_MEMORY;
    data = b;
    bool lossy = false;
    for (size_t i = 0; i < count; i++) {
      nodes[i] = s->captured.at[i].node;
      data[i] = s->captured.at[i].edge;
      lossy |= data[i].type || data[i].from_port || data[i].to_port;
    }
    if (lossy && !edges)
      return CUDA_ERROR_LOSSY_QUERY;
  }
  if (id)
    *id = s->capture->id;
  if (graph)
    *graph = s->capture->graph;
  if (dependencies)
    *dependencies = nodes;
  if (edges)
    *edges = data;
  if (n)
    *n = count;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCaptureInfo(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                                CUgraph *graph, const CUgraphNode **dependencies,
                                const CUgraphEdgeData **edges, size_t *n) {
  API(ENTER_context);
  return info(s, guard.ctx, status, id, graph, dependencies, edges, n);
}

CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies, size_t *n);
CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies, size_t *n) {
  API(ENTER_context);
  return info(s, guard.ctx, status, id, graph, dependencies, NULL, n);
}

CUresult cuStreamUpdateCaptureDependencies(CUstream s, CUgraphNode *dependencies,
                                           const CUgraphEdgeData *data, size_t n,
                                           unsigned int flags) {
  API(ENTER_context);
  CUresult r = CUDA_SUCCESS;
  s = stream_resolve(s, guard.ctx, &r);
  if (!s)
    return r;
  if (!s->capture)
    return CUDA_ERROR_ILLEGAL_STATE;
  if (flags > CU_STREAM_SET_CAPTURE_DEPENDENCIES || (n && !dependencies))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; i++)
    if (!handle_is(dependencies[i], HANDLE_node) || dependencies[i]->graph != s->capture->graph)
      return CUDA_ERROR_INVALID_VALUE;
  if (flags == CU_STREAM_SET_CAPTURE_DEPENDENCIES)
    dependences_clear(&s->captured);
  for (size_t i = 0; i < n; i++) {
    struct dependence x = {.node = dependencies[i]};
    if (data)
      x.edge = data[i];
    if (!dependences_add(&s->captured, x))
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}
