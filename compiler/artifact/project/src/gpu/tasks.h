// The content of plan.cpp for GPUs: how the tasks of the schedule are launched.
#pragma once

#include "plan.h"

namespace flowloom {

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
struct Work {
  int urgency;
  std::initializer_list<size_t> after;
  std::initializer_list<Launch> launches;
};

// Tasks that are queued together on one stream; `after` holds earlier partitions.
struct Partition {
  int stream;
  std::initializer_list<size_t> tasks, after;
};

struct GpuPlan {
  bool early;  // in graphs, kernels that wait themselves start before their predecessors have ended
  int smem_carveout;  // percent of an SM's L1 that kernels prefer as shared memory, or -1
  int streams;
  Table<Work> work;  // of each task
  Table<Partition> partitions;
  Table<size_t> insertion;  // of tasks into a graph: critical branch first
};

extern const GpuPlan gpu_plan;

}  // namespace flowloom
