// CUDA kernels on the CPU, for tests: every thread is a fiber, clusters run one after another.
//
// Warps run alone up to the next barrier, in random order, and shared memory starts as NaN, so a
// missing barrier shows as a wrong result. It stands in for prelude.cuh's compiler and replaces
// instructions.cuh and half.cuh.
#pragma once
#include <ucontext.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <limits>
#include <memory>
#include <numeric>
#include <random>
#include <vector>

#define alignas(n) __attribute__((aligned(n)))
#define __global__
#define __device__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __cluster_dims__(...)
#define __align__(n) alignas(n)
#define __shared__ static

struct dim3 { unsigned x, y, z; };
struct alignas(8) float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct alignas(8) int2 { int x, y; };
struct alignas(16) int4 { int x, y, z, w; };
static dim3 threadIdx, blockIdx, blockDim, gridDim;

namespace emulator {
enum State { READY, BARRIER, CLUSTER, WARP, DONE };
struct Fiber {
  ucontext_t context;
  std::unique_ptr<char[]> stack{new char[128 << 10]};
  State state;
  dim3 index;
  unsigned rank, first;  // of its block in the cluster, of the block's fibers
  unsigned char slot[2][32];
  unsigned phase;
};
static std::vector<std::unique_ptr<Fiber>> fibers;
static Fiber* current;
static ucontext_t scheduler;
static std::function<void()> body;
static std::mt19937 generator(7);
alignas(16) static float memories[8][58112];
static unsigned base;  // blockIdx.z of the cluster's first block

static void yield(State state) {
  Fiber* fiber = current;
  fiber->state = state;
  swapcontext(&fiber->context, &scheduler);
}
static void enter() {
  body();
  current->state = DONE;
}
static void resume(Fiber* fiber) {
  current = fiber;
  threadIdx = fiber->index, blockIdx.z = base + fiber->rank;
  swapcontext(&scheduler, &fiber->context);
}
static void start(unsigned i, unsigned first, unsigned rank) {
  if (fibers.size() <= first + i) fibers.emplace_back(new Fiber);
  Fiber* fiber = fibers[first + i].get();
  fiber->rank = rank, fiber->first = first;
  getcontext(&fiber->context);
  fiber->context.uc_stack.ss_sp = fiber->stack.get();
  fiber->context.uc_stack.ss_size = 128 << 10;
  fiber->context.uc_link = &scheduler;
  makecontext(&fiber->context, enter, 0);
  fiber->state = READY, fiber->phase = 0;
  fiber->index = {i % blockDim.x, i / blockDim.x % blockDim.y, i / (blockDim.x * blockDim.y)};
}
// Runs one warp until all its threads wait for the block or are done.
static void run_warp(unsigned first, unsigned end) {
  for (bool again = true; again;) {
    again = false;
    for (unsigned i = first; i < end; i++)
      if (fibers[i]->state == READY) resume(fibers[i].get());
    for (unsigned i = first; i < end; i++)
      if (fibers[i]->state == WARP) fibers[i]->state = READY, fibers[i]->phase++, again = true;
  }
}
// Lets all fibers go on that wait in a state.
static bool release(unsigned count, State waiting) {
  bool any = false;
  for (unsigned i = 0; i < count; i++)
    if (fibers[i]->state == waiting) fibers[i]->state = READY, any = true;
  return any;
}
static void run_cluster(unsigned blocks) {
  const unsigned count = blockDim.x * blockDim.y * blockDim.z;
  std::vector<std::pair<unsigned, unsigned>> warps;
  for (unsigned rank = 0; rank < blocks; rank++) {
    for (unsigned i = 0; i < count; i++) start(i, rank * count, rank);
    for (unsigned i = 0; i < count; i += 32) warps.push_back({rank * count + i, rank * count + std::min(count, i + 32)});
  }
  do {
    std::shuffle(warps.begin(), warps.end(), generator);
    for (auto [first, end] : warps) run_warp(first, end);
  } while (release(count * blocks, BARRIER) || release(count * blocks, CLUSTER));
}
static void launch(dim3 grid, dim3 block, unsigned cluster, std::function<void()> kernel) {
  gridDim = grid, blockDim = block, body = kernel;
  std::memset(memories, 0xff, sizeof memories);
  for (base = 0; base < grid.z; base += cluster)
    for (blockIdx.y = 0; blockIdx.y < grid.y; blockIdx.y++)
      for (blockIdx.x = 0; blockIdx.x < grid.x; blockIdx.x++) run_cluster(cluster);
}
// Shows a value to the warp; `read(lane)` of the answer is what another lane showed.
template <class T>
struct Shown {
  unsigned phase, first;
  T read(unsigned lane) const {
    T value;
    std::memcpy(&value, fibers[first + lane]->slot[phase], sizeof value);
    return value;
  }
};
template <class T>
static Shown<T> show(T value) {
  static_assert(sizeof(T) <= 32);
  const unsigned phase = current->phase & 1;
  std::memcpy(current->slot[phase], &value, sizeof value);
  const dim3 at = threadIdx;
  const unsigned linear = at.x + blockDim.x * (at.y + blockDim.y * at.z);
  yield(WARP);
  return {phase, current->first + linear / 32 * 32};
}
static unsigned lane() { return (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32; }
}  // namespace emulator

static inline void __syncthreads() { emulator::yield(emulator::BARRIER); }
static inline unsigned __activemask() { return ~0u; }
template <class T> static T __shfl_down_sync(unsigned, T value, unsigned by, int width = 32) {
  const unsigned lane = emulator::lane();
  const auto shown = emulator::show(value);
  return lane % width + by < (unsigned)width ? shown.read(lane + by) : value;
}
template <class T> static T __shfl_sync(unsigned, T value, int from, int width = 32) {
  const unsigned lane = emulator::lane();
  return emulator::show(value).read(lane / width * width + from);
}
static inline float __int_as_float(int bits) { float x; std::memcpy(&x, &bits, 4); return x; }
static inline float __uint_as_float(unsigned bits) { return __int_as_float((int)bits); }
static inline unsigned __float_as_uint(float x) { unsigned bits; std::memcpy(&bits, &x, 4); return bits; }
static inline double __longlong_as_double(long long bits) { double x; std::memcpy(&x, &bits, 8); return x; }
template <class A, class B> static auto max(A a, B b) { using C = std::common_type_t<A, B>; return C(a) > C(b) ? C(a) : C(b); }
template <class A, class B> static auto min(A a, B b) { using C = std::common_type_t<A, B>; return C(a) < C(b) ? C(a) : C(b); }
using std::isfinite; using std::isinf; using std::isnan;

typedef _Float16 half;
static inline half __float2half_rn(float x) { return (half)x; }
static inline float __half2float(half x) { return (float)x; }

// instructions.cuh
enum Precision { FP32, TF32, FP16, BF16 };
#define DYNAMIC_SHARED float* shared = emulator::memories[emulator::current->rank]
static inline void cluster_wait() { emulator::yield(emulator::CLUSTER); }
static inline void cluster_leave() { cluster_wait(); }
static inline float peer_float(const float* own, int rank) {
  return emulator::memories[rank][own - emulator::memories[emulator::current->rank]];
}
static inline uint64_t __cvta_generic_to_shared(const void* p) { return (uint64_t)p; }
static inline float4 peer_float4(const float* own, int rank) {
  float4 value;
  for (int i = 0; i < 4; i++) (&value.x)[i] = peer_float(own + i, rank);
  return value;
}
static inline void copy_element(float* to, const float* from, bool valid) { *to = valid ? *from : 0; }
static inline void copy_element(uint16_t* to, const uint16_t* from, bool valid) { *to = valid ? *from : 0; }
template <bool REUSED> static void copy_chunk(void* to, const void* from, bool valid) {
  if (((uint64_t)to | (valid ? (uint64_t)from : 0)) % 16) std::fprintf(stderr, "misaligned copy\n"), std::abort();
  valid ? std::memcpy(to, from, 16) : std::memset(to, 0, 16);
}
static inline void load_matrices(uint32_t (&to)[4], const void* row) {
  if ((uint64_t)row % 16) std::fprintf(stderr, "misaligned matrix\n"), std::abort();
  const int lane = emulator::lane();
  const auto shown = emulator::show((const uint32_t*)row);
  for (int i = 0; i < 4; i++) to[i] = shown.read(i * 8 + lane / 4)[lane % 4];
}
static inline void load_transposed(uint32_t (&to)[4], const void* row) {
  if ((uint64_t)row % 16) std::fprintf(stderr, "misaligned matrix\n"), std::abort();
  const int lane = emulator::lane();
  const auto shown = emulator::show((const uint16_t*)row);
  for (int i = 0; i < 4; i++)
    to[i] = shown.read(i * 8 + lane % 4 * 2)[lane / 4] | (uint32_t)shown.read(i * 8 + lane % 4 * 2 + 1)[lane / 4] << 16;
}
static inline void copies_commit() {}
template <int PENDING> static void copies_wait() {}
static inline uint32_t bits_of(float x) { uint32_t bits; std::memcpy(&bits, &x, 4); return bits; }
static inline uint32_t round_tf32(uint32_t x) { return bits_of(__int_as_float(x) * (1 + 1.4427f / 4096)); }
template <int PRECISION> static uint16_t round_half(float x) {
  if (PRECISION == FP16) { half h = (half)x; uint16_t bits; std::memcpy(&bits, &h, 2); return bits; }
  const uint32_t bits = bits_of(x);
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}
template <int PRECISION> static float from_half(uint32_t bits) {
  if (PRECISION == BF16) return __int_as_float(bits << 16);
  half h; uint16_t low = bits; std::memcpy(&h, &low, 2); return h;
}
template <int PRECISION> static uint32_t round_pair(uint32_t low, uint32_t high) {
  return round_half<PRECISION>(__int_as_float(low)) | (uint32_t)round_half<PRECISION>(__int_as_float(high)) << 16;
}
template <int PRECISION> static float element(uint32_t bits, int k) {
  return PRECISION == TF32 ? __int_as_float(bits & ~0x1fffu) : from_half<PRECISION>(bits >> (k % 2 * 16) & 0xffff);
}
template <int PRECISION>
static void multiply_add(float (&c)[4], const uint32_t (&a)[4], const uint32_t (&b)[2]) {
  struct Fragments { uint32_t a[4], b[2]; } mine;
  std::memcpy(mine.a, a, sizeof a), std::memcpy(mine.b, b, sizeof b);
  const int lane = emulator::lane(), wide = PRECISION == TF32 ? 1 : 2;
  const auto shown = emulator::show(mine);
  for (int s = 0; s < 4; s++) {
    const int m = lane / 4 + s / 2 * 8, n = lane % 4 * 2 + s % 2;
    for (int k = 0; k < 8 * wide; k++) {
      const int place = k / wide % 4, later = k / wide / 4;
      const Fragments left = shown.read(m % 8 * 4 + place), right = shown.read(n * 4 + place);
      c[s] += element<PRECISION>(left.a[later * 2 + m / 8], k) * element<PRECISION>(right.b[later], k);
    }
  }
}
