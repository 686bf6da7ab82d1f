// Implicit GEMM with the halo in shared memory: each pixel is copied once for all filter taps.
//
// With stride 1 and as many output pixels as input pixels, tap t of pixel n is offset(t) pixels after
// its first tap, for every n; in memory the pixels of a channel block are contiguous. So a tile of BN
// pixels reads these and the halo that its taps reach on either side. It is copied once for the channels
// of a k-step, and the k-steps of all taps follow. For a tap in the padding, `ldmatrix` is given the
// address of zeros.

template <class P>
struct Halo {
  using T = Tiles<P>;
  using Element = typename P::Element;
  static constexpr int LEFT = (P::PADS(0) * P::SOURCE(1) + P::PADS(1)) * P::SOURCE(2) + P::PADS(2);
  static constexpr int PIXELS = P::BN + Taps<P>::offset(P::TAPS - 1);
  static constexpr int SIZE = PIXELS * T::CHUNKS;  // chunks
  static constexpr int BEGIN = P::STAGES * T::A_SIZE, ZEROS = BEGIN + 2 * SIZE;
  static_assert(P::STAGES - 1 <= P::TAPS && P::CHANNELS % P::BK == 0);
  const Element* from;
  int first;

  __device__ __forceinline__ Halo(const Element* b, int n0, int block) {
    first = n0 - LEFT + (int)threadIdx.x;
    from = b + ((int64_t)block * T::CHUNKS * P::PLANE + first) * T::CHUNK;
  }

  // Starts the copies of the next k-step's channels.
  __device__ __forceinline__ void copy(int4* halo) {
#pragma unroll
    for (int p = 0; p < PIXELS; p += T::THREADS) {
      const bool mine = p + T::THREADS <= PIXELS || p + (int)threadIdx.x < PIXELS;
      const bool valid = mine && (unsigned)(first + p) < P::N;
#pragma unroll
      for (int i = 0; i < T::CHUNKS; i++) {
        const Element* place = from + ((int64_t)i * P::PLANE + p) * T::CHUNK;
        if (mine) copy_chunk<false>(halo + i * PIXELS + p + threadIdx.x, valid ? place : from - first * T::CHUNK, valid);
      }
    }
    from += (int64_t)T::CHUNKS * P::PLANE * T::CHUNK;
  }
};

// The addresses of this lane's `ldmatrix` rows for one tap.
template <class P>
struct HaloRows {
  using T = Tiles<P>;
  using Bits = typename Mask<(P::TAPS > 32)>::Type;
  Bits masks[T::NT / 2];
  int column;
  const int4* places[T::NT / 2];
  int next[T::NT / 2];

  __device__ __forceinline__ HaloRows(int first) {
    const int lane = threadIdx.x % 32;
    column = first + lane % 8 + lane / 16 * 8;
#pragma unroll
    for (int j = 0; j < T::NT / 2; j++) {
      const int n = blockIdx.x * P::BN + column + j * 16;
      masks[j] = Taps<P>(n % P::PIXELS, n < P::N).mask;
    }
  }

  __device__ __forceinline__ void seek(const int4* halo, const int4* zeros, int tap) {
    const int4* own = halo + threadIdx.x % 32 / 8 % 2 * Halo<P>::PIXELS + column + Taps<P>::offset(tap);
#pragma unroll
    for (int j = 0; j < T::NT / 2; j++) {
      const bool inside = (masks[j] >> tap & 1) != 0;
      places[j] = inside ? own + j * 16 : zeros, next[j] = inside ? Halo<P>::PIXELS : 0;
    }
  }
};

template <class P>
__device__ __forceinline__ const int4* b_row(const HaloRows<P>& rows, int j, int chunk) {
  return rows.places[j / 2] + chunk * rows.next[j / 2];
}

// As `mainloop`. Halos are double-buffered: since STAGES - 1 <= TAPS, the one that is overwritten is
// no longer read.
template <class P, class Prefetch>
__device__ __forceinline__ void halo_mainloop(Accumulators<P>& c, int4* tiles, const typename P::Element* a,
                                                 const typename P::Element* b, int first, int steps, const Prefetch& prefetch) {
  using T = Tiles<P>;
  using Pixels = Halo<P>;
  constexpr int COUNT = Fragments<P>::COUNT;
  RowCopies<P, P::BM, P::M, P::A_ROW, true> left(a, blockIdx.y * P::BM, first * P::BK);
  Pixels image(b, blockIdx.x * P::BN, first / P::TAPS);
  int4 *const halos = tiles + Pixels::BEGIN, *const zeros = tiles + Pixels::ZEROS;
  int filled = 0, filled_tap = first % P::TAPS, filled_halo = 0, rest = steps;
  bool begun = false;
  auto fill = [&]() {
    if (rest-- > 0) {
      left.copy(tiles + filled * T::A_SIZE);
      if (filled_tap == 0 || !begun) image.copy(halos + filled_halo * Pixels::SIZE), filled_halo ^= 1, begun = true;
      if (++filled_tap == P::TAPS) filled_tap = 0;
    }
    cp_async_fence();
    filled = filled == P::STAGES - 1 ? 0 : filled + 1;
  };
#pragma unroll 1
  for (int step = 0; step < P::STAGES - 1; step++) fill();
  if (threadIdx.x == 0) *zeros = int4{0, 0, 0, 0};
  prefetch();
  const int warp = threadIdx.x / 32, place = a_offset_of<P>(warp / T::COLUMNS * P::WM);
  HaloRows<P> rows(warp % T::COLUMNS * P::WN);
  int used = -1, tap = first % P::TAPS - 1, halo = 0;
  auto advance = [&]() {
    cp_async_wait<P::STAGES - 2>();
    __syncthreads();
    used = used == P::STAGES - 1 ? 0 : used + 1;
    if (++tap == P::TAPS) tap = 0, halo ^= 1;
    rows.seek(halos + halo * Pixels::SIZE, zeros, tap);
  };
  Fragments<P> fragments[2];
  advance();
  fragments[0].load(tiles + used * T::A_SIZE + place, rows, 0);
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
#pragma unroll
    for (int k = 0; k < COUNT; k++) {
      if (k == COUNT - 1) advance();
      fragments[(k + 1) % 2].load(tiles + used * T::A_SIZE + place, rows, (k + 1) % COUNT);
      if (k == 0) fill();
      fragments[k % 2].multiply(c);
    }
  }
  cp_async_wait<0>();
  __syncthreads();
}
