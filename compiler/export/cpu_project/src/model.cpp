#include "model.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <stdexcept>

#include "weights_file.h"

#if defined(__linux__)
#include <sched.h>
#endif

// The executor, and the two functions that it expects of its host.
extern "C" {
void executor_open(void* engine);
void executor_run(void* engine, char** bases);
void executor_work(void* engine, int64_t home);
void executor_close(void* engine);

void cpu_pause(void) {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  __asm__ __volatile__("yield");
#endif
}

int64_t cpu_clock(void) {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch()).count();
}
}

using namespace flowloom;

namespace {

// The words of an engine, and of the rows whose places are used here; see the structures in executor.c.
constexpr size_t ENGINE_WORDS = 72, LAUNCH_FUNCTION = 0, LAUNCH_BUFFERS = 1, LAUNCH_CONTROL = 5, BINDING_WORDS = 3;
constexpr uintptr_t ARRAY_ALIGNMENT = 16;

template <class T>
std::unique_ptr<T, Release> allocate(size_t count, const char* purpose) {
  const size_t bytes = (std::max<size_t>(1, count) * sizeof(T) + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
  void* memory = std::aligned_alloc(ALIGNMENT, bytes);
  if (memory == nullptr)
    throw std::runtime_error("out of memory: " + std::string(purpose) + " needs " + std::to_string(bytes) + " bytes");
  return std::unique_ptr<T, Release>(static_cast<T*>(memory));
}

Table copy(const Words& words) {
  Table table = allocate<int64_t>(words.size(), "a table");
  std::copy(words.first, words.first + words.size(), table.get());
  return table;
}

template <class T>
int64_t word(T* pointer) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer));
}

bool is_callers(const Allocation& allocation) { return allocation.kind == Kind::input || allocation.kind == Kind::output; }

size_t usable_threads() {
#if defined(__linux__)
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof processors, &processors) == 0) return static_cast<size_t>(CPU_COUNT(&processors));
#endif
  return std::max(1U, std::thread::hardware_concurrency());
}

size_t checked_threads(int asked) {
  if (asked < 0) throw std::runtime_error("threads is " + std::to_string(asked) + ": it must be at least 1, or 0 for all");
  return asked == 0 ? usable_threads() : static_cast<size_t>(asked);
}

struct Range {
  uintptr_t start, end;
  const char* name;
};

Range range_of(const Allocation& allocation, const void* data) {
  const uintptr_t start = reinterpret_cast<uintptr_t>(data);
  if (start % ARRAY_ALIGNMENT != 0 || (data == nullptr && allocation.bytes != 0))
    throw std::runtime_error(std::string(allocation.name) + " is not memory aligned to 16 bytes");
  return {start, start + allocation.bytes, allocation.name};
}

void check_overlap(const std::vector<Range>& ranges, size_t inputs) {
  for (size_t out = inputs; out < ranges.size(); out++)
    for (size_t other = 0; other < out; other++)
      if (ranges[out].start < ranges[other].end && ranges[other].start < ranges[out].end)
        throw std::runtime_error(std::string("output ") + ranges[out].name + " overlaps " + ranges[other].name +
                                 ": give it separate memory");
}

}  // namespace

namespace flowloom {

void Release::operator()(void* memory) const { std::free(memory); }

const std::vector<flowloom_tensor>& tensors(Kind kind) {
  const auto collect = [](Kind wanted) {
    std::vector<flowloom_tensor> found;
    for (const Allocation* each = plan.allocations; each < plan.allocations + plan.allocation_count; each++)
      if (each->kind == wanted) found.push_back({each->name, each->dtype, each->shape.begin(), each->shape.size(), each->bytes});
    return found;
  };
  static const std::vector<flowloom_tensor> inputs = collect(Kind::input), outputs = collect(Kind::output);
  return kind == Kind::input ? inputs : outputs;
}

}  // namespace flowloom

