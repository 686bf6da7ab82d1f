// Matrix products by warpgroups: tensor cores read both operands from shared memory on their own.
//
// Rows of 128 bytes along k lie in shared memory with the chunk c of row r at c ^ r % 8; images in
// channel blocks as they are. A warp holds 16 rows and all columns of its block's tile. A stage is
// filled again two steps after its use, so that one barrier a step is enough.

template <int PRECISION>
struct Kind {};
#define FLOWLOOM_PIECE(j) "+f"(c[j][0]), "+f"(c[j][1]), "+f"(c[j][2]), "+f"(c[j][3])
__device__ __forceinline__ void multiply_wide(float (&c)[4][4], uint64_t a, uint64_t b, Kind<TF32>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[4][4], uint64_t a, uint64_t b, Kind<FP16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n32k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15}, %16, %17, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3) : "l"(a), "l"(b));
}

__device__ __forceinline__ void multiply_wide(float (&c)[8][4], uint64_t a, uint64_t b, Kind<TF32>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[8][4], uint64_t a, uint64_t b, Kind<FP16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31}, %32, %33, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7) : "l"(a), "l"(b));
}

__device__ __forceinline__ void multiply_wide(float (&c)[12][4], uint64_t a, uint64_t b, Kind<TF32>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n96k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, %48, %49, 1, 1, 1;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7), FLOWLOOM_PIECE(8), FLOWLOOM_PIECE(9), FLOWLOOM_PIECE(10), FLOWLOOM_PIECE(11) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[12][4], uint64_t a, uint64_t b, Kind<FP16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n96k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47}, %48, %49, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7), FLOWLOOM_PIECE(8), FLOWLOOM_PIECE(9), FLOWLOOM_PIECE(10), FLOWLOOM_PIECE(11) : "l"(a), "l"(b));
}

__device__ __forceinline__ void multiply_wide(float (&c)[16][4], uint64_t a, uint64_t b, Kind<TF32>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k8.f32.tf32.tf32 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7), FLOWLOOM_PIECE(8), FLOWLOOM_PIECE(9), FLOWLOOM_PIECE(10), FLOWLOOM_PIECE(11), FLOWLOOM_PIECE(12), FLOWLOOM_PIECE(13), FLOWLOOM_PIECE(14), FLOWLOOM_PIECE(15) : "l"(a), "l"(b));
}
__device__ __forceinline__ void multiply_wide(float (&c)[16][4], uint64_t a, uint64_t b, Kind<FP16>) {
  asm volatile("wgmma.mma_async.sync.aligned.m64n128k16.f32.f16.f16 {%0, %1, %2, %3, %4, %5, %6, %7, %8, %9, %10, %11, %12, %13, %14, %15, %16, %17, %18, %19, %20, %21, %22, %23, %24, %25, %26, %27, %28, %29, %30, %31, %32, %33, %34, %35, %36, %37, %38, %39, %40, %41, %42, %43, %44, %45, %46, %47, %48, %49, %50, %51, %52, %53, %54, %55, %56, %57, %58, %59, %60, %61, %62, %63}, %64, %65, 1, 1, 1, 0, 0;"
               : FLOWLOOM_PIECE(0), FLOWLOOM_PIECE(1), FLOWLOOM_PIECE(2), FLOWLOOM_PIECE(3), FLOWLOOM_PIECE(4), FLOWLOOM_PIECE(5), FLOWLOOM_PIECE(6), FLOWLOOM_PIECE(7), FLOWLOOM_PIECE(8), FLOWLOOM_PIECE(9), FLOWLOOM_PIECE(10), FLOWLOOM_PIECE(11), FLOWLOOM_PIECE(12), FLOWLOOM_PIECE(13), FLOWLOOM_PIECE(14), FLOWLOOM_PIECE(15) : "l"(a), "l"(b));
}
#undef FLOWLOOM_PIECE
__device__ __forceinline__ void wide_fence() { asm volatile("wgmma.fence.sync.aligned;" ::: "memory"); }
__device__ __forceinline__ void wide_commit() { asm volatile("wgmma.commit_group.sync.aligned;" ::: "memory"); }
template <int PENDING>
__device__ __forceinline__ void wide_wait() { asm volatile("wgmma.wait_group.sync.aligned %0;" ::"n"(PENDING) : "memory"); }
__device__ __forceinline__ void copies_to_tensor_cores() { asm volatile("fence.proxy.async.shared::cta;" ::: "memory"); }

template <class P, int HEIGHT, int COUNT, int STRIDE, bool ALIGNED>
struct WideCopies {
  using T = Tiles<P>;
  using Element = typename P::Element;
  static constexpr bool WHOLE = ALIGNED && STRIDE % T::CHUNK == 0 && P::K % T::CHUNK == 0;
  static constexpr int WIDTH = WHOLE ? T::CHUNK : 1, PARTS = P::BK / WIDTH, PASS = T::THREADS / PARTS;
  const Element* from;
  int row, k, rows, depth;
  __device__ __forceinline__ WideCopies(const Element* matrix, int first, int k0) {
    row = threadIdx.x / PARTS, k = threadIdx.x % PARTS * WIDTH;
    from = matrix + (int64_t)(first + row) * STRIDE + k0 + k;
    rows = COUNT - first - row, depth = P::K - k0 - k;
  }
  __device__ __forceinline__ void copy(int4* tile) {
    Element* to = (Element*)tile;
    const int fixed = row * P::BK + (k / T::CHUNK ^ row % 8) * T::CHUNK + k % T::CHUNK;
#pragma unroll
    for (int i = 0; i < HEIGHT; i += PASS) {
      const bool valid = (COUNT % HEIGHT == 0 || i < rows) && (P::K % P::BK == 0 || depth > 0);
      const int place = PASS % 8 == 0 ? fixed + i * P::BK
                                      : (row + i) * P::BK + (k / T::CHUNK ^ (row + i) % 8) * T::CHUNK + k % T::CHUNK;
      if constexpr (WHOLE)
        copy_chunk<false>(to + place, valid ? from + (int64_t)i * STRIDE : from, valid);
      else
        copy_element(to + place, valid ? from + (int64_t)i * STRIDE : from, valid);
    }
    from += P::BK, depth -= P::BK;
  }
};

