// Depthwise convolutions of images in blocks of eight 16-bit channels, on tensor cores.
//
// Along a row, a channel's convolution is a GEMM with a Toeplitz matrix: C[y][x] = sum of A[y][k] * B[k][x] over the
// columns k that eight results need, for each row of the filter, where A is rows of the image, and B[k][x] is the
// filter's tap k - x * STRIDE1, or 0 where there is none. B is the same for all columns of the image.
//
// A block has eight channels, STRIPS strips of 16 rows and TILES tiles of eight columns; a warp has one channel and
// strip. The image with its halo is in shared memory, channel after channel, and so are the filters, whose rows
// end with zeros: those between two rows are the taps before the first and after the last one. A row of the
// image, loaded once, is used by all tiles; the next one is loaded while tensor cores multiply.
//
// `P` holds the constants of one problem; see template.py. `store(outer, channel, pixel, values)` takes the sums.

template <class P>
struct DepthwiseTile {
  static constexpr int CHANNELS = 8, THREADS = 32 * CHANNELS * P::STRIPS;
  static constexpr int HEIGHT = 16 * P::STRIPS, WIDTH = 8 * P::TILES;
  static constexpr int ROWS = (HEIGHT - 1) * P::STRIDE0 + (P::WINDOW0 - 1) * P::DILATION0 + 1;
  // Pieces of eight columns, an even number; a row has one more so that eight rows are in different banks.
  static constexpr int PIECES = ((P::TILES - 1) * P::STRIDE1 + 2 * P::STEPS + 1) / 2 * 2, PITCH = 8 * (PIECES + 1);
  static constexpr int PLANE = ROWS * PITCH, LEAD = (7 * P::STRIDE1 + 7) / 8 * 8;
  static constexpr int FILTER = P::WINDOW0 * P::ROW, STAGED = CHANNELS + 1;
};

// Copies the image and the filters to shared memory.
template <class P>
__device__ __forceinline__ void fill_depthwise_tile(uint16_t* planes, uint16_t* filters, const int4* image,
                                                    const int4* weights, int y, int x) {
  using T = DepthwiseTile<P>;
  constexpr int PAIRS = 4 * T::PIECES;
#pragma unroll 2
  for (int unit = threadIdx.x; unit < T::ROWS * PAIRS; unit += T::THREADS) {
    const int row = unit / PAIRS, column = unit % PAIRS * 2;
    const int v = y * P::STRIDE0 - P::PAD0 + row, u = x * P::STRIDE1 - P::PAD1 + column;
    const bool exists = (unsigned)v < P::SOURCE0;
    const int4 none = {0, 0, 0, 0}, *line = image + (int64_t)v * P::SOURCE1;
    const int4 first = exists && (unsigned)u < P::SOURCE1 ? line[u] : none;
    const int4 second = exists && (unsigned)(u + 1) < P::SOURCE1 ? line[u + 1] : none;
    const uint32_t low[4] = {(uint32_t)first.x, (uint32_t)first.y, (uint32_t)first.z, (uint32_t)first.w};
    const uint32_t high[4] = {(uint32_t)second.x, (uint32_t)second.y, (uint32_t)second.z, (uint32_t)second.w};
    uint16_t* to = planes + row * T::PITCH + column;
#pragma unroll
    for (int c = 0; c < 4; c++) {
      *(uint32_t*)(to + 2 * c * T::PLANE) = (low[c] & 0xffff) | high[c] << 16;
      *(uint32_t*)(to + (2 * c + 1) * T::PLANE) = low[c] >> 16 | (high[c] & 0xffff0000u);
    }
  }
  for (int i = threadIdx.x; i < T::LEAD / 8; i += T::THREADS) ((int4*)filters)[i] = {0, 0, 0, 0};
  for (int i = threadIdx.x; i < T::CHANNELS * T::FILTER / 8; i += T::THREADS)
    ((int4*)(filters + T::LEAD))[i] = weights[i];
}

// The fragments of one row of the filter: pieces of the image's rows, and of the Toeplitz matrix.
template <class P>
struct DepthwiseFragments {
  uint32_t image[DepthwiseTile<P>::PIECES][2], filter[P::STEPS][2];

