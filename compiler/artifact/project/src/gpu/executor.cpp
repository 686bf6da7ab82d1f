#include "executor.h"

#include "gpu/graphs.h"

namespace flowloom {
namespace {

constexpr const char* MODES[] = {"graph", "subgraphs", "streams"};

std::vector<char*> initial_addresses(char* weights, char* arena) {
  std::vector<char*> addresses;
  for (const Allocation& each : plan.allocations)
    addresses.push_back(each.kind == Kind::weight  ? weights + each.offset
                        : each.kind == Kind::arena ? arena + each.offset
                                                   : nullptr);
  return addresses;
}

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
  std::vector<double> times() const {
    std::vector<double> times;
    for (const auto* events : {&starts_, &ends_})
      for (const Event& event : *events) times.push_back(elapsed(origin_, event));
    return times;
  }

 private:
  Event origin_;
  std::vector<Event> starts_, ends_;
};

class GpuExecutor : public Executor {
 public:
  GpuExecutor(const flowloom_options& options, char* weights, char* arena, bool timed)
      : device_(options.device), mode_(options.mode), calls_(initial_addresses(weights, arena)), last_(make_event()) {
    if (timed) stopwatch_ = std::make_unique<Stopwatch>();
    for (Kind kind : {Kind::input, Kind::output})
      for (size_t i = 0; i < plan.allocations.count; i++)
        if (plan.allocations[i].kind == kind) callers_.push_back(i);
  }
  ~GpuExecutor() override {
    if (gpuSetDevice(device_) == gpuSuccess && ran_) static_cast<void>(gpuEventSynchronize(last_.get()));
  }

  void run(const std::vector<char*>& places, void* on) override {
    const auto stream = static_cast<gpuStream_t>(on);
    bind(places);
    if (ran_ && stream != last_stream_) check(gpuStreamWaitEvent(stream, last_.get()), "waiting for the last run");
    if (stopwatch_) stopwatch_->begin(stream);
    runner_->run(stream);
    check(gpuEventRecord(last_.get(), stream), "recording an event");
    last_stream_ = stream, ran_ = true;
  }

  void wait() override {
    if (ran_) check(gpuEventSynchronize(last_.get()), "waiting for the last run");
  }

  std::vector<double> times() override { return stopwatch_->times(); }

 private:
  void bind(const std::vector<char*>& places) {
    std::vector<bool> stale(plan.tasks.count);
    for (size_t i = 0; i < callers_.size(); i++)
      if (calls_.move(callers_[i], places[i]))
        for (size_t task : calls_.users(callers_[i])) stale[task] = true;
    if (!runner_) {  // with these places in its nodes
      runner_ = stopwatch_ ? make_observed(calls_, *stopwatch_) : make_runner(calls_, mode_);
      return;
    }
    for (size_t task = 0; task < stale.size(); task++)
      if (stale[task]) runner_->update(task);
  }

  int device_;
  flowloom_mode mode_;
  std::vector<size_t> callers_;  // the allocations of inputs, then outputs
  Calls calls_;
  std::unique_ptr<Stopwatch> stopwatch_;
  std::unique_ptr<Runner> runner_;  // from the first run on
  Event last_;
  gpuStream_t last_stream_{};
  bool ran_ = false;
};

}  // namespace

std::unique_ptr<Executor> make_executor(const flowloom_options& options, char* weights, char* arena, bool timed) {
  return std::make_unique<GpuExecutor>(options, weights, arena, timed);
}

std::vector<flowloom_options> ways_of(const flowloom_options& options) {
  std::vector<flowloom_options> ways;
  for (flowloom_mode mode : {FLOWLOOM_GRAPH, FLOWLOOM_SUBGRAPHS, FLOWLOOM_STREAMS})
    ways.push_back(options), ways.back().mode = mode;
  return ways;
}

std::string name_of_way(const flowloom_options& options) { return MODES[options.mode]; }

}  // namespace flowloom
