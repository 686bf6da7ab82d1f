"""GEMMs whose results are stored as vectors, against float64."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy
import pytest

from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.group import Group, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run
from tests.kernels.gpu.of_template import gemm_kernel
from tests.kernels.gpu.templates.test_blocked_contraction import Builder, group_of
from tests.kernels.gpu.templates.test_contraction import draw, exact

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

BOUNDS = {"fp32": 1e-6, "tf32": 2e-3, "fp16": 2e-3, "bf16": 1e-2}
DTYPES = {"fp32": "float32", "tf32": "float32", "fp16": "float16", "bf16": "bfloat16"}
TO = {"float32": 1, "float16": 10, "bfloat16": 16}
SMALL = Tile(32, 32, 16, 16, 1)
WIDE = Tile(64, 64, 16, 64, 1, 4, wgmma=True)
SIZE = (50, 48, 72)
Array = numpy.ndarray


def float32(*shape: int) -> TensorInfo:
    """A tensor's type within a group."""
    return TensorInfo("float32", shape)


def matmul(
    dtype: str,
    left: Sequence[int],
    right: Sequence[int],
    bias: Sequence[int] = (),
    residual: Sequence[int] = (),
    last: Sequence[str] = ("Relu",),
    weight: bool = True,
) -> Group:
    """Activations of `x w + bias + residual`, all results; the last two are optional."""
    build = Builder(dtype)
    x, w = build.read(left), build.read(right)
    reads = [build.read(bias, dtype="float32")] if bias else []
    reads += [build.read(residual)] if residual else []
    weights = (False, weight, *[True] * bool(bias), *[False] * bool(residual))
    info = float32(*numpy.matmul(numpy.zeros(left), numpy.zeros(right)).shape)
    total = build.add("MatMul", [build.wide(x), build.wide(w)], info)
    for read in reads:
        total = build.add("Add", [total, build.wide(read)], info)
    outputs = [build.add(type, [total], info) for type in last]
    if dtype != "float32":
        stored = TensorInfo(dtype, info.shape)
        outputs = [build.add("Cast", [output], stored, to=TO[dtype]) for output in outputs]
    values, operators = tuple(build.values), tuple(build.operators)
    return Group("vectors", values, len(weights), weights, {}, operators, tuple(outputs))


def kernel_of(
    group: Group, precision: str, tile: Tile = SMALL, arch: str = "sm_90"
) -> KernelSource:
    """The kernel of a tile."""
    kernel = gemm_kernel(group, parse_gpu(f"cuda:{arch}:{precision}"), tile)
    assert kernel is not None
    return kernel


def constant(kernel: KernelSource, name: str) -> int:
    """One of the problem's constants in a kernel's text."""
    return int(kernel.text.split(f" {name} = ")[1].split(";")[0])


def inputs_of(group: Group) -> list[Array]:
    """Normal numbers for every read."""
    kinds = [ml_dtypes.bfloat16 if v.dtype == "bfloat16" else v.dtype for v in group.reads]
    pairs = enumerate(zip(group.reads, kinds, strict=True))
    return [draw(*v.shape, seed=i).astype(kind) for i, (v, kind) in pairs]


def check(group: Group, kernel: KernelSource, bound: float, offset: int = 0) -> list[Array]:
    """Compare all results with float64's."""
    inputs = inputs_of(group)
    left, right, *added = [array.astype("float64") for array in inputs]
    total = left @ right + sum(added)
    results = run(kernel, group, inputs, offset)
    kinds = [op.type for op in group.operators if op.type in ("Relu", "Abs", "Neg")]
    for kind, result in zip(kinds, results, strict=True):
        expected = {"Relu": numpy.maximum(total, 0), "Abs": abs(total), "Neg": -total}[kind]
        difference = numpy.linalg.norm(result.astype("float64") - expected)
        assert difference < bound * numpy.linalg.norm(expected)
    return results


TILES = [
    SMALL, WIDE, replace(SMALL, split_k=3), Tile(128, 96, 16, 96, 1, 4, wgmma=True),
    Tile(64, 96, 16, 96, 2, 4, wgmma=True), Tile(16, 128, 16, 32, 1),
]  # fmt: skip
OTHERS = [("fp32", SMALL), ("fp16", SMALL), ("fp16", WIDE), ("bf16", WIDE)]


@pytest.mark.parametrize(("precision", "tile"), [*(("tf32", tile) for tile in TILES), *OTHERS])
def test_tiles_and_precisions(precision: str, tile: Tile):
    """Where a buffer begins anywhere, the same bits are stored one by one."""
    columns = 104
    depth = 260 if tile.split_k > 1 else 72
    dtype, shape = DTYPES[precision], (70, columns)
    group = matmul(dtype, (70, depth), (depth, columns), (columns,), shape)
    kernel = kernel_of(group, precision, tile)
    assert constant(kernel, "VECTOR") == 16 // numpy.dtype(dtype).itemsize
    assert (constant(kernel, "ELEMENTWISE"), constant(kernel, "BROADCASTS")) == (1, 1)
    (aligned,) = check(group, kernel, BOUNDS[precision])
    (anywhere,) = check(group, kernel, BOUNDS[precision], aligned.itemsize)
    assert aligned.tobytes() == anywhere.tobytes()


