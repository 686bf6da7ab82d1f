// WGMMA of integers of a byte, with a k of 32: see warpgroups.cuh, whose lists of registers it uses.

// The kinds of both operands' bytes, U8 or S8.
template <int A, int B>
struct ByteKinds {};

// Starts c += a * b, exactly but for wrapping around, for 64 rows and eight columns per accumulator.
#define FLOWLOOM_C(j) "+r"(c[j][0]), "+r"(c[j][1]), "+r"(c[j][2]), "+r"(c[j][3])
#define FLOWLOOM_WGMMA(COUNT, COLUMNS, TYPES, OPERANDS)                                                       \
  asm volatile("wgmma.mma_async.sync.aligned.m64n" #COLUMNS "k32.s32." TYPES                                  \
               " {" FLOWLOOM_REGS_##COUNT "}, " OPERANDS ", 1;"                                               \
               : FLOWLOOM_C_##COUNT                                                                           \
               : "l"(a), "l"(b))
#define FLOWLOOM_WGMMAS(COUNT, COLUMNS, OPERANDS)                                                             \
  template <int A, int B>                                                                                     \
  __device__ __forceinline__ void wgmma(int (&c)[COUNT][4], uint64_t a, uint64_t b, ByteKinds<A, B>) {        \
    if constexpr (A == S8 && B == S8)                                                                         \
      FLOWLOOM_WGMMA(COUNT, COLUMNS, "s8.s8", OPERANDS);                                                      \
    else if constexpr (A == S8)                                                                               \
      FLOWLOOM_WGMMA(COUNT, COLUMNS, "s8.u8", OPERANDS);                                                      \
    else if constexpr (B == S8)                                                                               \
      FLOWLOOM_WGMMA(COUNT, COLUMNS, "u8.s8", OPERANDS);                                                      \
    else                                                                                                      \
      FLOWLOOM_WGMMA(COUNT, COLUMNS, "u8.u8", OPERANDS);                                                      \
  }
FLOWLOOM_WGMMAS(4, 32, "%16, %17")
FLOWLOOM_WGMMAS(8, 64, "%32, %33")
FLOWLOOM_WGMMAS(12, 96, "%48, %49")
FLOWLOOM_WGMMAS(16, 128, "%64, %65")
FLOWLOOM_WGMMAS(20, 160, "%80, %81")
FLOWLOOM_WGMMAS(24, 192, "%96, %97")
FLOWLOOM_WGMMAS(28, 224, "%112, %113")
FLOWLOOM_WGMMAS(32, 256, "%128, %129")
#undef FLOWLOOM_WGMMAS
#undef FLOWLOOM_WGMMA
#undef FLOWLOOM_C
