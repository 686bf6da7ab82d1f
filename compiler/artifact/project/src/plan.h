// The part of the generated plan.cpp that all devices have; `gpu/tasks.h` and `cpu/tables.h` have the rest.
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

struct Task {
  const char* kernel;
  const char* nodes;
  int stream;
};

template <class T>
struct Table {
  const T* first;
  size_t count;
  const T* begin() const { return first; }
  const T* end() const { return first + count; }
  const T& operator[](size_t index) const { return first[index]; }
};

struct Plan {
  const char* version;
  flowloom_mode mode;
  uint64_t weights_layout;  // weights.bin must have the same
  size_t weight_bytes, arena_bytes;
  double tolerance;  // of outputs: relative error in the Euclidean norm
  Table<Allocation> allocations;
  Table<Task> tasks;
};

extern const Plan plan;

}  // namespace flowloom
