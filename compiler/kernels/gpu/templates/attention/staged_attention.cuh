// Fused attention for many rows of the same keys: a block copies K and V to shared memory in rounds of
// KEYS keys for each of WARPS warps, AHEAD rounds before they are used. The warps of each of its BANDS
// bands process all keys for the same 16 * TILES rows (FlashAttention-2, Dao 2023, algorithm 1), KEYS of
// every round each, and merge their partial results in the end.
//
// A line of shared memory is a key's depth or width in chunks of eight two-byte elements, padded by one
// chunk against bank conflicts. Q stays in registers; so do the scores, which become the left operand of
// the second GEMM.

template <class P>
struct SharedTiles {
  static constexpr int DEPTHS = (P::DEPTH + 15) / 16, WIDTHS = (P::WIDTH + 15) / 16;
  static constexpr int ROWS = 16 * P::TILES, THREADS = 32 * P::BANDS * P::WARPS, ROUND = P::KEYS * P::WARPS;
  static constexpr int K_LINE = DEPTHS * 2 + 1, V_LINE = WIDTHS * 2 + 1;  // chunks
  static constexpr int WHOLE = P::COLUMNS / ROUND, LAST = P::COLUMNS % ROUND;  // whole rounds, and the keys after them
  static constexpr int ROUNDS = WHOLE + (LAST > 0);
  static constexpr bool ALL = ROUNDS <= P::AHEAD;  // shared memory has room for all keys; else for AHEAD + 1 rounds
  static constexpr int KEPT = ALL ? (P::COLUMNS + 15) / 16 * 16 : (P::AHEAD + 1) * ROUND;
  static constexpr int PARTIAL = P::TILES * (WIDTHS * 8 + 4);  // floats per lane of a partial result

  // The first line of a round.
  static __device__ __forceinline__ int place(int round) { return (ALL ? round : round % (P::AHEAD + 1)) * ROUND; }
};

// A number of keys as a type.
template <int COUNT>
struct Count {
  static constexpr int KEYS = COUNT;
};

// The numbers that are added to the dot products of a warp's rows and COUNT keys.
template <class P, int COUNT>
struct Shifts {
  static constexpr int PIECES = P::SHIFTED ? (COUNT + 15) / 16 * 2 : 1;
  float at[P::TILES][PIECES][4];

  // Loads them. That need not wait for the copies of the keys.
  template <class Score>
  __device__ __forceinline__ void load(const Score& score, int z, int row, int first) {
    const int quad = threadIdx.x % 4, line = threadIdx.x % 32 / 4;
#pragma unroll
    for (int m = 0; P::SHIFTED && m < P::TILES; m++)
#pragma unroll
      for (int i = 0; i < PIECES * 4; i++) {
        const int own = row + m * 16 + i / 2 % 2 * 8 + line, column = i / 4 * 8 + quad * 2 + i % 2;
        const bool exists = own < P::ROWS && (COUNT % 16 == 0 || column < COUNT);
        at[m][i / 4][i % 4] = exists ? score(z, own, first + column, 0.0f) : 0.0f;
      }
  }
};

// A pass as a type.
template <int KIND>
struct As {
  static constexpr int PASS = KIND;
};

// Copies a round of COUNT keys of K or V, and zeros up to a multiple of 16, and for keys that are not
// to be kept: each thread one chunk of every PASS-th key. WIDE if chunks are contiguous in memory.
template <class P, int COUNT, int LINE, int LENGTH, int64_t NEXT, int64_t STEP, bool WIDE, bool MASKED>
__device__ __forceinline__ void copy_keys(int4* to, const uint16_t* from, int round, bool aligned, const bool* keep) {
  using S = SharedTiles<P>;
  constexpr int CHUNKS = LINE - 1, PASS = S::THREADS / CHUNKS, LINES = (COUNT + 15) / 16 * 16;
  const int key = threadIdx.x / CHUNKS, chunk = threadIdx.x % CHUNKS;
  from += (round * S::ROUND + key) * NEXT + chunk * 8 * STEP, to += (S::place(round) + key) * LINE + chunk;
  if (MASKED) keep += round * S::ROUND + key;
  if (S::THREADS % CHUNKS != 0 && key >= PASS) return;
  if (WIDE && aligned) {
#pragma unroll
    for (int i = 0; i < LINES; i += PASS)
      if (i + PASS <= LINES || key + i < LINES)
        copy_chunk<false>(to + i * LINE, from + i * NEXT, (i + PASS <= COUNT || key + i < COUNT) && (!MASKED || keep[i]) && chunk * 8 < LENGTH);
  } else {
#pragma unroll 1
    for (int i = 0; key + i < LINES; i += PASS)
#pragma unroll 1
      for (int j = 0; j < 8; j++)
        copy_element((uint16_t*)(to + i * LINE) + j, from + i * NEXT + j * STEP, key + i < COUNT && (!MASKED || keep[i]) && chunk * 8 + j < LENGTH);
  }
}

