"""GEMMs and convolutions of bytes on the emulator, against exact integers."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy
import pytest

from compiler.kernels.building.select import best
from compiler.kernels.gpu.compilers.nvrtc import compile_cubin
from compiler.kernels.gpu.cubin import read_resources
from compiler.kernels.gpu.source import complete_text
from compiler.kernels.gpu.templates.byte_gemm.template import ByteGemm, ByteProblem
from compiler.kernels.gpu.templates.gemm.candidates import candidates
from compiler.kernels.gpu.templates.gemm.config import Tile
from compiler.kernels.gpu.templates.gemm.problem import Form
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.template import KernelSource
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Array, run, run_twice

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp16")
SMALL = Tile(32, 32, 16, 16, 1)
KINDS = {"float32": 1, "uint8": 2, "int8": 3, "int32": 6}
"""The element types, by ONNX's numbers."""


@dataclass(frozen=True)
class Case:
    """A contraction of x by w with the zero point of x; `block` is that of x and the result."""

    x: tuple[int, ...]
    w: tuple[int, ...]
    types: tuple[str, str] = ("uint8", "int8")
    zero: int = 0
    result: str = "int32"
    blocks: tuple[int, int] = (0, 0)
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])

    @property
    def type(self) -> str:
        """The operator."""
        return "MatMulInteger" if len(self.x) < 4 and len(self.w) == 2 else "ConvInteger"

    @property
    def inputs(self) -> list[Array]:
        """Random bytes of the whole range, then scales by output channel."""
        random = numpy.random.default_rng(len(self.x) + self.x[-1] + self.w[0])
        values = [random.integers(0, 256, s).astype("uint8") for s in (self.x, self.w)]
        bytes = [v.view(t) for v, t in zip(values, self.types, strict=True)]
        columns = self.w[-1] if self.type == "MatMulInteger" else self.w[0]
        return [*bytes, random.uniform(1e-5, 1e-3, columns).astype("float32")]

    def sums(self, x: Array, w: Array) -> Array:
        """The exact sums."""
        x, w = x.astype("int64") - self.zero, w.astype("int64")
        return x @ w if self.type == "MatMulInteger" else convolved(x, w, self.attributes)


def convolved(x: Array, w: Array, attributes: dict[str, Any]) -> Array:
    """A convolution of two axes in the type of both, tap by tap."""
    (top, left, bottom, right), (down, across) = (
        attributes.get("pads", [0] * 4),
        attributes.get("strides", [1, 1]),
    )
    groups = attributes.get("group", 1)
    x = numpy.pad(x, [(0, 0), (0, 0), (top, bottom), (left, right)])
    rows = (x.shape[2] - w.shape[2]) // down + 1
    columns = (x.shape[3] - w.shape[3]) // across + 1
    parts: list[Array] = []
    for own, weight in zip(numpy.split(x, groups, 1), numpy.split(w, groups, 0), strict=True):
        total = numpy.zeros((x.shape[0], weight.shape[0], rows, columns), x.dtype)
        for i, j in numpy.ndindex(*w.shape[2:]):
            tap = own[:, :, i : i + rows * down : down, j : j + columns * across : across]
            total += numpy.einsum("nchw,oc->nohw", tap, weight[:, :, i, j])
        parts.append(total)
    return numpy.concatenate(parts, 1)


def group_of(case: Case, shape: Sequence[int]) -> Group:
    """The contraction, then for results other than int32 scales and a cast to bytes or floats."""
    x, w, scales = case.inputs
    values = [
        TensorInfo(case.types[0], x.shape, case.blocks[0]),
        TensorInfo(case.types[1], w.shape),
    ]
    weights, constants = [False, True], dict[int, Array]()
    if case.result != "int32":
        values.append(TensorInfo("float32", scales.shape))
        weights.append(True)
    reads = len(values)
    operators: list[Node[int]] = []

    def add(type: str, inputs: Sequence[int], dtype: str, own: Sequence[int], **kept: Any) -> int:
        values.append(TensorInfo(dtype, tuple(own)))
        operators.append(Node(type, kept, tuple(inputs), (len(values) - 1,)))
        return len(values) - 1

    operands = [0, 1]
    if case.zero:
        constants[len(values)] = numpy.array(case.zero, case.types[0])
        operands.append(len(values))
        values.append(TensorInfo(case.types[0], ()))
    last = add(case.type, operands, "int32", shape, **case.attributes)
    if case.result != "int32":
        column = scales.shape if case.type == "MatMulInteger" else (scales.size, 1, 1)
        constants[len(values)] = numpy.array(column, "int64")
        values.append(TensorInfo("int64", (len(column),)))
        factor = add("Reshape", [2, len(values) - 1], "float32", column)
        last = add("Mul", [add("Cast", [last], "float32", shape, to=1), factor], "float32", shape)
    if case.result in ("int8", "uint8"):
        limits = numpy.iinfo(case.result)
        bounds = list[int]()
        for limit in (limits.min, limits.max):
            constants[len(values)] = numpy.array(limit, "float32")
            bounds.append(len(values))
            values.append(TensorInfo("float32", ()))
        rounded = add("Round", [last], "float32", shape)
        clipped = add("Clip", [rounded, *bounds], "float32", shape)
        last = add("Cast", [clipped], case.result, shape, to=KINDS[case.result])
    values[last] = replace(values[last], block=case.blocks[1])
    name, own = "bytes", tuple(weights)
    return Group(name, tuple(values), reads, own, constants, tuple(operators), (last,))


