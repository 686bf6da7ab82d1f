// What the C interfaces of all projects are made of: exceptions become the thread's last error.
#pragma once

#include <cstddef>
#include <cstdio>
#include <exception>
#include <stdexcept>
#include <string>

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
