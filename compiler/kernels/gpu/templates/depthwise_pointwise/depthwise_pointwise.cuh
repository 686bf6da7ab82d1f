// A depthwise convolution and the pointwise one behind it: C[m][n] = sum of A[m][k] * B[k][n] over the
// channels k, where B[k] is channel k of the image convolved with a window of its own.
//
// Each block computes the B that it multiplies: in a step, its threads share out the step's channels,
// D::BLOCK at a time, and the tile's pixels, D::PIXELS beside each other at a time, which keep a row
// of the image with its halo in registers for all taps of a row of the window. The sums lie in
// shared memory as a blocked image would, and one tile is filled while the other is multiplied.
// Blocks of other rows m compute them again. `P` holds the constants of the product, `D` those of
// the depthwise convolution; see gemm.cuh and grouped_conv.cuh, whose functions do the work.

// An element that is read as its positive part.
template <class Element>
struct Rectified {
  Element stored;
  __device__ __forceinline__ operator float() const { return flowloom_maximum((float)stored, 0.0f); }
};

// Stores a number of B in the type that B is multiplied in.
template <class P>
__device__ __forceinline__ void keep_number(float& to, float value) { to = value; }
template <class P>
__device__ __forceinline__ void keep_number(uint16_t& to, float value) {
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
        for (int i = 0; i < PART; i++) keep_number<P>(kept.at[i], sums[p][b + i]);
        Element* to = (Element*)(tile + k / T::CHUNK * P::BN + column + p) + k % T::CHUNK;
        *(Block<Element, PART>*)to = kept;
      }
  }
}

// Adds the products of one step to a warp's pieces.
template <class P>
__device__ __forceinline__ void multiply_step(Sums<P>& c, const int4* tile, int row, int column) {
  using T = Tiles<P>;
  const int4* right = tile + T::A_SIZE;
  if constexpr (P::PRECISION == FP32) {
    multiply_exactly<P>(c, tile + row * T::A_ROW, right_corner<P>(right, column));
  } else {
    constexpr int COUNT = Fragments<P>::COUNT;
    Fragments<P> fragments[2];
    const int4 *a = tile + left_place<P>(row), *b = right_place<P>(right, column);
    fragments[0].load(a, b, 0);
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      if (k + 1 < COUNT) fragments[(k + 1) % 2].load(a, b, k + 1);
      fragments[k % 2].multiply(c);
    }
  }
}

// As `accumulate`: adds up `steps` steps from `first` on.
template <class P, class D, class Image, class Weight>
__device__ __forceinline__ void accumulate_separable(Sums<P>& c, int4* tiles, const typename P::Element* a,
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
    if (step > 0) multiply_step<P>(c, tiles + (step + 1) % 2 * T::STAGE, row, column);
    copies_commit();
    copies_wait<0>();
    __syncthreads();
  }
}

// As `contract`: computes this block's tile and hands each element to `store`.
template <class P, class D, class Image, class Weight, class Store>
__device__ __forceinline__ void contract_separable(const typename P::Element* a, const Image* image,
                                                   const Weight* window, const Store& store) {
  DYNAMIC_SHARED;
  static_assert(P::ALIGNED && P::FORM == BLOCKS && P::STAGES == 2);
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SHARE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  constexpr int PARTS = P::CLUSTER ? P::SPLITS : 1;
  const int first = blockIdx.z % P::SPLITS * SHARE, steps = min(SHARE, STEPS - first);
  Sums<P> c = {};
  fetch_results<P, PARTS, false>(shared, store);
  accumulate_separable<P, D>(c, (int4*)shared, a, image, window, first, steps);
  fetch_results<P, PARTS, true>(shared, store);
  spread<P>(c, shared);
  store_tile<P, PARTS>(shared, store);
}
