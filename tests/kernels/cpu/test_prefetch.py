"""Pointwise convolutions prefetch what their epilogues read and write, and nothing else."""

import re

import pytest

from compiler.kernels.group import Group, Operator, TensorInfo
from compiler.kernels.kernel import apply_template
from compiler.target.target import parse_cpu

SHAPE = (1, 8, 20, 20)


def residual(kernel: int, added: tuple[int, ...]) -> Group:
    """A convolution with a bias of each channel, and the addition of a tensor."""
    image, sums = TensorInfo("float32", (1, 4, 20, 20)), TensorInfo("float32", SHAPE)
    weight = TensorInfo("float32", (8, 4, kernel, kernel))
    values = (image, weight, TensorInfo("float32", (8,)), TensorInfo("float32", added), sums, sums)
    operators = (
        Operator("Conv", {"pads": [kernel // 2] * 4}, (0, 1, 2), (4,)),
        Operator("Add", {}, (4, 3), (5,)),
    )
    return Group("residual", values, 4, (False, True, True, False), {}, operators, (5,))


@pytest.mark.parametrize(
    ("kernel", "added", "expected"),
    [(1, SHAPE, {"read3", "write0"}), (1, (8, 1, 1), {"write0"}), (3, SHAPE, set[str]())],
)
def test_prefetched_are_the_tensors_of_the_results_shape(
    kernel: int, added: tuple[int, ...], expected: set[str]
) -> None:
    scheduled = apply_template(residual(kernel, added), parse_cpu("cpu:x86-64-v3"))
    assert scheduled is not None
    found = re.findall(r"T\.prefetch\(T\.address_of\((\w+)\[", str(scheduled.function))
    assert set(found) == expected
