/* SPDX-License-Identifier: Apache-2.0
 *
 * Graphs as the driver keeps them; shared by capture, graph building and execution.
 */
#ifndef EMU_DRIVER_GRAPH_H
#define EMU_DRIVER_GRAPH_H

#include "driver.h"

struct CUgraphNode_st {
  struct CUgraph_st *graph;
  struct work work;
  struct dependences on;
  uint32_t index;          /* scratch: position in an ordering */
  CUgraphNode copied_from; /* in a clone: the original */
  struct CUgraphNode_st *next;
};

struct CUgraph_st {
  struct CUgraphNode_st *first, **last; /* in order of creation */
  uint32_t n;
  bool child; /* owned by a node */
  bool capturing;
  CUgraph cloned_from;
  struct user_ref {
    CUuserObject object;
    unsigned count;
    struct user_ref *next;
  } *objects;
};

struct capture {
  CUgraph graph;
  bool own_graph; /* false: the client's, of cuStreamBeginCaptureToGraph */
  CUstream origin;
  CUcontext ctx;
  CUstreamCaptureMode mode;
  unsigned thread;
  uint64_t id;
  bool invalid;
  struct capture *next;
};

CUresult graph_new(CUgraph *out);
/* Takes the work over (cleared on failure too). */
CUresult node_new(CUgraphNode *out, CUgraph g, struct work *w, const struct dependence *on,
                  size_t n);
CUgraphNodeType node_type(const struct work *w);
/* Nodes sorted so that each comes after what it depends on; freed by the caller.
 * NULL: there is a cycle (or no memory). */
CUgraphNode *graph_order(CUgraph g);
void user_object_release(CUuserObject o, unsigned count);

#endif
