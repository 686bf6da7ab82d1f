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

// The dot products of some rows of a matrix with a vector in shared memory: `take(row, sum)` is given each.
template <class P, class Weight, class Take>
__device__ __forceinline__ void multiply_rows(const Weight* matrix, int stride, int rows, const float* with, int columns,
                                              const Take& take) {
  const int lane = threadIdx.x % 32;
  for (int row = threadIdx.x / 32; row < rows; row += P::THREADS / 32) {
    float sum = 0;
#pragma unroll 4
    for (int c = lane; c < columns; c += 32) sum += (float)matrix[(int64_t)row * stride + c] * with[c];
    sum = excited_warp_sum(sum);
    if (lane == 0) take(row, sum);
  }
}

template <class P, class First, class Second, class Hidden, class Gate>
__device__ __forceinline__ void squeeze_excite(const typename P::Image& image, const First* first, const Second* second,
                                               const Hidden& hidden, const Gate& gate) {
  using S = ExcitedPart<P>;
  const S part;
  DYNAMIC_SHARED;
  float *sums = shared, *partial = shared + S::OWN;
  __shared__ float means[S::OWN], squeezed[P::HIDDEN], gates[S::OWN];
  sum_channels<P>(part, image, sums);
  if constexpr (P::PIXEL_PARTS > 1) cluster_sync();
  for (int c = threadIdx.x; c < S::OWN; c += P::THREADS) {
    float total = P::PIXEL_PARTS > 1 ? 0 : sums[c];
    if constexpr (P::PIXEL_PARTS > 1)
      for (int p = 0; p < P::PIXEL_PARTS; p++) total += peer_float(sums + c, p * P::CHANNEL_PARTS + part.channel_part);
    means[c] = total * (1.0f / P::PIXELS);
  }
  __syncthreads();
  const int channel = part.line * S::LANES, channels = part.lines * S::LANES;
  multiply_rows<P>(first + channel, P::CHANNELS, P::HIDDEN, means, channels,
                   [&](int row, float sum) { partial[row] = sum; });
  if constexpr (P::CHANNEL_PARTS > 1) {
    cluster_sync();
  } else {
    __syncthreads();
  }
  for (int row = threadIdx.x; row < P::HIDDEN; row += P::THREADS) {
    float total = P::CHANNEL_PARTS > 1 ? 0 : partial[row];
    if constexpr (P::CHANNEL_PARTS > 1)
      for (int c = 0; c < P::CHANNEL_PARTS; c++)
        total += peer_float(partial + row, part.pixel_part * P::CHANNEL_PARTS + c);
    squeezed[row] = hidden(part.outer, row, total);
  }
  __syncthreads();
  multiply_rows<P>(second + (int64_t)channel * P::HIDDEN, P::HIDDEN, channels, squeezed, P::HIDDEN,
                   [&](int row, float sum) { gates[row] = gate(part.outer, channel + row, sum); });
  __syncthreads();
#pragma unroll 4
  for (int i = threadIdx.x; i < part.lines * S::OWN_VECTORS; i += P::THREADS) {
    const int line = i / S::OWN_VECTORS, v = i % S::OWN_VECTORS;
    if (v >= part.vectors) continue;
    const auto loaded = image.load(part.outer, part.line + line, part.vector + v);
    float values[P::WIDTH];
#pragma unroll
    for (int r = 0; r < P::WIDTH; r++) values[r] = (float)loaded.at[r] * gates[line * S::LANES + r % S::LANES];
    image.store(part.outer, part.line + line, part.vector + v, values);
  }
  if constexpr (P::CHANNEL_PARTS * P::PIXEL_PARTS > 1) cluster_sync_relaxed();
}
