// Replaces half.cuh: float16 as a stored type, converted in software.
#pragma once

namespace emulator {
// The nearest float16, ties to even; by adding a float whose last place is the result's.
inline uint16_t half_bits(float value) {
  const uint32_t bits = bits_as<uint32_t>(value), sign = bits >> 16 & 0x8000;
  const float size = fabsf(value);
  if (size != size) return (uint16_t)0x7fff;
  if (size >= 65520.0f) return (uint16_t)(sign | 0x7c00);
  if (size < 0x1p-14f) return (uint16_t)(sign | (bits_as<uint32_t>(size + 0.5f) - 0x3f000000u));
  const uint32_t own = bits & 0x7fffffff;
  return (uint16_t)(sign | (own - 0x38000000u + 0xfff + (own >> 13 & 1)) >> 13);
}
inline float half_value(uint16_t bits) {
  const uint32_t sign = (uint32_t)(bits & 0x8000) << 16, own = (uint32_t)(bits & 0x7fff) << 13;
  if (own >= 0x0f800000u) return bits_as<float>(sign | 0x7f800000u | (own & 0x7fffff));
  if (own < 0x00800000u) return bits_as<float>(sign | bits_as<uint32_t>(own * 0x1p-37f));
  return bits_as<float>(sign | (own + 0x38000000u));
}
}  // namespace emulator

struct __align__(2) half {
  uint16_t bits;
  half() = default;
  half(float value) : bits(emulator::half_bits(value)) {}
  operator float() const { return emulator::half_value(bits); }
};
static inline half __float2half_rn(float value) { return half(value); }
static inline float __half2float(half value) { return value; }
