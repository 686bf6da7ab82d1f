"""Templates that write the loops around one operator of a group, its anchor."""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from math import prod
from typing import ClassVar, Generic, Protocol, TypeVar

from tvm.tirx import PrimFunc, Stmt

from compiler.graph.packing import WIDEN, packed_dtype, packed_shape
from compiler.kernels.cpu.tiling import SLOTS_PER_NANOSECOND
from compiler.kernels.database import Entry
from compiler.kernels.database.fields import Value
from compiler.kernels.group import Group, Node
from compiler.kernels.template import (
    KernelSource,
    Key,
    Reserves,
    SharesWeights,
    Shortlists,
    Template,
    packings_of,
)
from compiler.kernels.tir.fusion import FusionContext
from compiler.kernels.tir.loops import buffer
from compiler.target.target import CpuTarget
from compiler.tensors.dtypes import NARROW_FLOATS

Config = TypeVar("Config")

CPU_SOURCES = ("cpu/**/*.py", "tir/**/*.py")
"""The code that decides how fast kernels are."""


@dataclass(frozen=True)
class Loops:
    """The launches of a kernel, and the packings of the operands that they read packed."""

    launches: Callable[[], Stmt]
    packings: Mapping[int, str] = field(default_factory=dict[int, str])


@dataclass(frozen=True, eq=False)
class Ways(Generic[Config]):
    """The ways to compute an anchor with all that is fused with it, the likeliest first.

    `slots` are the estimated issue slots of each config's kernel on one thread. The `key` has the
    fields that decide which config is fast, if they are measured; only measuring may choose the
    `reserved` ones.
    """

    around: FusionContext
    flops: int
    slots: Mapping[Config, float]
    loops: Callable[[Config], Loops]
    key: Key = field(default_factory=dict[str, Value])
    reserved: Collection[Config] = ()


class AnchorTemplate(
    Template[Ways[Config], Config, CpuTarget], Reserves, SharesWeights, Shortlists, Protocol[Config]
):
    """A group around one operator of some types; the rest is computed element by element."""

    types: ClassVar[tuple[str, ...]]
    takes_symbols: ClassVar[bool] = False
    """Whether there are nests for extents over symbols."""

    def read(self, group: Group, anchor: Node[int], target: CpuTarget) -> Ways[Config] | None:
        """The ways to compute a group around an anchor, if the template can."""
        ...

    def match(self, group: Group, target: CpuTarget) -> Sequence[Ways[Config]]:
        """The ways of the only anchor; none if channels are in blocks."""
        if group.symbols and not self.takes_symbols:
            return []
        infos = (*group.reads, *group.writes)
        if any(info.block for info in infos) or not any(info.elements for info in group.writes):
            return []
        anchors = (op for op in group.operators if op.type in self.types)
        readings = (self.read(group, anchor, target) for anchor in anchors)
        return [ways for ways in readings if ways is not None]

    def configs(self, problem: Ways[Config], target: CpuTarget) -> Iterable[Config]:
        """All ways, the likeliest first."""
        return problem.slots

    def estimate_ns(self, problem: Ways[Config], config: Config, target: CpuTarget) -> float:
        """The estimated nanoseconds of a kernel on one thread."""
        return problem.slots[config] / SLOTS_PER_NANOSECOND

    def key(self, problem: Ways[Config], target: CpuTarget) -> Key:
        """The fields that decide which config is fast."""
        return problem.key

    def is_modelled(self, problem: Ways[Config], config: Config) -> bool:
        """Whether the estimate alone may choose a config."""
        return config not in problem.reserved

    def shortlist(
        self, problem: Ways[Config], target: CpuTarget, known: Mapping[str, Entry], count: int
    ) -> Sequence[Config]:
        """The ways in their order."""
        return [*problem.slots][:count]

    def emit(
        self, group: Group, problem: Ways[Config], config: Config, target: CpuTarget
    ) -> KernelSource:
        around = problem.around
        loops = problem.loops(config)
        for operand, packing in loops.packings.items():
            info = group.values[operand]
            elements = prod(packed_shape(info.shape, packing))
            around.reads[operand] = buffer(
                f"read{operand}", elements, packed_dtype(info.dtype, packing)
            )
        function = PrimFunc(around.buffers, loops.launches())
        packings = packings_of(group, loops.packings)
        return KernelSource(function=function, packings=packings, flops=problem.flops)

    def is_packed(
        self, group: Group, problem: Ways[Config], config: Config, target: CpuTarget
    ) -> bool:
        """Whether memory has the weights already as a config's kernel reads them."""
        packings = problem.loops(config).packings
        return all(group.is_packed(*packing) for packing in packings.items()) and bool(packings)


def elementwise_context(group: Group, anchor: Node[int]) -> FusionContext | None:
    """The operators fused with an anchor; None unless all are computed element by element."""
    around = FusionContext(group, anchor)
    return around if around.elementwise else None


def widening(group: Group, weight: int) -> str:
    """The first steps of a packing that makes float32 of a weight."""
    return f"{WIDEN}|" if group.values[weight].dtype in NARROW_FLOATS else ""
