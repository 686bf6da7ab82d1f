// Times the model, checks it against stored inputs and outputs in all modes, on memory full of NaN, and
// prints its latency. With `--check once` each mode runs once, with `--check no` no mode is checked. With
// `--runs 0` nothing is timed: the model runs once more if it is not checked.
//
// Exit status: 0, 1 for wrong results or an error, 77 where there is no device.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <iterator>

#include "comparison.h"
#include "device.h"
#include "flowloom/model.hpp"
#include "plan.h"

#ifndef FLOWLOOM_DATA
#define FLOWLOOM_DATA "."
#endif

using namespace flowloom;

namespace {

constexpr int SKIPPED = 77, WARM_UP = 20, POISON = 0xFF;
constexpr size_t ALIGNMENT = 256;

enum class Check { no, once, yes };

struct Settings {
  std::string data = FLOWLOOM_DATA, profile;
  flowloom_mode mode = plan.mode;
  int device = 0, runs = 200;
  Check check = Check::yes;
};

constexpr const char* MODES[] = {"graph", "subgraphs", "streams"};

[[noreturn]] void usage(const char* program) {
  std::printf("%s [--data DIR] [--mode graph|subgraphs|streams] [--check yes|once|no] [--runs N] [--device N] [--profile FILE.json]\n", program);
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
    else if (option == "--device") settings.device = parse_number(value, arguments[0]);
    else if (option == "--mode" && mode != std::end(MODES)) settings.mode = static_cast<flowloom_mode>(mode - MODES);
    else usage(arguments[0]);
  }
  return settings;
}

// Device memory of several arrays.
struct Arrays {
  explicit Arrays(const Tensors& kinds) : block(nullptr, size(kinds), "the self-check") {
    char* at = block.data();
    for (const flowloom_tensor* tensor : kinds) places.push_back(at), at += padded(tensor->bytes);
  }
  static size_t padded(size_t bytes) { return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT; }
  static size_t size(const Tensors& kinds) {
    size_t total = 0;
    for (const flowloom_tensor* tensor : kinds) total += padded(tensor->bytes);
    return total;
  }
  Memory block;
  std::vector<void*> places;
};

// Memory that starts as NaN, so that what nobody wrote shows.
void* allocate_poisoned(void*, size_t bytes) {
  void* memory = nullptr;
  if (gpuMalloc(&memory, bytes) != gpuSuccess) return nullptr;
  const Stream stream = make_stream();
  check(gpuMemsetAsync(memory, POISON, bytes, stream.get()), "poisoning memory");
  check(gpuStreamSynchronize(stream.get()), "poisoning memory");
  return memory;
}
void release(void*, void* memory) { static_cast<void>(gpuFree(memory)); }
constexpr flowloom_allocator POISONED{allocate_poisoned, release, nullptr};

double microseconds() {
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return std::chrono::duration<double, std::micro>(now).count();
}

double median(std::vector<double> samples) {
  std::sort(samples.begin(), samples.end());
  return samples[samples.size() / 2];
}

class Program {
 public:
  explicit Program(const Settings& settings)
      : settings_(settings), inputs_(tensors(flowloom_input_count(), flowloom_input)),
        outputs_(tensors(flowloom_output_count(), flowloom_output)),
        stored_(read_arrays(settings.data + "/check/inputs.bin", inputs_)),
        expected_(read_arrays(settings.data + "/check/outputs.bin", outputs_)),
        in_(inputs_), out_(outputs_), stream_(make_stream()) {
    if (settings.check != Check::no && stored_.empty() && !inputs_.empty() && !expected_.empty())
      throw std::runtime_error("there is no " + settings.data + "/check/inputs.bin for outputs.bin: export again with --check MODEL.onnx");
    const std::vector<Bytes> values = stored_.empty() ? zeros(inputs_) : stored_;
    for (size_t i = 0; i < values.size(); i++)
      check(gpuMemcpyAsync(in_.places[i], values[i].data(), values[i].size(), stream_.get()), "copying an input");
    check(gpuStreamSynchronize(stream_.get()), "copying inputs");
  }

