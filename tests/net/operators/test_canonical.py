"""Nodes after the import: axes from the front, every attribute there, others refused by name."""

from typing import Any

import numpy as np
import onnx
import pytest
from xdsl.utils.exceptions import VerifyException

from compiler.frontend.importing.model import import_model
from compiler.ir.context import parse_module
from compiler.ir.dataflow import OperatorOp
from compiler.ir.emit import NORMALISED_OPSET
from compiler.ir.values import attributes_of, own_attributes, value_to_attribute
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.net.operators import OPERATORS, KnownTensor, Mismatch, ShapeMismatch, infer
from compiler.net.operators.canonical import complete_attributes, onnx_operands
from tests import movement_cases, operator_cases
from tests.frontend.interpreter.comparison import evaluate
from tests.graphs import GraphBuilder
from tests.operator_cases import Case, Draw

SHAPES = [(2, 6, 4, 5), (6, 6, 3, 1)]


@pytest.mark.parametrize(
    ("op_type", "given", "full"),
    [
        ("Softmax", {"axis": -4}, {"axis": 0}),
        ("OneHot", {"axis": -1}, {"axis": 4}),
        ("Flatten", {"axis": -4}, {"axis": 0}),
        ("Flatten", {"axis": 4}, {"axis": 4}),
        ("Softmax", {"axis": -5}, {"axis": -5}),
        ("MeanVarianceNormalization", {"axes": [0, -1]}, {"axes": [0, 3]}),
        ("Gemm", {"beta": 0.5}, {"alpha": 1.0, "beta": 0.5, "transA": 0, "transB": 0}),
    ],
)
def test_complete_attributes(op_type: str, given: dict[str, Any], full: dict[str, Any]):
    assert complete_attributes(op_type, given, SHAPES) == full


def test_only_parts_without_a_default_are_left_out():
    for name, entry in OPERATORS.items():
        full = entry.complete({}, SHAPES)
        missing = {n for n, attribute in entry.attributes.items() if not attribute.required} - {
            *full
        }
        assert missing <= {"num_outputs"}, name


def test_what_a_dump_leaves_out_has_the_default_of_onnx():
    for name, entry in OPERATORS.items():
        if entry.domain or not onnx.defs.has(name, NORMALISED_OPSET):
            continue
        schema: Any = onnx.defs.get_schema(name, NORMALISED_OPSET)
        for attribute in entry.attributes.keys() & schema.attributes.keys():
            default: Any = entry.attributes[attribute].default
            assert default is None or not schema.attributes[attribute].required, (name, attribute)
            given = schema.attributes[attribute].default_value
            if default is not None and not callable(default) and given.name:
                value: Any = onnx.helper.get_attribute_value(given)
                text = value.decode() if isinstance(value, bytes) else str(value)
                known: Any = [*default] if isinstance(default, tuple) else default
                assert text == str(known), (name, attribute)


def imported(text: str) -> OperatorOp:
    model = onnx.parser.parse_model(
        '<ir_version: 10, opset_import: ["": 21]>'
        f" g (float[2, 6, 4] x) => (float[N, M, K] y) {text}"
    )
    module = import_model(model).module
    module.verify()
    (op,) = (op for op in module.walk() if isinstance(op, OperatorOp))
    return op


@pytest.mark.parametrize("node", ["Softmax <axis = -2> (x)", "Softmax <axis = 1> (x)"])
def test_the_importer_counts_axes_from_the_front(node: str):
    op = imported(f"{{ y = {node} }}")
    assert op["axis"] == attributes_of(op)["axis"] == 1


def test_readers_get_what_a_node_leaves_out():
    op = imported("{ y = Transpose (x) }")
    assert op["perm"] == attributes_of(op)["perm"] == [2, 1, 0]
    with pytest.raises(KeyError):
        op["axis"]


@pytest.mark.parametrize(
    ("op_type", "attributes", "reason"),
    [
        ("Softmax", {"axis": -1}, "'axis' is -1: axes count from the front"),
        ("MeanVarianceNormalization", {"axes": [0, -1]}, "'axes' is .0, -1.: axes count"),
        ("MaxPool", {"kernel_shape": [1, 1], "auto_pad": "SAME_UPPER"}, "explicit pads"),
        ("MaxPool", {"kernel_shape": [1, 1], "auto_pad": "VALID"}, "explicit pads"),
        ("MaxPool", {"kernel_shape": [1, 1], "strides": [1]}, "strides"),
        ("MaxPool", {}, "kernel_shape"),
    ],
)
def test_the_verifier_refuses_other_forms(op_type: str, attributes: dict[str, Any], reason: str):
    build = GraphBuilder()
    y = build.op(op_type, build.input("x", (2, 6, 4, 5)), shape=(2, 6, 4, 5))
    module = build.finish(y)
    (op,) = (op for op in module.walk() if isinstance(op, OperatorOp))
    op.attributes.update(written(attributes))
    with pytest.raises(VerifyException, match=reason):
        module.verify()


