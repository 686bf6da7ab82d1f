// What every file of kernels includes first: CUDA's names of the language, on each platform.
#pragma once

#include <cmath>
#include <cstdint>

#include "flowloom/gpu.h"

// Makes a kernel known to host code, which is compiled without it.
#define GPU_EXPORT(symbol)      \
  void* flowloom_##symbol();    \
  void* flowloom_##symbol() { return GPU_FUNCTION(symbol); }

#if defined(FLOWLOOM_EMU)
#include "emulated.h"
#elif defined(FLOWLOOM_HIP)
// TVM writes `__shared__ alignas(16)`, in an order that clang takes only from attributes.
#define alignas(bytes) __attribute__((aligned(bytes)))
// Shuffles stay within 32 lanes, also in wavefronts of 64.
template <class T>
__device__ __forceinline__ T __shfl_sync(unsigned, T value, int lane, int width = 32) { return __shfl(value, lane, width); }
template <class T>
__device__ __forceinline__ T __shfl_up_sync(unsigned, T value, unsigned by, int width = 32) {
  return __shfl_up(value, by, width);
}
template <class T>
__device__ __forceinline__ T __shfl_down_sync(unsigned, T value, unsigned by, int width = 32) {
  return __shfl_down(value, by, width);
}
template <class T>
__device__ __forceinline__ T __shfl_xor_sync(unsigned, T value, int mask, int width = 32) {
  return __shfl_xor(value, mask, width);
}
#define __activemask() 0xffffffffU
#define __syncwarp() __builtin_amdgcn_wave_barrier()
#endif
