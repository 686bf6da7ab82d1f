// Convolutions of each channel by itself, on images whose channels lie in blocks of 16 bytes.
//
// Each thread computes PIXELS results beside each other in a row, for the channels of one block. A
// row of the image that its windows share is loaded once, 16 bytes at a time, and stays in registers.
// `P` holds the constants of one problem; axes 0, 1, 2 are depth, rows and columns.

template <int COUNT, class Element>
__device__ __forceinline__ void load_channels(float (&to)[COUNT], const Element* from) {
#pragma unroll
  for (int i = 0; i < COUNT * (int)sizeof(Element) / 16; i++) {
    const int4 chunk = ((const int4*)from)[i];
    constexpr int PART = 16 / sizeof(Element);
#pragma unroll
    for (int b = 0; b < PART; b++) to[i * PART + b] = ((const Element*)&chunk)[b];
  }
}

template <class P, class Element, class Weight, class Store>
__device__ __forceinline__ void convolve_channels(const Element* image, const Weight* weights, const Store& store) {
  constexpr int B = P::BLOCK, GROUPS = (P::RESULT2 + P::PIXELS - 1) / P::PIXELS;
  constexpr int SPAN = (P::PIXELS - 1) * P::STRIDES2 + (P::WINDOW2 - 1) * P::DILATIONS2 + 1;
  unsigned at = blockIdx.x * P::THREADS + threadIdx.x;
  const int x = at % GROUPS * P::PIXELS;
  at /= GROUPS;
  const int y = at % P::RESULT1;
  at /= P::RESULT1;
  const int z = at % P::RESULT0;
  at /= P::RESULT0;
  const int c = at % P::BLOCKS, n = at / P::BLOCKS;
  if (n >= P::BATCH) return;
  image += (int64_t)(n * P::BLOCKS + c) * P::SOURCE0 * P::SOURCE1 * P::SOURCE2 * B;
  weights += c * P::WINDOW0 * P::WINDOW1 * P::WINDOW2 * B;
  float sums[P::PIXELS][B] = {};
#pragma unroll
  for (int k = 0; k < P::WINDOW0; k++) {
    const int depth = z * P::STRIDES0 - P::PADS0 + k * P::DILATIONS0;
    if ((unsigned)depth >= P::SOURCE0) continue;
#pragma unroll
    for (int j = 0; j < P::WINDOW1; j++) {
      const int row = y * P::STRIDES1 - P::PADS1 + j * P::DILATIONS1, first = x * P::STRIDES2 - P::PADS2;
      if ((unsigned)row >= P::SOURCE1) continue;
      const Element* line = image + (int64_t)(depth * P::SOURCE1 + row) * P::SOURCE2 * B;
      float values[SPAN][B];
#pragma unroll
      for (int s = 0; s < SPAN; s++) {
#pragma unroll
        for (int b = 0; b < B; b++) values[s][b] = 0;
        if ((unsigned)(first + s) < P::SOURCE2) load_channels(values[s], line + (first + s) * B);
      }
#pragma unroll
      for (int i = 0; i < P::WINDOW2; i++) {
        float factors[B];
        load_channels(factors, weights + ((k * P::WINDOW1 + j) * P::WINDOW2 + i) * B);
#pragma unroll
        for (int p = 0; p < P::PIXELS; p++)
#pragma unroll
          for (int b = 0; b < B; b++) sums[p][b] += factors[b] * values[p * P::STRIDES2 + i * P::DILATIONS2][b];
      }
    }
  }
#pragma unroll
  for (int p = 0; p < P::PIXELS; p++)
    if (P::RESULT2 % P::PIXELS == 0 || x + p < P::RESULT2)
#pragma unroll
      for (int b = 0; b < B; b++)
        store(n, c * B + b, (z * P::RESULT1 + y) * P::RESULT2 + x + p, sums[p][b]);
}
