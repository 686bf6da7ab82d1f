#include "device.h"

#include "gpu/handles.h"
#include "gpu/tasks.h"

#ifndef FLOWLOOM_BUILT_FOR
#define FLOWLOOM_BUILT_FOR "other architectures"
#endif

namespace flowloom {
namespace {

// All kernels are built for the same architectures: one shows whether there is code for the device.
void check_code(int device) {
  for (const Work& work : gpu_plan.work) {
    if (work.launches.size() == 0) continue;
    const gpuError_t error = gpuFuncExists(work.launches.begin()->function());
    if (error == gpuSuccess) return;
    char name[256] = "the device";
    static_cast<void>(gpuGetDeviceName(name, sizeof name, device));
    throw std::runtime_error(std::string(name) + " cannot run kernels that are built for " FLOWLOOM_BUILT_FOR " (" +
                             gpuGetErrorString(error) + "): build with -DFLOWLOOM_ARCHITECTURES of this device");
  }
}

class Gpu : public Device {
 public:
  explicit Gpu(int number) : number_(number) {
    int count = 0;
    const gpuError_t error = gpuGetDeviceCount(&count);
    if (error != gpuSuccess || count == 0) throw std::runtime_error(missing_device() + ": " + gpuGetErrorString(error));
    if (number < 0 || number >= count)
      throw std::runtime_error("there is no device " + std::to_string(number) + ": " + std::to_string(count) +
                               " are visible");
    use();
    check_code(number);
    stream_ = make_stream();
  }

  void use() const override { check(gpuSetDevice(number_), "selecting the device"); }
  bool is_host() const override { return false; }
  void* allocate(size_t bytes) const override {
    void* memory = nullptr;
    return gpuMalloc(&memory, bytes) == gpuSuccess ? memory : nullptr;
  }
  void release(void* memory) const override { static_cast<void>(gpuFree(memory)); }
  std::string free_memory() const override {
    size_t free = 0, total = 0;
    if (gpuMemGetInfo(&free, &total) != gpuSuccess) return "";
    return " (the device has " + std::to_string(free) + " free)";
  }
  bool reaches(const void* memory) const override { return gpuIsReachable(memory); }

  void* stream() const override { return stream_.get(); }
  void copy(void* to, const void* from, size_t bytes) const override {
    check(gpuMemcpyAsync(to, from, bytes, stream_.get()), "copying " + std::to_string(bytes) + " bytes");
  }
  void fill(void* memory, int byte, size_t bytes) const override {
    check(gpuMemsetAsync(memory, byte, bytes, stream_.get()), "filling memory");
  }
  void wait() const override { check(gpuStreamSynchronize(stream_.get()), "running the model"); }
  double time(const std::function<void()>& work) const override {
    const Event start = make_event(true), end = make_event(true);
    check(gpuEventRecord(start.get(), stream_.get()), "recording an event");
    work();
    check(gpuEventRecord(end.get(), stream_.get()), "recording an event");
    wait();
    return elapsed(start, end);
  }

 private:
  int number_;
  Stream stream_;
};

}  // namespace

std::string missing_device() {
  int count = 0;
  if (gpuGetDeviceCount(&count) == gpuSuccess && count != 0) return "";
  return "there is no " GPU_PLATFORM " device";
}

std::unique_ptr<Device> open_device(int number) { return std::make_unique<Gpu>(number); }

}  // namespace flowloom
