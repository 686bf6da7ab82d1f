// Fused attention: softmax(scores(Q K^T)) V for every problem of a batch (FlashAttention-2, Dao 2023,
// algorithm 1, with the keys of a row divided among warps).
//
// A block has BANDS bands of 16 * TILES rows of Q. Each band has WARPS warps, which take every WARPS-th
// tile of 16 keys. Each warp keeps the online softmax of its keys: the row maximum, the row sum and the
// weighted values; shared memory is used once, to merge the warps' partial results. K and V are loaded
// from global memory into MMA fragments: only one warp of a band reads each, and where there are many
// rows the other bands of a block find it in L1.
//
// Lane `lane` holds rows lane / 4 (+ 8) and columns lane % 4 * 2 (+ 1) of a 16 x 8 MMA tile. As k may
// have any order, the four k of a lane are contiguous in memory: element i of depth
// 16 * s + lane % 4 * 4 + i, and result column 32 * t + lane / 4 * 4 + i of V.
//
// `P` holds the constants of one problem; see emit.py. `score(z, row, column, dot)` gives the argument
// of the softmax for a dot product, `fold.finished` what is stored of a result; `fold(results, valid)` is given the first
// `valid` of four results that a thread stores.
//
// The SPLITS blocks of a cluster have the same rows and divide the keys, as warps do.
//
// Where weights are ROUNDED, `P::rounded` takes them divided by the sum of their row: the keys are
// processed twice, first for the maxima and sums alone, or AT_ONCE where warps have 16 each and keep
// the scores.

enum Pass { ONLINE, SUMS, WEIGHTS, AT_ONCE };

template <class P>
struct WarpTiles {
  static constexpr int DEPTHS = (P::DEPTH + 15) / 16, WIDTHS = (P::WIDTH + 31) / 32;
  static constexpr int CHUNKS = (P::COLUMNS + 15) / 16, ROWS = 16 * P::TILES, LINE = WIDTHS * 32 + 4;
  static constexpr float LOG2E = 1.44269504f;
  static constexpr bool HELD = DEPTHS * (P::PAIRS ? 8 : 16) <= 128;  // registers have room for rows of Q and of K
};

// Loads four elements as floats, zeros from the `valid`-th on. WIDE if they are one aligned vector.
template <bool WIDE, class T>
__device__ __forceinline__ void load_four(float (&to)[4], const T* from, int64_t stride, int valid) {
  if constexpr (WIDE) {
    struct __align__(sizeof(T) * 4) Four { T at[4]; };
    if (valid > 0) {
      const Four four = *(const Four*)from;
#pragma unroll
      for (int i = 0; i < 4; i++) to[i] = (float)four.at[i];
    } else {
#pragma unroll
      for (int i = 0; i < 4; i++) to[i] = 0;
    }
  } else {
#pragma unroll
    for (int i = 0; i < 4; i++) to[i] = i < valid ? (float)from[i * stride] : 0.0f;
  }
}

// Stores words by one instruction: the compiler would split the assignment of a vector.
__device__ __forceinline__ void store_words(void* to, const uint32_t (&words)[1]) { *(uint32_t*)to = words[0]; }
__device__ __forceinline__ void store_words(void* to, const uint32_t (&words)[2]) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v2.b32 [%0], {%1, %2};" ::"l"(to), "r"(words[0]), "r"(words[1]) : "memory");
#else
  *(uint2*)to = uint2{words[0], words[1]};
#endif
}
__device__ __forceinline__ void store_words(void* to, const uint32_t (&words)[4]) {
#ifdef __CUDA_ARCH__
  asm volatile("st.global.v4.b32 [%0], {%1, %2, %3, %4};"
               ::"l"(to), "r"(words[0]), "r"(words[1]), "r"(words[2]), "r"(words[3])
               : "memory");
#else
  *(uint4*)to = uint4{words[0], words[1], words[2], words[3]};
#endif
}

