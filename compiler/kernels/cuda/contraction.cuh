// Convolutions and matrix products as one tiled product C[m][n] = sum of A[m][k] * B[k][n] over k.
//
// A (weights, or the left matrix) is contiguous in k. B is the right matrix, or an image gathered
// on the fly: n counts output pixels, k counts taps and channels; see operands.cuh. Each block
// computes a BM x BN tile in steps of BK, with STAGES tiles in flight by asynchronous copies; each
// warp computes WM x WN of it in pieces of 16 x 8 with tensor cores (or plain multiply-adds for
// FP32), loading the operands of the next pieces while it multiplies. Thread `lane` holds rows
// lane / 4 (+ 8) and columns lane % 4 * 2 (+ 1) of each piece.

// Copies a block of consecutive elements to shared memory.
template <class T, int COUNT>
__device__ __forceinline__ void copy_block(Block<T, COUNT>* to, const Block<T, COUNT>* from, bool valid) {
  static_assert(sizeof(Block<T, COUNT>) % 16 == 0);
#pragma unroll
  for (int i = 0; i < (int)sizeof(Block<T, COUNT>) / 16; i++) copy_chunk<false>((int4*)to + i, (const int4*)from + i, valid);
}

// How a kernel overlaps with its neighbours. Copies of weights, which no launch writes, may begin
// before it waits for the launches before; it then waits by `begin`. When its steps are done it may
// `release` the launches that follow. A kernel that does either specialises this.
enum Operands { NEITHER, LEFT, RIGHT };
template <class P>
struct Overlap {
  static constexpr int EARLY = NEITHER;
  static __device__ __forceinline__ void begin() {}
  static __device__ __forceinline__ void release() {}
};

template <class P>
using Sums = float[Tiles<P>::MT][Tiles<P>::NT][4];

// Four k of column `q` of piece `j`, from `k` on.
template <class P>
__device__ __forceinline__ void load_four(float (&to)[4], const int4* b, int j, int q, int k) {
  using T = Tiles<P>;
  if constexpr (P::FORM == LINES) {
#pragma unroll
    for (int s = 0; s < 4; s++)
      to[s] = ((const float*)b)[(k + s) * T::LINE + j / T::V * 8 * T::V + q * T::V + j % T::V];
  } else {
    const float4 four = *(const float4*)(b + (j * 8 + q) * T::B_ROW + k / 4 * T::B_NEXT);
    to[0] = four.x, to[1] = four.y, to[2] = four.z, to[3] = four.w;
  }
}

// Adds the products of one stage to a warp's pieces by plain multiply-adds.
template <class P>
__device__ __forceinline__ void multiply_exactly(Sums<P>& c, const int4* a, const int4* b) {
  using T = Tiles<P>;
  const int row = threadIdx.x % 32 / 4, place = threadIdx.x % 4;
#pragma unroll 2
  for (int k = 0; k < P::BK; k += 4) {
    float4 left[T::MT][2];
#pragma unroll
    for (int i = 0; i < T::MT * 2; i++) left[i / 2][i % 2] = *(const float4*)(a + (row + i * 8) * T::A_ROW + k / 4);
#pragma unroll
    for (int j = 0; j < T::NT; j++)
#pragma unroll
      for (int q = 0; q < 2; q++) {
        float right[4];
        load_four<P>(right, b, j, place * 2 + q, k);
#pragma unroll
        for (int i = 0; i < T::MT * 2; i++)
#pragma unroll
          for (int s = 0; s < 4; s++) c[i / 2][j][i % 2 * 2 + q] += (&left[i / 2][i % 2].x)[s] * right[s];
      }
  }
}

// The operands of one product of each of a warp's pieces, as they lie in memory. Floats that are
// rounded to two bytes take PARTS = 2 loads, and two k that share a register are four apart.
template <class P>
struct Fragments {
  using T = Tiles<P>;
  static constexpr bool HALF = P::PRECISION == FP16 || P::PRECISION == BF16;
  static constexpr int PARTS = HALF && sizeof(typename P::Element) == 4 ? 2 : 1;
  static constexpr int COUNT = T::CHUNKS / (2 * PARTS);  // in one step
  uint32_t a[T::MT][PARTS][4], b[T::NT][PARTS][2];

