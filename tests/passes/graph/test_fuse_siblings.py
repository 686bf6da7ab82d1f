"""Which branches become one, and that the results stay."""

import numpy as np
import pytest
from xdsl.ir import SSAValue

from compiler.errors import ModelError
from compiler.frontend.export import export_model
from compiler.graph.network import Node
from compiler.graph.rewriting.weights import concatenated_key, weight_array
from compiler.graph.siblings import weight_axis
from compiler.graph.targets import set_target
from compiler.ir.dataflow import OperatorOp
from compiler.ir.types import shape_of
from compiler.passes.graph.group_maker import make_group
from tests.apply_passes import nodes_of, run
from tests.graphs import GraphBuilder
from tests.passes.graph.test_batch_gemv import whole
from tests.strategies import Model

HEADS, SIZE, ROWS = 2, 4, 3
WIDE = HEADS * SIZE


def heads(build: GraphBuilder, value: SSAValue, perm: list[int]) -> SSAValue:
    """(1, rows, heads * size) laid out by heads."""
    shape = (1, ROWS, HEADS, SIZE)
    split = build.op("Reshape", value, build.constant(shape, "int64"), shape=shape)
    return build.op("Transpose", split, shape=tuple(shape[i] for i in perm), perm=perm)


def attention(bias: bool = True, looked_at: bool = False, target: str = "cuda") -> Model:
    """Attention over projections of one input, the values narrower than the rest."""
    build = GraphBuilder()
    x = build.input("x", (1, ROWS, WIDE))
    parts: list[SSAValue] = []
    for i in range(3):
        part = build.op("MatMul", x, build.weight(whole((WIDE, WIDE), i)), shape=(1, ROWS, WIDE))
        if bias:
            part = build.op("Add", build.weight(whole((WIDE,), 9 + i)), part, shape=(1, ROWS, WIDE))
        parts.append(part)
    q, k, v = (
        heads(build, p, perm)
        for p, perm in zip(parts, ([0, 2, 1, 3], [0, 2, 3, 1], [0, 2, 1, 3]), strict=True)
    )
    scores = build.op("MatMul", q, k, shape=(1, HEADS, ROWS, ROWS))
    weights = build.op("Softmax", scores, shape=(1, HEADS, ROWS, ROWS), axis=3)
    result = build.op("MatMul", weights, v, shape=(1, HEADS, ROWS, SIZE))
    others = [build.op("Relu", parts[0], shape=(1, ROWS, WIDE))] if looked_at else []
    module = build.finish(result, *others)
    set_target(module, target)
    return Model(module, build.weights, {"x": whole((1, ROWS, WIDE), 5)})


def count(model: Model, type: str, pipeline: str = "fuse-siblings{matmuls=true}") -> int:
    """Operators of a type after the pass."""
    graph = run(model, pipeline)
    operators = [op for op in graph.body.block.ops if isinstance(op, OperatorOp)]
    return sum(op.type_name == type for op in operators)


@pytest.mark.parametrize("bias", [True, False])
def test_projections_become_one(bias: bool):
    model = attention(bias)
    assert count(model, "MatMul") == 1 + 2
    assert count(model, "Add") == int(bias)
    assert export_model(model.module, model.weights).graph.initializer


def test_projections_that_others_look_at_stay():
    assert count(attention(looked_at=True), "MatMul") == 2 + 2


def by_heads(*heads: tuple[int, int], rows: int = ROWS, target: str = "cuda") -> Model:
    """Projections of one input to some heads, each of a size, that other kernels read."""
    build = GraphBuilder()
    x = build.input("x", (2, rows, WIDE))
    results: list[SSAValue] = []
    for i, (number, size) in enumerate(heads):
        width, shape = number * size, (2, rows, number, size)
        whole_shape = (2, rows, width)
        part = build.op("MatMul", x, build.weight(whole((WIDE, width), i)), shape=whole_shape)
        split = build.op("Reshape", part, build.constant(shape, "int64"), shape=shape)
        moved = tuple(shape[axis] for axis in (0, 2, 1, 3))
        turned = build.op("Transpose", split, shape=moved, perm=[0, 2, 1, 3])
        results.append(build.op("Neg", turned))
    module = build.finish(*results)
    set_target(module, target)
    return Model(module, build.weights, {"x": whole((2, rows, WIDE), 5)})


