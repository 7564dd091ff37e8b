/* SPDX-License-Identifier: Apache-2.0
 *
 * Copies and fills.  Undefined bytes travel with a copy between devices' memory; what
 * the host gives is defined, and what it reads is only copied.
 *
 * Ordinary host memory behaves as on hardware: an asynchronous copy from it has read it
 * when the call returns, one to it has written it.  Inside a captured graph both happen
 * when the node runs.
 */
#include "driver.h"

#include <stdlib.h>
#include <string.h>

/* ---- running -------------------------------------------------------------------------- */

#define CHUNK 65536

static size_t piece(uint64_t address, bool host, size_t size) {
  if (host)
    return size;
  struct memory *m = memory_find(address);
  uint64_t left = m ? m->mem->base + m->mem->size - address : size;
  return left < size ? (size_t)left : size;
}

/* One row; false: an address was not (or no longer) there, and that was reported. */
static bool copy_row(const struct access *a, const struct copy *c, uint64_t dst, uint64_t src) {
  static uint8_t data[CHUNK], undef[CHUNK]; /* under the driver's lock */
  for (size_t done = 0; done < c->width;) {
    size_t n = c->width - done;
    n = piece(dst + done, c->dst_host, n < CHUNK ? n : CHUNK);
    n = piece(src + done, c->src_host || c->staged, n);
    if (c->src_host || c->staged) {
      memcpy(data, (const void *)(uintptr_t)(src + done), n);
      memset(undef, 0, n);
    } else if (!mem_load(a, SPACE_global, src + done, (uint32_t)n, 1, data, undef)) {
      return false;
    }
    if (c->dst_host)
      memcpy((void *)(uintptr_t)(dst + done), data, n);
    else if (!mem_store(a, SPACE_global, dst + done, (uint32_t)n, 1, data, undef))
      return false;
    done += n;
  }
  return true;
}

