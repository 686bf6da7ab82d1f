"""Einsums of vectors by matrices that indices select, on the emulator against float64."""

from typing import Any

import numpy
import pytest

from compiler.kernels.gpu.templates.selected_gemv.template import Config, read_selected
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Array, run_twice
from tests.kernels.gpu.of_template import kernel_in
from tests.kernels.harness import numpy_dtype

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp16")
ONNX = {"float32": 1, "float16": 10, "bfloat16": 16}


def group_of(
    equation: str,
    vectors: tuple[int, ...],
    matrices: tuple[int, ...],
    indices: tuple[int, ...],
    dtype: str = "float16",
    gather: str = "GatherND",
) -> Group:
    """Matrices of a type, selected, multiplied by doubled vectors; the result is halved, too."""
    values: list[TensorInfo] = [
        TensorInfo(dtype, matrices),
        TensorInfo("int64", (*indices, 1) if gather == "GatherND" else indices),
        TensorInfo("float32", vectors),
    ]
    operators: list[Node[int]] = []

    def add(type: str, inputs: tuple[int, ...], shape: tuple[int, ...], **attributes: Any) -> int:
        values.append(TensorInfo("float16" if attributes.get("to") == 10 else "float32", shape))
        operators.append(Node(type, attributes, inputs, (len(values) - 1,)))
        return len(values) - 1

    cast = {"saturate": 1, "round_mode": "up"}
    wide = add("Cast", (0,), matrices, to=1, **cast) if dtype != "float32" else 0
    attributes = {"batch_dims": 0} if gather == "GatherND" else {"axis": 0}
    chosen = add(gather, (wide, 1), (*indices, *matrices[1:]), **attributes)
    doubled = add("Add", (2, 2), vectors)
    first = len(equation.partition(",")[0]) == len(indices) + 2
    operands = (chosen, doubled) if first else (doubled, chosen)
    shape = numpy.einsum(equation, *(numpy.zeros(values[i].shape) for i in operands)).shape
    total = add("Einsum", operands, shape, equation=equation)
    half = add("Cast", (add("Neg", (total,), shape),), shape, to=10, **cast)
    weights = (True, False, False)
    return Group("selected", tuple(values), 3, weights, {}, tuple(operators), (half, total))


def arrays_of(group: Group) -> list[Array]:
    """Matrices, indices of which some are negative or outside, and vectors."""
    rng = numpy.random.default_rng(len(group.operators))
    matrices, indices, vectors = group.reads
    count = matrices.shape[0]
    return [
        rng.uniform(-1, 1, matrices.shape).astype(numpy_dtype(matrices.dtype)),
        rng.integers(-count - 2, count + 3, indices.shape),
        rng.uniform(-1, 1, vectors.shape).astype("float32"),
    ]


def expected(group: Group, arrays: list[Array]) -> Array:
    """The Einsum in float64."""
    matrices, indices, vectors = (a.astype("float64") if a.dtype != "int64" else a for a in arrays)
    einsum = next(op for op in group.operators if op.type == "Einsum")
    gather = next(op for op in group.operators if op.type.startswith("Gather"))
    count = len(matrices)
    named = numpy.where(indices < 0, indices + count, indices).clip(0, count - 1)
    chosen = matrices[named[..., 0] if gather.type == "GatherND" else named]
    operands = [chosen if i == gather.output else 2 * vectors for i in einsum.inputs]
    return numpy.einsum(einsum.attributes["equation"], *operands)


def check(group: Group, config: Config | None = None) -> None:
    """Compare both results of a group with float64."""
    arrays = arrays_of(group)
    kernel = kernel_in("selected_gemv", group, TARGET, config)
    assert kernel is not None
    assert len(kernel.launches) == 1
    half, total = run_twice(kernel, group, arrays)
    wanted = expected(group, arrays)
    size = numpy.abs(wanted).max()
    assert numpy.abs(total - wanted).max() <= 1e-5 * size
    assert numpy.abs(half.astype("float64") + wanted).max() <= 1e-3 * size


@pytest.mark.parametrize("width", [2, 4, 8])
def test_widths_and_warps(width: int):
    group = group_of("td,tedh->teh", (3, 37), (5, 37, 2 * 32 * width + 8), (3, 2))
    check(group, Config(4, width))


@pytest.mark.parametrize(
    ("equation", "vectors", "matrices", "indices", "dtype", "gather"),
    [
        ("teh,tehd->ted", (3, 2, 33), (4, 33, 40), (3, 2), "float16", "GatherND"),
        ("edh,de->eh", (19, 6), (4, 19, 31), (6,), "bfloat16", "Gather"),
        ("ed,edh->eh", (6, 19), (4, 19, 36), (6,), "float32", "GatherND"),
        ("d,ebdh->ebh", (19,), (4, 19, 36), (2, 3), "float32", "Gather"),
    ],
)
def test_axes_types_and_gathers(
    equation: str,
    vectors: tuple[int, ...],
    matrices: tuple[int, ...],
    indices: tuple[int, ...],
    dtype: str,
    gather: str,
):
    check(group_of(equation, vectors, matrices, indices, dtype, gather))


@pytest.mark.parametrize(
    ("equation", "vectors", "matrices", "indices"),
    [
        ("td,tehd->teh", (3, 8), (5, 16, 8), (3, 2)),  # rows of the matrices are summed
        ("td,tedh->eth", (3, 8), (5, 8, 16), (3, 2)),  # results in another order
        ("td,tedh->th", (3, 8), (5, 8, 16), (3, 2)),  # results are added
        ("xd,tedh->xteh", (3, 8), (5, 8, 16), (3, 2)),  # a matrix for several vectors
    ],
)
def test_other_einsums_are_left_alone(
    equation: str, vectors: tuple[int, ...], matrices: tuple[int, ...], indices: tuple[int, ...]
):
    assert read_selected(group_of(equation, vectors, matrices, indices)) is None


def test_experts_of_a_router_take_it():
    group = group_of("td,tedh->teh", (16, 256), (8, 256, 1024), (16, 2))
    kernel = kernel_in("selected_gemv", group, TARGET)
    assert kernel is not None
    (launch,) = kernel.launches
    assert launch.grid[0] * launch.grid[1] >= TARGET.device.sms // 2