  __device__ __forceinline__ void load(const int4* left, const int4* right, int k) {
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
      const int chunk = (k * PARTS + part) * 2;
#pragma unroll
      for (int i = 0; i < T::MT; i++) load_matrices(a[i][part], left + i * 16 * T::A_ROW + chunk * T::A_NEXT);
      if constexpr (P::FORM == LINES)
        load_lines(right, part, chunk);
      else
#pragma unroll
        for (int j = 0; j < T::NT; j += 2) {
          uint32_t four[4];
          load_matrices(four, right + j * 8 * T::B_ROW + chunk * T::B_NEXT);
          b[j][part][0] = four[0], b[j][part][1] = four[1], b[j + 1][part][0] = four[2], b[j + 1][part][1] = four[3];
        }
    }
  }

  __device__ __forceinline__ void load_lines(const int4* right, int part, int chunk) {
    const int lane = threadIdx.x % 32;
    if constexpr (sizeof(typename P::Element) == 2) {
      const uint16_t* line = (const uint16_t*)right + chunk * 8 * T::LINE;
#pragma unroll
      for (int j = 0; j < T::NT; j += 2) {
        uint32_t four[4];
        load_transposed(four, line + j * 8);
        b[j][part][0] = four[0], b[j][part][1] = four[1], b[j + 1][part][0] = four[2], b[j + 1][part][1] = four[3];
      }
    } else {
#pragma unroll
      for (int s = 0; s < 2; s++)
        load_columns((const float*)right + ((chunk + s) * 4 + lane % 4) * T::LINE + lane / 4 * T::V, part, s);
    }
  }

  // Loads this thread's column of all pieces from a line of a warp's tile of B.
  __device__ __forceinline__ void load_columns(const float* line, int part, int s) {
#pragma unroll
    for (int j = 0; j < T::NT; j += T::V) {
      if constexpr (T::V == 4) {
        const int4 four = *(const int4*)(line + j * 8);
        b[j][part][s] = four.x, b[j + 1][part][s] = four.y, b[j + 2][part][s] = four.z, b[j + 3][part][s] = four.w;
      } else {
        static_assert(T::V == 2);
        const int2 pair = *(const int2*)(line + j * 8);
        b[j][part][s] = pair.x, b[j + 1][part][s] = pair.y;
      }
    }
  }

  __device__ __forceinline__ void multiply(Sums<P>& c) const {
    uint32_t x[T::MT][4], y[T::NT][2];
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
      for (int s = 0; s < 4; s++)
        if constexpr (PARTS == 2)
          x[i][s] = round_pair<P::PRECISION>(a[i][s / 2][s % 2], a[i][s / 2][s % 2 + 2]);
        else
          x[i][s] = P::PRECISION == TF32 && !P::A_ROUNDED ? round_tf32(a[i][0][s]) : a[i][0][s];
#pragma unroll
    for (int j = 0; j < T::NT; j++)
#pragma unroll
      for (int s = 0; s < 2; s++)
        if constexpr (PARTS == 2)
          y[j][s] = round_pair<P::PRECISION>(b[j][s][0], b[j][s][1]);
        else
          y[j][s] = P::PRECISION == TF32 && !P::B_ROUNDED ? round_tf32(b[j][0][s]) : b[j][0][s];
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
      for (int j = 0; j < T::NT; j++) multiply_add<P::PRECISION>(c[i][j], x[i], y[j]);
  }
};

// Where this thread's `ldmatrix` rows of a warp's tile of A begin.
template <class P>
__device__ __forceinline__ int left_place(int row) {
  const int lane = threadIdx.x % 32;
  return (row + lane % 16) * Tiles<P>::A_ROW + lane / 16 * Tiles<P>::A_NEXT;
}

// The first column of a warp's tile of B.
template <class P>
__device__ __forceinline__ const int4* right_corner(const int4* tile, int column) {
  if constexpr (P::FORM == LINES)
    return (const int4*)((const typename P::Element*)tile + column);
  else
    return tile + column * Tiles<P>::B_ROW;
}

