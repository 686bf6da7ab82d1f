// The first convolution of a network: an NCHW image of few channels, constant weights, tensor cores.
//
// A block computes ROWS x COLUMNS pixels of SLICE channels, TURNS times. It copies these pixels with
// their halo to shared memory, a word for each: a float, or in 16 bits two pixels that adjacent taps
// read. Each warp multiplies PIXELS pixels, in segments of eight adjacent ones, by WIDTH channels. Its
// MMA fragments are read straight from the halo: a k-step takes two quads of words, and the lanes of a
// quad read at the same distances in all steps, so that every address is a constant offset from the
// lane's first. Quads never leave the filter: the last one along an axis overlaps the one before, and
// the weights of what is read again are zero. Weights are packed in the order in which lanes read them
// (problem.py), so that a lane's results are consecutive channels of a pixel.
// Of a volume, a tile is part of one plane of results; the planes that the taps along the depth read for it
// count as channels.
// `P` holds the constants of one problem; axes 0, 1, 2 are channels, rows and columns.

template <class P>
struct StemTile {
  static constexpr int MMA_ROWS = P::PIXELS / 16, PAIRS = P::WIDTH / 16, MMA_COLUMNS = P::WIDTH / 8;
  static constexpr int SEGMENTS = P::COLUMNS / 8, ACROSS = P::SLICE / P::WIDTH;
  static constexpr int WARPS = P::ROWS * P::COLUMNS / P::PIXELS * ACROSS, THREADS = 32 * WARPS;
  static constexpr int PLANE = P::HALO_ROWS * P::PITCH, LINES = P::PLANES * P::HALO_ROWS;
  static constexpr int DOWN = (P::RESULT1 + P::ROWS - 1) / P::ROWS, ALONG = (P::RESULT2 + P::COLUMNS - 1) / P::COLUMNS;
  static constexpr int TILES = P::BATCH * P::RESULT_DEPTH * DOWN * ALONG;
  static constexpr int WEIGHTS = P::SLICE / 16 * P::STEPS * 32;  // chunks of 16 bytes
  static constexpr int PAIR = P::PRECISION == TF32 ? 1 : 2;
  static constexpr int NEXT = PAIR == 2 && P::WINDOW2 > 1 ? P::DILATIONS2 : 0;
};

typedef Block<uint32_t, 4> Chunk;

// A word of weights: a float, or two elements.
template <class P, class Weight>
__device__ __forceinline__ uint32_t pack_word(const Weight* from) {
  const uint32_t first = __float_as_uint((float)from[0]);
  if constexpr (P::PRECISION == TF32)
    return first;
  else
    return round_pair<P::PRECISION>(first, __float_as_uint((float)from[1]));
}

// Copies the weights of this block's channels.
template <class P, class Weight>
__device__ __forceinline__ void copy_weights(Chunk* to, const Weight* weights) {
  using T = StemTile<P>;
  constexpr int COUNT = 4 * T::PAIR;
  weights += (int64_t)blockIdx.y * T::WEIGHTS * COUNT;
#pragma unroll 8
  for (int first = 0; first < T::WEIGHTS; first += T::THREADS) {
    const int i = first + threadIdx.x;
    if (i >= T::WEIGHTS) continue;
    if constexpr (P::PRECISION == TF32 && sizeof(Weight) == 4) {
      copy_chunk<true>(to + i, weights + i * COUNT, true);
    } else {
      Block<Weight, 4> loaded[T::PAIR];
#pragma unroll
      for (int p = 0; p < T::PAIR; p++) loaded[p] = ((const Block<Weight, 4>*)weights)[i * T::PAIR + p];
      Chunk packed;
#pragma unroll
      for (int w = 0; w < 4; w++) packed.at[w] = pack_word<P>(loaded[w * T::PAIR / 4].at + w * T::PAIR % 4);
      to[i] = packed;
    }
  }
  cp_async_fence();
}

// Stores pixel `x` of a row of the halo: as a word, or into the two words that hold it.
template <class P>
__device__ __forceinline__ void store_pixel(uint32_t* row, int x, float value) {
  using T = StemTile<P>;
  if constexpr (P::PRECISION == TF32) {
    row[x] = round_tf32(__float_as_uint(value));
  } else {
    uint16_t* const halves = (uint16_t*)row;
    const uint16_t rounded = (uint16_t)round_pair<P::PRECISION>(__float_as_uint(value), 0);
    halves[2 * x] = rounded;
    if (x >= T::NEXT) halves[2 * (x - T::NEXT) + 1] = rounded;
  }
}

