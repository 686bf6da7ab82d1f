// All steps of an RNN, GRU or LSTM, whose inputs are projected beforehand.
//
// A cluster of BLOCKS blocks computes up to SEQUENCES sequences of one direction. A block has UNITS hidden units
// with all their gates, and keeps their rows of the recurrent weights in registers for all steps, as fragments of
// MMAs: rows are rows of weights, columns are sequences; what registers have no room for stays in shared memory.
// Warps split k in SPLITS; a thread adds their sums for a unit of a sequence and computes its cell. Each block then stores its part of the state in the shared memory of
// all blocks, which count the bytes that have arrived. There are two buffers: a block stores the next state only
// when it has all of the present one, to which each block adds its part after it has read the one before.
// A GRU that resets before its GEMM has two EXCHANGES in a step: the reset state, then the next one.
//
// `P` holds the constants of one problem, `C` is its cell; see emit.py.

template <class P>
struct RecurrentShape {
  using Element = typename P::Element;
  static constexpr int WIDE = 16 / sizeof(Element), CHUNK = 4 * WIDE;  // elements of 16 bytes, and of a chunk of k
  static constexpr int ROWS = P::GATES * P::UNITS, TILES = (ROWS + 15) / 16;
  static constexpr int CHUNKS = (P::BLOCKS * P::UNITS + CHUNK - 1) / CHUNK;
  static constexpr int GROUPS = P::WARPS / P::SPLITS, THREADS = 32 * P::WARPS;
  static constexpr int OWN_TILES = (TILES + GROUPS - 1) / GROUPS, OWN_CHUNKS = (CHUNKS + P::SPLITS - 1) / P::SPLITS;
  static constexpr int CHAINS = OWN_TILES < 4 ? 2 : 1;  // sums that do not wait for each other
  static constexpr int PITCH = CHUNK * (CHUNKS + (CHUNKS + 1) % 2);  // odd rows begin in the other half of the banks
  static constexpr int LINE = 16 * TILES + 4;
  static constexpr int STATE = P::SEQUENCES * PITCH, OWN = P::SEQUENCES * P::UNITS;  // elements
  static constexpr int CELLS = (OWN + THREADS - 1) / THREADS;                        // of a thread
  static constexpr bool ONE_WARP = OWN <= 32;                                        // has all cells
  static constexpr int BYTES = P::BLOCKS * OWN * sizeof(Element), ROUNDS = P::STEPS * P::EXCHANGES;
};

template <class P>
__device__ __forceinline__ uint32_t recurrent_word(const typename P::Weights* row, int k) {
  if constexpr (P::PRECISION == TF32) {
    return k < P::HIDDEN ? round_tf32(__float_as_uint((float)row[k])) : 0;
  } else {
    const float first = k < P::HIDDEN ? (float)row[k] : 0, second = k + 1 < P::HIDDEN ? (float)row[k + 1] : 0;
    return round_pair<P::PRECISION>(__float_as_uint(first), __float_as_uint(second));
  }
}

// 16 bytes along k of a row of weights; zeros past its end.
template <class P>
__device__ __forceinline__ uint4 recurrent_words(const typename P::Weights* row, int k) {
  constexpr int WIDE = RecurrentShape<P>::WIDE, STEP = WIDE / 4;
  constexpr bool WHOLE = P::HIDDEN % WIDE == 0 && sizeof(typename P::Weights) == sizeof(typename P::Element);
  uint4 words = {0, 0, 0, 0};
  if constexpr (WHOLE) {
    if (k < P::HIDDEN) words = *(const uint4*)(row + k);
    if constexpr (P::PRECISION == TF32)
      words = {round_tf32(words.x), round_tf32(words.y), round_tf32(words.z), round_tf32(words.w)};
  } else {
    words.x = recurrent_word<P>(row, k), words.y = recurrent_word<P>(row, k + STEP);
    words.z = recurrent_word<P>(row, k + 2 * STEP), words.w = recurrent_word<P>(row, k + 3 * STEP);
  }
  return words;
}

