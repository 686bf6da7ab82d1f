// ScatterOrder: the places of updates sorted by their slots, those of a slot in their order.
//
// One launch: each block has RANGE slots and reads all indices, so that blocks need nothing of each other.
// It lists the updates of its slots and counts those of the slots before its range. The list is in any
// order: a key of slot and update says what comes before what, and a thread ranks each by comparing it with
// all others. Where that would be too much work, they are sorted in their order by counts, chunk by chunk.
//
// Three launches for many updates: blocks count how many updates of a chunk each bucket of RANGE slots has;
// write them to their buckets in their order; and then a block sorts each bucket by its slots.
//
// Results do not depend on timing: atomics only count. The header uses indices.cuh. `P` holds the constants
// of one problem; `load(i)` is the slot of update `i`.

// Gives each of a warp's slots the next place of its number, which is the slot divided by DIVISOR: those of
// item `i` of all lanes come before those of `i` + 1, and -1 is none. `next` has the next place of each
// number, and goes on. `take(i, slot, place)` is called with each place.
template <int DIVISOR, int ITEMS, class Take>
__device__ __forceinline__ void place_in_order(const int (&slots)[ITEMS], int* next, const Take& take) {
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int i = 0; i < ITEMS; i++) {
    int slot = 0, rank = 0, count = 0, start = 0;
#pragma unroll
    for (int k = 0; k < ITEMS; k++) slot = k == i ? slots[k] : slot;
    const int own = slot < 0 ? -1 : slot / DIVISOR;
#pragma unroll
    for (int other = 0; other < 32; other++) {
      const bool same = __shfl_sync(~0u, own, other, 32) == own;
      count += same, rank += same & (other < lane);
    }
    if (own >= 0) {
      start = next[own];
      take(i, slot, start + rank);
    }
    __syncwarp();
    if (own >= 0 && rank == count - 1) next[own] = start + count;
    __syncwarp();
  }
}

// The same for a block, whose warps have consecutive slots each, with numbers below RANGE; `own` are the
// counters of each warp.
template <int THREADS, int DIVISOR, int RANGE, int ITEMS, class Take>
__device__ __forceinline__ void sort_chunk(
    const int (&slots)[ITEMS], int* next, int (&own)[THREADS / 32][RANGE], const Take& take) {
  constexpr int WARPS = THREADS / 32;
  int* const mine = own[threadIdx.x / 32];
  for (int i = threadIdx.x % 32; i < RANGE; i += 32) mine[i] = 0;
  __syncwarp();
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    if (slots[i] >= 0) atomicAdd(&mine[slots[i] / DIVISOR], 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < RANGE; i += THREADS) {
    int place = next[i];
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) {
      const int count = own[warp][i];
      own[warp][i] = place, place += count;
    }
    next[i] = place;
  }
  __syncthreads();
  place_in_order<DIVISOR>(slots, mine, take);
}

// Turns counts below RANGE into the places after all before them, from `first` on.
template <int THREADS, int RANGE>
__device__ __forceinline__ void counts_to_places(int* counts, int first, int* sums) {
  constexpr int EACH = (RANGE + THREADS - 1) / THREADS;
  int own[EACH], count = 0, total;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const int at = threadIdx.x * EACH + i;
    own[i] = at < RANGE ? counts[at] : 0;
    count += own[i];
  }
  int place = first + sum_before<THREADS>(count, sums, total);
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const int at = threadIdx.x * EACH + i;
    if (at < RANGE) counts[at] = place;
    place += own[i];
  }
  __syncthreads();
}

// The update of item `i` of a thread in a chunk: a warp has consecutive ones, its lanes every 32nd.
template <int ITEMS>
__device__ __forceinline__ int update_of(int chunk, int i) {
  return chunk + threadIdx.x / 32 * (32 * ITEMS) + i * 32 + threadIdx.x % 32;
}

