#include "device.h"

#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <cstring>

#include "cpu/tables.h"

namespace flowloom {
namespace {

class Cpu : public Device {
 public:
  void use() const override {}
  bool is_host() const override { return true; }
  void* allocate(size_t bytes) const override { return std::aligned_alloc(BLOCK_ALIGNMENT, padded(bytes)); }
  void release(void* memory) const override { std::free(memory); }
  std::string free_memory() const override {
    const long pages = sysconf(_SC_AVPHYS_PAGES), bytes = sysconf(_SC_PAGESIZE);
    return pages < 0 || bytes < 0 ? "" : " (the device has " + std::to_string(pages * bytes) + " free)";
  }
  bool reaches(const void*) const override { return true; }

  void* stream() const override { return nullptr; }
  void copy(void* to, const void* from, size_t bytes) const override {
    if (bytes != 0) std::memcpy(to, from, bytes);
  }
  void fill(void* memory, int byte, size_t bytes) const override {
    if (bytes != 0) std::memset(memory, byte, bytes);
  }
  void wait() const override {}
  double time(const std::function<void()>& work) const override {
    const auto start = std::chrono::steady_clock::now();
    work();
    return std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count();
  }
};

}  // namespace

std::string missing_device() {
  const char* const feature = cpu_plan.missing();
  return feature == nullptr ? "" : "this CPU does not have " + std::string(feature);
}

std::unique_ptr<Device> open_device(int number) {
  if (number != 0) throw std::runtime_error("there is no device " + std::to_string(number) + ": 1 are visible");
  const std::string missing = missing_device();
  if (!missing.empty())
    throw std::runtime_error(missing + ", which kernels for " + plan.version + " use: compile the model for an older one");
  return std::make_unique<Cpu>();
}

}  // namespace flowloom
