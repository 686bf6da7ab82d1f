"""What a kernel does wrong ends its launch with an error that names the place."""

from typing import Any

import numpy as np
import pytest

from compiler.errors import DeviceError
from tests.emulator.launching import functions, launch, zeros

TEXT = r"""
#define KERNEL extern "C" __global__ void
KERNEL read_behind(float* to, const float* from) { to[threadIdx.x] = from[threadIdx.x + 1]; }
KERNEL write_before(float* to, const float* from) { to[(int)threadIdx.x - 1] = from[threadIdx.x]; }
KERNEL write_far(float* to, const float* from) { to[threadIdx.x * 64] = from[threadIdx.x]; }
KERNEL write_slack(char* to) { to[5] = 1; }
KERNEL touch_nothing() { *(volatile float*)64 = 1; }
KERNEL leave_shared() { DYNAMIC_SHARED; shared[threadIdx.x] = 1; }
KERNEL skip_barrier() { if (threadIdx.x < 40) __syncthreads(); }
KERNEL part(int* to) { if (threadIdx.x < 16) to[0] = __shfl_sync(~0u, 1, 0); else __syncthreads(); }
KERNEL not_in_mask(int* to) { to[threadIdx.x] = __shfl_sync(0xffffu, 1, 0); }
KERNEL half_product(float* to) {
  float c[4] = {};
  const uint32_t a[4] = {}, b[2] = {};
  if (threadIdx.x < 16) mma<TF32>(c, a, b);
  to[threadIdx.x] = c[0];
}
KERNEL misaligned(const float* from) { DYNAMIC_SHARED; copy_float4(shared, from + 1, true); }
KERNEL misaligned_row(float* to) {
  DYNAMIC_SHARED;
  float four[4];
  ldmatrix_x4(four, shared + 1);
  to[threadIdx.x] = four[0];
}
KERNEL divide(int* to, const int* by) { to[threadIdx.x] = 7 / by[threadIdx.x]; }
KERNEL recurse(int* to) {
  volatile char big[1000000];
  for (int i = 0; i < 1000000; i += 512) big[i] = (char)i;
  to[0] = big[5];
}
KERNEL __cluster_dims__(1, 1, 2) leave_early(float* to) {
  DYNAMIC_SHARED;
  shared[threadIdx.x] = blockIdx.z;
  cluster_sync();
  to[blockIdx.z * 32 + threadIdx.x] = peer_float(shared + threadIdx.x, 1 - blockIdx.z);
}
KERNEL __cluster_dims__(1, 1, 2) strange_peer(float* to) {
  DYNAMIC_SHARED;
  to[0] = peer_float(shared, 2);
}
"""
NAMES = tuple(
    line.split("(1, 1, 2)")[-1].split("void")[-1].split("KERNEL")[-1].split("(")[0].strip()
    for line in TEXT.splitlines()
    if line.startswith("KERNEL")
)

CASES: dict[str, tuple[str, int, dict[str, Any]]] = {
    "read_behind": (r"thread \(31, 0, 0\): reads 0 bytes after the end of parameter 1", 2, {}),
    "write_before": (r"writes outside of parameter 0|before the start of parameter 0", 2, {}),
    "write_far": ("writes .* bytes after the end of parameter 0, which has 128", 2, {}),
    "touch_nothing": ("writes memory outside all buffers", 0, {}),
    "leave_shared": ("outside of its 124 bytes of dynamic|past the end of its", 0, {"shared": 124}),
    "skip_barrier": ("wait for each other|", 0, {"block": (64, 1, 1)}),
    "part": ("wait for each other: 16 at a barrier of the block, 16 at an operation", 1, {}),
    "not_in_mask": ("lanes take part in a warp.s operation that are not in its mask", 1, {}),
    "half_product": ("without all lanes of the warp|wait for each other", 1, {}),
    "misaligned": ("asynchronous copy is misaligned", 1, {"shared": 64}),
    "misaligned_row": ("row of a matrix from a misaligned address", 1, {"shared": 64}),
    "divide": ("divides an integer by zero", -2, {}),
    "recurse": ("KiB of stack", -1, {}),
    "leave_early": ("a cluster barrier is missing", 1, {"grid": (1, 1, 2), "shared": 128}),
    "strange_peer": ("no such block in the cluster", 1, {"grid": (1, 1, 2), "shared": 128}),
}


@pytest.mark.parametrize("name", [name for name in CASES if name != "skip_barrier"])
def test_what_goes_wrong_is_named(name: str):
    message, count, options = CASES[name]
    dtype = "float32" if count > 0 else "int32"
    arrays = [zeros(64 if "grid" in options else 32, dtype) for _ in range(abs(count))]
    with pytest.raises(DeviceError, match=rf"kernel {name}.*({message})"):
        launch(functions(TEXT, NAMES)[name], arrays, **options)


def test_ended_threads_do_not_hold_up_a_barrier():
    launch(functions(TEXT, NAMES)["skip_barrier"], [], block=(64, 1, 1))


def test_writes_into_the_bytes_that_alignment_leaves_are_found():
    with pytest.raises(DeviceError, match="writes outside of parameter 0"):
        launch(functions(TEXT, NAMES)["write_slack"], [zeros(5, "int8")], block=(1, 1, 1))


def test_accesses_are_free_where_extents_are_unknown():
    to, source = zeros(40), np.arange(40, dtype=np.float32)
    launch(functions(TEXT, NAMES)["read_behind"], [to, source], extents=False)
    np.testing.assert_array_equal(to[:32], source[1:33])


@pytest.mark.parametrize(("options", "message"), [
    ({"block": (1025, 1, 1)}, "1 to 1024 threads"),
    ({"shared": 300 << 10, "grid": (1, 1, 2)}, "at most 256 KiB"),
    ({"grid": (1, 1, 3)}, "not a multiple of the cluster"),
])  # fmt: skip
def test_launches_that_no_gpu_takes(options: dict[str, Any], message: str):
    with pytest.raises(DeviceError, match=message):
        launch(functions(TEXT, NAMES)["leave_early"], [zeros(64)], **options)


def test_the_device_works_after_an_error():
    test_launches_that_no_gpu_takes({"grid": (1, 1, 3)}, "not a multiple of the cluster")
    with pytest.raises(DeviceError, match="writes outside"):
        launch(functions(TEXT, NAMES)["write_slack"], [zeros(5, "int8")], block=(1, 1, 1))
    test_accesses_are_free_where_extents_are_unknown()
