"""GEMMs whose rows a run decides: one kernel for all sizes, in tiles of every kind."""

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.building.select import candidates_of
from compiler.kernels.gpu.compilers.hipcc import compile_hip
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.gemm import mfma
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.template import Gemm
from compiler.kernels.group import Group
from compiler.kernels.sizes import for_all_sizes, sized
from compiler.kernels.template import KernelSource
from compiler.target.target import GpuTarget, parse_gpu
from compiler.tensors.extents import Extent
from tests.kernels.gpu.emulator import COMPILER, Order, Program
from tests.kernels.gpu.test_symbolic import at, with_sizes_operand
from tests.kernels.symbolic.cases import (
    GENERIC,
    LENGTH,
    MATMULS,
    ROWS,
    expected,
    feeds,
    group,
    node,
)
from tests.tools import needs

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

F = "float32"


def dense(name: str, columns: int, batch: Extent = ROWS) -> Group:
    """A linear layer with a bias, GELU and a residual connection."""
    result = (F, (batch, LENGTH, columns))
    return replace(
        group(
            name,
            [(F, (batch, LENGTH, 96)), (F, (96, columns)), (F, (columns,)), result],
            [
                node("MatMul", [0, 1], 4),
                node("Add", [4, 2], 5),
                node("Gelu", [5], 6, approximate="none"),
                node("Add", [6, 3], 7),
            ],
            [result] * 4,
            [1],
        ),
        name=name,
    )


FP32, TF32, OLDER = (parse_gpu(f"cuda:{own}") for own in ("sm_90:fp32", "sm_90:tf32", "sm_80:tf32"))

AMD = parse_gpu("hip:gfx90a:fp32")

KERNELS: Mapping[str, tuple[Group, GpuTarget, Tile | None]] = {
    "vectors": (dense("vectors", 128), FP32, None),
    "vectors of one batch": (dense("one", 128, 1), FP32, None),
    "elements": (dense("elements", 130), FP32, None),
    "tensor cores": (dense("cores", 128), OLDER, Tile(64, 64, 32, 32, 1, 3)),
    "a cluster": (dense("cluster", 128), TF32, Tile(32, 64, 16, 32, 3, 3)),
    "WGMMA with prefetched weights": (
        dense("prefetched", 128),
        TF32,
        Tile(64, 64, 16, 64, 1, 4, wgmma=True, prefetch=True, release=True),
    ),
    "Gemm": (replace(MATMULS["Gemm"], name="gemm"), FP32, None),
    "AMD's matrix cores": (dense("amd", 128), AMD, None),
}

SIZES = ((2, 3), (17, 16), (5, 37), (3, 64))


def emitted(case: Group, target: GpuTarget, tile: Tile | None) -> KernelSource:
    """The kernel of a case with a tile, or with the one that is chosen."""
    with for_all_sizes(case, gpu=True):
        (candidate,) = candidates_of(Gemm(), sized(case), target)
        return candidate.emit(tile or candidate.choose()[0])


@cache
def sources() -> Mapping[str, KernelSource]:
    """The kernels of all cases."""
    return {name: emitted(*case) for name, case in KERNELS.items()}


@pytest.mark.parametrize("name", ["vectors", "vectors of one batch"])
def test_rows_are_stored_as_vectors_without_quotients(name: str):
    text = sources()[name].text
    assert "VECTOR = 4;" in text
    assert not re.search(r"[%/] *\(?runtime_size", text)


@needs("hipcc")
@pytest.mark.parametrize("architecture", ["gfx90a", "gfx1030"])
def test_hipcc_compiles_kernels_for_all_sizes(architecture: str):
    target = parse_gpu(f"hip:{architecture}:fp32")
    groups = dense("amd", 128), GENERIC["masked softmax"], GENERIC["layer norm of a length"]
    for case in groups:
        kernel = generate(case, target)
        symbols = [launch.symbol for launch in kernel.launches]
        assert compile_hip(complete_text(kernel.text), symbols, target)


@pytest.mark.parametrize("case", [dense("cores", 128), GENERIC["masked softmax"]])
def test_sizes_are_read_while_the_kernels_before_end(case: Group):
    source = complete_text(generate(case, FP32).text)
    for kernel in source.split('extern "C" __global__')[1:]:
        if "{" in kernel.split(";")[0]:  # a definition
            wait = kernel.index("\n  grid_dependency_wait();")
            assert "sizes" in kernel[kernel.index("{") : wait]


@cache
def program(name: str) -> Program:
    """The program of one kernel: problems of several have the same name in C++."""
    return Program(sources()[name])


@pytest.mark.parametrize("name", KERNELS)
def test_one_kernel_gives_numpys_results_for_all_sizes(name: str):
    case, target, _ = KERNELS[name]
    kernel = sources()[name]
    for number, (rows, length) in enumerate(SIZES):
        every = {"s0": rows, "s1": length}
        sizes = {symbol.name: every[symbol.name] for symbol in case.symbols}
        numeric = case.at(sizes)
        arrays = feeds(numeric, number)
        values = np.array([*sizes.values()], np.int64)
        own = replace(at(kernel, sizes), packings=(*kernel.packings, ""))
        operands = with_sizes_operand(numeric, sizes)
        order = Order(number, mfma.WAVE if target.has_mfma else 32)
        (result,) = program(name).run(own, operands, [*arrays, values], order=order)
        within = 1e-4 if target.precision == "fp32" else 2e-2
        wanted = expected(numeric, arrays)
        np.testing.assert_allclose(result, wanted, within, within, err_msg=str(sizes))
