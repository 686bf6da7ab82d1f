// TopK and sorts: the first COUNT entries of each row, in order.
//
// An entry is a key with the position that it comes from. Keys are unsigned and smaller for what comes
// first; of equal keys the earlier position comes first, so that no two entries are equal and the result
// depends on nothing but the data. A block sorts a tile by merging: threads sort their own entries, the lanes
// of a warp merge theirs by shuffles, then neighbouring lists are merged until they are as long as a segment.
// Each thread finds its part of such a merge by bisection ("merge path", Green, McColl and Bader 2012), so that
// all have as much to do.
//
// `P` holds the constants of one problem; a `Source` gives the entries of rows, a `Target` takes those of
// lists by row, list and place.

enum Kind { UNSIGNED, SIGNED, FLOATING };

// It is copied member by member: clang would copy its padding, too, and keep arrays of entries in memory.
template <class Key>
struct Entry {
  Key key;
  int position;
  Entry() = default;
  __device__ __forceinline__ Entry(Key key, int position) : key(key), position(position) {}
  __device__ __forceinline__ Entry(const Entry& other) : key(other.key), position(other.position) {}
  __device__ __forceinline__ Entry& operator=(const Entry& other) {
    key = other.key, position = other.position;
    return *this;
  }
  // Without a branch: keys of 32 bits and positions, which are not negative, are one number.
  __device__ __forceinline__ bool before(const Entry& other) const {
    if constexpr (sizeof(Key) == 4) return number() < other.number();
    return (key < other.key) | ((key == other.key) & (position < other.position));
  }
  __device__ __forceinline__ uint64_t number() const {
    return static_cast<uint64_t>(key) << 32 | static_cast<uint32_t>(position);
  }
};

template <class P>
using EntryOf = Entry<typename P::Key>;

// One of two entries, member by member: an address of either would keep arrays of them in memory.
template <class E>
__device__ __forceinline__ E chosen(bool first, const E& one, const E& other) {
  return {first ? one.key : other.key, first ? one.position : other.position};
}

// The key of an element: NaN is above all numbers, and zeros are equal whatever their signs.
template <class P>
__device__ __forceinline__ typename P::Key key_of(typename P::Bits bits) {
  using Key = typename P::Key;
  constexpr Key SIGN = static_cast<Key>(1) << (8 * sizeof(bits) - 1), ALL = SIGN | (SIGN - 1);
  Key key = bits;
  if (P::KIND == SIGNED) key ^= SIGN;
  if (P::KIND == FLOATING) {
    const Key size = key & (SIGN - 1);
    key = size > static_cast<Key>(P::INFINITE) ? ALL : key & SIGN ? SIGN - size : SIGN + size;
  }
  return P::LARGEST ? ALL - key : key;
}

// The elements of the tensor.
template <class P>
struct Elements {
  const typename P::Bits* data;
  static __device__ __forceinline__ int64_t start(int row, int length) {
    return static_cast<int64_t>(row / P::INNER) * length * P::INNER + row % P::INNER;
  }
  __device__ __forceinline__ EntryOf<P> operator()(int row, int position) const {
    const int64_t at = start(row, P::LENGTH) + static_cast<int64_t>(position) * P::INNER;
    return {key_of<P>(data[at]), position};
  }
};

// Rows of LENGTH entries in a workspace.
template <class P, int LENGTH>
struct Entries {
  const EntryOf<P>* entries;
  __device__ __forceinline__ EntryOf<P> operator()(int row, int position) const {
    return entries[static_cast<int64_t>(row) * LENGTH + position];
  }
};

// The same to write: each list has SIZE places and keeps the first KEPT.
template <class P, int LENGTH, int SIZE, int KEPT>
struct Lists {
  EntryOf<P>* entries;
  __device__ __forceinline__ void operator()(int row, int list, int place, const EntryOf<P>& entry) const {
    if (place < KEPT) entries[static_cast<int64_t>(row) * LENGTH + list * SIZE + place] = entry;
  }
};

