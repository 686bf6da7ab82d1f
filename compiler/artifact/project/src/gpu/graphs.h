// Runs the plan: one graph, a graph for each partition on its stream, or plain launches.
#pragma once

#include <memory>
#include <vector>

#include "gpu/handles.h"
#include "gpu/tasks.h"

namespace flowloom {

// One launch with the addresses of its arguments.
struct Call {
  const Launch* launch;
  void* function;
  bool waits;
  std::vector<void*> addresses;
  std::vector<void*> pointers;  // to each address, as kernels are launched
};

// The launches of all tasks, and the present address of each allocation.
class Calls {
 public:
  explicit Calls(std::vector<char*> addresses);
  // Gives an allocation another address; returns whether it moved.
  bool move(size_t allocation, char* address);
  const std::vector<Call>& of_task(size_t task) const { return calls_[task]; }
  // The tasks with a launch that reads or writes an allocation.
  const std::vector<size_t>& users(size_t allocation) const { return users_[allocation]; }
  char* address(size_t allocation) const { return addresses_[allocation]; }
  void launch(size_t task, gpuStream_t stream) const;

 private:
  std::vector<char*> addresses_;
  std::vector<std::vector<Call>> calls_;
  std::vector<std::vector<size_t>> users_;
};

// An executable graph of some tasks and their edges among each other.
//
// After an update of its nodes CUDA runs a graph as if no kernel could start early, so a graph whose
// addresses have stayed for some runs is built again.
class TaskGraph {
 public:
  TaskGraph(const Calls& calls, std::vector<size_t> tasks);
  // Gives the nodes of a task their present addresses, if it is in this graph.
  void update(size_t task);
  void launch(gpuStream_t stream);

 private:
  void make();
  void settle();

  const Calls& calls_;
  std::vector<size_t> tasks_;
  Graph graph_;
  GraphExec exec_;
  std::vector<std::vector<gpuGraphNode_t>> nodes_;  // of each task, one a launch
  bool updated_ = false;
  int runs_ = 0;  // since the last update
};

// Tasks that are dispatched together on one stream.
struct Unit {
  int stream;
  std::vector<size_t> tasks, after;
};

class Runner {
 public:
  virtual ~Runner() = default;
  virtual void update(size_t task) = 0;
  virtual void run(gpuStream_t stream) = 0;
};

// What to do before and after each unit of a run in mode `streams`, for profiles.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(size_t unit, gpuStream_t stream) = 0;
  virtual void after(size_t unit, gpuStream_t stream) = 0;
};

std::unique_ptr<Runner> make_runner(const Calls& calls, flowloom_mode mode);
std::unique_ptr<Runner> make_observed(const Calls& calls, Observer& observer);

}  // namespace flowloom
