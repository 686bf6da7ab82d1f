// Tiles by warpgroups: tensor cores read both operands from shared memory on their own.
//
// Rows of 128 bytes along k lie in shared memory as warpgroups.cuh says. An image lies there as in
// memory, the pixels of a channel block side by side: scattering their chunks over rows took three
// times as long. A warp holds 16 rows and all columns of its block's tile. A stage is filled again two
// steps after its use, so that one barrier a step is enough.

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

template <class P, bool ALIGNED, int FORM>
struct WideRight {
  using Type = WideCopies<P, P::BN, P::N, P::B_ROW, ALIGNED>;
};
template <class P, bool ALIGNED>
struct WideRight<P, ALIGNED, BLOCKS> {
  using Type = BlockCopies<P>;
};

// As `accumulate`.
template <class P, bool ALIGNED, class Fetch>
__device__ __forceinline__ void accumulate_wide(Sums<P>& c, int4* tiles, const typename P::Element* a,
                                                const typename P::Element* b, int first, int steps, const Fetch& fetch) {
  constexpr int A_SIZE = P::BM * 8, STAGE = A_SIZE + P::BN * 8, AHEAD = P::STAGES - 2;
  constexpr int NEXT = P::FORM == BLOCKS ? 2 * P::BN : 2;  // chunks to B of the next products
  WideCopies<P, P::BM, P::M, P::A_ROW, ALIGNED> left(a, blockIdx.y * P::BM, first * P::BK);
  typename WideRight<P, ALIGNED, P::FORM>::Type right(b, blockIdx.x * P::BN, first * P::BK);
  int filled = 0, used = 0, rest = steps;
  auto fill = [&]() {
    int4* tile = tiles + filled * STAGE;
    if (rest-- > 0) left.copy(tile), right.copy(tile + A_SIZE);
    copies_commit();
    filled = filled == P::STAGES - 1 ? 0 : filled + 1;
  };
  if constexpr (Overlap<P>::EARLY != NEITHER) {
    fill_early<P, AHEAD, STAGE, A_SIZE>(left, right, tiles, steps);
    filled = AHEAD, rest -= AHEAD;
  } else {
#pragma unroll 1
    for (int i = 0; i < AHEAD; i++) fill();
  }
  fetch();
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
    copies_wait<AHEAD - 1>();
    copies_to_tensor_cores();
    __syncthreads();
    const int4* tile = tiles + used * STAGE;
    const uint64_t x = swizzled_tile(tile + threadIdx.x / 128 * 64 * 8);
    const uint64_t y = P::FORM == BLOCKS ? chunked_tile(tile + A_SIZE, P::BN) : swizzled_tile(tile + A_SIZE);
    wide_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) multiply_wide(c[0], x + k * 2, y + k * NEXT, Kind<P::PRECISION>());
    wide_commit();
    fill();
    wide_wait<1>();
    used = used == P::STAGES - 1 ? 0 : used + 1;
  }
  wide_wait<0>();
  copies_wait<0>();
  __syncthreads();
}

// Tensor cores cut off what TF32 does not hold; weights are rounded beforehand, an image is not. Its
// loss on average, as of `round_tf32`, is made up for in the sums.
template <class P>
__device__ __forceinline__ void restore_mean(Sums<P>& c) {
  if constexpr (P::FORM == BLOCKS && P::PRECISION == TF32) {
    constexpr float LOSS = 1.4427f / 4096;
#pragma unroll
    for (int j = 0; j < Tiles<P>::NT; j++)
#pragma unroll
      for (int s = 0; s < 4; s++) c[0][j][s] *= P::A_ROUNDED ? 1 + LOSS : (1 + LOSS) * (1 + LOSS);
  }
}

// As `contract`.
template <class P, class Store>
__device__ __forceinline__ void contract_wide(const typename P::Element* a, const typename P::Element* b, const Store& store) {
  float* const shared = swizzled_shared();
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SHARE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  constexpr int PARTS = P::CLUSTER ? P::SPLITS : 1;
  static_assert((P::FORM == ROWS && P::OUT_BLOCK == 0) || (P::FORM == BLOCKS && (P::SPLITS - 1) * SHARE < STEPS));
  const int z = blockIdx.z / P::SPLITS, first = blockIdx.z % P::SPLITS * SHARE, steps = min(SHARE, STEPS - first);
  a += P::a_offset(z), b += P::b_offset(z);
  Sums<P> c = {};
  auto fetch = [&]() { fetch_results<P, PARTS, false>(shared, store); };
  if (P::ALIGNED || (((uint64_t)a | (uint64_t)b) & 15) == 0)
    accumulate_wide<P, true>(c, (int4*)shared, a, b, first, steps, fetch);
  else
    accumulate_wide<P, false>(c, (int4*)shared, a, b, first, steps, fetch);
  Overlap<P>::release();
  fetch_results<P, PARTS, true>(shared, store);
  restore_mean<P>(c);
  spread<P>(c, shared);
  store_tile<P, PARTS>(shared, store);
}
