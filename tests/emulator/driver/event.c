/* SPDX-License-Identifier: Apache-2.0
 *
 * Events.  Recording puts a marker on the stream; its completion is the event's.
 * Elapsed time is virtual: one step of the machine counts as a nanosecond.
 */
#include "driver.h"

#include <stdlib.h>

CUresult cuEventCreate(CUevent *out, unsigned int flags) {
  API(ENTER_context);
  if (!out ||
      flags & ~(unsigned)(CU_EVENT_BLOCKING_SYNC | CU_EVENT_DISABLE_TIMING | CU_EVENT_INTERPROCESS))
    return CUDA_ERROR_INVALID_VALUE;
  if (flags & CU_EVENT_INTERPROCESS)
    return lacking("an inter-process event");
  struct CUevent_st *e = calloc(1, sizeof *e);
  if (!e || !handle_add(e, HANDLE_event)) {
    free(e);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  e->ctx = guard.ctx;
  e->flags = flags;
  e->next = driver.events;
  driver.events = e;
  *out = e;
  return CUDA_SUCCESS;
}

CUresult cuEventDestroy(CUevent e) {
  API(ENTER_init);
  if (!handle_is(e, HANDLE_event))
    return CUDA_ERROR_INVALID_HANDLE;
  for (struct CUevent_st **p = &driver.events; *p; p = &(*p)->next)
    if (*p == e) {
      *p = e->next;
      break;
    }
  op_unref(e->op);
  capture_forget_event(e);
  handle_remove(e);
  free(e);
  return CUDA_SUCCESS;
}

static CUresult record(CUevent e, CUstream s, CUcontext current, unsigned flags) {
  CUresult r = CUDA_SUCCESS;
  if (!handle_is(e, HANDLE_event))
    return CUDA_ERROR_INVALID_HANDLE;
  if (flags & ~(unsigned)CU_EVENT_RECORD_EXTERNAL)
    return CUDA_ERROR_INVALID_VALUE;
  s = stream_resolve(s, current, &r);
  if (!s)
    return r;
  if (e->ctx != s->ctx)
    return CUDA_ERROR_INVALID_HANDLE; /* an event is recorded in its own context only */
  if (s->capture && !flags) {
    capture_forget_event(e);
    e->capture = s->capture;
    for (size_t i = 0; i < s->captured.n; i++)
      if (!dependences_add(&e->captured, s->captured.at[i]))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
  }
  if (flags && !s->capture)
    return CUDA_ERROR_INVALID_VALUE; /* "external" has a meaning in captures alone */
  struct work w = {.kind = WORK_event_record, .event = e};
  if (s->capture)
    return enqueue(s, &w);
  r = enqueue(s, &w);
  if (r)
    return r;
  capture_forget_event(e);
  op_ref(s->tail);
  op_unref(e->op);
  e->op = s->tail;
  return CUDA_SUCCESS;
}

CUresult cuEventRecord(CUevent e, CUstream s) {
  API(ENTER_context);
  return record(e, s, guard.ctx, 0);
}

CUresult cuEventRecordWithFlags(CUevent e, CUstream s, unsigned int flags) {
  API(ENTER_context);
  return record(e, s, guard.ctx, flags);
}

static bool event_done(void *op) {
  struct op *o = op;
  return o->retired || o->work.ctx->error;
}

CUresult cuEventQuery(CUevent e) {
  API(ENTER_init);
  if (!handle_is(e, HANDLE_event))
    return CUDA_ERROR_INVALID_HANDLE;
  if (e->capture)
    return CUDA_ERROR_CAPTURED_EVENT;
  CUresult r = capture_unsafe();
  if (r)
    return r;
  if (!e->op)
    return CUDA_SUCCESS;
  if (!event_done(e->op))
    drive_some();
  if (e->ctx->error)
    return e->ctx->error;
  if (!event_done(e->op))
    return CUDA_ERROR_NOT_READY;
  op_waited(e->op);
  return CUDA_SUCCESS;
}

CUresult cuEventSynchronize(CUevent e) {
  API(ENTER_init);
  if (!handle_is(e, HANDLE_event))
    return CUDA_ERROR_INVALID_HANDLE;
  if (e->capture)
    return CUDA_ERROR_CAPTURED_EVENT;
  CUresult r = capture_unsafe();
  if (r)
    return r;
  CUcontext ctx = e->ctx;
  struct op *o = e->op;
  if (!o)
    return CUDA_SUCCESS;
  op_ref(o);
  r = drive(event_done, o);
  op_waited(o);
  op_unref(o);
  return ctx->error ? ctx->error : r;
}

static CUresult elapsed(float *ms, CUevent start, CUevent end) {
  if (!ms)
    return CUDA_ERROR_INVALID_VALUE;
  if (!handle_is(start, HANDLE_event) || !handle_is(end, HANDLE_event) || start->ctx != end->ctx ||
      (start->flags | end->flags) & CU_EVENT_DISABLE_TIMING || !start->op || !end->op)
    return CUDA_ERROR_INVALID_HANDLE;
  if (start->ctx->error)
    return start->ctx->error;
  if (!event_done(start->op) || !event_done(end->op))
    return CUDA_ERROR_NOT_READY;
  *ms = (float)(((double)end->op->time - (double)start->op->time) * 1e-6);
  return CUDA_SUCCESS;
}

CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
  API(ENTER_init);
  return elapsed(ms, start, end);
}

#undef cuEventElapsedTime
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end);
CUresult cuEventElapsedTime(float *ms, CUevent start, CUevent end) {
  API(ENTER_init);
  return elapsed(ms, start, end);
}

CUresult cuStreamWaitEvent(CUstream s, CUevent e, unsigned int flags) {
  API(ENTER_context);
  CUresult r = CUDA_SUCCESS;
  if (!handle_is(e, HANDLE_event))
    return CUDA_ERROR_INVALID_HANDLE;
  if (flags & ~(unsigned)CU_EVENT_WAIT_EXTERNAL)
    return CUDA_ERROR_INVALID_VALUE;
  s = stream_resolve(s, guard.ctx, &r);
  if (!s)
    return r;
  if (flags & CU_EVENT_WAIT_EXTERNAL) {
    if (!s->capture)
      return CUDA_ERROR_INVALID_VALUE;
    struct work w = {.kind = WORK_event_wait, .event = e};
    return enqueue(s, &w);
  }
  if (e->capture) {
    if (s->legacy)
      return capture_refuse(s->ctx, NULL, CUDA_ERROR_STREAM_CAPTURE_IMPLICIT);
    if (s->capture && s->capture != e->capture)
      return capture_refuse(s->ctx, s, CUDA_ERROR_STREAM_CAPTURE_MERGE);
    s->capture = e->capture; /* joins it */
    for (size_t i = 0; i < e->captured.n; i++)
      if (!dependences_add(&s->captured, e->captured.at[i]))
        return CUDA_ERROR_OUT_OF_MEMORY;
    return CUDA_SUCCESS;
  }
  if (s->capture)
    return capture_refuse(s->ctx, s, CUDA_ERROR_STREAM_CAPTURE_ISOLATION);
  if (!e->op)
    return CUDA_SUCCESS;
  struct work w = {.kind = WORK_empty, .ctx = s->ctx};
  struct op *o = op_new(&w);
  if (!o)
    return CUDA_ERROR_OUT_OF_MEMORY;
  stream_order(s, o);
  op_depend(o, e->op, false);
  stream_push(s, o);
  op_submit(o);
  op_unref(o);
  return CUDA_SUCCESS;
}
