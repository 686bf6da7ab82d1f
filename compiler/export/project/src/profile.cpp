#include <algorithm>

#include "model.h"

using namespace flowloom;

namespace {

constexpr int POISON = 0xFF;  // NaN of every floating-point type

// Timing events around every task of a run in mode `streams`.
class Stopwatch : public Observer {
 public:
  Stopwatch() : origin_(make_event(true)) {
    for (size_t i = 0; i < plan.tasks.count; i++) starts_.push_back(make_event(true)), ends_.push_back(make_event(true));
  }
  void begin(gpuStream_t stream) { check(gpuEventRecord(origin_.get(), stream), "recording an event"); }
  void before(size_t task, gpuStream_t stream) override {
    check(gpuEventRecord(starts_[task].get(), stream), "recording an event");
  }
  void after(size_t task, gpuStream_t stream) override {
    check(gpuEventRecord(ends_[task].get(), stream), "recording an event");
  }
  // Microseconds of starts, then ends, from the origin.
  std::vector<float> times() const {
    std::vector<float> found;
    for (const auto* events : {&starts_, &ends_})
      for (const Event& event : *events) {
        float milliseconds = 0;
        check(gpuEventElapsedTime(&milliseconds, origin_.get(), event.get()), "reading a time");
        found.push_back(milliseconds * 1000);
      }
    return found;
  }

 private:
  Event origin_;
  std::vector<Event> starts_, ends_;
};

std::string quoted(const char* text) {
  std::string result = "\"";
  for (; *text != '\0'; text++) {
    if (*text == '"' || *text == '\\') result += '\\';
    result += *text;
  }
  return result + '"';
}

std::string as_json(const std::vector<float>& times) {
  std::string text = "{\"model\": " + quoted(plan.version) + ", \"unit\": \"us\", \"tasks\": [\n";
  const size_t count = plan.tasks.count;
  for (size_t i = 0; i < count; i++) {
    const Task& task = plan.tasks[i];
    text += " {\"kernel\": " + quoted(task.kernel) + ", \"nodes\": " + quoted(task.nodes);
    text += ", \"stream\": " + std::to_string(task.stream) + ", \"start\": " + std::to_string(times[i]);
    text += ", \"end\": " + std::to_string(times[count + i]) + (i + 1 < count ? "},\n" : "}\n");
  }
  return text + "]}\n";
}

}  // namespace

std::string flowloom_model::profile(int runs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  use_device();
  wait();
  State state(allocator(), weights_.data());
  Staging staging(allocator());
  const gpuStream_t stream = own_stream_.get();
  for (const Memory* memory : std::initializer_list<const Memory*>{&state.arena, &staging.block})
    if (memory->bytes() != 0) check(gpuMemsetAsync(memory->data(), POISON, memory->bytes(), stream), "poisoning");
  for (size_t i = 0; i < tensors(Kind::input).size(); i++)  // zeros are valid indices
    if (tensors(Kind::input)[i].bytes != 0)
      check(gpuMemsetAsync(staging.places[i], 0, tensors(Kind::input)[i].bytes, stream), "filling an input");
  size_t next = 0;
  for (Kind kind : {Kind::input, Kind::output})
    for (size_t i = 0; i < plan.allocations.count; i++)
      if (plan.allocations[i].kind == kind) state.calls.move(i, staging.places[next++]);
  Stopwatch stopwatch;
  const std::unique_ptr<Runner> runner = make_observed(state.calls, stopwatch);
  std::vector<std::vector<float>> samples;
  for (int i = -3; i < runs; i++) {
    stopwatch.begin(stream);
    runner->run(stream);
    check(gpuStreamSynchronize(stream), "running the model");
    if (i >= 0) samples.push_back(stopwatch.times());
  }
  const auto last = [](const std::vector<float>& times) { return *std::max_element(times.begin(), times.end()); };
  std::sort(samples.begin(), samples.end(), [&](const auto& a, const auto& b) { return last(a) < last(b); });
  return as_json(samples[samples.size() / 2]);
}
