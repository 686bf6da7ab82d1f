// WGMMA: tensor cores read shared memory and change the sums of threads asynchronously.
#include <algorithm>

#include "engine.h"
#include "internal.h"

using namespace emulator;

const uint32_t WINDOW = 0x3ffff;  // addresses of shared memory have 18 bits

void emulator_written(const void* to, unsigned bytes) {
  Fiber& fiber = current();
  Block& block = *fiber.block;
  const size_t offset = (size_t)((const char*)to - block.shared);
  if ((const char*)to < block.shared || offset + bytes > block.worker->run->launch.shared_bytes) return;
  std::fill_n(&block.written[offset / 2], (bytes + 1) / 2, Written{(uint16_t)(fiber.number + 1), fiber.shown});
}

void emulator_show_written() { current().shown++; }

void emulator_read_matrix(void* to, uint32_t address, unsigned bytes) {
  const Block& block = *current().block;
  const size_t offset = (address - (uint32_t)(uintptr_t)block.shared) & WINDOW;
  if (offset + bytes > block.worker->run->launch.shared_bytes)
    emulator_fail("tensor cores read a matrix outside the dynamic shared memory");
  for (size_t i = offset / 2; i < (offset + bytes) / 2; i++) {
    const Written& last = block.written[i];
    if (last.thread && block.fibers[last.thread - 1].shown == last.shown)
      emulator_fail("tensor cores read what a thread has written without a proxy fence (fence_async_proxy)");
  }
  std::memcpy(to, block.shared + offset, bytes);
}

static Sums* sums_at(Fiber& fiber, const float* place) {
  for (Sums& each : fiber.sums)
    if (each.place == place) return &each;
  return nullptr;
}

static void multiply(Fiber& fiber, Wgmma& wgmma) {
  if (wgmma.work) wgmma.work(sums_at(fiber, wgmma.sums)->values.data(), wgmma.count, wgmma.a, wgmma.b, wgmma.left);
  wgmma.work = nullptr;
}

void emulator_wgmma(Multiplication* work, float* sums, unsigned count, uint64_t a, uint64_t b, const uint32_t* own, const uint32_t* left) {
  Fiber& fiber = current();
  if (!sums_at(fiber, sums)) {
    if (!fiber.fenced) emulator_fail("a WGMMA adds to sums without a fence (wgmma_fence)");
    fiber.sums.push_back({sums, {sums, sums + count}});
    std::memset((void*)sums, POISON, count * sizeof *sums);
  }
  bool first = true;
  for (const Wgmma& other : fiber.wgmmas) first &= !other.work;
  fiber.wgmmas.push_back({work, sums, count, fiber.wgmma_groups, a, b, own, {}, {}});
  if (own) {
    std::copy_n(own, 4, fiber.wgmmas.back().kept);
    std::copy_n(left, 16, fiber.wgmmas.back().left);
  }
  fiber.trace = (fiber.trace ^ a) * 0x9e3779b97f4a7c15ull + b;
  if (first && random(fiber.block->worker->chance) % 2) multiply(fiber, fiber.wgmmas.back());
}

void emulator_hold(const void* registers, unsigned bytes) {
  std::vector<Held>& held = current().held;
  const char* place = (const char*)registers;
  held.erase(std::remove_if(held.begin(), held.end(), [&](const Held& each) { return each.place == place; }), held.end());
  held.push_back({place, {place, place + bytes}, false});
}

void emulator_check_held(const void* registers, unsigned bytes) {
  Fiber& fiber = current();
  const char* place = (const char*)registers;
  if (sums_at(fiber, (const float*)registers)) return;
  for (const Held& each : fiber.held) {
    const char* end = each.place + each.bytes.size();
    if (!each.fenced || place < each.place || place + bytes > end) continue;
    if (std::equal(place, place + bytes, each.bytes.begin() + (place - each.place))) return;
  }
  emulator_fail("a WGMMA reads registers that were not held before its fence: the compiler may compute them after it (hold)");
}

void emulator_wgmma_fence() {
  Fiber& fiber = current();
  fiber.fenced = true;
  for (Held& each : fiber.held) each.fenced = true;
}

void emulator_wgmma_commit() { current().wgmma_groups++; }

// Gives sums back to their thread.
static void release(Fiber& fiber, const Sums& sums) {
  const char* bytes = (const char*)sums.place;
  if (!GuardedCopy::poisoned(bytes, bytes + sums.values.size() * sizeof(float)))
    emulator_fail("a thread writes to sums that tensor cores still add to");
  std::copy(sums.values.begin(), sums.values.end(), sums.place);
  fiber.fenced = false;
}

void emulator_wgmma_wait(unsigned pending) {
  Fiber& fiber = current();
  std::vector<Wgmma>& wgmmas = fiber.wgmmas;
  size_t due = 0;
  for (; due < wgmmas.size() && wgmmas[due].group + pending < fiber.wgmma_groups; due++) {
    const Wgmma& own = wgmmas[due];
    if (own.own && !std::equal(own.own, own.own + 4, own.kept))
      emulator_fail("a thread writes to the left operand of a WGMMA before it waits for it");
    multiply(fiber, wgmmas[due]);
  }
  wgmmas.erase(wgmmas.begin(), wgmmas.begin() + (ptrdiff_t)due);
  auto kept = std::partition(fiber.sums.begin(), fiber.sums.end(), [&](const Sums& sums) {
    return std::any_of(wgmmas.begin(), wgmmas.end(), [&](const Wgmma& each) { return each.sums == sums.place; });
  });
  for (auto each = kept; each != fiber.sums.end(); each++) release(fiber, *each);
  fiber.sums.erase(kept, fiber.sums.end());
}
