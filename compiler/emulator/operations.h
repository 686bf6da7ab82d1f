// Queued operations, which run in a random topological order, and the state of the device that runs them.
#pragma once
#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "begun.h"
#include "guard.h"
#include "runtime.h"

namespace emulator {

const unsigned MOST_EARLY = 4;  // launches that have begun early and wait, each on a host thread

// One operation, which is ready when nothing is `missing`.
struct Operation {
  std::function<void()> work;
  std::vector<std::shared_ptr<Operation>> after;
  size_t missing = 0;
  bool done = false;
  double nanoseconds = 0;
};
typedef std::shared_ptr<Operation> Handle;
typedef std::vector<Handle> Handles;

// A launch with copies of its parameters. `given` are the extents of parameters as they were prepared,
// `extents` those of the memory that they point to now: a graph for larger sizes may run on smaller buffers.
struct Call {
  emulator_call call;
  std::vector<uint64_t> values;
  std::vector<void*> pointers;
  std::vector<size_t> given;
  mutable std::vector<size_t> extents;

  explicit Call(const emulator_call& from) : call(from), values(from.kernel ? from.kernel->parameters : 0) {
    for (unsigned i = 0; i < values.size(); i++) {
      if (from.kernel->sizes[i] > sizeof values[i]) throw std::runtime_error("a kernel's parameter is wider than 8 bytes");
      std::memcpy(&values[i], from.parameters[i], from.kernel->sizes[i]);
      pointers.push_back(&values[i]);
      if (from.extents) given.push_back(from.extents[i]);
    }
    extents = given;
    call.parameters = pointers.data();
    call.extents = from.extents ? extents.data() : nullptr;
  }
  Call(const Call&) = delete;
  Call& operator=(const Call&) = delete;
};

inline bool is_warp(uint64_t lanes) { return lanes == 32 || lanes == 64; }

inline uint64_t setting(const char* name, uint64_t otherwise, const char* allowed = "a whole number",
                        bool (*fits)(uint64_t) = nullptr) {
  const char* text = std::getenv(name);
  if (!text || !*text) return otherwise;
  char* end = nullptr;
  errno = 0;
  const uint64_t value = std::strtoull(text, &end, 0);
  if (*text < '0' || *text > '9' || *end || errno || (fits && !fits(value)))
    throw std::runtime_error(std::string(name) + " is '" + text + "': it must be " + allowed);
  return value;
}

struct Runtime {
  std::recursive_mutex mutex;
  Handles ready;
  uint64_t seed = setting("FLOWLOOM_EMU_SEED", 0), chance = seed;
  unsigned warp = (unsigned)setting("FLOWLOOM_EMU_WARP", 32, "32 or 64", is_warp);
  unsigned threads = (unsigned)setting("FLOWLOOM_EMU_THREADS", std::thread::hardware_concurrency());
  std::map<char*, Pages> memory;
  Handles default_tail;
  std::vector<emulator_stream*> ordered;

  Handle add(const Handles& before, std::function<void()> work) {
    Handle added = std::make_shared<Operation>();
    added->work = std::move(work);
    for (const Handle& other : before) connect(other, added);
    if (!added->missing) ready.push_back(added);
    return added;
  }
  static void connect(const Handle& before, const Handle& after) {
    if (before->done) return;
    before->after.push_back(after);
    after->missing++;
  }
  // Runs one ready operation; the successors of one that fails are dropped.
  void step() {
    std::swap(ready[random(chance) % ready.size()], ready.back());
    Handle next = std::move(ready.back());
    ready.pop_back();
    if (next->work) try {
        next->work();
      } catch (...) {
        finish(next);
        drop();
        throw;
      }
    finish(next);
  }
  void finish(const Handle& operation) {
    operation->done = true;
    operation->nanoseconds = (double)std::chrono::steady_clock::now().time_since_epoch().count();
    for (const Handle& other : operation->after)
      if (!--other->missing) ready.push_back(other);
    operation->after.clear();
    operation->work = nullptr;
  }
  void drop() {
    while (!ready.empty()) {
      Handle next = std::move(ready.back());
      ready.pop_back();
      finish(next);
    }
  }
  void finish_all(const Handles& operations) {
    for (const Handle& each : operations)
      while (!each->done) step();
  }
  // At most so many bytes as there are from an address to the end of the memory that it is in.
  size_t within(const char* address, size_t bytes) const {
    auto next = memory.upper_bound(const_cast<char*>(address));
    if (next == memory.begin() || address >= std::prev(next)->second.end()) return bytes;
    return std::min<size_t>(bytes, std::prev(next)->second.end() - address);
  }
  Launch launch_of(const Call& own) {
    const emulator_call& call = own.call;
    for (size_t i = 0; i < own.given.size(); i++) {
      const char* address = reinterpret_cast<const char*>(own.values[i]);
      own.extents[i] = within(call.indirect ? *reinterpret_cast<const char* const*>(address) : address, own.given[i]);
    }
    return {call.kernel,  call.grid,          call.block,     call.shared_bytes, call.parameters,
            call.extents, call.indirect != 0, random(chance), warp,              threads};
  }
  void launch(const Call& own) {
    char message[600];
    if (own.call.kernel && !run(launch_of(own), message, sizeof message)) throw std::runtime_error(message);
  }
};

// A launch that may begin before its predecessors have ended; whether it does is random.
struct EarlyLaunch {
  std::shared_ptr<Call> call;
  std::unique_ptr<Begun> begun;
  static unsigned count;  // of launches that have begun and not ended
  explicit EarlyLaunch(std::shared_ptr<Call> given) : call(std::move(given)) {}
  ~EarlyLaunch() { drop(); }
  void drop() {
    if (begun) count--;
    begun.reset();
  }
  void begin(Runtime& own) {
    if (!call->call.kernel || count >= MOST_EARLY || random(own.chance) % 2) return;
    char message[600];
    begun = emulator::begin(own.launch_of(*call), message, sizeof message);
    if (!begun) throw std::runtime_error(message);
    count++;
  }
  void finish(Runtime& own) {
    if (!begun) return own.launch(*call);
    char message[600];
    const bool right = begun->finish(message, sizeof message);
    drop();
    if (!right) throw std::runtime_error(message);
  }
};
inline unsigned EarlyLaunch::count = 0;

}  // namespace emulator
