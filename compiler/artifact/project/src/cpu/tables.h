// The content of plan.cpp for CPUs: the schedule as the tables that executor.c works from.
#pragma once

#include "plan.h"

namespace flowloom {

using Kernel = void(void** buffers, int64_t begin, int64_t end);

// Rows of words of 64 bits, which mirror a structure of executor.c.
struct Words {
  const int64_t* first;
  size_t rows, width;
  size_t size() const { return rows * width; }
  const int64_t* row(size_t index) const { return first + index * width; }
};

// A launch's first word numbers its function from 1 (0: it has none), its second its first slot, its
// sixth its row of `controls` from 1. A slot is an allocation (negative: a run sets it) and an offset.
struct CpuPlan {
  const char* (*missing)();  // the name of a feature that kernels need and this CPU does not have, or nullptr
  Kernel* const* kernels;
  Words streams, tasks, launches, waits, slots, places, carries, controls;
};

extern const CpuPlan cpu_plan;

}  // namespace flowloom