flowloom_model::flowloom_model(const flowloom_options& options) {
  const size_t threads = checked_threads(options.threads);
  if (const char* feature = plan.missing())
    throw std::runtime_error("this CPU does not have " + std::string(feature) + ", which kernels for " + plan.version +
                             " use: compile the model for an older one");
  weights_ = allocate<char>(plan.weight_bytes, "the block of weights");
  read_image(open_weights(options.weights), weights_.get(), plan.weight_bytes);
  arena_ = allocate<char>(plan.arena_bytes, "the arena");
  bind(threads);
  executor_open(engine_.get());
  const size_t streams = std::max<size_t>(1, plan.streams.rows);
  for (size_t home = 1; home < threads; home++)
    team_.emplace_back(executor_work, engine_.get(), static_cast<int64_t>(home % streams));
}

flowloom_model::~flowloom_model() {
  if (engine_) executor_close(engine_.get());
  for (std::thread& worker : team_) worker.join();
}

// Makes the engine's tables of the plan's: numbers of functions, slots and controls become addresses.
void flowloom_model::bind(size_t threads) {
  streams_ = copy(plan.streams), tasks_ = copy(plan.tasks), launches_ = copy(plan.launches), waits_ = copy(plan.waits);
  places_ = copy(plan.places), carries_ = copy(plan.carries), controls_ = copy(plan.controls);
  slots_ = allocate<int64_t>(plan.slots.rows, "a table");
  for (size_t i = 0; i < plan.launches.rows; i++) {
    int64_t* launch = launches_.get() + i * plan.launches.width;
    const int64_t function = launch[LAUNCH_FUNCTION], control = launch[LAUNCH_CONTROL];
    launch[LAUNCH_FUNCTION] = function == 0 ? 0 : word(plan.kernels[function - 1]);
    launch[LAUNCH_BUFFERS] = word(slots_.get() + launch[LAUNCH_BUFFERS]);
    launch[LAUNCH_CONTROL] = control == 0 ? 0 : word(controls_.get() + (control - 1) * static_cast<int64_t>(plan.controls.width));
  }
  std::vector<int64_t> number(plan.allocation_count);
  for (Kind kind : {Kind::input, Kind::output})
    for (size_t i = 0; i < plan.allocation_count; i++)
      if (plan.allocations[i].kind == kind) number[i] = static_cast<int64_t>(changing_.size()), changing_.push_back(i);
  std::vector<int64_t> bindings;
  for (size_t slot = 0; slot < plan.slots.rows; slot++) {
    const int64_t owner = plan.slots.first[2 * slot], offset = plan.slots.first[2 * slot + 1];
    slots_.get()[slot] = 0;
    if (owner < 0) continue;
    const Allocation& allocation = plan.allocations[owner];
    if (is_callers(allocation))
      bindings.insert(bindings.end(), {static_cast<int64_t>(slot), number[static_cast<size_t>(owner)], offset});
    else
      slots_.get()[slot] = word((allocation.kind == Kind::weight ? weights_ : arena_).get() + allocation.offset + offset);
  }
  bindings_ = copy({bindings.data(), bindings.size() / BINDING_WORDS, BINDING_WORDS});
  engine_ = allocate<int64_t>(ENGINE_WORDS, "the engine");
  std::fill_n(engine_.get(), ENGINE_WORDS, 0);
  const int64_t head[] = {static_cast<int64_t>(threads),
                          static_cast<int64_t>(plan.streams.rows),
                          static_cast<int64_t>(bindings.size() / BINDING_WORDS),
                          word(streams_.get()), word(tasks_.get()), word(launches_.get()), word(waits_.get()),
                          word(slots_.get()), word(bindings_.get()), word(places_.get()), word(carries_.get())};
  std::copy(std::begin(head), std::end(head), engine_.get());
}

void flowloom_model::run(const void* const* inputs, void* const* outputs) {
  const size_t count = tensors(Kind::input).size();
  std::vector<Range> ranges;
  std::vector<char*> bases;
  for (size_t i = 0; i < changing_.size(); i++) {
    const void* data = i < count ? inputs[i] : outputs[i - count];
    ranges.push_back(range_of(plan.allocations[changing_[i]], data));
    bases.push_back(static_cast<char*>(const_cast<void*>(data)));
  }
  check_overlap(ranges, count);
  const std::lock_guard<std::mutex> alone(running_);
  executor_run(engine_.get(), bases.data());
}
