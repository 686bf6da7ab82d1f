"""Kernels that copy weights, and nothing else, before they wait for the launches before."""

import re
from dataclasses import replace

import numpy
import pytest

from compiler.errors import KernelError
from compiler.graph.packing import apply_packing
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.schedule.kernels import Launch
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Memory, Program
from tests.kernels.gpu.of_template import gemm_kernel
from tests.kernels.gpu.ptx import WAIT, ptx_of, read_before_the_wait
from tests.kernels.gpu.templates.test_blocked_contraction import group_of
from tests.kernels.gpu.templates.test_contraction import draw, exact
from tests.kernels.harness import laid_out, logical, single
from tests.tools import needs_nvrtc

TARGET = "cuda:sm_90:tf32"
SEEDS = range(12)
SMALL = Tile(32, 32, 16, 16, 1, prefetch=True, release=True)
WIDE = Tile(64, 32, 16, 32, 1, 4, wgmma=True, prefetch=True, release=True)

emulated = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

PRODUCE = """
extern "C" __global__ void produce(float* to, const float* from) {
  grid_dependency_wait();
  for (int i = threadIdx.x; i < COUNT; i += 32) to[i] = from[i];
}
"""
"""Writes the activations that the kernel under test reads."""


def convolution(tile: Tile) -> tuple[Group, list[numpy.ndarray], KernelSource, numpy.ndarray]:
    """A convolution, whose weights are the left operand, with its inputs and its result."""
    attributes = {"pads": [1] * 4}
    group = group_of("Conv", (1, 16, 5, 7), (24, 16, 3, 3), (1, 24, 5, 7), attributes, (4, 4))
    inputs = [draw(*read.shape, seed=i) for i, read in enumerate(group.reads)]
    kernel = gemm_kernel(group, parse_gpu(TARGET), tile)
    assert kernel is not None
    sums = exact("Conv", inputs[:3], attributes)
    return group, inputs, kernel, numpy.maximum(sums + inputs[3], 0)


def matmul(tile: Tile) -> tuple[Group, list[numpy.ndarray], KernelSource, numpy.ndarray]:
    """A MatMul whose right operand is constant."""
    arrays, info = [draw(40, 200), draw(200, 48)], TensorInfo("float32", (40, 48))
    group, inputs = single("MatMul", arrays, [info], weights=(1,))
    kernel = gemm_kernel(group, parse_gpu(TARGET), tile)
    assert kernel is not None
    return group, inputs, kernel, inputs[0].astype("float64") @ inputs[1]


CASES = {
    "convolution": lambda: convolution(SMALL),
    "convolution with split-K": lambda: convolution(replace(SMALL, split_k=2)),
    "convolution by warpgroups": lambda: convolution(WIDE),
    "matmul": lambda: matmul(SMALL),
    "matmul by warpgroups": lambda: matmul(replace(WIDE, split_k=2)),
}


