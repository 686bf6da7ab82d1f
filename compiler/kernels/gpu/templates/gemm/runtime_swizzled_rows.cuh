// As runtime_rows.cuh, of rows that WGMMA reads.

template <class P, int HEIGHT, int STRIDE, bool ALIGNED>
struct SwizzledCopies<P, HEIGHT, RUNTIME, STRIDE, ALIGNED> : SwizzledCopies<P, HEIGHT, RUNTIME - 1, STRIDE, ALIGNED> {
  __device__ __forceinline__ SwizzledCopies(const typename P::Element* matrix, int first, int k0)
      : SwizzledCopies<P, HEIGHT, RUNTIME - 1, STRIDE, ALIGNED>(matrix, first, k0) {
    this->rows += P::rows() - (RUNTIME - 1);
  }
};
