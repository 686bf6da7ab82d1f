#include <algorithm>

#include "weights_file.h"

namespace flowloom {

constexpr size_t PIECE = 32 << 20;

void upload_weights(const char* path, char* block, gpuStream_t stream) {
  const WeightsFile file = open_weights(path);
  std::vector<char> piece(std::min(PIECE, plan.weight_bytes));
  for (size_t at = 0; at < plan.weight_bytes; at += piece.size()) {
    const size_t count = std::min(piece.size(), plan.weight_bytes - at);
    read_image(file, piece.data(), count);
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