template <class P, int COUNT>
__device__ __forceinline__ void copy_round(int4* keys, int4* values, const void* k, const void* v, int round, bool aligned, const bool* keep) {
  using S = SharedTiles<P>;
  const auto *from_k = (const uint16_t*)k, *from_v = (const uint16_t*)v;
  copy_keys<P, COUNT, S::K_LINE, P::DEPTH, P::K_COLUMN, P::K_ROW, P::K_VECTOR8, false>(keys, from_k, round, aligned, keep);
  copy_keys<P, COUNT, S::V_LINE, P::WIDTH, P::V_ROW, P::V_COLUMN, P::V_VECTOR8, P::MASKED>(values, from_v, round, aligned, keep);
}

// The factor from a score to its base-2 exponent. Scores as large as those masked by -1e9, whose exponent
// would be rounded by 4 or more, are equal or far apart, so a factor does that rounds nothing.
template <class P>
__device__ __forceinline__ float log2_scale(float score) {
  return fabsf(score * P::LOG2_SCALE) < 0x1p26f ? P::LOG2_SCALE : 0.5f;
}

// The score that a row's weights are relative to: its maximum, 0 where all are masked.
__device__ __forceinline__ float reference_of(float row_max) { return row_max == -CUDART_INF_F ? 0.0f : row_max; }

// A weight of 1 relative to one maximum, relative to another that is not less.
template <class P>
__device__ __forceinline__ float rescaling(float before, float after) {
  return power_of_two((before - reference_of(after)) * P::LOG2_SCALE);
}

// A warp's online softmax; `row_max` and `row_sum` are those of rows lane / 4 (+ 8), the sum only over
// this lane's columns. Q and K have elements E.
template <class P, class E>
struct Band {
  using S = SharedTiles<P>;
  uint32_t query[P::TILES][S::DEPTHS][4];
  float values[P::TILES][S::WIDTHS * 2][4], row_max[P::TILES][2], row_sum[P::TILES][2];
  float row_factor[P::TILES][2];

  // Loads rows of Q, and begins.
  __device__ __forceinline__ void load(const uint16_t* q, int first, bool aligned) {
    const int quad = threadIdx.x % 4, line = threadIdx.x % 32 / 4;
#pragma unroll
    for (int m = 0; m < P::TILES; m++) {
#pragma unroll
      for (int s = 0; s < S::DEPTHS * 4; s++) {
        const int row = first + m * 16 + s % 2 * 8 + line, depth = s / 2 * 8 + quad * 2;
        const uint16_t* from = q + row * P::Q_ROW + depth * P::Q_COLUMN;
        uint32_t& to = query[m][s / 4][s % 4];
        if (P::Q_VECTOR8 && aligned) {
          to = row < P::ROWS && depth < P::DEPTH ? *(const uint32_t*)from : 0;
        } else {
          const uint32_t low = row < P::ROWS && depth < P::DEPTH ? from[0] : 0;
          to = low | (row < P::ROWS && depth + 1 < P::DEPTH ? (uint32_t)from[P::Q_COLUMN] << 16 : 0);
        }
      }
#pragma unroll
      for (int i = 0; i < 2; i++) {
        float sum = 0;
#pragma unroll
        for (int s = 0; s < S::DEPTHS * 2; s++) sum += squares<E>(query[m][s / 2][s % 2 * 2 + i]);
        row_factor[m][i] = inverse_norm<P::Q_NORM>(sum, P::Q_FLOOR);
        row_max[m][i] = -CUDART_INF_F, row_sum[m][i] = 0;
      }
#pragma unroll
      for (int i = 0; i < S::WIDTHS * 8; i++) values[m][i / 4][i % 4] = 0;
    }
  }

