// Copies of a block's tiles of A and B to shared memory, one k-step at a time.
//
// Where memory allows it, a tile is kept in chunks of 16 bytes along k: as ROWS (a matrix contiguous in
// k, padded by one chunk per row), or as BLOCKS (an NCHWc image, (batch, channels / block, pixel,
// block): for each chunk of channels the pixels next to each other). `ldmatrix` reads both without bank
// conflicts. Any other B is kept as LINES: one row along n for each k.
//
// `P` holds the constants and index maps of one problem; see emit.py.

enum Form { LINES, ROWS, BLOCKS };

template <bool WIDE>
struct Mask {
  typedef uint32_t Type;
};
template <>
struct Mask<true> {
  typedef uint64_t Type;
};

template <class P>
struct Tiles {
  using Element = typename P::Element;
  static constexpr int CHUNK = 16 / sizeof(Element), CHUNKS = P::BK / CHUNK;
  static constexpr int LINE = P::BN + 8;                              // elements of a row along n
  static constexpr int A_ROW = CHUNKS + 1, B_ROW = P::FORM == ROWS ? CHUNKS + 1 : 1;  // chunks
  static constexpr int A_NEXT = 1, B_NEXT = P::FORM == ROWS ? 1 : P::BN;
  static constexpr int A_SIZE = P::BM * A_ROW;
  static constexpr int B_SIZE = P::FORM == ROWS ? P::BN * B_ROW : P::FORM == BLOCKS ? P::BN * CHUNKS : P::BK * LINE / CHUNK;
  static constexpr int STAGE = A_SIZE + B_SIZE;
  static constexpr int MT = P::WM / 16, NT = P::WN / 8, COLUMNS = P::BN / P::WN;
  static constexpr int THREADS = P::BM / P::WM * COLUMNS * P::LANES;
  // Column q of a warp's MMA tile j is column j / V * 8 * V + q * V + j % V of its tile, so that a lane
  // loads V MMA tiles from a row of floats at once.
  static constexpr int V = P::FORM != LINES || sizeof(Element) == 2 || P::LANES == 64 ? 1 : NT < 4 ? NT : 4;
  static constexpr bool BY_PIXEL = P::OUT_BLOCK > 0;  // the layout of the result in shared memory
  static constexpr int C_STRIDE = BY_PIXEL ? P::BM + 4 : P::BN + (V == 1 ? 8 : 4);
};

// The largest power of two that divides all numbers whose bits are BITS.
template <int BITS>
struct Divisor {
  static constexpr int VALUE = BITS & -BITS;
};

// Elements that a thread copies at once along rows whose first begins at a multiple of 16 bytes, if ALIGNED:
// 16, 8 or 4 bytes that divide the rows and their distance, else one element.
template <class P, int STRIDE, bool ALIGNED>
struct CopyWidth {
  static constexpr int COMMON = Divisor<(STRIDE | P::K | Tiles<P>::CHUNK)>::VALUE;
  static constexpr int VALUE = ALIGNED && COMMON * sizeof(typename P::Element) >= 4 ? COMMON : 1;
};

// Copies `to(i)` from `from(i, valid)` for each i, or zeros. What is too short for cp.async passes through
// registers: all loads come before the first store, as a load that follows a store waits for the last load.
template <class Element, int WIDTH, int COUNT, class To, class From>
__device__ __forceinline__ void copy_all(const To& to, const From& from) {
  constexpr int BYTES = WIDTH * sizeof(Element), BATCH = BYTES < 4 && COUNT > 32 ? 32 : COUNT;
  if constexpr (BYTES < 4) {
#pragma unroll
    for (int first = 0; first < COUNT; first += BATCH) {
      Element held[BATCH];
#pragma unroll
      for (int i = 0; i < BATCH; i++) {
        bool valid = first + i < COUNT;
        const Element* place = from(first + i, valid);
        held[i] = valid ? *place : Element(0);
      }
#pragma unroll
      for (int i = 0; i < BATCH; i++)
        if (first + i < COUNT) copy_element(to(first + i), held + i, true);
    }
  } else {
#pragma unroll
    for (int i = 0; i < COUNT; i++) {
      bool valid = true;
      const Element* place = from(i, valid);
      copy_bytes<BYTES>(to(i), place, valid);
    }
  }
}

// One thread's copies of a matrix that is contiguous in k.
template <class P, int HEIGHT, int COUNT, int STRIDE, bool ALIGNED>
struct RowCopies {
  using T = Tiles<P>;
  using Element = typename P::Element;
  static constexpr int WIDTH = CopyWidth<P, STRIDE, ALIGNED>::VALUE, PARTS = P::BK / WIDTH, PASS = T::THREADS / PARTS;
  static constexpr int ROW = T::A_ROW * T::CHUNK;
  const Element* from;
  int place, rows, depth;

