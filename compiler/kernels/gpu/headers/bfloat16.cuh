// bfloat16 as a stored type: values are computed as float.

struct nv_bfloat16 {
  uint16_t bits;
  nv_bfloat16() = default;
  __device__ __forceinline__ nv_bfloat16(float value) {
    const uint32_t wide = __float_as_uint(value);
    bits = value != value ? 0x7fff : (uint16_t)((wide + 0x7fff + ((wide >> 16) & 1)) >> 16);
  }
  __device__ __forceinline__ operator float() const { return __uint_as_float((uint32_t)bits << 16); }
};
__device__ __forceinline__ nv_bfloat16 __float2bfloat16(float value) { return nv_bfloat16(value); }
__device__ __forceinline__ nv_bfloat16 __float2bfloat16_rn(float value) { return nv_bfloat16(value); }
__device__ __forceinline__ float __bfloat162float(nv_bfloat16 value) { return value; }
