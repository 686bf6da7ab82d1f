// Ranges of what the threads of a kernel store: each folds its own results into a least and a greatest element, which
// stay in registers; at the end a warp has the range of its threads, or a block.

// Writes the ranges of a grid of BLOCKS blocks of WARPS warps as those of COUNT parts. A warp, or where there are too
// many a block, has every so many parts, so that all are written; one that stored nothing writes infinities.
template <int WARPS, int BLOCKS, int COUNT>
__device__ __forceinline__ void write_ranges(float low, float high, float* __restrict__ lows, float* __restrict__ highs) {
  constexpr bool BY_WARP = WARPS * BLOCKS <= COUNT;
  constexpr int WRITERS = BY_WARP ? WARPS * BLOCKS : BLOCKS;
  static_assert(WRITERS <= COUNT, "a block without a part");
  const int block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int other = 16; other > 0; other /= 2) {
    low = flowloom_minimum(low, __shfl_sync(~0u, low, lane ^ other));
    high = flowloom_maximum(high, __shfl_sync(~0u, high, lane ^ other));
  }
  if constexpr (!BY_WARP) {
    __shared__ float own_lows[WARPS], own_highs[WARPS];
    if (lane == 0) own_lows[warp] = low, own_highs[warp] = high;
    __syncthreads();
    if (warp > 0) return;
#pragma unroll
    for (int other = 1; other < WARPS; other++)
      low = flowloom_minimum(low, own_lows[other]), high = flowloom_maximum(high, own_highs[other]);
  }
  const int writer = BY_WARP ? block * WARPS + warp : block;
  for (int i = writer + lane * WRITERS; i < COUNT; i += 32 * WRITERS) lows[i] = low, highs[i] = high;
}

// Reads a tensor again and writes the ranges of its parts.
template <int WARPS, int BLOCKS, int COUNT, class T>
__device__ __forceinline__ void write_ranges_of(const T* __restrict__ x, int elements, float* __restrict__ lows,
                                                float* __restrict__ highs) {
  float low = CUDART_INF_F, high = -CUDART_INF_F;
#pragma unroll 4
  for (int i = blockIdx.x * WARPS * 32 + threadIdx.x; i < elements; i += WARPS * BLOCKS * 32)
    low = flowloom_minimum(low, (float)x[i]), high = flowloom_maximum(high, (float)x[i]);
  write_ranges<WARPS, BLOCKS, COUNT>(low, high, lows, highs);
}
