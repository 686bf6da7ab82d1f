"""The smallest part of a model that still shows a difference, by delta debugging."""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from time import perf_counter
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from compiler.backends.memory import Array
from compiler.errors import FlowloomError, ModelError
from compiler.frontend.load import read_model, whole_copy
from compiler.frontend.node_order import names_read
from compiler.tools.bisect.finding import Finding
from compiler.tools.bisect.search import Question, search_cause
from compiler.tools.reference import run_onnxruntime

FEW_INTEGERS = 64
"""Integers that a part reads stay constants up to this many: axes, shapes, sizes, pads."""


@dataclass(frozen=True)
class ReproModel:
    """A model of some of the nodes, and its inputs."""

    model: onnx.ModelProto
    inputs: dict[str, Array]


class Extractor:
    """Makes models of some nodes of a model, from what onnxruntime computes for its inputs."""

    def __init__(self, model: onnx.ModelProto, inputs: Mapping[str, Array]):
        """Run the model once for the values of all tensors; raises Refusal."""
        self.model = model
        self.nodes: Sequence[onnx.NodeProto] = list(model.graph.node)
        self._constants = {t.name: t for t in model.graph.initializer}
        # Every value that the outer graph of a model computes, by onnxruntime; raises Refusal.
        shown = onnx.ModelProto()
        shown.CopyFrom(model)
        outputs = {output.name for output in shown.graph.output}
        computed = [name for node in shown.graph.node for name in node.output if name]
        shown.graph.output.extend(onnx.ValueInfoProto(name=n) for n in computed if n not in outputs)
        self._values = {**dict(run_onnxruntime(shown, inputs)), **inputs}
        self._results = {output.name for output in model.graph.output}

    @cached_property
    def _constant_nodes(self) -> set[str]:
        constants = (node for node in self.nodes if node.op_type == "Constant")
        return {node.output[0] for node in constants}

    def part(self, chosen: Iterable[int]) -> ReproModel:
        """The model of the nodes at some positions; raises ModelError if there is none.

        It gives what other nodes read of them. Values that they read are inputs, except weights,
        constants and a few integers.
        """
        positions = sorted(chosen)
        nodes = [self.nodes[position] for position in positions]
        computed = {name for node in nodes for name in node.output if name}
        read = sorted({name for node in nodes for name in names_read(node)} - computed)
        constants = [name for name in read if self._stays_constant(name)]
        inputs = {name: self._value(name) for name in read if name not in constants}
        outputs = {name: self._value(name) for name in self._outputs(nodes, set(positions))}
        if not outputs:
            raise ModelError("the part gives nothing")
        graph = helper.make_graph(
            nodes,
            "repro",
            [_typed(*item) for item in inputs.items()],
            [_typed(*item) for item in outputs.items()],
            [self._initializer(name) for name in constants],
        )
        return ReproModel(self._model_of(graph), inputs)

    def _model_of(self, graph: onnx.GraphProto) -> onnx.ModelProto:
        model = onnx.ModelProto()
        model.ir_version = self.model.ir_version
        model.opset_import.extend(self.model.opset_import)
        model.functions.extend(self.model.functions)
        model.graph.CopyFrom(graph)
        return model

    def _outputs(self, nodes: Sequence[onnx.NodeProto], chosen: set[int]) -> Iterator[str]:
        """The values that the rest of the model reads of some nodes, or nothing reads at all."""
        remaining = (node for i, node in enumerate(self.nodes) if i not in chosen)
        outside = {name for node in remaining for name in names_read(node)} | self._results
        inside = {name for node in nodes for name in names_read(node)}
        for node in nodes:
            yield from (n for n in node.output if n in outside or (n and n not in inside))

    def _stays_constant(self, name: str) -> bool:
        if name in self._constants or name in self._constant_nodes:
            return True
        value = self._values.get(name)
        is_input = name in {i.name for i in self.model.graph.input}
        return (
            not is_input
            and isinstance(value, np.ndarray)
            and (value.dtype.kind in "iub" and value.ndim <= 1 and value.size <= FEW_INTEGERS)
        )

    def _initializer(self, name: str) -> onnx.TensorProto:
        constant = self._constants.get(name)
        return (
            constant if constant is not None else numpy_helper.from_array(self._value(name), name)
        )

    def _value(self, name: str) -> Array:
        value = self._values.get(name)
        if not isinstance(value, np.ndarray):
            raise ModelError(f"the value {name!r} is not a tensor")
        return value


