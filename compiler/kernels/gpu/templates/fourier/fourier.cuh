// Fourier transforms of rows of complex numbers, in as many stages as their length has radices.
//
// The THREADS threads of a row make the transforms of a stage's radix R in registers (Stockham's order: the
// results of a stage are in the order in which the next one reads them, so that no row is permuted). The
// first stage reads the tensor and the last one writes it, both in consecutive elements; in between, rows
// are in shared memory. All is float32, with powers of the root of unity rounded from float64.
//
// `P` holds the constants of one problem; see template.py. `P::cosine(i)` and `P::sine(i)` are the parts of
// power `i` of the root of unity, SIGN is that of its exponent.

struct Complex {
  float real, imaginary;
};

__device__ __forceinline__ Complex operator+(const Complex& a, const Complex& b) {
  return {a.real + b.real, a.imaginary + b.imaginary};
}
__device__ __forceinline__ Complex operator-(const Complex& a, const Complex& b) {
  return {a.real - b.real, a.imaginary - b.imaginary};
}
__device__ __forceinline__ Complex operator*(const Complex& a, const Complex& b) {
  return {a.real * b.real - a.imaginary * b.imaginary, a.real * b.imaginary + a.imaginary * b.real};
}

template <class P>
__device__ __forceinline__ Complex root(int power) {
  return {P::cosine(power), P::sine(power)};
}

// A number times the fourth root of unity.
template <class P>
__device__ __forceinline__ Complex turned(const Complex& a) {
  return {-P::SIGN * a.imaginary, P::SIGN * a.real};
}

template <class P>
__device__ __forceinline__ void transform_four(Complex& a, Complex& b, Complex& c, Complex& d) {
  const Complex even = a + c, odd = b + d, left = a - c, right = turned<P>(b - d);
  a = even + odd, b = left + right, c = even - odd, d = left - right;
}

// The transform of R numbers in registers.
template <class P, int R>
__device__ __forceinline__ void transform_few(Complex (&own)[R]) {
  if constexpr (R == 2) {
    const Complex a = own[0], b = own[1];
    own[0] = a + b, own[1] = a - b;
  } else if constexpr (R == 4) {
    transform_four<P>(own[0], own[1], own[2], own[3]);
  } else if constexpr (R == 8) {
    transform_four<P>(own[0], own[2], own[4], own[6]);
    transform_four<P>(own[1], own[3], own[5], own[7]);
    constexpr float HALF = 0.70710678118654752f, TURN = P::SIGN * HALF;
    const Complex even[4] = {own[0], own[2], own[4], own[6]};
    const Complex odd[4] = {
        own[1], own[3] * Complex{HALF, TURN}, turned<P>(own[5]), own[7] * Complex{-HALF, TURN}};
#pragma unroll
    for (int k = 0; k < 4; k++) own[k] = even[k] + odd[k], own[k + 4] = even[k] - odd[k];
  } else {
    Complex sums[R];
#pragma unroll
    for (int k = 0; k < R; k++) {
      sums[k] = own[0];
#pragma unroll
      for (int j = 1; j < R; j++) sums[k] = sums[k] + own[j] * root<P>(j * k % R * (P::LENGTH / R));
    }
#pragma unroll
    for (int k = 0; k < R; k++) own[k] = sums[k];
  }
}

// A row in shared memory, with a gap after every 32 elements, so that strides of a warp meet few in a bank.
struct Row {
  float *real, *imaginary;
  __device__ __forceinline__ Complex get(int i) const { return {real[i + i / 32], imaginary[i + i / 32]}; }
  __device__ __forceinline__ void put(int i, const Complex& value) const {
    real[i + i / 32] = value.real, imaginary[i + i / 32] = value.imaginary;
  }
};

// The stages from that of radix R on, of rows in which transforms of length DONE are finished. `source.get(i)`
// is element `i` of the row, `target.put(k, value)` takes bin `k`.
template <class P, int DONE, int R, int... OTHERS, class Source, class Target>
__device__ __forceinline__ void stages(const Source& source, const Row& row, const Target& target, int lane) {
  constexpr int COUNT = P::LENGTH / R, EACH = (COUNT + P::THREADS - 1) / P::THREADS;
  constexpr bool FIRST = DONE == 1, LAST = sizeof...(OTHERS) == 0;
  Complex own[EACH][R];
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int at = e * P::THREADS + lane;
    if (at < COUNT) {
#pragma unroll
      for (int r = 0; r < R; r++) {
        own[e][r] = source.get(at + r * COUNT);
        if (!FIRST && r > 0) own[e][r] = own[e][r] * root<P>(at % DONE * r * (COUNT / DONE));
      }
      transform_few<P>(own[e]);
    }
  }
  if (!FIRST && !LAST) __syncthreads();
#pragma unroll
  for (int e = 0; e < EACH; e++) {
    const int at = e * P::THREADS + lane;
    if (at < COUNT) {
#pragma unroll
      for (int r = 0; r < R; r++) {
        const int bin = at / DONE * DONE * R + at % DONE + r * DONE;
        if constexpr (LAST) {
          target.put(bin, own[e][r]);
        } else {
          row.put(bin, own[e][r]);
        }
      }
    }
  }
  if constexpr (!LAST) {
    __syncthreads();
    stages<P, DONE * R, OTHERS...>(row, row, target, lane);
  }
}

// The elements of a row of the tensor; those beyond its end are zero, or the conjugates of those from its
// start. An imaginary part without memory is zero.
template <class P>
struct Elements {
  const float *real, *imaginary;
  int64_t row;
  __device__ __forceinline__ Complex get(int i) const {
    const bool given = i < P::HAVE;
    if ((!given && !P::HALF) || row >= P::ROWS) return {0.0f, 0.0f};
    const int64_t at = row * P::HAVE + (given ? i : P::LENGTH - i);
    const float other = imaginary ? imaginary[at] : 0.0f;
    return {real[at], given ? other : -other};
  }
};

// The first bins of a row of the results, of which one may be missing.
template <class P>
struct Results {
  float *real, *imaginary;
  int64_t row;
  __device__ __forceinline__ void put(int k, const Complex& value) const {
    if (k >= P::BINS || row >= P::ROWS) return;
    if (real) real[row * P::BINS + k] = value.real;
    if (imaginary) imaginary[row * P::BINS + k] = value.imaginary;
  }
};

template <class P, int... RADICES>
__device__ __forceinline__ void transform_rows(
    const float* real, const float* imaginary, float* real_bins, float* imaginary_bins) {
  constexpr int SPACE = P::LENGTH + P::LENGTH / 32 + 1;
  __shared__ float parts[P::ROWS_OF_BLOCK][2][SPACE];
  const int own = threadIdx.x / P::THREADS, lane = threadIdx.x % P::THREADS;
  const int64_t number = static_cast<int64_t>(blockIdx.x) * P::ROWS_OF_BLOCK + own;
  const Row row{parts[own][0], parts[own][1]};
  const Elements<P> source{real, imaginary, number};
  const Results<P> target{real_bins, imaginary_bins, number};
  stages<P, 1, RADICES...>(source, row, target, lane);
}
