// The first COUNT entries of each row, where these are few: the last of them is searched for bit by bit, and
// those up to it are sorted by counting how many come before each.
//
// The SHARERS threads of a row keep its keys in registers. They count the keys below a bound, which gets one
// bit at a time from the top, and among equal keys the positions below one, so that the result is that of a
// stable sort. A row of a warp with an element for each lane is sorted at once. It uses top_k.cuh, which says what keys and entries are; `P` holds the constants of one problem.

// The sum over the threads of a row, in each of them; `sums` has a place for each of their warps, twice, of
// which calls use one in turns.
template <class P>
__device__ __forceinline__ int row_sum(int own, int* sums, int& turn) {
  constexpr int WARPS = P::SHARERS / 32;
#pragma unroll
  for (int other = 16; other > 0; other /= 2) own += __shfl_xor_sync(~0u, own, other, 32);
  if (WARPS == 1) return own;
  int* const mine = sums + WARPS * turn;
  turn = 1 - turn;
  if (threadIdx.x % 32 == 0) mine[threadIdx.x / 32] = own;
  __syncthreads();
  int total = 0;
#pragma unroll
  for (int warp = 0; warp < WARPS; warp++) total += mine[warp];
  return total;
}

// The threads of a row wait for each other.
template <class P>
__device__ __forceinline__ void row_barrier() {
  if (P::SHARERS == 32) {
    __syncwarp();
  } else {
    __syncthreads();
  }
}

template <class P, class Source, class Target>
__device__ __forceinline__ void select_rows(const Source& source, const Target& target) {
  using Key = typename P::Key;
  using E = EntryOf<P>;
  constexpr int ROWS_OF_BLOCK = P::THREADS / P::SHARERS, BITS = 8 * sizeof(Key);
  __shared__ E chosen[ROWS_OF_BLOCK][P::COUNT];
  __shared__ int sums[2 * (P::SHARERS / 32)], counts[ROWS_OF_BLOCK];
  const int own_row = threadIdx.x / P::SHARERS, lane = threadIdx.x % P::SHARERS;
  const int64_t row = static_cast<int64_t>(blockIdx.x) * ROWS_OF_BLOCK + own_row;
  const bool exists = row < P::ROWS;
  int turn = 0;
  Key keys[P::ITEMS];
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int position = i * P::SHARERS + lane;
    keys[i] = exists && position < P::LENGTH ? source(static_cast<int>(row), position).key : static_cast<Key>(-1);
  }
  if constexpr (P::ITEMS == 1 && P::SHARERS == 32) {
    const E own{keys[0], lane};
    int rank = 0;
#pragma unroll
    for (int other = 0; other < P::LENGTH; other++) rank += E{__shfl_sync(~0u, keys[0], other, 32), other}.before(own);
    if (exists && lane < P::LENGTH && rank < P::COUNT) target(static_cast<int>(row), 0, rank, own);
    return;
  }
  if (lane == 0) counts[own_row] = 0;
  // The largest key below which fewer than COUNT are, unless exactly COUNT are below a bound on the way.
  Key bound = 0;
  int below = 0;
#pragma unroll 1
  for (int bit = BITS - 1; bit >= 0 && below < P::COUNT; bit--) {
    const Key tried = bound | static_cast<Key>(1) << bit;
    int count = 0;
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) count += keys[i] < tried;
    count = row_sum<P>(count, sums, turn);
    if (count <= P::COUNT) bound = tried, below = count;
  }
  // Of the keys that equal it, those at the earliest positions.
  int end = 0;
  if (below < P::COUNT) {
#pragma unroll 1
    for (int step = 1 << 30; step > 0; step /= 2) {
      if (step >= 2 * P::LENGTH) continue;
      int count = 0;
#pragma unroll
      for (int i = 0; i < P::ITEMS; i++) {
        const int position = i * P::SHARERS + lane;
        count += keys[i] == bound && position < P::LENGTH && position < end + step;
      }
      if (row_sum<P>(count, sums, turn) <= P::COUNT - below) end += step;
    }
  }
  row_barrier<P>();
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int position = i * P::SHARERS + lane;
    if (exists && position < P::LENGTH && (keys[i] < bound || (keys[i] == bound && position < end))) {
      chosen[own_row][atomicAdd(&counts[own_row], 1)] = E{keys[i], position};
    }
  }
  row_barrier<P>();
  if (!exists) return;
#pragma unroll 1
  for (int i = lane; i < P::COUNT; i += P::SHARERS) {
    const E own = chosen[own_row][i];
    int rank = 0;
#pragma unroll 4
    for (int other = 0; other < P::COUNT; other++) rank += chosen[own_row][other].before(own);
    target(static_cast<int>(row), 0, rank, own);
  }
}