  __device__ __forceinline__ RowCopies(const Element* matrix, int first, int k0) {
    const int row = threadIdx.x / PARTS, k = threadIdx.x % PARTS * WIDTH;
    from = matrix + (int64_t)(first + row) * STRIDE + k0 + k;
    place = row * ROW + k, rows = COUNT - first - row, depth = P::K - k0 - k;
  }

  __device__ __forceinline__ void copy(int4* tile) {
    Element* own = (Element*)tile + place;
    if (PASS <= HEIGHT || threadIdx.x / PARTS < HEIGHT)
      copy_all<Element, WIDTH, PASS <= HEIGHT ? HEIGHT / PASS : 1>(
          [&](int i) { return own + i * PASS * ROW; },
          [&](int i, bool& valid) {
            valid &= (COUNT % HEIGHT == 0 || i * PASS < rows) && (P::K % P::BK == 0 || depth > 0);
            return from + (int64_t)(i * PASS) * STRIDE;
          });
    from += P::BK, depth -= P::BK;
  }
};

// The pixel of a plane that a tap reads for an output position; false in the padding.
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

// The output position of a pixel.
template <class P>
__device__ __forceinline__ void pixel_position(int pixel, int (&at)[3]) {
  at[0] = pixel / (P::RESULT(1) * P::RESULT(2));
  at[1] = pixel / P::RESULT(2) % P::RESULT(1);
  at[2] = pixel % P::RESULT(2);
}

// The taps of one output pixel that are inside the image, and where they read.
template <class P>
struct Taps {
  using Bits = typename Mask<(P::TAPS > 32)>::Type;
  Bits mask;
  int corner, at[3];

  __device__ __forceinline__ Taps(int pixel, bool exists) {
    pixel_position<P>(pixel, at);
    tap_place<P>(0, at, corner);
    mask = 0;
    if constexpr (P::TAPS <= 64)
#pragma unroll
      for (int tap = 0; tap < P::TAPS; tap++) {
        int place;
        mask |= (Bits)(tap_place<P>(tap, at, place) && exists) << tap;
      }
    else if (!exists)
      at[0] = -(1 << 20);
  }

  // The distance of a convolution's tap from its first one, in pixels.
  static __device__ constexpr int offset(int tap) {
    const int rest = P::WINDOW(1) * P::WINDOW(2), plane = P::SOURCE(1) * P::SOURCE(2);
    return tap / rest * (P::DILATIONS(0) * plane) +
           tap / P::WINDOW(2) % P::WINDOW(1) * (P::DILATIONS(1) * P::SOURCE(2)) + tap % P::WINDOW(2) * P::DILATIONS(2);
  }

  __device__ __forceinline__ bool inside(int tap) const { return (mask >> tap & 1) != 0; }

  __device__ __forceinline__ bool locate(int tap, int& place) const {
    if constexpr (P::TRANSPOSED || P::TAPS > 64) {
      const bool valid = tap_place<P>(tap, at, place);
      return P::TAPS > 64 ? valid : inside(tap);
    }
    place = corner + offset(tap);
    return inside(tap);
  }
};

// One thread's copies of an NCHWc image: chunks of one pixel. Where a k-step has one tap, the taps are
// innermost in k, so that L1 serves most of them.
template <class P>
struct BlockCopies {
  using T = Tiles<P>;
  using Element = typename P::Element;
  static constexpr int PASS = T::THREADS / P::BN, BLOCKS = P::CHANNELS / T::CHUNK;
  static constexpr bool ONE_TAP = P::TAPS == 1 || P::CHANNELS % P::BK == 0;  // per k-step
  static constexpr int RUN = Divisor<(BLOCKS | T::CHUNKS)>::VALUE;           // adjacent chunks of one tap
  static_assert(T::THREADS % P::BN == 0 && T::CHUNKS % PASS == 0 && P::CHANNELS % T::CHUNK == 0);
  const Element *image, *from;
  Taps<P> taps;
  int line, column, next, tap;  // next chunk of k
  bool inside;

  __device__ __forceinline__ BlockCopies(const Element* b, int n0, int k0)
      : taps((n0 + threadIdx.x % P::BN) % P::PIXELS, n0 + threadIdx.x % P::BN < P::N) {
    line = threadIdx.x / P::BN, column = threadIdx.x % P::BN, next = k0 / T::CHUNK;
    const int n = n0 + column;
    image = b + (n < P::N ? (int64_t)(n / P::PIXELS) * P::IMAGE : 0);
    if constexpr (ONE_TAP) {
      tap = k0 / P::BK % P::TAPS, next = k0 / (P::BK * P::TAPS) * T::CHUNKS;
      seek();
    }
  }

