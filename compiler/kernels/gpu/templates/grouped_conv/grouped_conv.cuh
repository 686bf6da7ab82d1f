// Convolutions whose groups have few channels: direct convolution by FMAs, without shared memory.
//
// Each thread computes PIXELS adjacent results of a row, for one block of output channels. Those need
// PARTS blocks of input channels, of which each output multiplies WIDTH channels. A row of a part is
// loaded once, stays in registers and serves all taps of the filter's row. SPLITS threads divide the
// rows of the filter and the parts among them (split-K); their sums are added in a fixed order.
// `P` holds the constants of one problem; axes 0, 1, 2 are depth, rows and columns.

template <class P>
struct GroupedRows {
  static constexpr int B = P::BLOCK, TAPS = P::WINDOW0 * P::WINDOW1 * P::WINDOW2;
  static constexpr int SPAN = (P::PIXELS - 1) * P::STRIDES2 + (P::WINDOW2 - 1) * P::DILATIONS2 + 1;
  static constexpr int COUNT = P::PARTS * P::WINDOW0 * P::WINDOW1;
  static constexpr int UNROLL = COUNT <= 7 * P::SPLITS ? 7 : 1;
  static constexpr int64_t PLANE = (int64_t)P::SOURCE0 * P::SOURCE1 * P::SOURCE2;
};

// Loads the channels of one pixel: as a vector from an NCHWc image, else from their planes.
template <class P, class Element>
__device__ __forceinline__ void load_pixel(float (&to)[P::BLOCK], const Element* from) {
  if constexpr (P::BLOCKED) {
    const Block<Element, P::BLOCK> loaded = *(const Block<Element, P::BLOCK>*)from;
#pragma unroll
    for (int b = 0; b < P::BLOCK; b++) to[b] = (float)loaded.at[b];
  } else {
#pragma unroll
    for (int b = 0; b < P::BLOCK; b++) to[b] = (float)from[b * GroupedRows<P>::PLANE];
  }
}

// Accumulates one row of the filter in one part: `line` is the image's row, `weights` those of its taps.
template <class P, class Element, class Weight>
__device__ __forceinline__ void add_row(
    float (&sums)[P::PIXELS][P::BLOCK], const Element* line, const Weight* weights, int first) {
  constexpr int B = P::BLOCK, SPAN = GroupedRows<P>::SPAN, PIXEL = P::BLOCKED ? B : 1;
  float values[SPAN][B];
#pragma unroll
  for (int s = 0; s < SPAN; s++) {
#pragma unroll
    for (int b = 0; b < B; b++) values[s][b] = 0;
    if ((unsigned)(first + s) < P::SOURCE2) load_pixel<P>(values[s], line + (first + s) * PIXEL);
  }
#pragma unroll
  for (int i = 0; i < P::WINDOW2; i++)
#pragma unroll
    for (int w = 0; w < P::WIDTH; w++) {
      const Block<Weight, B> factors = ((const Block<Weight, B>*)weights)[i * P::WIDTH + w];
#pragma unroll
      for (int p = 0; p < P::PIXELS; p++)
#pragma unroll
        for (int b = 0; b < B; b++)
          sums[p][b] += (float)factors.at[b] * values[p * P::STRIDES2 + i * P::DILATIONS2][b / P::WIDTH * P::WIDTH + w];
    }
}

// Accumulates every SPLITS-th pair of part and filter row.
template <class P, class Element, class Weight>
__device__ __forceinline__ void add_rows(float (&sums)[P::PIXELS][P::BLOCK], const Element* image,
                                         const Weight* weights, int split, int z, int y, int x) {
  using T = GroupedRows<P>;
#pragma unroll(T::UNROLL)
  for (int item = split; item < T::COUNT; item += P::SPLITS) {
    const int part = item / (P::WINDOW0 * P::WINDOW1), tap = item % (P::WINDOW0 * P::WINDOW1);
    const int depth = z * P::STRIDES0 - P::PADS0 + tap / P::WINDOW1 * P::DILATIONS0;
    const int row = y * P::STRIDES1 - P::PADS1 + tap % P::WINDOW1 * P::DILATIONS1;
    if ((unsigned)depth >= P::SOURCE0 || (unsigned)row >= P::SOURCE1) continue;
    const int64_t line = (int64_t)(depth * P::SOURCE1 + row) * P::SOURCE2 * (P::BLOCKED ? T::B : 1);
    add_row<P>(sums, image + part * (int64_t)P::CHANNELS + line, weights + item * P::WINDOW2 * P::WIDTH * T::B,
               x * P::STRIDES2 - P::PADS2);
  }
}

template <class P, class Element, class Weight, class Store>
__device__ __forceinline__ void convolve_groups(const Element* image, const Weight* weights, const Store& store) {
  using T = GroupedRows<P>;
  constexpr int B = P::BLOCK, STRIPS = (P::RESULT2 + P::PIXELS - 1) / P::PIXELS;
  const int place = threadIdx.x % P::PLACES, split = threadIdx.x / P::PLACES;
  unsigned at = blockIdx.x * P::PLACES + place;
  const int x = at % STRIPS * P::PIXELS;
  at /= STRIPS;
  const int y = at % P::RESULT1;
  at /= P::RESULT1;
  const int z = at % P::RESULT0;
  at /= P::RESULT0;
  const int c = at % P::BLOCKS, n = at / P::BLOCKS;
  image += (int64_t)n * P::IMAGE + c / P::GROUP_BLOCKS * P::PARTS * (int64_t)P::CHANNELS;
  weights += (int64_t)c * P::PARTS * T::TAPS * P::WIDTH * B;
  float sums[P::PIXELS][B] = {};
  if (n < P::BATCH) add_rows<P>(sums, image, weights, split, z, y, x);
  const int pixel = (z * P::RESULT1 + y) * P::RESULT2 + x;
  if constexpr (P::SPLITS == 1) {
#pragma unroll
    for (int p = 0; p < P::PIXELS; p++)
      if (n < P::BATCH && x + p < P::RESULT2) store(n, c * B, pixel + p, sums[p]);
  } else {
    __shared__ float partials[P::SPLITS][P::PIXELS][B][P::PLACES];
#pragma unroll
    for (int p = 0; p < P::PIXELS; p++)
#pragma unroll
      for (int b = 0; b < B; b++) partials[split][p][b][place] = sums[p][b];
    __syncthreads();
    for (int p = split; p < P::PIXELS; p += P::SPLITS) {
      float total[B] = {};
#pragma unroll
      for (int s = 0; s < P::SPLITS; s++)
#pragma unroll
        for (int b = 0; b < B; b++) total[b] += partials[s][p][b][place];
      if (n < P::BATCH && x + p < P::RESULT2) store(n, c * B, pixel + p, total);
    }
  }
}