// Likewise of B, in chunks; lines of floats are loaded without `ldmatrix`.
template <class P>
__device__ __forceinline__ const int4* right_place(const int4* tile, int column) {
  using T = Tiles<P>;
  const int lane = threadIdx.x % 32;
  if constexpr (P::FORM != LINES)
    return tile + (column + lane % 8 + lane / 16 * 8) * T::B_ROW + lane / 8 % 2 * T::B_NEXT;
  else if constexpr (sizeof(typename P::Element) == 2)
    return (const int4*)((const uint16_t*)tile + lane % 16 * T::LINE + column + lane / 16 * 8);
  else
    return (const int4*)((const float*)tile + column);
}

// Starts the copies of the first COUNT steps: of weights, waits for the launches before, and of the
// other operand. The first step's group holds all of the former.
template <class P, int COUNT, int STAGE, int A_SIZE, class Left, class Right>
__device__ __forceinline__ void fill_early(Left& left, Right& right, int4* tiles, int steps) {
  constexpr bool FIRST = Overlap<P>::EARLY == LEFT;
#pragma unroll 1
  for (int step = 0; step < min(COUNT, steps); step++)
    FIRST ? left.copy(tiles + step * STAGE) : right.copy(tiles + step * STAGE + A_SIZE);
  Overlap<P>::begin();
#pragma unroll 1
  for (int step = 0; step < COUNT; step++) {
    if (step < steps) FIRST ? right.copy(tiles + step * STAGE + A_SIZE) : left.copy(tiles + step * STAGE);
    copies_commit();
  }
}

// The tiles in flight: `fill` starts the copies of the next step, `advance` waits for the oldest.
template <class P, bool ALIGNED>
struct Pipeline {
  using T = Tiles<P>;
  using Element = typename P::Element;
  RowCopies<P, P::BM, P::M, P::A_ROW, ALIGNED> left;
  typename RightCopies<P, ALIGNED, P::FORM>::Type right;
  int4* tiles;
  int left_steps, filled = 0, used = -1;

  __device__ __forceinline__ Pipeline(int4* tiles, const Element* a, const Element* b, int first, int steps)
      : left(a, blockIdx.y * P::BM, first * P::BK), right(b, blockIdx.x * P::BN, first * P::BK), tiles(tiles),
        left_steps(steps) {
    if constexpr (Overlap<P>::EARLY != NEITHER) {
      fill_early<P, P::STAGES - 1, T::STAGE, T::A_SIZE>(left, right, tiles, steps);
      filled = P::STAGES - 1, left_steps -= P::STAGES - 1;
    } else {
#pragma unroll 1
      for (int step = 0; step < P::STAGES - 1; step++) fill();
    }
  }

  __device__ __forceinline__ void fill() {
    int4* tile = tiles + filled * T::STAGE;
    if (left_steps-- > 0) left.copy(tile), right.copy(tile + T::A_SIZE);
    copies_commit();
    filled = filled == P::STAGES - 1 ? 0 : filled + 1;
  }

  __device__ __forceinline__ void advance() {
    copies_wait<P::STAGES - 2>();
    __syncthreads();
    used = used == P::STAGES - 1 ? 0 : used + 1;
  }

  __device__ __forceinline__ const int4* a_tile() const { return tiles + used * T::STAGE; }
  __device__ __forceinline__ const int4* b_tile() const { return a_tile() + T::A_SIZE; }
};

