// Replaces bytes.cuh: tensor cores on bytes, whose sums are exact.
#pragma once
#include "instructions.cuh"

static inline void copy_element(uint8_t* to, const uint8_t* from, bool valid) {
  *to = valid ? *from : (uint8_t)0;
  emulator_written(to, sizeof *to);
}

namespace emulator {
struct ByteProduct { int* c; const uint32_t *a, *b; };
inline int byte_of(const uint32_t* registers, unsigned k, bool is_signed) {
  const uint32_t bits = registers[k / 4] >> k % 4 * 8 & 0xff;
  return is_signed ? (int8_t)bits : (int)bits;
}
// A 16 x 8 result by 32 products of bytes, laid out as in `multiply` with four values of k in a register.
template <bool A_SIGNED, bool B_SIGNED>
const char* multiply_bytes(void* const* operands, unsigned lanes) {
  int a[16][32], b[32][8];
  for (unsigned lane = 0; lane < lanes; lane++) {
    if (!operands[lane]) return "multiplies matrices without all lanes of the warp";
    const ByteProduct& own = *(ByteProduct*)operands[lane];
    const unsigned row = lane / 4, place = lane % 4 * 4;
    for (unsigned i = 0; i < 16; i++) a[row + i / 4 % 2 * 8][place + i % 4 + i / 8 * 16] = byte_of(own.a, i, A_SIGNED);
    for (unsigned i = 0; i < 8; i++) b[place + i % 4 + i / 4 * 16][row] = byte_of(own.b, i, B_SIGNED);
  }
  for (unsigned lane = 0; lane < lanes; lane++)
    for (unsigned i = 0; i < 4; i++) {
      int& total = ((ByteProduct*)operands[lane])->c[i];
      int sum = 0;
      for (int k = 0; k < 32; k++) sum += a[lane / 4 + i / 2 * 8][k] * b[k][lane % 4 * 2 + i % 2];
      total = (int)((uint32_t)total + (uint32_t)sum);
    }
  return nullptr;
}
}  // namespace emulator

template <bool A_SIGNED, bool B_SIGNED>
static inline void mma_bytes(int (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulator::ByteProduct own{c, a, b};
  emulator_collect(emulator::multiply_bytes<A_SIGNED, B_SIGNED>, &own, 32, 0xffffffffu);
}
