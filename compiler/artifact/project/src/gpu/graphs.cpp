#include "gpu/graphs.h"

#include <cmath>

namespace flowloom {
namespace {

dim3 extent(const Size& size) { return dim3(size.x, size.y, size.z); }

gpuKernelNodeParams node_of(const Call& call) {
  gpuKernelNodeParams node{};
  node.func = call.function;
  node.gridDim = extent(call.launch->grid);
  node.blockDim = extent(call.launch->block);
  node.sharedMemBytes = call.launch->shared_bytes;
  node.kernelParams = const_cast<void**>(call.pointers.data());
  return node;
}

Call make_call(const Launch& launch, const std::vector<char*>& addresses) {
  void* const function = launch.function();
  Call call{&launch, function, launch.waits && gpuFuncWaits(function), {}, {}};
  for (const View& view : launch.arguments) call.addresses.push_back(addresses[view.allocation] + view.offset);
  for (void*& address : call.addresses) call.pointers.push_back(&address);
  if (launch.shared_bytes)
    check(gpuFuncAllowShared(call.function, launch.shared_bytes), "asking for shared memory");
  check(gpuFuncAllowCluster(call.function), "asking for a large cluster");
  if (gpu_plan.smem_carveout >= 0)
    check(gpuFuncSetSmemCarveout(call.function, gpu_plan.smem_carveout), "setting the shared-memory carveout");
  return call;
}

void connect(gpuGraph_t graph, gpuGraphNode_t from, gpuGraphNode_t to, bool early) {
  const auto add = early ? gpuGraphAddProgrammaticEdge : gpuGraphAddEdge;
  check(add(graph, from, to), "adding an edge to the graph");
}

}  // namespace

Calls::Calls(std::vector<char*> addresses) : addresses_(std::move(addresses)), users_(addresses_.size()) {
  for (size_t task = 0; task < plan.tasks.count; task++) {
    calls_.emplace_back();
    for (const Launch& launch : gpu_plan.work[task].launches) {
      calls_.back().push_back(make_call(launch, addresses_));
      for (const View& view : launch.arguments) {
        std::vector<size_t>& users = users_[view.allocation];
        if (users.empty() || users.back() != task) users.push_back(task);
      }
    }
  }
}

bool Calls::move(size_t allocation, char* address) {
  if (addresses_[allocation] == address) return false;
  addresses_[allocation] = address;
  for (size_t task : users_[allocation])
    for (Call& call : calls_[task]) {
      void** next = call.addresses.data();
      for (const View& view : call.launch->arguments) {
        if (view.allocation == allocation) *next = address + view.offset;
        next++;
      }
    }
  return true;
}

void Calls::launch(size_t task, gpuStream_t stream) const {
  for (const Call& call : calls_[task])
    check(gpuLaunchKernel(call.function, extent(call.launch->grid), extent(call.launch->block),
                          const_cast<void**>(call.pointers.data()), call.launch->shared_bytes, stream),
          plan.tasks[task].kernel);
}

TaskGraph::TaskGraph(const Calls& calls, std::vector<size_t> tasks) : calls_(calls), tasks_(std::move(tasks)) { make(); }

void TaskGraph::make() {
  gpuGraph_t graph{};
  check(gpuGraphCreate(&graph), "creating a graph");
  Graph made(graph);
  std::vector<std::vector<gpuGraphNode_t>> all(plan.tasks.count);
  int least = 0, greatest = 0;
  check(gpuGetPriorities(&least, &greatest), "asking for priorities");
  for (size_t task : tasks_) {
    const int priority = least + static_cast<int>(std::lround((greatest - least) * gpu_plan.work[task].urgency / 1000.0));
    std::vector<gpuGraphNode_t>& nodes = all[task];
    for (const Call& call : calls_.of_task(task)) {
      const gpuKernelNodeParams kernel = node_of(call);
      gpuGraphNode_t node{};
      check(gpuGraphAddKernelNode(&node, graph, &kernel), plan.tasks[task].kernel);
      check(gpuGraphKernelNodeSetPriority(node, priority), "setting a node's priority");
      if (!nodes.empty()) connect(graph, nodes.back(), node, gpu_plan.early && call.waits);
      nodes.push_back(node);
    }
    if (nodes.empty()) {
      gpuGraphNode_t node{};
      check(gpuGraphAddEmptyNode(&node, graph), "adding an empty node");
      nodes.push_back(node);
    }
    const bool waits = gpu_plan.early && !calls_.of_task(task).empty() && calls_.of_task(task).front().waits;
    for (size_t before : gpu_plan.work[task].after)
      if (!all[before].empty())
        connect(graph, all[before].back(), nodes.front(), waits && !calls_.of_task(before).empty());
  }
  gpuGraphExec_t exec{};
  check(gpuGraphInstantiate(&exec, graph), "instantiating the graph");
  exec_ = GraphExec(exec), graph_ = std::move(made), nodes_ = std::move(all);
}

void TaskGraph::update(size_t task) {
  if (nodes_[task].empty()) return;
  for (size_t i = 0; i < calls_.of_task(task).size(); i++) {
    const gpuKernelNodeParams kernel = node_of(calls_.of_task(task)[i]);
    check(gpuGraphExecSetKernel(exec_.get(), nodes_[task][i], &kernel), "updating the graph");
  }
  updated_ = gpu_plan.early, runs_ = 0;
}

// Rebuilds the graph; without memory for a new one the old one stays.
void TaskGraph::settle() {
  updated_ = false;
  try {
    make();
  } catch (const std::runtime_error&) {
  }
}

void TaskGraph::launch(gpuStream_t stream) {
  constexpr int SETTLED = 8;
  if (updated_ && ++runs_ > SETTLED) settle();
  check(gpuGraphLaunch(exec_.get(), stream), "launching the graph");
}

namespace {

class GraphRunner : public Runner {
 public:
  explicit GraphRunner(const Calls& calls)
      : graph_(calls, {gpu_plan.insertion.begin(), gpu_plan.insertion.end()}) {}
  void update(size_t task) override { graph_.update(task); }
  void run(gpuStream_t stream) override { graph_.launch(stream); }

