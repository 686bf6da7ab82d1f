// Replaces wgmma_registers.cuh: WGMMA whose left operand is in registers.
#pragma once
#include "warpgroups.cuh"

namespace emulator {
// A lane's fragment, and the 16 elements of both its rows that the lanes of its quad have together.
struct Rows { const uint32_t* own; uint32_t words[16]; };
inline const char* gather(void* const* operands, unsigned lanes) {
  for (unsigned i = 0; i < lanes; i++)
    if (!operands[i]) return "an instruction of warpgroups is executed without all lanes of the warp";
  for (unsigned i = 0; i < lanes; i++)
    for (unsigned word = 0; word < 16; word++) {
      const Rows& from = *(Rows*)operands[i / 4 * 4 + word % 4];
      ((Rows*)operands[i])->words[word] = from.own[word / 8 + word / 4 % 2 * 2];
    }
  return nullptr;
}

// The elements of a column of a transposed matrix, of which each k has lines of 64 columns.
template <int PRECISION>
inline void read_column(float (&to)[16], uint64_t matrix, unsigned column) {
  const uint32_t start = (uint32_t)(matrix & 0x3fff) << 4, stride = (uint32_t)(matrix >> 32 & 0x3fff) << 4;
  const uint32_t panel = (uint32_t)(matrix >> 16 & 0x3fff) << 4;
  if (matrix >> 62 != 1) emulator_fail("multiplies a transposed matrix that is not swizzled by 128 bytes");
  for (unsigned k = 0; k < 16; k++) {
    const uint32_t at = start + column / 64 * panel + k / 8 * stride + k % 8 * 128 + column % 64 * 2;
    uint32_t bits = 0;
    emulator_read_matrix(&bits, at ^ (at >> 7 & 7) << 4, 2);
    to[k] = element<PRECISION>(&bits, 0);
  }
}
template <int PRECISION, bool TRANSPOSED, bool ADDED>
void multiply_rows(float* sums, unsigned count, uint64_t, uint64_t b, const uint32_t* left) {
  const unsigned lane = emulator_current->number % 32;
  float right[16];
  if (!ADDED) memset(sums, 0, count * sizeof *sums);
  for (unsigned j = 0; j < count / 4; j++)
    for (unsigned q = 0; q < 2; q++) {
      const unsigned column = j * 8 + lane % 4 * 2 + q;
      if (TRANSPOSED)
        read_column<PRECISION>(right, b, column);
      else
        read_row<PRECISION>(right, b, column);
      for (unsigned i = 0; i < 2; i++)
        for (int k = 0; k < 16; k++) sums[j * 4 + i * 2 + q] += element<PRECISION>(left + i * 8, k) * right[k];
    }
}
}  // namespace emulator

static inline uint64_t transposed_descriptor(const void* tile, int panel) {
  return ((uint64_t)tile & 0x3ffff) >> 4 | (uint64_t)panel << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}

template <bool TRANSPOSED, bool ADDED, int PRECISION, int PIECES>
static inline void wgmma(float (&c)[PIECES][4], const uint32_t (&left)[4], uint64_t b, Kind<PRECISION>) {
  static_assert(PIECES % 2 == 0 && PIECES <= 16 && (PRECISION == FP16 || PRECISION == BF16), "as wgmma_registers.cuh");
  emulator::meet(0, b);
  emulator::Rows rows{left};
  emulator_collect(emulator::gather, &rows, 32, 0xffffffffu);
  emulator_check_held(left, sizeof left), ADDED ? emulator_check_held(c, sizeof c) : void();
  emulator_wgmma(emulator::multiply_rows<PRECISION, TRANSPOSED, ADDED>, c[0], PIECES * 4, 0, b, left, rows.words);
}
static inline void barrier_wait(int id, int threads) { emulator_barrier((unsigned)id, (unsigned)threads); }
static inline void barrier_arrive(int id, int) { emulator_arrive((unsigned)id); }
static inline void compute_now(float) {}
template <int COUNT>
static inline void hold(float (&sums)[COUNT][4]) { emulator_hold(sums, sizeof sums); }
template <int COUNT>
static inline void hold(uint32_t (&left)[COUNT][4]) { emulator_hold(left, sizeof left); }
