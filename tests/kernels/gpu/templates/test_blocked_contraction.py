"""Convolutions of images in channel blocks, and of elements of two bytes, against float64."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy
import pytest

from compiler.kernels.building.cuda_kernel import generate
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.problem import Form
from compiler.kernels.gpu.templates.gemm.read import read_problem
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, run
from tests.kernels.gpu.of_template import gemm_kernel
from tests.kernels.gpu.templates.test_contraction import draw, exact

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

BOUNDS = {"fp32": 1e-6, "tf32": 1e-3, "fp16": 1e-3, "bf16": 8e-3}
DTYPES = {"fp16": "float16", "bf16": "bfloat16"}
SMALL = Tile(32, 32, 16, 16, 1)


Shape = tuple[int, ...]


@dataclass
class Builder:
    """A group whose stored tensors may have two bytes, seen as float32 by its operators."""

    dtype: str = "float32"
    values: list[TensorInfo] = field(default_factory=list[TensorInfo])
    operators: list[Node[int]] = field(default_factory=list[Node[int]])

    def read(self, shape: Sequence[int], block: int = 0, dtype: str = "") -> int:
        """A read."""
        self.values.append(TensorInfo(dtype or self.dtype, tuple(shape), block))
        return len(self.values) - 1

    def add(self, type: str, inputs: Sequence[int], info: TensorInfo, **attributes: object) -> int:
        """An operator's result."""
        self.values.append(info)
        self.operators.append(Node(type, attributes, tuple(inputs), (len(self.values) - 1,)))
        return len(self.values) - 1

    def wide(self, value: int) -> int:
        """A value as float32."""
        info = self.values[value]
        if info.dtype == "float32":
            return value
        return self.add("Cast", [value], TensorInfo("float32", info.shape), to=1)


def group_of(
    type: str,
    image: Sequence[int],
    weight: Sequence[int],
    result: Sequence[int],
    attributes: Mapping[str, Any],
    blocks: tuple[int, int],
    dtype: str = "float32",
) -> Group:
    """A contraction with bias, residual and Relu; the image and the result have these blocks."""
    build = Builder(dtype)
    reads = [build.read(image, blocks[0]), build.read(weight)]
    reads += [build.read(result[1:2], dtype="float32"), build.read(result, blocks[1])]
    x, w, residual = build.wide(0), build.wide(1), build.wide(3)
    info = TensorInfo("float32", tuple(result))
    total = build.add(type, [x, w, 2], info, **attributes)
    last = build.add("Relu", [build.add("Add", [total, residual], info)], info)
    if dtype != "float32":
        to = 10 if dtype == "float16" else 16
        last = build.add("Cast", [last], TensorInfo(dtype, info.shape), to=to)
    build.values[last] = replace(build.values[last], block=blocks[1])
    weights = (False, True, True, False)
    return Group("blocked", tuple(build.values), 4, weights, {}, tuple(build.operators), (last,))


def error_of(group: Group, target: str = "cuda", tile: Tile | None = SMALL) -> float:
    """The emulated kernel's error against float64, relative to the result's norm."""
    kinds = [ml_dtypes.bfloat16 if v.dtype == "bfloat16" else v.dtype for v in group.reads]
    pairs = enumerate(zip(group.reads, kinds, strict=True))
    inputs = [draw(*v.shape, seed=i).astype(kind) for i, (v, kind) in pairs]
    kernel = gemm_kernel(group, parse_gpu(target), tile)
    assert kernel is not None
    (result,) = run(kernel, group, inputs)
    anchor = next(op for op in group.operators if op.type in ("Conv", "ConvTranspose"))
    sums = exact(anchor.type, inputs[:3], dict(anchor.attributes))
    expected = numpy.maximum(sums + inputs[3].astype("float64"), 0)
    difference = numpy.linalg.norm(result.astype("float64") - expected)
    return float(difference / numpy.linalg.norm(expected))


CASES: dict[str, tuple[Shape, Shape, Shape, dict[str, Any]]] = {
    "pointwise": ((2, 20, 5, 7), (24, 20, 1, 1), (2, 24, 5, 7), {}),
    "strided": ((1, 36, 9, 9), (20, 36, 1, 1), (1, 20, 5, 5), {"strides": [2, 2]}),
    "window": ((1, 32, 9, 7), (72, 32, 3, 3), (1, 72, 9, 7), {"pads": [1] * 4}),
    "odd-channels": ((2, 12, 6, 5), (40, 12, 5, 3), (2, 40, 6, 5), {"pads": [2, 1, 2, 1]}),
    "grouped": ((1, 16, 7, 7), (16, 4, 3, 3), (1, 16, 4, 4),
                {"pads": [1] * 4, "group": 4, "strides": [2, 2]}),
    "volume": ((1, 8, 3, 4, 5), (12, 8, 1, 2, 2), (1, 12, 3, 3, 4), {}),
}  # fmt: skip


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("blocks", [(4, 4), (4, 0), (0, 4)])
def test_blocks(name: str, blocks: tuple[int, int]):
    group = group_of("Conv", *CASES[name], blocks)
    if blocks[0]:
        problem = read_problem(group, group.operators[0])
        assert problem is not None
        assert problem.form is Form.BLOCKS
    elif name == "grouped":
        pytest.skip("four rows a group of a plain image are the generic schedule's")
    assert error_of(group, "cuda:sm_90:fp32") < BOUNDS["fp32"]