// Adds up `steps` steps from `first` on; ALIGNED when both operands start at multiples of 16 bytes.
// `fetch` starts further copies once the first steps' are on their way.
template <class P, bool ALIGNED, class Fetch>
__device__ __forceinline__ void accumulate(Sums<P>& c, int4* tiles, const typename P::Element* a,
                                           const typename P::Element* b, int first, int steps, const Fetch& fetch) {
  using T = Tiles<P>;
  Pipeline<P, ALIGNED> pipeline(tiles, a, b, first, steps);
  fetch();
  const int warp = threadIdx.x / 32, row = warp / T::COLUMNS * P::WM, column = warp % T::COLUMNS * P::WN;
  pipeline.advance();
  if constexpr (P::PRECISION == FP32) {
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
      pipeline.fill();
      multiply_exactly<P>(c, pipeline.a_tile() + row * T::A_ROW, right_corner<P>(pipeline.b_tile(), column));
      pipeline.advance();
    }
  } else {
    constexpr int COUNT = Fragments<P>::COUNT;
    static_assert(COUNT % 2 == 0);
    Fragments<P> fragments[2];
    const int place = left_place<P>(row);
    fragments[0].load(pipeline.a_tile() + place, right_place<P>(pipeline.b_tile(), column), 0);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
#pragma unroll
      for (int k = 0; k < COUNT; k++) {
        if (k == COUNT - 1) pipeline.advance();
        fragments[(k + 1) % 2].load(pipeline.a_tile() + place, right_place<P>(pipeline.b_tile(), column),
                                    (k + 1) % COUNT);
        if (k == 0) pipeline.fill();
        fragments[k % 2].multiply(c);
      }
    }
  }
  copies_wait<0>();
  __syncthreads();
}

// Waits for what was fetched late.
template <class P>
__device__ __forceinline__ void fetches_wait() {
  if (P::LATE) copies_wait<0>();
}

// Lays a warp's pieces out in the block's tile: row by row, or column by column where consecutive
// rows lie beside each other in the result.
template <class P>
__device__ __forceinline__ void spread(const Sums<P>& c, float* tile) {
  using T = Tiles<P>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = warp / T::COLUMNS * P::WM + lane / 4, column = warp % T::COLUMNS * P::WN;
#pragma unroll
  for (int i = 0; i < T::MT; i++)
#pragma unroll
    for (int j = 0; j < T::NT; j += T::V)
#pragma unroll
      for (int s = 0; s < 4; s++)
#pragma unroll
        for (int v = 0; v < T::V; v++) {
          const int m = row + i * 16 + s / 2 * 8, n = column + j * 8 + (lane % 4 * 2 + s % 2) * T::V + v;
          tile[T::BY_PIXEL ? n * T::C_STRIDE + m : m * T::C_STRIDE + n] = c[i][j + v][s];
        }
  fetches_wait<P>();
  __syncthreads();
}

// The sum of what the blocks of the cluster have at a place, in order of their ranks.
template <int PARTS>
__device__ __forceinline__ float total_of(const float* own) {
  float total = PARTS == 1 ? *own : peer_float(own, 0);
#pragma unroll
  for (int part = 1; part < PARTS; part++) total += peer_float(own, part);
  return total;
}
template <int PARTS>
__device__ __forceinline__ float4 total_of_four(const float* own) {
  float4 total = PARTS == 1 ? *(const float4*)own : peer_float4(own, 0);
#pragma unroll
  for (int part = 1; part < PARTS; part++) {
    const float4 other = peer_float4(own, part);
    total.x += other.x, total.y += other.y, total.z += other.z, total.w += other.w;
  }
  return total;
}

// Hands the block's tile to `store`, consecutive threads beside each other in n.
template <class P, int PARTS, class Store>
__device__ __forceinline__ void store_elements(const float* tile, const Store& store) {
  using T = Tiles<P>;
  constexpr int UNROLL = P::VECTOR > 0 ? 1 : 8;
  if constexpr (T::THREADS % P::BN == 0) {
    constexpr int ROWS = T::THREADS / P::BN;
    const int row = threadIdx.x / P::BN, column = threadIdx.x % P::BN;
    const int m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
    const int rows = P::M % P::BM == 0 ? P::BM : min(P::BM, P::M - m);
#pragma unroll UNROLL
    for (int i = blockIdx.z % PARTS * ROWS; i < rows && n < P::N; i += PARTS * ROWS)
      store(blockIdx.z, m + i, n, total_of<PARTS>(tile + (row + i) * T::C_STRIDE + column));
  } else {
#pragma unroll UNROLL
    for (int i = blockIdx.z % PARTS * T::THREADS + threadIdx.x; i < P::BM * P::BN; i += PARTS * T::THREADS) {
      const int row = i / P::BN, column = i % P::BN, m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
      if (m < P::M && n < P::N) store(blockIdx.z, m, n, total_of<PARTS>(tile + row * T::C_STRIDE + column));
    }
  }
}

