// Runs the threads of a grid as fibers: blocks in random order on worker threads of the host, warps of a
// block in random order up to the next barrier, lanes of a warp one after another in random order.
#include "engine.h"

#include <link.h>

#include <atomic>
#include <csetjmp>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <mutex>
#include <string>
#include <thread>

#include "context.h"
#include "faults.h"
#include "guard.h"

namespace emulator {

enum State { READY, RUNNING, BARRIER, CLUSTER, COLLECT, DONE };
const size_t FRESH = 2048;  // bytes of a stack that a thread finds poisoned, so that unset variables show
const unsigned BARRIERS = 16, MOST_THREADS = 1024, MOST_SHARED = 256 << 10;
#if defined(__SANITIZE_ADDRESS__)
const size_t STACK = 1 << 20;
#else
const size_t STACK = 256 << 10;
#endif

struct Copy {
  char* to;
  const char* from;
  unsigned bytes, given, group;
};

struct Block;
struct Worker;

struct Fiber : Thread {
  Context context;
  char* stack = nullptr;
  State state = DONE;
  Block* block = nullptr;
  unsigned barrier = 0, expected = 0;  // of BARRIER
  Collective* work = nullptr;          // of COLLECT
  void* operand = nullptr;
  unsigned width = 0;
  uint64_t mask = 0;
  std::vector<Copy> copies;
  unsigned groups = 0;
};

struct Block {
  Place place;
  Worker* worker;
  std::vector<Fiber> fibers;
  std::vector<char> statics;
  Pages pages{MOST_SHARED};
  char* shared;
  bool ended;
};

// One launch while it runs, on all its workers.
struct Run {
  const Launch& launch;
  const GuardedParameters* guarded;
  void* const* parameters;
  Dim clusters;
  uint64_t first, stride, count;
  std::atomic<uint64_t> next{0};
  std::atomic<bool> failed{false};
  std::mutex mutex;
  std::string message;

  void fail(const std::string& text) {
    std::lock_guard<std::mutex> lock(mutex);
    if (!failed) message = text;
    failed = true;
  }
};

// What one thread of the host works with.
struct Worker {
  Run* run = nullptr;
  Context context;
  jmp_buf escape;
  bool in_fiber = false;
  uint64_t chance = 0;
  std::vector<std::unique_ptr<Block>> blocks;
  std::vector<std::unique_ptr<Pages>> all_stacks;
  std::vector<char*> stacks;
  std::unique_ptr<char[]> signal_stack{new char[SIGNAL_STACK]};
  char* statics = nullptr;
  size_t statics_size = 0;
  Fiber* current = nullptr;

  char* take_stack() {
    if (stacks.empty()) {
      all_stacks.emplace_back(new Pages(STACK));
      stacks.push_back(all_stacks.back()->start);
    }
    char* stack = stacks.back();
    stacks.pop_back();
    return stack;
  }
};

static Thread outside{};

static std::string place_of(const Fiber& fiber) {
  const Dim &b = fiber.place->index, &t = fiber.index;
  char text[200];
  std::snprintf(text, sizeof text, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): ",
                fiber.block->worker->run->launch.kernel->name, b.x, b.y, b.z, t.x, t.y, t.z);
  return text;
}

static Fiber& current() {
  if (emulator_current == &outside) std::fputs("emulator: a kernel's function was called on the host\n", stderr), std::abort();
  return *(Fiber*)emulator_current;
}

// Leaves the running fiber in a state; returns when it runs again.
static void pause(State state) {
  Fiber& fiber = current();
  Worker& worker = *fiber.block->worker;
  fiber.state = state;
  switch_to(fiber.context, worker.context);
  worker.in_fiber = true;
}

static void begin() {
  Fiber& fiber = current();
  Worker& worker = *fiber.block->worker;
  arrived(worker.context);
  worker.run->launch.kernel->invoke(worker.run->parameters);
  fiber.state = DONE;
  switch_to(fiber.context, worker.context, true);
}

