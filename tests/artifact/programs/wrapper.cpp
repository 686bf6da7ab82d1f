// The C++ class, linked; arguments: weights.
#include <array>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "flowloom/model.hpp"

namespace {

int failures = 0;

void expect(bool good, const char* what) {
  if (!good) failures++, std::printf("FAIL: %s\n", what);
}

template <class Action>
void throws(const Action& action, const char* part) {
  try {
    action();
    expect(false, part);
  } catch (const flowloom::Error& error) {
    expect(std::strstr(error.what(), part) != nullptr, error.what());
  }
}

}  // namespace

int main(int, char** arguments) {
  const std::string weights = arguments[1];
  throws([] { flowloom::Model("nowhere.bin"); }, "cannot read the weights nowhere.bin");
  throws([] { static_cast<void>(flowloom::Model::output("rows")); }, "the outputs are image, row");

  std::vector<float> x(800, 1), y(800, 2), image(1400), row(8);
  std::vector<const void*> inputs(2);
  inputs[flowloom::Model::input("x")] = x.data(), inputs[flowloom::Model::input("y")] = y.data();
  const std::vector<void*> outputs = {image.data(), row.data()};

  flowloom::Model model(weights);
  throws([&] { model.run_host({x.data()}, outputs); }, "the model has 2 inputs, not 1");
  throws([&] { model.run(inputs, {}, nullptr); }, "the model has 2 outputs, not 0");
  if (std::strstr(flowloom_version(), " cpu") != nullptr) {
    model.run(inputs, outputs, nullptr);
    throws([&] { model.run(inputs, outputs, &model); }, "a CPU has no streams");
  } else {
    throws([&] { model.run(inputs, outputs, nullptr); }, "x is not in device memory");
  }
  throws([&] { model.load_weights(""); }, "cannot read the weights");
  model.run_host(inputs, outputs);
  const std::vector<float> first = image;

  std::array<flowloom::Model, 2> handles = {std::move(model), flowloom::Model(weights)};
  for (flowloom::Model& each : handles) {
    image.assign(image.size(), 0);
    each.run_host(inputs, outputs);
    expect(image == first, "every handle computes the same");
  }
  std::swap(handles[0], handles[1]);
  handles[1].load_weights(weights);
  const std::string profile = handles[1].profile(2);
  expect(profile.rfind("]}\n") == profile.size() - 3, "a whole profile");
  std::printf("%s", profile.c_str());
  return failures != 0;
}