template <bool WIDE, class T>
__device__ __forceinline__ void store_four(T* to, int64_t stride, const float (&from)[4], int valid) {
  if constexpr (WIDE) {
    T four[4];
#pragma unroll
    for (int i = 0; i < 4; i++) four[i] = (T)from[i];
    uint32_t words[sizeof(T)];  // four elements
    memcpy(words, four, sizeof words);
    if (valid > 0) store_words(to, words);
  } else {
#pragma unroll
    for (int i = 0; i < 4; i++)
      if (i < valid) to[i * stride] = (T)from[i];
  }
}

// Folds four elements of a row of the result, from a column on, and stores those that are in the tensor.
template <class P, class O, class Fold>
__device__ __forceinline__ void store_result(O* o, int row, int column, float (&four)[4], const Fold& fold,
                                             bool aligned) {
  const int valid = row < P::ROWS ? P::WIDTH - column : 0;
  fold(four, valid);
  O* to = o + row * P::O_ROW + column * P::O_COLUMN;
  if (aligned)
    store_four<P::O_VECTOR4>(to, P::O_COLUMN, four, valid);
  else
    store_four<false>(to, P::O_COLUMN, four, valid);
}

// Four elements of a fragment: two registers of two, if they have the type of the MMA, else floats.
struct Pairs {
  uint32_t at[2];
};
struct Floats {
  float at[4];
};
template <bool PAIRS>
struct Fours {
  using Type = Floats;
};
template <>
struct Fours<true> {
  using Type = Pairs;
};

template <bool WIDE, class T>
__device__ __forceinline__ void load_four(Floats& to, const T* from, int64_t stride, int valid) {
  load_four<WIDE>(to.at, from, stride, valid);
}
template <bool WIDE, class T>
__device__ __forceinline__ void load_four(Pairs& to, const T* from, int64_t stride, int valid) {
  if constexpr (WIDE) {
    const uint2 pairs = valid > 0 ? *(const uint2*)from : uint2{0, 0};
    to.at[0] = pairs.x, to.at[1] = pairs.y;
  } else {
    const uint16_t* bits = (const uint16_t*)from;
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const uint32_t low = i * 2 < valid ? bits[i * 2 * stride] : 0, high = i * 2 + 1 < valid ? bits[(i * 2 + 1) * stride] : 0;
      to.at[i] = low | high << 16;
    }
  }
}

// Zeros instead of what is not kept: it is loaded all the same, so that no load waits for another.
__device__ __forceinline__ void keep_if(Floats& four, bool kept) {
#pragma unroll
  for (int i = 0; i < 4; i++) four.at[i] = kept ? four.at[i] : 0.0f;
}
__device__ __forceinline__ void keep_if(Pairs& four, bool kept) {
#pragma unroll
  for (int i = 0; i < 2; i++) four.at[i] = kept ? four.at[i] : 0u;
}

// Element `j` of each of four fours.
__device__ __forceinline__ Floats column_of(const Floats& a, const Floats& b, const Floats& c, const Floats& d, int j) {
  return Floats{{a.at[j], b.at[j], c.at[j], d.at[j]}};
}
__device__ __forceinline__ uint32_t pack_lanes(uint32_t low, uint32_t high, bool upper) {
  return upper ? low >> 16 | (high & 0xffff0000u) : (low & 0xffffu) | high << 16;
}
__device__ __forceinline__ Pairs column_of(const Pairs& a, const Pairs& b, const Pairs& c, const Pairs& d, int j) {
  const int i = j / 2;
  return Pairs{{pack_lanes(a.at[i], b.at[i], j % 2), pack_lanes(c.at[i], d.at[i], j % 2)}};
}

// A float as the sum of two TF32 numbers.
__device__ __forceinline__ float tf32_high(float x) { return __uint_as_float(__float_as_uint(x) & 0xffffe000u); }
__device__ __forceinline__ float tf32_low(float x) { return tf32_high(x) == x ? 0.0f : x - tf32_high(x); }

template <int PRECISION>
__device__ __forceinline__ uint32_t rounded_pair(const float* pair) {
  return round_pair<PRECISION>(__float_as_uint(pair[0]), __float_as_uint(pair[1]));
}