static void resume(Worker& worker, Fiber& fiber) {
  if (!fiber.stack) {
    fiber.stack = worker.take_stack();
    fiber.context.bottom = fiber.stack, fiber.context.size = STACK;
    std::memset(fiber.stack + STACK - FRESH, POISON, FRESH);
    prepare(fiber.context, begin);
  }
  emulator_current = &fiber;
  fiber.state = RUNNING, worker.in_fiber = true;
  switch_to(worker.context, fiber.context);
  worker.in_fiber = false;
  emulator_current = &outside;
  if (fiber.state == DONE) worker.stacks.push_back(fiber.stack), fiber.stack = nullptr;
}

// Does the work that `fiber` waits for, if all its lanes have arrived; `first` and `end` bound its warp.
static bool collect(Worker& worker, Fiber* fibers, unsigned number, unsigned first, unsigned end) {
  Fiber& fiber = fibers[number];
  const unsigned base = number - (number - first) % fiber.width, count = std::min(fiber.width, end - base);
  void* operands[64] = {};
  uint64_t here = 0, alive = 0;
  for (unsigned i = 0; i < count; i++) {
    const Fiber& other = fibers[base + i];
    if (other.state != DONE) alive |= 1ull << i;
    if (other.state != COLLECT || other.work != fiber.work || other.mask != fiber.mask || other.width != fiber.width) continue;
    here |= 1ull << i, operands[i] = other.operand;
  }
  if (fiber.mask && !(fiber.mask >> (number - base) & 1)) {
    worker.run->fail(place_of(fiber) + "takes part in a warp's operation without being in its mask");
    return false;
  }
  if (fiber.mask & alive & ~here) return false;
  emulator_current = &fiber;
  const char* wrong = fiber.work(operands, fiber.width);
  emulator_current = &outside;
  if (wrong) worker.run->fail(place_of(fiber) + wrong);
  for (unsigned i = 0; i < count; i++)
    if (here >> i & 1) fibers[base + i].state = READY;
  return true;
}

// Runs a warp until each of its threads waits for others or has ended.
static void run_warp(Worker& worker, Block& block, unsigned first, unsigned end) {
  const unsigned lanes = block.place.warp;
  Fiber* fibers = block.fibers.data();
  for (bool again = true; again && !worker.run->failed;) {
    const uint64_t chance = random(worker.chance);
    const unsigned start = (unsigned)chance, stride = (unsigned)(chance >> 32) | 1;
    for (unsigned i = 0; i < lanes && !worker.run->failed; i++) {
      const unsigned number = first + ((start + i * stride) & (lanes - 1));
      if (number < end && fibers[number].state == READY) resume(worker, fibers[number]);
    }
    again = false;
    for (unsigned i = first; i < end && !worker.run->failed; i++)
      if (fibers[i].state == COLLECT) again |= collect(worker, fibers, i, first, end);
  }
}

// Lets threads go on from each barrier at which enough of them wait.
static bool release_barriers(Block& block) {
  unsigned waiting[BARRIERS] = {}, alive = 0;
  for (const Fiber& fiber : block.fibers) {
    alive += fiber.state != DONE;
    if (fiber.state == BARRIER) waiting[fiber.barrier]++;
  }
  bool released = false;
  for (Fiber& fiber : block.fibers)
    if (fiber.state == BARRIER && waiting[fiber.barrier] >= (fiber.expected ? fiber.expected : alive))
      fiber.state = READY, released = true;
  return released;
}

