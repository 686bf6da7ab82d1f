// What instructions.cuh offers, on AMD: copies are plain, and products are multiply-adds in FP32.
#pragma once

enum Precision { FP32, TF32, FP16, BF16 };

// Dynamic shared memory, as `shared`.
#define DYNAMIC_SHARED extern __shared__ __attribute__((aligned(16))) float shared[]

// Copies 16 bytes between multiples of 16 bytes, or zeros where there are none.
template <bool REUSED>
__device__ __forceinline__ void copy_chunk(void* to, const void* from, bool valid) {
  *(float4*)to = valid ? *(const float4*)from : float4{0, 0, 0, 0};
}

// Copies one element, or zero.
template <class T>
__device__ __forceinline__ void copy_element(T* to, const T* from, bool valid) {
  *to = valid ? *from : T(0);
}

__device__ __forceinline__ void copies_commit() {}

template <int PENDING>
__device__ __forceinline__ void copies_wait() {}

// There are no clusters: kernels for AMD have one block in each.
__device__ __forceinline__ void cluster_wait() {}
__device__ __forceinline__ void cluster_leave() {}
__device__ __forceinline__ float peer_float(const float* own, int) { return *own; }
__device__ __forceinline__ float4 peer_float4(const float* own, int) { return *(const float4*)own; }

// Tensor cores have no form here: a kernel that uses them does not link.
__device__ void load_matrices(uint32_t (&to)[4], const void* row);
__device__ void load_transposed(uint32_t (&to)[4], const void* row);
__device__ uint32_t round_tf32(uint32_t x);
template <int PRECISION>
struct TensorCores {
  static_assert(PRECISION == FP32, "tensor cores have no HIP form: compile the model with --precision fp32");
};
template <int PRECISION>
__device__ uint32_t round_pair(uint32_t, uint32_t) {
  return sizeof(TensorCores<PRECISION>);
}
template <int PRECISION>
__device__ void multiply_add(float (&)[4], const uint32_t (&)[4], const uint32_t (&)[2]) {
  static_cast<void>(sizeof(TensorCores<PRECISION>));
}