// c += left * right with a k of 16; `upper` and `lower` are a lane's rows of `left`. In FP32 both
// operands are sums of two TF32 numbers, and the smallest of the four terms is left out.
template <int PRECISION>
__device__ __forceinline__ void mma_k16(float (&c)[4], const float (&upper)[4], const float (&lower)[4],
                                                 const float (&right)[4]) {
  if constexpr (PRECISION == FP16 || PRECISION == BF16) {
    uint32_t a[4], b[2];
#pragma unroll
    for (int s = 0; s < 2; s++) {
      a[s * 2] = rounded_pair<PRECISION>(upper + s * 2);
      a[s * 2 + 1] = rounded_pair<PRECISION>(lower + s * 2);
      b[s] = rounded_pair<PRECISION>(right + s * 2);
    }
    mma<PRECISION>(c, a, b);
  } else {
#pragma unroll
    for (int s = 0; s < 4; s += 2) {
      const float left[4] = {upper[s], lower[s], upper[s + 1], lower[s + 1]};
      uint32_t a[4], b[2];
      if constexpr (PRECISION == FP32) {
        uint32_t rest[4], other[2];
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] = __float_as_uint(tf32_high(left[i])), rest[i] = __float_as_uint(tf32_low(left[i]));
#pragma unroll
        for (int i = 0; i < 2; i++)
          b[i] = __float_as_uint(tf32_high(right[s + i])), other[i] = __float_as_uint(tf32_low(right[s + i]));
        mma<TF32>(c, rest, b);
        mma<TF32>(c, a, other);
      } else {
#pragma unroll
        for (int i = 0; i < 4; i++) a[i] = round_tf32(__float_as_uint(left[i]));
#pragma unroll
        for (int i = 0; i < 2; i++) b[i] = round_tf32(__float_as_uint(right[s + i]));
      }
      mma<TF32>(c, a, b);
    }
  }
}

template <int PRECISION>
__device__ __forceinline__ void mma_k16(float (&c)[4], const Floats& upper, const Floats& lower, const Floats& right) {
  mma_k16<PRECISION>(c, upper.at, lower.at, right.at);
}
template <int PRECISION>
__device__ __forceinline__ void mma_k16(float (&c)[4], const Pairs& upper, const Pairs& lower, const Pairs& right) {
  const uint32_t a[4] = {upper.at[0], lower.at[0], upper.at[1], lower.at[1]};
  mma<PRECISION>(c, a, right.at);
}

// Softmax weights as a fragment of the left operand.
template <int PRECISION>
__device__ __forceinline__ void to_fragment(Floats& to, float a, float b, float c, float d) {
  to = Floats{{a, b, c, d}};
}
template <int PRECISION>
__device__ __forceinline__ void to_fragment(Pairs& to, float a, float b, float c, float d) {
  const float first[2] = {a, b}, second[2] = {c, d};
  to = Pairs{{rounded_pair<PRECISION>(first), rounded_pair<PRECISION>(second)}};
}

// The maximum and the sum over the four lanes that share a row.
__device__ __forceinline__ float quad_max(float x) {
  x = fmaxf(x, __shfl_sync(~0u, x, (threadIdx.x % 32) ^ 1));
  return fmaxf(x, __shfl_sync(~0u, x, (threadIdx.x % 32) ^ 2));
}
__device__ __forceinline__ float quad_sum(float x) {
  x += __shfl_sync(~0u, x, (threadIdx.x % 32) ^ 1);
  return x + __shfl_sync(~0u, x, (threadIdx.x % 32) ^ 2);
}

// The sum of the squares of a pair of elements, or of four.
template <class E>
__device__ __forceinline__ float squares(uint32_t pair) {
  E both[2];
  memcpy(both, &pair, sizeof pair);
  const float low = both[0], high = both[1];
  return low * low + high * high;
}
template <class E>
__device__ __forceinline__ float squares(const Pairs& four) {
  return squares<E>(four.at[0]) + squares<E>(four.at[1]);
}
template <class E>
__device__ __forceinline__ float squares(const Floats& four) {
  return four.at[0] * four.at[0] + four.at[1] * four.at[1] + four.at[2] * four.at[2] + four.at[3] * four.at[3];
}

