#include <algorithm>

#include "model.h"

using namespace flowloom;

namespace {

constexpr int POISON = 0xFF, WARM_UP = 3;  // NaN of every floating-point type

std::string quoted(const char* text) {
  std::string result = "\"";
  for (; *text != '\0'; text++) {
    if (*text == '"' || *text == '\\') result += '\\';
    result += *text;
  }
  return result + '"';
}

std::string as_json(const std::vector<double>& times) {
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

double length(const std::vector<double>& times) { return times.empty() ? 0 : *std::max_element(times.begin(), times.end()); }

}  // namespace

std::string flowloom_model::profile(int runs) {
  const std::lock_guard<std::mutex> lock(mutex_);
  device_->use();
  executor_->wait();
  const Memory arena(*device_, allocator(), plan.arena_bytes, "the arena of the profile");
  const Staging staging(*device_, allocator());
  for (const Memory* memory : {&arena, &staging.block})
    if (memory->bytes() != 0) device_->fill(memory->data(), POISON, memory->bytes());
  for (size_t i = 0; i < tensors(Kind::input).size(); i++)  // zeros are valid indices
    if (tensors(Kind::input)[i].bytes != 0) device_->fill(staging.places[i], 0, tensors(Kind::input)[i].bytes);
  const std::unique_ptr<Executor> timed = make_executor(options_, weights_.data(), arena.data(), true);
  std::vector<std::vector<double>> samples;
  for (int i = -WARM_UP; i < runs; i++) {
    timed->run(staging.places, device_->stream());
    device_->wait();
    if (i >= 0) samples.push_back(timed->times());
  }
  std::sort(samples.begin(), samples.end(), [](const auto& a, const auto& b) { return length(a) < length(b); });
  return as_json(samples[samples.size() / 2]);
}