  // Moves to the next tap and chunk.
  __device__ __forceinline__ void seek() {
    int place;
    inside = taps.locate(tap, place);
    from = image + (inside ? ((int64_t)(next + line) * P::PLANE + place) * T::CHUNK : 0);
  }

  __device__ __forceinline__ void copy(int4* tile) {
    tile += line * P::BN + column;
    if constexpr (ONE_TAP)
      copy_tap(tile);
    else if constexpr (RUN % PASS == 0)
      copy_runs(tile);
    else
      copy_taps(tile);
  }

  __device__ __forceinline__ void copy_tap(int4* tile) {
#pragma unroll
    for (int i = 0; i < T::CHUNKS; i += PASS) {
      const bool valid = inside && (P::CHANNELS % P::BK == 0 || next + line + i < BLOCKS);
      copy_chunk<(P::TAPS > 1)>(tile + i * P::BN, valid ? from + (int64_t)i * P::PLANE * T::CHUNK : image, valid);
    }
    if constexpr (P::TAPS == 1) {
      next += T::CHUNKS, from += (int64_t)T::CHUNKS * P::PLANE * T::CHUNK;
    } else {
      if (++tap == P::TAPS) tap = 0, next += T::CHUNKS;
      seek();
    }
  }

  // Finds the tap of each run once.
  __device__ __forceinline__ void copy_runs(int4* tile) {
#pragma unroll
    for (int run = 0; run < T::CHUNKS; run += RUN) {
      const int own = (next + run) / BLOCKS, block = (next + run) % BLOCKS + line;
      int place;
      const bool valid = taps.locate(own, place) && own < P::TAPS;
      const Element* start = image + (valid ? ((int64_t)block * P::PLANE + place) * T::CHUNK : 0);
#pragma unroll
      for (int i = 0; i < RUN; i += PASS)
        copy_chunk<true>(tile + (run + i) * P::BN, valid ? start + (int64_t)i * P::PLANE * T::CHUNK : image, valid);
    }
    next += T::CHUNKS;
  }

  __device__ __forceinline__ void copy_taps(int4* tile) {
#pragma unroll
    for (int i = 0; i < T::CHUNKS; i += PASS) {
      const int chunk = next + line + i;
      int place;
      const bool valid = taps.locate(chunk / BLOCKS, place) && chunk < P::TAPS * BLOCKS;
      const Element* block = image + ((int64_t)(chunk % BLOCKS) * P::PLANE + place) * T::CHUNK;
      copy_chunk<true>(tile + i * P::BN, valid ? block : image, valid);
    }
    next += T::CHUNKS;
  }
};

// One thread's copies of rows along n: one column (a pixel of an NCHW image, or a column of a matrix
// that is contiguous in n), or as many adjacent columns as 16 bytes hold.
template <class P, bool WIDE>
struct LineCopies {
  using T = Tiles<P>;
  using Element = typename P::Element;
  static constexpr int WIDTH = WIDE ? T::CHUNK : 1, PARTS = P::BN / WIDTH, PASS = T::THREADS / PARTS;
  static constexpr bool ONE_TAP = P::TAPS == 1 || (P::TAP_MAJOR && P::ROW % P::BK == 0);  // per k-step
  static constexpr int RUN = P::TAP_MAJOR ? Divisor<(P::ROW | P::BK)>::VALUE : 1;  // adjacent k of one tap
  static constexpr bool RUNS = !ONE_TAP && RUN % PASS == 0 && RUN > PASS;
  static constexpr bool TABLE = !ONE_TAP && !RUNS && P::TAPS <= 64 && P::K <= P::TABLE_DEPTH && !P::TRANSPOSED;
  const Element *image, *from;
  const int2* table;  // for each k its offset and its tap
  Taps<P> taps;
  int place, row, k, channel;
  bool exists, inside;

  __device__ __forceinline__ LineCopies(const Element* b, int n0, int k0)
      : taps((n0 + threadIdx.x % PARTS * WIDTH) % P::PIXELS, n0 + threadIdx.x % PARTS * WIDTH < P::N) {
    const int column = threadIdx.x % PARTS * WIDTH, n = n0 + column;
    row = threadIdx.x / PARTS, k = k0, place = row * T::LINE + column;
    exists = n < P::N;
    image = b + (exists ? (int64_t)(n / P::PIXELS) * P::IMAGE : 0);
    if (ONE_TAP) seek(P::TAPS == 1 ? 0 : k / P::ROW, P::TAPS == 1 ? k : k % P::ROW);
    if constexpr (TABLE) tabulate();
  }