@pytest.mark.parametrize(("columns", "vector"), [(48, 8), (44, 4), (46, 0), (45, 0)])
def test_columns_that_fill_no_vector(columns: int, vector: int):
    group = matmul("float16", (50, 40), (40, columns), (columns,), (50, columns))
    kernel = kernel_of(group, "fp16")
    assert constant(kernel, "VECTOR") == vector
    check(group, kernel, BOUNDS["fp16"])


CASES: dict[str, tuple[tuple[Any, ...], tuple[int, int, int]]] = {
    "several results": (("float32", (50, 40), (40, 48), (48,), (), ("Relu", "Abs")), (4, 0, 1)),
    "row bias": (("float32", (50, 40), (40, 48), (50, 1), ()), (4, 0, 0)),
    "broadcast residual": (("float16", (3, 20, 40), (40, 48), (48,), (20, 48)), (8, 0, 1)),
    "batch of rows": (("float16", (3, 20, 40), (40, 48), (48,), (3, 20, 48)), (8, 1, 1)),
    "batch of matmuls": (
        ("float16", (2, 3, 20, 40), (2, 3, 40, 48), (48,), (2, 3, 20, 48), ("Relu",), False),
        (8, 1, 1),
    ),
    "bias of a batch": (
        ("float32", (3, 20, 40), (3, 40, 48), (3, 1, 48), (), ("Neg",), False), (4, 0, 0)
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
def test_epilogue_operands(name: str):
    arguments, (vector, elementwise, broadcasts) = CASES[name]
    group = matmul(*arguments)
    kernel = kernel_of(group, "fp16" if group.writes[0].dtype == "float16" else "fp32")
    assert constant(kernel, "VECTOR") == vector
    assert (constant(kernel, "ELEMENTWISE"), constant(kernel, "BROADCASTS")) == (
        elementwise,
        broadcasts,
    )
    check(group, kernel, BOUNDS["fp16" if vector == 8 else "fp32"])


def test_a_transposed_residual_is_read_element_by_element():
    build = Builder()
    reads = [build.read(shape) for shape in ((50, 40), (40, 48), (48, 50))]
    total = build.add("MatMul", reads[:2], float32(50, 48))
    turned = build.add("Transpose", [reads[2]], float32(50, 48), perm=[1, 0])
    last = build.add("Add", [total, turned], float32(50, 48))
    values, operators = tuple(build.values), tuple(build.operators)
    group = Group("turned", values, 3, (False, True, False), {}, operators, (last,))
    kernel = kernel_of(group, "fp32")
    assert (constant(kernel, "VECTOR"), constant(kernel, "ELEMENTWISE")) == (4, 0)
    x, w, residual = inputs = inputs_of(group)
    (result,) = run(kernel, group, inputs)
    numpy.testing.assert_allclose(result, x.astype("float64") @ w + residual.T, atol=1e-4)


def test_a_residual_is_prefetched_after_the_main_loop_where_room_is_short():
    group = matmul("float16", (128, 600), (600, 128), (128,), (128, 128))
    early, late, direct = (
        kernel_of(group, "fp16", Tile(128, 128, 64, 32, 1, stages), arch)
        for stages, arch in ((3, "sm_90"), (6, "sm_90"), (2, "sm_86"))
    )
    assert [constant(kernel, "LATE") for kernel in (early, late, direct)] == [0, 1, 0]
    assert [constant(kernel, "ELEMENTWISE") for kernel in (early, late, direct)] == [1, 1, 0]
    limit = parse_gpu("cuda:sm_86:fp16").shared_bytes
    assert direct.launches[0].shared_bytes < limit
    for kernel in (early, late, direct):
        check(group, kernel, BOUNDS["fp16"])


def test_the_second_launch_of_split_k_stores_single_elements():
    group = matmul("float32", (16, 1600), (1600, 48), (48,))
    kernel = kernel_of(group, "fp32", Tile(16, 64, 16, 16, 4), "sm_80")
    assert (len(kernel.launches), constant(kernel, "VECTOR")) == (2, 0)
    check(group, kernel, BOUNDS["fp32"])


@pytest.mark.parametrize(("type", "shapes", "attributes", "vector"), [
    ("Conv", ((2, 20, 6, 6), (24, 20, 1, 1), (2, 24, 6, 6)), {}, 4),
    ("Conv", ((1, 20, 6, 8), (24, 20, 3, 3), (1, 24, 4, 6)), {}, 4),
    ("Conv", ((2, 20, 5, 7), (24, 20, 1, 1), (2, 24, 5, 7)), {}, 0),
    ("Conv", ((2, 32, 4, 4), (24, 16, 1, 1), (2, 24, 4, 4)), {"group": 2}, 4),
    ("ConvTranspose", ((2, 20, 4, 4), (20, 12, 2, 2), (2, 12, 8, 8)), {"strides": [2, 2]}, 0),
])  # fmt: skip
@pytest.mark.parametrize("block", [0, 4])
def test_pixels_of_plain_images(
    type: str, shapes: tuple[Any, Any, Any], attributes: dict[str, Any], vector: int, block: int
):
    """A transposed convolution with one tap per output has columns that are not contiguous."""
    group = group_of(type, *shapes, attributes, (block, 0))
    kernel = kernel_of(group, "fp32")
    assert constant(kernel, "VECTOR") == vector
    inputs = inputs_of(group)
    (result,) = run(kernel, group, inputs)
    expected = numpy.maximum(exact(type, inputs[:3], attributes) + inputs[3], 0)
    numpy.testing.assert_allclose(result, expected, atol=1e-4)
