// Loads a number that all threads use where this is written: the compiler would load it where it is first used.
#if __CUDA_ARCH__ >= 800
__device__ __forceinline__ float load_number(const float* from) {
  float number;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(number) : "l"(from));
  return number;
}
__device__ __forceinline__ int load_number(const int* from) {
  int number;
  asm volatile("ld.global.nc.s32 %0, [%1];" : "=r"(number) : "l"(from));
  return number;
}
__device__ __forceinline__ unsigned char load_number(const unsigned char* from) {
  uint32_t number;
  asm volatile("ld.global.nc.u8 %0, [%1];" : "=r"(number) : "l"(from));
  return number;
}
__device__ __forceinline__ signed char load_number(const signed char* from) {
  return load_number((const unsigned char*)from);
}
#else
template <class T>
__device__ __forceinline__ T load_number(const T* from) {
  return *from;
}
#endif
