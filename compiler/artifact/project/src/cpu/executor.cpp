#include "executor.h"

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <iterator>
#include <thread>

#include "cpu/tables.h"

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

namespace flowloom {
namespace {

// The words of an engine, and of the rows whose places are used here; see the structures in executor.c.
constexpr size_t ENGINE_WORDS = 72, ENGINE_SPAN_COUNT = 13, SPAN_WORDS = 5, BINDING_WORDS = 3;
constexpr size_t LAUNCH_FUNCTION = 0, LAUNCH_BUFFERS = 1, LAUNCH_CONTROL = 5, TASK_ORDER = 4;
constexpr size_t CLAIMS = 64;  // of a launch's blocks by each helping thread, that there is place for

struct Release {
  void operator()(int64_t* memory) const { std::free(memory); }
};
using Rows = std::unique_ptr<int64_t, Release>;

// Memory of whole cache lines, full of zeros.
Rows make_rows(size_t words) {
  constexpr size_t LINE = 64;
  const size_t bytes = (std::max<size_t>(1, words) * sizeof(int64_t) + LINE - 1) / LINE * LINE;
  Rows rows(static_cast<int64_t*>(std::aligned_alloc(LINE, bytes)));
  if (!rows) throw std::runtime_error("out of memory: a table needs " + std::to_string(bytes) + " bytes");
  std::fill_n(rows.get(), bytes / sizeof(int64_t), 0);
  return rows;
}

Rows copy(const Words& words) {
  Rows rows = make_rows(words.size());
  std::copy_n(words.first, words.size(), rows.get());
  return rows;
}

template <class T>
int64_t word(T* pointer) {
  return static_cast<int64_t>(reinterpret_cast<intptr_t>(pointer));
}

size_t threads_of(const flowloom_options& options) {
  if (options.threads != 0) return static_cast<size_t>(options.threads);
#if defined(__linux__)
  cpu_set_t processors;
  if (sched_getaffinity(0, sizeof processors, &processors) == 0) return static_cast<size_t>(CPU_COUNT(&processors));
#endif
  return std::max(1U, std::thread::hardware_concurrency());
}

// The threads that work on an engine's runs, beside those that ask for them.
class Team {
 public:
  explicit Team(int64_t* engine) : engine_(engine) { executor_open(engine); }
  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;
  ~Team() {
    executor_close(engine_);
    for (std::thread& worker : workers_) worker.join();
  }
  void add(size_t home) { workers_.emplace_back(executor_work, engine_, static_cast<int64_t>(home)); }

 private:
  int64_t* engine_;
  std::vector<std::thread> workers_;
};

class CpuExecutor : public Executor {
 public:
  CpuExecutor(size_t threads, char* weights, char* arena, bool timed) {
    bind_launches();
    bind_slots(weights, arena);
    span_rows_ = timed ? plan.tasks.count + cpu_plan.launches.rows * (threads - 1) * CLAIMS : 0;
    spans_ = make_rows(span_rows_ * SPAN_WORDS);
    const int64_t head[] = {
        static_cast<int64_t>(threads), static_cast<int64_t>(cpu_plan.streams.rows), bindings_count_,
        word(streams_.get()), word(tasks_.get()), word(launches_.get()), word(waits_.get()),
        word(slots_.get()), word(bindings_.get()), word(places_.get()), word(carries_.get()),
        timed ? word(spans_.get()) : 0, static_cast<int64_t>(span_rows_)};
    std::copy(std::begin(head), std::end(head), engine_.get());
    const size_t streams = std::max<size_t>(1, cpu_plan.streams.rows);
    for (size_t home = 1; home < threads; home++) team_.add(home % streams);
  }

  void run(const std::vector<char*>& places, void* stream) override {
    if (stream != nullptr) throw std::runtime_error("a CPU has no streams: the stream must be NULL");
    std::vector<char*> bases = places;
    engine_.get()[ENGINE_SPAN_COUNT] = 0;
    start_ = cpu_clock();
    executor_run(engine_.get(), bases.data());
  }

  void wait() override {}

