"""Kernels that may begin before those that they follow have ended, on the emulator."""

import ctypes
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager, suppress

import numpy as np
import pytest
from numpy.typing import NDArray

from compiler.backends.emu.device import device
from compiler.errors import DeviceError
from tests.emulator.launching import functions

Floats = NDArray[np.float32]

TEXT = r"""
#define KERNEL extern "C" __global__ void
#define PLACE const int i = blockIdx.x * 64 + threadIdx.x
KERNEL add_one(float* to, const float* from) { grid_dependency_wait(); PLACE; to[i] = from[i] + 1; }
KERNEL read_early(float* to, const float* from) {
  PLACE;
  const float x = from[i];
  grid_dependency_wait();
  to[i] = x + 1;
}
KERNEL copy_early(float* to, const float* from) {
  DYNAMIC_SHARED;
  PLACE;
  copy_element(shared + threadIdx.x, from + i, true);
  grid_dependency_wait();
  cp_async_fence();
  cp_async_wait<0>();
  to[i] = shared[threadIdx.x] + 1;
}
KERNEL write_early(float* to, const float* from) {
  PLACE;
  to[i] = 1;
  grid_dependency_wait();
  to[i] = from[i];
}
KERNEL never_wait(float* to, const float* from) { PLACE; to[i] = from[i] + 1; }
KERNEL prepare(float* to, const float* from) {
  __shared__ float turned[64];
  DYNAMIC_SHARED;
  PLACE;
  turned[63 - threadIdx.x] = threadIdx.x;
  __syncthreads();
  shared[threadIdx.x] = turned[threadIdx.x];
  if (threadIdx.x % 2) grid_dependency_wait();
  __syncthreads();
  grid_dependency_wait();
  to[i] = from[i] + shared[63 - threadIdx.x] + turned[threadIdx.x];
}
KERNEL __cluster_dims__(1, 1, 2) swap(float* to, const float* from) {
  DYNAMIC_SHARED;
  shared[threadIdx.x] = blockIdx.z;
  cluster_sync();
  grid_dependency_wait();
  const int i = blockIdx.z * 64 + threadIdx.x;
  to[i] = from[i] + peer_float(shared + threadIdx.x, 1 - blockIdx.z);
  cluster_sync_relaxed();
}
"""
NAMES = ("add_one", "read_early", "copy_early", "write_early", "never_wait", "prepare", "swap")
SEEDS = range(20)


@contextmanager
def memory(count: int) -> Generator[list[tuple[int, Floats]]]:
    """Addresses of poisoned arrays of 128 floats on the device, and the arrays."""
    starts = [device().allocate(512) for _ in range(count)]
    pieces = [(ctypes.c_float * 128).from_address(start) for start in starts]
    yield [(s, np.ctypeslib.as_array(piece)) for s, piece in zip(starts, pieces, strict=True)]
    for start in starts:
        device().free(start)


def chain(names: Sequence[str], seed: int, early: bool = True) -> Floats:
    """What kernels give that follow each other in a graph, by edges that are early or not."""
    driver, known = device(), functions(TEXT, NAMES)
    driver.configure(seed, threads=2)
    graph, before = driver.create_graph(), list[int]()
    with memory(len(names) + 1) as buffers:
        buffers[0][1][:] = np.arange(128)
        for i, name in enumerate(names):
            shape = ((1, 1, 2) if name == "swap" else (2, 1, 1)), (64, 1, 1), 256
            addresses = [buffers[i + 1][0], buffers[i][0]]
            call = driver.call(known[name], *shape, addresses, [512, 512])
            after, first = ((), before) if early else (before, ())
            before = [driver.add_call(graph, after, call, None, first)]
        run(graph)
        return buffers[-1][1].copy()


def run(graph: int) -> None:
    """Launch a graph and wait."""
    executable = device().instantiate(graph, 0)
    device().launch_graph(executable, 0)
    device().synchronize_stream(0)
    device().destroy_executable(executable)
    device().destroy_graph(graph)


EXPECTED: Mapping[str, Floats] = {
    "add_one": np.arange(128, dtype=np.float32) + 3,
    "prepare": np.arange(128, dtype=np.float32) + 2 + 63,
    "swap": np.arange(128, dtype=np.float32) + 2 + np.repeat([1, 0], 64).astype(np.float32),
}


@pytest.mark.parametrize("name", EXPECTED)
def test_what_waits_is_right_in_every_order(name: str):
    for seed in SEEDS:
        found = chain(["add_one", "add_one", name], seed)
        np.testing.assert_array_equal(found, EXPECTED[name])


@pytest.mark.parametrize("name", ["read_early", "copy_early"])
def test_a_load_before_the_wait_gives_wrong_results(name: str):
    wrong = [seed for seed in SEEDS if np.isnan(chain(["add_one", name], seed)).any()]
    assert len(wrong) >= len(SEEDS) / 4
    assert not np.isnan(chain(["add_one", name], wrong[0], early=False)).any()


@pytest.mark.parametrize(("name", "message"), [
    ("write_early", "writes parameter 0 before it waits for the launches before"),
    ("never_wait", "(writes parameter 0 before it|ends without wait)"),
])  # fmt: skip
def test_what_does_not_wait_is_an_error(name: str, message: str):
    with pytest.raises(DeviceError, match=f"kernel {name}.*{message}"):
        [chain(["add_one", name, "add_one"], seed) for seed in SEEDS]


def test_launches_that_have_begun_are_dropped_after_an_error():
    for seed in SEEDS:
        with suppress(DeviceError):
            chain(["add_one", "never_wait", "add_one", "add_one", "add_one"], seed)
    np.testing.assert_array_equal(chain(["add_one"], 0), np.arange(128) + 1)


def test_early_edges_lead_from_launch_to_launch():
    driver, graph = device(), device().create_graph()
    empty = driver.add_empty(graph, ())
    call = driver.call(functions(TEXT, NAMES)["add_one"], (1, 1, 1), (64, 1, 1), 0, [0, 0])
    with pytest.raises(DeviceError, match="from a launch to a launch"):
        driver.add_call(graph, (), call, None, (empty,))
    driver.destroy_graph(graph)