  static __device__ __forceinline__ bool split(int own, int& source, int& tap) {
    source = P::TAP_MAJOR ? own % P::ROW : own / P::TAPS;
    tap = P::TAP_MAJOR ? own / P::ROW : own % P::TAPS;
    return source < P::CHANNELS && tap < P::TAPS;
  }

  __device__ __forceinline__ void tabulate() {
    __shared__ int2 entries[P::K];
    for (int own = threadIdx.x; own < P::K; own += T::THREADS) {
      int source, tap;
      const bool valid = split(own, source, tap);
      entries[own] = int2{source * P::PLANE + Taps<P>::offset(tap), valid ? tap : 64};
    }
    __syncthreads();
    table = entries, image += taps.corner;
  }

  // Moves to a channel of a tap.
  __device__ __forceinline__ void seek(int tap, int first) {
    int offset;
    inside = taps.locate(tap, offset);
    channel = first + row;
    from = image + (inside ? (int64_t)channel * P::PLANE + offset : 0);
  }

  __device__ __forceinline__ void copy(int4* tile) {
    if constexpr (ONE_TAP)
      copy_tap((Element*)tile + place);
    else if constexpr (RUNS)
      copy_runs((Element*)tile + place);
    else
      copy_taps((Element*)tile + place);
    k += P::BK;
  }

  __device__ __forceinline__ void copy_tap(Element* to) {
    copy_all<Element, WIDTH, P::BK / PASS>(
        [&](int i) { return to + i * PASS * T::LINE; },
        [&](int i, bool& valid) {
          valid &= inside && (P::CHANNELS % P::BK == 0 || channel + i * PASS < P::CHANNELS);
          return valid ? from + (int64_t)(i * PASS) * P::PLANE : image;
        });
    channel += P::BK, from += (int64_t)P::BK * P::PLANE;
    if (P::TAPS > 1 && channel - row == P::ROW && k + P::BK < P::K) seek(k / P::ROW + 1, 0);
  }

  // Finds the tap of each run once.
  __device__ __forceinline__ void copy_runs(Element* to) {
    const Element* starts[P::BK / RUN];
    int channels[P::BK / RUN];
#pragma unroll
    for (int run = 0; run < P::BK / RUN; run++) {
      int first, tap, offset;
      const bool valid = split(k + run * RUN, first, tap) && taps.locate(tap, offset);
      channels[run] = valid ? first + row : P::CHANNELS;
      starts[run] = valid ? image + (int64_t)(first + row) * P::PLANE + offset : image;
    }
    copy_all<Element, WIDTH, P::BK / PASS>(
        [&](int i) { return to + i * PASS * T::LINE; },
        [&](int i, bool& valid) {
          const int run = i * PASS / RUN, next = i * PASS % RUN;
          valid &= channels[run] + next < P::CHANNELS;
          return valid ? starts[run] + (int64_t)next * P::PLANE : image;
        });
  }

  // Finds the places of several elements before it copies them: a look-up waits for the copies before it.
  __device__ __forceinline__ void copy_taps(Element* to) {
    constexpr int COUNT = P::BK / PASS, MOST = sizeof(Element) < 4 ? 32 : 8, BATCH = COUNT < MOST ? COUNT : MOST;
    for (int first = 0; first < COUNT; first += BATCH) {
      int offsets[BATCH];
      bool found[BATCH];
#pragma unroll
      for (int i = 0; i < BATCH; i++) found[i] = locate(k + row + (first + i) * PASS, offsets[i]);
      copy_all<Element, WIDTH, BATCH>(
          [&](int i) { return to + (first + i) * PASS * T::LINE; },
          [&](int i, bool& valid) {
            valid &= found[i];
            return valid ? image + offsets[i] : image;
          });
    }
  }

  // Where element k of this thread's column is from its image, or its corner with a table.
  __device__ __forceinline__ bool locate(int own, int& offset) const {
    if constexpr (TABLE) {
      const int2 entry = own < P::K ? table[own] : int2{0, 64};
      offset = entry.x;
      return entry.y < 64 && taps.inside(entry.y);
    } else {
      int source, tap;
      const bool valid = split(own, source, tap) && taps.locate(tap, offset);
      offset += source * P::PLANE;
      return valid;
    }
  }
};

template <class P, bool WIDE, int FORM>
struct CopiesB {
  using Type = LineCopies<P, WIDE && P::CONTIGUOUS>;
};
template <class P, bool WIDE>
struct CopiesB<P, WIDE, ROWS> {
  using Type = RowCopies<P, P::BN, P::N, P::B_ROW, WIDE>;
};
template <class P, bool WIDE>
struct CopiesB<P, WIDE, BLOCKS> {
  using Type = BlockCopies<P>;
};
