#include "device.h"

namespace flowloom {

namespace {

std::string free_memory() {
  size_t free = 0, total = 0;
  if (gpuMemGetInfo(&free, &total) != gpuSuccess) return "";
  return " (the device has " + std::to_string(free) + " free)";
}

}  // namespace

Memory::Memory(const flowloom_allocator* allocator, size_t bytes, const char* what) : bytes_(bytes) {
  if (allocator != nullptr) allocator_ = *allocator;
  if ((allocator_.allocate == nullptr) != (allocator_.release == nullptr))
    throw std::runtime_error("an allocator has both functions, allocate and release");
  if (bytes == 0) return;
  if (allocator_.allocate != nullptr)
    data_ = allocator_.allocate(allocator_.context, bytes);
  else if (gpuMalloc(&data_, bytes) != gpuSuccess)
    data_ = nullptr;
  const std::string size = std::to_string(bytes) + " bytes of device memory for " + what;
  if (data_ == nullptr) throw std::runtime_error("there are no " + size + free_memory());
  if (reinterpret_cast<uintptr_t>(data_) % BLOCK_ALIGNMENT == 0) return;
  release();
  throw std::runtime_error("the allocator did not align " + size + " to 256 bytes");
}

Memory::~Memory() { release(); }

void Memory::release() {
  if (data_ == nullptr) return;
  if (allocator_.release != nullptr)
    allocator_.release(allocator_.context, data_);
  else
    static_cast<void>(gpuFree(data_));
  data_ = nullptr;
}

}  // namespace flowloom
