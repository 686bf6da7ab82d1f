"""Accesses to memory as a function makes them, and the sizes of its buffers."""

from dataclasses import dataclass, field
from math import prod
from typing import Any

from compiler.kernels.sizes import tensor_extents
from compiler.kernels.tir.terms.integers import Integer, KernelTerms
from compiler.tensors.dtypes import ELEMENT_BYTES
from compiler.tensors.extents import Extent


@dataclass(frozen=True, slots=True)
class Access:
    """A read or a write of one element of a buffer of `extent` elements, under conditions.

    An `extent` over symbols is the term `size`, too. An access of several lanes has an axis for
    them in its index. `parameter` is the position of the buffer among the function's, None for one
    that the function allocates.
    """

    buffer: str
    parameter: int | None
    extent: Any
    index: Integer
    conditions: tuple[Integer, ...]
    writes: bool
    size: Integer | None = None


@dataclass
class Accesses:
    """The accesses of a function.

    `opaque` describes statements that are neither a load nor a store: their addresses are unknown.
    `axes` are the extents of thread axes by tag, `blocks` the axes of what runs in any order, and
    `views` the bytes declared of each parameter that is a buffer. `sizes` are the terms that are
    symbols, `calls` the axes of the first blocks of calls.
    """

    terms: KernelTerms
    listed: list[Access] = field(default_factory=list[Access])
    opaque: list[str] = field(default_factory=list[str])
    axes: dict[str, Any] = field(default_factory=dict[str, Any])
    blocks: set[Integer] = field(default_factory=set[Integer])
    views: list[Any] = field(default_factory=list[Any])
    sizes: dict[Integer, Extent] = field(default_factory=dict[Integer, Extent])
    calls: set[Integer] = field(default_factory=set[Integer])


def buffer_elements(buffer: Any) -> Any:
    """The elements of a TVM buffer, which may be vectors; an extent."""
    return prod(tensor_extents(buffer))


def buffer_bytes(buffer: Any) -> Any:
    """The bytes of a TVM buffer."""
    dtype, _, lanes = str(buffer.dtype).partition("x")
    return buffer_elements(buffer) * ELEMENT_BYTES[dtype] * int(lanes or 1)
