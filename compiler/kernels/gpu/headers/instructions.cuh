// PTX instructions without a CUDA C++ intrinsic: cp.async, rounding, ldmatrix, mma, clusters.

enum Precision { FP32, TF32, FP16, BF16 };

// Dynamic shared memory, as `shared`.
#define DYNAMIC_SHARED extern __shared__ __align__(16) float shared[]

__device__ __forceinline__ uint32_t shared_address(const void* pointer) {
  return (uint32_t)__cvta_generic_to_shared(pointer);
}

// Copies 16 aligned bytes asynchronously, or zeros if not `valid`. With CACHE_L1 they stay in L1.
template <bool CACHE_L1>
__device__ __forceinline__ void copy_chunk(void* to, const void* from, bool valid) {
  const uint32_t place = shared_address(to), size = valid ? 16 : 0;
  if constexpr (CACHE_L1)
    asm volatile("cp.async.ca.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(size) : "memory");
  else
    asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(place), "l"(from), "r"(size) : "memory");
}

// Copies 16, 8 or 4 bytes between multiples of as many, or zeros.
template <int BYTES>
__device__ __forceinline__ void copy_bytes(void* to, const void* from, bool valid) {
  if constexpr (BYTES == 16)
    copy_chunk<false>(to, from, valid);
  else
    asm volatile("cp.async.ca.shared.global [%0], [%1], %2, %3;" ::"r"(shared_address(to)), "l"(from), "n"(BYTES),
                 "r"(valid ? BYTES : 0)
                 : "memory");
}

// Copies one element, or zero; cp.async takes four bytes at least, so two bytes are stored at once.
__device__ __forceinline__ void copy_element(float* to, const float* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(shared_address(to)), "l"(from),
               "r"(valid ? 4 : 0)
               : "memory");
}
__device__ __forceinline__ void copy_element(uint16_t* to, const uint16_t* from, bool valid) {
  *to = valid ? *from : 0;
}

__device__ __forceinline__ void cp_async_fence() { asm volatile("cp.async.commit_group;" ::: "memory"); }

template <int PENDING>
__device__ __forceinline__ void cp_async_wait() {
  asm volatile("cp.async.wait_group %0;" ::"n"(PENDING) : "memory");
}

// Loads four 8 x 8 matrices of two-byte elements. Lane i gives the address of row i % 8 of matrix
// i / 8, and gets four bytes of each matrix: those at i % 4 * 4 of row i / 4.
__device__ __forceinline__ void ldmatrix_x4(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// The same, each matrix transposed.
__device__ __forceinline__ void ldmatrix_x4_trans(uint32_t (&to)[4], const void* row) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(to[0]), "=r"(to[1]), "=r"(to[2]), "=r"(to[3])
               : "r"(shared_address(row))
               : "memory");
}

// Waits for all blocks of the cluster, and for their writes to shared memory.
__device__ __forceinline__ void cluster_sync() {
  asm volatile("barrier.cluster.arrive.release;\nbarrier.cluster.wait.acquire;" ::: "memory");
}

// Waits for all blocks of the cluster, so that none exits while another reads its shared memory.
__device__ __forceinline__ void cluster_sync_relaxed() {
  asm volatile("barrier.cluster.arrive.relaxed;\nbarrier.cluster.wait;" ::: "memory");
}

// The float at the address of `own` in the shared memory of the cluster's block `rank`.
__device__ __forceinline__ float peer_float(const float* own, int rank) {
  uint32_t address;
  float value;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(own)), "r"(rank));
  asm volatile("ld.shared::cluster.f32 %0, [%1];" : "=f"(value) : "r"(address) : "memory");
  return value;
}

// The same for four floats.
__device__ __forceinline__ float4 peer_float4(const float* own, int rank) {
  uint32_t address;
  float4 value;
  asm("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(address) : "r"(shared_address(own)), "r"(rank));
  asm volatile("ld.shared::cluster.v4.f32 {%0, %1, %2, %3}, [%4];"
               : "=f"(value.x), "=f"(value.y), "=f"(value.z), "=f"(value.w)
               : "r"(address)
               : "memory");
  return value;
}

// A float whose first 19 bits, all that tensor cores read, are its TF32 value. The factor adds half a
// unit in the last place on average, as cvt.rna, which takes three instructions, does.
__device__ __forceinline__ uint32_t round_tf32(uint32_t x) {
  return __float_as_uint(__uint_as_float(x) * (1 + 1.4427f / 4096));
}

// Two floats, given by their bits, rounded into one register, the first in the lower half.
template <int PRECISION>
__device__ __forceinline__ uint32_t round_pair(uint32_t first, uint32_t second) {
  const float low = __uint_as_float(first), high = __uint_as_float(second);
  uint32_t pair;
  if constexpr (PRECISION == FP16)
    asm("cvt.rn.f16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  else
    asm("cvt.rn.bf16x2.f32 %0, %1, %2;" : "=r"(pair) : "f"(high), "f"(low));
  return pair;
}

// c += a * b for a 16 x 8 MMA tile with a k of 8 (TF32) or 16 (FP16, BF16).
template <int PRECISION>
__device__ __forceinline__ void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#define FLOWLOOM_MMA(SHAPE)                                                                          \
  asm("mma.sync.aligned." SHAPE " {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
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
