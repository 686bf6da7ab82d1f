// GEMM, batched GEMM and implicit-GEMM convolution: C[m][n] = sum of A[m][k] * B[k][n] over k.
//
// A (weights, or the left matrix) is contiguous in k. B is the right matrix, or the im2col matrix of an
// image, which is never stored: n counts output pixels, k counts taps and channels; see operands.cuh.
// Each thread block computes a BM x BN tile in k-steps of BK, with STAGES tiles of A and B in flight
// (cp.async). Each warp computes WM x WN of it in 16 x 8 MMA tiles by tensor cores (FP32: by FMAs) and
// loads the fragments of the next MMA while it executes one. Lane `lane` holds rows lane / 4 (+ 8) and
// columns lane % 4 * 2 (+ 1) of each MMA tile.

// How a kernel overlaps with its predecessors and successors (PDL). It may prefetch an operand of
// weights, which no kernel writes, before `wait` waits for the predecessors; after its main loop it may
// `release` the successors. A kernel that does either specialises this.
enum Operands { NO_OPERAND, OPERAND_A, OPERAND_B };
template <class P>
struct Overlap {
  static constexpr int PREFETCHED = NO_OPERAND;
  static __device__ __forceinline__ void wait() {}
  static __device__ __forceinline__ void release() {}
};

// Loads B at four consecutive k, from `k` on, for column `q` of MMA tile `j`.
template <class P>
__device__ __forceinline__ void load_k4(float (&to)[4], const int4* b, int j, int q, int k) {
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

// Accumulates one stage by FMAs.
template <class P>
__device__ __forceinline__ void multiply_simt(Accumulators<P>& c, const int4* a, const int4* b) {
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
        load_k4<P>(right, b, j, place * 2 + q, k);
#pragma unroll
        for (int i = 0; i < T::MT * 2; i++)
#pragma unroll
          for (int s = 0; s < 4; s++) c[i / 2][j][i % 2 * 2 + q] += (&left[i / 2][i % 2].x)[s] * right[s];
      }
  }
}

// The address of this lane's `ldmatrix` row for MMA tiles j and j + 1.
template <class P>
__device__ __forceinline__ const int4* b_row(const int4* right, int j, int chunk) {
  return right + j * 8 * Tiles<P>::B_ROW + chunk * Tiles<P>::B_NEXT;
}

// A warp's fragments for one MMA, as in shared memory. Floats that are rounded to two bytes take
// PARTS = 2 loads; two k that share a register are then four apart.
template <class P>
struct Fragments {
  using T = Tiles<P>;
  static constexpr bool HALF = P::PRECISION == FP16 || P::PRECISION == BF16;
  static constexpr int PARTS = HALF && sizeof(typename P::Element) == 4 ? 2 : 1;
  static constexpr int COUNT = T::CHUNKS / (2 * PARTS);  // MMAs of a k-step
  uint32_t a[T::MT][PARTS][4], b[T::NT][PARTS][2];

  template <class Right>
  __device__ __forceinline__ void load(const int4* left, const Right& right, int k) {
#pragma unroll
    for (int part = 0; part < PARTS; part++) {
      const int chunk = (k * PARTS + part) * 2;
#pragma unroll
      for (int i = 0; i < T::MT; i++) ldmatrix_x4(a[i][part], left + i * 16 * T::A_ROW + chunk * T::A_NEXT);
      if constexpr (P::FORM == LINES)
        load_lines(right, part, chunk);
      else
#pragma unroll
        for (int j = 0; j < T::NT; j += 2) {
          uint32_t four[4];
          ldmatrix_x4(four, b_row<P>(right, j, chunk));
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
        ldmatrix_x4_trans(four, line + j * 8);
        b[j][part][0] = four[0], b[j][part][1] = four[1], b[j + 1][part][0] = four[2], b[j + 1][part][1] = four[3];
      }
    } else {
#pragma unroll
      for (int s = 0; s < 2; s++)
        load_columns((const float*)right + ((chunk + s) * 4 + lane % 4) * T::LINE + lane / 4 * T::V, part, s);
    }
  }

  // Loads this lane's column of all MMA tiles from a row of a warp's tile of B.
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

  __device__ __forceinline__ void multiply(Accumulators<P>& c) const {
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
      for (int j = 0; j < T::NT; j++) mma<P::PRECISION>(c[i][j], x[i], y[j]);
  }
};

