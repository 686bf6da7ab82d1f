// float16 as a stored type: values are computed as float.

struct __align__(2) half {
  uint16_t bits;
  half() = default;
  __device__ __forceinline__ half(float value) { asm("cvt.rn.f16.f32 %0, %1;" : "=h"(bits) : "f"(value)); }
  __device__ __forceinline__ operator float() const {
    float value;
    asm("cvt.f32.f16 %0, %1;" : "=f"(value) : "h"(bits));
    return value;
  }
};
__device__ __forceinline__ half __float2half_rn(float value) { return half(value); }
__device__ __forceinline__ float __half2float(half value) { return value; }