def test_kernels_that_move_heads_read_them_in_place():
    model = by_heads((2, 4), (1, 4), (1, 4))
    assert count(model, "MatMul") == 1
    moves = ["Slice", "Transpose", "Neg"]
    groups = nodes_of(run(model, "fuse-operators"))
    assert groups == [["MatMul"], moves, moves, moves], "no slice is copied"


@pytest.mark.parametrize("grouped", [False, True])
def test_a_row_that_a_group_reads_is_no_part_of_another(grouped: bool):
    build = GraphBuilder()
    x = build.input("x", (1, 1, WIDE))
    weights = [build.weight(whole((WIDE, WIDE), i)) for i in range(2)]
    parts = [build.op("MatMul", x, weight, shape=(1, 1, WIDE)) for weight in weights]
    results = [build.op("Softmax", part, shape=(1, 1, WIDE), axis=2) for part in parts]
    module = build.finish(*results)
    set_target(module, "cuda")
    if grouped:
        owner = results[0].owner
        assert isinstance(owner, OperatorOp)
        make_group([owner])
    model = Model(module, build.weights, {"x": whole((1, 1, WIDE), 5)})
    assert count(model, "MatMul") == 1 + grouped


def test_heads_begin_and_end_where_those_of_all_columns_do():
    assert count(by_heads((4, 2), (2, 4)), "MatMul") == 1
    assert count(by_heads((3, 2), (2, 4)), "MatMul") == 2


def test_matmuls_that_fill_the_device_together_are_fused_unasked():
    filling, fewer = [(66, 8), (66, 8)], [(66, 8), (65, 8)]
    assert count(by_heads(*filling, rows=512), "MatMul", "fuse-siblings") == 1
    assert count(by_heads(*fewer, rows=512), "MatMul", "fuse-siblings") == 2
    assert count(by_heads(*filling, rows=512, target="cpu"), "MatMul", "fuse-siblings") == 2


def test_other_targets_stay():
    assert count(attention(target="cpu"), "MatMul") == 3 + 2


def convolutions(batch: int = 1, concats: bool = False) -> Model:
    """Three convolutions of one image; only the first two are alike."""
    build = GraphBuilder()
    x = build.input("x", (batch, 2, 4, 4))
    results: list[SSAValue] = []
    for i, (channels, kernel) in enumerate(((3, 1), (5, 1), (4, 3))):
        weight = build.weight(whole((channels, 2, kernel, kernel), i))
        shape = (batch, channels, 4, 4)
        pads = [kernel // 2] * 4
        given = [x, weight, build.weight(whole((channels,), i))]
        found = build.op("Conv", *given, shape=shape, kernel_shape=[kernel] * 2, pads=pads)
        results.append(build.op("Relu", found, shape=shape))
    if concats:
        results = [build.op("Concat", *results, shape=(batch, 12, 4, 4), axis=1)]
    else:
        results = [
            build.op("GlobalAveragePool", r, shape=(*shape_of(r.type)[:2], 1, 1)) for r in results
        ]
    module = build.finish(*results)
    set_target(module, "cuda")
    return Model(module, build.weights, {"x": whole((batch, 2, 4, 4), 5)})


def test_convolutions_when_asked():
    assert count(convolutions(), "Conv") == 3
    asked = "fuse-siblings{convolutions=true}"
    assert count(convolutions(), "Conv", asked) == 2
    assert count(convolutions(2), "Conv", asked) == 3, "a part of a batch is not a view"
    assert count(convolutions(concats=True), "Conv", asked) == 3, "a part is not emplaced"


def test_concatenated_weights():
    store = {"a": whole((2, 3), 1), "b": whole((1, 3), 2)}
    key = concatenated_key(["a", concatenated_key(["b", "b"], 0)], 0)
    np.testing.assert_array_equal(
        weight_array(store, key), np.concatenate([store[n] for n in "abb"])
    )
    for missing in ("c", concatenated_key(["c"], 0), "[1]", "1"):
        with pytest.raises(ModelError, match="is not in the store"):
            weight_array(store, missing)


@pytest.mark.parametrize(
    ("type", "attributes", "axis"),
    [("MatMul", {}, 1), ("Gemm", {"transB": 0}, 1), ("Gemm", {"transB": 1}, 0), ("Conv", {}, 0)],
)
def test_weights_concatenate_along_what_they_make(type: str, attributes: dict[str, int], axis: int):
    assert weight_axis(Node(type, attributes, (0, 1), (2,)), 1) == axis