def written(attributes: dict[str, Any]) -> dict[str, Any]:
    return {name: value_to_attribute(value) for name, value in attributes.items()}


def test_groups_that_say_the_same_have_one_hash():
    info = TensorInfo("float32", (2, 3))
    hashes = {
        Group(
            name="softmax",
            values=(info, info),
            inputs=1,
            weights=(False,),
            constants={},
            operators=(Node("Softmax", attributes, (0,), (1,)),),
            outputs=(1,),
        ).content_hash()
        for attributes in ({}, {"axis": -1}, {"axis": 1})
    }
    assert len(hashes) == 1


SLICED = """
dataflow.graph @main opset 21 inputs ["x"] outputs ["y"] {
^bb0(%x: tensor<4x6xf32>):
  %ends = dataflow.constant dense<-1> : tensor<1xi64>
  %one = dataflow.constant dense<1> : tensor<1xi64>
  %two = dataflow.constant dense<2> : tensor<1xi64>
  %y = dataflow.op "Slice" (%x, %one, %ends, %one, %two)
    : (tensor<4x6xf32>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>, tensor<1xi64>)
    -> tensor<4x2xf32>
  dataflow.yield %y : tensor<4x2xf32>
}
"""


def test_axes_of_a_text_count_from_the_front_when_it_is_read():
    text = str(parse_module(SLICED))
    start, end = text.index('dataflow.op "Slice"'), text.index(" : (")
    softmax = text[:start] + 'dataflow.op "Softmax" (%x) {axis = -1 : i64}' + text[end:]
    module = parse_module(softmax.replace("4x2xf32", "4x6xf32"))
    module.verify()
    (op,) = (op for op in module.walk() if isinstance(op, OperatorOp))
    assert own_attributes(op) == {"axis": 1}


def test_constants_that_decide_shapes_become_attributes_when_a_text_is_read():
    module = parse_module(SLICED)
    module.verify()
    (op,) = (op for op in module.walk() if isinstance(op, OperatorOp))
    bounds = {"start": [0, 1], "step": [1, 2], "size": [4, 2]}
    assert attributes_of(op) == bounds
    assert "dataflow.constant" not in str(module)
    with pytest.raises(VerifyException, match="attributes size, start, step are missing"):
        parse_module(SLICED.replace("dense<2>", "dense<0>")).verify()


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"start": [1], "step": [1], "size": [3]}, "one number a dimension"),
        ({"start": [0, 3], "step": [1, 2], "size": [4, 3]}, "3 elements from 3 in steps of 2"),
        ({"start": [-4, 0], "step": [1, 1], "size": [4, 6]}, "4 elements from -4"),
        ({"start": [0, 0], "step": [0, 1], "size": [4, 6]}, "in steps of 0"),
        ({"start": [0, 0], "step": [1, 1], "size": [4, 7]}, "7 elements from 0"),
    ],
)
def test_bounds_are_inside(attributes: dict[str, Any], reason: str):
    with pytest.raises(ShapeMismatch, match=reason):
        infer("Slice", [KnownTensor("float32", (4, 6))], attributes)


def test_axes_of_a_reduction_are_in_order():
    for axes in ([1, 0], [1, 1]):
        with pytest.raises(Mismatch, match="not in order"):
            infer("ReduceSum", [KnownTensor("float32", (4, 6))], {"axes": axes})


DECIDED = sorted(name for name, entry in OPERATORS.items() if entry.onnx is not None)
DRAWS = (
    movement_cases.parts,
    movement_cases.views,
    movement_cases.pad,
    movement_cases.blocks,
    movement_cases.selection,
    movement_cases.resize,
    operator_cases.FAMILIES["reduction"],
)


def test_onnx_form_of_the_canonical_form_means_the_same():
    drawn: set[str] = set()
    for case in [generator(Draw(seed)) for seed in range(60) for generator in DRAWS]:
        if case.op_type not in DECIDED:
            continue
        own = case.canonical
        tensors = [None if a is None else KnownTensor(a.dtype.name, a.shape, a) for a in own.inputs]
        operands, attributes = onnx_operands(case.op_type, tensors, own.attributes, case.outputs)
        arrays = [o.array if isinstance(o, KnownTensor) else o for o in operands]
        again = Case(case.op_type, arrays, attributes, case.outputs)
        with np.errstate(all="ignore"):
            results = [evaluate(one) for one in (case, own, again)]
        for same in zip(*results, strict=True):
            assert len({np.asarray(array).tobytes() for array in same}) == 1, case
        drawn.add(case.op_type)
    assert drawn == {*DECIDED}