// The offset of this lane's `ldmatrix` rows in a warp's tile of A.
template <class P>
__device__ __forceinline__ int a_offset_of(int row) {
  const int lane = threadIdx.x % 32;
  return (row + lane % 16) * Tiles<P>::A_ROW + lane / 16 * Tiles<P>::A_NEXT;
}

// The first column of a warp's tile of B.
template <class P>
__device__ __forceinline__ const int4* b_warp_tile(const int4* tile, int column) {
  if constexpr (P::FORM == LINES)
    return (const int4*)((const typename P::Element*)tile + column);
  else
    return tile + column * Tiles<P>::B_ROW;
}

// The address of this lane's `ldmatrix` rows in a warp's tile of B. Rows of floats along n are loaded
// without `ldmatrix`.
template <class P>
__device__ __forceinline__ const int4* b_fragments(const int4* tile, int column) {
  using T = Tiles<P>;
  const int lane = threadIdx.x % 32;
  if constexpr (P::FORM != LINES)
    return tile + (column + lane % 8 + lane / 16 * 8) * T::B_ROW + lane / 8 % 2 * T::B_NEXT;
  else if constexpr (sizeof(typename P::Element) == 2)
    return (const int4*)((const uint16_t*)tile + lane % 16 * T::LINE + column + lane / 16 * 8);
  else
    return (const int4*)((const float*)tile + column);
}

// Starts the copies of the first COUNT k-steps: of weights, then, after waiting for the predecessors,
// of the other operand. The first commit group has all the weights.
template <class P, int COUNT, int STAGE, int A_SIZE, class Left, class Right>
__device__ __forceinline__ void prefetch_weights(Left& left, Right& right, int4* tiles, int steps) {
  constexpr bool FIRST = Overlap<P>::PREFETCHED == OPERAND_A;
#pragma unroll 1
  for (int step = 0; step < min(COUNT, steps); step++)
    FIRST ? left.copy(tiles + step * STAGE) : right.copy(tiles + step * STAGE + A_SIZE);
  Overlap<P>::wait();
#pragma unroll 1
  for (int step = 0; step < COUNT; step++) {
    if (step < steps) FIRST ? right.copy(tiles + step * STAGE + A_SIZE) : left.copy(tiles + step * STAGE);
    cp_async_fence();
  }
}

// The multistage pipeline: `fill` starts the copies of the next k-step, `advance` waits for the oldest.
template <class P, bool ALIGNED>
struct Pipeline {
  using T = Tiles<P>;
  using Element = typename P::Element;
  RowCopies<P, P::BM, P::M, P::A_ROW, ALIGNED> left;
  typename CopiesB<P, ALIGNED, P::FORM>::Type right;
  int4* tiles;
  int left_steps, filled = 0, used = -1;

  __device__ __forceinline__ Pipeline(int4* tiles, const Element* a, const Element* b, int first, int steps)
      : left(a, blockIdx.y * P::BM, first * P::BK), right(b, blockIdx.x * P::BN, first * P::BK), tiles(tiles),
        left_steps(steps) {
    if constexpr (Overlap<P>::PREFETCHED != NO_OPERAND) {
      prefetch_weights<P, P::STAGES - 1, T::STAGE, T::A_SIZE>(left, right, tiles, steps);
      filled = P::STAGES - 1, left_steps -= P::STAGES - 1;
    } else {
#pragma unroll 1
      for (int step = 0; step < P::STAGES - 1; step++) fill();
    }
  }

  __device__ __forceinline__ void fill() {
    int4* tile = tiles + filled * T::STAGE;
    if (left_steps-- > 0) left.copy(tile), right.copy(tile + T::A_SIZE);
    cp_async_fence();
    filled = filled == P::STAGES - 1 ? 0 : filled + 1;
  }

  __device__ __forceinline__ void advance() {
    cp_async_wait<P::STAGES - 2>();
    __syncthreads();
    used = used == P::STAGES - 1 ? 0 : used + 1;
  }

  __device__ __forceinline__ const int4* a_tile() const { return tiles + used * T::STAGE; }
  __device__ __forceinline__ const int4* b_tile() const { return a_tile() + T::A_SIZE; }
};

