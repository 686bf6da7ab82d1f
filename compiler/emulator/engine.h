// What emulated kernels and hosts share with the engine, which runs every GPU thread as a fiber.
//
// A kernel sees its place in the grid through `emulator_current`; it waits by the functions below,
// each of which lets other threads run. Blocks run on worker threads of the host, one at a time on
// each (all blocks of a cluster on one), so `__shared__` arrays are thread-local statics.
#pragma once
#include <stddef.h>
#include <stdint.h>

namespace emulator {
struct Dim { unsigned x, y, z; };
}  // namespace emulator

// An extent as CUDA writes it: what is left out is 1.
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x_ = 1, unsigned y_ = 1, unsigned z_ = 1) : x(x_), y(y_), z(z_) {}
  operator emulator::Dim() const { return {x, y, z}; }
};

namespace emulator {

// What all threads of a block see. `rank` counts the blocks of its cluster, `warp` is 32 or 64.
struct Place {
  Dim index, block, grid;
  unsigned rank, warp;
};

// What one GPU thread sees. `number` counts the threads of its block.
struct Thread {
  Dim index;
  unsigned number;
  const Place* place;
};

// Does the work of a whole warp at once. `operands` has one entry a lane, null for lanes that do not
// take part; the answer is null, or what is wrong.
typedef const char* Collective(void* const* operands, unsigned lanes);

// Adds the product of two matrices in shared memory, given by descriptors, to `count` floats of a thread;
// or of the rows `left`, 16 words, and the second of them.
typedef void Multiplication(float* sums, unsigned count, uint64_t a, uint64_t b, const uint32_t* left);

// A kernel as hosts launch it. `invoke` calls it with parameters that `parameters` points to;
// `anchor` gives an address among the thread-local statics of the kernel's library.
struct Kernel {
  const char* name;
  void (*invoke)(void* const* parameters);
  void* (*anchor)();
  const size_t* sizes;
  unsigned parameters;
  Dim cluster;
};

// One launch. `extents` are the bytes that each parameter points to, or null if they are not known:
// where they are known, an access outside them is an error. With `indirect` a parameter points to
// a pointer to those bytes. `seed` decides all random orders.
struct Launch {
  const Kernel* kernel;
  Dim grid, block;
  size_t shared_bytes;
  void* const* parameters;
  const size_t* extents;
  bool indirect;
  uint64_t seed;
  unsigned warp, workers;
};

// The next of a sequence of random numbers (SplitMix64).
inline uint64_t random(uint64_t& state) {
  uint64_t x = state += 0x9e3779b97f4a7c15ull;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ull;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebull;
  return x ^ (x >> 31);
}

// Runs a launch to its end. Returns false, and writes what went wrong, if it failed.
bool run(const Launch& launch, char* message, size_t size);

}  // namespace emulator

extern "C" {
extern __attribute__((tls_model("initial-exec"))) __thread emulator::Thread* emulator_current;

// Waits for `threads` threads of the block at barrier `id`; 0 stands for all that have not ended.
void emulator_barrier(unsigned id, unsigned threads);
// Counts this thread at barrier `id` without waiting.
void emulator_arrive(unsigned id);
// Waits for all threads of the cluster.
void emulator_cluster_barrier();
// Waits for the lanes of `mask` among the `width` lanes around this one, whose work is done at once.
// A mask of 0 stands for those lanes that arrive before all others wait or have ended.
void emulator_collect(emulator::Collective* work, void* operand, unsigned width, uint64_t mask);
// The dynamic shared memory of this block.
void* emulator_shared();
// The address in block `rank` of the cluster that corresponds to `own` in this block's dynamic shared memory.
void* emulator_peer(const void* own, unsigned rank, size_t bytes);
// Starts a copy of `given` bytes and `bytes - given` zeros. It happens when it is waited for; until then
// the destination is poison.
void emulator_copy(void* to, const void* from, unsigned bytes, unsigned given);
// Commits a group of copies; waits for all groups of this thread but the last `pending`.
void emulator_commit();
void emulator_wait(unsigned pending);
// Waits for the launches that this one follows.
void emulator_begin();

// Sets the condition of a conditional node (see runtime.h).
void emulator_set_condition(uint64_t condition, unsigned value);

// Records that this thread wrote to dynamic shared memory what tensor cores may read.
void emulator_written(const void* to, unsigned bytes);
// The proxy fence: makes what this thread has written there visible to tensor cores.
void emulator_show_written();
// Reads `bytes` of dynamic shared memory as tensor cores do, from an address of 18 bits.
void emulator_read_matrix(void* to, uint32_t address, unsigned bytes);
// Starts a WGMMA. It happens at some time before it is waited for; until then `sums` are poison. If its
// left operand is in registers, these are the thread's four words `own`, of which `left` was made.
void emulator_wgmma(emulator::Multiplication* work, float* sums, unsigned count, uint64_t a, uint64_t b, const uint32_t* own = nullptr, const uint32_t* left = nullptr);
// Keeps what registers hold from being computed later, for the fences that follow.
void emulator_hold(const void* registers, unsigned bytes);
// Fails unless registers were held before the last fence, and have not changed since; sums to which WGMMAs
// already add are theirs.
void emulator_check_held(const void* registers, unsigned bytes);
// Lets WGMMAs add to what this thread wrote to its sums.
void emulator_wgmma_fence();
// Commits a group of WGMMAs; waits for all groups of this thread but the last `pending`.
void emulator_wgmma_commit();
void emulator_wgmma_wait(unsigned pending);
// Ends the launch with a message about this thread.
[[noreturn]] void emulator_fail(const char* message);
}
