// What instructions.cuh offers, on AMD: copies are plain, and what CUDA's warps exchange in ldmatrix
// and mma.sync goes through shuffles of 32 lanes. Matrix cores are in mfma.cuh.
#pragma once
#include "half.cuh"

enum Precision { FP32, TF32, FP16, BF16 };

// Dynamic shared memory, as `shared`.
#define DYNAMIC_SHARED extern __shared__ __attribute__((aligned(16))) float shared[]

// Copies 16 bytes between multiples of 16 bytes, or zeros where there are none.
template <bool REUSED>
__device__ __forceinline__ void copy_chunk(void* to, const void* from, bool valid) {
  *static_cast<int4*>(to) = valid ? *static_cast<const int4*>(from) : int4{0, 0, 0, 0};
}

// Copies 16, 8 or 4 bytes between multiples of as many, or zeros.
template <int BYTES>
__device__ __forceinline__ void copy_bytes(void* to, const void* from, bool valid) {
  if constexpr (BYTES == 16)
    copy_chunk<false>(to, from, valid);
  else if constexpr (BYTES == 8)
    *static_cast<int2*>(to) = valid ? *static_cast<const int2*>(from) : int2{0, 0};
  else
    *static_cast<int*>(to) = valid ? *static_cast<const int*>(from) : 0;
}

// Copies one element, or zero.
template <class Element>
__device__ __forceinline__ void copy_element(Element* to, const Element* from, bool valid) {
  *to = valid ? *from : Element(0);
}

__device__ __forceinline__ void cp_async_fence() {}
template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {}

// There are no clusters: kernels for AMD have one block in each.
__device__ __forceinline__ void cluster_sync() {}
__device__ __forceinline__ void cluster_sync_relaxed() {}
__device__ __forceinline__ float peer_float(const float* own, int) { return *own; }
__device__ __forceinline__ float4 peer_float4(const float* own, int) { return *reinterpret_cast<const float4*>(own); }

// The row that another lane of the 32 names.
__device__ __forceinline__ const char* row_of(const void* row, int lane) {
  const uint64_t address = reinterpret_cast<uint64_t>(row);
  const uint32_t low = __shfl_sync(~0u, static_cast<uint32_t>(address), lane, 32);
  const uint32_t high = __shfl_sync(~0u, static_cast<uint32_t>(address >> 32), lane, 32);
  return reinterpret_cast<const char*>(static_cast<uint64_t>(high) << 32 | low);
}

// Loads four matrices of eight rows of 16 bytes. Lane i gives the address of row i % 8 of matrix
// i / 8, and gets four bytes of each matrix: those at i % 4 * 4 of row i / 4.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&to)[4], const void* row) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; i++)
    to[i] = *reinterpret_cast<const uint32_t*>(row_of(row, i * 8 + lane / 4) + lane % 4 * 4);
}

// Likewise of matrices of eight by eight elements of two bytes, each transposed.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&to)[4], const void* row) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 4; i++) {
    const char *first = row_of(row, i * 8 + lane % 4 * 2), *second = row_of(row, i * 8 + lane % 4 * 2 + 1);
    const uint32_t low = *reinterpret_cast<const uint16_t*>(first + lane / 4 * 2);
    to[i] = low | static_cast<uint32_t>(*reinterpret_cast<const uint16_t*>(second + lane / 4 * 2)) << 16;
  }
}

// There is no TF32: floats are multiplied with all their bits.
__device__ __forceinline__ uint32_t round_tf32(uint32_t x) { return x; }

template <int PRECISION>
__device__ __forceinline__ uint32_t short_bits(float value) {
  if constexpr (PRECISION == FP16) {
    const half rounded(value);
    uint16_t bits;
    __builtin_memcpy(&bits, &rounded, sizeof bits);
    return bits;
  }
  const uint32_t bits = __float_as_uint(value);
  return value != value ? 0x7fffu : (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

// Two floats, given by their bits, in one register, the first in the lower half.
template <int PRECISION>
__device__ __forceinline__ uint32_t round_pair(uint32_t first, uint32_t second) {
  return short_bits<PRECISION>(__uint_as_float(first)) | short_bits<PRECISION>(__uint_as_float(second)) << 16;
}

// One of the values in a register of an operand.
template <int PRECISION>
__device__ __forceinline__ float value_of(uint32_t bits, int place) {
  if constexpr (PRECISION == TF32) return __uint_as_float(bits);
  if constexpr (PRECISION == BF16) return __uint_as_float(bits >> place * 16 << 16);
  const uint16_t own = static_cast<uint16_t>(bits >> place * 16);
  half value;
  __builtin_memcpy(&value, &own, sizeof own);
  return value;
}

// c += a * b for a 16 x 8 piece with 8 (TF32) or 16 (FP16, BF16) products an element.
template <int PRECISION>
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 8; i++) {
    const int part = i / 4, from = i % 4;
    const uint32_t upper = __shfl_sync(~0u, a[part * 2], lane / 4 * 4 + from, 32);
    const uint32_t lower = __shfl_sync(~0u, a[part * 2 + 1], lane / 4 * 4 + from, 32);
#pragma unroll
    for (int q = 0; q < 2; q++) {
      const uint32_t right = __shfl_sync(~0u, b[part], (lane % 4 * 2 + q) * 4 + from, 32);
#pragma unroll
      for (int k = 0; k < (PRECISION == TF32 ? 1 : 2); k++) {
        c[q] += value_of<PRECISION>(upper, k) * value_of<PRECISION>(right, k);
        c[2 + q] += value_of<PRECISION>(lower, k) * value_of<PRECISION>(right, k);
      }
    }
  }
}
