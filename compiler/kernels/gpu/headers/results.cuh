// From sums in registers to results: a tile goes through shared memory, so that threads store what
// lies together, with what it depends on fetched beforehand; see gemm.cuh and store.py.

template <class P>
using Sums = float[Tiles<P>::MT][Tiles<P>::NT][4];

// Copies a block of consecutive elements to shared memory.
template <class T, int COUNT>
__device__ __forceinline__ void copy_block(Block<T, COUNT>* to, const Block<T, COUNT>* from, bool valid) {
  static_assert(sizeof(Block<T, COUNT>) % 16 == 0);
#pragma unroll
  for (int i = 0; i < (int)sizeof(Block<T, COUNT>) / 16; i++) copy_chunk<false>((int4*)to + i, (const int4*)from + i, valid);
}

// Waits for what was fetched late.
template <class P>
__device__ __forceinline__ void fetches_wait() {
  if (P::LATE) copies_wait<0>();
}

// Lays a warp's pieces out in the block's tile: row by row, or column by column where consecutive
// rows lie beside each other in the result.
template <class P>
__device__ __forceinline__ void spread(const Sums<P>& c, float* tile) {
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
  fetches_wait<P>();
  __syncthreads();
}

// The sum of what the blocks of the cluster have at a place, in order of their ranks.
template <int PARTS>
__device__ __forceinline__ float total_of(const float* own) {
  float total = PARTS == 1 ? *own : peer_float(own, 0);
#pragma unroll
  for (int part = 1; part < PARTS; part++) total += peer_float(own, part);
  return total;
}
template <int PARTS>
__device__ __forceinline__ float4 total_of_four(const float* own) {
  float4 total = PARTS == 1 ? *(const float4*)own : peer_float4(own, 0);
#pragma unroll
  for (int part = 1; part < PARTS; part++) {
    const float4 other = peer_float4(own, part);
    total.x += other.x, total.y += other.y, total.z += other.z, total.w += other.w;
  }
  return total;
}

// Hands the block's tile to `store`, consecutive threads beside each other in n.
template <class P, int PARTS, class Store>
__device__ __forceinline__ void store_elements(const float* tile, const Store& store) {
  using T = Tiles<P>;
  constexpr int UNROLL = P::VECTOR > 0 ? 1 : 8;
  if constexpr (T::THREADS % P::BN == 0) {
    constexpr int ROWS = T::THREADS / P::BN;
    const int row = threadIdx.x / P::BN, column = threadIdx.x % P::BN;
    const int m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
    const int rows = P::M % P::BM == 0 ? P::BM : min(P::BM, P::M - m);
#pragma unroll UNROLL
    for (int i = blockIdx.z % PARTS * ROWS; i < rows && n < P::N; i += PARTS * ROWS)
      store(blockIdx.z, m + i, n, total_of<PARTS>(tile + (row + i) * T::C_STRIDE + column));
  } else {
#pragma unroll UNROLL
    for (int i = blockIdx.z % PARTS * T::THREADS + threadIdx.x; i < P::BM * P::BN; i += PARTS * T::THREADS) {
      const int row = i / P::BN, column = i % P::BN, m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
      if (m < P::M && n < P::N) store(blockIdx.z, m, n, total_of<PARTS>(tile + row * T::C_STRIDE + column));
    }
  }
}

// Likewise, each thread OUT_BLOCK consecutive rows or VECTOR consecutive columns, which lie beside
// each other in the result. `fetch` starts copies of what the results depend on besides their sums:
// of the same place, and of the tile's edge, which has one element for each row or column.
template <class P, int PARTS>
struct BlockStore {
  using T = Tiles<P>;
  static constexpr bool DOWN = P::OUT_BLOCK > 0;
  static constexpr int BLOCK = DOWN ? P::OUT_BLOCK : P::VECTOR, HIGH = DOWN ? BLOCK : 1, WIDE = DOWN ? 1 : BLOCK;
  static constexpr int ACROSS = P::BN / WIDE, UNITS = P::BM * P::BN / BLOCK, STEP = PARTS * T::THREADS;
  static constexpr int TURNS = (UNITS + STEP - 1) / STEP, PLACE_STRIDE = TURNS * T::THREADS * 16;
  static constexpr int EDGE = DOWN ? P::BM : P::BN;
  static constexpr bool WHOLE = T::THREADS % ACROSS == 0;  // a thread's columns are the same in every turn
  static_assert((DOWN ? P::M : P::N) % BLOCK == 0);
  float* tile;
  char *places, *edges;

