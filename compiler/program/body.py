"""A body of a model, the whole of it or one of If, Loop or Scan, run step by step."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass, field
from threading import RLock
from typing import Any

import numpy as np
import onnx

from compiler.errors import UnsupportedOperatorError
from compiler.frontend.domains import domain_of
from compiler.frontend.external import ModelFolder
from compiler.frontend.importing.context import ModelContext
from compiler.frontend.importing.unknown import unknown_operator
from compiler.frontend.node_order import names_read
from compiler.frontend.rules.classical import CLASSICAL, ML_DOMAIN
from compiler.frontend.unsupported import Unsupported
from compiler.program.host import HostNode, HostValue, constant_of, only_on_host
from compiler.program.outline import NodeUse, ProgramStep, outline_steps
from compiler.program.resident import on_host
from compiler.program.segment import (
    CompilesSegments,
    ProgramSegment,
    SegmentSource,
    SegmentSplit,
    Specialised,
)

_LOG = logging.getLogger("compiler.program")

HostStep = Callable[[Mapping[str, HostValue]], Mapping[str, HostValue]]
"""Computes the outputs of a node, by name, from what it reads."""


@dataclass(frozen=True, slots=True)
class BodyGraph:
    """A graph in plain terms: nodes in order, names of inputs and outputs, constants by name.

    The inputs include tensors from around the body. `path` identifies the body in its model: the
    number of the node and the name of the attribute for each body around it; names need not differ.
    """

    name: str
    nodes: Sequence[onnx.NodeProto]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    constants: Mapping[str, np.ndarray]
    opsets: Mapping[str, int]
    path: str = ""

    def __post_init__(self) -> None:
        """Keep constants from being written to, through results that are views of them."""
        for value in self.constants.values():
            value.flags.writeable = False


@dataclass
class Runtime:
    """The state that bodies share; `most` bounds the specialisations of a segment.

    `control` makes the step of a node with bodies; `patience` is that of segments; `on_host` has
    the reason of each node that runs on the host, by operator and name.
    """

    compiler: CompilesSegments
    most: int
    context: ModelContext
    control: Callable[["Runtime", BodyGraph, onnx.NodeProto], HostStep | None]
    on_host: dict[str, str] = field(default_factory=dict[str, str])
    patience: int = 1


@dataclass(frozen=True)
class ProgramPlan:
    """A body's steps, and what runs each; `whole` is the segment that is the only step, if any."""

    steps: Sequence[ProgramStep]
    runners: Sequence[ProgramSegment | HostStep]
    whole: ProgramSegment | None


