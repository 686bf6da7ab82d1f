// A few rows multiplied by a matrix of packed integers of four bits, which is read once.
//
// Weights come in chunks of 256 along k. Eight lanes share a chunk of a column: a lane loads 16 bytes,
// the weights of four consecutive k of each of eight runs of 32, so that the eight lanes read a run of A
// together. A warp has 4 * COLUMNS columns, the warps of a block take every WARPS-th chunk, and their
// sums are added in shared memory, in a fixed order.
//
// `P` is as in gemm.cuh, `W` (FourBits<P>) holds the constants of the weights; see four_bits.py.

template <class P>
struct FourBits;

// Integer `place` of a word less its zero point. In the mantissa of 2^23 it is scaled by 16^place, which
// one multiply-add undoes; the last three places are moved down first, where they fit.
template <bool EXACT>
__device__ __forceinline__ float unpacked(uint32_t word, int place, float zero) {
  const uint32_t from = place < 5 ? word : word >> 20;
  const int shift = 4 * (place < 5 ? place : place - 5);
  const float number = __uint_as_float((from & 15u << shift) | 0x4b000000u), unit = 1.0f / (float)(1 << shift);
  if constexpr (EXACT) return fmaf(number, unit, -(8388608.0f * unit + zero));  // an integer: the sum is exact
  return fmaf(number, unit, -8388608.0f * unit) - zero;
}

// Four consecutive elements of a row of A; zeros after its end.
template <class P, bool ALIGNED, class Element>
__device__ __forceinline__ void load_four(const Element* row, int k, float (&to)[4]) {
  constexpr bool WHOLE = P::K % 256 == 0;
  if (ALIGNED && P::K % 4 == 0) {
    if (!WHOLE && k >= P::K) {
      to[0] = to[1] = to[2] = to[3] = 0;
      return;
    }
    const Block<Element, 4> four = *(const Block<Element, 4>*)(row + k);
#pragma unroll
    for (int j = 0; j < 4; j++) to[j] = (float)four.at[j];
  } else {
#pragma unroll
    for (int j = 0; j < 4; j++) to[j] = WHOLE || k + j < P::K ? (float)row[k + j] : 0.0f;
  }
}

// The matmuls of one chunk of a lane's columns, added to `sums`.
template <class P, bool ALIGNED, class Element, class Zero>
__device__ __forceinline__ void multiply_chunk(const Element* a, const uint4 (&words)[FourBits<P>::COLUMNS],
                                               const float* const (&scales)[FourBits<P>::COLUMNS],
                                               const Zero* const (&zeros)[FourBits<P>::COLUMNS], int chunk,
                                               float (&sums)[P::M][FourBits<P>::COLUMNS]) {
  using W = FourBits<P>;
  const int lane = threadIdx.x % 8 * 4;
  constexpr int RUNS = W::BLOCK < 32 ? 1 : W::BLOCK / 32;  // runs of 32 with one scale
#pragma unroll
  for (int first = 0; first < 8; first += RUNS) {
    const int block = (chunk * 256 + first * 32 + (W::BLOCK < 32 ? lane : 0)) / W::BLOCK;
    float parts[P::M][W::COLUMNS] = {}, zero[W::COLUMNS];
#pragma unroll
    for (int c = 0; c < W::COLUMNS; c++) zero[c] = W::ZEROS ? (float)zeros[c][block] : 8.0f;
#pragma unroll
    for (int run = first; run < first + RUNS; run++) {
      float x[P::M][4];
#pragma unroll
      for (int m = 0; m < P::M; m++) load_four<P, ALIGNED>(a + (int64_t)m * P::A_ROW, chunk * 256 + run * 32 + lane, x[m]);
#pragma unroll
      for (int c = 0; c < W::COLUMNS; c++) {
        const uint32_t word = run < 2 ? words[c].x : run < 4 ? words[c].y : run < 6 ? words[c].z : words[c].w;
#pragma unroll
        for (int j = 0; j < 4; j++) {
          const float weight = unpacked<W::EXACT>(word, run % 2 * 4 + j, zero[c]);
#pragma unroll
          for (int m = 0; m < P::M; m++) parts[m][c] += x[m][j] * weight;
        }
      }
    }
#pragma unroll
    for (int c = 0; c < W::COLUMNS; c++) {
      const float scale = scales[c][block];
#pragma unroll
      for (int m = 0; m < P::M; m++) sums[m][c] += scale * parts[m][c];
    }
  }
}

template <class P, bool ALIGNED, class Element, class Zero>
__device__ __forceinline__ void multiply_column(const Element* a, const uint8_t* b, const float* scales,
                                                const Zero* zeros, float (&sums)[P::M][FourBits<P>::COLUMNS]) {
  using W = FourBits<P>;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  const float* own_scales[W::COLUMNS];
  const Zero* own_zeros[W::COLUMNS];
  const uint4* own[W::COLUMNS];
#pragma unroll
  for (int c = 0; c < W::COLUMNS; c++) {
    const int wanted = blockIdx.x * 4 * W::COLUMNS + c * 4 + lane / 8, n = wanted < P::N ? wanted : P::N - 1;
    own[c] = (const uint4*)b + (int64_t)n * W::CHUNKS * 8 + lane % 8;
    own_scales[c] = scales + (int64_t)n * W::SCALE_ROW, own_zeros[c] = zeros + (int64_t)n * W::ZERO_ROW;
  }
#pragma unroll 2
  for (int chunk = warp; chunk < W::CHUNKS; chunk += W::WARPS) {
    uint4 words[W::COLUMNS];
#pragma unroll
    for (int c = 0; c < W::COLUMNS; c++) words[c] = own[c][chunk * 8];
    multiply_chunk<P, ALIGNED>(a, words, own_scales, own_zeros, chunk, sums);
  }
}

template <class P, class Element, class Zero, class Store>
__device__ __forceinline__ void four_bit_gemv(const Element* a, const uint8_t* b, const float* scales,
                                              const Zero* zeros, const Store& store) {
  using W = FourBits<P>;
  __shared__ float parts[W::WARPS][P::M][4 * W::COLUMNS];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  float sums[P::M][W::COLUMNS] = {};
  if ((uint64_t)a % (4 * sizeof(Element)) == 0 && P::A_ROW % 4 == 0)
    multiply_column<P, true>(a, b, scales, zeros, sums);
  else
    multiply_column<P, false>(a, b, scales, zeros, sums);
#pragma unroll
  for (int m = 0; m < P::M; m++)
#pragma unroll
    for (int c = 0; c < W::COLUMNS; c++) {
#pragma unroll
      for (int other = 4; other > 0; other /= 2) sums[m][c] += __shfl_sync(~0u, sums[m][c], lane ^ other);
      if (lane % 8 == 0) parts[warp][m][c * 4 + lane / 8] = sums[m][c];
    }
  __syncthreads();
  for (int i = threadIdx.x; i < P::M * 4 * W::COLUMNS; i += 32 * W::WARPS) {
    const int m = i / (4 * W::COLUMNS), column = i % (4 * W::COLUMNS), n = blockIdx.x * 4 * W::COLUMNS + column;
    float total = 0;
#pragma unroll
    for (int w = 0; w < W::WARPS; w++) total += parts[w][m][column];
    if (n < P::N) store(0, m, n, total);
  }
}
