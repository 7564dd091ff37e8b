/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs: nodes and edges, built by hand or by capture, cloned, queried, taken apart.
 */
#include "graph.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ------------------------------------------------------------------------------ */

CUresult graph_new(CUgraph *out) {
  struct CUgraph_st *g = calloc(1, sizeof *g);
  if (!g || !handle_add(g, HANDLE_graph)) {
    free(g);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  g->last = &g->first;
  *out = g;
  return CUDA_SUCCESS;
}

static void node_free(CUgraphNode n) {
  handle_remove(n);
  work_clear(&n->work);
  dependences_clear(&n->on);
  free(n);
}

void graph_free(CUgraph g) {
  while (g->first) {
    CUgraphNode n = g->first;
    g->first = n->next;
    node_free(n);
  }
  while (g->objects) {
    struct user_ref *u = g->objects;
    g->objects = u->next;
    user_object_release(u->object, u->count);
    free(u);
  }
  handle_remove(g);
  free(g);
}

CUresult node_new(CUgraphNode *out, CUgraph g, struct work *w, const struct dependence *on,
                  size_t n) {
  struct CUgraphNode_st *node = calloc(1, sizeof *node);
  if (!node || !handle_add(node, HANDLE_node)) {
    free(node);
    work_clear(w);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  node->graph = g;
  node->work = *w;
  memset(w, 0, sizeof *w);
  for (size_t i = 0; i < n; i++)
    if (!dependences_add(&node->on, on[i])) {
      node_free(node);
      return CUDA_ERROR_OUT_OF_MEMORY;
    }
  *g->last = node;
  g->last = &node->next;
  g->n++;
  *out = node;
  return CUDA_SUCCESS;
}

CUgraphNodeType node_type(const struct work *w) {
  switch (w->kind) {
  case WORK_kernel:
    return CU_GRAPH_NODE_TYPE_KERNEL;
  case WORK_copy:
    return CU_GRAPH_NODE_TYPE_MEMCPY;
  case WORK_set:
    return CU_GRAPH_NODE_TYPE_MEMSET;
  case WORK_host:
    return CU_GRAPH_NODE_TYPE_HOST;
  case WORK_event_record:
    return CU_GRAPH_NODE_TYPE_EVENT_RECORD;
  case WORK_event_wait:
    return CU_GRAPH_NODE_TYPE_WAIT_EVENT;
  case WORK_child:
    return CU_GRAPH_NODE_TYPE_GRAPH;
  default:
    return CU_GRAPH_NODE_TYPE_EMPTY;
  }
}

CUgraphNode *graph_order(CUgraph g) {
  CUgraphNode *order = calloc(g->n + 1, sizeof *order);
  if (!order)
    return NULL;
  for (CUgraphNode n = g->first; n; n = n->next)
    n->index = UINT32_MAX;
  uint32_t done = 0;
  for (bool any = true; any;) {
    any = false;
    for (CUgraphNode n = g->first; n; n = n->next) {
      bool ready = n->index == UINT32_MAX;
      for (size_t i = 0; ready && i < n->on.n; i++)
        ready = n->on.at[i].node->index != UINT32_MAX;
      if (ready) {
        n->index = done;
        order[done++] = n;
        any = true;
      }
    }
  }
  if (done == g->n)
    return order;
  free(order);
  return NULL;
}

CUresult graph_clone(CUgraph *out, CUgraph g) {
  CUgraphNode *order = graph_order(g);
  if (!order)
    return CUDA_ERROR_INVALID_VALUE;
  CUgraph c = NULL;
  CUgraphNode *copy = calloc(g->n + 1, sizeof *copy);
  CUresult r = copy ? graph_new(&c) : CUDA_ERROR_OUT_OF_MEMORY;
  for (uint32_t i = 0; !r && i < g->n; i++) {
    struct work w;
    if ((r = work_copy(&w, &order[i]->work)))
      break;
    if ((r = node_new(&copy[i], c, &w, NULL, 0)))
      break;
    copy[i]->copied_from = order[i];
    for (size_t k = 0; k < order[i]->on.n; k++) {
      struct dependence x = order[i]->on.at[k];
      x.node = copy[x.node->index];
      if (!dependences_add(&copy[i]->on, x))
        r = CUDA_ERROR_OUT_OF_MEMORY;
    }
  }
  free(order);
  free(copy);
  if (r && c)
    graph_free(c);
  if (!r) {
    c->cloned_from = g;
    *out = c;
  }
  return r;
}

CUresult cuGraphCreate(CUgraph *out, unsigned int flags) {
  API(ENTER_init);
  if (!out || flags)
    return CUDA_ERROR_INVALID_VALUE;
  return graph_new(out);
}

CUresult cuGraphDestroy(CUgraph g) {
  API(ENTER_init);
  if (!handle_is(g, HANDLE_graph) || g->child || g->capturing)
    return CUDA_ERROR_INVALID_VALUE;
  graph_free(g);
  return CUDA_SUCCESS;
}

CUresult cuGraphClone(CUgraph *out, CUgraph g) {
  API(ENTER_init);
  if (!out || !handle_is(g, HANDLE_graph))
    return CUDA_ERROR_INVALID_VALUE;
  return graph_clone(out, g);
}

CUresult cuGraphNodeFindInClone(CUgraphNode *out, CUgraphNode original, CUgraph clone) {
  API(ENTER_init);
  if (!out || !handle_is(clone, HANDLE_graph))
    return CUDA_ERROR_INVALID_VALUE;
  for (CUgraphNode n = clone->first; n; n = n->next)
    if (n->copied_from == original) {
      *out = n;
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}

CUresult cuGraphDestroyNode(CUgraphNode node) {
  API(ENTER_init);
  if (!handle_is(node, HANDLE_node))
    return CUDA_ERROR_INVALID_VALUE;
  CUgraph g = node->graph;
  for (CUgraphNode n = g->first; n; n = n->next)
    for (size_t i = 0; i < n->on.n; i++)
      if (n->on.at[i].node == node) {
        n->on.at[i] = n->on.at[--n->on.n];
        break;
      }
  for (struct CUgraphNode_st **p = &g->first; *p; p = &(*p)->next)
    if (*p == node) {
      *p = node->next;
      if (g->last == &node->next)
        g->last = p;
      break;
    }
  g->n--;
  node_free(node);
  return CUDA_SUCCESS;
}

/* ---- queries ------------------------------------------------------------------------------ */

CUresult cuGraphNodeGetType(CUgraphNode node, CUgraphNodeType *type) {
  API(ENTER_init);
  if (!handle_is(node, HANDLE_node) || !type)
    return CUDA_ERROR_INVALID_VALUE;
  *type = node_type(&node->work);
  return CUDA_SUCCESS;
}

/* The common convention: without an array the count is asked; what an array has left is
 * set to NULL and the count to what was written. */
struct filler {
  CUgraphNode *nodes;
  size_t room, n;
};

static void fill(struct filler *f, CUgraphNode node) {
  if (f->nodes && f->n >= f->room)
    return;
  if (f->nodes)
    f->nodes[f->n] = node;
  f->n++;
}

static void filled(struct filler *f, size_t *count) {
  for (size_t i = f->n; f->nodes && i < f->room; i++)
    f->nodes[i] = NULL;
  *count = f->n;
}

CUresult cuGraphGetNodes(CUgraph g, CUgraphNode *nodes, size_t *count) {
  API(ENTER_init);
  if (!handle_is(g, HANDLE_graph) || !count)
    return CUDA_ERROR_INVALID_VALUE;
  struct filler f = {nodes, *count, 0};
  for (CUgraphNode n = g->first; n; n = n->next)
    fill(&f, n);
  filled(&f, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphGetRootNodes(CUgraph g, CUgraphNode *nodes, size_t *count) {
  API(ENTER_init);
  if (!handle_is(g, HANDLE_graph) || !count)
    return CUDA_ERROR_INVALID_VALUE;
  struct filler f = {nodes, *count, 0};
  for (CUgraphNode n = g->first; n; n = n->next)
    if (!n->on.n)
      fill(&f, n);
  filled(&f, count);
  return CUDA_SUCCESS;
}

static bool plain(const CUgraphEdgeData *e) {
  return !e->from_port && !e->to_port && !e->type;
}

static CUresult edges(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                      size_t *count) {
  if (!handle_is(g, HANDLE_graph) || !count || !from != !to)
    return CUDA_ERROR_INVALID_VALUE;
  size_t n = 0;
  for (CUgraphNode node = g->first; node; node = node->next)
    for (size_t i = 0; i < node->on.n; i++) {
      if (from && n >= *count)
        continue;
      if (from && !data && !plain(&node->on.at[i].edge))
        return CUDA_ERROR_LOSSY_QUERY;
      if (from) {
        from[n] = node->on.at[i].node;
        to[n] = node;
        if (data)
          data[n] = node->on.at[i].edge;
      }
      n++;
    }
  *count = n;
  return CUDA_SUCCESS;
}

CUresult cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, CUgraphEdgeData *data,
                         size_t *count) {
  API(ENTER_init);
  return edges(g, from, to, data, count);
}

#undef cuGraphGetEdges
CUresult cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *count);
CUresult cuGraphGetEdges(CUgraph g, CUgraphNode *from, CUgraphNode *to, size_t *count) {
  API(ENTER_init);
  return edges(g, from, to, NULL, count);
}

static CUresult dependencies(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                             size_t *count) {
  if (!handle_is(node, HANDLE_node) || !count)
    return CUDA_ERROR_INVALID_VALUE;
  struct filler f = {nodes, *count, 0};
  for (size_t i = 0; i < node->on.n; i++) {
    if (nodes && !data && !plain(&node->on.at[i].edge))
      return CUDA_ERROR_LOSSY_QUERY;
    if (nodes && data && f.n < f.room)
      data[f.n] = node->on.at[i].edge;
    fill(&f, node->on.at[i].node);
  }
  filled(&f, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                    size_t *count) {
  API(ENTER_init);
  return dependencies(node, nodes, data, count);
}

#undef cuGraphNodeGetDependencies
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count);
CUresult cuGraphNodeGetDependencies(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
  API(ENTER_init);
  return dependencies(node, nodes, NULL, count);
}

static CUresult dependents(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                           size_t *count) {
  if (!handle_is(node, HANDLE_node) || !count)
    return CUDA_ERROR_INVALID_VALUE;
  struct filler f = {nodes, *count, 0};
  for (CUgraphNode n = node->graph->first; n; n = n->next)
    for (size_t i = 0; i < n->on.n; i++) {
      if (n->on.at[i].node != node)
        continue;
      if (nodes && !data && !plain(&n->on.at[i].edge))
        return CUDA_ERROR_LOSSY_QUERY;
      if (nodes && data && f.n < f.room)
        data[f.n] = n->on.at[i].edge;
      fill(&f, n);
    }
  filled(&f, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, CUgraphEdgeData *data,
                                      size_t *count) {
  API(ENTER_init);
  return dependents(node, nodes, data, count);
}

#undef cuGraphNodeGetDependentNodes
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count);
CUresult cuGraphNodeGetDependentNodes(CUgraphNode node, CUgraphNode *nodes, size_t *count) {
  API(ENTER_init);
  return dependents(node, nodes, NULL, count);
}

/* ---- edges ------------------------------------------------------------------------------- */

static bool edge_valid(const struct dependence *x, CUgraphNode to) {
  if (plain(&x->edge))
    return true;
  return x->edge.type <= CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC &&
         x->edge.from_port <= CU_GRAPH_KERNEL_NODE_PORT_LAUNCH_ORDER && !x->edge.to_port &&
         x->node->work.kind == WORK_kernel && to->work.kind == WORK_kernel;
}

static CUresult add_edges(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                          const CUgraphEdgeData *data, size_t n) {
  if (!handle_is(g, HANDLE_graph) || (n && (!from || !to)))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; i++) {
    if (!handle_is(from[i], HANDLE_node) || !handle_is(to[i], HANDLE_node) || from[i]->graph != g ||
        to[i]->graph != g || from[i] == to[i])
      return CUDA_ERROR_INVALID_VALUE;
    struct dependence x = {.node = from[i]};
    if (data)
      x.edge = data[i];
    if (!edge_valid(&x, to[i]))
      return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < to[i]->on.n; k++)
      if (to[i]->on.at[k].node == from[i])
        return CUDA_ERROR_INVALID_VALUE;
    if (!dependences_add(&to[i]->on, x))
      return CUDA_ERROR_OUT_OF_MEMORY;
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                const CUgraphEdgeData *data, size_t n) {
  API(ENTER_init);
  return add_edges(g, from, to, data, n);
}

#undef cuGraphAddDependencies
CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                size_t n);
CUresult cuGraphAddDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                size_t n) {
  API(ENTER_init);
  return add_edges(g, from, to, NULL, n);
}

