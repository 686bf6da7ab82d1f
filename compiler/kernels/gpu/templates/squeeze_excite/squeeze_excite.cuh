// Squeeze and excitation (Hu et al. 2018): each channel of an image is scaled by a gate that two pointwise
// convolutions compute from the means of all channels.
//
// An image has a cluster of CHANNEL_PARTS x PIXEL_PARTS blocks; each has a part of the channels and of the pixels,
// which it reads twice, the second time mostly from its L1 cache. Blocks exchange sums of channels, then sums of
// the first convolution, in a fixed order. A line is a channel block, or a channel of a row-major image.
//
// `P` holds the constants of one problem; see emit.py. `hidden(outer, row, sum)` and `gate(outer, row, sum)` add a
// convolution's bias and apply its activation.

template <class P>
struct ExcitedPart {
  static constexpr int LANES = P::BLOCKED ? P::WIDTH : 1, LINES = P::CHANNELS / LANES;
  static constexpr int VECTORS = P::BLOCKED ? P::PIXELS : P::PIXELS / P::WIDTH;
  static constexpr int OWN_LINES = (LINES + P::CHANNEL_PARTS - 1) / P::CHANNEL_PARTS;
  static constexpr int OWN_VECTORS = (VECTORS + P::PIXEL_PARTS - 1) / P::PIXEL_PARTS;
  static constexpr int OWN = OWN_LINES * LANES, WARPS = P::THREADS / 32;
  static constexpr int SHARES = OWN_LINES < WARPS ? WARPS / OWN_LINES : 1;

  int outer, channel_part, pixel_part, line, lines, vector, vectors;

  __device__ __forceinline__ ExcitedPart() {
    outer = blockIdx.x, channel_part = blockIdx.z % P::CHANNEL_PARTS, pixel_part = blockIdx.z / P::CHANNEL_PARTS;
    line = channel_part * OWN_LINES, lines = LINES - line < OWN_LINES ? LINES - line : OWN_LINES;
    vector = pixel_part * OWN_VECTORS, vectors = VECTORS - vector < OWN_VECTORS ? VECTORS - vector : OWN_VECTORS;
  }
};

__device__ __forceinline__ float excited_warp_sum(float x) {
#pragma unroll
  for (int other = 16; other > 0; other /= 2) x += __shfl_sync(~0u, x, threadIdx.x % 32 ^ other);
  return x;
}

// The sums of a block's channels over its pixels, to `sums`.
template <class P>
__device__ __forceinline__ void sum_channels(const ExcitedPart<P>& part, const typename P::Image& image, float* sums) {
  using S = ExcitedPart<P>;
  __shared__ float shares[S::OWN_LINES * S::SHARES][S::LANES];
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  for (int unit = warp; unit < S::OWN_LINES * S::SHARES; unit += S::WARPS) {
    const int line = unit / S::SHARES, share = unit % S::SHARES;
    float own[S::LANES] = {};
    if (line < part.lines) {
#pragma unroll 4
      for (int v = share * 32 + lane; v < part.vectors; v += S::SHARES * 32) {
        const auto loaded = image.load(part.outer, part.line + line, part.vector + v);
#pragma unroll
        for (int r = 0; r < P::WIDTH; r++) own[r % S::LANES] += (float)loaded.at[r];
      }
    }
#pragma unroll
    for (int r = 0; r < S::LANES; r++) {
      const float total = excited_warp_sum(own[r]);
      if (lane == 0) shares[unit][r] = total;
    }
  }
  __syncthreads();
  for (int c = threadIdx.x; c < S::OWN; c += P::THREADS) {
    float total = 0;
#pragma unroll
    for (int share = 0; share < S::SHARES; share++) total += shares[c / S::LANES * S::SHARES + share][c % S::LANES];
    sums[c] = total;
  }
}

// The lanes, at most `most`, that each of some rows has if threads are divided among them.
__device__ constexpr int excited_lanes(int rows, int threads, int most) {
  return most > 1 && rows * most > threads ? excited_lanes(rows, threads, most / 2) : most;
}

