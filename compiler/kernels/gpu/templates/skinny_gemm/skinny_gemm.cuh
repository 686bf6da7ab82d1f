// GEMMs of a few rows by constant weights, on tensor cores, at the bandwidth of reading the weights once.
//
// The operands of the MMAs are swapped: 16 columns of the result are the rows of an MMA tile, eight of
// its rows the columns. Weights are packed as lanes hold them, so that they go from memory to registers
// 16 bytes at a time, and those of the first STAGES turns do so before the kernel waits for its
// predecessors. A block has TILES tiles of 16 columns; its WARPS warps take every WARPS-th chunk along
// k, and their sums are added in shared memory, then over the SPLITS blocks of a cluster, in a fixed
// order.
//
// `P` is as in gemm.cuh, `S` (Skinny<P>) holds the constants of the weights. `W` are the weights of a
// chunk; see DenseWeights and four_bit_weights.cuh.

template <class P>
struct Skinny;

template <class P>
struct SkinnyShape {
  using S = Skinny<P>;
  static constexpr int ROW_TILES = (P::M + 7) / 8, COLUMNS = 16 * S::TILES, LINE = COLUMNS + 4, THREADS = 32 * S::WARPS;
  static constexpr int SLICE = (S::CHUNKS + S::SPLITS - 1) / S::SPLITS, TURNS = (SLICE + S::WARPS - 1) / S::WARPS;
  static constexpr int LANE = S::RUN / 4, WIDE = 16 / sizeof(typename P::Element);  // elements of a run, and of 16 bytes
  static constexpr int VECTORS = S::RUNS * LANE / WIDE;                            // of a row of a chunk
};

// Sums of a lane: of columns lane / 4 (+ 8) of each tile, and rows lane % 4 * 2 (+ 1) of each eight.
template <class P>
using SkinnySums = float[Skinny<P>::TILES][SkinnyShape<P>::ROW_TILES][4];

// 16 bytes of weights. The load keeps its place before a wait, and leaves the L1 cache to the rows of A.
__device__ __forceinline__ uint4 load_weights(const uint4* from) {
#ifdef __CUDA_ARCH__
  uint4 words;
  asm volatile("ld.global.L1::no_allocate.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(words.x), "=r"(words.y), "=r"(words.z), "=r"(words.w)
               : "l"(from));
  return words;
#else
  return *from;
#endif
}

// 16 bytes of a row of A from `k` on; zeros after its end.
template <class P, bool ALIGNED>
__device__ __forceinline__ uint4 load_row(const typename P::Element* row, int k, bool valid) {
  constexpr int WIDE = SkinnyShape<P>::WIDE;
  uint4 words = {0, 0, 0, 0};
  if constexpr (ALIGNED) {
    if (valid && k < P::K) words = *(const uint4*)(row + k);
  } else {
    typename P::Element own[WIDE] = {};
#pragma unroll
    for (int i = 0; i < WIDE; i++)
      if (valid && k + i < P::K) own[i] = row[k + i];
    memcpy(&words, own, sizeof words);
  }
  return words;
}

// A lane's elements of one chunk of the rows of A: of row lane / 4 of each eight, the quarter lane % 4
// of each run of RUN elements. Rows past the last one are the last one: their sums are not stored.
template <class P>
struct SkinnyRows {
  using S = Skinny<P>;
  using T = SkinnyShape<P>;
  uint4 at[T::ROW_TILES][T::VECTORS];

  template <bool ALIGNED>
  __device__ __forceinline__ void load(const typename P::Element* a, int chunk, bool valid) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < T::ROW_TILES; i++) {
      const typename P::Element* row = a + (int64_t)min(i * 8 + lane / 4, P::M - 1) * P::A_ROW;
#pragma unroll
      for (int v = 0; v < T::VECTORS; v++) {
        constexpr int PARTS = T::LANE / T::WIDE;
        const int k = (chunk * S::RUNS + v / PARTS) * S::RUN + lane % 4 * T::LANE + v % PARTS * T::WIDE;
        at[i][v] = load_row<P, ALIGNED>(row, k, valid);
      }
    }
  }
};

// A tile of columns; blocks past the last one have its weights.
template <class P>
__device__ __forceinline__ int64_t skinny_tile(int t) {
  return min((int)blockIdx.x * Skinny<P>::TILES + t, (P::N + 15) / 16 - 1);
}

// Fragments as they are multiplied: 64 bytes along k of 16 columns, in two MMAs.
template <class P>
struct DenseWeights {
  using S = Skinny<P>;
  uint4 at[S::TILES][2];

  // Where a lane's weights of a chunk are.
  struct Place {
    const uint4* at[S::TILES];
    __device__ __forceinline__ Place(const S& weights, int chunk) {
#pragma unroll
      for (int t = 0; t < S::TILES; t++)
        at[t] = (const uint4*)weights.b + (skinny_tile<P>(t) * S::CHUNKS + chunk) * 64 + threadIdx.x % 32;
    }
  };

  // Loads those `step` chunks further, if they are `valid`, else zeros.
  __device__ __forceinline__ void load(const Place& place, int step, bool valid) {
#pragma unroll
    for (int t = 0; t < S::TILES; t++)
#pragma unroll
      for (int f = 0; f < 2; f++) {
        at[t][f] = uint4{0, 0, 0, 0};
        if (valid) at[t][f] = load_weights(place.at[t] + step * 64 + f * 32);
      }
  }