template <class P, bool ALIGNED, int FORM>
struct WideRight {
  using Type = WideCopies<P, P::BN, P::N, P::B_ROW, ALIGNED>;
};
template <class P, bool ALIGNED>
struct WideRight<P, ALIGNED, BLOCKS> {
  using Type = BlockCopies<P>;
};

// Rows of 128 bytes with swizzled chunks.
__device__ __forceinline__ uint64_t swizzled_tile(const void* tile) {
  return (uint64_t)(shared_address(tile) >> 4 & 0x3fff) | (uint64_t)1 << 16 | (uint64_t)64 << 32 | (uint64_t)1 << 62;
}
// Chunks of 16 bytes, those of one k beside each other, `columns` of them.
__device__ __forceinline__ uint64_t blocked_tile(const void* tile, int columns) {
  return (uint64_t)(shared_address(tile) >> 4 & 0x3fff) | (uint64_t)columns << 16 | (uint64_t)8 << 32;
}

template <class P, bool ALIGNED, class Fetch>
__device__ __forceinline__ void accumulate_wide(Sums<P>& c, int4* tiles, const typename P::Element* a,
                                                const typename P::Element* b, int first, int steps, const Fetch& fetch) {
  using T = Tiles<P>;
  constexpr int A_SIZE = P::BM * 8, STAGE = A_SIZE + P::BN * 8, AHEAD = P::STAGES - 2;
  WideCopies<P, P::BM, P::M, P::A_ROW, ALIGNED> left(a, blockIdx.y * P::BM, first * P::BK);
  typename WideRight<P, ALIGNED, P::FORM>::Type right(b, blockIdx.x * P::BN, first * P::BK);
  int filled = 0, used = 0, rest = steps;
  auto fill = [&]() {
    int4* tile = tiles + filled * STAGE;
    if (rest-- > 0) left.copy(tile), right.copy(tile + A_SIZE);
    copies_commit();
    filled = filled == P::STAGES - 1 ? 0 : filled + 1;
  };
#pragma unroll 1
  for (int i = 0; i < AHEAD; i++) fill();
  fetch();
#pragma unroll 1
  for (int step = 0; step < steps; step++) {
    copies_wait<AHEAD - 1>();
    copies_to_tensor_cores();
    __syncthreads();
    const int4* tile = tiles + used * STAGE;
    const uint64_t x = swizzled_tile(tile + threadIdx.x / 128 * 64 * 8);
    const uint64_t y = P::FORM == BLOCKS ? blocked_tile(tile + A_SIZE, P::BN) : swizzled_tile(tile + A_SIZE);
    wide_fence();
#pragma unroll
    for (int k = 0; k < 4; k++)
      multiply_wide(c[0], x + k * 2, y + k * (P::FORM == BLOCKS ? 2 * P::BN : 2), Kind<P::PRECISION>());
    wide_commit();
    fill();
    wide_wait<1>();
    used = used == P::STAGES - 1 ? 0 : used + 1;
  }
  wide_wait<0>();
  copies_wait<0>();
  __syncthreads();
}

template <class P, int PARTS, class Store>
__device__ __forceinline__ void store_wide(const float* tile, const Store& store) {
  using T = Tiles<P>;
#pragma unroll 8
  for (int i = blockIdx.z % PARTS * T::THREADS + threadIdx.x; i < P::BM * P::BN; i += PARTS * T::THREADS) {
    const int row = i / P::BN, column = i % P::BN, m = blockIdx.y * P::BM + row, n = blockIdx.x * P::BN + column;
    if (m < P::M && n < P::N) store(blockIdx.z, m, n, total_of<PARTS>(tile + row * T::C_STRIDE + column));
  }
}

// As `contract`.
template <class P, class Store>
__device__ __forceinline__ void contract_wide(const typename P::Element* a, const typename P::Element* b, const Store& store) {
  extern __shared__ __align__(1024) float wide_shared[];
  float* shared = (float*)((uint64_t)wide_shared + (-shared_address(wide_shared) & 1023));
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SHARE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  constexpr int PARTS = P::CLUSTER ? P::SPLITS : 1;
  const int z = blockIdx.z / P::SPLITS, first = blockIdx.z % P::SPLITS * SHARE, steps = min(SHARE, STEPS - first);
  a += P::a_offset(z), b += P::b_offset(z);
  Sums<P> c = {};
  auto fetch = [&]() {
    if constexpr (P::OUT_BLOCK > 0) BlockStore<P, PARTS>(shared).fetch(store);
  };
  if (P::ALIGNED || (((uint64_t)a | (uint64_t)b) & 15) == 0)
    accumulate_wide<P, true>(c, (int4*)shared, a, b, first, steps, fetch);
  else
    accumulate_wide<P, false>(c, (int4*)shared, a, b, first, steps, fetch);
  spread<P>(c, shared);
  if (PARTS > 1) cluster_wait();
  if constexpr (P::OUT_BLOCK > 0)
    BlockStore<P, PARTS>(shared).finish(store);
  else
    store_wide<P, PARTS>(shared, store);
  if (PARTS > 1) cluster_leave();
}
