// The GPU by one set of names, mapped to CUDA 12.3 and newer, HIP 5.2 and newer, or the emulator.
//
// Host code uses the names below and no others; kernels use CUDA's names for what is in the language
// (`__global__`, `threadIdx`, `__syncthreads`, `__shfl_down_sync`, ...) and wrapper functions for the
// rest: see the list at the end. Graphs keep to what HIP 5.2 has.
//
//   types      gpuError_t gpuStream_t gpuEvent_t gpuGraph_t gpuGraphNode_t gpuGraphExec_t
//              gpuKernelNodeParams {func, gridDim, blockDim, sharedMemBytes, kernelParams} dim3
//   constants  gpuSuccess GPU_PLATFORM
//   errors     gpuGetErrorString(error)
//   devices    gpuGetDeviceCount(int*) gpuSetDevice(int) gpuGetDevice(int*)
//              gpuGetDeviceName(char*, size, device) gpuMemGetInfo(size_t* free, size_t* total)
//   memory     gpuMalloc(void**, bytes) gpuFree(void*)
//              gpuIsReachable(const void*): whether kernels can be given this address
//              gpuMemcpyAsync(to, from, bytes, stream) gpuMemsetAsync(to, byte, bytes, stream)
//   streams    gpuStreamCreate(gpuStream_t*) gpuStreamDestroy gpuStreamSynchronize
//              gpuStreamWaitEvent(stream, event)
//   events     gpuEventCreate(gpuEvent_t*, bool timing) gpuEventDestroy gpuEventRecord(event, stream)
//              gpuEventSynchronize gpuEventElapsedTime(float* milliseconds, start, end)
//   kernels    GPU_FUNCTION(symbol) is the `void*` of a kernel, in the file that defines it
//              gpuFuncAllowShared(function, bytes): asks for dynamic shared memory beyond what is granted to all
//              gpuFuncAllowCluster(function): allows the cluster that it has, if that is a large one; HIP has none
//              gpuFuncSetSmemCarveout(function, percent): sets the preferred share of an SM's L1 that is shared
//                  memory; HIP has no such setting
//              gpuFuncExists(function): whether there is code of it for the device
//              gpuFuncWaits(function): whether it was compiled to wait for its predecessors itself
//              gpuLaunchKernel(function, grid, block, arguments, bytes, stream)
//   graphs     gpuGraphCreate(gpuGraph_t*) gpuGraphDestroy
//              gpuGraphAddKernelNode(gpuGraphNode_t*, graph, const gpuKernelNodeParams*)
//              gpuGraphAddEmptyNode(gpuGraphNode_t*, graph)
//              gpuGraphAddEdge(graph, from, to)
//              gpuGraphAddProgrammaticEdge(graph, from, to)    into a kernel that waits itself; a full
//                  edge on HIP
//              gpuGraphKernelNodeSetPriority(node, priority)   a hint, which HIP 5.2 does not have
//              gpuGetPriorities(int* least, int* greatest)     a smaller number is more urgent
//              gpuGraphInstantiate(gpuGraphExec_t*, graph) gpuGraphExecDestroy
//              gpuGraphExecSetKernel(exec, node, const gpuKernelNodeParams*)
//              gpuGraphLaunch(exec, stream)
//
// Kernels: `extern "C" __global__ void NAME(pointers...)`, `__launch_bounds__`, `__cluster_dims__`
// (CUDA and the emulator), `__shared__` arrays, `DYNAMIC_SHARED`, thread and block indices,
// `__syncthreads`, `__syncwarp`, `__shfl_sync`, `__shfl_up_sync`, `__shfl_down_sync`, `__shfl_xor_sync`,
// `__activemask`, `atomicAdd`, vector types (`float2` to `float4` and their kin), the bit casts
// `__float_as_uint` and its kin, `<cmath>`'s float and double functions, and every function of
// `instructions.cuh` and of `half.cuh`, of which each platform has its own. Warps have 32 lanes.
#pragma once

#include <cstddef>

