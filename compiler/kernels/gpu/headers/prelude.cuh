// Types and functions that TVM's CUDA text and the lowerings use. It includes no header, so that NVRTC is fast.

#ifdef __CUDACC_RTC__
typedef signed char int8_t;
typedef unsigned char uint8_t;
typedef short int16_t;
typedef unsigned short uint16_t;
typedef int int32_t;
typedef unsigned int uint32_t;
typedef long long int64_t;
typedef unsigned long long uint64_t;
#else
#include <cstdint>
#endif

// Waits until the predecessors have ended and their writes are visible (PDL). Successors may start when
// all blocks are about to end: of kernels of many blocks, letting them start at once cost one-stream graphs
// 3 to 11 %; those of few release as they begin (with_releases). Without PDL (before sm_90, or along plain
// edges) it does nothing.
__device__ __forceinline__ void grid_dependency_wait() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.wait;" ::: "memory");
#elif defined(EMULATED)
  emulator_begin();
#endif
}

// Lets the successors start once every block of this kernel has called it or has ended.
__device__ __forceinline__ void launch_dependents() {
#if __CUDA_ARCH__ >= 900
  asm volatile("griddepcontrol.launch_dependents;" ::: "memory");
#endif
}

#define uchar unsigned char
#define ushort unsigned short
#define uint unsigned int
#define CUDART_INF_F __int_as_float(0x7f800000)
#define CUDART_NAN_F __int_as_float(0x7fffffff)
#define CUDART_INF __longlong_as_double(0x7ff0000000000000)
#define CUDART_NAN __longlong_as_double(0xfff8000000000000)

__device__ __forceinline__ float flowloom_exp(float x) { return expf(x); }
__device__ __forceinline__ float flowloom_expm1(float x) { return expm1f(x); }
__device__ __forceinline__ float flowloom_log(float x) { return logf(x); }
__device__ __forceinline__ float flowloom_log1p(float x) { return log1pf(x); }
__device__ __forceinline__ float flowloom_tanh(float x) { return tanhf(x); }
__device__ __forceinline__ float flowloom_erf(float x) { return erff(x); }
__device__ __forceinline__ float flowloom_erfc(float x) { return erfcf(x); }
// Without the branch of an exact division; where that gives 0, the quotient is below 2^-126.
__device__ __forceinline__ float flowloom_sigmoid(float x) { return __fdividef(1.0f, 1.0f + expf(-x)); }

__device__ __forceinline__ float power_of_two(float x) {
#ifdef __CUDA_ARCH__
  float power;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(power) : "f"(x));
  return power;
#else
  return exp2f(x);
#endif
}

// erf(x) + 1 of GELU in half the instructions: a polynomial in |x| is the base-2 logarithm of
// 1 - erf(|x|), which is off by 6e-8 at most, as is the sum.
__device__ __forceinline__ float flowloom_erf_plus_one(float x) {
  const float size = fabsf(x);
  float sum = -4.53586035e-05f;
  sum = sum * size + 4.455077e-4f;
  sum = sum * size - 1.48944184e-3f;
  sum = sum * size - 7.74629123e-4f;
  sum = sum * size + 2.82536801e-2f;
  sum = sum * size - 1.48481607e-1f;
  sum = sum * size - 9.18416381e-1f;
  sum = sum * size - 1.62790859f;
  const float rest = power_of_two(sum * size);
  return x < 0 ? rest : 2.0f - rest;
}

__device__ inline int64_t flowloom_integer_power(int64_t base, int64_t exponent) {
  uint64_t result = 1, square = base;  // signed integers must not overflow
  for (; exponent > 0; exponent >>= 1, square *= square) result *= (exponent & 1) ? square : 1;
  return result;
}

// The nearest whole number, the even one of two, of a number below 2^22: additions are four times as fast as a conversion.
__device__ __forceinline__ float flowloom_nearest(float x) { return (x + 0x1.8p23f) - 0x1.8p23f; }

// x / divisor to the last bit, without the branch of a division, given the rounded reciprocal (Markstein 1990): what is
// left of x corrects the nearby quotient. Where that is infinite or NaN, nothing is left.
__device__ __forceinline__ float flowloom_quotient(float x, float divisor, float reciprocal) {
  const float near = x * reciprocal, rest = fmaf(-near, divisor, x);
  return fabsf(near) < CUDART_INF_F ? fmaf(rest, reciprocal, near) : near;
}

// The same for quotients that are rounded to whole numbers, by a number that elements share: what depends on it alone is
// computed once. An unusual one is scaled to where what is left of x is a float; nothing is left by an infinite one.
__device__ __forceinline__ float flowloom_shared_quotient(float x, float divisor) {
  const float size = fabsf(divisor), factor = size < 0x1p-100f ? 0x1p100f : size > 0x1p100f ? 0x1p-100f : 1.0f;
  const float scaled = divisor * factor, reciprocal = 1.0f / scaled, near = x * factor * reciprocal;
  const float rest = fmaf(-near, size < CUDART_INF_F ? scaled : 0.0f, x * factor);
  return fabsf(near) < CUDART_INF_F ? fmaf(rest, reciprocal, near) : near;
}

// NaN when either is NaN.
template <class T>
__device__ __forceinline__ T flowloom_maximum(T a, T b) { return a > b || a != a ? a : b; }
template <class T>
__device__ __forceinline__ T flowloom_minimum(T a, T b) { return a < b || a != a ? a : b; }
#if __CUDA_ARCH__ >= 800
template <>
__device__ __forceinline__ float flowloom_maximum(float a, float b) {
  float result;
  asm("max.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
template <>
__device__ __forceinline__ float flowloom_minimum(float a, float b) {
  float result;
  asm("min.NaN.f32 %0, %1, %2;" : "=f"(result) : "f"(a), "f"(b));
  return result;
}
#endif

// Elements that are loaded and stored as one vector, such as a block of channels.
template <class T, int COUNT>
struct alignas(COUNT * sizeof(T)) Block {
  T at[COUNT];
};