def expected(case: Case, sums: Array, scales: Array) -> Array:
    """The result, computed in the order of the operators."""
    if case.result == "int32":
        return sums.astype("int32")
    column = scales if case.type == "MatMulInteger" else scales.reshape(-1, 1, 1)
    scaled = sums.astype("int32").astype("float32") * column
    if case.result == "float32":
        return scaled
    limits = numpy.iinfo(case.result)
    return scaled.round().clip(limits.min, limits.max).astype(case.result)


def problem_of(group: Group) -> ByteProblem | None:
    """The problem that the template finds."""
    found = next(iter(ByteGemm().match(group, TARGET)), None)
    assert found is None or isinstance(found, ByteProblem)
    return found


def check(case: Case, tile: Tile = SMALL, twice: bool = False) -> KernelSource:
    """Compare a kernel's result with exact integers, bit by bit."""
    x, w, scales = case.inputs
    sums = case.sums(x, w)
    group = group_of(case, sums.shape)
    problem = problem_of(group)
    assert problem is not None
    assert problem.form is (Form.ROWS if case.type == "MatMulInteger" else Form.BLOCKS)
    kernel = ByteGemm().emit(group, problem, tile, TARGET)
    inputs = [x, w, scales][: group.inputs]
    (result,) = (run_twice if twice else run)(kernel, group, inputs)
    numpy.testing.assert_array_equal(result, expected(case, sums, scales))
    return kernel


SIGNS = [(a, b) for a in ("int8", "uint8") for b in ("int8", "uint8")]


@pytest.mark.parametrize("types", SIGNS)
@pytest.mark.parametrize("zero", [0, 3])
def test_signs(types: tuple[str, str], zero: int):
    check(Case((37, 64), (64, 40), types, zero))
    check(Case((1, 32, 5, 7), (24, 32, 1, 1), types, zero, blocks=(16, 0)))


@pytest.mark.parametrize("result", ["float32", "int8", "uint8"])
@pytest.mark.parametrize("zero", [0, 117])
def test_epilogues(result: str, zero: int):
    block = 4 if result == "float32" else 16
    check(Case((50, 160), (160, 48), zero=zero, result=result))
    check(Case((2, 48, 5, 5), (32, 48, 1, 1), zero=zero, result=result, blocks=(16, block)))
    check(Case((2, 48, 4, 4), (32, 48, 1, 1), zero=zero, result=result, blocks=(16, 0)))


CONVOLUTIONS = {
    "window": ((1, 128, 6, 5), (40, 128, 3, 3), {"pads": [1, 1, 1, 1]}),
    "scattered": ((1, 32, 6, 5), (24, 32, 3, 3), {"pads": [1, 0, 1, 2]}),
    "strided": ((2, 16, 9, 7), (36, 16, 3, 3), {"pads": [1] * 4, "strides": [2, 2]}),
    "grouped": ((1, 32, 6, 6), (32, 16, 3, 3), {"group": 2}),
}


@pytest.mark.parametrize("name", CONVOLUTIONS)
def test_windows(name: str):
    x, w, attributes = CONVOLUTIONS[name]
    check(Case(x, w, attributes=attributes, blocks=(16, 0)))
    check(Case(x, w, result="uint8", attributes=attributes, blocks=(16, 0)))


def test_a_grouped_convolution_has_a_zero_point():
    check(Case((1, 32, 6, 6), (32, 16, 3, 3), ("uint8", "int8"), 9, attributes={"group": 2},
               blocks=(16, 16), result="uint8"))  # fmt: skip


@pytest.mark.parametrize("depth", [1, 20, 100, 300])
def test_depths_that_are_not_whole_chunks(depth: int):
    check(Case((18, depth), (depth, 9), zero=5))


@pytest.mark.parametrize("tile", [Tile(16, 64, 16, 16, 1), Tile(64, 64, 32, 32, 1, 4),
                                  Tile(128, 128, 64, 32, 1, 3)])  # fmt: skip
def test_tiles_in_any_order_of_warps(tile: Tile):
    check(Case((130, 260), (260, 136), zero=1), tile, twice=True)
    check(Case((1, 64, 9, 9), (72, 64, 1, 1), zero=1, blocks=(16, 0)), tile, twice=True)