static std::string deadlock(const Block& block) {
  unsigned count[DONE + 1] = {};
  const Fiber* stuck = nullptr;
  for (const Fiber& fiber : block.fibers) {
    count[fiber.state]++;
    if (fiber.state == COLLECT || (!stuck && fiber.state != DONE)) stuck = &fiber;
  }
  char text[300];
  std::snprintf(text, sizeof text,
                "threads of this block wait for each other: %u at a barrier of the block, %u at an operation of "
                "their warp, %u at a barrier of the cluster, %u have ended",
                count[BARRIER], count[COLLECT], count[CLUSTER], count[DONE]);
  return place_of(*stuck) + text;
}

// Runs a block until its threads have ended (`ended` is set) or all wait for the cluster.
static void run_block(Worker& worker, Block& block) {
  const unsigned count = (unsigned)block.fibers.size(), lanes = block.place.warp, warps = (count + lanes - 1) / lanes;
  unsigned order[MOST_THREADS / 32];
  for (unsigned i = 0; i < warps; i++) order[i] = i;
  do {
    for (unsigned i = warps; i > 1; i--) std::swap(order[i - 1], order[random(worker.chance) % i]);
    for (unsigned i = 0; i < warps && !worker.run->failed; i++)
      run_warp(worker, block, order[i] * lanes, std::min(count, (order[i] + 1) * lanes));
    if (worker.run->failed) return;
  } while (release_barriers(block));
  block.ended = true;
  for (const Fiber& fiber : block.fibers) {
    if (fiber.state == CLUSTER) block.ended = false;
    if (fiber.state == BARRIER || fiber.state == COLLECT) return worker.run->fail(deadlock(block));
  }
}

static void prepare_block(Worker& worker, unsigned rank, Dim index) {
  const Launch& launch = worker.run->launch;
  if (worker.blocks.size() <= rank) worker.blocks.emplace_back(new Block);
  Block& block = *worker.blocks[rank];
  block.worker = &worker, block.ended = false;
  block.place = {index, launch.block, launch.grid, rank, launch.warp};
  block.shared = block.pages.end() - rounded(launch.shared_bytes, 128);
  std::memset(block.shared, POISON, block.pages.end() - block.shared);
  block.statics.assign(worker.statics_size, (char)POISON);
  block.fibers.resize((size_t)launch.block.x * launch.block.y * launch.block.z);
  for (unsigned i = 0; i < block.fibers.size(); i++) {
    Fiber& fiber = block.fibers[i];
    fiber.index = {i % launch.block.x, i / launch.block.x % launch.block.y, i / (launch.block.x * launch.block.y)};
    fiber.number = i, fiber.place = &block.place, fiber.block = &block;
    fiber.state = READY, fiber.groups = 0, fiber.copies.clear();
  }
}

static void check_shared(Worker& worker, const Block& block) {
  if (!GuardedCopy::poisoned(block.shared + worker.run->launch.shared_bytes, block.pages.end()))
    worker.run->fail(place_of(block.fibers[0]) + "this block wrote past the end of its dynamic shared memory");
}

// Runs the blocks of a cluster in turns: each goes on until it waits for the others.
static void run_cluster(Worker& worker, Dim cluster) {
  const Dim size = worker.run->launch.kernel->cluster;
  const unsigned ranks = size.x * size.y * size.z;
  for (unsigned rank = 0; rank < ranks; rank++)
    prepare_block(worker, rank, {cluster.x * size.x + rank % size.x, cluster.y * size.y + rank / size.x % size.y,
                                 cluster.z * size.z + rank / (size.x * size.y)});
  for (bool waiting = true; waiting;) {
    const unsigned first = (unsigned)(random(worker.chance) % ranks);
    for (unsigned i = 0; i < ranks; i++) {
      Block& block = *worker.blocks[(first + i) % ranks];
      if (block.ended) continue;
      std::memcpy(worker.statics, block.statics.data(), worker.statics_size);
      run_block(worker, block);
      if (worker.run->failed) return;
      if (ranks > 1) std::memcpy(block.statics.data(), worker.statics, worker.statics_size);
      if (block.ended) check_shared(worker, block);
    }
    waiting = false;
    for (unsigned rank = 0; rank < ranks; rank++)
      for (Fiber& fiber : worker.blocks[rank]->fibers)
        if (fiber.state == CLUSTER) fiber.state = READY, waiting = true;
  }
}

