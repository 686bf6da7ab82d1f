// Instructions that CUDA C++ has no name for: asynchronous copies, rounding, tensor cores.

enum Precision { FP32, TF32, FP16, BF16 };

// Dynamic shared memory, as `shared`.
#define DYNAMIC_SHARED extern __shared__ __align__(16) float shared[]

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return (uint32_t)__cvta_generic_to_shared(pointer);
}

// Copies one float, or zero where there is none.
__device__ __forceinline__ void copy_float(float* to, const float* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}

// Copies four floats at multiples of 16 bytes, or zeros.
__device__ __forceinline__ void copy_float4(float* to, const float* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 16 : 0)
               : "memory");
}

__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

__device__ __forceinline__ uint32_t round_tf32(float x) {
  uint32_t rounded;
  asm("cvt.rna.tf32.f32 %0, %1;" : "=r"(rounded) : "f"(x));
  return rounded;
}

// Two floats in one register, the first in the lower half.
template <int PRECISION>
__device__ __forceinline__ uint32_t round_pair(float low, float high) {
  uint32_t pair;
  if constexpr (PRECISION == FP16)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// c += a * b for a 16 x 8 piece with 8 (TF32) or 16 (FP16, BF16) products an element.
template <int PRECISION>
__device__ __forceinline__ void multiply_add(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#define FLOWLOOM_MMA(SHAPE)                                                                          \
  asm volatile("mma.sync.aligned." SHAPE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                      \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (PRECISION == TF32)
    FLOWLOOM_MMA("m16n8k8.row.col.f32.tf32.tf32.f32");
  else if constexpr (PRECISION == FP16)
    FLOWLOOM_MMA("m16n8k16.row.col.f32.f16.f16.f32");
  else
    FLOWLOOM_MMA("m16n8k16.row.col.f32.bf16.bf16.f32");
#undef FLOWLOOM_MMA
}