#if defined(FLOWLOOM_CUDA)
#define GPU_PLATFORM "cuda"
#elif defined(FLOWLOOM_HIP)
#define GPU_PLATFORM "hip"
#elif defined(FLOWLOOM_EMU)
#define GPU_PLATFORM "emu"
#else
#error "define FLOWLOOM_CUDA, FLOWLOOM_HIP or FLOWLOOM_EMU"
#endif

#if defined(FLOWLOOM_EMU)
#include "gpu_emulator.h"
#else

#if defined(FLOWLOOM_CUDA)
#include <cuda_runtime.h>
#define FLOWLOOM_GPU(name) cuda##name
using gpuDeviceProperties = cudaDeviceProp;
#else
#include <hip/hip_runtime.h>
#define FLOWLOOM_GPU(name) hip##name
using gpuDeviceProperties = hipDeviceProp_t;
#endif

#define GPU_FUNCTION(symbol) const_cast<void*>(reinterpret_cast<const void*>(symbol))

using gpuError_t = FLOWLOOM_GPU(Error_t);
using gpuStream_t = FLOWLOOM_GPU(Stream_t);
using gpuEvent_t = FLOWLOOM_GPU(Event_t);
using gpuGraph_t = FLOWLOOM_GPU(Graph_t);
using gpuGraphNode_t = FLOWLOOM_GPU(GraphNode_t);
using gpuGraphExec_t = FLOWLOOM_GPU(GraphExec_t);
using gpuKernelNodeParams = FLOWLOOM_GPU(KernelNodeParams);
constexpr gpuError_t gpuSuccess = FLOWLOOM_GPU(Success);

inline const char* gpuGetErrorString(gpuError_t error) { return FLOWLOOM_GPU(GetErrorString)(error); }

inline gpuError_t gpuGetDeviceCount(int* count) { return FLOWLOOM_GPU(GetDeviceCount)(count); }
inline gpuError_t gpuSetDevice(int device) { return FLOWLOOM_GPU(SetDevice)(device); }
inline gpuError_t gpuGetDevice(int* device) { return FLOWLOOM_GPU(GetDevice)(device); }
inline gpuError_t gpuGetDeviceName(char* name, size_t size, int device) {
  gpuDeviceProperties properties;
  const gpuError_t error = FLOWLOOM_GPU(GetDeviceProperties)(&properties, device);
  for (size_t i = 0; error == gpuSuccess && i < size; i++) {
    name[i] = i + 1 < size ? properties.name[i] : '\0';
    if (name[i] == '\0') break;
  }
  return error;
}
inline gpuError_t gpuMemGetInfo(size_t* free, size_t* total) { return FLOWLOOM_GPU(MemGetInfo)(free, total); }

inline gpuError_t gpuMalloc(void** memory, size_t bytes) { return FLOWLOOM_GPU(Malloc)(memory, bytes); }
inline gpuError_t gpuFree(void* memory) { return FLOWLOOM_GPU(Free)(memory); }
inline bool gpuIsReachable(const void* memory) {
#if defined(FLOWLOOM_CUDA)
  cudaPointerAttributes found{};
  if (cudaPointerGetAttributes(&found, memory) == cudaSuccess && found.type != cudaMemoryTypeUnregistered) return true;
  int device = 0, everything = 0;  // some devices read all memory of the host
  return cudaGetDevice(&device) == cudaSuccess &&
         cudaDeviceGetAttribute(&everything, cudaDevAttrPageableMemoryAccess, device) == cudaSuccess && everything != 0;
#else
  hipPointerAttribute_t found{};
  if (hipPointerGetAttributes(&found, memory) != hipSuccess) return static_cast<void>(hipGetLastError()), false;
#if HIP_VERSION_MAJOR >= 6
  return found.type != hipMemoryTypeUnregistered;
#else
  return true;
#endif
#endif
}
inline gpuError_t gpuMemcpyAsync(void* to, const void* from, size_t bytes, gpuStream_t stream) {
  return FLOWLOOM_GPU(MemcpyAsync)(to, from, bytes, FLOWLOOM_GPU(MemcpyDefault), stream);
}
inline gpuError_t gpuMemsetAsync(void* to, int byte, size_t bytes, gpuStream_t stream) {
  return FLOWLOOM_GPU(MemsetAsync)(to, byte, bytes, stream);
}

