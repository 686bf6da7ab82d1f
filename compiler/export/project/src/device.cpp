#include "device.h"

namespace flowloom {

Memory::Memory(const flowloom_allocator* allocator, size_t bytes, const char* what) : bytes_(bytes) {
  if (allocator != nullptr) allocator_ = *allocator;
  if (bytes == 0) return;
  if (allocator_.allocate != nullptr)
    data_ = allocator_.allocate(allocator_.context, bytes);
  else if (gpuMalloc(&data_, bytes) != gpuSuccess)
    data_ = nullptr;
  if (data_ == nullptr) throw std::runtime_error(std::string(what) + " needs " + std::to_string(bytes) +
                                                 " bytes of device memory, which cannot be had");
}

Memory::~Memory() {
  if (data_ == nullptr) return;
  if (allocator_.release != nullptr)
    allocator_.release(allocator_.context, data_);
  else
    static_cast<void>(gpuFree(data_));
}

}  // namespace flowloom
