"""Constants are folded to a bounded multiple of the model's size; larger ones stay operators."""

import tracemalloc
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

import compiler
from compiler.errors import FlowloomError
from compiler.frontend import evaluate
from compiler.frontend.importing import import_model
from compiler.ir import dataflow
from compiler.net.building import expansion
from compiler.net.building.expansion import (
    MODEL_GROWTH,
    SMALL_BYTES,
    SPARE_BYTES,
    SPARE_WORK,
    WORK_A_BYTE,
    Expansion,
)
from compiler.program.model import DynamicModule

LARGE = 10**9
"""Elements of a tensor for which no constant may be made."""
COLUMN = np.ones((30_000, 1), np.float32)


def node(op_type: str, inputs: str, output: str, **attributes: Any) -> onnx.NodeProto:
    """A node whose inputs are words; `-` is one that is left out."""
    return helper.make_node(op_type, inputs.replace("-", "").split(" "), [output], **attributes)


def model_of(
    nodes: Sequence[onnx.NodeProto],
    weights: Mapping[str, Any],
    dtype: int = onnx.TensorProto.FLOAT,
    rank: int = 1,
) -> onnx.ModelProto:
    """A model that reads one element of the tensor `large`, at the index of its input."""
    index = helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [1, rank])
    output = helper.make_tensor_value_info("y", dtype, [1])
    graph = helper.make_graph(
        [*nodes, node("GatherND", "large i", "y")],
        "large",
        [index],
        [output],
        [numpy_helper.from_array(np.asarray(array), name) for name, array in weights.items()],
    )
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)