def _typed(name: str, array: Array) -> onnx.ValueInfoProto:
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    return helper.make_tensor_value_info(name, element, array.shape)


Chosen = tuple[int, ...]


@dataclass(frozen=True)
class Reduced:
    """A part of a model that shows the difference, its finding, and how many parts were tried."""

    part: ReproModel
    finding: Finding
    nodes: int
    tried: int


def minimal(
    sequence: Sequence[int], shows: Callable[[Chosen], bool], time_left: Callable[[], bool]
) -> Chosen:
    """A part of a sequence that shows something and, given time, no longer does with one less.

    Zeller and Hildebrandt, "Simplifying and Isolating Failure-Inducing Input" (2002), ddmin; the
    whole is known to show it.
    """
    smallest = tuple(sequence)
    granularity = 2
    while len(smallest) > 1 and time_left():
        size = -(-len(smallest) // granularity)
        chunks = [smallest[start : start + size] for start in range(0, len(smallest), size)]
        complements = [tuple(i for i in smallest if i not in chunk) for chunk in chunks]
        tries = (*chunks, *complements) if len(chunks) > 2 else chunks
        smaller = next((trial for trial in tries if time_left() and trial and shows(trial)), None)
        if smaller is not None:
            granularity = 2 if smaller in chunks else max(2, len(chunks) - 1)
            smallest = smaller
        elif size == 1:
            break
        else:
            granularity = min(2 * granularity, len(smallest))
    return smallest


def reduced_model(
    question: Question, inputs: Mapping[str, Array], finding: Finding, seconds: float
) -> Reduced | None:
    """The smallest part of the model that has the finding's cause; None if no part shows it.

    The nodes that the finding names are tried first. Takes about as long as it is given. Raises
    Refusal if onnxruntime cannot compute the values between nodes.
    """
    end = perf_counter() + seconds
    extractor = Extractor(whole_copy(question.model, read_model(question.model)), inputs)
    trial = _Trials(question, extractor, finding)

    def time_left() -> bool:
        return perf_counter() < end

    named = [i for i, node in enumerate(extractor.nodes) if node.name in finding.nodes]
    start = next(
        (c for c in (named, range(len(extractor.nodes))) if c and trial.shows(tuple(c))), None
    )
    if start is None:
        return None
    nodes = minimal(start, trial.shows, time_left)
    repro, repro_finding = trial.found[nodes]
    return Reduced(repro, repro_finding, len(nodes), trial.tried)


class _Trials:
    """Tries parts of a model, and keeps the ones that show the cause."""

    def __init__(self, question: Question, extractor: Extractor, finding: Finding):
        self._question = question
        self._extractor = extractor
        self._finding = finding
        self.found: dict[Chosen, tuple[ReproModel, Finding]] = {}
        self.tried = 0

    def shows(self, chosen: Chosen) -> bool:
        """Whether the model of some nodes has the cause."""
        self.tried += 1
        try:
            repro = self._extractor.part(chosen)
            arguments: dict[str, Any] = {
                **self._question.arguments,
                "input_shapes": {},
                "dump_ir": None,
            }
            question = replace(
                self._question, model=repro.model, inputs=repro.inputs, arguments=arguments
            )
            finding = search_cause(question).finding
        except FlowloomError:
            return False  # the part is not a model that compiles
        if finding is None or not self._finding.same_cause(finding):
            return False
        self.found[chosen] = (repro, finding)
        return True
