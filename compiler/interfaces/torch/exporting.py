"""Exports functions of tensors to ONNX and compiles them."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch.export.graph_signature import InputKind, OutputKind

import compiler
from compiler.artifact.module import Module
from compiler.errors import ModelError
from compiler.frontend.semantics import PYTORCH
from compiler.interfaces.torch.faults import fault_of
from compiler.interfaces.torch.tensors import as_array, as_tensor, torch_dtype
from compiler.target.target import parse_target

_LOG = logging.getLogger(__name__)


class ClosedFunction(torch.nn.Module):
    """A function of tensors whose other arguments are buffers of this module."""

    def __init__(
        self, call: Callable[..., Sequence[torch.Tensor]], state: Mapping[str, torch.Tensor]
    ) -> None:
        super().__init__()
        self._call = call
        for name, tensor in state.items():
            self.register_buffer(name, tensor.detach())

    def forward(self, *tensors: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The results for the tensors and the buffers."""
        return tuple(self._call(tensors, dict(self.named_buffers(recurse=False))))


@dataclass(frozen=True)
class ExportedFunction:
    """A compiled function of tensors, some of which it changes.

    `inputs` are the names in the module of its arguments, which are tensors, then of those of its
    `state` that it changes. Its results are first the new values of the `changed` of these, by
    number, then those of the function.
    """

    module: Any
    inputs: tuple[str, ...]
    state: tuple[str, ...]
    changed: tuple[int, ...]

    def run(
        self, tensors: Sequence[torch.Tensor], state: Mapping[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        """The results; what the function changes is changed."""
        arguments = [*tensors, *(state[name] for name in self.state)]
        feed = dict(zip(self.inputs, map(as_array, arguments), strict=True))
        results = [as_tensor(value) for value in self._results(feed, arguments)]
        for index, value in zip(self.changed, results, strict=False):
            arguments[index].copy_(value)
        return results[len(self.changed) :]

    def _results(self, feed: Mapping[str, Any], tensors: Sequence[torch.Tensor]) -> list[Any]:
        device = next((t.device for t in tensors if t.device.type != "cpu"), None)
        # modules for hip take arrays of the host alone
        if device is None or parse_target(self.module.target).backend == "hip":
            return list(self.module.run(feed).values())
        stream = torch.cuda.current_stream(device)
        if not isinstance(self.module, Module):
            stream.synchronize()  # a program follows the default stream alone
            values = self.module.run(feed, outputs="device").values()
            return [as_tensor(value).to(device) for value in values]
        outputs = {
            spec.name: torch.empty(spec.shape, dtype=torch_dtype(spec.dtype), device=device)
            for spec in self.module.outputs
        }
        return list(self.module.run(feed, outputs=outputs, stream=stream).values())


def export_function(
    call: Callable[..., Sequence[torch.Tensor]],
    tensors: Sequence[torch.Tensor],
    state: Mapping[str, torch.Tensor],
    dynamic: Sequence[Any],
    options: Mapping[str, Any],
) -> ExportedFunction:
    """Export and compile `call(tensors, state)`.

    Tensors of the state become constants, but those that the function changes, inputs. `dynamic`
    has the dimensions of each tensor that vary, as torch.export takes them. Raises ModelError if
    PyTorch cannot export it.
    """
    try:
        with torch.no_grad():
            program = _program(call, tensors, state, dynamic)
            changes = changes_of(program, len(tensors))
            if changes.numbers:
                program = _without_mutations(program, changes, tensors, state, dynamic)
            converted = torch.onnx.export(program, dynamo=True, verbose=False)
    except ModelError:
        raise
    except Exception as error:  # the exporter raises errors of many kinds
        first = " ".join(str(_root(error)).split())[:400]
        raise ModelError(f"PyTorch cannot export the model to ONNX: {first}") from error
    assert converted is not None
    graph = converted.model_proto.graph
    constants = {tensor.name for tensor in graph.initializer}
    inputs = tuple(info.name for info in graph.input if info.name not in constants)
    _LOG.info("exported %d nodes of PyTorch's graph to ONNX", len(graph.node))
    chosen: dict[str, Any] = {"semantics": PYTORCH, **options}
    module = compiler.compile(converted.model_proto, **chosen)
    return ExportedFunction(module, inputs, changes.state, changes.numbers)


def _root(error: BaseException) -> BaseException:
    """The first of the errors that led to one."""
    return error if error.__cause__ is None else _root(error.__cause__)


def _program(
    call: Callable[..., Sequence[torch.Tensor]],
    tensors: Sequence[torch.Tensor],
    state: Mapping[str, torch.Tensor],
    dynamic: Sequence[Any],
) -> torch.export.ExportedProgram:
    """The function as a graph that changes nothing: new values are results."""
    shapes = {"tensors": tuple(dynamic)} if any(dynamic) else None
    closed = ClosedFunction(call, state)
    exported = torch.export.export(closed, tuple(tensors), dynamic_shapes=shapes, strict=False)
    # PyTorch's decompositions, and one of batch normalisation in training. The exporter would
    # write it as if it used the running statistics.
    training = torch.ops.aten._native_batch_norm_legit_functional.default
    table = torch.export.default_decompositions()
    table[training] = torch._decomp.decomposition_table[training]
    program = exported.run_decompositions(table)
    random = {
        str(node.target)
        for node in program.graph.nodes
        if torch.Tag.nondeterministic_seeded in getattr(node.target, "tags", ())
    }
    if random:
        raise ModelError(f"random numbers are PyTorch's alone: it has {', '.join(sorted(random))}")
    for node in program.graph.nodes:
        _refuse_faults(node)
    return program


def _refuse_faults(node: torch.fx.Node) -> None:
    """Raise ModelError for a use that the exporter would write as something else."""
    if not isinstance(node.target, torch._ops.OpOverload):
        return
    names = (argument.name for argument in node.target._schema.arguments)
    arguments = {**dict(zip(names, node.args, strict=False)), **node.kwargs}
    first = next((x for x in node.args if isinstance(x, torch.fx.Node)), None)
    sizes = () if first is None else getattr(first.meta.get("val"), "shape", ())
    if lost := fault_of(str(node.target), arguments, sizes):
        raise ModelError(f"PyTorch cannot export {node.target} to ONNX: {lost} would be lost")


@dataclass(frozen=True)
class Changes:
    """The tensors that a graph changes: names of its state, and numbers of inputs, both kinds."""

    state: tuple[str, ...]
    numbers: tuple[int, ...]


def changes_of(program: torch.export.ExportedProgram, arguments: int) -> Changes:
    """The tensors that a program of so many arguments changes, in the order of its results."""
    signature = program.graph_signature
    names = list(signature.user_inputs)
    specs = [spec for spec in signature.output_specs if spec.kind.name.endswith("MUTATION")]
    state = tuple(str(spec.target) for spec in specs if spec.kind is OutputKind.BUFFER_MUTATION)
    numbers = tuple(
        arguments + state.index(str(spec.target))
        if spec.kind is OutputKind.BUFFER_MUTATION
        else names.index(spec.target)
        for spec in specs
    )
    return Changes(state, numbers)


def _without_mutations(
    program: torch.export.ExportedProgram,
    changes: Changes,
    tensors: Sequence[torch.Tensor],
    state: Mapping[str, torch.Tensor],
    dynamic: Sequence[Any],
) -> torch.export.ExportedProgram:
    """The program with what it changes of its state as inputs, and all new values as results."""

    def functional(values: Sequence[torch.Tensor], unchanged: Mapping[str, torch.Tensor]) -> Any:
        arguments = iter(values[: len(tensors)])
        moved = dict(zip(changes.state, values[len(tensors) :], strict=True))
        named = {**program.constants, **unchanged, **moved}
        specs = program.graph_signature.input_specs
        lifted = (
            next(arguments) if spec.kind is InputKind.USER_INPUT else named[str(spec.target)]
            for spec in specs
        )
        return program.graph_module(*lifted)

    unchanged = {name: tensor for name, tensor in state.items() if name not in changes.state}
    values = [*tensors, *(state[name] for name in changes.state)]
    return _program(functional, values, unchanged, [*dynamic, *(None for _ in changes.state)])