// Likewise, each thread OUT_BLOCK consecutive rows or VECTOR consecutive columns, which lie beside
// each other in the result. `fetch` starts copies of what the results depend on besides their sums:
// of the same place, and of the tile's edge, which has one element for each row or column.
template <class P, int PARTS>
struct BlockStore {
  using T = Tiles<P>;
  static constexpr bool DOWN = P::OUT_BLOCK > 0;
  static constexpr int BLOCK = DOWN ? P::OUT_BLOCK : P::VECTOR, HIGH = DOWN ? BLOCK : 1, WIDE = DOWN ? 1 : BLOCK;
  static constexpr int ACROSS = P::BN / WIDE, UNITS = P::BM * P::BN / BLOCK, STEP = PARTS * T::THREADS;
  static constexpr int TURNS = (UNITS + STEP - 1) / STEP, PLACE_STRIDE = TURNS * T::THREADS * 16;
  static constexpr int EDGE = DOWN ? P::BM : P::BN;
  static constexpr bool WHOLE = T::THREADS % ACROSS == 0;  // a thread's columns are the same in every turn
  static_assert((DOWN ? P::M : P::N) % BLOCK == 0);
  float* tile;
  char *places, *edges;

  __device__ __forceinline__ BlockStore(float* tile) : tile(tile) {
    constexpr int STAGES = P::STAGES * T::STAGE * 16, RESULT = (DOWN ? P::BN : P::BM) * T::C_STRIDE * 4;
    places = (char*)tile + (STAGES > RESULT && !P::LATE ? STAGES : RESULT), edges = places + P::PLACES * PLACE_STRIDE;
  }

  // Whether this thread has results in a turn, and where they begin.
  __device__ __forceinline__ bool turn(int number, int& row, int& column) const {
    const int share = number * PARTS + blockIdx.z % PARTS, unit = share * T::THREADS + threadIdx.x;
    row = (WHOLE ? threadIdx.x / ACROSS + share * (T::THREADS / ACROSS) : unit / ACROSS) * HIGH;
    column = (WHOLE ? threadIdx.x % ACROSS : unit % ACROSS) * WIDE;
    const bool below = P::M % P::BM == 0 || blockIdx.y * P::BM + row < P::M;
    return (UNITS % STEP == 0 || row < P::BM) && below && (P::N % P::BN == 0 || blockIdx.x * P::BN + column < P::N);
  }

  template <class Store>
  __device__ __forceinline__ void fetch(const Store& store) const {
    if (P::PLACES > 0)
#pragma unroll
      for (int i = 0; i < TURNS; i++) {
        int row, column;
        const bool valid = turn(i, row, column);
        const int m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
        char* to = places + (i * T::THREADS + threadIdx.x) * 16;
        store.fetch_places(valid ? store.place_of(blockIdx.z, m, n) : 0, to, PLACE_STRIDE, valid);
      }
    const int own = threadIdx.x * BLOCK, at = (DOWN ? blockIdx.y * P::BM : blockIdx.x * P::BN) + own;
    const bool valid = at < (DOWN ? P::M : P::N);
    if (P::EDGES > 0 && own < EDGE)
      store.fetch_edges(valid ? store.edge_of(blockIdx.z, at) : 0, edges + own * 4, EDGE * 4, valid);
  }

  template <class Store>
  __device__ __forceinline__ void finish(const Store& store) const {
#pragma unroll (DOWN ? 4 : 2)
    for (int i = 0; i < TURNS; i++) {
      int row, column;
      if (!turn(i, row, column)) {
        if (WHOLE) break;
        continue;
      }
      float values[BLOCK];
#pragma unroll
      for (int r = 0; r < BLOCK; r += 4) {
        const int place = DOWN ? column * T::C_STRIDE + row : row * T::C_STRIDE + column;
        const float4 four = total_of_four<PARTS>(tile + place + r);
        values[r] = four.x, values[r + 1] = four.y, values[r + 2] = four.z, values[r + 3] = four.w;
      }
      store(blockIdx.z, blockIdx.y * P::BM + row, blockIdx.x * P::BN + column, values,
            places + (i * T::THREADS + threadIdx.x) * 16, PLACE_STRIDE, edges + (DOWN ? row : column) * 4, EDGE * 4);
    }
  }
};