inline gpuError_t gpuStreamCreate(gpuStream_t* stream) {
  return FLOWLOOM_GPU(StreamCreateWithFlags)(stream, FLOWLOOM_GPU(StreamNonBlocking));
}
inline gpuError_t gpuStreamDestroy(gpuStream_t stream) { return FLOWLOOM_GPU(StreamDestroy)(stream); }
inline gpuError_t gpuStreamSynchronize(gpuStream_t stream) { return FLOWLOOM_GPU(StreamSynchronize)(stream); }
inline gpuError_t gpuStreamWaitEvent(gpuStream_t stream, gpuEvent_t event) {
  return FLOWLOOM_GPU(StreamWaitEvent)(stream, event, 0);
}

inline gpuError_t gpuEventCreate(gpuEvent_t* event, bool timing) {
  return FLOWLOOM_GPU(EventCreateWithFlags)(event, timing ? 0U : unsigned{FLOWLOOM_GPU(EventDisableTiming)});
}
inline gpuError_t gpuEventDestroy(gpuEvent_t event) { return FLOWLOOM_GPU(EventDestroy)(event); }
inline gpuError_t gpuEventRecord(gpuEvent_t event, gpuStream_t stream) {
  return FLOWLOOM_GPU(EventRecord)(event, stream);
}
inline gpuError_t gpuEventSynchronize(gpuEvent_t event) { return FLOWLOOM_GPU(EventSynchronize)(event); }
inline gpuError_t gpuEventElapsedTime(float* milliseconds, gpuEvent_t start, gpuEvent_t end) {
  return FLOWLOOM_GPU(EventElapsedTime)(milliseconds, start, end);
}

inline gpuError_t gpuFuncAllowShared(void* function, size_t bytes) {
  constexpr size_t granted = 48U << 10;  // static memory included
  FLOWLOOM_GPU(FuncAttributes) attributes{};
  const gpuError_t error = FLOWLOOM_GPU(FuncGetAttributes)(&attributes, function);
  if (error != gpuSuccess || attributes.sharedSizeBytes + bytes <= granted) return error;
  return FLOWLOOM_GPU(FuncSetAttribute)(function, FLOWLOOM_GPU(FuncAttributeMaxDynamicSharedMemorySize),
                                        static_cast<int>(bytes));
}
inline gpuError_t gpuFuncExists(void* function) {
  FLOWLOOM_GPU(FuncAttributes) attributes{};
  return FLOWLOOM_GPU(FuncGetAttributes)(&attributes, function);
}
inline gpuError_t gpuLaunchKernel(void* function, dim3 grid, dim3 block, void** arguments, size_t bytes,
                                  gpuStream_t stream) {
  return FLOWLOOM_GPU(LaunchKernel)(function, grid, block, arguments, bytes, stream);
}
inline gpuError_t gpuGetPriorities(int* least, int* greatest) {
  return FLOWLOOM_GPU(DeviceGetStreamPriorityRange)(least, greatest);
}

inline gpuError_t gpuGraphCreate(gpuGraph_t* graph) { return FLOWLOOM_GPU(GraphCreate)(graph, 0); }
inline gpuError_t gpuGraphDestroy(gpuGraph_t graph) { return FLOWLOOM_GPU(GraphDestroy)(graph); }
inline gpuError_t gpuGraphAddKernelNode(gpuGraphNode_t* node, gpuGraph_t graph, const gpuKernelNodeParams* kernel) {
  return FLOWLOOM_GPU(GraphAddKernelNode)(node, graph, nullptr, 0, kernel);
}
inline gpuError_t gpuGraphAddEmptyNode(gpuGraphNode_t* node, gpuGraph_t graph) {
  return FLOWLOOM_GPU(GraphAddEmptyNode)(node, graph, nullptr, 0);
}
inline gpuError_t gpuGraphExecDestroy(gpuGraphExec_t exec) { return FLOWLOOM_GPU(GraphExecDestroy)(exec); }
inline gpuError_t gpuGraphExecSetKernel(gpuGraphExec_t exec, gpuGraphNode_t node, const gpuKernelNodeParams* kernel) {
  return FLOWLOOM_GPU(GraphExecKernelNodeSetParams)(exec, node, kernel);
}
inline gpuError_t gpuGraphLaunch(gpuGraphExec_t exec, gpuStream_t stream) {
  return FLOWLOOM_GPU(GraphLaunch)(exec, stream);
}

