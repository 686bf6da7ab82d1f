// Products of warpgroups: tensor cores read shared memory and change sums of threads on their own.
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
    emulator_fail("tensor cores read a matrix outside of the dynamic shared memory");
  for (size_t i = offset / 2; i < (offset + bytes) / 2; i++) {
    const Written& last = block.written[i];
    if (last.thread && block.fibers[last.thread - 1].shown == last.shown)
      emulator_fail("tensor cores read what a thread has written, but not shown to them (copies_to_tensor_cores)");
  }
  std::memcpy(to, block.shared + offset, bytes);
}

static Sums* sums_at(Fiber& fiber, const float* place) {
  for (Sums& each : fiber.sums)
    if (each.place == place) return &each;
  return nullptr;
}

static void multiply(Fiber& fiber, Pending& product) {
  if (product.work) product.work(sums_at(fiber, product.sums)->values.data(), product.count, product.a, product.b);
  product.work = nullptr;
}

void emulator_product(Multiplication* work, float* sums, unsigned count, uint64_t a, uint64_t b) {
  Fiber& fiber = current();
  if (!sums_at(fiber, sums)) {
    if (!fiber.fenced) emulator_fail("a product is added to sums without a fence (wide_fence)");
    fiber.sums.push_back({sums, {sums, sums + count}});
    std::memset((void*)sums, POISON, count * sizeof *sums);
  }
  bool first = true;
  for (const Pending& other : fiber.products) first &= !other.work;
  fiber.products.push_back({work, sums, count, fiber.product_groups, a, b});
  fiber.trace = (fiber.trace ^ a) * 0x9e3779b97f4a7c15ull + b;
  if (first && random(fiber.block->worker->chance) % 2) multiply(fiber, fiber.products.back());
}

void emulator_product_fence() { current().fenced = true; }

void emulator_product_commit() { current().product_groups++; }

// Gives sums back to their thread.
static void release(Fiber& fiber, const Sums& sums) {
  const char* bytes = (const char*)sums.place;
  if (!GuardedCopy::poisoned(bytes, bytes + sums.values.size() * sizeof(float)))
    emulator_fail("a thread writes to sums that tensor cores still add to");
  std::copy(sums.values.begin(), sums.values.end(), sums.place);
  fiber.fenced = false;
}

void emulator_product_wait(unsigned pending) {
  Fiber& fiber = current();
  std::vector<Pending>& products = fiber.products;
  size_t due = 0;
  while (due < products.size() && products[due].group + pending < fiber.product_groups) multiply(fiber, products[due++]);
  products.erase(products.begin(), products.begin() + (ptrdiff_t)due);
  auto kept = std::partition(fiber.sums.begin(), fiber.sums.end(), [&](const Sums& sums) {
    return std::any_of(products.begin(), products.end(), [&](const Pending& each) { return each.sums == sums.place; });
  });
  for (auto each = kept; each != fiber.sums.end(); each++) release(fiber, *each);
  fiber.sums.erase(kept, fiber.sums.end());
}
