/* The C interface from C99, linked: errors first, then a run; arguments: weights. */
#include <stdio.h>
#include <string.h>

#include "flowloom/model.h"

static int failures = 0;

/* The call must fail, with a text that holds `part`. */
static void fails(int status, const char* part) {
  if (status != 1 || strstr(flowloom_error(), part) == NULL) {
    printf("FAIL: status %d, \"%s\" has no \"%s\"\n", status, flowloom_error(), part);
    failures++;
  }
}

static void* nothing(void* context, size_t bytes) { return (void)context, (void)bytes, NULL; }
static void ignore(void* context, void* memory) { (void)context, (void)memory; }
static void* crooked(void* context, size_t bytes) { return (void)bytes, (float*)context + 1; }

int main(int count, char** arguments) {
  flowloom_model* model = NULL;
  flowloom_options options = flowloom_default_options(arguments[count - 1]);
  flowloom_allocator allocator = {nothing, ignore, NULL};
  static float x[800], y[800], image[1400], row[8];
  const void* inputs[] = {x, y};
  void* outputs[] = {image, row};
  size_t index = 7, needed = 0;

  fails(flowloom_check_interface(FLOWLOOM_INTERFACE + 1), "compile it with the library's own flowloom/model.h");
  fails(flowloom_find_input("z", &index), "there is no input z: the inputs are x, y");
  fails(flowloom_find_output(NULL, &index), "the name is NULL");
  fails(flowloom_create(NULL, &options), "the place of the model is NULL");
  fails(flowloom_create(&model, NULL), "the pointer to options is NULL");
  options.device = 3;
  fails(flowloom_create(&model, &options), "there is no device 3: 1 are visible");
  options.device = 0, options.weights = "nowhere.bin";
  fails(flowloom_create(&model, &options), "cannot read the weights nowhere.bin");
  options.weights = arguments[count - 1], options.mode = (flowloom_mode)9;
  fails(flowloom_create(&model, &options), "unknown mode 9");
  options.mode = FLOWLOOM_GRAPH, options.allocator = &allocator;
  fails(flowloom_create(&model, &options), "bytes of device memory for the weights (the device has ");
  allocator.allocate = crooked, allocator.context = x;
  fails(flowloom_create(&model, &options), "the allocator did not align");
  allocator.release = NULL;
  fails(flowloom_create(&model, &options), "an allocator has both functions");
  fails(flowloom_run_host(NULL, inputs, outputs), "the model is NULL");
  fails(flowloom_load_weights(NULL, ""), "the model is NULL");

  options.allocator = NULL;
  if (flowloom_create(&model, &options) != 0) return printf("%s\n", flowloom_error()), 1;
  fails(flowloom_run(model, NULL, outputs, NULL), "the array of inputs is NULL");
  outputs[1] = NULL;
  fails(flowloom_run_host(model, inputs, outputs), "row is NULL");
  fails(flowloom_run(model, inputs, outputs, NULL), "row is not device memory aligned to 16 bytes");
  outputs[1] = row;
  fails(flowloom_run_host(model, inputs, NULL), "the array of outputs is NULL");
  fails(flowloom_profile(model, 0, NULL, 0, &needed), "at least one run");
  fails(flowloom_profile(model, 1, NULL, 0, NULL), "the place of the size is NULL");
  fails(flowloom_load_weights(model, "nowhere.bin"), "cannot read the weights nowhere.bin");

  if (flowloom_find_input("y", &index) != 0 || index != 1) failures++, printf("FAIL: y is input %d\n", (int)index);
  memset(x, 0, sizeof x), memset(y, 0, sizeof y), memset(row, 0xFF, sizeof row);
  if (flowloom_run_host(model, inputs, outputs) != 0) return printf("%s\n", flowloom_error()), 1;
  for (index = 0; index < 8; index++)
    if (row[index] != 0.125f) failures++, printf("FAIL: row[%d] is %g\n", (int)index, row[index]);
  flowloom_destroy(model);
  flowloom_destroy(NULL);
  printf("%s: %d failures\n", flowloom_version(), failures);
  return failures != 0;
}
