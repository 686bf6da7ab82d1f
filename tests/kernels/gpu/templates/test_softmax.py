"""Softmax of few long rows on the emulator against float64."""

import numpy
import pytest

from compiler.kernels.gpu.templates.softmax.template import LEAST_COLUMNS, Config
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.target.target import parse_gpu
from tests.kernels.gpu.emulator import COMPILER, Array, run_twice
from tests.kernels.gpu.of_template import estimated, kernel_in, problem_in

pytestmark = pytest.mark.skipif(COMPILER is None, reason="g++ compiles the emulated kernels")

TARGET = parse_gpu("cuda:sm_90:fp16")
LONG = LEAST_COLUMNS + 37


def group_of(type: str, shape: tuple[int, ...], axis: int = -1) -> Group:
    """The Softmax of a doubled tensor, and as halves."""
    info = TensorInfo("float32", shape)
    half = TensorInfo("float16", shape)
    operators = (
        Node("Add", {}, (0, 0), (1,)),
        Node(type, {"axis": axis % len(shape)}, (1,), (2,)),
        Node("Cast", {"to": 10, "saturate": 1, "round_mode": "up"}, (2,), (3,)),
    )
    return Group("softmax", (info, info, info, half), 1, (False,), {}, operators, (2, 3))


def expected(type: str, x: Array) -> Array:
    """The Softmax of a doubled array in float64."""
    x = 2 * x.astype("float64")
    moved = x - x.max(-1, keepdims=True)
    total = numpy.exp(moved).sum(-1, keepdims=True)
    return moved - numpy.log(total) if type == "LogSoftmax" else numpy.exp(moved) / total


@pytest.mark.parametrize(
    ("type", "config"),
    [
        ("Softmax", Config(512, 1)),
        ("Softmax", Config(128, 4)),
        ("LogSoftmax", Config(64, 8)),
        ("LogSoftmax", None),
    ],
)
def test_rows_are_shared_by_clusters(type: str, config: Config | None):
    x = numpy.random.default_rng(3).normal(0, 4, (3, 1, LONG)).astype("float32")
    x[1, 0, 11], x[2, 0] = 80, x[2, 0] - 200
    group = group_of(type, x.shape)
    kernel = kernel_in("softmax", group, TARGET, config)
    assert kernel is not None
    assert len(kernel.launches) == 1
    result, half = run_twice(kernel, group, [x])
    wanted = expected(type, x)
    assert numpy.abs(result - wanted).max() <= 3e-6 * max(1, numpy.abs(wanted).max())
    assert numpy.abs(half - wanted).max() <= 1e-3 * numpy.abs(wanted).max()


def test_what_is_no_number_stays_in_its_row():
    x = numpy.zeros((4, LONG), "float32")
    x[0, 5], x[1, 6], x[2] = numpy.nan, numpy.inf, -numpy.inf
    group = group_of("Softmax", x.shape)
    kernel = kernel_in("softmax", group, TARGET, Config(256, 4))
    assert kernel is not None
    result, _ = run_twice(kernel, group, [x])
    assert numpy.isnan(result[0]).all()
    assert numpy.isnan(result[1, 6])
    assert numpy.isnan(result[2]).all()
    assert numpy.abs(result[3] * LONG - 1).max() < 1e-5


@pytest.mark.parametrize(
    ("shape", "axis"), [((4, LEAST_COLUMNS - 1), 1), ((LONG, 4), 0), ((2, LONG, 3), 1)]
)
def test_short_rows_and_strided_ones_are_left_alone(shape: tuple[int, ...], axis: int):
    assert problem_in("softmax", group_of("Softmax", shape, axis), TARGET) is None


def test_a_vocabulary_of_few_rows_is_shared_and_of_many_is_not():
    few, many = (
        problem_in("softmax", group_of("Softmax", (rows, 32_000)), TARGET) for rows in (8, 400)
    )
    assert estimated("softmax", few, TARGET).blocks == 8
    assert estimated("softmax", many, TARGET).blocks == 1
