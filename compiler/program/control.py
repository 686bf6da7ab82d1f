"""If, Loop, Scan and SequenceMap on the host: bodies are programs, conditions a run decides."""

import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

from compiler.errors import THIS_RUN, FlowloomError, RunInputError
from compiler.frontend.evaluate import dtype_name
from compiler.frontend.node_order import captures_of
from compiler.frontend.tensors import arrays_of
from compiler.program.body import BodyGraph, HostStep, ProgramBody, Runtime, without_constants
from compiler.program.host import HostSequence, HostValue
from compiler.program.resident import on_host
from compiler.support.memory import require
from compiler.tensors.dtypes import numpy_dtype

LOOP_PATIENCE = 3
"""The iterations with inputs of one type after which a segment is compiled for them."""

HostValues = Mapping[str, HostValue]


def control(runtime: Runtime, around: BodyGraph, node: onnx.NodeProto) -> HostStep | None:
    """The step of a node with bodies; None for other operators."""
    if node.domain not in ("", "ai.onnx") or node.op_type not in _STEPS:
        return None
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    control_node = ControlNode(runtime, around, node, attributes)
    return _STEPS[node.op_type](control_node)


@dataclass(frozen=True)
class ControlNode:
    """A control-flow node in a body."""

    runtime: Runtime
    around: BodyGraph
    node: onnx.NodeProto
    attributes: Mapping[str, Any]

    def body(self, attribute: str, repeated: bool = False) -> "Subprogram":
        """The program of a body; one that is repeated may see other shapes in each iteration."""
        proto: onnx.GraphProto = self.attributes[attribute]
        runtime = replace(self.runtime, patience=LOOP_PATIENCE) if repeated else self.runtime
        nodes = self.around.nodes
        number = next(i for i, node in enumerate(nodes) if node is self.node)
        path = f"{self.around.path}/{number}.{attribute}"
        return Subprogram.of(runtime, self.around, proto, f"{self.label}.{attribute}", path)

    @property
    def label(self) -> str:
        """Its name, for messages and names of segments; others may have it, too."""
        output = next((name for name in self.node.output if name), "")
        return f"{self.around.name}.{self.node.name or f'{self.node.op_type}_{output}'}"

    def inputs(self, values: HostValues) -> list[HostValue]:
        """The values of the node's inputs, None for those left out."""
        constants = self.around.constants
        return [
            (values[name] if name in values else constants[name]) if name else None
            for name in self.node.input
        ]

    def outputs(self, results: Sequence[HostValue]) -> dict[str, HostValue]:
        """The outputs by name."""
        return {name: v for name, v in zip(self.node.output, results, strict=False) if name}


@dataclass(frozen=True)
class Subprogram:
    """The program of a body: its formal inputs and the tensors from around it that it reads."""

    proto: onnx.GraphProto
    formals: tuple[str, ...]
    captures: tuple[str, ...]
    body: ProgramBody

    @classmethod
    def of(
        cls, runtime: Runtime, around: BodyGraph, proto: onnx.GraphProto, name: str, path: str
    ) -> "Subprogram":
        """The program of a body in a graph, at a path in the model."""
        initializers = arrays_of(proto, None)
        captured = captures_of(proto)
        captured_constants = {n: around.constants[n] for n in captured if n in around.constants}
        captures = tuple(sorted(captured - captured_constants.keys()))
        formals = tuple(info.name for info in proto.input)
        nodes, folded = without_constants(proto.node, runtime.context.folder)
        graph = BodyGraph(
            name=name,
            nodes=nodes,
            inputs=(*formals, *captures),
            outputs=tuple(output.name for output in proto.output),
            constants={**captured_constants, **initializers, **folded},
            opsets=around.opsets,
            path=path,
        )
        body = ProgramBody(graph, runtime, reread=frozenset(graph.outputs))
        return cls(proto, formals, captures, body)

    def run(self, values: HostValues, formal_values: Sequence[HostValue] = ()) -> list[HostValue]:
        """The outputs for formal inputs in order."""
        captured = {name: values[name] for name in self.captures}
        return self.body.run({**captured, **dict(zip(self.formals, formal_values, strict=False))})


def _if(node: ControlNode) -> HostStep:
    branches = {True: node.body("then_branch"), False: node.body("else_branch")}

    def run(values: HostValues) -> dict[str, HostValue]:
        (condition,) = node.inputs(values)
        return node.outputs(branches[_truth(condition, node)].run(values))

    return run


def _single_element(value: HostValue, role: str, node: ControlNode) -> Any:
    """A condition or a trip count; raises RunInputError unless it is one element."""
    array = np.asarray([] if value is None else on_host(value))
    if array.size != 1:
        raise RunInputError(
            f"the {role} of {node.label!r} has {array.size} elements, it must have one: {THIS_RUN}"
        )
    return array.reshape(-1)[0]


