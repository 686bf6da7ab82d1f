// The engine's own view of threads, blocks and launches.
#pragma once
#include <atomic>
#include <condition_variable>
#include <csetjmp>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "begun.h"
#include "context.h"
#include "engine.h"
#include "faults.h"
#include "guard.h"

namespace emulator {

const size_t FRESH = 2048;  // bytes of a stack that a thread finds poisoned, so that unset variables show
const unsigned BARRIERS = 16, MOST_THREADS = 1024, MOST_SHARED = 256 << 10;
#if defined(__SANITIZE_ADDRESS__)
const size_t STACK = 1 << 20;
#else
const size_t STACK = 256 << 10;
#endif

enum State { READY, RUNNING, BARRIER, CLUSTER, COLLECT, LAUNCH, DONE };

// An asynchronous copy that has not happened yet.
struct Copy {
  char* to;
  const char* from;
  unsigned bytes, given, group;
};

// Floats of a thread that WGMMAs add to: `values` holds them while the thread sees poison.
struct Sums {
  float* place;
  std::vector<float> values;
};

// One WGMMA; `work` is null once it is done. `own` are the registers of its left operand, `kept` what they
// held, and `left` the rows made of them.
struct Wgmma {
  Multiplication* work;
  float* sums;
  unsigned count, group;
  uint64_t a, b;
  const uint32_t* own;
  uint32_t kept[4], left[16];
};

// Registers of a thread that its compiler must compute before the next fence.
struct Held {
  const char* place;
  std::vector<char> bytes;
  bool fenced;
};

// The thread that last wrote two bytes of shared memory (its number plus 1; 0 for none), and the
// number of proxy fences that it had executed before.
struct Written {
  uint16_t thread, shown;
};

struct Block;
struct Worker;

// A GPU thread, with a stack while it runs.
struct Fiber : Thread {
  Block* block = nullptr;
  Context context;
  char* stack = nullptr;
  State state = DONE;
  unsigned barrier = 0, expected = 0;  // what it waits for in BARRIER
  Collective* work = nullptr;          // and in COLLECT
  void* operand = nullptr;
  unsigned width = 0;
  uint64_t mask = 0;
  std::vector<Copy> copies;
  unsigned groups = 0;  // of copies, committed
  uint16_t shown = 0;   // proxy fences executed
  std::vector<Wgmma> wgmmas;
  std::vector<Sums> sums;
  std::vector<Held> held;
  unsigned wgmma_groups = 0;
  uint64_t trace = 0;   // a hash of the descriptors of all its WGMMAs
  bool fenced = false;  // since WGMMAs last gave sums back
};

// `statics` is its static shared memory while other blocks of the cluster run, `shared` the dynamic one.
struct Block {
  Worker* worker = nullptr;
  Place place{};
  std::vector<Fiber> fibers;
  std::vector<char> statics;
  Pages pages{MOST_SHARED};
  char* shared = nullptr;
  std::vector<Written> written;  // for each two bytes of the dynamic shared memory
  unsigned arrived[BARRIERS] = {};  // threads that do not wait at each barrier
  bool ended = false;
};

// One launch while it runs, on all its workers. It is `early` until those before it have ended: threads
// of one cluster then wait in LAUNCH, and their worker in `await_launches`.
struct Run {
  const Launch& launch;
  const GuardedParameters* guarded = nullptr;
  void* const* parameters = nullptr;
  Dim clusters{};                             // of the grid
  uint64_t first = 0, stride = 1, count = 0;  // clusters are taken from `first` on, `stride` apart
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false}, early{false};
  bool waiting = false;
  std::mutex mutex;
  std::condition_variable changed;
  std::string message;

  explicit Run(const Launch& given) : launch(given) {}
  // The worker of the early cluster waits until the launch is no longer early, or has failed.
  void await_launches() {
    std::unique_lock<std::mutex> lock(mutex);
    waiting = true;
    changed.notify_all();
    changed.wait(lock, [&] { return !early || failed; });
  }
  // That worker has ended.
  void end_ahead() {
    std::lock_guard<std::mutex> lock(mutex);
    waiting = true;
    changed.notify_all();
  }
  // Others wait until it waits, or has ended.
  void await_ahead() {
    std::unique_lock<std::mutex> lock(mutex);
    changed.wait(lock, [&] { return waiting; });
  }
  void go_on() {
    std::lock_guard<std::mutex> lock(mutex);
    early = false;
    changed.notify_all();
  }
  void fail(const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!failed) message = text;
    failed = true;
    changed.notify_all();
  }
};

// A stack that no worker has; throws std::bad_alloc where the host has no memory for more.
char* free_stack();

// State of one host thread: blocks of a cluster, free stacks, the address of its thread-local statics,
// and where to continue after a fault outside fibers.
struct Worker {
  Run* run = nullptr;
  Context context;
  jmp_buf escape;
  bool in_fiber = false;
  uint64_t chance = 0;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<char*> stacks;  // free ones
  std::unique_ptr<char[]> signal_stack{new char[SIGNAL_STACK]};
  char* statics = nullptr;
  size_t statics_size = 0;

  char* take_stack() {
    if (stacks.empty()) stacks.push_back(free_stack());
    char* stack = stacks.back();
    stacks.pop_back();
    return stack;
  }
};

inline Thread outside{};  // current where no kernel runs

// The start of a message that names a thread.
std::string place_of(const Fiber& fiber);
// The running fiber.
Fiber& current();
// Leaves the running fiber in a state; returns when it runs again.
void pause(State state);
// Leaves the running fiber for good.
[[noreturn]] void end_fiber();
// Runs the blocks of a cluster to their ends, or until the launch has failed.
void run_cluster(Worker& worker, Dim cluster);

}  // namespace emulator
