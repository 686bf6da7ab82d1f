"""The operands that WGMMA reads, by a model of shared memory as the PTX ISA describes it.

The emulator lays the operands of one step out in shared memory. The model then reads them as the
ISA says that `wgmma` does (sections "Matrix Descriptor Format" and "Swizzling Modes" of
"Asynchronous warpgroup level matrix instructions"), from the descriptors that warpgroups.cuh makes.
"""

import ctypes
import subprocess
from collections.abc import Callable
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import numpy
import pytest

from compiler.graph.packing import apply_packing
from compiler.kernels.gpu.source import headers
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.problem import Problem
from compiler.kernels.gpu.templates.gemm.read import read_problem
from compiler.kernels.template import KernelSource
from compiler.schedule.kernels import Launch
from compiler.target.target import parse_gpu
from compiler.tensors.dtypes import numpy_dtype
from tests.kernels.gpu.emulator import COMPILER, Program
from tests.kernels.gpu.of_template import gemm_kernel
from tests.kernels.gpu.templates.test_contraction import draw
from tests.kernels.gpu.templates.test_wgmma_images import CASES, TYPES, convolution, wide
from tests.kernels.harness import laid_out

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

Array = numpy.ndarray
Grid = tuple[int, int]
Describe = Callable[[int, int], int]

DUMP = """
extern "C" __global__ void dump(const Problem::Element* a, const Problem::Element* b,
                                const int* step, int4* to) {
  using P = Problem;
  int4* const tiles = (int4*)swizzled_shared();
  SwizzledCopies<P, P::BM, P::M, P::A_ROW, true> left(a, blockIdx.y * P::BM, *step * P::BK);
  BlockCopies<P> right(b, blockIdx.x * P::BN, *step * P::BK);
  left.copy(tiles), right.copy(tiles + P::BM * 8);
  cp_async_fence();
  cp_async_wait<0>();
  __syncthreads();
  for (int i = threadIdx.x; i < (P::BM + P::BN) * 8; i += Tiles<P>::THREADS)
    to[(blockIdx.y * gridDim.x + blockIdx.x) * (P::BM + P::BN) * 8 + i] = tiles[i];
}
"""
"""Copies both operands of one step as `wgmma_mainloop` does, then shows them."""

HOST = """
#include <cstdint>
#define __device__
#define __forceinline__ inline
static uint32_t shared_address(const void* pointer) { return (uint32_t)(uintptr_t)pointer; }
HEADER
extern "C" uint64_t descriptor(const void* tile, int rows) {
  return rows ? interleaved_descriptor(tile, rows) : swizzled_descriptor(tile);
}
"""


