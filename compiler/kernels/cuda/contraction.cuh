// Convolutions and matrix products as one tiled product C[m][n] = sum of A[m][k] * B[k][n] over k.
//
// A (weights, or the left matrix) is contiguous in k. B is the right matrix, or an image gathered
// on the fly: n counts output pixels, k counts taps and channels. Each block computes a BM x BN
// tile in steps of BK, with STAGES tiles in flight by asynchronous copies; each warp computes
// WM x WN of it with tensor cores (or plain multiply-adds for FP32). Thread `lane` holds rows
// lane / 4 (+ 8) and columns lane % 4 * 2 (+ 1) of each 16 x 8 piece, whatever the precision.
//
// `P` holds the constants of one problem and its index maps; see contraction.py.

template <class P>
struct Tiles {
  static constexpr bool HALF = P::PRECISION == FP16 || P::PRECISION == BF16;
  static constexpr int A_STRIDE = P::BK + (HALF ? 8 : 4);               // no bank conflicts
  static constexpr int B_STRIDE = P::BN + (P::PRECISION == TF32 ? 8 : 4);  // likewise
  static constexpr int A_SIZE = P::BM * A_STRIDE, B_SIZE = P::BK * B_STRIDE;
  static constexpr int MT = P::WM / 16, NT = P::WN / 8;
  static constexpr int COLUMNS = P::BN / P::WN, THREADS = P::BM / P::WM * COLUMNS * 32;
};

// Adds the products of one stage to a warp's pieces.
template <class P>
__device__ __forceinline__ void multiply_stage(float (&c)[Tiles<P>::MT][Tiles<P>::NT][4], const float* a,
                                               const float* b) {
  using T = Tiles<P>;
  const int row = threadIdx.x % 32 / 4, place = threadIdx.x % 4;
  if constexpr (P::PRECISION == FP32) {
#pragma unroll
    for (int k = 0; k < P::BK; k += 4) {
      float4 left[T::MT][2];
#pragma unroll
      for (int i = 0; i < T::MT * 2; i++) left[i / 2][i % 2] = *(const float4*)(a + (row + i * 8) * T::A_STRIDE + k);
#pragma unroll
      for (int s = 0; s < 4; s++)
#pragma unroll
        for (int j = 0; j < T::NT; j++) {
          const float2 right = *(const float2*)(b + (k + s) * T::B_STRIDE + j * 8 + place * 2);
#pragma unroll
          for (int i = 0; i < T::MT; i++) {
            const float upper = (&left[i][0].x)[s], lower = (&left[i][1].x)[s];
            c[i][j][0] += upper * right.x, c[i][j][1] += upper * right.y;
            c[i][j][2] += lower * right.x, c[i][j][3] += lower * right.y;
          }
        }
    }
  } else if constexpr (P::PRECISION == TF32) {
#pragma unroll
    for (int k = 0; k < P::BK; k += 8) {
      uint32_t left[T::MT][4], right[T::NT][2];
#pragma unroll
      for (int i = 0; i < T::MT; i++)
#pragma unroll
        for (int s = 0; s < 4; s++)
          left[i][s] = round_tf32(a[(i * 16 + row + s % 2 * 8) * T::A_STRIDE + k + place + s / 2 * 4]);
#pragma unroll
      for (int j = 0; j < T::NT; j++)
#pragma unroll
        for (int s = 0; s < 2; s++) right[j][s] = round_tf32(b[(k + place + s * 4) * T::B_STRIDE + j * 8 + row]);
#pragma unroll
      for (int i = 0; i < T::MT; i++)
#pragma unroll
        for (int j = 0; j < T::NT; j++) multiply_add<TF32>(c[i][j], left[i], right[j]);
    }
  } else {
#pragma unroll
    for (int k = 0; k < P::BK; k += 16) {
      uint32_t left[T::MT][4], right[T::NT][2];
#pragma unroll
      for (int i = 0; i < T::MT; i++)
#pragma unroll
        for (int s = 0; s < 4; s++) {
          const float2 pair =
              *(const float2*)(a + (i * 16 + row + s % 2 * 8) * T::A_STRIDE + k + place * 2 + s / 2 * 8);
          left[i][s] = round_pair<P::PRECISION>(pair.x, pair.y);
        }
#pragma unroll
      for (int j = 0; j < T::NT; j++)
#pragma unroll
        for (int s = 0; s < 2; s++) {
          const float* column = b + (k + place * 2 + s * 8) * T::B_STRIDE + j * 8 + row;
          right[j][s] = round_pair<P::PRECISION>(column[0], column[T::B_STRIDE]);
        }
#pragma unroll
      for (int i = 0; i < T::MT; i++)
#pragma unroll
        for (int j = 0; j < T::NT; j++) multiply_add<P::PRECISION>(c[i][j], left[i], right[j]);
    }
  }
}

