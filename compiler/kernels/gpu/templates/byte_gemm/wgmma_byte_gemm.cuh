// GEMM of integers by WGMMA: the main loop of wgmma_gemm.cuh, whose 32 bytes of a row are a k of 32.

// As `byte_gemm`.
template <class P, class Store>
__device__ __forceinline__ void wgmma_byte_gemm(const uint8_t* a, const uint8_t* b, const Store& store) {
  float* const shared = swizzled_shared();
  constexpr int STEPS = (P::K + P::BK - 1) / P::BK, SLICE = (STEPS + P::SPLITS - 1) / P::SPLITS;
  static_assert((P::FORM == ROWS && P::OUT_BLOCK == 0) || (P::FORM == BLOCKS && (P::SPLITS - 1) * SLICE < STEPS));
  static_assert(P::SPLITS == 1 || P::CLUSTER);
  const int z = blockIdx.z / P::SPLITS, first = blockIdx.z % P::SPLITS * SLICE, steps = min(SLICE, STEPS - first);
  const int* sums = sums_of_weights<P>(a, b, z);
  a += P::a_offset(z), b += P::b_offset(z);
  ByteSums<P> c = {};
  const ByteKinds<Bytes<P>::A_KIND, Bytes<P>::B_KIND> kinds;
  auto prefetch = [&]() { prefetch_epilogue<P, P::SPLITS, false>(shared, store); };
  if (P::ALIGNED || (((uint64_t)a | (uint64_t)b) & 15) == 0)
    wgmma_mainloop<P, true>(c, kinds, (int4*)shared, a, b, first, steps, prefetch);
  else
    wgmma_mainloop<P, false>(c, kinds, (int4*)shared, a, b, first, steps, prefetch);
  store_bytes<P>(c, shared, sums, first, store);
}
