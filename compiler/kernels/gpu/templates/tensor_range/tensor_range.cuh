// Elementwise operators on a tensor and its least and greatest element, such as a dynamic quantisation.
//
// BLOCKS thread blocks have ITEMS * THREADS adjacent elements each. They find the range in one launch and write the
// results in the next one, where each block reduces the ranges of all; a single block does both in one launch. Where
// the kernel that computed the tensor wrote the ranges of PARTS parts, each block reduces these, and one launch is all.
//
// `P` holds the constants of one problem; see emit.py. `load(element)` gives an element of the tensor, `low(part)` and
// `high(part)` the extremes of a part; `store(element, x, low, high, sum)` writes the results for one element `x` and adds
// to the sum, `scalars(0, x, low, high, sum)` writes those that have one element. Where the sums of rows of ROW elements are
// needed, each block has a row, and `rows(row, sum)` writes its sum.

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

// The sum of a block's integers, for its first thread.
template <int WARPS>
__device__ __forceinline__ int block_total(int sum) {
  __shared__ int sums[WARPS];
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int other = 16; other > 0; other /= 2) sum += __shfl_sync(~0u, sum, lane ^ other);
  if (lane == 0) sums[threadIdx.x / 32] = sum;
  __syncthreads();
#pragma unroll
  for (int warp = 1; warp < WARPS; warp++) sum += sums[warp];
  return sum;
}

// A thread's elements, THREADS apart; few of them are loaded before the range is known.
template <class P, class Load>
struct Elements {
  static constexpr bool HELD = P::ITEMS <= 16;
  static constexpr int COUNT = P::ROW > 0 ? P::ROW : P::ITEMS * P::THREADS;  // those of a block
  const Load& load;
  float held[HELD ? P::ITEMS : 1];

  __device__ __forceinline__ Elements(const Load& load) : load(load) {
    if constexpr (HELD) visit([&](int i, int element) { held[i] = load(element); });
  }
  __device__ __forceinline__ float at(int i, int element) const {
    if constexpr (HELD)
      return held[i];
    else
      return load(element);
  }
  template <class Visit>
  __device__ __forceinline__ void visit(const Visit& visit) const {
#pragma unroll 8
    for (int i = 0; i < P::ITEMS; i++)
      if (const int own = i * P::THREADS + threadIdx.x, element = blockIdx.x * COUNT + own; own < COUNT && element < P::ELEMENTS)
        visit(i, element);
  }
  template <class Store, class Scalars, class Rows>
  __device__ __forceinline__ void store(const Range& range, const Store& store, const Scalars& scalars, const Rows& rows) const {
    int sum = 0, none = 0;
    visit([&](int i, int element) { store(element, at(i, element), range.low, range.high, sum); });
    if (blockIdx.x == 0 && threadIdx.x == 0) scalars(0, load(0), range.low, range.high, none);
    if constexpr (P::ROW > 0) {
      sum = block_total<P::THREADS / 32>(sum);
      if (threadIdx.x == 0) rows(blockIdx.x, sum);
    }
  }
};

template <class P, int PHASE, class Load, class Store, class Scalars, class Rows>
__device__ __forceinline__ void follow_range(const Load& load, const Store& store, const Scalars& scalars, const Rows& rows,
                                             float* workspace) {
  const Elements<P, Load> elements(load);
  Range range;
  if constexpr (PHASE == REST) {
    for (int b = threadIdx.x; b < P::BLOCKS; b += P::THREADS) range.add(workspace[2 * b], workspace[2 * b + 1]);
  } else {
    elements.visit([&](int i, int element) {
      const float x = elements.at(i, element);
      range.add(x, x);
    });
  }
  range = block_range<P::THREADS / 32>(range);
  if constexpr (PHASE != RANGES)
    elements.store(range, store, scalars, rows);
  else if (threadIdx.x == 0)
    workspace[2 * blockIdx.x] = range.low, workspace[2 * blockIdx.x + 1] = range.high;
}

template <class P, class Load, class Low, class High, class Store, class Scalars, class Rows>
__device__ __forceinline__ void follow_parts(const Load& load, const Low& low, const High& high, const Store& store,
                                             const Scalars& scalars, const Rows& rows) {
  const Elements<P, Load> elements(load);
  Range range;
#pragma unroll 8
  for (int part = threadIdx.x; part < P::PARTS; part += P::THREADS) range.add(low(part), high(part));
  elements.store(block_range<P::THREADS / 32>(range), store, scalars, rows);
}
