// Fused attention by WGMMA (FlashAttention-3, Shah 2024): a block has several warpgroups of 64 rows each,
// and a ring of STAGES tiles of KEYS keys in shared memory. Q stays in registers, so do scores, which
// become the left operand of the second GEMM. The scores of the next tile are multiplied while those of
// this one become weights, and these are multiplied with V while the next ones do.
//
// The SPLITS blocks of a cluster have the same rows and divide the keys. Each leaves its partial result in
// its shared memory, and merges those of its share of rows.
//
// A tile has panels of 64 columns of K, then of V: a line of 128 bytes for each key, with the swizzle of
// WGMMA.

template <class P>
struct KeyTiles {
  using S = SharedTiles<P>;
  static constexpr int PANEL = P::KEYS * 8, K_PANELS = (P::DEPTH + 63) / 64, V_PANELS = (P::WIDTH + 63) / 64;  // chunks
  static constexpr int TILE = (K_PANELS + V_PANELS) * PANEL, COUNT = (P::COLUMNS + P::KEYS - 1) / P::KEYS;
  static constexpr int AHEAD = P::STAGES - 3, STEPS = P::KEYS / 16, ROWS = 16 * P::BANDS;
  static constexpr int LINE = S::WIDTHS * 16 + 4;  // floats of a row of partial values
  static_assert(P::TILES == 1 && P::WARPS == 1 && P::BANDS % 4 == 0 && P::KEYS % 16 == 0 && P::STAGES >= 6 && P::SPLITS <= COUNT);
  static_assert(!P::ROUNDED && !P::Q_NORM && !P::K_NORM, "scores are not divided, keys are read once");
};

// Copies the keys of one tile of K or V, and zeros beyond the last key and the last column, and for keys
// that are not to be kept: each thread one chunk of every PASS-th key. WIDE if chunks are contiguous in memory.
template <class P, int CHUNKS, int LENGTH, int64_t NEXT, int64_t STEP, bool WIDE, bool MASKED>
__device__ __forceinline__ void copy_panels(int4* to, const uint16_t* from, int first, const bool* keep) {
  using T = KeyTiles<P>;
  constexpr int PASS = SharedTiles<P>::THREADS / CHUNKS / 8 * 8;
  const int key = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
  const int start = first + key;
  from += start * NEXT + chunk * 8 * STEP, to += chunk / 8 * T::PANEL + key * 8 + (chunk % 8 ^ key % 8);
  if (MASKED) keep += start;
  if (SharedTiles<P>::THREADS != PASS * CHUNKS && key >= PASS) return;
  const auto valid = [&](int i) { return (P::COLUMNS % P::KEYS == 0 || start + i < P::COLUMNS) && (!MASKED || keep[i]); };
  if constexpr (WIDE) {
#pragma unroll
    for (int i = 0; i < P::KEYS; i += PASS)
      if (i + PASS <= P::KEYS || key + i < P::KEYS) copy_chunk<false>(to + i * 8, from + i * NEXT, valid(i) && chunk * 8 < LENGTH);
  } else {
#pragma unroll 1
    for (int i = 0; key + i < P::KEYS; i += PASS)
#pragma unroll 1
      for (int j = 0; j < 8; j++)
        copy_element((uint16_t*)(to + i * 8) + j, from + i * NEXT + j * STEP, valid(i) && chunk * 8 + j < LENGTH);
  }
}

template <class P, bool ALIGNED>
__device__ __forceinline__ void copy_tile(int4* to, const void* k, const void* v, int tile, const bool* keep) {
  using S = SharedTiles<P>;
  const auto *from_k = (const uint16_t*)k, *from_v = (const uint16_t*)v;
  const int first = tile * P::KEYS;
  copy_panels<P, S::DEPTHS * 2, P::DEPTH, P::K_COLUMN, P::K_ROW, ALIGNED && P::K_VECTOR8, false>(to, from_k, first, keep);
  to += KeyTiles<P>::K_PANELS * KeyTiles<P>::PANEL;
  copy_panels<P, S::WIDTHS * 2, P::WIDTH, P::V_ROW, P::V_COLUMN, ALIGNED && P::V_VECTOR8, P::MASKED>(to, from_v, first, keep);
}

