// Matrix products by warpgroups: tensor cores read both operands from shared memory on their own.
//
// Rows of 128 bytes along k lie in shared memory as warpgroups.cuh says. A warp holds 16 rows and all
// columns of its block's tile. A stage is filled again two steps after its use, so that one barrier a
// step is enough.

template <class P, int HEIGHT, int COUNT, int STRIDE, bool ALIGNED>
struct WideCopies {
  using T = Tiles<P>;
  using Element = typename P::Element;
  static constexpr bool WHOLE = ALIGNED && STRIDE % T::CHUNK == 0 && P::K % T::CHUNK == 0;
  static constexpr int WIDTH = WHOLE ? T::CHUNK : 1, PARTS = P::BK / WIDTH, PASS = T::THREADS / PARTS;
  const Element* from;
  int row, k, rows, depth;
  __device__ __forceinline__ WideCopies(const Element* matrix, int first, int k0) {
    row = threadIdx.x / PARTS, k = threadIdx.x % PARTS * WIDTH;
    from = matrix + (int64_t)(first + row) * STRIDE + k0 + k;
    rows = COUNT - first - row, depth = P::K - k0 - k;
  }
  __device__ __forceinline__ void copy(int4* tile) {
    Element* to = (Element*)tile;
    const int fixed = row * P::BK + (k / T::CHUNK ^ row % 8) * T::CHUNK + k % T::CHUNK;
#pragma unroll
    for (int i = 0; i < HEIGHT; i += PASS) {
      const bool valid = (COUNT % HEIGHT == 0 || i < rows) && (P::K % P::BK == 0 || depth > 0);
      const int place = PASS % 8 == 0 ? fixed + i * P::BK
                                      : (row + i) * P::BK + (k / T::CHUNK ^ (row + i) % 8) * T::CHUNK + k % T::CHUNK;
      if constexpr (WHOLE)
        copy_chunk<false>(to + place, valid ? from + (int64_t)i * STRIDE : from, valid);
      else
        copy_element(to + place, valid ? from + (int64_t)i * STRIDE : from, valid);
    }
    from += P::BK, depth -= P::BK;
  }
};

template <class P, bool ALIGNED>
__device__ __forceinline__ void accumulate_wide(Sums<P>& c, int4* tiles, const typename P::Element* a,
                                                const typename P::Element* b, int first, int steps) {
  constexpr int A_SIZE = P::BM * 8, STAGE = A_SIZE + P::BN * 8, AHEAD = P::STAGES - 2;
  WideCopies<P, P::BM, P::M, P::A_ROW, ALIGNED> left(a, blockIdx.y * P::BM, first * P::BK);
  WideCopies<P, P::BN, P::N, P::B_ROW, ALIGNED> right(b, blockIdx.x * P::BN, first * P::BK);
  int filled = 0, used = 0, rest = steps;
  auto fill = [&]() {
    int4* tile = tiles + filled * STAGE;
    if (rest-- > 0) left.copy(tile), right.copy(tile + A_SIZE);
    copies_commit();
    filled = filled == P::STAGES - 1 ? 0 : filled + 1;
  };
#pragma unroll 1
  for (int i = 0; i < AHEAD; i++) fill();
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
    copies_wait<AHEAD - 1>();
    copies_to_tensor_cores();
    __syncthreads();
    const int4* tile = tiles + used * STAGE;
    const uint64_t x = swizzled_tile(tile + threadIdx.x / 128 * 64 * 8);
    const uint64_t y = swizzled_tile(tile + A_SIZE);
    wide_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) multiply_wide(c[0], x + k * 2, y + k * 2, Kind<P::PRECISION>());
    wide_commit();
    fill();
    wide_wait<1>();
    used = used == P::STAGES - 1 ? 0 : used + 1;
  }
  wide_wait<0>();
  copies_wait<0>();
  __syncthreads();
}

template <class P, int PARTS, class Store>
__device__ __forceinline__ void store_wide(const float* tile, const Store& store) {
  using T = Tiles<P>;
#pragma unroll 8
  for (int i = blockIdx.z % PARTS * T::THREADS + threadIdx.x; i < P::BM * P::BN; i += PARTS * T::THREADS) {
    const int row = i / P::BN, column = i % P::BN, m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
    if (m < P::M && n < P::N) store(blockIdx.z, m, n, total_of<PARTS>(tile + row * T::C_STRIDE + column));
  }
}

// As `contract`.
template <class P, class Store>
__device__ __forceinline__ void contract_wide(const typename P::Element* a, const typename P::Element* b, const Store& store) {
  static_assert(P::FORM == ROWS && P::OUT_BLOCK == 0);
  float* const shared = swizzled_shared();
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SHARE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  constexpr int PARTS = P::CLUSTER ? P::SPLITS : 1;
  const int z = blockIdx.z / P::SPLITS, first = blockIdx.z % P::SPLITS * SHARE, steps = min(SHARE, STEPS - first);
  a += P::a_offset(z), b += P::b_offset(z);
  Sums<P> c = {};
  if (P::ALIGNED || (((uint64_t)a | (uint64_t)b) & 15) == 0)
    accumulate_wide<P, true>(c, (int4*)shared, a, b, first, steps);
  else
    accumulate_wide<P, false>(c, (int4*)shared, a, b, first, steps);
  spread<P>(c, shared);
  if (PARTS > 1) cluster_wait();
  store_wide<P, PARTS>(shared, store);
  if (PARTS > 1) cluster_leave();
}
