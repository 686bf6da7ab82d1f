// The model that the C interface wraps.
#pragma once

#include <mutex>
#include <string>

#include "executor.h"

// The handle of the C interface; errors are exceptions here.
struct flowloom_model {
 public:
  explicit flowloom_model(const flowloom_options& options);
  ~flowloom_model();
  flowloom_model(const flowloom_model&) = delete;
  flowloom_model& operator=(const flowloom_model&) = delete;

  void run(const void* const* inputs, void* const* outputs, gpuStream_t stream);
  void run_host(const void* const* inputs, void* const* outputs);
  void load_weights(const char* path);
  std::string profile(int runs);

 private:
  // What one run at a time uses: arena, addresses, and the graph or streams.
  struct State {
    State(const flowloom_allocator* allocator, const char* weights);
    flowloom::Memory arena;
    flowloom::Calls calls;
  };
  // Device memory for inputs and outputs of the host, one after the other.
  struct Staging {
    explicit Staging(const flowloom_allocator* allocator);
    flowloom::Memory block;
    std::vector<char*> places;
  };

  void use_device() const;
  void check_places(const void* const* inputs, void* const* outputs) const;
  void bind(const void* const* inputs, void* const* outputs);
  void queue(gpuStream_t stream);
  void wait() const;
  const flowloom_allocator* allocator() const { return own_allocator_ ? &allocator_ : nullptr; }

  int device_;
  std::vector<size_t> boundary_;  // the allocations of inputs, then outputs
  bool own_allocator_;
  flowloom_mode mode_;
  flowloom_allocator allocator_{};
  flowloom::Memory weights_;
  State state_;
  std::unique_ptr<flowloom::Runner> runner_;  // from the first run on
  std::unique_ptr<Staging> staging_;
  flowloom::Stream own_stream_;
  flowloom::Event last_;
  gpuStream_t last_stream_{};
  bool ran_ = false;
  std::mutex mutex_;
};

namespace flowloom {

// Copies weights.bin into a block of device memory; throws, with the block unchanged, unless it fits.
void upload_weights(const char* path, char* block, gpuStream_t stream);

// The tensors of one kind, in the model's order.
const std::vector<flowloom_tensor>& tensors(Kind kind);

// Where each allocation begins; inputs and outputs are nullptr.
std::vector<char*> initial_addresses(char* weights, char* arena);

}  // namespace flowloom