// The warpgroups of a block, of which one may be a tile ahead of others: each announces a tile when it has
// copied its part of it, and by that also that it has read those before the one that it multiplies.
template <class P>
struct Warpgroups {
  static constexpr int THREADS = SharedTiles<P>::THREADS, COUNT = THREADS / 128;
  static __device__ __forceinline__ int barrier(int group, int tile) { return 1 + group * 2 + tile % 2; }

  // Waits until all others have announced a tile.
  __device__ __forceinline__ void await(int tile) const { barrier_wait(barrier(threadIdx.x / 128, tile), THREADS); }

  __device__ __forceinline__ void announce(int tile) const {
#pragma unroll
    for (int other = 1; other < COUNT; other++) barrier_arrive(barrier((threadIdx.x / 128 + other) % COUNT, tile), THREADS);
  }
};

// The part of a warp in the GEMMs of its warpgroup.
template <class P, class E>
struct WgmmaBand : Band<P, E> {
  using T = KeyTiles<P>;
  using S = SharedTiles<P>;
  using Scores = float[1][T::STEPS * 2][4];
  uint32_t weights[T::STEPS][4];

  // Starts the dot products of this band's rows with the keys of a tile.
  __device__ __forceinline__ void multiply_keys(Scores& scores, const int4* tile) {
#pragma unroll
    for (int s = 0; s < S::DEPTHS; s++) {
      const uint64_t keys = swizzled_descriptor(tile + s / 4 * T::PANEL) + s % 4 * 2;
      if (s == 0)
        wgmma<false, false>(scores[0], this->query[0][s], keys, Kind<P::PRECISION>());
      else
        wgmma<false, true>(scores[0], this->query[0][s], keys, Kind<P::PRECISION>());
    }
  }

  // Starts adding the weighted values of a tile.
  __device__ __forceinline__ void multiply_values(const int4* tile) {
    const uint64_t values = transposed_descriptor(tile + T::K_PANELS * T::PANEL, T::PANEL);
#pragma unroll
    for (int s = 0; s < T::STEPS; s++) wgmma<true, true>(this->values[0], weights[s], values + s * 128, Kind<P::PRECISION>());
  }

  __device__ __forceinline__ void pack_weights(const Scores& scores) {
#pragma unroll
    for (int i = 0; i < T::STEPS * 4; i++)
      weights[i / 4][i % 4] = rounded_pair<P::PRECISION>(scores[0][i / 4 * 2 + i % 4 / 2] + i % 2 * 2);
    hold(weights);
  }

  // Stores this warp's partial result in its rows: the values, then each row's maximum and sum.
  __device__ __forceinline__ void store_rows(float* to, float* rows) const {
    const int lane = threadIdx.x % 32, first = threadIdx.x / 32 * 16 + lane / 4;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const int row = first + i * 8;
      const float sum = quad_sum(this->row_sum[0][i]);
      if (lane % 4 == 0) rows[row * 2] = this->row_max[0][i], rows[row * 2 + 1] = sum;
#pragma unroll
      for (int t = 0; t < S::WIDTHS * 2; t++)
        *(float2*)(to + row * T::LINE + t * 8 + lane % 4 * 2) = float2{this->values[0][t][i * 2], this->values[0][t][i * 2 + 1]};
    }
  }
};

