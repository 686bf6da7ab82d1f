// Launches: blocks in random order on host threads, and the diagnosis of their faults.
#include "engine.h"

#include <link.h>
#include <pthread.h>

#include <cstdio>
#include <system_error>
#include <thread>

#include "internal.h"

namespace emulator {

struct Search {
  const char* anchor;
  Worker* worker;
};

// Finds this thread's copy of the uninitialised thread-local statics of a kernel: its `__shared__`
// arrays. The emulator's own thread-local variable is initialised, so it is not among them.
static int find_statics(dl_phdr_info* info, size_t, void* data) {
  Search& search = *(Search*)data;
  for (int i = 0; i < info->dlpi_phnum; i++) {
    const auto& segment = info->dlpi_phdr[i];
    char* start = (char*)info->dlpi_tls_data;
    if (segment.p_type != PT_TLS || !start || search.anchor < start || search.anchor >= start + segment.p_memsz) continue;
    search.worker->statics = start + segment.p_filesz;
    search.worker->statics_size = segment.p_memsz - segment.p_filesz;
    return 1;
  }
  return 0;
}

static void work(Worker& worker, Run& run) {
  SignalStack signals(worker.signal_stack.get());
  worker.run = &run;
  pthread_attr_t attributes;
  if (!pthread_getattr_np(pthread_self(), &attributes)) {
    void* bottom;
    pthread_attr_getstack(&attributes, &bottom, &worker.context.size);
    worker.context.bottom = bottom;
    pthread_attr_destroy(&attributes);
  }
  Search search{(const char*)run.launch.kernel->anchor(), &worker};
  dl_iterate_phdr(find_statics, &search);
  if (setjmp(worker.escape) == 0) {
    for (uint64_t i; !run.failed && (i = run.next++) < run.count;) {
      const uint64_t place = (run.first + i * run.stride) % run.count;
      worker.chance = run.launch.seed + place * 0x632be59bd9b4e019ull;
      const Dim n = run.clusters;
      run_cluster(worker, {(unsigned)(place % n.x), (unsigned)(place / n.x % n.y), (unsigned)(place / n.x / n.y)});
    }
  }
  emulator_current = &outside;
  worker.in_fiber = false;
  for (auto& block : worker.blocks)
    for (Fiber& fiber : block->fibers)
      if (fiber.stack) worker.stacks.push_back(fiber.stack), fiber.stack = nullptr;
}

static std::string described(const Worker& worker, const Fiber& fiber, const void* address, const char* verb) {
  const Run& run = *worker.run;
  char text[200];
  for (unsigned i = 0; run.guarded && i < run.launch.kernel->parameters; i++) {
    if (run.launch.indirect && run.guarded->cells[i].pages.holds(address))
      return std::string(verb) + " around or over the pointer of parameter " + std::to_string(i);
    const GuardedCopy& copy = run.guarded->copies[run.guarded->owners[i]];
    if (!copy.pages.holds(address)) continue;
    const char *start = run.guarded->values[i], *end = start + run.launch.extents[i];
    if ((const char*)address >= start && (const char*)address < end)
      return std::string(verb) + " parameter " + std::to_string(i) + " before it waits for the launches before (grid_dependency_wait)";
    const bool after = (const char*)address >= end;
    std::snprintf(text, sizeof text, "%s %td bytes %s parameter %u, which has %zu bytes", verb,
                  after ? (const char*)address - end : start - (const char*)address,
                  after ? "after the end of" : "before the start of", i, run.launch.extents[i]);
    return text;
  }
  if (fiber.block->pages.holds(address)) {
    std::snprintf(text, sizeof text, "%s outside of its %zu bytes of dynamic shared memory", verb, run.launch.shared_bytes);
    return text;
  }
  if (fiber.stack && (const char*)address < fiber.stack && (const char*)address >= fiber.stack - (64 << 10))
    return "needs more than " + std::to_string(STACK >> 10) + " KiB of stack";
  std::snprintf(text, sizeof text, "%s memory outside all buffers, at address %p", verb, address);
  return text;
}

[[noreturn]] static void leave_fiber() { end_fiber(); }
[[noreturn]] static void leave_worker() { std::longjmp(((Fiber*)emulator_current)->block->worker->escape, 1); }

// A fault of a running kernel ends its launch: where execution continues, or nothing for other faults.
bool redirect(const void* address, const char* verb, void (*&function)(), char*& stack) {
  if (emulator_current == &outside) return false;
  Fiber& fiber = *(Fiber*)emulator_current;
  Worker& worker = *fiber.block->worker;
  worker.run->fail(place_of(fiber) + (address ? described(worker, fiber, address, verb) : verb));
  function = worker.in_fiber ? leave_fiber : leave_worker;
  if (worker.in_fiber) stack = fiber.stack + STACK - 4096;
  return true;
}

static uint64_t greatest_divisor(uint64_t a, uint64_t b) { return b ? greatest_divisor(b, a % b) : a; }

static const char* refused(const Launch& launch) {
  const Dim &c = launch.kernel->cluster, &g = launch.grid, &b = launch.block;
  if (launch.warp != 32 && launch.warp != 64) return "a warp has 32 or 64 threads";
  if (!b.x || !b.y || !b.z || (uint64_t)b.x * b.y * b.z > MOST_THREADS) return "a block has 1 to 1024 threads";
  if (g.x % c.x || g.y % c.y || g.z % c.z) return "the grid is not a multiple of the cluster";
  if (launch.shared_bytes > MOST_SHARED) return "a block has at most 256 KiB of dynamic shared memory";
  return nullptr;
}

// Workers that no launch uses now, and stacks that no worker has. A stack and its guard are two mappings,
// of which Linux gives a process 65,530, and guards of 4 GiB would soon use up its 128 TiB of addresses.
static std::mutex idle_mutex;
static std::vector<std::unique_ptr<Worker>>* const idle = new std::vector<std::unique_ptr<Worker>>;
static std::vector<char*>* const idle_stacks = new std::vector<char*>;
const uint64_t MOST_STACKS = 24000;
const size_t STACKS_AT_ONCE = 64, STACK_GUARD = 64 << 20;

char* free_stack() {
  std::lock_guard<std::mutex> lock(idle_mutex);
  if (idle_stacks->empty()) {
    Pages pages(STACKS_AT_ONCE * (STACK + STACK_GUARD));
    for (size_t i = 0; i < STACKS_AT_ONCE; i++) {
      char* stack = pages.start + i * (STACK + STACK_GUARD);
      if (mprotect(stack + STACK, STACK_GUARD, PROT_NONE)) throw std::bad_alloc();
      idle_stacks->push_back(stack);
    }
    pages.start = nullptr;  // they stay for all launches
  }
  char* stack = idle_stacks->back();
  idle_stacks->pop_back();
  return stack;
}

static std::unique_ptr<Worker> take_worker() {
  std::lock_guard<std::mutex> lock(idle_mutex);
  if (idle->empty()) return std::unique_ptr<Worker>(new Worker);
  std::unique_ptr<Worker> worker = std::move(idle->back());
  idle->pop_back();
  return worker;
}

static void run_worker(Run& run) try {
  std::unique_ptr<Worker> worker = take_worker();
  work(*worker, run);
  std::lock_guard<std::mutex> lock(idle_mutex);
  idle_stacks->insert(idle_stacks->end(), worker->stacks.begin(), worker->stacks.end());
  worker->stacks.clear();
  idle->push_back(std::move(worker));
} catch (const std::bad_alloc&) {
  run.fail("the host has no memory for the stacks of a block: set FLOWLOOM_EMU_THREADS to fewer threads");
}

// Blocks run on separate host threads, as their shared memory is thread-local; some are `running` already.
static void run_workers(Run& run, uint64_t running) {
  const Dim &c = run.launch.kernel->cluster, &b = run.launch.block;
  const uint64_t stacks = (uint64_t)c.x * c.y * c.z * b.x * b.y * b.z, fitting = std::max<uint64_t>(1, MOST_STACKS / stacks);
  const uint64_t count = std::min<uint64_t>({std::max(1u, run.launch.workers), run.count, fitting});
  std::vector<std::thread> threads;
  try {
    for (uint64_t i = running; i < count; i++) threads.emplace_back([&run] { run_worker(run); });
  } catch (const std::system_error&) {  // fewer threads compute the same
    if (!running && threads.empty()) run.fail("the host starts no thread: raise the limits of the process");
  }
  for (std::thread& thread : threads) thread.join();
}

// A launch from its preparation to its end.
class Flight final : public Begun {
 public:
  explicit Flight(const Launch& given) : launch_(given), run_(launch_) {
    if (launch_.extents)
      guarded_.reset(new GuardedParameters(launch_.kernel->parameters, launch_.parameters, launch_.extents, launch_.indirect));
    const Dim &g = launch_.grid, &c = launch_.kernel->cluster, clusters{g.x / c.x, g.y / c.y, g.z / c.z};
    const uint64_t count = (uint64_t)clusters.x * clusters.y * clusters.z;
    uint64_t chance = launch_.seed, stride = count ? random(chance) % count | 1 : 1;
    while (count && greatest_divisor(stride, count) != 1) stride++;
    run_.guarded = guarded_.get(), run_.parameters = guarded_ ? guarded_->pointers.data() : launch_.parameters;
    run_.clusters = clusters, run_.first = count ? random(chance) % count : 0, run_.stride = stride, run_.count = count;
  }
  Flight(const Flight&) = delete;
  Flight& operator=(const Flight&) = delete;
  ~Flight() override {
    run_.fail("dropped");
    join();
  }