// One over the norm of a vector, or over the floor if that is more; 1 where there is no NORM. The four
// lanes of a quad give the squares of their elements.
template <bool NORM>
__device__ __forceinline__ float inverse_norm(float squares, float floor) {
  return NORM ? 1 / fmaxf(sqrtf(quad_sum(squares)), floor) : 1.0f;
}

// Divides the dot products of 8 * PIECES keys by the norms of their vectors: those of a lane's rows are
// given as factors, of keys the squares that lanes have of key lane / 4 of each piece.
template <class P, int PIECES>
__device__ __forceinline__ void divide_by_norms(float (&scores)[PIECES][4], const float (&rows)[2], const float (&key_squares)[PIECES]) {
  const int quad = threadIdx.x % 4;
#pragma unroll
  for (int j = 0; j < PIECES; j++) {
    const float norm = inverse_norm<P::K_NORM>(key_squares[j], P::K_FLOOR);
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float factor = P::K_NORM ? __shfl_sync(~0u, norm, (quad * 2 + i) * 4) : 1.0f;
      scores[j][i] *= rows[0] * factor, scores[j][i + 2] *= rows[1] * factor;
    }
  }
}

// exp(x - row_max); 0 for a masked score, even where all are masked.
__device__ __forceinline__ float weight(float x, float row_max) {
  return exp2f((x - (row_max == -CUDART_INF_F ? 0.0f : row_max)) * 1.44269504f);
}

// A warp's online softmax; `row_max` and `row_sum` are those of rows lane / 4 (+ 8).
template <class P>
struct OnlineSoftmax {
  using T = WarpTiles<P>;
  float values[P::TILES][T::WIDTHS][4][4], row_max[P::TILES][2], row_sum[P::TILES][2];

  __device__ __forceinline__ OnlineSoftmax() {
#pragma unroll
    for (int m = 0; m < P::TILES; m++) {
#pragma unroll
      for (int i = 0; i < 2; i++) row_max[m][i] = -CUDART_INF_F, row_sum[m][i] = 0;
#pragma unroll
      for (int i = 0; i < T::WIDTHS * 16; i++) values[m][i / 16][i / 4 % 4][i % 4] = 0;
    }
  }

  // Turns 16 scores of a tile's rows into weights, and rescales the state to the new maximum.
  template <int PASS>
  __device__ __forceinline__ void update(float (&scores)[2][4], int m) {
#pragma unroll
    for (int i = 0; i < 2; i++) {
      const float own = fmaxf(fmaxf(scores[0][i * 2], scores[0][i * 2 + 1]), fmaxf(scores[1][i * 2], scores[1][i * 2 + 1]));
      const float most = fmaxf(row_max[m][i], quad_max(own)), scale = weight(row_max[m][i], most);
      row_max[m][i] = most, row_sum[m][i] *= scale;
#pragma unroll
      for (int s = 0; s < 4; s++) {
        float& score = scores[s / 2][i * 2 + s % 2];
        score = weight(score, most), row_sum[m][i] += score;
      }
      if (PASS == SUMS) continue;
#pragma unroll
      for (int t = 0; t < T::WIDTHS * 8; t++) values[m][t / 8][t / 2 % 4][i * 2 + t % 2] *= scale;
    }
  }

  // Adds the weights of 16 scores to the sums of a tile's rows, and keeps the scores.
  __device__ __forceinline__ void add_weights(const float (&scores)[2][4], int m) {
    float weights[2][4];
#pragma unroll
    for (int i = 0; i < 8; i++) weights[i / 4][i % 4] = scores[i / 4][i % 4];
    update<SUMS>(weights, m);
  }

  // Turns 16 scores into rounded weights: `row_max` is final, `row_sum` the inverse of the sum.
  __device__ __forceinline__ void round(float (&scores)[2][4], int m) {
#pragma unroll
    for (int i = 0; i < 8; i++) {
      float& score = scores[i / 4][i % 4];
      score = P::rounded(weight(score, row_max[m][i / 2 % 2]) * row_sum[m][i / 2 % 2]);
    }
  }
};