// Reads the slots of a chunk relative to the first of the block, RANGE for updates that are none.
template <class P, class Load>
__device__ __forceinline__ void read_slots(const Load& load, int chunk, int (&own)[P::ITEMS]) {
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int update = update_of<P::ITEMS>(chunk, i);
    own[i] = update < P::COUNT ? load(update) - static_cast<int>(blockIdx.x) * P::RANGE : P::RANGE;
  }
}

// Sorts the updates of a block's slots chunk by chunk; `before` is the number of those of earlier slots.
template <class P, class Load>
__device__ __forceinline__ void sort_by_counts(const Load& load, int before, int* starts, int* order) {
  __shared__ int next[P::RANGE], own[P::THREADS / 32][P::RANGE], sums[P::THREADS / 32];
  int slots[P::ITEMS];
  for (int i = threadIdx.x; i < P::RANGE; i += P::THREADS) next[i] = 0;
  __syncthreads();
#pragma unroll 1
  for (int chunk = 0; chunk < P::COUNT; chunk += P::THREADS * P::ITEMS) {
    read_slots<P>(load, chunk, slots);
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) {
      if (slots[i] >= 0 && slots[i] < P::RANGE) atomicAdd(&next[slots[i]], 1);
    }
  }
  __syncthreads();
  counts_to_places<P::THREADS, P::RANGE>(next, before, sums);
  for (int i = threadIdx.x; i < P::RANGE; i += P::THREADS) {
    const int slot = blockIdx.x * P::RANGE + i;
    if (slot < P::SLOTS) starts[slot] = next[i];
  }
#pragma unroll 1
  for (int chunk = 0; chunk < P::COUNT; chunk += P::THREADS * P::ITEMS) {
    read_slots<P>(load, chunk, slots);
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) {
      if (slots[i] >= P::RANGE) slots[i] = -1;
    }
    auto take = [&](int i, int, int place) { order[place] = update_of<P::ITEMS>(chunk, i); };
    sort_chunk<P::THREADS, 1>(slots, next, own, take);
  }
}

template <class P, class Load>
__device__ __forceinline__ void order_updates(const Load& load, int* starts, int* order) {
  __shared__ uint64_t keys[P::FEW];
  __shared__ int before, found;
  int own[P::ITEMS], earlier = 0;
  if (threadIdx.x == 0) before = found = 0;
  __syncthreads();
#pragma unroll 1
  for (int chunk = 0; chunk < P::COUNT; chunk += P::THREADS * P::ITEMS) {
    read_slots<P>(load, chunk, own);
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) {
      earlier += own[i] < 0;
      if (static_cast<uint32_t>(own[i]) < P::RANGE) {
        const int at = atomicAdd(&found, 1);
        if (at < P::FEW) keys[at] = static_cast<uint64_t>(own[i]) << 32 | update_of<P::ITEMS>(chunk, i);
      }
    }
  }
#pragma unroll
  for (int other = 16; other > 0; other /= 2) earlier += __shfl_xor_sync(~0u, earlier, other, 32);
  if (threadIdx.x % 32 == 0) atomicAdd(&before, earlier);
  __syncthreads();
  const int total = found, first = before;
  if (blockIdx.x == 0 && threadIdx.x == 0) starts[P::SLOTS] = P::COUNT;
  if (total > P::FEW) {
    sort_by_counts<P>(load, first, starts, order);
    return;
  }
#pragma unroll 1
  for (int i = threadIdx.x; i < total + P::RANGE; i += P::THREADS) {
    const uint64_t key = i < total ? keys[i] : static_cast<uint64_t>(i - total) << 32;
    int rank = first;
#pragma unroll 8
    for (int other = 0; other < total; other++) rank += keys[other] < key;
    const int slot = blockIdx.x * P::RANGE + (i - total);
    if (i < total) {
      order[rank] = static_cast<int>(key);
    } else if (slot < P::SLOTS) {
      starts[slot] = rank;
    }
  }
}