def _truth(value: HostValue, node: ControlNode) -> bool:
    return bool(_single_element(value, "condition", node))


def _loop(node: ControlNode) -> HostStep:
    body = node.body("body", repeated=True)
    # bodies may declare the iteration's number as a vector, as onnxruntime allows
    shape = (1,) if len(body.proto.input[0].type.tensor_type.shape.dim) == 1 else ()

    def run(values: HostValues) -> dict[str, HostValue]:
        limit, condition, *carried = node.inputs(values)
        trips = sys.maxsize if limit is None else int(_single_element(limit, "trip count", node))
        going = condition is None or _truth(condition, node)
        rows = list[list[Any]]()
        step = 0
        while going and step < trips:
            number = np.full(shape, step, np.int64)
            test = np.array(going)
            proceed, *results = body.run(values, [number, test, *carried])
            going = _truth(proceed, node)
            step = step + 1
            carried, row = results[: len(carried)], results[len(carried) :]
            rows.append(row)
            if step & (step - 1) == 0:  # there may be twice as many before it is asked again
                nbytes = sum(getattr(value, "nbytes", 0) for value in row)
                require(2 * step * nbytes, f"the rows of {node.label!r}")
        infos = body.proto.output[1 + len(carried) :]
        if infos and not rows:
            stacks = _no_rows(
                infos,
                lambda: body.run(values, [np.zeros(shape, np.int64), np.array(True), *carried]),
            )
        else:
            stacks = _stacks(infos, rows)
        return node.outputs([*carried, *stacks])

    return run


def _no_rows(
    infos: Sequence[onnx.ValueInfoProto], run_body: Callable[[], Sequence[HostValue]]
) -> list[np.ndarray]:
    """The stacked results of a Loop without iterations.

    Bodies rarely declare the shapes of what they compute, so an iteration whose results are dropped
    says them; where it cannot run, the declared ones hold.
    """
    try:
        rows = run_body()[-len(infos) :]
    except FlowloomError:
        return [_empty(info, 0) for info in infos]
    return [_stacked(info.name, [row], 0)[:0] for info, row in zip(infos, rows, strict=True)]


def _stacks(
    infos: Sequence[onnx.ValueInfoProto],
    rows: Sequence[Sequence[np.ndarray]],
    axes: Sequence[int] = (),
) -> list[np.ndarray]:
    """The results of all iterations along a new axis (the first by default)."""
    axes = axes or [0] * len(infos)
    if not rows:
        return [_empty(info, axis) for info, axis in zip(infos, axes, strict=True)]
    triples = zip(infos, zip(*rows, strict=True), axes, strict=True)
    return [_stacked(info.name, column, axis) for info, column, axis in triples]


def _stacked(name: str, rows: Sequence[np.ndarray], axis: int) -> np.ndarray:
    """Rows along a new axis; raises RunInputError unless they are tensors of one shape."""
    arrays = [on_host(row) for row in rows]
    if not all(isinstance(array, np.ndarray) for array in arrays):
        raise RunInputError(
            f"the rows of {name!r} are sequences or optionals, which do not stack: carry them from"
            " iteration to iteration"
        )
    if len(shapes := {array.shape for array in arrays}) > 1:
        listed = " and ".join(str([*shape]) for shape in sorted(shapes))
        raise RunInputError(
            f"the rows of {name!r} have the shapes {listed}, they must have one: {THIS_RUN}"
        )
    return np.stack(arrays, axis)


def _empty(info: onnx.ValueInfoProto, axis: int) -> np.ndarray:
    """No rows of a declared type; dimensions that are not declared are empty too."""
    shape = [d.dim_value for d in info.type.tensor_type.shape.dim]
    shape.insert(axis % (len(shape) + 1), 0)
    dtype = _declared_dtype(info)
    return np.zeros(shape, object if dtype == "str_" else numpy_dtype(dtype))


def _declared_dtype(info: onnx.ValueInfoProto) -> str:
    """The dtype of a tensor that a body computes; float32 if the body does not say."""
    return dtype_name(info.type.tensor_type.elem_type or onnx.TensorProto.FLOAT)


