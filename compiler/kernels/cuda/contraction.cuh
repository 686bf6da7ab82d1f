// Convolutions and matrix products as one tiled product C[m][n] = sum of A[m][k] * B[k][n] over k.
//
// A (weights, or the left matrix) is contiguous in k. B is the right matrix, or an image gathered
// on the fly: n counts output pixels, k counts taps and channels. Each block computes a BM x BN
// tile in steps of BK, with STAGES tiles in flight by asynchronous copies; each warp computes
// WM x WN of it in pieces of 16 x 8 with tensor cores (or plain multiply-adds for FP32). Thread
// `lane` holds rows lane / 4 (+ 8) and columns lane % 4 * 2 (+ 1) of each piece.
//
// Column q of a warp's piece j is column j / V * 8 * V + q * V + j % V of its tile, so that a
// thread's columns of V pieces lie beside each other in shared memory.
//
// `P` holds the constants of one problem and its index maps; see contraction.py.

template <class P>
struct Tiles {
  static constexpr bool HALF = P::PRECISION == FP16 || P::PRECISION == BF16;
  static constexpr int A_STRIDE = P::BK + 4, B_STRIDE = P::BN + 8, C_STRIDE = P::BN + 4;  // no bank conflicts
  static constexpr int A_SIZE = P::BM * A_STRIDE, STAGE = A_SIZE + P::BK * B_STRIDE;
  static constexpr int MT = P::WM / 16, NT = P::WN / 8, V = NT < 4 ? NT : 4;
  static constexpr int COLUMNS = P::BN / P::WN, THREADS = P::BM / P::WM * COLUMNS * 32;
};

// Loads column `q` of all pieces from a row of a warp's tile of B.
template <int NT>
__device__ __forceinline__ void load_columns(float (&to)[NT], const float* row, int q) {
  if constexpr (NT == 2) {
    const float2 pair = *(const float2*)(row + q * 2);
    to[0] = pair.x, to[1] = pair.y;
  } else {
#pragma unroll
    for (int j = 0; j < NT; j += 4) {
      const float4 four = *(const float4*)(row + j * 8 + q * 4);
      to[j] = four.x, to[j + 1] = four.y, to[j + 2] = four.z, to[j + 3] = four.w;
    }
  }
}

// Adds the products of one stage to a warp's pieces by plain multiply-adds.
template <class P>
__device__ __forceinline__ void multiply_exactly(float (&c)[Tiles<P>::MT][Tiles<P>::NT][4], const float* a,
                                                 const float* b) {
  using T = Tiles<P>;
  const int row = threadIdx.x % 32 / 4, place = threadIdx.x % 4;
#pragma unroll
  for (int k = 0; k < P::BK; k += 4) {
    float4 left[T::MT][2];
#pragma unroll
    for (int i = 0; i < T::MT * 2; i++) left[i / 2][i % 2] = *(const float4*)(a + (row + i * 8) * T::A_STRIDE + k);
#pragma unroll
    for (int s = 0; s < 4; s++) {
      float right[2][T::NT];
#pragma unroll
      for (int q = 0; q < 2; q++) load_columns(right[q], b + (k + s) * T::B_STRIDE, place * 2 + q);
#pragma unroll
      for (int j = 0; j < T::NT; j++)
#pragma unroll
        for (int i = 0; i < T::MT; i++)
#pragma unroll
          for (int r = 0; r < 4; r++) c[i][j][r] += (&left[i][r / 2].x)[s] * right[r % 2][j];
    }
  }
}

// Likewise by tensor cores. Where an operand takes two products of k, they are four k apart.
template <class P>
__device__ __forceinline__ void multiply_rounded(float (&c)[Tiles<P>::MT][Tiles<P>::NT][4], const float* a,
                                                 const float* b) {
  using T = Tiles<P>;
  constexpr int HALVES = T::HALF ? 2 : 1;
  const int lane = threadIdx.x % 32;
  a += lane % 16 * T::A_STRIDE + lane / 16 * 4;
#pragma unroll
  for (int k = 0; k < P::BK; k += 8 * HALVES) {
    float left[T::MT][HALVES][4], right[HALVES][2][T::NT];
    uint32_t x[T::MT][4], y[T::NT][2];
#pragma unroll
    for (int h = 0; h < HALVES; h++) {
#pragma unroll
      for (int i = 0; i < T::MT; i++) load_matrices(left[i][h], a + i * 16 * T::A_STRIDE + k + h * 8);
#pragma unroll
      for (int s = 0; s < 2; s++)
        load_columns(right[h][s], b + (k + h * 8 + s * 4 + lane % 4) * T::B_STRIDE, lane / 4);
    }
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
      for (int s = 0; s < 4; s++)
        if constexpr (T::HALF)
          x[i][s] = round_pair<P::PRECISION>(left[i][s / 2][s % 2], left[i][s / 2][s % 2 + 2]);
        else
          x[i][s] = round_tf32(left[i][0][s]);
#pragma unroll
    for (int j = 0; j < T::NT; j++)
#pragma unroll
      for (int s = 0; s < 2; s++)
        if constexpr (T::HALF)
          y[j][s] = round_pair<P::PRECISION>(right[s][0][j], right[s][1][j]);
        else
          y[j][s] = round_tf32(right[0][s][j]);
#pragma unroll
    for (int i = 0; i < T::MT; i++)
#pragma unroll
      for (int j = 0; j < T::NT; j++) multiply_add<P::PRECISION>(c[i][j], x[i], y[j]);
  }
}

