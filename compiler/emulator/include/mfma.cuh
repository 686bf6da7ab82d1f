// AMD's matrix cores: wavefronts of 64 lanes multiply 16 x 16 results (v_mfma_f32_16x16x4f32, 16x16x16f16
// and 16x16x16bf16_1k of gfx90a and gfx942).
//
// Lane i holds row (of A) or column (of B) i % 16, at the WIDE values of k from i / 16 * WIDE on, and of
// the result column i % 16, rows i / 16 * 4 to 3 below. Sums are as those of instructions.cuh.
#pragma once
#include "instructions.cuh"

namespace emulator {
struct WaveProduct { float* c; const uint32_t *a, *b; };
template <int PRECISION>
inline float wave_element(const uint32_t* registers, int k) {
  return PRECISION == FP32 ? bits_as<float>(registers[k]) : element<PRECISION>(registers, k);
}
template <int PRECISION>
const char* multiply_wave(void* const* operands, unsigned lanes) {
  constexpr int WIDE = PRECISION == FP32 ? 1 : 4, K = 4 * WIDE;
  float a[16][K], b[K][16];
  if (lanes != 64) return "multiplies matrices of a wavefront of 64 lanes in a warp of 32: load with warp=64, or set FLOWLOOM_EMU_WARP=64";
  for (unsigned lane = 0; lane < 64; lane++) {
    if (!operands[lane]) return "multiplies matrices without all lanes of the wavefront";
    for (int k = 0; k < WIDE; k++) {
      a[lane % 16][lane / 16 * WIDE + k] = wave_element<PRECISION>(((WaveProduct*)operands[lane])->a, k);
      b[lane / 16 * WIDE + k][lane % 16] = wave_element<PRECISION>(((WaveProduct*)operands[lane])->b, k);
    }
  }
  for (unsigned lane = 0; lane < 64; lane++)
    for (int k = 0; k < K; k++)
      for (unsigned i = 0; i < 4; i++)
        ((WaveProduct*)operands[lane])->c[i] += a[lane / 16 * 4 + i][k] * b[k][lane % 16];
  return nullptr;
}
}  // namespace emulator

// c += a * b; FP32 takes one value a lane, FP16 and BF16 take four, two in each register.
template <int PRECISION>
static inline void mfma(float (&c)[4], const uint32_t (&a)[PRECISION == FP32 ? 1 : 2],
                                     const uint32_t (&b)[PRECISION == FP32 ? 1 : 2]) {
  emulator::WaveProduct own{c, a, b};
  emulator_collect(emulator::multiply_wave<PRECISION>, &own, 64, ~0ull);
}
