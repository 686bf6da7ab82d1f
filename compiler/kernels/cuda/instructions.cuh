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

template <int WIDTH>
__device__ __forceinline__ void copy_floats(float* to, const float* from, bool valid) {
  if constexpr (WIDTH == 4)
    copy_float4(to, from, valid);
  else
    copy_float(to, from, valid);
}

__device__ __forceinline__ void copies_commit() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void copies_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Loads 16 x 8 floats: rows lane / 4 and 8 below, then the same four columns on. Lane i gives the
// address of four floats of row i % 16, from the fifth column on for the upper half of the warp.
__device__ __forceinline__ void load_matrices(float (&to)[4], const float* row) {
  uint32_t bits[4];
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(bits[0]), "=r"(bits[1]), "=r"(bits[2]), "=r"(bits[3])
               : "r"(shared_address(row))
               : "memory");
#pragma unroll
  for (int i = 0; i < 4; i++) to[i] = __uint_as_float(bits[i]);
}

// Waits for all blocks of the cluster.
__device__ __forceinline__ void cluster_wait() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// What block `rank` of the cluster has in its shared memory where this block has `own`.
__device__ __forceinline__ float peer_float(const float* own, int rank) {
  uint32_t address;
  float value;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(own)), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

// A float whose first 19 bits, all that tensor cores read of it, are its TF32 value. The factor adds
// half a unit of the last place on average, as conversion by cvt.rna does in three instructions.
__device__ __forceinline__ uint32_t round_tf32(float x) { return __float_as_uint(x * (1 + 1.4427f / 4096)); }

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
