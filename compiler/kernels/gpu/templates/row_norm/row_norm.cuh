// LayerNormalization and RMSNormalization over the last axes.
//
// A block has ROWS rows. The THREADS threads of a row each have every THREADS-th element in registers,
// so that memory is read once. Sums have a fixed order: a warp reduces by shuffles, then the warps'
// sums are added one after another; with several rows a block, each row has one warp and no barrier.
//
// `P` holds the constants of one problem; see template.py. `load(row, column)` gives an element, `scale`
// and `shift` the affine parameters, `store(row, column, value)` takes the result. All loads come before
// the reductions.

// The sum over all threads of a row; `parts` has a float for each warp.
template <int WARPS>
__device__ __forceinline__ float block_sum(float x, float* parts) {
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int other = 16; other > 0; other /= 2) x += __shfl_sync(~0u, x, lane ^ other);
  if (WARPS == 1) return x;
  if (lane == 0) parts[threadIdx.x / 32] = x;
  __syncthreads();
  float total = 0;
#pragma unroll
  for (int warp = 0; warp < WARPS; warp++) total += parts[warp];
  return total;
}

template <class P, class Load, class Scale, class Shift, class Store>
__device__ __forceinline__ void normalize(const Load& load, const Scale& scale, const Shift& shift, const Store& store) {
  constexpr int WARPS = P::THREADS / 32, ITEMS = (P::COLUMNS + P::THREADS - 1) / P::THREADS;
  static_assert(P::ROWS == 1 || WARPS == 1);
  __shared__ float parts[2][WARPS];
  const int row = blockIdx.x * P::ROWS + threadIdx.x / P::THREADS, first = threadIdx.x % P::THREADS;
  if (P::COUNT % P::ROWS != 0 && row >= P::COUNT) return;
  float x[ITEMS], factor[ITEMS], addend[ITEMS], sum = 0, squares = 0;
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const int column = i * P::THREADS + first;
    const bool exists = column < P::COLUMNS;
    x[i] = exists ? load(row, column) : 0.0f;
    factor[i] = exists ? scale(row, column) : 0.0f, addend[i] = exists ? shift(row, column) : 0.0f;
  }
  float mean = 0;
  if (P::CENTERED) {
#pragma unroll
    for (int i = 0; i < ITEMS; i++) sum += x[i];
    mean = block_sum<WARPS>(sum, parts[0]) / P::COLUMNS;
  }
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const bool exists = i * P::THREADS + first < P::COLUMNS;
    x[i] -= mean, squares += exists ? x[i] * x[i] : 0.0f;
  }
  const float inverse = 1.0f / sqrtf(block_sum<WARPS>(squares, parts[1]) / P::COLUMNS + P::EPSILON);
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const int column = i * P::THREADS + first;
    if (column < P::COLUMNS) store(row, column, x[i] * inverse * factor[i] + addend[i]);
  }
}