struct Search {
  const char* anchor;
  Worker* worker;
};

// Finds this thread's copy of the uninitialised thread-local statics beside a kernel: its `__shared__`
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
    const GuardedCopy& copy = run.guarded->copies[run.guarded->owners[i]];
    if (!copy.pages.holds(address)) continue;
    const char *start = run.guarded->values[i], *end = start + run.launch.extents[i];
    const bool behind = (const char*)address >= end;
    std::snprintf(text, sizeof text, "%s %td bytes %s parameter %u, which has %zu bytes", verb,
                  behind ? (const char*)address - end : start - (const char*)address,
                  behind ? "behind the end of" : "before the start of", i, run.launch.extents[i]);
    return text;
  }
  if (fiber.block->pages.holds(address)) {
    std::snprintf(text, sizeof text, "%s outside of its %zu bytes of dynamic shared memory", verb, run.launch.shared_bytes);
    return text;
  }
  if (fiber.stack && (const char*)address < fiber.stack && (const char*)address >= fiber.stack - (64 << 10))
    return "needs more than " + std::to_string(STACK >> 10) + " KiB of stack";
  std::snprintf(text, sizeof text, "%s memory that is no buffer's, at address %p", verb, address);
  return text;
}

[[noreturn]] static void escape_fiber() { pause(DONE), std::abort(); }
[[noreturn]] static void escape_worker() { std::longjmp(((Fiber*)emulator_current)->block->worker->escape, 1); }

// A fault of a running kernel ends its launch: says where execution goes on, or that it was no kernel's.
bool redirect(const void* address, const char* verb, void (*&function)(), char*& stack) {
  if (emulator_current == &outside) return false;
  Fiber& fiber = *(Fiber*)emulator_current;
  Worker& worker = *fiber.block->worker;
  worker.run->fail(place_of(fiber) + (address ? described(worker, fiber, address, verb) : verb));
  function = worker.in_fiber ? escape_fiber : escape_worker;
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

static std::mutex idle_mutex;
static std::vector<std::unique_ptr<Worker>>& idle() {
  static auto* workers = new std::vector<std::unique_ptr<Worker>>;
  return *workers;
}

static void run_workers(Run& run) {
  const unsigned count = (unsigned)std::min<uint64_t>(std::max(1u, run.launch.workers), run.count);
  std::vector<std::unique_ptr<Worker>> workers;
  {
    std::lock_guard<std::mutex> lock(idle_mutex);
    for (; workers.size() < count; idle().size() ? (void)idle().pop_back() : (void)0)
      workers.push_back(idle().size() ? std::move(idle().back()) : std::unique_ptr<Worker>(new Worker));
  }
  std::vector<std::thread> threads;
  for (auto& worker : workers) threads.emplace_back([&run, own = worker.get()] { work(*own, run); });
  for (auto& thread : threads) thread.join();
  std::lock_guard<std::mutex> lock(idle_mutex);
  for (auto& worker : workers) idle().push_back(std::move(worker));
}

static void run_checked(const Launch& launch, std::string& message) {
  std::unique_ptr<GuardedParameters> guarded;
  if (launch.extents) guarded.reset(new GuardedParameters(launch.kernel->parameters, launch.parameters, launch.extents));
  const Dim &g = launch.grid, &c = launch.kernel->cluster, clusters{g.x / c.x, g.y / c.y, g.z / c.z};
  const uint64_t count = (uint64_t)clusters.x * clusters.y * clusters.z;
  if (!count) return;
  uint64_t chance = launch.seed, stride = random(chance) % count | 1;
  while (greatest_divisor(stride, count) != 1) stride++;
  Run run{launch, guarded.get(), guarded ? guarded->pointers.data() : launch.parameters, clusters, random(chance) % count, stride, count};
  run_workers(run);
  message = run.message;
  for (size_t i = 0; guarded && i < guarded->copies.size(); i++) {
    const GuardedCopy& copy = guarded->copies[i];
    copy.copy_back();
    if (message.empty() && !copy.intact())
      message = std::string("kernel ") + launch.kernel->name + ": writes outside of parameter " +
                std::to_string(std::find(guarded->owners.begin(), guarded->owners.end(), i) - guarded->owners.begin());
  }
}

bool run(const Launch& launch, char* message, size_t size) {
  std::string found;
  if (const char* why = refused(launch)) {
    found = std::string("kernel ") + launch.kernel->name + ": " + why;
  } else {
    try {
      FaultHandlers handlers;
      run_checked(launch, found);
    } catch (const std::exception& error) {
      found = std::string("kernel ") + launch.kernel->name + ": " + error.what();
    }
  }
  std::snprintf(message, size, "%s", found.c_str());
  return found.empty();
}

}  // namespace emulator