class Chain:
    """A kernel after one that writes its activations, along a programmatic edge."""

    def __init__(self, group: Group, inputs: list[numpy.ndarray], kernel: KernelSource) -> None:
        self.group, self.kernel = group, kernel
        reads = zip(inputs, kernel.packings, group.reads, strict=True)
        self.arrays = [
            numpy.ascontiguousarray(apply_packing(laid_out(a, info), p)) for a, p, info in reads
        ]
        text = PRODUCE.replace("COUNT", str(self.arrays[0].size)) + kernel.text
        first = Launch("produce", (), (1, 1, 1), (32, 1, 1))
        self.program = Program(replace(kernel, text=text, launches=(first, *kernel.launches)))

    def run(self, seed: int) -> numpy.ndarray:
        """The kernel's result in the order of a seed."""
        driver, (launch,) = self.program.driver, self.kernel.launches
        driver.configure(seed, threads=2)
        sizes = [a.nbytes for a in self.arrays] + [w.nbytes for w in self.group.writes]
        memory = Memory(driver, [*sizes, sizes[0]], 0)
        places = [memory.arrays[-1], *memory.arrays[1 : len(self.arrays)]]
        for place, array in zip(places, self.arrays, strict=True):
            place[:] = array.reshape(-1).view(numpy.uint8)
        graph = driver.create_graph()
        calls = [
            driver.call(self.program.functions["produce"], (1, 1, 1), (32, 1, 1), 0,
                        [memory.addresses[0], memory.addresses[-1]], [sizes[0]] * 2),
            driver.call(self.program.functions[launch.symbol], launch.grid, launch.block,
                        launch.shared_bytes, [memory.addresses[i] for i in launch.args],
                        [sizes[i] for i in launch.args]),
        ]  # fmt: skip
        before = driver.add_call(graph, (), calls[0], None)
        driver.add_call(graph, (), calls[1], None, (before,))
        executable = driver.instantiate(graph, 0)
        driver.launch_graph(executable, 0)
        driver.synchronize_stream(0)
        driver.destroy_executable(executable)
        driver.destroy_graph(graph)
        result = memory.arrays[len(self.arrays)].view(numpy.float32)
        return logical(result, self.group.writes[0]).copy()


def worst(chain: Chain, expected: numpy.ndarray) -> float:
    """The largest error in any order, relative to the result's norm; infinite where one is NaN."""
    size = numpy.linalg.norm(expected)
    errors = [numpy.linalg.norm(chain.run(seed) - expected) / size for seed in SEEDS]
    return float(numpy.nan_to_num(errors, nan=numpy.inf).max())


def swapped(kernel: KernelSource) -> KernelSource:
    """A kernel that copies the wrong operand early."""
    text = re.sub(r"PREFETCHED = (\d)", lambda m: f"PREFETCHED = {3 - int(m[1])}", kernel.text)
    assert text != kernel.text
    return replace(kernel, text=text)


@emulated
@pytest.mark.parametrize("name", CASES)
def test_prefetched_weights_give_right_results(name: str):
    group, inputs, kernel, expected = CASES[name]()
    assert "Overlap<Problem>" in kernel.text
    assert worst(Chain(group, inputs, kernel), expected) < 2e-3


@emulated
@pytest.mark.parametrize("name", ["convolution by warpgroups", "matmul"])
def test_activations_copied_early_are_wrong(name: str):
    group, inputs, kernel, expected = CASES[name]()
    assert worst(Chain(group, inputs, swapped(kernel)), expected) > 0.1


@needs_nvrtc
@pytest.mark.parametrize(("name", "weights"), [
    ("convolution", 0), ("convolution by warpgroups", 0),
    ("matmul", 1), ("matmul by warpgroups", 1),
])  # fmt: skip
def test_only_weights_are_read_before_the_wait(name: str, weights: int):
    kernel = CASES[name]()[2]
    for each, parameter in ((kernel, weights), (swapped(kernel), 1 - weights)):
        ptx = ptx_of(each)
        assert "griddepcontrol.launch_dependents" in ptx.partition(WAIT)[2]
        found = read_before_the_wait(ptx)
        assert found
        assert all(origin == {parameter} for origin in found)


def test_tiles_are_not_early_where_there_are_no_weights():
    arrays, info = [draw(40, 200), draw(200, 48)], TensorInfo("float32", (40, 48))
    group, _ = single("MatMul", arrays, [info])
    with pytest.raises(KernelError, match="without prefetch and release"):
        gemm_kernel(group, parse_gpu(TARGET), SMALL)


@pytest.mark.parametrize("target", ["cuda:sm_80:tf32", TARGET])
def test_tiles_of_two_launches_or_without_a_wait_are_not_early(target: str):
    tile = replace(SMALL, split_k=16 if target == TARGET else 1)
    with pytest.raises(KernelError, match="without prefetch and release"):
        matmul(tile) if target == TARGET else gemm_kernel(matmul(SMALL)[0], parse_gpu(target), tile)
