// Rows of A that a run decides: a problem's constant M is RUNTIME then, and P::rows() the number.
//
// No tile is known to be whole. Copies of rows stop at the last row; a `Store` leaves out what is after it.

template <class P, int HEIGHT, int STRIDE, bool ALIGNED>
struct RowCopies<P, HEIGHT, RUNTIME, STRIDE, ALIGNED> : RowCopies<P, HEIGHT, RUNTIME - 1, STRIDE, ALIGNED> {
  __device__ __forceinline__ RowCopies(const typename P::Element* matrix, int first, int k0)
      : RowCopies<P, HEIGHT, RUNTIME - 1, STRIDE, ALIGNED>(matrix, first, k0) {
    this->rows += P::rows() - (RUNTIME - 1);
  }
};