// The results, of which either may be missing. Values are copied bit by bit.
template <class P>
struct Results {
  const typename P::Bits* data;
  typename P::Bits* values;
  int64_t* positions;
  __device__ __forceinline__ void operator()(int row, int, int place, const EntryOf<P>& entry) const {
    if (place >= P::COUNT) return;
    const int64_t from = Elements<P>::start(row, P::LENGTH) + static_cast<int64_t>(entry.position) * P::INNER;
    const int64_t to = Elements<P>::start(row, P::COUNT) + static_cast<int64_t>(place) * P::INNER;
    if (values) values[to] = data[from];
    if (positions) positions[to] = entry.position;
  }
};

// Entries of a tile in shared memory from `start` on. There is a gap after as many as a thread has, so that
// threads of a warp that access an own one each meet few others in a bank, as they do by keys and positions apart.
template <class E, int ITEMS>
struct Spread {
  using Key = decltype(E::key);
  Key* keys;
  int* positions;
  int start;
  static __device__ __forceinline__ constexpr int places(int entries) { return entries + entries / ITEMS; }
  __device__ __forceinline__ int at(int i) const { return places(start + i); }
  __device__ __forceinline__ E operator[](int i) const { return {keys[at(i)], positions[at(i)]}; }
  __device__ __forceinline__ void set(int i, const E& entry) const {
    keys[at(i)] = entry.key, positions[at(i)] = entry.position;
  }
  __device__ __forceinline__ Spread operator+(int more) const { return {keys, positions, start + more}; }
};

// Whether an entry of a list comes before one of another: most differ by their keys.
template <class E, int ITEMS>
__device__ __forceinline__ bool in_order(const Spread<E, ITEMS>& one, int i, const Spread<E, ITEMS>& other, int j) {
  const auto key = one.keys[one.at(i)], last = other.keys[other.at(j)];
  return key < last || (key == last && one.positions[one.at(i)] < other.positions[other.at(j)]);
}
template <class E>
__device__ __forceinline__ bool in_order(const E* one, int i, const E* other, int j) {
  return one[i].before(other[j]);
}