// A matrix with as many columns as a block needs of it, by rows: in global memory, or a copy in shared memory.
//
// `MOST_ROWS` bounds the rows. A group of lanes computes a row's dot product: all threads have a part of one.
template <class P, int MOST_ROWS>
struct ExcitedRows {
  static constexpr int LANES = excited_lanes(MOST_ROWS, P::THREADS, 32), STEP = P::THREADS / LANES;

  // Gives each row's dot product with a vector in shared memory to `take(row, sum)`.
  template <class Weight, class Take>
  static __device__ __forceinline__ void multiply(const Weight* matrix, int stride, int rows, const float* with, int columns,
                                                  const Take& take) {
    const int lane = threadIdx.x % LANES;
#pragma unroll 1
    for (int begin = 0; begin < MOST_ROWS; begin += STEP) {
      const int row = begin + threadIdx.x / LANES;
      float sum = 0;
      if (row < rows) {
#pragma unroll 8
        for (int c = lane; c < columns; c += LANES) sum += (float)matrix[(int64_t)row * stride + c] * with[c];
      }
#pragma unroll
      for (int other = LANES / 2; other > 0; other /= 2) sum += __shfl_sync(~0u, sum, threadIdx.x % 32 ^ other);
      if (lane == 0 && row < rows) take(row, sum);
    }
  }
};

// Starts to copy rows to shared memory, PITCH floats apart, by 16 bytes where both sides are aligned.
template <class P, int PITCH>
__device__ __forceinline__ void stage_rows(float* to, const float* from, int stride, int rows, int columns) {
  if (stride % 4 == 0 && columns % 4 == 0 && (uint64_t)from % 16 == 0) {
    const int chunks = columns / 4;
    for (int i = threadIdx.x; i < rows * chunks; i += P::THREADS) {
      const int row = i / chunks, c = i % chunks * 4;
      copy_chunk<false>(to + row * PITCH + c, from + (int64_t)row * stride + c, true);
    }
  } else {
    for (int i = threadIdx.x; i < rows * columns; i += P::THREADS) {
      const int row = i / columns, c = i % columns;
      copy_element(to + row * PITCH + c, from + (int64_t)row * stride + c, true);
    }
  }
}

// The floats from a row to the next in shared memory: rows are aligned and begin in different banks.
__device__ constexpr int excited_pitch(int columns) { return (columns + 3) / 4 * 4 + 4; }

// The weights that a block multiplies by. With STAGES of 2 both matrices are copied to shared memory while the image
// is read, before predecessors end if the weights are constants (PDL); with 1 the second one replaces the first.
template <class P, class First, class Second>
struct ExcitedWeights {
  using S = ExcitedPart<P>;
  static constexpr int FIRST_PITCH = excited_pitch(S::OWN), SECOND_PITCH = excited_pitch(P::HIDDEN);
  static constexpr int FIRST = P::HIDDEN * FIRST_PITCH, SECOND = S::OWN * SECOND_PITCH;
  static constexpr int FLOATS = P::STAGES == 0 ? 0 : P::STAGES == 2 ? FIRST + SECOND : FIRST > SECOND ? FIRST : SECOND;

  const First* first;
  const Second* second;
  float* staged;
  int channels;

  __device__ __forceinline__ float* staged_second() const { return staged + (P::STAGES == 2 ? FIRST : 0); }

  __device__ __forceinline__ void begin() const {
    if constexpr (P::STAGES > 0) {
      stage_rows<P, FIRST_PITCH>(staged, first, P::CHANNELS, P::HIDDEN, channels);
      cp_async_fence();
    }
    if constexpr (P::STAGES == 2) begin_second();
  }

  __device__ __forceinline__ void begin_second() const {
    stage_rows<P, SECOND_PITCH>(staged_second(), second, P::HIDDEN, channels, P::HIDDEN);
    cp_async_fence();
  }

  template <class Take>
  __device__ __forceinline__ void multiply_first(const float* with, const Take& take) const {
    if constexpr (P::STAGES > 0)
      ExcitedRows<P, P::HIDDEN>::multiply(staged, FIRST_PITCH, P::HIDDEN, with, channels, take);
    else
      ExcitedRows<P, P::HIDDEN>::multiply(first, P::CHANNELS, P::HIDDEN, with, channels, take);
  }

