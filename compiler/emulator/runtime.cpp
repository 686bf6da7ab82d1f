// Streams, events and graphs as operations with an order.
#include "runtime.h"

#include <dlfcn.h>

#include <algorithm>

#include "operations.h"

namespace emulator {

static Runtime& runtime() {
  static Runtime* own = new Runtime;
  return *own;
}

static thread_local char* error_text = (char*)"";

// Calls a function under the runtime's lock; its exception becomes this thread's error.
template <class F>
static int guarded(F function) {
  try {
    Runtime& own = runtime();
    std::lock_guard<std::recursive_mutex> lock(own.mutex);
    function(own);
    return 0;
  } catch (const std::exception& error) {
    if (*error_text) std::free(error_text);
    error_text = strdup(error.what());
    return 1;
  }
}

}  // namespace emulator

using namespace emulator;

struct emulator_stream {
  bool ordered;
  Handles tail;  // the next operation of the stream waits for these
};
struct emulator_event { Handle record; };

// A condition is set by a kernel; each decision of its node uses it up.
struct emulator_condition {
  unsigned value = 0;
  bool set = false, used = false;
};
// One of two bodies, or one body again and again.
struct Decision {
  std::shared_ptr<emulator_condition> condition;
  bool loops = false;
  std::vector<std::shared_ptr<emulator_graph>> bodies;
};

// What a node of a graph does: a launch, a copy or fill, a child graph, a decision, or nothing.
struct emulator_node {
  size_t index;
  std::shared_ptr<Call> call;
  std::function<void()> work;
  std::shared_ptr<emulator_graph> child;
  std::vector<size_t> before, early;
  Decision decision{};
};
struct emulator_graph {
  std::vector<std::shared_ptr<emulator_node>> nodes;
  std::vector<std::shared_ptr<emulator_condition>> conditions;
  emulator_node* add(emulator_node node) {
    node.index = nodes.size();
    nodes.push_back(std::make_shared<emulator_node>(std::move(node)));
    return nodes.back().get();
  }
  // A copy of the nodes; calls are shared, as they are replaced and never changed.
  std::shared_ptr<emulator_graph> clone() const {
    auto copy = std::make_shared<emulator_graph>();
    for (const auto& node : nodes)
      for (auto& body : copy->add(*node)->decision.bodies) body = body->clone();
    copy->conditions = conditions;
    return copy;
  }
};
struct emulator_exec { std::shared_ptr<emulator_graph> graph; };

namespace emulator {

static Handles& tail_of(Runtime& own, emulator_stream* stream) { return stream ? stream->tail : own.default_tail; }

// What the next operation of a stream waits for.
static Handles before(Runtime& own, emulator_stream* stream) {
  Handles found = tail_of(own, stream);
  if (stream && stream->ordered) found.insert(found.end(), own.default_tail.begin(), own.default_tail.end());
  if (!stream)
    for (emulator_stream* other : own.ordered) found.insert(found.end(), other->tail.begin(), other->tail.end());
  return found;
}

static Handle queue(Runtime& own, emulator_stream* stream, std::function<void()> work) {
  Handle added = own.add(before(own, stream), std::move(work));
  tail_of(own, stream) = {added};
  return added;
}

// The first and last operation of a node.
struct Span { Handle start, end; };

// Adds a launch with programmatic edges: it begins after `wanted`, and resumes after `early`.
static Span add_early(Runtime& own, const emulator_node& node, const Handles& wanted, Handles early) {
  auto launch = std::make_shared<EarlyLaunch>(node.call);
  const Handle start = own.add(wanted, [&own, launch] { launch->begin(own); });
  early.push_back(start);
  return {start, own.add(early, [&own, launch] { launch->finish(own); })};
}

static Handle expand(Runtime& own, const emulator_graph& graph, const Handles& first);

// Adds the body that a condition asks for, if any, before `end`; a loop then decides again.
static void decide(Runtime& own, const Decision& decision, const Handle& end) {
  if (!decision.condition->set) throw std::runtime_error("the condition of a conditional node was not set");
  decision.condition->set = false;
  const bool value = decision.condition->value != 0;
  if (decision.loops && !value) return;
  Handle last = expand(own, *decision.bodies[value ? 0 : 1], {});
  if (decision.loops) last = own.add({last}, [&own, decision, end] { decide(own, decision, end); });
  own.connect(last, end);
}

static Span add_decision(Runtime& own, const Decision& decision, const Handles& wanted) {
  const Handle end = std::make_shared<Operation>();
  const Handle start = own.add(wanted, [&own, decision, end] { decide(own, decision, end); });
  own.connect(start, end);
  return {start, end};
}

// Adds a graph's operations after others; returns one that is done when all of them are.
static Handle expand(Runtime& own, const emulator_graph& graph, const Handles& first) {
  std::vector<Span> every;
  Handles ends = first;
  for (const auto& node : graph.nodes) {
    Handles wanted, early;
    for (size_t other : node->before) wanted.push_back(every[other].end);
    for (size_t other : node->early) wanted.push_back(every[other].start), early.push_back(every[other].end);
    if (wanted.empty()) wanted = first;
    Span added;
    if (node->decision.condition) {
      added = add_decision(own, node->decision, wanted);
    } else if (!early.empty()) {
      added = add_early(own, *node, wanted, early);
    } else {
      added.start = own.add(wanted, nullptr);
      if (node->child)
        added.end = expand(own, *node->child, {added.start});
      else if (node->call)
        added.end = own.add({added.start}, [&own, call = node->call] { own.launch(*call); });
      else
        added.end = own.add({added.start}, node->work);
    }
    every.push_back(added);
    ends.push_back(added.end);
  }
  return own.add(ends, nullptr);
}

}  // namespace emulator