// How many of the first `together` entries of two merged lists are the first list's.
template <class List>
__device__ __forceinline__ int split(const List& one, int ones, const List& other, int others, int together) {
  int low = together > others ? together - others : 0, high = together < ones ? together : ones;
  while (low < high) {
    const int middle = (low + high) / 2;
    if (in_order(other, together - 1 - middle, one, middle)) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// A thread's entries of two merged lists of a tile: those after the first `together`. The next one of either is in
// registers.
template <class E, int ITEMS>
__device__ __forceinline__ void merge(
    const Spread<E, ITEMS>& one, int ones, const Spread<E, ITEMS>& other, int others, int together, E (&own)[ITEMS]) {
  int i = split(one, ones, other, others, together), j = together - i;
  E low = {}, high = {};
  if (i < ones) low = one[i];
  if (j < others) high = other[j];
#pragma unroll
  for (int item = 0; item < ITEMS; item++) {
    const bool first = j >= others || (i < ones && low.before(high));
    own[item] = chosen(first, low, high);
    i += first, j += !first;
    if (item + 1 < ITEMS && (first ? i < ones : j < others)) {
      const E next = one[first ? i : other.start - one.start + j];
      low = chosen(first, next, low), high = chosen(first, high, next);
    }
  }
}

// Sorts a few entries in registers by exchanging neighbours.
template <class E, int ITEMS>
__device__ __forceinline__ void sort_own(E (&own)[ITEMS]) {
#pragma unroll
  for (int round = 0; round < ITEMS; round++) {
#pragma unroll
    for (int i = 0; i < ITEMS - 1; i++) {  // of constant length, for registers
      const E low = own[i], high = own[i + 1];
      const bool exchange = i % 2 == round % 2 && high.before(low);
      own[i] = chosen(exchange, high, low), own[i + 1] = chosen(exchange, low, high);
    }
  }
}

__device__ __forceinline__ uint32_t other_lane(uint32_t key, int mask) { return __shfl_xor_sync(~0u, key, mask, 32); }
__device__ __forceinline__ uint64_t other_lane(uint64_t key, int mask) {
  return static_cast<uint64_t>(other_lane(static_cast<uint32_t>(key >> 32), mask)) << 32 |
         other_lane(static_cast<uint32_t>(key), mask);
}

// Compares each entry of a lane with one of the lane that differs by `mask`, in reverse order if REVERSED, and
// keeps the later one in the `upper` lane, the earlier one in the other.
template <bool REVERSED, class E, int ITEMS>
__device__ __forceinline__ void exchange(E (&own)[ITEMS], int mask, bool upper) {
  E others[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const E& sent = own[REVERSED ? ITEMS - 1 - i : i];
    others[i] = {other_lane(sent.key, mask), static_cast<int>(other_lane(static_cast<uint32_t>(sent.position), mask))};
  }
#pragma unroll
  for (int i = 0; i < ITEMS; i++) own[i] = chosen(others[i].before(own[i]) != upper, others[i], own[i]);
}

// Sorts entries that ascend and then descend: those OTHER apart, then those half as far. It is not a loop, so that
// all indices are constants and the entries stay in registers.
template <int OTHER, class E, int ITEMS>
__device__ __forceinline__ void sort_turned(E (&own)[ITEMS]) {
  if constexpr (OTHER > 0) {
#pragma unroll
    for (int i = 0; i < ITEMS; i++) {
      if (i & OTHER) continue;
      const E low = own[i], high = own[i + OTHER];
      const bool swapped = high.before(low);
      own[i] = chosen(swapped, high, low), own[i + OTHER] = chosen(swapped, low, high);
    }
    sort_turned<OTHER / 2>(own);
  }
}

// Merges the sorted entries of lanes until those of LANES neighbours are a list (bitonic merges, Batcher 1968).
template <int LANES, class E, int ITEMS>
__device__ __forceinline__ void merge_lanes(E (&own)[ITEMS]) {
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int width = 1; width < LANES; width *= 2) {
    exchange<true>(own, 2 * width - 1, lane & width);
#pragma unroll 1
    for (int other = width / 2; other > 0; other /= 2) exchange<false>(own, other, lane & other);
    sort_turned<ITEMS / 2>(own);
  }
}

// Sorts segments of SEGMENT positions of rows of LENGTH; a tile has one or several. Those beyond the end of
// a row come after all others.
template <class P, int LENGTH, int SEGMENT, class Source, class Target>
__device__ __forceinline__ void sort_tiles(const Source& source, const Target& target) {
  constexpr int TILE = P::THREADS * P::ITEMS, LISTS = (LENGTH + SEGMENT - 1) / SEGMENT;
  constexpr int64_t SEGMENTS = static_cast<int64_t>(P::ROWS) * LISTS;
  using E = EntryOf<P>;
  using Tile = Spread<E, P::ITEMS>;
  __shared__ typename P::Key keys[Tile::places(TILE)];
  __shared__ int positions[Tile::places(TILE)];
  const Tile tile{keys, positions, 0};
  const int64_t first = static_cast<int64_t>(blockIdx.x) * (TILE / SEGMENT);
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int at = i * P::THREADS + threadIdx.x;
    const int64_t segment = first + at / SEGMENT;
    const int position = static_cast<int>(segment % LISTS) * SEGMENT + at % SEGMENT;
    const bool inside = segment < SEGMENTS && position < LENGTH;
    tile.set(at, inside ? source(static_cast<int>(segment / LISTS), position)
                        : E{static_cast<typename P::Key>(-1), 0x7fffffff});
  }
  __syncthreads();
  E own[P::ITEMS];
  const int mine = threadIdx.x * P::ITEMS;
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) own[i] = tile[mine + i];
  sort_own(own);
  constexpr int LANES = SEGMENT / P::ITEMS < 32 ? SEGMENT / P::ITEMS : 32;
  merge_lanes<LANES>(own);
#pragma unroll 1
  for (int width = LANES * P::ITEMS; width < SEGMENT; width *= 2) {
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) tile.set(mine + i, own[i]);
    __syncthreads();
    const int start = mine & ~(2 * width - 1);
    merge(tile + start, width, tile + start + width, width, mine - start, own);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) tile.set(mine + i, own[i]);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int at = i * P::THREADS + threadIdx.x;
    const int64_t segment = first + at / SEGMENT;
    if (segment < SEGMENTS) {
      target(static_cast<int>(segment / LISTS), static_cast<int>(segment % LISTS), at % SEGMENT, tile[at]);
    }
  }
}

