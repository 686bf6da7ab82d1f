"""The backend `flowloom` of `torch.compile`."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch

from compiler.errors import ArgumentError, FlowloomError
from compiler.interfaces.torch.exporting import ExportedFunction, export_function
from compiler.interfaces.torch.tensors import refuse_gradients, tensors_target

_LOG = logging.getLogger(__name__)

SizesOfCall = Mapping[Any, int]
"""The sizes of a call by their symbol."""


def compile_graph(
    graph: torch.fx.GraphModule,
    example_inputs: Sequence[Any],
    *,
    options: Mapping[str, Any] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph that dynamo captured, for inference.

    `options` are those of `compiler.compile`, and `fallback` (default True): whether a graph that
    cannot be compiled runs in PyTorch, which is logged as a warning, or raises a FlowloomError.
    """
    if mode is not None:
        raise ArgumentError(f"the backend flowloom has no mode {mode!r}: use options")
    chosen = dict(options or {})
    fallback = bool(chosen.pop("fallback", True))
    refuse_gradients([x for x in example_inputs if isinstance(x, torch.Tensor)])
    try:
        return CompiledGraph(graph, example_inputs, chosen)
    except FlowloomError as error:
        if not fallback:
            raise
        _LOG.warning("a graph of %d nodes runs in PyTorch: %s", len(graph.graph.nodes), error)
        return graph.forward


@dataclass(frozen=True)
class AliasedOutput:
    """An output that is a view of an argument; the offset is from the argument's."""

    argument: int
    size: tuple[Any, ...]
    stride: tuple[Any, ...]
    offset: Any

    def of(self, arguments: Sequence[Any], symbols: SizesOfCall) -> torch.Tensor:
        """The view of a call's argument."""
        base = arguments[self.argument]
        size, stride = ([size_of(x, symbols) for x in xs] for xs in (self.size, self.stride))
        return base.as_strided(size, stride, base.storage_offset() + size_of(self.offset, symbols))


