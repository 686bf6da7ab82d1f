// If and Loop in a graph: kernels that set the conditions of conditional nodes, and the pointers that kernels
// of bodies read. Their tables are made by compiler/backends/gpu/control.py.

#ifdef __CUDACC_RTC__
extern "C" __device__ void cudaGraphSetConditional(unsigned long long handle, unsigned value);
#endif

// Where a pointer of a body leads: to a buffer of the control task in iteration 0, in 1, 3.. and in 2, 4..
struct control_place {
  long long slot, first, odd, even;  // slots
  long long offset, step;            // bytes, and bytes more in each iteration
};

struct control_carry { long long initial, even, odd, bytes; };  // slots of a carried value's buffers

struct control_record {
  char** slots;
  const control_place* places;  // first those that are the same in all iterations
  const control_carry* carries;
  long long fixed, moving, carried;
  long long length, trips, going;  // iterations; if negative, slots of a trip count and a condition
  long long iteration, condition;  // slots; the condition is negative if no body computes it
  long long done, limit;           // iterations
};

__device__ __forceinline__ void control_bind(const control_record* own, long long from, long long to, long long done) {
  for (long long i = from + threadIdx.x; i < to; i += blockDim.x) {
    const control_place p = own->places[i];
    const long long buffer = done == 0 ? p.first : done % 2 ? p.odd : p.even;
    own->slots[p.slot] = own->slots[buffer] + p.offset + done * p.step;
  }
}

__device__ __forceinline__ bool control_is_true(const control_record* own, long long slot) {
  return *(const unsigned char*)own->slots[slot] != 0;
}

extern "C" __global__ void flowloom_if(control_record* own, unsigned long long* condition) {
  control_bind(own, 0, own->fixed, 0);
  if (threadIdx.x == 0) cudaGraphSetConditional((unsigned long long)condition, control_is_true(own, own->going));
}

extern "C" __global__ void flowloom_loop_begin(control_record* own, unsigned long long* condition) {
  control_bind(own, 0, own->fixed + own->moving, 0);
  if (threadIdx.x != 0) return;
  long long limit = own->length;
  if (limit < 0) limit = control_is_true(own, own->going) ? *(const long long*)own->slots[own->trips] : 0;
  own->done = 0, own->limit = limit;
  *(long long*)own->slots[own->iteration] = 0;
  cudaGraphSetConditional((unsigned long long)condition, limit > 0);
}

extern "C" __global__ void flowloom_loop_next(control_record* own, unsigned long long* condition) {
  const long long done = own->done + 1;
  const bool again = done < own->limit && (own->condition < 0 || control_is_true(own, own->condition));
  if (again) control_bind(own, own->fixed, own->fixed + own->moving, done);
  __syncthreads();  // all have read how many were done
  if (threadIdx.x != 0) return;
  own->done = done;
  *(long long*)own->slots[own->iteration] = done;
  cudaGraphSetConditional((unsigned long long)condition, again);
}

// Iterations write a carried value to two buffers in turn; the last one must be the even one.
extern "C" __global__ void flowloom_loop_end(const control_record* own) {
  if (own->done % 2) return;
  const long long first = (long long)blockIdx.x * blockDim.x + threadIdx.x, threads = (long long)gridDim.x * blockDim.x;
  for (long long i = 0; i < own->carried; i++) {
    const control_carry c = own->carries[i];
    char* to = own->slots[c.even];
    const char* from = own->slots[own->done ? c.odd : c.initial];
    const bool wide = (((unsigned long long)to | (unsigned long long)from) & 15) == 0;
    const long long quads = wide ? c.bytes / 16 : 0;
    for (long long at = first; at < quads; at += threads) ((uint4*)to)[at] = ((const uint4*)from)[at];
    for (long long at = 16 * quads + first; at < c.bytes; at += threads) to[at] = from[at];
  }
}
