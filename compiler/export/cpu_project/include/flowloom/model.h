/* The C interface of a model that was compiled for a CPU. Functions that return int give 0, or 1 and a
 * text by flowloom_error(). A model runs once at a time: calls from several threads follow each other.
 * Several models run at once. What has the same name in the interface of a GPU's project does the same. */
#ifndef FLOWLOOM_MODEL_H
#define FLOWLOOM_MODEL_H

#include <stddef.h>
#include <stdint.h>

/* The version of what is declared here: raised whenever programs must be compiled again. */
#define FLOWLOOM_INTERFACE 1

#if defined(__GNUC__)
#define FLOWLOOM_API __attribute__((visibility("default")))
#else
#define FLOWLOOM_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

typedef struct flowloom_model flowloom_model;

typedef struct {
  const char* weights; /* path of weights.bin; needed during flowloom_create only */
  int threads;         /* that work on a run, the caller's included; 0 for one a core */
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

/* One thread for each core. */
FLOWLOOM_API flowloom_options flowloom_default_options(const char* weights);

/* An error, which names what is missing, on a CPU that lacks instructions of the kernels. */
FLOWLOOM_API int flowloom_create(flowloom_model** model, const flowloom_options* options);
FLOWLOOM_API void flowloom_destroy(flowloom_model* model); /* no run may be under way */

/* The model's signature, in its own order. NULL beyond the last. */
FLOWLOOM_API size_t flowloom_input_count(void);
FLOWLOOM_API size_t flowloom_output_count(void);
FLOWLOOM_API const flowloom_tensor* flowloom_input(size_t index);
FLOWLOOM_API const flowloom_tensor* flowloom_output(size_t index);
FLOWLOOM_API int flowloom_find_input(const char* name, size_t* index);
FLOWLOOM_API int flowloom_find_output(const char* name, size_t* index);

/* Bytes of memory of the weights and of everything between the layers. */
FLOWLOOM_API size_t flowloom_weight_bytes(void);
FLOWLOOM_API size_t flowloom_arena_bytes(void);

/* Runs once, and waits. Arrays are aligned to 16 bytes; no output may overlap anything else. */
FLOWLOOM_API int flowloom_run_host(flowloom_model* model, const void* const* inputs, void* const* outputs);

/* The text of this thread's last error; what the library was built for ("NAME 0.1.0 cpu:neoverse-n1"). */
FLOWLOOM_API const char* flowloom_error(void);
FLOWLOOM_API const char* flowloom_version(void);

#ifdef __cplusplus
}
#endif
#endif
