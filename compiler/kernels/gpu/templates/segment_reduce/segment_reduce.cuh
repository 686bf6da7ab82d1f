// SegmentReduce: the rows of a tensor, each combined with its segment of the updates.
//
// PARTS * LANES threads share LANES * WIDTH columns of a row. Each part of them takes every PARTS-th batch
// of the segment: its lanes read where the updates of a batch are, then each lane combines its columns
// of all of them in float32, FLIGHT loaded at a time. The results of the parts are combined in their order in
// shared memory, from where neighbouring threads store neighbouring elements. Without atomics, the order
// depends on the length of the segment only.
//
// `P` holds the constants of one problem; see template.py. `P::combine(a, b)` reduces two
// numbers to one, `P::identity()` changes none. `load.source(update)` is the row of an update,
// `load.get<ALIGNED>(source, column, values)` gives what a lane has of it, to be combined by `values.at`;
// `initial(row, column)` is an element of the data, `store(row, column, total)` takes a result: one of LENGTH
// of a row, from OFFSET on those that are combined. The others need none: the blocks from SEGMENTS on store them.

// The largest of the warp's numbers.
__device__ __forceinline__ int warp_most(int x) {
#pragma unroll
  for (int other = 16; other > 0; other /= 2) {
    const int theirs = __shfl_xor_sync(~0u, x, other, 32);
    x = x > theirs ? x : theirs;
  }
  return x;
}

// Combines a part's share of the updates from `begin` to `end` with a lane's columns, the first of them
// `own`. All lanes of a warp go on as long as one has updates left: they exchange sources.
template <class P, bool ALIGNED, class Load>
__device__ __forceinline__ void combine_updates(
    int begin, int end, const int* order, const Load& load, int own, float (&total)[P::WIDTH]) {
  constexpr int EACH = P::LANES < P::FLIGHT ? P::FLIGHT / P::LANES : 1, BATCH = EACH * P::LANES;
  const int lane = threadIdx.x % P::LANES, left = warp_most(end - begin);
#pragma unroll 1
  for (int done = 0; done < left; done += P::PARTS * BATCH) {
    const int count = end - begin - done;
    int source[EACH];
#pragma unroll
    for (int i = 0; i < EACH; i++) {
      const int at = i * P::LANES + lane;
      source[i] = at < count ? load.source(order[begin + done + at]) : 0;
    }
#pragma unroll 1
    for (int first = 0; first < BATCH && first < left - done; first += P::FLIGHT) {
      typename Load::Values values[P::FLIGHT];
#pragma unroll
      for (int k = 0; k < P::FLIGHT; k++) {
        const int from = __shfl_sync(~0u, source[EACH == 1 ? 0 : k / P::LANES], (first + k) % P::LANES, P::LANES);
        if (own < P::COLUMNS) load.template get<ALIGNED>(from, own, values[k]);
      }
#pragma unroll
      for (int k = 0; k < P::FLIGHT; k++) {
#pragma unroll
        for (int w = 0; w < P::WIDTH; w++) {
          if (own + w * Load::STEP < P::COLUMNS) {
            const float update = first + k < count ? static_cast<float>(values[k].at[w]) : P::identity();
            total[w] = P::combine(total[w], update);
          }
        }
      }
    }
  }
}

// Stores a block's share of the results that depend on no segment.
template <class P, class Store>
__device__ __forceinline__ void store_others(int block, const Store& store) {
  constexpr int REST = P::LENGTH - P::COLUMNS, OTHERS = REST > 0 ? REST : 1;
#pragma unroll
  for (int k = 0; k < P::COPIED; k++) {
    const int i = (block * P::COPIED + k) * P::THREADS + threadIdx.x, column = i % OTHERS;
    if (i / OTHERS < P::ROWS) store(i / OTHERS, column < P::OFFSET ? column : column + P::COLUMNS, 0.0f);
  }
}

template <class P, class Load, class Initial, class Store>
__device__ __forceinline__ void reduce_segments(
    const int* starts, const int* order, const Load& load, const Initial& initial, const Store& store) {
  constexpr int SHARERS = P::LANES * P::PARTS, SPAN = P::LANES * P::WIDTH, ITEMS = (SPAN + SHARERS - 1) / SHARERS;
  constexpr int BATCH = P::LANES < P::FLIGHT ? P::FLIGHT : P::LANES;
  __shared__ float totals[P::THREADS / P::LANES][SPAN];
  if (P::LENGTH > P::COLUMNS && blockIdx.x >= P::SEGMENTS) {
    store_others<P>(blockIdx.x - P::SEGMENTS, store);
    return;
  }
  const int lane = threadIdx.x % P::LANES, part = threadIdx.x / P::LANES % P::PARTS;
  const int unit = blockIdx.x * (P::THREADS / SHARERS) + threadIdx.x / SHARERS;
  const int row = unit / P::SPANS, first = unit % P::SPANS * SPAN;
  const int limit = row < P::ROWS ? P::COLUMNS : 0;
  const int begin = limit > 0 ? starts[row] + part * BATCH : 0, end = limit > 0 ? starts[row + 1] : 0;
  float total[P::WIDTH], result[ITEMS];
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const int column = i * SHARERS + threadIdx.x % SHARERS;
    result[i] = column < SPAN && first + column < limit ? initial(row, first + column) : 0.0f;
  }
#pragma unroll
  for (int w = 0; w < P::WIDTH; w++) total[w] = P::identity();
  const int own = first + (Load::STEP == 1 ? lane * P::WIDTH : lane);
  if (load.aligned()) {
    combine_updates<P, true>(begin, end, order, load, own, total);
  } else {
    combine_updates<P, false>(begin, end, order, load, own, total);
  }
  float* const mine = totals[threadIdx.x / P::LANES];
#pragma unroll
  for (int w = 0; w < P::WIDTH; w++) mine[own - first + w * Load::STEP] = total[w];
  __syncthreads();
  const float(*const parts)[SPAN] = &totals[threadIdx.x / SHARERS * P::PARTS];
#pragma unroll
  for (int i = 0; i < ITEMS; i++) {
    const int column = i * SHARERS + threadIdx.x % SHARERS;
    if (column >= SPAN || first + column >= limit) continue;
#pragma unroll
    for (int p = 0; p < P::PARTS; p++) result[i] = P::combine(result[i], parts[p][column]);
    store(row, P::OFFSET + first + column, result[i]);
  }
}
