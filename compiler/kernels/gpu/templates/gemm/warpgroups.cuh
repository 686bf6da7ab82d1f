// Instructions of warpgroups (sm_90a): four warps multiply matrices that lie in shared memory.
//
// A matrix is given by a descriptor. Warp w of the four holds rows 16 * w + lane / 4 (+ 8) of the
// result, and columns lane % 4 * 2 (+ 1) of each piece of eight.

// The descriptor of a matrix with rows of 128 bytes along k from a multiple of 1024 bytes on, the chunk
// c of row r at c ^ r % 8; 32 bytes on begin the next products.
__device__ __forceinline__ uint64_t swizzled_tile(const void* tile) {
  return (uint64_t)(shared_address(tile) >> 4 & 0x3fff) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

// The descriptor of a matrix that holds the first chunks of all rows, then the second ones; two of
// these on begin the next products.
__device__ __forceinline__ uint64_t chunked_tile(const void* tile, int rows) {
  return (uint64_t)(shared_address(tile) >> 4 & 0x3fff) | (uint64_t)rows << 16 | (uint64_t)8 << 32;
}

template <int PRECISION>
struct Kind {};

// Begins c += a * b for 64 rows and eight columns a piece, with 8 (TF32) or 16 (FP16, BF16) products an
// element. The result is there once it has been waited for.
#define FLOWLOOM_PIECE(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define FLOWLOOM_PIECES_4 FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3)
#define FLOWLOOM_PIECES_8 FLOWLOOM_PIECES_4, FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7)
#define FLOWLOOM_PIECES_12 FLOWLOOM_PIECES_8, FLOWLOOM_PIECE(8), FLOWLOOM_PIECE(9), FLOWLOOM_PIECE(10), FLOWLOOM_PIECE(11)
#define FLOWLOOM_PIECES_16 FLOWLOOM_PIECES_12, FLOWLOOM_PIECE(12), FLOWLOOM_PIECE(13), FLOWLOOM_PIECE(14), FLOWLOOM_PIECE(15)
#define FLOWLOOM_PIECES_20 FLOWLOOM_PIECES_16, FLOWLOOM_PIECE(16), FLOWLOOM_PIECE(17), FLOWLOOM_PIECE(18), FLOWLOOM_PIECE(19)
#define FLOWLOOM_PIECES_24 FLOWLOOM_PIECES_20, FLOWLOOM_PIECE(20), FLOWLOOM_PIECE(21), FLOWLOOM_PIECE(22), FLOWLOOM_PIECE(23)
#define FLOWLOOM_PIECES_28 FLOWLOOM_PIECES_24, FLOWLOOM_PIECE(24), FLOWLOOM_PIECE(25), FLOWLOOM_PIECE(26), FLOWLOOM_PIECE(27)
#define FLOWLOOM_PIECES_32 FLOWLOOM_PIECES_28, FLOWLOOM_PIECE(28), FLOWLOOM_PIECE(29), FLOWLOOM_PIECE(30), FLOWLOOM_PIECE(31)
#define FLOWLOOM_NAMES_4 "%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15"
#define FLOWLOOM_NAMES_8 FLOWLOOM_NAMES_4 ", %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31"
#define FLOWLOOM_NAMES_12 FLOWLOOM_NAMES_8 ", %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47"
#define FLOWLOOM_NAMES_16 FLOWLOOM_NAMES_12 ", %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63"
#define FLOWLOOM_NAMES_20 FLOWLOOM_NAMES_16 ", %64, %65, %66, %67, %68, %69, %70, %71, %72, %73, %74, %75, %76, %77, %78, %79"
#define FLOWLOOM_NAMES_24 FLOWLOOM_NAMES_20 ", %80, %81, %82, %83, %84, %85, %86, %87, %88, %89, %90, %91, %92, %93, %94, %95"
#define FLOWLOOM_NAMES_28 FLOWLOOM_NAMES_24 ", %96, %97, %98, %99, %100, %101, %102, %103, %104, %105, %106, %107, %108, %109, %110, %111"
#define FLOWLOOM_NAMES_32 FLOWLOOM_NAMES_28 ", %112, %113, %114, %115, %116, %117, %118, %119, %120, %121, %122, %123, %124, %125, %126, %127"
#define FLOWLOOM_PRODUCT(KIND, PIECES, SHAPE, MATRICES)                                                         \
  __device__ __forceinline__ void multiply_wide(float (&c)[PIECES][4], uint64_t a, uint64_t b, Kind<KIND>) {    \
    asm volatile("wgmma.mma_async.sync.aligned." SHAPE " {" FLOWLOOM_NAMES_##PIECES "}, " MATRICES ";"          \
                 : FLOWLOOM_PIECES_##PIECES                                                                     \
                 : "l"(a), "l"(b));                                                                             \
  }
#define FLOWLOOM_PRODUCTS(PIECES, COLUMNS, A, B)                                                                \
  FLOWLOOM_PRODUCT(TF32, PIECES, "m64n" #COLUMNS "k8.f32.tf32.tf32", #A ", " #B ", 1, 1, 1")                    \
  FLOWLOOM_PRODUCT(FP16, PIECES, "m64n" #COLUMNS "k16.f32.f16.f16", #A ", " #B ", 1, 1, 1, 0, 0")               \
  FLOWLOOM_PRODUCT(BF16, PIECES, "m64n" #COLUMNS "k16.f32.bf16.bf16", #A ", " #B ", 1, 1, 1, 0, 0")
FLOWLOOM_PRODUCTS(4, 32, %16, %17)
FLOWLOOM_PRODUCTS(8, 64, %32, %33)
FLOWLOOM_PRODUCTS(12, 96, %48, %49)
FLOWLOOM_PRODUCTS(16, 128, %64, %65)
FLOWLOOM_PRODUCTS(20, 160, %80, %81)
FLOWLOOM_PRODUCTS(24, 192, %96, %97)
FLOWLOOM_PRODUCTS(28, 224, %112, %113)
FLOWLOOM_PRODUCTS(32, 256, %128, %129)
#undef FLOWLOOM_PRODUCTS
#undef FLOWLOOM_PRODUCT
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
