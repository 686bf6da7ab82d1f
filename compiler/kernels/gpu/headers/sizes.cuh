// Sizes that a run decides. A block of a kernel that is written for all sizes reads them once.

constexpr int MOST_RUNTIME_SIZES = 16;
constexpr int RUNTIME = 0x7fffffff;  // stands for a size that a run decides where a constant is asked for

__device__ __forceinline__ int (&runtime_sizes())[MOST_RUNTIME_SIZES] {
  __shared__ int sizes[MOST_RUNTIME_SIZES];
  return sizes;
}

__device__ __forceinline__ int runtime_size(int number) { return runtime_sizes()[number]; }

// Reads the sizes; all threads of a block take part.
__device__ __forceinline__ void read_sizes(const int64_t* sizes, int count) {
  if (threadIdx.x < count) runtime_sizes()[threadIdx.x] = (int)sizes[threadIdx.x];
  __syncthreads();
}
