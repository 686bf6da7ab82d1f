// GEMM and implicit-GEMM convolution of bytes with sums in int32, or in float of float8s: the tiles and the pipeline of gemm.cuh,
// whose 16-byte chunks hold 16 values of k. Fragments of an MMA with a k of 32 have the bytes of one of
// 16 bits with a k of 16.
//
// Sums in int32 pass through the epilogue of results.cuh as floats of the same bits: it moves them only.

// The kinds of a problem's bytes, the type of its sums, and the zero point of the operand besides the weights, which is
// subtracted times the sum of a row of weights. These follow the weights, SUMS bytes from their start.
template <class P>
struct Bytes;

template <class P>
using ByteSums = typename Bytes<P>::Sum[Tiles<P>::MT][Tiles<P>::NT][4];

template <class P>
__device__ __forceinline__ void multiply_bytes(ByteSums<P>& c, const Fragments<P>& fragments) {
  using T = Tiles<P>;
#pragma unroll
  for (int i = 0; i < T::MT; i++)
#pragma unroll
    for (int j = 0; j < T::NT; j++)
      mma_bytes<Bytes<P>::A_KIND, Bytes<P>::B_KIND>(c[i][j], fragments.a[i][0], fragments.b[j][0]);
}

// MMAs of float8s round their sums to fewer bits than a float has: those of a k-step are added in float.
__device__ __forceinline__ void add_coarse(int&, int&) {}
__device__ __forceinline__ void add_coarse(float& total, float& part) { total += part, part = 0; }

// Adds sums of float8s to the totals, and clears them; sums of integers are the totals.
template <class P>
__device__ __forceinline__ void add_sums(ByteSums<P>& c, ByteSums<P>& part) {
#pragma unroll
  for (int i = 0; i < Tiles<P>::MT; i++)
#pragma unroll
    for (int j = 0; j < Tiles<P>::NT; j++)
#pragma unroll
      for (int s = 0; s < 4; s++) add_coarse(c[i][j][s], part[i][j][s]);
}

// As `mainloop`.
template <class P, bool ALIGNED, class Prefetch>
__device__ __forceinline__ void byte_mainloop(ByteSums<P>& c, int4* tiles, const uint8_t* a, const uint8_t* b,
                                              const Prefetch& prefetch) {
  using T = Tiles<P>;
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, COUNT = Fragments<P>::COUNT;
  constexpr bool FLOATS = Bytes<P>::A_KIND >= E4M3;
  static_assert(COUNT % 2 == 0 && P::FORM != LINES && P::SPLITS == 1);
  Pipeline<P, ALIGNED> pipeline(tiles, a, b, 0, STEPS);
  prefetch();
  const int warp = threadIdx.x / 32, column = warp % T::COLUMNS * P::WN;
  const int place = a_offset_of<P>(warp / T::COLUMNS * P::WM);
  pipeline.advance();
  Fragments<P> fragments[2];
  fragments[0].load(pipeline.a_tile() + place, b_fragments<P>(pipeline.b_tile(), column), 0);
  int rest = STEPS;
  ByteSums<P> sums = {};
  ByteSums<P>& part = FLOATS ? sums : c;
#pragma unroll 1
  do {
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      if (k == COUNT - 1) pipeline.advance();
      fragments[(k + 1) % 2].load(pipeline.a_tile() + place, b_fragments<P>(pipeline.b_tile(), column), (k + 1) % COUNT);
      if (k == 0) pipeline.fill();
      multiply_bytes<P>(part, fragments[k % 2]);
    }
    if (FLOATS) add_sums<P>(c, part);
  } while (STEPS > 1 && --rest > 0);
  cp_async_wait<0>();
  __syncthreads();
}

// Subtracts the zero point's share: `sums` are those of this problem's rows of weights, which are A's
// rows (WEIGHTS == OPERAND_A) or B's columns.
template <class P>
__device__ __forceinline__ void subtract_zero_point(ByteSums<P>& c, const int* sums) {
  using T = Tiles<P>;
  const int warp = threadIdx.x / 32, lane = threadIdx.x % 32;
  const int row = blockIdx.y * P::BM + warp / T::COLUMNS * P::WM + lane / 4;
  const int column = blockIdx.x * P::BN + warp % T::COLUMNS * P::WN + lane % 4 * 2;
  constexpr bool BY_ROW = Bytes<P>::WEIGHTS == OPERAND_A;
#pragma unroll
  for (int i = 0; i < (BY_ROW ? T::MT : T::NT) * 2; i++) {
    const int at = BY_ROW ? row + i * 8 : column + i / 2 * 8 + i % 2;
    const int share = at < (BY_ROW ? P::M : P::N) ? Bytes<P>::ZERO_POINT * sums[at] : 0;
#pragma unroll
    for (int j = 0; j < (BY_ROW ? T::NT : T::MT); j++)
#pragma unroll
      for (int s = 0; s < 2; s++) {
        if (BY_ROW)
          c[i / 2][j][i % 2 * 2 + s] -= share;
        else
          c[j][i / 2][s * 2 + i % 2] -= share;
      }
  }
}

__device__ __forceinline__ float as_bits(int sum) { return __int_as_float(sum); }
__device__ __forceinline__ float as_bits(float sum) { return sum; }

// Computes this block's tile; see `gemm`.
template <class P, class Store>
__device__ __forceinline__ void byte_gemm(const uint8_t* a, const uint8_t* b, const Store& store) {
  DYNAMIC_SHARED;
  const int z = blockIdx.z;
  const int* sums = (const int*)((Bytes<P>::WEIGHTS == OPERAND_A ? a : b) + Bytes<P>::SUMS) + z * P::M;
  a += P::a_offset(z), b += P::b_offset(z);
  ByteSums<P> c = {};
  auto prefetch = [&]() { prefetch_epilogue<P, 1, false>(shared, store); };
  if (P::ALIGNED || (((uint64_t)a | (uint64_t)b) & 15) == 0)
    byte_mainloop<P, true>(c, (int4*)shared, a, b, prefetch);
  else
    byte_mainloop<P, false>(c, (int4*)shared, a, b, prefetch);
  Overlap<P>::release();
  prefetch_epilogue<P, 1, true>(shared, store);
  if constexpr (Bytes<P>::ZERO_POINT != 0) subtract_zero_point<P>(c, sums);
  Accumulators<P> bits;
#pragma unroll
  for (int i = 0; i < Tiles<P>::MT; i++)
#pragma unroll
    for (int j = 0; j < Tiles<P>::NT; j++)
#pragma unroll
      for (int s = 0; s < 4; s++) bits[i][j][s] = as_bits(c[i][j][s]);
  store_accumulators<P>(bits, shared);
  store_tile<P, 1>(shared, store);
}
