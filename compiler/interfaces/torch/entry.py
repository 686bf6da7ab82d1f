"""The doors to what needs PyTorch, which is an extra: they import it when they are used."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from compiler.errors import MissingExtraError
from compiler.support.arguments import ArgumentKind, check_arguments

if TYPE_CHECKING:
    from compiler.interfaces.torch.pytorch import TorchModule


def _are_examples(value: object) -> bool:
    return isinstance(value, Sequence | Mapping)


FROM_TORCH: Mapping[str, ArgumentKind] = {
    "module": ArgumentKind("a torch.nn.Module", callable),
    "example_inputs": ArgumentKind("a tuple of arguments, or a mapping by name", _are_examples),
}
"""The arguments of `from_torch`."""


def check_torch() -> None:
    """Raise MissingExtraError unless PyTorch and its exporter's library can be imported."""
    try:
        import onnxscript
        import torch
    except ImportError as error:
        raise MissingExtraError(
            f"{error.name} is missing: install the extra with pip install 'flowloom[torch]'"
        ) from error
    del torch, onnxscript


def from_torch(
    module: Any,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    dynamic_shapes: Any = None,
    **options: Any,
) -> "TorchModule":
    """Compile a module of PyTorch for inputs like the example, to be called as the original is.

    The example is a tuple of arguments, or a mapping by name. `dynamic_shapes` are those of
    `torch.export.export`. `options` are those of `compiler.compile`; the target is that of the
    tensors' device unless they name another, and semantics are PyTorch's. Weights are those that
    the module has now. Raises a FlowloomError; MissingExtraError without PyTorch.
    """
    check_arguments(locals(), FROM_TORCH)
    check_torch()
    from compiler.interfaces.torch.pytorch import compile_module

    return compile_module(module, example_inputs, dynamic_shapes, **options)


def flowloom(graph: Any, example_inputs: Sequence[Any], **options: Any) -> Any:
    """The backend of `torch.compile(model, backend="flowloom")`, which finds it by its entry point.

    Raises MissingExtraError without the exporter's library.
    """
    check_torch()
    from compiler.interfaces.torch.dynamo import compile_graph

    return compile_graph(graph, example_inputs, **options)
