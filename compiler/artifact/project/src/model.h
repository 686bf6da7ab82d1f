// The model that the C interface wraps.
#pragma once

#include <mutex>
#include <string>
#include <vector>

#include "executor.h"

// The handle of the C interface; errors are exceptions here.
struct flowloom_model {
 public:
  explicit flowloom_model(const flowloom_options& options);
  flowloom_model(const flowloom_model&) = delete;
  flowloom_model& operator=(const flowloom_model&) = delete;

  void run(const void* const* inputs, void* const* outputs, void* stream);
  void run_host(const void* const* inputs, void* const* outputs);
  void load_weights(const char* path);
  std::string profile(int runs);

 private:
  // Device memory for all inputs and outputs, one after the other.
  struct Staging {
    Staging(const flowloom::Device& device, const flowloom_allocator* allocator);
    flowloom::Memory block;
    std::vector<char*> places;
  };

  void check_places(const std::vector<char*>& places) const;
  const flowloom_allocator* allocator() const { return own_allocator_ ? &allocator_ : nullptr; }

  flowloom_options options_;
  bool own_allocator_;
  flowloom_allocator allocator_{};
  std::unique_ptr<flowloom::Device> device_;
  flowloom::Memory weights_, arena_;
  std::vector<char*> places_;  // of the last run
  std::unique_ptr<Staging> staging_;
  std::unique_ptr<flowloom::Executor> executor_;
  std::mutex mutex_;
};

namespace flowloom {

// Copies weights.bin into a block of device memory; throws, with the block unchanged, unless it fits.
void upload_weights(const char* path, const Device& device, char* block);

// The tensors of one kind, in the model's order.
const std::vector<flowloom_tensor>& tensors(Kind kind);

// All inputs, then all outputs: the order of `places`.
const std::vector<flowloom_tensor>& callers_tensors();

}  // namespace flowloom
