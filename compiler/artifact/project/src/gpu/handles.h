// Owners of what the GPU's runtime hands out, and its errors as exceptions.
#pragma once

#include <cstdint>
#include <stdexcept>
#include <string>
#include <utility>

#include "flowloom/gpu.h"

namespace flowloom {

inline void check(gpuError_t error, const std::string& what) {
  if (error != gpuSuccess) throw std::runtime_error(what + ": " + gpuGetErrorString(error));
}

// A handle that is destroyed with its owner.
template <class Handle, gpuError_t (*DESTROY)(Handle)>
class Owned {
 public:
  Owned() = default;
  explicit Owned(Handle handle) : handle_(handle) {}
  Owned(Owned&& other) noexcept : handle_(std::exchange(other.handle_, Handle{})) {}
  Owned& operator=(Owned&& other) noexcept {
    std::swap(handle_, other.handle_);
    return *this;
  }
  ~Owned() {
    if (handle_ != Handle{}) static_cast<void>(DESTROY(handle_));
  }
  Handle get() const { return handle_; }

 private:
  Handle handle_{};
};

using Stream = Owned<gpuStream_t, gpuStreamDestroy>;
using Event = Owned<gpuEvent_t, gpuEventDestroy>;
using Graph = Owned<gpuGraph_t, gpuGraphDestroy>;
using GraphExec = Owned<gpuGraphExec_t, gpuGraphExecDestroy>;

inline Stream make_stream() {
  gpuStream_t stream{};
  check(gpuStreamCreate(&stream), "creating a stream");
  return Stream(stream);
}
inline Event make_event(bool timing = false) {
  gpuEvent_t event{};
  check(gpuEventCreate(&event, timing), "creating an event");
  return Event(event);
}

// Microseconds between two events that have happened.
inline double elapsed(const Event& start, const Event& end) {
  float milliseconds = 0;
  check(gpuEventElapsedTime(&milliseconds, start.get(), end.get()), "reading a time");
  return static_cast<double>(milliseconds) * 1000;
}

}  // namespace flowloom
