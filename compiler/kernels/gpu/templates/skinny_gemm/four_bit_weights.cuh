// Weights of four bits with a scale for each BLOCK along k, as skinny_gemm.cuh reads them.
//
// A chunk has two runs of 32 along k of 16 columns. A word of a lane has the eight integers of a
// fragment: those of register r are in bits 4 r and 4 r + 16. Moved to the upper bits of the mantissa of
// 16, they are 16 more, exactly. That and the zero points are taken off the sums of a block, for which
// an MMA by ones adds its rows of A. Rows of floats are multiplied as TERMS numbers of 16 bits each.

template <class P>
struct FourBitWeights {
  using S = Skinny<P>;
  using T = SkinnyShape<P>;
  static constexpr bool HALF = S::MULTIPLIED == FP16;
  static constexpr int SCALES = S::BLOCK < 64 ? 2 : 1, BLOCKS = S::BLOCK < 64 ? 1 : S::BLOCK / 64;  // a chunk's, and chunks of one
  static constexpr uint32_t ONES = HALF ? 0x3c003c00u : 0x3f803f80u;
  using Scales = Block<float, 2 * SCALES>;
  using Zeros = Block<typename S::Zeros, 2 * SCALES>;
  uint4 at[S::TILES];
  Scales scales[S::TILES];
  Zeros zeros[S::TILES];

  // Where a lane's weights of a chunk are, and those of its columns' scales of the first one.
  struct Place {
    const uint4* at[S::TILES];
    const Scales* scales[S::TILES];
    const Zeros* zeros[S::TILES];
    int chunk;
    __device__ __forceinline__ Place(const S& weights, int chunk) : chunk(chunk) {
      const int lane = threadIdx.x % 32;
#pragma unroll
      for (int t = 0; t < S::TILES; t++) {
        const int64_t tile = skinny_tile<P>(t), row = tile * (S::SCALE_ROW / SCALES) * 8 + lane / 4;
        at[t] = (const uint4*)weights.b + (tile * S::CHUNKS + chunk) * 32 + lane;
        scales[t] = (const Scales*)weights.scales + row, zeros[t] = (const Zeros*)weights.zeros + row;
      }
    }
  };

  // Scales or zero points of a chunk, before a wait where they fill 16 bytes.
  template <class T>
  static __device__ __forceinline__ T load_early(const T* from) {
    T own;
    if constexpr (sizeof(T) == 16) {
      const uint4 words = load_weights((const uint4*)from);
      memcpy(&own, &words, sizeof own);
    } else {
      own = *from;
    }
    return own;
  }

  // Loads those `step` chunks further, if they are `valid`, else zeros.
  __device__ __forceinline__ void load(const Place& place, int step, bool valid) {
    const int block = (place.chunk + step) / BLOCKS * 8;
#pragma unroll
    for (int t = 0; t < S::TILES; t++) {
      at[t] = uint4{0, 0, 0, 0}, scales[t] = Scales{}, zeros[t] = Zeros{};
      if (valid) {
        at[t] = load_weights(place.at[t] + step * 32);
        scales[t] = load_early(place.scales[t] + block);
        if (S::ZEROS) zeros[t] = load_early(place.zeros[t] + block);
      }
    }
  }

  // The eight integers of a word, and 16, as a fragment.
  static __device__ __forceinline__ void unpack(uint32_t word, uint32_t (&to)[4]) {
    constexpr int PLACE = HALF ? 6 : 3;  // of the upper four bits of the mantissa
    constexpr uint32_t MASK = 0x000f000fu << PLACE, SIXTEEN = HALF ? 0x4c004c00u : 0x41804180u;
#pragma unroll
    for (int r = 0; r < 4; r++) {
      const int shift = PLACE - 4 * r;
      to[r] = ((shift < 0 ? word >> -shift : word << shift) & MASK) | SIXTEEN;
    }
  }

  // Fragment `f` of a run of a lane's row: the numbers themselves, or one of the terms of floats.
  static __device__ __forceinline__ void fragment(const uint4 (&row)[T::VECTORS], int run, int f, int term, uint32_t (&to)[2]) {
    if constexpr (sizeof(typename P::Element) == 2) {
      to[0] = f == 0 ? row[run].x : row[run].z, to[1] = f == 0 ? row[run].y : row[run].w;
    } else {
      const uint4 four = row[run * 2 + f];
      const uint32_t words[4] = {four.x, four.y, four.z, four.w};
#pragma unroll
      for (int s = 0; s < 2; s++) {
        uint32_t low = words[s * 2], high = words[s * 2 + 1];
        to[s] = round_pair<S::MULTIPLIED>(low, high);
        if (term == 1) {
          low = __float_as_uint(__uint_as_float(low) - __uint_as_float(to[s] << 16));
          high = __float_as_uint(__uint_as_float(high) - __uint_as_float(to[s] & 0xffff0000u));
          to[s] = round_pair<S::MULTIPLIED>(low, high);
        }
      }
    }
  }

  __device__ __forceinline__ void multiply(SkinnySums<P>& sums, const SkinnyRows<P>& rows) const {
    constexpr int RUNS = 2 / SCALES;  // of one scale
    const uint32_t ones[4] = {ONES, ONES, ONES, ONES};
#pragma unroll
    for (int scale = 0; scale < SCALES; scale++) {
      SkinnySums<P> dots = {};
      float totals[T::ROW_TILES][4] = {};
#pragma unroll
      for (int part = 0; part < RUNS * 2; part++) {
        const int run = scale * RUNS + part / 2, f = part % 2;
        uint32_t left[S::TILES][4];
#pragma unroll
        for (int t = 0; t < S::TILES; t++) unpack(run == 0 ? (f == 0 ? at[t].x : at[t].y) : (f == 0 ? at[t].z : at[t].w), left[t]);
#pragma unroll
        for (int i = 0; i < T::ROW_TILES; i++)
#pragma unroll
          for (int term = 0; term < S::TERMS; term++) {
            uint32_t right[2];
            fragment(rows.at[i], run, f, term, right);
            mma<S::MULTIPLIED>(totals[i], ones, right);
#pragma unroll
            for (int t = 0; t < S::TILES; t++) mma<S::MULTIPLIED>(dots[t][i], left[t], right);
          }
      }
#pragma unroll
      for (int t = 0; t < S::TILES; t++)
#pragma unroll
        for (int i = 0; i < T::ROW_TILES; i++)
#pragma unroll
          for (int s = 0; s < 4; s++) {
            const int place = s / 2 * SCALES + scale;
            const float zero = 16.0f + (S::ZEROS ? (float)zeros[t].at[place] : 8.0f);
            sums[t][i][s] += scales[t].at[place] * (dots[t][i][s] - zero * totals[i][s]);
          }
    }
  }
};