// What a thread copies of A, WIDTH floats at a time. Each copy moves it on by one step.
template <class P, int WIDTH>
struct Left {
  using T = Tiles<P>;
  static constexpr int CHUNKS = P::BK / WIDTH, ROWS = T::THREADS / CHUNKS;
  const float* from;
  int place, rows, depth;

  __device__ __forceinline__ Left(const float* a, int m0, int k0) {
    const int row = threadIdx.x / CHUNKS, k = threadIdx.x % CHUNKS * WIDTH;
    from = a + (int64_t)(m0 + row) * P::A_ROW + k0 + k;
    place = row * T::A_STRIDE + k, rows = P::M - m0 - row, depth = P::A_ROW - k0 - k;
  }

  __device__ __forceinline__ void copy(float* tile) {
#pragma unroll
    for (int row = 0; row < P::BM; row += ROWS) {
      const bool valid = (P::M % P::BM == 0 || row < rows) && (P::A_ROW % P::BK == 0 || depth > 0);
      copy_floats<WIDTH>(tile + place + row * T::A_STRIDE, from + (int64_t)row * P::A_ROW, valid);
    }
    from += P::BK, depth -= P::BK;
  }
};

// The place in a plane that a tap reads for an output position; false in the padding.
template <class P>
__device__ __forceinline__ bool tap_place(int tap, const int (&at)[3], int& place) {
  const int taps[3] = {tap / (P::WINDOW(1) * P::WINDOW(2)), tap / P::WINDOW(2) % P::WINDOW(1), tap % P::WINDOW(2)};
  bool valid = true;
  place = 0;
#pragma unroll
  for (int axis = 0; axis < 3; axis++) {
    int position;
    if constexpr (P::TRANSPOSED) {
      position = at[axis] + P::PADS(axis) - taps[axis] * P::DILATIONS(axis);
      valid = valid && position >= 0 && position % P::STRIDES(axis) == 0;
      position /= P::STRIDES(axis);
    } else {
      position = at[axis] * P::STRIDES(axis) - P::PADS(axis) + taps[axis] * P::DILATIONS(axis);
    }
    valid = valid && position >= 0 && position < P::SOURCE(axis);
    place = place * P::SOURCE(axis) + position;
  }
  return valid;
}

// What a thread copies of B: one column (output pixel), or WIDTH columns that lie beside each other.
template <class P, int WIDTH>
struct Right {
  using T = Tiles<P>;
  static constexpr int CHUNKS = P::BN / WIDTH, ROWS = T::THREADS / CHUNKS;
  static constexpr bool ONE_TAP = P::TAPS == 1 || (P::TAP_MAJOR && P::ROW % P::BK == 0);  // in each step
  const float *image, *from;
  int place, row, k, channel, at[3];
  bool exists, inside;

  __device__ __forceinline__ Right(const float* b, int n0, int k0) {
    const int column = threadIdx.x % CHUNKS * WIDTH, n = n0 + column, pixel = n % P::PIXELS;
    row = threadIdx.x / CHUNKS, k = k0, place = row * T::B_STRIDE + column;
    at[0] = pixel / (P::RESULT(1) * P::RESULT(2));
    at[1] = pixel / P::RESULT(2) % P::RESULT(1);
    at[2] = pixel % P::RESULT(2);
    exists = n < P::N;
    image = b + (exists ? (int64_t)(n / P::PIXELS) * P::IMAGE : 0);
    if (ONE_TAP) seek(P::TAPS == 1 ? 0 : k / P::ROW, P::TAPS == 1 ? k : k % P::ROW);
  }

  // Goes to a channel of a tap.
  __device__ __forceinline__ void seek(int tap, int first) {
    int offset;
    inside = tap_place<P>(tap, at, offset) && exists;
    channel = first + row;
    from = image + (inside ? (int64_t)channel * P::PLANE + offset : 0);
  }

  __device__ __forceinline__ void copy(float* tile) {
    if constexpr (ONE_TAP)
      copy_tap(tile + place);
    else
      copy_taps(tile + place);
    k += P::BK;
  }

  __device__ __forceinline__ void copy_tap(float* tile) {
#pragma unroll
    for (int i = 0; i < P::BK; i += ROWS) {
      const bool valid = inside && (P::CHANNELS % P::BK == 0 || channel + i < P::CHANNELS);
      copy_floats<WIDTH>(tile + i * T::B_STRIDE, from + (int64_t)i * P::PLANE, valid);
    }
    channel += P::BK, from += (int64_t)P::BK * P::PLANE;
    if (P::TAPS > 1 && channel - row == P::ROW) seek(k / P::ROW + 1, 0);
  }

