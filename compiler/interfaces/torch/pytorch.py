"""`compiler.from_torch`: a module of PyTorch, exported and compiled."""

import inspect
from collections.abc import Mapping, Sequence
from typing import Any

import torch
from torch.utils import _pytree as pytree

from compiler.errors import ShapeError
from compiler.interfaces.torch.exporting import ExportedFunction, export_function
from compiler.interfaces.torch.tensors import refuse_gradients, tensors_target


class TorchModule:
    """A compiled module of PyTorch, called as the original is, on tensors of its device.

    `module` is the compiled module; its weights are those that the original had when it was
    compiled. Buffers that the original changes are changed in it.
    """

    def __init__(
        self,
        exported: ExportedFunction,
        arguments: "Arguments",
        results: Any,
        state: Mapping[str, torch.Tensor],
    ) -> None:
        self._exported = exported
        self._arguments = arguments
        self._results = results
        self._state = state
        self.module = exported.module

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """The original's results; raises ShapeError for arguments of another structure."""
        tensors = self._arguments.tensors_of(args, kwargs)
        refuse_gradients(tensors)
        computed = iter(self._exported.run(tensors, self._state))
        leaves, structure = self._results
        filled = [next(computed) if leaf is torch.Tensor else leaf for leaf in leaves]
        return pytree.tree_unflatten(filled, structure)

    def __repr__(self) -> str:
        return f"<TorchModule of {self.module!r}>"


class Arguments:
    """The structure of a call's arguments: tensors, and constants that a call has to repeat."""

    def __init__(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        leaves, self._structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
        self._leaves = [torch.Tensor if isinstance(x, torch.Tensor) else x for x in leaves]
        self.tensors = [x for x in leaves if isinstance(x, torch.Tensor)]

    def tensors_of(self, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[torch.Tensor]:
        """The tensors of a call; raises ShapeError unless it is like the first."""
        leaves, structure = pytree.tree_flatten((tuple(args), dict(kwargs)))
        matches = structure == self._structure and all(
            isinstance(x, torch.Tensor) if leaf is torch.Tensor else leaf == x
            for leaf, x in zip(self._leaves, leaves, strict=True)
        )
        if not matches:
            raise ShapeError(
                f"the arguments {structure} with {self._shown(leaves)} differ from the example"
                f" inputs {self._structure} with {self._shown(self._leaves)}: compile for them"
            )
        return [x for x in leaves if isinstance(x, torch.Tensor)]

    @staticmethod
    def _shown(leaves: Sequence[Any]) -> list[Any]:
        return ["tensor" if x is torch.Tensor or isinstance(x, torch.Tensor) else x for x in leaves]

    def restored(self, tensors: Sequence[torch.Tensor]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments of a call with these tensors."""
        remaining = iter(tensors)
        leaves = [next(remaining) if leaf is torch.Tensor else leaf for leaf in self._leaves]
        return pytree.tree_unflatten(leaves, self._structure)


def compile_module(
    module: torch.nn.Module,
    example_inputs: Sequence[Any] | Mapping[str, Any],
    dynamic_shapes: Any = None,
    **options: Any,
) -> TorchModule:
    """Compile a module for inputs like the example: a tuple of arguments, or a mapping by name.

    `dynamic_shapes` are those of `torch.export.export`: dimensions that vary, by argument; others
    are those of the example. `options` are those of `compiler.compile`; the target is the one of
    the tensors' device unless they name another. Raises a FlowloomError.
    """
    named = isinstance(example_inputs, Mapping)
    args: Sequence[Any] = () if named else example_inputs
    kwargs: Mapping[str, Any] = example_inputs if named else {}
    arguments = Arguments(args, kwargs)
    results: list[Any] = []
    state = {**dict(module.named_parameters()), **dict(module.named_buffers())}
    flat = {_flat(name): tensor for name, tensor in state.items()}

    def call(tensors: Sequence[torch.Tensor], flat_state: Mapping[str, torch.Tensor]) -> list[Any]:
        positional, by_name = arguments.restored(tensors)
        values = {name: flat_state[_flat(name)] for name in state}
        output = torch.func.functional_call(module, values, positional, by_name)
        leaves, structure = pytree.tree_flatten(output)
        kinds = [torch.Tensor if isinstance(x, torch.Tensor) else x for x in leaves]
        results[:] = [kinds, structure]
        return [x for x in leaves if isinstance(x, torch.Tensor)]

    dynamic = _dynamic_of(module, args, kwargs, dynamic_shapes)
    every = {"target": tensors_target([*arguments.tensors, *state.values()]), **options}
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)  # ONNX has none of its fused operators
    try:
        exported = export_function(call, arguments.tensors, flat, dynamic, every)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    return TorchModule(exported, arguments, results, flat)


def _flat(name: str) -> str:
    """The path of a parameter as the name of a buffer, which has no dots."""
    # doubled underscores keep names apart: `a.b` is not `a_b`
    return "state_" + name.replace("_", "__").replace(".", "_")


def _dynamic_of(
    module: torch.nn.Module, args: Sequence[Any], kwargs: Mapping[str, Any], shapes: Any
) -> list[Any]:
    """The entry of `dynamic_shapes` for each tensor, in the order of the arguments' leaves."""
    bound = inspect.signature(module.forward).bind(*args, **kwargs).arguments
    if not isinstance(shapes, Mapping):
        shapes = dict(zip(bound, shapes or (), strict=False))
    if unknown := sorted(set(shapes) - set(bound)):
        raise ShapeError(
            f"dynamic_shapes names {unknown[0]!r}; the arguments are {', '.join(bound)}"
        )
    return [
        dimensions
        for name, value in bound.items()
        for dimensions in _leaves(value, shapes.get(name))
    ]


def _leaves(value: Any, shape: Any) -> list[Any]:
    """The dimensions that vary of each tensor in an argument."""
    if isinstance(value, torch.Tensor):
        return [shape]
    if isinstance(value, Mapping):
        return [x for key in value for x in _leaves(value[key], (shape or {}).get(key))]
    if isinstance(value, list | tuple):
        shapes = shape or [None] * len(value)
        return [
            x
            for item, item_shape in zip(value, shapes, strict=True)
            for x in _leaves(item, item_shape)
        ]
    return []