@dataclass(frozen=True)
class Shared:
    """Shared memory from address 0 on, as bytes."""

    content: Array

    def read(self, descriptor: int, rows: int) -> Array:
        """The bytes of `rows` rows of 32 bytes that one instruction reads of a matrix."""
        start, leading, stride = ((descriptor >> bit & 0x3FFF) << 4 for bit in (0, 16, 32))
        assert descriptor >> 62 < 2, "rows are swizzled by 128 bytes, or not at all"
        assert descriptor >> 49 & 7 == 0, "patterns of the swizzle begin at multiples of 1024 bytes"
        row, byte = numpy.ogrid[:rows, :32]
        first = start + row // 8 * stride
        if descriptor >> 62 == 0:
            return self.content[first + row % 8 * 16 + byte // 16 * leading + byte % 16]
        address = first + row % 8 * 128 + byte
        return self.content[address ^ (address >> 7 & 7) << 4]


@pytest.fixture(scope="module")
def descriptor(tmp_path_factory: pytest.TempPathFactory) -> Describe:
    """The descriptors of warpgroups.cuh, compiled for the host; of chunks if rows are given."""
    folder = tmp_path_factory.mktemp("descriptor")
    text = headers()["warpgroups.cuh"].partition("template <")[0]
    (folder / "host.cpp").write_text(HOST.replace("HEADER", text))
    assert COMPILER is not None
    command = [COMPILER, "-shared", "-fPIC", "-o", "host.so", "host.cpp"]
    subprocess.run(command, cwd=folder, check=True)
    found = ctypes.CDLL(str(Path(folder) / "host.so")).descriptor
    found.argtypes, found.restype = [ctypes.c_void_p, ctypes.c_int], ctypes.c_uint64
    return found


def windows(image: Array, problem: Problem) -> Array:
    """The element of each k (row) and output pixel (column), zero in the padding."""
    gather, (_, channels) = problem.gather, image.shape[:2]
    assert not gather.transposed
    image = image.reshape(image.shape[0], channels, *gather.source)
    found = numpy.zeros((gather.taps, channels, image.shape[0], gather.pixels), image.dtype)
    for tap, at in enumerate(product(*map(range, gather.window))):
        for pixel, place in enumerate(product(*map(range, gather.result))):
            moved = zip(place, gather.strides, gather.pads, at, gather.dilations, strict=True)
            own = tuple(p * s - pad + t * d for p, s, pad, t, d in moved)
            if all(0 <= x < n for x, n in zip(own, gather.source, strict=True)):
                found[tap, :, :, pixel] = image[:, :, *own].T
    if gather.taps > 1 and channels % problem.step == 0:
        found = found.reshape(gather.taps, -1, problem.step, image.shape[0], gather.pixels)
        found = found.swapaxes(0, 1)
    return found.reshape(gather.taps * channels, -1)


def cut(matrix: Array, row: int, column: int, rows: int, columns: int) -> Array:
    """A part of a matrix, with zeros beyond its ends."""
    part = matrix[row : row + rows, column : column + columns]
    return numpy.pad(part, ((0, rows - part.shape[0]), (0, columns - part.shape[1])))


def dumped(program: Program, arrays: list[Array], step: int, tile: Tile, grid: Grid) -> Array:
    """Shared memory of each block (y, x) in one step."""
    content = numpy.zeros((*grid[::-1], (tile.rows + tile.columns) * 128), numpy.uint8)
    given = [*arrays, numpy.array([step], "int32"), content]
    call = program.driver.call(
        program.functions["dump"], (*grid, 1), (tile.threads, 1, 1), 1 << 16,
        [a.ctypes.data for a in given], [a.nbytes for a in given],
    )  # fmt: skip
    program.driver.launch(call, 0)
    program.driver.synchronize_stream(0)
    return content


@pytest.mark.parametrize(("name", "precision"), [
    ("pointwise", "tf32"), ("window", "tf32"), ("few-channels", "bf16"), ("padding-wider", "fp16"),
])  # fmt: skip
def test_wgmma_reads_the_operands(name: str, precision: str, descriptor: Describe):
    image, weight, attributes = CASES[name]
    group, tile = convolution(precision, image, weight, **attributes), wide(64, 32)
    problem = read_problem(group, next(op for op in group.operators if op.type == "Conv"))
    kernel = gemm_kernel(group, parse_gpu(f"cuda:sm_90:{precision}"), tile)
    assert problem is not None
    assert kernel is not None
    launches = (Launch("dump", (), (1, 1, 1), (tile.threads, 1, 1)),)
    program = Program(KernelSource(kernel.text + DUMP, launches))
    pixels, weights = (draw(*s).astype(numpy_dtype(TYPES[precision])) for s in (image, weight))
    a = numpy.ascontiguousarray(apply_packing(weights, dict(problem.packings)[problem.left]))
    b = numpy.ascontiguousarray(laid_out(pixels, group.reads[0]))
    left, right = a.reshape(problem.m, -1), windows(pixels, problem).T
    grid, count = kernel.launches[0].grid[:2], problem.step // 4
    for step in range(-(-problem.k // problem.step)):
        content = dumped(program, [a, b], step, tile, grid)
        for part, (y, x) in product(range(4), numpy.ndindex(grid[::-1])):
            shared, first = Shared(content[y, x]), step * problem.step + part * count
            behind = tile.rows * 128
            for matrix, row, rows, at in (
                (left, y * tile.rows, tile.rows, descriptor(0, 0) + 2 * part),
                (right, x * tile.columns, tile.columns,
                 descriptor(behind, tile.columns) + 2 * tile.columns * part),
            ):  # fmt: skip
                wanted = numpy.ascontiguousarray(cut(matrix, row, first, rows, count))
                seen = shared.read(at, rows)
                assert numpy.array_equal(seen, wanted.view(numpy.uint8))
