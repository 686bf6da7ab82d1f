// GEMM and implicit-GEMM convolution of bytes with sums in int32, or in float of float8s: the tiles and the pipeline of gemm.cuh,
// whose 16-byte chunks hold 16 values of k. Fragments of an MMA with a k of 32 have the bytes of one of
// 16 bits with a k of 16.
//
// Sums in int32 pass through the epilogue of results.cuh as floats of the same bits: it moves them only.

// The kinds of a problem's bytes, the type of its sums, and the zero point of the operand besides the weights, which is
// subtracted times the sum of a row of weights. These follow the weights, SUMS bytes from their start.
template <class P>
struct Bytes;

template <class P>
using ByteSums = typename Bytes<P>::Sum[Tiles<P>::MT][Tiles<P>::NT][4];

template <class P>
__device__ __forceinline__ void multiply_bytes(ByteSums<P>& c, const Fragments<P>& fragments) {
  using T = Tiles<P>;
#pragma unroll
  for (int i = 0; i < T::MT; i++)
#pragma unroll
    for (int j = 0; j < T::NT; j++)
      mma_bytes<Bytes<P>::A_KIND, Bytes<P>::B_KIND>(c[i][j], fragments.a[i][0], fragments.b[j][0]);
}

// MMAs of float8s round their sums to fewer bits than a float has: those of a k-step are added in float.
__device__ __forceinline__ void add_coarse(int&, int&) {}
__device__ __forceinline__ void add_coarse(float& total, float& part) { total += part, part = 0; }

// Adds sums of float8s to the totals, and clears them; sums of integers are the totals.
template <class P>
__device__ __forceinline__ void add_sums(ByteSums<P>& c, ByteSums<P>& part) {
#pragma unroll
  for (int i = 0; i < Tiles<P>::MT; i++)
#pragma unroll
    for (int j = 0; j < Tiles<P>::NT; j++)
#pragma unroll
      for (int s = 0; s < 4; s++) add_coarse(c[i][j][s], part[i][j][s]);
}

// As `mainloop`.
template <class P, bool ALIGNED, class Prefetch>
__device__ __forceinline__ void byte_mainloop(ByteSums<P>& c, int4* tiles, const uint8_t* a, const uint8_t* b, int first,
                                              int steps, const Prefetch& prefetch) {
  using T = Tiles<P>;
  constexpr int COUNT = Fragments<P>::COUNT;
  constexpr bool FLOATS = Bytes<P>::A_KIND >= E4M3;
  static_assert(COUNT % 2 == 0 && P::FORM != LINES);
  Pipeline<P, ALIGNED> pipeline(tiles, a, b, first, steps);
  prefetch();
  const int warp = threadIdx.x / 32, column = warp % T::COLUMNS * P::WN;
  const int place = a_offset_of<P>(warp / T::COLUMNS * P::WM);
  pipeline.advance();
  Fragments<P> fragments[2];
  fragments[0].load(pipeline.a_tile() + place, b_fragments<P>(pipeline.b_tile(), column), 0);
  ByteSums<P> sums = {};
  ByteSums<P>& part = FLOATS ? sums : c;
#pragma unroll 1
  do {
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      if (k == COUNT - 1) pipeline.advance();
      fragments[(k + 1) % 2].load(pipeline.a_tile() + place, b_fragments<P>(pipeline.b_tile(), column), (k + 1) % COUNT);
      if (k == 0) pipeline.fill();
      multiply_bytes<P>(part, fragments[k % 2]);
    }
    if (FLOATS) add_sums<P>(c, part);
  } while (P::K > P::BK && --steps > 0);
  cp_async_wait<0>();
  __syncthreads();
}

// Subtracts the zero point's share: `sums` are those of this problem's rows of weights, which are A's
// rows (WEIGHTS == OPERAND_A) or B's columns.
template <class P>
__device__ __forceinline__ void subtract_zero_point(ByteSums<P>& c, const int* sums) {
  using T = Tiles<P>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.y * P::BM + warp / T::COLUMNS * P::WM + lane / 4;
  const int column = blockIdx.x * P::BN + warp % T::COLUMNS * P::WN + lane % 4 * 2;
  constexpr bool BY_ROW = Bytes<P>::WEIGHTS == OPERAND_A;
#pragma unroll
  for (int i = 0; i < (BY_ROW ? T::MT : T::NT) * 2; i++) {
    const int at = BY_ROW ? row + i * 8 : column + i / 2 * 8 + i % 2;
    const int share = at < (BY_ROW ? P::M : P::N) ? Bytes<P>::ZERO_POINT * sums[at] : 0;
#pragma unroll
    for (int j = 0; j < (BY_ROW ? T::NT : T::MT); j++)
#pragma unroll
      for (int s = 0; s < 2; s++) {
        if (BY_ROW)
          c[i / 2][j][i % 2 * 2 + s] -= share;
        else
          c[j][i / 2][s * 2 + i % 2] -= share;
      }
  }
}

__device__ __forceinline__ float as_bits(int sum) { return __int_as_float(sum); }
__device__ __forceinline__ float as_bits(float sum) { return sum; }

