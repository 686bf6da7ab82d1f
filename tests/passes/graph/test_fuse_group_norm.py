"""Which operators become a GroupNormalization, and that results stay the same."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from compiler.frontend.interpreter import interpret
from compiler.graph.targets import set_target
from compiler.ir.dataflow import OperatorOp
from compiler.passes.pipeline import parse
from compiler.passes.runner import Runner
from tests.graphs import GraphBuilder
from tests.strategies import Model

WHOLE = ["GroupNormalization"]
APART = ["Reshape", "InstanceNormalization", "Reshape", "Mul", "Add"]


def exported(
    batch: int, groups: int, channels: int, pixels: tuple[int, ...], flat: bool = False
) -> Model:
    """A GroupNormalization as torch exports it, of groups with scales; `flat` scales pixels."""
    b, rng = GraphBuilder(), np.random.default_rng(0)
    shape = (batch, channels, *pixels)
    x = b.input("x", shape)
    rows = (batch, groups, int(np.prod(shape)) // batch // groups)
    split = b.op("Reshape", x, b.constant(rows, "int64"), shape=rows)
    scales = [b.weight(rng.standard_normal(groups).astype("f")) for _ in range(2)]
    y = b.op("InstanceNormalization", split, *scales, shape=rows, epsilon=1e-3)
    y = b.op("Reshape", y, b.constant(shape, "int64"), shape=shape)
    wide = pixels if flat else (channels, *(1 for _ in pixels))
    for kind in ("Mul", "Add"):
        y = b.op(kind, y, b.weight(rng.standard_normal(wide).astype("f")), shape=shape)
    return Model(b.finish(y), b.weights, {"x": rng.standard_normal(shape).astype("f")})


def fused(model: Model, target: str = "cuda:sm_90:fp32") -> list[str]:
    """The operators that the pass leaves of a model, whose results stay close."""
    expected = interpret(model.module, model.weights, model.inputs)
    set_target(model.module, target)
    Runner().run(model.module, parse("fuse-group-norm"))
    found = interpret(model.module, model.weights, model.inputs)
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-4, atol=1e-5)
    return [op.type_name for op in model.module.walk() if isinstance(op, OperatorOp)]


@settings(max_examples=10, deadline=None)
@given(st.integers(1, 2), st.integers(1, 4), st.integers(1, 3), st.integers(1, 2))
def test_exported_groups_are_one_operator(batch: int, groups: int, size: int, rank: int):
    model = exported(batch, groups, groups * size, (5, 3)[:rank])
    assert fused(model) == WHOLE


def test_a_cpu_keeps_the_operators():
    assert fused(exported(1, 2, 6, (4, 4)), "cpu") == APART


def test_a_scale_of_pixels_is_no_group_normalization():
    assert fused(exported(1, 2, 4, (4, 4), flat=True)) == APART


@pytest.mark.parametrize("rows", [(2, 2, 48), (1, 3, 64)])
def test_rows_that_are_not_groups_of_channels(rows: tuple[int, ...]):
    b = GraphBuilder()
    shape = (1, 4, 8, 6)
    split = b.op("Reshape", b.input("x", shape), b.constant(rows, "int64"), shape=rows)
    ones = [b.weight(np.ones(rows[1], "f")) for _ in range(2)]
    y = b.op("InstanceNormalization", split, *ones, shape=rows)
    y = b.op("Reshape", y, b.constant(shape, "int64"), shape=shape)
    for kind in ("Mul", "Add"):
        y = b.op(kind, y, b.weight(np.ones((4, 1, 1), "f")), shape=shape)
    x = np.random.default_rng(0).standard_normal(shape).astype("f")
    assert fused(Model(b.finish(y), b.weights, {"x": x})) == APART
