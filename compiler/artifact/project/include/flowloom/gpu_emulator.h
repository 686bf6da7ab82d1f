// The names of gpu.h on the emulator: what is queued runs when it is waited for, in random orders.
// FLOWLOOM_EMU_SEED, FLOWLOOM_EMU_WARP (32 or 64) and FLOWLOOM_EMU_THREADS decide how.
#pragma once

#include <unistd.h>

#include <cstdio>
#include <mutex>
#include <unordered_map>

#include "runtime.h"

#define GPU_FUNCTION(symbol) const_cast<void*>(static_cast<const void*>(EMULATED(symbol)))

using gpuError_t = int;
using gpuStream_t = emulator_stream*;
using gpuEvent_t = emulator_event*;
using gpuGraph_t = emulator_graph*;
using gpuGraphNode_t = emulator_node*;
using gpuGraphExec_t = emulator_exec*;
struct gpuKernelNodeParams {
  void* func;
  dim3 gridDim, blockDim;
  unsigned sharedMemBytes;
  void** kernelParams;
};
constexpr gpuError_t gpuSuccess = 0;

inline const char* gpuGetErrorString(gpuError_t) { return emulator_error(); }

inline gpuError_t gpuGetDeviceCount(int* count) { return *count = 1, gpuSuccess; }
inline gpuError_t gpuSetDevice(int) { return gpuSuccess; }
inline gpuError_t gpuGetDevice(int* device) { return *device = 0, gpuSuccess; }
inline gpuError_t gpuGetDeviceName(char* name, size_t size, int) {
  std::snprintf(name, size, "the emulator (this CPU)");
  return gpuSuccess;
}
inline gpuError_t gpuMemGetInfo(size_t* free, size_t* total) {
  const auto page = static_cast<size_t>(sysconf(_SC_PAGESIZE));
  *free = page * static_cast<size_t>(sysconf(_SC_AVPHYS_PAGES));
  *total = page * static_cast<size_t>(sysconf(_SC_PHYS_PAGES));
  return gpuSuccess;
}

inline gpuError_t gpuMalloc(void** memory, size_t bytes) { return emulator_allocate(memory, bytes); }
inline gpuError_t gpuFree(void* memory) { return emulator_free(memory); }
inline bool gpuIsReachable(const void* memory) { return emulator_holds(memory) != 0; }
inline gpuError_t gpuMemcpyAsync(void* to, const void* from, size_t bytes, gpuStream_t stream) {
  return emulator_memory_copy(to, from, bytes, stream);
}
inline gpuError_t gpuMemsetAsync(void* to, int byte, size_t bytes, gpuStream_t stream) {
  return emulator_memory_fill(to, byte, bytes, stream);
}

inline gpuError_t gpuStreamCreate(gpuStream_t* stream) { return emulator_stream_create(stream, 0); }
inline gpuError_t gpuStreamDestroy(gpuStream_t stream) { return emulator_stream_destroy(stream); }
inline gpuError_t gpuStreamSynchronize(gpuStream_t stream) { return emulator_stream_synchronize(stream); }
inline gpuError_t gpuStreamWaitEvent(gpuStream_t stream, gpuEvent_t event) {
  return emulator_stream_wait(stream, event);
}

inline gpuError_t gpuEventCreate(gpuEvent_t* event, bool) { return emulator_event_create(event); }
inline gpuError_t gpuEventDestroy(gpuEvent_t event) { return emulator_event_destroy(event); }
inline gpuError_t gpuEventRecord(gpuEvent_t event, gpuStream_t stream) { return emulator_event_record(event, stream); }
inline gpuError_t gpuEventSynchronize(gpuEvent_t event) { return emulator_event_synchronize(event); }
inline gpuError_t gpuEventElapsedTime(float* milliseconds, gpuEvent_t start, gpuEvent_t end) {
  double nanoseconds = 0;
  const gpuError_t error = emulator_event_elapsed(&nanoseconds, start, end);
  *milliseconds = static_cast<float>(nanoseconds / 1e6);
  return error;
}