// Makes the maxima those of all warps of a band, and the sums the inverses of theirs together.
template <class P>
__device__ __forceinline__ void share_sums(OnlineSoftmax<P>& state, float* rows) {
  using T = WarpTiles<P>;
  const int warp = threadIdx.x / 32, quad = threadIdx.x % 4, line = threadIdx.x % 32 / 4;
#pragma unroll
  for (int m = 0; m < P::TILES * 2; m++) {
    float* to = rows + (warp * T::ROWS + m * 8 + line) * 2;
    const float row_sum = quad_sum(state.row_sum[m / 2][m % 2]);
    if (quad == 0) to[0] = state.row_max[m / 2][m % 2], to[1] = row_sum;
  }
  __syncthreads();
#pragma unroll
  for (int m = 0; m < P::TILES * 2; m++) {
    const float* from = rows + (warp / P::WARPS * P::WARPS * T::ROWS + m * 8 + line) * 2;
    float most = -CUDART_INF_F, sum = 0;
#pragma unroll
    for (int w = 0; w < P::WARPS; w++) most = fmaxf(most, from[w * T::ROWS * 2]);
#pragma unroll
    for (int w = 0; w < P::WARPS; w++) sum += weight(from[w * T::ROWS * 2], most) * from[w * T::ROWS * 2 + 1];
    state.row_max[m / 2][m % 2] = most, state.row_sum[m / 2][m % 2] = 1 / sum;
  }
}

