// PTX instructions for bytes: see instructions.cuh. Included before operands.cuh, which copies elements.

__device__ __forceinline__ void copy_element(uint8_t* to, const uint8_t* from, bool valid) { *to = valid ? *from : 0; }

// The kinds of bytes.
enum { U8, S8, E4M3, E5M2 };

// c += a * b, exactly but for wrapping around, for a 16 x 8 MMA tile of bytes with a k of 32. Four
// consecutive k share a register, where those of fragments of 16 bits have two.
template <int A, int B>
__device__ __forceinline__ void mma_bytes(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#define FLOWLOOM_MMA(TYPES)                                                                          \
  asm("mma.sync.aligned.m16n8k32.row.col.s32." TYPES ".s32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])                                      \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (A == S8 && B == S8)
    FLOWLOOM_MMA("s8.s8");
  else if constexpr (A == S8)
    FLOWLOOM_MMA("s8.u8");
  else if constexpr (B == S8)
    FLOWLOOM_MMA("u8.s8");
  else
    FLOWLOOM_MMA("u8.u8");
#undef FLOWLOOM_MMA
}

// The same of float8s, with sums in float, of which the hardware may keep fewer bits; from sm_89 on.
template <int A, int B>
__device__ __forceinline__ void mma_bytes(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
#define FLOWLOOM_MMA(TYPES)                                                                          \
  asm("mma.sync.aligned.m16n8k32.row.col.f32." TYPES ".f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};" \
               : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])                                      \
               : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]))
  if constexpr (A == E4M3 && B == E4M3)
    FLOWLOOM_MMA("e4m3.e4m3");
  else if constexpr (A == E4M3)
    FLOWLOOM_MMA("e4m3.e5m2");
  else if constexpr (B == E4M3)
    FLOWLOOM_MMA("e5m2.e4m3");
  else
    FLOWLOOM_MMA("e5m2.e5m2");
#undef FLOWLOOM_MMA
}