  // Processes COUNT keys from key `first` on; lines of zeros follow up to a multiple of 16.
  template <int COUNT, int PASS, class Score>
  __device__ __forceinline__ void process_keys(const int4* k, const int4* v, int z, int row, int first, const Score& score,
                                               const Shifts<P, COUNT>& shifts) {
    constexpr int STEPS = (COUNT + 15) / 16;
    const int lane = threadIdx.x % 32;
    float scores[P::TILES][STEPS * 2][4] = {}, key_squares[STEPS * 2] = {};
    k += (lane % 8 + lane / 16 * 8) * S::K_LINE + lane / 8 % 2;
#pragma unroll
    for (int s = 0; s < S::DEPTHS; s++)
#pragma unroll
      for (int j = 0; j < STEPS; j++) {
        uint32_t right[4];
        ldmatrix_x4(right, k + j * 16 * S::K_LINE + s * 2);
#pragma unroll
        for (int m = 0; m < P::TILES; m++)
#pragma unroll
          for (int i = 0; i < 2; i++)
            mma<P::PRECISION>(scores[m][j * 2 + i], query[m][s], {right[i * 2], right[i * 2 + 1]});
#pragma unroll
        for (int i = 0; i < 2; i++)
          if (P::K_NORM) key_squares[j * 2 + i] += squares<E>(right[i * 2]) + squares<E>(right[i * 2 + 1]);
      }
#pragma unroll
    for (int m = 0; m < P::TILES; m++)
      if (P::Q_NORM || P::K_NORM) divide_by_norms<P>(scores[m], row_factor[m], key_squares);
#pragma unroll
    for (int m = 0; m < P::TILES; m++) {
      const auto exists = [](int column) { return COUNT % 16 == 0 || column < COUNT; };
      if constexpr (P::SHIFTED)
        add_shifts(scores[m], shifts.at[m], exists);
      else
        apply_score(scores[m], z, row + m * 16, first, score, exists);
    }
    if (PASS != WEIGHTS) raise_maxima(scores, [&](const float(&scales)[P::TILES][2]) { rescale_values(scales); });
    exponentiate<PASS>(scores);
    if constexpr (PASS == SUMS) return;
    v += lane % 16 * S::V_LINE + lane / 16;
#pragma unroll
    for (int j = 0; j < STEPS; j++) {
      uint32_t weights[P::TILES][4];
#pragma unroll
      for (int i = 0; i < P::TILES * 4; i++) {
        const float* pair = scores[i / 4][j * 2 + i % 4 / 2] + i % 2 * 2;
        weights[i / 4][i % 4] = rounded_pair<P::PRECISION>(pair);
      }
#pragma unroll
      for (int t = 0; t < S::WIDTHS; t++) {
        uint32_t right[4];
        ldmatrix_x4_trans(right, v + j * 16 * S::V_LINE + t * 2);
#pragma unroll
        for (int m = 0; m < P::TILES; m++)
#pragma unroll
          for (int i = 0; i < 2; i++)
            mma<P::PRECISION>(values[m][t * 2 + i], weights[m], {right[i * 2], right[i * 2 + 1]});
      }
    }
  }

  // Turns dot products into the arguments of the softmax; keys that do not exist are masked.
  template <int PIECES, class Score, class Exists>
  __device__ __forceinline__ void apply_score(float (&scores)[PIECES][4], int z, int row, int first, const Score& score, const Exists& exists) {
    const int quad = threadIdx.x % 4, line = threadIdx.x % 32 / 4;
#pragma unroll
    for (int i = 0; i < PIECES * 4; i++) {
      const int own = row + i / 2 % 2 * 8 + line, column = i / 4 * 8 + quad * 2 + i % 2;
      float& x = scores[i / 4][i % 4];
      if (!exists(column))
        x = -CUDART_INF_F;
      else if constexpr (!P::SCALED)
        x = score(z, own < P::ROWS ? own : P::ROWS - 1, first + column, x * P::FACTOR);
    }
  }

  // As `apply_score`, where arguments are multiples of dot products with something added.
  template <int PIECES, class Exists>
  __device__ __forceinline__ void add_shifts(float (&scores)[PIECES][4], const float (&shifts)[PIECES][4], const Exists& exists) {
#pragma unroll
    for (int i = 0; i < PIECES * 4; i++) {
      float& x = scores[i / 4][i % 4];
      x = exists(i / 4 * 8 + threadIdx.x % 4 * 2 + i % 2) ? x * P::SHIFTED_SCALE + shifts[i / 4][i % 4] : -CUDART_INF_F;
    }
  }

  // Turns scores into weights: powers of two of their distance from the row's reference maximum. Where
  // those are rounded, `row_sum` is the inverse of the sum.
  template <int PASS, int PIECES>
  __device__ __forceinline__ void exponentiate(float (&scores)[P::TILES][PIECES][4]) {
#pragma unroll
    for (int m = 0; m < P::TILES * 2; m++) {
      const int i = m % 2;
      const float factor = log2_scale<P>(row_max[m / 2][i]), shift = reference_of(row_max[m / 2][i]) * factor;
#pragma unroll
      for (int j = 0; j < PIECES * 2; j++) {
        float& x = scores[m / 2][j / 2][i * 2 + j % 2];
        x = power_of_two(fmaf(x, factor, -shift));  // the emulator rounds once, too
        if constexpr (PASS == WEIGHTS)
          x = P::rounded(x * row_sum[m / 2][i]);
        else
          row_sum[m / 2][i] += x;
      }
    }
  }

