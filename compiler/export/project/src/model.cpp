#include "model.h"

#include <cstdint>

#ifndef FLOWLOOM_BUILT_FOR
#define FLOWLOOM_BUILT_FOR "other architectures"
#endif

using namespace flowloom;

namespace {

constexpr uintptr_t ALIGNMENT = 16;

// All kernels are built for the same architectures: one shows whether there is code for the device.
void check_code(int device) {
  for (const Task& task : plan.tasks) {
    if (task.launches.size() == 0) continue;
    const gpuError_t error = gpuFuncExists(task.launches.begin()->function());
    if (error == gpuSuccess) return;
    char name[256] = "the device";
    static_cast<void>(gpuGetDeviceName(name, sizeof name, device));
    throw std::runtime_error(std::string(name) + " cannot run kernels that are built for " FLOWLOOM_BUILT_FOR " (" +
                             gpuGetErrorString(error) + "): build with -DFLOWLOOM_ARCHITECTURES of this device");
  }
}

int select(int device) {
  int count = 0;
  const gpuError_t error = gpuGetDeviceCount(&count);
  if (error != gpuSuccess || count == 0)
    throw std::runtime_error(std::string("there is no " GPU_PLATFORM " device: ") + gpuGetErrorString(error));
  if (device < 0 || device >= count)
    throw std::runtime_error("there is no device " + std::to_string(device) + ": " + std::to_string(count) +
                             " are visible");
  check(gpuSetDevice(device), "selecting the device");
  check_code(device);
  return device;
}

// The bytes that an array of the caller takes in this run.
struct Range {
  uintptr_t start, end;
  const char* name;
};

void check_overlap(const std::vector<Range>& ranges, size_t inputs) {
  for (size_t out = inputs; out < ranges.size(); out++)
    for (size_t other = 0; other < out; other++)
      if (ranges[out].start < ranges[other].end && ranges[other].start < ranges[out].end)
        throw std::runtime_error(std::string("output ") + ranges[out].name + " overlaps " + ranges[other].name +
                                 ": give it separate memory");
}

void check_reachable(const Range& range) {
  if (range.start != range.end && !gpuIsReachable(reinterpret_cast<const void*>(range.start)))
    throw std::runtime_error(std::string(range.name) +
                             " is not in device memory: copy it there, or call flowloom_run_host");
}

Range range_of(const flowloom_tensor& tensor, const void* data) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(data);
  if (start % ALIGNMENT != 0 || (data == nullptr && tensor.bytes != 0))
    throw std::runtime_error(std::string(tensor.name) + " is not device memory aligned to 16 bytes");
  return {start, start + tensor.bytes, tensor.name};
}

std::vector<size_t> boundary() {
  std::vector<size_t> found;
  for (Kind kind : {Kind::input, Kind::output})
    for (size_t i = 0; i < plan.allocations.count; i++)
      if (plan.allocations[i].kind == kind) found.push_back(i);
  return found;
}

flowloom_mode known(flowloom_mode mode) {
  const int number = static_cast<int>(mode);
  if (number >= FLOWLOOM_GRAPH && number <= FLOWLOOM_STREAMS) return mode;
  throw std::runtime_error("unknown mode " + std::to_string(number));
}

size_t padded(size_t bytes) { return (bytes + BLOCK_ALIGNMENT - 1) / BLOCK_ALIGNMENT * BLOCK_ALIGNMENT; }

void check_given(const flowloom_tensor& tensor, const void* data) {
  if (data == nullptr && tensor.bytes != 0) throw std::runtime_error(std::string(tensor.name) + " is NULL");
}

size_t staging_bytes() {
  size_t total = 0;
  for (Kind kind : {Kind::input, Kind::output})
    for (const flowloom_tensor& tensor : tensors(kind)) total += padded(tensor.bytes);
  return total;
}

}  // namespace

flowloom_model::State::State(const flowloom_allocator* allocator, const char* weights)
    : arena(allocator, plan.arena_bytes, "the arena"),
      calls(initial_addresses(const_cast<char*>(weights), arena.data())) {}

flowloom_model::Staging::Staging(const flowloom_allocator* allocator)
    : block(allocator, staging_bytes(), "the copy of inputs and outputs") {
  char* at = block.data();
  for (Kind kind : {Kind::input, Kind::output})
    for (const flowloom_tensor& tensor : tensors(kind)) places.push_back(at), at += padded(tensor.bytes);
}

