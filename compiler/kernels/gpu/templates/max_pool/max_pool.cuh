// MaxPool of images whose channels are in blocks of 16 bytes: a thread has a block of one pixel.
//
// `P` holds the constants of one problem, depth, rows and columns being 0, 1 and 2; see template.py.
// `store(outer, channel, pixel, values)` takes the block's results.

template <class P, class T, class Store>
__device__ __forceinline__ void pool_largest(const T* __restrict__ image, const Store& store) {
  typedef Block<T, P::BLOCK> Vector;
  const int place = blockIdx.x * P::THREADS + threadIdx.x;
  if (place >= P::PLACES) return;
  const int pixel = place % P::PIXELS, number = place / P::PIXELS % P::BLOCKS, outer = place / P::PIXELS / P::BLOCKS;
  const int depth = pixel / (P::RESULT1 * P::RESULT2) * P::STRIDES0 - P::PADS0;
  const int row = pixel / P::RESULT2 % P::RESULT1 * P::STRIDES1 - P::PADS1;
  const int column = pixel % P::RESULT2 * P::STRIDES2 - P::PADS2;
  const Vector* source = (const Vector*)image + (int64_t)number * P::CHANNELS + (int64_t)outer * P::IMAGE;
  float largest[P::BLOCK];
#pragma unroll
  for (int c = 0; c < P::BLOCK; c++) largest[c] = -CUDART_INF_F;
#pragma unroll
  for (int i = 0; i < P::WINDOW0; i++) {
#pragma unroll
    for (int j = 0; j < P::WINDOW1; j++) {
#pragma unroll
      for (int k = 0; k < P::WINDOW2; k++) {
        const int z = depth + i * P::DILATIONS0, y = row + j * P::DILATIONS1, x = column + k * P::DILATIONS2;
        if (z < 0 || z >= P::SOURCE0 || y < 0 || y >= P::SOURCE1 || x < 0 || x >= P::SOURCE2) continue;
        const Vector read = source[(z * P::SOURCE1 + y) * P::SOURCE2 + x];
#pragma unroll
        for (int c = 0; c < P::BLOCK; c++) largest[c] = flowloom_maximum(largest[c], (float)read.at[c]);
      }
    }
  }
  store(outer, number * P::BLOCK, pixel, largest);
}
