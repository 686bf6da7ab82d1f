"""What kernels use of CUDA means the same on the emulator."""

from typing import Any

import ml_dtypes
import numpy as np
import pytest
from numpy.typing import NDArray

from compiler.errors import DeviceError
from tests.emulator.launching import functions, launch, zeros

Array = NDArray[Any]

TEXT = r"""
#include "mfma.cuh"
#define KERNEL extern "C" __global__ void
KERNEL places(unsigned* to) {
  const unsigned block = blockIdx.x + gridDim.x * (blockIdx.y + gridDim.y * blockIdx.z);
  const unsigned thread = threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z);
  to[block * blockDim.x * blockDim.y * blockDim.z + thread] = block * 1000 + thread;
}
KERNEL shuffles(int* to, const int* from) {
  const int lane = threadIdx.x, x = from[lane];
  to[lane] = __shfl_sync(~0u, x, lane * 7, 32);
  to[64 + lane] = __shfl_up_sync(~0u, x, 3, 16);
  to[128 + lane] = __shfl_down_sync(~0u, x, 5, 32);
  to[192 + lane] = __shfl_xor_sync(~0u, x, 6, 8);
  to[256 + lane] = (int)__ballot_sync(~0u, x % 3 == 0);
  to[384 + lane] = warpSize;
  to[448 + lane] = __shfl(x, lane + 1);
  to[320 + lane] = lane % 2 ? (int)__activemask() : 0;
}
KERNEL add_up(int* total, float* floats, int* largest, const int* from) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  atomicAdd(total, from[i]);
  atomicAdd(floats, 0.5f);
  atomicMax(largest, from[i]);
}
KERNEL reverse(float* to, const float* from) {
  __shared__ float tile[128];
  DYNAMIC_SHARED;
  const int i = threadIdx.x, at = blockIdx.x * 128;
  tile[i] = from[at + i];
  __syncthreads();
  shared[i] = tile[127 - i];
  __syncthreads();
  to[at + i] = shared[127 - i] + 1000 * shared[i];
}
KERNEL late_copy(float* to, const float* from) {
  DYNAMIC_SHARED;
  copy_float4(shared + threadIdx.x * 4, from + threadIdx.x * 4, threadIdx.x < 31);
  cp_async_fence();
  to[threadIdx.x] = shared[threadIdx.x * 4];
  cp_async_wait<0>();
  to[32 + threadIdx.x] = shared[threadIdx.x * 4 + 1];
}
KERNEL __cluster_dims__(1, 1, 4) exchange(float* to) {
  __shared__ float own[32];
  DYNAMIC_SHARED;
  own[threadIdx.x] = shared[threadIdx.x] = blockIdx.z * 100 + threadIdx.x;
  cluster_sync();
  float sum = own[threadIdx.x] * 1000;
  for (int rank = 0; rank < 4; rank++) sum += peer_float(shared + 31 - threadIdx.x, rank);
  cluster_sync();
  to[blockIdx.z * 32 + threadIdx.x] = sum;
}
KERNEL halves(unsigned short* to, const float* from, float* back, const unsigned short* bits) {
  const int i = blockIdx.x * blockDim.x + threadIdx.x;
  to[i] = __float2half_rn(from[i]).bits;
  half h;
  h.bits = bits[i];
  back[i] = __half2float(h);
}
template <int PRECISION>
__device__ void product(float* c, const float* a, const float* b) {
  constexpr int WIDE = PRECISION == TF32 ? 1 : 2, K = 8 * WIDE;
  const int lane = threadIdx.x, row = lane / 4, place = lane % 4;
  uint32_t left[4], right[2];
  float own[4];
  for (int i = 0; i < 4; i++) {
    const float* at = a + (row + i % 2 * 8) * K + place * WIDE + i / 2 * 4 * WIDE;
    if constexpr (WIDE == 1) left[i] = __float_as_uint(*at);
    else left[i] = round_pair<PRECISION>(at[0], at[1]);
    own[i] = c[(row + i / 2 * 8) * 8 + place * 2 + i % 2];
  }
  for (int i = 0; i < 2; i++) {
    const float* at = b + (place * WIDE + i * 4 * WIDE) * 8 + row;
    if constexpr (WIDE == 1) right[i] = __float_as_uint(*at);
    else right[i] = round_pair<PRECISION>(at[0], at[8]);
  }
  mma<PRECISION>(own, left, right);
  for (int i = 0; i < 4; i++) c[(row + i / 2 * 8) * 8 + place * 2 + i % 2] = own[i];
}
KERNEL product_tf32(float* c, const float* a, const float* b) { product<TF32>(c, a, b); }
KERNEL product_fp16(float* c, const float* a, const float* b) { product<FP16>(c, a, b); }
KERNEL product_bf16(float* c, const float* a, const float* b) { product<BF16>(c, a, b); }
template <int PRECISION>
__device__ void wave(float* c, const float* a, const float* b) {
  constexpr int WIDE = PRECISION == FP32 ? 1 : 4, K = 4 * WIDE;
  const int row = threadIdx.x % 16, place = threadIdx.x / 16;
  uint32_t left[(WIDE + 1) / 2], right[(WIDE + 1) / 2];
  float own[4];
  for (int i = 0; i < (WIDE + 1) / 2; i++) {
    const float *x = a + row * K + place * WIDE + i * 2, *y = b + (place * WIDE + i * 2) * 16 + row;
    left[i] = WIDE == 1 ? __float_as_uint(*x) : round_pair<PRECISION>(x[0], x[1]);
    right[i] = WIDE == 1 ? __float_as_uint(*y) : round_pair<PRECISION>(y[0], y[16]);
  }
  for (int i = 0; i < 4; i++) own[i] = c[(place * 4 + i) * 16 + row];
  mfma<PRECISION>(own, left, right);
  for (int i = 0; i < 4; i++) c[(place * 4 + i) * 16 + row] = own[i];
}
KERNEL wave_fp32(float* c, const float* a, const float* b) { wave<FP32>(c, a, b); }
KERNEL wave_fp16(float* c, const float* a, const float* b) { wave<FP16>(c, a, b); }
KERNEL wave_bf16(float* c, const float* a, const float* b) { wave<BF16>(c, a, b); }
KERNEL matrices(uint32_t* to, const uint16_t* from) {
  DYNAMIC_SHARED;
  uint16_t* tile = (uint16_t*)shared;
  for (int i = threadIdx.x; i < 256; i += 32) tile[i] = from[i];
  __syncwarp();
  uint32_t plain[4], turned[4];
  ldmatrix_x4(plain, tile + threadIdx.x * 8);
  ldmatrix_x4_trans(turned, tile + threadIdx.x * 8);
  to += threadIdx.x * 4;
  for (int i = 0; i < 4; i++) to[i] = plain[i], to[128 + i] = turned[i];
}
"""
NAMES = tuple(
    line.split("(1, 1, 4)")[-1].split("KERNEL")[-1].split("(")[0].strip()
    for line in TEXT.splitlines()
    if line.startswith("KERNEL")
)


