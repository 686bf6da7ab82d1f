"""Products of warpgroups: their layouts and sums, and what kernels may do wrong around them."""

import numpy as np
import pytest

from compiler.errors import DeviceError
from tests.emulator.launching import Array, functions, launch, zeros

TEXT = r"""
#include "wgmma_registers.cuh"
#define KERNEL extern "C" __global__ void
// Rows of 32 words to shared memory, swizzled; the first 64 are those of the left matrix. The right
// one may have the first 16 bytes of all rows first.
template <bool CHUNKED = false>
__device__ char* tiles(const unsigned* from, int rows) {
  char* to = (char*)swizzled_shared();
  for (int i = threadIdx.x; i < rows * 8; i += blockDim.x) {
    const int row = i / 8, chunk = i % 8;
    const int behind = 64 * 8 + chunk * (rows - 64) + row - 64;
    const int place = CHUNKED && row >= 64 ? behind : row * 8 + (chunk ^ row % 8);
    copy_chunk<false>(to + place * 16, from + i * 4, true);
  }
  cp_async_fence();
  cp_async_wait<0>();
  return to;
}
template <int PIECES>
__device__ float* place(float* c, int j, int i) {
  const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i / 2 * 8;
  return c + row * PIECES * 8 + j * 8 + threadIdx.x % 4 * 2 + i % 2;
}
template <int PRECISION, int PIECES, bool CHUNKED = false>
__device__ void product(float* c, const unsigned* from) {
  const char* tile = tiles<CHUNKED>(from, 64 + PIECES * 8);
  fence_async_proxy();
  __syncthreads();
  const char* behind = tile + 64 * 128;
  const uint64_t a = swizzled_descriptor(tile);
  const uint64_t b =
      CHUNKED ? interleaved_descriptor(behind, PIECES * 8) : swizzled_descriptor(behind);
  const int next = CHUNKED ? 2 * PIECES * 8 : 2;
  float sums[PIECES][4];
  for (int j = 0; j < PIECES; j++)
    for (int i = 0; i < 4; i++) sums[j][i] = *place<PIECES>(c, j, i);
  wgmma_fence();
  for (int k = 0; k < 4; k++) wgmma(sums, a + k * 2, b + k * next, Kind<PRECISION>());
  wgmma_commit();
  wgmma_wait<0>();
  for (int j = 0; j < PIECES; j++)
    for (int i = 0; i < 4; i++) *place<PIECES>(c, j, i) = sums[j][i];
}
KERNEL product_tf32_4(float* c, const unsigned* from) { product<TF32, 4>(c, from); }
KERNEL product_tf32_16(float* c, const unsigned* from) { product<TF32, 16>(c, from); }
KERNEL product_fp16_8(float* c, const unsigned* from) { product<FP16, 8>(c, from); }
KERNEL product_fp16_12(float* c, const unsigned* from) { product<FP16, 12>(c, from); }
KERNEL chunked_tf32_8(float* c, const unsigned* from) { product<TF32, 8, true>(c, from); }
KERNEL chunked_fp16_4(float* c, const unsigned* from) { product<FP16, 4, true>(c, from); }

typedef unsigned short two_bytes;
// Twice the product of 64 rows of 16 numbers in registers and 16 lines of 64 * PANELS columns.
template <int PANELS>
__device__ void of_registers(float* c, const two_bytes* rows, const two_bytes* lines) {
  char* tile = (char*)swizzled_shared();
  for (int i = threadIdx.x; i < 16 * PANELS * 8; i += blockDim.x) {
    const int panel = i / 128, line = i / 8 % 16, chunk = i % 8;
    char* to = tile + panel * 2048 + line * 128 + (chunk ^ line % 8) * 16;
    copy_chunk<false>(to, lines + line * PANELS * 64 + panel * 64 + chunk * 8, true);
  }
  cp_async_fence();
  cp_async_wait<0>();
  fence_async_proxy();
  __syncthreads();
  unsigned left[1][4];
  for (int i = 0; i < 4; i++) {
    const int row = threadIdx.x / 32 * 16 + threadIdx.x % 32 / 4 + i % 2 * 8;
    const int k = threadIdx.x % 4 * 2 + i / 2 * 8;
    left[0][i] = rows[row * 16 + k] | rows[row * 16 + k + 1] << 16;
  }
  float sums[PANELS * 8][4];
  hold(left);
  wgmma_fence();
  wgmma<true, false>(sums, left[0], transposed_descriptor(tile, 128), Kind<FP16>());
  wgmma<true, true>(sums, left[0], transposed_descriptor(tile, 128), Kind<FP16>());
  wgmma_commit();
  wgmma_wait<0>();
  hold(sums), hold(left);
  for (int j = 0; j < PANELS * 8; j++)
    for (int i = 0; i < 4; i++) *place<PANELS * 8>(c, j, i) = sums[j][i];
}
KERNEL registers_1(float* c, const two_bytes* a, const two_bytes* b) { of_registers<1>(c, a, b); }
KERNEL registers_2(float* c, const two_bytes* a, const two_bytes* b) { of_registers<2>(c, a, b); }

enum Wrong { NOTHING, FENCE, SHOWN, SUMS, MATRICES, LANES, EARLY, LEFT, NOT_HELD, HELD_LATE };
template <int WRONG>
__device__ void mistake(float* to, const unsigned* from) {
  const char* tile = tiles(from, 96);
  if (WRONG != SHOWN) fence_async_proxy();
  __syncthreads();
  const uint64_t a = swizzled_descriptor(tile + (WRONG == MATRICES ? threadIdx.x / 64 * 1024 : 0));
  const uint64_t b = swizzled_descriptor(tile + 64 * 128);
  float sums[4][4] = {};
  unsigned left[1][4] = {threadIdx.x, 0, 0, 0};
  hold(sums);
  if (WRONG != NOT_HELD && WRONG != HELD_LATE) hold(left);
  if (WRONG != FENCE) wgmma_fence();
  if (WRONG == HELD_LATE) hold(left);
  if (WRONG >= LEFT) wgmma<false, true>(sums, left[0], b, Kind<FP16>());
  if (WRONG != LANES || threadIdx.x % 32 < 31) wgmma(sums, a, b, Kind<TF32>());
  wgmma_commit();
  if (WRONG == SUMS && threadIdx.x == 70) sums[1][2] = 1;
  if (WRONG == LEFT && threadIdx.x == 70) left[0][1] = 1;
  if (WRONG == EARLY) to[threadIdx.x] = sums[0][0];
  wgmma_wait<0>();
  if (WRONG != EARLY) to[threadIdx.x] = sums[0][0];
}
KERNEL right(float* to, const unsigned* from) { mistake<NOTHING>(to, from); }
KERNEL no_fence(float* to, const unsigned* from) { mistake<FENCE>(to, from); }
KERNEL not_shown(float* to, const unsigned* from) { mistake<SHOWN>(to, from); }
KERNEL used_sums(float* to, const unsigned* from) { mistake<SUMS>(to, from); }
KERNEL two_matrices(float* to, const unsigned* from) { mistake<MATRICES>(to, from); }
KERNEL few_lanes(float* to, const unsigned* from) { mistake<LANES>(to, from); }
KERNEL used_left(float* to, const unsigned* from) { mistake<LEFT>(to, from); }
KERNEL not_held(float* to, const unsigned* from) { mistake<NOT_HELD>(to, from); }
KERNEL held_late(float* to, const unsigned* from) { mistake<HELD_LATE>(to, from); }
KERNEL early_sums(float* to, const unsigned* from) { mistake<EARLY>(to, from); }
"""
PRODUCTS = {
    "product_tf32_4": ("tf32", 4), "product_tf32_16": ("tf32", 16),
    "product_fp16_8": ("fp16", 8), "product_fp16_12": ("fp16", 12),
    "chunked_tf32_8": ("tf32", 8), "chunked_fp16_4": ("fp16", 4),
}  # fmt: skip
WRONG = {
    "no_fence": "without a fence",
    "not_shown": "written without a proxy fence",
    "used_sums": r"thread \(70, 0, 0\): a thread writes to sums that tensor cores still add to",
    "used_left": r"thread \(70, 0, 0\): a thread writes to the left operand of a WGMMA",
    "not_held": "registers that were not held before its fence",
    "held_late": "registers that were not held before its fence",
    "two_matrices": "warps of this warpgroup take part in different WGMMAs",
    "few_lanes": "or do not all multiply",
}
OF_REGISTERS = {"registers_1": 1, "registers_2": 2}
"""Panels of 64 columns by kernel."""

