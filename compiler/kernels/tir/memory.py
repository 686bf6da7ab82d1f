"""Accesses to memory as a function makes them, and the sizes of its buffers."""

from dataclasses import dataclass, field
from math import prod
from typing import Any

from compiler.kernels.tir.integers import Integer, KernelTerms
from compiler.tensors.dtypes import ELEMENT_BYTES


@dataclass(frozen=True, slots=True)
class Access:
    """A read or a write of one element of a buffer of `extent` elements, under conditions.

    An access of several lanes has an axis for them in its index. `parameter` is the position of the
    buffer among the function's, None for one that the function allocates.
    """

    buffer: str
    parameter: int | None
    extent: int
    index: Integer
    conditions: tuple[Integer, ...]
    writes: bool


@dataclass
class Accesses:
    """The accesses of a function.

    `opaque` describes statements that are neither a load nor a store: their addresses are unknown.
    `axes` are the extents of thread axes by tag, `blocks` the axes of what runs in any order, and
    `views` the bytes declared of each parameter that is a buffer.
    """

    terms: KernelTerms
    listed: list[Access] = field(default_factory=list[Access])
    opaque: list[str] = field(default_factory=list[str])
    axes: dict[str, int] = field(default_factory=dict[str, int])
    blocks: set[Integer] = field(default_factory=set[Integer])
    views: list[int] = field(default_factory=list[int])


def buffer_elements(buffer: Any) -> int:
    """The elements of a TVM buffer, which may be vectors."""
    return prod(int(extent) for extent in buffer.shape)


def buffer_bytes(buffer: Any) -> int:
    """The bytes of a TVM buffer."""
    dtype, _, lanes = str(buffer.dtype).partition("x")
    return buffer_elements(buffer) * ELEMENT_BYTES[dtype] * int(lanes or 1)
