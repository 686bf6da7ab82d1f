// GEMV: a few rows multiplied by a matrix, bound by the bandwidth of reading the matrix once.
//
// Each block has 32 columns; its WARPS warps take every WARPS-th row of the matrix, and their partial
// sums are added in shared memory, in a fixed order. `P` is as in gemm.cuh.

template <class P, int WARPS, class Element, class Store>
__device__ __forceinline__ void gemv(const Element* a, const Element* b, const Store& store) {
  __shared__ float sums[WARPS][P::M][32];
  const int lane = threadIdx.x % 32, warp = threadIdx.x / 32, n = blockIdx.x * 32 + lane, z = blockIdx.z;
  a += P::a_offset(z), b += P::b_offset(z);
  float c[P::M] = {};
  if (n < P::N) {
#pragma unroll 8
    for (int k = warp; k < P::K; k += WARPS) {
      const float x = b[(int64_t)k * P::PLANE + n];
#pragma unroll
      for (int m = 0; m < P::M; m++) c[m] += (float)a[(int64_t)m * P::A_ROW + k] * x;
    }
  }
#pragma unroll
  for (int m = 0; m < P::M; m++) sums[warp][m][lane] = c[m];
  __syncthreads();
  for (int m = warp; m < P::M; m += WARPS) {
    float total = 0;
#pragma unroll
    for (int w = 0; w < WARPS; w++) total += sums[w][m][lane];
    if (n < P::N) store(z, m, n, total);
  }
}