using namespace emulator;

__thread Thread* emulator_current = &outside;

void emulator_fail(const char* message) {
  Fiber& fiber = current();
  fiber.block->worker->run->fail(place_of(fiber) + message);
  escape_fiber();
}

void emulator_barrier(unsigned id, unsigned threads) {
  Fiber& fiber = current();
  if (id >= BARRIERS) emulator_fail("a block has barriers 0 to 15");
  fiber.barrier = id, fiber.expected = threads;
  pause(BARRIER);
}

void emulator_cluster_barrier() { pause(CLUSTER); }

void emulator_collect(Collective* work, void* operand, unsigned width, uint64_t mask) {
  Fiber& fiber = current();
  fiber.work = work, fiber.operand = operand, fiber.mask = mask;
  fiber.width = std::min(width, fiber.place->warp);
  pause(COLLECT);
}

void* emulator_shared() { return current().block->shared; }

void* emulator_peer(const void* own, unsigned rank, size_t bytes) {
  const Block& block = *current().block;
  const Worker& worker = *block.worker;
  const Dim& size = worker.run->launch.kernel->cluster;
  const size_t offset = (const char*)own - block.shared;
  if ((const char*)own < block.shared || offset + bytes > worker.run->launch.shared_bytes)
    emulator_fail("an address of another block's memory is not in the dynamic shared memory");
  if (rank >= size.x * size.y * size.z) emulator_fail("there is no such block in the cluster");
  if (worker.blocks[rank]->ended) emulator_fail("a block has ended whose shared memory is accessed: a cluster barrier is missing");
  return worker.blocks[rank]->shared + offset;
}

void emulator_copy(void* to, const void* from, unsigned bytes, unsigned given) {
  if ((uintptr_t)to % bytes || (given && (uintptr_t)from % bytes)) emulator_fail("an asynchronous copy is misaligned");
  Fiber& fiber = current();
  std::memset(to, POISON, bytes);
  fiber.copies.push_back({(char*)to, (const char*)from, bytes, given, fiber.groups});
}

void emulator_commit() { current().groups++; }

void emulator_wait(unsigned pending) {
  Fiber& fiber = current();
  std::vector<Copy>& copies = fiber.copies;
  const unsigned before = fiber.groups < pending ? 0 : fiber.groups - pending;
  const auto due = std::partition(copies.begin(), copies.end(), [&](const Copy& copy) { return copy.group < before; });
  for (size_t left = due - copies.begin(); left; left--) {
    std::swap(copies[left - 1], copies[random(fiber.block->worker->chance) % left]);
    const Copy copy = copies[left - 1];
    std::memcpy(copy.to, copy.from, copy.given);
    std::memset(copy.to + copy.given, 0, copy.bytes - copy.given);
  }
  copies.erase(copies.begin(), due);
}
