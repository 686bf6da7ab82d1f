// ScatterND and ScatterElements: a copy of a tensor in which updates are stored or combined at indices.
//
// Updates of one element are combined in their order, whichever threads there are: each element belongs
// to one thread, so that there are no atomics and the same bits every time.
//
// `P` holds the constants of one problem; see template.py. `P::slot(indices, i)` is where an update goes,
// `P::combine(out, updates, at, from)` combines one element of the updates into one of the result.

// An index from data: negative ones count from the end, others are kept inside.
template <class Index>
__device__ __forceinline__ int inside(Index index, int extent) {
  const int64_t from_start = index < 0 ? index + extent : index;
  return static_cast<int>(from_start < 0 ? 0 : from_start < extent ? from_start : extent - 1);
}

// The elements from `first` on that one block copies, COUNT at most.
template <class T>
__device__ __forceinline__ void copy_slice(const T* data, T* out, int64_t first, int64_t end, int64_t count, int threads) {
  if (first + count < end) end = first + count;
#pragma unroll 4
  for (int64_t i = first + threadIdx.x; i < end; i += threads) out[i] = data[i];
}

// Slices of INNER elements: a block has RANGE slots and finds their updates among all indices, ITEMS a
// thread at a time, kept in their order. Then the THREADS / COLUMNS groups of its threads combine them,
// each group those of some slots.
template <class P, class T, class Index>
__device__ __forceinline__ void scatter_slices(
    const T* __restrict__ data, const Index* __restrict__ indices, const T* __restrict__ updates, T* __restrict__ out) {
  constexpr int WARPS = P::THREADS / 32, GROUPS = P::THREADS / P::COLUMNS, CHUNK = P::THREADS * P::ITEMS;
  __shared__ int slots[CHUNK], counts[WARPS];
  __shared__ uint16_t found[CHUNK];
  const int lane = threadIdx.x % 32, group = threadIdx.x / P::COLUMNS, column = threadIdx.x % P::COLUMNS;
  const int begin = blockIdx.x * P::RANGE, left = P::SLOTS - begin, size = left < P::RANGE ? left : P::RANGE;
  const int64_t start = static_cast<int64_t>(begin) * P::INNER;
  const int64_t elements = static_cast<int64_t>(size) * P::INNER;
  copy_slice(data, out, start, start + elements, elements, P::THREADS);
  for (int chunk = 0; chunk < P::COUNT; chunk += CHUNK) {
    const int first = chunk + threadIdx.x * P::ITEMS;
    int own[P::ITEMS], count = 0;
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) {
      own[i] = first + i < P::COUNT ? P::slot(indices, first + i) - begin : -1;
      count += own[i] >= 0 && own[i] < size;
    }
    int place = count;
#pragma unroll
    for (int by = 1; by < 32; by *= 2) {
      const int before = __shfl_up_sync(~0u, place, by, 32);
      if (lane >= by) place += before;
    }
    if (lane == 31) counts[threadIdx.x / 32] = place;
    __syncthreads();
    int total = 0;
    place -= count;
#pragma unroll
    for (int warp = 0; warp < WARPS; warp++) {
      if (warp < threadIdx.x / 32) place += counts[warp];
      total += counts[warp];
    }
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) {
      if (own[i] >= 0 && own[i] < size) slots[place] = own[i], found[place++] = first + i - chunk;
    }
    __syncthreads();
#pragma unroll 4
    for (int i = 0; i < total; i++) {
      if (GROUPS > 1 && slots[i] % GROUPS != group) continue;
      const int64_t to = start + static_cast<int64_t>(slots[i]) * P::INNER;
      const int64_t from = static_cast<int64_t>(chunk + found[i]) * P::INNER;
      for (int c = column; c < P::INNER; c += P::COLUMNS) P::combine(out, updates, to + c, from + c);
    }
    __syncthreads();
  }
}

// Single elements along an axis: a thread has one column of the indices and the slots of one range.
template <class P, class T, class Index>
__device__ __forceinline__ void scatter_elements(
    const Index* __restrict__ indices, const T* __restrict__ updates, T* __restrict__ out) {
  const int column = blockIdx.x * P::THREADS + threadIdx.x;
  if (column >= P::COLUMNS) return;
  const int begin = blockIdx.y * P::RANGE, left = P::SLOTS - begin, size = left < P::RANGE ? left : P::RANGE;
  const int64_t base = P::base(column);
  int64_t from = static_cast<int64_t>(column / P::STEP) * P::COUNT * P::STEP + column % P::STEP;
#pragma unroll 4
  for (int i = 0; i < P::COUNT; i++, from += P::STEP) {
    const int slot = P::slot(indices, from) - begin;
    if (slot >= 0 && slot < size) P::combine(out, updates, base + static_cast<int64_t>(begin + slot) * P::INNER, from);
  }
}