// Copies the tile of A at row `m0` and step `k0`; `wide` when its rows start at multiples of 16 bytes.
template <class P>
__device__ __forceinline__ void copy_a(float* tile, const float* a, int m0, int k0, bool wide) {
  using T = Tiles<P>;
  if (P::A_ROW % 4 == 0 && wide) {
    constexpr int CHUNKS = P::BK / 4;
#pragma unroll
    for (int i = threadIdx.x; i < P::BM * CHUNKS; i += T::THREADS) {
      const int row = i / CHUNKS, k = i % CHUNKS * 4;
      const bool valid = m0 + row < P::M && k0 + k < P::A_ROW;
      copy_float4(tile + row * T::A_STRIDE + k, valid ? a + (int64_t)(m0 + row) * P::A_ROW + k0 + k : a, valid);
    }
  } else {
#pragma unroll 4
    for (int i = threadIdx.x; i < P::BM * P::BK; i += T::THREADS) {
      const int row = i / P::BK, k = i % P::BK;
      const bool valid = m0 + row < P::M && k0 + k < P::A_ROW;
      copy_float(tile + row * T::A_STRIDE + k, valid ? a + (int64_t)(m0 + row) * P::A_ROW + k0 + k : a, valid);
    }
  }
}

// Copies the tile of a matrix B, or of an image that is read pixel by pixel, four columns at a time.
template <class P>
__device__ __forceinline__ void copy_b_wide(float* tile, const float* b, int n0, int k0) {
  using T = Tiles<P>;
  constexpr int CHUNKS = P::BN / 4;
  const int n = n0 + threadIdx.x % CHUNKS * 4;
  const float* column = b + (int64_t)(n / P::PIXELS) * P::IMAGE + n % P::PIXELS;
#pragma unroll
  for (int i = threadIdx.x; i < P::BK * CHUNKS; i += T::THREADS) {
    const int row = i / CHUNKS;
    const bool valid = n < P::N && k0 + row < P::CHANNELS;
    copy_float4(tile + row * T::B_STRIDE + i % CHUNKS * 4, valid ? column + (int64_t)(k0 + row) * P::PLANE : b, valid);
  }
}

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

// The output pixel that a thread gathers, which stays the same for all steps.
template <class P>
struct Pixel {
  int column, at[3];
  const float* image;
  bool exists;

  __device__ __forceinline__ Pixel(const float* b, int n0) {
    column = threadIdx.x % P::BN;
    const int n = n0 + column, pixel = n % P::PIXELS;
    at[0] = pixel / (P::RESULT(1) * P::RESULT(2));
    at[1] = pixel / P::RESULT(2) % P::RESULT(1);
    at[2] = pixel % P::RESULT(2);
    exists = n < P::N;
    image = exists ? b + (int64_t)(n / P::PIXELS) * P::IMAGE : b;
  }
};