SQUARE = np.array([31_000, 31_000])
CASES = {
    "Add": model_of([node("Add", "a b", "large")], {"a": COLUMN, "b": COLUMN.T}, rank=2),
    "ConstantOfShape": model_of([node("ConstantOfShape", "n", "large")], {"n": [LARGE]}),
    "Expand": model_of([node("Expand", "a n", "large")], {"a": np.float32(3), "n": [LARGE]}),
    "EyeLike": model_of(
        [node("ConstantOfShape", "n", "a"), node("EyeLike", "a", "large", k=2)],
        {"n": SQUARE},
        rank=2,
    ),
    "Pad": model_of([node("Pad", "a p", "large")], {"a": np.ones(2, np.float32), "p": [0, LARGE]}),
    "Range": model_of(
        [node("Range", "a b c", "large")],
        {"a": np.int64(7), "b": np.int64(LARGE), "c": np.int64(3)},
        onnx.TensorProto.INT64,
    ),
    "Tile": model_of([node("Tile", "a n", "large")], {"a": np.ones(1, np.float32), "n": [LARGE]}),
    "Trilu": model_of(
        [node("ConstantOfShape", "n", "a"), node("Trilu", "a", "large")], {"n": SQUARE}, rank=2
    ),
    "several steps": model_of(
        [
            node("Expand", "a n", "b"),
            *(
                node("Concat", f"{x} {x}", y, axis=0)
                for x, y in zip("bcdefghj", "cdefghjk", strict=True)
            ),
            node("Concat", "k k", "large", axis=0),
        ],
        {"a": np.float32(1), "n": [1 << 21]},
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_importing_takes_a_bounded_memory(name: str):
    tracemalloc.start()
    try:
        imported = import_model(CASES[name])
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 2 * SPARE_BYTES
    stored = sum(array.nbytes for array in imported.weights.values())
    assert stored <= SPARE_BYTES
    operators = [op for op in imported.module.walk() if isinstance(op, dataflow.OperatorOp)]
    assert len(operators) > 1, "the large tensor became a constant"


def test_what_is_read_of_a_large_tensor_is_right():
    for k, start in ((-3, 0), (0, 0), (5, 9)):
        eye = model_of(
            [node("ConstantOfShape", "n", "a"), node("EyeLike", "a", "large", k=k)],
            {"n": SQUARE},
            rank=2,
        )
        module = compiler.compile(eye)
        for column in (start + 3, start + 3 + k, 30_999):
            (got,) = module.run({"i": np.array([[start + 3, column]])})["y"]
            assert got == (column == start + 3 + k)


@pytest.mark.parametrize("k", [-(2**63), -3, -2, 0, 2, 3, 2**63 - 1])
def test_a_diagonal_may_be_outside_of_the_matrix(k: int):
    text = f"g (float[2, 3] x) => (float[2, 3] y) {{ y = EyeLike<k = {k}>(x) }}"
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["": 21]> {text}')
    found = compiler.compile(model).run({"x": np.ones((2, 3), np.float32)})["y"]
    np.testing.assert_array_equal(found, np.eye(2, 3, max(-9, min(k, 9)), np.float32))


def never(bound: Expansion, result_bytes: int, operand_bytes: int) -> bool:
    """No operator is folded."""
    return False


@pytest.mark.parametrize(
    ("start", "limit", "step"),
    [(7, 400_000, 3), (np.float32(0.1), np.float32(90_000.0), np.float32(0.3)), (50, -400_000, -2)],
)
def test_a_written_range_is_that_of_the_interpreter(
    start: Any, limit: Any, step: Any, monkeypatch: pytest.MonkeyPatch
):
    wanted = np.arange(float(start), float(limit), float(step)).astype(np.asarray(start).dtype)
    monkeypatch.setattr(Expansion, "folds", never)
    dtype = helper.np_dtype_to_tensor_dtype(wanted.dtype)
    weights = {"a": start, "b": limit, "c": step}
    module = compiler.compile(model_of([node("Range", "a b c", "large")], weights, dtype))
    for index in (0, 1, 4_097, len(wanted) - 1):
        (got,) = module.run({"i": np.array([[index]])})["y"]
        np.testing.assert_allclose(got, wanted[index], rtol=1e-6)


def test_the_bound_grows_with_the_model():
    bound = Expansion(stored_bytes=1 << 30)
    weight = 1 << 28
    folded = 0
    while bound.folds(weight, weight):
        folded += weight
    assert folded == SPARE_BYTES + (MODEL_GROWTH << 30)
    assert bound.folds(8, 8), "shapes are always computed"
    assert not Expansion(stored_bytes=1 << 30).folds(1 << 26, 16), "a few bytes made many"


def traced_peak(work: Callable[[], object]) -> int:
    """The most bytes that Python and numpy held for some work, of which Flowloom's errors end."""
    tracemalloc.start()
    try:
        with suppress(FlowloomError):
            work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


def test_positions_of_a_grid_are_computed_at_run_time():
    theta = helper.make_tensor_value_info("t", onnx.TensorProto.FLOAT, [1, 2, 3])
    grid = helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, None)
    size = numpy_helper.from_array(np.array([1, 1, 9_000, 9_000]), "s")
    graph = helper.make_graph([node("AffineGrid", "t s", "y")], "g", [theta], [grid], [size])
    large = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=8)
    assert traced_peak(lambda: import_model(large)) < SPARE_BYTES


def test_texts_are_folded_to_a_bound():
    doubled = [node("StringConcat", f"t{i} t{i}", f"t{i + 1}") for i in range(40)]
    nodes = [*doubled, node("Equal", "t40 t0", "q"), node("Cast", "q", "c", to=7)]
    index = helper.make_tensor_value_info("i", onnx.TensorProto.INT64, [1])
    result = helper.make_tensor_value_info("y", onnx.TensorProto.INT64, [1])
    text = numpy_helper.from_array(np.array(["a"], object), "t0")
    graph = helper.make_graph([*nodes, node("Add", "c i", "y")], "g", [index], [result], [text])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    assert traced_peak(lambda: import_model(model)) < 2 * SPARE_BYTES


def mel_model(bands: int, length: int) -> onnx.ModelProto:
    """A model that reads a MelWeightMatrix of a few numbers."""
    weights = {"n": bands, "l": length, "r": 16_000, "a": np.float32(0), "b": np.float32(8_000)}
    return model_of([node("MelWeightMatrix", "n l r a b", "large")], weights, rank=2)


def test_a_mel_matrix_is_folded_to_a_bound():
    assert traced_peak(lambda: import_model(mel_model(10_000, 1_000_000))) < SPARE_BYTES


