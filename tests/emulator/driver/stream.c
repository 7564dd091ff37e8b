/* SPDX-License-Identifier: Apache-2.0
 *
 * Streams, their order, and what is put on them.
 *
 * The legacy default stream and the context's blocking streams wait for each other;
 * non-blocking streams and per-thread default streams with that property do not.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- life ----------------------------------------------------------------------------- */

CUstream stream_new(CUcontext ctx, unsigned flags, int priority) {
  struct CUstream_st *s = calloc(1, sizeof *s);
  if (!s || !handle_add(s, HANDLE_stream)) {
    free(s);
    return NULL;
  }
  s->ctx = ctx;
  s->id = ++driver.next_id;
  s->timeline = order_timeline(driver.m);
  s->flags = flags;
  s->priority = priority;
  s->next = ctx->streams;
  ctx->streams = s;
  return s;
}

/* What was enqueued still runs, as on hardware. */
void stream_free(CUstream s) {
  capture_forget_stream(s);
  for (struct CUstream_st **p = &s->ctx->streams; *p; p = &(*p)->next)
    if (*p == s) {
      *p = s->next;
      break;
    }
  op_unref(s->tail);
  dependences_clear(&s->captured);
  handle_remove(s);
  order_timeline_over(driver.m, s->timeline);
  free(s);
}

static CUstream per_thread(CUcontext ctx) {
  unsigned id = thread_get()->id;
  for (CUstream s = ctx->streams; s; s = s->next)
    if (s->thread == id)
      return s;
  CUstream s = stream_new(ctx, CU_STREAM_DEFAULT, 0);
  if (s)
    s->thread = id;
  return s;
}

CUstream stream_resolve(CUstream s, CUcontext current, CUresult *r) {
  if (!s)
    s = thread_get()->per_thread ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
  if (s == CU_STREAM_LEGACY || s == CU_STREAM_PER_THREAD) {
    if (!current)
      *r = CUDA_ERROR_INVALID_CONTEXT;
    else if (s == CU_STREAM_LEGACY)
      return current->legacy;
    else if (!(s = per_thread(current)))
      *r = CUDA_ERROR_OUT_OF_MEMORY;
    else
      return s;
    return NULL;
  }
  if (!handle_is(s, HANDLE_stream)) {
    *r = CUDA_ERROR_INVALID_HANDLE;
    return NULL;
  }
  if (s->ctx->error) {
    *r = s->ctx->error;
    return NULL;
  }
  return s;
}

