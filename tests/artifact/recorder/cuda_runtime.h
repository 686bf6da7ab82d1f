// As much of CUDA's runtime as exported projects use, without a device: what graphs are made of, and
// what is asked of kernels, is printed; a kernel's function is its name.
#pragma once

#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#define CUDART_VERSION 13000

enum cudaError_t { cudaSuccess };
struct dim3 {
  unsigned x = 1, y = 1, z = 1;
  dim3() = default;
  dim3(unsigned a, unsigned b, unsigned c) : x(a), y(b), z(c) {}
};
struct cudaDeviceProp {
  char name[256];
};
enum cudaMemoryType { cudaMemoryTypeUnregistered, cudaMemoryTypeDevice };
struct cudaPointerAttributes {
  cudaMemoryType type;
};
struct cudaFuncAttributes {
  size_t sharedSizeBytes;
  int ptxVersion;
  int requiredClusterWidth = 0, requiredClusterHeight = 0, requiredClusterDepth = 0;
};
enum { cudaMemcpyDefault, cudaStreamNonBlocking, cudaEventDisableTiming, cudaDevAttrPageableMemoryAccess,
       cudaFuncAttributeMaxDynamicSharedMemorySize, cudaFuncAttributePreferredSharedMemoryCarveout,
       cudaFuncAttributeNonPortableClusterSizeAllowed,
       cudaGraphKernelNodePortProgrammatic,
       cudaGraphDependencyTypeProgrammatic, cudaLaunchAttributePriority, cudaGraphInstantiateFlagUseNodePriority };

struct Node {
  size_t number;
  bool kernel;
};
struct Graph {
  std::vector<Node*> nodes;
};
using cudaStream_t = void*;
using cudaEvent_t = void*;
using cudaGraph_t = Graph*;
using cudaGraphExec_t = Graph*;
using cudaGraphNode_t = Node*;
struct cudaKernelNodeParams {
  void* func;
  dim3 gridDim, blockDim;
  unsigned sharedMemBytes;
  void** kernelParams;
};
struct cudaKernelNodeAttrValue {
  int priority;
};
struct cudaGraphEdgeData {
  int from_port, type;
};

inline const char* cudaGetErrorString(cudaError_t) { return "no error"; }
inline cudaError_t cudaGetDeviceCount(int* count) { return *count = 1, cudaSuccess; }
inline cudaError_t cudaSetDevice(int) { return cudaSuccess; }
inline cudaError_t cudaGetDevice(int* device) { return *device = 0, cudaSuccess; }
inline cudaError_t cudaGetDeviceProperties(cudaDeviceProp* found, int) { return std::strcpy(found->name, "recorder"), cudaSuccess; }
inline cudaError_t cudaDeviceGetAttribute(int* value, int, int) { return *value = 1, cudaSuccess; }
inline cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) { return *least = 0, *greatest = -5, cudaSuccess; }
inline cudaError_t cudaMemGetInfo(size_t* free, size_t* total) { return *free = *total = 1, cudaSuccess; }
inline cudaError_t cudaMalloc(void** memory, size_t bytes) { return *memory = std::aligned_alloc(256, (bytes + 255) / 256 * 256), cudaSuccess; }
inline cudaError_t cudaFree(void* memory) { return std::free(memory), cudaSuccess; }
inline cudaError_t cudaPointerGetAttributes(cudaPointerAttributes* found, const void*) { return found->type = cudaMemoryTypeDevice, cudaSuccess; }
inline cudaError_t cudaMemcpyAsync(void* to, const void* from, size_t bytes, int, cudaStream_t) { return std::memcpy(to, from, bytes), cudaSuccess; }
inline cudaError_t cudaMemsetAsync(void* to, int byte, size_t bytes, cudaStream_t) { return std::memset(to, byte, bytes), cudaSuccess; }
inline cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned) { return *stream = nullptr, cudaSuccess; }
inline cudaError_t cudaStreamDestroy(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamSynchronize(cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned) { return cudaSuccess; }
inline cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned) { return *event = nullptr, cudaSuccess; }
inline cudaError_t cudaEventDestroy(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t) { return cudaSuccess; }
inline cudaError_t cudaEventSynchronize(cudaEvent_t) { return cudaSuccess; }
inline cudaError_t cudaEventElapsedTime(float* time, cudaEvent_t, cudaEvent_t) { return *time = 1, cudaSuccess; }
inline cudaError_t cudaLaunchKernel(void*, dim3, dim3, void**, size_t, cudaStream_t) { return cudaSuccess; }

inline cudaError_t cudaFuncGetAttributes(cudaFuncAttributes* found, void*) { return *found = {STATIC_SHARED, 90}, cudaSuccess; }
inline cudaError_t cudaFuncSetAttribute(void* function, int kind, int value) {
  const char* const what = kind == cudaFuncAttributeMaxDynamicSharedMemorySize ? "allow_shared" : "set_smem_carveout";
  return std::printf("%s %s %d\n", what, static_cast<char*>(function), value), cudaSuccess;
}

inline cudaError_t cudaGraphCreate(cudaGraph_t* graph, unsigned) { return *graph = new Graph, cudaSuccess; }
inline cudaError_t cudaGraphDestroy(cudaGraph_t) { return cudaSuccess; }
inline cudaError_t cudaGraphAddEmptyNode(cudaGraphNode_t* node, cudaGraph_t graph, void*, size_t) {
  graph->nodes.push_back(*node = new Node{graph->nodes.size(), false});
  return std::printf("node empty\n"), cudaSuccess;
}
inline cudaError_t cudaGraphAddKernelNode(cudaGraphNode_t* node, cudaGraph_t graph, void*, size_t, const cudaKernelNodeParams* kernel) {
  graph->nodes.push_back(*node = new Node{graph->nodes.size(), true});
  const dim3 grid = kernel->gridDim, block = kernel->blockDim;
  std::printf("node %s (%u, %u, %u) (%u, %u, %u) %u\n", static_cast<char*>(kernel->func), grid.x, grid.y, grid.z, block.x,
              block.y, block.z, kernel->sharedMemBytes);
  return cudaSuccess;
}
inline cudaError_t cudaGraphKernelNodeSetAttribute(cudaGraphNode_t node, int, const cudaKernelNodeAttrValue* value) {
  return std::printf("priority %zu %d\n", node->number, value->priority), cudaSuccess;
}
inline cudaError_t cudaGraphAddDependencies(cudaGraph_t, cudaGraphNode_t* from, cudaGraphNode_t* to, const cudaGraphEdgeData* data, size_t) {
  const bool early = data && data->type == cudaGraphDependencyTypeProgrammatic && data->from_port == cudaGraphKernelNodePortProgrammatic;
  return std::printf("%s %zu %zu\n", early ? "early" : "after", (*from)->number, (*to)->number), cudaSuccess;
}
inline cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned flags) {
  return *exec = graph, std::printf("instantiate %s\n", flags == cudaGraphInstantiateFlagUseNodePriority ? "by priority" : ""), cudaSuccess;
}
inline cudaError_t cudaGraphExecDestroy(cudaGraphExec_t) { return cudaSuccess; }
inline cudaError_t cudaGraphExecKernelNodeSetParams(cudaGraphExec_t, cudaGraphNode_t node, const cudaKernelNodeParams*) {
  return std::printf("update %zu\n", node->number), cudaSuccess;
}
inline cudaError_t cudaGraphLaunch(cudaGraphExec_t, cudaStream_t) { return std::printf("launch\n"), cudaSuccess; }