  // Makes the row maximum the reference again and scales the sums, if that is far below it in any row of
  // the warp: weights and sums have room for a little more. `raised` gets the scales of the values.
  template <int PIECES, class Raised>
  __device__ __forceinline__ void raise_maxima(const float (&scores)[P::TILES][PIECES][4], const Raised& raised) {
    float most[P::TILES][2], scales[P::TILES][2];
    bool far = false;
#pragma unroll
    for (int m = 0; m < P::TILES * 2; m++) {
      const int i = m % 2;
      float own = row_max[m / 2][i];
#pragma unroll
      for (int j = 0; j < PIECES; j++) own = fmaxf(own, fmaxf(scores[m / 2][j][i * 2], scores[m / 2][j][i * 2 + 1]));
      most[m / 2][i] = quad_max(own), far |= (most[m / 2][i] - row_max[m / 2][i]) * P::LOG2_SCALE > 8;
    }
    if (!__any_sync(~0u, far)) return;
#pragma unroll
    for (int m = 0; m < P::TILES * 2; m++) {
      const int i = m % 2;
      const float before = row_max[m / 2][i], after = most[m / 2][i];
      const float scale = rescaling<P>(before, after);
      row_max[m / 2][i] = after, row_sum[m / 2][i] *= scale, scales[m / 2][i] = scale;
    }
    raised(scales);
  }

  __device__ __forceinline__ void rescale_values(const float (&scales)[P::TILES][2]) {
#pragma unroll
    for (int m = 0; m < P::TILES * 2; m++)
#pragma unroll
      for (int t = 0; t < S::WIDTHS * 4; t++) values[m / 2][t / 2][m % 2 * 2 + t % 2] *= scales[m / 2][m % 2];
  }

  // Makes the sums of rows the inverses of them.
  __device__ __forceinline__ void invert_sums() {
#pragma unroll
    for (int m = 0; m < P::TILES * 2; m++) row_sum[m / 2][m % 2] = 1 / quad_sum(row_sum[m / 2][m % 2]);
  }

  // Stores this warp's partial result for the first warp of the band.
  __device__ __forceinline__ void store_partial(float* to) const {
    to += threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < P::TILES * 2; m++) {
      *to = row_max[m / 2][m % 2], to[32] = row_sum[m / 2][m % 2], to += 64;
#pragma unroll
      for (int t = 0; t < S::WIDTHS * 4; t++) *to = values[m / 2][t / 2][m % 2 * 2 + t % 2], to += 32;
    }
  }

  // Adds the partial result of another warp of the band, both scaled to the larger maximum.
  __device__ __forceinline__ void merge_partial(const float* from) {
    from += threadIdx.x % 32;
#pragma unroll
    for (int m = 0; m < P::TILES * 2; m++) {
      const int i = m % 2;
      const float before = row_max[m / 2][i], other = *from, after = fmaxf(before, other);
      const float own = rescaling<P>(before, after), scale = rescaling<P>(other, after);
      row_max[m / 2][i] = after, row_sum[m / 2][i] = row_sum[m / 2][i] * own + from[32] * scale, from += 64;
#pragma unroll
      for (int t = 0; t < S::WIDTHS * 4; t++) {
        float& value = values[m / 2][t / 2][i * 2 + t % 2];
        value = value * own + *from * scale, from += 32;
      }
    }
  }

  // Stores the rows' results. Adjacent lanes swap halves, so that each has four contiguous columns.
  template <class O, class Fold>
  __device__ __forceinline__ void store(O* o, int first, const Fold& fold) const {
    const bool aligned = (uint64_t)o % (4 * sizeof(O)) == 0;
    const int lane = threadIdx.x % 32, quad = lane % 4, odd = lane % 2;
#pragma unroll
    for (int m = 0; m < P::TILES * 2; m++) {
      const int row = first + m * 8 + lane / 4, i = m % 2 * 2;
      const float inverse = P::ROUNDED ? P::V_FACTOR : P::V_FACTOR / quad_sum(row_sum[m / 2][m % 2]);
#pragma unroll
      for (int t = 0; t < S::WIDTHS; t++) {
        const float(&even)[4] = values[m / 2][t * 2], (&other)[4] = values[m / 2][t * 2 + 1];
        float four[4];
#pragma unroll
        for (int j = 0; j < 2; j++) {
          const float given = __shfl_sync(~0u, odd ? even[i + j] : other[i + j], lane ^ 1);
          four[j] = fold.finished((odd ? given : even[i + j]) * inverse);
          four[j + 2] = fold.finished((odd ? other[i + j] : given) * inverse);
        }
        store_result<P>(o, row, t * 16 + odd * 8 + quad / 2 * 4, four, fold, aligned);
      }
    }
  }
};

