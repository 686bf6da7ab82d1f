// Stored arrays, and how far results are from them.
#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "flowloom/model.h"

namespace flowloom {

using Bytes = std::vector<char>;
using Tensors = std::vector<const flowloom_tensor*>;

inline Tensors tensors(size_t count, const flowloom_tensor* (*get)(size_t)) {
  Tensors found;
  for (size_t i = 0; i < count; i++) found.push_back(get(i));
  return found;
}

// The arrays of a file, one after the other; empty if there is no such file.
inline std::vector<Bytes> read_arrays(const std::string& path, const Tensors& kinds) {
  std::ifstream file(path, std::ios::binary);
  std::vector<Bytes> arrays;
  if (!file) return arrays;
  for (const flowloom_tensor* tensor : kinds) {
    arrays.emplace_back(tensor->bytes);
    if (!file.read(arrays.back().data(), static_cast<std::streamsize>(tensor->bytes)))
      throw std::runtime_error(path + " is truncated");
  }
  return arrays;
}

inline std::vector<Bytes> zeros(const Tensors& kinds) {
  std::vector<Bytes> arrays;
  for (const flowloom_tensor* tensor : kinds) arrays.emplace_back(tensor->bytes);
  return arrays;
}

inline float half_value(uint16_t bits) {
  const int exponent = bits >> 10 & 31, fraction = bits & 1023;
  const float size = exponent == 31  ? (fraction != 0 ? NAN : INFINITY)
                     : exponent == 0 ? std::ldexp(static_cast<float>(fraction), -24)
                                     : std::ldexp(static_cast<float>(fraction + 1024), exponent - 25);
  return (bits & 0x8000) != 0 ? -size : size;
}

template <class T>
T read_as(const char* data) {
  T value;
  std::memcpy(&value, data, sizeof value);
  return value;
}

// The number that a byte of float8_e4m3fn stands for; float8_e5m2 is the upper half of a float16.
inline double e4m3_value(uint8_t bits) {
  const int exponent = bits >> 3 & 15, fraction = bits & 7;
  double size = exponent != 0 ? std::ldexp(8 + fraction, exponent - 10) : std::ldexp(fraction, -9);
  if ((bits & 0x7f) == 0x7f) size = NAN;
  return (bits & 0x80) != 0 ? -size : size;
}

inline size_t element_bytes(const std::string& dtype) {
  if (dtype.rfind("float8", 0) == 0) return 1;
  return dtype == "float64" ? 8 : dtype == "float32" ? 4 : 2;
}

// The element at an index of a floating-point array.
inline double element(const std::string& dtype, const Bytes& data, size_t i) {
  if (dtype == "float64") return read_as<double>(&data[i * 8]);
  if (dtype == "float32") return static_cast<double>(read_as<float>(&data[i * 4]));
  const uint8_t byte = read_as<uint8_t>(&data[i * element_bytes(dtype)]);
  if (dtype == "float8_e4m3fn") return e4m3_value(byte);
  if (dtype == "float8_e5m2") return static_cast<double>(half_value(static_cast<uint16_t>(byte << 8)));
  const uint16_t bits = read_as<uint16_t>(&data[i * 2]);
  if (dtype == "float16") return static_cast<double>(half_value(bits));
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  return static_cast<double>(read_as<float>(reinterpret_cast<const char*>(&wide)));
}

// The error relative to the reference in the Euclidean norm; infinite where other than floats differ.
inline double relative_error(const flowloom_tensor& tensor, const Bytes& actual, const Bytes& expected) {
  const std::string dtype = tensor.dtype;
  if (actual == expected) return 0;
  if (dtype.find("float") == std::string::npos) return INFINITY;
  double error = 0, norm = 0;
  const size_t count = tensor.bytes / element_bytes(dtype);
  for (size_t i = 0; i < count; i++) {
    const double a = element(dtype, actual, i), b = element(dtype, expected, i);
    if (a != b && !(std::isnan(a) && std::isnan(b))) error += (a - b) * (a - b);
    if (std::isfinite(b)) norm += b * b;
  }
  return std::isnan(error) ? INFINITY : std::sqrt(error / std::max(norm, 1e-60));
}

}  // namespace flowloom
