#include "device.h"

namespace flowloom {

Memory::Memory(const Device& device, const flowloom_allocator* allocator, size_t bytes, const char* what)
    : device_(device), bytes_(bytes) {
  if (allocator != nullptr) allocator_ = *allocator;
  if ((allocator_.allocate == nullptr) != (allocator_.release == nullptr))
    throw std::runtime_error("an allocator has both functions, allocate and release");
  if (bytes == 0) return;
  data_ = allocator_.allocate != nullptr ? allocator_.allocate(allocator_.context, bytes) : device.allocate(bytes);
  const std::string size = std::to_string(bytes) + " bytes of device memory for " + what;
  if (data_ == nullptr) throw std::runtime_error("there are no " + size + device.free_memory());
  if (reinterpret_cast<uintptr_t>(data_) % BLOCK_ALIGNMENT == 0) return;
  release();
  throw std::runtime_error("the allocator did not align " + size + " to 256 bytes");
}

void Memory::release() {
  if (data_ == nullptr) return;
  if (allocator_.release != nullptr)
    allocator_.release(allocator_.context, data_);
  else
    device_.release(data_);
  data_ = nullptr;
}

}  // namespace flowloom
