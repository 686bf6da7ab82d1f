"""Lowering a group's operators to tensor expressions: the registry, what a lowering sees."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy
from tvm import te, tirx

from compiler.errors import KernelError
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.ops.layout import logical_tensor
from compiler.kernels.ops.tables import table_element
from compiler.kernels.sizes import is_pinned, tensor_extents
from compiler.net.spec import KnownTensor
from compiler.support.registry import Registrar
from compiler.tensors.row_major import flatten_index

Value = te.Tensor | numpy.ndarray
Lowering = Callable[["Context"], te.Tensor | Sequence[te.Tensor]]

LOWERINGS: dict[str, Lowering] = {}
"""The lowering of each ONNX operator type."""


lowering = Registrar(LOWERINGS)
"""Registers a function as the lowering of some ONNX operator types."""


@dataclass(frozen=True)
class Context:
    """One operator being lowered: its inputs are tensors, constants (numpy) or None."""

    operator: Node[int]
    inputs: tuple[Value | None, ...]
    infos: tuple[TensorInfo | None, ...]
    outputs: tuple[TensorInfo, ...]

    @property
    def output(self) -> TensorInfo:
        """The type of the first result."""
        return self.outputs[0]

    def fail(self, reason: str) -> KernelError:
        """An error that names the operator."""
        return KernelError(f"no kernel for {self.operator.label}: {reason}")

    def attribute(self, name: str) -> Any:
        """An attribute's Python value."""
        return self.operator.attributes[name]

    def has(self, position: int) -> bool:
        """Whether an optional input is given."""
        return position < len(self.inputs) and self.inputs[position] is not None

    def info(self, position: int = 0) -> TensorInfo:
        """The type of an input."""
        info = self.infos[position]
        if info is None:
            raise self.fail(f"input {position} is missing")
        return info

    @property
    def known_inputs(self) -> list[KnownTensor | None]:
        """The types of the inputs, and the values of those that are constants."""
        return [
            None
            if info is None
            else KnownTensor(
                info.dtype, info.shape, value if isinstance(value, numpy.ndarray) else None
            )
            for value, info in zip(self.inputs, self.infos, strict=True)
        ]

    def tensor(self, position: int = 0) -> te.Tensor:
        """An input as a tensor; a constant becomes code that yields its elements."""
        value = self.inputs[position] if self.has(position) else None
        if value is None:
            raise self.fail(f"input {position} is missing")
        if isinstance(value, te.Tensor):
            return value
        return constant_tensor(value, self.info(position).dtype)

    def array(self, position: int) -> numpy.ndarray:
        """An input whose value must be known."""
        value = self.inputs[position] if self.has(position) else None
        if not isinstance(value, numpy.ndarray):
            raise self.fail(
                f"input {position} must be a constant: fold it in the model before compiling"
            )
        return value

    def integers(self, position: int) -> list[int]:
        """A constant input as a flat list of integers."""
        return [int(v) for v in self.array(position).reshape(-1)]

    def element(self, position: int, indices: Sequence[Any]) -> Any:
        """The element of an input that broadcasts to the output's index `indices`."""
        value, info = self.inputs[position], self.info(position)
        if isinstance(value, numpy.ndarray) and value.size == 1:
            return tirx.const(value.reshape(-1)[0].item(), info.dtype)
        start = len(indices) - len(info.shape)
        own, result = list(indices)[start:], self.output.shape[start:] or info.shape
        pinned = map(is_pinned, info.shape, result)
        at = [0 if one else index for index, one in zip(own, pinned, strict=True)]
        return self.tensor(position)(*at)


def constant_tensor(value: numpy.ndarray, dtype: str) -> te.Tensor:
    """A tensor that yields the elements of a constant."""

    def body(*indices: Any) -> Any:
        return table_element(value, flatten_index(indices, value.shape), dtype)

    return te.compute(value.shape, body, name="constant")


class Emitter:
    """Lowers the operators of a group one after another; `values` holds what is lowered so far.

    `placeholders` are the reads as they are stored, `values` logical tensors.
    A template sets the value of its anchor's result itself, and has the rest lowered around it.
    """

    def __init__(self, group: Group):
        self.group = group
        self.values: dict[int, Value] = dict(group.constants)
        self.placeholders: list[te.Tensor] = []
        for i, info in enumerate(group.reads):
            stored = te.placeholder(info.stored_shape, info.dtype, name=f"input{i}")
            self.placeholders.append(stored)
            self.values[i] = logical_tensor(stored, info)

    def tensor(self, value: int) -> te.Tensor:
        """The tensor of a value, whose operator must have been lowered."""
        tensor = self.values[value]
        if isinstance(tensor, te.Tensor):
            return tensor
        info = self.group.values[value]
        return constant_tensor(tensor.reshape(info.shape), info.dtype)

    def lower(self, operator: Node[int]) -> None:
        """Lower one operator whose inputs have been lowered."""
        group = self.group
        context = Context(
            operator,
            tuple(None if i is None else self.values[i] for i in operator.inputs),
            tuple(None if i is None else group.values[i] for i in operator.inputs),
            tuple(group.values[i] for i in operator.outputs),
        )
        function = LOWERINGS.get(operator.type)
        if function is None:
            raise context.fail(f"it has no lowering: register one by @lowering({operator.type!r})")
        result = function(context)
        results = [result] if isinstance(result, te.Tensor) else list(result)
        for number, info, tensor in zip(operator.outputs, context.outputs, results, strict=False):
            _check(context, info, tensor)
            self.values[number] = tensor

    def lower_all(self) -> list[te.Tensor]:
        """Lower every operator that is not lowered yet; return the group's results."""
        for operator in self.group.operators:
            if any(number not in self.values for number in operator.outputs):
                self.lower(operator)
        return [self.tensor(number) for number in self.group.outputs]

    def lower_before(self, anchor: Node[int]) -> None:
        """Lower the operators that come before an anchor and that it depends on."""
        needed = {i for i in anchor.inputs if i is not None}
        before = self.group.operators[: self.group.operators.index(anchor)]
        wanted: list[Node[int]] = []
        for operator in reversed(before):
            if needed & set(operator.outputs):
                wanted.append(operator)
                needed |= {i for i in operator.inputs if i is not None}
        for operator in reversed(wanted):
            self.lower(operator)


def _check(context: Context, info: TensorInfo, tensor: te.Tensor) -> None:
    shape = tensor_extents(tensor)
    if info.dtype and (shape, str(tensor.dtype)) != (info.shape, info.dtype):
        raise context.fail(
            f"it gives {tensor.dtype}{list(shape)} where the model says"
            f" {info.dtype}{list(info.shape)}"
        )
