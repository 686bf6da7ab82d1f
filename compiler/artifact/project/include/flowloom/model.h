/* The C interface of a compiled model. Functions that return int give 0, or 1 and a text by
 * flowloom_error(). A model runs once at a time: calls from several threads follow each other, runs on
 * several streams too. Several models run at once. A call makes its device the thread's current one.
 * A CPU is a device as well: number 0, whose memory is the host's. */
#ifndef FLOWLOOM_MODEL_H
#define FLOWLOOM_MODEL_H

#include <stddef.h>
#include <stdint.h>

/* The version of what is declared here: raised whenever programs must be compiled again. */
#define FLOWLOOM_INTERFACE 2

#if defined(__GNUC__)
#define FLOWLOOM_API __attribute__((visibility("default")))
#else
#define FLOWLOOM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct flowloom_model flowloom_model;

/* How a GPU's run is queued: one graph; a graph for each partition on its stream; or plain launches. */
typedef enum { FLOWLOOM_GRAPH, FLOWLOOM_SUBGRAPHS, FLOWLOOM_STREAMS } flowloom_mode;

/* Device memory, aligned to 256 bytes: allocate returns NULL when there is none. What is pointed to by
 * options is needed during flowloom_create only; the context, until flowloom_destroy. */
typedef struct {
  void* (*allocate)(void* context, size_t bytes);
  void (*release)(void* context, void* memory);
  void* context;
} flowloom_allocator;

typedef struct {
  const char* weights; /* path of weights.bin */
  flowloom_mode mode;  /* for GPUs */
  int device;
  const flowloom_allocator* allocator; /* NULL for the platform's own */
  int threads; /* for CPUs: that work on a run, the caller's included; 0 for one a core */
} flowloom_options;

/* An input or output: row-major, dimensions in elements. */
typedef struct {
  const char* name;
  const char* dtype; /* float32, int64, ... */
  const int64_t* shape;
  size_t rank;
  size_t bytes;
} flowloom_tensor;

/* Call this first, with FLOWLOOM_INTERFACE: an error if the library has another interface. */
FLOWLOOM_API int flowloom_check_interface(int interface);

/* The mode that was chosen when the model was compiled, on device 0, with a thread for each core. */
FLOWLOOM_API flowloom_options flowloom_default_options(const char* weights);

/* An error, which names what is missing, where no device can run the kernels. */
FLOWLOOM_API int flowloom_create(flowloom_model** model, const flowloom_options* options);
FLOWLOOM_API void flowloom_destroy(flowloom_model* model); /* waits for the last run */

/* The model's signature, in its own order; needs no device. NULL beyond the last. */
FLOWLOOM_API size_t flowloom_input_count(void);
FLOWLOOM_API size_t flowloom_output_count(void);
FLOWLOOM_API const flowloom_tensor* flowloom_input(size_t index);
FLOWLOOM_API const flowloom_tensor* flowloom_output(size_t index);
FLOWLOOM_API int flowloom_find_input(const char* name, size_t* index);
FLOWLOOM_API int flowloom_find_output(const char* name, size_t* index);

/* Bytes of device memory of the weights and of everything between the layers. */
FLOWLOOM_API size_t flowloom_weight_bytes(void);
FLOWLOOM_API size_t flowloom_arena_bytes(void);

/* Queues one run on the caller's stream (cudaStream_t, hipStream_t; NULL for the default stream); on a
 * CPU, which has no other stream than NULL, the run has ended when this returns. Inputs and outputs are
 * device memory, aligned to 16 bytes; no output may overlap anything else. */
FLOWLOOM_API int flowloom_run(flowloom_model* model, const void* const* inputs, void* const* outputs, void* stream);

/* Runs once on host memory, and waits. A CPU works on these arrays themselves, as flowloom_run does. */
FLOWLOOM_API int flowloom_run_host(flowloom_model* model, const void* const* inputs, void* const* outputs);

/* Replaces all weights by those of another weights.bin of the same model. */
FLOWLOOM_API int flowloom_load_weights(flowloom_model* model, const char* path);

/* The time of every task as JSON, from `runs` runs on separate poisoned memory. `text` gets at most
 * `size` bytes with the closing zero; `needed` gets the bytes of all of it. */
FLOWLOOM_API int flowloom_profile(flowloom_model* model, int runs, char* text, size_t size, size_t* needed);

/* The text of this thread's last error; what the library was built for ("NAME 0.1.0 cuda:sm_90:fp16"). */
FLOWLOOM_API const char* flowloom_error(void);
FLOWLOOM_API const char* flowloom_version(void);

#ifdef __cplusplus
}
#endif
#endif
