// The epilogue of tiles: accumulators go through shared memory, so that threads store contiguous
// vectors. The operands of the epilogue are prefetched there; see gemm.cuh and store.py.

template <class P>
using Accumulators = float[Tiles<P>::MT][Tiles<P>::NT][4];

// Copies a block of consecutive elements to shared memory.
template <class T, int COUNT>
__device__ __forceinline__ void copy_block(Block<T, COUNT>* to, const Block<T, COUNT>* from, bool valid) {
  static_assert(sizeof(Block<T, COUNT>) % 16 == 0);
#pragma unroll
  for (int i = 0; i < (int)sizeof(Block<T, COUNT>) / 16; i++) copy_chunk<false>((int4*)to + i, (const int4*)from + i, valid);
}

// Waits for a late prefetch.
template <class P>
__device__ __forceinline__ void prefetch_wait() {
  if (P::LATE) cp_async_wait<0>();
}

// Stores a warp's accumulators to the block's tile in shared memory: row by row, or column by column
// where consecutive rows are adjacent in the result.
template <class P>
__device__ __forceinline__ void store_accumulators(const Accumulators<P>& c, float* tile) {
  using T = Tiles<P>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / T::COLUMNS * P::WM + lane / 4, column = warp % T::COLUMNS * P::WN;
#pragma unroll
  for (int i = 0; i < T::MT; i++)
#pragma unroll
    for (int j = 0; j < T::NT; j += T::V)
#pragma unroll
      for (int s = 0; s < 4; s++)
#pragma unroll
        for (int v = 0; v < T::V; v++) {
          const int m = row + i * 16 + s / 2 * 8, n = column + j * 8 + (lane % 4 * 2 + s % 2) * T::V + v;
          tile[T::BY_PIXEL ? n * T::C_STRIDE + m : m * T::C_STRIDE + n] = c[i][j + v][s];
        }
  prefetch_wait<P>();
  __syncthreads();
}

// The sum over the cluster's blocks of one element of their tiles, in the order of their ranks.
template <int CLUSTER_SIZE>
__device__ __forceinline__ float cluster_sum(const float* element) {
  float total = CLUSTER_SIZE == 1 ? *element : peer_float(element, 0);
#pragma unroll
  for (int rank = 1; rank < CLUSTER_SIZE; rank++) total += peer_float(element, rank);
  return total;
}
template <int CLUSTER_SIZE>
__device__ __forceinline__ float4 cluster_sum4(const float* element) {
  float4 total = CLUSTER_SIZE == 1 ? *(const float4*)element : peer_float4(element, 0);
#pragma unroll
  for (int rank = 1; rank < CLUSTER_SIZE; rank++) {
    const float4 other = peer_float4(element, rank);
    total.x += other.x, total.y += other.y, total.z += other.z, total.w += other.w;
  }
  return total;
}

// Passes the block's tile to `store`, consecutive threads along n.
template <class P, int CLUSTER_SIZE, class Store>
__device__ __forceinline__ void store_elements(const float* tile, const Store& store) {
  using T = Tiles<P>;
  constexpr int UNROLL = P::VECTOR > 0 ? 1 : 8;
  if constexpr (T::THREADS % P::BN == 0) {
    constexpr int ROWS = T::THREADS / P::BN;
    const int row = threadIdx.x / P::BN, column = threadIdx.x % P::BN;
    const int m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
    const int rows = P::M % P::BM == 0 ? P::BM : min(P::BM, P::M - m);
#pragma unroll UNROLL
    for (int i = blockIdx.z % CLUSTER_SIZE * ROWS; i < rows && n < P::N; i += CLUSTER_SIZE * ROWS)
      store(blockIdx.z, m + i, n, cluster_sum<CLUSTER_SIZE>(tile + (row + i) * T::C_STRIDE + column));
  } else {
#pragma unroll UNROLL
    for (int i = blockIdx.z % CLUSTER_SIZE * T::THREADS + threadIdx.x; i < P::BM * P::BN; i += CLUSTER_SIZE * T::THREADS) {
      const int row = i / P::BN, column = i % P::BN, m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
      if (m < P::M && n < P::N) store(blockIdx.z, m, n, cluster_sum<CLUSTER_SIZE>(tile + row * T::C_STRIDE + column));
    }
  }
}

// The same with vectors: each thread takes OUT_BLOCK consecutive rows or VECTOR consecutive columns,
// which are adjacent in the result. `prefetch` starts the copies of epilogue operands: elementwise ones
// (an element per result) and broadcast ones (an element per row or per column of the tile).
template <class P, int CLUSTER_SIZE>
struct VectorStore {
  using T = Tiles<P>;
  static constexpr bool BY_ROW = P::OUT_BLOCK > 0;
  static constexpr int BLOCK = BY_ROW ? P::OUT_BLOCK : P::VECTOR, HIGH = BY_ROW ? BLOCK : 1, WIDE = BY_ROW ? 1 : BLOCK;
  static constexpr int ACROSS = P::BN / WIDE, UNITS = P::BM * P::BN / BLOCK, STEP = CLUSTER_SIZE * T::THREADS;
  static constexpr int ITERATIONS = (UNITS + STEP - 1) / STEP, ELEMENTWISE_STRIDE = ITERATIONS * T::THREADS * 16;
  static constexpr int BROADCAST_EXTENT = BY_ROW ? P::BM : P::BN;
  static constexpr bool WHOLE = T::THREADS % ACROSS == 0;  // a thread's columns are the same in every iteration
  static_assert((BY_ROW ? P::M : P::N) % BLOCK == 0);
  float* tile;
  char *elementwise, *broadcast;

