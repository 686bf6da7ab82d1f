"""Layouts of images that are moved along their batch."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from xdsl.ir import SSAValue

from compiler.ir.dataflow import OperatorOp
from tests.apply_passes import run
from tests.graphs import GraphBuilder
from tests.passes.graph.test_assign_layouts import ALWAYS, check_outputs
from tests.strategies import Model


@pytest.mark.parametrize("kind", ["Concat", "Slice"])
def test_images_between_convolutions_are_moved_where_they_are_together(kind: str):
    b, random = GraphBuilder(), np.random.default_rng(7)

    def conv(x: SSAValue, images: int) -> SSAValue:
        w = b.weight(random.uniform(-0.5, 0.5, (8, 8, 1, 1)).astype(np.float32))
        return b.op("Conv", x, w, shape=(images, 8, 3, 3), kernel_shape=[1, 1])

    x = b.input("x", (2, 8, 3, 3))
    if kind == "Concat":
        moved = b.op("Concat", conv(x, 2), conv(x, 2), axis=0, shape=(4, 8, 3, 3))
    else:
        bounds = (b.constant([number], "int64") for number in (1, 2, 0))
        moved = b.op("Slice", conv(x, 2), *bounds, shape=(1, 8, 3, 3))
    y = conv(moved, 4 if kind == "Concat" else 1)
    inputs: dict[str, NDArray[Any]] = {"x": random.uniform(-1, 1, (2, 8, 3, 3)).astype(np.float32)}
    model = Model(b.finish(y), b.weights, inputs)
    graph = run(model, f"fuse-operators,{ALWAYS}")
    assert any(op.type_name == kind for op in graph.body.block.ops if isinstance(op, OperatorOp))
    check_outputs(model)
