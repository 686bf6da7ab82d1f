// Instructions of warpgroups (sm_90a): four warps multiply matrices that lie in shared memory.
//
// A matrix is given by a descriptor: its rows of 128 bytes along k, the chunk c of row r at c ^ r % 8;
// 32 bytes on begin the next products. Warp w of the four holds rows 16 * w + lane / 4 (+ 8) of the
// result, and columns lane % 4 * 2 (+ 1) of each piece of eight.

// The descriptor of a matrix whose rows begin at a multiple of 1024 bytes.
__device__ __forceinline__ uint64_t swizzled_tile(const void* tile) {
  return (uint64_t)(shared_address(tile) >> 4 & 0x3fff) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

template <int PRECISION>
struct Kind {};

// Begins c += a * b for 64 rows and 32, 64, 96 or 128 columns, with 8 (TF32) or 16 (FP16, BF16) products an
// element. The result is there once it has been waited for.
#define FLOWLOOM_PIECE(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
__device__ __forceinline__ void multiply_wide(float (&c)[4][4], uint64_t a, uint64_t b, Kind<TF32>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[4][4], uint64_t a, uint64_t b, Kind<FP16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[4][4], uint64_t a, uint64_t b, Kind<BF16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3) : "l"(a), "l"(b));
}

__device__ __forceinline__ void multiply_wide(float (&c)[8][4], uint64_t a, uint64_t b, Kind<TF32>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[8][4], uint64_t a, uint64_t b, Kind<FP16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[8][4], uint64_t a, uint64_t b, Kind<BF16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7) : "l"(a), "l"(b));
}

__device__ __forceinline__ void multiply_wide(float (&c)[12][4], uint64_t a, uint64_t b, Kind<TF32>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n96k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, %48, %49, 1, 1, 1;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7), FLOWLOOM_PIECE(8), FLOWLOOM_PIECE(9), FLOWLOOM_PIECE(10), FLOWLOOM_PIECE(11) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[12][4], uint64_t a, uint64_t b, Kind<FP16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, %48, %49, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7), FLOWLOOM_PIECE(8), FLOWLOOM_PIECE(9), FLOWLOOM_PIECE(10), FLOWLOOM_PIECE(11) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[12][4], uint64_t a, uint64_t b, Kind<BF16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, %48, %49, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7), FLOWLOOM_PIECE(8), FLOWLOOM_PIECE(9), FLOWLOOM_PIECE(10), FLOWLOOM_PIECE(11) : "l"(a), "l"(b));
}

__device__ __forceinline__ void multiply_wide(float (&c)[16][4], uint64_t a, uint64_t b, Kind<TF32>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7), FLOWLOOM_PIECE(8), FLOWLOOM_PIECE(9), FLOWLOOM_PIECE(10), FLOWLOOM_PIECE(11), FLOWLOOM_PIECE(12), FLOWLOOM_PIECE(13), FLOWLOOM_PIECE(14), FLOWLOOM_PIECE(15) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[16][4], uint64_t a, uint64_t b, Kind<FP16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7), FLOWLOOM_PIECE(8), FLOWLOOM_PIECE(9), FLOWLOOM_PIECE(10), FLOWLOOM_PIECE(11), FLOWLOOM_PIECE(12), FLOWLOOM_PIECE(13), FLOWLOOM_PIECE(14), FLOWLOOM_PIECE(15) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[16][4], uint64_t a, uint64_t b, Kind<BF16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.bf16.bf16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7), FLOWLOOM_PIECE(8), FLOWLOOM_PIECE(9), FLOWLOOM_PIECE(10), FLOWLOOM_PIECE(11), FLOWLOOM_PIECE(12), FLOWLOOM_PIECE(13), FLOWLOOM_PIECE(14), FLOWLOOM_PIECE(15) : "l"(a), "l"(b));
}
#undef FLOWLOOM_PIECE

// Orders what this thread did with accumulators before products that are begun from here on.
__device__ __forceinline__ void wide_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Closes a group of products, and waits for all groups but the last PENDING: before that, accumulators
// and what is multiplied are the tensor cores' own.
__device__ __forceinline__ void wide_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void wide_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }

// Shows tensor cores what this thread's copies, which it has waited for, wrote to shared memory.
__device__ __forceinline__ void copies_to_tensor_cores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Dynamic shared memory from its first multiple of 1024 bytes on, as swizzled tiles need it.
__device__ __forceinline__ float* swizzled_shared() {
  extern __shared__ __align__(1024) float wide_shared[];
  return (float*)((uint64_t)wide_shared + (-shared_address(wide_shared) & 1023));
}
