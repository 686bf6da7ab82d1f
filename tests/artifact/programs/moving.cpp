// Runs a model at one place, then twelve times at another, then twelve times at the first; argument: its
// weights.
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "flowloom/model.h"

namespace {

std::vector<void*> places(size_t count, const flowloom_tensor* (*tensor)(size_t)) {
  std::vector<void*> found;
  for (size_t i = 0; i < count; i++) found.push_back(std::aligned_alloc(256, (tensor(i)->bytes + 255) / 256 * 256));
  return found;
}

struct Arrays {
  std::vector<void*> inputs = places(flowloom_input_count(), flowloom_input);
  std::vector<void*> outputs = places(flowloom_output_count(), flowloom_output);
};

}  // namespace

int main(int, char** arguments) {
  const flowloom_options options = flowloom_default_options(arguments[1]);
  flowloom_model* model = nullptr;
  if (flowloom_create(&model, &options) != 0) return std::printf("%s\n", flowloom_error()), 1;
  const Arrays first, second;
  const Arrays* const turns[] = {&first, &second, &first};
  for (int turn = 0; turn < 3; turn++)
    for (int run = 0; run < (turn == 0 ? 1 : 12); run++)
      if (flowloom_run(model, turns[turn]->inputs.data(), turns[turn]->outputs.data(), nullptr) != 0)
        return std::printf("%s\n", flowloom_error()), 1;
  flowloom_destroy(model);
  return 0;
}
