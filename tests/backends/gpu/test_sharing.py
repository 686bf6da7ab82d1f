"""Modules with one share have weights that are the same arrays once, and one arena."""

import gc
import pickle

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.backends.gpu.executable import GpuExecutable
from compiler.backends.gpu.sharing import DeviceShare
from compiler.schedule.tasks import Allocation, Schedule
from tests.backends.gpu.cases import case
from tests.backends.gpu.recording import RecordingDriver
from tests.backends.gpu.test_graph import load

ARENA, WEIGHT = 1 << 20, 1 << 16


def used(driver: RecordingDriver) -> int:
    """Bytes of device memory that are not free."""
    return (1 << 30) - driver.free_memory()


def small(name: str, weights: list[str], arena: int = ARENA) -> Schedule:
    """A schedule of no tasks."""
    named = [Allocation("weight", weight, "uint8", (WEIGHT,)) for weight in weights]
    return Schedule(name, (*named, Allocation("arena", "arena", "uint8", (arena,))), ())


def bytes_of(*names: str) -> dict[str, np.ndarray]:
    block = np.zeros(WEIGHT * len(names) + 64, np.uint8)
    start = -block.ctypes.data % 64
    parts = block[start : start + WEIGHT * len(names)].reshape(len(names), WEIGHT)
    return dict(zip(names, parts, strict=True))


def test_equal_arrays_are_uploaded_once():
    driver, share, arrays = RecordingDriver({}), DeviceShare(), bytes_of("a", "b", "c")
    first = GpuExecutable.load(driver, small("first", ["a", "b"]), {}, arrays, share=share)
    assert used(driver) == 2 * WEIGHT
    second = GpuExecutable.load(driver, small("second", ["b", "c"]), {}, arrays, share=share)
    assert used(driver) == 3 * WEIGHT
    alone = GpuExecutable.load(driver, small("alone", ["b"]), {}, arrays)
    assert used(driver) == 4 * WEIGHT
    del first, alone
    gc.collect()
    assert used(driver) == 3 * WEIGHT, "the block of a and b stays for b"
    del second
    gc.collect()
    assert used(driver) == 0


def test_one_arena_of_the_largest_size_that_is_expected():
    driver, share = RecordingDriver({}), DeviceShare()
    share.expect(2 * ARENA)
    loaded = [
        GpuExecutable.load(driver, small(f"m{i}", [], size), {}, {}, share=share)
        for i, size in enumerate((ARENA, 2 * ARENA))
    ]
    executors = [executable.executor() for executable in loaded]
    assert used(driver) == 2 * ARENA
    executors[0].close()
    assert used(driver) == 2 * ARENA
    executors[1].close()
    assert used(driver) == 0


def test_a_larger_arena_leaves_the_one_that_is_in_use():
    driver, share = RecordingDriver({}), DeviceShare()
    loaded = [
        GpuExecutable.load(driver, small(f"m{i}", [], size), {}, {}, share=share)
        for i, size in enumerate((ARENA, 2 * ARENA, ARENA))
    ]
    executors = [executable.executor() for executable in loaded]
    assert used(driver) == 3 * ARENA, "the third has the second's"
    for executor in executors:
        executor.close()
    assert used(driver) == 0


@settings(max_examples=25, deadline=None)
@given(st.integers(0, 10**6), st.booleans())
def test_runs_of_modules_with_one_arena_follow_each_other(seed: int, poison: bool):
    driver, share = RecordingDriver({}, seed=seed), DeviceShare()
    cases = [case(seed + i, tasks=8, streams=2) for i in range(2)]
    loaded = [load(found, driver, share=share, poison=poison) for found in cases]
    inputs = [found.inputs(seed) for found in cases]
    for _ in range(2):
        runs = [x.submit(given) for x, given in zip(loaded, inputs, strict=True)]
        for found, given_inputs, run in zip(cases, inputs, runs, strict=True):
            wanted, got = found.expected(given_inputs), run.wait()
            for name, array in wanted.items():
                np.testing.assert_array_equal(got[name], array)


def test_a_copy_of_a_share_begins_without_memory():
    driver, share, arrays = RecordingDriver({}), DeviceShare(), bytes_of("a")
    kept = GpuExecutable.load(driver, small("first", ["a"]), {}, arrays, share=share)
    copied = pickle.loads(pickle.dumps(share))
    assert share.weight(arrays["a"]) is not None
    assert copied.weight(arrays["a"]) is None
    assert kept.memory.weights == WEIGHT