  __device__ __forceinline__ VectorStore(float* tile) : tile(tile) {
    constexpr int RESULT = (BY_ROW ? P::BN : P::BM) * T::C_STRIDE * 4;
    elementwise = (char*)tile + (P::STAGED > RESULT && !P::LATE ? P::STAGED : RESULT), broadcast = elementwise + P::ELEMENTWISE * ELEMENTWISE_STRIDE;
  }

  // Whether this thread has a vector in an iteration, and its first row and column.
  __device__ __forceinline__ bool locate(int number, int& row, int& column) const {
    const int chunk = number * CLUSTER_SIZE + blockIdx.z % CLUSTER_SIZE, unit = chunk * T::THREADS + threadIdx.x;
    row = (WHOLE ? threadIdx.x / ACROSS + chunk * (T::THREADS / ACROSS) : unit / ACROSS) * HIGH;
    column = (WHOLE ? threadIdx.x % ACROSS : unit % ACROSS) * WIDE;
    const bool below = P::M % P::BM == 0 || blockIdx.y * P::BM + row < P::M;
    return (UNITS % STEP == 0 || row < P::BM) && below && (P::N % P::BN == 0 || blockIdx.x * P::BN + column < P::N);
  }

  template <class Store>
  __device__ __forceinline__ void prefetch(const Store& store) const {
    if (P::ELEMENTWISE > 0)
#pragma unroll
      for (int i = 0; i < ITERATIONS; i++) {
        int row, column;
        const bool valid = locate(i, row, column);
        const int m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
        char* to = elementwise + (i * T::THREADS + threadIdx.x) * 16;
        store.prefetch_elementwise(valid ? store.vector_index(blockIdx.z, m, n) : 0, to, ELEMENTWISE_STRIDE, valid);
      }
    const int element = threadIdx.x * BLOCK, at = (BY_ROW ? blockIdx.y * P::BM : blockIdx.x * P::BN) + element;
    const bool valid = at < (BY_ROW ? P::M : P::N);
    if (P::BROADCASTS > 0 && element < BROADCAST_EXTENT)
      store.prefetch_broadcast(valid ? store.broadcast_index(blockIdx.z, at) : 0, broadcast + element * 4, BROADCAST_EXTENT * 4, valid);
  }

  template <class Store>
  __device__ __forceinline__ void finish(const Store& store) const {
    constexpr int UNROLL = BY_ROW ? 4 : 2;
#pragma unroll UNROLL
    for (int i = 0; i < ITERATIONS; i++) {
      int row, column;
      if (!locate(i, row, column)) {
        if (WHOLE) break;
        continue;
      }
      float values[BLOCK];
#pragma unroll
      for (int r = 0; r < BLOCK; r += 4) {
        const int place = BY_ROW ? column * T::C_STRIDE + row : row * T::C_STRIDE + column;
        const float4 four = cluster_sum4<CLUSTER_SIZE>(tile + place + r);
        values[r] = four.x, values[r + 1] = four.y, values[r + 2] = four.z, values[r + 3] = four.w;
      }
      store(blockIdx.z, blockIdx.y * P::BM + row, blockIdx.x * P::BN + column, values,
            elementwise + (i * T::THREADS + threadIdx.x) * 16, ELEMENTWISE_STRIDE, broadcast + (BY_ROW ? row : column) * 4, BROADCAST_EXTENT * 4);
    }
  }
};

// Whether results are stored as vectors: if VECTOR, callers' buffers may be misaligned.
template <class P, class Store>
__device__ __forceinline__ bool stores_vectors(const Store& store) {
  if constexpr (P::VECTOR > 0)
    return store.aligned();
  else
    return P::OUT_BLOCK > 0;
}

// Starts the copies of epilogue operands: next to the stages while these are filled, or, LATE, into
// their place, where there is no room.
template <class P, int CLUSTER_SIZE, bool LATE, class Store>
__device__ __forceinline__ void prefetch_epilogue(float* tile, const Store& store) {
  if constexpr (P::OUT_BLOCK + P::VECTOR > 0 && bool(P::LATE) == LATE) {
    if (stores_vectors<P>(store)) VectorStore<P, CLUSTER_SIZE>(tile).prefetch(store);
    if (LATE) cp_async_fence();
  }
}

// Passes the block's tile to `store`; all blocks of a cluster take part.
template <class P, int CLUSTER_SIZE, class Store>
__device__ __forceinline__ void store_tile(float* tile, const Store& store) {
  if (CLUSTER_SIZE > 1) cluster_sync();
  if constexpr (P::OUT_BLOCK + P::VECTOR > 0)
    if (stores_vectors<P>(store)) VectorStore<P, CLUSTER_SIZE>(tile).finish(store);
  if constexpr (P::OUT_BLOCK == 0)
    if (!stores_vectors<P>(store)) store_elements<P, CLUSTER_SIZE>(tile, store);
  if (CLUSTER_SIZE > 1) cluster_sync_relaxed();
}