  __device__ __forceinline__ void multiply(SkinnySums<P>& sums, const SkinnyRows<P>& rows) const {
#pragma unroll
    for (int i = 0; i < SkinnyShape<P>::ROW_TILES; i++) {
      const uint4 row = rows.at[i][0];
      const uint32_t words[4] = {row.x, row.y, row.z, row.w};
#pragma unroll
      for (int f = 0; f < 2; f++) {
        uint32_t right[2];
#pragma unroll
        for (int s = 0; s < 2; s++) right[s] = P::PRECISION == TF32 ? round_tf32(words[f * 2 + s]) : words[f * 2 + s];
#pragma unroll
        for (int t = 0; t < S::TILES; t++) {
          const uint32_t left[4] = {at[t][f].x, at[t][f].y, at[t][f].z, at[t][f].w};
          mma<P::PRECISION>(sums[t][i], left, right);
        }
      }
    }
  }
};

// Multiplies this warp's chunks: while those of one turn are multiplied, the weights and rows
// of the next ones are on their way. Successors may start once the last of them are.
template <class P, class W, bool ALIGNED>
__device__ __forceinline__ void multiply_slice(SkinnySums<P>& sums, const typename P::Element* a, const Skinny<P>& weights) {
  using S = Skinny<P>;
  using T = SkinnyShape<P>;
  const int begin = blockIdx.z * T::SLICE, first = begin + threadIdx.x / 32;
  const int count = min(begin + T::SLICE, S::CHUNKS) - first;
  const typename W::Place place(weights, first);
  W loaded[S::STAGES];
  SkinnyRows<P> rows[S::STAGES];
  if (!S::PREFETCH) S::wait();
#pragma unroll
  for (int s = 0; s < S::STAGES; s++) loaded[s].load(place, s * S::WARPS, s * S::WARPS < count);
  if (S::PREFETCH) S::wait();
#pragma unroll
  for (int s = 0; s < S::STAGES; s++) rows[s].template load<ALIGNED>(a, first + s * S::WARPS, s * S::WARPS < count);
#pragma unroll 1
  for (int turn = 0; turn < T::TURNS; turn += S::STAGES) {
    if (turn + S::STAGES >= T::TURNS) S::release();
#pragma unroll
    for (int s = 0; s < S::STAGES; s++) {
      const int next = (turn + s + S::STAGES) * S::WARPS;
      loaded[s].multiply(sums, rows[s]);
      if (T::TURNS > S::STAGES) {
        loaded[s].load(place, next, next < count);
        rows[s].template load<ALIGNED>(a, first + next, next < count);
      }
    }
  }
}

// Adds the warps' sums, and those of the cluster's blocks, each of which stores a part of the total.
template <class P, class Store>
__device__ __forceinline__ void store_sums(const SkinnySums<P>& sums, float* parts, const Store& store) {
  using S = Skinny<P>;
  using T = SkinnyShape<P>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
#pragma unroll
  for (int t = 0; t < S::TILES; t++)
#pragma unroll
    for (int i = 0; i < T::ROW_TILES; i++)
#pragma unroll
      for (int s = 0; s < 4; s++) {
        const int m = i * 8 + lane % 4 * 2 + s % 2, n = t * 16 + s / 2 * 8 + lane / 4;
        if (m < P::M) parts[(warp * P::M + m) * T::LINE + n] = sums[t][i][s];
      }
  __syncthreads();
  for (int i = threadIdx.x; i < P::M * T::COLUMNS; i += T::THREADS) {
    const int m = i / T::COLUMNS, n = i % T::COLUMNS;
    float total = 0;
#pragma unroll
    for (int w = 0; w < S::WARPS; w++) total += parts[(w * P::M + m) * T::LINE + n];
    if constexpr (S::SPLITS > 1)
      parts[m * T::LINE + n] = total;
    else if (blockIdx.x * T::COLUMNS + n < P::N)
      store(0, m, blockIdx.x * T::COLUMNS + n, total);
  }
  if constexpr (S::SPLITS > 1) {
    cluster_sync();
    for (int i = blockIdx.z * T::THREADS + threadIdx.x; i < P::M * T::COLUMNS; i += S::SPLITS * T::THREADS) {
      const int m = i / T::COLUMNS, n = i % T::COLUMNS;
      float total = peer_float(parts + m * T::LINE + n, 0);
#pragma unroll
      for (int rank = 1; rank < S::SPLITS; rank++) total += peer_float(parts + m * T::LINE + n, rank);
      if (blockIdx.x * T::COLUMNS + n < P::N) store(0, m, blockIdx.x * T::COLUMNS + n, total);
    }
    cluster_sync_relaxed();
  }
}

template <class P, class W, class Store>
__device__ __forceinline__ void skinny_gemm(const typename P::Element* a, const Skinny<P>& weights, const Store& store) {
  DYNAMIC_SHARED;
  constexpr bool WHOLE = P::A_ROW % SkinnyShape<P>::WIDE == 0 && P::K % SkinnyShape<P>::WIDE == 0;
  SkinnySums<P> sums = {};
  if (WHOLE && (uint64_t)a % 16 == 0)
    multiply_slice<P, W, WHOLE>(sums, a, weights);
  else
    multiply_slice<P, W, false>(sums, a, weights);
  store_sums<P>(sums, shared, store);
}