def _scan(node: ControlNode) -> HostStep:
    body = node.body("body")
    attributes = node.attributes
    old = node.around.opsets[""] < 9
    directions = attributes.get("directions", []) if old else ()
    count: int = attributes["num_scan_inputs"]
    outputs = len(body.proto.output) - (len(body.proto.input) - count)
    scan = ScanAttributes(
        input_axes=attributes.get("scan_input_axes") or [0] * count,
        output_axes=attributes.get("scan_output_axes") or [0] * outputs,
        input_backwards=attributes.get("scan_input_directions") or directions or [0] * count,
        output_backwards=attributes.get("scan_output_directions") or [0] * outputs,
    )

    def run(values: HostValues) -> dict[str, HostValue]:
        inputs = [on_host(value) for value in node.inputs(values)]
        if old:
            return node.outputs(_scan_batch(body, values, inputs, scan))
        states = inputs[:-count]
        sequences = inputs[-count:]
        return node.outputs(_scan_once(body, values, states, sequences, scan))

    return run


@dataclass(frozen=True, slots=True)
class ScanAttributes:
    """The axis and direction of each sequence that a Scan reads and writes."""

    input_axes: Sequence[int]
    output_axes: Sequence[int]
    input_backwards: Sequence[int]
    output_backwards: Sequence[int]


def _scan_once(
    body: Subprogram,
    values: HostValues,
    states: Sequence[HostValue],
    sequences: Sequence[np.ndarray],
    scan: ScanAttributes,
) -> list[HostValue]:
    """The last states and the stacked results."""
    moved = [np.moveaxis(s, a, 0) for s, a in zip(sequences, scan.input_axes, strict=True)]
    rows = [s[::-1] if b else s for s, b in zip(moved, scan.input_backwards, strict=True)]
    if len(lengths := {len(row) for row in rows}) > 1:
        raise RunInputError(
            f"the sequences of {body.body.graph.name!r} have the lengths {sorted(lengths)}, they"
            f" must have one: {THIS_RUN}"
        )
    row_results: list[list[HostValue]] = []
    for step in range(len(rows[0])):
        slices = [np.ascontiguousarray(row[step]) for row in rows]
        results = body.run(values, [*states, *slices])
        states = results[: len(states)]
        row_results.append(results[len(states) :])
    stacks = _stacks(body.proto.output[len(states) :], row_results, scan.output_axes)
    pairs = zip(stacks, scan.output_axes, scan.output_backwards, strict=True)
    return [*states, *(np.flip(s, axis) if back else s for s, axis, back in pairs)]


def _scan_batch(
    body: Subprogram, values: HostValues, inputs: Sequence[HostValue], scan: ScanAttributes
) -> list[HostValue]:
    """Scan of opset 8: each sequence of a batch for its length, the rest of the results zero."""
    lengths = inputs[0]
    tensors = inputs[1:]
    count = len(scan.input_axes)
    longest: int = tensors[-1].shape[1]
    samples: list[list[HostValue]] = []
    for index in range(tensors[-1].shape[0]):
        length = longest if lengths is None else int(lengths[index])
        states = [state[index] for state in tensors[:-count]]
        sequences = [sequence[index][:length] for sequence in tensors[-count:]]
        results = _scan_once(body, values, states, sequences, scan)
        padded = [_padded(stack, longest) for stack in results[len(states) :]]
        samples.append([*results[: len(states)], *padded])
    return [np.stack(column) for column in zip(*samples, strict=True)]


def _padded(stack: np.ndarray, length: int) -> np.ndarray:
    """A stack with zeros up to a length."""
    missing = [(0, length - len(stack))] + [(0, 0)] * (stack.ndim - 1)
    return np.pad(stack, missing)


def _map(node: ControlNode) -> HostStep:
    body = node.body("body", repeated=True)

    def run(values: HostValues) -> dict[str, HostValue]:
        inputs = node.inputs(values)
        if not _is_sequence(inputs[0]):
            raise RunInputError(f"the first input of {node.label!r} must be a sequence: {THIS_RUN}")
        length, *more = dict.fromkeys(len(value) for value in inputs if _is_sequence(value))
        if more:
            raise RunInputError(
                f"the sequences of {node.label!r} have {length} and {more[0]} tensors,"
                f" they must have as many: {THIS_RUN}"
            )
        rows = [
            body.run(values, [value[i] if _is_sequence(value) else value for value in inputs])
            for i in range(length)
        ]
        columns = [
            HostSequence([on_host(row[i]) for row in rows], _declared_dtype(info))
            for i, info in enumerate(body.proto.output)
        ]
        return node.outputs(columns)

    return run


def _is_sequence(value: HostValue) -> bool:
    """Whether a value is a sequence of tensors."""
    return isinstance(value, list)


_STEPS: Mapping[str, Callable[[ControlNode], HostStep]] = {
    "If": _if,
    "Loop": _loop,
    "Scan": _scan,
    "SequenceMap": _map,
}
"""The functions that make the step of each operator with bodies."""