@dataclass
class ProgramBody:
    """A body and its steps, which are refined as runs find what segments cannot hold.

    `reread` are the outputs that segments around it may read; `alone` are the nodes on the host,
    each with the reason.
    """

    graph: BodyGraph
    runtime: Runtime
    reread: frozenset[str]
    alone: dict[int, str] = field(default_factory=dict[int, str])
    split_at: set[str] = field(default_factory=set[str])
    _hosts: dict[int, HostStep] = field(default_factory=dict[int, HostStep])
    _segments: dict[ProgramStep, ProgramSegment] = field(
        default_factory=dict[ProgramStep, ProgramSegment]
    )
    _plan: ProgramPlan | None = None
    _lock: RLock = field(default_factory=RLock)

    def __post_init__(self):
        """Make the steps of nodes that the host alone computes, which checks their attributes.

        Raises ModelError or UnsupportedOperatorError.
        """
        context = self.runtime.context
        nodes = self.graph.nodes
        host_nodes = {
            i: _reason(n, context) for i, n in enumerate(nodes) if only_on_host(n, context)
        }
        if host_nodes:
            self.refine(SegmentSplit(host_nodes))

    def run(self, inputs: Mapping[str, HostValue]) -> list[HostValue]:
        """The outputs, in order, for inputs by name."""
        while True:
            plan = self.plan()
            values = {**inputs}
            split = self._run_steps(plan, values)
            if split is None:
                constants = self.graph.constants
                return [values[n] if n in values else constants[n] for n in self.graph.outputs]
            # the new steps divide the nodes otherwise: the run starts again with its inputs
            self.refine(split)

    def again(self, inputs: Mapping[str, Any]) -> Specialised | None:
        """The segment that computes all outputs of unchecked inputs, if it is specialised for such.

        What is specialised passed the checks, which depend on names, dtypes and shapes alone.
        """
        segment = self.plan().whole
        return None if segment is None else segment.again(inputs)

    def prepare(self, inputs: Mapping[str, HostValue]) -> None:
        """Compile the segments that read inputs alone."""
        plan = self.plan()
        for step, runner in zip(plan.steps, plan.runners, strict=True):
            if isinstance(runner, ProgramSegment) and inputs.keys() >= {*step.reads}:
                split = runner.prepare({n: inputs[n] for n in step.reads}, self.runtime.compiler)
                if split is not None:
                    self.refine(split)
                    self.prepare(inputs)
                    return

    def _run_steps(self, plan: ProgramPlan, values: dict[str, HostValue]) -> SegmentSplit | None:
        """Run all steps, or say how the segment that cannot be compiled must be split."""
        for step, runner in zip(plan.steps, plan.runners, strict=True):
            if isinstance(runner, ProgramSegment):
                results = runner.run(values, self.runtime.compiler)
                if isinstance(results, SegmentSplit):
                    return results
            else:
                results = runner({name: values[name] for name in step.reads})
            values.update(results)
            for name in step.frees:
                values.pop(name, None)
        return None

    @property
    def division(self) -> SegmentSplit:
        """All that `refine` was given so far."""
        with self._lock:
            return SegmentSplit(dict(self.alone), frozenset(self.split_at))

    def refine(self, split: SegmentSplit) -> None:
        """Refine the steps; raises UnsupportedOperatorError for a node that cannot run anywhere."""
        with self._lock:
            for index in split.alone.keys() - self._hosts.keys():
                self._hosts[index] = self._host(self.graph.nodes[index], split.alone[index])
            self.alone |= split.alone
            self.split_at |= split.split_at
            self._plan = None

    def plan(self) -> ProgramPlan:
        """The present steps."""
        return self._plan or self._planned()

    def _planned(self) -> ProgramPlan:
        with self._lock:
            if self._plan is None:
                steps = outline_steps(self._uses(), self.split_at, self.graph.outputs)
                if quick := self._quick_on_host(steps):
                    self.refine(SegmentSplit(quick))
                    return self._planned()
                read = (step.reads for step in steps if not step.alone)
                reread = self.reread.union(*read)
                runners = [self._runner(step, reread) for step in steps]
                self._plan = ProgramPlan(steps, runners, self._whole(runners))
            return self._plan

    def _quick_on_host(self, steps: Sequence[ProgramStep]) -> dict[int, str]:
        """The nodes of segments that are classical models' alone, which numpy runs uncompiled."""
        reason = "nothing around it is compiled"
        segments = [step.nodes for step in steps if not step.alone]
        classical = [all(self._is_classical(index) for index in nodes) for nodes in segments]
        return {
            i: reason
            for nodes, quick in zip(segments, classical, strict=True)
            if quick
            for i in nodes
        }

    def _is_classical(self, index: int) -> bool:
        node = self.graph.nodes[index]
        return node.domain == ML_DOMAIN and node.op_type in CLASSICAL

    def _whole(self, runners: Sequence[ProgramSegment | HostStep]) -> ProgramSegment | None:
        """The segment that reads the inputs and writes the outputs, if it is the only step."""
        first, *more = runners or [None]
        if more or not isinstance(first, ProgramSegment):
            return None
        return first if {*self.graph.outputs} <= {*first.source.writes} else None

    def _uses(self) -> list[NodeUse]:
        names = {*self.graph.constants}
        computed = names | {name for i in self._fixed() for name in self.graph.nodes[i].output}
        return [
            NodeUse(
                reads=frozenset(names_read(node) - (names if index in self.alone else computed)),
                writes=tuple(node.output),
                alone=index in self.alone,
            )
            for index, node in enumerate(self.graph.nodes)
        ]

    def _fixed(self) -> list[int]:
        """The nodes that depend on constants alone: every segment that reads them computes them.

        They are folded when it is specialised.
        """
        names = {*self.graph.constants}
        fixed = list[int]()
        for index, node in enumerate(self.graph.nodes):
            if index not in self.alone and names_read(node) <= names:
                fixed.append(index)
                names |= {*node.output}
        return fixed

    def _runner(self, step: ProgramStep, reread: Set[str]) -> ProgramSegment | HostStep:
        if step.alone:
            return self._hosts[step.nodes[0]]
        if step not in self._segments:
            members = sorted({*step.nodes, *self._fixed()})
            nodes = {index: self.graph.nodes[index] for index in members}
            source = SegmentSource(
                name=f"{self.graph.name}.{len(self._segments)}",
                body=self.graph.path,
                nodes=nodes,
                reads=step.reads,
                writes=step.writes,
                reread=frozenset(reread & {*step.writes}),
                constants=self.graph.constants,
            )
            self._segments[step] = ProgramSegment(source, self.runtime.most, self.runtime.patience)
        return self._segments[step]

    def _host(self, node: onnx.NodeProto, reason: str) -> HostStep:
        """The step of a node on the host."""
        controlled = self.runtime.control(self.runtime, self.graph, node)
        if controlled is not None:
            return controlled
        constants = self.graph.constants
        reads = sorted(names_read(node))
        try:
            host = HostNode(node, self.runtime.context)
        except Unsupported as error:
            raise UnsupportedOperatorError(
                f"1 operator cannot be compiled:\n  {_label(node)}: {error.reason}; {error.remedy}"
            ) from error
        self.runtime.on_host[_label(node)] = reason
        _LOG.info("%s runs on the host: %s", _label(node), reason)
        fixed = {name: constants[name] for name in reads if name in constants}
        return lambda values: host.run({**fixed, **{n: on_host(v) for n, v in values.items()}})


def without_constants(
    nodes: Iterable[onnx.NodeProto], folder: ModelFolder | None
) -> tuple[list[onnx.NodeProto], dict[str, np.ndarray]]:
    """The nodes other than Constant, and the values of the Constants by name."""
    remaining: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    for node in nodes:
        if node.op_type == "Constant" and node.domain in ("", "ai.onnx"):
            constants[node.output[0]] = constant_of(node, folder)
        else:
            remaining.append(node)
    return remaining, constants


def _reason(node: onnx.NodeProto, context: ModelContext) -> str:
    """Why a node is not compiled that has no form with a kernel."""
    domain = domain_of(node)
    return unknown_operator(node.op_type, domain, context.opsets.get(domain, 0)).reason


def _label(node: onnx.NodeProto) -> str:
    """A node's operator and name, for messages."""
    domain = f"{node.domain}." if node.domain else ""
    name = node.name or next((name for name in node.output if name), "")
    return f"{domain}{node.op_type} {name!r}"
