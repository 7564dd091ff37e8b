/* SPDX-License-Identifier: Apache-2.0
 *
 * User objects: a client's destructor that runs when the last graph using it is gone.
 */
#include "graph.h"

#include <stdlib.h>

struct CUuserObject_st {
  void *data;
  CUhostFn destroy;
  unsigned refs;
};

void user_object_release(CUuserObject o, unsigned count) {
  if (count < o->refs) {
    o->refs -= count;
    return;
  }
  o->destroy(o->data); /* must not call the driver, as documented */
  handle_remove(o);
  free(o);
}

CUresult cuUserObjectCreate(CUuserObject *out, void *data, CUhostFn destroy, unsigned int refs,
                            unsigned int flags) {
  API(ENTER_init);
  if (!out || !destroy || !refs || flags != CU_USER_OBJECT_NO_DESTRUCTOR_SYNC)
    return CUDA_ERROR_INVALID_VALUE;
  struct CUuserObject_st *o = calloc(1, sizeof *o);
  if (!o || !handle_add(o, HANDLE_user_object)) {
    free(o);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  *o = (struct CUuserObject_st){data, destroy, refs};
  *out = o;
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRetain(CUuserObject o, unsigned int count) {
  API(ENTER_init);
  if (!handle_is(o, HANDLE_user_object) || !count)
    return CUDA_ERROR_INVALID_VALUE;
  o->refs += count;
  return CUDA_SUCCESS;
}

CUresult cuUserObjectRelease(CUuserObject o, unsigned int count) {
  API(ENTER_init);
  if (!handle_is(o, HANDLE_user_object) || !count || count > o->refs)
    return CUDA_ERROR_INVALID_VALUE;
  user_object_release(o, count);
  return CUDA_SUCCESS;
}

CUresult cuGraphRetainUserObject(CUgraph g, CUuserObject o, unsigned int count,
                                 unsigned int flags) {
  API(ENTER_init);
  if (!handle_is(g, HANDLE_graph) || !handle_is(o, HANDLE_user_object) || !count ||
      flags & ~(unsigned)CU_GRAPH_USER_OBJECT_MOVE)
    return CUDA_ERROR_INVALID_VALUE;
  struct user_ref *u = calloc(1, sizeof *u);
  if (!u)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *u = (struct user_ref){o, count, g->objects};
  g->objects = u;
  if (!flags)
    o->refs += count;
  return CUDA_SUCCESS;
}

CUresult cuGraphReleaseUserObject(CUgraph g, CUuserObject o, unsigned int count) {
  API(ENTER_init);
  if (!handle_is(g, HANDLE_graph) || !handle_is(o, HANDLE_user_object))
    return CUDA_ERROR_INVALID_VALUE;
  for (struct user_ref **p = &g->objects; *p; p = &(*p)->next)
    if ((*p)->object == o && count && count <= (*p)->count) {
      struct user_ref *u = *p;
      u->count -= count;
      if (!u->count) {
        *p = u->next;
        free(u);
      }
      user_object_release(o, count);
      return CUDA_SUCCESS;
    }
  return CUDA_ERROR_INVALID_VALUE;
}
