/* SPDX-License-Identifier: Apache-2.0
 *
 * The variants of the calls whose stream 0 is the calling thread's own default stream.
 */
#include "driver.h"

#define PER_THREAD(name, suffix, types, names)                                                     \
  CUresult name##_##suffix types;                                                                  \
  CUresult name##_##suffix types {                                                                 \
    thread_get()->per_thread = true;                                                               \
    CUresult r = name names;                                                                       \
    thread_get()->per_thread = false;                                                              \
    return r;                                                                                      \
  }

PER_THREAD(cuMemcpy, ptds, (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount),
           (dst, src, ByteCount))
PER_THREAD(cuMemcpyPeer, ptds,
           (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
            CUcontext srcContext, size_t ByteCount),
           (dstDevice, dstContext, srcDevice, srcContext, ByteCount))
PER_THREAD(cuMemcpyHtoD_v2, ptds, (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount),
           (dstDevice, srcHost, ByteCount))
PER_THREAD(cuMemcpyDtoH_v2, ptds, (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount),
           (dstHost, srcDevice, ByteCount))
PER_THREAD(cuMemcpyDtoD_v2, ptds, (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount),
           (dstDevice, srcDevice, ByteCount))
PER_THREAD(cuMemcpy2D_v2, ptds, (const CUDA_MEMCPY2D *pCopy), (pCopy))
PER_THREAD(cuMemcpy2DUnaligned_v2, ptds, (const CUDA_MEMCPY2D *pCopy), (pCopy))
PER_THREAD(cuMemcpy3D_v2, ptds, (const CUDA_MEMCPY3D *pCopy), (pCopy))
PER_THREAD(cuMemcpyAsync, ptsz,
           (CUdeviceptr dst, CUdeviceptr src, size_t ByteCount, CUstream hStream),
           (dst, src, ByteCount, hStream))
PER_THREAD(cuMemcpyPeerAsync, ptsz,
           (CUdeviceptr dstDevice, CUcontext dstContext, CUdeviceptr srcDevice,
            CUcontext srcContext, size_t ByteCount, CUstream hStream),
           (dstDevice, dstContext, srcDevice, srcContext, ByteCount, hStream))
PER_THREAD(cuMemcpyHtoDAsync_v2, ptsz,
           (CUdeviceptr dstDevice, const void *srcHost, size_t ByteCount, CUstream hStream),
           (dstDevice, srcHost, ByteCount, hStream))
