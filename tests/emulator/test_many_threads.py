"""Launches on hosts of many cores."""

import pytest

from compiler.backends.emu.device import device
from tests.emulator.launching import functions, launch, zeros

TEXT = r"""
extern "C" __global__ void add_up(int* to) {
  __shared__ int total;
  if (!threadIdx.x) total = 0;
  __syncthreads();
  atomicAdd(&total, 1);
  __syncthreads();
  if (!threadIdx.x) to[blockIdx.x] = total;
}
"""

HOST_THREADS = 80
"""With 1,024 stacks for each, of two mappings, they need more than Linux gives a process."""


def test_host_threads_are_as_many_as_have_stacks(monkeypatch: pytest.MonkeyPatch) -> None:
    own = device()
    configure = own.configure

    def with_many_threads(seed: int, warp: int) -> None:
        configure(seed, warp, HOST_THREADS)

    monkeypatch.setattr(own, "configure", with_many_threads)
    totals = zeros(HOST_THREADS, "int32")
    function = functions(TEXT, ("add_up",))["add_up"]
    launch(function, [totals], grid=(HOST_THREADS, 1, 1), block=(1024, 1, 1))
    configure(0, 32)
    assert (totals == 1024).all()