// Accumulates `steps` k-steps from `first` on; ALIGNED if both operands begin at multiples of 16 bytes.
// `prefetch` starts the copies of epilogue operands once those of the first stages are in flight.
template <class P, bool ALIGNED, class Prefetch>
__device__ __forceinline__ void mainloop(Accumulators<P>& c, int4* tiles, const typename P::Element* a,
                                           const typename P::Element* b, int first, int steps, const Prefetch& prefetch) {
  using T = Tiles<P>;
  Pipeline<P, ALIGNED> pipeline(tiles, a, b, first, steps);
  prefetch();
  const int warp = threadIdx.x / 32, row = warp / T::COLUMNS * P::WM, column = warp % T::COLUMNS * P::WN;
  pipeline.advance();
  if constexpr (P::PRECISION == FP32) {
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
      pipeline.fill();
      multiply_simt<P>(c, pipeline.a_tile() + row * T::A_ROW, b_warp_tile<P>(pipeline.b_tile(), column));
      pipeline.advance();
    }
  } else {
    constexpr int COUNT = Fragments<P>::COUNT;
    static_assert(COUNT % 2 == 0);
    Fragments<P> fragments[2];
    const int place = a_offset_of<P>(row);
    fragments[0].load(pipeline.a_tile() + place, b_fragments<P>(pipeline.b_tile(), column), 0);
#pragma unroll 1
    for (int step = 0; step < steps; step++) {
#pragma unroll
      for (int k = 0; k < COUNT; k++) {
        if (k == COUNT - 1) pipeline.advance();
        fragments[(k + 1) % 2].load(pipeline.a_tile() + place, b_fragments<P>(pipeline.b_tile(), column),
                                    (k + 1) % COUNT);
        if (k == 0) pipeline.fill();
        fragments[k % 2].multiply(c);
      }
    }
  }
  cp_async_wait<0>();
  __syncthreads();
}

// The main loop of a tile whose halo is in shared memory; see halo.cuh.
template <class P, class Prefetch>
__device__ __forceinline__ void halo_mainloop(Accumulators<P>& c, int4* tiles, const typename P::Element* a,
                                                 const typename P::Element* b, int first, int steps, const Prefetch& prefetch);

// Computes this block's tile and passes each element to `store(z, m, n, value)`. With CLUSTER the
// blocks of the split-K slices are a cluster, and each stores its part of the total.
template <class P, class Store>
__device__ __forceinline__ void gemm(const typename P::Element* a, const typename P::Element* b,
                                         const Store& store) {
  DYNAMIC_SHARED;
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SLICE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  constexpr int CLUSTER_SIZE = P::CLUSTER ? P::SPLITS : 1;
  const int z = blockIdx.z / P::SPLITS, first = blockIdx.z % P::SPLITS * SLICE, steps = min(SLICE, STEPS - first);
  a += P::a_offset(z), b += P::b_offset(z);
  Accumulators<P> c = {};
  auto prefetch = [&]() { prefetch_epilogue<P, CLUSTER_SIZE, false>(shared, store); };
  if constexpr (P::HALO)
    halo_mainloop<P>(c, (int4*)shared, a, b, first, steps, prefetch);
  else if (P::ALIGNED || (((uint64_t)a | (uint64_t)b) & 15) == 0)
    mainloop<P, true>(c, (int4*)shared, a, b, first, steps, prefetch);
  else
    mainloop<P, false>(c, (int4*)shared, a, b, first, steps, prefetch);
  Overlap<P>::release();
  prefetch_epilogue<P, CLUSTER_SIZE, true>(shared, store);
  store_accumulators<P>(c, shared);
  store_tile<P, CLUSTER_SIZE>(shared, store);
}

// Writes the partial sum of a split-K slice to the workspace; `z` counts problems, then slices.
template <class P>
struct StorePartial {
  float* partials;
  __device__ __forceinline__ void operator()(int z, int m, int n, float value) const {
    const int slice = z % P::SPLITS, problem = z / P::SPLITS;
    partials[((int64_t)(slice * P::PROBLEMS + problem) * P::M + m) * P::N + n] = value;
  }
};

// Adds the split-K slices in order, one element per thread, and passes the total to `store`.
template <class P, class Store>
__device__ __forceinline__ void reduce_split_k(const float* partials, const Store& store) {
  constexpr int64_t COUNT = (int64_t)P::PROBLEMS * P::M * P::N;
  const int64_t index = (int64_t)blockIdx.x * blockDim.x + threadIdx.x;
  if (index >= COUNT) return;
  float total = 0;
#pragma unroll
  for (int slice = 0; slice < P::SPLITS; slice++) total += partials[slice * COUNT + index];
  store((int)(index / ((int64_t)P::M * P::N)) * P::SPLITS, (int)(index / P::N % P::M), (int)(index % P::N), total);
}