 private:
  TaskGraph graph_;
};

std::vector<Unit> single_tasks() {
  std::vector<Unit> units;
  for (size_t task = 0; task < plan.tasks.count; task++)
    units.push_back({plan.tasks[task].stream, {task}, gpu_plan.work[task].after});
  return units;
}

std::vector<Unit> partitions() {
  std::vector<Unit> units;
  for (const Partition& partition : gpu_plan.partitions)
    units.push_back({partition.stream, partition.tasks, partition.after});
  return units;
}

// Stream 0 is the caller's; the others are forked from it by an event and joined to it at the end.
class StreamRunner : public Runner {
 public:
  StreamRunner(const Calls& calls, std::vector<Unit> units, bool graphs, Observer* observer)
      : calls_(calls), units_(std::move(units)), graphs_(units_.size()), events_(units_.size()),
        fork_(make_event()), observer_(observer) {
    for (int stream = 1; stream < gpu_plan.streams; stream++) streams_.push_back(make_stream());
    find_sinks();
    for (size_t i = 0; i < units_.size(); i++)
      if (graphs && launches(units_[i]) > 1) graphs_[i] = std::make_unique<TaskGraph>(calls, units_[i].tasks);
  }

  void update(size_t task) override {
    for (const auto& graph : graphs_)
      if (graph) graph->update(task);
  }

  void run(gpuStream_t caller) override {
    if (!streams_.empty()) check(gpuEventRecord(fork_.get(), caller), "recording an event");
    for (size_t i = 0; i < units_.size(); i++) run_unit(i, caller);
    for (size_t sink : sinks_) wait(caller, events_[sink]);
  }

 private:
  size_t launches(const Unit& unit) const {
    size_t count = 0;
    for (size_t task : unit.tasks) count += calls_.of_task(task).size();
    return count;
  }

  // Makes the events of units that another stream waits for: a unit there, or the caller.
  void find_sinks() {
    std::vector<bool> followed(units_.size()), awaited(units_.size());
    for (const Unit& unit : units_)
      for (size_t other : unit.after) {
        followed[other] = true;
        if (units_[other].stream != unit.stream) awaited[other] = true;
      }
    for (size_t i = 0; i < units_.size(); i++) {
      if (units_[i].stream != 0 && !followed[i]) sinks_.push_back(i), awaited[i] = true;
      if (awaited[i]) events_[i] = make_event();
    }
  }

  static void wait(gpuStream_t stream, const Event& event) {
    check(gpuStreamWaitEvent(stream, event.get()), "waiting for an event");
  }

  void run_unit(size_t index, gpuStream_t caller) {
    const Unit& unit = units_[index];
    const gpuStream_t stream = unit.stream == 0 ? caller : streams_[static_cast<size_t>(unit.stream - 1)].get();
    if (unit.after.empty() && unit.stream != 0) wait(stream, fork_);
    for (size_t other : unit.after)
      if (units_[other].stream != unit.stream) wait(stream, events_[other]);
    if (observer_ != nullptr) observer_->before(index, stream);
    if (graphs_[index])
      graphs_[index]->launch(stream);
    else
      for (size_t task : unit.tasks) calls_.launch(task, stream);
    if (observer_ != nullptr) observer_->after(index, stream);
    if (events_[index].get() != gpuEvent_t{}) check(gpuEventRecord(events_[index].get(), stream), "recording an event");
  }

  const Calls& calls_;
  std::vector<Unit> units_;
  std::vector<std::unique_ptr<TaskGraph>> graphs_;
  std::vector<Event> events_;
  Event fork_;
  Observer* observer_;
  std::vector<Stream> streams_;
  std::vector<size_t> sinks_;
};

}  // namespace

std::unique_ptr<Runner> make_runner(const Calls& calls, flowloom_mode mode) {
  if (mode == FLOWLOOM_GRAPH) return std::make_unique<GraphRunner>(calls);
  if (mode == FLOWLOOM_SUBGRAPHS) return std::make_unique<StreamRunner>(calls, partitions(), true, nullptr);
  return std::make_unique<StreamRunner>(calls, single_tasks(), false, nullptr);
}

std::unique_ptr<Runner> make_observed(const Calls& calls, Observer& observer) {
  return std::make_unique<StreamRunner>(calls, single_tasks(), false, &observer);
}

}  // namespace flowloom
