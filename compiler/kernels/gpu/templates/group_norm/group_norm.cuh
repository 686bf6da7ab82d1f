// GroupNormalization of images, row-major or in channel blocks; in an InstanceNormalization each channel is a group.
//
// SPAN adjacent channels, whole groups and whole channel blocks, have BLOCKS thread blocks: a cluster, which exchange
// moments through shared memory, or blocks of two launches, which exchange them through a workspace. A thread keeps
// ITEMS vectors of WIDTH elements, channels of a block or pixels, in registers, so that a launch reads memory once.
// Where a span has several groups (LANES > 1), a warp has one channel block, and its lanes' sums are apart until
// they are added to those of their groups. Moments of blocks are a mean and a sum of squared deviations from it,
// which are combined in a fixed order (Chan et al., Updating formulae and a pairwise algorithm, 1979).
//
// `P` holds the constants of one problem; see emit.py. `load(outer, channel, pixel, values)` gives a vector,
// `scale(channel)` a factor; `store(outer, channel, pixel, values)` takes results before the bias.

template <class P>
struct GroupSpan {
  static constexpr int GROUPS = P::SPAN / P::GROUP, WARPS = P::THREADS / 32;
  // Vectors of a span and elements of each; in a mixed span they are pixels, and elements are of one group.
  static constexpr bool MIXED = P::LANES > 1;
  static constexpr int LINE = P::BLOCKED ? P::PIXELS : P::PIXELS / P::WIDTH;
  static constexpr int LINES = P::BLOCKED ? P::SPAN / P::WIDTH : P::SPAN;
  static constexpr int TOTAL = MIXED ? P::PIXELS : LINE * LINES, UNIT = MIXED ? P::GROUP : P::WIDTH;
  static constexpr int SHARE = (TOTAL + P::BLOCKS - 1) / P::BLOCKS;
  static constexpr int LINE_WARPS = MIXED ? WARPS / LINES : WARPS, STEP = LINE_WARPS * 32;
  static constexpr int ITEMS = (SHARE + STEP - 1) / STEP;

  int outer, channel, rank, line, first;

  __device__ __forceinline__ GroupSpan() {
    const int warp = threadIdx.x / 32;
    outer = blockIdx.x / P::SPANS, channel = blockIdx.x % P::SPANS * P::SPAN, rank = blockIdx.z;
    line = MIXED ? warp / LINE_WARPS : 0, first = threadIdx.x % STEP;
  }
  // Elements of each group that the block of a rank has.
  static __device__ __forceinline__ int count(int rank) {
    const int rest = TOTAL - rank * SHARE;
    return (rest < 0 ? 0 : rest < SHARE ? rest : SHARE) * UNIT;
  }
  __device__ __forceinline__ bool has(int i) const {
    const int own = first + i * STEP;
    return own < SHARE && rank * SHARE + own < TOTAL;
  }
  __device__ __forceinline__ int line_of(int i) const { return MIXED ? line : (rank * SHARE + first + i * STEP) / LINE; }
  __device__ __forceinline__ int channel_of(int i) const { return channel + line_of(i) * (P::BLOCKED ? P::WIDTH : 1); }
  __device__ __forceinline__ int pixel_of(int i) const {
    const int own = rank * SHARE + first + i * STEP;
    return MIXED ? own : own % LINE * (P::BLOCKED ? 1 : P::WIDTH);
  }
  // The group of a lane, counted from the span's first.
  __device__ __forceinline__ int group_of(int lane) const { return MIXED ? (line * P::WIDTH + lane) / P::GROUP : 0; }
};

// The sums of the lanes of all threads for each group, to `totals`.
template <class P>
__device__ __forceinline__ void sum_groups(const float (&sums)[P::LANES], float* totals) {
  using S = GroupSpan<P>;
  __shared__ float parts[S::WARPS][P::LANES];
#pragma unroll
  for (int l = 0; l < P::LANES; l++) {
    float x = sums[l];
#pragma unroll
    for (int other = 16; other > 0; other /= 2) x += __shfl_sync(~0u, x, threadIdx.x % 32 ^ other);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32][l] = x;
  }
  __syncthreads();
  if (threadIdx.x < S::GROUPS) {
    float total = 0;
    if constexpr (S::MIXED) {
      for (int c = threadIdx.x * P::GROUP; c < (threadIdx.x + 1) * P::GROUP; c++)
        for (int w = 0; w < S::LINE_WARPS; w++) total += parts[c / P::WIDTH * S::LINE_WARPS + w][c % P::WIDTH];
    } else {
#pragma unroll
      for (int w = 0; w < S::WARPS; w++) total += parts[w][0];
    }
    totals[threadIdx.x] = total;
  }
  __syncthreads();
}

