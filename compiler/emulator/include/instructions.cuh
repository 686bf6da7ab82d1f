// Replaces instructions.cuh: asynchronous copies, rounding, tensor cores, clusters.
//
// A tensor core's result is c plus the exact products in the order of k, each sum rounded to float32.
// (A GPU adds several of them at once and rounds differently, so last digits differ.) What is rounded to
// TF32 keeps its first 19 bits, as the hardware reads no more.
#pragma once
#include "half.cuh"

enum Precision { FP32, TF32, FP16, BF16 };

#define DYNAMIC_SHARED float* const shared = (float*)emulator_shared()

static inline void copy_float(float* to, const float* from, bool valid) { emulator_copy(to, from, 4, valid ? 4 : 0); }
static inline void copy_float4(float* to, const float* from, bool valid) {
  emulator_copy(to, from, 16, valid ? 16 : 0);
}
template <int WIDTH>
static inline void copy_floats(float* to, const float* from, bool valid) {
  emulator_copy(to, from, WIDTH * 4, valid ? WIDTH * 4 : 0);
}
static inline void copy_chunk(void* to, const void* from, bool valid) { emulator_copy(to, from, 16, valid ? 16 : 0); }
template <bool REUSED>
static inline void copy_chunk(void* to, const void* from, bool valid) { copy_chunk(to, from, valid); }
template <int BYTES>
static inline void copy_bytes(void* to, const void* from, bool valid) { emulator_copy(to, from, BYTES, valid ? BYTES : 0); }
static inline void copy_element(float* to, const float* from, bool valid) { copy_float(to, from, valid); }
static inline void copy_element(uint16_t* to, const uint16_t* from, bool valid) {
  *to = valid ? *from : (uint16_t)0;
  emulator_written(to, sizeof *to);
}
static inline void cp_async_fence() { emulator_commit(); }
template <int PENDING>
static inline void cp_async_wait() { emulator_wait(PENDING); }

