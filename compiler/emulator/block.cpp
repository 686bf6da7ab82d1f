// Blocks: warps run in random order up to the next barrier, lanes one after another in random order.
#include <algorithm>
#include <cstdio>
#include <cstdlib>

#include "internal.h"

namespace emulator {

std::string place_of(const Fiber& fiber) {
  const Dim &b = fiber.place->index, &t = fiber.index;
  char text[200];
  std::snprintf(text, sizeof text, "kernel %s, block (%u, %u, %u), thread (%u, %u, %u): ",
                fiber.block->worker->run->launch.kernel->name, b.x, b.y, b.z, t.x, t.y, t.z);
  return text;
}

Fiber& current() {
  if (emulator_current == &outside) std::fputs("emulator: a kernel's function was called on the host\n", stderr), std::abort();
  return *(Fiber*)emulator_current;
}

void pause(State state) {
  Fiber& fiber = current();
  Worker& worker = *fiber.block->worker;
  fiber.state = state;
  switch_to(fiber.context, worker.context);
  worker.in_fiber = true;
}

void end_fiber() {
  pause(DONE);
  std::abort();
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
  if (fiber.mask && (here & ~fiber.mask)) {
    worker.run->fail(place_of(fiber) + "lanes take part in a warp's operation that are not in its mask");
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
      if (fibers[i].state == COLLECT && fibers[i].mask) again |= collect(worker, fibers, i, first, end);
    for (unsigned i = first; i < end && !again; i++)
      if (fibers[i].state == COLLECT) again = collect(worker, fibers, i, first, end);
  }
}

// Resumes the threads of each barrier at which enough of them wait.
static bool release_barriers(Block& block) {
  unsigned waiting[BARRIERS] = {}, alive = 0;
  for (const Fiber& fiber : block.fibers) {
    alive += fiber.state != DONE;
    if (fiber.state == BARRIER) waiting[fiber.barrier]++;
  }
  bool released = false, passed[BARRIERS] = {};
  for (Fiber& fiber : block.fibers) {
    if (fiber.state != BARRIER) continue;
    const unsigned id = fiber.barrier, here = waiting[id] + block.arrived[id];
    if (here >= (fiber.expected ? fiber.expected : alive)) fiber.state = READY, released = passed[id] = true;
  }
  for (unsigned id = 0; id < BARRIERS; id++)
    if (passed[id]) block.arrived[id] = 0;
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
  const auto is = [&](State state) {
    return std::any_of(block.fibers.begin(), block.fibers.end(), [=](const Fiber& fiber) { return fiber.state == state; });
  };
  block.ended = !is(CLUSTER) && !is(LAUNCH);
  if (!is(LAUNCH) && (is(BARRIER) || is(COLLECT))) worker.run->fail(deadlock(block));
}

// The warps of a warpgroup must take part in the same WGMMAs.
static void check_warpgroups(Worker& worker, const Block& block) {
  for (const Fiber& fiber : block.fibers)
    if (fiber.trace != block.fibers[fiber.number / 128 * 128].trace)
      return worker.run->fail(place_of(fiber) + "the warps of this warpgroup take part in different WGMMAs");
}

static void prepare_block(Worker& worker, unsigned rank, Dim index) {
  const Launch& launch = worker.run->launch;
  if (worker.blocks.size() <= rank) worker.blocks.emplace_back(new Block);
  Block& block = *worker.blocks[rank];
  block.worker = &worker, block.ended = false;
  std::fill_n(block.arrived, BARRIERS, 0u);
  block.place = {index, launch.block, launch.grid, rank, launch.warp};
  block.shared = block.pages.end() - rounded(launch.shared_bytes, 128);
  std::memset(block.shared, POISON, block.pages.end() - block.shared);
  block.statics.assign(worker.statics_size, (char)POISON);
  block.written.assign(rounded(launch.shared_bytes, 128) / 2, Written{});
  block.fibers.resize((size_t)launch.block.x * launch.block.y * launch.block.z);
  for (unsigned i = 0; i < block.fibers.size(); i++) {
    Fiber& fiber = block.fibers[i];
    fiber.index = {i % launch.block.x, i / launch.block.x % launch.block.y, i / (launch.block.x * launch.block.y)};
    fiber.number = i, fiber.place = &block.place, fiber.block = &block;
    fiber.state = READY, fiber.groups = 0, fiber.copies.clear();
    fiber.shown = 0, fiber.wgmmas.clear(), fiber.sums.clear();
    fiber.wgmma_groups = 0, fiber.trace = 0, fiber.fenced = false;
  }
}

static void check_shared(Worker& worker, const Block& block) {
  if (!GuardedCopy::poisoned(block.shared + worker.run->launch.shared_bytes, block.pages.end()))
    worker.run->fail(place_of(block.fibers[0]) + "this block wrote past the end of its dynamic shared memory");
}

// Resumes the threads of a cluster that wait in a state; false if there are none.
static bool release(Worker& worker, unsigned ranks, State state) {
  bool found = false;
  for (unsigned rank = 0; rank < ranks; rank++)
    for (Fiber& fiber : worker.blocks[rank]->fibers)
      if (fiber.state == state) fiber.state = READY, found = true;
  return found;
}

// Runs the blocks of a cluster in turns, each until it waits for the others.
void run_cluster(Worker& worker, Dim cluster) {
  const Dim size = worker.run->launch.kernel->cluster;
  const unsigned ranks = size.x * size.y * size.z;
  for (unsigned rank = 0; rank < ranks; rank++)
    prepare_block(worker, rank, {cluster.x * size.x + rank % size.x, cluster.y * size.y + rank / size.x % size.y,
                                 cluster.z * size.z + rank / (size.x * size.y)});
  const bool early = worker.run->early;
  for (bool waiting = true; waiting;) {
    const unsigned first = (unsigned)(random(worker.chance) % ranks);
    for (unsigned i = 0; i < ranks; i++) {
      Block& block = *worker.blocks[(first + i) % ranks];
      if (block.ended) continue;
      std::memcpy(worker.statics, block.statics.data(), worker.statics_size);
      run_block(worker, block);
      if (worker.run->failed) return;
      if (!block.ended) std::memcpy(block.statics.data(), worker.statics, worker.statics_size);
      if (block.ended) check_shared(worker, block), check_warpgroups(worker, block);
    }
    waiting = release(worker, ranks, LAUNCH);
    if (waiting) worker.run->await_launches();
    else waiting = release(worker, ranks, CLUSTER);
  }
  if (early && worker.run->early)
    worker.run->fail(place_of(worker.blocks[0]->fibers[0]) + "ends without waiting for the launches before (grid_dependency_wait)");
}

}  // namespace emulator
