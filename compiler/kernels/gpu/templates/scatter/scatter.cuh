// ScatterND and ScatterElements: a copy of a tensor in which updates are stored or combined at indices.
//
// Updates of one element are combined in their order, whichever threads there are: each element belongs
// to one thread, so that there are no atomics and the same bits every time.
//
// It uses indices.cuh. `P` holds the constants of one problem; see template.py. `P::slot(indices, i)` is
// where an update goes, `P::combine(out, updates, at, from)` combines one element of the updates into one
// of the result.

// The elements from `first` on that one block copies, COUNT at most.
template <class T>
__device__ __forceinline__ void copy_slice(const T* data, T* out, int64_t first, int64_t end, int64_t count, int threads) {
  if (first + count < end) end = first + count;
#pragma unroll 8
  for (int64_t i = first + threadIdx.x; i < end; i += threads) out[i] = data[i];
}

// Sorts updates by their slots, those of one slot by their positions; each thread ranks some.
template <class P>
__device__ __forceinline__ void sort_updates(int* slots, uint16_t* found, uint16_t* ranks, int total) {
#pragma unroll 1
  for (int own = threadIdx.x; own < total; own += P::THREADS) {
    const int slot = slots[own], from = found[own];
    int rank = 0;
#pragma unroll 4
    for (int i = 0; i < total; i++) rank += (slots[i] < slot) | ((slots[i] == slot) & (found[i] < from));
    ranks[own] = rank;
  }
  int slot[P::ITEMS], from[P::ITEMS], rank[P::ITEMS];
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int own = i * P::THREADS + threadIdx.x;
    if (own < total) slot[i] = slots[own], from[i] = found[own], rank[i] = ranks[own];
  }
  __syncthreads();
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    if (i * P::THREADS + threadIdx.x < total) slots[rank[i]] = slot[i], found[rank[i]] = from[i];
  }
  __syncthreads();
}

// Combines `count` updates into one slice, in their order: FLIGHT of them are loaded at a time.
template <class P, class T>
__device__ __forceinline__ void combine_slice(T* out, const T* updates, const uint16_t* found, int count, int column) {
  for (int first = column; first < P::INNER; first += P::COLUMNS * P::WIDTH) {
    T sum[P::WIDTH];
#pragma unroll
    for (int w = 0; w < P::WIDTH; w++) {
      if (first + w * P::COLUMNS < P::INNER) sum[w] = out[first + w * P::COLUMNS];
    }
#pragma unroll 1
    for (int u = 0; u < count; u += P::FLIGHT) {
      T given[P::FLIGHT][P::WIDTH];
#pragma unroll
      for (int k = 0; k < P::FLIGHT; k++) {
        const T* from = updates + (u + k < count ? static_cast<int64_t>(found[u + k]) * P::INNER : 0);
#pragma unroll
        for (int w = 0; w < P::WIDTH; w++) {
          const int c = first + w * P::COLUMNS;
          if (updates != nullptr && u + k < count && c < P::INNER) given[k][w] = from[c];
        }
      }
#pragma unroll
      for (int k = 0; k < P::FLIGHT; k++) {
#pragma unroll
        for (int w = 0; w < P::WIDTH; w++) {
          if (u + k < count && first + w * P::COLUMNS < P::INNER) P::combine(sum, given[k], w, w);
        }
      }
    }
#pragma unroll
    for (int w = 0; w < P::WIDTH; w++) {
      if (first + w * P::COLUMNS < P::INNER) out[first + w * P::COLUMNS] = sum[w];
    }
  }
}

// Slices of INNER elements: a block has RANGE slots and finds their updates among all indices, ITEMS a
// thread at a time, and sorts them. Then the THREADS / COLUMNS groups of its threads combine them, each
// group those of some slots, so that the updates of a slot meet in registers.
template <class P, class T, class Index>
__device__ __forceinline__ void scatter_slices(
    const T* __restrict__ data, const Index* __restrict__ indices, const T* __restrict__ updates, T* __restrict__ out) {
  constexpr int GROUPS = P::THREADS / P::COLUMNS, CHUNK = P::THREADS * P::ITEMS;
  __shared__ int slots[CHUNK], sums[P::THREADS / 32];
  __shared__ uint16_t found[CHUNK], heads[CHUNK];
  const int begin = blockIdx.x * P::RANGE, left = P::SLOTS - begin, size = left < P::RANGE ? left : P::RANGE;
  const int64_t start = static_cast<int64_t>(begin) * P::INNER;
  const int64_t elements = static_cast<int64_t>(size) * P::INNER;
  copy_slice(data, out, start, start + elements, elements, P::THREADS);
#pragma unroll 1
  for (int chunk = 0; chunk < P::COUNT; chunk += CHUNK) {
    int own[P::ITEMS], count = 0, total, runs = 0;
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) {
      const int at = chunk + i * P::THREADS + threadIdx.x;
      own[i] = at < P::COUNT ? P::slot(indices, at) - begin : -1;
      count += own[i] >= 0 && own[i] < size;
    }
    int place = sum_before<P::THREADS>(count, sums, total);
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) {
      if (own[i] >= 0 && own[i] < size) slots[place] = own[i], found[place++] = i * P::THREADS + threadIdx.x;
    }
    __syncthreads();
    sort_updates<P>(slots, found, heads, total);
#pragma unroll 1
    for (int first = 0; first < total; first += P::THREADS) {
      const int at = first + threadIdx.x;
      const bool head = at < total && (at == 0 || slots[at] != slots[at - 1]);
      int others;
      const int run = runs + sum_before<P::THREADS>(head, sums, others);
      if (head) heads[run] = at;
      runs += others;
    }
    __syncthreads();
    const T* from = updates == nullptr ? updates : updates + static_cast<int64_t>(chunk) * P::INNER;
    for (int run = threadIdx.x / P::COLUMNS; run < runs; run += GROUPS) {
      const int head = heads[run], end = run + 1 < runs ? heads[run + 1] : total;
      T* const to = out + start + static_cast<int64_t>(slots[head]) * P::INNER;
      combine_slice<P>(to, from, found + head, end - head, threadIdx.x % P::COLUMNS);
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
