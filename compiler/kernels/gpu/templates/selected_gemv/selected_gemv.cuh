// Vectors that are multiplied by matrices which indices select, bound by reading these.
//
// A block has 32 * WIDTH columns of one result; its WARPS warps take every WARPS-th row of the matrix, of which
// a lane loads WIDTH elements at once. Their sums are added in shared memory, in a fixed order. `Vector` gives
// an element of a result's vector.

template <class P, class Index, class Vector, class Store>
__device__ __forceinline__ void selected_gemv(
    const typename P::Element* matrices, const Index* indices, const Vector& element, const Store& store) {
  constexpr int THREADS = 32 * P::WARPS, WIDTH = P::WIDTH;
  __shared__ float vector[P::DEPTH], parts[P::WARPS][WIDTH][33];
  const int result = blockIdx.x, lane = threadIdx.x % 32, first = (blockIdx.y * 32 + lane) * WIDTH;
  for (int k = threadIdx.x; k < P::DEPTH; k += THREADS) vector[k] = element(result, k);
  const int selected = inside(indices[result], P::MATRICES);
  __syncthreads();
  float sums[WIDTH] = {};
  if (first < P::COLUMNS) {
    const auto* const matrix = matrices + static_cast<int64_t>(selected) * P::DEPTH * P::COLUMNS + first;
#pragma unroll 16
    for (int k = threadIdx.x / 32; k < P::DEPTH; k += P::WARPS) {
      const auto own = *(const Block<typename P::Element, WIDTH>*)(matrix + static_cast<int64_t>(k) * P::COLUMNS);
#pragma unroll
      for (int i = 0; i < WIDTH; i++) sums[i] += vector[k] * static_cast<float>(own.at[i]);
    }
  }
#pragma unroll
  for (int i = 0; i < WIDTH; i++) parts[threadIdx.x / 32][i][lane] = sums[i];
  __syncthreads();
  for (int i = threadIdx.x; i < 32 * WIDTH; i += THREADS) {
    float total = 0;
#pragma unroll
    for (int warp = 0; warp < P::WARPS; warp++) total += parts[warp][i % WIDTH][i / WIDTH];
    const int column = blockIdx.y * 32 * WIDTH + i;
    if (column < P::COLUMNS) store(result, column, total);
  }
}