static CUresult create(CUstream *out, CUcontext ctx, unsigned flags, int priority) {
  if (!out || flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
    return CUDA_ERROR_INVALID_VALUE;
  priority = priority > 0 ? 0 : priority < -5 ? -5 : priority;
  CUstream s = stream_new(ctx, flags, priority);
  if (!s)
    return CUDA_ERROR_OUT_OF_MEMORY;
  *out = s;
  return CUDA_SUCCESS;
}

CUresult cuStreamCreate(CUstream *out, unsigned int flags) {
  API(ENTER_context);
  return create(out, guard.ctx, flags, 0);
}

CUresult cuStreamCreateWithPriority(CUstream *out, unsigned int flags, int priority) {
  API(ENTER_context);
  return create(out, guard.ctx, flags, priority);
}

CUresult cuStreamDestroy(CUstream s) {
  API(ENTER_init);
  if (!handle_is(s, HANDLE_stream) || s->legacy || s->thread)
    return CUDA_ERROR_INVALID_HANDLE;
  stream_free(s);
  return CUDA_SUCCESS;
}

/* ---- order ---------------------------------------------------------------------------- */

static bool blocking(CUstream s) {
  return !(s->flags & CU_STREAM_NON_BLOCKING);
}

/* A programmatic launch right after a kernel depends on it programmatically. */
static bool programmatic(const struct op *o, const struct op *after) {
  return o->work.kind == WORK_kernel && o->work.launch.programmatic &&
         after->work.kind == WORK_kernel;
}

void stream_order(CUstream s, struct op *o) {
  order_point_next(driver.m, &o->point, s->timeline);
  if (s->tail)
    op_depend(o, s->tail, programmatic(o, s->tail));
  if (s->legacy) {
    for (CUstream t = s->ctx->streams; t; t = t->next)
      if (t != s && blocking(t))
        op_depend(o, t->tail, false);
  } else if (blocking(s)) {
    op_depend(o, s->ctx->legacy->tail, false);
  }
}

void stream_push(CUstream s, struct op *o) {
  op_ref(o);
  op_unref(s->tail);
  s->tail = o;
}

CUresult enqueue(CUstream s, struct work *w) {
  w->ctx = s->ctx;
  if (s->capture) {
    CUresult r = capture_add(s, w);
    work_clear(w);
    return r;
  }
  CUresult r = s->legacy ? capture_legacy_check(s->ctx) : CUDA_SUCCESS;
  if (r) {
    work_clear(w);
    return r;
  }
  struct op *o = op_new(w);
  if (!o) {
    work_clear(w);
    return CUDA_ERROR_OUT_OF_MEMORY;
  }
  stream_order(s, o);
  stream_push(s, o);
  op_submit(o);
  op_unref(o);
  return CUDA_SUCCESS;
}

static bool context_or_op_idle(void *op) {
  struct op *o = op;
  return o->retired || o->work.ctx->error;
}

CUresult enqueue_wait(CUstream s, struct work *w) {
  if (s->capture) {
    work_clear(w);
    return capture_refuse(s->ctx, s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  }
  CUresult r = enqueue(s, w);
  if (r)
    return r;
  struct op *o = s->tail;
  op_ref(o);
  r = drive(context_or_op_idle, o);
  op_waited(o);
  op_unref(o);
  return s->ctx->error ? s->ctx->error : r;
}

bool stream_idle(void *stream) {
  CUstream s = stream;
  return s->ctx->error || op_idle(s->tail);
}

/* ---- waiting and asking ------------------------------------------------------------------ */

/* Resolves a stream argument for a call that a capturing stream does not allow. */
#define STREAM_NOT_CAPTURING(s)                                                                    \
  CUresult r = CUDA_SUCCESS;                                                                       \
  (s) = stream_resolve(s, guard.ctx, &r);                                                          \
  if (!(s))                                                                                        \
    return r;                                                                                      \
  if ((s)->capture)                                                                                \
    return capture_refuse((s)->ctx, s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);                     \
  if ((s)->legacy && (r = capture_legacy_check((s)->ctx)))                                         \
  return r

#define STREAM(s)                                                                                  \
  CUresult r = CUDA_SUCCESS;                                                                       \
  (s) = stream_resolve(s, guard.ctx, &r);                                                          \
  if (!(s))                                                                                        \
  return r

CUresult cuStreamSynchronize(CUstream s) {
  API(ENTER_context);
  STREAM_NOT_CAPTURING(s);
  struct op *o = s->tail;
  CUcontext ctx = s->ctx;
  if (!o)
    return CUDA_SUCCESS;
  op_ref(o); /* another thread may go on or destroy the stream meanwhile */
  r = drive(context_or_op_idle, o);
  op_waited(o);
  op_unref(o);
  return ctx->error ? ctx->error : r;
}

CUresult cuStreamQuery(CUstream s) {
  API(ENTER_context);
  STREAM_NOT_CAPTURING(s);
  if (!stream_idle(s))
    drive_some();
  if (s->ctx->error)
    return s->ctx->error;
  return stream_idle(s) ? CUDA_SUCCESS : CUDA_ERROR_NOT_READY;
}

CUresult cuStreamGetPriority(CUstream s, int *priority) {
  API(ENTER_context);
  STREAM(s);
  if (!priority)
    return CUDA_ERROR_INVALID_VALUE;
  *priority = s->priority;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetFlags(CUstream s, unsigned int *flags) {
  API(ENTER_context);
  STREAM(s);
  if (!flags)
    return CUDA_ERROR_INVALID_VALUE;
  *flags = s->flags;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetId(CUstream s, unsigned long long *id) {
  API(ENTER_context);
  STREAM(s);
  if (!id)
    return CUDA_ERROR_INVALID_VALUE;
  *id = s->id;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx(CUstream s, CUcontext *ctx) {
  API(ENTER_context);
  STREAM(s);
  if (!ctx)
    return CUDA_ERROR_INVALID_VALUE;
  *ctx = s->ctx;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetCtx_v2(CUstream s, CUcontext *ctx, CUgreenCtx *green) {
  API(ENTER_context);
  STREAM(s);
  if (!ctx)
    return CUDA_ERROR_INVALID_VALUE;
  *ctx = s->ctx;
  if (green)
    *green = NULL;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetDevice(CUstream s, CUdevice *device) {
  API(ENTER_context);
  STREAM(s);
  if (!device)
    return CUDA_ERROR_INVALID_VALUE;
  *device = s->ctx->ordinal;
  return CUDA_SUCCESS;
}

static bool stream_attribute(CUstreamAttrID attr) {
  switch (attr) {
  case CU_LAUNCH_ATTRIBUTE_ACCESS_POLICY_WINDOW:
  case CU_LAUNCH_ATTRIBUTE_SYNCHRONIZATION_POLICY:
  case CU_LAUNCH_ATTRIBUTE_PRIORITY:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN_MAP:
  case CU_LAUNCH_ATTRIBUTE_MEM_SYNC_DOMAIN:
    return true;
  default:
    return false;
  }
}

CUresult cuStreamSetAttribute(CUstream s, CUstreamAttrID attr, const CUstreamAttrValue *value) {
  API(ENTER_context);
  STREAM(s);
  if (!value || !stream_attribute(attr))
    return CUDA_ERROR_INVALID_VALUE;
  s->attr[attr] = *value;
  if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
    s->priority = value->priority;
  return CUDA_SUCCESS;
}

CUresult cuStreamGetAttribute(CUstream s, CUstreamAttrID attr, CUstreamAttrValue *value) {
  API(ENTER_context);
  STREAM(s);
  if (!value || !stream_attribute(attr))
    return CUDA_ERROR_INVALID_VALUE;
  *value = s->attr[attr];
  if (attr == CU_LAUNCH_ATTRIBUTE_PRIORITY)
    value->priority = s->priority;
  return CUDA_SUCCESS;
}

CUresult cuStreamCopyAttributes(CUstream dst, CUstream src) {
  API(ENTER_context);
  CUresult r = CUDA_SUCCESS;
  dst = stream_resolve(dst, guard.ctx, &r);
  src = stream_resolve(src, guard.ctx, &r);
  if (!dst || !src)
    return r;
  memcpy(dst->attr, src->attr, sizeof dst->attr);
  return CUDA_SUCCESS;
}

/* ---- host functions and values -------------------------------------------------------------- */

CUresult cuLaunchHostFunc(CUstream s, CUhostFn fn, void *data) {
  API(ENTER_context);
  STREAM(s);
  if (!fn)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w = {.kind = WORK_host, .host = {.fn = fn, .data = data}};
  return enqueue(s, &w);
}

CUresult cuStreamAddCallback(CUstream s, CUstreamCallback callback, void *data,
                             unsigned int flags) {
  API(ENTER_context);
  CUstream given = s;
  STREAM_NOT_CAPTURING(s);
  if (!callback || flags)
    return CUDA_ERROR_INVALID_VALUE;
  struct work w = {.kind = WORK_host,
                   .host = {.callback = callback, .stream = given, .data = data}};
  return enqueue(s, &w);
}

static CUresult value_op(CUstream s, CUcontext ctx, enum work_kind kind, CUdeviceptr addr,
                         uint64_t value, unsigned bytes, unsigned flags) {
  CUresult r = CUDA_SUCCESS;
  s = stream_resolve(s, ctx, &r);
  if (!s)
    return r;
  if (s->capture)
    return capture_refuse(ctx, s, CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED);
  unsigned known = kind == WORK_wait_value ? 3u : (unsigned)CU_STREAM_WRITE_VALUE_NO_MEMORY_BARRIER;
  if (flags & ~known || addr % bytes || !memory_covers(addr, bytes))
    return CUDA_ERROR_INVALID_VALUE;
  struct work w = {.kind = kind,
                   .value = {.address = addr, .value = value, .bytes = bytes, .flags = flags}};
  return enqueue(s, &w);
}

CUresult cuStreamWaitValue32(CUstream s, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  API(ENTER_context);
  return value_op(s, guard.ctx, WORK_wait_value, addr, value, 4, flags);
}

CUresult cuStreamWaitValue64(CUstream s, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  API(ENTER_context);
  return value_op(s, guard.ctx, WORK_wait_value, addr, value, 8, flags);
}

CUresult cuStreamWriteValue32(CUstream s, CUdeviceptr addr, cuuint32_t value, unsigned int flags) {
  API(ENTER_context);
  return value_op(s, guard.ctx, WORK_write_value, addr, value, 4, flags);
}

CUresult cuStreamWriteValue64(CUstream s, CUdeviceptr addr, cuuint64_t value, unsigned int flags) {
  API(ENTER_context);
  return value_op(s, guard.ctx, WORK_write_value, addr, value, 8, flags);
}
