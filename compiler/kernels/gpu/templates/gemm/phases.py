"""Transposed convolutions as dense ones: the results of each phase of the strides are convolved."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from math import prod

from compiler.kernels.gpu.templates.gemm.problem import Gather, Triple


@dataclass(frozen=True)
class Axis:
    """One axis: which tap of the kernel each phase has at each place of a dense window.

    The window's places are `step` pixels apart, and its first is `first` pixels after a result's.
    """

    first: int
    step: int
    places: int
    taps: Mapping[tuple[int, int], int]


@dataclass(frozen=True)
class Phases:
    """A dense convolution for each phase, of one window; phases are rows of the GEMM's A.

    `taps` are the taps of the kernel for each phase and place of the window; their number where
    there is none.
    """

    strides: Triple
    gather: Gather
    taps: tuple[int, ...]

    @property
    def count(self) -> int:
        """The number of phases."""
        return prod(self.strides)

    def pixel(self, phase: str) -> str:
        """The output pixel of a phase for pixel n of a phase's results, as a C expression."""
        (_, high, wide), (_, b, c) = self.gather.result, self.strides
        pixel = f"(n % {self.gather.pixels})"
        depth = f"({pixel} / {high * wide} * {self.strides[0]} + {phase} / {b * c})"
        row = f"({pixel} / {wide} % {high} * {b} + {phase} / {c} % {b})"
        column = f"({pixel} % {wide} * {c} + {phase} % {c})"
        return f"({depth} * {high * b} + {row}) * {wide * c} + {column}"


def find_phases(gather: Gather) -> Phases | None:
    """The phases of a transposed convolution; None where they do not divide the result evenly.

    Nor where strides and dilations leave more places in the windows than the kernel has taps.
    """
    if any(n % s for n, s in zip(gather.result, gather.strides, strict=True)):
        return None
    first, second, third = (_axis(gather, i) for i in range(3))
    axes, window = (first, second, third), (first.places, second.places, third.places)
    if prod(window) > gather.taps:
        return None
    a, b, c = (n // s for n, s in zip(gather.result, gather.strides, strict=True))
    dense = replace(
        gather,
        pixels=a * b * c,
        taps=prod(window),
        tap_major=True,
        result=(a, b, c),
        window=window,
        strides=(1, 1, 1),
        pads=(-first.first, -second.first, -third.first),
        dilations=(first.step, second.step, third.step),
        transposed=False,
    )
    return Phases(gather.strides, dense, _taps(gather, axes))


def _axis(gather: Gather, axis: int) -> Axis:
    """Result `phase + i * stride` reads pixel `offset + i` by tap `tap`."""
    stride, dilation, pad = gather.strides[axis], gather.dilations[axis], gather.pads[axis]
    offsets = {
        (phase, tap): (phase + pad - tap * dilation) // stride
        for phase, tap in product(range(stride), range(gather.window[axis]))
        if (phase + pad - tap * dilation) % stride == 0
    }
    first, step = min(offsets.values()), dilation if stride == 1 else 1
    taps = {(phase, (n - first) // step): tap for (phase, tap), n in offsets.items()}
    return Axis(first, step, (max(offsets.values()) - first) // step + 1, taps)


def _taps(gather: Gather, axes: tuple[Axis, Axis, Axis]) -> tuple[int, ...]:
    """The kernel's tap for each phase and place, in row-major order."""
    phases = product(*(range(stride) for stride in gather.strides))
    places = [*product(*(range(axis.places) for axis in axes))]
    return tuple(_tap(gather, axes, phase, place) for phase in phases for place in places)


def _tap(
    gather: Gather, axes: tuple[Axis, Axis, Axis], phase: tuple[int, ...], place: tuple[int, ...]
) -> int:
    """The kernel's tap of a phase at a place of its window; the number of taps if there is none."""
    number = 0
    for axis, extent, own in zip(axes, gather.window, zip(phase, place, strict=True), strict=True):
        if own not in axis.taps:
            return gather.taps
        number = number * extent + axis.taps[own]
    return number