flowloom_model::flowloom_model(const flowloom_options& options)
    : device_(select(options.device)),
      boundary_(boundary()),
      own_allocator_(options.allocator != nullptr),
      mode_(known(options.mode)),
      allocator_(own_allocator_ ? *options.allocator : flowloom_allocator{}),
      weights_(allocator(), plan.weight_bytes, "the weights"),
      state_(allocator(), weights_.data()),
      own_stream_(make_stream()),
      last_(make_event()) {
  upload_weights(options.weights, weights_.data(), own_stream_.get());
}

flowloom_model::~flowloom_model() {
  if (gpuSetDevice(device_) == gpuSuccess && ran_) static_cast<void>(gpuEventSynchronize(last_.get()));
}

void flowloom_model::use_device() const { check(gpuSetDevice(device_), "selecting the device"); }

void flowloom_model::wait() const {
  if (ran_) check(gpuEventSynchronize(last_.get()), "waiting for the last run");
}

void flowloom_model::check_places(const void* const* inputs, void* const* outputs) const {
  std::vector<Range> ranges;
  for (size_t i = 0; i < tensors(Kind::input).size(); i++)
    ranges.push_back(range_of(tensors(Kind::input)[i], inputs[i]));
  for (size_t i = 0; i < tensors(Kind::output).size(); i++)
    ranges.push_back(range_of(tensors(Kind::output)[i], outputs[i]));
  check_overlap(ranges, tensors(Kind::input).size());
  for (size_t i = 0; i < ranges.size(); i++)
    if (ranges[i].start != reinterpret_cast<uintptr_t>(state_.calls.address(boundary_[i]))) check_reachable(ranges[i]);
}

void flowloom_model::bind(const void* const* inputs, void* const* outputs) {
  const size_t count = tensors(Kind::input).size();
  std::vector<bool> stale(plan.tasks.count);
  for (size_t i = 0; i < boundary_.size(); i++) {
    const void* const place = i < count ? inputs[i] : outputs[i - count];
    if (state_.calls.move(boundary_[i], static_cast<char*>(const_cast<void*>(place))))
      for (size_t task : state_.calls.users(boundary_[i])) stale[task] = true;
  }
  if (!runner_) {
    runner_ = make_runner(state_.calls, mode_);  // with these places in its nodes
    return;
  }
  for (size_t task = 0; task < stale.size(); task++)
    if (stale[task]) runner_->update(task);
}

void flowloom_model::queue(gpuStream_t stream) {
  if (ran_ && stream != last_stream_) check(gpuStreamWaitEvent(stream, last_.get()), "waiting for the last run");
  runner_->run(stream);
  check(gpuEventRecord(last_.get(), stream), "recording an event");
  last_stream_ = stream, ran_ = true;
}

void flowloom_model::run(const void* const* inputs, void* const* outputs, gpuStream_t stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  use_device();
  check_places(inputs, outputs);
  bind(inputs, outputs);
  queue(stream);
}

void flowloom_model::run_host(const void* const* inputs, void* const* outputs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  use_device();
  if (!staging_) staging_ = std::make_unique<Staging>(allocator());
  const std::vector<char*>& places = staging_->places;
  const size_t count = tensors(Kind::input).size();
  const std::vector<const void*> sources(places.begin(), places.begin() + static_cast<std::ptrdiff_t>(count));
  const std::vector<void*> results(places.begin() + static_cast<std::ptrdiff_t>(count), places.end());
  const gpuStream_t stream = own_stream_.get();
  wait();
  for (size_t i = 0; i < count; i++) check_given(tensors(Kind::input)[i], inputs[i]);
  for (size_t i = 0; i < results.size(); i++) check_given(tensors(Kind::output)[i], outputs[i]);
  for (size_t i = 0; i < count; i++)
    check(gpuMemcpyAsync(places[i], inputs[i], tensors(Kind::input)[i].bytes, stream), "copying an input");
  bind(sources.data(), results.data());
  queue(stream);
  for (size_t i = 0; i < results.size(); i++)
    check(gpuMemcpyAsync(outputs[i], results[i], tensors(Kind::output)[i].bytes, stream), "copying an output");
  check(gpuStreamSynchronize(stream), "running the model");
}

void flowloom_model::load_weights(const char* path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  use_device();
  wait();
  upload_weights(path, weights_.data(), own_stream_.get());
}
