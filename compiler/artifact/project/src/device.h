// What a model asks of the device that it runs on; `gpu/` and `cpu/` implement it. Errors are exceptions.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <stdexcept>
#include <string>

#include "flowloom/model.h"

namespace flowloom {

// One device, with a stream for what the model and the self-check copy.
class Device {
 public:
  virtual ~Device() = default;
  // Makes it the thread's current device.
  virtual void use() const = 0;
  // Whether it is the CPU that calls it: its memory is the host's, and a run has ended when it returns.
  virtual bool is_host() const = 0;
  virtual void* allocate(size_t bytes) const = 0;  // nullptr where there is no memory
  virtual void release(void* memory) const = 0;
  virtual std::string free_memory() const = 0;  // what to say of it in an error
  virtual bool reaches(const void* memory) const = 0;

  virtual void* stream() const = 0;
  virtual void copy(void* to, const void* from, size_t bytes) const = 0;
  virtual void fill(void* memory, int byte, size_t bytes) const = 0;
  virtual void wait() const = 0;
  // How long the stream takes for what is queued by `work`, in microseconds.
  virtual double time(const std::function<void()>& work) const = 0;
};

// Why nothing here can run the model; empty where there is a device.
std::string missing_device();

// Throws where there is no device of this number, or none that runs the kernels.
std::unique_ptr<Device> open_device(int number);

constexpr size_t BLOCK_ALIGNMENT = 256;

inline size_t padded(size_t bytes) { return (bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT; }

// Device memory, of the user's allocator if there is one.
class Memory {
 public:
  Memory(const Device& device, const flowloom_allocator* allocator, size_t bytes, const char* what);
  Memory(const Memory&) = delete;
  Memory& operator=(const Memory&) = delete;
  ~Memory() { release(); }
  char* data() const { return static_cast<char*>(data_); }
  size_t bytes() const { return bytes_; }

 private:
  void release();
  const Device& device_;
  flowloom_allocator allocator_{};
  void* data_ = nullptr;
  size_t bytes_;
};

}  // namespace flowloom
