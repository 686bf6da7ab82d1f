// A depthwise convolution fused with the pointwise one after it: C[m][n] = sum of A[m][k] * B[k][n] over
// the channels k, where B[k] is channel k of the image convolved with its filter.
//
// Each block computes the tiles of B that it multiplies. In a k-step, its threads divide the step's
// channels, D::BLOCK at a time, and the tile's pixels, D::PIXELS adjacent ones at a time; a thread keeps
// these pixels of an image row and their halo in registers for all taps of a filter row. The results are
// kept in shared memory in the layout of an NCHWc image, double-buffered. Blocks of other rows m compute
// them again. `P` holds the constants of the GEMM, `D` those of the depthwise convolution; see gemm.cuh
// and grouped_conv.cuh, whose functions are used.

// An element that is read through a Relu.
template <class Element>
struct ReluInput {
  Element stored;
  __device__ __forceinline__ operator float() const { return flowloom_maximum((float)stored, 0.0f); }
};

// Stores an element of B in the type of the MMA.
template <class P>
__device__ __forceinline__ void store_operand(float& to, float value) { to = value; }
template <class P>
__device__ __forceinline__ void store_operand(uint16_t& to, float value) {
  to = (uint16_t)round_pair<P::PRECISION>(__float_as_uint(value), 0);
}

// Computes the tile of B whose first channel is `first`; channels that do not exist are zeros.
template <class P, class D, class Image, class Weight>
__device__ __forceinline__ void fill_depthwise(int4* tile, const Image* image, const Weight* window, int first) {
  using T = Tiles<P>;
  using G = GroupedRows<D>;
  using Element = typename P::Element;
  constexpr int STRIPS = P::BN / D::PIXELS, UNITS = STRIPS * (P::BK / D::BLOCK);
  constexpr int PART = D::BLOCK < T::CHUNK ? D::BLOCK : T::CHUNK, PLACES = D::RESULT0 * D::RESULT1 * D::RESULT2;
  static_assert(P::BN % D::PIXELS == 0 && P::BK % D::BLOCK == 0 && D::RESULT2 % D::PIXELS == 0);
#pragma unroll 1
  for (int unit = threadIdx.x; unit < UNITS; unit += T::THREADS) {
    const int column = unit % STRIPS * D::PIXELS, channel = unit / STRIPS * D::BLOCK;
    const int n = blockIdx.x * P::BN + column, place = n % PLACES, c = (first + channel) / D::BLOCK;
    float sums[D::PIXELS][D::BLOCK] = {};
    if (n < P::N && c < D::BLOCKS)
      add_rows<D>(sums, image + (int64_t)(n / PLACES) * D::IMAGE + c * (int64_t)D::CHANNELS,
                  window + c * G::TAPS * D::BLOCK, 0, place / (D::RESULT1 * D::RESULT2),
                  place / D::RESULT2 % D::RESULT1, place % D::RESULT2);
#pragma unroll
    for (int p = 0; p < D::PIXELS; p++)
#pragma unroll
      for (int b = 0; b < D::BLOCK; b += PART) {
        const int k = channel + b;
        Block<Element, PART> kept;
#pragma unroll
        for (int i = 0; i < PART; i++) store_operand<P>(kept.at[i], sums[p][b + i]);
        Element* to = (Element*)(tile + k / T::CHUNK * P::BN + column + p) + k % T::CHUNK;
        *(Block<Element, PART>*)to = kept;
      }
  }
}

// Accumulates one k-step.
template <class P>
__device__ __forceinline__ void multiply_stage(Accumulators<P>& c, const int4* tile, int row, int column) {
  using T = Tiles<P>;
  const int4* right = tile + T::A_SIZE;
  if constexpr (P::PRECISION == FP32) {
    multiply_simt<P>(c, tile + row * T::A_ROW, b_warp_tile<P>(right, column));
  } else {
    constexpr int COUNT = Fragments<P>::COUNT;
    Fragments<P> fragments[2];
    const int4 *a = tile + a_offset_of<P>(row), *b = b_fragments<P>(right, column);
    fragments[0].load(a, b, 0);
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      if (k + 1 < COUNT) fragments[(k + 1) % 2].load(a, b, k + 1);
      fragments[k % 2].multiply(c);
    }
  }
}

// As `mainloop`.
template <class P, class D, class Image, class Weight>
__device__ __forceinline__ void separable_mainloop(Accumulators<P>& c, int4* tiles, const typename P::Element* a,
                                                     const Image* image, const Weight* window, int first, int steps) {
  using T = Tiles<P>;
  RowCopies<P, P::BM, P::M, P::A_ROW, true> left(a, blockIdx.y * P::BM, first * P::BK);
  const int warp = threadIdx.x / 32, row = warp / T::COLUMNS * P::WM, column = warp % T::COLUMNS * P::WN;
#pragma unroll 1
  for (int step = 0; step <= steps; step++) {
    int4* tile = tiles + step % 2 * T::STAGE;
    if (step < steps) {
      left.copy(tile);
      fill_depthwise<P, D>(tile + T::A_SIZE, image, window, (first + step) * P::BK);
    }
    if (step > 0) multiply_stage<P>(c, tiles + (step + 1) % 2 * T::STAGE, row, column);
    cp_async_fence();
    cp_async_wait<0>();
    __syncthreads();
  }
}

// As `gemm`.
template <class P, class D, class Image, class Weight, class Store>
__device__ __forceinline__ void separable_gemm(const typename P::Element* a, const Image* image,
                                                   const Weight* window, const Store& store) {
  DYNAMIC_SHARED;
  static_assert(P::ALIGNED && P::FORM == BLOCKS && P::STAGES == 2);
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SLICE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  constexpr int CLUSTER_SIZE = P::CLUSTER ? P::SPLITS : 1;
  const int first = blockIdx.z % P::SPLITS * SLICE, steps = min(SLICE, STEPS - first);
  Accumulators<P> c = {};
  prefetch_epilogue<P, CLUSTER_SIZE, false>(shared, store);
  separable_mainloop<P, D>(c, (int4*)shared, a, image, window, first, steps);
  prefetch_epilogue<P, CLUSTER_SIZE, true>(shared, store);
  store_accumulators<P>(c, shared);
  store_tile<P, CLUSTER_SIZE>(shared, store);
}