class CompiledGraph:
    """A graph of dynamo as a compiled module.

    Parameters and buffers are constants of it. When a call finds one that was changed or replaced,
    the graph is compiled again, which is logged. What the graph itself changes is an input.
    """

    def __init__(
        self, graph: torch.fx.GraphModule, arguments: Sequence[Any], options: Mapping[str, Any]
    ) -> None:
        self._graph = graph
        self._options = options
        nodes = list(graph.graph.nodes)
        placeholders = [node for node in nodes if node.op == "placeholder"]
        self._examples = [_example(node) for node in placeholders]
        # parameters and buffers of modules
        static = [
            ("_dynamo_static_input_type" in (node.meta.get("tensor_dict") or {}))
            for node in placeholders
        ]
        kinds = [isinstance(x, torch.Tensor) for x in arguments]
        self._floats = [i for i, node in enumerate(placeholders) if kinds[i] and _is_float(node)]
        plain = [i for i, tensor in enumerate(kinds) if tensor and i not in self._floats]
        self._state = [i for i in plain if static[i]]
        self._tensors = [i for i in plain if not static[i]]
        self._numbers = [i for i, tensor in enumerate(kinds) if not tensor]
        (self._outputs,) = nodes[-1].args
        self._results = [self._result_of(node) for node in self._outputs]
        self._kept = [i for i, result in enumerate(self._results) if result is torch.Tensor]
        self._compile(arguments)

    def _result_of(self, node: Any) -> Any:
        """An output: `torch.Tensor` if it is computed, a view, a size or a constant."""
        value = _example(node) if isinstance(node, torch.fx.Node) else node
        if not isinstance(value, torch.Tensor):
            return value
        # the identity of a storage, as examples are fake tensors, which have no addresses
        storage = value.untyped_storage()._cdata
        for index, example in enumerate(self._examples):
            if isinstance(example, torch.Tensor) and example.untyped_storage()._cdata == storage:
                offset = value.storage_offset() - example.storage_offset()
                return AliasedOutput(index, tuple(value.shape), value.stride(), offset)
        return torch.Tensor

    def _compile(self, arguments: Sequence[Any]) -> None:
        sizes = self._sizes(dict(enumerate(arguments)))
        # numbers that no tensor's size gives are constants: dynamo traces again for others
        self._baked = {
            i: _plain(arguments[i])
            for i in self._numbers
            if _expression(self._examples[i]) not in sizes
        }
        self._values = [float(arguments[i]) for i in self._floats]
        state = {self._name(i): arguments[i] for i in self._state}
        tensors = [arguments[i] for i in self._tensors]
        options = {"target": tensors_target([*tensors, *state.values()]), **self._options}
        dynamic = [_dynamic(self._examples[i]) for i in self._tensors]
        # dynamo's context is for the graph that it is tracing, not for the exporter's
        with torch._guards.tracing(None):
            self._exported = export_function(self._call, tensors, state, dynamic, options)
        changed = self._exported.state
        self._constant = [i for i in self._state if self._name(i) not in changed]
        self._versions = [_version(arguments[i]) for i in self._constant]

    @staticmethod
    def _name(index: int) -> str:
        return f"state_{index}"

    def _call(
        self, tensors: Sequence[torch.Tensor], state: Mapping[str, torch.Tensor]
    ) -> list[torch.Tensor]:
        """The outputs that are computed; sizes are read from tensors, so that they may vary."""
        arguments: dict[int, Any] = dict(zip(self._tensors, tensors, strict=True))
        arguments |= {i: state[self._name(i)] for i in self._state}
        arguments |= zip(self._floats, map(WrappedFloat, self._values), strict=True)
        sizes = self._sizes(arguments)
        for index in self._numbers:
            expression = _expression(self._examples[index])
            arguments[index] = sizes.get(expression, self._baked.get(index))
        outputs = self._graph.forward(*(arguments[i] for i in range(len(self._examples))))
        return [outputs[i] for i in self._kept]

    def _sizes(self, arguments: Mapping[int, Any]) -> dict[Any, Any]:
        """The sizes of tensors by the symbol that dynamo has for them."""
        sizes: dict[Any, Any] = {}
        for index in self._tensors:
            for axis, size in enumerate(self._examples[index].shape):
                if isinstance(size, torch.SymInt):
                    sizes.setdefault(_expression(size), arguments[index].shape[axis])
        return sizes

    def __call__(self, *arguments: Any) -> tuple[Any, ...]:
        """The outputs of the graph."""
        if self._values != [float(arguments[i]) for i in self._floats]:
            _LOG.warning("a number has changed: the graph is compiled again")
            self._compile(arguments)
        elif self._versions != [_version(arguments[i]) for i in self._constant]:
            _LOG.warning("parameters have changed: the graph is compiled again")
            self._compile(arguments)
        state = {self._name(i): arguments[i] for i in self._state}
        computed = iter(self._exported.run([arguments[i] for i in self._tensors], state))
        symbols: dict[Any, int] = self._sizes(dict(enumerate(arguments)))
        for index in self._numbers:
            symbols[_expression(self._examples[index])] = _plain(arguments[index])
        return tuple(self._output(x, computed, arguments, symbols) for x in self._results)

    @staticmethod
    def _output(result: Any, computed: Any, arguments: Sequence[Any], symbols: SizesOfCall) -> Any:
        if result is torch.Tensor:
            return next(computed)
        if isinstance(result, AliasedOutput):
            return result.of(arguments, symbols)
        return size_of(result, symbols)

    @property
    def exported(self) -> ExportedFunction:
        """The function that was compiled last."""
        return self._exported


def _example(node: torch.fx.Node) -> Any:
    return node.meta.get("example_value", node.meta.get("val"))


@dataclass(frozen=True)
class WrappedFloat:
    """A number that dynamo passes as a tensor, whose item the graph reads."""

    value: float

    def item(self) -> float:
        """The number."""
        return self.value


def _is_float(node: torch.fx.Node) -> bool:
    """Whether a placeholder is a number that dynamo wrapped as a tensor."""
    uses = [(user.op, user.target) for user in node.users]
    return bool(uses) and set(uses) == {("call_method", "item")}


def _dynamic(example: torch.Tensor) -> dict[int, Any] | None:
    varying = [axis for axis, size in enumerate(example.shape) if isinstance(size, torch.SymInt)]
    return {axis: torch.export.Dim.AUTO for axis in varying} or None


def _expression(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size


def _plain(number: Any) -> Any:
    return int(number) if isinstance(number, torch.SymInt) else number


def _version(tensor: torch.Tensor) -> tuple[int, int]:
    """A mark that changes with a tensor's contents; inference tensors do not count changes."""
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


def size_of(size: Any, symbols: SizesOfCall) -> Any:
    """A size of a call: a symbolic one for the symbols, anything else as it is."""
    if not isinstance(size, torch.SymInt):
        return size
    return int(size.node.expr.xreplace(dict(symbols)))
