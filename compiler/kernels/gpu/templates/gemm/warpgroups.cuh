// WGMMA (sm_90a): a warpgroup of four warps multiplies matrices in shared memory.
//
// A matrix is given by its matrix descriptor. Warp w of the four holds rows 16 * w + lane / 4 (+ 8) and
// columns lane % 4 * 2 (+ 1) of each eight columns of the result.

// The descriptor of a matrix with 128-byte swizzle: rows of 128 bytes along k, from a multiple of 1024
// bytes on, chunk c of row r at c ^ r % 8. The next MMA begins 32 bytes further.
__device__ __forceinline__ uint64_t swizzled_descriptor(const void* tile) {
  return (uint64_t)(shared_address(tile) >> 4 & 0x3fff) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

// The descriptor of a matrix without swizzle: the first chunks of all rows, then the second ones. The
// next MMA begins two of these further.
__device__ __forceinline__ uint64_t interleaved_descriptor(const void* tile, int rows) {
  return (uint64_t)(shared_address(tile) >> 4 & 0x3fff) | (uint64_t)rows << 16 | (uint64_t)8 << 32;
}

template <int PRECISION>
struct Kind {};

// Starts c += a * b for 64 rows and eight columns per accumulator, with a k of 8 (TF32) or 16 (FP16,
// BF16). The result is valid after a wait.
#define FLOWLOOM_C(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define FLOWLOOM_C_4 FLOWLOOM_C(0), FLOWLOOM_C(1), FLOWLOOM_C(2), FLOWLOOM_C(3)
#define FLOWLOOM_C_8 FLOWLOOM_C_4, FLOWLOOM_C(4), FLOWLOOM_C(5), FLOWLOOM_C(6), FLOWLOOM_C(7)
#define FLOWLOOM_C_12 FLOWLOOM_C_8, FLOWLOOM_C(8), FLOWLOOM_C(9), FLOWLOOM_C(10), FLOWLOOM_C(11)
#define FLOWLOOM_C_16 FLOWLOOM_C_12, FLOWLOOM_C(12), FLOWLOOM_C(13), FLOWLOOM_C(14), FLOWLOOM_C(15)
#define FLOWLOOM_C_20 FLOWLOOM_C_16, FLOWLOOM_C(16), FLOWLOOM_C(17), FLOWLOOM_C(18), FLOWLOOM_C(19)
#define FLOWLOOM_C_24 FLOWLOOM_C_20, FLOWLOOM_C(20), FLOWLOOM_C(21), FLOWLOOM_C(22), FLOWLOOM_C(23)
#define FLOWLOOM_C_28 FLOWLOOM_C_24, FLOWLOOM_C(24), FLOWLOOM_C(25), FLOWLOOM_C(26), FLOWLOOM_C(27)
#define FLOWLOOM_C_32 FLOWLOOM_C_28, FLOWLOOM_C(28), FLOWLOOM_C(29), FLOWLOOM_C(30), FLOWLOOM_C(31)
#define FLOWLOOM_REGS_4 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define FLOWLOOM_REGS_8 FLOWLOOM_REGS_4 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FLOWLOOM_REGS_12 FLOWLOOM_REGS_8 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define FLOWLOOM_REGS_16 FLOWLOOM_REGS_12 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FLOWLOOM_REGS_20 FLOWLOOM_REGS_16 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define FLOWLOOM_REGS_24 FLOWLOOM_REGS_20 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define FLOWLOOM_REGS_28 FLOWLOOM_REGS_24 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define FLOWLOOM_REGS_32 FLOWLOOM_REGS_28 ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define FLOWLOOM_WGMMA(KIND, COUNT, SHAPE, OPERANDS)                                                          \
  __device__ __forceinline__ void wgmma(float (&c)[COUNT][4], uint64_t a, uint64_t b, Kind<KIND>) {           \
    asm volatile("wgmma.mma_async.sync.aligned." SHAPE " {" FLOWLOOM_REGS_##COUNT "}, " OPERANDS ";"          \
                 : FLOWLOOM_C_##COUNT                                                                         \
                 : "l"(a), "l"(b));                                                                           \
  }
#define FLOWLOOM_WGMMAS(COUNT, COLUMNS, A, B)                                                                 \
  FLOWLOOM_WGMMA(TF32, COUNT, "m64n" #COLUMNS "k8.f32.tf32.tf32", #A ", " #B ", 1, 1, 1")                     \
  FLOWLOOM_WGMMA(FP16, COUNT, "m64n" #COLUMNS "k16.f32.f16.f16", #A ", " #B ", 1, 1, 1, 0, 0")                \
  FLOWLOOM_WGMMA(BF16, COUNT, "m64n" #COLUMNS "k16.f32.bf16.bf16", #A ", " #B ", 1, 1, 1, 0, 0")
FLOWLOOM_WGMMAS(4, 32, %16, %17)
FLOWLOOM_WGMMAS(8, 64, %32, %33)
FLOWLOOM_WGMMAS(12, 96, %48, %49)
FLOWLOOM_WGMMAS(16, 128, %64, %65)
FLOWLOOM_WGMMAS(20, 160, %80, %81)
FLOWLOOM_WGMMAS(24, 192, %96, %97)
FLOWLOOM_WGMMAS(28, 224, %112, %113)
FLOWLOOM_WGMMAS(32, 256, %128, %129)
#undef FLOWLOOM_WGMMAS
#undef FLOWLOOM_WGMMA
#undef FLOWLOOM_C

// Orders this thread's accesses to accumulators before the WGMMAs that follow.
__device__ __forceinline__ void wgmma_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }

// Commits a group of WGMMAs; waits for all groups but the last PENDING. Until then neither accumulators
// nor operands may be touched.
__device__ __forceinline__ void wgmma_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void wgmma_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }

// Makes shared memory that this thread wrote, by copies that it has waited for, visible to the async
// proxy, through which WGMMA reads.
__device__ __forceinline__ void fence_async_proxy() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

// Dynamic shared memory from its first multiple of 1024 bytes on, as the 128-byte swizzle needs it.
__device__ __forceinline__ float* swizzled_shared() {
  extern __shared__ __align__(1024) float unaligned[];
  return (float*)((uint64_t)unaligned + (-shared_address(unaligned) & 1023));
}
