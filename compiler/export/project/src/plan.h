// The content of the generated plan.cpp: the schedule as tables of constants.
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

struct View {
  size_t allocation;
  size_t offset;
};

struct Size {
  unsigned x, y, z;
};

struct Launch {
  void* (*function)();
  Size grid, block;
  unsigned shared_bytes;
  bool waits;  // for the launches before it, by itself
  std::initializer_list<View> arguments;
};

// `urgency` runs from 0 to 1000, for tasks of the critical path.
struct Task {
  const char* kernel;
  const char* nodes;
  int stream;
  int urgency;
  std::initializer_list<size_t> after;
  std::initializer_list<Launch> launches;
};

// Tasks that are queued together on one stream; `after` holds earlier partitions.
struct Partition {
  int stream;
  std::initializer_list<size_t> tasks, after;
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
  bool early;  // in graphs, kernels that wait themselves start before their predecessors have ended
  int smem_carveout;  // percent of an SM's L1 that kernels prefer as shared memory, or -1
  int streams;
  uint64_t weights_layout;  // weights.bin must have the same
  size_t weight_bytes, arena_bytes;
  double tolerance;  // of outputs: relative error in the Euclidean norm
  Table<Allocation> allocations;
  Table<Task> tasks;
  Table<Partition> partitions;
  Table<size_t> insertion;  // of tasks into a graph: critical branch first
};

extern const Plan plan;

}  // namespace flowloom
