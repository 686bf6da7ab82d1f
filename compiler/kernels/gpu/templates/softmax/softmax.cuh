// Softmax and LogSoftmax of long rows, which the BLOCKS blocks of a cluster share.
//
// The THREADS threads of a block have ITEMS elements each in registers, so that memory is read once. Extremes and
// sums have a fixed order: a warp reduces by shuffles, then the warps' results are combined one after another, and
// those of blocks likewise, through each other's shared memory.
//
// `load(row, column)` gives an element, `store(row, column, value)` takes the result.

// The combination of all threads of a row; `parts` has a float for each warp, `own` is the block's.
template <class P, class Combine>
__device__ __forceinline__ float combined(float x, float* parts, float* own, const Combine& combine) {
#pragma unroll
  for (int other = 16; other > 0; other /= 2) x = combine(x, __shfl_xor_sync(~0u, x, other, 32));
  if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  float total = parts[0];
#pragma unroll
  for (int warp = 1; warp < P::THREADS / 32; warp++) total = combine(total, parts[warp]);
  if constexpr (P::BLOCKS > 1) {
    if (threadIdx.x == 0) *own = total;
    cluster_sync();
    total = peer_float(own, 0);
#pragma unroll
    for (int rank = 1; rank < P::BLOCKS; rank++) total = combine(total, peer_float(own, rank));
  }
  return total;
}

template <class P, class Load, class Store>
__device__ __forceinline__ void softmax(const Load& load, const Store& store) {
  DYNAMIC_SHARED;  // the block's largest element and its sum, which the others of the cluster read
  __shared__ float parts[2][P::THREADS / 32];
  const int row = blockIdx.x, first = blockIdx.z * P::THREADS + threadIdx.x;
  constexpr int STEP = P::BLOCKS * P::THREADS;
  float x[P::ITEMS], largest = -CUDART_INF_F, total = 0;
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    x[i] = first + i * STEP < P::COLUMNS ? load(row, first + i * STEP) : -CUDART_INF_F;
  }
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) largest = flowloom_maximum(largest, x[i]);
  largest = combined<P>(largest, parts[0], shared, [](float a, float b) { return flowloom_maximum(a, b); });
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const float power = flowloom_exp(x[i] - largest);
    x[i] = P::LOGARITHM ? x[i] - largest : power, total += power;
  }
  total = combined<P>(total, parts[1], shared + 1, [](float a, float b) { return a + b; });
  const float last = P::LOGARITHM ? flowloom_log(total) : 1.0f / total;
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int column = first + i * STEP;
    if (column < P::COLUMNS) store(row, column, P::LOGARITHM ? x[i] - last : x[i] * last);
  }
  if constexpr (P::BLOCKS > 1) cluster_sync_relaxed();
}
