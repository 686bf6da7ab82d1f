// The file of the weights, checked against the plan.
#pragma once

#include <cstdio>
#include <cstring>
#include <memory>
#include <stdexcept>
#include <string>

#include "model.h"

namespace flowloom {

// The first bytes of weights.bin; an image of the weights in memory follows.
struct Header {
  char magic[8];
  uint64_t layout, bytes;
  char padding[232];
};
static_assert(sizeof(Header) == 256);

struct Closer {
  void operator()(FILE* file) const { std::fclose(file); }
};
using WeightsFile = std::unique_ptr<FILE, Closer>;

// The open file, at the beginning of the image, which it has whole.
inline WeightsFile open_weights(const char* path) {
  WeightsFile file(path == nullptr ? nullptr : std::fopen(path, "rb"));
  const std::string name = path == nullptr ? "(no path)" : path;
  if (!file) throw std::runtime_error("cannot read the weights " + name);
  Header header{};
  if (std::fread(&header, sizeof header, 1, file.get()) != 1 || std::memcmp(header.magic, "FLOWLOOM", 8) != 0)
    throw std::runtime_error(name + " is not a file of weights");
  if (header.layout != plan.weights_layout || header.bytes != plan.weight_bytes)
    throw std::runtime_error(name + " holds the weights of another model, or of another compilation of this one");
  std::fseek(file.get(), 0, SEEK_END);
  if (static_cast<size_t>(std::ftell(file.get())) != sizeof header + plan.weight_bytes)
    throw std::runtime_error(name + " is truncated");
  std::fseek(file.get(), sizeof header, SEEK_SET);
  return file;
}

// The next bytes of an image.
inline void read_image(const WeightsFile& file, char* to, size_t count) {
  if (std::fread(to, 1, count, file.get()) != count) throw std::runtime_error("the file of weights cannot be read");
}

}  // namespace flowloom
