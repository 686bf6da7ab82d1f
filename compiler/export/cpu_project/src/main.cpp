// Checks the model against stored inputs and outputs, on one thread and on several, and prints its latency.
//
// Exit status: 0, 1 for wrong results or an error, 77 where the CPU lacks what the kernels need.
#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <memory>

#include "comparison.h"
#include "plan.h"

#ifndef FLOWLOOM_DATA
#define FLOWLOOM_DATA "."
#endif

using namespace flowloom;

namespace {

constexpr int SKIPPED = 77, REPEATS = 4, POISON = 0xFF;

struct Settings {
  std::string data = FLOWLOOM_DATA;
  int threads = 0, runs = 50;
};

[[noreturn]] void usage(const char* program) {
  std::printf("%s [--data DIR] [--threads N] [--runs N]\n", program);
  std::exit(1);
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
    if (option == "--data") settings.data = arguments[i + 1];
    else if (option == "--threads") settings.threads = parse_number(arguments[i + 1], arguments[0]);
    else if (option == "--runs") settings.runs = parse_number(arguments[i + 1], arguments[0]);
    else usage(arguments[0]);
  }
  return settings;
}

void check(int status) {
  if (status != 0) throw std::runtime_error(flowloom_error());
}

struct Destroy {
  void operator()(flowloom_model* model) const { flowloom_destroy(model); }
};
using Model = std::unique_ptr<flowloom_model, Destroy>;

Model make(const Settings& settings, int threads) {
  const std::string weights = settings.data + "/weights.bin";
  flowloom_options options = flowloom_default_options(weights.c_str());
  options.threads = threads;
  flowloom_model* model = nullptr;
  check(flowloom_create(&model, &options));
  return Model(model);
}

class Program {
 public:
  explicit Program(const Settings& settings)
      : settings_(settings), outputs_(tensors(flowloom_output_count(), flowloom_output)) {
    const Tensors inputs = tensors(flowloom_input_count(), flowloom_input);
    stored_ = read_arrays(settings.data + "/check/inputs.bin", inputs);
    expected_ = read_arrays(settings.data + "/check/outputs.bin", outputs_);
    if (stored_.empty()) stored_ = zeros(inputs);
  }

  // Whether one thread and several give the stored outputs, and the same bits each time.
  bool passes() {
    if (expected_.empty() && !outputs_.empty())
      std::printf("nothing to compare with: export with --check MODEL.onnx for stored outputs\n");
    const Model alone = make(settings_, 1), several = make(settings_, settings_.threads);
    const std::vector<Bytes> first = results(alone.get());
    bool passed = report(first);
    for (int again = 0; again < REPEATS; again++)
      if (results(several.get()) != first) std::printf("FAIL several threads give other bits than one\n"), passed = false;
    return passed;
  }

  void time() {
    const Model model = make(settings_, settings_.threads);
    results(model.get());
    std::vector<double> samples;
    for (int i = 0; i < settings_.runs; i++) {
      const auto start = std::chrono::steady_clock::now();
      results(model.get());
      samples.push_back(std::chrono::duration<double, std::micro>(std::chrono::steady_clock::now() - start).count());
    }
    std::sort(samples.begin(), samples.end());
    std::printf("%s: latency %.1f us (median of %d)\n", flowloom_version(), samples[samples.size() / 2], settings_.runs);
  }

 private:
  // The outputs of one run, which start as NaN.
  std::vector<Bytes> results(flowloom_model* model) {
    std::vector<Bytes> results = zeros(outputs_);
    std::vector<const void*> from;
    std::vector<void*> to;
    for (const Bytes& array : stored_) from.push_back(array.data());
    for (Bytes& array : results) {
      std::fill(array.begin(), array.end(), static_cast<char>(POISON));
      to.push_back(array.data());
    }
    check(flowloom_run_host(model, from.data(), to.data()));
    return results;
  }

  bool report(const std::vector<Bytes>& results) {
    bool passed = true;
    for (size_t i = 0; i < expected_.size(); i++) {
      const double error = relative_error(*outputs_[i], results[i], expected_[i]);
      const bool good = error <= plan.tolerance;
      std::printf("%s %s: relative error %.3g, at most %.3g allowed\n", good ? "ok  " : "FAIL", outputs_[i]->name, error,
                  plan.tolerance);
      passed = passed && good;
    }
    return passed;
  }

  Settings settings_;
  Tensors outputs_;
  std::vector<Bytes> stored_, expected_;
};

}  // namespace

int main(int count, char** arguments) {
  const Settings settings = parse(count, arguments);
  if (const char* feature = plan.missing()) {
    std::printf("skipped: this CPU does not have %s\n", feature);
    return SKIPPED;
  }
  try {
    Program program(settings);
    if (!program.passes()) return 1;
    if (settings.runs != 0) program.time();
    return 0;
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return 1;
  }
}