const char* emulator_error() { return error_text; }

int emulator_refuse(const char* why) {
  return guarded([&](Runtime&) { throw std::runtime_error(why); });
}

int emulator_configure(uint64_t seed, unsigned warp, unsigned threads) {
  return guarded([&](Runtime& own) {
    if (!is_warp(warp)) throw std::runtime_error("a warp has 32 or 64 threads");
    own.seed = own.chance = seed, own.warp = warp;
    own.threads = threads ? threads : std::max(1u, std::thread::hardware_concurrency());
  });
}

int emulator_lanes(uint64_t* lanes) {
  return guarded([&](Runtime& own) { *lanes = own.warp; });
}

int emulator_allocate(void** memory, size_t bytes) {
  return guarded([&](Runtime& own) {
    Pages pages(rounded(bytes, 256));
    char* start = pages.end() - rounded(bytes, 256);
    std::memset(pages.start, POISON, pages.size);
    own.memory.emplace(start, std::move(pages));
    *memory = start;
  });
}
int emulator_free(void* memory) {
  return guarded([&](Runtime& own) {
    while (!own.ready.empty()) own.step();
    if (!own.memory.erase((char*)memory)) throw std::runtime_error("memory is freed that was not allocated");
  });
}
int emulator_holds(const void* address) {
  int found = 0;
  guarded([&](Runtime& own) {
    auto next = own.memory.upper_bound((char*)address);
    found = next != own.memory.begin() && (const char*)address < std::prev(next)->second.end();
  });
  return found;
}

int emulator_stream_create(emulator_stream** stream, int ordered) {
  return guarded([&](Runtime& own) {
    *stream = new emulator_stream{ordered != 0, {}};
    if (ordered) own.ordered.push_back(*stream);
  });
}
int emulator_stream_destroy(emulator_stream* stream) {
  return guarded([&](Runtime& own) {
    own.ordered.erase(std::remove(own.ordered.begin(), own.ordered.end(), stream), own.ordered.end());
    delete stream;
  });
}
int emulator_stream_synchronize(emulator_stream* stream) {
  return guarded([&](Runtime& own) { own.finish_all(before(own, stream)); });
}
int emulator_stream_wait(emulator_stream* stream, emulator_event* event) {
  return guarded([&](Runtime& own) {
    if (event->record) tail_of(own, stream).push_back(event->record);
  });
}

int emulator_event_create(emulator_event** event) {
  return guarded([&](Runtime&) { *event = new emulator_event{}; });
}
int emulator_event_destroy(emulator_event* event) {
  return guarded([&](Runtime&) { delete event; });
}
int emulator_event_record(emulator_event* event, emulator_stream* stream) {
  return guarded([&](Runtime& own) { event->record = queue(own, stream, nullptr); });
}
int emulator_event_synchronize(emulator_event* event) {
  return guarded([&](Runtime& own) {
    if (event->record) own.finish_all({event->record});
  });
}
int emulator_event_query(emulator_event* event, int* happened) {
  return guarded([&](Runtime& own) {
    for (uint64_t steps = random(own.chance) % 4; steps && !own.ready.empty(); steps--) own.step();
    *happened = !event->record || event->record->done;
  });
}
int emulator_event_elapsed(double* nanoseconds, emulator_event* start, emulator_event* end) {
  return guarded([&](Runtime&) {
    if (!start->record || !end->record || !start->record->done || !end->record->done)
      throw std::runtime_error("the time between events is asked for that have not happened");
    *nanoseconds = end->record->nanoseconds - start->record->nanoseconds;
  });
}

int emulator_memory_copy(void* to, const void* from, size_t bytes, emulator_stream* stream) {
  return guarded([&](Runtime& own) { queue(own, stream, [=] { std::memmove(to, from, bytes); }); });
}
int emulator_memory_fill(void* to, int byte, size_t bytes, emulator_stream* stream) {
  return guarded([&](Runtime& own) { queue(own, stream, [=] { std::memset(to, byte, bytes); }); });
}
int emulator_memory_write(void* to, uint64_t value, emulator_stream* stream) {
  return guarded([&](Runtime& own) { queue(own, stream, [=] { std::memcpy(to, &value, sizeof value); }); });
}
int emulator_launch(const emulator_call* call, emulator_stream* stream) {
  return guarded([&](Runtime& own) {
    queue(own, stream, [&own, copy = std::make_shared<Call>(*call)] { own.launch(*copy); });
  });
}