// A warp's part of the weights of a block: OWN_TILES tiles of 16 rows, every SPLITS-th chunk of k. A lane has
// rows lane / 4 and 8 below, and 16 bytes along k in each, of which two MMAs take half.
template <class P>
struct RecurrentWeights {
  using S = RecurrentShape<P>;
  uint4 at[S::OWN_TILES][P::HELD > 0 ? P::HELD : 1][2];
  uint4* others;  // of chunks from HELD on, in shared memory

  __device__ __forceinline__ uint4& place(int i, int j, int f) const {
    return others[((((j - P::HELD) * S::OWN_TILES + i) * 2 + f) * P::WARPS + threadIdx.x / 32) * 32 + threadIdx.x % 32];
  }
  __device__ __forceinline__ uint4 part(int i, int j, int f) const { return j < P::HELD ? at[i][j][f] : place(i, j, f); }

  static __device__ __forceinline__ int split() { return threadIdx.x / 32 % P::SPLITS; }
  static __device__ __forceinline__ int tile(int i) { return threadIdx.x / 32 / P::SPLITS * S::OWN_TILES + i; }

  __device__ __forceinline__ void load(const typename P::Weights* weights, int first_unit) {
    const int lane = threadIdx.x % 32;
#pragma unroll
    for (int i = 0; i < S::OWN_TILES; i++)
#pragma unroll
      for (int f = 0; f < 2; f++) {
        const int row = tile(i) * 16 + f * 8 + lane / 4, gate = row / P::UNITS, unit = first_unit + row % P::UNITS;
        const bool valid = gate < P::GATES && unit < P::HIDDEN;
        const typename P::Weights* from = weights + (int64_t)(gate * P::HIDDEN + unit) * P::HIDDEN;
#pragma unroll
        for (int j = 0; j < S::OWN_CHUNKS; j++) {
          uint4 words = {0, 0, 0, 0};
          if (valid) words = recurrent_words<P>(from, (split() + j * P::SPLITS) * S::CHUNK + lane % 4 * S::WIDE);
          if (j < P::HELD)
            at[i][j][f] = words;
          else
            place(i, j, f) = words;
        }
      }
  }

  // Multiplies by the states of all sequences, and stores this warp's sums: [split][sequence][row].
  __device__ __forceinline__ void multiply(const typename P::Element* state, float* parts) const {
    const int lane = threadIdx.x % 32, sequence = min(lane / 4, P::SEQUENCES - 1);
    float sums[S::OWN_TILES][S::CHAINS][4] = {};
#pragma unroll
    for (int j = 0; j < S::OWN_CHUNKS; j++) {
      const int chunk = split() + j * P::SPLITS;
      if (S::CHUNKS % P::SPLITS != 0 && chunk >= S::CHUNKS) break;
      const uint4 k = *(const uint4*)(state + sequence * S::PITCH + chunk * S::CHUNK + lane % 4 * S::WIDE);
#pragma unroll
      for (int i = 0; i < S::OWN_TILES; i++) {
        const uint4 low = part(i, j, 0), high = part(i, j, 1);
        mma<P::PRECISION>(sums[i][0], {low.x, high.x, low.y, high.y}, {k.x, k.y});
        mma<P::PRECISION>(sums[i][S::CHAINS - 1], {low.z, high.z, low.w, high.w}, {k.z, k.w});
      }
    }
#pragma unroll
    for (int i = 0; i < S::OWN_TILES; i++)
#pragma unroll
      for (int s = 0; s < 4; s++) {
        const int column = lane % 4 * 2 + s % 2, row = tile(i) * 16 + s / 2 * 8 + lane / 4;
        const float sum = S::CHAINS == 1 ? sums[i][0][s] : sums[i][0][s] + sums[i][S::CHAINS - 1][s];
        if (column < P::SEQUENCES && (S::TILES % S::GROUPS == 0 || tile(i) < S::TILES))
          parts[(split() * P::SEQUENCES + column) * S::LINE + row] = sum;
      }
  }
};

// An element as tensor cores read it.
template <class P>
__device__ __forceinline__ typename P::Element recurrent_element(float x) {
  if constexpr (P::PRECISION == TF32)
    return __uint_as_float(round_tf32(__float_as_uint(x)));
  else
    return (uint16_t)round_pair<P::PRECISION>(__float_as_uint(x), 0);
}

