"""Operations and modules are verified again if anything has changed on which that depends."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from xdsl.dialects.builtin import IntegerAttr, NoneType, StringAttr, i64
from xdsl.irdl import IRDLOperation, irdl_op_definition, opt_prop_def, var_operand_def
from xdsl.utils.exceptions import VerifyException

from compiler.ir.context import parse_module
from compiler.ir.dataflow import ConstantOp, GraphOp, NoneOp, OperatorOp, WeightOp
from compiler.ir.types import tensor_type
from compiler.ir.values import array_to_attribute
from compiler.ir.verify_cache import same_objects, verified_once, verified_state

TENSOR = tensor_type("float32", (2, 3))


def weight() -> WeightOp:
    return WeightOp("w", TENSOR)


def constant() -> ConstantOp:
    return ConstantOp(array_to_attribute(np.arange(3)))


def operator() -> OperatorOp:
    return OperatorOp("Relu", [weight().output], [TENSOR])


def set_property(name: str, value: Any) -> Callable[[Any], None]:
    return lambda op: op.properties.__setitem__(name, value)


def set_result(op: Any) -> None:
    changed = TENSOR if isinstance(op, NoneOp) else NoneType()
    result: Any = op.results[0]
    result._type = changed


CHANGES: list[tuple[Callable[[], Any], Callable[[Any], None]]] = [
    (weight, set_result),
    (NoneOp, set_result),
    (constant, set_result),
    (constant, set_property("value", array_to_attribute(np.arange(4)))),
    (weight, set_property("key", IntegerAttr(1, i64))),
    (weight, set_property("strange", StringAttr("x"))),
    (operator, set_property("op_type", IntegerAttr(1, i64))),
    (operator, lambda op: op.properties.pop("op_type")),
]


@pytest.mark.parametrize(("make", "change"), CHANGES)
def test_changes_are_found_after_a_check(make: Callable[[], Any], change: Callable[[Any], None]):
    op = make()
    op.verify()
    op.verify()
    change(op)
    for _ in range(2):
        with pytest.raises(VerifyException):
            op.verify()


def test_what_stays_is_verified_once():
    checks: list[Any] = []

    @verified_once
    @irdl_op_definition
    class CountedOp(IRDLOperation):
        name = "test.counted"
        key = opt_prop_def(StringAttr)
        inputs = var_operand_def(TENSOR)

        def verify_(self) -> None:
            checks.append(self)

    one, other = weight(), weight()
    op = CountedOp(operands=[[one.output]])
    steps: list[Callable[[], Any]] = [
        lambda: None,
        lambda: op.properties.__setitem__("key", StringAttr("a")),
        lambda: op.properties.__setitem__("key", StringAttr("b")),
        lambda: op.attributes.__setitem__("extra", StringAttr("b")),
        lambda: setattr(op, "operands", [one.output, other.output]),
        lambda: op.properties.clear(),
    ]
    for count, step in enumerate(steps, 1):
        step()
        op.verify()
        op.verify()
        assert len(checks) == count
    op.operands = [other.output, one.output]
    op.verify()
    assert len(checks) == len(steps)  # of the same types


def same_after(change: Callable[[GraphOp, list[Any]], object]) -> bool:
    """Whether a graph's state is as before after a change of its operators."""
    module = parse_module(GRAPH)
    (graph,) = module.ops
    assert isinstance(graph, GraphOp)
    before = verified_state(module)
    assert same_objects(before, verified_state(module))
    change(graph, list(graph.body.block.ops))
    return same_objects(before, verified_state(module))


GRAPH = """
dataflow.graph @main opset 22 inputs ["x", "z"] outputs ["y"] {
^bb0(%x: tensor<16xf32>, %z: tensor<16xf32>):
  %a = dataflow.op "Relu" (%x) : (tensor<16xf32>) -> tensor<16xf32>
  %b = dataflow.op "Tanh" (%a) : (tensor<16xf32>) -> tensor<16xf32>
  dataflow.yield %b : tensor<16xf32>
}
"""

STATE_CHANGES: list[Callable[[GraphOp, list[Any]], object]] = [
    lambda graph, ops: setattr(graph, "sym_name", StringAttr("other")),
    lambda graph, ops: graph.attributes.__setitem__("extra", StringAttr("x")),
    lambda graph, ops: setattr(graph.body.block.args[1], "_type", TENSOR),
    lambda graph, ops: graph.body.block.erase_arg(graph.body.block.args[1]),
    lambda graph, ops: setattr(ops[0].results[0], "_type", TENSOR),
    lambda graph, ops: ops[0].properties.__setitem__("op_type", StringAttr("Relu")),
    lambda graph, ops: ops[1].operands.__setitem__(0, graph.body.block.args[0]),
    lambda graph, ops: graph.body.block.insert_op_before(OperatorOp.clone(ops[0]), ops[0]),
    lambda graph, ops: (ops[1].detach(), graph.body.block.insert_op_before(ops[1], ops[0])),
    lambda graph, ops: ops[2].detach(),
]


@pytest.mark.parametrize("change", STATE_CHANGES)
def test_a_change_is_another_state(change: Callable[[GraphOp, list[Any]], object]):
    assert not same_after(change)


def test_without_a_change_the_state_is_the_same():
    assert same_after(lambda graph, ops: None)
