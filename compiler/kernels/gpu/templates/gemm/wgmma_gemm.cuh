// GEMM by WGMMA: tensor cores read both operands from shared memory.
//
// Matrices have the 128-byte swizzle. An image keeps its layout, the pixels of a channel block next to
// each other, without swizzle: scattering its chunks over rows took three times as long. A warp holds 16
// rows and all columns of its block's tile. A stage is filled again two k-steps after its use, so that
// one barrier per k-step is enough.

template <class P, int HEIGHT, int COUNT, int STRIDE, bool ALIGNED>
struct SwizzledCopies {
  using T = Tiles<P>;
  using Element = typename P::Element;
  static constexpr int WIDTH = CopyWidth<P, STRIDE, ALIGNED>::VALUE, PARTS = P::BK / WIDTH, PASS = T::THREADS / PARTS;
  const Element* from;
  int row, k, rows, depth;
  __device__ __forceinline__ SwizzledCopies(const Element* matrix, int first, int k0) {
    row = threadIdx.x / PARTS, k = threadIdx.x % PARTS * WIDTH;
    from = matrix + (int64_t)(first + row) * STRIDE + k0 + k;
    rows = COUNT - first - row, depth = P::K - k0 - k;
  }
  __device__ __forceinline__ void copy(int4* tile) {
    Element* to = (Element*)tile;
    const int fixed = row * P::BK + (k / T::CHUNK ^ row % 8) * T::CHUNK + k % T::CHUNK;
    copy_all<Element, WIDTH, HEIGHT / PASS>(
        [&](int i) {
          const int other = row + i * PASS;
          return to + (PASS % 8 == 0 ? fixed + i * PASS * P::BK
                                     : other * P::BK + (k / T::CHUNK ^ other % 8) * T::CHUNK + k % T::CHUNK);
        },
        [&](int i, bool& valid) {
          valid &= (COUNT % HEIGHT == 0 || i * PASS < rows) && (P::K % P::BK == 0 || depth > 0);
          return valid ? from + (int64_t)(i * PASS) * STRIDE : from;
        });
    from += P::BK, depth -= P::BK;
  }
};

template <class P, bool ALIGNED, int FORM>
struct WgmmaCopiesB {
  using Type = SwizzledCopies<P, P::BN, P::N, P::B_ROW, ALIGNED>;
};
template <class P, bool ALIGNED>
struct WgmmaCopiesB<P, ALIGNED, BLOCKS> {
  using Type = BlockCopies<P>;
};

// As `mainloop`, by MMAs of given kinds.
template <class P, bool ALIGNED, class Sums, class Kinds, class Prefetch>
__device__ __forceinline__ void wgmma_mainloop(Sums& c, Kinds kinds, int4* tiles, const typename P::Element* a,
                                                const typename P::Element* b, int first, int steps, const Prefetch& prefetch) {
  constexpr int A_SIZE = P::BM * 8, STAGE = A_SIZE + P::BN * 8, AHEAD = P::STAGES - 2;
  constexpr int NEXT = P::FORM == BLOCKS ? 2 * P::BN : 2;  // chunks to B of the next MMA
  SwizzledCopies<P, P::BM, P::M, P::A_ROW, ALIGNED> left(a, blockIdx.y * P::BM, first * P::BK);
  typename WgmmaCopiesB<P, ALIGNED, P::FORM>::Type right(b, blockIdx.x * P::BN, first * P::BK);
  int filled = 0, used = 0, rest = steps;
  auto fill = [&]() {
    int4* tile = tiles + filled * STAGE;
    if (rest-- > 0) left.copy(tile), right.copy(tile + A_SIZE);
    cp_async_fence();
    filled = filled == P::STAGES - 1 ? 0 : filled + 1;
  };
  if constexpr (Overlap<P>::PREFETCHED != NO_OPERAND) {
    prefetch_weights<P, AHEAD, STAGE, A_SIZE>(left, right, tiles, steps);
    filled = AHEAD, rest -= AHEAD;
  } else {
#pragma unroll 1
    for (int i = 0; i < AHEAD; i++) fill();
  }
  prefetch();
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
    cp_async_wait<AHEAD - 1>();
    fence_async_proxy();
    __syncthreads();
    const int4* tile = tiles + used * STAGE;
    const uint64_t x = swizzled_descriptor(tile + threadIdx.x / 128 * 64 * 8);
    const uint64_t y = P::FORM == BLOCKS ? interleaved_descriptor(tile + A_SIZE, P::BN) : swizzled_descriptor(tile + A_SIZE);
    wgmma_fence();
#pragma unroll
    for (int k = 0; k < 4; k++) wgmma(c[0], x + k * 2, y + k * NEXT, kinds);
    wgmma_commit();
    fill();
    wgmma_wait<1>();
    used = used == P::STAGES - 1 ? 0 : used + 1;
  }
  wgmma_wait<0>();
  cp_async_wait<0>();
  __syncthreads();
}

// Tensor cores truncate to TF32; weights were rounded when they were packed, other operands are not. The
// mean of what each loses, as in `round_tf32`, is restored in the sums.
template <class P>
__device__ __forceinline__ void compensate_truncation(Accumulators<P>& c) {
  if constexpr (P::PRECISION == TF32 && !(P::A_ROUNDED && P::B_ROUNDED)) {
    constexpr float GAIN = 1 + 1.4427f / 4096, FACTOR = (P::A_ROUNDED ? 1 : GAIN) * (P::B_ROUNDED ? 1 : GAIN);
#pragma unroll
    for (int j = 0; j < Tiles<P>::NT; j++)
#pragma unroll
      for (int s = 0; s < 4; s++) c[0][j][s] *= FACTOR;
  }
}

// As `gemm`.
template <class P, class Store>
__device__ __forceinline__ void wgmma_gemm(const typename P::Element* a, const typename P::Element* b, const Store& store) {
  float* const shared = swizzled_shared();
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SLICE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  constexpr int CLUSTER_SIZE = P::CLUSTER ? P::SPLITS : 1;
  static_assert((P::FORM == ROWS && P::OUT_BLOCK == 0) || (P::FORM == BLOCKS && (P::SPLITS - 1) * SLICE < STEPS));
  const int z = blockIdx.z / P::SPLITS, first = blockIdx.z % P::SPLITS * SLICE, steps = min(SLICE, STEPS - first);
  a += P::a_offset(z), b += P::b_offset(z);
  Accumulators<P> c = {};
  auto prefetch = [&]() { prefetch_epilogue<P, CLUSTER_SIZE, false>(shared, store); };
  const Kind<P::PRECISION> kind;
  if (P::ALIGNED || (((uint64_t)a | (uint64_t)b) & 15) == 0)
    wgmma_mainloop<P, true>(c, kind, (int4*)shared, a, b, first, steps, prefetch);
  else
    wgmma_mainloop<P, false>(c, kind, (int4*)shared, a, b, first, steps, prefetch);
  Overlap<P>::release();
  prefetch_epilogue<P, CLUSTER_SIZE, true>(shared, store);
  compensate_truncation<P>(c);
  store_accumulators<P>(c, shared);
  store_tile<P, CLUSTER_SIZE>(shared, store);
}