@pytest.mark.parametrize(("bands", "length"), [(0, 1 << 33), (1 << 33, -2), (5, 1 << 33)])
def test_a_mel_matrix_of_no_element_or_too_many_takes_nothing(bands: int, length: int):
    assert traced_peak(lambda: import_model(mel_model(bands, length))) < SMALL_BYTES


def test_a_mel_matrix_at_run_time_takes_the_memory_of_its_result():
    module = compiler.compile(mel_model(1_000, 20_000), budget=0)
    assert isinstance(module, DynamicModule)
    index = {"i": np.array([[1, 1]])}
    module.run(index)
    result_bytes = 4 * 1_000 * 10_001
    assert traced_peak(lambda: module.run(index)) < 2.5 * result_bytes


_RANDOM = np.random.default_rng(0)
LONG: dict[str, dict[str, np.ndarray]] = {
    "NonMaxSuppression": {
        "a": np.array([[[0, 0, i + 1, i + 1] for i in range(40)]], np.float32),
        "b": _RANDOM.random((1, 1, 40), np.float32),
        "c": np.array([30]),
        "d": np.array([0.6], np.float32),
    },
    "Unique": {"a": _RANDOM.integers(0, 50, 400)},
    "Det": {"a": _RANDOM.random((20, 20), np.float32)},
    "MatMul": {"a": _RANDOM.random((20, 20), np.float32), "b": np.eye(20, dtype=np.float32)},
    "Einsum": {"a": _RANDOM.random((40, 40), np.float32), "b": np.eye(40, dtype=np.float32)},
}


def _long(op_type: str) -> onnx.ModelProto:
    """A model that adds what an operator makes of constants to its input."""
    attributes: dict[str, Any] = {"equation": "ab,ab->b"} if op_type == "Einsum" else {}
    weights = LONG[op_type]
    nodes = [
        node(op_type, " ".join(weights), "r", **attributes),
        node("Cast", "r", "f", to=1),
        node("Add", "f x", "y"),
    ]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, None) for name in "xy")
    x.type.tensor_type.shape.CopyFrom(onnx.TensorShapeProto())
    initial = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "long", [x], [y], initial)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=8)


@pytest.mark.parametrize("op_type", LONG)
def test_long_evaluations_stay_operators(op_type: str, monkeypatch: pytest.MonkeyPatch):
    model, feeds = _long(op_type), {"x": np.zeros((), np.float32)}
    evaluated: list[str] = []

    def recorded(op_type: str, *args: Any) -> Any:
        evaluated.append(op_type)
        return evaluate_node(op_type, *args)

    evaluate_node = evaluate.evaluate_node
    monkeypatch.setattr(evaluate, "evaluate_node", recorded)
    folded = compiler.compile(model, budget=0)
    assert op_type in evaluated
    evaluated.clear()
    monkeypatch.setattr(expansion, "SPARE_WORK", 1000)
    monkeypatch.setattr(expansion, "WORK_A_BYTE", 0)
    bounded = compiler.compile(model, budget=0)
    assert op_type not in evaluated
    (expected,), (found,) = folded.run(feeds).values(), bounded.run(feeds).values()
    np.testing.assert_allclose(found, expected, rtol=1e-5)


def test_operations_share_a_bound_that_grows_with_the_model():
    bound = Expansion(stored_bytes=1 << 20)
    total = SPARE_WORK + (WORK_A_BYTE << 20)
    assert bound.spares(total // 2)
    assert bound.spares(total // 2)
    assert not bound.spares(1)


def test_suppression_of_many_boxes_waits_for_a_run():
    """100,000 boxes that do not overlap are compared with each other: most of a minute."""
    sides = np.arange(100_000, dtype=np.float32).repeat(4).reshape(1, -1, 4)
    weights = {"a": sides, "b": sides[None, :, :, 0].reshape(1, 1, -1), "c": [100_000]}
    model = model_of([node("NonMaxSuppression", "a b c", "large")], weights, 7, rank=2)
    assert isinstance(compiler.compile(model, budget=0), DynamicModule)
