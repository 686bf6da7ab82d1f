// Running sums along an axis.
//
// Rows are divided into chunks, of which a block has LANES side by side: those of consecutive rows. It reads
// tiles of STEPS elements of each into shared memory. A thread adds ITEMS of them, the sums of the threads
// of a row are scanned, and each thread then writes its running sums. Where there are several chunks, a
// launch before adds up each, and a block begins with the sum of the chunks before its own. The order of
// additions depends on the shape alone. Nothing is ever subtracted, so that an infinity or NaN
// changes nothing before it.
//
// `P` holds the constants of one problem. Halves are added in float; integers, which wrap around, are
// unsigned here.

// A place in shared memory of an element, so that threads with consecutive ones meet few bank conflicts.
__device__ __forceinline__ constexpr int padded(int place) { return place + place / 32; }

// The element at a step of a row, in the order of the scan.
template <class P>
__device__ __forceinline__ int64_t place_of(int64_t row, int step) {
  const int position = P::REVERSE ? P::LENGTH - 1 - step : step;
  return (row / P::INNER * P::LENGTH + position) * P::INNER + row % P::INNER;
}

// Turns the sums of the threads of each row into those of all threads up to each.
template <class P>
__device__ __forceinline__ void scan_parts(typename P::Sum* sums) {
  const int part = threadIdx.x / P::LANES;
#pragma unroll
  for (int by = 1; by < P::PARTS; by *= 2) {
    typename P::Sum sum = sums[threadIdx.x];
    if (part >= by) sum = sums[threadIdx.x - by * P::LANES] + sum;
    __syncthreads();
    sums[threadIdx.x] = sum;
    __syncthreads();
  }
}

// The sum of a row's thread-wise sums, for all its threads.
template <class P>
__device__ __forceinline__ typename P::Sum total_of(typename P::Sum own, typename P::Sum* sums) {
  sums[threadIdx.x] = own;
  __syncthreads();
#pragma unroll
  for (int half = P::PARTS / 2; half > 0; half /= 2) {
    if (threadIdx.x < half * P::LANES) sums[threadIdx.x] = sums[threadIdx.x] + sums[threadIdx.x + half * P::LANES];
    __syncthreads();
  }
  return sums[threadIdx.x % P::LANES];
}

// The sum of each chunk but the last of each row.
template <class P>
__device__ __forceinline__ void sum_chunks(const typename P::Element* data, typename P::Sum* totals) {
  __shared__ typename P::Sum sums[P::THREADS];
  const int lane = threadIdx.x % P::LANES, part = threadIdx.x / P::LANES, chunk = blockIdx.x % (P::CHUNKS - 1);
  const int64_t row = static_cast<int64_t>(blockIdx.x / (P::CHUNKS - 1)) * P::LANES + lane;
  typename P::Sum sum = P::none();
  if (row < P::ROWS) {
#pragma unroll 8
    for (int step = part; step < P::CHUNK; step += P::PARTS) {
      sum = sum + P::load(data[place_of<P>(row, chunk * P::CHUNK + step)]);
    }
  }
  sum = total_of<P>(sum, sums);
  if (part == 0 && row < P::ROWS) totals[chunk * static_cast<int64_t>(P::ROWS) + row] = sum;
}

// Calls `access(at, inside, place)` for a thread's elements of a tile: their places in shared memory, whether
// they exist, and their places in the tensor. Rows are contiguous, or their steps side by side are.
template <class P, class Access>
__device__ __forceinline__ void for_tile(int64_t first, int begin, const Access& access) {
#pragma unroll
  for (int i = 0; i < P::ITEMS; i++) {
    const int number = i * P::THREADS + threadIdx.x;
    const int step = P::INNER == 1 ? number % P::STEPS : number / P::LANES;
    const int lane = P::INNER == 1 ? number / P::STEPS : number % P::LANES;
    const bool inside = first + lane < P::ROWS && begin + step < P::LENGTH;
    access(padded(lane * P::STEPS + step), inside, place_of<P>(first + lane, begin + step));
  }
}

// The running sums of a chunk of each row; `totals` are those of chunks, if there are several.
template <class P>
__device__ __forceinline__ void scan_chunks(
    const typename P::Element* data, const typename P::Sum* totals, typename P::Element* results) {
  using Sum = typename P::Sum;
  __shared__ Sum tile[padded(P::THREADS * P::ITEMS)], sums[P::THREADS];
  const int lane = threadIdx.x % P::LANES, part = threadIdx.x / P::LANES, chunk = blockIdx.x % P::CHUNKS;
  const int64_t first = static_cast<int64_t>(blockIdx.x / P::CHUNKS) * P::LANES;
  const int last = (chunk + 1) * static_cast<int64_t>(P::CHUNK) < P::LENGTH ? (chunk + 1) * P::CHUNK : P::LENGTH;
  Sum before = P::none();
  if constexpr (P::CHUNKS > 1) {
    if (first + lane < P::ROWS) {
      for (int other = part; other < chunk; other += P::PARTS) {
        before = before + totals[other * static_cast<int64_t>(P::ROWS) + first + lane];
      }
    }
    before = total_of<P>(before, sums);
  }
  if (P::EXCLUSIVE && chunk == 0) before = Sum(0);
#pragma unroll 1
  for (int begin = chunk * P::CHUNK; begin < last; begin += P::STEPS) {
    for_tile<P>(first, begin, [&](int at, bool inside, int64_t place) {
      tile[at] = inside ? P::load(data[place]) : P::none();
    });
    __syncthreads();
    const int mine = lane * P::STEPS + part * P::ITEMS;
    Sum own = P::none();
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) own = own + tile[padded(mine + i)];
    sums[threadIdx.x] = own;
    __syncthreads();
    scan_parts<P>(sums);
    Sum sum = part == 0 ? before : before + sums[threadIdx.x - P::LANES];
    before = before + sums[(P::PARTS - 1) * P::LANES + lane];
#pragma unroll
    for (int i = 0; i < P::ITEMS; i++) {
      const Sum next = sum + tile[padded(mine + i)];
      tile[padded(mine + i)] = P::EXCLUSIVE ? sum : next;
      sum = next;
    }
    __syncthreads();
    for_tile<P>(first, begin, [&](int at, bool inside, int64_t place) {  // the thread's own, which it loads next
      if (inside) results[place] = P::store(tile[at]);
    });
  }
}

// The same for rows of a single chunk.
template <class P>
__device__ __forceinline__ void scan_chunks(const typename P::Element* data, typename P::Element* results) {
  scan_chunks<P>(data, nullptr, results);
}