void copy_run(struct op *o) {
  struct copy *c = &o->work.copy;
  struct access a = host_access(o->work.ctx);
  for (size_t z = 0; z < c->depth; z++)
    for (size_t y = 0; y < c->height; y++) {
      uint64_t src = c->staged ? (uintptr_t)c->staged + (z * c->height + y) * c->width
                               : c->src + z * c->src_slice + y * c->src_pitch;
      if (!copy_row(&a, c, c->dst + z * c->dst_slice + y * c->dst_pitch, src)) {
        context_fail(o->work.ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
      }
    }
}

void set_run(struct op *o) {
  const struct set *s = &o->work.set;
  struct access a = host_access(o->work.ctx);
  enum { STEP = 4096 };
  uint8_t pattern[STEP + 4]; /* a piece may begin inside an element */
  for (size_t i = 0; i < sizeof pattern; i += s->element)
    memcpy(pattern + i, &s->value, s->element);
  size_t row = s->width * s->element;
  for (size_t y = 0; y < s->height; y++)
    for (size_t done = 0; done < row;) {
      size_t n = row - done < STEP ? row - done : STEP;
      uint64_t at = s->dst + y * s->pitch + done;
      n = piece(at, false, n);
      if (!mem_store(&a, SPACE_global, at, (uint32_t)n, 1, pattern + done % s->element, NULL)) {
        context_fail(o->work.ctx, CUDA_ERROR_ILLEGAL_ADDRESS);
        return;
      }
      done += n;
    }
}

/* ---- making copies ------------------------------------------------------------------------ */

static size_t extent(size_t width, size_t height, size_t depth, size_t pitch, size_t slice) {
  return (depth - 1) * slice + (height - 1) * pitch + width;
}

/* An end of a copy: in memory the driver knows, or ordinary host memory where that may be. */
static CUresult end_valid(uint64_t address, size_t bytes, bool may_host, bool must_host,
                          bool *host) {
  if (!address)
    return CUDA_ERROR_INVALID_VALUE;
  struct memory *m = memory_find(address);
  *host = !m;
  if (!m)
    return may_host ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
  if (must_host && m->kind != MEMORY_host && m->kind != MEMORY_registered &&
      m->kind != MEMORY_managed)
    return CUDA_ERROR_INVALID_VALUE;
  return memory_covers(address, bytes) ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

enum side { SIDE_device, SIDE_host, SIDE_any };

static CUresult copy_linear(struct work *w, uint64_t dst, enum side dst_side, uint64_t src,
                            enum side src_side, size_t n) {
  *w = (struct work){.kind = WORK_copy};
  struct copy *c = &w->copy;
  c->dst = dst;
  c->src = src;
  c->width = n;
  c->height = c->depth = 1;
  c->dst_pitch = c->src_pitch = c->dst_slice = c->src_slice = n;
  c->asked = (CUDA_MEMCPY3D){
      .srcMemoryType = src_side == SIDE_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
      .srcHost = src_side == SIDE_host ? (const void *)(uintptr_t)src : NULL,
      .srcDevice = src_side == SIDE_host ? 0 : src,
      .srcPitch = n,
      .srcHeight = 1,
      .dstMemoryType = dst_side == SIDE_host ? CU_MEMORYTYPE_HOST : CU_MEMORYTYPE_DEVICE,
      .dstHost = dst_side == SIDE_host ? (void *)(uintptr_t)dst : NULL,
      .dstDevice = dst_side == SIDE_host ? 0 : dst,
      .dstPitch = n,
      .dstHeight = 1,
      .WidthInBytes = n,
      .Height = 1,
      .Depth = 1};
  CUresult r = end_valid(dst, n, dst_side != SIDE_device, dst_side == SIDE_host, &c->dst_host);
  return r ? r : end_valid(src, n, src_side != SIDE_device, src_side == SIDE_host, &c->src_host);
}

CUresult copy_from_3d(struct work *w, const CUDA_MEMCPY3D *p) {
  *w = (struct work){.kind = WORK_copy};
  struct copy *c = &w->copy;
  if (p->srcMemoryType == CU_MEMORYTYPE_ARRAY || p->dstMemoryType == CU_MEMORYTYPE_ARRAY)
    return lacking("a copy from or to an array");
  if (p->srcLOD || p->dstLOD)
    return CUDA_ERROR_INVALID_VALUE;
  c->asked = *p;
  c->width = p->WidthInBytes;
  c->height = p->Height;
  c->depth = p->Depth;
  c->src_pitch = p->srcPitch ? p->srcPitch : p->WidthInBytes + p->srcXInBytes;
  c->dst_pitch = p->dstPitch ? p->dstPitch : p->WidthInBytes + p->dstXInBytes;
  if (c->height > 1 && (c->src_pitch < p->WidthInBytes + p->srcXInBytes ||
                        c->dst_pitch < p->WidthInBytes + p->dstXInBytes))
    return CUDA_ERROR_INVALID_VALUE;
  size_t src_height = p->srcHeight ? p->srcHeight : p->Height + p->srcY;
  size_t dst_height = p->dstHeight ? p->dstHeight : p->Height + p->dstY;
  c->src_slice = c->src_pitch * src_height;
  c->dst_slice = c->dst_pitch * dst_height;
  bool src_host = p->srcMemoryType == CU_MEMORYTYPE_HOST;
  bool dst_host = p->dstMemoryType == CU_MEMORYTYPE_HOST;
  if ((!src_host && p->srcMemoryType != CU_MEMORYTYPE_DEVICE &&
       p->srcMemoryType != CU_MEMORYTYPE_UNIFIED) ||
      (!dst_host && p->dstMemoryType != CU_MEMORYTYPE_DEVICE &&
       p->dstMemoryType != CU_MEMORYTYPE_UNIFIED))
    return CUDA_ERROR_INVALID_VALUE;
  uint64_t src = src_host ? (uintptr_t)p->srcHost : p->srcDevice;
  uint64_t dst = dst_host ? (uintptr_t)p->dstHost : p->dstDevice;
  if (!src || !dst)
    return CUDA_ERROR_INVALID_VALUE;
  c->src = src + p->srcZ * c->src_slice + p->srcY * c->src_pitch + p->srcXInBytes;
  c->dst = dst + p->dstZ * c->dst_slice + p->dstY * c->dst_pitch + p->dstXInBytes;
  if (!c->width || !c->height || !c->depth) {
    c->width = c->height = c->depth = 0;
    return CUDA_SUCCESS;
  }
  CUresult r = end_valid(c->dst, extent(c->width, c->height, c->depth, c->dst_pitch, c->dst_slice),
                         p->dstMemoryType != CU_MEMORYTYPE_DEVICE, dst_host, &c->dst_host);
  return r ? r
           : end_valid(c->src, extent(c->width, c->height, c->depth, c->src_pitch, c->src_slice),
                       p->srcMemoryType != CU_MEMORYTYPE_DEVICE, src_host, &c->src_host);
}

static CUresult stage(struct copy *c) {
  size_t row = c->width;
  if (!c->src_host || !row)
    return CUDA_SUCCESS;
  c->staged = malloc(row * c->height * c->depth);
  if (!c->staged)
    return CUDA_ERROR_OUT_OF_MEMORY;
  for (size_t z = 0; z < c->depth; z++)
    for (size_t y = 0; y < c->height; y++)
      memcpy(c->staged + (z * c->height + y) * row,
             (const void *)(uintptr_t)(c->src + z * c->src_slice + y * c->src_pitch), row);
  return CUDA_SUCCESS;
}

/* Does the memory at the address belong to the host?  Then synchronous calls wait. */
static bool reaches_host(const struct copy *c) {
  struct memory *d = memory_find(c->dst), *s = memory_find(c->src);
  return c->dst_host || c->src_host || (d && d->kind != MEMORY_device && d->kind != MEMORY_pool) ||
         (s && s->kind != MEMORY_device && s->kind != MEMORY_pool);
}

static CUresult submit(struct work *w, CUresult r, CUstream s, CUcontext current, bool sync) {
  if (r)
    return r;
  s = stream_resolve(s, current, &r);
  if (!s)
    return r;
  if (sync)
    return reaches_host(&w->copy) ? enqueue_wait(s, w) : enqueue(s, w);
  if (s->capture)
    return enqueue(s, w);
  if (w->copy.dst_host)
    return enqueue_wait(s, w);
  r = stage(&w->copy);
  return r ? r : enqueue(s, w);
}

#define LINEAR(stream, sync, dst, dst_side, src, src_side, n)                                      \
  API(ENTER_context);                                                                              \
  if (!(n))                                                                                        \
    return CUDA_SUCCESS;                                                                           \
  struct work w;                                                                                   \
  CUresult r = copy_linear(&w, (uint64_t)(dst), dst_side, (uint64_t)(src), src_side, n);           \
  return submit(&w, r, stream, guard.ctx, sync)

CUresult cuMemcpy(CUdeviceptr dst, CUdeviceptr src, size_t n) {
  LINEAR(NULL, true, dst, SIDE_any, src, SIDE_any, n);
}

CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
  LINEAR(s, false, dst, SIDE_any, src, SIDE_any, n);
}

CUresult cuMemcpyHtoD(CUdeviceptr dst, const void *src, size_t n) {
  LINEAR(NULL, true, dst, SIDE_device, src, SIDE_host, n);
}

CUresult cuMemcpyHtoDAsync(CUdeviceptr dst, const void *src, size_t n, CUstream s) {
  LINEAR(s, false, dst, SIDE_device, src, SIDE_host, n);
}

CUresult cuMemcpyDtoH(void *dst, CUdeviceptr src, size_t n) {
  LINEAR(NULL, true, dst, SIDE_host, src, SIDE_device, n);
}

CUresult cuMemcpyDtoHAsync(void *dst, CUdeviceptr src, size_t n, CUstream s) {
  LINEAR(s, false, dst, SIDE_host, src, SIDE_device, n);
}

CUresult cuMemcpyDtoD(CUdeviceptr dst, CUdeviceptr src, size_t n) {
  LINEAR(NULL, true, dst, SIDE_device, src, SIDE_device, n);
}

CUresult cuMemcpyDtoDAsync(CUdeviceptr dst, CUdeviceptr src, size_t n, CUstream s) {
  LINEAR(s, false, dst, SIDE_device, src, SIDE_device, n);
}

/* The contexts only say whose the addresses are, which the addresses themselves do. */
CUresult cuMemcpyPeer(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
                      size_t n) {
  if (!dst_ctx || !src_ctx)
    return CUDA_ERROR_INVALID_CONTEXT;
  LINEAR(NULL, true, dst, SIDE_device, src, SIDE_device, n);
}

CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_ctx, CUdeviceptr src, CUcontext src_ctx,
                           size_t n, CUstream s) {
  if (!dst_ctx || !src_ctx)
    return CUDA_ERROR_INVALID_CONTEXT;
  LINEAR(s, false, dst, SIDE_device, src, SIDE_device, n);
}