// A unit of a sequence; `valid` if there are both.
template <class P>
struct RecurrentCell {
  int unit, sequence;  // of the block
  bool own, valid;
  int64_t place;  // in a tensor (directions, batch, hidden)
  int length;
  float h, c, bias, x[P::GATES];

  __device__ __forceinline__ void load(const P& p, int id, int first_unit, int first_sequence, int direction) {
    unit = id % P::UNITS, sequence = id / P::UNITS, own = id < P::SEQUENCES * P::UNITS;
    const int u = first_unit + unit, b = first_sequence + sequence;
    valid = own && u < P::HIDDEN && b < P::BATCH;
    place = ((int64_t)direction * P::BATCH + b) * P::HIDDEN + u;
    h = c = bias = 0, length = P::STEPS;
    if (!valid) return;
    if constexpr (P::FIRST_H) h = (float)p.first_h[place];
    if constexpr (P::FIRST_C) c = (float)p.first_c[place];
    if constexpr (P::BIAS) bias = (float)p.bias[direction * P::HIDDEN + u];
    if constexpr (P::LENGTHS) length = (int)p.lengths[b];
  }

  // The projected inputs of a step.
  __device__ __forceinline__ void read(const P& p, int t, int first_unit, int first_sequence, int direction) {
    const int64_t row = (int64_t)t * P::BATCH + first_sequence + sequence;
#pragma unroll
    for (int g = 0; g < P::GATES; g++)
      x[g] = valid ? (float)p.x[((row * P::DIRECTIONS + direction) * P::GATES + g) * P::HIDDEN + first_unit + unit] : 0;
  }

  // The sums of all warps.
  __device__ __forceinline__ void add(const float* parts, float (&sums)[P::GATES]) const {
    using S = RecurrentShape<P>;
#pragma unroll
    for (int g = 0; g < P::GATES; g++) {
      sums[g] = 0;
#pragma unroll
      for (int s = 0; s < P::SPLITS; s++)
        sums[g] += parts[(s * P::SEQUENCES + sequence) * S::LINE + g * P::UNITS + unit];
    }
  }

  // Computes the cell; the output, which is 0 past a sequence's end.
  template <class C>
  __device__ __forceinline__ float step(const float* parts, int t) {
    float sums[P::GATES];
    add(parts, sums);
    if (!valid || t >= length) return 0;
    C::step(x, sums, bias, h, c);
    return h;
  }

  // The reset state of a GRU, whose update gate `c` has until the step ends.
  template <class C>
  __device__ __forceinline__ float reset(const float* parts) {
    float sums[P::GATES];
    add(parts, sums);
    return C::reset(x, sums, h, c);
  }
};

// The state before the first step, and zeros in the other buffer and where there are no units.
template <class P>
__device__ __forceinline__ void begin_states(const P& p, typename P::Element* states, int first_sequence, int direction) {
  using S = RecurrentShape<P>;
  for (int i = threadIdx.x; i < 2 * S::STATE; i += S::THREADS) {
    const int k = i % S::PITCH, b = first_sequence + i / S::PITCH;
    float first = 0;
    if constexpr (P::FIRST_H)
      if (i < S::STATE && k < P::HIDDEN && b < P::BATCH)
        first = (float)p.first_h[((int64_t)direction * P::BATCH + b) * P::HIDDEN + k];
    states[i] = recurrent_element<P>(first);
  }
}

// Stores this block's part of the next state, which is in `stage`, in the shared memory of all blocks.
template <class P>
__device__ __forceinline__ void send_states(const typename P::Element* stage, typename P::Element* next, int first_unit,
                                            uint64_t* arrivals) {
  using S = RecurrentShape<P>;
  constexpr int LINE = P::UNITS / S::WIDE, PARTS = P::SEQUENCES * LINE, SENDERS = S::ONE_WARP ? 32 : S::THREADS;
  if constexpr (S::ONE_WARP) {
    if (threadIdx.x < 32) __syncwarp();
  } else {
    __syncthreads();
  }
  if (threadIdx.x < SENDERS) {
#pragma unroll
    for (int i = threadIdx.x; i < PARTS * P::BLOCKS; i += SENDERS) {
      const int part = i % PARTS, place = part / LINE * S::PITCH + first_unit + part % LINE * S::WIDE;
      send_chunk(next + place, *(const uint4*)(stage + part * S::WIDE), i / PARTS, arrivals);
    }
  }
}

