// Replaces bytes.cuh: tensor cores on bytes, with exact sums of integers, and of float8s in float.
#pragma once
#include "instructions.cuh"

static inline void copy_element(uint8_t* to, const uint8_t* from, bool valid) {
  *to = valid ? *from : (uint8_t)0;
  emulator_written(to, sizeof *to);
}

enum { U8, S8, E4M3, E5M2 };

namespace emulator {
template <class Sum>
struct ByteProduct { Sum* c; const uint32_t *a, *b; };
template <int KIND>
inline auto byte_of(const uint32_t* registers, unsigned k) {
  const uint32_t bits = registers[k / 4] >> k % 4 * 8 & 0xff;
  if constexpr (KIND == E5M2) {
    return half_value((uint16_t)(bits << 8));
  } else if constexpr (KIND == E4M3) {
    const uint32_t size = bits & 0x7f;
    const float value = size == 0x7f ? NAN : size < 8 ? ldexpf((float)size, -9) : ldexpf((float)(8 + size % 8), (int)(size / 8) - 10);
    return copysignf(value, bits & 0x80 ? -1.0f : 1.0f);
  } else {
    return KIND == S8 ? (int)(int8_t)bits : (int)bits;
  }
}
inline void add_to(int& total, int sum) { total = (int)((uint32_t)total + (uint32_t)sum); }
inline void add_to(float& total, float sum) { total += sum; }
// A 16 x 8 result by 32 products of bytes, laid out as in `multiply` with four values of k in a register.
template <int A, int B, class Sum>
const char* multiply_bytes(void* const* operands, unsigned lanes) {
  Sum a[16][32], b[32][8];
  for (unsigned lane = 0; lane < lanes; lane++) {
    if (!operands[lane]) return "multiplies matrices without all lanes of the warp";
    const ByteProduct<Sum>& own = *(ByteProduct<Sum>*)operands[lane];
    const unsigned row = lane / 4, place = lane % 4 * 4;
    for (unsigned i = 0; i < 16; i++) a[row + i / 4 % 2 * 8][place + i % 4 + i / 8 * 16] = byte_of<A>(own.a, i);
    for (unsigned i = 0; i < 8; i++) b[place + i % 4 + i / 4 * 16][row] = byte_of<B>(own.b, i);
  }
  for (unsigned lane = 0; lane < lanes; lane++)
    for (unsigned i = 0; i < 4; i++) {
      Sum sum = 0;
      for (int k = 0; k < 32; k++) sum += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
      add_to(((ByteProduct<Sum>*)operands[lane])->c[i], sum);
    }
  return nullptr;
}
}  // namespace emulator

template <int A, int B, class Sum>
static inline void mma_bytes(Sum (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulator::ByteProduct<Sum> own{c, a, b};
  emulator_collect(emulator::multiply_bytes<A, B, Sum>, &own, 32, 0xffffffffu);
}