/* ---- two and three dimensions -------------------------------------------------- */

static CUDA_MEMCPY3D as_3d(const CUDA_MEMCPY2D *p) {
  return (CUDA_MEMCPY3D){.srcXInBytes = p->srcXInBytes,
                         .srcY = p->srcY,
                         .srcMemoryType = p->srcMemoryType,
                         .srcHost = p->srcHost,
                         .srcDevice = p->srcDevice,
                         .srcPitch = p->srcPitch,
                         .dstXInBytes = p->dstXInBytes,
                         .dstY = p->dstY,
                         .dstMemoryType = p->dstMemoryType,
                         .dstHost = p->dstHost,
                         .dstDevice = p->dstDevice,
                         .dstPitch = p->dstPitch,
                         .WidthInBytes = p->WidthInBytes,
                         .Height = p->Height,
                         .Depth = 1};
}

static CUresult copy_3d(const CUDA_MEMCPY3D *p, CUstream s, CUcontext current, bool sync) {
  struct work w;
  return submit(&w, copy_from_3d(&w, p), s, current, sync);
}

CUresult cuMemcpy2D(const CUDA_MEMCPY2D *p) {
  API(ENTER_context);
  if (!p)
    return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D q = as_3d(p);
  return copy_3d(&q, NULL, guard.ctx, true);
}