template <class P, class C>
__device__ __forceinline__ void recurrence(const P& p) {
  using S = RecurrentShape<P>;
  using Element = typename P::Element;
  const int direction = blockIdx.y, first_unit = blockIdx.z * P::UNITS, first_sequence = blockIdx.x * P::SEQUENCES;
  const bool backwards = P::BACKWARDS >> direction & 1;
  DYNAMIC_SHARED;
  uint64_t* arrivals = (uint64_t*)shared;
  Element *states = (Element*)(shared + 4), *stage = states + 2 * S::STATE;
  float* parts = (float*)(stage + S::OWN);

  RecurrentWeights<P> weights;
  weights.others = (uint4*)(parts + P::SPLITS * P::SEQUENCES * S::LINE);
  weights.load(p.weights + (int64_t)direction * P::GATES * P::HIDDEN * P::HIDDEN, first_unit);
  if constexpr (P::BLOCKS > 1)
    if (threadIdx.x == 0) {
      begin_arrivals(arrivals), begin_arrivals(arrivals + 1);
      expect_arrivals(arrivals, S::BYTES), expect_arrivals(arrivals + 1, S::BYTES);
    }
  P::wait();
  begin_states<P>(p, states, first_sequence, direction);
  RecurrentCell<P> cells[S::CELLS];
#pragma unroll
  for (int i = 0; i < S::CELLS; i++) {
    cells[i].load(p, i * S::THREADS + threadIdx.x, first_unit, first_sequence, direction);
    cells[i].read(p, backwards ? P::STEPS - 1 : 0, first_unit, first_sequence, direction);
  }
  if constexpr (P::BLOCKS > 1)
    cluster_sync();
  else
    __syncthreads();

#pragma unroll 1
  for (int round = 0; round < S::ROUNDS; round++) {
    const int step = round / P::EXCHANGES, t = backwards ? P::STEPS - 1 - step : step, now = round & 1;
    const bool ends = round % P::EXCHANGES == P::EXCHANGES - 1, last = round + 1 == S::ROUNDS;
    if constexpr (P::BLOCKS > 1)
      if (round > 0) {
        await_arrivals(arrivals + now, (round - 1) >> 1 & 1);
        if (threadIdx.x == 0 && round + 2 < S::ROUNDS) expect_arrivals(arrivals + now, S::BYTES);
      }
    weights.multiply(states + now * S::STATE, parts);
    __syncthreads();
    float outputs[S::CELLS];
    Element* next = states + (now ^ 1) * S::STATE;
#pragma unroll
    for (int i = 0; i < S::CELLS; i++) {
      RecurrentCell<P>& cell = cells[i];
      outputs[i] = 0;
      if (!cell.own) continue;
      float sent;
      if constexpr (P::EXCHANGES > 1)
        if (!ends) sent = cell.template reset<C>(parts);
      if (ends) outputs[i] = cell.template step<C>(parts, t), sent = cell.h;
      Element* to = P::BLOCKS > 1 ? stage + cell.sequence * P::UNITS : next + cell.sequence * S::PITCH;
      to[cell.unit] = recurrent_element<P>(sent);
    }
    if constexpr (P::BLOCKS == 1)
      __syncthreads();
    else if (!last)
      send_states<P>(stage, next, first_unit, arrivals + (now ^ 1));
    if (!ends) continue;
#pragma unroll
    for (int i = 0; i < S::CELLS; i++) {
      const int64_t row = (int64_t)t * P::DIRECTIONS * P::BATCH * P::HIDDEN;
      if constexpr (P::ALL_H)
        if (cells[i].valid) p.all_h[row + cells[i].place] = (typename P::AllH)outputs[i];
      if (!last) cells[i].read(p, backwards ? t - 1 : t + 1, first_unit, first_sequence, direction);
    }
  }
#pragma unroll
  for (int i = 0; i < S::CELLS; i++) {
    if (!cells[i].valid) continue;
    if constexpr (P::LAST_H) p.last_h[cells[i].place] = (typename P::LastH)cells[i].h;
    if constexpr (P::LAST_C) p.last_c[cells[i].place] = (typename P::LastC)cells[i].c;
  }
}
