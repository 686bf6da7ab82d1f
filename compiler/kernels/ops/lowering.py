"""Lowering a group's operators to tensor expressions: the registry, what a lowering sees."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy
from tvm import te, tirx

from compiler.errors import KernelError
from compiler.kernels.group import Group, Node, TensorInfo
from compiler.kernels.ops.layout import logical_tensor
from compiler.kernels.ops.tables import table_element
from compiler.kernels.sizes import is_pinned, tensor_extents
from compiler.support.registry import Registrar
from compiler.tensors.row_major import flatten_index

Value = te.Tensor | numpy.ndarray
Lowering = Callable[["Context"], te.Tensor | Sequence[te.Tensor]]
"""From an operator to its results, without those that are left out."""

LOWERINGS: dict[str, Lowering] = {}
"""The lowering of each ONNX operator type."""


lowering = Registrar(LOWERINGS)
"""Registers a function as the lowering of some ONNX operator types."""


@dataclass(frozen=True, slots=True)
class LoweredValue(TensorInfo):
    """The type of a value, and its tensor or constant; an output has none before it is lowered."""

    value: Value | None = field(default=None, compare=False)

    @property
    def array(self) -> numpy.ndarray | None:
        """The value of a constant."""
        return self.value if isinstance(self.value, numpy.ndarray) else None


class Context(Node[LoweredValue]):
    """One operator being lowered: its inputs are tensors, constants or None."""

    __slots__ = ()

    def fail(self, reason: str) -> KernelError:
        """An error that names the operator."""
        return KernelError(f"no kernel for {self.label}: {reason}")

    def tensor(self, position: int = 0) -> te.Tensor:
        """An input as a tensor; a constant becomes code that yields its elements."""
        operand = self.input(position)
        if operand is None or operand.value is None:
            raise self.fail(f"input {position} is missing")
        if isinstance(operand.value, te.Tensor):
            return operand.value
        return constant_tensor(operand.value, operand.dtype)

    def element(self, position: int, indices: Sequence[Any]) -> Any:
        """The element of an input that broadcasts to the output's index `indices`."""
        operand = self.operand(position)
        if operand.array is not None and operand.array.size == 1:
            return tirx.const(operand.array.reshape(-1)[0].item(), operand.dtype)
        start = len(indices) - len(operand.shape)
        own = list(indices)[start:]
        result = self.output.shape[start:] or operand.shape
        pinned = map(is_pinned, operand.shape, result)
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

    def _value(self, number: int) -> LoweredValue:
        info = self.group.values[number]
        parts = info.dtype, info.shape, info.block, info.code, info.folded
        return LoweredValue(*parts, self.values.get(number))

    def lower(self, operator: Node[int]) -> None:
        """Lower one operator whose inputs have been lowered."""
        inputs = [None if i is None else self._value(i) for i in operator.inputs]
        outputs = [*map(self._value, operator.outputs)]
        context = Context(operator.type, operator.attributes, inputs, outputs, operator.node)
        function = LOWERINGS.get(operator.type)
        if function is None:
            raise context.fail(f"it has no lowering: register one by @lowering({operator.type!r})")
        result = function(context)
        results = [result] if isinstance(result, te.Tensor) else list(result)
        made = [(n, info) for n, info in zip(operator.outputs, outputs, strict=True) if info.dtype]
        for (number, info), tensor in zip(made, results, strict=True):
            _check(context, info, tensor)
            self.values[number] = tensor

    def lower_all(self) -> list[te.Tensor]:
        """Lower every operator that is not lowered yet; return the group's results."""
        for operator in self.group.operators:
            outputs = [number for number in operator.outputs if self.group.values[number].dtype]
            if any(number not in self.values for number in outputs):
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
    if (shape, str(tensor.dtype)) != (info.shape, info.dtype):
        raise context.fail(
            f"it gives {tensor.dtype}{list(shape)} where the model says"
            f" {info.dtype}{list(info.shape)}"
        )