// The sums over a cluster's blocks of four integers, which are floats of the same bits in their tiles.
template <int CLUSTER_SIZE>
__device__ __forceinline__ void cluster_integers4(float (&total)[4], const float* element) {
  int sums[4] = {};
#pragma unroll
  for (int rank = 0; rank < CLUSTER_SIZE; rank++) {
    const float4 other = peer_float4(element, rank);
    sums[0] += __float_as_int(other.x), sums[1] += __float_as_int(other.y);
    sums[2] += __float_as_int(other.z), sums[3] += __float_as_int(other.w);
  }
#pragma unroll
  for (int i = 0; i < 4; i++) total[i] = as_bits(sums[i]);
}

// `VectorStore::finish` of integers.
template <class P, class Store>
__device__ __forceinline__ void finish_integers(float* tile, const Store& store) {
  using V = VectorStore<P, P::SPLITS>;
  const V vectors(tile);
#pragma unroll
  for (int i = 0; i < V::ITERATIONS; i++) {
    int row, column;
    if (!vectors.locate(i, row, column)) continue;
    float values[V::BLOCK];
#pragma unroll
    for (int r = 0; r < V::BLOCK; r += 4) {
      constexpr int STRIDE = Tiles<P>::C_STRIDE;
      const int place = V::BY_ROW ? column * STRIDE + row : row * STRIDE + column;
      cluster_integers4<P::SPLITS>((float(&)[4])values[r], tile + place + r);
    }
    store(blockIdx.z, blockIdx.y * P::BM + row, blockIdx.x * P::BN + column, values,
          vectors.elementwise + (i * Tiles<P>::THREADS + threadIdx.x) * 16, V::ELEMENTWISE_STRIDE,
          vectors.broadcast + (V::BY_ROW ? row : column) * 4, V::BROADCAST_EXTENT * 4);
  }
}

// `store_elements` of integers.
template <class P, class Store>
__device__ __forceinline__ void store_integers(const float* tile, const Store& store) {
  constexpr int STEP = P::SPLITS * Tiles<P>::THREADS;
#pragma unroll 1
  for (int i = blockIdx.z % P::SPLITS * Tiles<P>::THREADS + threadIdx.x; i < P::BM * P::BN; i += STEP) {
    const int row = i / P::BN, column = i % P::BN, m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
    int sum = 0;
#pragma unroll
    for (int rank = 0; rank < P::SPLITS; rank++) sum += __float_as_int(peer_float(tile + row * Tiles<P>::C_STRIDE + column, rank));
    if (m < P::M && n < P::N) store(blockIdx.z, m, n, as_bits(sum));
  }
}

// `store_tile` of integers where a cluster adds the split-K slices.
template <class P, class Store>
__device__ __forceinline__ void store_integer_tile(float* tile, const Store& store) {
  cluster_sync();
  if constexpr (P::OUT_BLOCK + P::VECTOR > 0)
    if (stores_vectors<P>(store)) finish_integers<P>(tile, store);
  if constexpr (P::OUT_BLOCK == 0)
    if (!stores_vectors<P>(store)) store_integers<P>(tile, store);
  cluster_sync_relaxed();
}

// Ends the kernel of a block: `c` are the sums of k-steps from `first` on.
template <class P, class Store>
__device__ __forceinline__ void store_bytes(ByteSums<P>& c, float* shared, const int* sums, int first, const Store& store) {
  Overlap<P>::release();
  prefetch_epilogue<P, P::SPLITS, true>(shared, store);
  if constexpr (Bytes<P>::ZERO_POINT != 0)
    if (first == 0) subtract_zero_point<P>(c, sums);
  Accumulators<P> bits;
#pragma unroll
  for (int i = 0; i < Tiles<P>::MT; i++)
#pragma unroll
    for (int j = 0; j < Tiles<P>::NT; j++)
#pragma unroll
      for (int s = 0; s < 4; s++) bits[i][j][s] = as_bits(c[i][j][s]);
  store_accumulators<P>(bits, shared);
  if constexpr (P::SPLITS == 1 || Bytes<P>::A_KIND >= E4M3)
    store_tile<P, P::SPLITS>(shared, store);
  else
    store_integer_tile<P>(shared, store);
}

// The sums of the rows of weights of a problem, which follow the weights.
template <class P>
__device__ __forceinline__ const int* sums_of_weights(const uint8_t* a, const uint8_t* b, int z) {
  return (const int*)((Bytes<P>::WEIGHTS == OPERAND_A ? a : b) + Bytes<P>::SUMS) + z * P::M;
}

// Computes this block's tile; see `gemm`.
template <class P, class Store>
__device__ __forceinline__ void byte_gemm(const uint8_t* a, const uint8_t* b, const Store& store) {
  DYNAMIC_SHARED;
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SLICE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  static_assert(P::SPLITS == 1 || P::CLUSTER);
  const int z = blockIdx.z / P::SPLITS, first = blockIdx.z % P::SPLITS * SLICE, steps = min(SLICE, STEPS - first);
  const int* sums = sums_of_weights<P>(a, b, z);
  a += P::a_offset(z), b += P::b_offset(z);
  ByteSums<P> c = {};
  auto prefetch = [&]() { prefetch_epilogue<P, P::SPLITS, false>(shared, store); };
  if (P::ALIGNED || (((uint64_t)a | (uint64_t)b) & 15) == 0)
    byte_mainloop<P, true>(c, (int4*)shared, a, b, first, steps, prefetch);
  else
    byte_mainloop<P, false>(c, (int4*)shared, a, b, first, steps, prefetch);
  store_bytes<P>(c, shared, sums, first, store);
}
