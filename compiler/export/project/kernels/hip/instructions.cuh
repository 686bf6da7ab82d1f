// What instructions.cuh offers, on AMD: copies are plain, and products are multiply-adds in FP32.
#pragma once

enum Precision { FP32, TF32, FP16, BF16 };

// Dynamic shared memory, as `shared`.
#define DYNAMIC_SHARED extern __shared__ __attribute__((aligned(16))) float shared[]

// Copies one float, or zero where there is none.
__device__ __forceinline__ void copy_float(float* to, const float* from, bool valid) { *to = valid ? *from : 0.0f; }

// Copies four floats at multiples of 16 bytes, or zeros.
__device__ __forceinline__ void copy_float4(float* to, const float* from, bool valid) {
  *(float4*)to = valid ? *(const float4*)from : float4{0, 0, 0, 0};
}

template <int WIDTH>
__device__ __forceinline__ void copy_floats(float* to, const float* from, bool valid) {
  if constexpr (WIDTH == 4)
    copy_float4(to, from, valid);
  else
    copy_float(to, from, valid);
}

__device__ __forceinline__ void copies_commit() {}

template <int PENDING>
__device__ __forceinline__ void copies_wait() {}

// There are no clusters: kernels for AMD have one block in each.
__device__ __forceinline__ void cluster_wait() {}
__device__ __forceinline__ float peer_float(const float* own, int) { return *own; }

template <int PRECISION>
struct Unsupported {
  static_assert(PRECISION == FP32, "tensor cores have no HIP form here: compile the model with --target hip");
};

__device__ __forceinline__ void load_matrices(float (&to)[4], const float* row);
__device__ __forceinline__ uint32_t round_tf32(float x);
template <int PRECISION>
__device__ __forceinline__ uint32_t round_pair(float, float) {
  return sizeof(Unsupported<PRECISION>);
}
template <int PRECISION>
__device__ __forceinline__ void multiply_add(float (&)[4], const uint32_t (&)[4], const uint32_t (&)[2]) {
  static_cast<void>(sizeof(Unsupported<PRECISION>));
}
