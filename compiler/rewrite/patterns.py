"""Patterns of terms: tensors, operators on them, and attributes that are not known."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol


@dataclass(frozen=True, slots=True)
class Tensor:
    """Any tensor; the same one wherever its name stands in a rule.

    A `constant` one is known when the model is compiled: operators on constants cost nothing.
    """

    name: str
    rank: int | None = None
    constant: bool = False


@dataclass(frozen=True, slots=True)
class Unknown:
    """Any value of an attribute; the same one wherever its name stands in a rule."""

    name: str


@dataclass(frozen=True, slots=True)
class OneOf:
    """One of some operators with all its attributes; the same wherever its name stands."""

    name: str
    kinds: frozenset[str]


class Bindings(Protocol):
    """The tensors and values for which the names of a rule stand: of a graph, or symbols."""

    def shape(self, tensor: Tensor) -> tuple[int, ...]:
        """The extents of a tensor."""
        ...

    def value(self, unknown: Unknown) -> Any:
        """The value of an attribute."""
        ...


Computed = Callable[[Bindings], Any]
"""An attribute or extent of a target that is computed from what was matched.

It works on symbols as on numbers, so it does not branch on them.
"""

Value = Computed | Unknown | Sequence[int] | int
"""An attribute of a pattern; only targets have Computed ones."""


@dataclass(frozen=True, slots=True)
class Fill:
    """A tensor with one number in every element; only in targets."""

    value: float
    shape: Computed
    like: Tensor


@dataclass(frozen=True, slots=True)
class Identity:
    """The identity matrix; only in targets."""

    size: Computed
    like: Tensor


# by identity: patterns are keys of caches, and comparing them would walk them
@dataclass(frozen=True, eq=False, slots=True)
class Apply:
    """An operator on patterns; each attribute is a value, an Unknown or, in targets, Computed.

    Attributes that are left out have their defaults. The attributes of `OneOf` are its own.
    """

    kind: str | OneOf
    inputs: Sequence["Pattern"]
    attributes: Mapping[str, Any]


Pattern = Tensor | Fill | Identity | Apply


def tensors(names: str, rank: int | None = None, *, constant: bool = False) -> tuple[Tensor, ...]:
    """Tensors of some names, which spaces separate."""
    return tuple(Tensor(name, rank, constant) for name in names.split())


def apply(kind: str | OneOf, *inputs: Pattern, **attributes: Any) -> Apply:
    """An operator on some patterns."""
    return Apply(kind, inputs, attributes)


def add(left: Pattern, right: Pattern) -> Apply:
    """The sum of two tensors, which are broadcast."""
    return apply("Add", left, right)


def mul(left: Pattern, right: Pattern) -> Apply:
    """The elementwise multiplication of two tensors, which are broadcast."""
    return apply("Mul", left, right)


def matmul(left: Pattern, right: Pattern) -> Apply:
    """The matrix multiplication of the last two axes."""
    return apply("MatMul", left, right)


def sub(left: Pattern, right: Pattern) -> Apply:
    """The difference of two tensors, which are broadcast."""
    return apply("Sub", left, right)


def gemm(left: Pattern, right: Pattern, bias: Pattern, transposed: Value = 0) -> Apply:
    """A GEMM with a bias; one without a bias matches with a bias of zeros."""
    return apply("Gemm", left, right, bias, transB=transposed)


def relu(x: Pattern) -> Apply:
    """The larger of each element and zero."""
    return apply("Relu", x)


def concat(left: Pattern, right: Pattern, axis: Value) -> Apply:
    """Two tensors one after the other along an axis."""
    return apply("Concat", left, right, axis=axis)


def transpose(x: Pattern, perm: Value) -> Apply:
    """Axis i of the result is axis `perm[i]` of the tensor."""
    return apply("Transpose", x, perm=perm)


def reshape(x: Pattern, shape: Value) -> Apply:
    """The elements of a tensor, in their order, in another shape."""
    return apply("Reshape", x, shape=shape)


def cut(x: Pattern, axis: Value, start: Value, stop: Value) -> Apply:
    """The part of a tensor from index `start` to before `stop` along an axis.

    Graphs have 0 <= start <= stop <= extent.
    """
    return apply("Slice", x, axis=axis, start=start, stop=stop)


def extent(tensor: Tensor, axis: int) -> Computed:
    """The extent of a tensor along an axis (from the back if it is negative), for a target."""

    def of(bindings: Bindings) -> Any:
        return bindings.shape(tensor)[axis]

    return of


def halves(x: Pattern, axis: Value, first: Computed, second: Computed) -> tuple[Apply, Apply]:
    """The two parts of a tensor whose extents along an axis are `first` and `second`."""

    def end(bindings: Bindings) -> Any:
        return first(bindings) + second(bindings)

    return cut(x, axis, 0, first), cut(x, axis, first, end)


def conv(
    x: Pattern, weight: Pattern, bias: Pattern | None, window: "Window", group: Value = 1
) -> Apply:
    """A convolution; one without a bias matches with a bias of zeros.

    If `bias` is None, only one without a bias matches.
    """
    attributes = {"strides": window.strides, "pads": window.pads, "dilations": window.dilations}
    operands = [x, weight] if bias is None else [x, weight, bias]
    return apply("Conv", *operands, group=group, **attributes)


@dataclass(frozen=True, slots=True)
class Window:
    """How a convolution or pooling goes over an image: one number an axis, two for `pads`."""

    strides: Value = Unknown("strides")
    pads: Value = Unknown("pads")
    dilations: Value = Unknown("dilations")

    @classmethod
    def named(cls, name: str) -> "Window":
        """Another window in the same rule."""
        return cls(
            *(Unknown(f"{name} {attribute}") for attribute in ("strides", "pads", "dilations"))
        )