def run(name: str, *arrays: Array, **options: Any) -> None:
    """Launch one of the kernels above."""
    launch(functions(TEXT, NAMES)[name], arrays, **options)


@pytest.mark.parametrize("warp", [32, 64])
def test_every_thread_has_its_place(warp: int):
    to = zeros(2 * 3 * 4 * 60, "uint32")
    run("places", to, grid=(2, 3, 4), block=(5, 4, 3), warp=warp, seed=3)
    expected = [block * 1000 + thread for block in range(24) for thread in range(60)]
    np.testing.assert_array_equal(to, expected)


@pytest.mark.parametrize("warp", [32, 64])
def test_a_warps_operations(warp: int):
    source, to = np.arange(64, dtype=np.int32) * 3 + 1, zeros(512, "int32")
    source[::5] += 2
    run("shuffles", to, source, block=(64, 1, 1), warp=warp, seed=warp)
    found, lane = to.reshape(8, 64), np.arange(64)
    half = lane // 32 * 32
    np.testing.assert_array_equal(found[0], source[half + lane * 7 % 32])
    np.testing.assert_array_equal(found[1], source[np.where(lane % 16 < 3, lane, lane - 3)])
    np.testing.assert_array_equal(found[2], source[np.where(lane % 32 + 5 >= 32, lane, lane + 5)])
    np.testing.assert_array_equal(found[3], source[lane ^ 6])
    votes = [sum(1 << i for i in range(32) if source[h + i] % 3 == 0) for h in (0, 32)]
    np.testing.assert_array_equal(found[4].view(np.uint32), np.repeat(votes, 32))
    np.testing.assert_array_equal(found[5].view(np.uint32), np.where(lane % 2, 0xAAAAAAAA, 0))
    assert (found[6] == warp).all()
    np.testing.assert_array_equal(found[7], source[lane // warp * warp + (lane + 1) % warp])


def test_atomics_of_blocks_that_run_at_the_same_time():
    source = np.random.default_rng(0).integers(0, 1000, 64 * 50).astype(np.int32)
    total, floats, largest = zeros(1, "int32"), zeros(1), zeros(1, "int32")
    run("add_up", total, floats, largest, source, grid=(50, 1, 1), block=(64, 1, 1))
    assert (total[0], floats[0], largest[0]) == (source.sum(), 1600, source.max())


@pytest.mark.parametrize("seed", range(3))
def test_each_block_has_shared_memory_of_its_own(seed: int):
    source, to = np.arange(128 * 40, dtype=np.float32), zeros(128 * 40)
    run("reverse", to, source, grid=(40, 1, 1), block=(128, 1, 1), shared=512, seed=seed)
    turned = source.reshape(40, 128)[:, ::-1].reshape(-1)
    np.testing.assert_array_equal(to, source + 1000 * turned)


def test_an_asynchronous_copy_happens_when_it_is_waited_for():
    source, to = np.arange(128, dtype=np.float32), zeros(64)
    run("late_copy", to, source, shared=512)
    assert np.isnan(to[:32]).all()
    np.testing.assert_array_equal(to[32:63], source[1:124:4])
    assert to[63] == 0


@pytest.mark.parametrize("seed", range(3))
def test_blocks_of_a_cluster_read_each_others_memory(seed: int):
    to = zeros(4 * 32 * 3)
    run("exchange", to[:128], grid=(1, 1, 4), shared=128, seed=seed)
    block, thread = np.divmod(np.arange(128), 32)
    expected = (block * 100 + thread) * 1000 + 600 + 4 * (31 - thread)
    np.testing.assert_array_equal(to[:128], expected)


def test_float16_is_converted_as_ieee_754_says():
    bits = np.arange(65536, dtype=np.uint16)
    chance = np.random.default_rng(1)
    wide = chance.integers(0, 2**32, 65536, np.uint32).view(np.float32)
    near = (bits.view(np.float16).astype(np.float32).view(np.uint32) + 0x1000).view(np.float32)
    with np.errstate(all="ignore"):
        nearer = near * np.float32(1 + 2**-20)
    for source in (wide, near, nearer):
        to, back = zeros(65536, "uint16"), zeros(65536)
        run("halves", to, source, back, bits, grid=(256, 1, 1), block=(256, 1, 1))
        with np.errstate(all="ignore"):
            expected = source.astype(np.float16)
        known = ~np.isnan(expected)
        np.testing.assert_array_equal(to[known], expected.view(np.uint16)[known])
        assert np.isnan(to[~known].view(np.float16)).all()
        np.testing.assert_array_equal(back, bits.view(np.float16).astype(np.float32))


def rounded(array: Array, precision: str) -> Array:
    """What a tensor core reads of float32."""
    if precision == "fp32":
        return array
    if precision == "tf32":
        return (array.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    return array.astype(np.float16 if precision == "fp16" else ml_dtypes.bfloat16).astype("float32")


@pytest.mark.parametrize("precision", ["tf32", "fp16", "bf16"])
def test_a_product_adds_in_the_order_of_k(precision: str):
    chance, depth = np.random.default_rng(2), 8 if precision == "tf32" else 16
    a, b, c = (
        chance.standard_normal(shape, np.float32) for shape in ((16, depth), (depth, 8), (16, 8))
    )
    expected = c.copy()
    for k in range(depth):
        expected += rounded(a, precision)[:, k : k + 1] * rounded(b, precision)[k]
    run(f"product_{precision}", c, a, b)
    np.testing.assert_array_equal(c, expected)


@pytest.mark.parametrize("precision", ["fp32", "fp16", "bf16"])
def test_a_wavefronts_product(precision: str):
    chance, depth = np.random.default_rng(3), 4 if precision == "fp32" else 16
    a, b, c = (
        chance.standard_normal(shape, np.float32) for shape in ((16, depth), (depth, 16), (16, 16))
    )
    expected = c.copy()
    for k in range(depth):
        expected += rounded(a, precision)[:, k : k + 1] * rounded(b, precision)[k]
    run(f"wave_{precision}", c, a, b, block=(64, 1, 1), warp=64)
    np.testing.assert_array_equal(c, expected)
    with pytest.raises(DeviceError, match=r"64 lanes in a warp of 32: .*FLOWLOOM_EMU_WARP=64"):
        run(f"wave_{precision}", c, a, b, block=(64, 1, 1), warp=32)


def test_matrices_are_loaded_plain_and_transposed():
    source, to = np.arange(256, dtype=np.uint16), zeros(256, "uint32")
    run("matrices", to, source, shared=512)
    found = to.view(np.uint16).reshape(2, 32, 4, 2)
    for lane in range(32):
        for matrix in range(4):
            own = source.reshape(4, 8, 8)[matrix]
            at = slice(lane % 4 * 2, lane % 4 * 2 + 2)
            np.testing.assert_array_equal(found[0, lane, matrix], own[lane // 4, at])
            np.testing.assert_array_equal(found[1, lane, matrix], own.T[lane // 4, at])
