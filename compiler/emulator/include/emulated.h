// CUDA C++ for a host compiler: what kernels use of the language and of its built-in functions.
//
// Included before the text of kernels; the headers in this folder replace those of the same name that
// are for nvcc. After the text, EMULATED_KERNEL(name) makes a kernel known to hosts.
#pragma once
#include <limits.h>
#include <string.h>

#include "engine.h"
#include "mathematics.h"

#define __global__ __attribute__((noinline))
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __noinline__ __attribute__((noinline))
#define __restrict__ __restrict
#define __launch_bounds__(...)
#define __grid_constant__
#define __align__(n) __attribute__((aligned(n)))
#define alignas(n) __attribute__((aligned(n)))
#define __shared__ static thread_local

typedef emulator::Dim uint3;
#define threadIdx (emulator_current->index)
#define blockIdx (emulator_current->place->index)
#define blockDim (emulator_current->place->block)
#define gridDim (emulator_current->place->grid)
#define warpSize ((int)emulator_current->place->warp)

#define EMULATOR_VECTORS(T, name)                                                                       \
  struct name##1 { T x; };                                                                              \
  struct __align__(2 * sizeof(T)) name##2 { T x, y; };                                                  \
  struct name##3 { T x, y, z; };                                                                        \
  struct __align__(4 * sizeof(T) < 16 ? 4 * sizeof(T) : 16) name##4 { T x, y, z, w; };                  \
  static inline name##1 make_##name##1(T x) { return {x}; }                                             \
  static inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                     \
  static inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                             \
  static inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }
EMULATOR_VECTORS(signed char, char)
EMULATOR_VECTORS(unsigned char, uchar)
EMULATOR_VECTORS(short, short)
EMULATOR_VECTORS(unsigned short, ushort)
EMULATOR_VECTORS(int, int)
EMULATOR_VECTORS(long, long)
EMULATOR_VECTORS(unsigned long, ulong)
EMULATOR_VECTORS(long long, longlong)
EMULATOR_VECTORS(unsigned long long, ulonglong)
EMULATOR_VECTORS(float, float)
EMULATOR_VECTORS(double, double)
struct __align__(8) uint2 { unsigned x, y; };
struct __align__(16) uint4 { unsigned x, y, z, w; };
static inline uint2 make_uint2(unsigned x, unsigned y) { return {x, y}; }
static inline uint4 make_uint4(unsigned x, unsigned y, unsigned z, unsigned w) { return {x, y, z, w}; }

// -- bits and numbers

namespace emulator {
template <class To, class From>
inline To bits_as(From from) {
  static_assert(sizeof(To) == sizeof(From), "the same bits");
  To to;
  memcpy(&to, &from, sizeof to);
  return to;
}
}  // namespace emulator
static inline float __int_as_float(int x) { return emulator::bits_as<float>(x); }
static inline float __uint_as_float(unsigned x) { return emulator::bits_as<float>(x); }
static inline int __float_as_int(float x) { return emulator::bits_as<int>(x); }
static inline unsigned __float_as_uint(float x) { return emulator::bits_as<unsigned>(x); }
static inline double __longlong_as_double(long long x) { return emulator::bits_as<double>(x); }
static inline long long __double_as_longlong(double x) { return emulator::bits_as<long long>(x); }
static inline int __popc(unsigned x) { return __builtin_popcount(x); }
static inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
static inline int __clz(int x) { return x ? __builtin_clz((unsigned)x) : 32; }
static inline int __ffs(int x) { return __builtin_ffs(x); }
static inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
static inline double rsqrt(double x) { return 1.0 / sqrt(x); }
#define __expf expf
#define __logf logf
#define __powf powf
static inline float __fdividef(float x, float y) { return x / y; }
static inline float __saturatef(float x) { return x > 1 ? 1.0f : x > 0 ? x : 0.0f; }
template <class T>
static inline T __ldg(const T* p) { return *p; }
template <class A, class B>
static inline auto max(A a, B b) -> decltype(a + b) { return a > b ? a : b; }
template <class A, class B>
static inline auto min(A a, B b) -> decltype(a + b) { return a < b ? a : b; }
static inline float max(float a, float b) { return fmaxf(a, b); }
static inline float min(float a, float b) { return fminf(a, b); }
static inline double max(double a, double b) { return fmax(a, b); }
static inline double min(double a, double b) { return fmin(a, b); }

// -- waiting

static inline void __syncthreads() { emulator_barrier(0, 0); }
static inline void __threadfence() {}
static inline void __threadfence_block() {}
static inline void __threadfence_system() {}
static inline void cudaGraphSetConditional(unsigned long long handle, unsigned value) { emulator_set_condition(handle, value); }

// -- a warp's operations: 32 lanes with CUDA's names, those of a mask; `width` divides them