  __device__ __forceinline__ BlockStore(float* tile) : tile(tile) {
    constexpr int RESULT = (DOWN ? P::BN : P::BM) * T::C_STRIDE * 4;
    places = (char*)tile + (P::STAGED > RESULT && !P::LATE ? P::STAGED : RESULT), edges = places + P::PLACES * PLACE_STRIDE;
  }

  // Whether this thread has results in a turn, and where they begin.
  __device__ __forceinline__ bool turn(int number, int& row, int& column) const {
    const int share = number * PARTS + blockIdx.z % PARTS, unit = share * T::THREADS + threadIdx.x;
    row = (WHOLE ? threadIdx.x / ACROSS + share * (T::THREADS / ACROSS) : unit / ACROSS) * HIGH;
    column = (WHOLE ? threadIdx.x % ACROSS : unit % ACROSS) * WIDE;
    const bool below = P::M % P::BM == 0 || blockIdx.y * P::BM + row < P::M;
    return (UNITS % STEP == 0 || row < P::BM) && below && (P::N % P::BN == 0 || blockIdx.x * P::BN + column < P::N);
  }

  template <class Store>
  __device__ __forceinline__ void fetch(const Store& store) const {
    if (P::PLACES > 0)
#pragma unroll
      for (int i = 0; i < TURNS; i++) {
        int row, column;
        const bool valid = turn(i, row, column);
        const int m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
        char* to = places + (i * T::THREADS + threadIdx.x) * 16;
        store.fetch_places(valid ? store.place_of(blockIdx.z, m, n) : 0, to, PLACE_STRIDE, valid);
      }
    const int own = threadIdx.x * BLOCK, at = (DOWN ? blockIdx.y * P::BM : blockIdx.x * P::BN) + own;
    const bool valid = at < (DOWN ? P::M : P::N);
    if (P::EDGES > 0 && own < EDGE)
      store.fetch_edges(valid ? store.edge_of(blockIdx.z, at) : 0, edges + own * 4, EDGE * 4, valid);
  }

  template <class Store>
  __device__ __forceinline__ void finish(const Store& store) const {
    constexpr int UNROLL = DOWN ? 4 : 2;
#pragma unroll UNROLL
    for (int i = 0; i < TURNS; i++) {
      int row, column;
      if (!turn(i, row, column)) {
        if (WHOLE) break;
        continue;
      }
      float values[BLOCK];
#pragma unroll
      for (int r = 0; r < BLOCK; r += 4) {
        const int place = DOWN ? column * T::C_STRIDE + row : row * T::C_STRIDE + column;
        const float4 four = total_of_four<PARTS>(tile + place + r);
        values[r] = four.x, values[r + 1] = four.y, values[r + 2] = four.z, values[r + 3] = four.w;
      }
      store(blockIdx.z, blockIdx.y * P::BM + row, blockIdx.x * P::BN + column, values,
            places + (i * T::THREADS + threadIdx.x) * 16, PLACE_STRIDE, edges + (DOWN ? row : column) * 4, EDGE * 4);
    }
  }
};

// Whether results are stored together: for vectors, a caller's buffers may begin anywhere.
template <class P, class Store>
__device__ __forceinline__ bool stores_together(const Store& store) {
  if constexpr (P::VECTOR > 0)
    return store.aligned();
  else
    return P::OUT_BLOCK > 0;
}

// Starts copies of what the results depend on: beside the stages while these are filled, or LATE, in
// their place, where there is no room.
template <class P, int PARTS, bool LATE, class Store>
__device__ __forceinline__ void fetch_results(float* tile, const Store& store) {
  if constexpr (P::OUT_BLOCK + P::VECTOR > 0 && bool(P::LATE) == LATE) {
    if (stores_together<P>(store)) BlockStore<P, PARTS>(tile).fetch(store);
    if (LATE) copies_commit();
  }
}

// Hands the results of the block's tile to `store`, which all blocks of a cluster share out.
template <class P, int PARTS, class Store>
__device__ __forceinline__ void store_tile(float* tile, const Store& store) {
  if (PARTS > 1) cluster_wait();
  if constexpr (P::OUT_BLOCK + P::VECTOR > 0)
    if (stores_together<P>(store)) BlockStore<P, PARTS>(tile).finish(store);
  if constexpr (P::OUT_BLOCK == 0)
    if (!stores_together<P>(store)) store_elements<P, PARTS>(tile, store);
  if (PARTS > 1) cluster_leave();
}
