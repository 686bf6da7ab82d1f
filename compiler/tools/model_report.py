"""Describes a model and what compiling it would give, before any kernel: `flowloom inspect`."""

import os
import warnings
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import Any, Literal

import onnx

from compiler.driver.build import full_target
from compiler.driver.settings import Settings
from compiler.errors import FlowloomError, OpenShapeError, UnsupportedOperatorError
from compiler.frontend.domains import all_nodes_of, opsets_of
from compiler.frontend.importing.model import import_graph
from compiler.frontend.load import check_model, folder_of, read_model
from compiler.frontend.semantics import Semantics
from compiler.graph.fusion.whole import whole_kernels
from compiler.program.compiling import SegmentCompiler
from compiler.program.model import DynamicModule
from compiler.program.reading import read_program, type_of
from compiler.program.signature import ValueType
from compiler.support.words import counted, in_bytes
from compiler.target.target import parse_target

Outcome = Literal["static", "dynamic", "refused"]
"""Whether a model becomes one schedule, a program of several, or neither."""


@dataclass(frozen=True)
class ModelReport:
    """A model's interface and operators, and what compiling it for a target would give."""

    name: str
    target: str
    opsets: Mapping[str, int]
    inputs: Sequence[ValueType]
    outputs: Sequence[ValueType]
    parameters: int
    parameter_bytes: int
    operators: Mapping[str, int]
    """The number of nodes of each operator, those of bodies and functions included."""
    outcome: Outcome
    reason: str
    """The error that refuses the model, or a dynamic one where it must be static."""
    segments: int = 0
    """The parts of a dynamic model that are compiled, before a run divides them further."""
    on_host: Mapping[str, str] | None = None
    """The reason of each node that runs on the host, by operator and name."""
    warnings: Sequence[str] = ()

    def as_json(self) -> dict[str, Any]:
        """The report as one object for programs."""
        return {
            "name": self.name,
            "target": self.target,
            "opsets": dict(self.opsets),
            "inputs": {value.name: value.type_text for value in self.inputs},
            "outputs": {value.name: value.type_text for value in self.outputs},
            "parameters": self.parameters,
            "parameter_bytes": self.parameter_bytes,
            "operators": dict(self.operators),
            "outcome": self.outcome,
            "reason": self.reason,
            "segments": self.segments,
            "on_host": dict(self.on_host or {}),
            "warnings": [*self.warnings],
        }

    def text(self) -> str:
        """The report for people."""
        opsets = ", ".join(f"{domain or 'ai.onnx'} {n}" for domain, n in self.opsets.items())
        nodes = sum(self.operators.values())
        listed = ", ".join(f"{name} {count}" for name, count in self.operators.items())
        size = f"{self.parameters:,} in {in_bytes(self.parameter_bytes)}"
        lines = [
            f"model       {self.name} (opset {opsets})",
            *(f"input       {value}" for value in self.inputs),
            *(f"output      {value}" for value in self.outputs),
            f"parameters  {size}",
            f"operators   {counted(nodes, 'node')}: {listed}",
            f"{self.target}: {self._outcome()}",
            *(f"  on the host: {node}: {why}" for node, why in (self.on_host or {}).items()),
            *(f"  warning: {warning}" for warning in self.warnings),
        ]
        return "\n".join(lines)

    def _outcome(self) -> str:
        if self.outcome == "static":
            return "one static schedule"
        if self.outcome == "refused":
            return f"refused: {self.reason}"
        parts = counted(self.segments, "compiled segment")
        return f"a dynamic module, {parts} before its first run; with --static {self.reason}"


def inspect_model(
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    target: str = "cpu",
    input_shapes: Mapping[str, Sequence[int]] | None = None,
    arch: str | None = None,
    precision: str | None = None,
    semantics: str | Mapping[str, str] | None = None,
) -> ModelReport:
    """The report of a model for a target, with the arguments of `compile`.

    Raises ModelError for a file that does not hold a model, and DeviceError or KernelError for an
    unknown target. For a model that compiling would refuse the report says so.
    """
    chosen = full_target(target, arch, precision)
    settings = Settings(chosen, semantics=Semantics.parse(semantics))
    proto = read_model(model, folder_of(model))
    check_model(proto)
    weights = {tensor.name: tensor for tensor in proto.graph.initializer}
    counts = Counter(_operator(node) for node in all_nodes_of(proto))
    report = ModelReport(
        name=proto.graph.name or "main",
        target=chosen,
        opsets=opsets_of(proto.opset_import),
        inputs=[type_of(info) for info in proto.graph.input if info.name not in weights],
        outputs=[type_of(info) for info in proto.graph.output],
        parameters=sum(prod(tensor.dims) for tensor in weights.values()),
        parameter_bytes=sum(map(_nbytes, weights.values())),
        operators=dict(counts.most_common()),
        outcome="static",
        reason="",
    )
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        report = _with_outcome(report, model, input_shapes or {}, settings)
    return replace(report, warnings=[str(warning.message) for warning in caught])


def _with_outcome(
    report: ModelReport,
    model: str | os.PathLike[str] | bytes | onnx.ModelProto,
    shapes: Mapping[str, Sequence[int]],
    settings: Settings,
) -> ModelReport:
    """The report with what importing the model, as `compile` does at first, gives."""
    target = parse_target(settings.target)
    try:
        import_graph(
            model,
            shapes,
            regions=target.runs_control_flow,
            has_kernel=whole_kernels(target),
            semantics=settings.semantics,
            folder=folder_of(model),
        )
    except (OpenShapeError, UnsupportedOperatorError) as error:
        try:
            source = read_program(model, shapes, settings.check_indices, settings.semantics)
            module = DynamicModule(source, SegmentCompiler(source.context, settings, {}, {}))
        except FlowloomError as refusal:
            return replace(report, outcome="refused", reason=str(refusal))
        compiled = sum(not step.alone for step in module.body.plan().steps)
        return replace(
            report,
            outcome="dynamic",
            reason=str(error),
            segments=compiled,
            on_host=module.on_host,
        )
    except FlowloomError as refusal:
        return replace(report, outcome="refused", reason=str(refusal))
    return report


def _operator(node: onnx.NodeProto) -> str:
    return f"{node.domain}.{node.op_type}" if node.domain else node.op_type


def _nbytes(tensor: onnx.TensorProto) -> int:
    """The bytes of a tensor's elements; of texts, none."""
    if tensor.data_type == onnx.TensorProto.STRING:
        return 0
    return prod(tensor.dims) * onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type).itemsize
