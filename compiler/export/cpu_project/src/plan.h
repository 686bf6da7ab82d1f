// The content of the generated plan.cpp: the schedule as the tables that executor.c works from.
#pragma once

#include <cstddef>
#include <cstdint>
#include <initializer_list>

#include "flowloom/model.h"

namespace flowloom {

enum class Kind { input, output, weight, arena };

// `offset` counts bytes in the block of weights, or in the arena; inputs and outputs are the caller's.
struct Allocation {
  Kind kind;
  const char* name;
  const char* dtype;
  std::initializer_list<int64_t> shape;
  size_t bytes;
  size_t offset;
};

using Kernel = void(void** buffers, int64_t begin, int64_t end);

// Rows of words of 64 bits, which mirror a structure of executor.c.
struct Words {
  const int64_t* first;
  size_t rows, width;
  size_t size() const { return rows * width; }
};

// A launch's first word numbers its function from 1 (0: it has none), its second its first slot, its
// sixth its row of `controls` from 1. A slot is an allocation (negative: a run sets it) and an offset.
struct Plan {
  const char* version;
  const char* (*missing)();  // the name of a feature that kernels need and this CPU does not have, or nullptr
  uint64_t weights_layout;   // weights.bin must have the same
  size_t weight_bytes, arena_bytes;
  double tolerance;  // of outputs: relative error in the Euclidean norm
  const Allocation* allocations;
  size_t allocation_count;
  Kernel* const* kernels;
  Words streams, tasks, launches, waits, slots, places, carries, controls;
};

extern const Plan plan;

}  // namespace flowloom
