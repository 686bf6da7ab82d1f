// Barriers, asynchronous copies and shared memory, as kernels use them.
#include "engine.h"

#include <algorithm>

#include "internal.h"

using namespace emulator;

void emulator_fail(const char* message) {
  Fiber& fiber = current();
  fiber.block->worker->run->fail(place_of(fiber) + message);
  end_fiber();
}

void emulator_barrier(unsigned id, unsigned threads) {
  Fiber& fiber = current();
  if (id >= BARRIERS) emulator_fail("a block has barriers 0 to 15");
  fiber.barrier = id, fiber.expected = threads;
  pause(BARRIER);
}

void emulator_arrive(unsigned id) {
  if (id >= BARRIERS) emulator_fail("a block has barriers 0 to 15");
  current().block->arrived[id]++;
}

void emulator_cluster_barrier() { pause(CLUSTER); }

// Performs the copies of a thread's groups before a given one, in random order.
static void copy_groups(Fiber& fiber, unsigned before) {
  std::vector<Copy>& copies = fiber.copies;
  const auto due = std::partition(copies.begin(), copies.end(), [&](const Copy& copy) { return copy.group < before; });
  for (size_t left = due - copies.begin(); left; left--) {
    std::swap(copies[left - 1], copies[random(fiber.block->worker->chance) % left]);
    const Copy copy = copies[left - 1];
    std::memcpy(copy.to, copy.from, copy.given);
    std::memset(copy.to + copy.given, 0, copy.bytes - copy.given);
    emulator_written(copy.to, copy.bytes);
  }
  copies.erase(copies.begin(), due);
}

void emulator_begin() {
  Fiber& fiber = current();
  if (!fiber.block->worker->run->early) return;
  copy_groups(fiber, fiber.groups + 1);  // copies may read before the launches before have written
  pause(LAUNCH);
}

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
  const unsigned before = fiber.groups < pending ? 0 : fiber.groups - pending;
  copy_groups(fiber, before);
}
