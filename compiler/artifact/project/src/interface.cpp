// The C interface: exceptions become the thread's last error.
#include <algorithm>
#include <cstdio>
#include <cstring>
#include <exception>

#include "model.h"

namespace {

// Initialised, so that the emulator does not take it for static shared memory.
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

template <class T>
T& given(T* pointer, const char* what) {
  if (pointer == nullptr) throw std::runtime_error(std::string(what) + " is NULL");
  return *pointer;
}

const flowloom_tensor* tensor(flowloom::Kind kind, size_t index) {
  const auto& found = flowloom::tensors(kind);
  return index < found.size() ? &found[index] : nullptr;
}

int find(flowloom::Kind kind, const char* name, size_t* index) {
  return guarded([&] {
    const std::string wanted = &given(name, "the name");
    std::string names;
    for (const flowloom_tensor& each : flowloom::tensors(kind)) {
      if (wanted == each.name) {
        given(index, "the place of the index") = static_cast<size_t>(&each - flowloom::tensors(kind).data());
        return;
      }
      names += std::string(names.empty() ? "" : ", ") + each.name;
    }
    const std::string what = kind == flowloom::Kind::input ? "input" : "output";
    throw std::runtime_error("there is no " + what + " " + wanted + ": the " + what + "s are " + names);
  });
}

void check_arrays(const void* const* inputs, void* const* outputs) {
  if (flowloom_input_count() != 0) given(inputs, "the array of inputs");
  if (flowloom_output_count() != 0) given(outputs, "the array of outputs");
}

}  // namespace

int flowloom_check_interface(int interface) {
  return guarded([&] {
    if (interface != FLOWLOOM_INTERFACE)
      throw std::runtime_error("the program was compiled for interface " + std::to_string(interface) + " and " +
                               flowloom::plan.version + " has interface " + std::to_string(FLOWLOOM_INTERFACE) +
                               ": compile it with the library's own flowloom/model.h");
  });
}

flowloom_options flowloom_default_options(const char* weights) {
  return {weights, flowloom::plan.mode, 0, nullptr, 0};
}

int flowloom_create(flowloom_model** model, const flowloom_options* options) {
  return guarded([&] {
    given(model, "the place of the model") = nullptr;
    *model = new flowloom_model(given(options, "the pointer to options"));
  });
}

void flowloom_destroy(flowloom_model* model) { delete model; }

size_t flowloom_input_count() { return flowloom::tensors(flowloom::Kind::input).size(); }
size_t flowloom_output_count() { return flowloom::tensors(flowloom::Kind::output).size(); }
const flowloom_tensor* flowloom_input(size_t index) { return tensor(flowloom::Kind::input, index); }
const flowloom_tensor* flowloom_output(size_t index) { return tensor(flowloom::Kind::output, index); }
int flowloom_find_input(const char* name, size_t* index) { return find(flowloom::Kind::input, name, index); }
int flowloom_find_output(const char* name, size_t* index) { return find(flowloom::Kind::output, name, index); }

size_t flowloom_weight_bytes() { return flowloom::plan.weight_bytes; }
size_t flowloom_arena_bytes() { return flowloom::plan.arena_bytes; }

int flowloom_run(flowloom_model* model, const void* const* inputs, void* const* outputs, void* stream) {
  return guarded([&] {
    check_arrays(inputs, outputs);
    given(model, "the model").run(inputs, outputs, stream);
  });
}

int flowloom_run_host(flowloom_model* model, const void* const* inputs, void* const* outputs) {
  return guarded([&] {
    check_arrays(inputs, outputs);
    given(model, "the model").run_host(inputs, outputs);
  });
}

int flowloom_load_weights(flowloom_model* model, const char* path) {
  return guarded([&] { given(model, "the model").load_weights(path); });
}

int flowloom_profile(flowloom_model* model, int runs, char* text, size_t size, size_t* needed) {
  return guarded([&] {
    if (runs < 1) throw std::runtime_error("a profile needs at least one run");
    const std::string found = given(model, "the model").profile(runs);
    given(needed, "the place of the size") = found.size() + 1;
    if (size == 0) return;
    given(text, "the place of the text");
    const size_t count = std::min(size - 1, found.size());
    std::memcpy(text, found.data(), count);
    text[count] = '\0';
  });
}

const char* flowloom_error() { return last_error; }
const char* flowloom_version() { return flowloom::plan.version; }
