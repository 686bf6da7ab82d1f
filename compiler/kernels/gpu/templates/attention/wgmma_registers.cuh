// WGMMA whose left operand is in registers, with a k of 16 (FP16, BF16): see warpgroups.cuh.
//
// The left operand of each warp is the fragment of an MMA with its 16 rows. The right one has rows along
// k, as warpgroups.cuh describes them, or is TRANSPOSED: then it has a line of columns for each k.

// The descriptor of a transposed matrix with 128-byte swizzle: lines of 64 columns, from a multiple of
// 1024 bytes on, chunk c of line r at c ^ r % 8; the next 64 columns begin `panel` chunks further. The
// next MMA begins 128 chunks further.
__device__ __forceinline__ uint64_t transposed_descriptor(const void* tile, int panel) {
  return (uint64_t)(shared_address(tile) >> 4 & 0x3fff) | (uint64_t)panel << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

// Starts c = left * b, or c += left * b where ADDED, for 64 rows and eight columns per accumulator. Until
// a wait neither sums nor the left operand may be touched.
#define FLOWLOOM_SUM(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
#define FLOWLOOM_SUMS_2 FLOWLOOM_SUM(0), FLOWLOOM_SUM(1)
#define FLOWLOOM_SUMS_4 FLOWLOOM_SUMS_2, FLOWLOOM_SUM(2), FLOWLOOM_SUM(3)
#define FLOWLOOM_SUMS_6 FLOWLOOM_SUMS_4, FLOWLOOM_SUM(4), FLOWLOOM_SUM(5)
#define FLOWLOOM_SUMS_8 FLOWLOOM_SUMS_6, FLOWLOOM_SUM(6), FLOWLOOM_SUM(7)
#define FLOWLOOM_SUMS_10 FLOWLOOM_SUMS_8, FLOWLOOM_SUM(8), FLOWLOOM_SUM(9)
#define FLOWLOOM_SUMS_12 FLOWLOOM_SUMS_10, FLOWLOOM_SUM(10), FLOWLOOM_SUM(11)
#define FLOWLOOM_SUMS_14 FLOWLOOM_SUMS_12, FLOWLOOM_SUM(12), FLOWLOOM_SUM(13)
#define FLOWLOOM_SUMS_16 FLOWLOOM_SUMS_14, FLOWLOOM_SUM(14), FLOWLOOM_SUM(15)
#define FLOWLOOM_PLACES_2 "%0, %1, %2, %3, %4, %5, %6, %7"
#define FLOWLOOM_PLACES_4 FLOWLOOM_PLACES_2 ", %8, %9, %10, %11, %12, %13, %14, %15"
#define FLOWLOOM_PLACES_6 FLOWLOOM_PLACES_4 ", %16, %17, %18, %19, %20, %21, %22, %23"
#define FLOWLOOM_PLACES_8 FLOWLOOM_PLACES_6 ", %24, %25, %26, %27, %28, %29, %30, %31"
#define FLOWLOOM_PLACES_10 FLOWLOOM_PLACES_8 ", %32, %33, %34, %35, %36, %37, %38, %39"
#define FLOWLOOM_PLACES_12 FLOWLOOM_PLACES_10 ", %40, %41, %42, %43, %44, %45, %46, %47"
#define FLOWLOOM_PLACES_14 FLOWLOOM_PLACES_12 ", %48, %49, %50, %51, %52, %53, %54, %55"
#define FLOWLOOM_PLACES_16 FLOWLOOM_PLACES_14 ", %56, %57, %58, %59, %60, %61, %62, %63"
#define FLOWLOOM_WGMMA(COUNT, SHAPE, OPERANDS)                                                       \
  asm volatile("wgmma.mma_async.sync.aligned." SHAPE " {" FLOWLOOM_PLACES_##COUNT "}, " OPERANDS ";" \
               : FLOWLOOM_SUMS_##COUNT                                                               \
               : "r"(left[0]), "r"(left[1]), "r"(left[2]), "r"(left[3]), "l"(b), "n"(ADDED), "n"(TRANSPOSED))
#define FLOWLOOM_WGMMAS(COUNT, COLUMNS, OPERANDS)                                                    \
  template <bool TRANSPOSED, bool ADDED, int PRECISION>                                              \
  __device__ __forceinline__ void wgmma(float (&c)[COUNT][4], const uint32_t (&left)[4], uint64_t b, Kind<PRECISION>) { \
    if constexpr (PRECISION == FP16)                                                                 \
      FLOWLOOM_WGMMA(COUNT, "m64n" #COLUMNS "k16.f32.f16.f16", OPERANDS);                            \
    else                                                                                             \
      FLOWLOOM_WGMMA(COUNT, "m64n" #COLUMNS "k16.f32.bf16.bf16", OPERANDS);                          \
  }
FLOWLOOM_WGMMAS(2, 16, "{%8, %9, %10, %11}, %12, %13, 1, 1, %14")
FLOWLOOM_WGMMAS(4, 32, "{%16, %17, %18, %19}, %20, %21, 1, 1, %22")
FLOWLOOM_WGMMAS(6, 48, "{%24, %25, %26, %27}, %28, %29, 1, 1, %30")
FLOWLOOM_WGMMAS(8, 64, "{%32, %33, %34, %35}, %36, %37, 1, 1, %38")
FLOWLOOM_WGMMAS(10, 80, "{%40, %41, %42, %43}, %44, %45, 1, 1, %46")
FLOWLOOM_WGMMAS(12, 96, "{%48, %49, %50, %51}, %52, %53, 1, 1, %54")
FLOWLOOM_WGMMAS(14, 112, "{%56, %57, %58, %59}, %60, %61, 1, 1, %62")
FLOWLOOM_WGMMAS(16, 128, "{%64, %65, %66, %67}, %68, %69, 1, 1, %70")
#undef FLOWLOOM_WGMMAS
#undef FLOWLOOM_WGMMA
#undef FLOWLOOM_SUM

// Waits at barrier `id` of the block until `threads` threads are there, or is there without waiting.
__device__ __forceinline__ void barrier_wait(int id, int threads) { asm volatile("bar.sync %0, %1;" ::"r"(id), "r"(threads) : "memory"); }
__device__ __forceinline__ void barrier_arrive(int id, int threads) { asm volatile("bar.arrive %0, %1;" ::"r"(id), "r"(threads) : "memory"); }

// Keeps the assembler from moving the computation of a sum, which is never negative, after a wait that
// follows: it would wait first, as what depends on the wait takes longest.
__device__ __forceinline__ void compute_now(float sum) {
  asm volatile("bar.warp.sync %0;" ::"r"(sum < 0 ? 1u : ~0u) : "memory");
}

// Keeps the compiler from moving accesses to sums, or to a left operand, across the wait for them, and
// from computing them after the fence before: what a thread writes to a register between the fence and the
// WGMMA may come too late for it. Constants are written just there unless they are held: the zeros beyond a
// depth of 40 were not, so that registers kept what another kernel had left, and NaN times zero was NaN.
template <int COUNT>
__device__ __forceinline__ void hold(float (&sums)[COUNT][4]) {
#pragma unroll
  for (int i = 0; i < COUNT * 4; i++) asm volatile("" : "+f"(sums[i / 4][i % 4])::"memory");
}
template <int COUNT>
__device__ __forceinline__ void hold(uint32_t (&left)[COUNT][4]) {
#pragma unroll
  for (int i = 0; i < COUNT * 4; i++) asm volatile("" : "+r"(left[i / 4][i % 4])::"memory");
}