static CUresult remove_edges(CUgraph g, const CUgraphNode *from, const CUgraphNode *to, size_t n) {
  if (!handle_is(g, HANDLE_graph) || (n && (!from || !to)))
    return CUDA_ERROR_INVALID_VALUE;
  for (size_t i = 0; i < n; i++) {
    bool found = false;
    if (!handle_is(to[i], HANDLE_node) || to[i]->graph != g)
      return CUDA_ERROR_INVALID_VALUE;
    for (size_t k = 0; k < to[i]->on.n && !found; k++)
      if (to[i]->on.at[k].node == from[i]) {
        to[i]->on.at[k] = to[i]->on.at[--to[i]->on.n];
        found = true;
      }
    if (!found)
      return CUDA_ERROR_INVALID_VALUE;
  }
  return CUDA_SUCCESS;
}

CUresult cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                   const CUgraphEdgeData *data, size_t n) {
  API(ENTER_init);
  (void)data; /* between two nodes there is at most one edge here */
  return remove_edges(g, from, to, n);
}

#undef cuGraphRemoveDependencies
CUresult cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t n);
CUresult cuGraphRemoveDependencies(CUgraph g, const CUgraphNode *from, const CUgraphNode *to,
                                   size_t n) {
  API(ENTER_init);
  return remove_edges(g, from, to, n);
}
