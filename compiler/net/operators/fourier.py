"""Fourier transforms of rows, for targets with a kernel for them."""

from collections.abc import Sequence
from dataclasses import dataclass

from compiler.net.attributes import Mismatch, Shape, flag, integer
from compiler.net.facts import Facts
from compiler.net.node import TypedNode
from compiler.net.operators.shapes import has_rank, has_shape, listed
from compiler.net.spec import Kind, OpSpec, operator

FOURIER = "FourierTransform"
"""The operator that transforms the rows of a matrix of complex numbers."""

RADICES = (8, 4, 2, 3, 5, 7, 11, 13)
"""The lengths of the transforms of which a kernel makes longer ones."""

_FLOPS_A_STEP = 8
"""Operations of a complex number in each of the steps that are as many as the length has bits."""


@dataclass(frozen=True)
class Transform:
    """The sizes of a transform: its rows, and the elements of each."""

    rows: int
    length: int


def radices_of(length: int) -> tuple[int, ...]:
    """Radices whose product is a length; none if it has a larger prime factor."""
    factors: list[int] = []
    for radix in RADICES:
        while length % radix == 0:
            factors.append(radix)
            length //= radix
    return tuple(factors) if length == 1 else ()


def _shapes(node: TypedNode) -> list[Shape]:
    real = node.shape()
    length = node["length"]
    bins = node["bins"]
    has_rank("its real part", real, 2, 2)
    if node.has(1):
        has_shape("its imaginary part", node.shape(1), real, f"the real part is {listed(real)}")
    have = real[1]
    if have > length or bins > length or (node["half"] and have != length // 2 + 1):
        raise Mismatch(f"a transform of {length} reads {have} elements and gives {bins}")
    return [(real[0], bins)] * 2


def _work(node: TypedNode, results: Sequence[Shape]) -> int:
    return node.shape()[0] * node["length"] * node["length"].bit_length() * _FLOPS_A_STEP


FOURIERS: dict[str, OpSpec] = {
    FOURIER: operator(
        Kind.OPAQUE,
        "T T? -> T T?",
        _shapes,
        {
            "length": integer(required=True, least=1),
            "bins": integer(required=True, least=1),
            "inverse": flag(0),
            "half": flag(0),
        },
        facts=Facts(work=_work, wide=True),
        T=frozenset({"float32"}),
    ),
}
"""The entry of this family, by operator.

Element `k` of a row of the results is the sum of element `j` times `exp(-2 pi i j k / length)`, of
the inverse, which is not scaled, `exp(2 pi i j k / length)`, for the first `bins` of them. Elements
beyond the end of a row are zero, or with `half` the conjugates of those from its start: element `j`
that of `length - j`. An imaginary part that is left out is zero.
"""