namespace emulator {
inline const char* nothing(void* const*, unsigned) { return nullptr; }
inline const char* find_active(void* const* operands, unsigned lanes) {
  uint64_t mask = 0;
  for (unsigned i = 0; i < lanes; i++) mask |= (uint64_t)(operands[i] != nullptr) << i;
  for (unsigned i = 0; i < lanes; i++)
    if (operands[i]) *(uint64_t*)operands[i] = mask;
  return nullptr;
}
struct Vote { bool given; uint64_t yes; };
inline const char* vote(void* const* operands, unsigned lanes) {
  uint64_t yes = 0;
  for (unsigned i = 0; i < lanes; i++) yes |= (uint64_t)(operands[i] && ((Vote*)operands[i])->given) << i;
  for (unsigned i = 0; i < lanes; i++)
    if (operands[i]) ((Vote*)operands[i])->yes = yes;
  return nullptr;
}
template <class T>
struct Shuffle { T given, taken; unsigned from; };
template <class T>
const char* shuffle(void* const* operands, unsigned lanes) {
  for (unsigned i = 0; i < lanes; i++) {
    Shuffle<T>* own = (Shuffle<T>*)operands[i];
    if (!own) continue;
    if (own->from < lanes && operands[own->from])
      own->taken = ((Shuffle<T>*)operands[own->from])->given;
    else
      memset((void*)&own->taken, 0xff, sizeof own->taken);  // an inactive lane: undefined
  }
  return nullptr;
}
template <class T>
inline T take(T value, unsigned from, unsigned lanes, uint64_t mask) {
  Shuffle<T> own{value, value, from};
  emulator_collect(shuffle<T>, &own, lanes, mask);
  return own.taken;
}
inline unsigned lane(unsigned lanes) { return emulator_current->number % lanes; }
inline unsigned up(unsigned lane, unsigned by, unsigned width) { return lane % width < by ? lane : lane - by; }
inline unsigned down(unsigned lane, unsigned by, unsigned width) { return lane % width + by >= width ? lane : lane + by; }
inline unsigned across(unsigned lane, unsigned by, unsigned width) {
  return (lane % width ^ by) < width ? lane ^ by : lane;
}
inline unsigned at(unsigned lane, unsigned from, unsigned width) { return lane / width * width + from % width; }
}  // namespace emulator

static inline unsigned __activemask() {
  uint64_t mask = 0;
  emulator_collect(emulator::find_active, &mask, 32, 0);
  return (unsigned)mask;
}
static inline void __syncwarp(unsigned mask = ~0u) { emulator_collect(emulator::nothing, (void*)&emulator_current, 32, mask); }
static inline unsigned __ballot_sync(unsigned mask, int given) {
  emulator::Vote own{given != 0, 0};
  emulator_collect(emulator::vote, &own, 32, mask);
  return (unsigned)own.yes;
}
static inline int __any_sync(unsigned mask, int given) { return __ballot_sync(mask, given) != 0; }
static inline int __all_sync(unsigned mask, int given) { return __ballot_sync(mask, !given) == 0; }
#define EMULATOR_SHUFFLE(name, place)                                                            \
  template <class T>                                                                             \
  static inline T name##_sync(unsigned mask, T value, unsigned by, int width = 32) {             \
    return emulator::take(value, emulator::place(emulator::lane(32), by, (unsigned)width), 32, mask); \
  }                                                                                              \
  template <class T>                                                                             \
  static inline T name(T value, unsigned by, int width = warpSize) {                             \
    const unsigned lanes = (unsigned)warpSize;                                                   \
    return emulator::take(value, emulator::place(emulator::lane(lanes), by, (unsigned)width), lanes, ~0ull); \
  }
EMULATOR_SHUFFLE(__shfl, at)
EMULATOR_SHUFFLE(__shfl_up, up)
EMULATOR_SHUFFLE(__shfl_down, down)
EMULATOR_SHUFFLE(__shfl_xor, across)

// -- atomics: blocks run at the same time on threads of the host

namespace emulator {
template <class T, class Update>
inline T exchange(T* place, Update update) {
  T old, next;
  __atomic_load(place, &old, __ATOMIC_SEQ_CST);
  do next = update(old);
  while (!__atomic_compare_exchange(place, &old, &next, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST));
  return old;
}
}  // namespace emulator
template <class T>
static inline T atomicAdd(T* p, T x) { return emulator::exchange(p, [x](T old) { return (T)(old + x); }); }
template <class T>
static inline T atomicSub(T* p, T x) { return emulator::exchange(p, [x](T old) { return (T)(old - x); }); }
template <class T>
static inline T atomicMax(T* p, T x) { return emulator::exchange(p, [x](T old) { return old > x ? old : x; }); }
template <class T>
static inline T atomicMin(T* p, T x) { return emulator::exchange(p, [x](T old) { return old < x ? old : x; }); }
template <class T>
static inline T atomicAnd(T* p, T x) { return emulator::exchange(p, [x](T old) { return (T)(old & x); }); }
template <class T>
static inline T atomicOr(T* p, T x) { return emulator::exchange(p, [x](T old) { return (T)(old | x); }); }
template <class T>
static inline T atomicXor(T* p, T x) { return emulator::exchange(p, [x](T old) { return (T)(old ^ x); }); }
template <class T>
static inline T atomicExch(T* p, T x) { return emulator::exchange(p, [x](T) { return x; }); }
template <class T>
static inline T atomicCAS(T* p, T expected, T x) {
  return emulator::exchange(p, [=](T old) { return old == expected ? x : old; });
}