// Gathers the tile of an image: every thread has one column (output pixel) and every few rows.
template <class P>
__device__ __forceinline__ void copy_b_gather(float* tile, const Pixel<P>& pixel, int k0) {
  using T = Tiles<P>;
  constexpr int ROWS = T::THREADS / P::BN;
  const int first = threadIdx.x / P::BN;
  tile += first * T::B_STRIDE + pixel.column;
  int place = 0;
  if constexpr (P::TAP_MAJOR && P::ROW % P::BK == 0) {  // one tap for the whole step
    const bool inside = tap_place<P>(k0 / P::ROW, pixel.at, place) && pixel.exists;
    const int channel = k0 % P::ROW + first;
    const float* from = pixel.image + (inside ? (int64_t)channel * P::PLANE + place : 0);
#pragma unroll
    for (int row = 0; row < P::BK; row += ROWS, from += ROWS * P::PLANE) {
      const bool valid = inside && (P::ROW == P::CHANNELS || channel + row < P::CHANNELS);
      copy_float(tile + row * T::B_STRIDE, valid ? from : pixel.image, valid);
    }
  } else {
#pragma unroll 8
    for (int row = 0; row < P::BK; row += ROWS) {
      const int k = k0 + first + row;
      const int channel = P::TAP_MAJOR ? k % P::ROW : k / P::TAPS;
      const int tap = P::TAP_MAJOR ? k / P::ROW : k % P::TAPS;
      bool valid = tap_place<P>(tap, pixel.at, place) && pixel.exists;
      valid = valid && channel < P::CHANNELS && tap < P::TAPS;
      const float* from = pixel.image + (valid ? (int64_t)channel * P::PLANE + place : 0);
      copy_float(tile + row * T::B_STRIDE, from, valid);
    }
  }
}

// Computes this block's tile and hands each element to `store(z, m, n, value)`.
template <class P, class Store>
__device__ __forceinline__ void contract(const float* a, const float* b, const Store& store) {
  using T = Tiles<P>;
  DYNAMIC_SHARED;
  const int n0 = blockIdx.x * P::BN, m0 = blockIdx.y * P::BM, z = blockIdx.z / P::SPLITS;
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SHARE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  const int first = blockIdx.z % P::SPLITS * SHARE;
  const int steps = min(SHARE, STEPS - first);
  a += P::a_offset(z), b += P::b_offset(z);
  const bool a_wide = ((uint64_t)a & 15) == 0, b_wide = ((uint64_t)b & 15) == 0;
  const Pixel<P> pixel(b, n0);
  auto copy = [&](int step) {
    float* tile = shared + step % P::STAGES * (T::A_SIZE + T::B_SIZE);
    const int k0 = (first + step) * P::BK;
    if (step < steps) {
      copy_a<P>(tile, a, m0, k0, a_wide);
      if (P::CONTIGUOUS && b_wide)
        copy_b_wide<P>(tile + T::A_SIZE, b, n0, k0);
      else
        copy_b_gather<P>(tile + T::A_SIZE, pixel, k0);
    }
    copies_commit();
  };
  float c[T::MT][T::NT][4] = {};
  const int warp = threadIdx.x / 32, m1 = warp / T::COLUMNS * P::WM, n1 = warp % T::COLUMNS * P::WN;
#pragma unroll
  for (int step = 0; step < P::STAGES - 1; step++) copy(step);
  for (int step = 0; step < steps; step++) {
    copies_wait<P::STAGES - 2>();
    __syncthreads();
    copy(step + P::STAGES - 1);
    const float* tile = shared + step % P::STAGES * (T::A_SIZE + T::B_SIZE);
    multiply_stage<P>(c, tile + m1 * T::A_STRIDE, tile + T::A_SIZE + n1);
  }
  copies_wait<0>();
  const int lane = threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < T::MT; i++)
#pragma unroll
    for (int j = 0; j < T::NT; j++)
#pragma unroll
      for (int s = 0; s < 4; s++) {
        const int m = m0 + m1 + i * 16 + lane / 4 + s / 2 * 8, n = n0 + n1 + j * 8 + lane % 4 * 2 + s % 2;
        if (m < P::M && n < P::N) store(blockIdx.z, m, n, c[i][j][s]);
      }
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
