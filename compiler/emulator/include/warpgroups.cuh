// Replaces warpgroups.cuh: WGMMA, whose operands are in shared memory.
//
// Each lane computes its elements of the result, at once or when they are waited for, at random.
// Sums are as those of instructions.cuh.
#pragma once
#include "instructions.cuh"

namespace emulator {
struct Descriptors { uint64_t a, b; };
inline const char* same(void* const* operands, unsigned lanes) {
  for (unsigned i = 0; i < lanes; i++) {
    if (!operands[i]) return "an instruction of warpgroups is executed without all lanes of the warp";
    if (memcmp(operands[i], operands[0], sizeof(Descriptors))) return "lanes of a warp multiply different matrices, or do not all multiply";
  }
  return nullptr;
}
inline void meet(uint64_t a = 0, uint64_t b = 0) {
  Descriptors own{a, b};
  emulator_collect(same, &own, 32, 0xffffffffu);
}

// The 32 bytes of a row from where a descriptor begins. In rows of 128 bytes bits 7 to 9 of an address
// swizzle bits 4 to 6; else the second chunks of all rows follow their first ones.
inline void read_words(uint32_t (&registers)[8], uint64_t matrix, unsigned row) {
  const uint32_t start = (uint32_t)(matrix & 0x3fff) << 4, stride = (uint32_t)(matrix >> 32 & 0x3fff) << 4;
  const uint32_t next = (uint32_t)(matrix >> 16 & 0x3fff) << 4;
  const bool swizzled = matrix >> 62 == 1;
  if (matrix >> 62 > 1) emulator_fail("multiplies a matrix that is swizzled by other than 128 bytes");
  for (unsigned chunk = 0; chunk < 2; chunk++) {
    const uint32_t first = start + row / 8 * stride, from = first + row % 8 * 128 + chunk * 16;
    const uint32_t plain = first + row % 8 * 16 + chunk * next;
    emulator_read_matrix(registers + chunk * 4, swizzled ? from ^ (from >> 7 & 7) << 4 : plain, 16);
  }
}
template <int PRECISION>
inline void read_row(float (&to)[PRECISION == TF32 ? 8 : 16], uint64_t matrix, unsigned row) {
  uint32_t registers[8];
  read_words(registers, matrix, row);
  for (int k = 0; k < (PRECISION == TF32 ? 8 : 16); k++) to[k] = element<PRECISION>(registers, k);
}
template <int PRECISION>
void multiply_warpgroup(float* sums, unsigned count, uint64_t a, uint64_t b, const uint32_t*) {
  constexpr int K = PRECISION == TF32 ? 8 : 16;
  const unsigned lane = emulator_current->number % 32, warp = emulator_current->number / 32 % 4;
  float left[2][K], right[K];
  for (unsigned i = 0; i < 2; i++) read_row<PRECISION>(left[i], a, warp * 16 + lane / 4 + i * 8);
  for (unsigned j = 0; j < count / 4; j++)
    for (unsigned q = 0; q < 2; q++) {
      read_row<PRECISION>(right, b, j * 8 + lane % 4 * 2 + q);
      for (unsigned i = 0; i < 2; i++)
        for (int k = 0; k < K; k++) sums[j * 4 + i * 2 + q] += left[i][k] * right[k];
    }
}
}  // namespace emulator

static inline uint64_t swizzled_descriptor(const void* tile) {
  return ((uint64_t)tile & 0x3ffff) >> 4 | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}
static inline uint64_t interleaved_descriptor(const void* tile, int rows) {
  return ((uint64_t)tile & 0x3ffff) >> 4 | (uint64_t)rows << 16 | (uint64_t)8 << 32;
}
static inline float* swizzled_shared() {
  const uintptr_t start = (uintptr_t)emulator_shared();
  return (float*)(start + (-start & 1023));
}

template <int PRECISION>
struct Kind {};
template <int PRECISION, int PIECES>
static inline void wgmma(float (&c)[PIECES][4], uint64_t a, uint64_t b, Kind<PRECISION>) {
  static_assert(PIECES % 4 == 0 && PIECES <= 32 && PRECISION != FP32, "as warpgroups.cuh");
  emulator::meet(a, b);
  emulator_wgmma(emulator::multiply_warpgroup<PRECISION>, c[0], PIECES * 4, a, b);
}
static inline void wgmma_fence() { emulator::meet(), emulator_wgmma_fence(); }
static inline void wgmma_commit() { emulator::meet(), emulator_wgmma_commit(); }
template <int PENDING>
static inline void wgmma_wait() { emulator::meet(), emulator_wgmma_wait(PENDING); }
static inline void fence_async_proxy() { emulator_show_written(); }