  // Spans of helping threads, whose task is negative, lie within that of the thread which they help.
  std::vector<double> times() override {
    const auto count = static_cast<size_t>(engine_.get()[ENGINE_SPAN_COUNT]);
    if (count > span_rows_)
      throw std::runtime_error("there is no place for the times of all blocks: make a model whose threads is 1");
    std::vector<double> times(2 * plan.tasks.count);
    for (size_t i = 0; i < count; i++) {
      const int64_t* const span = spans_.get() + i * SPAN_WORDS;
      if (span[0] < 0) continue;
      const auto task = static_cast<size_t>(cpu_plan.tasks.row(static_cast<size_t>(span[0]))[TASK_ORDER]);
      times[task] = static_cast<double>(span[3] - start_) / 1000;
      times[plan.tasks.count + task] = static_cast<double>(span[4] - start_) / 1000;
    }
    return times;
  }

 private:
  // Numbers of functions, slots and controls become addresses.
  void bind_launches() {
    for (size_t i = 0; i < cpu_plan.launches.rows; i++) {
      int64_t* launch = launches_.get() + i * cpu_plan.launches.width;
      const int64_t function = launch[LAUNCH_FUNCTION], control = launch[LAUNCH_CONTROL];
      launch[LAUNCH_FUNCTION] = function == 0 ? 0 : word(cpu_plan.kernels[function - 1]);
      launch[LAUNCH_BUFFERS] = word(slots_.get() + launch[LAUNCH_BUFFERS]);
      launch[LAUNCH_CONTROL] =
          control == 0 ? 0 : word(controls_.get() + (control - 1) * static_cast<int64_t>(cpu_plan.controls.width));
    }
  }

  // Slots of the caller's arrays are bound anew in each run.
  void bind_slots(char* weights, char* arena) {
    std::vector<int64_t> number(plan.allocations.count);
    int64_t next = 0;
    for (Kind kind : {Kind::input, Kind::output})
      for (size_t i = 0; i < plan.allocations.count; i++)
        if (plan.allocations[i].kind == kind) number[i] = next++;
    std::vector<int64_t> bindings;
    for (size_t slot = 0; slot < cpu_plan.slots.rows; slot++) {
      const int64_t owner = cpu_plan.slots.row(slot)[0], offset = cpu_plan.slots.row(slot)[1];
      if (owner < 0) continue;
      const Allocation& allocation = plan.allocations[static_cast<size_t>(owner)];
      if (allocation.kind == Kind::input || allocation.kind == Kind::output)
        bindings.insert(bindings.end(), {static_cast<int64_t>(slot), number[static_cast<size_t>(owner)], offset});
      else
        slots_.get()[slot] = word((allocation.kind == Kind::weight ? weights : arena) + allocation.offset + offset);
    }
    bindings_count_ = static_cast<int64_t>(bindings.size() / BINDING_WORDS);
    bindings_ = copy({bindings.data(), bindings.size(), 1});
  }

  Rows streams_ = copy(cpu_plan.streams), tasks_ = copy(cpu_plan.tasks), launches_ = copy(cpu_plan.launches);
  Rows waits_ = copy(cpu_plan.waits), places_ = copy(cpu_plan.places), carries_ = copy(cpu_plan.carries);
  Rows controls_ = copy(cpu_plan.controls), slots_ = make_rows(cpu_plan.slots.rows), bindings_, spans_;
  Rows engine_ = make_rows(ENGINE_WORDS);
  int64_t bindings_count_ = 0, start_ = 0;
  size_t span_rows_ = 0;
  Team team_{engine_.get()};
};

}  // namespace

std::unique_ptr<Executor> make_executor(const flowloom_options& options, char* weights, char* arena, bool timed) {
  return std::make_unique<CpuExecutor>(threads_of(options), weights, arena, timed);
}

std::vector<flowloom_options> ways_of(const flowloom_options& options) {
  std::vector<flowloom_options> ways{options, options};
  ways[0].threads = 1;
  return ways;
}

std::string name_of_way(const flowloom_options& options) {
  const size_t threads = threads_of(options);
  return std::to_string(threads) + (threads == 1 ? " thread" : " threads");
}

}  // namespace flowloom