// -- kernels as hosts see them

// The attribute __cluster_dims__ becomes a section, as whose part the kernel is recognised.
#define EMULATOR_CLUSTER(z) __attribute__((section("emulator_cluster_" #z)))
#define __cluster_dims__(x, y, z) EMULATOR_CLUSTER_##x##_##y##_##z
#define EMULATOR_CLUSTER_1_1_1
#define EMULATOR_CLUSTER_SIZES(each) \
  each(2) each(3) each(4) each(5) each(6) each(7) each(8) each(9) each(10) each(11) each(12) each(13) each(14) each(15) each(16)
#define EMULATOR_CLUSTER_1_1_2 EMULATOR_CLUSTER(2)
#define EMULATOR_CLUSTER_1_1_3 EMULATOR_CLUSTER(3)
#define EMULATOR_CLUSTER_1_1_4 EMULATOR_CLUSTER(4)
#define EMULATOR_CLUSTER_1_1_5 EMULATOR_CLUSTER(5)
#define EMULATOR_CLUSTER_1_1_6 EMULATOR_CLUSTER(6)
#define EMULATOR_CLUSTER_1_1_7 EMULATOR_CLUSTER(7)
#define EMULATOR_CLUSTER_1_1_8 EMULATOR_CLUSTER(8)
#define EMULATOR_CLUSTER_1_1_9 EMULATOR_CLUSTER(9)
#define EMULATOR_CLUSTER_1_1_10 EMULATOR_CLUSTER(10)
#define EMULATOR_CLUSTER_1_1_11 EMULATOR_CLUSTER(11)
#define EMULATOR_CLUSTER_1_1_12 EMULATOR_CLUSTER(12)
#define EMULATOR_CLUSTER_1_1_13 EMULATOR_CLUSTER(13)
#define EMULATOR_CLUSTER_1_1_14 EMULATOR_CLUSTER(14)
#define EMULATOR_CLUSTER_1_1_15 EMULATOR_CLUSTER(15)
#define EMULATOR_CLUSTER_1_1_16 EMULATOR_CLUSTER(16)
#define EMULATOR_BOUNDS(z)                                                                      \
  extern "C" __attribute__((weak, visibility("hidden"))) const char __start_emulator_cluster_##z[]; \
  extern "C" __attribute__((weak, visibility("hidden"))) const char __stop_emulator_cluster_##z[];
EMULATOR_CLUSTER_SIZES(EMULATOR_BOUNDS)

namespace emulator {
// The blocks of a kernel's cluster.
inline unsigned cluster_of(const char* kernel) {
#define EMULATOR_FIND(z) \
  if (kernel >= __start_emulator_cluster_##z && kernel < __stop_emulator_cluster_##z) return z;
  EMULATOR_CLUSTER_SIZES(EMULATOR_FIND)
#undef EMULATOR_FIND
  return 1;
}
template <size_t... I>
struct Indices {};
template <size_t N, size_t... I>
struct Count : Count<N - 1, N - 1, I...> {};
template <size_t... I>
struct Count<0, I...> { typedef Indices<I...> Type; };

static inline void* statics_anchor() {
  static thread_local char anchor;
  return &anchor;
}
template <class F, F function>
struct Description;
template <class... A, void (*function)(A...)>
struct Description<void (*)(A...), function> {
  template <size_t... I>
  static void call(void* const* parameters, Indices<I...>) {
    (void)parameters;
    function(*(A*)parameters[I]...);
  }
  static void invoke(void* const* parameters) { call(parameters, typename Count<sizeof...(A)>::Type()); }
  static const Kernel* get(const char* name) {
    static const size_t sizes[] = {sizeof(A)..., 0};
    static const Kernel kernel{name, invoke, statics_anchor, sizes, (unsigned)sizeof...(A), {1, 1, cluster_of((const char*)(void*)function)}};
    return &kernel;
  }
};
}  // namespace emulator
#define EMULATED(function) (emulator::Description<decltype(&function), &function>::get(#function))
#define EMULATED_KERNEL(function)                                             \
  extern "C" __attribute__((visibility("default"))) const emulator::Kernel* emulated_##function() { \
    return EMULATED(function);                                                \
  }