namespace emulator {
// Eight rows of 16 bytes in each of four matrices; lane i gives the address of row i.
struct Load { const char* row; uint32_t* to; };
template <bool TRANSPOSED>
const char* load(void* const* operands, unsigned lanes) {
  for (unsigned i = 0; i < lanes; i++) {
    if (!operands[i]) return "loads matrices without all lanes of the warp";
    if ((uintptr_t)((Load*)operands[i])->row % 16) return "loads a row of a matrix from a misaligned address";
  }
  for (unsigned i = 0; i < lanes; i++)
    for (unsigned part = 0; part < 8; part++) {  // two bytes each
      const unsigned matrix = part / 2, row = TRANSPOSED ? i % 4 * 2 + part % 2 : i / 4;
      const unsigned column = TRANSPOSED ? i / 4 : i % 4 * 2 + part % 2;
      memcpy((char*)((Load*)operands[i])->to + part * 2, ((Load*)operands[matrix * 8 + row])->row + column * 2, 2);
    }
  return nullptr;
}

inline float rounded(float x, int precision) {
  if (precision == FP16) return half_value(half_bits(x));
  uint32_t bits = bits_as<uint32_t>(x);
  if (precision == TF32) return bits_as<float>(bits & ~0x1fffu);
  bits = x != x ? 0x7fff0000u : bits + 0x7fff + (bits >> 16 & 1);
  return bits_as<float>(bits & 0xffff0000u);
}
template <int PRECISION>
inline uint16_t short_bits(float x) {
  return PRECISION == FP16 ? half_bits(x) : (uint16_t)(bits_as<uint32_t>(rounded(x, BF16)) >> 16);
}
// Element `k` of a lane's operand, which holds one value a register (TF32) or two.
template <int PRECISION>
inline float element(const uint32_t* registers, int k) {
  if (PRECISION == TF32) return bits_as<float>(registers[k] & ~0x1fffu);
  const uint32_t bits = registers[k / 2] >> k % 2 * 16 & 0xffff;
  return PRECISION == FP16 ? half_value((uint16_t)bits) : bits_as<float>(bits << 16);
}

struct Product { float* c; const uint32_t *a, *b; };
// A 16 x 8 result by 4 * WIDE * 2 products, as PTX lays out the operands of mma.sync: lane / 4 is the row
// of A (and 8 below) or the column of B, lane % 4 the place of WIDE values of k (and half of all k on).
template <int PRECISION>
const char* multiply(void* const* operands, unsigned lanes) {
  constexpr int WIDE = PRECISION == TF32 ? 1 : 2, K = 8 * WIDE;
  float a[16][K], b[K][8], c[16][8];
  for (unsigned lane = 0; lane < lanes; lane++) {
    if (!operands[lane]) return "multiplies matrices without all lanes of the warp";
    const Product& own = *(Product*)operands[lane];
    const unsigned row = lane / 4, place = lane % 4;
    for (int i = 0; i < 4 * WIDE; i++)
      a[row + i / WIDE % 2 * 8][place * WIDE + i % WIDE + i / WIDE / 2 * 4 * WIDE] = element<PRECISION>(own.a, i);
    for (int i = 0; i < 2 * WIDE; i++)
      b[place * WIDE + i % WIDE + i / WIDE * 4 * WIDE][row] = element<PRECISION>(own.b, i);
    for (int i = 0; i < 4; i++) c[row + i / 2 * 8][place * 2 + i % 2] = own.c[i];
  }
  for (int m = 0; m < 16; m++)
    for (int k = 0; k < K; k++)
      for (int n = 0; n < 8; n++) c[m][n] += a[m][k] * b[k][n];
  for (unsigned lane = 0; lane < lanes; lane++)
    for (int i = 0; i < 4; i++) ((Product*)operands[lane])->c[i] = c[lane / 4 + i / 2 * 8][lane % 4 * 2 + i % 2];
  return nullptr;
}
}  // namespace emulator

static inline void ldmatrix_x4(uint32_t (&to)[4], const void* row) {
  emulator::Load own{(const char*)row, to};
  emulator_collect(emulator::load<false>, &own, 32, 0xffffffffu);
}
static inline void ldmatrix_x4_trans(uint32_t (&to)[4], const void* row) {
  emulator::Load own{(const char*)row, to};
  emulator_collect(emulator::load<true>, &own, 32, 0xffffffffu);
}
static inline void ldmatrix_x4(float (&to)[4], const float* row) {
  uint32_t bits[4];
  ldmatrix_x4(bits, (const void*)row);
  memcpy(to, bits, sizeof to);
}

static inline void cluster_sync() { emulator_cluster_barrier(); }
static inline void cluster_sync_relaxed() { emulator_cluster_barrier(); }
static inline float peer_float(const float* own, int rank) {
  return *(const float*)emulator_peer(own, (unsigned)rank, sizeof *own);
}
static inline float4 peer_float4(const float* own, int rank) {
  return *(const float4*)emulator_peer(own, (unsigned)rank, sizeof(float4));
}

static inline uint32_t round_tf32(float x) { return __float_as_uint(x * (1 + 1.4427f / 4096)); }
static inline uint32_t round_tf32(uint32_t x) { return round_tf32(__uint_as_float(x)); }
template <int PRECISION>
static inline uint32_t round_pair(float low, float high) {
  return emulator::short_bits<PRECISION>(low) | (uint32_t)emulator::short_bits<PRECISION>(high) << 16;
}
template <int PRECISION>
static inline uint32_t round_pair(uint32_t low, uint32_t high) {
  return round_pair<PRECISION>(__uint_as_float(low), __uint_as_float(high));
}
template <int PRECISION>
static inline void mma(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  emulator::Product own{c, a, b};
  emulator_collect(emulator::multiply<PRECISION>, &own, 32, 0xffffffffu);
}
