// Times the model, checks it against stored inputs and outputs in every way in which it can run (all modes
// of a GPU; one thread of a CPU, and several), on memory full of NaN, and prints its latency. With
// `--check once` it runs once in each way, with `--check no` it is not checked. With `--runs 0` nothing is
// timed: the model runs once more if it is not checked.
//
// Exit status: 0, 1 for wrong results or an error, 77 where no device can run the model.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>
#include <optional>

#include "comparison.h"
#include "executor.h"
#include "flowloom/model.hpp"

#ifndef FLOWLOOM_DATA
#define FLOWLOOM_DATA "."
#endif

using namespace flowloom;

namespace {

constexpr int SKIPPED = 77, WARM_UP = 20, POISON = 0xFF, GPU_RUNS = 200, CPU_RUNS = 50;

enum class Check { no, once, yes };

struct Settings {
  std::string data = FLOWLOOM_DATA, profile;
  flowloom_mode mode = plan.mode;
  int device = 0, threads = 0;
  std::optional<int> runs;
  Check check = Check::yes;
};

constexpr const char* MODES[] = {"graph", "subgraphs", "streams"};

[[noreturn]] void usage(const char* program) {
  std::printf("%s [--data DIR] [--mode graph|subgraphs|streams] [--check yes|once|no] [--threads N] [--runs N] [--device N] [--profile FILE.json]\n", program);
  std::exit(1);
}

Check parse_check(const std::string& value, const char* program) {
  if (value == "no") return Check::no;
  if (value == "once") return Check::once;
  if (value != "yes") usage(program);
  return Check::yes;
}

// A whole number of at least 0.
int parse_number(const char* value, const char* program) {
  int number = 0;
  const char* end = value + std::strlen(value);
  const auto [stop, error] = std::from_chars(value, end, number);
  if (error != std::errc() || stop != end || number < 0) usage(program);
  return number;
}

Settings parse(int count, char** arguments) {
  Settings settings;
  for (int i = 1; i < count; i += 2) {
    const std::string option = arguments[i];
    if (i + 1 == count) usage(arguments[0]);
    const char* value = arguments[i + 1];
    const auto* mode = std::find_if(std::begin(MODES), std::end(MODES), [&](const char* m) { return std::strcmp(m, value) == 0; });
    if (option == "--data") settings.data = value;
    else if (option == "--profile") settings.profile = value;
    else if (option == "--runs") settings.runs = parse_number(value, arguments[0]);
    else if (option == "--check") settings.check = parse_check(value, arguments[0]);
    else if (option == "--threads") settings.threads = parse_number(value, arguments[0]);
    else if (option == "--device") settings.device = parse_number(value, arguments[0]);
    else if (option == "--mode" && mode != std::end(MODES)) settings.mode = static_cast<flowloom_mode>(mode - MODES);
    else usage(arguments[0]);
  }
  return settings;
}

// Device memory of several arrays.
struct Arrays {
  Arrays(const Device& device, const Tensors& kinds) : block(device, nullptr, size(kinds), "the self-check") {
    char* at = block.data();
    for (const flowloom_tensor* tensor : kinds) places.push_back(at), at += padded(tensor->bytes);
  }
  static size_t size(const Tensors& kinds) {
    size_t total = 0;
    for (const flowloom_tensor* tensor : kinds) total += padded(tensor->bytes);
    return total;
  }
  Memory block;
  std::vector<void*> places;
};

// Memory that starts as NaN, so that what nobody wrote shows.
void* allocate_poisoned(void* context, size_t bytes) {
  const Device& device = *static_cast<const Device*>(context);
  void* memory = device.allocate(bytes);
  if (memory != nullptr) device.fill(memory, POISON, bytes), device.wait();
  return memory;
}
void release(void* context, void* memory) { static_cast<const Device*>(context)->release(memory); }

double microseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

std::string in_microseconds(const std::vector<double>& samples) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f us", median(samples));
  return text;
}

class Program {
 public:
  explicit Program(const Settings& settings)
      : settings_(settings), device_(open_device(settings.device)),
        inputs_(tensors(flowloom_input_count(), flowloom_input)),
        outputs_(tensors(flowloom_output_count(), flowloom_output)),
        stored_(read_arrays(settings.data + "/check/inputs.bin", inputs_)),
        expected_(read_arrays(settings.data + "/check/outputs.bin", outputs_)),
        in_(*device_, inputs_), out_(*device_, outputs_) {
    if (settings.check != Check::no && stored_.empty() && !inputs_.empty() && !expected_.empty())
      throw std::runtime_error("there is no " + settings.data + "/check/inputs.bin for outputs.bin: export again with --check MODEL.onnx");
    if (stored_.empty()) stored_ = zeros(inputs_);
    for (size_t i = 0; i < stored_.size(); i++) device_->copy(in_.places[i], stored_[i].data(), stored_[i].size());
    device_->wait();
  }

