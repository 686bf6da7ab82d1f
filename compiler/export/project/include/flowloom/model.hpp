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
  explicit Model(const flowloom_options& options) { check(flowloom_create(&model_, &options)); }
  explicit Model(const std::string& weights) : Model(flowloom_default_options(weights.c_str())) {}
  Model(Model&& other) noexcept : model_(std::exchange(other.model_, nullptr)) {}
  Model& operator=(Model&& other) noexcept {
    std::swap(model_, other.model_);
    return *this;
  }
  Model(const Model&) = delete;
  Model& operator=(const Model&) = delete;
  ~Model() { flowloom_destroy(model_); }

  void run(const std::vector<const void*>& inputs, const std::vector<void*>& outputs, void* stream) {
    check(flowloom_run(model_, inputs.data(), outputs.data(), stream));
  }
  void run_host(const std::vector<const void*>& inputs, const std::vector<void*>& outputs) {
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
  flowloom_model* model_ = nullptr;
};

}  // namespace flowloom
