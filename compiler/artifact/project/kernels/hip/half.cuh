// float16 as a stored type: values are computed as float.
#pragma once

struct __attribute__((aligned(2))) half {
  _Float16 value;
  half() = default;
  __device__ __forceinline__ half(float from) : value(static_cast<_Float16>(from)) {}
  __device__ __forceinline__ operator float() const { return static_cast<float>(value); }
};
__device__ __forceinline__ half __float2half_rn(float value) { return half(value); }
__device__ __forceinline__ float __half2float(half value) { return value; }