@pytest.mark.parametrize("tile", [
    Tile(64, 64, 32, 32, 3), Tile(16, 128, 16, 32, 2, 6), Tile(128, 64, 32, 32, 1, 4),
])  # fmt: skip
def test_tiles_and_split_k(tile: Tile):
    case = ((1, 64, 9, 9), (72, 64, 3, 3), (1, 72, 9, 9), {"pads": [1] * 4})
    assert error_of(group_of("Conv", *case, (4, 4)), "cuda", tile) < BOUNDS["tf32"]


@pytest.mark.parametrize("precision", ["fp16", "bf16"])
@pytest.mark.parametrize("blocks", [(8, 8), (0, 8), (8, 0)])
def test_elements_of_two_bytes(precision: str, blocks: tuple[int, int]):
    case = ((1, 24, 7, 9), (40, 24, 3, 3), (1, 40, 7, 9), {"pads": [1] * 4})
    group = group_of("Conv", *case, blocks, DTYPES[precision])
    assert error_of(group, f"cuda:sm_90:{precision}") < BOUNDS[precision]


@pytest.mark.parametrize("attributes", [
    {"strides": [2, 2]}, {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]},
])  # fmt: skip
@pytest.mark.parametrize("blocks", [(4, 4), (0, 0)])
def test_transposed(attributes: dict[str, object], blocks: tuple[int, int]):
    size = 3 if "pads" in attributes else 2
    result = (2, 12, 10, 10)
    group = group_of(
        "ConvTranspose", (2, 20, 5, 5), (20, 12, size, size), result, attributes, blocks
    )
    assert error_of(group, "cuda:sm_90:fp32") < BOUNDS["fp32"]


def test_the_second_launch_of_split_k_stores_single_elements():
    case = ((1, 64, 5, 5), (16, 64, 3, 3), (1, 16, 5, 5), {"pads": [1] * 4})
    group = group_of("Conv", *case, (4, 4))
    kernel = gemm_kernel(group, parse_gpu("cuda:sm_80:fp32"), Tile(16, 64, 16, 16, 4))
    assert kernel is not None
    assert len(kernel.launches) == 2
    assert error_of(group, "cuda:sm_80:fp32", Tile(16, 64, 16, 16, 4)) < BOUNDS["fp32"]


def test_operands_of_two_types_are_left_to_the_generic_schedule():
    group = group_of("Conv", *CASES["pointwise"], (4, 4))
    values = list(group.values)
    values[1] = replace(values[1], dtype="float16")
    assert read_problem(replace(group, values=tuple(values)), group.operators[0]) is None


def test_a_transposed_operand_is_read_where_it_lies():
    """Q K^T of two heads, straight from projections [rows, heads * size]."""
    rows, heads, size = 20, 2, 32
    flat, split = (rows, heads * size), (rows, heads, size)
    build = Builder()
    q, k = build.read(flat), build.read(flat)
    queries = build.add("Reshape", [q], TensorInfo("float32", split))
    keys = build.add("Reshape", [k], TensorInfo("float32", split))
    moved = TensorInfo("float32", (heads, rows, size)), TensorInfo("float32", (heads, size, rows))
    left = build.add("Transpose", [queries], moved[0], perm=[1, 0, 2])
    right = build.add("Transpose", [keys], moved[1], perm=[1, 2, 0])
    last = build.add("MatMul", [left, right], TensorInfo("float32", (heads, rows, rows)))
    values, operators = tuple(build.values), tuple(build.operators)
    group = Group("scores", values, 2, (False, False), {}, operators, (last,))
    inputs = [draw(*flat, seed=i) for i in range(2)]
    kernel = generate(group, parse_gpu("cuda:sm_90:fp32"))
    assert "FORM = 1" in kernel.text
    (result,) = run(kernel, group, inputs)
    heads_of = [x.astype("float64").reshape(split).transpose(1, 0, 2) for x in inputs]
    expected = heads_of[0] @ heads_of[1].transpose(0, 2, 1)
    numpy.testing.assert_allclose(result, expected, atol=1e-4)