// Computes the attention of a band's rows and the keys of split blockIdx.z.
template <class P, bool ALIGNED, class E, class Score>
__device__ __forceinline__ void process_tiles(WgmmaBand<P, E>& band, int4* ring, const E* q, const E* k, const E* v, int first,
                                              const Score& score, const bool* keep) {
  using T = KeyTiles<P>;
  using Scores = typename WgmmaBand<P, E>::Scores;
  const int begin = T::COUNT * (int)blockIdx.z / P::SPLITS, count = T::COUNT * ((int)blockIdx.z + 1) / P::SPLITS - begin;
  const auto place = [&](int i) { return ring + i % P::STAGES * T::TILE; };
  const auto copy = [&](int i) {
    if (i < count) copy_tile<P, ALIGNED>(place(i), k, v, begin + i, keep);
    cp_async_fence();
  };
#pragma unroll 1
  for (int i = 0; i < T::AHEAD; i++) copy(i);
  band.load((const uint16_t*)q, first, ALIGNED);
  hold(band.query[0]);
  const auto finish_scores = [&](Scores& scores, int i) {
    hold(scores[0]);
    const int key = (begin + i) * P::KEYS;
    const auto exists = [&](int column) { return P::COLUMNS % P::KEYS == 0 || key + column < P::COLUMNS; };
    if (!P::SCALED || (P::COLUMNS % P::KEYS != 0 && begin + i == T::COUNT - 1)) band.apply_score(scores[0], blockIdx.y, first, key, score, exists);
  };
  const Warpgroups<P> groups;
  // Turns `now`, the scores of tile i, into weights, while the scores of the next tile are multiplied if
  // there are more, and the weights of the tile before unless this one starts. The flags are constants
  // once this is inlined: NVRTC 13.0 refuses a lambda of types here.
  const auto step = [&](Scores& now, Scores& next, int i, bool starts, bool more) {
    if (more && !starts) groups.await(i + 1);
    wgmma_fence();
    if (more) band.multiply_keys(next, place(i + 1));
    if (!starts) band.multiply_values(place(i - 1));
    wgmma_commit();
    if (i + 2 < count) {
      cp_async_wait<T::AHEAD - 3>();
      fence_async_proxy();
      groups.announce(i + 2);
    }
    if (more) copy(i + T::AHEAD);
    float scales[1][2];
    bool raised = false;
    band.raise_maxima(now, [&](const float(&own)[1][2]) { raised = true, scales[0][0] = own[0][0], scales[0][1] = own[0][1]; });
    band.template exponentiate<ONLINE>(now);
    compute_now(band.row_sum[0][0] + band.row_sum[0][1]);
    wgmma_wait<0>();
    hold(band.values[0]), hold(band.weights);
    if (raised) band.rescale_values(scales);
    hold(band.values[0]);
    band.pack_weights(now);
    if (more) finish_scores(next, i + 1);
  };
  Scores even, odd;
  cp_async_wait<T::AHEAD - 2>();
  fence_async_proxy();
  __syncthreads();
  wgmma_fence();
  band.multiply_keys(even, place(0));
  wgmma_commit();
  wgmma_wait<0>();
  finish_scores(even, 0);
  if (count == 1) {
    step(even, odd, 0, true, false);
  } else {
    int i = 1;
    step(even, odd, 0, true, true);
#pragma unroll 1
    for (; i + 2 < count; i += 2) step(odd, even, i, false, true), step(even, odd, i + 1, false, true);
    if (i + 2 == count)
      step(odd, even, i, false, true), step(even, odd, i + 1, false, false);
    else
      step(odd, even, i, false, false);
  }
  wgmma_fence();
  band.multiply_values(place(count - 1));
  wgmma_commit();
  wgmma_wait<0>();
  hold(band.values[0]);
}

// Computes this block's rows of problem blockIdx.y, with the keys of split blockIdx.z. Rows of V that are
// not to be kept are taken as zeros.
template <class P, class E, class O, class Score, class Fold>
__device__ __forceinline__ void attend_by_wgmma(const E* q, const E* k, const E* v, O* o, const Score& score, const Fold& fold,
                                                const bool* keep = nullptr) {
  using T = KeyTiles<P>;
  float* const shared = swizzled_shared();
  const int z = blockIdx.y, first = blockIdx.x * T::ROWS + threadIdx.x / 32 * 16;
  q += P::q_offset(z), k += P::k_offset(z), v += P::v_offset(z), o += P::o_offset(z);
  WgmmaBand<P, E> band;
  if (((uint64_t)q | (uint64_t)k | (uint64_t)v) % 16 == 0)
    process_tiles<P, true>(band, (int4*)shared, q, k, v, first, score, keep);
  else
    process_tiles<P, false>(band, (int4*)shared, q, k, v, first, score, keep);
  if constexpr (P::SPLITS == 1) {
    if (first < P::ROWS) band.store(o, first, fold);
  } else {
    float *const values = shared, *const rows = values + T::ROWS * T::LINE;
    __syncthreads();
    band.store_rows(values, rows);
    cluster_sync();
    const auto rescaled = [](float before, float after) { return rescaling<P>(before, after); };
    merge_rows<P, T::ROWS, T::LINE, SharedTiles<P>::WIDTHS * 4, SharedTiles<P>::THREADS>(o, values, rows, fold, rescaled);
    cluster_sync_relaxed();
  }
}
