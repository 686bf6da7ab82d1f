"""Execution of a `dataflow` graph in numpy, one operator at a time."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
from xdsl.dialects.builtin import ModuleOp, NoneType
from xdsl.ir import Operation, SSAValue

from compiler.errors import ModelError
from compiler.frontend.interpreter.control import run_control
from compiler.frontend.interpreter.evaluation import evaluate_node, is_known_operator
from compiler.graph.rewriting.weights import weight_array
from compiler.ir import dataflow
from compiler.ir.groups import graph_of, operators, outer_value
from compiler.ir.types import dtype_of, shape_of
from compiler.ir.values import attribute_to_array, attributes_of, stored_as
from compiler.net.evaluation.rounding import is_floating
from compiler.tensors.dtypes import numpy_dtype

Array = np.ndarray
Values = dict[SSAValue, Array | None]
Arrays = Sequence[Array | None]
Evaluate = Callable[[dataflow.OperatorOp, Arrays, bool], Arrays]
"""Evaluates one operator on its operands, precisely or not."""


def evaluated(op: dataflow.OperatorOp, operands: Arrays, precise: bool) -> Arrays:
    """The results of one operator; raises ModelError if it does not fit its operands."""
    if not is_known_operator(op.type_name):
        raise ModelError(f"{op.type_name} {op.node_name!r} is not an operator of the interpreter")
    wanted = [not isinstance(value.type, NoneType) for value in op.outputs]
    try:
        return evaluate_node(op.type_name, operands, attributes_of(op), wanted, precise)
    except (ValueError, IndexError) as error:
        raise ModelError(
            f"{op.type_name} {op.node_name!r} does not fit its inputs: {error}"
        ) from error


def interpret(
    module: ModuleOp,
    weights: Mapping[str, np.ndarray],
    inputs: Mapping[str, np.ndarray],
    *,
    precise: bool = False,
    evaluate: Evaluate = evaluated,
) -> dict[str, np.ndarray]:
    """The outputs, by name, of a module with one `dataflow.graph`.

    Each array has the type's dtype and shape; with `precise` every float is float64 from the
    inputs to the outputs. `evaluate` computes each operator. Raises ModelError for an operator
    that does not fit its inputs, or whose result does not have the shape and dtype of its type.
    """
    graph = graph_of(module)
    given = [_kept(inputs[name.data], precise) for name in graph.input_names]
    found = _Interpreter(weights, precise, evaluate).run(graph, given)
    return {name.data: array for name, array in zip(graph.output_names, found, strict=True)}


@dataclass(frozen=True)
class _Interpreter:
    """Runs graphs with the same weights."""

    weights: Mapping[str, np.ndarray]
    precise: bool
    evaluate: Evaluate

    def run(self, graph: dataflow.GraphOp, inputs: Sequence[Array]) -> list[Array]:
        """The outputs of a graph, in order."""
        values: Values = dict(zip(graph.body.block.args, inputs, strict=True))
        for op in operators(graph):
            if isinstance(op, dataflow.OperatorOp):
                values.update(_results(op, values, self.precise, self.evaluate))
            elif isinstance(op, dataflow.ControlOp):
                reads = [_tensor(values, value) for value in op.inputs]
                bodies = [partial(self.run, body) for body in op.graphs]
                found = run_control(op.form, reads, bodies)
                values.update(zip(op.outputs, found, strict=True))
            else:
                values.update(_constants(op, self.weights, self.precise))
        return [_tensor(values, value) for value in graph.results_yielded]


def _tensor(values: Values, value: SSAValue) -> Array:
    """The array of a value that is not omitted."""
    array = values[outer_value(value)]
    assert array is not None, value
    return array


def _kept(array: Array, precise: bool) -> Array:
    """An array; as float64 if `precise` and it is a float array."""
    return array.astype(np.float64) if precise and is_floating(array.dtype) else array


def _constants(op: Operation, weights: Mapping[str, np.ndarray], precise: bool) -> Values:
    """The value of a constant, a weight, or an omitted operand."""
    match op:
        case dataflow.ConstantOp():
            return {op.output: _kept(attribute_to_array(op.value), precise)}
        case dataflow.WeightOp():
            array = weight_array(weights, op.key.data)
            array = array if precise else stored_as(array, op.output.type, op.key.data)
            return {op.output: _kept(array, precise)}
        case dataflow.NoneOp():
            return {op.output: None}
        case _:
            return {}


def _results(op: dataflow.OperatorOp, values: Values, precise: bool, evaluate: Evaluate) -> Values:
    """The results of one operator, checked against their types."""
    arrays = evaluate(op, [values[outer_value(value)] for value in op.inputs], precise)
    return {v: _checked(op, v, a, precise) for v, a in zip(op.outputs, arrays, strict=True)}


def _checked(
    op: dataflow.OperatorOp, value: SSAValue, array: Array | None, precise: bool
) -> Array | None:
    if isinstance(value.type, NoneType):
        return None
    dtype = numpy_dtype(dtype_of(value.type))
    dtype = np.dtype(np.float64) if precise and is_floating(dtype) else dtype
    expected = f"{dtype}{list(shape_of(value.type))}"
    actual = "nothing" if array is None else f"{array.dtype}{list(array.shape)}"
    if actual != expected:
        raise ModelError(f"{op.type_name} {op.node_name!r} gave {actual}, its type says {expected}")
    return array
