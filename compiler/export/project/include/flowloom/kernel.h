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
#define __shfl_sync(mask, ...) __shfl(__VA_ARGS__)
#define __shfl_up_sync(mask, ...) __shfl_up(__VA_ARGS__)
#define __shfl_down_sync(mask, ...) __shfl_down(__VA_ARGS__)
#define __shfl_xor_sync(mask, ...) __shfl_xor(__VA_ARGS__)
#define __activemask() 0xffffffffU
#define __syncwarp() __builtin_amdgcn_wave_barrier()
#endif
