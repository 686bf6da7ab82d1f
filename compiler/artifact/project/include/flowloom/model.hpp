// The C interface as a class: errors become exceptions, lifetime follows scope.
#pragma once

#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "flowloom/model.h"

namespace flowloom {

class Error : public std::runtime_error {
  using std::runtime_error::runtime_error;
};

class Model {
 public:
  explicit Model(const flowloom_options& options) {
    check(flowloom_check_interface(FLOWLOOM_INTERFACE));
    check(flowloom_create(&model_, &options));
  }
  explicit Model(const std::string& weights) : Model(default_options(weights)) {}
  Model(Model&& other) noexcept : model_(std::exchange(other.model_, nullptr)) {}
  Model& operator=(Model&& other) noexcept {
    std::swap(model_, other.model_);
    return *this;
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model() { flowloom_destroy(model_); }

  // The options point to `weights`.
  static flowloom_options default_options(const std::string& weights) {
    check(flowloom_check_interface(FLOWLOOM_INTERFACE));
    return flowloom_default_options(weights.c_str());
  }

  // Where an input or output is in the vectors below.
  static size_t input(const std::string& name) { return found(flowloom_find_input, name); }
  static size_t output(const std::string& name) { return found(flowloom_find_output, name); }

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs, void* stream) {
    check_counts(inputs.size(), outputs.size());
    check(flowloom_run(model_, inputs.data(), outputs.data(), stream));
  }
  void run_host(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
    check_counts(inputs.size(), outputs.size());
    check(flowloom_run_host(model_, inputs.data(), outputs.data()));
  }
  void load_weights(const std::string& path) { check(flowloom_load_weights(model_, path.c_str())); }

  // The times of all tasks as JSON.
  std::string profile(int runs = 20) {
    size_t needed = 0;
    check(flowloom_profile(model_, runs, nullptr, 0, &needed));
    std::string text(needed + needed / 4, '\0');  // digits may differ between profiles
    check(flowloom_profile(model_, runs, text.data(), text.size(), &needed));
    text.resize(needed - 1);
    return text;
  }

 private:
  static void check(int status) {
    if (status != 0) throw Error(flowloom_error());
  }
  static size_t found(int (*find)(const char*, size_t*), const std::string& name) {
    size_t index = 0;
    check(find(name.c_str(), &index));
    return index;
  }
  static void check_counts(size_t inputs, size_t outputs) {
    const auto check_count = [](size_t given, size_t needed, const char* what) {
      if (given != needed)
        throw Error("the model has " + std::to_string(needed) + " " + what + ", not " + std::to_string(given));
    };
    check_count(inputs, flowloom_input_count(), "inputs");
    check_count(outputs, flowloom_output_count(), "outputs");
  }
  flowloom_model* model_ = nullptr;
};

}  // namespace flowloom