// The mean and the squared deviations from it of each group's elements in this block, to `moments`.
template <class P>
__device__ __forceinline__ void block_moments(const GroupSpan<P>& span, const float (&x)[GroupSpan<P>::ITEMS][P::WIDTH],
                                              float* moments) {
  using S = GroupSpan<P>;
  __shared__ float totals[2][S::GROUPS];
  const int count = S::count(span.rank);
  const float share = count > 0 ? 1.0f / count : 0.0f;
  float sums[P::LANES] = {}, squares[P::LANES] = {};
#pragma unroll
  for (int i = 0; i < S::ITEMS; i++)
#pragma unroll
    for (int r = 0; r < P::WIDTH; r++) sums[r % P::LANES] += x[i][r];
  sum_groups<P>(sums, totals[0]);
#pragma unroll
  for (int r = 0; r < P::WIDTH; r++) {
    const float mean = totals[0][span.group_of(r)] * share;
#pragma unroll
    for (int i = 0; i < S::ITEMS; i++) {
      const float deviation = span.has(i) ? x[i][r] - mean : 0.0f;
      squares[r % P::LANES] += deviation * deviation;
    }
  }
  sum_groups<P>(squares, totals[1]);
  if (threadIdx.x < S::GROUPS) {
    moments[2 * threadIdx.x] = totals[0][threadIdx.x] * share;
    moments[2 * threadIdx.x + 1] = totals[1][threadIdx.x];
  }
}

// The mean and the inverse deviation of all blocks of a span: `moment(rank, i)` is one's i-th moment.
template <class P, class Moment>
__device__ __forceinline__ void combine_moments(const Moment& moment, float* mean, float* inverse) {
  using S = GroupSpan<P>;
  constexpr int OWN = 2 * S::GROUPS;
  constexpr float COUNT = (float)P::GROUP * P::PIXELS;
  __shared__ float moments[P::BLOCKS * OWN];
  for (int i = threadIdx.x; i < P::BLOCKS * OWN; i += P::THREADS) moments[i] = moment(i / OWN, i % OWN);
  __syncthreads();
  if (threadIdx.x < S::GROUPS) {
    const float* own = moments + 2 * threadIdx.x;
    float total = 0, squares = 0;
    for (int b = 0; b < P::BLOCKS; b++) total += own[b * OWN] * (S::count(b) / COUNT);
    for (int b = 0; b < P::BLOCKS; b++) {
      const float deviation = own[b * OWN] - total;
      squares += own[b * OWN + 1] + deviation * deviation * S::count(b);
    }
    mean[threadIdx.x] = total, inverse[threadIdx.x] = 1.0f / sqrtf(squares / COUNT + P::EPSILON);
  }
  __syncthreads();
}

// The work of a launch: all of it, only the moments of its blocks, or the rest.
enum GroupPhase { WHOLE, MOMENTS, REST };

template <class P, int PHASE, class Load, class Scale, class Store>
__device__ __forceinline__ void normalize_groups(const Load& load, const Scale& scale, const Store& store, float* workspace) {
  using S = GroupSpan<P>;
  const S span;
  __shared__ float mean[S::GROUPS], inverse[S::GROUPS];
  float x[S::ITEMS][P::WIDTH];
#pragma unroll
  for (int i = 0; i < S::ITEMS; i++) {
    if (span.has(i)) {
      load(span.outer, span.channel_of(i), span.pixel_of(i), x[i]);
    } else {
#pragma unroll
      for (int r = 0; r < P::WIDTH; r++) x[i][r] = 0;
    }
  }
  if constexpr (PHASE == WHOLE && P::BLOCKS > 1) {
#ifdef CLUSTERS
    DYNAMIC_SHARED;
    block_moments<P>(span, x, shared);
    cluster_sync();
    combine_moments<P>([&](int rank, int i) { return peer_float(shared + i, rank); }, mean, inverse);
#endif
  } else if constexpr (PHASE == WHOLE) {
    __shared__ float own[2 * S::GROUPS];
    block_moments<P>(span, x, own);
    __syncthreads();
    combine_moments<P>([&](int, int i) { return own[i]; }, mean, inverse);
  } else {
    float* moments = workspace + (int64_t)blockIdx.x * P::BLOCKS * 2 * S::GROUPS;
    if constexpr (PHASE == MOMENTS) {
      block_moments<P>(span, x, moments + span.rank * 2 * S::GROUPS);
      return;
    }
    combine_moments<P>([&](int rank, int i) { return moments[rank * 2 * S::GROUPS + i]; }, mean, inverse);
  }
#pragma unroll
  for (int i = 0; i < S::ITEMS; i++)
    if (span.has(i)) {
      const int channel = span.channel_of(i);
#pragma unroll
      for (int r = 0; r < P::WIDTH; r++) {
        const int g = span.group_of(r);
        x[i][r] = (x[i][r] - mean[g]) * (inverse[g] * scale(P::BLOCKED ? channel + r : channel));
      }
      store(span.outer, channel, span.pixel_of(i), x[i]);
    }
#ifdef CLUSTERS
  if constexpr (PHASE == WHOLE && P::BLOCKS > 1) cluster_sync_relaxed();
#endif
}