// Copies the halo whose first pixel is (z, y, x), with zeros outside the image; a warp copies a row at a
// time, with LOADS loads per lane in flight.
template <class P, class Image>
__device__ __forceinline__ void copy_halo(uint32_t* halo, const Image* image, int z, int y, int x) {
  using T = StemTile<P>;
  constexpr int PARTS = (P::HALO_COLUMNS + 31) / 32, COUNT = (T::LINES + T::WARPS - 1) / T::WARPS;
  constexpr int LOADS = 16, LINES = PARTS >= LOADS ? 1 : LOADS / PARTS < COUNT ? LOADS / PARTS : COUNT;
  int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  asm volatile("" : "+r"(lane), "+r"(warp));  // else addresses would stay in registers with the accumulators
#pragma unroll 1
  for (int first = 0; first < COUNT; first += LINES) {
    float values[LINES][PARTS];
#pragma unroll
    for (int i = 0; i < LINES; i++) {
      const int line = (first + i) * T::WARPS + warp, row = y + line % P::HALO_ROWS;
      const int plane = line / P::HALO_ROWS, depth = z + plane % P::WINDOW_DEPTH * P::DILATION_DEPTH;
      const bool inside = line < T::LINES && (unsigned)row < P::SOURCE1 && (unsigned)depth < P::SOURCE_DEPTH;
      const Image* from = image + ((plane / P::WINDOW_DEPTH * P::SOURCE_DEPTH + depth) * P::SOURCE1 + row) * P::SOURCE2 + x;
#pragma unroll
      for (int p = 0; p < PARTS; p++) {
        const int own = p * 32 + lane;
        values[i][p] = 0;
        if (inside && own < P::HALO_COLUMNS && (unsigned)(x + own) < P::SOURCE2)
          values[i][p] = (float)from[own];
      }
    }
#pragma unroll
    for (int i = 0; i < LINES; i++) {
      const int line = (first + i) * T::WARPS + warp;
#pragma unroll
      for (int p = 0; p < PARTS; p++)
        if (line < T::LINES && p * 32 + lane < P::HALO_COLUMNS)
          store_pixel<P>(halo + line * P::PITCH, p * 32 + lane, values[i][p]);
    }
  }
}

// The offset of quad `quad` from a pixel's first tap; the last one along an axis begins at LASTS.
template <class P>
__device__ __forceinline__ int quad_place(int quad) {
  const int c = quad / (P::COUNTS1 * P::COUNTS2) % P::COUNTS0, i = quad / P::COUNTS2 % P::COUNTS1;
  const int j = quad % P::COUNTS2;
  const int place = min(c * P::SPANS0, P::LASTS0) * StemTile<P>::PLANE;
  return place + min(i * P::SPANS1, P::LASTS1) * P::DILATIONS1 * P::PITCH + min(j * P::SPANS2, P::LASTS2) * P::DILATIONS2;
}

// The offset of lane `t` of a quad from the beginning of the quad.
template <class P>
__device__ __forceinline__ int lane_place(int t) {
  constexpr int A = P::LANES0, B = P::LANES1, C = P::LANES2, PAIR = StemTile<P>::PAIR;
  const int c = min(t / (B * C), P::PLANES - 1), i = min(t / C % B, P::WINDOW1 - 1);
  const int j = min(t % C * PAIR, P::WINDOW2 > PAIR ? P::WINDOW2 - PAIR : 0);
  static_assert(A * B * C == 4);
  return c * StemTile<P>::PLANE + i * P::DILATIONS1 * P::PITCH + j * P::DILATIONS2;
}

// The offset of the first tap of a segment's first pixel.
template <class P>
__device__ __forceinline__ int segment_place(int segment) {
  constexpr int SEGMENTS = StemTile<P>::SEGMENTS;
  return segment / SEGMENTS * P::STRIDES1 * P::PITCH + segment % SEGMENTS * 8 * P::STRIDES2;
}

