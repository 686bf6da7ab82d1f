"""Kernels whose parameters are the addresses of pointers see exactly what these lead to."""

import numpy as np
import pytest

from compiler.backends.emu.device import device
from compiler.errors import DeviceError
from tests.emulator.launching import Array, functions, zeros

TEXT = r"""
#define KERNEL extern "C" __global__ void
KERNEL turn(float* const* to_at, const float* const* from_at) {
  float* to = *to_at;
  const float* from = *from_at;
  to[threadIdx.x] = from[31 - threadIdx.x];
}
KERNEL read_behind(float* const* to_at, const float* const* from_at) {
  (*to_at)[threadIdx.x] = (*from_at)[threadIdx.x + 1];
}
KERNEL write_before(float* const* to_at, const float* const* from_at) {
  (*to_at)[(int)threadIdx.x - 1] = (*from_at)[threadIdx.x];
}
KERNEL move(float** to_at, float** from_at) { to_at[0] = from_at[0]; }
KERNEL next_pointer(float* const* to_at, const float* const* from_at) {
  (*to_at)[threadIdx.x] = from_at[1][threadIdx.x];
}
"""
NAMES = ("turn", "read_behind", "write_before", "move", "next_pointer")


def launch(name: str, arrays: list[Array]) -> Array:
    """Run 32 threads of a kernel with pointers to these arrays; the pointers afterwards."""
    pointers = np.array([array.ctypes.data for array in arrays], np.uint64)
    cells = [pointers.ctypes.data + 8 * i for i in range(len(arrays))]
    sizes = [array.nbytes for array in arrays]
    device().configure(threads=1)
    shape = (1, 1, 1), (32, 1, 1), 0
    call = device().call(functions(TEXT, NAMES)[name], *shape, cells, sizes, indirect=True)
    device().launch(call, 0)
    device().synchronize_stream(0)
    return pointers


def test_results_go_where_the_pointers_lead():
    to, source = zeros(32), np.arange(32, dtype=np.float32)
    pointers = launch("turn", [to, source])
    np.testing.assert_array_equal(to, source[::-1])
    assert [*pointers] == [to.ctypes.data, source.ctypes.data]


@pytest.mark.parametrize(("name", "message"), [
    ("read_behind", "reads 0 bytes behind the end of parameter 1, which has 128"),
    ("write_before", "writes outside of parameter 0|before the start of parameter 0"),
    ("move", "writes beside or over the pointer of parameter 0"),
    ("next_pointer", "reads beside or over the pointer of parameter 1"),
])  # fmt: skip
def test_what_goes_wrong_is_named(name: str, message: str):
    with pytest.raises(DeviceError, match=f"kernel {name}.*({message})"):
        launch(name, [zeros(32), zeros(32)])