  template <class Take>
  __device__ __forceinline__ void multiply_second(const float* with, const Take& take) const {
    if constexpr (P::STAGES > 0)
      ExcitedRows<P, S::OWN>::multiply(staged_second(), SECOND_PITCH, channels, with, P::HIDDEN, take);
    else
      ExcitedRows<P, S::OWN>::multiply(second, P::HIDDEN, channels, with, P::HIDDEN, take);
  }
};

template <class P>
__device__ __forceinline__ void scale_image(const ExcitedPart<P>& part, const typename P::Image& image, const float* gates) {
  using S = ExcitedPart<P>;
  constexpr bool WHOLE = S::VECTORS % P::PIXEL_PARTS == 0;
#pragma unroll 4
  for (int i = threadIdx.x; i < part.lines * S::OWN_VECTORS; i += P::THREADS) {
    const int line = i / S::OWN_VECTORS, v = i % S::OWN_VECTORS;
    if (!WHOLE && v >= part.vectors) continue;
    const auto loaded = image.load(part.outer, part.line + line, part.vector + v);
    float values[P::WIDTH];
#pragma unroll
    for (int r = 0; r < P::WIDTH; r++) values[r] = (float)loaded.at[r] * gates[line * S::LANES + r % S::LANES];
    image.store(part.outer, part.line + line, part.vector + v, values);
  }
}

template <class P, class First, class Second, class Hidden, class Gate>
__device__ __forceinline__ void squeeze_excite(const typename P::Image& image, const First* first, const Second* second,
                                               const Hidden& hidden, const Gate& gate) {
  using S = ExcitedPart<P>;
  using W = ExcitedWeights<P, First, Second>;
  const S part;
  DYNAMIC_SHARED;
  float *sums = shared + W::FLOATS, *partial = sums + S::OWN;
  __shared__ float means[S::OWN], squeezed[P::HIDDEN], gates[S::OWN];
  const int channel = part.line * S::LANES;
  const W weights{first + channel, second + (int64_t)channel * P::HIDDEN, shared, part.lines * S::LANES};
  if (!P::PREFETCH) P::wait();
  weights.begin();
  if (P::PREFETCH) P::wait();
  sum_channels<P>(part, image, sums);
  if constexpr (P::PIXEL_PARTS > 1) cluster_sync();
  for (int c = threadIdx.x; c < S::OWN; c += P::THREADS) {
    float total = P::PIXEL_PARTS > 1 ? 0 : sums[c];
    if constexpr (P::PIXEL_PARTS > 1)
      for (int p = 0; p < P::PIXEL_PARTS; p++) total += peer_float(sums + c, p * P::CHANNEL_PARTS + part.channel_part);
    means[c] = total * (1.0f / P::PIXELS);
  }
  cp_async_wait<(P::STAGES == 2 ? 1 : 0)>();
  __syncthreads();
  weights.multiply_first(means, [&](int row, float sum) { partial[row] = sum; });
  if constexpr (P::CHANNEL_PARTS > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  if constexpr (P::STAGES == 1) weights.begin_second();
  for (int row = threadIdx.x; row < P::HIDDEN; row += P::THREADS) {
    float total = P::CHANNEL_PARTS > 1 ? 0 : partial[row];
    if constexpr (P::CHANNEL_PARTS > 1)
      for (int c = 0; c < P::CHANNEL_PARTS; c++)
        total += peer_float(partial + row, part.pixel_part * P::CHANNEL_PARTS + c);
    squeezed[row] = hidden(part.outer, row, total);
  }
  cp_async_wait<0>();
  __syncthreads();
  weights.multiply_second(squeezed, [&](int row, float sum) { gates[row] = gate(part.outer, channel + row, sum); });
  __syncthreads();
  scale_image<P>(part, image, gates);
  if constexpr (P::CHANNEL_PARTS * P::PIXEL_PARTS > 1) cluster_sync_relaxed();
}