// Merges pairs of lists of WIDTH places, of which the first KEPT at most have entries, in rows of LENGTH
// places; all three are multiples of a tile. A block writes a tile of a merged list.
template <class P, int LENGTH, int WIDTH, int KEPT, class Target>
__device__ __forceinline__ void merge_lists(const EntryOf<P>* entries, const Target& target) {
  constexpr int TILE = P::THREADS * P::ITEMS, PAIRS = (LENGTH + 2 * WIDTH - 1) / (2 * WIDTH);
  constexpr int FULL = WIDTH < KEPT ? WIDTH : KEPT, TILES = (2 * FULL < KEPT ? 2 * FULL : KEPT) / TILE;
  using E = EntryOf<P>;
  using Tile = Spread<E, P::ITEMS>;
  __shared__ typename P::Key keys[Tile::places(TILE)];
  __shared__ int positions[Tile::places(TILE)], splits[2];
  const Tile tile{keys, positions, 0};
  const int row = blockIdx.x / (PAIRS * TILES), pair = blockIdx.x / TILES % PAIRS;
  const int before = blockIdx.x % TILES * TILE, start = pair * 2 * WIDTH, rest = LENGTH - start;
  const int ones = rest < FULL ? rest : FULL;
  const int others = rest - WIDTH < 0 ? 0 : rest - WIDTH < FULL ? rest - WIDTH : FULL;
  if (before >= ones + others) return;
  const E* const one = entries + static_cast<int64_t>(row) * LENGTH + start;
  const E* const other = one + WIDTH;
  if (threadIdx.x < 2) splits[threadIdx.x] = split(one, ones, other, others, before + threadIdx.x * TILE);
  __syncthreads();
  const int from = splits[0], own_ones = splits[1] - from;
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int at = i * P::THREADS + threadIdx.x;
    tile.set(at, at < own_ones ? one[from + at] : other[before - from + at - own_ones]);
  }
  __syncthreads();
  E own[P::ITEMS];
  const int mine = threadIdx.x * P::ITEMS;
  merge(tile, own_ones, tile + own_ones, TILE - own_ones, mine, own);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) tile.set(mine + i, own[i]);
  __syncthreads();
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int at = i * P::THREADS + threadIdx.x;
    target(row, pair, before + at, tile[at]);
  }
}

// How many of a tile's samples come before an entry.
template <int SAMPLES, class E>
__device__ __forceinline__ int samples_before(const E* samples, const E& entry) {
  int count = 0;
#pragma unroll
  for (int half = SAMPLES / 2; half > 0; half /= 2) count += samples[count + half - 1].before(entry) ? half : 0;
  return count + samples[count].before(entry);
}

