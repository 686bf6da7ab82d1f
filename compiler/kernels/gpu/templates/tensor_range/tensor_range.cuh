// Elementwise operators on a tensor and its least and greatest element, such as a dynamic quantisation.
//
// BLOCKS thread blocks have ITEMS * THREADS adjacent elements each. They find the range in one launch and write the
// results in the next one, where each block reduces the ranges of all; a single block does both in one launch. Where
// the kernel that computed the tensor wrote the ranges of PARTS parts, each block reduces these, and one launch is all.
//
// `P` holds the constants of one problem; see emit.py. `load(element)` gives an element of the tensor, `low(part)` and
// `high(part)` the extremes of a part; `store(element, low, high)` writes the results for one, `scalars(0, low, high)` those that have one element.

struct Range {
  float low = CUDART_INF_F, high = -CUDART_INF_F;

  __device__ __forceinline__ void add(float least, float greatest) {
    low = flowloom_minimum(low, least), high = flowloom_maximum(high, greatest);
  }
};

// The range of all threads of a block, for each of them.
template <int WARPS>
__device__ __forceinline__ Range block_range(Range range) {
  __shared__ float lows[WARPS], highs[WARPS];
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int other = 16; other > 0; other /= 2)
    range.add(__shfl_sync(~0u, range.low, lane ^ other), __shfl_sync(~0u, range.high, lane ^ other));
  if (lane == 0) lows[threadIdx.x / 32] = range.low, highs[threadIdx.x / 32] = range.high;
  __syncthreads();
#pragma unroll
  for (int warp = 0; warp < WARPS; warp++) range.add(lows[warp], highs[warp]);
  return range;
}

// The work of a launch: all of it, only the ranges of its blocks, or the rest.
enum RangePhase { WHOLE, RANGES, REST };

// Writes the results of a block's elements.
template <class P, class Store, class Scalars>
__device__ __forceinline__ void store_results(const Range& range, const Store& store, const Scalars& scalars) {
  const int first = blockIdx.x * P::ITEMS * P::THREADS + threadIdx.x;
#pragma unroll 8
  for (int i = 0; i < P::ITEMS; i++) {
    const int element = first + i * P::THREADS;
    if (element < P::ELEMENTS) store(element, range.low, range.high);
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) scalars(0, range.low, range.high);
}

template <class P, int PHASE, class Load, class Store, class Scalars>
__device__ __forceinline__ void follow_range(const Load& load, const Store& store, const Scalars& scalars, float* workspace) {
  const int first = blockIdx.x * P::ITEMS * P::THREADS + threadIdx.x;
  Range range;
  if constexpr (PHASE == REST) {
    for (int b = threadIdx.x; b < P::BLOCKS; b += P::THREADS) range.add(workspace[2 * b], workspace[2 * b + 1]);
  } else {
#pragma unroll 8
    for (int i = 0; i < P::ITEMS; i++) {
      const int element = first + i * P::THREADS;
      const float x = element < P::ELEMENTS ? load(element) : 0.0f;
      if (element < P::ELEMENTS) range.add(x, x);
    }
  }
  range = block_range<P::THREADS / 32>(range);
  if constexpr (PHASE != RANGES)
    store_results<P>(range, store, scalars);
  else if (threadIdx.x == 0)
    workspace[2 * blockIdx.x] = range.low, workspace[2 * blockIdx.x + 1] = range.high;
}

template <class P, class Low, class High, class Store, class Scalars>
__device__ __forceinline__ void follow_parts(const Low& low, const High& high, const Store& store, const Scalars& scalars) {
  Range range;
#pragma unroll 8
  for (int part = threadIdx.x; part < P::PARTS; part += P::THREADS) range.add(low(part), high(part));
  store_results<P>(block_range<P::THREADS / 32>(range), store, scalars);
}
