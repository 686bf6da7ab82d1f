// How the plan is run on a device; `gpu/` and `cpu/` implement it. Errors are exceptions.
#pragma once

#include <string>
#include <vector>

#include "device.h"
#include "plan.h"

namespace flowloom {

// One run at a time; its destructor waits for the last one.
class Executor {
 public:
  virtual ~Executor() = default;
  // Queues a run with the inputs and then the outputs at these places.
  virtual void run(const std::vector<char*>& places, void* stream) = 0;
  // Waits for the last run.
  virtual void wait() = 0;
  // Microseconds from the start of the last run, which has ended: where tasks start, then where they end.
  virtual std::vector<double> times() = 0;
};

// An executor on the device of the options, over memory that must outlive it. Only one that is `timed` has times.
std::unique_ptr<Executor> make_executor(const flowloom_options& options, char* weights, char* arena, bool timed);

// The options of all ways in which this device can run the plan: they give the same bits.
std::vector<flowloom_options> ways_of(const flowloom_options& options);
std::string name_of_way(const flowloom_options& options);

}  // namespace flowloom
