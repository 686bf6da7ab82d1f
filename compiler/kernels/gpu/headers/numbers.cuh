// Loads a number that all threads use where this is written: the compiler would load it where it is first used.
__device__ __forceinline__ float load_number(const float* from) {
#if __CUDA_ARCH__ >= 800
  float number;
  asm volatile("ld.global.nc.f32 %0, [%1];" : "=f"(number) : "l"(from));
  return number;
#else
  return *from;
#endif
}