int emulator_graph_create(emulator_graph** graph) {
  return guarded([&](Runtime&) { *graph = new emulator_graph; });
}
int emulator_graph_destroy(emulator_graph* graph) {
  return guarded([&](Runtime&) { delete graph; });
}
int emulator_graph_add_call(emulator_node** node, emulator_graph* graph, const emulator_call* call) {
  return guarded([&](Runtime&) { *node = graph->add({0, std::make_shared<Call>(*call), nullptr, nullptr, {}, {}}); });
}
int emulator_graph_add_copy(emulator_node** node, emulator_graph* graph, void* to, const void* from, size_t bytes) {
  return guarded([&](Runtime&) { *node = graph->add({0, nullptr, [=] { std::memmove(to, from, bytes); }, nullptr, {}, {}}); });
}
int emulator_graph_add_fill(emulator_node** node, emulator_graph* graph, void* to, int byte, size_t bytes) {
  return guarded([&](Runtime&) { *node = graph->add({0, nullptr, [=] { std::memset(to, byte, bytes); }, nullptr, {}, {}}); });
}
int emulator_graph_add_child(emulator_node** node, emulator_graph* graph, const emulator_graph* child) {
  return guarded([&](Runtime&) {
    for (const auto& each : child->nodes)
      if (each->decision.condition) throw std::runtime_error("a child graph has no conditional nodes");
    *node = graph->add({0, nullptr, nullptr, child->clone(), {}, {}});
  });
}
int emulator_graph_add_condition(emulator_condition** condition, emulator_graph* graph) {
  return guarded([&](Runtime&) {
    graph->conditions.push_back(std::make_shared<emulator_condition>());
    *condition = graph->conditions.back().get();
  });
}
int emulator_graph_add_decision(emulator_node** node, emulator_graph* graph, emulator_condition* condition, int loops, emulator_graph** bodies) {
  return guarded([&](Runtime&) {
    const auto found = std::find_if(graph->conditions.begin(), graph->conditions.end(), [=](const auto& each) { return each.get() == condition; });
    if (found == graph->conditions.end() || condition->used) throw std::runtime_error("a conditional node needs a condition of its graph for itself");
    condition->used = true;
    Decision decision{*found, loops != 0, {}};
    for (int i = 0; i < (loops ? 1 : 2); i++) {
      decision.bodies.push_back(std::make_shared<emulator_graph>());
      bodies[i] = decision.bodies.back().get();
    }
    *node = graph->add({0, nullptr, nullptr, nullptr, {}, {}, decision});
  });
}
void emulator_set_condition(uint64_t condition, unsigned value) {
  emulator_condition* own = (emulator_condition*)condition;
  own->value = value, own->set = true;
}
int emulator_graph_add_empty(emulator_node** node, emulator_graph* graph) {
  return guarded([&](Runtime&) { *node = graph->add({0, nullptr, nullptr, nullptr, {}, {}}); });
}
int emulator_graph_add_edge(emulator_graph*, emulator_node* from, emulator_node* to) {
  return guarded([&](Runtime&) {
    if (from->index >= to->index) throw std::runtime_error("an edge leads to a node that was added before");
    to->before.push_back(from->index);
  });
}
int emulator_graph_add_early_edge(emulator_graph*, emulator_node* from, emulator_node* to) {
  return guarded([&](Runtime&) {
    if (from->index >= to->index) throw std::runtime_error("an edge leads to a node that was added before");
    if (!from->call || !to->call) throw std::runtime_error("an early edge leads from a launch to a launch");
    to->early.push_back(from->index);
  });
}
int emulator_graph_instantiate(emulator_exec** exec, const emulator_graph* graph) {
  return guarded([&](Runtime&) { *exec = new emulator_exec{graph->clone()}; });
}
int emulator_exec_set_call(emulator_exec* exec, const emulator_node* node, const emulator_call* call) {
  return guarded([&](Runtime&) { exec->graph->nodes.at(node->index)->call = std::make_shared<Call>(*call); });
}
int emulator_exec_launch(emulator_exec* exec, emulator_stream* stream) {
  return guarded([&](Runtime& own) { tail_of(own, stream) = {expand(own, *exec->graph, before(own, stream))}; });
}
int emulator_exec_destroy(emulator_exec* exec) {
  return guarded([&](Runtime&) { delete exec; });
}

int emulator_module_load(void** module, const char* path) {
  return guarded([&](Runtime&) {
    *module = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!*module) throw std::runtime_error(dlerror());
  });
}
int emulator_module_function(const Kernel** kernel, void* module, const char* name) {
  return guarded([&](Runtime&) {
    auto get = (const Kernel* (*)())dlsym(module, (std::string("emulated_") + name).c_str());
    if (!get) throw std::runtime_error(std::string("there is no kernel ") + name);
    *kernel = get();
  });
}
int emulator_module_unload(void* module) {
  return guarded([&](Runtime& own) {
    while (!own.ready.empty()) own.step();
    dlclose(module);
  });
}