template <class P, bool ALIGNED, int PASS, class Q, class K, class V, class Score>
__device__ __forceinline__ void process_keys(OnlineSoftmax<P>& state, const Q* q, const K* k, const V* v, int z, const Score& score,
                                             const bool* keep, float* rows) {
  using T = WarpTiles<P>;
  const int lane = threadIdx.x % 32, quad = lane % 4, line = lane / 4, warp = threadIdx.x / 32;
  const int first = (blockIdx.x * P::BANDS + warp / P::WARPS) * T::ROWS;
  using Four = typename Fours<P::PAIRS>::Type;
  const auto load_query = [&](Four& to, int m, int s) {
    const int row = first + m * 8 + line, depth = s * 16 + quad * 4;
    load_four<ALIGNED && P::Q_VECTOR4>(to, q + row * P::Q_ROW + depth * P::Q_COLUMN, P::Q_COLUMN, row < P::ROWS ? P::DEPTH - depth : 0);
  };
  const auto load_key = [&](Four& to, int chunk, int j, int s) {
    const int column = chunk * 16 + j * 8 + line, depth = s * 16 + quad * 4;
    load_four<ALIGNED && P::K_VECTOR4>(to, k + column * P::K_COLUMN + depth * P::K_ROW, P::K_ROW,
                                       column < P::COLUMNS ? P::DEPTH - depth : 0);
  };
  Four query[P::TILES * 2][T::DEPTHS];
  float row_factors[P::TILES * 2];
#pragma unroll
  for (int m = 0; T::HELD && m < P::TILES * 2; m++) {
    float sum = 0;
#pragma unroll
    for (int s = 0; s < T::DEPTHS; s++) {
      load_query(query[m][s], m, s);
      if (P::Q_NORM) sum += squares<Q>(query[m][s]);
    }
    row_factors[m] = inverse_norm<P::Q_NORM>(sum, P::Q_FLOOR);
  }
#pragma unroll 1
  for (int chunk = blockIdx.z * P::WARPS + warp % P::WARPS; chunk < (PASS == AT_ONCE ? P::WARPS : T::CHUNKS); chunk += P::SPLITS * P::WARPS) {
    Four key[2][T::DEPTHS], value[4][T::WIDTHS];
#pragma unroll
    for (int j = 0; T::HELD && j < 2; j++)
#pragma unroll
      for (int s = 0; s < T::DEPTHS; s++) load_key(key[j][s], chunk, j, s);
#pragma unroll
    for (int i = 0; i < 4; i++)
#pragma unroll
      for (int t = 0; t < T::WIDTHS; t++) {
        if (PASS == SUMS) continue;
        const int row = chunk * 16 + i / 2 * 8 + quad * 2 + i % 2, column = t * 32 + line * 4;
        load_four<ALIGNED && P::V_VECTOR4>(value[i][t], v + row * P::V_ROW + column * P::V_COLUMN, P::V_COLUMN,
                                        row < P::COLUMNS ? P::WIDTH - column : 0);
      }
    if constexpr (P::MASKED && PASS != SUMS) {
#pragma unroll
      for (int i = 0; i < 4; i++) {
        const int row = chunk * 16 + i / 2 * 8 + quad * 2 + i % 2;
        const bool kept = row < P::COLUMNS && keep[row];
#pragma unroll
        for (int t = 0; t < T::WIDTHS; t++) keep_if(value[i][t], kept);
      }
    }
    const auto score_tile = [&](float(&scores)[2][4], int m) {
      constexpr int DEPTHS_AHEAD = T::HELD ? T::DEPTHS : 2;
      float row_squares[2] = {}, key_squares[2] = {};
#pragma unroll DEPTHS_AHEAD
      for (int s = 0; s < T::DEPTHS; s++) {
        Four left[2], right[2];
#pragma unroll
        for (int i = 0; i < 2; i++) {
          if constexpr (T::HELD)
            left[i] = query[m * 2 + i][s], right[i] = key[i][s];
          else
            load_query(left[i], m * 2 + i, s), load_key(right[i], chunk, i, s);
          if (P::Q_NORM && !T::HELD) row_squares[i] += squares<Q>(left[i]);
          if (P::K_NORM) key_squares[i] += squares<K>(right[i]);
        }
#pragma unroll
        for (int j = 0; j < 2; j++) mma_k16<P::PRECISION>(scores[j], left[0], left[1], right[j]);
      }
#pragma unroll
      for (int i = 0; !T::HELD && i < 2; i++) row_factors[m * 2 + i] = inverse_norm<P::Q_NORM>(row_squares[i], P::Q_FLOOR);
      if constexpr (P::Q_NORM || P::K_NORM) divide_by_norms<P>(scores, {row_factors[m * 2], row_factors[m * 2 + 1]}, key_squares);
#pragma unroll
      for (int i = 0; i < 8; i++) {
        const int row = first + m * 16 + i / 2 % 2 * 8 + line, column = chunk * 16 + i / 4 * 8 + quad * 2 + i % 2;
        const bool exists = row < P::ROWS && column < P::COLUMNS;
        float& own = scores[i / 4][i % 4];
        own = exists ? score(z, row, column, own * P::FACTOR) : -CUDART_INF_F;
      }
    };
    const auto add_values = [&](const float(&scores)[2][4], int m) {
      Four upper, lower;
      to_fragment<P::PRECISION>(upper, scores[0][0], scores[0][1], scores[1][0], scores[1][1]);
      to_fragment<P::PRECISION>(lower, scores[0][2], scores[0][3], scores[1][2], scores[1][3]);
#pragma unroll
      for (int t = 0; t < T::WIDTHS; t++)
#pragma unroll
        for (int j = 0; j < 4; j++)
          mma_k16<P::PRECISION>(state.values[m][t][j], upper, lower,
                                         column_of(value[0][t], value[1][t], value[2][t], value[3][t], j));
    };
    float scores[P::TILES][2][4] = {};
#pragma unroll
    for (int m = 0; m < P::TILES; m++) {
      score_tile(scores[m], m);
      if constexpr (PASS == WEIGHTS)
        state.round(scores[m], m);
      else if constexpr (PASS == AT_ONCE)
        state.add_weights(scores[m], m);
      else
        state.template update<PASS>(scores[m], m);
      if (PASS == ONLINE || PASS == WEIGHTS) add_values(scores[m], m);
    }
    if constexpr (PASS == AT_ONCE) {
      share_sums<P>(state, rows);
#pragma unroll
      for (int m = 0; m < P::TILES; m++) state.round(scores[m], m), add_values(scores[m], m);
    }
  }
}