NAMES = (*PRODUCTS, *OF_REGISTERS, "right", *WRONG, "early_sums")


def run(name: str, to: Array, rows: Array, seed: int = 0, warp: int = 32, shared: int = 0) -> None:
    """Run one warpgroup, with enough shared memory where no size is given."""
    kernel, block = functions(TEXT, NAMES)[name], (128, 1, 1)
    room = shared or 1024 + rows.nbytes
    launch(kernel, [to, rows], block=block, shared=room, seed=seed, warp=warp)


@pytest.mark.parametrize("name", PRODUCTS)
def test_sums_are_in_the_order_of_k(name: str):
    precision, pieces = PRODUCTS[name]
    chance, depth = np.random.default_rng(2), 32 if precision == "tf32" else 64
    rows = chance.standard_normal((64 + pieces * 8, depth), np.float32)
    given = rows if precision == "tf32" else rows.astype(np.float16)
    read = given.astype(np.float32)
    if precision == "tf32":
        read = (rows.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32)
    c = chance.standard_normal((64, pieces * 8), np.float32)
    expected = c.copy()
    for k in range(depth):
        expected += read[:64, k : k + 1] * read[64:, k]
    for seed, warp in ((0, 32), (1, 32), (2, 64)):
        found = c.copy()
        run(name, found, given, seed, warp)
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("name", OF_REGISTERS)
def test_left_operands_in_registers(name: str):
    chance, columns = np.random.default_rng(3), OF_REGISTERS[name] * 64
    rows, lines = (chance.standard_normal(s).astype("float16") for s in ((64, 16), (16, columns)))
    wide = rows.astype(np.float32), lines.astype(np.float32)
    expected = np.zeros((64, columns), np.float32)
    for k in (*range(16), *range(16)):
        expected += wide[0][:, k : k + 1] * wide[1][k]
    kernel, found = functions(TEXT, NAMES)[name], np.full((64, columns), np.nan, np.float32)
    for seed, warp in ((0, 32), (1, 64)):
        shared = 1024 + lines.nbytes
        given = [found, rows, lines]
        launch(kernel, given, block=(128, 1, 1), shared=shared, seed=seed, warp=warp)
        np.testing.assert_array_equal(found, expected)


def test_sums_are_unknown_before_the_wait():
    rows = np.ones((96, 32), np.float32)
    for seed in range(4):
        early, late = zeros(128), zeros(128)
        run("early_sums", early, rows, seed)
        run("right", late, rows, seed)
        assert np.isnan(early).all()
        np.testing.assert_array_equal(late, 8)


@pytest.mark.parametrize("name", WRONG)
def test_what_goes_wrong_is_named(name: str):
    with pytest.raises(DeviceError, match=f"kernel {name}.*({WRONG[name]})"):
        run(name, zeros(128), np.ones((96, 32), np.float32))


def test_matrices_lie_in_the_shared_memory():
    with pytest.raises(DeviceError, match=r"outside of the|outside of its \d+ bytes of dynamic"):
        run("right", zeros(128), np.ones((96, 32), np.float32), shared=8 << 10)