  // `rows` is this lane's row of the image, `taps` the filter's tap of its first element.
  __device__ __forceinline__ void load(const uint16_t* rows, const uint16_t* taps) {
    using T = DepthwiseTile<P>;
#pragma unroll
    for (int j = 0; j < T::PIECES; j += 2) {
      uint32_t loaded[4];
      ldmatrix_x4(loaded, rows + 8 * j);
      image[j][0] = loaded[0], image[j][1] = loaded[1], image[j + 1][0] = loaded[2], image[j + 1][1] = loaded[3];
    }
    const int odd = (uint64_t)taps / 2 % 2;
    const uint32_t* words = (const uint32_t*)(taps - odd);
#pragma unroll
    for (int i = 0; i < 2 * P::STEPS; i++) {
      const uint64_t both = (uint64_t)words[4 * i + 1] << 32 | words[4 * i];
      filter[i / 2][i % 2] = (uint32_t)(both >> 16 * odd);
    }
  }

  __device__ __forceinline__ void multiply(float (&sums)[P::TILES][4]) const {
#pragma unroll
    for (int s = 0; s < P::STEPS; s++)
#pragma unroll
      for (int t = 0; t < P::TILES; t++) {
        const int j = t * P::STRIDE1 + 2 * s;
        mma<P::PRECISION>(sums[t], {image[j][0], image[j][1], image[j + 1][0], image[j + 1][1]}, filter[s]);
      }
  }
};

template <class P, class Store>
__device__ __forceinline__ void convolve_depthwise(const int4* image, const int4* weights, const Store& store) {
  using T = DepthwiseTile<P>;
  DYNAMIC_SHARED;
  uint16_t *planes = (uint16_t*)shared, *filters = planes + T::CHANNELS * T::PLANE;
  const int block = blockIdx.x % P::BLOCKS, outer = blockIdx.x / P::BLOCKS;
  const int y = blockIdx.y * T::HEIGHT, x = blockIdx.z * T::WIDTH;
  image += (int64_t)block * P::CHANNEL_STEP + (int64_t)outer * P::IMAGE_STEP;
  fill_depthwise_tile<P>(planes, filters, image, weights + (int64_t)block * T::FILTER, y, x);
  __syncthreads();

  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, channel = warp % T::CHANNELS;
  const int strip = warp / T::CHANNELS * 16;
  const uint16_t* rows = planes + channel * T::PLANE + (strip + lane % 16) * P::STRIDE0 * T::PITCH + lane / 16 * 8;
  const uint16_t* taps = filters + T::LEAD + channel * T::FILTER + lane % 4 * 2 - lane / 4 * P::STRIDE1;
  float sums[P::TILES][4] = {};
  DepthwiseFragments<P> even, odd;
  constexpr int STEP = P::DILATION0 * T::PITCH;
  even.load(rows, taps);
#pragma unroll 1
  for (int i = 0; i < P::WINDOW0; i += 2) {
    if (i + 1 < P::WINDOW0) odd.load(rows + (i + 1) * STEP, taps + (i + 1) * P::ROW);
    even.multiply(sums);
    if (i + 1 < P::WINDOW0) {
      if (i + 2 < P::WINDOW0) even.load(rows + (i + 2) * STEP, taps + (i + 2) * P::ROW);
      odd.multiply(sums);
    }
  }

  __syncthreads();
#pragma unroll
  for (int t = 0; t < P::TILES; t++)
#pragma unroll
    for (int i = 0; i < 4; i++) {
      const int row = strip + lane / 4 + i / 2 * 8, column = 8 * t + lane % 4 * 2 + i % 2;
      shared[(row * T::WIDTH + column) * T::STAGED + channel] = sums[t][i];
    }
  __syncthreads();
  for (int i = threadIdx.x; i < T::HEIGHT * T::WIDTH; i += T::THREADS) {
    const int v = y + i / T::WIDTH, u = x + i % T::WIDTH;
    if (v >= P::RESULT0 || u >= P::RESULT1) continue;
    float values[T::CHANNELS];
#pragma unroll
    for (int r = 0; r < T::CHANNELS; r++) values[r] = shared[i * T::STAGED + r];
    store(outer, block * T::CHANNELS, v * P::RESULT1 + u, values);
  }
}