template <class P, bool ALIGNED, class Q, class K, class V, class Score>
__device__ __forceinline__ void process_all(OnlineSoftmax<P>& state, const Q* q, const K* k, const V* v, int z, const Score& score,
                                            const bool* keep, float* rows) {
  using T = WarpTiles<P>;
  if constexpr (P::ROUNDED && T::CHUNKS <= P::WARPS) {
    process_keys<P, ALIGNED, AT_ONCE>(state, q, k, v, z, score, keep, rows);
  } else if constexpr (P::ROUNDED) {
    process_keys<P, ALIGNED, SUMS>(state, q, k, v, z, score, keep, rows);
    share_sums<P>(state, rows);
    process_keys<P, ALIGNED, WEIGHTS>(state, q, k, v, z, score, keep, rows);
  } else {
    process_keys<P, ALIGNED, ONLINE>(state, q, k, v, z, score, keep, rows);
  }
}

// Stores a warp's partial result to shared memory: weighted values, then each row's maximum and sum.
template <class P>
__device__ __forceinline__ void store_partial(OnlineSoftmax<P>& state, float* values, float* rows) {
  using T = WarpTiles<P>;
  const int warp = threadIdx.x / 32, quad = threadIdx.x % 4, line = threadIdx.x % 32 / 4;
#pragma unroll
  for (int m = 0; m < P::TILES * 2; m++) {
    const int row = warp * T::ROWS + m * 8 + line, i = m % 2;
    if constexpr (!P::ROUNDED) {
      const float row_sum = quad_sum(state.row_sum[m / 2][i]);
      if (quad == 0) rows[row * 2] = state.row_max[m / 2][i], rows[row * 2 + 1] = row_sum;
    }
#pragma unroll
    for (int t = 0; t < T::WIDTHS * 2; t++) {
      const float(&from)[4][4] = state.values[m / 2][t / 2];
      const int s = i * 2 + t % 2;
      *(float4*)(values + row * T::LINE + t / 2 * 32 + (quad * 2 + t % 2) * 4) =
          float4{from[0][s], from[1][s], from[2][s], from[3][s]};
    }
  }
  __syncthreads();
}

// Stores this block's share of ROWS rows, each the sum of the cluster's partial results, which `rescaled`
// scales from their maximum to the largest. LINE floats after each other are a row's, the first FOURS of four its values.
template <class P, int ROWS, int LINE, int FOURS, int THREADS, class O, class Fold, class Rescaled>
__device__ __forceinline__ void merge_rows(O* o, const float* values, const float* rows, const Fold& fold, const Rescaled& rescaled) {
  const bool aligned = (uint64_t)o % (4 * sizeof(O)) == 0;
#pragma unroll 1
  for (int item = blockIdx.z * THREADS + threadIdx.x; item < ROWS * FOURS; item += P::SPLITS * THREADS) {
    const int own = item / FOURS, column = item % FOURS * 4, row = blockIdx.x * ROWS + own;
    float most[P::SPLITS], part[P::SPLITS], row_max = -CUDART_INF_F, row_sum = 0, four[4] = {};
    float4 value[P::SPLITS];
#pragma unroll
    for (int r = 0; r < P::SPLITS; r++) {
      most[r] = peer_float(rows + own * 2, r), part[r] = peer_float(rows + own * 2 + 1, r);
      value[r] = peer_float4(values + own * LINE + column, r), row_max = fmaxf(row_max, most[r]);
    }
#pragma unroll
    for (int r = 0; r < P::SPLITS; r++) {
      const float scale = rescaled(most[r], row_max);
      row_sum += scale * part[r];
      four[0] += scale * value[r].x, four[1] += scale * value[r].y, four[2] += scale * value[r].z, four[3] += scale * value[r].w;
    }
    const float inverse = P::V_FACTOR / row_sum;
#pragma unroll
    for (int i = 0; i < 4; i++) four[i] = fold.finished(four[i] * inverse);
    store_result<P>(o, row, column, four, fold, aligned);
  }
}

