// Tiles of convolutions whose results lie as their images do: each pixel is copied once for all taps.
//
// With stride 1 and as many results as pixels, tap t of pixel n lies offset(t) pixels behind its first
// tap, whatever n is, in memory that is one line of pixels for each block of channels. So the window of
// a whole tile is a line of BN pixels and those that its taps reach to either side: a patch. It is
// copied once for the channels of a step, whose weights follow tap by tap. Pixels that a tap finds
// outside the image are on the line, too, as others; `ldmatrix` is given a row of zeros instead.

template <class P>
struct Patch {
  using T = Tiles<P>;
  using Element = typename P::Element;
  static constexpr int LEFT = (P::PADS(0) * P::SOURCE(1) + P::PADS(1)) * P::SOURCE(2) + P::PADS(2);
  static constexpr int PIXELS = P::BN + Taps<P>::offset(P::TAPS - 1);
  static constexpr int SIZE = PIXELS * T::CHUNKS;  // chunks
  static constexpr int BEGIN = P::STAGES * T::A_SIZE, ZEROS = BEGIN + 2 * SIZE;
  static_assert(P::STAGES - 1 <= P::TAPS && P::CHANNELS % P::BK == 0);
  const Element* from;
  int first;

  __device__ __forceinline__ Patch(const Element* b, int n0, int block) {
    first = n0 - LEFT + (int)threadIdx.x;
    from = b + ((int64_t)block * T::CHUNKS * P::PLANE + first) * T::CHUNK;
  }

  // Starts the copies of the channels of the next step.
  __device__ __forceinline__ void copy(int4* patch) {
#pragma unroll
    for (int p = 0; p < PIXELS; p += T::THREADS) {
      const bool mine = p + T::THREADS <= PIXELS || p + (int)threadIdx.x < PIXELS;
      const bool valid = mine && (unsigned)(first + p) < P::N;
#pragma unroll
      for (int i = 0; i < T::CHUNKS; i++) {
        const Element* place = from + ((int64_t)i * P::PLANE + p) * T::CHUNK;
        if (mine) copy_chunk<false>(patch + i * PIXELS + p + threadIdx.x, valid ? place : from - first * T::CHUNK, valid);
      }
    }
    from += (int64_t)T::CHUNKS * P::PLANE * T::CHUNK;
  }
};

// Where this thread's `ldmatrix` rows of a warp's columns lie for one tap.
template <class P>
struct PatchRows {
  using T = Tiles<P>;
  using Bits = typename Mask<(P::TAPS > 32)>::Type;
  Bits masks[T::NT / 2];
  int column;
  const int4* places[T::NT / 2];
  int next[T::NT / 2];

  __device__ __forceinline__ PatchRows(int first) {
    const int lane = threadIdx.x % 32;
    column = first + lane % 8 + lane / 16 * 8;
#pragma unroll
    for (int j = 0; j < T::NT / 2; j++) {
      const int n = blockIdx.x * P::BN + column + j * 16;
      masks[j] = Taps<P>(n % P::PIXELS, n < P::N).mask;
    }
  }

  __device__ __forceinline__ void seek(const int4* patch, const int4* zeros, int tap) {
    const int4* own = patch + threadIdx.x % 32 / 8 % 2 * Patch<P>::PIXELS + column + Taps<P>::offset(tap);
#pragma unroll
    for (int j = 0; j < T::NT / 2; j++) {
      const bool inside = (masks[j] >> tap & 1) != 0;
      places[j] = inside ? own + j * 16 : zeros, next[j] = inside ? Patch<P>::PIXELS : 0;
    }
  }
};

template <class P>
__device__ __forceinline__ const int4* right_row(const PatchRows<P>& rows, int j, int chunk) {
  return rows.places[j / 2] + chunk * rows.next[j / 2];
}

// As `accumulate`. A patch takes the place of the one before the last, which STAGES - 1 <= TAPS steps
// ahead is not read any more.
template <class P, class Fetch>
__device__ __forceinline__ void accumulate_patch(Sums<P>& c, int4* tiles, const typename P::Element* a,
                                                 const typename P::Element* b, int first, int steps, const Fetch& fetch) {
  using T = Tiles<P>;
  using Image = Patch<P>;
  constexpr int COUNT = Fragments<P>::COUNT;
  RowCopies<P, P::BM, P::M, P::A_ROW, true> left(a, blockIdx.y * P::BM, first * P::BK);
  Image image(b, blockIdx.x * P::BN, first / P::TAPS);
  int4 *const patches = tiles + Image::BEGIN, *const zeros = tiles + Image::ZEROS;
  int filled = 0, filled_tap = first % P::TAPS, filled_patch = 0, rest = steps;
  bool begun = false;
  auto fill = [&]() {
    if (rest-- > 0) {
      left.copy(tiles + filled * T::A_SIZE);
      if (filled_tap == 0 || !begun) image.copy(patches + filled_patch * Image::SIZE), filled_patch ^= 1, begun = true;
      if (++filled_tap == P::TAPS) filled_tap = 0;
    }
    copies_commit();
    filled = filled == P::STAGES - 1 ? 0 : filled + 1;
  };
#pragma unroll 1
  for (int step = 0; step < P::STAGES - 1; step++) fill();
  if (threadIdx.x == 0) *zeros = int4{0, 0, 0, 0};
  fetch();
  const int warp = threadIdx.x / 32, place = left_place<P>(warp / T::COLUMNS * P::WM);
  PatchRows<P> rows(warp % T::COLUMNS * P::WN);
  int used = -1, tap = first % P::TAPS - 1, patch = 0;
  auto advance = [&]() {
    copies_wait<P::STAGES - 2>();
    __syncthreads();
    used = used == P::STAGES - 1 ? 0 : used + 1;
    if (++tap == P::TAPS) tap = 0, patch ^= 1;
    rows.seek(patches + patch * Image::SIZE, zeros, tap);
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
  copies_wait<0>();
  __syncthreads();
}
