// The model that the C interface wraps.
#pragma once

#include <atomic>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "plan.h"

namespace flowloom {

constexpr size_t ALIGNMENT = 64;

struct Release {
  void operator()(void* memory) const;
};

// Memory of whole cache lines.
using Block = std::unique_ptr<char, Release>;
using Table = std::unique_ptr<int64_t, Release>;

// The tensors of one kind, in the model's order.
const std::vector<flowloom_tensor>& tensors(Kind kind);

}  // namespace flowloom

// The handle of the C interface; errors are exceptions here.
struct flowloom_model {
 public:
  explicit flowloom_model(const flowloom_options& options);
  ~flowloom_model();
  flowloom_model(const flowloom_model&) = delete;
  flowloom_model& operator=(const flowloom_model&) = delete;

  void run(const void* const* inputs, void* const* outputs);

 private:
  void bind(size_t threads);

  std::mutex running_;
  flowloom::Block weights_, arena_;
  flowloom::Table streams_, tasks_, launches_, waits_, slots_, bindings_, places_, carries_, controls_, engine_;
  std::vector<size_t> changing_;  // the allocations of the caller's arrays
  std::vector<std::thread> team_;
};
