// The C interface: exceptions become the thread's last error.
#include "guarded.h"

int flowloom_check_interface(int interface) {
  return guarded([&] {
    if (interface != FLOWLOOM_INTERFACE)
      throw std::runtime_error("the program was compiled for interface " + std::to_string(interface) + " and " +
                               flowloom::plan.version + " has interface " + std::to_string(FLOWLOOM_INTERFACE) +
                               ": compile it with the library's own flowloom/model.h");
  });
}

flowloom_options flowloom_default_options(const char* weights) { return {weights, 0}; }

int flowloom_create(flowloom_model** model, const flowloom_options* options) {
  return guarded([&] {
    given(model, "the place of the model") = nullptr;
    *model = new flowloom_model(given(options, "the pointer to options"));
  });
}

void flowloom_destroy(flowloom_model* model) { delete model; }

size_t flowloom_input_count() { return flowloom::tensors(flowloom::Kind::input).size(); }
size_t flowloom_output_count() { return flowloom::tensors(flowloom::Kind::output).size(); }
const flowloom_tensor* flowloom_input(size_t index) { return tensor(flowloom::Kind::input, index); }
const flowloom_tensor* flowloom_output(size_t index) { return tensor(flowloom::Kind::output, index); }
int flowloom_find_input(const char* name, size_t* index) { return find(flowloom::Kind::input, name, index); }
int flowloom_find_output(const char* name, size_t* index) { return find(flowloom::Kind::output, name, index); }

size_t flowloom_weight_bytes() { return flowloom::plan.weight_bytes; }
size_t flowloom_arena_bytes() { return flowloom::plan.arena_bytes; }

int flowloom_run_host(flowloom_model* model, const void* const* inputs, void* const* outputs) {
  return guarded([&] {
    check_arrays(inputs, outputs);
    given(model, "the model").run(inputs, outputs);
  });
}

const char* flowloom_error() { return last_error; }
const char* flowloom_version() { return flowloom::plan.version; }