// Whether results are stored together: for vectors, a caller's buffers may begin anywhere.
template <class P, class Store>
__device__ __forceinline__ bool stores_together(const Store& store) {
  if constexpr (P::VECTOR > 0)
    return store.aligned();
  else
    return P::OUT_BLOCK > 0;
}

// Starts copies of what the results depend on: beside the stages while these are filled, or LATE, in
// their place, where there is no room.
template <class P, int PARTS, bool LATE, class Store>
__device__ __forceinline__ void fetch_results(float* tile, const Store& store) {
  if constexpr (P::OUT_BLOCK + P::VECTOR > 0 && bool(P::LATE) == LATE) {
    if (stores_together<P>(store)) BlockStore<P, PARTS>(tile).fetch(store);
    if (LATE) copies_commit();
  }
}

// Hands the results of the block's tile to `store`, which all blocks of a cluster share out.
template <class P, int PARTS, class Store>
__device__ __forceinline__ void store_tile(float* tile, const Store& store) {
  if (PARTS > 1) cluster_wait();
  if constexpr (P::OUT_BLOCK + P::VECTOR > 0)
    if (stores_together<P>(store)) BlockStore<P, PARTS>(tile).finish(store);
  if constexpr (P::OUT_BLOCK == 0)
    if (!stores_together<P>(store)) store_elements<P, PARTS>(tile, store);
  if (PARTS > 1) cluster_leave();
}

// Computes this block's tile and hands each element to `store(z, m, n, value)`.
// With CLUSTER the blocks that share k are a cluster, and each stores its part of the total.
template <class P, class Store>
__device__ __forceinline__ void contract(const typename P::Element* a, const typename P::Element* b,
                                         const Store& store) {
  DYNAMIC_SHARED;
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SHARE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  constexpr int PARTS = P::CLUSTER ? P::SPLITS : 1;
  const int z = blockIdx.z / P::SPLITS, first = blockIdx.z % P::SPLITS * SHARE, steps = min(SHARE, STEPS - first);
  a += P::a_offset(z), b += P::b_offset(z);
  Sums<P> c = {};
  auto fetch = [&]() { fetch_results<P, PARTS, false>(shared, store); };
  if (P::ALIGNED || (((uint64_t)a | (uint64_t)b) & 15) == 0)
    accumulate<P, true>(c, (int4*)shared, a, b, first, steps, fetch);
  else
    accumulate<P, false>(c, (int4*)shared, a, b, first, steps, fetch);
  Overlap<P>::release();
  fetch_results<P, PARTS, true>(shared, store);
  spread<P>(c, shared);
  store_tile<P, PARTS>(shared, store);
}

// Keeps the sum of one share of k; `z` counts problems, then shares.
template <class P>
struct KeepShare {
  float* shares;
  __device__ __forceinline__ void operator()(int z, int m, int n, float value) const {
    const int share = z % P::SPLITS, problem = z / P::SPLITS;
    shares[((int64_t)(share * P::PROBLEMS + problem) * P::M + m) * P::N + n] = value;
  }
};

// Adds the shares of k in order, one element a thread, and hands the total to `store`.
template <class P, class Store>
__device__ __forceinline__ void add_shares(const float* shares, const Store& store) {
  constexpr int64_t COUNT = (int64_t)P::PROBLEMS * P::M * P::N;
  const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= COUNT) return;
  float total = 0;
#pragma unroll
  for (int share = 0; share < P::SPLITS; share++) total += shares[share * COUNT + index];
  store((int)(index / ((int64_t)P::M * P::N)) * P::SPLITS, (int)(index / P::N % P::M), (int)(index % P::N), total);
}
