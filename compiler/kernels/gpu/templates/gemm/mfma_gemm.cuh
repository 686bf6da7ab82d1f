// The tiles of gemm.cuh on AMD's matrix cores (MFMA): wavefronts of 64 lanes, tiles of 16 x 16.
//
// A lane reads one chunk of 16 bytes along k of row (or column) lane % 16 of each MFMA tile: chunk
// lane / 16 of every four. So the k of one MFMA are not contiguous in memory, but the same in A and B.
// See mfma.cuh for the results that a lane holds.

template <class P>
struct MfmaTiles {
  using T = Tiles<P>;
  using Element = typename P::Element;
  static_assert(P::LANES == 64);
  static constexpr int MT = P::WM / 16, NT = P::WN / 16, STEPS_OF_STAGE = T::CHUNKS / 4;
  static constexpr int WORDS = P::PRECISION == FP32 ? 1 : 2;                       // of an operand
  static constexpr int MMAS = P::PRECISION == FP32 ? 4 : sizeof(Element) == 4 ? 1 : 2;  // of a chunk
};

template <class P>
using MfmaAccumulators = float[MfmaTiles<P>::MT][MfmaTiles<P>::NT][4];

// The fragments of all MFMAs of one chunk.
template <class P>
using Operand = uint32_t[MfmaTiles<P>::MMAS][MfmaTiles<P>::WORDS];

// Rounds a chunk as it was loaded.
template <class P>
__device__ __forceinline__ void to_operand(Operand<P>& to, const uint32_t (&chunk)[4]) {
  constexpr int WORDS = MfmaTiles<P>::WORDS;
#pragma unroll
  for (int i = 0; i < MfmaTiles<P>::MMAS * WORDS; i++)
    if constexpr (MfmaTiles<P>::MMAS == 1)
      to[0][i] = round_pair<P::PRECISION>(chunk[i * 2], chunk[i * 2 + 1]);
    else
      to[i / WORDS][i % WORDS] = chunk[i];
}

template <class P>
__device__ __forceinline__ void load_chunk(Operand<P>& to, const int4* from) {
  const int4 four = *from;
  const uint32_t chunk[4] = {(uint32_t)four.x, (uint32_t)four.y, (uint32_t)four.z, (uint32_t)four.w};
  to_operand<P>(to, chunk);
}

// A chunk along k of one column of rows along n.
template <class P>
__device__ __forceinline__ void load_column(Operand<P>& to, const typename P::Element* from) {
  using T = Tiles<P>;
  uint32_t chunk[4];
#pragma unroll
  for (int i = 0; i < 4; i++)
    if constexpr (sizeof(typename P::Element) == 4)
      chunk[i] = __float_as_uint(from[i * T::LINE]);
    else
      chunk[i] = (uint32_t)from[i * 2 * T::LINE] | (uint32_t)from[(i * 2 + 1) * T::LINE] << 16;
  to_operand<P>(to, chunk);
}

// Accumulates one stage.
template <class P>
__device__ __forceinline__ void multiply_stage(MfmaAccumulators<P>& c, const int4* a, const int4* b, int row, int column) {
  using T = Tiles<P>;
  using W = MfmaTiles<P>;
  const int lane_row = threadIdx.x % 16, quarter = threadIdx.x % 64 / 16;
#pragma unroll
  for (int step = 0; step < W::STEPS_OF_STAGE; step++) {
    const int chunk = step * 4 + quarter;
    Operand<P> left[W::MT], right[W::NT];
#pragma unroll
    for (int i = 0; i < W::MT; i++) load_chunk<P>(left[i], a + (row + i * 16 + lane_row) * T::A_ROW + chunk * T::A_NEXT);
#pragma unroll
    for (int j = 0; j < W::NT; j++) {
      const int n = column + j * 16 + lane_row;
      if constexpr (P::FORM == LINES)
        load_column<P>(right[j], (const typename P::Element*)b + chunk * T::CHUNK * T::LINE + n);
      else
        load_chunk<P>(right[j], b + n * T::B_ROW + chunk * T::B_NEXT);
    }
#pragma unroll
    for (int k = 0; k < W::MMAS; k++)
#pragma unroll
      for (int i = 0; i < W::MT; i++)
#pragma unroll
        for (int j = 0; j < W::NT; j++) mfma<P::PRECISION>(c[i][j], left[i][k], right[j][k]);
  }
}

// The first row and column of this wavefront's part of the block's tile.
template <class P>
__device__ __forceinline__ int wave_row() { return threadIdx.x / 64 / Tiles<P>::COLUMNS * P::WM; }
template <class P>
__device__ __forceinline__ int wave_column() { return threadIdx.x / 64 % Tiles<P>::COLUMNS * P::WN; }

// As `mainloop`.
template <class P, bool ALIGNED>
__device__ __forceinline__ void mfma_mainloop(MfmaAccumulators<P>& c, int4* tiles, const typename P::Element* a,
                                                 const typename P::Element* b, int first, int steps) {
  Pipeline<P, ALIGNED> pipeline(tiles, a, b, first, steps);
  pipeline.advance();
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
    pipeline.fill();
    multiply_stage<P>(c, pipeline.a_tile(), pipeline.b_tile(), wave_row<P>(), wave_column<P>());
    pipeline.advance();
  }
  cp_async_wait<0>();
  __syncthreads();
}

// As `store_accumulators`.
template <class P>
__device__ __forceinline__ void store_mfma_accumulators(const MfmaAccumulators<P>& c, float* tile) {
  using T = Tiles<P>;
  const int row = wave_row<P>() + threadIdx.x % 64 / 16 * 4, column = wave_column<P>() + threadIdx.x % 16;
#pragma unroll
  for (int i = 0; i < MfmaTiles<P>::MT; i++)
#pragma unroll
    for (int j = 0; j < MfmaTiles<P>::NT; j++)
#pragma unroll
      for (int s = 0; s < 4; s++) {
        const int m = row + i * 16 + s, n = column + j * 16;
        tile[T::BY_PIXEL ? n * T::C_STRIDE + m : m * T::C_STRIDE + n] = c[i][j][s];
      }
  prefetch_wait<P>();
  __syncthreads();
}

// As `gemm`.
template <class P, class Store>
__device__ __forceinline__ void mfma_gemm(const typename P::Element* a, const typename P::Element* b,
                                               const Store& store) {
  DYNAMIC_SHARED;
  static_assert(!P::CLUSTER);
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SLICE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  const int z = blockIdx.z / P::SPLITS, first = blockIdx.z % P::SPLITS * SLICE, steps = min(SLICE, STEPS - first);
  a += P::a_offset(z), b += P::b_offset(z);
  MfmaAccumulators<P> c = {};
  prefetch_epilogue<P, 1, false>(shared, store);
  if (P::ALIGNED || (((uint64_t)a | (uint64_t)b) & 15) == 0)
    mfma_mainloop<P, true>(c, (int4*)shared, a, b, first, steps);
  else
    mfma_mainloop<P, false>(c, (int4*)shared, a, b, first, steps);
  prefetch_epilogue<P, 1, true>(shared, store);
  store_mfma_accumulators<P>(c, shared);
  store_tile<P, 1>(shared, store);
}
