"""The parts of a convolution over planes that the statements of its loop nests are about."""

from dataclasses import dataclass
from typing import Any

from tvm.ir import Var


@dataclass(frozen=True)
class ChannelRun:
    """The channels that are added to the partial sums of a tile before the next ones are."""

    number: Any
    first: Any
    channels: Any
    sums: Var


@dataclass(frozen=True)
class Place:
    """The part that one register tile computes: image, group, chunk of positions, tile of channels.

    `planes` is where the planes of the group's first channel begin; without a `part` of the input
    channels all of them are added up at once.
    """

    image: Any
    group: Any
    chunk: Any
    tile: Any
    planes: Any
    part: ChannelRun | None = None


@dataclass(frozen=True)
class Summand:
    """A channel, and in three dimensions a tap along the depth."""

    channel: Any
    tap: Any = 0


@dataclass(frozen=True)
class Column:
    """A column of the kernel: a number, and a loop's multiple of the stride before it."""

    number: int
    before: Any = 0


@dataclass(frozen=True)
class Taps:
    """Where the kernel taps of a nest are in the packed weights, the planes and the result.

    Pairs are (first, step) for rows and columns: tap (i, j) of the nest uses the weights of tap
    (first + i * step, ...) of `kernel`, and its result (y, x) is element (first + y * step, ...).
    `origin` is added to the position in the planes.
    """

    kernel: tuple[int, int]
    rows: tuple[int, int] = (0, 1)
    columns: tuple[int, int] = (0, 1)
    result_rows: tuple[int, int] = (0, 1)
    result_columns: tuple[int, int] = (0, 1)
    origin: int = 0