inline emulator_call gpuEmulatorCall(const gpuKernelNodeParams& kernel) {
  return {static_cast<const emulator::Kernel*>(kernel.func), kernel.gridDim, kernel.blockDim,
          kernel.sharedMemBytes, kernel.kernelParams, nullptr, 0};
}

// CUDA grants 48 KiB without asking, of which a kernel's static memory takes an unknown part: so
// every kernel has to ask here for what its launches take.
struct gpuShared {
  std::mutex mutex;
  std::unordered_map<void*, size_t> allowed;
};
inline gpuShared& gpuEmulatorShared() {
  static gpuShared shared;
  return shared;
}
inline gpuError_t gpuFuncAllowShared(void* function, size_t bytes) {
  gpuShared& shared = gpuEmulatorShared();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  return shared.allowed[function] = bytes, gpuSuccess;
}
inline gpuError_t gpuFuncAllowCluster(void*) { return gpuSuccess; }
inline gpuError_t gpuFuncSetSmemCarveout(void*, int) { return gpuSuccess; }
inline gpuError_t gpuEmulatorAllows(void* function, size_t bytes) {
  gpuShared& shared = gpuEmulatorShared();
  const std::lock_guard<std::mutex> lock(shared.mutex);
  if (bytes <= shared.allowed[function]) return gpuSuccess;
  return emulator_refuse("a launch takes dynamic shared memory that its kernel did not ask for");
}

inline gpuError_t gpuFuncExists(void*) { return gpuSuccess; }
inline bool gpuFuncWaits(void*) { return true; }
inline gpuError_t gpuLaunchKernel(void* function, dim3 grid, dim3 block, void** arguments, size_t bytes,
                                  gpuStream_t stream) {
  if (gpuEmulatorAllows(function, bytes)) return 1;
  const emulator_call call = gpuEmulatorCall({function, grid, block, static_cast<unsigned>(bytes), arguments});
  return emulator_launch(&call, stream);
}
inline gpuError_t gpuGetPriorities(int* least, int* greatest) { return *least = *greatest = 0, gpuSuccess; }

inline gpuError_t gpuGraphCreate(gpuGraph_t* graph) { return emulator_graph_create(graph); }
inline gpuError_t gpuGraphDestroy(gpuGraph_t graph) { return emulator_graph_destroy(graph); }
inline gpuError_t gpuGraphAddKernelNode(gpuGraphNode_t* node, gpuGraph_t graph, const gpuKernelNodeParams* kernel) {
  if (gpuEmulatorAllows(kernel->func, kernel->sharedMemBytes)) return 1;
  const emulator_call call = gpuEmulatorCall(*kernel);
  return emulator_graph_add_call(node, graph, &call);
}
inline gpuError_t gpuGraphAddEmptyNode(gpuGraphNode_t* node, gpuGraph_t graph) {
  return emulator_graph_add_empty(node, graph);
}
inline gpuError_t gpuGraphAddEdge(gpuGraph_t graph, gpuGraphNode_t from, gpuGraphNode_t to) {
  return emulator_graph_add_edge(graph, from, to);
}
inline gpuError_t gpuGraphAddProgrammaticEdge(gpuGraph_t graph, gpuGraphNode_t from, gpuGraphNode_t to) {
  return emulator_graph_add_early_edge(graph, from, to);
}
inline gpuError_t gpuGraphKernelNodeSetPriority(gpuGraphNode_t, int) { return gpuSuccess; }
inline gpuError_t gpuGraphInstantiate(gpuGraphExec_t* exec, gpuGraph_t graph) {
  return emulator_graph_instantiate(exec, graph);
}
inline gpuError_t gpuGraphExecDestroy(gpuGraphExec_t exec) { return emulator_exec_destroy(exec); }
inline gpuError_t gpuGraphExecSetKernel(gpuGraphExec_t exec, gpuGraphNode_t node, const gpuKernelNodeParams* kernel) {
  const emulator_call call = gpuEmulatorCall(*kernel);
  return emulator_exec_set_call(exec, node, &call);
}
inline gpuError_t gpuGraphLaunch(gpuGraphExec_t exec, gpuStream_t stream) { return emulator_exec_launch(exec, stream); }
