#include <algorithm>
#include <cstdio>
#include <cstring>
#include <memory>

#include "model.h"

namespace flowloom {
namespace {

constexpr size_t PIECE = 32 << 20;

// The first bytes of weights.bin; an image of the weights in device memory follows.
struct Header {
  char magic[8];
  uint64_t layout, bytes;
  char padding[232];
};
static_assert(sizeof(Header) == 256);

struct Closer {
  void operator()(FILE* file) const { std::fclose(file); }
};

}  // namespace

void upload_weights(const char* path, char* block, gpuStream_t stream) {
  const std::unique_ptr<FILE, Closer> file(path == nullptr ? nullptr : std::fopen(path, "rb"));
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
  std::vector<char> piece(std::min(PIECE, plan.weight_bytes));
  for (size_t at = 0; at < plan.weight_bytes; at += piece.size()) {
    const size_t count = std::min(piece.size(), plan.weight_bytes - at);
    if (std::fread(piece.data(), 1, count, file.get()) != count) throw std::runtime_error("cannot read " + name);
    check(gpuMemcpyAsync(block + at, piece.data(), count, stream), "copying weights");
    check(gpuStreamSynchronize(stream), "copying weights");
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

std::vector<char*> initial_addresses(char* weights, char* arena) {
  std::vector<char*> addresses;
  for (const Allocation& each : plan.allocations)
    addresses.push_back(each.kind == Kind::weight  ? weights + each.offset
                        : each.kind == Kind::arena ? arena + each.offset
                                                   : nullptr);
  return addresses;
}

}  // namespace flowloom