  // Runs one cluster until its threads wait for the launches before; it may read parameters, but not write.
  void begin() {
    FaultHandlers handlers;
    if (!run_.count) return;
    run_.early = true;
    if (guarded_) guarded_->protect(true);
    ahead_ = std::thread([this] {
      run_worker(run_);
      run_.end_ahead();
    });
    run_.await_ahead();
  }

  bool failed() const { return run_.failed; }

  bool finish(char* message, size_t size) override {
    FaultHandlers handlers;
    if (ahead_.joinable() && guarded_) guarded_->protect(false), guarded_->renew();
    run_.go_on();
    run_workers(run_, ahead_.joinable() ? 1 : 0);
    join();
    if (guarded_ && run_.message.empty()) return_parameters();
    std::snprintf(message, size, "%s", run_.message.c_str());
    return run_.message.empty();
  }

 private:
  void join() {
    if (ahead_.joinable()) ahead_.join();
  }
  void return_parameters() {
    guarded_->copy_back();
    const unsigned wrong = guarded_->overwritten();
    if (wrong < guarded_->owners.size())
      run_.message = std::string("kernel ") + launch_.kernel->name + ": writes outside of parameter " + std::to_string(wrong);
  }

  const Launch launch_;
  std::unique_ptr<GuardedParameters> guarded_;
  Run run_;
  std::thread ahead_;
};

// A launch that can begin; null, with the reason, for one that no GPU accepts.
static std::unique_ptr<Flight> prepare(const Launch& launch, char* message, size_t size) {
  try {
    const char* why = refused(launch);
    if (!why) return std::unique_ptr<Flight>(new Flight(launch));
    std::snprintf(message, size, "kernel %s: %s", launch.kernel->name, why);
  } catch (const std::exception& error) {
    std::snprintf(message, size, "kernel %s: %s", launch.kernel->name, error.what());
  }
  return nullptr;
}

bool run(const Launch& launch, char* message, size_t size) {
  const std::unique_ptr<Flight> flight = prepare(launch, message, size);
  return flight && flight->finish(message, size);
}

std::unique_ptr<Begun> begin(const Launch& launch, char* message, size_t size) {
  std::unique_ptr<Flight> flight = prepare(launch, message, size);
  if (!flight) return nullptr;
  flight->begin();
  if (!flight->failed()) return flight;
  flight->finish(message, size);
  return nullptr;
}

}  // namespace emulator

__thread emulator::Thread* emulator_current = &emulator::outside;
