// The C interface: exceptions become the thread's last error.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>

#include "model.h"

namespace {

// Initialised, so that it does not lie among static shared memory on the emulator.
thread_local char last_error[1024] = "no error";

void keep(const char* text) { std::snprintf(last_error, sizeof last_error, "%s", text); }

template <class Action>
int guarded(const Action& action) {
  try {
    action();
    return 0;
  } catch (const std::exception& error) {
    keep(error.what());
  } catch (...) {
    keep("an unknown error");
  }
  return 1;
}

const flowloom_tensor* tensor(flowloom::Kind kind, size_t index) {
  const auto& found = flowloom::tensors(kind);
  return index < found.size() ? &found[index] : nullptr;
}

}  // namespace

flowloom_options flowloom_default_options(const char* weights) {
  return {weights, flowloom::plan.mode, 0, nullptr};
}

int flowloom_create(flowloom_model** model, const flowloom_options* options) {
  *model = nullptr;
  return guarded([&] { *model = new flowloom_model(*options); });
}

void flowloom_destroy(flowloom_model* model) { delete model; }

size_t flowloom_input_count() { return flowloom::tensors(flowloom::Kind::input).size(); }
size_t flowloom_output_count() { return flowloom::tensors(flowloom::Kind::output).size(); }
const flowloom_tensor* flowloom_input(size_t index) { return tensor(flowloom::Kind::input, index); }
const flowloom_tensor* flowloom_output(size_t index) { return tensor(flowloom::Kind::output, index); }

size_t flowloom_weight_bytes() { return flowloom::plan.weight_bytes; }
size_t flowloom_arena_bytes() { return flowloom::plan.arena_bytes; }

int flowloom_run(flowloom_model* model, const void* const* inputs, void* const* outputs, void* stream) {
  return guarded([&] { model->run(inputs, outputs, static_cast<gpuStream_t>(stream)); });
}

int flowloom_run_host(flowloom_model* model, const void* const* inputs, void* const* outputs) {
  return guarded([&] { model->run_host(inputs, outputs); });
}

int flowloom_load_weights(flowloom_model* model, const char* path) {
  return guarded([&] { model->load_weights(path); });
}

int flowloom_profile(flowloom_model* model, int runs, char* text, size_t size, size_t* needed) {
  return guarded([&] {
    if (runs < 1) throw std::runtime_error("a profile needs at least one run");
    const std::string found = model->profile(runs);
    *needed = found.size() + 1;
    if (size == 0) return;
    const size_t count = std::min(size - 1, found.size());
    std::memcpy(text, found.data(), count);
    text[count] = '\0';
  });
}

const char* flowloom_error() { return last_error; }
const char* flowloom_version() { return flowloom::plan.version; }
