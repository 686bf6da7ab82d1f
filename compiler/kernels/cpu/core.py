"""A core's vector registers, and what filling them costs: register tiles are chosen by both."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from compiler.kernels.arithmetic import ceil_div
from compiler.kernels.cpu.convolution import LINE
from compiler.kernels.cpu.machine import first_cache_bytes, named_target, vector_bytes
from compiler.target.cpus import AARCH64
from compiler.target.target import CpuTarget

NEAR_SHARE = 0.75
"""The share of the first-level cache that what is read again and again may fill."""


@dataclass(frozen=True, slots=True)
class Loads:
    """The issue slots of loads, one of which multiplies and adds a vector.

    A `scalar` goes to all lanes, a `vector` is aligned and in the first-level cache; a load that
    crosses a cache line takes `split` besides. A `line` is one that comes from the second level.
    `latency` are the slots from one addition to a sum until the next one can begin.
    """

    scalar: float
    vector: float
    split: float
    line: float
    latency: float


TWO_PIPES = Loads(scalar=1, vector=1, split=1, line=2.7, latency=8)
"""Two multiply-adds and two loads in a cycle, as most cores have; measured on a Zen 5."""

ONE_PIPE = Loads(scalar=0.5, vector=1, split=0.5, line=2.7, latency=4)
"""One multiply-add and one load of 64 bytes in a cycle, each as two halves; measured on a Zen 4."""

LOADS: Mapping[str, Loads] = {"znver4": ONE_PIPE}
"""Cores that differ from most, by LLVM's names."""


@dataclass(frozen=True, slots=True)
class Core:
    """How many vector registers a core has, the float32 lanes in each, and what loads cost.

    Of `near_bytes` of memory loads come from the first-level cache.
    """

    registers: int
    lanes: int
    near_bytes: int = 24 << 10
    loads: Loads = TWO_PIPES

    @property
    def crossing(self) -> float:
        """Slots of loading a vector at any alignment."""
        return self.loads.vector + self.loads.split * self.lanes / LINE

    @property
    def far(self) -> float:
        """Slots of loading a vector from the second-level cache."""
        return max(self.loads.vector, self.loads.line * self.lanes / LINE)

    def streamed(self, panel_bytes: int) -> float:
        """Slots of loading an aligned vector of a panel that is read again and again."""
        return self.loads.vector if panel_bytes <= self.near_bytes else self.far


@cache
def core_of(target: CpuTarget) -> Core:
    """The core of a target."""
    width = vector_bytes(target)
    many = width == 64 or target.instruction_set == AARCH64
    near = int(NEAR_SHARE * first_cache_bytes(target))
    loads = LOADS.get(named_target(target).mcpu, TWO_PIPES)
    return Core(32 if many else 16, max(1, ceil_div(width, 4)), near, loads)
