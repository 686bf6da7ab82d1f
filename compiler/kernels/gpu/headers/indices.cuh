// Functions of kernels that sort updates by their indices.

// An index from data: negative ones count from the end, others are kept inside.
template <class Index>
__device__ __forceinline__ int inside(Index index, int extent) {
  const int64_t from_start = index < 0 ? index + extent : index;
  return static_cast<int>(from_start < 0 ? 0 : from_start < extent ? from_start : extent - 1);
}

// How many of the block's earlier threads' `count` there are in all, and `total`, those of all threads.
template <int THREADS>
__device__ __forceinline__ int sum_before(int count, int* sums, int& total) {
  const int lane = threadIdx.x % 32, own = threadIdx.x / 32;
  int place = count;
#pragma unroll
  for (int by = 1; by < 32; by *= 2) {
    const int before = __shfl_up_sync(~0u, place, by, 32);
    if (lane >= by) place += before;
  }
  if (lane == 31) sums[own] = place;
  __syncthreads();
  place -= count, total = 0;
#pragma unroll
  for (int warp = 0; warp < THREADS / 32; warp++) {
    if (warp < own) place += sums[warp];
    total += sums[warp];
  }
  __syncthreads();
  return place;
}