  // Whether all ways give the stored outputs, and the same bits.
  bool passes() {
    if (expected_.empty() && !outputs_.empty())
      std::printf("nothing to compare with: export with --check MODEL.onnx for stored outputs\n");
    bool passed = true;
    std::vector<Bytes> first;
    const flowloom_allocator poisoned{allocate_poisoned, release, device_.get()};
    for (flowloom_options options : ways_of(chosen())) {
      const std::string way = name_of_way(options);
      options.allocator = &poisoned;
      Model model(options);
      std::vector<Bytes> results;
      for (int again = settings_.check == Check::once; again < 2; again++) {
        results = run_poisoned(model);
        if (first.empty()) first = results;
        passed = report(way.c_str(), results) && passed;
        if (results != first) std::printf("FAIL %s: other bits than the first run's\n", way.c_str()), passed = false;
      }
      if (settings_.check == Check::yes && host_results(model) != first)
        std::printf("FAIL %s: other bits from host memory\n", way.c_str()), passed = false;
    }
    return passed;
  }

  // What is said of the latency; nothing if there are no runs to time.
  std::string time() {
    const int runs = settings_.runs.value_or(device_->is_host() ? CPU_RUNS : GPU_RUNS);
    if (runs == 0 && settings_.check != Check::no) return "";
    Model model(chosen());
    if (runs == 0) {
      run(model);
      device_->wait();
      return "";
    }
    std::vector<double> whole, queued, device;
    for (int i = -std::min(WARM_UP, runs); i < runs; i++) {
      const double before = microseconds();
      run(model);
      const double between = microseconds();
      device_->wait();
      if (i >= 0) whole.push_back(microseconds() - before), queued.push_back(between - before);
    }
    std::string text = flowloom_version() + (" " + name_of_way(chosen())) + ": latency " + in_microseconds(whole);
    if (!device_->is_host()) {
      for (int i = 0; i < runs; i++) device.push_back(device_->time([&] { run(model); }));
      text += ", on the device " + in_microseconds(device) + ", queued in " + in_microseconds(queued);
    }
    if (!settings_.profile.empty()) write_profile(model);
    return text + " (medians of " + std::to_string(runs) + ")\n";
  }

 private:
  flowloom_options chosen() {
    flowloom_options options = Model::default_options(weights_);
    options.mode = settings_.mode, options.device = settings_.device, options.threads = settings_.threads;
    return options;
  }

  void run(Model& model) { model.run({in_.places.begin(), in_.places.end()}, out_.places, device_->stream()); }

  std::vector<Bytes> run_poisoned(Model& model) {
    for (size_t i = 0; i < outputs_.size(); i++) device_->fill(out_.places[i], POISON, outputs_[i]->bytes);
    run(model);
    std::vector<Bytes> results = zeros(outputs_);
    for (size_t i = 0; i < outputs_.size(); i++) device_->copy(results[i].data(), out_.places[i], results[i].size());
    device_->wait();
    return results;
  }

  std::vector<Bytes> host_results(Model& model) {
    std::vector<Bytes> results = zeros(outputs_);
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const Bytes& array : stored_) from.push_back(array.data());
    for (Bytes& array : results) to.push_back(array.data());
    model.run_host(from, to);
    return results;
  }

  bool report(const char* way, const std::vector<Bytes>& results) {
    bool passed = true;
    for (size_t i = 0; i < expected_.size(); i++) {
      const double error = relative_error(*outputs_[i], results[i], expected_[i]);
      const bool good = error <= plan.tolerance;
      std::printf("%s %s %s: relative error %.3g, at most %.3g allowed\n", good ? "ok  " : "FAIL", way, outputs_[i]->name,
                  error, plan.tolerance);
      passed = passed && good;
    }
    return passed;
  }

  void write_profile(Model& model) {
    std::ofstream file(settings_.profile);
    if (!(file << model.profile())) throw std::runtime_error("cannot write " + settings_.profile);
  }

  Settings settings_;
  std::string weights_ = settings_.data + "/weights.bin";
  std::unique_ptr<Device> device_;
  Tensors inputs_, outputs_;
  std::vector<Bytes> stored_, expected_;
  Arrays in_, out_;
};

}  // namespace

int main(int count, char** arguments) {
  const Settings settings = parse(count, arguments);
  const std::string missing = missing_device();
  if (!missing.empty()) {
    std::printf("skipped: %s\n", missing.c_str());
    return SKIPPED;
  }
  try {
    Program program(settings);
    // Plain launches on several streams may leave a GPU in a state in which graphs take a tenth longer.
    const std::string latency = program.time();
    if (settings.check != Check::no && !program.passes()) return 1;
    std::printf("%s", latency.c_str());
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