// Computes this block's bands of problem blockIdx.y. Rows of V that are not to be kept are taken as zeros.
template <class P, class T, class O, class Score, class Fold>
__device__ __forceinline__ void attend_staged(const T* q, const T* k, const T* v, O* o, const Score& score, const Fold& fold,
                                              const bool* keep = nullptr) {
  using S = SharedTiles<P>;
  DYNAMIC_SHARED;
  const int z = blockIdx.y, own = threadIdx.x / 32 / P::WARPS, part = threadIdx.x / 32 % P::WARPS * P::KEYS;
  const int first = (blockIdx.x * P::BANDS + own) * S::ROWS;
  q += P::q_offset(z), k += P::k_offset(z), v += P::v_offset(z);
  const bool aligned = ((uint64_t)q | (uint64_t)k | (uint64_t)v) % 16 == 0;
  int4 *const keys = (int4*)shared, *const values = keys + S::KEPT * S::K_LINE;
  const auto copy = [&](int round) {
    if (round < S::WHOLE) copy_round<P, S::ROUND>(keys, values, k, v, round, aligned, keep);
    if (S::LAST > 0 && round == S::WHOLE) copy_round<P, S::LAST>(keys, values, k, v, round, aligned, keep);
    cp_async_fence();
  };
#pragma unroll 1
  for (int round = 0; round < P::AHEAD; round++) copy(round);
  Band<P, T> band;
  band.load((const uint16_t*)q, first, aligned);
  const auto wait = [&](int round) {
    cp_async_wait<P::AHEAD - 1>();
    __syncthreads();
    if constexpr (S::ALL)
      cp_async_fence();
    else
      copy(round + P::AHEAD);
  };
  const auto process_keys = [&](int round, auto count, auto pass, auto&& before) {
    const int line = S::place(round) + part, key = round * S::ROUND + part;
    Shifts<P, decltype(count)::KEYS> shifts;
    if (first < P::ROWS) shifts.load(score, z, first, key);
    before();
    if (first < P::ROWS)
      band.template process_keys<decltype(count)::KEYS, decltype(pass)::PASS>(
          keys + line * S::K_LINE, values + line * S::V_LINE, z, first, key, score, shifts);
  };
  const auto nothing = [] {};
  const auto process_all = [&](auto pass) {
#pragma unroll 1
    for (int round = 0; round < S::WHOLE; round++)
      process_keys(round, Count<P::KEYS>(), pass, [&] {
        if (decltype(pass)::PASS != WEIGHTS) wait(round);
      });
    if constexpr (S::LAST > 0) {
      if (decltype(pass)::PASS != WEIGHTS) wait(S::WHOLE);
      if (part + P::KEYS <= S::LAST) {
        if constexpr (S::LAST >= P::KEYS) process_keys(S::WHOLE, Count<P::KEYS>(), pass, nothing);
      } else if (part < S::LAST) {
        if constexpr (S::LAST % P::KEYS > 0) process_keys(S::WHOLE, Count<S::LAST % P::KEYS>(), pass, nothing);
      }
    }
  };
  if constexpr (P::ROUNDED) {
    static_assert(S::ALL && P::WARPS == 1, "keys are read twice, and sums are a warp's own");
    process_all(As<SUMS>());
    band.invert_sums();
    process_all(As<WEIGHTS>());
  } else {
    process_all(As<ONLINE>());
  }
  if constexpr (P::WARPS > 1) {
    float* const partials = shared + (own * (P::WARPS - 1) - 1) * S::PARTIAL * 32;
    __syncthreads();
    if (part > 0) band.store_partial(partials + part / P::KEYS * S::PARTIAL * 32);
    __syncthreads();
    if (part > 0) return;
#pragma unroll 1
    for (int other = 1; other < P::WARPS; other++) band.merge_partial(partials + other * S::PARTIAL * 32);
  }
  if (first < P::ROWS) band.store(o + P::o_offset(z), first, fold);
}