// Computes this block's bands of problem blockIdx.y. Rows of V that are not to be kept are taken as zeros.
template <class P, class Q, class K, class V, class O, class Score, class Fold>
__device__ __forceinline__ void attend(const Q* q, const K* k, const V* v, O* o, const Score& score, const Fold& fold,
                                       const bool* keep = nullptr) {
  using T = WarpTiles<P>;
  static_assert(P::SPLITS == 1 || !P::ROUNDED);
  DYNAMIC_SHARED;
  float *values = shared, *rows = shared + P::BANDS * P::WARPS * T::ROWS * T::LINE;
  float *const merged = rows + P::BANDS * P::WARPS * T::ROWS * 2, *const merged_rows = merged + P::BANDS * T::ROWS * T::LINE;
  const int z = blockIdx.y;
  q += P::q_offset(z), k += P::k_offset(z), v += P::v_offset(z), o += P::o_offset(z);
  const uint64_t misaligned = (P::Q_VECTOR4 ? (uint64_t)q % (4 * sizeof(Q)) : 0) | (P::K_VECTOR4 ? (uint64_t)k % (4 * sizeof(K)) : 0) |
                             (P::V_VECTOR4 ? (uint64_t)v % (4 * sizeof(V)) : 0) | (P::O_VECTOR4 ? (uint64_t)o % (4 * sizeof(O)) : 0);
  {
    OnlineSoftmax<P> state;
    if (misaligned == 0)
      process_all<P, true>(state, q, k, v, z, score, keep, rows);
    else
      process_all<P, false>(state, q, k, v, z, score, keep, rows);
    store_partial<P>(state, values, rows);
  }
#pragma unroll 1
  for (int item = threadIdx.x; item < P::BANDS * T::ROWS * T::WIDTHS * 8; item += P::BANDS * P::WARPS * 32) {
    const int place = item / (T::WIDTHS * 8), column = item % (T::WIDTHS * 8) * 4;
    const int row = blockIdx.x * P::BANDS * T::ROWS + place, own = place / T::ROWS * P::WARPS * T::ROWS + place % T::ROWS;
    float row_max = -CUDART_INF_F, row_sum = P::ROUNDED, sum[4] = {};
#pragma unroll
    for (int w = 0; w < P::WARPS && !P::ROUNDED; w++) row_max = fmaxf(row_max, rows[(w * T::ROWS + own) * 2]);
#pragma unroll
    for (int w = 0; w < P::WARPS; w++) {
      const float scale = P::ROUNDED ? 1 : weight(rows[(w * T::ROWS + own) * 2], row_max);
      const float4 part = *(const float4*)(values + (w * T::ROWS + own) * T::LINE + column);
      if (!P::ROUNDED) row_sum += scale * rows[(w * T::ROWS + own) * 2 + 1];
      sum[0] += scale * part.x, sum[1] += scale * part.y, sum[2] += scale * part.z, sum[3] += scale * part.w;
    }
    if constexpr (P::SPLITS > 1) {
      *(float4*)(merged + place * T::LINE + column) = float4{sum[0], sum[1], sum[2], sum[3]};
      if (column == 0) merged_rows[place * 2] = row_max, merged_rows[place * 2 + 1] = row_sum;
      continue;
    }
#pragma unroll
    for (int i = 0; i < 4; i++) sum[i] = fold.finished(sum[i] / row_sum * P::V_FACTOR);
    store_result<P>(o, row, column, sum, fold, misaligned == 0);
  }
  if constexpr (P::SPLITS > 1) {
    const auto rescaled = [](float before, float after) { return weight(before, after); };
    cluster_sync();
    merge_rows<P, P::BANDS * T::ROWS, T::LINE, T::WIDTHS * 8, P::BANDS * P::WARPS * 32>(o, merged, merged_rows, fold, rescaled);
    cluster_sync_relaxed();
  }
}
