#include <algorithm>
#include <cstdio>
#include <cstring>

#include "model.h"

namespace flowloom {
namespace {

constexpr size_t PIECE = 32 << 20;

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

// The open file, checked against the plan, at the beginning of the image, which it has whole.
WeightsFile open_weights(const char* path) {
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

void read_image(const WeightsFile& file, char* to, size_t count) {
  if (std::fread(to, 1, count, file.get()) != count) throw std::runtime_error("the file of weights cannot be read");
}

}  // namespace

void upload_weights(const char* path, const Device& device, char* block) {
  const WeightsFile file = open_weights(path);
  if (device.is_host()) return read_image(file, block, plan.weight_bytes);
  std::vector<char> piece(std::min(PIECE, plan.weight_bytes));
  for (size_t at = 0; at < plan.weight_bytes; at += piece.size()) {
    const size_t count = std::min(piece.size(), plan.weight_bytes - at);
    read_image(file, piece.data(), count);
    device.copy(block + at, piece.data(), count);
    device.wait();
  }
}

const std::vector<flowloom_tensor>& tensors(Kind kind) {
  const auto collect = [](Kind wanted) {
    std::vector<flowloom_tensor> found;
    for (const Allocation& each : plan.allocations)
      if (each.kind == wanted) found.push_back({each.name, each.dtype, each.shape.begin(), each.shape.size(), each.bytes});
    return found;
  };
  static const std::vector<flowloom_tensor> inputs = collect(Kind::input), outputs = collect(Kind::output);
  return kind == Kind::input ? inputs : outputs;
}

const std::vector<flowloom_tensor>& callers_tensors() {
  static const std::vector<flowloom_tensor> all = [] {
    std::vector<flowloom_tensor> result = tensors(Kind::input);
    result.insert(result.end(), tensors(Kind::output).begin(), tensors(Kind::output).end());
    return result;
  }();
  return all;
}

}  // namespace flowloom
