// The emulator as a device: memory, streams, events and graphs, in the shapes of CUDA's and HIP's.
//
// What is queued runs when it is waited for, one operation at a time, in a random topological order (from
// the seed): only stream order, events and edges of graphs hold an operation back. Functions return 0, or 1 with the reason in `emulator_error`.
#pragma once
#include "engine.h"

extern "C" {
typedef struct emulator_stream emulator_stream;
typedef struct emulator_event emulator_event;
typedef struct emulator_graph emulator_graph;
typedef struct emulator_node emulator_node;
typedef struct emulator_exec emulator_exec;
typedef struct emulator_condition emulator_condition;

// One launch, of nothing where `kernel` is null; `parameters` points to each parameter, `extents` and
// `indirect` as in emulator::Launch.
typedef struct {
  const emulator::Kernel* kernel;
  emulator::Dim grid, block;
  size_t shared_bytes;
  void* const* parameters;
  const size_t* extents;
  int indirect;
} emulator_call;

// Why the last call of this thread failed.
const char* emulator_error();
// Sets the reason of an error; returns 1.
int emulator_refuse(const char* why);

// Overrides FLOWLOOM_EMU_SEED (0), FLOWLOOM_EMU_WARP (32) and FLOWLOOM_EMU_THREADS (all).
int emulator_configure(uint64_t seed, unsigned warp, unsigned threads);
// How many lanes a warp has now.
int emulator_lanes(uint64_t* lanes);

// Poisoned memory, aligned to 256 bytes, before a page that cannot be accessed.
int emulator_allocate(void** memory, size_t bytes);
int emulator_free(void* memory);
// Whether an address is in memory that emulator_allocate gave.
int emulator_holds(const void* address);

// The null stream is ordered with all that are created with `ordered`.
int emulator_stream_create(emulator_stream** stream, int ordered);
int emulator_stream_destroy(emulator_stream* stream);
int emulator_stream_synchronize(emulator_stream* stream);
int emulator_stream_wait(emulator_stream* stream, emulator_event* event);

int emulator_event_create(emulator_event** event);
int emulator_event_destroy(emulator_event* event);
int emulator_event_record(emulator_event* event, emulator_stream* stream);
int emulator_event_synchronize(emulator_event* event);
// Sets `happened`; some of what is queued runs before.
int emulator_event_query(emulator_event* event, int* happened);
int emulator_event_elapsed(double* nanoseconds, emulator_event* start, emulator_event* end);

int emulator_memory_copy(void* to, const void* from, size_t bytes, emulator_stream* stream);
int emulator_memory_fill(void* to, int byte, size_t bytes, emulator_stream* stream);
// Writes 64 bits, given now.
int emulator_memory_write(void* to, uint64_t value, emulator_stream* stream);
int emulator_launch(const emulator_call* call, emulator_stream* stream);

int emulator_graph_create(emulator_graph** graph);
int emulator_graph_destroy(emulator_graph* graph);
int emulator_graph_add_call(emulator_node** node, emulator_graph* graph, const emulator_call* call);
int emulator_graph_add_copy(emulator_node** node, emulator_graph* graph, void* to, const void* from, size_t bytes);
int emulator_graph_add_fill(emulator_node** node, emulator_graph* graph, void* to, int byte, size_t bytes);
int emulator_graph_add_child(emulator_node** node, emulator_graph* graph, const emulator_graph* child);
int emulator_graph_add_empty(emulator_node** node, emulator_graph* graph);
// A condition of a node that decides: kernels before the node set it by `emulator_set_condition`.
int emulator_graph_add_condition(emulator_condition** condition, emulator_graph* graph);
// Runs the first of two bodies if the condition is not 0, else the second; with `loops` one body as long as it is
// not 0. The bodies are empty graphs, which belong to the node.
int emulator_graph_add_decision(emulator_node** node, emulator_graph* graph, emulator_condition* condition, int loops, emulator_graph** bodies);
int emulator_graph_add_edge(emulator_graph* graph, emulator_node* from, emulator_node* to);
// A programmatic edge: the second launch may begin before the first has ended, and waits itself (`emulator_begin`).
int emulator_graph_add_early_edge(emulator_graph* graph, emulator_node* from, emulator_node* to);
int emulator_graph_instantiate(emulator_exec** exec, const emulator_graph* graph);
int emulator_exec_set_call(emulator_exec* exec, const emulator_node* node, const emulator_call* call);
int emulator_exec_launch(emulator_exec* exec, emulator_stream* stream);
int emulator_exec_destroy(emulator_exec* exec);

// Kernels in shared objects: those that EMULATED_KERNEL names.
int emulator_module_load(void** module, const char* path);
int emulator_module_function(const emulator::Kernel** kernel, void* module, const char* name);
int emulator_module_unload(void* module);
}
