// ScatterOrder: the places of updates sorted by their slots, those of a slot in their order.
//
// Each block has RANGE slots and reads all indices, so that blocks need nothing of each other. It counts
// the updates of the slots before its range and of each slot in it, which gives their starts. Then it
// finds its updates in their order, and one warp gives each the next place of its slot. No order depends
// on timing: atomics only count.
//
// It uses indices.cuh. `P` holds the constants of one problem; `load(i)` is the slot of update `i`.

constexpr int PLACE_BITS = 14, FIELD_BITS = 6, FIELDS = 5;

// The slots of a thread's updates of a chunk, relative to the first of the block; -1 outside of the block.
// A warp has consecutive updates, its lanes every 32nd. `earlier` counts those of earlier blocks.
template <class P, class Load>
__device__ __forceinline__ void read_slots(const Load& load, int chunk, int (&own)[P::ITEMS], int& earlier) {
  const int begin = blockIdx.x * P::RANGE;
  const int first = chunk + threadIdx.x / 32 * (32 * P::ITEMS) + threadIdx.x % 32;
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int at = first + i * 32;
    own[i] = at < P::COUNT ? load(at) - begin : P::RANGE;
  }
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    earlier += own[i] < 0;
    if (own[i] >= P::RANGE) own[i] = -1;
  }
}

// Lists the block's updates of a chunk in their order, each its slot and its place in one word; returns
// how many there are. Counts of a warp are added FIELDS at a time, in fields of a word.
template <class P>
__device__ __forceinline__ int list_found(const int (&own)[P::ITEMS], uint32_t* found, int* sums) {
  constexpr int WORDS = (P::ITEMS + FIELDS - 1) / FIELDS;
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32;
  uint32_t counts[WORDS], all[WORDS];
  int count = 0, place = 0, total = 0;
#pragma unroll
  for (int word = 0; word < WORDS; word++) {
    counts[word] = 0;
#pragma unroll
    for (int i = word * FIELDS; i < (word + 1) * FIELDS && i < P::ITEMS; i++) {
      counts[word] += (own[i] >= 0) << (i % FIELDS * FIELD_BITS);
    }
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const uint32_t before = __shfl_up_sync(~0u, counts[word], by, 32);
      if (lane >= by) counts[word] += before;
    }
    all[word] = __shfl_sync(~0u, counts[word], 31, 32);
#pragma unroll
    for (int i = 0; i < FIELDS; i++) count += all[word] >> (i * FIELD_BITS) & 63;
  }
  if (lane == 0) sums[warp] = count;
  __syncthreads();
#pragma unroll
  for (int other = 0; other < P::THREADS / 32; other++) {
    if (other < warp) place += sums[other];
    total += sums[other];
  }
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int shift = i % FIELDS * FIELD_BITS, among = counts[i / FIELDS] >> shift & 63;
    const uint32_t at = warp * (32 * P::ITEMS) + i * 32 + lane;
    if (own[i] >= 0) found[place + among - 1] = static_cast<uint32_t>(own[i]) << PLACE_BITS | at;
    place += all[i / FIELDS] >> shift & 63;
  }
  __syncthreads();
  return total;
}

// Gives each update of the list the next place of its slot; for one warp.
__device__ __forceinline__ void place_found(const uint32_t* found, int total, int chunk, int* next, int* order) {
  const int lane = threadIdx.x % 32;
#pragma unroll 1
  for (int first = 0; first < total; first += 32) {
    const bool exists = first + lane < total;
    const uint32_t mine = exists ? found[first + lane] : ~0u;
    const int slot = mine >> PLACE_BITS;
    int rank = 0, count = 0, start = 0;
#pragma unroll
    for (int other = 0; other < 32; other++) {
      const bool same = __shfl_sync(~0u, slot, other, 32) == slot;
      count += same, rank += same & (other < lane);
    }
    if (exists) {
      start = next[slot];
      order[start + rank] = chunk + (mine & ((1 << PLACE_BITS) - 1));
    }
    __syncwarp();
    if (exists && rank == count - 1) next[slot] = start + count;
    __syncwarp();
  }
}

template <class P, class Load>
__device__ __forceinline__ void order_updates(const Load& load, int* starts, int* order) {
  constexpr int CHUNK = P::THREADS * P::ITEMS, EACH = (P::RANGE + P::THREADS - 1) / P::THREADS;
  static_assert(CHUNK <= 1 << PLACE_BITS, "a place has PLACE_BITS");
  __shared__ uint32_t found[CHUNK];
  __shared__ int next[P::RANGE], sums[P::THREADS / 32], before;
  int own[P::ITEMS], earlier = 0;
  for (int i = threadIdx.x; i < P::RANGE; i += P::THREADS) next[i] = 0;
  if (threadIdx.x == 0) before = 0;
  __syncthreads();
#pragma unroll 1
  for (int chunk = 0; chunk < P::COUNT; chunk += CHUNK) {
    read_slots<P>(load, chunk, own, earlier);
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) {
      if (own[i] >= 0) atomicAdd(&next[own[i]], 1);
    }
  }
#pragma unroll
  for (int other = 16; other > 0; other /= 2) earlier += __shfl_xor_sync(~0u, earlier, other, 32);
  if (threadIdx.x % 32 == 0) atomicAdd(&before, earlier);
  __syncthreads();
  int counts[EACH], count = 0, total;
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const int slot = threadIdx.x * EACH + i;
    counts[i] = slot < P::RANGE ? next[slot] : 0;
    count += counts[i];
  }
  int start = before + sum_before<P::THREADS>(count, sums, total);
#pragma unroll
  for (int i = 0; i < EACH; i++) {
    const int slot = threadIdx.x * EACH + i, at = blockIdx.x * P::RANGE + slot;
    if (slot < P::RANGE) next[slot] = start;
    if (slot < P::RANGE && at < P::SLOTS) starts[at] = start;
    if (slot < P::RANGE && at == P::SLOTS - 1) starts[P::SLOTS] = P::COUNT;
    start += counts[i];
  }
#pragma unroll 1
  for (int chunk = 0; chunk < P::COUNT; chunk += CHUNK) {
    if (P::COUNT > CHUNK) read_slots<P>(load, chunk, own, earlier);
    const int found_here = list_found<P>(own, found, sums);
    if (threadIdx.x < 32) place_found(found, found_here, chunk, next, order);
    if (P::COUNT > CHUNK) __syncthreads();
  }
}