#if defined(FLOWLOOM_CUDA)
static_assert(CUDART_VERSION >= 12030, "edges of graphs have types since CUDA 12.3");

inline bool gpuFuncWaits(void* function) {  // `grid_dependency_wait` waits in code for sm_90 and newer
  cudaFuncAttributes attributes{};
  return cudaFuncGetAttributes(&attributes, function) == cudaSuccess && attributes.ptxVersion >= 90;
}
inline gpuError_t gpuFuncAllowCluster(void* function) {
  constexpr int portable = 8;
  cudaFuncAttributes attributes{};
  const gpuError_t error = cudaFuncGetAttributes(&attributes, function);
  const int blocks =
      attributes.requiredClusterWidth * attributes.requiredClusterHeight * attributes.requiredClusterDepth;
  if (error != gpuSuccess || blocks <= portable) return error;
  return cudaFuncSetAttribute(function, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
}
inline gpuError_t gpuFuncSetSmemCarveout(void* function, int percent) {
  return cudaFuncSetAttribute(function, cudaFuncAttributePreferredSharedMemoryCarveout, percent);
}
inline gpuError_t gpuGraphAddTypedEdge(gpuGraph_t graph, gpuGraphNode_t from, gpuGraphNode_t to,
                                       const cudaGraphEdgeData* data) {
#if CUDART_VERSION >= 13000
  return cudaGraphAddDependencies(graph, &from, &to, data, 1);
#else
  return cudaGraphAddDependencies_v2(graph, &from, &to, data, 1);
#endif
}
inline gpuError_t gpuGraphAddEdge(gpuGraph_t graph, gpuGraphNode_t from, gpuGraphNode_t to) {
  return gpuGraphAddTypedEdge(graph, from, to, nullptr);
}
inline gpuError_t gpuGraphAddProgrammaticEdge(gpuGraph_t graph, gpuGraphNode_t from, gpuGraphNode_t to) {
  cudaGraphEdgeData data{};
  data.from_port = cudaGraphKernelNodePortProgrammatic;
  data.type = cudaGraphDependencyTypeProgrammatic;
  return gpuGraphAddTypedEdge(graph, from, to, &data);
}
inline gpuError_t gpuGraphKernelNodeSetPriority(gpuGraphNode_t node, int priority) {
  cudaKernelNodeAttrValue value{};
  value.priority = priority;
  return cudaGraphKernelNodeSetAttribute(node, cudaLaunchAttributePriority, &value);
}
inline gpuError_t gpuGraphInstantiate(gpuGraphExec_t* exec, gpuGraph_t graph) {
  return cudaGraphInstantiate(exec, graph, cudaGraphInstantiateFlagUseNodePriority);
}
#else
inline bool gpuFuncWaits(void*) { return false; }
inline gpuError_t gpuFuncAllowCluster(void*) { return gpuSuccess; }
inline gpuError_t gpuFuncSetSmemCarveout(void*, int) { return gpuSuccess; }
inline gpuError_t gpuGraphAddEdge(gpuGraph_t graph, gpuGraphNode_t from, gpuGraphNode_t to) {
  return hipGraphAddDependencies(graph, &from, &to, 1);
}
inline gpuError_t gpuGraphAddProgrammaticEdge(gpuGraph_t graph, gpuGraphNode_t from, gpuGraphNode_t to) {
  return gpuGraphAddEdge(graph, from, to);
}
inline gpuError_t gpuGraphKernelNodeSetPriority(gpuGraphNode_t, int) { return gpuSuccess; }
inline gpuError_t gpuGraphInstantiate(gpuGraphExec_t* exec, gpuGraph_t graph) {
  return hipGraphInstantiate(exec, graph, nullptr, nullptr, 0);
}
#endif
#undef FLOWLOOM_GPU
#endif
