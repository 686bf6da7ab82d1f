#include "model.h"

using namespace flowloom;

namespace {

constexpr uintptr_t ARRAY_ALIGNMENT = 16;

const flowloom_options& checked(const flowloom_options& options) {
  const int mode = static_cast<int>(options.mode);
  if (mode < FLOWLOOM_GRAPH || mode > FLOWLOOM_STREAMS) throw std::runtime_error("unknown mode " + std::to_string(mode));
  if (options.threads < 0)
    throw std::runtime_error("threads is " + std::to_string(options.threads) + ": it must be at least 1, or 0 for all");
  return options;
}

// The bytes that an array of the caller takes in this run.
struct Range {
  uintptr_t start, end;
  const char* name;
};

Range range_of(const flowloom_tensor& tensor, const void* data) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(data);
  if (start % ARRAY_ALIGNMENT != 0 || (data == nullptr && tensor.bytes != 0))
    throw std::runtime_error(std::string(tensor.name) + " is not device memory aligned to 16 bytes");
  return {start, start + tensor.bytes, tensor.name};
}

void check_overlap(const std::vector<Range>& ranges, size_t inputs) {
  for (size_t out = inputs; out < ranges.size(); out++)
    for (size_t other = 0; other < out; other++)
      if (ranges[out].start < ranges[other].end && ranges[other].start < ranges[out].end)
        throw std::runtime_error(std::string("output ") + ranges[out].name + " overlaps " + ranges[other].name +
                                 ": give it separate memory");
}

std::vector<char*> joined(const void* const* inputs, void* const* outputs) {
  std::vector<char*> places;
  for (size_t i = 0; i < tensors(Kind::input).size(); i++)
    places.push_back(static_cast<char*>(const_cast<void*>(inputs[i])));
  for (size_t i = 0; i < tensors(Kind::output).size(); i++) places.push_back(static_cast<char*>(outputs[i]));
  return places;
}

size_t staging_bytes() {
  size_t total = 0;
  for (const flowloom_tensor& tensor : callers_tensors()) total += padded(tensor.bytes);
  return total;
}

}  // namespace

flowloom_model::Staging::Staging(const Device& device, const flowloom_allocator* allocator)
    : block(device, allocator, staging_bytes(), "the copy of inputs and outputs") {
  char* at = block.data();
  for (const flowloom_tensor& tensor : callers_tensors()) places.push_back(at), at += padded(tensor.bytes);
}

flowloom_model::flowloom_model(const flowloom_options& options)
    : options_(checked(options)),
      own_allocator_(options.allocator != nullptr),
      allocator_(own_allocator_ ? *options.allocator : flowloom_allocator{}),
      device_(open_device(options.device)),
      weights_(*device_, allocator(), plan.weight_bytes, "the weights"),
      arena_(*device_, allocator(), plan.arena_bytes, "the arena"),
      executor_(make_executor(options_, weights_.data(), arena_.data(), false)) {
  upload_weights(options.weights, *device_, weights_.data());
  options_.weights = nullptr, options_.allocator = nullptr;  // the caller's until here
}

void flowloom_model::check_places(const std::vector<char*>& places) const {
  std::vector<Range> ranges;
  for (size_t i = 0; i < places.size(); i++) ranges.push_back(range_of(callers_tensors()[i], places[i]));
  check_overlap(ranges, tensors(Kind::input).size());
  for (size_t i = 0; i < places.size(); i++)
    if ((places_.empty() || places[i] != places_[i]) && ranges[i].start != ranges[i].end && !device_->reaches(places[i]))
      throw std::runtime_error(std::string(ranges[i].name) +
                               " is not in device memory: copy it there, or call flowloom_run_host");
}

void flowloom_model::run(const void* const* inputs, void* const* outputs, void* stream) {
  const std::lock_guard<std::mutex> lock(mutex_);
  device_->use();
  const std::vector<char*> places = joined(inputs, outputs);
  check_places(places);
  executor_->run(places, stream);
  places_ = places;
}

void flowloom_model::run_host(const void* const* inputs, void* const* outputs) {
  const std::vector<char*> arrays = joined(inputs, outputs);
  for (size_t i = 0; i < arrays.size(); i++)
    if (arrays[i] == nullptr && callers_tensors()[i].bytes != 0)
      throw std::runtime_error(std::string(callers_tensors()[i].name) + " is NULL");
  if (device_->is_host()) return run(inputs, outputs, nullptr);
  const std::lock_guard<std::mutex> lock(mutex_);
  device_->use();
  if (!staging_) staging_ = std::make_unique<Staging>(*device_, allocator());
  const size_t count = tensors(Kind::input).size();
  executor_->wait();
  for (size_t i = 0; i < count; i++) device_->copy(staging_->places[i], arrays[i], callers_tensors()[i].bytes);
  executor_->run(staging_->places, device_->stream());
  places_ = staging_->places;
  for (size_t i = count; i < arrays.size(); i++) device_->copy(arrays[i], staging_->places[i], callers_tensors()[i].bytes);
  device_->wait();
}

void flowloom_model::load_weights(const char* path) {
  const std::lock_guard<std::mutex> lock(mutex_);
  device_->use();
  executor_->wait();
  upload_weights(path, *device_, weights_.data());
}
