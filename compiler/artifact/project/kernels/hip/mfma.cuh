// AMD's matrix cores on CDNA 2 and 3: wavefronts of 64 lanes multiply 16 x 16 results.
//
// Lane i holds row (of A) or column (of B) i % 16, at the values of k from i / 16 * 4 on (FP32: the one
// at i / 16), and of the result column i % 16, rows i / 16 * 4 to 3 below.
#pragma once
#include "instructions.cuh"

#if defined(__HIP_DEVICE_COMPILE__) && !defined(__gfx90a__) && !defined(__gfx942__)
#error "these kernels use matrix cores of gfx90a and gfx942: compile the model for this architecture"
#endif

// c += a * b; FP32 takes one value a lane, FP16 and BF16 take four, two in each register.
template <int PRECISION>
__device__ __forceinline__ void mfma(float (&c)[4], const uint32_t (&a)[PRECISION == FP32 ? 1 : 2],
                                                  const uint32_t (&b)[PRECISION == FP32 ? 1 : 2]) {
  typedef float Floats __attribute__((ext_vector_type(4)));
  typedef _Float16 Halves __attribute__((ext_vector_type(4)));
  typedef short Shorts __attribute__((ext_vector_type(4)));
  Floats sum = {c[0], c[1], c[2], c[3]};
  if constexpr (PRECISION == FP32) {
    sum = __builtin_amdgcn_mfma_f32_16x16x4f32(__uint_as_float(a[0]), __uint_as_float(b[0]), sum, 0, 0, 0);
  } else if constexpr (PRECISION == FP16) {
    Halves left, right;
    __builtin_memcpy(&left, a, sizeof left), __builtin_memcpy(&right, b, sizeof right);
    sum = __builtin_amdgcn_mfma_f32_16x16x16f16(left, right, sum, 0, 0, 0);
  } else {
    static_assert(PRECISION == BF16);
    Shorts left, right;
    __builtin_memcpy(&left, a, sizeof left), __builtin_memcpy(&right, b, sizeof right);
    sum = __builtin_amdgcn_mfma_f32_16x16x16bf16_1k(left, right, sum, 0, 0, 0);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) c[i] = sum[i];
}