// Accumulates a warp's pixels, from `segment` on, and channels, from chunk `tile_weights` on.
template <class P>
__device__ __forceinline__ void multiply_halo(float (&sums)[P::PIXELS / 16][P::WIDTH / 8][4], const uint32_t* halo,
                                               const Chunk* tile_weights, int segment) {
  using T = StemTile<P>;
  constexpr int UNROLL = P::STEPS <= 40 ? P::STEPS : 4, CHUNKS_OF_QUAD = P::QUAD_CHANNELS / 16;
  const int lane = threadIdx.x % 32;
  const uint32_t* own = halo + segment_place<P>(segment) + lane / 4 * P::STRIDES2 + lane_place<P>(lane % 4);
  tile_weights += lane;
#pragma unroll(UNROLL)
  for (int step = 0; step < P::STEPS; step++) {
    uint32_t pixels[T::MMA_ROWS][4];
#pragma unroll
    for (int f = 0; f < T::MMA_ROWS; f++)
#pragma unroll
      for (int r = 0; r < 4; r++)
        pixels[f][r] = own[quad_place<P>(2 * step + r / 2) + segment_place<P>(2 * f + r % 2)];
#pragma unroll
    for (int p = 0; p < T::PAIRS; p++) {
      const Chunk loaded = tile_weights[((p / CHUNKS_OF_QUAD * P::STEPS + step) * CHUNKS_OF_QUAD + p % CHUNKS_OF_QUAD) * 32];
#pragma unroll
      for (int h = 0; h < 2; h++) {
        const uint32_t b[2] = {loaded.at[2 * h], loaded.at[2 * h + 1]};
#pragma unroll
        for (int f = 0; f < T::MMA_ROWS; f++) mma<P::PRECISION>(sums[f][2 * p + h], pixels[f], b);
      }
    }
  }
}

// Stores a warp's accumulators of the tile whose first pixel is (y, x) of plane n of results, from `channel` on. A
// WHOLE tile is inside the result: without branches, loads for different pixels overlap.
template <class P, bool WHOLE, class Store>
__device__ __forceinline__ void store_sums(const float (&sums)[P::PIXELS / 16][P::WIDTH / 8][4], const Store& store,
                                           int n, int y, int x, int segment, int channel) {
  using T = StemTile<P>;
  constexpr int OWN = P::QUAD_CHANNELS / 4;  // a lane's channels of a quad
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < 2 * T::MMA_ROWS; i++) {
    const int row = y + (segment + i) / T::SEGMENTS, column = x + (segment + i) % T::SEGMENTS * 8 + lane / 4;
    if (!WHOLE && (row >= P::RESULT1 || column >= P::RESULT2)) continue;
#pragma unroll
    for (int b = 0; b < P::WIDTH / P::QUAD_CHANNELS; b++)
#pragma unroll
      for (int q = 0; q < OWN; q += P::BLOCK) {
        const int first = channel + b * P::QUAD_CHANNELS + lane % 4 * OWN + q;
        float values[P::BLOCK];
#pragma unroll
        for (int v = 0; v < P::BLOCK; v++)
          values[v] = sums[i / 2][b * (OWN / 2) + (q + v) / 2][i % 2 * 2 + (q + v) % 2];
        if (P::FILTERS % P::QUAD_CHANNELS == 0 || first < P::FILTERS)
          store(n / P::RESULT_DEPTH, first, (n % P::RESULT_DEPTH * P::RESULT1 + row) * P::RESULT2 + column, values);
      }
  }
}

template <class P, class Image, class Weight, class Store>
__device__ __forceinline__ void convolve_stem(const Image* image, const Weight* weights, const Store& store) {
  DYNAMIC_SHARED;
  using T = StemTile<P>;
  Chunk* const tile_weights = (Chunk*)shared;
  uint32_t* const halo = (uint32_t*)(tile_weights + T::WEIGHTS);
  copy_weights<P>(tile_weights, weights);
  const int warp = threadIdx.x / 32, segment = warp / T::ACROSS * (P::PIXELS / 8), channel = warp % T::ACROSS * P::WIDTH;
  const Chunk* const own = tile_weights + channel / 16 * P::STEPS * 32;
#pragma unroll 1
  for (int turn = 0; turn < P::TURNS; turn++) {
    const int tile = blockIdx.x + turn * gridDim.x;
    if (tile >= T::TILES) break;
    const int n = tile / (T::DOWN * T::ALONG), y = tile / T::ALONG % T::DOWN * P::ROWS, x = tile % T::ALONG * P::COLUMNS;
    __syncthreads();
    copy_halo<P>(halo, image + (int64_t)(n / P::RESULT_DEPTH) * P::SOURCE0 * P::SOURCE_DEPTH * P::SOURCE1 * P::SOURCE2,
                 n % P::RESULT_DEPTH * P::STRIDE_DEPTH - P::PAD_DEPTH, y * P::STRIDES1 - P::PADS1,
                 x * P::STRIDES2 - P::PADS2);
    cp_async_wait<0>();
    __syncthreads();
    float sums[T::MMA_ROWS][T::MMA_COLUMNS][4] = {};
    multiply_halo<P>(sums, halo, own, segment);
    const int first = blockIdx.y * P::SLICE + channel;
    if (y + P::ROWS <= P::RESULT1 && x + P::COLUMNS <= P::RESULT2)
      store_sums<P, true>(sums, store, n, y, x, segment, first);
    else
      store_sums<P, false>(sums, store, n, y, x, segment, first);
  }
}
