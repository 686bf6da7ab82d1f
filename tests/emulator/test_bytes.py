"""The emulator's tensor cores on bytes, laid out as PTX says, against numpy's integers."""

import shutil

import numpy as np
import pytest

from tests.emulator.launching import functions, launch

pytestmark = pytest.mark.skipif(shutil.which("g++") is None, reason="g++ compiles the kernels")

TEXT = """
#define KERNEL extern "C" __global__ void
template <bool A_SIGNED, bool B_SIGNED>
__device__ void product(int* c, const uint8_t* a, const uint8_t* b) {
  const int row = threadIdx.x / 4, place = threadIdx.x % 4;
  uint32_t left[4], right[2];
  for (int i = 0; i < 4; i++) {
    const int k = i / 2 * 16 + place * 4;
    left[i] = *(const uint32_t*)(a + (row + i % 2 * 8) * 32 + k);
  }
  for (int i = 0; i < 2; i++) right[i] = *(const uint32_t*)(b + row * 32 + i * 16 + place * 4);
  int own[4];
  for (int i = 0; i < 4; i++) own[i] = c[(row + i / 2 * 8) * 8 + place * 2 + i % 2];
  mma_bytes<A_SIGNED, B_SIGNED>(own, left, right);
  for (int i = 0; i < 4; i++) c[(row + i / 2 * 8) * 8 + place * 2 + i % 2] = own[i];
}
KERNEL s8s8(int* c, const uint8_t* a, const uint8_t* b) {
  product<true, true>(c, a, b);
}
KERNEL s8u8(int* c, const uint8_t* a, const uint8_t* b) {
  product<true, false>(c, a, b);
}
KERNEL u8s8(int* c, const uint8_t* a, const uint8_t* b) {
  product<false, true>(c, a, b);
}
KERNEL u8u8(int* c, const uint8_t* a, const uint8_t* b) {
  product<false, false>(c, a, b);
}
"""
SIGNS = ("s8s8", "s8u8", "u8s8", "u8u8")


@pytest.mark.parametrize("warp", [32, 64])
@pytest.mark.parametrize("signs", SIGNS)
def test_products_of_bytes_are_exact(signs: str, warp: int):
    random = np.random.default_rng(len(signs) + warp)
    kinds = [np.int8 if sign == "s" else np.uint8 for sign in signs[::2]]
    a = random.integers(0, 256, (16, 32)).astype(np.uint8).view(kinds[0])
    b = random.integers(0, 256, (8, 32)).astype(np.uint8).view(kinds[1])
    c = random.integers(-(2**31), 2**31, (16, 8)).astype(np.int32)
    wide = c.astype(np.int64) + a.astype(np.int64) @ b.astype(np.int64).T
    launch(functions(TEXT, SIGNS)[signs], [c, a, b], warp=warp)
    np.testing.assert_array_equal(c, wide.astype(np.int32))