// Counts the updates of a block's chunk by buckets.
template <class P, class Load>
__device__ __forceinline__ void count_buckets(const Load& load, int* counts) {
  __shared__ int own[P::BUCKETS];
  for (int i = threadIdx.x; i < P::BUCKETS; i += P::THREADS) own[i] = 0;
  __syncthreads();
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int update = update_of<P::ITEMS>(blockIdx.x * P::THREADS * P::ITEMS, i);
    if (update < P::COUNT) atomicAdd(&own[load(update) / P::RANGE], 1);
  }
  __syncthreads();
  for (int i = threadIdx.x; i < P::BUCKETS; i += P::THREADS) counts[blockIdx.x * P::BUCKETS + i] = own[i];
}

// Writes the updates of a block's chunk to their buckets, after those of earlier blocks: their slots
// within the bucket, and themselves. The first block writes where buckets start.
template <class P, class Load>
__device__ __forceinline__ void fill_buckets(
    const Load& load, const int* counts, int* bounds, int* slots, int* updates) {
  __shared__ int next[P::BUCKETS], own[P::THREADS / 32][P::BUCKETS], sums[P::THREADS / 32];
  static_assert(P::BUCKETS <= P::THREADS, "a thread has a bucket");
  int earlier = 0, all = 0, own_slots[P::ITEMS];
  const int chunk = blockIdx.x * P::THREADS * P::ITEMS;
  if (threadIdx.x < P::BUCKETS) {
#pragma unroll 8
    for (int block = 0; block < P::BLOCKS; block++) {
      const int count = counts[block * P::BUCKETS + threadIdx.x];
      all += count, earlier += block < blockIdx.x ? count : 0;
    }
    next[threadIdx.x] = all;
  }
  counts_to_places<P::THREADS, P::BUCKETS>(next, 0, sums);
  if (threadIdx.x < P::BUCKETS) {
    if (blockIdx.x == 0) bounds[threadIdx.x] = next[threadIdx.x];
    next[threadIdx.x] += earlier;
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) bounds[P::BUCKETS] = P::COUNT;
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int update = update_of<P::ITEMS>(chunk, i);
    own_slots[i] = update < P::COUNT ? load(update) : -1;
  }
  auto take = [&](int i, int slot, int place) {
    slots[place] = slot % P::RANGE, updates[place] = update_of<P::ITEMS>(chunk, i);
  };
  sort_chunk<P::THREADS, P::RANGE>(own_slots, next, own, take);
}

// Sorts the updates of a block's bucket by their slots.
template <class P>
__device__ __forceinline__ void sort_bucket(
    const int* bounds, const int* slots, const int* updates, int* starts, int* order) {
  __shared__ int next[P::RANGE], own[P::SORTERS / 32][P::RANGE], sums[P::SORTERS / 32];
  const int begin = bounds[blockIdx.x], end = bounds[blockIdx.x + 1];
  for (int i = threadIdx.x; i < P::RANGE; i += P::SORTERS) next[i] = 0;
  __syncthreads();
#pragma unroll 8
  for (int i = begin + threadIdx.x; i < end; i += P::SORTERS) atomicAdd(&next[slots[i]], 1);
  __syncthreads();
  counts_to_places<P::SORTERS, P::RANGE>(next, begin, sums);
  for (int i = threadIdx.x; i < P::RANGE; i += P::SORTERS) {
    const int slot = blockIdx.x * P::RANGE + i;
    if (slot < P::SLOTS) starts[slot] = next[i];
  }
  if (blockIdx.x == 0 && threadIdx.x == 0) starts[P::SLOTS] = P::COUNT;
#pragma unroll 1
  for (int chunk = begin; chunk < end; chunk += P::SORTERS * P::ITEMS) {
    int slot[P::ITEMS];
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) {
      const int at = update_of<P::ITEMS>(chunk, i);
      slot[i] = at < end ? slots[at] : -1;
    }
    auto take = [&](int i, int, int place) { order[place] = updates[update_of<P::ITEMS>(chunk, i)]; };
    sort_chunk<P::SORTERS, 1>(slot, next, own, take);
  }
}
