// Depthwise convolutions of images whose channels are next to each other in memory, by FMAs, without shared memory.
//
// A thread computes WIDTH adjacent channels of a tile of ROWS x PIXELS results: it loads each row of the image that
// the tile needs once, as vectors of channels, and adds it to all results that it is part of. Rows of the filter are
// divided into chunks of CHUNK taps, whose weights stay in registers. LANES threads have adjacent channels of one tile,
// ACROSS x DOWN tiles are a block: these share the halo in the L1 cache.
//
// `P` holds the constants of one problem; axes 0 and 1 are rows and columns. `store(outer, channel, pixel, values)`
// takes the sums. Vectors of channels begin at multiples of their size if VECTORS is true.

template <class P>
struct ChannelTiles {
  static constexpr int W = P::WIDTH, THREADS = P::LANES * P::ACROSS * P::DOWN;
  static constexpr int VECTORS = P::CHANNELS / W, PARTS = (VECTORS + P::LANES - 1) / P::LANES;
  static constexpr int WIDE = P::ACROSS * P::PIXELS, HIGH = P::DOWN * P::ROWS;
  static constexpr int COLUMNS = (P::RESULT1 + WIDE - 1) / WIDE, LINES = (P::RESULT0 + HIGH - 1) / HIGH;
  // Rows of the image that a tile needs, and its columns that a chunk of taps needs.
  static constexpr int DEPTH = (P::ROWS - 1) * P::STRIDE0 + (P::WINDOW0 - 1) * P::DILATION0 + 1;
  static constexpr int SPAN = (P::PIXELS - 1) * P::STRIDE1 + (P::CHUNK - 1) * P::DILATION1 + 1;
  static constexpr int CHUNKS = (P::WINDOW1 + P::CHUNK - 1) / P::CHUNK;
  static constexpr int UNROLL = DEPTH * SPAN * CHUNKS <= 64 ? DEPTH : 1;
};

// The channels of one pixel, zeros outside of the image.
template <class P, bool VECTORS, class Element>
__device__ __forceinline__ Block<Element, P::WIDTH> load_channels(const Element* from, bool inside) {
  Block<Element, P::WIDTH> result;
  if constexpr (VECTORS) {
    if (inside) return *(const Block<Element, P::WIDTH>*)from;
  }
#pragma unroll
  for (int c = 0; c < P::WIDTH; c++) result.at[c] = !VECTORS && inside ? from[c] : Element(0.0f);
  return result;
}

// Adds the taps of one chunk of the filter's row `k` to the results of one row.
template <class P, class Element>
__device__ __forceinline__ void add_chunk(float (&sums)[P::PIXELS][P::WIDTH], int first,
                                          const float (&weights)[P::CHUNK][P::WIDTH],
                                          const Block<Element, P::WIDTH> (&pixels)[ChannelTiles<P>::SPAN]) {
#pragma unroll
  for (int s = 0; s < ChannelTiles<P>::SPAN; s++) {
    float values[P::WIDTH];
#pragma unroll
    for (int c = 0; c < P::WIDTH; c++) values[c] = (float)pixels[s].at[c];
#pragma unroll
    for (int i = 0; i < P::CHUNK; i++) {
      const int offset = s - i * P::DILATION1, p = offset / P::STRIDE1;
      if (first + i >= P::WINDOW1 || offset < 0 || offset % P::STRIDE1 != 0 || p >= P::PIXELS) continue;
#pragma unroll
      for (int c = 0; c < P::WIDTH; c++) sums[p][c] += weights[i][c] * values[c];
    }
  }
}

// Adds one row of the image, `line` of those that the tile needs.
template <class P, bool VECTORS, class Element, class Weight>
__device__ __forceinline__ void add_line(float (&sums)[P::ROWS][P::PIXELS][P::WIDTH], const Element* row, bool inside,
                                         int column, const Weight* weights, int line) {
  using T = ChannelTiles<P>;
#pragma unroll
  for (int chunk = 0; chunk < T::CHUNKS; chunk++) {
    Block<Element, P::WIDTH> pixels[T::SPAN];
    const int first = chunk * P::CHUNK;
#pragma unroll
    for (int s = 0; s < T::SPAN; s++) {
      const int u = column + first * P::DILATION1 + s;
      pixels[s] = load_channels<P, VECTORS>(row + (int64_t)u * P::PIXEL_STEP, inside && (unsigned)u < P::SOURCE1);
    }
#pragma unroll
    for (int q = 0; q < P::ROWS; q++) {
      const int offset = line - q * P::STRIDE0, k = offset / P::DILATION0;
      if (offset < 0 || offset % P::DILATION0 != 0 || k >= P::WINDOW0) continue;
      float factors[P::CHUNK][P::WIDTH];
#pragma unroll
      for (int i = 0; i < P::CHUNK; i++) {
        if (first + i >= P::WINDOW1) continue;
        const int tap = k * P::WINDOW1 + first + i;
        const auto loaded = load_channels<P, VECTORS>(weights + (int64_t)tap * P::CHANNELS, true);
#pragma unroll
        for (int c = 0; c < P::WIDTH; c++) factors[i][c] = (float)loaded.at[c];
      }
      add_chunk<P>(sums[q], first, factors, pixels);
    }
  }
}

template <class P, bool VECTORS, class Element, class Weight, class Store>
__device__ __forceinline__ void convolve_tile(const Element* image, const Weight* weights, const Store& store) {
  using T = ChannelTiles<P>;
  const int lane = threadIdx.x % P::LANES, tile = threadIdx.x / P::LANES;
  unsigned at = blockIdx.x;
  const int vector = at % T::PARTS * P::LANES + lane;
  at /= T::PARTS;
  const int x = (at % T::COLUMNS * P::ACROSS + tile % P::ACROSS) * P::PIXELS;
  at /= T::COLUMNS;
  const int y = (at % T::LINES * P::DOWN + tile / P::ACROSS) * P::ROWS, outer = at / T::LINES;
  if (vector >= T::VECTORS || x >= P::RESULT1 || y >= P::RESULT0) return;
  image += outer * (int64_t)P::IMAGE_STEP + vector * (int64_t)P::VECTOR_STEP;
  weights += vector * P::WIDTH;
  float sums[P::ROWS][P::PIXELS][P::WIDTH] = {};
#pragma unroll(T::UNROLL)
  for (int line = 0; line < T::DEPTH; line++) {
    const int v = y * P::STRIDE0 - P::PAD0 + line;
    const bool inside = (unsigned)v < P::SOURCE0;
    if (T::UNROLL == 1 && !inside) continue;
    add_line<P, VECTORS>(sums, image + (int64_t)v * P::LINE_STEP, inside, x * P::STRIDE1 - P::PAD1, weights, line);
  }
#pragma unroll
  for (int q = 0; q < P::ROWS; q++)
#pragma unroll
    for (int p = 0; p < P::PIXELS; p++)
      if (y + q < P::RESULT0 && x + p < P::RESULT1)
        store(outer, vector * P::WIDTH, (y + q) * P::RESULT1 + x + p, sums[q][p]);
}

template <class P, class Element, class Weight, class Store>
__device__ __forceinline__ void convolve_channels(const Element* image, const Weight* weights, const Store& store) {
  constexpr int W = P::WIDTH;
  if ((uint64_t)image % sizeof(Block<Element, W>) == 0 && (uint64_t)weights % sizeof(Block<Weight, W>) == 0)
    convolve_tile<P, true>(image, weights, store);
  else
    convolve_tile<P, false>(image, weights, store);
}