@pytest.mark.parametrize("split_k", [2, 3])
def test_a_cluster_adds_integers(split_k: int):
    tile = replace(SMALL, split_k=split_k)
    check(Case((33, 700), (700, 40), zero=3, result="uint8"), tile, twice=True)
    check(Case((33, 700), (700, 41), zero=3), tile)
    case = Case((1, 128, 6, 5), (48, 128, 3, 3), result="uint8", blocks=(16, 16),
                attributes={"pads": [1] * 4})  # fmt: skip
    check(case, tile, twice=True)


def test_few_rows_are_tiles():
    case = Case((1, 640), (640, 50), zero=3, result="float32")
    check(case, Tile(16, 64, 16, 16, 5))
    selected = best(group_of(case, (1, 50)), TARGET)
    assert selected is not None
    assert selected.template.name == "byte_gemm"


def test_only_clusters_add_integers():
    problem = problem_of(group_of(Case((33, 3000), (3000, 40)), (33, 40)))
    assert problem is not None
    assert max(tile.split_k for tile in candidates(problem, TARGET)) == 8
    old = parse_gpu("cuda:sm_80:fp16")
    assert {tile.split_k for tile in candidates(problem, old)} == {1}


@pytest.mark.parametrize("target", ["cuda:sm_80:tf32", "cuda:sm_89:fp16", "cuda:sm_90:fp16"])
def test_tensor_cores_without_local_memory(target: str):
    case = Case((1, 128, 14, 14), (128, 128, 3, 3), result="uint8", blocks=(16, 16),
                attributes={"pads": [1] * 4})  # fmt: skip
    group = group_of(case, (1, 128, 14, 14))
    selected = best(group, parse_gpu(target))
    assert selected is not None
    kernel = selected.emit()
    assert "byte_gemm<Problem>" in kernel.text
    cubin = compile_cubin(complete_text(kernel.text), parse_gpu(target))
    assert [need.stack_bytes for need in read_resources(cubin).values()] == [0]


@pytest.mark.parametrize("depth", [128, 256])
def test_few_steps_keep_fragments_in_registers(depth: int):
    group = group_of(Case((32, depth), (depth, 64), result="uint8"), (32, 64))
    problem = problem_of(group)
    assert problem is not None
    kernel = ByteGemm().emit(group, problem, SMALL, TARGET)
    cubin = compile_cubin(complete_text(kernel.text), TARGET)
    assert [need.stack_bytes for need in read_resources(cubin).values()] == [0]


def test_weights_are_prefetched():
    check(Case((40, 256), (256, 64)), replace(SMALL, prefetch=True, release=True), twice=True)


def test_sums_wrap_around_as_int32():
    depth = 33_100
    group = group_of(case := Case((5, depth), (depth, 8), ("uint8", "uint8")), (5, 8))
    inputs = [numpy.full_like(value, 255) for value in case.inputs[:2]]
    problem = problem_of(group)
    assert problem is not None
    (result,) = run(ByteGemm().emit(group, problem, SMALL, TARGET), group, inputs)
    exact = numpy.full((5, 8), 255 * 255 * depth, "int64")
    assert exact[0, 0] > 2**31
    numpy.testing.assert_array_equal(result, exact.astype("int32"))


def test_the_template_is_selected_and_estimated_faster_than_16_bits():
    case = Case((512, 1024), (1024, 1024))
    selected = best(group_of(case, (512, 1024)), TARGET)
    assert selected is not None
    assert selected.template.name == "byte_gemm"
    group = group_of(case, (512, 1024))
    problem = problem_of(group)
    assert problem is not None
    wide = replace(problem, dtype="float16")
    tile = Tile(64, 64, 32, 32, 1)
    estimate = ByteGemm().estimate_ns
    assert estimate(problem, tile, TARGET) < estimate(wide, tile, TARGET)


DECLINED = {
    "padding is the zero point": Case((1, 32, 6, 6), (16, 32, 3, 3), zero=3, blocks=(16, 0),
                                      attributes={"pads": [1] * 4}),
    "no channel blocks": Case((1, 32, 6, 6), (16, 32, 1, 1)),
}  # fmt: skip


@pytest.mark.parametrize("name", DECLINED)
def test_what_the_template_leaves_to_others(name: str):
    case = DECLINED[name]
    sums = case.sums(*case.inputs[:2])
    assert problem_of(group_of(case, sums.shape)) is None


def test_weights_with_a_zero_point_are_left_to_others():
    group = group_of(Case((37, 64), (64, 40), zero=3), (37, 40))
    anchor = group.operators[0]
    moved = replace(anchor, inputs=(*anchor.inputs, anchor.inputs[2]))
    assert problem_of(group) is not None
    assert problem_of(replace(group, operators=(moved,))) is None
    absent = replace(anchor, inputs=(*anchor.inputs[:2], None, anchor.inputs[2]))
    assert problem_of(replace(group, operators=(absent,))) is None
