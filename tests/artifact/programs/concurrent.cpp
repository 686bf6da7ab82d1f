// Two threads with a model each, two threads with one, and one model on two streams; arguments: weights.
#include <cstdio>
#include <cstring>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "flowloom/gpu.h"
#include "flowloom/model.hpp"

namespace {

constexpr int RUNS = 6;
using Values = std::vector<float>;

void check(gpuError_t error) {
  if (error != gpuSuccess) throw std::runtime_error(gpuGetErrorString(error));
}

// Both inputs filled with one value, and outputs, on the device.
struct Buffers {
  explicit Buffers(float value) {
    for (size_t bytes : {3200U, 3200U, 5600U, 32U}) {
      check(gpuMalloc(&places.emplace_back(), bytes));
      sizes.push_back(bytes);
    }
    const Values values(800, value);
    for (size_t i : {0U, 1U}) check(gpuMemcpyAsync(places[i], values.data(), sizes[i], nullptr));
    check(gpuStreamSynchronize(nullptr));
  }
  std::vector<const void*> inputs() const { return {places[0], places[1]}; }
  std::vector<void*> outputs() const { return {places[2], places[3]}; }
  // What is on the device now, once a stream is done.
  Values image(gpuStream_t stream) const {
    Values found(1400);
    check(gpuMemcpyAsync(found.data(), places[2], sizes[2], stream));
    check(gpuStreamSynchronize(stream));
    return found;
  }
  std::vector<void*> places;
  std::vector<size_t> sizes;
};

gpuStream_t make_stream() {
  gpuStream_t stream{};
  check(gpuStreamCreate(&stream));
  return stream;
}

Values alone(const std::string& weights, float value) {
  flowloom::Model model(weights);
  const Buffers buffers(value);
  model.run(buffers.inputs(), buffers.outputs(), nullptr);
  return buffers.image(nullptr);
}

void repeat(flowloom::Model& model, float value, const Values& expected, int* wrong) {
  const gpuStream_t stream = make_stream();
  const Buffers buffers(value);
  for (int i = 0; i < RUNS; i++) {
    check(gpuMemsetAsync(buffers.places[2], 0xFF, buffers.sizes[2], stream));
    model.run(buffers.inputs(), buffers.outputs(), stream);
    *wrong += buffers.image(stream) != expected;
  }
  check(gpuStreamDestroy(stream));
}

int threads(flowloom::Model& first, flowloom::Model& second, const Values& one, const Values& two) {
  int wrong[2] = {};
  std::thread other([&] { repeat(first, 1, one, &wrong[0]); });
  repeat(second, 2, two, &wrong[1]);
  other.join();
  return wrong[0] + wrong[1];
}

// Nothing waits between runs: the model itself keeps them apart.
int streams(flowloom::Model& model, const Values& one, const Values& two) {
  const gpuStream_t first = make_stream(), second = make_stream();
  int wrong = 0;
  for (int i = 0; i < RUNS; i++) {
    const Buffers left(1), right(2);
    model.run(left.inputs(), left.outputs(), first);
    model.run(right.inputs(), right.outputs(), second);
    wrong += right.image(second) != two;
    wrong += left.image(first) != one;
  }
  return wrong;
}

}  // namespace

int main(int, char** arguments) {
  try {
    const std::string weights = arguments[1];
    const Values one = alone(weights, 1), two = alone(weights, 2);
    int wrong = one == two;
    for (flowloom_mode mode : {FLOWLOOM_GRAPH, FLOWLOOM_SUBGRAPHS, FLOWLOOM_STREAMS}) {
      flowloom_options options = flowloom::Model::default_options(weights);
      options.mode = mode;
      flowloom::Model first(options), second(options);
      const int counts[] = {threads(first, second, one, two), threads(first, first, one, two), streams(first, one, two)};
      std::printf("mode %d: %d %d %d wrong\n", mode, counts[0], counts[1], counts[2]);
      wrong += counts[0] + counts[1] + counts[2];
    }
    return wrong != 0;
  } catch (const std::exception& error) {
    std::printf("%s\n", error.what());
    return 1;
  }
}