CUresult cuMemcpy2DUnaligned(const CUDA_MEMCPY2D *p) {
  API(ENTER_context);
  if (!p)
    return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D q = as_3d(p);
  return copy_3d(&q, NULL, guard.ctx, true);
}

CUresult cuMemcpy2DAsync(const CUDA_MEMCPY2D *p, CUstream s) {
  API(ENTER_context);
  if (!p)
    return CUDA_ERROR_INVALID_VALUE;
  CUDA_MEMCPY3D q = as_3d(p);
  return copy_3d(&q, s, guard.ctx, false);
}

CUresult cuMemcpy3D(const CUDA_MEMCPY3D *p) {
  API(ENTER_context);
  return p ? copy_3d(p, NULL, guard.ctx, true) : CUDA_ERROR_INVALID_VALUE;
}

CUresult cuMemcpy3DAsync(const CUDA_MEMCPY3D *p, CUstream s) {
  API(ENTER_context);
  return p ? copy_3d(p, s, guard.ctx, false) : CUDA_ERROR_INVALID_VALUE;
}

/* ---- fills ----------------------------------------------------------------------------------- */

CUresult set_work(struct work *w, CUcontext ctx, uint64_t dst, size_t pitch, uint32_t value,
                  uint32_t element, size_t width, size_t height) {
  *w = (struct work){.kind = WORK_set, .ctx = ctx};
  w->set = (struct set){.dst = dst,
                        .value = value,
                        .element = element,
                        .pitch = pitch,
                        .width = width,
                        .height = height};
  if (!width || !height)
    return CUDA_SUCCESS;
  if (dst % element || (height > 1 && (pitch < width * element || pitch % element)) ||
      !memory_covers(dst, extent(width * element, height, 1, pitch, 0)))
    return CUDA_ERROR_INVALID_VALUE;
  return CUDA_SUCCESS;
}

static CUresult fill(CUdeviceptr dst, size_t pitch, uint32_t value, uint32_t element, size_t width,
                     size_t height, CUstream s, bool sync) {
  API(ENTER_context);
  struct work w;
  CUresult r = set_work(&w, guard.ctx, dst, pitch, value, element, width, height);
  if (r)
    return r;
  s = stream_resolve(s, guard.ctx, &r);
  if (!s)
    return r;
  struct memory *m = memory_find(dst);
  bool host = m && m->kind != MEMORY_device && m->kind != MEMORY_pool;
  return sync && host ? enqueue_wait(s, &w) : enqueue(s, &w);
}

CUresult cuMemsetD8(CUdeviceptr dst, unsigned char v, size_t n) {
  return fill(dst, 0, v, 1, n, 1, NULL, true);
}

CUresult cuMemsetD16(CUdeviceptr dst, unsigned short v, size_t n) {
  return fill(dst, 0, v, 2, n, 1, NULL, true);
}

CUresult cuMemsetD32(CUdeviceptr dst, unsigned int v, size_t n) {
  return fill(dst, 0, v, 4, n, 1, NULL, true);
}

CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char v, size_t n, CUstream s) {
  return fill(dst, 0, v, 1, n, 1, s, false);
}

CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short v, size_t n, CUstream s) {
  return fill(dst, 0, v, 2, n, 1, s, false);
}

CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned int v, size_t n, CUstream s) {
  return fill(dst, 0, v, 4, n, 1, s, false);
}

CUresult cuMemsetD2D8(CUdeviceptr dst, size_t pitch, unsigned char v, size_t w, size_t h) {
  return fill(dst, pitch, v, 1, w, h, NULL, true);
}

CUresult cuMemsetD2D16(CUdeviceptr dst, size_t pitch, unsigned short v, size_t w, size_t h) {
  return fill(dst, pitch, v, 2, w, h, NULL, true);
}

CUresult cuMemsetD2D32(CUdeviceptr dst, size_t pitch, unsigned int v, size_t w, size_t h) {
  return fill(dst, pitch, v, 4, w, h, NULL, true);
}

CUresult cuMemsetD2D8Async(CUdeviceptr dst, size_t pitch, unsigned char v, size_t w, size_t h,
                           CUstream s) {
  return fill(dst, pitch, v, 1, w, h, s, false);
}

CUresult cuMemsetD2D16Async(CUdeviceptr dst, size_t pitch, unsigned short v, size_t w, size_t h,
                            CUstream s) {
  return fill(dst, pitch, v, 2, w, h, s, false);
}

CUresult cuMemsetD2D32Async(CUdeviceptr dst, size_t pitch, unsigned int v, size_t w, size_t h,
                            CUstream s) {
  return fill(dst, pitch, v, 4, w, h, s, false);
}