  __device__ __forceinline__ void copy_taps(float* tile) {
#pragma unroll 8
    for (int i = 0; i < P::BK; i += ROWS) {
      const int own = k + row + i;
      const int source = P::TAP_MAJOR ? own % P::ROW : own / P::TAPS;
      const int tap = P::TAP_MAJOR ? own / P::ROW : own % P::TAPS;
      int offset;
      const bool valid = tap_place<P>(tap, at, offset) && exists && source < P::CHANNELS && tap < P::TAPS;
      copy_floats<WIDTH>(tile + i * T::B_STRIDE, image + (valid ? (int64_t)source * P::PLANE + offset : 0), valid);
    }
  }
};

// Adds up `steps` steps from `first` on; ALIGNED when both operands start at multiples of 16 bytes.
template <class P, bool ALIGNED>
__device__ __forceinline__ void accumulate(float (&c)[Tiles<P>::MT][Tiles<P>::NT][4], float* tiles, const float* a,
                                           const float* b, int first, int steps) {
  using T = Tiles<P>;
  Left<P, ALIGNED && P::A_ROW % 4 == 0 ? 4 : 1> left(a, blockIdx.y * P::BM, first * P::BK);
  Right<P, ALIGNED && P::CONTIGUOUS ? 4 : 1> right(b, blockIdx.x * P::BN, first * P::BK);
  auto copy = [&](int step) {
    float* tile = tiles + step % P::STAGES * T::STAGE;
    if (step < steps) left.copy(tile), right.copy(tile + T::A_SIZE);
    copies_commit();
  };
  const int warp = threadIdx.x / 32, row = warp / T::COLUMNS * P::WM, column = warp % T::COLUMNS * P::WN;
#pragma unroll 1
  for (int step = 0; step < P::STAGES - 1; step++) copy(step);
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
    copies_wait<P::STAGES - 2>();
    __syncthreads();
    copy(step + P::STAGES - 1);
    const float* tile = tiles + step % P::STAGES * T::STAGE;
    if constexpr (P::PRECISION == FP32)
      multiply_exactly<P>(c, tile + row * T::A_STRIDE, tile + T::A_SIZE + column);
    else
      multiply_rounded<P>(c, tile + row * T::A_STRIDE, tile + T::A_SIZE + column);
  }
  copies_wait<0>();
  __syncthreads();
}

// Lays a warp's pieces out in the block's tile, row by row.
template <class P>
__device__ __forceinline__ void spread(const float (&c)[Tiles<P>::MT][Tiles<P>::NT][4], float* tile) {
  using T = Tiles<P>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  tile += (warp / T::COLUMNS * P::WM + lane / 4) * T::C_STRIDE + warp % T::COLUMNS * P::WN;
#pragma unroll
  for (int i = 0; i < T::MT; i++)
#pragma unroll
    for (int j = 0; j < T::NT; j += T::V)
#pragma unroll
      for (int s = 0; s < 4; s++) {
        float* to = tile + (i * 16 + s / 2 * 8) * T::C_STRIDE + j * 8 + (lane % 4 * 2 + s % 2) * T::V;
        if constexpr (T::V == 4)
          *(float4*)to = float4{c[i][j][s], c[i][j + 1][s], c[i][j + 2][s], c[i][j + 3][s]};
        else
          *(float2*)to = float2{c[i][j][s], c[i][j + 1][s]};
      }
  __syncthreads();
}

// Computes this block's tile and hands each element to `store(z, m, n, value)`, columns side by side.
// With CLUSTER the blocks that share k are a cluster, and each stores its part of the total's rows.
template <class P, class Store>
__device__ __forceinline__ void contract(const float* a, const float* b, const Store& store) {
  using T = Tiles<P>;
  DYNAMIC_SHARED;
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SHARE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  const int z = blockIdx.z / P::SPLITS, first = blockIdx.z % P::SPLITS * SHARE, steps = min(SHARE, STEPS - first);
  a += P::a_offset(z), b += P::b_offset(z);
  float c[T::MT][T::NT][4] = {};
  if ((P::A_ROW % 4 == 0 || P::CONTIGUOUS) && (((uint64_t)a | (uint64_t)b) & 15) == 0)
    accumulate<P, true>(c, shared, a, b, first, steps);
  else
    accumulate<P, false>(c, shared, a, b, first, steps);
  spread<P>(c, shared);
  const int row = threadIdx.x / P::BN, column = threadIdx.x % P::BN;
  const int m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
  const int rows = P::M % P::BM == 0 ? P::BM : min(P::BM, P::M - m);
  constexpr int PARTS = P::CLUSTER ? P::SPLITS : 1, ROWS = T::THREADS / P::BN;
  if (PARTS > 1) cluster_wait();
#pragma unroll 8
  for (int i = blockIdx.z % PARTS * ROWS; i < rows && n < P::N; i += PARTS * ROWS) {
    const float* own = shared + (row + i) * T::C_STRIDE + column;
    float total = PARTS == 1 ? *own : peer_float(own, 0);
#pragma unroll
    for (int part = 1; part < PARTS; part++) total += peer_float(own, part);
    store(blockIdx.z, m + i, n, total);
  }
  if (PARTS > 1) cluster_wait();
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
