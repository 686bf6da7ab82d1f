// Replaces byte_warpgroups.cuh: WGMMA of integers of a byte, whose sums are exact.
#pragma once
#include "bytes.cuh"
#include "warpgroups.cuh"

namespace emulator {
// The sums are integers, whatever the engine moves them as.
template <int A, int B>
void multiply_bytes_of_warpgroup(float* sums, unsigned count, uint64_t a, uint64_t b, const uint32_t*) {
  const unsigned lane = emulator_current->number % 32, warp = emulator_current->number / 32 % 4;
  uint32_t left[2][8], right[8];
  for (unsigned i = 0; i < 2; i++) read_words(left[i], a, warp * 16 + lane / 4 + i * 8);
  for (unsigned j = 0; j < count / 4; j++)
    for (unsigned q = 0; q < 2; q++) {
      read_words(right, b, j * 8 + lane % 4 * 2 + q);
      for (unsigned i = 0; i < 2; i++) {
        int sum = 0, total;
        for (unsigned k = 0; k < 32; k++) sum += byte_of<A>(left[i], k) * byte_of<B>(right, k);
        memcpy(&total, &sums[j * 4 + i * 2 + q], sizeof total);
        add_to(total, sum);
        memcpy(&sums[j * 4 + i * 2 + q], &total, sizeof total);
      }
    }
}
}  // namespace emulator

template <int A, int B>
struct ByteKinds {};
template <int A, int B, int PIECES>
static inline void wgmma(int (&c)[PIECES][4], uint64_t a, uint64_t b, ByteKinds<A, B>) {
  static_assert(PIECES % 4 == 0 && PIECES <= 32 && A <= S8 && B <= S8, "as byte_warpgroups.cuh");
  emulator::meet(a, b);
  emulator_wgmma(emulator::multiply_bytes_of_warpgroup<A, B>, (float*)c[0], PIECES * 4, a, b);
}
