"""Groups around one anchor for the tests of templates, and how their kernels are checked."""

from collections.abc import Mapping, Sequence
from random import Random

import numpy
from hypothesis import strategies as st

from compiler.kernels.group import Group, Operator, TensorInfo
from compiler.kernels.kernel import compile_scheduled
from compiler.kernels.target import parse_target
from compiler.kernels.templates import apply_template
from tests.kernels.harness import Array, run_kernel

targets = st.sampled_from(["cpu", "cpu", "cpu:x86-64-v3", "cpu:x86-64"])
"""The host and narrower vectors."""


def fused(
    type: str,
    arrays: Sequence[Array],
    output: Sequence[int],
    attributes: Mapping[str, object],
    weights: int,
    prologue: bool = False,
    residual: bool = False,
) -> Group:
    """An anchor over `arrays`, of which the last `weights` are weights.

    `prologue` puts a Relu before its operand 0; `residual` adds a read of the result's shape and
    a Relu behind it, and returns the anchor's own result too.
    """
    values = [TensorInfo("float32", a.shape) for a in arrays]
    flags = [False] * (len(arrays) - weights) + [True] * weights
    result = TensorInfo("float32", tuple(output))
    if residual:
        values.append(result)
        flags.append(False)
    reads, operands = len(values), list(range(len(arrays)))
    operators: list[Operator] = []

    def add(type: str, inputs: Sequence[int], info: TensorInfo, **attributes: object) -> int:
        values.append(info)
        operators.append(Operator(type, attributes, tuple(inputs), (len(values) - 1,), "node"))
        return len(values) - 1

    if prologue:
        operands[0] = add("Relu", [0], values[0])
    anchor = add(type, operands, result, **attributes)
    outputs = [anchor]
    if residual:
        outputs.append(add("Relu", [add("Add", [anchor, reads - 1], result)], result))
    return Group(
        f"{type}_template", tuple(values), reads, tuple(flags), {}, tuple(operators), tuple(outputs)
    )


def expected(anchor: Array, addend: Array | None) -> list[Array]:
    """The results of a group from `fused`, given the anchor's result in float64."""
    return [anchor] if addend is None else [anchor, numpy.maximum(anchor + addend, 0)]


def check(group: Group, arrays: Sequence[Array], results: Sequence[Array], target: str) -> None:
    """Build a group's kernel by its template and run it block by block in a random order."""
    machine = parse_target(target)
    scheduled = apply_template(group, machine)
    assert scheduled is not None, "the template declined"
    spec = compile_scheduled(group, scheduled, machine)

    def shuffled(blocks: int) -> Sequence[tuple[int, int]]:
        order = [(i, i + 1) for i in range(blocks)]
        Random(blocks).shuffle(order)
        return order

    for got, want in zip(run_kernel(spec, group, arrays, shuffled), results, strict=True):
        scale = max(1.0, float(numpy.abs(want).max(initial=0)))
        numpy.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5 * scale)


def random_array(seed: int, shape: Sequence[int]) -> Array:
    """Standard normal float32."""
    return numpy.random.default_rng(seed).standard_normal(shape, dtype=numpy.float32)