  // Whether all modes give the stored outputs, and the same bits.
  bool passes() {
    if (expected_.empty() && !outputs_.empty())
      std::printf("nothing to compare with: export with --check MODEL.onnx for stored outputs\n");
    bool passed = true;
    std::vector<Bytes> first;
    for (flowloom_mode each : {FLOWLOOM_GRAPH, FLOWLOOM_SUBGRAPHS, FLOWLOOM_STREAMS}) {
      const char* mode = MODES[each];
      Model model = make(each, &POISONED);
      std::vector<Bytes> results;
      for (int again = settings_.check == Check::once; again < 2; again++) {
        results = run_poisoned(model);
        if (first.empty()) first = results;
        passed = report(mode, results) && passed;
        if (results != first) std::printf("FAIL %s: other bits than the first run's\n", mode), passed = false;
      }
      if (settings_.check == Check::yes && host_results(model) != first) std::printf("FAIL %s: other bits from host memory\n", mode), passed = false;
    }
    return passed;
  }

  // What is said of the latency; nothing if there are no runs to time.
  std::string time() {
    if (settings_.runs == 0 && settings_.check != Check::no) return "";
    Model model = make(settings_.mode, nullptr);
    if (settings_.runs == 0) {
      run(model);
      check(gpuStreamSynchronize(stream_.get()), "running the model");
      return "";
    }
    const Event start = make_event(true), end = make_event(true);
    std::vector<double> whole, queued, device;
    for (int i = -WARM_UP; i < settings_.runs; i++) {
      const double before = microseconds();
      run(model);
      const double between = microseconds();
      check(gpuStreamSynchronize(stream_.get()), "running the model");
      if (i >= 0) whole.push_back(microseconds() - before), queued.push_back(between - before);
    }
    for (int i = 0; i < settings_.runs; i++) {
      check(gpuEventRecord(start.get(), stream_.get()), "recording an event");
      run(model);
      check(gpuEventRecord(end.get(), stream_.get()), "recording an event");
      check(gpuStreamSynchronize(stream_.get()), "running the model");
      float milliseconds = 0;
      check(gpuEventElapsedTime(&milliseconds, start.get(), end.get()), "reading a time");
      device.push_back(static_cast<double>(milliseconds) * 1000);
    }
    if (!settings_.profile.empty()) write_profile(model);
    char said[160];
    std::snprintf(said, sizeof said, " %s: latency %.1f us, on the device %.1f us, queued in %.1f us (medians of %d)\n",
                  MODES[settings_.mode], median(whole), median(device), median(queued), settings_.runs);
    return flowloom_version() + std::string(said);
  }

 private:
  Model make(flowloom_mode mode, const flowloom_allocator* allocator) {
    const std::string weights = settings_.data + "/weights.bin";
    flowloom_options options = flowloom_default_options(weights.c_str());
    options.mode = mode, options.device = settings_.device, options.allocator = allocator;
    return Model(options);
  }

  void run(Model& model) { model.run({in_.places.begin(), in_.places.end()}, out_.places, stream_.get()); }

  std::vector<Bytes> run_poisoned(Model& model) {
    for (size_t i = 0; i < outputs_.size(); i++)
      check(gpuMemsetAsync(out_.places[i], POISON, outputs_[i]->bytes, stream_.get()), "poisoning an output");
    run(model);
    std::vector<Bytes> results = zeros(outputs_);
    for (size_t i = 0; i < outputs_.size(); i++)
      check(gpuMemcpyAsync(results[i].data(), out_.places[i], results[i].size(), stream_.get()), "copying an output");
    check(gpuStreamSynchronize(stream_.get()), "running the model");
    return results;
  }

  std::vector<Bytes> host_results(Model& model) {
    const std::vector<Bytes> values = stored_.empty() ? zeros(inputs_) : stored_;
    std::vector<Bytes> results = zeros(outputs_);
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const Bytes& array : values) from.push_back(array.data());
    for (Bytes& array : results) to.push_back(array.data());
    model.run_host(from, to);
    return results;
  }

  bool report(const char* mode, const std::vector<Bytes>& results) {
    bool passed = true;
    for (size_t i = 0; i < expected_.size(); i++) {
      const double error = relative_error(*outputs_[i], results[i], expected_[i]);
      const bool good = error <= plan.tolerance;
      std::printf("%s %s %s: relative error %.3g, at most %.3g allowed\n", good ? "ok  " : "FAIL", mode, outputs_[i]->name,
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
  Tensors inputs_, outputs_;
  std::vector<Bytes> stored_, expected_;
  Arrays in_, out_;
  Stream stream_;
};

}  // namespace

int main(int count, char** arguments) {
  const Settings settings = parse(count, arguments);
  int devices = 0;
  if (gpuGetDeviceCount(&devices) != gpuSuccess || devices == 0) {
    std::printf("skipped: there is no " GPU_PLATFORM " device\n");
    return SKIPPED;
  }
  try {
    check(gpuSetDevice(settings.device), "selecting the device");
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