PER_THREAD(cuMemcpyDtoHAsync_v2, ptsz,
           (void *dstHost, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
           (dstHost, srcDevice, ByteCount, hStream))
PER_THREAD(cuMemcpyDtoDAsync_v2, ptsz,
           (CUdeviceptr dstDevice, CUdeviceptr srcDevice, size_t ByteCount, CUstream hStream),
           (dstDevice, srcDevice, ByteCount, hStream))
PER_THREAD(cuMemcpy2DAsync_v2, ptsz, (const CUDA_MEMCPY2D *pCopy, CUstream hStream),
           (pCopy, hStream))
PER_THREAD(cuMemcpy3DAsync_v2, ptsz, (const CUDA_MEMCPY3D *pCopy, CUstream hStream),
           (pCopy, hStream))
PER_THREAD(cuMemsetD8_v2, ptds, (CUdeviceptr dstDevice, unsigned char uc, size_t N),
           (dstDevice, uc, N))
PER_THREAD(cuMemsetD16_v2, ptds, (CUdeviceptr dstDevice, unsigned short us, size_t N),
           (dstDevice, us, N))
PER_THREAD(cuMemsetD32_v2, ptds, (CUdeviceptr dstDevice, unsigned int ui, size_t N),
           (dstDevice, ui, N))
PER_THREAD(cuMemsetD2D8_v2, ptds,
           (CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height),
           (dstDevice, dstPitch, uc, Width, Height))
PER_THREAD(cuMemsetD2D16_v2, ptds,
           (CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height),
           (dstDevice, dstPitch, us, Width, Height))
PER_THREAD(cuMemsetD2D32_v2, ptds,
           (CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height),
           (dstDevice, dstPitch, ui, Width, Height))
PER_THREAD(cuMemsetD8Async, ptsz,
           (CUdeviceptr dstDevice, unsigned char uc, size_t N, CUstream hStream),
           (dstDevice, uc, N, hStream))
PER_THREAD(cuMemsetD16Async, ptsz,
           (CUdeviceptr dstDevice, unsigned short us, size_t N, CUstream hStream),
           (dstDevice, us, N, hStream))
PER_THREAD(cuMemsetD32Async, ptsz,
           (CUdeviceptr dstDevice, unsigned int ui, size_t N, CUstream hStream),
           (dstDevice, ui, N, hStream))
PER_THREAD(cuMemsetD2D8Async, ptsz,
           (CUdeviceptr dstDevice, size_t dstPitch, unsigned char uc, size_t Width, size_t Height,
            CUstream hStream),
           (dstDevice, dstPitch, uc, Width, Height, hStream))
PER_THREAD(cuMemsetD2D16Async, ptsz,
           (CUdeviceptr dstDevice, size_t dstPitch, unsigned short us, size_t Width, size_t Height,
            CUstream hStream),
           (dstDevice, dstPitch, us, Width, Height, hStream))
PER_THREAD(cuMemsetD2D32Async, ptsz,
           (CUdeviceptr dstDevice, size_t dstPitch, unsigned int ui, size_t Width, size_t Height,
            CUstream hStream),
           (dstDevice, dstPitch, ui, Width, Height, hStream))
PER_THREAD(cuMemFreeAsync, ptsz, (CUdeviceptr dptr, CUstream hStream), (dptr, hStream))
PER_THREAD(cuMemAllocAsync, ptsz, (CUdeviceptr * dptr, size_t bytesize, CUstream hStream),
           (dptr, bytesize, hStream))
PER_THREAD(cuMemAllocFromPoolAsync, ptsz,
           (CUdeviceptr * dptr, size_t bytesize, CUmemoryPool pool, CUstream hStream),
           (dptr, bytesize, pool, hStream))
PER_THREAD(cuMemPrefetchAsync_v2, ptsz,
           (CUdeviceptr devPtr, size_t count, CUmemLocation location, unsigned int flags,
            CUstream hStream),
           (devPtr, count, location, flags, hStream))
PER_THREAD(cuStreamGetPriority, ptsz, (CUstream hStream, int *priority), (hStream, priority))
PER_THREAD(cuStreamGetDevice, ptsz, (CUstream hStream, CUdevice *device), (hStream, device))
PER_THREAD(cuStreamGetFlags, ptsz, (CUstream hStream, unsigned int *flags), (hStream, flags))
PER_THREAD(cuStreamGetId, ptsz, (CUstream hStream, unsigned long long *streamId),
           (hStream, streamId))
PER_THREAD(cuStreamGetCtx, ptsz, (CUstream hStream, CUcontext *pctx), (hStream, pctx))
PER_THREAD(cuStreamGetCtx_v2, ptsz, (CUstream hStream, CUcontext *pCtx, CUgreenCtx *pGreenCtx),
           (hStream, pCtx, pGreenCtx))
PER_THREAD(cuStreamWaitEvent, ptsz, (CUstream hStream, CUevent hEvent, unsigned int Flags),
           (hStream, hEvent, Flags))
PER_THREAD(cuStreamAddCallback, ptsz,
           (CUstream hStream, CUstreamCallback callback, void *userData, unsigned int flags),
           (hStream, callback, userData, flags))
PER_THREAD(cuStreamBeginCapture_v2, ptsz, (CUstream hStream, CUstreamCaptureMode mode),
           (hStream, mode))
PER_THREAD(cuStreamBeginCaptureToGraph, ptsz,
           (CUstream hStream, CUgraph hGraph, const CUgraphNode *dependencies,
            const CUgraphEdgeData *dependencyData, size_t numDependencies,
            CUstreamCaptureMode mode),
           (hStream, hGraph, dependencies, dependencyData, numDependencies, mode))
PER_THREAD(cuStreamEndCapture, ptsz, (CUstream hStream, CUgraph *phGraph), (hStream, phGraph))
PER_THREAD(cuStreamIsCapturing, ptsz, (CUstream hStream, CUstreamCaptureStatus *captureStatus),
           (hStream, captureStatus))
PER_THREAD(cuStreamGetCaptureInfo_v3, ptsz,
           (CUstream hStream, CUstreamCaptureStatus *captureStatus_out, cuuint64_t *id_out,
            CUgraph *graph_out, const CUgraphNode **dependencies_out,
            const CUgraphEdgeData **edgeData_out, size_t *numDependencies_out),
           (hStream, captureStatus_out, id_out, graph_out, dependencies_out, edgeData_out,
            numDependencies_out))
PER_THREAD(cuStreamUpdateCaptureDependencies_v2, ptsz,
           (CUstream hStream, CUgraphNode *dependencies, const CUgraphEdgeData *dependencyData,
            size_t numDependencies, unsigned int flags),
           (hStream, dependencies, dependencyData, numDependencies, flags))
PER_THREAD(cuStreamAttachMemAsync, ptsz,
           (CUstream hStream, CUdeviceptr dptr, size_t length, unsigned int flags),
           (hStream, dptr, length, flags))
PER_THREAD(cuStreamQuery, ptsz, (CUstream hStream), (hStream))
PER_THREAD(cuStreamSynchronize, ptsz, (CUstream hStream), (hStream))
PER_THREAD(cuStreamCopyAttributes, ptsz, (CUstream dst, CUstream src), (dst, src))
PER_THREAD(cuStreamGetAttribute, ptsz,
           (CUstream hStream, CUstreamAttrID attr, CUstreamAttrValue *value_out),
           (hStream, attr, value_out))
PER_THREAD(cuStreamSetAttribute, ptsz,
           (CUstream hStream, CUstreamAttrID attr, const CUstreamAttrValue *value),
           (hStream, attr, value))
PER_THREAD(cuEventRecord, ptsz, (CUevent hEvent, CUstream hStream), (hEvent, hStream))
PER_THREAD(cuEventRecordWithFlags, ptsz, (CUevent hEvent, CUstream hStream, unsigned int flags),
           (hEvent, hStream, flags))
PER_THREAD(cuStreamWaitValue32_v2, ptsz,
           (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
           (stream, addr, value, flags))
PER_THREAD(cuStreamWaitValue64_v2, ptsz,
           (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
           (stream, addr, value, flags))
PER_THREAD(cuStreamWriteValue32_v2, ptsz,
           (CUstream stream, CUdeviceptr addr, cuuint32_t value, unsigned int flags),
           (stream, addr, value, flags))
PER_THREAD(cuStreamWriteValue64_v2, ptsz,
           (CUstream stream, CUdeviceptr addr, cuuint64_t value, unsigned int flags),
           (stream, addr, value, flags))
PER_THREAD(cuLaunchKernel, ptsz,
           (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
            unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
            unsigned int sharedMemBytes, CUstream hStream, void **kernelParams, void **extra),
           (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
            hStream, kernelParams, extra))
PER_THREAD(cuLaunchKernelEx, ptsz,
           (const CUlaunchConfig *config, CUfunction f, void **kernelParams, void **extra),
           (config, f, kernelParams, extra))
PER_THREAD(cuLaunchCooperativeKernel, ptsz,
           (CUfunction f, unsigned int gridDimX, unsigned int gridDimY, unsigned int gridDimZ,
            unsigned int blockDimX, unsigned int blockDimY, unsigned int blockDimZ,
            unsigned int sharedMemBytes, CUstream hStream, void **kernelParams),
           (f, gridDimX, gridDimY, gridDimZ, blockDimX, blockDimY, blockDimZ, sharedMemBytes,
            hStream, kernelParams))
PER_THREAD(cuLaunchHostFunc, ptsz, (CUstream hStream, CUhostFn fn, void *userData),
           (hStream, fn, userData))
PER_THREAD(cuGraphInstantiateWithParams, ptsz,
           (CUgraphExec * phGraphExec, CUgraph hGraph,
            CUDA_GRAPH_INSTANTIATE_PARAMS *instantiateParams),
           (phGraphExec, hGraph, instantiateParams))
PER_THREAD(cuGraphUpload, ptsz, (CUgraphExec hGraphExec, CUstream hStream), (hGraphExec, hStream))
PER_THREAD(cuGraphLaunch, ptsz, (CUgraphExec hGraphExec, CUstream hStream), (hGraphExec, hStream))

/* An earlier variant, which cuda.h declares no more. */
CUresult cuStreamGetCaptureInfo_v2(CUstream s, CUstreamCaptureStatus *status, cuuint64_t *id,
                                   CUgraph *graph, const CUgraphNode **dependencies, size_t *n);
PER_THREAD(cuStreamGetCaptureInfo_v2, ptsz,
           (CUstream hStream, CUstreamCaptureStatus *captureStatus, cuuint64_t *id, CUgraph *graph,
            const CUgraphNode **dependencies, size_t *numDependencies),
           (hStream, captureStatus, id, graph, dependencies, numDependencies))