// Merges LISTS sorted tiles of each row at once. Samples are SPACING entries apart in each tile. A block writes
// what is between two samples that are a tile's number of samples apart in the order of all of a row's: at most
// TILE + (LISTS - 1) * (SPACING - 1) entries ("regular sampling", Shi and Schaeffer 1992), whatever the data.
// Two tiles hold them, with lists that begin at multiples of a thread's entries.
template <class P, int LISTS, int SAMPLES, class Target>
__device__ __forceinline__ void merge_sampled(const EntryOf<P>* entries, const Target& target) {
  constexpr int ITEMS = P::ITEMS, TILE = P::THREADS * ITEMS, SPACING = TILE / SAMPLES, THREADS = 2 * P::THREADS;
  constexpr int PARTS = (P::COUNT + TILE - 1) / TILE, SHARERS = THREADS / (2 * SAMPLES);
  using E = EntryOf<P>;
  using Tile = Spread<E, ITEMS>;
  __shared__ typename P::Key keys[Tile::places(2 * TILE)];
  __shared__ int positions[Tile::places(2 * TILE)], splits[2][LISTS], starts[LISTS + 1];
  __shared__ E samples[LISTS * SAMPLES], bounds[2];
  const Tile tile{keys, positions, 0};
  const int row = blockIdx.x / PARTS, part = blockIdx.x % PARTS;
  const E* const lists = entries + static_cast<int64_t>(row) * LISTS * TILE;
  for (int i = threadIdx.x; i < LISTS * SAMPLES; i += THREADS) samples[i] = lists[(i + 1) * SPACING - 1];
  __syncthreads();
  for (int i = threadIdx.x; i < LISTS * SAMPLES; i += THREADS) {
    int rank = i % SAMPLES;
#pragma unroll 4
    for (int other = 0; other < LISTS; other++) {
      if (other != i / SAMPLES) rank += samples_before<SAMPLES>(samples + other * SAMPLES, samples[i]);
    }
    for (int side = 0; side < 2; side++) {
      if (rank == (part + side) * SAMPLES - 1) bounds[side] = samples[i];
    }
  }
  __syncthreads();
  {  // the entries of each list up to each bound: those up to a sample, and some of the next ones
    const int side = threadIdx.x / SHARERS % 2, list = threadIdx.x / SHARERS / 2;
    int count = 0;
    if (list < LISTS && part + side > 0) {
      const E bound = bounds[side];
      const int size = P::LENGTH - list * TILE < TILE ? P::LENGTH - list * TILE : TILE;
      int before = samples_before<SAMPLES>(samples + list * SAMPLES, bound) * SPACING;
      before = before < size ? before : size;
#pragma unroll
      for (int first = 0; first < SPACING; first += SHARERS) {
        const int place = before + first + threadIdx.x % SHARERS, last = TILE - 1;  // all loads, whatever is counted
        count += (place < size) & !bound.before(lists[list * TILE + (place < last ? place : last)]);
      }
      if (threadIdx.x % SHARERS == 0) count += before;
    }
#pragma unroll
    for (int other = SHARERS / 2; other > 0; other /= 2) count += __shfl_xor_sync(~0u, count, other, 32);
    if (list < LISTS && threadIdx.x % SHARERS == 0) splits[side][list] = count;
  }
  __syncthreads();
  int first = 0, size = 0;
  for (int list = 0; list < LISTS; list++) first += splits[0][list], size += splits[1][list] - splits[0][list];
  if (threadIdx.x <= LISTS) {
    int start = 0;
    for (int list = 0; list < threadIdx.x; list++) {
      start += (splits[1][list] - splits[0][list] + ITEMS - 1) / ITEMS * ITEMS;
    }
    starts[threadIdx.x] = start;
  }
  __syncthreads();
  const auto list_at = [&](int place) {  // the last one that begins there or before
    int list = 0;
#pragma unroll
    for (int half = SAMPLES / 2; half > 0; half /= 2) {
      if (list + half < LISTS && starts[list + half] <= place) list += half;
    }
    return list;
  };
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const int at = i * THREADS + threadIdx.x, list = list_at(at), from = splits[0][list] + at - starts[list];
    const E absent{static_cast<typename P::Key>(-1), 0x7fffffff}, read = lists[list * TILE + (from < TILE ? from : 0)];
    tile.set(at, chosen(from < splits[1][list], read, absent));
  }
  __syncthreads();
  E own[ITEMS];
  const int mine = threadIdx.x * ITEMS, list = list_at(mine);
#pragma unroll
  for (int i = 0; i < ITEMS; i++) own[i] = tile[mine + i];
#pragma unroll 1
  for (int width = 1; width < LISTS; width *= 2) {
    const int pair = list & ~(2 * width - 1), start = starts[pair];
    const int middle = starts[pair + width < LISTS ? pair + width : LISTS];
    const int end = starts[pair + 2 * width < LISTS ? pair + 2 * width : LISTS];
    if (mine < end) merge(tile + start, middle - start, tile + middle, end - middle, mine - start, own);
    __syncthreads();
#pragma unroll
    for (int i = 0; i < ITEMS; i++) tile.set(mine + i, own[i]);
    __syncthreads();
  }
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const int at = i * THREADS + threadIdx.x;
    if (at < size) target(row, 0, first + at, tile[at]);
  }
}
